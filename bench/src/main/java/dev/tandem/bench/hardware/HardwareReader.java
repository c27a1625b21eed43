package dev.tandem.bench.hardware;

import dev.tandem.engine.config.ConfigurationException;
import tools.jackson.core.JacksonException;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** Reads a hardware file: JSON with the units in the fields' names, and a {@code source} beside the numbers. */
final class HardwareReader {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final double GIGA = 1e9;
    private static final double TERA = 1e12;

    private final String origin;

    private HardwareReader(String origin) {
        this.origin = origin;
    }

    /** @param origin names the text in errors */
    static Hardware read(String text, String origin) {
        try {
            return new HardwareReader(origin).hardware(JSON.readTree(text));
        } catch (JacksonException e) {
            throw new ConfigurationException(
                    origin + " is no JSON: " + e.getOriginalMessage() + ". See docs/reference for a hardware file");
        }
    }

    private Hardware hardware(JsonNode root) {
        JsonNode efficiency = section(root, "efficiency");
        source(efficiency, "efficiency");
        return new Hardware(
                text(root, "name"),
                provenance(section(root, "provenance")),
                gpu(section(root, "gpu")),
                root.has("tensor_parallel") ? tensorParallel(section(root, "tensor_parallel")) : TensorParallel.NONE,
                host(section(root, "host")),
                new Efficiency(
                        fraction(efficiency, "gpu_bandwidth"),
                        fraction(efficiency, "gpu_attention"),
                        fraction(efficiency, "gpu_flops"),
                        fraction(efficiency, "prefill_attention"),
                        fraction(efficiency, "host_bandwidth"),
                        fraction(efficiency, "host_attention")));
    }

    private Provenance provenance(JsonNode node) {
        String kind = text(node, "kind");
        return switch (kind) {
            case "measured" ->
                new Provenance.Measured(
                        text(node, "profile"), text(node, "model"), positive(node, "kv_bytes_per_token"));
            case "roofline" -> new Provenance.DataSheet();
            default ->
                throw new ConfigurationException(
                        origin + ": provenance.kind is " + kind + "; use measured, with a profile, or roofline");
        };
    }

    private Gpu gpu(JsonNode node) {
        source(node, "gpu");
        return new Gpu(
                text(node, "name"),
                positive(node, "memory_gb") * GIGA,
                positive(node, "bandwidth_gb_per_second") * GIGA,
                positive(node, "dense_16_bit_tflops") * TERA,
                positive(node, "link_gb_per_second") * GIGA);
    }

    private TensorParallel tensorParallel(JsonNode node) {
        source(node, "tensor_parallel");
        return new TensorParallel(
                (int) positive(node, "degree"),
                positive(node, "bandwidth_gb_per_second") * GIGA,
                positive(node, "all_reduce_microseconds") * 1e-6);
    }

    private Host host(JsonNode node) {
        source(node, "host");
        return new Host(
                text(node, "name"),
                positive(node, "memory_bandwidth_gb_per_second") * GIGA,
                positive(node, "kv_gb") * GIGA,
                (int) positive(node, "cores"),
                positive(node, "core_load_gb_per_second") * GIGA,
                positive(node, "core_gflops") * GIGA);
    }

    private void source(JsonNode node, String section) {
        if (text(node, "source").isBlank()) {
            throw new ConfigurationException(
                    origin + ": " + section + ".source is empty; say where its numbers are from");
        }
    }

    private JsonNode section(JsonNode root, String name) {
        JsonNode node = root.path(name);
        if (!node.isObject()) {
            throw new ConfigurationException(origin + " has no object " + name + "; every hardware file needs it");
        }
        return node;
    }

    private String text(JsonNode node, String name) {
        JsonNode value = node.path(name);
        if (!value.isString()) {
            throw new ConfigurationException(origin + ": " + name + " is " + value + "; it must be a text");
        }
        return value.stringValue();
    }

    private double positive(JsonNode node, String name) {
        JsonNode value = node.path(name);
        if (!value.isNumber() || !(value.doubleValue() > 0)) {
            throw new ConfigurationException(origin + ": " + name + " is " + value + "; it must be a number above 0");
        }
        return value.doubleValue();
    }

    private double fraction(JsonNode node, String name) {
        double value = positive(node, name);
        if (value > 1) {
            throw new ConfigurationException(
                    origin + ": efficiency." + name + " is " + value + "; it must not exceed 1");
        }
        return value;
    }
}
