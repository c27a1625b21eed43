package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemoryLayout;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledOnOs;
import org.junit.jupiter.api.condition.OS;
import org.junit.jupiter.api.io.TempDir;

/** The AMX kernel compiles, and the Java layout of its argument is that of the C source. */
class AmxTaskTest {
    private static final Path NATIVE = Path.of("src/main/native");
    private static final Pattern OFFSET =
            Pattern.compile("_Static_assert\\(offsetof\\(struct task, (\\w+)\\) == (\\d+),");
    private static final Pattern SIZE = Pattern.compile("_Static_assert\\(sizeof\\(struct task\\) == (\\d+),");

    private static String source() {
        try {
            return Files.readString(NATIVE.resolve("decode_amx.c"));
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    @Test
    void javaAndCAgreeOnTheOffsetsOfTheTask() {
        Map<String, Long> asserted = new TreeMap<>();
        for (MatchResult match :
                (Iterable<MatchResult>) OFFSET.matcher(source()).results()::iterator) {
            asserted.put(match.group(1), Long.valueOf(match.group(2)));
        }
        Map<String, Long> layout = new TreeMap<>();
        for (MemoryLayout field : AmxDecodeAttention.TASK.memberLayouts()) {
            String name = field.name().orElseThrow();
            layout.put(name, AmxDecodeAttention.TASK.byteOffset(MemoryLayout.PathElement.groupElement(name)));
        }
        assertThat(layout).hasSize(18).isEqualTo(asserted);
        assertThat(SIZE.matcher(source())
                        .results()
                        .map(match -> Long.valueOf(match.group(1)))
                        .toList())
                .isEqualTo(List.of(AmxDecodeAttention.TASK.byteSize()));
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void withoutACompilerAReleaseFailsAndOtherBuildsSucceed(@TempDir Path target) throws Exception {
        Result release = run(build(target, "true", "no-such-compiler"));
        assertThat(release.status()).isEqualTo(1);
        assertThat(release.printed()).contains("C kernels: not compiled");
        Result other = run(build(target, "false", "no-such-compiler"));
        assertThat(other.status()).isZero();
        assertThat(other.printed()).contains("C kernels: not compiled");
    }

    /** Other builds pass over a compiler's errors, so nothing else notices a source that does not compile. */
    @Test
    @EnabledOnOs(value = OS.LINUX, architectures = "amd64")
    void theKernelsCompile(@TempDir Path target) throws Exception {
        assumeThat(compilerKnowsAmx()).as("a C compiler that knows AMX").isTrue();
        Result release = run(build(target, "true", "cc"));
        for (String kernel : List.of("amx", "int8")) {
            Path log = target.resolve(kernel + ".log");
            assertThat(log).as(Files.exists(log) ? Files.readString(log) : "").doesNotExist();
        }
        assertThat(release.status()).as(release.printed()).isZero();
    }

    private static boolean compilerKnowsAmx() throws InterruptedException {
        try {
            return run(new ProcessBuilder("cc", "-mamx-tile", "-mamx-bf16", "-E", "-x", "c", "/dev/null"))
                            .status()
                    == 0;
        } catch (IOException e) {
            return false;
        }
    }

    private static ProcessBuilder build(Path target, String release, String compiler) {
        ProcessBuilder builder = new ProcessBuilder(
                "sh", NATIVE.resolve("build.sh").toString(), NATIVE.toString(), target.toString(), release);
        builder.environment().put("CC", compiler);
        return builder;
    }

    private record Result(int status, String printed) {}

    private static Result run(ProcessBuilder builder) throws IOException, InterruptedException {
        Process process = builder.redirectErrorStream(true).start();
        String printed = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        return new Result(process.waitFor(), printed);
    }
}
