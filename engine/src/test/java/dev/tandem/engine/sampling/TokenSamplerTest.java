package dev.tandem.engine.sampling;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.data.Offset.offset;

import dev.tandem.engine.request.RequestException;
import dev.tandem.engine.request.SamplingParams;
import java.util.ArrayList;
import java.util.Collections;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

class TokenSamplerTest {
    private static final float[] LOGITS = {1, 3, 2, -1, 0};

    private static TokenSampler sampler(SamplingParams.Builder params, int... prompt) {
        return new TokenSampler(params.build(), prompt, Set.of(4), 5);
    }

    private static Choice choose(TokenSampler sampler, float... logits) {
        float[] row = new float[logits.length + 2];
        System.arraycopy(logits, 0, row, 2, logits.length);
        return sampler.choose(row, 2, logits.length, new SamplingScratch());
    }

    private static int[] histogram(SamplingParams.Builder params, int draws) {
        TokenSampler sampler = sampler(params.maxTokens(draws));
        int[] counts = new int[LOGITS.length];
        for (int i = 0; i < draws; i++) {
            counts[choose(sampler, LOGITS).token()]++;
        }
        return counts;
    }

    @Test
    void greedyTakesTheLargestAndTheFirstOfEquals() {
        TokenSampler greedy = sampler(SamplingParams.builder().temperature(0));
        assertThat(choose(greedy, LOGITS).token()).isEqualTo(1);
        assertThat(choose(greedy, 7, 7, 1).token()).isZero();
    }

    @Test
    void drawsFollowTheDistribution() {
        int draws = 40_000;
        int[] counts = histogram(SamplingParams.builder().temperature(2), draws);
        double total = 0;
        for (float logit : LOGITS) {
            total += Math.exp(logit / 2);
        }
        for (int i = 0; i < LOGITS.length; i++) {
            assertThat(counts[i] / (double) draws).isCloseTo(Math.exp(LOGITS[i] / 2) / total, offset(0.01));
        }
    }

    @Test
    void topKTopPAndMinPKeepTheBest() {
        int[] two = histogram(SamplingParams.builder().temperature(2).topK(2), 500);
        assertThat(two[1] + two[2]).isEqualTo(500);
        assertThat(two[2]).isPositive();
        int[] nucleus = histogram(SamplingParams.builder().temperature(1).topP(0.6), 300);
        assertThat(nucleus).containsExactly(0, 300, 0, 0, 0);
        int[] minP = histogram(SamplingParams.builder().temperature(1).minP(0.2), 300);
        assertThat(minP[0] + minP[3] + minP[4]).isZero();
        assertThat(minP[2]).isPositive();
    }

    @Test
    void penaltiesAndBiasChangeTheChoice() {
        TokenSampler presence = sampler(SamplingParams.builder().temperature(0).presencePenalty(1.5));
        assertThat(choose(presence, LOGITS).token()).isEqualTo(1);
        assertThat(choose(presence, LOGITS).token()).isEqualTo(2);
        TokenSampler repetition =
                sampler(SamplingParams.builder().temperature(0).repetitionPenalty(2), 1);
        assertThat(choose(repetition, LOGITS).token()).isEqualTo(2);
        TokenSampler biased = sampler(SamplingParams.builder().temperature(0).logitBias(Map.of(3, 10f)));
        assertThat(choose(biased, LOGITS).token()).isEqualTo(3);
    }

    @Test
    void endTokensAreImpossibleBeforeMinTokens() {
        TokenSampler sampler = sampler(SamplingParams.builder().temperature(0).minTokens(2));
        assertThat(choose(sampler, 0, 1, 2, 3, 9).token()).isEqualTo(3);
        assertThat(choose(sampler, 0, 1, 2, 3, 9).token()).isEqualTo(3);
        assertThat(choose(sampler, 0, 1, 2, 3, 9).token()).isEqualTo(4);
    }

    @Test
    void logprobsAreOfTheRawDistribution() {
        TokenSampler sampler =
                sampler(SamplingParams.builder().temperature(0).logprobs(2).logitBias(Map.of(3, 50f)));
        Choice choice = choose(sampler, LOGITS);
        double logSum = Math.log(Math.exp(1) + Math.exp(3) + Math.exp(2) + Math.exp(-1) + 1);
        assertThat(choice.token()).isEqualTo(3);
        assertThat((double) choice.logprobs().orElseThrow().logprob()).isCloseTo(-1 - logSum, offset(1e-5));
        assertThat(choice.logprobs().orElseThrow().topTokens()).containsExactly(1, 2);
        assertThat((double) choice.logprobs().orElseThrow().topLogprobs()[0]).isCloseTo(3 - logSum, offset(1e-5));
    }

    @Test
    void logitsThatAllowNoChoiceAreRefused() {
        for (double temperature : new double[] {0, 1}) {
            SamplingParams.Builder params = SamplingParams.builder().temperature(temperature);
            for (float broken : new float[] {Float.NaN, Float.POSITIVE_INFINITY, Float.NEGATIVE_INFINITY}) {
                assertThatThrownBy(() -> choose(sampler(params), 1, 3, broken, 2))
                        .isInstanceOf(SamplingException.class)
                        .hasMessageContaining(TokenSampler.NOT_FINITE)
                        .hasMessageContaining("token 2 has " + broken);
            }
            assertThatThrownBy(() -> choose(sampler(params.minTokens(1).stopTokenIds(Set.of(0, 1, 2, 3))), LOGITS))
                    .isInstanceOf(SamplingException.class)
                    .hasMessageContaining("no token may be chosen");
        }
        SamplingParams.Builder raising = SamplingParams.builder().temperature(0).repetitionPenalty(0.5);
        assertThatThrownBy(() -> choose(sampler(raising, 1), 1, Float.MAX_VALUE, 2))
                .isInstanceOf(SamplingException.class)
                .hasMessageContaining("adjusted logit of token 1 is +infinity");
    }

    @Test
    void parametersBeyondTheirBoundsAreRefused() {
        SamplingParams tiny = SamplingParams.builder()
                .temperature(1e-300)
                .topK(-1)
                .logitBias(Map.of(1, 100f, 2, -100f))
                .seed(-1)
                .build();
        assertThat(tiny.temperature()).isEqualTo(0.01);
        assertThat(tiny.topK()).isZero();
        assertThat(tiny.logitBias()).isEqualTo(Map.of(1, 100f, 2, -100f));
        assertThat(tiny.seed()).isEmpty();
        assertThat(SamplingParams.builder().temperature(0).build().greedy()).isTrue();
        assertThat(SamplingParams.builder()
                        .minTokens(5)
                        .maxTokens(OptionalInt.empty())
                        .build()
                        .maxTokens())
                .isEmpty();
        refused("temperature", b -> b.temperature(2.1));
        refused("temperature", b -> b.temperature(-1e-9));
        refused("top_k", b -> b.topK(-2));
        refused("top_p", b -> b.topP(1.0001));
        refused("min_p", b -> b.minP(-0.1));
        refused("repetition_penalty", b -> b.repetitionPenalty(1e-40));
        refused("repetition_penalty", b -> b.repetitionPenalty(1e39));
        refused("frequency_penalty", b -> b.frequencyPenalty(2.1));
        refused("min_tokens", b -> b.minTokens(-1));
        refused("min_tokens", b -> b.minTokens(17));
        refused("max_tokens", b -> b.maxTokens(0));
        refused("logit_bias", b -> b.logitBias(Map.of(1, Float.NaN)));
        refused("logit_bias", b -> b.logitBias(Map.of(1, 100f, 2, Math.nextUp(100f))));
        refused("logit_bias", b -> b.logitBias(Map.of(1, -101f)));
        refused("logit_bias", b -> b.logitBias(Map.of(1, Float.POSITIVE_INFINITY)));
        refused("logit_bias", b -> b.logitBias(ids(1025).collect(Collectors.toMap(id -> id, id -> 1f))));
        refused("stop_token_ids", b -> b.stopTokenIds(ids(129).collect(Collectors.toSet())));
        refused("stop", b -> b.stop(Collections.nCopies(17, "x")));
        refused("stop", b -> b.stop(List.of("x".repeat(1025))));
        refused("stop", b -> b.stop(List.of("")));
        refused("top_logprobs", b -> b.logprobs(21));
        for (double value : new double[] {Double.NaN, Double.POSITIVE_INFINITY, Double.NEGATIVE_INFINITY}) {
            refused("temperature", b -> b.temperature(value));
            refused("top_p", b -> b.topP(value));
            refused("min_p", b -> b.minP(value));
            refused("repetition_penalty", b -> b.repetitionPenalty(value));
            refused("presence_penalty", b -> b.presencePenalty(value));
            refused("frequency_penalty", b -> b.frequencyPenalty(value));
        }
    }

    private static Stream<Integer> ids(int count) {
        return IntStream.range(0, count).boxed();
    }

    private static void refused(String parameter, Consumer<SamplingParams.Builder> wrong) {
        SamplingParams.Builder params = SamplingParams.builder();
        wrong.accept(params);
        assertThatThrownBy(params::build).isInstanceOfSatisfying(RequestException.class, e -> {
            assertThat(e.category()).isEqualTo(RequestException.Category.BAD_REQUEST);
            assertThat(e.parameter()).isEqualTo(parameter);
            assertThat(e).hasMessageContaining(parameter.replace('_', ' ').split(" ")[0]);
        });
    }

    @Test
    void badParametersAreNamed() {
        assertThatThrownBy(
                        () -> SamplingParams.builder().temperature(Double.NaN).build())
                .isInstanceOfSatisfying(
                        RequestException.class, e -> assertThat(e.parameter()).isEqualTo("temperature"));
        assertThatThrownBy(() -> SamplingParams.builder().topP(0).build()).hasMessageContaining("top_p is 0.0");
        assertThatThrownBy(() -> SamplingParams.builder().maxTokens(0).build()).hasMessageContaining("max_tokens is 0");
        assertThatThrownBy(() -> SamplingParams.builder().presencePenalty(-3).build())
                .hasMessageContaining("presence_penalty");
    }

    @Test
    void aDeviceMayChooseByARandomNumber() {
        int[] prompt = {1, 2};
        TokenSampler plain = new TokenSampler(
                SamplingParams.builder()
                        .temperature(0.7)
                        .topK(5)
                        .seed(3L)
                        .maxTokens(9)
                        .build(),
                prompt,
                Set.of(9),
                0);
        TokenSampler.Draw first = plain.draw(0).orElseThrow();
        assertThat(first.greedy()).isFalse();
        assertThat(first.uniform()).isBetween(0.0, 1.0);
        assertThat(first.adjusted()).isFalse();
        assertThat(plain.dependsOnOutput()).isFalse();
        assertThat(plain.chosen(4, Optional.empty()).token()).isEqualTo(4);
        assertThat(plain.draw(0).orElseThrow().uniform()).isNotEqualTo(first.uniform());
        TokenSampler.Draw greedy = new TokenSampler(
                        SamplingParams.builder()
                                .temperature(0)
                                .logprobs(2)
                                .maxTokens(9)
                                .build(),
                        prompt,
                        Set.of(9),
                        0)
                .draw(0)
                .orElseThrow();
        assertThat(greedy.greedy()).isTrue();
        assertThat(greedy.logprobs()).isEqualTo(2);
    }

    /** As a device does with a token that it has begun and then releases. */
    @Test
    void aDrawThatIsTakenBackIsMadeAgainOnEitherDevice() {
        long seed = 7;
        float[] logits = {0.1f, 0.4f, 0.2f, 0.3f, 0.5f, 0.6f, 0.2f, 0.1f};
        SamplingParams params =
                SamplingParams.builder().seed(seed).maxTokens(20).build();
        TokenSampler whole = new TokenSampler(params, new int[] {0}, Set.of(), 0);
        TokenSampler interrupted = new TokenSampler(params, new int[] {0}, Set.of(), 0);
        for (int token = 0; token < 20; token++) {
            if (token % 3 == 0) {
                interrupted.takeBack(interrupted.draw(0).orElseThrow());
            }
            if (token % 6 == 0) {
                double uniform = whole.draw(0).orElseThrow().uniform();
                assertThat(interrupted.draw(0).orElseThrow().uniform())
                        .as("seed %d, token %d", seed, token)
                        .isEqualTo(uniform);
                whole.chosen(1, Optional.empty());
                interrupted.chosen(1, Optional.empty());
            } else {
                assertThat(choose(interrupted, logits))
                        .as("seed %d, token %d", seed, token)
                        .isEqualTo(choose(whole, logits));
            }
        }
    }

    @Test
    void aDeviceAppliesAdjustmentsToTheLogitsFirst() {
        int[] prompt = {1, 2};
        for (SamplingParams params : List.of(
                SamplingParams.builder()
                        .temperature(0)
                        .repetitionPenalty(1.2)
                        .maxTokens(9)
                        .build(),
                SamplingParams.builder()
                        .temperature(0)
                        .presencePenalty(0.5)
                        .maxTokens(9)
                        .build(),
                SamplingParams.builder()
                        .temperature(0)
                        .minTokens(2)
                        .maxTokens(9)
                        .build(),
                SamplingParams.builder()
                        .temperature(0)
                        .logitBias(Map.of(3, 1f))
                        .maxTokens(9)
                        .build())) {
            TokenSampler sampler = new TokenSampler(params, prompt, Set.of(9), 0);
            TokenSampler.Draw draw = sampler.draw(9).orElseThrow();
            assertThat(draw.adjusted()).as(params.toString()).isTrue();
            assertThat(sampler.dependsOnOutput())
                    .as("%s depends on the tokens before", params)
                    .isEqualTo(params.logitBias().isEmpty());
            sampler.chosen(3, Optional.empty());
            assertThat(sampler.adjustments().count()).as(params.toString()).isPositive();
            assertThat(sampler.draw(0)).as("no draw on the device").isEmpty();
        }
        TokenSampler both = new TokenSampler(
                SamplingParams.builder()
                        .temperature(0)
                        .logitBias(Map.of(3, 1f))
                        .logprobs(0)
                        .maxTokens(9)
                        .build(),
                prompt,
                Set.of(9),
                0);
        assertThat(both.draw(9))
                .as("log-probabilities are of the logits before adjustment")
                .isEmpty();
        TokenSampler late = new TokenSampler(
                SamplingParams.builder()
                        .temperature(0)
                        .minTokens(1)
                        .maxTokens(9)
                        .build(),
                prompt,
                Set.of(9),
                0);
        assertThat(late.draw(0)).as("the end is still forbidden").isEmpty();
        late.chosen(5, Optional.empty());
        assertThat(late.draw(0)).isPresent();
    }

    @Test
    void adjustmentsAreBiasThenRepetitionThenPenalties() {
        SamplingParams params = SamplingParams.builder()
                .temperature(0)
                .repetitionPenalty(2)
                .presencePenalty(0.5)
                .frequencyPenalty(0.25)
                .logitBias(Map.of(4, -3f))
                .minTokens(3)
                .maxTokens(9)
                .build();
        TokenSampler sampler = new TokenSampler(params, new int[] {1, 2}, Set.of(0), 0);
        sampler.chosen(2, Optional.empty());
        sampler.chosen(2, Optional.empty());
        float[] logits = {9, 1, -1, 5, 2};
        sampler.adjustments().apply(logits, 0, logits.length);
        assertThat(logits).containsExactly(Float.NEGATIVE_INFINITY, 0.5f, -2 - 0.5f - 2 * 0.25f, 5, -1);
        sampler.chosen(4, Optional.empty());
        logits = new float[] {9, 1, -1, 5, 2};
        sampler.adjustments().apply(logits, 0, logits.length);
        assertThat(logits).as("the end is allowed now").containsExactly(9, 0.5f, -3, 5, -2 - 0.5f - 0.25f);
    }

    @Test
    void aGrammarExcludesTokensOnTheCpuAndOnADevice() {
        long seed = ThreadLocalRandom.current().nextLong();
        RandomGrammar grammar = new RandomGrammar(seed, 100);
        SamplingParams params = SamplingParams.builder()
                .temperature(2)
                .seed(seed)
                .grammar(Optional.of(grammar))
                .build();
        TokenSampler sampler = new TokenSampler(params, new int[] {1}, Set.of(), 0);
        SplittableRandom random = new SplittableRandom(seed);
        List<Integer> output = new ArrayList<>();
        for (int i = 0; i < 50; i++) {
            float[] logits = new float[100];
            for (int id = 0; id < 100; id++) {
                logits[id] = (float) random.nextGaussian() * 5;
            }
            output.add(sampler.choose(logits, 0, 100, new SamplingScratch()).token());
        }
        assertThat(grammar.matches(output)).as("seed %d", seed).isTrue();
        TokenSampler.Draw draw = sampler.draw(0, true).orElseThrow();
        assertThat(draw.masked()).isTrue();
        assertThat(sampler.dependsOnOutput())
                .as("the next bitmask depends on the token")
                .isTrue();
        assertThat(sampler.draw(0)).as("no room for the bitmask").isEmpty();
        assertThat(new TokenSampler(params.withLogprobs(0), new int[] {1}, Set.of(), 0).draw(0, true))
                .as("log-probabilities are of the raw logits")
                .isEmpty();
        assertThatThrownBy(() -> IntStream.range(0, 100).forEach(token -> sampler.chosen(token, Optional.empty())))
                .isInstanceOf(SamplingException.class)
                .hasMessageContaining("is not allowed");
        assertThat(grammar.open).isEqualTo(2);
        sampler.close();
        assertThat(grammar.open).isEqualTo(1);
    }

    @Test
    void aBitmaskIsComputedOnlyWhereTheMostProbableTokenIsNotAllowed() {
        long seed = ThreadLocalRandom.current().nextLong();
        RandomGrammar grammar = new RandomGrammar(seed, 100);
        SamplingParams params = SamplingParams.builder()
                .temperature(0)
                .grammar(Optional.of(grammar))
                .build();
        TokenSampler sampler = new TokenSampler(params, new int[] {1}, Set.of(), 0);
        GrammarMatcher reference = new RandomGrammar(seed, 100).matcher();
        SplittableRandom random = new SplittableRandom(seed);
        int excluded = 0;
        for (int i = 0; i < 50; i++) {
            float[] logits = new float[100];
            boolean allowed = i % 2 == 0; // the most probable token
            for (int id = 0; id < 100; id++) {
                logits[id] = (float) random.nextDouble() + (reference.allows(id) == allowed ? 1 : 0);
            }
            excluded += reference.allows(TokenSampler.argmax(logits, 0, 100)) ? 0 : 1;
            int best = IntStream.range(0, 100)
                    .filter(reference::allows)
                    .boxed()
                    .max(Comparator.comparing(id -> logits[id]))
                    .orElseThrow();
            assertThat(sampler.choose(logits, 0, 100, new SamplingScratch()).token())
                    .as("seed %d", seed)
                    .isEqualTo(best);
            reference.accept(best);
        }
        assertThat(excluded).as("seed %d", seed).isEqualTo(25);
        assertThat(grammar.bitmasks).as("seed %d", seed).isEqualTo(excluded);
    }

    @Test
    void aGrammarDecidesWhereTheOutputEnds() {
        SamplingParams.Builder params = SamplingParams.builder().grammar(Optional.of(new RandomGrammar(1, 10)));
        assertThatThrownBy(() -> params.minTokens(1).build())
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("min_tokens is 1");
        assertThatThrownBy(() -> params.minTokens(0).ignoreEos(true).build())
                .isInstanceOf(RequestException.class)
                .hasMessageContaining("ignore_eos");
    }
}
