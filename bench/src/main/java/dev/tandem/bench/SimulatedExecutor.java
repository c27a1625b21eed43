package dev.tandem.bench;

import dev.tandem.engine.clock.VirtualClock;
import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;
import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.AttentionSpan;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.CpuTasks;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.step.SubBatch;
import dev.tandem.engine.strategy.Stages;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Queue;

/**
 * Simulates step plans: instead of computing, it advances a virtual clock by the time that a profile predicts.
 *
 * <p>The GPU's time is the sum of its components. Tokens of one batch are padded to the size of a CUDA graph. CPU
 * attention is one queue, served at the CPU's full bandwidth. An in-flight token rejoins at a layer once its attention
 * is back, as on hardware. Not simulated: swaps beyond what delays the first layer, and what copies take of the GPU.
 *
 * <p>Owned by: the thread that simulates.
 */
public final class SimulatedExecutor implements Executor {
    private static final Comparator<HostToken> FIRST_READY = Comparator.comparingDouble(token -> token.ready);

    /** The numbers of tokens for which decode graphs exist; larger steps have multiples of {@link #BUCKET_STEP}. */
    private static final int[] BUCKETS = {1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 160};

    private static final int BUCKET_STEP = 64;
    /**
     * GEMMs read multiples of so many rows (gemv_tma.cu, gemm_wgmma.cu), those of a library multiples of
     * {@link #BUCKET_STEP}.
     */
    private static final int ROWS_OF_GEMM = 8;
    /** Max rows of gemm_wgmma.cu; more are the library's. */
    private static final int MAX_WGMMA_ROWS = 192;

    /** Min slots of a step that has in-flight tokens. */
    private static final int MIN_SLOTS = 8;
    /** Max slots that are always computed at all layers. */
    private static final int USUAL_SLOTS = 64;
    /** Layers that a token may be ahead of where it was last seen when the next step is submitted. */
    private static final int LAYERS_UNSEEN = 2;
    /** Host tokens that together use the CPU's full bandwidth: as many as there are attention workers. */
    private static final int FULL_BANDWIDTH_TOKENS = 14;

    /** The token that every simulated sampler chooses. */
    static final int SAMPLED_TOKEN = 5;

    private final ExecutorLimits limits;
    private final AttentionSpan span;
    private final CostModel machine;
    private final VirtualClock clock;
    private final Map<Long, HostToken> hostTokens = new LinkedHashMap<>();
    private final Queue<StepResult> results = new ArrayDeque<>();
    /** The virtual time in seconds at which the CPU has finished all attention requested so far. */
    private double cpuFree;

    private double cpuBusy;
    private double busyBefore;
    /** Tasks of in-flight tokens since the last step, and the context tokens of these. */
    private long tasks;

    private long taskTokens;
    private double hostLostAt = Double.POSITIVE_INFINITY;
    /** Whether each layer computes only the in-flight tokens that rejoin there, rather than slots. */
    private boolean occupiedLayersOnly;

    private final TimingErrors.Draws errors;

    private static final class HostToken {
        final Admission admission;
        int layer;
        double ready;

        HostToken(Admission admission) {
            this.admission = admission;
        }
    }

    /**
     * A simulated executor.
     *
     * @param machine predicts how long steps take; must not be the cost model that the engine calibrates
     */
    public SimulatedExecutor(ExecutorLimits limits, CostModel machine, VirtualClock clock) {
        this(limits, machine, clock, TimingErrors.NONE);
    }

    private SimulatedExecutor(ExecutorLimits limits, CostModel machine, VirtualClock clock, TimingErrors errors) {
        this.limits = limits;
        this.span = limits.span();
        this.machine = machine;
        this.clock = clock;
        this.errors = new TimingErrors.Draws(errors);
    }

    /**
     * A simulated executor of a machine that differs from the profile.
     *
     * @param profile what the scheduler predicts from
     */
    public static SimulatedExecutor withErrors(
            ExecutorLimits limits, Profile profile, VirtualClock clock, TimingErrors errors) {
        return new SimulatedExecutor(limits, new CostModel(errors.machine(profile)), clock, errors);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    /** Makes the host fail: from this virtual time on, every token whose attention the CPU computes is lost. */
    public void loseHostAt(double seconds) {
        hostLostAt = seconds;
    }

    /**
     * Has each layer compute only the in-flight tokens that rejoin there, as a paper's own executor would a cohort
     * (APEX §3.3). The CUDA executor has slots.
     */
    public void computeOccupiedLayersOnly() {
        occupiedLayersOnly = true;
    }

    /** Seconds of CPU attention so far. */
    public double cpuBusySeconds() {
        return cpuBusy;
    }

    @Override
    public boolean computesInSubmit() {
        return true;
    }

    @Override
    public void submit(StepPlan plan) {
        double start = clock.nanos() / 1e9;
        List<Long> parked = new ArrayList<>();
        for (long key : plan.pause()) {
            if (hostTokens.remove(key) != null) {
                parked.add(key);
            }
        }
        int slots = plan.slotsPerLayer() == 0 && plan.admissions().isEmpty() ? 0 : slots(plan);
        double load = (hostTokens.isEmpty() ? 1 : machine.hostLoad()) * errors.step();
        int[] slotsByLayer = slotsByLayer(plan, slots);
        for (Admission admission : plan.admissions()) {
            HostToken hostToken = new HostToken(admission);
            hostTokens.put(admission.sequence(), hostToken);
            requestAttention(hostToken, start);
        }
        List<StepResult.Lost> lost = start >= hostLostAt ? lost(plan) : List.of();
        List<HostToken> resumed = plan.resume().stream()
                .map(hostTokens::remove)
                .filter(Objects::nonNull)
                .toList();
        List<StepResult.Sampled> sampled = new ArrayList<>();
        resumed.forEach(token -> sampled.add(sampled(token)));
        int lastSlots = occupiedLayersOnly ? 0 : slotsByLayer[limits.layers() - 1];
        double ends = ends(plan, lastSlots, resumed.size()) / limits.layers();
        double seconds = 0;
        double waited = 0;
        double attended = 0;
        LayerTime layer = null;
        List<List<HostToken>> inFlight = byLayer();
        for (int at = 0; at < limits.layers(); at++) {
            List<HostToken> rejoining =
                    inFlight.isEmpty() ? List.of() : rejoining(inFlight.get(at), start + seconds, slotsByLayer[at]);
            Resumed more = Resumed.at(resumed, at, span);
            int rows = occupiedLayersOnly ? rejoining.size() : slotsByLayer[at];
            if (layer == null || layer.slots() != rows || !layer.resumed().equals(more)) {
                layer = layer(plan, rows, more);
            }
            double cpuSeconds = layer.cpuSeconds();
            double late = 0;
            if (cpuSeconds > 0) { // in-flight tokens wait for the sub-batches, which the GPU waits for
                late = Math.max(0, cpuSeconds * (errors.task() - 1));
                cpuFree = Math.max(cpuFree, start + seconds) + cpuSeconds + late;
            }
            seconds += ends + layer.seconds() * load + late;
            waited += layer.waitSeconds() * load + late;
            attended += cpuSeconds + late;
            cpuBusy += cpuSeconds + late;
            for (HostToken token : rejoining) {
                if (advance(token, start + seconds, sampled)) {
                    inFlight.get(at + 1).add(token);
                }
            }
        }
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (lost.isEmpty() || chunk.site() != AttentionSite.CPU_FROM_HOST) {
                    chunk.sampler()
                            .ifPresent(sampler -> sampled.add(new StepResult.Sampled(
                                    chunk.sequence(), sampler.chosen(SAMPLED_TOKEN, Optional.empty()), chunk.site())));
                }
            }
        }
        clock.advance((long) (seconds * 1e9));
        StepTimes times =
                StepTimes.ofHost((long) ((cpuBusy - busyBefore) * 1e9), (long) (attended * 1e9), (long) (waited * 1e9));
        CpuTasks cpuTasks = new CpuTasks(tasks, taskTokens);
        busyBefore = cpuBusy;
        tasks = 0;
        taskTokens = 0;
        results.add(new StepResult(plan.step(), sampled, List.of(), parked, lost, times, cpuTasks));
    }

    /** All tokens that need CPU attention, in-flight tokens included, as lost; no in-flight token remains. */
    private List<StepResult.Lost> lost(StepPlan plan) {
        List<StepResult.Lost> lost = new ArrayList<>();
        hostTokens.keySet().forEach(key -> lost.add(lost(key)));
        hostTokens.clear();
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                if (chunk.site() == AttentionSite.CPU_FROM_HOST) {
                    lost.add(lost(chunk.sequence()));
                }
            }
        }
        return lost;
    }

    private static StepResult.Lost lost(long sequence) {
        return new StepResult.Lost(sequence, StepResult.Cause.HOST_ATTENTION, "the simulated host is lost", false);
    }

    /** The slots of a step; rounded up to a power of two or a multiple of 64, as the CUDA executor does. */
    private int slots(StepPlan plan) {
        int wanted = Math.max(plan.slotsPerLayer(), plan.admissions().size());
        int rounded =
                wanted <= BUCKET_STEP ? Math.max(MIN_SLOTS, Integer.highestOneBit(2 * wanted - 1)) : roundUp(wanted);
        return Math.min(rounded, limits.slotsPerLayer());
    }

    /**
     * How many slots the CUDA executor computes at each layer [layers]. Where graphs usually have as many, or tokens
     * finish within the step, these are all. Otherwise they are the tokens that may return there, unless that is more
     * than half of all.
     */
    private int[] slotsByLayer(StepPlan plan, int slots) {
        int[] all = new int[limits.layers()];
        Arrays.fill(all, slots);
        if (occupiedLayersOnly || slots <= USUAL_SLOTS || !plan.resume().isEmpty()) {
            return all;
        }
        int[] returning = new int[limits.layers()];
        returning[0] = plan.admissions().size(); // their QKV projection counts as a layer
        for (HostToken hostToken : hostTokens.values()) {
            int end = Math.min(hostToken.layer + LAYERS_UNSEEN + 1, limits.layers());
            for (int layer = hostToken.layer; layer < end; layer++) {
                returning[layer] = Math.min(returning[layer] + 1, slots);
            }
        }
        return Arrays.stream(returning).sum() > slots * limits.layers() / 2 ? all : returning;
    }

    /** In-flight tokens by their layer, so that a step visits a token once per layer it computes; empty without any. */
    private List<List<HostToken>> byLayer() {
        if (hostTokens.isEmpty()) {
            return List.of();
        }
        List<List<HostToken>> layers = new ArrayList<>();
        for (int at = 0; at < limits.layers(); at++) {
            layers.add(new ArrayList<>());
        }
        hostTokens.values().forEach(token -> layers.get(token.layer).add(token));
        return layers;
    }

    /** Tokens of a layer whose attention is back, in the order of completion, up to the slots. */
    private static List<HostToken> rejoining(List<HostToken> inFlight, double now, int slots) {
        List<HostToken> ready = new ArrayList<>();
        for (HostToken hostToken : inFlight) {
            if (hostToken.ready <= now) {
                ready.add(hostToken);
            }
        }
        ready.sort(FIRST_READY);
        return ready.size() <= slots ? ready : ready.subList(0, slots);
    }

    /**
     * Takes a token that has rejoined to the next layer, or ends it after the last; returns whether there is a next.
     */
    private boolean advance(HostToken hostToken, double now, List<StepResult.Sampled> sampled) {
        if (hostToken.layer + 1 == limits.layers()) {
            hostTokens.remove(hostToken.admission.sequence());
            sampled.add(sampled(hostToken));
            return false;
        }
        hostToken.layer++;
        requestAttention(hostToken, now);
        return true;
    }

    private static StepResult.Sampled sampled(HostToken hostToken) {
        return new StepResult.Sampled(
                hostToken.admission.sequence(),
                hostToken.admission.sampler().chosen(SAMPLED_TOKEN, Optional.empty()),
                AttentionSite.CPU_FROM_HOST);
    }

    /**
     * Tokens that finish within the step, at one layer (APEX §3.4, rule 4). A token that has passed i layers adds work
     * from layer i on only; its attention of layer i is requested already.
     *
     * @param rows of the GEMMs
     * @param attended tokens whose attention the CPU still computes
     * @param tokens of context of these
     */
    private record Resumed(int rows, int attended, long tokens) {
        static Resumed at(List<HostToken> resumed, int layer, AttentionSpan span) {
            int rows = 0;
            int attended = 0;
            long tokens = 0;
            for (HostToken token : resumed) {
                rows += token.layer <= layer ? 1 : 0;
                if (token.layer < layer) {
                    attended++;
                    tokens += span.tokens(token.admission.position() + 1);
                }
            }
            return new Resumed(rows, attended, tokens);
        }
    }

    /** Adds a token's attention to the CPU's queue. */
    private void requestAttention(HostToken hostToken, double now) {
        int context = span.tokens(hostToken.admission.position() + 1);
        double alone =
                cpuAttention(FULL_BANDWIDTH_TOKENS, (long) FULL_BANDWIDTH_TOKENS * context) / FULL_BANDWIDTH_TOKENS;
        double together = alone * FULL_BANDWIDTH_TOKENS;
        double task = errors.task();
        // a worker's delay is its own: the others go on at the full bandwidth
        cpuFree = Math.max(cpuFree, now) + alone;
        cpuBusy += alone;
        tasks++;
        taskTokens += context;
        hostToken.ready = cpuFree - alone + together * task;
    }

    /** Seconds of CPU attention in a step that begins now. */
    private double cpuAttention(int hostTokens, long tokens) {
        return errors.hostAttention(clock.nanos() / 1e9) * machine.cpuAttention(hostTokens, tokens);
    }

    /** Seconds of a step outside its layers. */
    private double ends(StepPlan plan, int slots, int resumed) {
        int outputs = slots + resumed;
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                outputs += chunk.sampler().isPresent() ? 1 : 0;
            }
        }
        return machine.preLayer(plan.rows() + 2 * slots)
                + (outputs > 0 ? machine.postLayer(outputs) : 0)
                + machine.stepOverhead()
                + exposed(plan);
    }

    /**
     * A layer's times in seconds, and the tokens that they are of beside those of the plan.
     *
     * @param waitSeconds in which the GPU waits for the CPU
     */
    private record LayerTime(int slots, Resumed resumed, double seconds, double waitSeconds, double cpuSeconds) {}

    /**
     * The times of one layer of a step, with its part of what the last layer waits longer.
     *
     * @param slots rows of in-flight tokens, in the last sub-batch
     * @param resumed tokens that finish within the step, in the last sub-batch too
     */
    private LayerTime layer(StepPlan plan, int slots, Resumed resumed) {
        int batches = Math.max(1, plan.subBatches().size());
        double[] linear = new double[batches];
        double[] gpu = new double[batches];
        double[] cpu = new double[batches];
        double[] hostTokens = new double[batches];
        boolean waits = false;
        for (int b = 0; b < batches; b++) {
            boolean last = b == batches - 1;
            List<Chunk> chunks =
                    b < plan.subBatches().size() ? plan.subBatches().get(b).chunks() : List.of();
            int rows = last ? slots + resumed.rows() : 0;
            long gpuTokens = 0;
            long cpuTokens = last ? resumed.tokens() : 0;
            int cpuRows = last ? resumed.attended() : 0;
            int sameLayer = 0;
            long pairs = 0;
            for (Chunk chunk : chunks) {
                rows += chunk.rows();
                if (chunk.site() == AttentionSite.CPU_FROM_HOST) {
                    cpuRows++;
                    sameLayer++;
                    cpuTokens += span.tokens(chunk.start() + 1);
                } else if (chunk.decodes()) {
                    gpuTokens += span.tokens(chunk.start() + 1);
                } else {
                    pairs += span.pairs(chunk.start(), chunk.rows());
                }
            }
            linear[b] = rows == 0 && batches == 2 ? 0 : machine.linear(batches == 2 ? gemmRows(rows) : padded(rows));
            gpu[b] = (gpuTokens > 0 ? machine.gpuAttention(gpuTokens) : 0)
                    + (pairs > 0 ? machine.prefillAttention(pairs) : 0);
            cpu[b] = cpuAttention(cpuRows, cpuTokens);
            hostTokens[b] = sameLayer * machine.tokenOverhead();
            waits |= cpuRows > 0;
        }
        double overhead = waits ? machine.stageOverhead() : 0;
        if (batches == 1) {
            double attention = gpu[0] + overhead + hostTokens[0];
            double longest = waits ? Math.max(attention, cpu[0] + machine.tripOverhead()) : attention;
            return new LayerTime(slots, resumed, linear[0] + longest, longest - attention, cpu[0]);
        }
        Stages stages = new Stages(
                linear[0] + hostTokens[0],
                linear[1] + hostTokens[1] + gpu[0] + gpu[1],
                overhead,
                machine.tripOverhead());
        double all = stages.layers(limits.layers(), cpu[0], cpu[1], gpu[0] + sampledRowsSeconds(plan));
        double layer = all / limits.layers();
        return new LayerTime(slots, resumed, layer, layer - stages.gpu(), cpu[0] + cpu[1]);
    }

    /** Seconds of the GEMMs of the first sub-batch's sampled rows. */
    private double sampledRowsSeconds(StepPlan plan) {
        int outputs = (int) plan.subBatches().stream()
                .limit(1)
                .flatMap(batch -> batch.chunks().stream())
                .filter(chunk -> chunk.sampler().isPresent())
                .count();
        return outputs == 0 ? 0 : machine.linear(gemmRows(outputs));
    }

    /** The exposed time of swaps: they overlap with the step, but the first layer waits for its copies. */
    private double exposed(StepPlan plan) {
        long tokens = plan.swaps().stream().mapToLong(Swap::tokens).sum(); // each in the layers of one group
        long bytes = tokens * limits.kvBytesPerToken() / limits.layout().groups();
        return tokens == 0 ? 0 : machine.transfer(bytes) / limits.layers();
    }

    /** Rows that the GEMMs of a sub-batch read and write; the CUDA executor does not pad it to the size of a graph. */
    private static int gemmRows(int rows) {
        return rows > MAX_WGMMA_ROWS ? roundUp(rows) : (rows + ROWS_OF_GEMM - 1) / ROWS_OF_GEMM * ROWS_OF_GEMM;
    }

    /** Pads a number of tokens to the size of a graph. */
    private static int padded(int rows) {
        for (int bucket : BUCKETS) {
            if (rows <= bucket) {
                return bucket;
            }
        }
        return roundUp(rows);
    }

    private static int roundUp(int rows) {
        return (rows + BUCKET_STEP - 1) / BUCKET_STEP * BUCKET_STEP;
    }

    @Override
    public StepResult poll() {
        StepResult result = results.poll();
        if (result == null) {
            throw new ExecutorException("no plan is outstanding");
        }
        return result;
    }

    @Override
    public void close() {}
}
