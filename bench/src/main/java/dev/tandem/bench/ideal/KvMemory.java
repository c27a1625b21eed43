package dev.tandem.bench.ideal;

/**
 * Memory for KV, in bytes.
 *
 * @param gpuBytes of the GPU, for everything that KV needs there
 * @param stagingBytes of them that a schedule with a host tier keeps free, to stage the KV of prompts that it offloads
 * @param hostBytes of the host
 * @param bytesPerToken KV of one token in all layers
 */
public record KvMemory(double gpuBytes, double stagingBytes, double hostBytes, double bytesPerToken) {
    /** GPU bytes for the KV of running sequences. */
    double pool(boolean offloads) {
        return gpuBytes - (offloads ? stagingBytes : 0);
    }
}
