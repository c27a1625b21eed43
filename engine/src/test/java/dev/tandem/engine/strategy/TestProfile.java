package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.cost.Profile;

/**
 * Times to check plans by hand with, in seconds of one layer, 2 layers: linear stages 10 up to 100 rows, then a tenth a
 * row; GPU attention a hundredth a token; CPU attention a tenth a token; prefill attention a thousandth a pair; the
 * rest next to nothing.
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

    /** With so much for each stage of two sub-batches that take turns, and for the way to the CPU and back. */
    public static CostModel withStages(double stage, double trip) {
        String text = TEXT.replace("stage-overhead 0", "stage-overhead " + stage) + "trip-overhead " + trip + "\n";
        return new CostModel(Profile.parse(text, "the test profile"));
    }

    /** With the CPU {@code times} as fast. */
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
