package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;

/**
 * Times with which plans can be checked by hand, in seconds of one of 2 layers. A linear stage takes 10 up to 100 rows,
 * then 0.1 per row. GPU attention takes 0.01 per token, CPU attention 0.1 per token, prefill attention 0.001 per pair.
 * Everything else takes nearly no time.
 */
public final class TestProfile {
    public static final String TEXT = """
            name test
            layers 2
            linear 1 10
            linear 100 10
            linear 1000 100
            prefill-attention 1 0.001
            prefill-attention 1000000 1000
            gpu-attention 1 0.01
            gpu-attention 100000 1000
            cpu-attention/1 1 0.1
            cpu-attention/1 10000 1000
            cpu-attention/100 1 10
            cpu-attention/100 10000 100000
            transfer 1 1e-9
            transfer 1000000000 1
            pre-layer 1 1e-9
            pre-layer 1000 1e-9
            post-layer 1 1e-9
            post-layer 1000 1e-9
            step-overhead 0
            stage-overhead 0
            """;

    private TestProfile() {}

    public static CostModel model() {
        return new CostModel(Profile.parse(TEXT, "the test profile"));
    }

    /** The profile with these overheads of a stage and of the way to the CPU and back. */
    public static CostModel withStages(double stage, double trip) {
        String text = TEXT.replace("stage-overhead 0", "stage-overhead " + stage) + "trip-overhead " + trip + "\n";
        return new CostModel(Profile.parse(text, "the test profile"));
    }

    /** The profile with a CPU that is faster by the factor {@code times}. */
    public static CostModel withCpu(double times) {
        StringBuilder text = new StringBuilder();
        for (String line : TEXT.split("\n")) {
            String[] words = line.split(" ");
            text.append(
                    line.startsWith("cpu-")
                            ? words[0] + " " + words[1] + " " + Double.parseDouble(words[2]) / times
                            : line);
            text.append('\n');
        }
        return new CostModel(Profile.parse(text.toString(), "the test profile"));
    }
}
