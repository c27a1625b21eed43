package dev.tandem.engine.request;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Set;
import org.junit.jupiter.api.Test;

class SamplingParamsTest {
    private static final SamplingParams ALL = SamplingParams.builder()
            .temperature(0.5)
            .topK(3)
            .topP(0.75)
            .minP(0.125)
            .repetitionPenalty(1.5)
            .presencePenalty(-1)
            .frequencyPenalty(0.25)
            .logitBias(Map.of(7, 100f))
            .seed(11)
            .maxTokens(9)
            .minTokens(2)
            .stop(List.of("end"))
            .includeStop(true)
            .stopTokenIds(Set.of(5))
            .ignoreEos(true)
            .logprobs(4)
            .build();

    @Test
    void aCopyDiffersInItsOwnFieldOnly() {
        String text = "SamplingParams[temperature=0.5, topK=3, topP=0.75, minP=0.125, repetitionPenalty=1.5,"
                + " presencePenalty=-1.0, frequencyPenalty=0.25, logitBias={7=100.0}, seed=OptionalLong[11],"
                + " maxTokens=OptionalInt[9], minTokens=2, stop=[end], includeStop=true, stopTokenIds=[5],"
                + " ignoreEos=true, logprobs=4, grammar=Optional.empty]";
        assertThat(ALL).hasToString(text);
        assertThat(ALL.withLogprobs(0)).hasToString(text.replace("logprobs=4", "logprobs=0"));
        assertThat(ALL.forChoice(2)).hasToString(text.replace("OptionalLong[11]", "OptionalLong[13]"));
    }
}
