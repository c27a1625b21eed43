package dev.tandem.cuda.device;

import java.util.LinkedHashMap;
import java.util.Map;

/**
 * How GPU memory is used, in bytes.
 *
 * @param weights of the model
 * @param activations and inputs of steps, with the lists of KV that steps copy
 * @param workspaces of GEMMs, and graphs with the memory that the driver took while capturing
 * @param kvPool KV blocks
 * @param free available to other processes
 * @param total of the GPU
 */
public record GpuMemoryLedger(long weights, long activations, long workspaces, long kvPool, long free, long total) {
    /** The parts by name, in the order of the fields. The sum of all but the last is the last. */
    public Map<String, Long> parts() {
        Map<String, Long> parts = new LinkedHashMap<>();
        parts.put("weights", weights);
        parts.put("activations", activations);
        parts.put("workspaces, graphs", workspaces);
        parts.put("KV pool", kvPool);
        parts.put("driver, others", total - weights - activations - workspaces - kvPool - free);
        parts.put("free", free);
        parts.put("total", total);
        return parts;
    }
}
