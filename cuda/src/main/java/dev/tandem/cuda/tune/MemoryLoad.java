package dev.tandem.cuda.tune;

import dev.tandem.cuda.device.CudaModule;
import dev.tandem.cuda.device.Device;
import dev.tandem.cuda.device.DeviceBuffer;
import dev.tandem.cuda.device.Event;
import dev.tandem.cuda.device.Kernel;
import dev.tandem.cuda.device.Resources;
import dev.tandem.cuda.device.Stream;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.cuda.kernels.KernelCatalogue;
import dev.tandem.cuda.kernels.KernelCompiler;
import dev.tandem.cuda.kernels.ModelShape;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.locks.LockSupport;
import org.jspecify.annotations.Nullable;

/**
 * Imitates a GPU with less memory bandwidth: kernels on the multiprocessors that a device leaves free read memory at
 * such a rate that the device itself reads no more than is wanted.
 *
 * <p>The kernels are short and follow one another, because the driver may wait for running kernels when it loads one.
 *
 * <p>Owned by: the executor. A thread of its own launches the kernels until it is closed.
 */
public final class MemoryLoad implements AutoCloseable {
    private static final System.Logger LOG = System.getLogger(MemoryLoad.class.getName());
    private static final String FAILED = "the kernels that take memory bandwidth have failed, so --gpu-bandwidth-limit"
            + " has no effect any more; restart the process";
    /** Bytes that the kernels read in turn, many times the L2 cache. */
    private static final long BUFFER_BYTES = 1L << 30;
    /** 16-byte words that a thread block reads per turn. */
    private static final int WORDS = 4096;
    /** Time of a kernel: short, because the driver may wait for it. */
    private static final int KERNEL_NANOS = 2_000_000;
    /** Turns of a kernel that measures: 8 multiprocessors read for some milliseconds. */
    private static final int MEASURED_TURNS = 512;
    /** Kernels that are enqueued at a time. */
    private static final int AHEAD = 2;

    private static final int BLOCKS_PER_MULTIPROCESSOR = 4;
    private static final int MAX_PAUSE_NANOS = 200_000;
    private static final int BISECTIONS = 14;
    private static final int MEASUREMENTS = 5;
    /** Kernels that run before a measurement counts, while kernels with the last pause may still run. */
    private static final int UNTIMED = 6;
    /** Max deviation of the bandwidth that is left from what is wanted. */
    private static final double TOLERANCE = 0.1;

    private static final long POLL_NANOS = 200_000;

    private final Device rest;
    private final List<AutoCloseable> opened = new ArrayList<>();
    private final DeviceBuffer data;
    private final Kernel load;
    private final Stream stream;
    private final double bandwidth;
    private volatile int pauseNanos = MAX_PAUSE_NANOS;
    private volatile boolean closing;
    private volatile @Nullable RuntimeException failure;
    private @Nullable Thread thread;

    /**
     * Starts the kernels, and measures which pause leaves the wanted bandwidth.
     *
     * @param device that is to have less bandwidth; its limit must leave multiprocessors free
     * @param wanted bytes per microsecond that the device is to read
     * @throws CudaException when the device has no limit, or the bandwidth cannot be reached within a tenth
     */
    public MemoryLoad(Device device, KernelCompiler compiler, ModelShape shape, double wanted) {
        this.rest = device.rest()
                .orElseThrow(() -> new CudaException("--gpu-sm-limit leaves no multiprocessor free for the kernels of"
                        + " --gpu-bandwidth-limit, which take bandwidth; lower it"));
        opened.add(rest);
        try {
            KernelCatalogue.Unit unit = KernelCatalogue.memoryLoad(shape);
            byte[] cubin = compiler.cubin(unit.source(), device.capability(), unit.defines());
            data = own(device.allocate(BUFFER_BYTES, "memory load"));
            Kernel measured = kernel(device, cubin, unit);
            Stream timed = own(device.stream("bandwidth"));
            rest.makeCurrent();
            load = kernel(rest, cubin, unit);
            stream = own(rest.stream("memory load"));
            device.makeCurrent();
            thread = Thread.ofPlatform().daemon().name("memory-load").start(this::launchKernels);
            bandwidth = calibrate(device, measured, timed, wanted);
        } catch (RuntimeException | Error e) {
            device.makeCurrent();
            Resources.closeAfter(e, List.of(this));
            throw e;
        }
    }

    private <T extends AutoCloseable> T own(T resource) {
        opened.add(resource);
        return resource;
    }

    private Kernel kernel(Device on, byte[] cubin, KernelCatalogue.Unit unit) {
        KernelCatalogue.Entry entry = unit.entries().getFirst();
        CudaModule module = own(on.module(cubin, "kernels of " + unit.source()));
        return module.kernel(entry.kernel(), entry.threads(), entry.sharedBytes());
    }

    private void launchKernels() {
        try {
            rest.makeCurrent();
            ArrayDeque<Event> running = new ArrayDeque<>();
            while (!closing || !running.isEmpty()) {
                if (!closing && running.size() < AHEAD) {
                    launch(load, stream, rest, Integer.MAX_VALUE, KERNEL_NANOS, pauseNanos);
                    Event event = rest.event();
                    stream.record(event);
                    running.add(event);
                } else if (running.getFirst().reached()) {
                    running.removeFirst().close();
                } else {
                    LockSupport.parkNanos(POLL_NANOS);
                }
            }
        } catch (RuntimeException e) {
            failure = e;
            LOG.log(System.Logger.Level.ERROR, FAILED, e);
        }
    }

    private void launch(Kernel kernel, Stream on, Device by, int turns, int nanos, int pause) {
        int blocks = BLOCKS_PER_MULTIPROCESSOR * by.multiprocessors();
        long words = BUFFER_BYTES / 16 / ((long) blocks * WORDS) * blocks * WORDS;
        kernel.launch(on, blocks, 1, data.address(), words, WORDS, turns, nanos, pause, data.address());
    }

    /** Finds the pause, and returns the bytes per microsecond that it leaves. */
    private double calibrate(Device device, Kernel kernel, Stream timed, double wanted) {
        pauseNanos = pause(device, kernel, timed, wanted);
        double kept = measure(device, kernel, timed);
        if (Math.abs(kept / wanted - 1) > TOLERANCE) {
            throw new CudaException(String.format(
                    Locale.ROOT,
                    "--gpu-bandwidth-limit %.0f cannot be imitated: with it %d multiprocessors read %.0f GB/s;"
                            + " choose another --gpu-sm-limit",
                    wanted / 1e3,
                    device.multiprocessors(),
                    kept / 1e3));
        }
        return kept;
    }

    /** The pause, found by bisection, with which the device read closest to what is wanted. */
    private int pause(Device device, Kernel kernel, Stream timed, double wanted) {
        int tooShort = 0;
        int tooLong = MAX_PAUSE_NANOS;
        double deviation = Double.POSITIVE_INFINITY;
        int best = MAX_PAUSE_NANOS;
        for (int i = 0; i < BISECTIONS; i++) {
            int pause = (int) ((tooShort + (long) tooLong) / 2);
            pauseNanos = pause;
            double left = measure(device, kernel, timed);
            if (Math.abs(left - wanted) < deviation) {
                deviation = Math.abs(left - wanted);
                best = pause;
            }
            if (left > wanted) {
                tooLong = pause;
            } else {
                tooShort = pause;
            }
        }
        return best;
    }

    /** Bytes per microsecond that the device reads; the median of some kernels. */
    private double measure(Device device, Kernel kernel, Stream timed) {
        double bytes = 16.0 * WORDS * MEASURED_TURNS * BLOCKS_PER_MULTIPROCESSOR * device.multiprocessors();
        double[] rates = new double[MEASUREMENTS];
        try (Event begin = device.event();
                Event end = device.event()) {
            for (int i = -UNTIMED; i < MEASUREMENTS; i++) {
                timed.record(begin);
                launch(kernel, timed, device, MEASURED_TURNS, Integer.MAX_VALUE, 0);
                timed.record(end);
                timed.synchronise();
                if (i >= 0) {
                    rates[i] = bytes / (1e3 * end.millisecondsSince(begin));
                }
            }
        }
        RuntimeException failed = failure;
        if (failed != null) {
            throw new CudaException(FAILED, failed);
        }
        Arrays.sort(rates);
        return rates[MEASUREMENTS / 2];
    }

    /** Bytes per microsecond that the device reads beside the load, as measured at the start. */
    public double bandwidth() {
        return bandwidth;
    }

    @Override
    public void close() {
        closing = true;
        if (thread != null) {
            try {
                thread.join();
            } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
            }
        }
        Resources.closeAll(opened.reversed());
    }
}
