package dev.tandem.engine.sampling;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

/**
 * The biases and penalties of a sequence's logits: one entry per token that is biased, penalised or forbidden.
 *
 * <p>Each entry computes {@code x = logit + bias; x = x > 0 ? x / repetition : x * repetition; x -= penalty}. The
 * penalty of a forbidden token is infinite.
 *
 * <p>Owned by: the thread that submits the request, then the sampler. A device copies the entries before the sampler
 * notes the next token.
 */
public final class Adjustments {
    private final SamplingParams params;
    /** Index of a token's entry. */
    private final Map<Integer, Integer> entries = new HashMap<>();

    private int count;
    private int[] tokens = new int[16];
    private float[] biases = new float[16];
    private float[] repetitions = new float[16];
    private float[] penalties = new float[16];
    /** How often the token is in the output. */
    private int[] occurrences = new int[16];

    /** The entries before the first output token, for {@link TokenSampler}. */
    public static Adjustments of(Request request) {
        return new Adjustments(request.sampling(), request.prompt());
    }

    Adjustments(SamplingParams params, int[] prompt) {
        this.params = params;
        params.logitBias().forEach((token, bias) -> {
            int at = entry(token); // first: it may replace the arrays
            biases[at] = bias;
        });
        if (params.repetitionPenalty() != 1) {
            for (int token : prompt) {
                int at = entry(token);
                repetitions[at] = (float) params.repetitionPenalty();
            }
        }
    }

    /** Number of entries. */
    public int count() {
        return count;
    }

    /** Token of an entry. */
    public int token(int entry) {
        return tokens[entry];
    }

    /** Bias of an entry. */
    public float bias(int entry) {
        return biases[entry];
    }

    /** Repetition penalty of an entry; 1 for none. */
    public float repetition(int entry) {
        return repetitions[entry];
    }

    /** Presence and frequency penalty of an entry; infinite for a forbidden token. */
    public float penalty(int entry) {
        return penalties[entry];
    }

    /** Adjusts {@code vocabulary} logits from {@code offset} on. */
    public void apply(float[] logits, int offset, int vocabulary) {
        for (int i = 0; i < count; i++) {
            if (tokens[i] < vocabulary) {
                float logit = logits[offset + tokens[i]] + biases[i];
                logits[offset + tokens[i]] =
                        (logit > 0 ? logit / repetitions[i] : logit * repetitions[i]) - penalties[i];
            }
        }
    }

    /** Counts a token of the output. */
    void note(int token) {
        int at = entry(token);
        occurrences[at]++;
        repetitions[at] = (float) params.repetitionPenalty();
        if (penalties[at] < Float.POSITIVE_INFINITY) {
            penalties[at] = outputPenalty(at);
        }
    }

    private float outputPenalty(int entry) {
        int times = occurrences[entry];
        return times == 0 ? 0 : (float) params.presencePenalty() + (float) params.frequencyPenalty() * times;
    }

    void forbid(Set<Integer> some) {
        for (int token : some) {
            int at = entry(token);
            penalties[at] = Float.POSITIVE_INFINITY;
        }
    }

    void allow(Set<Integer> some) {
        for (int token : some) {
            int at = entry(token);
            penalties[at] = outputPenalty(at);
        }
    }

    private int entry(int token) {
        return entries.computeIfAbsent(token, absent -> {
            if (count == tokens.length) {
                grow();
            }
            tokens[count] = token;
            repetitions[count] = 1;
            return count++;
        });
    }

    private void grow() {
        int capacity = 2 * count;
        tokens = Arrays.copyOf(tokens, capacity);
        biases = Arrays.copyOf(biases, capacity);
        repetitions = Arrays.copyOf(repetitions, capacity);
        penalties = Arrays.copyOf(penalties, capacity);
        occurrences = Arrays.copyOf(occurrences, capacity);
    }
}
