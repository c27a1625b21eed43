package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.ExecutorLimits;
import java.util.Locale;

/**
 * An upper bound of the gain from in-flight tokens on this machine. It assumes that all requests decode, that the GPU
 * pool is full, and that as many tokens are in flight as the CPU keeps up with and host memory holds. Prompts are left
 * out.
 *
 * @param context tokens per sequence
 * @param gpuRows sequences that the GPU pool holds
 * @param gpuTokens tokens per second without host tokens
 * @param hostTokens in-flight tokens that keep the CPU busy all the time, or that host memory holds
 * @param hostBytes KV bytes per second that the CPU then reads
 * @param gain in tokens per second over {@code gpuTokens}, as a share; below 0 where host tokens cost more than they
 *     gain
 */
public record OffloadAdvice(int context, int gpuRows, double gpuTokens, int hostTokens, double hostBytes, double gain) {
    /** The fewest slots per layer, as in {@link AsyncOverlap}. */
    private static final int MIN_SLOTS = 8;

    /**
     * Estimates the gain from the cost model.
     *
     * @param cost of this machine
     * @param limits of the executor
     * @param context tokens per sequence, at most as many as the GPU pool holds
     */
    public static OffloadAdvice of(CostModel cost, ExecutorLimits limits, int context) {
        int gpuRows = (int) Math.max(1, (long) limits.gpuBlocks() * limits.blockTokens() / context);
        double gpuOnly = step(cost, gpuRows, gpuRows, context);
        int max = (int) Math.min((long) limits.hostBlocks() * limits.hostBlockTokens() / context, limits.maxInFlight());
        int hostTokens = 0;
        while (hostTokens < max && cost.inFlightAttention(hostTokens + 1, (hostTokens + 1L) * context) <= gpuOnly) {
            hostTokens++;
        }
        int slots = hostTokens == 0 ? 0 : Math.max(MIN_SLOTS, (hostTokens + cost.layers() - 1) / cost.layers());
        double withHost = step(cost, gpuRows, gpuRows + slots, context) * (hostTokens == 0 ? 1 : cost.hostLoad());
        double returned = (double) hostTokens / cost.layers();
        double bytes = (double) hostTokens * context * limits.kvBytesPerToken() / cost.layers() / withHost;
        return new OffloadAdvice(
                context,
                gpuRows,
                gpuRows / gpuOnly,
                hostTokens,
                bytes,
                (gpuRows + returned) / withHost / (gpuRows / gpuOnly) - 1);
    }

    private static double step(CostModel cost, int gpuRows, int rows, int context) {
        return cost.stepOverhead()
                + cost.preLayer(rows)
                + cost.postLayer(rows)
                + cost.layers() * (cost.linear(rows) + cost.gpuAttention((long) gpuRows * context));
    }

    /** Formats the advice for the log of the start. */
    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "advice: at %,d tokens per sequence the GPU pool holds %d sequences and decodes at most %,.0f tokens/s;"
                        + " the CPU keeps up with %d in-flight tokens and reads %.0f GB/s of KV for them;"
                        + " while no prompt is computed, offloading %s",
                context,
                gpuRows,
                gpuTokens,
                hostTokens,
                hostBytes / 1e9,
                gain > 0
                        ? String.format(Locale.ROOT, "gains at most %.0f %%", gain * 100)
                        : "gains nothing, so --strategy gpu-only serves as well");
    }
}
