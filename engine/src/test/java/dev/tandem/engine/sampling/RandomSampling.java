package dev.tandem.engine.sampling;

import dev.tandem.engine.request.SamplingParams;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.SplittableRandom;

/** Random sampling parameters and logits, with unusual and extreme values. */
public final class RandomSampling {
    private final SplittableRandom random;

    public RandomSampling(long seed) {
        this.random = new SplittableRandom(seed);
    }

    public int vocabulary() {
        return pick(1, 2, 3, 5, 17, 300, 2100);
    }

    private int pick(int... values) {
        return values[random.nextInt(values.length)];
    }

    private double pick(double... values) {
        return values[random.nextInt(values.length)];
    }

    public int[] prompt(int vocabulary) {
        return random.ints(1 + random.nextInt(20), 0, vocabulary).toArray();
    }

    public SamplingParams params(int vocabulary) {
        SamplingParams.Builder params = SamplingParams.builder()
                .maxTokens(pick(4, 100, Integer.MAX_VALUE))
                .temperature(pick(0, -0.0, Double.MIN_VALUE, 1e-300, 1e-39, 2e-39, 0.01, 0.3, 1, 1.7, 2))
                .topK(pick(-1, 0, 1, 2, 40, vocabulary, Integer.MAX_VALUE))
                .topP(pick(Double.MIN_VALUE, 1e-46, 1e-7, 0.1, 0.9, 0.999999, 1 - 1e-9, Math.nextDown(1.0), 1, 1))
                .minP(pick(0, 0, Double.MIN_VALUE, 1e-46, 0.05, 0.5, Math.nextDown(1.0), 1))
                .repetitionPenalty(pick(0.01, 0.5, 1, 1, Math.nextUp(1.0), 1.2, 100))
                .presencePenalty(pick(-2, 0, 0, Double.MIN_VALUE, 2))
                .frequencyPenalty(pick(-2, 0, 0, -1e-300, 2))
                .logprobs(pick(-1, 0, 20))
                .minTokens(pick(0, 0, 1, 3))
                .ignoreEos(random.nextBoolean());
        if (random.nextBoolean()) {
            params.seed(random.nextLong());
        }
        Map<Integer, Float> bias = new HashMap<>();
        for (int i = random.nextInt(3); i > 0; i--) {
            bias.put(random.nextInt(vocabulary), (float) pick(-100, -100, -Float.MIN_VALUE, 0, 3, 100, 100));
        }
        Set<Integer> stops = new HashSet<>();
        for (int i = pick(0, 0, 1, 3, 100); i > 0; i--) {
            stops.add(random.nextInt(vocabulary));
        }
        return params.logitBias(bias).stopTokenIds(stops).build();
    }

    /** Parameters that change no logits. */
    public SamplingParams drawn() {
        return SamplingParams.builder()
                .maxTokens(100)
                .seed(random.nextLong())
                .temperature(pick(0.5, 1, 2))
                .topK(pick(0, 5, 40))
                .topP(pick(0.5, 0.9, 1))
                .minP(pick(0, 0.05))
                .build();
    }

    public SamplingParams withPenaltiesThatDoNothing(SamplingParams params) {
        return SamplingParams.builder()
                .maxTokens(100)
                .seed(params.seed().orElseThrow())
                .temperature(params.temperature())
                .topK(params.topK())
                .topP(params.topP())
                .minP(params.minP())
                .repetitionPenalty(1 + 1e-12)
                .presencePenalty(1e-300)
                .frequencyPenalty(-1e-300)
                .logitBias(Map.of(3, 0f))
                .build();
    }

    public float[] ordinary(int vocabulary) {
        float[] logits = new float[vocabulary];
        for (int i = 0; i < vocabulary; i++) {
            logits[i] = (float) (random.nextDouble() * 12 - 6);
        }
        return logits;
    }

    public float[] logits(int vocabulary) {
        float[] logits = new float[vocabulary];
        int kind = random.nextInt(12);
        for (int i = 0; i < vocabulary; i++) {
            double value = random.nextDouble() * 20 - 10;
            logits[i] = switch (kind) {
                case 0 -> random.nextInt(4); // ties
                case 1 -> 0; // nothing but ties
                case 2 -> random.nextBoolean() ? -0f : 0f;
                case 3 -> random.nextInt(3) > 0 ? Float.NEGATIVE_INFINITY : (float) value; // masked
                case 4 -> (float) (value * 1e37);
                case 5 -> (float) (value * 1e-38);
                case 6 -> (float) (value / 1e3); // nearly flat
                case 7 -> (float) Math.scalb(value, random.nextInt(-120, 100));
                default -> (float) value;
            };
        }
        switch (random.nextInt(40)) {
            case 0 -> logits[random.nextInt(vocabulary)] = Float.NaN;
            case 1 -> logits[random.nextInt(vocabulary)] = Float.POSITIVE_INFINITY;
            case 2 -> Arrays.fill(logits, Float.NEGATIVE_INFINITY);
            case 3 -> logits[random.nextInt(vocabulary)] = Float.MAX_VALUE;
            default -> {}
        }
        return logits;
    }
}
