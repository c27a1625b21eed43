package dev.tandem.bench.ideal;

import dev.tandem.bench.ideal.LinearProgram.Row;
import dev.tandem.bench.ideal.StepShape.HostUse;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.function.ToDoubleFunction;
import java.util.stream.IntStream;

/**
 * The best output throughput of the GPU alone and of a schedule with a host tier, at equal GPU bytes. A linear program
 * chooses how often each step shape runs: it maximises output tokens per second while the GPU, the CPU, the link and
 * host memory each work at most one second per second, and prompts keep pace with outputs.
 *
 * @param gpuOnly empty where the GPU pool holds no request
 * @param best with a host tier; the GPU alone where that is better
 */
public record Ideal(Optional<Schedule> gpuOnly, Schedule best) {
    /** A constraint counts as binding from this fraction of its bound on. */
    private static final double BINDING = 0.995;
    /** A step shape that takes less of the time is left out of the mix. */
    private static final double MIN_TIME = 0.01;

    private static final int MIX = 4;

    /**
     * Solves a case.
     *
     * @throws IllegalArgumentException if no schedule serves a request
     */
    public static Ideal of(IdealCase of) {
        return of(of, Grid.FINE);
    }

    static Ideal of(IdealCase of, Grid grid) {
        return find(of, grid)
                .orElseThrow(() -> new IllegalArgumentException(
                        "neither GPU KV of %.1f GB nor host KV of %.1f GB holds a request of %.0f tokens; give more"
                                .formatted(
                                        of.memory().gpuBytes() / 1e9,
                                        of.memory().hostBytes() / 1e9,
                                        of.lengths().context())));
    }

    /** Solves a case; empty where neither tier holds a request, or none gets its tokens within the max time. */
    public static Optional<Ideal> find(IdealCase of) {
        return find(of, Grid.FINE);
    }

    private static Optional<Ideal> find(IdealCase of, Grid grid) {
        Optional<Schedule> gpuOnly = solve(of, false, grid);
        Optional<Schedule> offloading = solve(of, true, grid);
        return offloading
                .filter(schedule -> schedule.tokensPerSecond()
                        > gpuOnly.map(Schedule::tokensPerSecond).orElse(0.0))
                .or(() -> gpuOnly)
                .map(best -> new Ideal(gpuOnly, best));
    }

    /** Throughput with a host tier over that of the GPU alone; empty where the GPU holds no request. */
    public Optional<Double> ratio() {
        return gpuOnly.map(schedule -> best.tokensPerSecond() / schedule.tokensPerSecond());
    }

    private static Optional<Schedule> solve(IdealCase of, boolean offloads, Grid grid) {
        List<StepShape> shapes = StepShapes.of(of, offloads, grid);
        if (shapes.stream().noneMatch(shape -> shape.kind().outputTokens() > 0)) {
            return Optional.empty();
        }
        double promptPerOutput = of.lengths().computedPromptPerOutput();
        double[] perSecond = LinearProgram.maximise(
                column(shapes, shape -> shape.kind().outputTokens()),
                List.of(
                        new Row(column(shapes, StepShape::seconds), 1),
                        new Row(
                                column(
                                        shapes,
                                        shape -> shape.kind().prompt()
                                                - promptPerOutput * shape.kind().outputTokens()),
                                0)),
                List.of(
                        new Row(column(shapes, shape -> shape.host().cpuSeconds()), 1),
                        new Row(column(shapes, shape -> shape.host().linkBytes() / of.linkBandwidth()), 1),
                        new Row(column(shapes, shape -> shape.host().readBytes() / of.hostReadBandwidth()), 1)));
        return perSecond.length == 0
                ? Optional.empty()
                : Optional.of(schedule(of, shapes, perSecond, StepShapes.gpuSequences(of, offloads)));
    }

    private static double[] column(List<StepShape> shapes, ToDoubleFunction<StepShape> value) {
        return shapes.stream().mapToDouble(value).toArray();
    }

    private static double sum(List<StepShape> shapes, double[] perSecond, ToDoubleFunction<StepShape> value) {
        return IntStream.range(0, perSecond.length)
                .mapToDouble(i -> perSecond[i] * value.applyAsDouble(shapes.get(i)))
                .sum();
    }

    private static Schedule schedule(IdealCase of, List<StepShape> shapes, double[] perSecond, double gpuSequences) {
        double outputs = sum(shapes, perSecond, shape -> shape.kind().outputTokens());
        double fromHost = sum(shapes, perSecond, shape -> shape.kind().fromHost());
        double held = shapes.isEmpty() ? 0 : maxSequences(shapes, perSecond);
        double kvBytes = of.lengths().context() * of.memory().bytesPerToken();
        Schedule.Use use = new Schedule.Use(
                sum(shapes, perSecond, shape -> shape.host().cpuSeconds()),
                sum(shapes, perSecond, shape -> shape.host().linkBytes()) / of.linkBandwidth(),
                sum(shapes, perSecond, shape -> shape.host().readBytes()) / of.hostReadBandwidth(),
                held * kvBytes / of.memory().hostBytes(),
                fromHost / outputs,
                fromHost < 1e-9
                        ? 0
                        : sum(shapes, perSecond, shape -> shape.host().sequences() * shape.seconds()) / fromHost);
        List<Schedule.Part> mix = IntStream.range(0, perSecond.length)
                .mapToObj(i -> part(shapes.get(i), perSecond[i] * shapes.get(i).seconds()))
                .filter(part -> part.time() >= MIN_TIME)
                .sorted(Comparator.comparingDouble(Schedule.Part::time).reversed())
                .limit(MIX)
                .toList();
        double promptTime = sum(shapes, perSecond, shape -> promptSeconds(of, shape));
        return new Schedule(outputs, gpuSequences, use, mix, limits(of, use, promptTime));
    }

    /** Host sequences of the step shape with the most of them. */
    private static double maxSequences(List<StepShape> shapes, double[] perSecond) {
        return IntStream.range(0, perSecond.length)
                .filter(i -> perSecond[i] * shapes.get(i).seconds() >= MIN_TIME)
                .mapToObj(shapes::get)
                .map(StepShape::host)
                .mapToDouble(HostUse::sequences)
                .max()
                .orElse(0);
    }

    private static Schedule.Part part(StepShape shape, double time) {
        StepShape.Kind kind = shape.kind();
        return new Schedule.Part(kind.placement().words(), kind.prompt(), kind.hostTokens(), kind.linkTokens(), time);
    }

    /** GPU seconds that the step's prompt chunk adds to it. */
    private static double promptSeconds(IdealCase of, StepShape shape) {
        double tokens = shape.kind().outputTokens();
        double prompt = shape.kind().prompt();
        return of.seconds().pass(prompt, tokens)
                - of.seconds().pass(0, tokens)
                + of.seconds().prefillAttention(prompt * of.lengths().contextOfPromptToken());
    }

    /** The constraints that bind, in words. GPU time always does. */
    private static List<String> limits(IdealCase of, Schedule.Use use, double promptTime) {
        List<String> limits = new ArrayList<>();
        limits.add("GPU time, %.0f %% of it for prompts".formatted(100 * promptTime));
        if (use.cpuAttention() >= BINDING) {
            limits.add("CPU attention, %.0f GB/s".formatted(of.seconds().hostAttentionBandwidth() / 1e9));
        }
        if (use.link() >= BINDING) {
            limits.add("the link, %.0f GB/s".formatted(of.linkBandwidth() / 1e9));
        }
        if (use.hostReads() >= BINDING) {
            limits.add("host memory bandwidth, %.0f GB/s".formatted(of.hostReadBandwidth() / 1e9));
        }
        if (use.hostMemory() >= BINDING) {
            limits.add("host KV of %.1f GB".formatted(of.memory().hostBytes() / 1e9));
        }
        if (of.bounds().maxTokenSeconds() < Double.POSITIVE_INFINITY) {
            limits.add("at most %.0f ms per token".formatted(1e3 * of.bounds().maxTokenSeconds()));
        }
        return limits;
    }
}
