package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;

class BenchReportTest {
    private static final Pattern COMMIT = Pattern.compile("[0-9a-f]{7,40}(-dirty)?");

    @Test
    void theCommitIsTheBuiltOneWhateverTheRootIs() {
        String before = System.setProperty("tandem.root", "/");
        try {
            assertThat(BenchReport.commit())
                    .matches(id -> Files.exists(Path.of("..", ".git"))
                            ? COMMIT.matcher(id).matches()
                            : id.equals("unknown"));
        } finally {
            if (before == null) {
                System.clearProperty("tandem.root");
            } else {
                System.setProperty("tandem.root", before);
            }
        }
    }
}
