package dev.tandem.bench.ideal;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import dev.tandem.bench.Workload;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.engine.cost.Profile;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

class IdealFieldsTest {
    private static IdealCase on(String machine) {
        Hardware hardware = Hardware.named(machine);
        return IdealCase.of(
                hardware,
                IdealTest.LLAMA_8B,
                26_400 * 131_072.0,
                hardware.host().kvBytes(),
                Lengths.of(Workload.parse("synthetic:1000/800", 0)),
                Bounds.WIDE);
    }

    @Test
    void aResultIsHeldAgainstTheIdeal() {
        Ideal ideal = Ideal.of(on("h200-16sm-26k"));
        double alone = ideal.gpuOnly().orElseThrow().tokensPerSecond();
        double gain = ideal.ratio().orElseThrow() - 1;
        Map<String, Object> result = new HashMap<>(
                Map.of("output_tokens_per_second", alone * (1 + gain / 2), "ratio_to_gpu_only", 1 + gain / 2));

        IdealFields.complete(result, ideal);

        assertThat((double) result.get("share_of_ideal_gain")).isCloseTo(0.5, within(0.01));
        assertThat((double) result.get("share_of_ideal")).isCloseTo((1 + gain / 2) / (1 + gain), within(0.01));
    }

    @Test
    void anOpenLoopIsHeldAgainstTheIdealByItsThroughput() {
        Map<String, Object> result = new HashMap<>(Map.of("output_throughput", 150.0));

        IdealFields.complete(result, 200);

        assertThat(result)
                .containsEntry("share_of_ideal", 0.75)
                .containsEntry("ideal_output_tokens_per_second", 200.0)
                .doesNotContainKeys("ideal_ratio", "share_of_ideal_gain");
    }

    /** The machine of a measured profile has the ideal of its hardware, apart from host reads beside attention. */
    @Test
    void aProfileByItselfHasTheIdealOfItsHardware() {
        Lengths lengths = Lengths.of(Workload.parse("synthetic:1000/800", 0));
        Profile profile = Hardware.named("h200-16sm-26k").profile(IdealTest.LLAMA_8B);
        IdealCase of = IdealCase.of(profile, 26_400 * 131_072.0, 90e9, 131_072, lengths, Bounds.WIDE);

        assertThat(of.linkBandwidth()).isBetween(20e9, 40e9);
        assertThat(Ideal.of(of).ratio().orElseThrow())
                .isCloseTo(Ideal.of(on("h200-16sm-26k")).ratio().orElseThrow(), within(0.01));
    }

    /** One measurement's noise is larger than a gain of two per cent. */
    @Test
    void aSmallIdealGainHasNoShare() {
        Hardware hardware = Hardware.named("h100-16vcpu");
        Ideal ideal = Ideal.of(IdealCase.of(
                hardware,
                IdealTest.LLAMA_8B,
                60e9,
                1e9,
                Lengths.of(Workload.parse("synthetic:1000/50", 0)),
                Bounds.WIDE));
        Map<String, Object> result =
                new HashMap<>(Map.of("output_tokens_per_second", 100.0, "ratio_to_gpu_only", 0.97));

        IdealFields.complete(result, ideal);

        assertThat(result).containsKey("share_of_ideal").doesNotContainKey("share_of_ideal_gain");
    }

    @Test
    void whatIfChangesOneThingEach() {
        Hardware hardware = Hardware.named("h200-16sm-26k");
        IdealCase of = on("h200-16sm-26k");
        double ideal = Ideal.of(of).ratio().orElseThrow();
        Map<String, IdealCase> cases = WhatIf.of(of, hardware, IdealTest.LLAMA_8B);

        assertThat(ratio(cases, "half the host memory bandwidth and cores")).isLessThan(ideal - 0.02);
        assertThat(ratio(cases, "twice the host memory bandwidth and cores")).isGreaterThan(ideal + 0.02);
        assertThat(ratio(cases, "the GPU also streams host KV over the link")).isGreaterThan(ideal + 0.02);
        IdealCase narrow = cases.get("KV of half the bits on both tiers");
        assertThat(Ideal.of(narrow).gpuOnly().orElseThrow().tokensPerSecond())
                .isGreaterThan(1.3 * Ideal.of(of).gpuOnly().orElseThrow().tokensPerSecond());
    }

    private static double ratio(Map<String, IdealCase> cases, String name) {
        return Ideal.of(cases.get(name)).ratio().orElseThrow();
    }

    @Test
    void theLineNamesGainBaselineAndLimits() {
        assertThat(IdealFields.line(Ideal.of(on("h200-16sm-26k")), "synthetic:1000/800"))
                .matches("at best 1\\.[0-9]{2} times gpu-only's [0-9]+ output tokens/s on synthetic:1000/800;"
                        + " limits: GPU time, .*");
    }
}
