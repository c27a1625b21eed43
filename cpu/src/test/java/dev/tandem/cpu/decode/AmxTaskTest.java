package dev.tandem.cpu.decode;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.foreign.MemoryLayout;
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
    void fieldsLieWhereTheSourceAssertsThem() {
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
        assertThat(layout).hasSize(17).isEqualTo(asserted);
        assertThat(SIZE.matcher(source())
                        .results()
                        .map(match -> Long.valueOf(match.group(1)))
                        .toList())
                .isEqualTo(List.of(AmxDecodeAttention.TASK.byteSize()));
    }

    @Test
    @EnabledOnOs(OS.LINUX)
    void aReleaseFailsWithoutACompilerAndOtherBuildsGoOn(@TempDir Path target) throws Exception {
        assertThat(build(target, "true")).isEqualTo(1);
        assertThat(build(target, "false")).isZero();
    }

    private static int build(Path target, String release) throws IOException, InterruptedException {
        ProcessBuilder builder = new ProcessBuilder(
                "sh", NATIVE.resolve("build.sh").toString(), NATIVE.toString(), target.toString(), release);
        builder.environment().put("CC", "no-such-compiler");
        Process process = builder.redirectErrorStream(true).start();
        String printed = new String(process.getInputStream().readAllBytes());
        assertThat(printed).contains("AMX kernel: not compiled");
        return process.waitFor();
    }
}
