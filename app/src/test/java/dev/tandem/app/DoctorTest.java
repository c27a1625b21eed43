package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cuda.device.CudaLibraries;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

class DoctorTest {
    @Test
    void everyLineIsLabelledAndWhatIsMissingHasARemedy() {
        PrintStream before = System.out;
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        System.setOut(new PrintStream(said, true, StandardCharsets.UTF_8));
        try {
            assertThat(Main.execute("doctor")).isZero();
        } finally {
            System.setOut(before);
        }
        String report = said.toString(StandardCharsets.UTF_8);
        assertThat(report.lines()).allMatch(line -> line.matches("([A-Z]\\w+ +| {10})\\S.*"));
        for (String label : new String[] {
            "Java",
            "System",
            "Processor",
            "Features",
            "Attention",
            "Memory",
            "Cache",
            "Measured",
            "GPU",
            "Library",
            "Gain"
        }) {
            assertThat(report).containsPattern("(?m)^" + label + " ");
        }
        assertThat(report).doesNotContain("Exception").doesNotContain("null");
        if (CudaLibraries.driver().isEmpty()) {
            assertThat(report).contains("libcuda.so.1").contains("install its driver");
        }
    }

    @Test
    void aCacheThatCannotBeWrittenIsNamedWithTheRemedy(@TempDir Path folder) throws IOException {
        Path file = Files.writeString(folder.resolve("file"), "");
        assertThat(DoctorCommand.cache(file.resolve("cache")))
                .contains(file.toString())
                .contains("set TANDEM_CACHE");
        assertThat(DoctorCommand.cache(folder)).contains("fetched at its first use");
    }
}
