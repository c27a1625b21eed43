package dev.tandem.bench.hardware;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.Profile;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/**
 * A machine: its GPUs, the link to the host, and the host.
 *
 * @param name on the command line and in results
 * @param provenance whether its times are measured or computed
 * @param gpu one of its equal GPUs
 * @param tensorParallel how the GPUs share a model
 * @param host shared by all GPUs
 * @param efficiency what kernels reach of the data sheets
 */
public record Hardware(
        String name, Provenance provenance, Gpu gpu, TensorParallel tensorParallel, Host host, Efficiency efficiency) {
    /** Machines that come with Tandem, in the order in which they are listed. */
    public static final List<String> NAMES = List.of(
            "t4-g4dn.4xlarge",
            "a10g-g5.2xlarge",
            "a10g-g5.4xlarge",
            "a10g-g5.8xlarge",
            "a10g-g5.16xlarge",
            "2xh100-hgx",
            "apex-t4",
            "apex-a10",
            "v100-epyc7251",
            "rtx4090-threadripper-pro",
            "l4-16vcpu",
            "a10g-16vcpu",
            "h100-16vcpu",
            "h100-sapphire-rapids",
            "h200",
            "h200-2req",
            "h200-16sm-26k",
            "h200-8sm-2req");

    /** Provenance as text for reports. */
    public String describeProvenance() {
        return provenance.describe(this);
    }

    /**
     * The times of this machine for a model: the measured profile, or one computed from the data sheets.
     *
     * @throws ConfigurationException if the measured profile is of another model
     */
    public Profile profile(ModelShape model) {
        return switch (provenance) {
            case Provenance.DataSheet _ -> new Roofline(this, model).profile();
            case Provenance.Measured measured -> {
                Profile profile = Profile.parse(resource(measured.profile()), measured.profile());
                if (profile.layers() != model.layers() || measured.kvBytesPerToken() != model.kvBytesPerToken()) {
                    throw new ConfigurationException("the profile of hardware " + name + " is of " + measured.model()
                            + ", " + profile.layers() + " layers and " + (long) measured.kvBytesPerToken()
                            + " KV bytes per token; this model has " + model.layers() + " and "
                            + (long) model.kvBytesPerToken() + ". Use that model, or a roofline hardware");
                }
                yield profile;
            }
        };
    }

    /** Bytes per second of plain reads of host memory: CPU and link share them. */
    public double hostReadBandwidth() {
        return host.memoryBandwidth() * efficiency.hostBandwidth();
    }

    /** Bytes of KV per second that the host's attention kernel reads for a model. */
    public double hostAttentionBandwidth(ModelShape model) {
        return Math.min(
                hostReadBandwidth() * efficiency.hostAttention(),
                host.computeBandwidth(model.group(), model.kvValueBytes()));
    }

    /** Bytes per second of all GPUs' links to host memory. */
    public double linkBandwidth() {
        return gpu.linkBandwidth() * tensorParallel.degree();
    }

    /** Usable memory of all GPUs. */
    public double gpuMemoryBytes() {
        return gpu.memoryBytes() * tensorParallel.degree();
    }

    /** This machine with another host. */
    public Hardware withHost(Host other) {
        return new Hardware(name, provenance, gpu, tensorParallel, other, efficiency);
    }

    /** This machine with a host attention kernel that is a number of times as fast. */
    public Hardware withHostAttention(double factor) {
        Host faster = new Host(
                host.name(),
                host.memoryBandwidth(),
                host.kvBytes(),
                host.cores(),
                host.coreLoadRate() * factor,
                host.coreFlops() * factor);
        Efficiency kernel = new Efficiency(
                efficiency.gpuBandwidth(),
                efficiency.gpuAttention(),
                efficiency.gpuFlops(),
                efficiency.prefillAttention(),
                efficiency.hostBandwidth(),
                efficiency.hostAttention() * factor);
        return new Hardware(name, provenance, gpu, tensorParallel, faster, kernel);
    }

    /** This machine with another GPU. */
    public Hardware withGpu(Gpu other) {
        return new Hardware(name, provenance, other, tensorParallel, host, efficiency);
    }

    /**
     * Reads a machine that comes with Tandem.
     *
     * @throws ConfigurationException if the name is not one of {@link #NAMES}; the message lists them
     */
    public static Hardware named(String name) {
        if (!NAMES.contains(name)) {
            throw new ConfigurationException(
                    "hardware " + name + " is not known; use a file, or " + String.join(", ", NAMES));
        }
        return HardwareReader.read(resource(name + ".json"), name + ".json");
    }

    private static String resource(String file) {
        try (InputStream resource = Hardware.class.getResourceAsStream(file)) {
            if (resource == null) {
                throw new ConfigurationException(file + " does not come with Tandem; use one of its hardware files");
            }
            return new String(resource.readAllBytes(), StandardCharsets.UTF_8);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }

    /**
     * Reads a machine's file. @throws ConfigurationException that names the file and the field that is missing or wrong
     */
    public static Hardware read(Path file) {
        try {
            return HardwareReader.read(Files.readString(file), file.toString());
        } catch (IOException e) {
            throw new ConfigurationException(file + " cannot be read: " + e.getMessage()
                    + ". Name a hardware file, or one of " + String.join(", ", NAMES));
        }
    }
}
