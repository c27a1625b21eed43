package dev.tandem.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import dev.tandem.engine.request.SamplingParams;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;

/** Compares the CPU's sampler with the kernel's algorithm, over all sampling parameters and their extremes. */
class SamplingPropertyTest {
    private static final long SEED = 3_020_261_124L;
    private static final int REQUESTS = 4_000;
    private static final int TOKENS = 4;

    @Test
    void theCpuDrawsWhatTheKernelDraws() {
        Set<String> seen = new TreeSet<>();
        for (long request = 0; request < REQUESTS; request++) {
            RandomSampling random = new RandomSampling(SEED + request);
            int vocabulary = random.vocabulary();
            SamplingParams params = random.params(vocabulary);
            int[] prompt = random.prompt(vocabulary);
            Set<Integer> ends = Set.of(0);
            TokenSampler ours = new TokenSampler(params, prompt, ends, 3);
            // the same stream of random numbers, which a device is given
            TokenSampler device = new TokenSampler(params.withLogprobs(-1), prompt, ends, 3);
            List<Integer> output = new ArrayList<>();
            for (int token = 0; token < TOKENS; token++) {
                float[] logits = random.logits(vocabulary);
                float[] adjusted = adjusted(logits, params, prompt, output, ends);
                TokenSampler.Draw draw = device.draw(Integer.MAX_VALUE).orElseThrow();
                String what = "seed " + (SEED + request) + ", token " + token + ", " + params + ", "
                        + Arrays.toString(adjusted);
                if (!drawable(logits, adjusted)) {
                    seen.add("refused");
                    assertThatThrownBy(() -> choose(ours, logits)).as(what).isInstanceOf(SamplingException.class);
                    break;
                }
                int expected = SamplingReference.token(adjusted, SamplingReference.Parameters.of(draw));
                assertThat(choose(ours, logits)).as(what).isEqualTo(expected);
                assertThat(draw.uniform())
                        .as(what)
                        .isEqualTo((float) draw.uniform())
                        .isBetween(0.0, 1 - 0x1p-24);
                device.chosen(expected, Optional.empty());
                output.add(expected);
                seen.add(draw.greedy() ? "greedy" : "drawn");
                if (params.topK() > 0 && params.topP() < 1 && params.minP() > 0) {
                    seen.add("all three");
                }
                if (params.minTokens() > token) {
                    seen.add("ends forbidden");
                }
            }
        }
        assertThat(seen).containsExactly("all three", "drawn", "ends forbidden", "greedy", "refused");
    }

    private static int choose(TokenSampler sampler, float[] logits) {
        float[] row = new float[logits.length + 3];
        System.arraycopy(logits, 0, row, 3, logits.length);
        return sampler.choose(row, 3, logits.length, new SamplingScratch()).token();
    }

    /** Whether all logits of the model are finite and at least one token may be chosen after the adjustments. */
    private static boolean drawable(float[] logits, float[] adjusted) {
        boolean some = false;
        for (int i = 0; i < logits.length; i++) {
            if (!Float.isFinite(logits[i]) || !(adjusted[i] < Float.POSITIVE_INFINITY)) {
                return false;
            }
            some |= adjusted[i] > Float.NEGATIVE_INFINITY;
        }
        return some;
    }

    /** Applies bias, penalties and forbidden ends, computed from the whole history. */
    private static float[] adjusted(
            float[] logits, SamplingParams params, int[] prompt, List<Integer> output, Set<Integer> ends) {
        Map<Integer, Integer> times = new HashMap<>();
        output.forEach(token -> times.merge(token, 1, Integer::sum));
        Set<Integer> seen = new HashSet<>(output);
        Arrays.stream(prompt).forEach(seen::add);
        boolean penalised =
                params.repetitionPenalty() != 1 || params.presencePenalty() != 0 || params.frequencyPenalty() != 0;
        float[] adjusted = new float[logits.length];
        for (int id = 0; id < logits.length; id++) {
            boolean end = ends.contains(id) || params.stopTokenIds().contains(id);
            boolean named = params.logitBias().containsKey(id)
                    || params.repetitionPenalty() != 1 && seen.contains(id)
                    || penalised && times.containsKey(id)
                    || end && params.minTokens() > 0;
            if (!named) {
                adjusted[id] = logits[id]; // a sum with 0 would turn -0 into +0
                continue;
            }
            float logit = logits[id] + params.logitBias().getOrDefault(id, 0f);
            if (seen.contains(id)) {
                float repetition = (float) params.repetitionPenalty();
                logit = logit > 0 ? logit / repetition : logit * repetition;
            }
            if (times.containsKey(id)) {
                logit -= (float) params.presencePenalty() + (float) params.frequencyPenalty() * times.get(id);
            }
            boolean forbidden = end && output.size() < params.minTokens();
            adjusted[id] = forbidden ? logit - Float.POSITIVE_INFINITY : logit;
        }
        return adjusted;
    }

    @Test
    void seededOutputDoesNotDependOnLogprobs() {
        for (long seed = SEED; seed < SEED + 200; seed++) {
            RandomSampling random = new RandomSampling(seed);
            SamplingParams params = random.drawn();
            List<float[]> steps = new ArrayList<>();
            for (int token = 0; token < 30; token++) {
                steps.add(random.ordinary(500));
            }
            List<Integer> plain = tokens(params, steps);
            assertThat(tokens(params.withLogprobs(20), steps))
                    .as("seed %d, with logprobs", seed)
                    .isEqualTo(plain);
            assertThat(tokens(params.withLogprobs(0), steps))
                    .as("seed %d, watched by a shadow verification", seed)
                    .isEqualTo(plain);
            assertThat(tokens(random.withPenaltiesThatDoNothing(params), steps))
                    .as("seed %d, penalties", seed)
                    .isEqualTo(plain);
            SplittableRandom chance = new SplittableRandom(seed);
            TokenSampler mixed = new TokenSampler(params, new int[] {1}, Set.of(0), 7);
            List<Integer> byEither = new ArrayList<>();
            for (float[] logits : steps) {
                if (chance.nextBoolean()) {
                    TokenSampler.Draw draw = mixed.draw(Integer.MAX_VALUE).orElseThrow();
                    int token = SamplingReference.token(logits, SamplingReference.Parameters.of(draw));
                    byEither.add(mixed.chosen(token, Optional.empty()).token());
                } else {
                    byEither.add(choose(mixed, logits));
                }
            }
            assertThat(byEither).as("seed %d, on either device", seed).isEqualTo(plain);
        }
    }

    private static List<Integer> tokens(SamplingParams params, List<float[]> steps) {
        TokenSampler sampler = new TokenSampler(params, new int[] {1}, Set.of(0), 7);
        return steps.stream().map(logits -> choose(sampler, logits)).toList();
    }
}
