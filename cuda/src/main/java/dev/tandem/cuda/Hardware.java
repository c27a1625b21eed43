package dev.tandem.cuda;

import dev.tandem.cuda.device.CudaLibraries;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.gemm.CublasLtGemm;
import dev.tandem.cuda.hostattention.HostFormat;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.Kernels;
import dev.tandem.cuda.kernels.ModelShape;
import dev.tandem.cuda.tune.AutotuneCache;
import dev.tandem.cuda.tune.GemmAutotuner;
import dev.tandem.cuda.tune.MemoryLoad;
import dev.tandem.engine.clock.Clock;
import dev.tandem.fetch.Progress;
import dev.tandem.model.config.DataType;
import java.util.Optional;

/**
 * The GPU, and everything loaded onto it before a model's weights.
 *
 * @param stream of all steps
 * @param library cublasLt, for the model's type
 * @param choices of GEMM methods and algorithms that an earlier start has kept
 * @param load that leaves the GPU less memory bandwidth, where the options want one
 * @param freeBefore bytes of GPU memory free before anything was loaded
 */
record Hardware(
        Device device,
        Stream stream,
        Kernels kernels,
        CublasLtGemm library,
        AutotuneCache choices,
        Optional<MemoryLoad> load,
        long freeBefore) {
    /** Compute capability of the first GPUs with bfloat16. */
    private static final int MIN_WITH_BFLOAT16 = 80;

    /**
     * Opens the GPU, and compiles and loads the kernels.
     *
     * @param progress of compilation
     * @param owned takes ownership of everything opened, also when opening fails later
     * @throws CudaException when the machine, its libraries or its memory do not suffice
     */
    static Hardware open(
            CudaOptions options,
            ModelShape shape,
            CudaLibraries libraries,
            KernelCompiler compiler,
            Clock time,
            Progress progress,
            Owned owned) {
        requireHostTier(options, shape, libraries);
        Device device = owned.own(new Device(
                CudaLibraries.driver()
                        .orElseThrow(() -> new CudaException("this machine has no NVIDIA driver (libcuda.so.1)")),
                options.device(),
                options.multiprocessorLimit(),
                time));
        if (options.type() == DataType.BFLOAT16 && device.capability() < MIN_WITH_BFLOAT16) {
            throw new CudaException(device.name() + " has no bfloat16; use --dtype float16");
        }
        long freeBefore = device.memory().free();
        Stream stream = owned.own(device.stream("steps"));
        Kernels kernels = owned.own(new Kernels(device, shape, compiler, progress));
        Optional<MemoryLoad> load = options.bandwidthLimit() > 0
                ? Optional.of(owned.own(new MemoryLoad(device, compiler, shape, options.bandwidthLimit())))
                : Optional.empty();
        AutotuneCache choices = AutotuneCache.open(
                compiler.cache(),
                GemmAutotuner.identity(
                        device,
                        libraries.cublasLt(),
                        shape,
                        options.bandwidthLimit(),
                        options.maxBatchTokens(),
                        options.maxSequences(),
                        options.attentionThreads() > 0));
        CublasLtGemm library = owned.own(new CublasLtGemm(libraries.cublasLt(), device, shape.type(), choices));
        return new Hardware(device, stream, kernels, library, choices, load, freeBefore);
    }

    private static void requireHostTier(CudaOptions options, ModelShape shape, CudaLibraries libraries) {
        boolean hasHostTier = options.attentionThreads() > 0;
        if (hasHostTier || options.kvChecksums()) {
            HostFormat.obstacle(shape.config()).ifPresent(why -> {
                throw new CudaException(
                        why + "; use --strategy gpu-only" + (options.kvChecksums() ? " without --kv-checksums" : ""));
            });
        }
        if (hasHostTier) {
            blockingLaunches(libraries).ifPresent(why -> {
                throw new CudaException(why);
            });
        }
    }

    /** Why the CPU's attention cannot run in this environment; empty when it can. */
    static Optional<String> blockingLaunches(CudaLibraries libraries) {
        return libraries.launchesBlock()
                ? Optional.of(
                        "CUDA_LAUNCH_BLOCKING makes every launch wait for its kernel, and the kernel that transfers"
                                + " host tokens between GPU and CPU ends only after kernels launched later: no "
                                + "step would end. Unset it, or use --strategy gpu-only")
                : Optional.empty();
    }

    /** Bytes of GPU memory taken since the GPU was opened. */
    long used() {
        return freeBefore - device.memory().free();
    }
}
