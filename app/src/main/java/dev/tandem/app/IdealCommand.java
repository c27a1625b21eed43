package dev.tandem.app;

import dev.tandem.bench.Statistics;
import dev.tandem.bench.hardware.Hardware;
import dev.tandem.bench.hardware.ModelShape;
import dev.tandem.bench.ideal.Bounds;
import dev.tandem.bench.ideal.Ideal;
import dev.tandem.bench.ideal.IdealCase;
import dev.tandem.bench.ideal.IdealFields;
import dev.tandem.bench.ideal.Lengths;
import dev.tandem.bench.ideal.WhatIf;
import dev.tandem.engine.config.ConfigurationException;
import java.io.IOException;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** Runs {@code ideal}: the best possible gain of a machine, model and workload. */
@Command(
        name = "ideal",
        mixinStandardHelpOptions = true,
        description = "Computes the best output throughput that any schedule can reach with a host tier, and with the"
                + " GPU alone at equal GPU memory; says what limits it, and what other hardware would change.",
        footerHeading = "%nExamples:%n",
        footer = {
            "  tandem ideal --preset h200-26k --workload synthetic:1000/400",
            "  tandem ideal --hardware a10g-g5.16xlarge --model Llama-3.1-8B --workload osc --max-tpot 250",
            "  tandem ideal --hardware mine.json --model my-model/ --workload synthetic:350/2500 --json"
        })
final class IdealCommand implements Callable<Integer> {
    @Option(
            names = "--preset",
            paramLabel = "PRESET",
            description = "Hardware, model and KV memory of a preset of bench. Default: none; give --hardware.")
    Optional<String> preset = Optional.empty();

    @Option(
            names = "--model",
            paramLabel = "NAME|DIRECTORY",
            description = "Llama-3.1-8B, Llama-2-7B, Qwen3-14B, Qwen3-32B, or a directory with a config.json."
                    + " Default: the preset's.")
    Optional<String> model = Optional.empty();

    @Option(
            names = "--gpu-kv",
            converter = ByteSize.Converter.class,
            paramLabel = "SIZE",
            description = "GPU memory for KV. Default: the preset's, or 0.95 of the GPU's memory less"
                    + " the weights and 1 GB.")
    Optional<ByteSize> gpuKv = Optional.empty();

    @Option(
            names = "--host-kv",
            converter = ByteSize.Converter.class,
            paramLabel = "SIZE",
            description = "Host memory for KV. Default: the preset's, or the hardware's.")
    Optional<ByteSize> hostKv = Optional.empty();

    @Option(
            names = "--max-tpot",
            paramLabel = "MS",
            description = "Max milliseconds between two tokens of a request. Default: no limit.")
    Optional<Double> maxTpot = Optional.empty();

    @Option(
            names = "--seed",
            paramLabel = "SEED",
            defaultValue = "0",
            description = "Seed of random lengths. Default: ${DEFAULT-VALUE}.")
    long seed;

    @Mixin
    HardwareOptions described = new HardwareOptions();

    @Mixin
    WorkloadName workload = new WorkloadName();

    @Mixin
    BenchReport report = new BenchReport();

    @Override
    public Integer call() throws IOException {
        report.check();
        Optional<Preset> of = preset.map(Preset::of);
        Hardware machine = described
                .machine(of)
                .orElseThrow(() -> new ConfigurationException("ideal needs a machine: --preset, or --hardware with a"
                        + " file or one of " + String.join(", ", Hardware.NAMES)));
        ModelShape shape = HardwareOptions.shape(model.or(() -> of.map(Preset::model))
                .orElseThrow(() -> new ConfigurationException(
                        "ideal needs a model: --model with a directory, " + HardwareOptions.names())));
        double gpuBytes = gpuKv.map(size -> (double) size.bytes())
                .or(() -> of.flatMap(given -> given.gpuKvBytes(shape.kvBytesPerToken())))
                .orElseGet(() -> HardwareOptions.gpuKvBytes(machine, shape, HardwareOptions.GPU_MEMORY_USED));
        if (gpuBytes <= 0) {
            throw new ConfigurationException(
                    "--gpu-kv 0 leaves no GPU memory for KV; give it memory, for example 2GiB");
        }
        double hostBytes = hostKv.or(() -> of.map(Preset::hostKv))
                .map(size -> (double) size.bytes())
                .orElse(machine.host().kvBytes());
        double maxSeconds = maxTpot.orElse(Double.POSITIVE_INFINITY) / 1e3;
        if (!(maxSeconds > 0)) {
            throw new ConfigurationException("--max-tpot " + maxTpot.get() + " must be a number of ms above 0");
        }
        IdealCase asked = IdealCase.of(
                machine,
                shape,
                gpuBytes,
                hostBytes,
                Lengths.of(workload.workload(seed).ofSingleRequests("bench simulate --request-rate has them"))
                        .within(shape.span()),
                of.map(Preset::bounds).orElse(Bounds.WIDE).withMaxTokenSeconds(maxSeconds));
        report.write(result(machine, shape, asked));
        return 0;
    }

    private Map<String, Object> result(Hardware machine, ModelShape shape, IdealCase asked) {
        Map<String, Object> result = new LinkedHashMap<>();
        result.put("hardware", machine.name());
        result.put("provenance", machine.describeProvenance());
        result.put("workload", workload.name);
        result.put("gpu_kv_bytes", (long) asked.memory().gpuBytes());
        result.put("staging_bytes", (long) asked.memory().stagingBytes());
        result.put("host_kv_bytes", (long) asked.memory().hostBytes());
        Ideal ideal = Ideal.of(asked);
        result.putAll(IdealFields.describe(ideal));
        Map<String, Object> whatIf = new LinkedHashMap<>();
        WhatIf.of(asked, machine, shape).forEach((name, changed) -> {
            Ideal other = Ideal.of(changed);
            Map<String, Object> fields = new LinkedHashMap<>();
            fields.put(
                    "output_tokens_per_second", Statistics.rounded(other.best().tokensPerSecond()));
            other.ratio().ifPresent(ratio -> fields.put("ratio", Statistics.rounded(ratio)));
            whatIf.put(name, fields);
        });
        if (report.json || report.resultFile.isPresent()) {
            result.put("what_if", whatIf);
        } else {
            whatIf.forEach((name, fields) -> result.put("what if: " + name, fields));
        }
        return result;
    }
}
