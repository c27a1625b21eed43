package dev.tandem.app;

import dev.tandem.app.config.Configuration;
import dev.tandem.app.config.KnownOptions;
import dev.tandem.cuda.ffi.CudaException;
import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.engine.cost.ProfileException;
import dev.tandem.engine.executor.ExecutorException;
import dev.tandem.engine.request.RequestException;
import dev.tandem.fetch.FetchException;
import dev.tandem.model.ModelException;
import dev.tandem.server.http.ListenException;
import dev.tandem.server.http.Printable;
import dev.tandem.text.TokenizerException;
import dev.tandem.text.jinja.JinjaException;
import java.io.IOException;
import java.io.PrintStream;
import java.io.UncheckedIOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.NoSuchFileException;
import java.nio.file.NotDirectoryException;
import java.util.Arrays;
import java.util.List;
import java.util.Objects;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.ParameterException;

/**
 * Reports the error that ends a command. An error that the user can fix is one line with the remedy. A defect of Tandem
 * is one line that says so, followed by the stack trace.
 */
final class ErrorReport {
    private ErrorReport() {}

    /** Prints the error and returns the exit status. */
    static int of(Throwable error, PrintStream out) {
        return of(error, new Configuration(List.of()), out);
    }

    /** @param configuration of the command, whose sources are added to what is wrong with an option */
    static int of(Throwable error, Configuration configuration, PrintStream out) {
        return switch (error) {
            // of the environment or a file
            case ParameterException wrong
            when wrong.getCause() instanceof ConfigurationException cause ->
                line(out, cause.getMessage(), ExitCode.CANNOT_START);
            case ParameterException wrong -> line(out, usage(wrong), ExitCode.CANNOT_START);
            case ConfigurationException wrong ->
                line(out, configuration.withSources(String.valueOf(wrong.getMessage())), ExitCode.CANNOT_START);
            case ModelException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case FetchException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case TokenizerException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case JinjaException wrong ->
                line(out, "the model's chat template is wrong: " + wrong.getMessage(), ExitCode.CANNOT_START);
            case RequestException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case ProfileException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case ListenException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case CudaException wrong -> line(out, wrong.getMessage(), ExitCode.CANNOT_START);
            case ExecutorException failed -> line(out, failed.getMessage(), ExitCode.FAILED);
            case UncheckedIOException wrong ->
                line(
                        out,
                        file(Objects.requireNonNullElse(wrong.getCause(), new IOException(wrong))),
                        ExitCode.CANNOT_START);
            case IOException wrong -> line(out, file(wrong), ExitCode.CANNOT_START);
            case OutOfMemoryError full -> line(out, memory(full), ExitCode.CANNOT_START);
            default -> bug(error, out);
        };
    }

    private static int line(PrintStream out, @Nullable String message, int code) {
        out.println("tandem: " + Printable.oneLine(String.valueOf(message)));
        return code;
    }

    private static int bug(Throwable error, PrintStream out) {
        line(
                out,
                "this is a mistake in Tandem, not in what you asked for; please report it with these lines: " + error,
                ExitCode.BUG);
        error.printStackTrace(out);
        return ExitCode.BUG;
    }

    /** Prints one line, without the whole usage text. */
    private static String usage(ParameterException wrong) {
        String problem = KnownOptions.problem(wrong)
                .map(unknown -> name(wrong) + " " + unknown)
                .orElseGet(() -> Printable.oneLine(String.valueOf(wrong.getMessage())));
        return problem + "; see " + wrong.getCommandLine().getCommandSpec().qualifiedName() + " --help";
    }

    private static String name(ParameterException wrong) {
        return wrong.getArgSpec() instanceof CommandLine.Model.OptionSpec option
                ? option.longestName()
                : wrong.getArgSpec().paramLabel();
    }

    private static String file(IOException wrong) {
        return switch (wrong) {
            case NoSuchFileException missing -> missing.getFile() + " does not exist; check the path";
            case AccessDeniedException denied ->
                denied.getFile() + " may not be read or written by this user; change its rights or choose another path";
            case NotDirectoryException other -> other.getFile() + " is not a directory; choose another path";
            case FileAlreadyExistsException other ->
                other.getFile() + " exists and is not a directory; choose another path";
            default ->
                "a file could not be read or written: " + wrong.getMessage()
                        + "; check the path, its rights and the space left";
        };
    }

    private static String memory(OutOfMemoryError full) {
        return "not enough memory: " + full.getMessage() + "; stop other programs, choose a smaller model, or lower "
                + String.join(", ", Arrays.asList("--kv-cache-memory", "--host-kv", "--max-num-batched-tokens"))
                + (String.valueOf(full.getMessage()).contains("heap")
                        ? "; TANDEM_JAVA_OPTIONS=-Xmx8g gives Java's heap 8 GiB"
                        : "");
    }
}
