package dev.tandem.cuda.step;

import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.forward.CudaForward.Pass;
import dev.tandem.cuda.forward.Extent;
import dev.tandem.cuda.forward.ScoredRows;
import dev.tandem.cuda.forward.SlotLayers;
import dev.tandem.cuda.hostattention.HostAttentionQueues;
import dev.tandem.cuda.hostattention.HostToken;
import dev.tandem.cuda.hostattention.HostTokenTracker;
import dev.tandem.cuda.hostattention.HostTokenTracker.Resumed;
import dev.tandem.cuda.kv.KvPools;
import dev.tandem.cuda.sampling.Bitmasks;
import dev.tandem.cuda.sampling.GpuSampler;
import dev.tandem.cuda.sampling.PromptScores;
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
import java.util.Set;
import java.util.function.Consumer;

/**
 * Writes plans into step buffers and enqueues their kernels: steps of few rows as CUDA graphs, other steps kernel by
 * kernel.
 *
 * <p>Owned by: engine thread.
 */
public final class StepLauncher {
    private final Stream stream;
    private final GpuSampler sampler;
    private final Bitmasks masks;
    private final PromptScores scores;
    private final KvPools pools;
    private final StepLayout layout;
    private final GraphCache graphs;
    private final StepBuffers inputs;
    /** Empty without attention threads. */
    private final Optional<HostTokenTracker> hostTokens;

    private final int maxSlots;
    private final int layers;
    private Launched last;
    /**
     * Sample of the last step at which the next search for a placeholder's sequence starts, as plans tend to keep their
     * order.
     */
    private int nextSearch;

    /** How a step is enqueued. */
    public enum LaunchKind {
        /** The step touches GPU blocks alone. */
        ONE_GRAPH,
        /**
         * The step has many rows, two sub-batches, same-layer tokens or resumed tokens: a graph where its shape
         * repeats, else kernel by kernel. Steps that score or offload prompts are never graphs.
         */
        PASSES
    }

    /**
     * A step whose layers have been enqueued.
     *
     * @param inputs with the draws
     * @param sampled chunks in the order of the sampled rows; slots follow
     * @param onGpu whether the GPU samples every one of them
     * @param slots those of resumed tokens included
     * @param passes sub-batches that wait for host tokens
     * @param draws how each row of {@code sampled} is drawn; empty where the engine samples, and for skipped sequences
     * @param skipped sequences whose rows are not sampled
     * @param scored chunks whose prompts are scored
     * @param sameLayer its same-layer tokens
     */
    public record Launched(
            StepBuffer inputs,
            List<Chunk> sampled,
            boolean onGpu,
            int firstSlotSample,
            int slots,
            int passes,
            List<Optional<TokenSampler.Draw>> draws,
            Set<Long> skipped,
            List<PromptScores.Scored> scored,
            List<HostToken> sameLayer) {
        private int samples() {
            return firstSlotSample + slots;
        }

        private Launched with(List<Optional<TokenSampler.Draw>> drawn, Set<Long> without) {
            return new Launched(
                    inputs, sampled, onGpu, firstSlotSample, slots, passes, drawn, without, scored, sameLayer);
        }
    }

    /** When a step's rows are sampled. */
    public enum Sampling {
        /** Behind its layers; their draws are uploaded with the step's other inputs. */
        NOW,
        /** By {@link #draw} and {@link #sampleLater}, once the tokens of the step before are known. */
        LATER
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
            PromptScores scores,
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
        this.scores = scores;
        this.pools = pools;
        this.layout = layout;
        this.graphs = graphs;
        this.inputs = inputs;
        this.hostTokens = hostTokens;
        this.maxSlots = maxSlots;
        this.layers = layers;
        this.last = nothing(inputs);
    }

    private static Launched nothing(StepBuffers inputs) {
        return new Launched(inputs.first(), List.of(), true, 0, 0, 0, List.of(), Set.of(), List.of(), List.of());
    }

    /**
     * Enqueues a step, without its sampling if that comes {@link Sampling#LATER}.
     *
     * @param batches as {@link PlanRows} orders them
     * @param kind by {@link #kindOf}
     */
    public Launched launch(
            StepPlan plan, List<List<Chunk>> batches, LaunchKind kind, Sampling sampling, Report report) {
        int slots = PlanRows.slots(plan, maxSlots);
        List<Resumed> resumed =
                hostTokens.map(tokens -> tokens.resume(plan.resume())).orElse(List.of());
        int rows = batches.stream().flatMap(List::stream).mapToInt(Chunk::rows).sum();
        int sameLayer = sameLayer(batches);
        if (rows + slots + resumed.size() == 0) {
            pools.upload(stream);
            pools.begin(stream);
            pools.end(stream);
            last = nothing(inputs);
            return last;
        }
        last = switch (kind) {
            case ONE_GRAPH -> replayOrRun(plan, batches.getFirst(), rows, slots, sampling);
            case PASSES -> passes(plan, batches, slots, resumed, sameLayer, sampling);
        };
        if (sampling == Sampling.NOW) {
            fillBitmasks(last);
            chooseAndReport(last, report);
        }
        return last;
    }

    /**
     * Makes the draws of a step that was launched for {@link Sampling#LATER}, and waits for their bitmasks. It enqueues
     * nothing. The step before has ended.
     *
     * @param skipped sequences whose rows are not sampled
     */
    public Launched draw(Launched launched, Set<Long> skipped) {
        Launched drawn = launched.with(draws(launched.inputs(), launched.sampled(), skipped), skipped);
        fillBitmasks(drawn);
        return drawn;
    }

    /** Enqueues the sampling of a step after {@link #draw}. No other step has been launched since its layers. */
    public void sampleLater(Launched drawn, Report report) {
        drawn.inputs().uploadDraws(stream);
        chooseAndReport(drawn, report);
    }

    private void chooseAndReport(Launched launched, Report report) {
        choose(launched, report);
        if (launched.samples() > 0) {
            sampler.report(
                    stream, launched.samples(), launched.slots(), launched.passes(), report.tokens(), report.stamps());
        }
    }

    /** Samples the tokens that are not argmax tokens, and reports log-probabilities. */
    private void choose(Launched launched, Report report) {
        StepBuffer step = launched.inputs();
        int samples = launched.samples();
        int slots = launched.slots();
        boolean slotsDraw = slots > 0 && hostTokens.orElseThrow().queues().draws();
        if (step.adjustedCount() > 0) {
            sampler.adjust(stream, step);
        }
        if (masks.count() > 0) {
            masks.upload(stream);
            sampler.mask(stream, masks);
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

    private void fillBitmasks(Launched launched) {
        masks.clear();
        for (int row = 0; row < launched.draws().size(); row++) {
            if (launched.draws().get(row).filter(TokenSampler.Draw::masked).isPresent()) {
                TokenSampler of = launched.sampled().get(row).sampler().orElseThrow();
                masks.add(row, of.matcher().orElseThrow());
            }
        }
    }

    /**
     * Whether the next step may be launched while a step of these chunks runs, or such a step while the one before
     * runs: it has few rows, swaps nothing and resumes nothing. Prefill offload is no hindrance: its copies follow the
     * order of the GPU's steps. Nor is attention on the CPU, because a task is pushed by a kernel of its step. But a
     * sequence may not be in flight while it has a same-layer token: a result could not say which of the two is lost.
     */
    boolean isShort(StepPlan plan, List<List<Chunk>> batches) {
        int rows = 0;
        for (List<Chunk> chunks : batches) {
            for (Chunk chunk : chunks) {
                rows += chunk.rows();
                boolean offloads = chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD;
                if (chunk.scores(0) || offloads && !pools.offloadsAhead()) {
                    return false;
                }
            }
        }
        return plan.swaps().isEmpty()
                && plan.resume().isEmpty()
                && rows <= inputs.graphRows()
                && hostTokens.stream().allMatch(tokens -> mayEnter(tokens.queues(), plan, sameLayer(batches)));
    }

    private static boolean mayEnter(HostAttentionQueues queues, StepPlan plan, int sameLayer) {
        boolean apart = plan.admissions().isEmpty() || sameLayer == 0 && !queues.hasSameLayer();
        return apart && queues.hasRoom(sameLayer);
    }

    private static int sameLayer(List<List<Chunk>> batches) {
        return (int) batches.stream()
                .flatMap(List::stream)
                .filter(chunk -> chunk.site() == AttentionSite.CPU_FROM_HOST)
                .count();
    }

    /** How a step of a plan is launched, whose chunks are these. */
    public LaunchKind kindOf(StepPlan plan, List<List<Chunk>> batches) {
        if (batches.size() > 1 || !plan.resume().isEmpty()) {
            return LaunchKind.PASSES;
        }
        int rows = 0;
        for (Chunk chunk : batches.getFirst()) {
            rows += chunk.rows();
            if (chunk.scores(0) || chunk.site() != AttentionSite.GPU_FROM_GPU) {
                return LaunchKind.PASSES;
            }
        }
        return rows > inputs.graphRows() ? LaunchKind.PASSES : LaunchKind.ONE_GRAPH;
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
     * Replays a step by its graph. A captured step computes all slots at every layer, so a step that counts them by
     * layer is run kernel by kernel.
     */
    private Launched replayOrRun(StepPlan plan, List<Chunk> chunks, int rows, int slots, Sampling sampling) {
        Optional<SlotLayers> some = slotLayers(plan, slots);
        return some.isPresent()
                ? replay(plan, chunks, rows, slots, sampling, some.get(), key -> graphs.launchAtLayers(key, some.get()))
                : replay(plan, chunks, rows, slots, sampling, SlotLayers.ALL, graphs::launch);
    }

    /** The plan's slots by layer, before its tokens enter; empty for all of them at every layer. */
    private Optional<SlotLayers> slotLayers(StepPlan plan, int slots) {
        return hostTokens.flatMap(tokens -> PlanRows.slotLayers(plan, slots, () -> tokens.returning(layers)));
    }

    private Launched replay(
            StepPlan plan,
            List<Chunk> chunks,
            int rows,
            int slots,
            Sampling sampling,
            SlotLayers slotLayers,
            Consumer<GraphCache.Key> launch) {
        List<Chunk> sampled = new ArrayList<>();
        StepBuffer step = inputs.graph();
        layout.fill(step, chunks, pools, this::token, this::noHostToken, sampled);
        boolean onGpu = drawsOnGpu(step, sampled);
        List<Optional<TokenSampler.Draw>> draws = drawsNow(step, sampled, sampling);
        GraphCache.Key key = slotLayers.countsByLayer()
                ? graphs.keyAtLayers(rows, sampled.size(), step.tileCount(), slots)
                : graphs.key(rows, sampled.size(), step.tileCount(), slots);
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
        int returned = slotLayers.after(layers - 1, slots);
        return new Launched(step, sampled, onGpu, firstSample, returned, 0, draws, Set.of(), List.of(), List.of());
    }

    private Launched passes(
            StepPlan plan,
            List<List<Chunk>> batches,
            int slots,
            List<Resumed> resumed,
            int sameLayer,
            Sampling sampling) {
        List<Chunk> sampled = new ArrayList<>();
        List<Pass> passes = new ArrayList<>(batches.size());
        List<StepBuffer> steps = new ArrayList<>(batches.size());
        List<PromptScores.Scored> scored = new ArrayList<>();
        List<HostToken> entered = new ArrayList<>();
        scores.clear();
        SlotLayers slotLayers = slotLayers(plan, slots)
                .orElseGet(() -> SlotLayers.resuming(
                        resumed.stream().map(Resumed::earliestLayer).toList()));
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
            hostTokens.ifPresent(tokens -> tokens.queues().beginSubBatch());
            Filled filled = layout.fill(
                    step, chunks, pools, this::token, admission -> admitSameLayer(admission, entered), sampled);
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
            ScoredRows scoredRows = scores.add(chunks, scored);
            passes.add(new Pass(
                    step,
                    Extent.of(rows, samples)
                            .withDecodes(filled.decodes() > 0)
                            .withTiles(step.tileCount())
                            .withSlots(slotsHere)
                            .withResumed(resumedHere.size())
                            .withHostTokens(filled.hostTokens()),
                    last ? slotLayers : SlotLayers.ALL,
                    scoredRows));
            steps.add(step);
        }
        boolean onGpu = drawsOnGpu(inputs.first(), sampled);
        List<Optional<TokenSampler.Draw>> draws = drawsNow(inputs.first(), sampled, sampling);
        pools.upload(stream);
        steps.forEach(step -> step.upload(stream));
        scores.upload(stream);
        graphs.launch(passes, padded);
        int waiting = sameLayer + resumed.size() > 0 ? passes.size() : 0;
        int returned = slotLayers.after(layers - 1, slots) + resumed.size();
        return new Launched(
                inputs.first(),
                sampled,
                onGpu,
                sampled.size(),
                returned,
                waiting,
                draws,
                Set.of(),
                scored,
                List.copyOf(entered));
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

    private HostToken admitSameLayer(Admission admission, List<HostToken> entered) {
        HostToken hostToken = hostTokens.orElseThrow().admitSameLayer(admission);
        entered.add(hostToken);
        return hostToken;
    }

    private HostToken noHostToken(Admission admission) {
        throw new IllegalStateException(
                "sequence " + admission.sequence() + " has a same-layer token in a step that is replayed");
    }

    /**
     * Whether the GPU has room for the draws of all rows. They may be made later, when each sampler knows one token
     * more, which adds one adjustment at most.
     */
    private boolean drawsOnGpu(StepBuffer step, List<Chunk> sampled) {
        int room = step.adjustmentRoom();
        int masked = 0;
        for (Chunk chunk : sampled) {
            TokenSampler sampler = chunk.sampler().orElseThrow();
            if (!sampler.drawsOnDevice(room - 1, masked < masks.max())) {
                return false;
            }
            room -= sampler.adjustments().count() + 1;
            masked += sampler.matcher().isPresent() ? 1 : 0;
        }
        return true;
    }

    private List<Optional<TokenSampler.Draw>> drawsNow(StepBuffer step, List<Chunk> sampled, Sampling sampling) {
        return sampling == Sampling.NOW ? draws(step, sampled, Set.of()) : List.of();
    }

    /** How each sampled row is drawn; the draws that the GPU makes are written to {@code step}. */
    private List<Optional<TokenSampler.Draw>> draws(StepBuffer step, List<Chunk> sampled, Set<Long> skipped) {
        List<Optional<TokenSampler.Draw>> draws = new ArrayList<>(sampled.size());
        int masked = 0;
        for (Chunk chunk : sampled) {
            if (skipped.contains(chunk.sequence())) {
                draws.add(Optional.empty());
                continue;
            }
            TokenSampler sampler = chunk.sampler().orElseThrow();
            Optional<TokenSampler.Draw> draw = sampler.draw(step.adjustmentRoom(), masked < masks.max());
            masked += draw.filter(TokenSampler.Draw::masked).isPresent() ? 1 : 0;
            draw.filter(d -> !d.isMostProbable()).ifPresent(d -> step.draw(draws.size(), d, sampler.adjustments()));
            draws.add(draw);
        }
        return draws;
    }
}
