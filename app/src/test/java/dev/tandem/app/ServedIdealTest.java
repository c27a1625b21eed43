package dev.tandem.app;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.ideal.Bounds;
import dev.tandem.bench.ideal.Lengths;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.request.FinishReason;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.request.Usage;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.List;
import java.util.Queue;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The ideal follows the lengths of the requests that have ended. */
class ServedIdealTest {
    private static final double KV_BYTES_PER_TOKEN = 131_072;
    private static final Bounds BOUNDS = Bounds.WIDE;
    private static final ExecutorLimits LIMITS = ExecutorLimits.builder()
            .vocabulary(1000)
            .contextTokens(8192)
            .maxBatchTokens(20_480)
            .blockTokens(16)
            .hostBlockTokens(64)
            .gpuBlocks(1650)
            .hostBlocks(4000)
            .kvBytesPerToken((long) KV_BYTES_PER_TOKEN)
            .layers(32)
            .build();

    private static Profile profile;

    private final Queue<Runnable> solutions = new ArrayDeque<>();
    private final ServedIdeal ideal = new ServedIdeal(profile, LIMITS, BOUNDS, solutions::add);

    @BeforeAll
    static void read() throws IOException {
        profile = Profile.parse(Files.readString(Path.of("../docs/results/profiles/h200.txt")), "h200");
    }

    private static double ratioOf(double prompt, double output) {
        return ProfileIdeal.of(
                        profile, LIMITS, 4000 * 64 * KV_BYTES_PER_TOKEN, BOUNDS, Lengths.divisible(prompt, output, 0))
                .ratio()
                .orElseThrow();
    }

    private void finish(int requests, int prompt, int output) {
        Request request =
                new Request("r", new int[1], SamplingParams.builder().build(), 0, TextDecoder.none(), event -> {});
        for (int i = 0; i < requests; i++) {
            ideal.finished(request, FinishReason.LENGTH, new Usage(prompt, output, 0, 0, 0, 0, 0, 0, 0, List.of()));
        }
    }

    @Test
    void itBeginsWithRequestsOfAUsualLength() {
        assertThat(ideal.line())
                .startsWith("at best %.2f times gpu-only's".formatted(ideal.ratio()))
                .contains("1000 prompt and 400 output tokens");
        assertThat(ideal.ratio()).isCloseTo(ratioOf(1000, 400), within(1e-9));
    }

    @Test
    void itIsSolvedAgainForTheMeanOfEnoughRequests() {
        finish(ServedIdeal.MIN_REQUESTS - 1, 1500, 60);
        assertThat(solutions).as("too few requests").isEmpty();
        finish(1, 1500, 60);
        assertThat(solutions).hasSize(1);
        solutions.remove().run();
        assertThat(ideal.ratio()).isCloseTo(ratioOf(1500, 60), within(1e-9)).isLessThan(ratioOf(1000, 400));
        assertThat(ideal.line()).contains("1500 prompt and 60 output tokens");
        finish(500, 1500, 70);
        assertThat(solutions).as("about the same lengths").isEmpty();
    }

    @Test
    void onlyOneSolutionRunsAtATime() {
        finish(ServedIdeal.MIN_REQUESTS, 1500, 60);
        finish(5 * ServedIdeal.MIN_REQUESTS, 100, 600);
        assertThat(solutions).hasSize(1);
        assertThat(ideal.ratio()).as("the present one counts until then").isCloseTo(ratioOf(1000, 400), within(1e-9));
        solutions.remove().run();
        finish(1, 100, 600);
        assertThat(solutions).as("the lengths have changed meanwhile").hasSize(1);
    }

    @Test
    void requestsWithoutOutputDoNotCount() {
        finish(ServedIdeal.MIN_REQUESTS, 1500, 0);
        assertThat(solutions).isEmpty();
    }
}
