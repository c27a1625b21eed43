package dev.tandem.bench.ideal;

import dev.tandem.bench.ideal.StepShape.HostUse;
import dev.tandem.bench.ideal.StepShape.Kind;
import java.util.ArrayList;
import java.util.List;
import java.util.function.DoubleFunction;

/** Enumerates the step shapes of a case. */
final class StepShapes {
    /** Longer steps gain nothing: their fixed costs are below one per cent. */
    private static final double MAX_STEP_SECONDS = 1.0;
    /** Tokens of a step that are kept free of prompts for decode tokens, where the chunk is as long as can be. */
    private static final int DECODE_TOKENS = 64;
    /** Prompt tokens whose KV is staged at a time; a longer prompt's earlier chunks come back over the link. */
    private static final int STAGED_PROMPT_TOKENS = 4096;

    private static final List<Double> FEWER_SEQUENCES = List.of(1.0, 0.8, 0.6, 0.4, 0.2);

    private static final double[] PREFILL_ONLY = {512, 1024, 2048};
    private static final double ROUNDING = 1 + 1e-7;

    private final IdealCase of;
    private final boolean offloads;
    private final Grid grid;
    private final double kvBytes;
    private final double gpuSequences;
    /** Sequences that the GPU decodes in the steps that are being enumerated. */
    private double gpuTokens;

    /** KV bytes of each host sequence that the GPU pool holds, where no whole sequence fits it. */
    private final double heldBytes;

    private final double hostSequences;
    private final List<StepShape> shapes = new ArrayList<>();

    private StepShapes(IdealCase of, boolean offloads, Grid grid) {
        this.of = of;
        this.grid = grid;
        this.offloads = offloads;
        this.kvBytes = of.lengths().context() * of.memory().bytesPerToken();
        double pool = of.memory().pool(offloads);
        double requests = of.lengths()
                .requestsOf()
                .applyAsDouble(Math.max(0, pool) / of.memory().bytesPerToken());
        this.gpuSequences = requests < 1 ? 0 : Math.min(of.bounds().maxSequences(), requests);
        this.heldBytes = requests < 1 ? Math.max(0, pool) : 0;
        this.hostSequences = of.memory().hostBytes() / kvBytes;
    }

    /** All shapes; none where the GPU pool holds no sequence and there is no host tier. */
    static List<StepShape> of(IdealCase of, boolean offloads, Grid grid) {
        StepShapes shapes = new StepShapes(of, offloads, grid);
        if (of.memory().pool(offloads) >= 0 && (offloads || shapes.gpuSequences > 0)) {
            for (double level : shapes.levels()) {
                shapes.gpuTokens = level * shapes.gpuSequences;
                shapes.enumerate();
            }
            shapes.prefillsOnly();
        }
        return shapes.shapes;
    }

    /** Sequences that decode on the GPU in each step. */
    static double gpuSequences(IdealCase of, boolean offloads) {
        return new StepShapes(of, offloads, Grid.FINE).gpuSequences;
    }

    private void enumerate() {
        List<Double> prompts = prompts();
        for (double prompt : prompts) {
            gpuOnly(prompt);
            if (!offloads) {
                continue;
            }
            if (of.placements().contains(Placement.IN_FLIGHT)) {
                addAll(hostTokens -> inFlight(prompt, hostTokens));
            }
            if (of.placements().contains(Placement.SAME_LAYER)) {
                addAll(hostTokens -> sameLayer(prompt, hostTokens));
            }
            if (of.placements().contains(Placement.TWO_SUB_BATCHES)) {
                addAll(hostTokens -> twoSubBatches(prompt, hostTokens));
            }
        }
    }

    /** Fractions of the GPU's sequences that a step decodes: all, and fewer where a token has a max time. */
    private List<Double> levels() {
        return grid.bounds() && of.bounds().maxTokenSeconds() < MAX_STEP_SECONDS ? FEWER_SEQUENCES : List.of(1.0);
    }

    private void prefillsOnly() {
        int limit = of.bounds().maxBatchTokens();
        prefillOnly(limit);
        prefillOnly(limit / 2.0);
        for (double tokens : PREFILL_ONLY) {
            if (tokens < limit / 2.0) {
                prefillOnly(tokens);
            }
        }
    }

    private List<Double> prompts() {
        int limit = of.bounds().maxBatchTokens();
        List<Double> prompts = new ArrayList<>(grid.prompts(limit, gpuTokens));
        prompts.add(Math.max(1.0, limit - DECODE_TOKENS));
        return prompts;
    }

    private void addAll(DoubleFunction<StepShape> shape) {
        for (double hostTokens : grid.hostTokens(tokens -> allowed(shape.apply(tokens)))) {
            add(shape.apply(hostTokens));
        }
    }

    private void gpuOnly(double prompt) {
        if (gpuTokens + prompt > 0) {
            double seconds = of.seconds().pass(prompt, gpuTokens) + gpuAttention() + prefillAttention(prompt);
            StepShape shape =
                    new StepShape(new Kind(Placement.GPU_ONLY, prompt, gpuTokens, 0, 0), seconds, HostUse.NONE);
            if (allowed(shape)) {
                add(shape);
            }
        }
        if (gpuTokens == 0 && prompt == 0) {
            // the link alone: a pass for the tokens that it brings
            double seconds = of.seconds().pass(0, 1);
            addWithLink(new StepShape(new Kind(Placement.GPU_ONLY, 0, 0, 0, 0), seconds, HostUse.NONE));
        }
    }

    private StepShape inFlight(double prompt, double hostTokens) {
        double reading = hostTokens * kvBytes;
        double seconds = (of.seconds().pass(prompt, gpuTokens + hostTokens) + gpuAttention() + prefillAttention(prompt))
                * of.seconds().hostLoad();
        int layers = of.seconds().layers();
        return new StepShape(
                new Kind(Placement.IN_FLIGHT, prompt, gpuTokens, hostTokens, 0),
                seconds,
                use(hostTokens, reading, hostTokens * layers, layers * seconds));
    }

    private StepShape sameLayer(double prompt, double hostTokens) {
        double held = Math.min(heldBytes, hostTokens * kvBytes);
        double reading = hostTokens * kvBytes - held;
        double attention = Math.max(gpuAttention() + gpuSeconds(held), reading / cpuBandwidth());
        double seconds =
                of.seconds().pass(prompt, gpuTokens + hostTokens) + attention + prefillAttention(prompt) + trips();
        return new StepShape(
                new Kind(Placement.SAME_LAYER, prompt, gpuTokens, hostTokens, 0),
                seconds,
                use(hostTokens, reading, hostTokens, seconds));
    }

    private StepShape twoSubBatches(double prompt, double hostTokens) {
        double held = Math.min(heldBytes, hostTokens * kvBytes);
        double reading = hostTokens * kvBytes - held;
        double seconds = of.seconds().pass(prompt, gpuTokens)
                + gpuAttention()
                + gpuSeconds(held)
                + of.seconds().pass(0, hostTokens)
                + prefillAttention(prompt)
                + trips();
        return new StepShape(
                new Kind(Placement.TWO_SUB_BATCHES, prompt, gpuTokens, hostTokens, 0),
                seconds,
                use(hostTokens, reading, hostTokens, seconds));
    }

    private void prefillOnly(double tokens) {
        double seconds = of.seconds().pass(tokens, 0) + prefillAttention(tokens);
        if (seconds <= of.bounds().maxTokenSeconds()) {
            shapes.add(new StepShape(new Kind(Placement.PREFILL, tokens, 0, 0, 0), seconds, HostUse.NONE));
        }
    }

    /** What host tokens use: CPU attention, the reads for it, and the way of their prompts' KV over the link. */
    private HostUse use(double hostTokens, double readBytes, double sequences, double tokenSeconds) {
        return new HostUse(
                readBytes / cpuBandwidth(), hostTokens * reloadedBytes(), readBytes, sequences, tokenSeconds);
    }

    private void add(StepShape shape) {
        shapes.add(shape);
        addWithLink(shape);
    }

    /** The same step with as many tokens more as the link brings KV for, while it lasts. */
    private void addWithLink(StepShape shape) {
        Kind kind = shape.kind();
        double seconds = shape.seconds();
        HostUse use = shape.host();
        if (!offloads || !of.placements().contains(Placement.LINK)) {
            return;
        }
        double tokens = seconds * of.linkBandwidth() / kvBytes;
        double more = of.seconds().pass(kind.prompt(), kind.outputTokens() + tokens)
                - (kind.outputTokens() + kind.prompt() > 0
                        ? of.seconds().pass(kind.prompt(), kind.outputTokens())
                        : seconds)
                + gpuSeconds(tokens * kvBytes);
        HostUse withLink = new HostUse(
                use.cpuSeconds(),
                tokens * kvBytes + (kind.hostTokens() + tokens) * reloadedBytes(),
                use.readBytes() + tokens * kvBytes,
                use.sequences() + tokens,
                use.tokenSeconds());
        if (withLink.sequences() <= hostSequences * ROUNDING) {
            shapes.add(new StepShape(
                    new Kind(kind.placement(), kind.prompt(), kind.gpuTokens(), kind.hostTokens(), tokens),
                    seconds + more,
                    withLink));
        }
    }

    /** Two sub-batches must hide the CPU's work behind the GPU's; other placements may leave it to later steps. */
    private boolean allowed(StepShape shape) {
        return shape.seconds() < MAX_STEP_SECONDS
                && shape.seconds() <= of.bounds().maxTokenSeconds()
                && shape.host().tokenSeconds() <= of.bounds().maxTokenSeconds()
                && shape.host().sequences() <= hostSequences * ROUNDING
                && (shape.kind().placement() != Placement.TWO_SUB_BATCHES
                        || shape.host().cpuSeconds() <= shape.seconds());
    }

    private double cpuBandwidth() {
        return of.seconds().hostAttentionBandwidth();
    }

    private double gpuAttention() {
        return of.seconds().gpuAttention(gpuTokens * of.lengths().context());
    }

    /** Seconds in which the GPU attends over KV of so many bytes. */
    private double gpuSeconds(double bytes) {
        return of.seconds().gpuAttention(bytes / of.memory().bytesPerToken());
    }

    private double prefillAttention(double prompt) {
        return of.seconds().prefillAttention(prompt * of.lengths().contextOfPromptToken());
    }

    private double trips() {
        return of.seconds().trip() * of.seconds().layers();
    }

    /** Bytes over the link per output token, to read a host prompt's cached prefix and earlier chunks again. */
    private double reloadedBytes() {
        Lengths lengths = of.lengths();
        double computed = (1 - lengths.cached()) * lengths.prompt();
        int chunks = (int) Math.max(1, Math.ceil(computed / STAGED_PROMPT_TOKENS));
        double tokens = 0;
        for (int chunk = 0; chunk < chunks; chunk++) {
            tokens += lengths.held(lengths.cached() * lengths.prompt() + (double) chunk * STAGED_PROMPT_TOKENS);
        }
        return tokens * of.memory().bytesPerToken() / lengths.output();
    }
}
