package dev.tandem.engine;

import static org.assertj.core.api.Assertions.assertThat;

import com.sun.source.doctree.DocCommentTree;
import com.sun.source.tree.ClassTree;
import com.sun.source.tree.CompilationUnitTree;
import com.sun.source.tree.MethodTree;
import com.sun.source.tree.ModifiersTree;
import com.sun.source.tree.Tree;
import com.sun.source.tree.VariableTree;
import com.sun.source.util.DocTrees;
import com.sun.source.util.JavacTask;
import com.sun.source.util.TreePath;
import com.sun.source.util.TreePathScanner;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import javax.lang.model.element.Modifier;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;

/** Every public type and member of the engine has Javadoc that begins with a sentence. */
class PublicApiTest {
    private static final Path SOURCES = Path.of("src/main/java");

    @Test
    void everyPublicElementHasAFirstSentence() throws Exception {
        List<Path> files;
        try (Stream<Path> all = Files.walk(SOURCES)) {
            files = all.filter(file -> file.toString().endsWith(".java") && !file.endsWith("package-info.java"))
                    .sorted()
                    .toList();
        }
        assertThat(files).hasSizeGreaterThan(50);
        List<String> undocumented = new ArrayList<>();
        var compiler = ToolProvider.getSystemJavaCompiler();
        try (StandardJavaFileManager manager = compiler.getStandardFileManager(null, null, null)) {
            JavacTask task = (JavacTask)
                    compiler.getTask(null, manager, null, List.of(), null, manager.getJavaFileObjectsFromPaths(files));
            DocTrees docs = DocTrees.instance(task);
            for (CompilationUnitTree unit : task.parse()) {
                new Scanner(docs, unit, undocumented).scan(unit, null);
            }
        }
        assertThat(undocumented).isEmpty();
    }

    /** Visits public types and their public members; it does not descend into types that are not public. */
    private static final class Scanner extends TreePathScanner<Void, Void> {
        private final DocTrees docs;
        private final CompilationUnitTree unit;
        private final List<String> undocumented;

        Scanner(DocTrees docs, CompilationUnitTree unit, List<String> undocumented) {
            this.docs = docs;
            this.unit = unit;
            this.undocumented = undocumented;
        }

        @Override
        public Void visitClass(ClassTree type, Void unused) {
            if (!isPublic(type.getModifiers())) {
                return null;
            }
            check(type.getSimpleName().toString());
            return super.visitClass(type, unused);
        }

        @Override
        public Void visitMethod(MethodTree method, Void unused) {
            boolean overrides = method.getModifiers().getAnnotations().stream()
                    .anyMatch(annotation ->
                            annotation.getAnnotationType().toString().equals("Override"));
            if (isPublic(method.getModifiers()) && !overrides && !isOfRecord(method)) {
                check(method.getName().toString());
            }
            return null;
        }

        /** Whether this is a record's canonical constructor, which the record's own Javadoc describes. */
        private boolean isOfRecord(MethodTree method) {
            return enclosing().getKind() == Tree.Kind.RECORD
                    && method.getReturnType() == null
                    && docs.getSourcePositions().getStartPosition(unit, method) >= 0
                    && method.getParameters().size() == components();
        }

        private long components() {
            return enclosing().getMembers().stream()
                    .filter(member -> member instanceof VariableTree field
                            && !field.getModifiers().getFlags().contains(Modifier.STATIC))
                    .count();
        }

        @Override
        public Void visitVariable(VariableTree field, Void unused) {
            boolean component = enclosing().getKind() == Tree.Kind.RECORD
                    && !field.getModifiers().getFlags().contains(Modifier.STATIC);
            if (isPublic(field.getModifiers()) && !component) {
                check(field.getName().toString());
            }
            return null;
        }

        private ClassTree enclosing() {
            return (ClassTree) getCurrentPath().getParentPath().getLeaf();
        }

        private boolean isPublic(ModifiersTree modifiers) {
            TreePath parent = getCurrentPath().getParentPath();
            return modifiers.getFlags().contains(Modifier.PUBLIC)
                    || parent.getLeaf() instanceof ClassTree type
                            && type.getKind() == Tree.Kind.INTERFACE
                            && !modifiers.getFlags().contains(Modifier.PRIVATE);
        }

        private void check(String name) {
            DocCommentTree comment = docs.getDocCommentTree(getCurrentPath());
            if (comment == null || comment.getFirstSentence().isEmpty()) {
                Path file = SOURCES.toAbsolutePath()
                        .relativize(Path.of(unit.getSourceFile().toUri()));
                long line = unit.getLineMap()
                        .getLineNumber(docs.getSourcePositions()
                                .getStartPosition(unit, getCurrentPath().getLeaf()));
                undocumented.add(file + ":" + line + " " + name);
            }
        }
    }
}
