package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.forward.SlotLayers;
import dev.tandem.cuda.hostattention.HostLinkMemory;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.hostattention.HostTokenTracker.Resumed;
import dev.tandem.cuda.hostattention.HostTokenTracker.ReturnLayers;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.sampling.Bitmasks;
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
 * Writes plans into step buffers and enqueues their kernels: steps of few rows as CUDA graphs, with prefill offload one
 * per layer, other steps kernel by kernel.
 *
 * <p>Owned by: engine thread.
 */
public final class StepLauncher {
    private final Stream stream;
    private final GpuSampler sampler;
    private final Bitmasks masks;
    private final KvPools pools;
    private final StepLayout layout;
    private final GraphCache graphs;
    private final StepBuffers inputs;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final int maxSlots;
    private final int layers;
    private Launched last = new Launched(List.of(), List.of(), 0, 0, 0);
    /**
     * Sample of the last step at which the next search for a placeholder's sequence starts, as plans tend to keep their
     * order.
     */
    private int nextSearch;

    /** How a step is enqueued. */
    public enum LaunchKind {
        /** The step touches GPU blocks alone. */
        ONE_GRAPH,
        /** The step has prefill offload. */
        GRAPH_PER_LAYER,
        /**
         * The step has many rows, two sub-batches, same-layer tokens or resumed tokens: a graph where its shape
         * repeats, else kernel by kernel.
         */
        PASSES
    }

    /**
     * A step that has been enqueued.
     *
     * @param sampled chunks in the order of the sampled rows; slots follow
     * @param draws how each of them is drawn; empty where the engine samples
     * @param slots those of resumed tokens included
     * @param passes sub-batches that wait for host tokens
     */
    public record Launched(
            List<Chunk> sampled, List<Optional<TokenSampler.Draw>> draws, int firstSlotSample, int slots, int passes) {
        /**
         * Whether the GPU samples every token, with draws that do not depend on earlier tokens. Then the next step may
         * be submitted before this one's tokens are known.
         */
        public boolean allowsAsyncScheduling() {
            return draws.stream()
                    .allMatch(
                            draw -> draw.filter(TokenSampler.Draw::foreseeable).isPresent());
        }
    }

    /**
     * Addresses of pinned memory to which a step reports.
     *
     * @param tokens sampled tokens, then the host tokens that passed the last layer
     * @param stamps times
     * @param logprobs log-probabilities
     */
    public record Report(long tokens, long stamps, long logprobs) {}

    public StepLauncher(
            Stream stream,
            GpuSampler sampler,
            Bitmasks masks,
            KvPools pools,
            StepLayout layout,
            GraphCache graphs,
            StepBuffers inputs,
            Optional<HostTokenTracker> hostTokens,
            int maxSlots,
            int layers) {
        this.stream = stream;
        this.sampler = sampler;
        this.masks = masks;
        this.pools = pools;
        this.layout = layout;
        this.graphs = graphs;
        this.inputs = inputs;
        this.hostTokens = hostTokens;
        this.maxSlots = maxSlots;
        this.layers = layers;
    }

    /**
     * Enqueues a step.
     *
     * @param batches as {@link PlanRows} orders them
     * @param kind by {@link #kindOf}
     */
    public Launched launch(StepPlan plan, List<List<Chunk>> batches, LaunchKind kind, Report report) {
        int slots = PlanRows.slots(plan, maxSlots);
        List<Resumed> resumed =
                hostTokens.map(tokens -> tokens.resume(plan.resume())).orElse(List.of());
        int rows = batches.stream().flatMap(List::stream).mapToInt(Chunk::rows).sum();
        int sameLayer = (int) batches.stream()
                .flatMap(List::stream)
                .filter(chunk -> chunk.site() == AttentionSite.CPU_FROM_HOST)
                .count();
        if (rows + slots + resumed.size() == 0) {
            pools.upload(stream);
            pools.begin(stream);
            pools.end(stream);
            last = new Launched(List.of(), List.of(), 0, 0, 0);
            return last;
        }
        Launched launched = switch (kind) {
            case ONE_GRAPH -> oneGraph(plan, batches.getFirst(), rows, slots);
            case GRAPH_PER_LAYER ->
                replay(plan, batches.getFirst(), rows, slots, SlotLayers.ALL, graphs::launchPrefillOffload);
            case PASSES -> passes(plan, batches, slots, resumed, sameLayer);
        };
        StepBuffer step = kind == LaunchKind.PASSES ? inputs.first() : inputs.graph();
        int samples = launched.firstSlotSample() + launched.slots();
        choose(step, launched, samples, report);
        if (samples > 0) {
            sampler.report(stream, samples, launched.slots(), launched.passes(), report.tokens(), report.stamps());
        }
        last = launched;
        return launched;
    }

    /**
     * Samples the tokens that are not argmax tokens, and reports log-probabilities. Bitmasks may still be computed
     * while the GPU runs the layers, which are enqueued before.
     */
    private void choose(StepBuffer step, Launched launched, int samples, Report report) {
        int slots = launched.slots();
        boolean slotsDraw = slots > 0 && hostTokens.orElseThrow().queues().draws();
        if (step.adjustedCount() > 0) {
            sampler.adjust(stream, step);
        }
        mask(launched);
        if (step.drawCount() > 0 || slotsDraw) {
            sampler.sample(stream, step, step.drawCount(), slotsDraw ? slots : 0, samples);
        }
        boolean slotsReport = slots > 0 && hostTokens.orElseThrow().queues().reportsLogprobs();
        if (step.reportsLogprobs() || slotsReport) {
            sampler.logprobs(
                    stream, step, step.drawCount(), slotsReport ? slots : 0, samples - slots, report.logprobs());
        }
    }

    private void mask(Launched launched) {
        masks.clear();
        for (int row = 0; row < launched.draws().size(); row++) {
            if (launched.draws().get(row).filter(TokenSampler.Draw::masked).isPresent()) {
                TokenSampler of = launched.sampled().get(row).sampler().orElseThrow();
                masks.add(row, of.matcher().orElseThrow());
            }
        }
        if (masks.count() > 0) {
            masks.upload(stream);
            sampler.mask(stream, masks);
        }
    }

    /** How a step of a plan is launched, whose chunks are these. */
    public LaunchKind kindOf(StepPlan plan, List<List<Chunk>> batches) {
        if (batches.size() > 1 || !plan.resume().isEmpty()) {
            return LaunchKind.PASSES;
        }
        int rows = 0;
        boolean offloadsPrefill = false;
        for (Chunk chunk : batches.getFirst()) {
            rows += chunk.rows();
            offloadsPrefill |= chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
            if (chunk.site() != AttentionSite.GPU_FROM_GPU && chunk.site() != AttentionSite.GPU_PREFILL_OFFLOAD) {
                return LaunchKind.PASSES;
            }
        }
        if (rows > inputs.graphRows()) {
            return LaunchKind.PASSES;
        }
        return offloadsPrefill ? LaunchKind.GRAPH_PER_LAYER : LaunchKind.ONE_GRAPH;
    }

    /** The token's id, or for a placeholder -1 - the sample of the last step, whose token is on the GPU. */
    private int token(long sequence, int token) {
        if (token != Chunk.PLACEHOLDER) {
            return token;
        }
        List<Chunk> sampled = last.sampled();
        for (int i = 0; i < sampled.size(); i++) {
            int at = (nextSearch + i) % sampled.size();
            if (sampled.get(at).sequence() == sequence) {
                nextSearch = at + 1;
                return -1 - at;
            }
        }
        throw new ExecutorException(
                "sequence " + sequence + " has a placeholder token that the step before does not sample");
    }

    /**
     * Replays a step as one graph. A captured step computes its slots at every layer, which costs much where they are
     * many: then they are computed only at the layers where in-flight tokens may return, kernel by kernel.
     */
    private Launched oneGraph(StepPlan plan, List<Chunk> chunks, int rows, int slots) {
        Optional<SlotLayers> some = slots > HostLinkMemory.USUAL_SLOTS ? slotLayers(plan) : Optional.empty();
        return some.isPresent()
                ? replay(plan, chunks, rows, slots, some.get(), key -> graphs.launchAtLayers(key, some.get()))
                : replay(plan, chunks, rows, slots, SlotLayers.ALL, graphs::launch);
    }

    /** The layers that need slots; empty where that is most of them. */
    private Optional<SlotLayers> slotLayers(StepPlan plan) {
        Optional<ReturnLayers> returns = hostTokens.orElseThrow().returnLayers();
        boolean enter = !plan.admissions().isEmpty();
        int first = enter ? -1 : returns.map(ReturnLayers::first).orElse(0);
        int last = Math.min(returns.map(ReturnLayers::last).orElse(-1), layers - 1);
        return last - first + 1 > layers / 2 ? Optional.empty() : Optional.of(SlotLayers.between(first, last));
    }

    private Launched replay(
            StepPlan plan,
            List<Chunk> chunks,
            int rows,
            int slots,
            SlotLayers slotLayers,
            Consumer<GraphCache.Key> launch) {
        List<Chunk> sampled = new ArrayList<>();
        StepBuffer step = inputs.graph();
        layout.fill(step, chunks, pools, this::token, this::noHostToken, sampled);
        List<Optional<TokenSampler.Draw>> draws = draws(step, sampled);
        GraphCache.Key key = graphs.key(rows, sampled.size(), step.tileCount(), slots);
        layout.spread(step, slots);
        // slots come last, after the padding of the graph's rows and samples
        int first = key.rows() - slots;
        int firstSample = key.sampled() - slots;
        admit(plan, step, first, slots, firstSample);
        StepLayout.padRows(step, rows, first);
        StepLayout.padSamples(step, sampled.size(), firstSample);
        step.fillTiles(key.tiles());
        pools.upload(stream);
        step.upload(stream);
        launch.accept(key);
        return new Launched(sampled, draws, firstSample, slotLayers.after(layers - 1) ? slots : 0, 0);
    }

    private Launched passes(StepPlan plan, List<List<Chunk>> batches, int slots, List<Resumed> resumed, int sameLayer) {
        List<Chunk> sampled = new ArrayList<>();
        List<Pass> passes = new ArrayList<>(batches.size());
        List<StepBuffer> steps = new ArrayList<>(batches.size());
        long tasks = sameLayer == 0 ? 0 : hostTokens.orElseThrow().queues().reserveTasks((long) sameLayer * layers);
        int before = 0;
        boolean padded = false;
        for (List<Chunk> chunks : batches) {
            boolean last = passes.size() + 1 == batches.size();
            StepBuffer step =
                    passes.isEmpty() ? inputs.first() : inputs.second().orElseThrow(StepLauncher::oneSubBatch);
            int slotsHere = last ? slots : 0;
            List<Resumed> resumedHere = last ? resumed : List.of();
            int inFlight = slotsHere + resumedHere.size();
            checkRoom(step, chunks, inFlight);
            Filled filled = layout.fill(step, chunks, pools, this::token, this::admitSameLayer, sampled);
            layout.spread(step, slotsHere);
            admit(plan, step, filled.rows(), slotsHere, filled.sampled());
            StepLayout.resumed(step, filled.rows(), slotsHere, filled.sampled(), resumedHere);
            step.hostTokens(filled.firstHostToken(), filled.hostTokens(), sameLayer, before, tasks);
            before += filled.hostTokens();
            padded = batches.size() == 1 && isPadded(step, filled, inFlight);
            int rows = filled.rows() + inFlight;
            int samples = filled.sampled() + inFlight;
            if (padded) {
                int bucket = GraphCache.bucket(rows);
                StepLayout.pad(step, rows, bucket);
                rows = bucket;
                samples = bucket;
            }
            passes.add(new Pass(
                    step,
                    Extent.of(rows, samples)
                            .withDecodes(filled.decodes() > 0)
                            .withTiles(step.tileCount())
                            .withSlots(slotsHere)
                            .withResumed(resumedHere.size())
                            .withHostTokens(filled.hostTokens()),
                    SlotLayers.resuming(
                            resumedHere.stream().map(Resumed::earliestLayer).toList())));
            steps.add(step);
        }
        List<Optional<TokenSampler.Draw>> draws = draws(inputs.first(), sampled);
        pools.upload(stream);
        steps.forEach(step -> step.upload(stream));
        graphs.launch(passes, padded);
        boolean waits = sameLayer + resumed.size() > 0;
        return new Launched(sampled, draws, sampled.size(), slots + resumed.size(), waits ? passes.size() : 0);
    }

    /** Whether a step of one batch is a decode step with same-layer tokens, which is padded so that it has a graph. */
    private boolean isPadded(StepBuffer step, Filled filled, int inFlight) {
        int bucket = GraphCache.bucket(filled.rows());
        return filled.hostTokens() > 0
                && inFlight == 0
                && step.tileCount() == 0
                && filled.sampled() == filled.rows()
                && bucket <= inputs.graphRows()
                && bucket <= Math.min(step.rowCapacity(), step.sampleCapacity());
    }

    private static ExecutorException oneSubBatch() {
        return new ExecutorException(
                "this plan has two sub-batches; without attention threads the CUDA executor runs one");
    }

    private static void checkRoom(StepBuffer step, List<Chunk> chunks, int slots) {
        int rows = chunks.stream().mapToInt(Chunk::rows).sum() + slots;
        if (rows > step.rowCapacity()) {
            throw new ExecutorException(
                    "a sub-batch has " + rows + " rows; the CUDA executor takes at most " + step.rowCapacity());
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

    private HostToken admitSameLayer(Admission admission) {
        return hostTokens.orElseThrow().admitSameLayer(admission);
    }

    private HostToken noHostToken(Admission admission) {
        throw new IllegalStateException(
                "sequence " + admission.sequence() + " has a same-layer token in a step that is replayed");
    }

    /** How each sampled row is drawn; the draws that the GPU makes are written to {@code step}. */
    private List<Optional<TokenSampler.Draw>> draws(StepBuffer step, List<Chunk> sampled) {
        List<Optional<TokenSampler.Draw>> draws = new ArrayList<>(sampled.size());
        int masked = 0;
        for (Chunk chunk : sampled) {
            TokenSampler sampler = chunk.sampler().orElseThrow();
            Optional<TokenSampler.Draw> draw = sampler.draw(step.adjustmentRoom(), masked < masks.max());
            masked += draw.filter(TokenSampler.Draw::masked).isPresent() ? 1 : 0;
            draw.filter(d -> !d.isMostProbable()).ifPresent(d -> step.draw(draws.size(), d, sampler.adjustments()));
            draws.add(draw);
        }
        return draws;
    }
}
