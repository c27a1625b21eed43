package dev.tandem.engine.strategy;

import dev.tandem.engine.cost.CostModel;
import dev.tandem.engine.execute.ExecutorLimits;
import java.util.Locale;

/**
 * What rows in flight could bring on this machine while everybody decodes: GPU rows as the pool holds them, host rows as the
 * CPU reads them and host memory holds them. Prompts are left out, so it is a bound.
 *
 * @param context tokens a sequence
 * @param gpuRows that the GPU pool holds
 * @param gpuTokens a second that they make without host rows
 * @param hostRows in flight with which the CPU is busy all the time, or that host memory holds
 * @param hostBytes KV bytes a second that the CPU reads then
 * @param gain of all tokens over {@code gpuTokens}, as a share; below 0 where host rows cost more than they bring
 */
public record OffloadAdvice(int context, int gpuRows, double gpuTokens, int hostRows, double hostBytes, double gain) {
    private static final int LEAST_SLOTS = 8;

    /** @param context tokens a sequence, at most what the GPU pool holds */
    public static OffloadAdvice of(CostModel cost, ExecutorLimits limits, int context) {
        int gpuRows = (int) Math.max(1, (long) limits.gpuBlocks() * limits.blockTokens() / context);
        double plain = step(cost, gpuRows, gpuRows, context);
        int most = (int) Math.min((long) limits.hostBlocks() * limits.hostBlockTokens() / context, limits.mostInFlight());
        int hostRows = 0;
        while (hostRows < most && cost.flyingAttention(hostRows + 1, (hostRows + 1L) * context) <= plain) {
            hostRows++;
        }
        int slots = hostRows == 0 ? 0 : Math.max(LEAST_SLOTS, (hostRows + cost.layers() - 1) / cost.layers());
        double both = step(cost, gpuRows, gpuRows + slots, context) * (hostRows == 0 ? 1 : cost.hostLoad());
        double landed = (double) hostRows / cost.layers();
        double bytes = (double) hostRows * context * limits.kvBytesPerToken() / cost.layers() / both;
        return new OffloadAdvice(
                context, gpuRows, gpuRows / plain, hostRows, bytes, (gpuRows + landed) / both / (gpuRows / plain) - 1);
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
                "advice: at %,d tokens a sequence the GPU pool holds %d rows and makes at most %,.0f tokens/s; the CPU reads %.0f GB/s of KV"
                        + " beside it with %d rows in flight: offloading %s while nobody's prompt is computed",
                context, gpuRows, gpuTokens, hostBytes / 1e9, hostRows,
                gain > 0 ? String.format(Locale.ROOT, "gains at most %.0f %%", gain * 100) : "gains nothing");
    }
}
