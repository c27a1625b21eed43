package dev.tandem.cuda.device;

import java.util.Locale;

/**
 * How GPU memory and host KV memory is used, in bytes.
 *
 * @param weights of the model
 * @param activations and workspaces
 * @param graphs including memory that the driver took while capturing
 * @param gpuKv the GPU pool
 * @param hostKv the host pool, in pinned host memory
 * @param free available to other processes
 * @param total of the GPU
 */
public record MemoryLedger(
        long weights, long activations, long graphs, long gpuKv, long hostKv, long free, long total) {
    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "GPU memory: weights %.2f, activations %.2f, graphs %.2f, KV %.2f, free %.2f of %.2f GiB; host "
                        + "KV %.2f GiB pinned",
                weights / 0x1p30,
                activations / 0x1p30,
                graphs / 0x1p30,
                gpuKv / 0x1p30,
                free / 0x1p30,
                total / 0x1p30,
                hostKv / 0x1p30);
    }
}
