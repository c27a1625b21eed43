package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.File;
import java.io.IOException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import org.junit.jupiter.api.Test;

/** The Java runtime of packages has the JDK's modules that Tandem's own classes use. */
class PackageModulesTest {
    private static List<String> used() {
        List<String> arguments = new ArrayList<>(List.of("--ignore-missing-deps", "--print-module-deps"));
        for (String entry : System.getProperty("java.class.path").split(File.pathSeparator)) {
            boolean ofTests = entry.contains("test-classes") || entry.contains("-tests") || entry.contains("testkit");
            if (entry.contains("/target/") && !ofTests) {
                arguments.add(entry);
            }
        }
        StringWriter out = new StringWriter();
        ToolProvider jdeps = ToolProvider.findFirst("jdeps").orElseThrow();
        assertThat(jdeps.run(new PrintWriter(out), new PrintWriter(out), arguments.toArray(String[]::new)))
                .as(out.toString())
                .isZero();
        return List.of(out.toString().strip().split(","));
    }

    @Test
    void theRuntimeHasTheModulesThatClassesUse() throws IOException {
        List<String> packed = Pattern.compile("^modules\\+?=,?(.+)$", Pattern.MULTILINE)
                .matcher(Files.readString(Path.of("../tools/layout.sh")))
                .results()
                .map((MatchResult found) -> List.of(found.group(1).split(",")))
                .flatMap(List::stream)
                .toList();
        assertThat(packed).containsAll(used());
    }
}
