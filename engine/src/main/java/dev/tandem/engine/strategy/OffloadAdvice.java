package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.executor.ExecutorLimits;
import java.util.Locale;

/**
 * What in-flight tokens could bring on this machine while all requests decode: as many GPU rows as the pool holds, as
 * many host tokens as the CPU reads and host memory holds. Prompts are left out, so it is a bound.
 *
 * @param context tokens per sequence
 * @param gpuRows that the GPU pool holds
 * @param gpuTokens per second without host tokens
 * @param hostTokens in flight with which the CPU is busy all the time, or that host memory holds
 * @param hostBytes KV bytes per second that the CPU reads then
 * @param gain of all tokens over {@code gpuTokens}, as a share; below 0 where host tokens cost more than they bring
 */
public record OffloadAdvice(int context, int gpuRows, double gpuTokens, int hostTokens, double hostBytes, double gain) {
    private static final int MIN_SLOTS = 8;

    /** @param context tokens per sequence, at most what the GPU pool holds */
    public static OffloadAdvice of(CostModel cost, ExecutorLimits limits, int context) {
        int gpuRows = (int) Math.max(1, (long) limits.gpuBlocks() * limits.blockTokens() / context);
        double plain = step(cost, gpuRows, gpuRows, context);
        int max = (int) Math.min((long) limits.hostBlocks() * limits.hostBlockTokens() / context, limits.maxInFlight());
        int hostTokens = 0;
        while (hostTokens < max && cost.inFlightAttention(hostTokens + 1, (hostTokens + 1L) * context) <= plain) {
            hostTokens++;
        }
        int slots = hostTokens == 0 ? 0 : Math.max(MIN_SLOTS, (hostTokens + cost.layers() - 1) / cost.layers());
        double both = step(cost, gpuRows, gpuRows + slots, context) * (hostTokens == 0 ? 1 : cost.hostLoad());
        double returned = (double) hostTokens / cost.layers();
        double bytes = (double) hostTokens * context * limits.kvBytesPerToken() / cost.layers() / both;
        return new OffloadAdvice(
                context,
                gpuRows,
                gpuRows / plain,
                hostTokens,
                bytes,
                (gpuRows + returned) / both / (gpuRows / plain) - 1);
    }

    private static double step(CostModel cost, int gpuRows, int rows, int context) {
        return cost.stepOverhead()
                + cost.preLayer(rows)
                + cost.postLayer(rows)
                + cost.layers() * (cost.linear(rows) + cost.gpuAttention((long) gpuRows * context));
    }

    /** For the start's log. */
    @Override
    public String toString() {
        return String.format(
                Locale.ROOT,
                "advice: at %,d tokens per sequence the GPU pool holds %d rows and makes at most %,.0f tokens/s;"
                        + " the CPU reads %.0f GB/s of KV beside it with %d in-flight tokens: offloading %s while no prompt is computed",
                context,
                gpuRows,
                gpuTokens,
                hostBytes / 1e9,
                hostTokens,
                gain > 0 ? String.format(Locale.ROOT, "gains at most %.0f %%", gain * 100) : "gains nothing");
    }
}
