package dev.tandem.engine;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.executor.Readiness;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.KvView;
import dev.tandem.engine.kv.PrefillStaging;
import dev.tandem.engine.kv.Swap;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.GrammarMatcher;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.Admission;
import dev.tandem.engine.step.AttentionSite;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepResult.LayerProgress;
import dev.tandem.engine.step.StepResult.Sampled;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.engine.step.SubBatch;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.LongPredicate;
import java.util.stream.Stream;

/**
 * An executor without a model. Each KV slot of each layer holds the content of the token that was written there: a hash
 * of all tokens up to it and of the cache salt. Each attention checks that it reads exactly the content of its own
 * sequence. The next token is a function of sequence and position only, so a skipped, repeated or misplaced token is
 * found at once.
 */
public final class ContentExecutor implements Executor {
    private static final int BLOCK = 4;
    /** Owner of blocks that a plan reads only. */
    private static final long SHARED = -2;

    private final int hostBlock;
    /** [layers] how many tokens a token attends to; 0 for all. */
    private final List<Integer> windows;

    private record Prompt(int[] tokens, String salt) {}

    /** By sequence. Sequences without a prompt have contents of their own. */
    private final Map<Long, Prompt> prompts = new HashMap<>();
    /** [tokens so far] by sequence. */
    private final Map<Long, long[]> contents = new HashMap<>();

    private static final class InFlightToken {
        final Admission admission;
        int layer;

        InFlightToken(Admission admission) {
            this.admission = admission;
        }
    }

    private final ExecutorLimits limits;
    private final Readiness readiness;
    private final EnumMap<KvTier, long[][]> slots = new EnumMap<>(KvTier.class);
    private final Map<Long, InFlightToken> inFlightTokens = new LinkedHashMap<>();
    private final ArrayDeque<Running> running = new ArrayDeque<>();
    public final List<StepPlan> plans = new ArrayList<>();
    /** Which in-flight tokens are lost at the end of a step. */
    public LongPredicate losing = key -> false;

    /** Whether the blocks of lost tokens stay in use. */
    public boolean losingForGood;

    /** Which chunks lose their sequence when they sample, as a NaN would. */
    public LongPredicate failing = key -> false;

    public final List<StepResult> history = new ArrayList<>();
    /** Whether the next plan may be submitted before the result of a plan that moves no KV. */
    public boolean allowsAsyncScheduling;
    /** Whether samplers draw, and choose when a result is polled; grammars must allow every token of {@link #token}. */
    public boolean usesSamplers;
    /** The random number of each draw, by sequence and position of the token that is drawn. */
    public final Map<Long, Map<Integer, Double>> draws = new HashMap<>();
    /** How many plans were sampled after their submit. */
    public int sampledLater;
    /** How many rows were not sampled then. */
    public int skippedRows;
    /** Called for each plan while it is computed; it may advance the clock. */
    public Consumer<StepPlan> computing = plan -> {};

    public ContentExecutor(
            int layers, int gpuBlocks, int hostBlocks, int maxBatchTokens, int context, Readiness readiness) {
        this(layers, gpuBlocks, BLOCK, hostBlocks, maxBatchTokens, context, readiness);
    }

    /** @param hostBlock tokens per host block; GPU blocks have 4 */
    public ContentExecutor(
            int layers,
            int gpuBlocks,
            int hostBlock,
            int hostBlocks,
            int maxBatchTokens,
            int context,
            Readiness readiness) {
        this(Collections.nCopies(layers, 0), gpuBlocks, hostBlock, hostBlocks, maxBatchTokens, context, readiness);
    }

    /**
     * An executor whose layers have windows. Where these differ, each group of layers has blocks of its own.
     *
     * @param windows [layers] how many tokens a token attends to; 0 for all
     */
    public ContentExecutor(
            List<Integer> windows,
            int gpuBlocks,
            int hostBlock,
            int hostBlocks,
            int maxBatchTokens,
            int context,
            Readiness readiness) {
        this.windows = windows;
        int layers = windows.size();
        this.hostBlock = hostBlock;
        this.limits = ExecutorLimits.builder()
                .vocabulary(1000)
                .contextTokens(context)
                .blockTokens(BLOCK)
                .hostBlockTokens(hostBlock)
                .gpuBlocks(gpuBlocks)
                .hostBlocks(hostBlocks)
                .stagesPrefills(true)
                .maxBatchTokens(maxBatchTokens)
                .layers(layers)
                .kvBytesPerToken(8)
                .overlaps(true)
                .windows(windows)
                .inFlight(256, Integer.MAX_VALUE, true)
                .build();
        this.readiness = readiness;
        int layersPerGroup = layers / limits.layout().groups();
        slots.put(KvTier.GPU, new long[layersPerGroup][limits.pages(KvTier.GPU) * BLOCK]);
        slots.put(KvTier.HOST, new long[layersPerGroup][limits.pages(KvTier.HOST) * hostBlock]);
    }

    /** The token after {@code position} in the sequence that arrived as number {@code sequence}. */
    public static int token(long sequence, int position) {
        return Math.floorMod(sequence * 131 + position * 17L, 997);
    }

    /** Names the prompt of the sequence that arrives as number {@code sequence}, so that it may share KV. */
    public void prompt(long sequence, int[] tokens, String salt) {
        prompts.put(sequence, new Prompt(tokens, salt));
    }

    private long content(long sequence, int position) {
        long[] known = contents.getOrDefault(sequence, new long[0]);
        if (position >= known.length) {
            Prompt prompt = prompts.get(sequence);
            int from = known.length;
            known = Arrays.copyOf(known, position + 16);
            for (int i = from; i < known.length; i++) {
                long before = i > 0
                        ? known[i - 1]
                        : prompt == null ? -sequence - 1 : prompt.salt().hashCode();
                known[i] = before * 0x5851F42D4C957F2DL + 1 + expectedToken(prompt, sequence, i);
            }
            contents.put(sequence, known);
        }
        return known[position];
    }

    private static int expectedToken(Prompt prompt, long sequence, int position) {
        return prompt != null && position < prompt.tokens().length
                ? prompt.tokens()[position]
                : token(sequence, position - 1);
    }

    @Override
    public ExecutorLimits limits() {
        return limits;
    }

    @Override
    public boolean allowsAsyncScheduling() {
        StepPlan last = plans.getLast();
        return allowsAsyncScheduling && last.resume().isEmpty() && last.swaps().isEmpty();
    }

    private static Stream<Chunk> chunks(StepPlan plan) {
        return plan.subBatches().stream().flatMap(batch -> batch.chunks().stream());
    }

    /** A submitted plan, and its result as far as it is known. */
    private final class Running {
        final StepPlan plan;
        final List<LayerProgress> trace = new ArrayList<>();
        final List<Sampled> sampled = new ArrayList<>();
        final List<Long> paused = new ArrayList<>();
        final List<StepResult.Lost> lost = new ArrayList<>();
        /** Tells the samplers what was sampled. */
        final List<Runnable> choices = new ArrayList<>();

        boolean isSampled;

        Running(StepPlan plan) {
            this.plan = plan;
        }

        /**
         * @param inFlight whether it is an in-flight token; the engine may sample its logits when the result is polled
         */
        void sample(TokenSampler sampler, long sequence, int position, AttentionSite site, boolean inFlight) {
            int token = token(sequence, position);
            sampled.add(new Sampled(sequence, new Choice(token, Optional.empty()), site));
            if (!usesSamplers) {
                return;
            }
            if (inFlight) {
                choices.add(() -> draw(sampler, sequence, position + 1, token));
            } else {
                draw(sampler, sequence, position + 1, token);
            }
            choices.add(() -> sampler.chosen(token, Optional.empty()));
        }

        private void draw(TokenSampler sampler, long sequence, int position, int token) {
            double uniform = sampler.draw(Integer.MAX_VALUE, true).orElseThrow().uniform();
            Double other =
                    draws.computeIfAbsent(sequence, key -> new HashMap<>()).put(position, uniform);
            fail(other != null, "sequence " + sequence + " draws its token at " + position + " twice");
            sampler.matcher().ifPresent(matcher -> {
                int[] bitmask = new int[GrammarMatcher.words(limits.vocabulary())];
                matcher.fillBitmask(bitmask);
                fail(
                        (bitmask[token / 32] >>> token & 1) == 0,
                        "the bitmask of sequence " + sequence + " is not of position " + position);
            });
        }

        void sampleRows(Set<Long> skipped) {
            isSampled = true;
            chunks(plan).filter(chunk -> chunk.sampler().isPresent()).forEach(chunk -> {
                if (skipped.contains(chunk.sequence())) {
                    skippedRows++;
                } else if (failing.test(chunk.sequence())) {
                    lost.add(new StepResult.Lost(
                            chunk.sequence(), StepResult.Cause.SAMPLING, "the logits are NaN", false));
                } else {
                    int last = chunk.start() + chunk.rows() - 1;
                    fail(
                            usesSamplers && !chunk.sampler().orElseThrow().awaitReady(0),
                            "sequence " + chunk.sequence() + " is sampled at " + last + " before its bitmask is ready");
                    sample(chunk.sampler().orElseThrow(), chunk.sequence(), last, chunk.site(), false);
                }
            });
            inFlightTokens
                    .keySet()
                    .removeIf(key -> losing.test(key)
                            && lost.add(new StepResult.Lost(
                                    key, StepResult.Cause.HOST_ATTENTION, "the worker is gone", losingForGood)));
        }
    }

    @Override
    public void submit(StepPlan plan) {
        compute(plan).sampleRows(Set.of());
    }

    @Override
    public void submitLayers(StepPlan plan) {
        sampledLater += running.size();
        compute(plan);
    }

    @Override
    public void sample(Set<Long> skipped) {
        fail(running.size() != 1 || running.getFirst().isSampled, "no plan waits to be sampled");
        running.getFirst().sampleRows(skipped);
    }

    private Running compute(StepPlan plan) {
        fail(running.size() == MAX_OUTSTANDING, "more than " + MAX_OUTSTANDING + " plans are outstanding");
        fail(running.stream().anyMatch(before -> !before.isSampled), "the plan before is not sampled");
        plans.add(plan);
        computing.accept(plan);
        chunks(plan)
                .filter(chunk -> chunk.sampler().isPresent())
                .forEach(chunk ->
                        known(chunk.sequence(), chunk.start() + chunk.rows() - 1, chunk.tokens()[chunk.rows() - 1]));
        plan.admissions().forEach(admission -> known(admission.sequence(), admission.position(), admission.token()));
        check(plan);
        overwriteStaging(plan);
        plan.swaps().forEach(this::swap);
        Running step = new Running(plan);
        for (long key : plan.pause()) {
            if (inFlightTokens.remove(key) != null) {
                step.paused.add(key);
            }
        }
        plan.admissions().forEach(admission -> enter(plan.step(), new InFlightToken(admission)));
        for (int layer = 0; layer < limits.layers(); layer++) {
            for (SubBatch batch : plan.subBatches()) {
                for (Chunk chunk : batch.chunks()) {
                    compute(chunk, layer);
                }
            }
            advance(step, layer);
        }
        running.add(step);
        return step;
    }

    /** Checks that a token is a placeholder if, and only if, the step that samples it has not been polled. */
    private void known(long sequence, int position, int token) {
        boolean sampling =
                running.stream().flatMap(step -> step.sampled.stream()).anyMatch(s -> s.sequence() == sequence);
        fail(
                sampling != (token == Chunk.PLACEHOLDER),
                "sequence " + sequence + " has token " + token + " at " + position);
    }

    private void enter(long step, InFlightToken inFlightToken) {
        inFlightTokens.put(inFlightToken.admission.sequence(), inFlightToken);
        issue(step, inFlightToken);
    }

    /** Sends the token's Q, K and V of its layer: the CPU appends K and V and reads all earlier positions. */
    private void issue(long step, InFlightToken inFlightToken) {
        Admission a = inFlightToken.admission;
        write(KvTier.HOST, inFlightToken.layer, a.kv(), a.sequence(), a.position());
        read(KvTier.HOST, inFlightToken.layer, a.kv(), a.sequence(), a.position(), a.position());
        readiness.issued(step, inFlightToken.layer, a.sequence());
    }

    private void advance(Running step, int layer) {
        StepPlan plan = step.plan;
        List<InFlightToken> going = new ArrayList<>();
        List<Long> notResumed = new ArrayList<>();
        for (InFlightToken inFlightToken : inFlightTokens.values()) {
            if (inFlightToken.layer == layer) {
                if (plan.resume().contains(inFlightToken.admission.sequence())) {
                    going.add(inFlightToken);
                } else {
                    notResumed.add(inFlightToken.admission.sequence());
                }
            }
        }
        int max = going.size() + plan.slotsPerLayer();
        for (long key : readiness.ready(plan.step(), layer, notResumed)) {
            if (going.size() < max) {
                going.add(inFlightTokens.get(key));
            }
        }
        for (InFlightToken inFlightToken : going) {
            long key = inFlightToken.admission.sequence();
            step.trace.add(new LayerProgress(layer, key));
            inFlightTokens.remove(key);
            // the attention's result is used here, so the KV that it was computed from must still be there
            int position = inFlightToken.admission.position();
            read(KvTier.HOST, layer, inFlightToken.admission.kv(), key, position, position);
            inFlightToken.layer++;
            if (inFlightToken.layer == limits.layers()) {
                step.sample(inFlightToken.admission.sampler(), key, position, AttentionSite.CPU_FROM_HOST, true);
            } else {
                enter(plan.step(), inFlightToken);
            }
        }
    }

    private void compute(Chunk chunk, int layer) {
        KvTier tier = chunk.site().tier();
        for (int i = 0; i < chunk.rows(); i++) {
            int token = chunk.tokens()[i];
            Prompt prompt = prompts.get(chunk.sequence());
            fail(
                    prompt != null
                            && token != Chunk.PLACEHOLDER
                            && token != expectedToken(prompt, chunk.sequence(), chunk.start() + i),
                    "sequence " + chunk.sequence() + " has token " + token + " at " + (chunk.start() + i));
            write(tier, layer, chunk.kv(), chunk.sequence(), chunk.start() + i);
        }
        int last = chunk.start() + chunk.rows() - 1;
        read(tier, layer, chunk.kv(), chunk.sequence(), chunk.start(), last);
    }

    private void write(KvTier tier, int layer, List<KvView> kv, long sequence, int position) {
        long[] held = slots.get(tier)[limits.layout().indexOf(layer)];
        KvView blocks = kv.get(limits.layout().groupOf(layer));
        held[slot(tier, blocks, position)] = layer + 31 * content(sequence, position);
    }

    private int slot(KvTier tier, KvView kv, int position) {
        int tokens = tier == KvTier.GPU ? BLOCK : hostBlock;
        return kv.block(position / tokens) * tokens + position % tokens;
    }

    /** Checks what the tokens at {@code first} to {@code last} attend to. */
    private void read(KvTier tier, int layer, List<KvView> kv, long sequence, int first, int last) {
        int window = windows.get(layer);
        long[] held = slots.get(tier)[limits.layout().indexOf(layer)];
        KvView blocks = kv.get(limits.layout().groupOf(layer));
        for (int position = window == 0 ? 0 : Math.max(0, first - window + 1); position <= last; position++) {
            long found = held[slot(tier, blocks, position)];
            if (found != layer + 31 * content(sequence, position)) {
                throw new ExecutorException("sequence " + sequence + " reads position " + position + " of layer "
                        + layer + " on " + tier + " and finds " + found);
            }
        }
    }

    /** Whether a step whose result is not known yet has sampled, paused or lost the sequence's token. */
    private boolean ended(long sequence) {
        return running.stream()
                .anyMatch(step -> step.paused.contains(sequence)
                        || step.sampled.stream().anyMatch(sampled -> sampled.sequence() == sequence)
                        || step.lost.stream().anyMatch(lost -> lost.sequence() == sequence));
    }

    /** What was in borrowed blocks is gone, even for the step's own moves and layers. */
    private void overwriteStaging(StepPlan plan) {
        for (SubBatch batch : plan.subBatches()) {
            for (int block : batch.staging()) {
                for (long[] layer : slots.get(KvTier.GPU)) {
                    Arrays.fill(layer, block * BLOCK, (block + 1) * BLOCK, 0);
                }
            }
        }
    }

    private void swap(Swap swap) {
        for (int layer = 0; layer < slots.get(KvTier.GPU).length; layer++) {
            long[] from = slots.get(swap.from())[layer];
            long[] to = slots.get(swap.to())[layer];
            KvView source = KvView.of(swap.fromBlocks());
            KvView target = KvView.of(swap.toBlocks());
            for (int position = 0; position < swap.tokens(); position++) {
                to[slot(swap.to(), target, position)] = from[slot(swap.from(), source, position)];
            }
        }
    }

    /** Checks what holds for every plan. */
    private void check(StepPlan plan) {
        Set<Long> seen = new HashSet<>();
        Map<KvTier, Map<Integer, Long>> owners =
                new HashMap<>(Map.of(KvTier.GPU, new HashMap<>(), KvTier.HOST, new HashMap<>()));
        int rows = plan.admissions().size();
        PrefillStaging.Need staged = PrefillStaging.Need.NOTHING;
        for (InFlightToken inFlightToken : inFlightTokens.values()) {
            claim(owners, inFlightToken.admission);
        }
        for (SubBatch batch : plan.subBatches()) {
            for (Chunk chunk : batch.chunks()) {
                rows += chunk.rows();
                fail(!seen.add(chunk.sequence()), "sequence " + chunk.sequence() + " has two chunks");
                fail(
                        inFlightTokens.containsKey(chunk.sequence()),
                        "sequence " + chunk.sequence() + " is in flight and in a batch");
                if (chunk.site() == AttentionSite.GPU_PREFILL_OFFLOAD) {
                    int behind = chunk.kv(0).first() * hostBlock;
                    staged = staged.plus(limits.staging().need(chunk.start() - behind, chunk.rows()));
                }
                fail(
                        chunk.site() == AttentionSite.CPU_FROM_HOST && chunk.rows() > 1,
                        "the CPU decodes, it does not prefill");
                claim(owners, chunk);
            }
        }
        for (Admission admission : plan.admissions()) {
            fail(!seen.add(admission.sequence()), "sequence " + admission.sequence() + " is admitted twice");
            fail(
                    inFlightTokens.containsKey(admission.sequence()),
                    "sequence " + admission.sequence() + " is in flight already");
            claim(owners, admission);
        }
        Set<Integer> copiedTo = new HashSet<>();
        plan.swaps().stream()
                .filter(swap -> swap.to() == KvTier.HOST)
                .forEach(swap -> Arrays.stream(swap.toBlocks())
                        .forEach(block -> fail(!copiedTo.add(block), "host block " + block + " is copied to twice")));
        for (Swap swap : plan.swaps()) {
            // executors may run all copies to the host before those to the GPU
            fail(
                    swap.from() == KvTier.HOST
                            && Arrays.stream(swap.fromBlocks()).anyMatch(copiedTo::contains),
                    "a copy to the GPU reads a host block of " + copiedTo + " that the plan copies to");
            fail(inFlightTokens.containsKey(swap.sequence()), "sequence " + swap.sequence() + " is swapped in flight");
        }
        for (long key : plan.resume()) {
            fail(
                    !inFlightTokens.containsKey(key) && !ended(key),
                    "sequence " + key + " resumes and is neither in flight nor ended by a step that runs");
        }
        int borrowed = 0;
        for (SubBatch batch : plan.subBatches()) {
            claim(owners, KvTier.GPU, batch.staging(), -1);
            borrowed += batch.staging().length;
        }
        fail(
                borrowed != limits.staging().blocks(staged),
                borrowed + " blocks are borrowed, and staging needs "
                        + limits.staging().blocks(staged));
        int maxTokens = limits.staging().maxTokens();
        fail(staged.gpuBlocks() * BLOCK > maxTokens, staged + " is more than " + maxTokens + " tokens");
        fail(rows > limits.maxBatchTokens(), rows + " rows of at most " + limits.maxBatchTokens());
    }

    /** The blocks that a chunk writes are its own; those that it reads may be read by others too. */
    private void claim(Map<KvTier, Map<Integer, Long>> owners, Chunk chunk) {
        chunk.kv().forEach(kv -> claim(owners, chunk.site().tier(), kv, chunk.start(), chunk.sequence()));
    }

    private void claim(Map<KvTier, Map<Integer, Long>> owners, Admission admission) {
        admission.kv().forEach(kv -> claim(owners, KvTier.HOST, kv, admission.position(), admission.sequence()));
    }

    /** @param start position of the first token that is written */
    private void claim(Map<KvTier, Map<Integer, Long>> owners, KvTier tier, KvView kv, int start, long sequence) {
        int[] blocks = kv.blocks();
        int written = start / (tier == KvTier.GPU ? BLOCK : hostBlock) - kv.first();
        claim(owners, tier, Arrays.copyOfRange(blocks, written, blocks.length), sequence);
        for (int i = 0; i < written; i++) {
            Long other = owners.get(tier).put(blocks[i], SHARED);
            fail(
                    other != null && other != SHARED,
                    tier + " block " + blocks[i] + " is read by " + sequence + " and written by " + other);
        }
    }

    private static void claim(Map<KvTier, Map<Integer, Long>> owners, KvTier tier, int[] blocks, long sequence) {
        for (int block : blocks) {
            Long other = owners.get(tier).put(block, sequence);
            fail(other != null, tier + " block " + block + " belongs to " + other + " and " + sequence);
        }
    }

    private static void fail(boolean broken, String what) {
        if (broken) {
            throw new ExecutorException(what);
        }
    }

    @Override
    public StepResult poll() {
        Running step = running.remove();
        fail(!step.isSampled, "the plan is not sampled");
        step.choices.forEach(Runnable::run);
        StepResult result =
                new StepResult(step.plan.step(), step.sampled, step.trace, step.paused, step.lost, StepTimes.NONE);
        history.add(result);
        return result;
    }

    @Override
    public void close() {}
}
