package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** The scripts of JBang's catalogue, which the build does not compile. */
class JbangTest {
    private static final Path ROOT = Path.of("").toAbsolutePath().getParent();

    private static List<Path> scripts() throws IOException {
        JsonNode catalogue = new ObjectMapper().readTree(Files.readString(ROOT.resolve("jbang-catalog.json")));
        return catalogue.get("aliases").values().stream()
                .map(alias -> ROOT.resolve(alias.get("script-ref").asString()))
                .toList();
    }

    @Test
    void eachScriptCompiles(@TempDir Path folder) throws IOException {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        for (Path script : scripts()) {
            StringWriter said = new StringWriter();
            try (StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null)) {
                List<String> options = List.of(
                        "-d",
                        folder.toString(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        "-proc:none",
                        "-Xlint:all",
                        "-Werror");
                boolean compiled = compiler.getTask(said, files, null, options, null, files.getJavaFileObjects(script))
                        .call();
                assertThat(compiled).as(script + "\n" + said).isTrue();
            }
        }
    }

    @Test
    void eachScriptNamesThisVersionAndTheFlags() throws IOException {
        Matcher revision =
                Pattern.compile("<revision>(.*)</revision>").matcher(Files.readString(ROOT.resolve("pom.xml")));
        assertThat(revision.find()).isTrue();
        for (Path script : scripts()) {
            assertThat(Files.readString(script))
                    .contains("//DEPS dev.tandem:tandem-library:" + revision.group(1) + "\n")
                    .contains("//RUNTIME_OPTIONS --add-modules jdk.incubator.vector"
                            + " --enable-native-access=ALL-UNNAMED\n");
        }
    }
}
