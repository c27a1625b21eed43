package dev.tandem.bench.reproduce;

import dev.tandem.bench.hardware.ModelShape;
import java.util.List;

/**
 * One diagram of a figure: systems on the same machine with the same requests.
 *
 * @param name within the figure
 * @param setting the machine, the model and their limits
 * @param workload the requests' lengths, as {@code --workload}; {@code {x}} stands for the horizontal value
 * @param requests number of requests per cell
 * @param rate requests per second where the figure has one rate; 0 otherwise
 * @param systems what is compared
 * @param marks numbers that the paper prints
 */
public record Panel(
        String name,
        Setting setting,
        String workload,
        int requests,
        double rate,
        List<ComparedSystem> systems,
        List<Mark> marks) {
    /**
     * A machine, a model, and the limits that the paper or its artifact names.
     *
     * @param model name of a configuration among the resources
     * @param hardware name of a machine
     * @param gpuBlocks KV blocks of 16 tokens in GPU memory: equal for all systems, whose staging comes out of them
     * @param hostBytes bytes of host KV
     * @param maxBatchTokens per step
     * @param maxRequests that run at the same time
     */
    public record Setting(
            String model, String hardware, int gpuBlocks, long hostBytes, int maxBatchTokens, int maxRequests) {
        /** Tokens of a KV block in GPU memory. */
        static final int BLOCK_TOKENS = 16;

        /** The model's {@code config.json}. */
        public String modelConfig() {
            return Figure.resource(modelFile());
        }

        /** The sizes of the model. */
        public ModelShape shape() {
            return ModelShape.read(modelConfig(), modelFile());
        }

        private String modelFile() {
            return "models/" + model + ".json";
        }

        /** Bytes of GPU memory for KV. */
        public long gpuKvBytes() {
            return (long) (gpuBlocks * BLOCK_TOKENS * shape().kvBytesPerToken());
        }

        /** Max tokens of a request: whole prompts must fit into a step, and requests into the pool. */
        public int contextTokens() {
            return Math.min(maxBatchTokens, gpuBlocks * BLOCK_TOKENS);
        }
    }

    /**
     * A system under comparison.
     *
     * @param name in the figure
     * @param strategy as {@code --strategy}
     * @param hostAttention factor of the host's attention speed, for another CPU kernel; 1 is the machine's own
     * @param x horizontal values
     */
    public record ComparedSystem(String name, String strategy, double hostAttention, List<Double> x) {}

    /**
     * A number that the paper's text or tables print.
     *
     * @param label the number and the section
     * @param x NaN where the text names none
     * @param y NaN where the text names none; in a figure of relative throughput a ratio
     */
    public record Mark(String label, double x, double y) {}

    /** This panel with other systems. */
    Panel withSystems(List<ComparedSystem> others) {
        return new Panel(name, setting, workload, requests, rate, others, marks);
    }

    /** The system of that name. */
    public ComparedSystem system(String name) {
        return systems.stream()
                .filter(system -> system.name().equals(name))
                .findFirst()
                .orElseThrow(() -> new IllegalArgumentException("panel " + this.name + " has no system " + name));
    }
}
