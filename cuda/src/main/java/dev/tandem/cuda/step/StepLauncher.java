package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.sampling.GpuSampler;
import dev.tandem.cuda.step.StepLayout.Filled;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.function.Consumer;

/**
 * Puts plans into inputs and enqueues their kernels: steps of few rows as graphs, one a layer where prompts land,
 * others kernel by kernel.
 *
 * <p>Owned by: engine thread.
 */
public final class StepLauncher {
    private final Stream stream;
    private final GpuSampler sampler;
    private final KvPools pools;
    private final StepLayout layout;
    private final GraphCache replays;
    private final Inputs inputs;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final int layers;
    private Launched last = new Launched(List.of(), List.of(), 0, 0, 0);
    /** Where the sequence after the one that was looked for last is likely to be among the samples of the last step. */
    private int likely;

    /**
     * @param graph of steps that are replayed
     * @param graphRows most rows of such a step, without slots; 0 where none is
     * @param first sub-batch of all others
     * @param second likewise; empty without attention threads
     */
    public record Inputs(StepBuffer graph, int graphRows, StepBuffer first, Optional<StepBuffer> second) {}

    /** How a step is enqueued. */
    public enum Way {
        /** It touches GPU blocks alone. */
        ONE_GRAPH,
        /** Prompts land. */
        GRAPH_PER_LAYER,
        /**
         * Many rows, two sub-batches, or rows that the CPU attends to while the step waits: a graph where the same rows
         * come up again, else kernel by kernel.
         */
        PASSES
    }

    /**
     * A step that has been enqueued.
     *
     * @param sampled chunks in the order of the sampled rows; slots follow
     * @param passes sub-batches that wait for host tokens
     */
    public record Launched(
            List<Chunk> sampled, List<Optional<TokenSampler.Draw>> draws, int firstSlotSample, int slots, int passes) {
        /**
         * Whether the next step's draws can be told before its tokens are, and nobody needs its logits: the GPU chooses
         * every token.
         */
        public boolean isForeseeable() {
            return draws.stream()
                    .allMatch(
                            draw -> draw.filter(TokenSampler.Draw::foreseeable).isPresent());
        }
    }

    /**
     * Where a step reports: addresses of pinned memory for tokens and flights that landed, for times, and for
     * log-probabilities.
     */
    public record Report(long tokens, long stamps, long logprobs) {}

    public StepLauncher(
            Stream stream,
            GpuSampler sampler,
            KvPools pools,
            StepLayout layout,
            GraphCache replays,
            Inputs inputs,
            Optional<HostTokenTracker> hostTokens,
            int layers) {
        this.stream = stream;
        this.sampler = sampler;
        this.pools = pools;
        this.layout = layout;
        this.replays = replays;
        this.inputs = inputs;
        this.hostTokens = hostTokens;
        this.layers = layers;
    }

    /**
     * @param batches as {@link PlanRows} orders them
     * @param way theirs
     */
    public Launched launch(StepPlan plan, List<List<Chunk>> batches, Way way, Report report) {
        int slots = PlanRows.slots(plan);
        int rows = batches.stream().flatMap(List::stream).mapToInt(Chunk::rows).sum();
        int waiting = (int) batches.stream()
                .flatMap(List::stream)
                .filter(chunk -> chunk.site() == AttentionSite.CPU_FROM_HOST)
                .count();
        if (rows + slots == 0) {
            pools.upload(stream);
            pools.begin(stream);
            pools.end(stream);
            last = new Launched(List.of(), List.of(), 0, 0, 0);
            return last;
        }
        Launched launched = switch (way) {
            case ONE_GRAPH -> replay(plan, batches.getFirst(), rows, slots, replays::launch);
            case GRAPH_PER_LAYER -> replay(plan, batches.getFirst(), rows, slots, replays::launchPrefillOffload);
            case PASSES -> passes(plan, batches, slots, waiting);
        };
        StepBuffer step = way == Way.PASSES ? inputs.first() : inputs.graph();
        int samples = launched.firstSlotSample() + slots;
        choose(step, slots, samples, report);
        if (samples > 0) {
            sampler.report(stream, samples, slots, launched.passes(), report.tokens(), report.stamps());
        }
        last = launched;
        return launched;
    }

    /** Replaces what is not simply the most probable token, and says how probable tokens were. */
    private void choose(StepBuffer step, int slots, int samples, Report report) {
        boolean slotsDraw = slots > 0 && hostTokens.orElseThrow().queues().draws();
        if (step.adjustedCount() > 0) {
            sampler.adjust(stream, step);
        }
        if (step.drawCount() > 0 || slotsDraw) {
            sampler.sample(stream, step, step.drawCount(), slotsDraw ? slots : 0, samples);
        }
        boolean slotsReport = slots > 0 && hostTokens.orElseThrow().queues().reportsLogprobs();
        if (step.reportsLogprobs() || slotsReport) {
            sampler.logprobs(
                    stream, step, step.drawCount(), slotsReport ? slots : 0, samples - slots, report.logprobs());
        }
    }

    /** How a step of these chunks is enqueued. */
    public Way way(List<List<Chunk>> batches) {
        if (batches.size() > 1) {
            return Way.PASSES;
        }
        int rows = 0;
        boolean offloadsPrefill = false;
        for (Chunk chunk : batches.getFirst()) {
            rows += chunk.rows();
            offloadsPrefill |= chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
            if (chunk.site() != AttentionSite.GPU_FROM_GPU && chunk.site() != AttentionSite.GPU_PREFILL_OFFLOAD) {
                return Way.PASSES;
            }
        }
        if (rows > inputs.graphRows()) {
            return Way.PASSES;
        }
        return offloadsPrefill ? Way.GRAPH_PER_LAYER : Way.ONE_GRAPH;
    }

    /** A token that is awaited is on the GPU, where the last step chooses it. */
    private int token(long sequence, int token) {
        if (token != Chunk.PLACEHOLDER) {
            return token;
        }
        List<Chunk> sampled = last.sampled();
        for (int i = 0; i < sampled.size(); i++) {
            int at = (likely + i) % sampled.size();
            if (sampled.get(at).sequence() == sequence) {
                likely = at + 1;
                return -1 - at;
            }
        }
        throw new ExecutorException("sequence " + sequence + " awaits a token that the step before does not sample");
    }

    private Launched replay(StepPlan plan, List<Chunk> chunks, int rows, int slots, Consumer<GraphCache.Key> launch) {
        List<Chunk> sampled = new ArrayList<>();
        StepBuffer step = inputs.graph();
        layout.fill(step, chunks, pools, this::token, this::nobody, sampled);
        List<Optional<TokenSampler.Draw>> draws = draws(step, sampled);
        GraphCache.Key replay = replays.key(rows, sampled.size(), step.tileCount(), slots);
        layout.spread(step, slots);
        // a graph's rows and samples are filled up: slots come after
        int first = replay.rows() - slots;
        int firstSample = replay.sampled() - slots;
        admit(plan, step, first, slots, firstSample);
        StepLayout.padRows(step, rows, first);
        StepLayout.padSamples(step, sampled.size(), firstSample);
        step.fillTiles(replay.tiles());
        pools.upload(stream);
        step.upload(stream);
        launch.accept(replay);
        return new Launched(sampled, draws, firstSample, slots, 0);
    }

    private Launched passes(StepPlan plan, List<List<Chunk>> batches, int slots, int waiting) {
        List<Chunk> sampled = new ArrayList<>();
        List<Pass> passes = new ArrayList<>(batches.size());
        List<StepBuffer> steps = new ArrayList<>(batches.size());
        long tasks = waiting == 0 ? 0 : hostTokens.orElseThrow().queues().promise((long) waiting * layers);
        int before = 0;
        for (List<Chunk> chunks : batches) {
            boolean last = passes.size() + 1 == batches.size();
            StepBuffer step =
                    passes.isEmpty() ? inputs.first() : inputs.second().orElseThrow(StepLauncher::oneSubBatch);
            int slotsHere = last ? slots : 0;
            checkRoom(step, chunks, slotsHere);
            Filled filled = layout.fill(step, chunks, pools, this::token, this::pass, sampled);
            layout.spread(step, slotsHere);
            admit(plan, step, filled.rows(), slotsHere, filled.sampled());
            step.hostTokens(filled.firstHostRow(), filled.hostTokens(), waiting, before, tasks);
            before += filled.hostTokens();
            passes.add(new Pass(
                    step,
                    Extent.of(filled.rows() + slotsHere, filled.sampled() + slotsHere)
                            .withDecodes(filled.decodes() > 0)
                            .withTiles(step.tileCount())
                            .withSlots(slotsHere)
                            .withHostTokens(filled.hostTokens())));
            steps.add(step);
        }
        List<Optional<TokenSampler.Draw>> draws = draws(inputs.first(), sampled);
        pools.upload(stream);
        steps.forEach(step -> step.upload(stream));
        replays.launch(passes);
        return new Launched(sampled, draws, sampled.size(), slots, waiting > 0 ? passes.size() : 0);
    }

    private static ExecutorException oneSubBatch() {
        return new ExecutorException(
                "this plan has two sub-batches; without attention threads the CUDA executor runs one");
    }

    private static void checkRoom(StepBuffer step, List<Chunk> chunks, int slots) {
        int rows = chunks.stream().mapToInt(Chunk::rows).sum() + slots;
        if (rows > step.rowCapacity()) {
            throw new ExecutorException(
                    "a sub-batch has " + rows + " rows and the CUDA executor takes " + step.rowCapacity() + " there");
        }
    }

    private void admit(StepPlan plan, StepBuffer step, int first, int slots, int firstSample) {
        if (slots > 0) {
            StepLayout.slots(
                    step,
                    first,
                    slots,
                    firstSample,
                    this::token,
                    hostTokens.orElseThrow().admit(plan.admissions()));
        }
    }

    private HostToken pass(Admission row) {
        return hostTokens.orElseThrow().pass(row);
    }

    private HostToken nobody(Admission row) {
        throw new IllegalStateException("sequence " + row.sequence() + " is the CPU's in a step that is replayed");
    }

    /** How each sampled row is drawn; draws of the GPU go to {@code step}. */
    private static List<Optional<TokenSampler.Draw>> draws(StepBuffer step, List<Chunk> sampled) {
        List<Optional<TokenSampler.Draw>> draws = new ArrayList<>(sampled.size());
        for (Chunk chunk : sampled) {
            TokenSampler sampler = chunk.sampler().orElseThrow();
            Optional<TokenSampler.Draw> draw = sampler.draw(step.adjustmentRoom());
            draw.filter(d -> !d.isMostProbable()).ifPresent(d -> step.draw(draws.size(), d, sampler.adjustments()));
            draws.add(draw);
        }
        return draws;
    }
}
