package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.kv.PrefixCacheOptions;
import java.security.SecureRandom;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options for the sizes of the two KV tiers. */
@Section(Section.Heading.MEMORY)
final class MemoryOptions {
    @Option(
            names = "--gpu-memory-utilization",
            paramLabel = "FRACTION",
            defaultValue = "0.92",
            description = "Fraction of the GPU's memory that Tandem may use, weights included, above 0 and up to 1."
                    + " Default: ${DEFAULT-VALUE}.")
    double gpuUtilization = 0.92;

    @Option(
            names = "--host-kv",
            paramLabel = "SIZE",
            converter = ByteSize.Converter.class,
            description = "Memory of the host KV pool, for example 32GiB. The CPU reads its KV there, and preempted"
                    + " requests keep theirs there. Default: a quarter of the machine's memory, at most 32GiB where"
                    + " the CPU computes attention beside a GPU, else at most 4GiB; on the CPU as --kv-cache-memory.")
    Optional<ByteSize> hostKv = Optional.empty();

    @Option(
            names = "--kv-cache-memory",
            paramLabel = "SIZE",
            converter = ByteSize.Converter.class,
            description =
                    "GPU memory for KV, for example 2GiB. Prefill offload borrows from it. Default: on a GPU, what"
                            + " --gpu-memory-utilization leaves; on the CPU, a quarter of the machine's memory, at"
                            + " most 4GiB.")
    Optional<ByteSize> kvCacheMemory = Optional.empty();

    @Option(
            names = "--num-gpu-blocks-override",
            paramLabel = "BLOCKS",
            description = "GPU memory for KV in blocks of 16 tokens; wins over --kv-cache-memory. On the"
                    + " CPU executor it sizes the pool that stands for the GPU. Default: not set.")
    Optional<Integer> gpuBlocks = Optional.empty();

    @Option(
            names = "--enable-prefix-caching",
            negatable = true,
            fallbackValue = "true",
            description =
                    "Keep the KV of ended requests in free GPU memory; requests that begin with the same tokens do"
                            + " not compute it again. Default: on in serve, off in generate and bench.")
    Optional<Boolean> prefixCaching = Optional.empty();

    /**
     * Whether and how requests share the KV of equal prefixes.
     *
     * @param served whether clients' requests are served; the default
     */
    PrefixCacheOptions prefixCache(boolean served) {
        return prefixCaching.orElse(served)
                ? PrefixCacheOptions.on(new SecureRandom().nextLong())
                : PrefixCacheOptions.OFF;
    }

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (!(gpuUtilization > 0 && gpuUtilization <= 1)) {
            throw new ConfigurationException("--gpu-memory-utilization " + gpuUtilization
                    + " is a fraction of the GPU's memory; it must lie in (0, 1]");
        }
        if (gpuBlocks.isPresent() && gpuBlocks.get() < 1) {
            throw new ConfigurationException(
                    "--num-gpu-blocks-override " + gpuBlocks.get() + " is too small; it must be at least 1");
        }
        if (kvCacheMemory.isPresent() && kvCacheMemory.get().bytes() == 0) {
            throw new ConfigurationException(
                    "--kv-cache-memory 0 leaves no KV pool; give it memory, for example 2GiB, or leave it out");
        }
    }
}
