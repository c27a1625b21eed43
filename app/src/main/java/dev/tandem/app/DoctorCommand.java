package dev.tandem.app;

import dev.tandem.cpu.decode.AmxLibrary;
import dev.tandem.cpu.probe.MachineProbe;
import dev.tandem.cpu.simd.Lanes;
import dev.tandem.cpu.simd.Prefetch;
import dev.tandem.cpu.topology.CpuInfo;
import dev.tandem.cpu.topology.ThreadAffinity;
import dev.tandem.engine.clock.Clock;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;

/** Runs {@code doctor}: reports what this machine has and what follows for Tandem. */
@Command(
        name = "doctor",
        mixinStandardHelpOptions = true,
        description = "Lists what was found on this machine, how fast it reads and computes, what is missing, and what"
                + " gain a model has at best from offloading, once tandem profile or tandem serve has measured it here."
                + " Takes the options of tandem serve.",
        footerHeading = "%nExamples:%n",
        footer = {"  tandem doctor", "  tandem doctor my-model/ --host-kv 64GiB"})
final class DoctorCommand implements Callable<Integer> {
    private static final List<String> FEATURES = List.of(
            "avx2",
            "fma",
            "f16c",
            "avx512f",
            "avx512_bf16",
            "avx512_fp16",
            "amx_bf16",
            "amx_fp16",
            "amx_tile",
            "asimd",
            "sve");

    @Mixin
    ModelOptions options = new ModelOptions();

    @Override
    public Integer call() throws IOException {
        options.check();
        PrintStream out = System.out;
        out.println("Java      " + System.getProperty("java.vm.name") + " " + Runtime.version());
        out.println("System    " + System.getProperty("os.name") + " " + System.getProperty("os.arch"));
        int cores = Runtime.getRuntime().availableProcessors();
        int allowed = ThreadAffinity.allowed().cardinality();
        out.println("Processor " + CpuInfo.processor() + ", " + cores + " cores for this process"
                + (allowed > 0 ? "" : "; threads cannot be pinned here"));
        out.println("Features  " + features() + "; kernels use vectors of " + Lanes.bits() + " bits");
        out.println("Attention " + attention());
        out.println("Memory    " + memory());
        out.println(
                "Cache     " + cache(DefaultModel.cache(System.getenv(), Path.of(System.getProperty("user.home")))));
        System.err.println("measuring ...");
        try (MachineProbe probe = new MachineProbe(cores, Clock.system())) {
            out.printf(
                    Locale.ROOT,
                    "Measured  reads %.1f GB/s, multiplies and adds %.0f GFLOP/s with %d threads%n",
                    median(probe::readGigabytesPerSecond),
                    median(probe::fmaGigaflops),
                    cores);
        }
        GpuReport.print(out);
        out.println("Gain      " + GainReport.line(options, new StartLog(System.err, false)));
        return 0;
    }

    /** The folder of fetched models, kernels and profiles, and the reason if it cannot be used. */
    static String cache(Path folder) {
        try {
            OutputFile.check("TANDEM_CACHE", folder.resolve("any"));
        } catch (ConfigurationException e) {
            return folder + ": this user may not write it; set TANDEM_CACHE to a folder that can be written";
        }
        return folder
                + (DefaultModel.isFetched(folder)
                        ? "; the default model is there"
                        : "; the default model is fetched at its first use");
    }

    private interface Measurement {
        double take();
    }

    /** The median of five measurements. */
    private static double median(Measurement measurement) {
        double[] values = new double[5];
        Arrays.setAll(values, i -> measurement.take());
        Arrays.sort(values);
        return values[2];
    }

    private static String features() {
        Set<String> all = CpuInfo.features();
        if (all.isEmpty()) {
            return "not listed by this system";
        }
        Set<String> known = new TreeSet<>(all);
        known.retainAll(FEATURES);
        return known.isEmpty() ? "none that Tandem uses" : String.join(" ", known);
    }

    /** The implementations of host attention that run on this machine, and the CPU features that it lacks. */
    private static String attention() {
        String vectors = "Vector API, " + Lanes.bits() + " bits"
                + (Prefetch.missing().isEmpty()
                        ? ""
                        : ". They cannot prefetch (" + Prefetch.missing() + "), so attention runs slower.");
        return AmxLibrary.find().isPresent()
                ? "AMX for bf16, " + vectors + " for other types"
                : vectors + ". AMX is not available on this CPU (" + AmxLibrary.reason()
                        + "); attention over bf16 runs about 1.5x slower without it.";
    }

    private static String memory() throws IOException {
        Path info = Path.of("/proc/meminfo");
        if (!Files.exists(info)) {
            return "not listed by this system";
        }
        List<String> lines = Files.readAllLines(info);
        return gibibytes(lines, "MemTotal:") + " in all, " + gibibytes(lines, "MemAvailable:") + " available";
    }

    private static String gibibytes(List<String> lines, String key) {
        return lines.stream()
                .filter(line -> line.startsWith(key))
                .map(line -> new ByteSize(Long.parseLong(line.replaceAll("\\D+", "")) << 10).toString())
                .findFirst()
                .orElse("unknown");
    }
}
