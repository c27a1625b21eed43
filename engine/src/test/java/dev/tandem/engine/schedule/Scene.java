package dev.tandem.engine.schedule;

import dev.tandem.engine.kv.KvCache;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.kv.PrefixUse;
import dev.tandem.engine.request.LatencyTargets;
import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import dev.tandem.engine.step.StepPlan;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;

/**
 * A scheduler's state made by hand, with blocks of 4 tokens, and drafts as text. {@code r1>host} is a swap, {@code r2
 * dropped} a preemption. {@code [r0 r3cpu r4+9 r5+7host]} is a sub-batch: a decode with attention on the GPU, one with
 * attention on the CPU, a prefill of 9 tokens, and one of 7 tokens whose KV goes to the host. {@code admit r6} and
 * {@code resume r7} follow, and {@code pause r8}.
 */
public final class Scene {
    public final KvCache kv;
    public final SchedulerState state;
    public final PlanCommitter committer;
    private final Budget budget;
    private final List<Sequence> sequences = new ArrayList<>();
    private int limit = 500;
    private int content;
    private LatencyTargets targets = LatencyTargets.NONE;

    public Scene(int gpuBlocks, int hostBlocks, Budget budget) {
        this(new KvCache(4, gpuBlocks, hostBlocks), budget);
    }

    public Scene(KvCache kv, Budget budget) {
        this.kv = kv;
        this.state = new SchedulerState(kv);
        this.committer = new PlanCommitter(state);
        this.budget = budget;
    }

    public Budget budget() {
        return budget;
    }

    /** Sets the max tokens of sequences that are made from now on. */
    public Scene limit(int tokens) {
        limit = tokens;
        return this;
    }

    /** Sets the token that fills the prompts made from now on; those with the same one share prefixes. */
    public Scene content(int token) {
        content = token;
        return this;
    }

    /** Sets the targets of sequences made from now on. */
    public Scene targets(LatencyTargets those) {
        targets = those;
        return this;
    }

    /** A decoding sequence of {@code length} tokens, its next one included, in GPU blocks. */
    public Sequence gpu(int length) {
        return decoding(length - 1, length, KvTier.GPU);
    }

    /** A decoding sequence of {@code length} tokens, its next one included, in host blocks. */
    public Sequence host(int length) {
        return host(length - 1, length);
    }

    /** A decoding sequence in host blocks, of {@code length} tokens, its next one included, after a shorter prompt. */
    public Sequence host(int prompt, int length) {
        return decoding(prompt, length, KvTier.HOST);
    }

    /** A host sequence whose next token is in flight. */
    public Sequence inFlight(int length) {
        Sequence sequence = host(length);
        kv.grow(sequence, length);
        state.enterInFlight(sequence);
        return sequence;
    }

    private Sequence decoding(int prompt, int length, KvTier tier) {
        Sequence sequence = sequence(prompt, targets);
        kv.start(sequence, PrefixUse.nothing(tier));
        if (!kv.grow(sequence, length - 1)) {
            throw new IllegalArgumentException("the " + tier + " pool is too small for the scene");
        }
        sequence.advance(prompt);
        sequence.append(0, 0);
        while (sequence.length() < length) {
            sequence.advance(1);
            sequence.append(0, 0);
        }
        state.settle(sequence);
        return sequence;
    }

    public Sequence waiting(int length) {
        return waiting(length, targets);
    }

    public Sequence waiting(int length, LatencyTargets targets) {
        Sequence sequence = sequence(length, targets);
        committer.enqueue(sequence);
        return sequence;
    }

    private Sequence sequence(int prompt, LatencyTargets targets) {
        int[] tokens = new int[prompt];
        Arrays.fill(tokens, content);
        SamplingParams params = SamplingParams.builder().maxTokens(100).build();
        long key = sequences.size();
        Request request = new Request("r" + key, tokens, params, 0, targets, TextDecoder.none(), event -> {});
        Sequence sequence = new Sequence(key, request, 0, limit, new TokenSampler(params, tokens, Set.of(), 1));
        sequences.add(sequence);
        return sequence;
    }

    /** Advances the sequences of a plan: decodes get their token, and prefills get their tokens computed. */
    public void complete(StepPlan plan) {
        plan.subBatches()
                .forEach(batch -> batch.chunks().forEach(chunk -> {
                    Sequence sequence = sequences.get((int) chunk.sequence());
                    sequence.advance(chunk.rows());
                    if (chunk.sampler().isPresent()) {
                        sequence.append(0, 0);
                    }
                }));
        state.checkIntegrity();
    }

    public String draft(Policy policy) {
        return text(policy.draft(state, new Decision()));
    }

    public static String text(StepDraft draft) {
        List<String> words = new ArrayList<>();
        draft.drops().forEach(sequence -> words.add("r" + sequence.key() + " dropped"));
        draft.outs().forEach(sequence -> words.add("r" + sequence.key() + ">host"));
        draft.ins().forEach(sequence -> words.add("r" + sequence.key() + ">gpu"));
        for (int batch = 0; batch < 2; batch++) {
            if (!draft.rows(batch).isEmpty()) {
                words.add("["
                        + String.join(
                                " ", draft.rows(batch).stream().map(Scene::text).toList()) + "]");
            }
        }
        draft.admissions().forEach(sequence -> words.add("admit r" + sequence.key()));
        draft.resumed().forEach(sequence -> words.add("resume r" + sequence.key()));
        draft.paused().forEach(sequence -> words.add("pause r" + sequence.key()));
        return String.join(" ", words);
    }

    private static String text(StepDraft.Row row) {
        String rows = row.decodes() ? "" : "+" + row.rows();
        String site = switch (row.site()) {
            case GPU_FROM_GPU -> "";
            case CPU_FROM_HOST -> "cpu";
            case GPU_FROM_HOST -> "link";
            case GPU_PREFILL_OFFLOAD -> "host";
        };
        return "r" + row.sequence().key() + rows + site;
    }
}
