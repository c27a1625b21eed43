package dev.tandem.engine.schedule;

import static org.assertj.core.api.Assertions.assertThat;

import dev.tandem.engine.request.Request;
import dev.tandem.engine.request.SamplingParams;
import dev.tandem.engine.request.Sequence;
import dev.tandem.engine.request.TextDecoder;
import dev.tandem.engine.sampling.TokenSampler;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.RepetitionInfo;
import org.junit.jupiter.api.Test;

class KvDemandForecastTest {
    private final OutputLengths lengths = new OutputLengths();

    private void ended(int times, int tokens) {
        for (int i = 0; i < times; i++) {
            lengths.ended(tokens);
        }
    }

    private static Sequence sequence(int prompt, int output, int limit) {
        SamplingParams params = SamplingParams.builder().maxTokens(limit).build();
        Request request = new Request("r", new int[prompt], params, 0, TextDecoder.none(), event -> {});
        Sequence sequence = new Sequence(0, request, 0, limit, new TokenSampler(params, new int[prompt], Set.of(), 1));
        for (int i = 0; i < output; i++) {
            sequence.append(1, 0);
        }
        return sequence;
    }

    private int max(List<Sequence> there, Sequence candidate) {
        return max(there, candidate, Integer.MAX_VALUE);
    }

    private int max(List<Sequence> there, Sequence candidate, int steps) {
        KvDemandForecast forecast = new KvDemandForecast(lengths, Integer.MAX_VALUE);
        there.forEach(sequence -> forecast.add(sequence, sequence.length()));
        return forecast.maxWith(candidate, candidate.length(), steps);
    }

    @Test
    void thereIsNoForecastBeforeSequencesHaveEnded() {
        ended(15, 1_000);
        assertThat(lengths.remaining(3)).isZero();
        ended(1, 1_000);
        assertThat(lengths.remaining(3)).isEqualTo(997);
    }

    @Test
    void expectedTokensComeFromLongerOutputsOnly() {
        ended(10, 20);
        ended(10, 100);
        assertThat(lengths.remaining(0)).isEqualTo(60);
        assertThat(lengths.remaining(20)).isEqualTo(80);
        assertThat(lengths.remaining(99)).isEqualTo(1);
        assertThat(lengths.remaining(100)).as("longer than all").isEqualTo(1);
    }

    @Test
    void tokensOfRunningSequencesCountForTheMean() {
        ended(15, 100);
        assertThat(lengths.meanWith(16, 1_600)).as("too few have ended").isZero();
        ended(1, 100);
        assertThat(lengths.meanWith(16, 1_600)).as("half of the tokens count").isEqualTo(150);
        assertThat(lengths.meanWith(8, 1_600)).as("half as many run").isEqualTo(100);
        assertThat(lengths.meanWith(0, 0)).isEqualTo(100);
        ended(600, 100);
        assertThat(lengths.meanWith(616, 61_600))
                .as("as many run as have ended, half of theirs")
                .isEqualTo(150);
        assertThat(lengths.meanWith(300, 30_000))
                .as("more have ended than are kept")
                .isEqualTo(100);
    }

    @Test
    void theOldestLengthsAreForgotten() {
        ended(16, 5_000);
        ended(512, 10);
        assertThat(lengths.remaining(0)).isEqualTo(10);
    }

    @Test
    void twoEqualSequencesPeakAtTheirEnd() {
        ended(16, 100);
        assertThat(max(List.of(sequence(50, 0, 1_000)), sequence(50, 0, 1_000))).isEqualTo(300 - 50);
    }

    @Test
    void aSequenceThatEndsSoonLeavesRoom() {
        ended(16, 100);
        // when the first ends, 150 + 52 tokens are held; the second ends with 150 alone
        assertThat(max(List.of(sequence(50, 98, 1_000)), sequence(50, 0, 1_000)))
                .isEqualTo(150 + 52 - 148);
    }

    @Test
    void theLimitBoundsTheForecast() {
        ended(16, 100);
        assertThat(max(List.of(), sequence(50, 0, 60))).isEqualTo(60);
    }

    @Test
    void theForecastLooksAheadForSomeSteps() {
        ended(16, 100);
        assertThat(max(List.of(sequence(50, 0, 1_000)), sequence(50, 0, 1_000), 30))
                .isEqualTo(2 * (50 + 30) - 50);
        // the first ends after 2 steps, with 150 + 52 tokens, and after 30 the second has 80
        assertThat(max(List.of(sequence(50, 98, 1_000)), sequence(50, 0, 1_000), 30))
                .isEqualTo(150 + 52 - 148);
    }

    /** Compares with sequences that run: each grows by one token per step and returns its tokens at its end. */
    @RepeatedTest(20)
    void theForecastEqualsTheMaxOfASimulatedRun(RepetitionInfo repetition) {
        SplittableRandom random = new SplittableRandom(repetition.getCurrentRepetition());
        int length = random.nextInt(20, 200);
        ended(16, length); // equal lengths, so the forecast is a whole number of tokens
        List<Sequence> all = new ArrayList<>();
        for (int i = random.nextInt(1, 40); i >= 0; i--) {
            int prompt = random.nextInt(1, 300);
            all.add(sequence(prompt, random.nextInt(length), prompt + random.nextInt(length, 2 * length)));
        }
        Sequence candidate = all.getLast();
        List<Sequence> there = all.subList(0, all.size() - 1);
        int max = 0;
        for (int step = 0; step <= length; step++) {
            int held = 0;
            for (Sequence sequence : all) {
                boolean runs = step <= length - sequence.outputLength();
                held += runs ? sequence.length() + step : 0;
            }
            max = Math.max(max, held);
        }
        int now = there.stream().mapToInt(Sequence::length).sum();
        assertThat(max(there, candidate)).isEqualTo(max - now);
    }
}
