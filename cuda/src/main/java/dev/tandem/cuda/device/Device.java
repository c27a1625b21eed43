package dev.tandem.cuda.device;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import dev.tandem.cuda.ffi.CudaDriver;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.clock.Clock;
import java.lang.foreign.Arena;
import java.lang.foreign.MemorySegment;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * A GPU, or some of its multiprocessors (a green context). Everything made through it must be closed before it.
 *
 * <p>Owned by: the object that opened it. A thread must call {@link #makeCurrent} before it uses the device.
 */
public final class Device implements AutoCloseable {
    /** {@code CUdevice_attribute}, cuda.h. */
    private static final int MULTIPROCESSOR_COUNT = 16;

    private static final int COMPUTE_CAPABILITY_MAJOR = 75;
    private static final int COMPUTE_CAPABILITY_MINOR = 76;
    private static final int MEMORY_CLOCK = 36;
    private static final int MEMORY_BUS_WIDTH = 37;
    private static final int MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97;
    /** {@code CUdevResource}: type, padding, then the union at 96; 144 bytes. */
    private static final int RESOURCE_BYTES = 144;

    private static final int RESOURCE_SM_COUNT = 96;
    private static final int RESOURCE_TYPE_SM = 1;
    private static final int GREEN_DEFAULT_STREAM = 1;
    private static final int NON_BLOCKING = 1;
    /** The highest stream priority. */
    private static final int URGENT = -5;

    private static final int MIN_CAPABILITY = 75;
    /** First driver version with green contexts and programmatic dependent launch in graphs. */
    private static final int MIN_DRIVER = 12_040;
    /** Part of a MIG slice's name, as in {@code NVIDIA H100 80GB HBM3 MIG 3g.40gb}. */
    private static final String SLICE = " MIG ";

    private final CudaDriver driver;
    /** {@code CUdevice}, as {@code cuDeviceGet} returns it. */
    private final int handle;

    private final String name;
    private final int capability;
    private final int multiprocessors;
    private final int sharedMemory;
    private final double bandwidth;
    private final DeviceWait waits;
    private final MemorySegment context;
    private final MemorySegment green;
    private final List<String> open = new ArrayList<>();

    /** The multiprocessors that a limit leaves free, {@code CUdevResource}; empty without a limit. */
    private final Optional<MemorySegment> rest;

    private record Limited(
            MemorySegment context, MemorySegment green, int multiprocessors, Optional<MemorySegment> rest) {}

    /** @param multiprocessorLimit max multiprocessors used; 0 for all */
    public Device(CudaDriver driver, int number, int multiprocessorLimit) {
        this(driver, number, multiprocessorLimit, Clock.system());
    }

    /** @param clock measures how long the host has waited for the GPU */
    public Device(CudaDriver driver, int number, int multiprocessorLimit, Clock clock) {
        this.driver = driver;
        this.waits = new DeviceWait(clock);
        try (Arena arena = Arena.ofConfined()) {
            driver.cuInit.call(0);
            requireDriver(driver, arena);
            MemorySegment word = arena.allocate(JAVA_LONG);
            driver.cuDeviceGetCount.call(word);
            int count = word.get(JAVA_INT, 0);
            if (number >= count) {
                throw new CudaException("GPU " + number + " does not exist; this machine has " + count);
            }
            driver.cuDeviceGet.call(word, number);
            this.handle = word.get(JAVA_INT, 0);
            MemorySegment text = arena.allocate(256);
            driver.cuDeviceGetName.call(text, 256, handle);
            this.name = text.getString(0);
            this.capability =
                    10 * attribute(COMPUTE_CAPABILITY_MAJOR, word) + attribute(COMPUTE_CAPABILITY_MINOR, word);
            if (capability < MIN_CAPABILITY) {
                throw new CudaException(name + " has compute capability " + capability / 10 + "." + capability % 10
                        + "; Tandem's kernels need 7.5 or later. Run on the CPU with --device cpu");
            }
            // clock in kHz, two transfers per clock, bus in bits; the driver reports the whole GPU's also for a slice
            this.bandwidth =
                    slice() ? 0 : attribute(MEMORY_CLOCK, word) / 1e3 * 2 * attribute(MEMORY_BUS_WIDTH, word) / 8;
            this.sharedMemory = attribute(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, word);
            driver.cuDevicePrimaryCtxRetain.call(word, handle);
            MemorySegment primary = word.get(ADDRESS, 0);
            driver.cuCtxSetCurrent.call(primary);
            int all = attribute(MULTIPROCESSOR_COUNT, word);
            Limited limited = multiprocessorLimit > 0 && multiprocessorLimit < all
                    ? limit(multiprocessorLimit, arena)
                    : new Limited(primary, MemorySegment.NULL, all, Optional.empty());
            this.context = limited.context();
            this.green = limited.green();
            this.multiprocessors = limited.multiprocessors();
            this.rest = limited.rest();
            driver.cuCtxSetCurrent.call(context);
        }
    }

    /** The same GPU with other multiprocessors. */
    private Device(Device whole, MemorySegment multiprocessors) {
        this.driver = whole.driver;
        this.waits = whole.waits;
        this.handle = whole.handle;
        this.name = whole.name;
        this.capability = whole.capability;
        this.bandwidth = whole.bandwidth;
        this.sharedMemory = whole.sharedMemory;
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment word = arena.allocate(JAVA_LONG);
            driver.cuDevicePrimaryCtxRetain.call(word, handle);
            Limited limited = context(multiprocessors, Optional.empty(), arena);
            this.context = limited.context();
            this.green = limited.green();
            this.multiprocessors = limited.multiprocessors();
            this.rest = Optional.empty();
        }
    }

    /**
     * The multiprocessors that the limit leaves free, as a device of their own; empty without a limit. The caller
     * closes it, before this one.
     */
    public Optional<Device> rest() {
        return rest.map(multiprocessors -> new Device(this, multiprocessors));
    }

    private static void requireDriver(CudaDriver driver, Arena arena) {
        MemorySegment version = arena.allocate(JAVA_INT);
        driver.cuDriverGetVersion.call(version);
        int found = version.get(JAVA_INT, 0);
        if (found < MIN_DRIVER) {
            throw new CudaException("NVIDIA's driver is for CUDA " + found / 1000 + "." + found % 1000 / 10
                    + "; Tandem needs one for CUDA 12.4 or later. Update it, or run on the CPU with --device cpu");
        }
    }

    private int attribute(int attribute, MemorySegment word) {
        driver.cuDeviceGetAttribute.call(word, attribute, handle);
        return word.get(JAVA_INT, 0);
    }

    private Limited limit(int wanted, Arena arena) {
        if (!driver.cuGreenCtxCreate.exists()) {
            throw new CudaException(
                    "--gpu-sm-limit needs green contexts, which this driver does not have; update it or leave "
                            + "the option out");
        }
        MemorySegment whole = arena.allocate(RESOURCE_BYTES, 8);
        MemorySegment group = arena.allocate(RESOURCE_BYTES, 8);
        MemorySegment left = Arena.ofAuto().allocate(RESOURCE_BYTES, 8);
        MemorySegment groups = arena.allocate(JAVA_INT);
        driver.cuDeviceGetDevResource.call(handle, whole, RESOURCE_TYPE_SM);
        groups.set(JAVA_INT, 0, 1);
        driver.cuDevSmResourceSplitByCount.call(group, groups, whole, left, 0, wanted);
        return context(group, Optional.of(left), arena);
    }

    private Limited context(MemorySegment group, Optional<MemorySegment> left, Arena arena) {
        MemorySegment word = arena.allocate(ADDRESS);
        driver.cuDevResourceGenerateDesc.call(word, group, 1);
        MemorySegment description = word.get(ADDRESS, 0);
        driver.cuGreenCtxCreate.call(word, description, handle, GREEN_DEFAULT_STREAM);
        MemorySegment created = word.get(ADDRESS, 0);
        driver.cuCtxFromGreenCtx.call(word, created);
        return new Limited(word.get(ADDRESS, 0), created, group.get(JAVA_INT, RESOURCE_SM_COUNT), left);
    }

    CudaDriver driver() {
        return driver;
    }

    /** How a host thread waits for this device. */
    public DeviceWait waits() {
        return waits;
    }

    public String name() {
        return name;
    }

    /**
     * Whether this is a slice of a GPU (MIG), with its own multiprocessors and its own part of the memory bandwidth.
     */
    public boolean slice() {
        return name.contains(SLICE);
    }

    /** Memory bandwidth in bytes per microsecond; 0 for a slice, because the driver reports that of the whole GPU. */
    public double bandwidth() {
        return bandwidth;
    }

    /** Compute capability: 90 is 9.0. */
    public int capability() {
        return capability;
    }

    /** Multiprocessors that this device uses. */
    public int multiprocessors() {
        return multiprocessors;
    }

    /** Max shared memory per thread block, in bytes. */
    public int sharedMemoryPerBlock() {
        return sharedMemory;
    }

    /** CUDA version of the driver: 13000 is 13.0. */
    public int driverVersion() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment word = arena.allocate(JAVA_INT);
            driver.cuDriverGetVersion.call(word);
            return word.get(JAVA_INT, 0);
        }
    }

    /** Binds the calling thread to this device. */
    public void makeCurrent() {
        driver.cuCtxSetCurrent.call(context);
    }

    /** GPU memory in bytes. */
    public record Memory(long free, long total) {}

    /** The GPU memory that is free now. */
    public Memory memory() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment words = arena.allocate(JAVA_LONG, 2);
            driver.cuMemGetInfo.call(words, words.asSlice(8));
            return new Memory(words.getAtIndex(JAVA_LONG, 0), words.getAtIndex(JAVA_LONG, 1));
        }
    }

    public Stream stream(String label) {
        return stream(label, 0);
    }

    /** A stream of the highest priority: its waiting thread blocks are placed before those of other streams. */
    public Stream urgentStream(String label) {
        return stream(label, URGENT);
    }

    private Stream stream(String label, int priority) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ADDRESS);
            if (green.address() != 0) {
                driver.cuGreenCtxStreamCreate.call(handle, green, NON_BLOCKING, priority);
            } else {
                driver.cuStreamCreateWithPriority.call(handle, NON_BLOCKING, priority);
            }
            return new Stream(this, handle.get(ADDRESS, 0), opened(label));
        }
    }

    /**
     * Allocates GPU memory.
     *
     * @param label names the memory in messages
     */
    public DeviceBuffer allocate(long bytes, String label) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(JAVA_LONG);
            int code = driver.cuMemAlloc.code(address, Math.max(bytes, 256));
            if (code == CudaException.OUT_OF_MEMORY) {
                Memory memory = memory();
                throw new CudaException(
                        String.format(
                                java.util.Locale.ROOT,
                                "the GPU has no %.2f GiB left for %s: %.2f of %.2f GiB are free. Lower "
                                        + "--gpu-memory-utilization,"
                                        + " --num-gpu-blocks-override or --max-num-batched-tokens, or end other "
                                        + "processes that use the"
                                        + " GPU",
                                bytes / 0x1p30,
                                label,
                                memory.free() / 0x1p30,
                                memory.total() / 0x1p30),
                        code);
            }
            if (code != 0) {
                throw new CudaException(
                        "cuMemAlloc of " + bytes + " bytes for " + label + " failed (" + code + ")", code);
            }
            return new DeviceBuffer(this, address.get(JAVA_LONG, 0), bytes, opened(label));
        }
    }

    /** Allocates pinned host memory, which the GPU reads and writes at full speed. */
    public PinnedBuffer pinned(long bytes, String label) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment address = arena.allocate(ADDRESS);
            // portable and mapped, so that every context and kernels can use it
            int code = driver.cuMemHostAlloc.code(address, Math.max(bytes, 256), 3);
            if (code != 0) {
                throw noPinnedMemory(bytes, label, code);
            }
            return new PinnedBuffer(this, address.get(ADDRESS, 0).reinterpret(Math.max(bytes, 256)), opened(label));
        }
    }

    /** Likewise, zeroed and in huge pages, so that the CPU reads many gigabytes at full speed. */
    public PinnedBuffer pinnedHuge(long bytes, String label) {
        PinnedBuffer buffer = PinnedBuffer.huge(this, bytes, label);
        opened(label);
        return buffer;
    }

    static CudaException noPinnedMemory(long bytes, String label, int code) {
        return new CudaException(
                "the system refuses " + bytes + " bytes of pinned memory for " + label + " (" + code
                        + "); lower --host-kv",
                code);
    }

    public Event event() {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ADDRESS);
            driver.cuEventCreate.call(handle, 0);
            return new Event(this, handle.get(ADDRESS, 0));
        }
    }

    /**
     * Loads machine code.
     *
     * @param cubin machine code for this device
     */
    public CudaModule module(byte[] cubin, String label) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment handle = arena.allocate(ADDRESS);
            MemorySegment image = arena.allocate(cubin.length, 16);
            MemorySegment.copy(MemorySegment.ofArray(cubin), 0, image, 0, cubin.length);
            driver.cuModuleLoadData.call(handle, image);
            return new CudaModule(this, handle.get(ADDRESS, 0), opened(label));
        }
    }

    private String opened(String label) {
        open.add(label);
        return label;
    }

    void closed(String label) {
        open.remove(label);
    }

    /** Labels of the resources that are not closed yet. */
    public List<String> open() {
        return List.copyOf(open);
    }

    @Override
    public void close() {
        List<AutoCloseable> contexts = new ArrayList<>();
        if (green.address() != 0) {
            contexts.add(() -> driver.cuGreenCtxDestroy.call(green));
        }
        contexts.add(() -> driver.cuDevicePrimaryCtxRelease.call(handle));
        Resources.closeAll(contexts);
    }
}
