package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.loop.Engine;
import dev.tandem.server.metrics.EngineMetrics;
import dev.tandem.server.openai.CacheSaltFrom;
import dev.tandem.server.openai.ServedModel;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine;

/**
 * A model with its engine in a process that is not Tandem's own.
 *
 * <p>Owned by: any thread. Closing it ends the engine's thread and the CPU threads, and frees the memory.
 */
public final class LoadedModel implements AutoCloseable {
    private final EngineAssembly assembly;
    private final ServedModel model;
    private final DeferredListener listener;

    private LoadedModel(EngineAssembly assembly, ServedModel model, DeferredListener listener) {
        this.assembly = assembly;
        this.model = model;
        this.listener = listener;
    }

    /**
     * Loads a model as {@code tandem serve} does, without a server.
     *
     * @param model as the command line names it; empty for the default model
     * @param options of {@code tandem serve} for models, memory, scheduling, strategies and devices
     * @param log receives the messages of the start, as lines
     * @throws ConfigurationException when an option, the model or this machine does not allow the start
     */
    public static LoadedModel load(Optional<String> model, List<String> options, PrintStream log) {
        ModelOptions parsed = parse(model, options);
        StartLog start = new StartLog(log, false);
        DeferredListener listener = new DeferredListener();
        EngineAssembly assembly = EngineAssembly.start(parsed, EngineAssembly.Use.SERVE, listener, start);
        try {
            assembly.ideal().ifPresent(listener::attach);
            start.printSummary();
            return new LoadedModel(assembly, assembly.served(assembly.name(parsed), CacheSaltFrom.NONE), listener);
        } catch (RuntimeException | Error e) {
            assembly.close();
            throw e;
        }
    }

    private static ModelOptions parse(Optional<String> model, List<String> options) {
        List<String> arguments = new ArrayList<>(options);
        model.ifPresent(name -> arguments.addAll(List.of("--", name)));
        return parse(arguments);
    }

    /**
     * The options that arguments of a command line give.
     *
     * @throws ConfigurationException that names the argument which is wrong
     */
    static ModelOptions parse(List<String> arguments) {
        ModelOptions parsed = new ModelOptions();
        try {
            new CommandLine(new Options(parsed))
                    .setCaseInsensitiveEnumValuesAllowed(true)
                    .parseArgs(arguments.toArray(String[]::new));
        } catch (CommandLine.ParameterException e) {
            throw new ConfigurationException(String.valueOf(e.getMessage()), e);
        }
        return parsed;
    }

    /** Gives picocli a command that has these options alone. */
    @CommandLine.Command(name = "load")
    private static final class Options {
        @CommandLine.Mixin
        @SuppressWarnings("UnusedVariable") // picocli reads it
        final ModelOptions model;

        Options(ModelOptions model) {
            this.model = model;
        }
    }

    /**
     * Has the metrics follow the engine.
     *
     * @return ends that
     */
    public Runnable watchedBy(EngineMetrics metrics) {
        Engine engine = assembly.engine();
        metrics.watch(engine::stats, engine::waiting, engine.limits().blockTokens());
        assembly.watchedBy(metrics);
        listener.attach(metrics);
        return () -> listener.detach(metrics);
    }

    /** The model as the APIs serve it, with its engine. */
    public ServedModel served() {
        return model;
    }

    @Override
    public void close() {
        assembly.close();
    }
}
