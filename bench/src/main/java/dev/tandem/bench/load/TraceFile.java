package dev.tandem.bench.load;

import dev.tandem.engine.config.ConfigurationException;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.LocalDateTime;
import java.time.format.DateTimeParseException;
import java.util.Map;
import java.util.Objects;
import java.util.stream.LongStream;

/**
 * Reads the arrivals of a trace: a text file with one request per line, whose first cell is its time. A time is a
 * number of seconds, or a date and time as {@code 2023-11-16 18:17:03.97}. A first line that begins with a letter is a
 * header.
 */
public final class TraceFile {
    /** Traces that come with the workloads of the same names. */
    private static final Map<String, String> KNOWN = Map.of(
            "azure-code", "/dev/tandem/bench/AzureLLMInferenceTrace_code.csv",
            "azure-conv", "/dev/tandem/bench/AzureLLMInferenceTrace_conv.csv");

    private static final LocalDateTime ORIGIN = LocalDateTime.of(2000, 1, 1, 0, 0);

    private TraceFile() {}

    /**
     * Reads a trace at its recorded rate.
     *
     * @param name {@code azure-code}, {@code azure-conv} or a file
     * @throws ConfigurationException that names the file, the line and what it must look like
     */
    public static Arrivals.Trace read(String name) {
        String resource = KNOWN.get(name);
        try (InputStream in = resource == null
                        ? Files.newInputStream(Path.of(name))
                        : Objects.requireNonNull(TraceFile.class.getResourceAsStream(resource), resource);
                BufferedReader reader = new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8))) {
            return new Arrivals.Trace(name, times(name, reader), 1);
        } catch (IOException e) {
            throw new ConfigurationException("--arrivals trace:" + name + " cannot be read: " + e.getMessage()
                    + "; name azure-code, azure-conv or a file with a time per line");
        } catch (UncheckedIOException e) {
            throw new ConfigurationException("--arrivals trace:" + name + " cannot be read: " + e.getMessage());
        }
    }

    private static long[] times(String name, BufferedReader reader) throws IOException {
        LongStream.Builder times = LongStream.builder();
        int number = 0;
        for (String line = reader.readLine(); line != null; line = reader.readLine()) {
            number++;
            boolean header = number == 1 && !line.isEmpty() && Character.isLetter(line.charAt(0));
            if (!header && !line.isBlank()) {
                times.add(time(name, number, line.split(",")[0].strip()));
            }
        }
        return times.build().toArray();
    }

    private static long time(String name, int line, String cell) {
        try {
            return cell.indexOf(':') < 0
                    ? Math.round(Double.parseDouble(cell) * 1e9)
                    : Duration.between(ORIGIN, LocalDateTime.parse(cell.replace(' ', 'T')))
                            .toNanos();
        } catch (NumberFormatException | DateTimeParseException e) {
            throw new ConfigurationException("line " + line + " of the trace " + name + " begins with '" + cell
                    + "'; it must be a number of seconds, or a date and time as 2023-11-16 18:17:03.97");
        }
    }
}
