package dev.tandem.cpu;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.cpu.simd.Lanes;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.model.config.DataType;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The bits of a request's logits depend only on the request and the model. The compiler, the batch, the threads, the
 * tier of its KV and the vector width do not change them.
 */
class LogitsBitsTest {
    static Stream<Arguments> familiesAndTypes() {
        return Stream.of("llama31", "qwen3", "qwen2", "gemma3")
                .flatMap(family -> Stream.of(DataType.values()).map(type -> Arguments.of(family, type)));
    }

    /** Each family and each type once only, because an interpreted run takes seconds. */
    static Stream<Arguments> someFamiliesAndTypes() {
        return Stream.of(
                Arguments.of("llama31", DataType.BFLOAT16),
                Arguments.of("qwen3", DataType.FLOAT32),
                Arguments.of("qwen2", DataType.FLOAT16));
    }

    @ParameterizedTest
    @MethodSource("familiesAndTypes")
    void threadsChunksTiersAndNeighboursChangeNoBit(String family, DataType type) {
        int[] expected =
                Logits.bits(new Logits(family, type, 1, Logits.PROMPT, AttentionSite.GPU_FROM_GPU, 0).compute());
        for (int chunk : new int[] {1, 7, 16, Logits.PROMPT}) {
            for (AttentionSite site : new AttentionSite[] {AttentionSite.GPU_FROM_GPU, AttentionSite.CPU_FROM_HOST}) {
                for (int neighbours : new int[] {0, 1, 9}) {
                    Logits conditions = new Logits(family, type, 3, chunk, site, neighbours);
                    assertThat(Logits.bits(conditions.compute()))
                            .as("%s", conditions)
                            .isEqualTo(expected);
                }
            }
        }
    }

    /** The digests are those of the first round, and of the last one, in which all kernels are compiled. */
    @ParameterizedTest
    @MethodSource("someFamiliesAndTypes")
    void interpretedAndCompiledCodeGiveTheSameBits(String family, DataType type) throws Exception {
        Process interpreting = start(Lanes.bits(), "1", family, type, "-Xint");
        Process compiling = start(Lanes.bits(), "" + Logits.COMPILING_ROUNDS, family, type, "-Xbatch");
        Process inFirstTier = start(Lanes.bits(), "3", family, type, "-XX:TieredStopAtLevel=1", "-Xbatch");
        String interpreted = digest(interpreting);
        assertThat(digest(compiling)).isEqualTo(interpreted);
        assertThat(digest(inFirstTier)).isEqualTo(interpreted);
    }

    @ParameterizedTest
    @MethodSource("someFamiliesAndTypes")
    void everyVectorWidthGivesTheSameBits(String family, DataType type) throws Exception {
        Process narrow = start(128, "1", family, type);
        Process wide = start(256, "1", family, type);
        Process widest = start(512, "1", family, type);
        String expected = digest(narrow);
        assertThat(digest(wide)).isEqualTo(expected);
        assertThat(digest(widest)).isEqualTo(expected);
    }

    /** Starts {@link Logits#main}. The processes of a test run side by side, as each uses hardly more than one core. */
    private static Process start(int bits, String rounds, String family, DataType type, String... options)
            throws IOException {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(List.of("--add-modules", "jdk.incubator.vector", "--enable-native-access=ALL-UNNAMED"));
        command.add("-Dtandem.vector.bits=" + bits);
        command.addAll(List.of(options));
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Logits.class.getName()));
        command.addAll(List.of(family, type.name(), rounds));
        return new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.DISCARD)
                .start();
    }

    private static String digest(Process process) throws IOException, InterruptedException {
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
        assertThat(process.waitFor()).as("%s printed %s", process, printed).isZero();
        return printed;
    }
}
