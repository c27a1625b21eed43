package dev.tandem.library;

import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.classes;
import static com.tngtech.archunit.lang.syntax.ArchRuleDefinition.noClasses;

import com.tngtech.archunit.core.domain.JavaClasses;
import com.tngtech.archunit.core.importer.ClassFileImporter;
import com.tngtech.archunit.core.importer.ImportOption;
import org.junit.jupiter.api.Test;

/** What the library may know, and that nothing knows the library. */
class LibraryArchitectureTest {
    private static final JavaClasses CLASSES = new ClassFileImporter()
            .withImportOption(new ImportOption.DoNotIncludeTests())
            .withImportOption(location -> !location.contains("-tests.jar"))
            .importPackages("dev.tandem");

    @Test
    void theLibraryLoadsModelsByOneClassAndTakesRequestsByTheServersApi() {
        classes()
                .that()
                .resideInAPackage("dev.tandem.library..")
                .should()
                .onlyDependOnClassesThat()
                .resideInAnyPackage(
                        "java..",
                        "io.micrometer.core.instrument..",
                        "org.jspecify.annotations",
                        "tools.jackson..",
                        "dev.tandem.app",
                        "dev.tandem.engine.config",
                        "dev.tandem.engine.loop",
                        "dev.tandem.engine.observe",
                        "dev.tandem.engine.request",
                        "dev.tandem.library..",
                        "dev.tandem.server.metrics",
                        "dev.tandem.server.openai",
                        "dev.tandem.text..")
                .check(CLASSES);
    }

    @Test
    void nothingKnowsTheLibrary() {
        noClasses()
                .that()
                .resideOutsideOfPackage("dev.tandem.library..")
                .should()
                .dependOnClassesThat()
                .resideInAPackage("dev.tandem.library..")
                .check(CLASSES);
    }
}
