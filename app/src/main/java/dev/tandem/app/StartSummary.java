package dev.tandem.app;

import dev.tandem.engine.executor.ExecutorLimits;
import dev.tandem.engine.kv.KvLayout;
import dev.tandem.engine.kv.KvTier;
import dev.tandem.engine.strategy.select.Strategy;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;

/** Adds the rows of the start summary that both executors share. */
final class StartSummary {
    private StartSummary() {}

    /**
     * @param stored how weights are kept
     * @param dtype value of the option
     */
    static void weights(String stored, long bytes, String dtype, StartLog log) {
        log.row("weights", new ByteSize(bytes) + ", " + stored + " (--dtype " + dtype + ")");
    }

    /** Adds one row per part of the GPU's memory, with the sizes aligned. */
    static void gpuMemory(Map<String, Long> parts, StartLog log) {
        parts.forEach(
                (part, bytes) -> log.row("GPU: " + part, String.format(Locale.ROOT, "%8.2f GiB", bytes / 0x1p30)));
    }

    static void memory(ExecutorLimits limits, StartLog log) {
        log.row(
                "memory",
                "GPU KV " + pool(limits.gpuBlocks(), limits.blockTokens(), limits)
                        + ", host KV "
                        + pool(limits.hostBlocks(), limits.hostBlockTokens(), limits));
        KvLayout layout = limits.layout();
        if (layout.kinds().size() > 1) {
            String kinds = layout.kinds().stream()
                    .map(kind -> part(kind, limits.layers() / layout.groups()))
                    .collect(Collectors.joining(", "));
            log.row("KV window", kinds + "; KV before them is freed");
            log.row(
                    "KV pages",
                    String.format(
                            Locale.ROOT,
                            "%,d of the GPU and %,d of the host; %d tokens take %d, and the longest request %,d",
                            limits.pages(KvTier.GPU),
                            limits.pages(KvTier.HOST),
                            limits.blockTokens(),
                            layout.groups(),
                            limits.maxHeld(KvTier.GPU, limits.contextTokens())));
        } else if (layout.slides()) {
            log.row(
                    "KV window",
                    String.format(
                            Locale.ROOT,
                            "the last %,d tokens of a request; KV before them is freed",
                            layout.widest().tokens()));
        }
    }

    /** Which tokens the layers of one kind hold. */
    private static String part(KvLayout.Kind kind, int layersPerGroup) {
        int layers = kind.groups() * layersPerGroup;
        return kind.window().slides()
                ? String.format(
                        Locale.ROOT, "the last %,d in %d layers", kind.window().tokens(), layers)
                : String.format(Locale.ROOT, "all tokens of a request in %d layers", layers);
    }

    private static String pool(int blocks, int blockTokens, ExecutorLimits limits) {
        long tokens = (long) blocks * blockTokens;
        return blocks == 0
                ? "none"
                : String.format(
                        Locale.ROOT, "%s (%,d tokens)", new ByteSize(tokens * limits.kvBytesPerToken()), tokens);
    }

    /** @param workers the executor's description of its attention threads */
    static void tiers(
            Strategy strategy, int attentionThreads, Optional<String> workers, ExecutorLimits limits, StartLog log) {
        String host = limits.hostBlocks() == 0 ? "no host pool" : "the host pool keeps preempted requests";
        log.row(
                "tiers",
                strategy.offloads()
                        ? "GPU and host; " + workers.orElse("host attention: " + attentionThreads + " threads")
                        : "GPU only; " + host);
    }
}
