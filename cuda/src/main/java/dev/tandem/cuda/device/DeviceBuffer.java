package dev.tandem.cuda.device;

/** Memory of the GPU. Closed once, by its owner. */
public final class DeviceBuffer implements AutoCloseable {
    private final Device device;
    private final long address;
    private final long bytes;
    private final String label;

    DeviceBuffer(Device device, long address, long bytes, String label) {
        this.device = device;
        this.address = address;
        this.bytes = bytes;
        this.label = label;
    }

    public long address() {
        return address;
    }

    public long bytes() {
        return bytes;
    }

    @Override
    public void close() {
        device.driver().cuMemFree.call(address);
        device.closed(label);
    }
}
