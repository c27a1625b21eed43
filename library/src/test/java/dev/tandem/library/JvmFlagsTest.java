package dev.tandem.library;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;

class JvmFlagsTest {
    /** What the process without flags runs. */
    static final class Load {
        private Load() {}

        /** Loads a model that is not there. */
        public static void main(String[] args) {
            try (Tandem tandem = Tandem.load("none.gguf")) {
                System.out.println(tandem.model());
            }
        }
    }

    @Test
    void onlyMissingFlagsAreNamed() {
        JvmFlags.check(true, true);
        assertThatThrownBy(() -> JvmFlags.check(true, false))
                .hasMessageContaining("start Java with --enable-native-access=ALL-UNNAMED");
        assertThatThrownBy(() -> JvmFlags.check(false, true))
                .hasMessageContaining("start Java with --add-modules jdk.incubator.vector")
                .hasMessageNotContaining("native-access");
    }

    @Test
    void aJvmWithoutFlagsSaysWhichItNeeds() throws IOException, InterruptedException {
        Process java = new ProcessBuilder(
                        Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                        "-cp",
                        System.getProperty("java.class.path"),
                        Load.class.getName())
                .redirectErrorStream(true)
                .start();
        String said = new String(java.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertThat(java.waitFor()).as(said).isEqualTo(1);
        assertThat(said)
                .contains("--add-modules jdk.incubator.vector --enable-native-access=ALL-UNNAMED")
                .doesNotContain("NoClassDefFoundError");
    }
}
