package dev.tandem.app;

import dev.tandem.app.config.Configuration;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.schedule.Budget;
import dev.tandem.model.Checkpoint.LoadFormat;
import dev.tandem.model.ModelException;
import dev.tandem.model.config.DataType;
import dev.tandem.model.config.ModelConfig;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The options of all commands that load a model: the model, and the other groups of options. */
@Section(Section.Heading.MODEL)
final class ModelOptions {
    private static final String AUTO = "auto";

    @Parameters(
            arity = "0..1",
            paramLabel = "MODEL",
            description =
                    "A .gguf file, a Hugging Face directory, ORG/NAME[@REVISION][:TAG] on the hub, or a short name of"
                            + " tandem list. Default: " + DefaultModel.NAME + ", fetched once.")
    private Optional<String> argument = Optional.empty();

    @Option(names = "--model", paramLabel = "MODEL", description = "The same as the argument MODEL. Default: none.")
    private Optional<String> named = Optional.empty();

    @Option(
            names = "--config",
            paramLabel = "FILE",
            description = "YAML file of options, KEY: VALUE; a key is an option's long name, or model. The command line"
                    + " and variables such as TANDEM_PORT win over it. Default: the variable TANDEM_CONFIG, else none.")
    Optional<Path> config = Optional.empty();

    @Spec(Spec.Target.MIXEE)
    @Nullable
    CommandSpec spec;

    @Option(
            names = "--dtype",
            paramLabel = "TYPE",
            defaultValue = AUTO,
            description = "Type of weights and KV cache: auto, bfloat16, float16 or float32. auto takes the file's own"
                    + " type, and bfloat16 for a GGUF file with quantised blocks. On the CPU these blocks stay as they"
                    + " are. Default: ${DEFAULT-VALUE}.")
    String dtype = AUTO;

    @Option(
            names = "--max-model-len",
            paramLabel = "TOKENS",
            description = "Max tokens of one request, prompt and output together. Default: what the model allows;"
                    + " with LongRoPE its original context, beyond which the long factors are used.")
    Optional<Integer> maxModelLen = Optional.empty();

    @Option(
            names = "--load-format",
            paramLabel = "FORMAT",
            defaultValue = "auto",
            description = "auto reads the weights; dummy needs the configuration alone and makes random weights from"
                    + " --seed. Default: ${DEFAULT-VALUE}.")
    LoadFormat loadFormat = LoadFormat.AUTO;

    @Option(
            names = "--seed",
            paramLabel = "NUMBER",
            defaultValue = "0",
            description = "Seed of sampling and of dummy weights. Default: ${DEFAULT-VALUE}.")
    long seed;

    @Mixin
    MemoryOptions memory = new MemoryOptions();

    @Mixin
    SchedulingOptions scheduling = new SchedulingOptions();

    @Mixin
    StrategyOptions strategy = new StrategyOptions();

    @Mixin
    GpuOptions gpu = new GpuOptions();

    @Mixin
    AdvancedOptions advanced = new AdvancedOptions();

    /** The options of the command and the source of each; empty where no command line was parsed. */
    Configuration configuration() {
        return spec == null ? new Configuration(List.of()) : Configuration.of(spec.commandLine());
    }

    /**
     * The model that MODEL or {@code --model} names; empty for the default one.
     *
     * @throws ConfigurationException when the command line has both, and they differ
     */
    Optional<String> model() {
        boolean both = spec != null
                && !spec.commandLine().getParseResult().matchedPositionals().isEmpty()
                && named.isPresent();
        if (both && !named.equals(argument)) {
            throw new ConfigurationException(
                    "--model " + named.get() + " and MODEL " + argument.orElse("") + " are two models; leave one out");
        }
        return named.or(() -> argument); // a configuration file and the environment set the argument alone
    }

    /** Takes another model than the one that the user names. */
    void use(String model) {
        argument = Optional.of(model);
        named = argument;
    }

    /** The model that is named, or the default one. */
    ModelReference reference() {
        return model().map(ModelReference::parse).orElse(DefaultModel.REFERENCE);
    }

    /**
     * Checks all that can be checked without the model, before anything is downloaded or loaded and before the server
     * listens.
     *
     * @throws ConfigurationException that names the option, its value and the remedy
     */
    void check() {
        model();
        if (!dtype.equals(AUTO)) {
            try {
                DataType.of(dtype);
            } catch (ModelException e) {
                throw new ConfigurationException("--dtype: " + e.getMessage(), e);
            }
        }
        if (maxModelLen.isPresent() && maxModelLen.get() < 2) { // one token of the prompt and one of the answer
            throw new ConfigurationException(
                    "--max-model-len " + maxModelLen.get() + " is too small; it must be at least 2");
        }
        gpu.check();
        memory.check();
        scheduling.check();
        strategy.check(budget(), scheduling);
        advanced.check(gpu.chosen());
    }

    /**
     * Max tokens of a sequence: --max-model-len, or the model's own limit.
     *
     * @throws ConfigurationException when the option exceeds the model
     */
    int contextTokens(ModelConfig config) {
        int allowed = config.contextTokens();
        if (maxModelLen.isPresent() && maxModelLen.get() > allowed) {
            throw new ConfigurationException("--max-model-len " + maxModelLen.get() + " is more than the " + allowed
                    + " tokens that the model allows; lower it or leave it out");
        }
        return maxModelLen.orElse(allowed);
    }

    int maxNumSeqs() {
        return scheduling.maxNumSeqs(gpu.chosen());
    }

    /** The limits of one step. */
    Budget budget() {
        return scheduling.budget(gpu.chosen());
    }
}
