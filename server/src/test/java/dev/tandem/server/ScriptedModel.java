package dev.tandem.server;

import dev.tandem.engine.executor.Executor;
import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.sampling.Choice;
import dev.tandem.engine.sampling.SamplingScratch;
import dev.tandem.engine.step.Chunk;
import dev.tandem.engine.step.StepPlan;
import dev.tandem.engine.step.StepResult;
import dev.tandem.engine.step.StepTimes;
import dev.tandem.text.Tokenizer;
import dev.tandem.text.Vocabulary;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.BitSet;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.UnaryOperator;

/**
 * A model that answers each prompt by a script. Each character is a token, and so is {}; the markers of chat templates
 * are special tokens.
 */
final class ScriptedModel implements Tokenizer, Executor {
    static final int CONTEXT = 4096;
    /** The token that ends an answer. */
    static final int END = 0;

    /** One token in real vocabularies too, so that the arguments of a call without any come in one piece. */
    private static final String EMPTY_OBJECT = "{}";

    private static final int EMPTY_OBJECT_ID = 999;
    private static final int FIRST_MARKER = 1000;
    private static final List<String> MARKERS = List.of(
            "<|im_start|>",
            "[TOOL_CALLS]",
            "<|channel|>",
            "<|message|>",
            "<|end|>",
            "<|start|>",
            "<|call|>",
            "<|tool_call>",
            "<tool_call|>",
            "<|\"|>",
            "<start_function_call>",
            "<end_function_call>",
            "<escape>",
            "<think>",
            "</think>");

    /** By which prompts are scored: 'b' is twice as probable as each other token. */
    private static final float[] LOGITS = logits();

    private final SamplingScratch scratch = new SamplingScratch();
    private final UnaryOperator<String> script;
    private final Vocabulary vocabulary;
    private final Queue<StepPlan> plans = new ArrayDeque<>();
    private final Map<Long, List<Integer>> prompts = new HashMap<>();
    private final Map<Long, int[]> answers = new HashMap<>();
    /** Called before a step is computed; who stops an answer needs time, or a step that waits. */
    volatile Runnable beforeStep = () -> {};
    /** Called before a text is encoded. */
    volatile Runnable beforeEncoding = () -> {};
    /** All prompts so far. */
    final List<String> seen = new CopyOnWriteArrayList<>();

    /** @param script the answer to a prompt */
    ScriptedModel(UnaryOperator<String> script) {
        this.script = script;
        String[] tokens = new String[FIRST_MARKER + MARKERS.size()];
        BitSet literal = new BitSet();
        BitSet special = new BitSet();
        tokens[END] = "<|im_end|>";
        for (int id = 0; id < tokens.length; id++) {
            boolean marker = id >= FIRST_MARKER;
            tokens[id] = marker ? MARKERS.get(id - FIRST_MARKER) : id == END ? "<|im_end|>" : String.valueOf((char) id);
            literal.set(id);
            special.set(id, marker || id == END);
        }
        tokens[EMPTY_OBJECT_ID] = EMPTY_OBJECT;
        vocabulary = new Vocabulary(tokens, special, literal, Vocabulary.Spelling.BYTE_LEVEL);
    }

    /** The token of a marker. */
    static int id(String marker) {
        return FIRST_MARKER + MARKERS.indexOf(marker);
    }

    private static float[] logits() {
        float[] logits = new float[FIRST_MARKER + MARKERS.size()];
        logits['b'] = (float) Math.log(2);
        return logits;
    }

    @Override
    public int[] encode(String text, boolean addSpecial) {
        beforeEncoding.run();
        List<Integer> tokens = new ArrayList<>();
        for (int i = 0; i < text.length(); ) {
            String rest = text.substring(i);
            Optional<String> marker = MARKERS.stream().filter(rest::startsWith).findFirst();
            boolean isEmptyObject = rest.startsWith(EMPTY_OBJECT);
            int character = isEmptyObject ? EMPTY_OBJECT_ID : text.charAt(i);
            tokens.add(marker.map(ScriptedModel::id).orElse(character));
            i += marker.map(String::length).orElse(isEmptyObject ? EMPTY_OBJECT.length() : 1);
        }
        return tokens.stream().mapToInt(Integer::intValue).toArray();
    }

    @Override
    public Vocabulary vocabulary() {
        return vocabulary;
    }

    @Override
    public ExecutorLimits limits() {
        return ExecutorLimits.builder()
                .vocabulary(vocabulary.size())
                .contextTokens(CONTEXT)
                .blockTokens(16)
                .gpuBlocks(2048)
                .maxBatchTokens(256)
                .kvBytesPerToken(8)
                .build();
    }

    @Override
    public void submit(StepPlan plan) {
        plans.add(plan);
    }

    @Override
    public void submitLayers(StepPlan plan) {
        submit(plan);
    }

    /** Nothing to do: the script needs no bitmask, so none is late, and a step samples when it is polled. */
    @Override
    public void sample(Set<Long> skipped) {}

    @Override
    public StepResult poll() {
        StepPlan plan = plans.remove();
        beforeStep.run();
        List<StepResult.Sampled> sampled = new ArrayList<>();
        plan.subBatches().forEach(batch -> batch.chunks().forEach(chunk -> compute(chunk, sampled)));
        return new StepResult(plan.step(), sampled, List.of(), List.of(), StepTimes.NONE);
    }

    private void compute(Chunk chunk, List<StepResult.Sampled> sampled) {
        long key = chunk.sequence();
        List<Integer> prompt = prompts.computeIfAbsent(key, k -> new ArrayList<>());
        if (!answers.containsKey(key)) {
            for (int token : chunk.tokens()) {
                prompt.add(token);
            }
        }
        for (int row = 0; row < chunk.rows(); row++) {
            if (chunk.scores(row)) {
                chunk.scorer().orElseThrow().score(chunk.start() + row, LOGITS, 0, vocabulary.size(), scratch);
            }
        }
        if (chunk.sampler().isEmpty()) {
            return;
        }
        int[] answer = answers.computeIfAbsent(key, k -> answer(prompt));
        int next = chunk.start() + chunk.rows() - prompt.size();
        int token = next < answer.length ? answer[next] : END;
        sampled.add(new StepResult.Sampled(key, new Choice(token, Optional.empty()), chunk.site()));
    }

    private int[] answer(List<Integer> prompt) {
        String text = decode(prompt.stream().mapToInt(Integer::intValue).toArray(), false);
        seen.add(text);
        return encode(script.apply(text), false);
    }

    @Override
    public void close() {}
}
