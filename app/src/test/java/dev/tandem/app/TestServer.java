package dev.tandem.app;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** {@code tandem serve} as a process of its own, with the default model on a free port. */
final class TestServer extends ServerClient {
    private static final Pattern ADDRESS = Pattern.compile("^address +(http://127\\.0\\.0\\.1:\\d+) ");

    final String curl;
    /** The lines of standard output before the curl line. */
    final List<String> summary;

    private final Process process;

    TestServer(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "@" + Path.of("../tools/java.options"),
                "-cp",
                System.getProperty("java.class.path"),
                "dev.tandem.app.Main",
                "serve",
                "--port",
                "0"));
        command.addAll(List.of(options));
        Process started = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader out =
                new BufferedReader(new InputStreamReader(started.getInputStream(), StandardCharsets.UTF_8));
        List<String> lines = new ArrayList<>();
        String found = "";
        String printed = "";
        for (String line = out.readLine(); line != null; line = out.readLine()) {
            Matcher matcher = ADDRESS.matcher(line);
            if (matcher.find()) {
                found = matcher.group(1);
            }
            if (line.startsWith("curl ")) {
                printed = line;
                break;
            }
            lines.add(line);
        }
        if (found.isEmpty()) {
            throw new IllegalStateException("the server ended with " + started.exitValue());
        }
        super(found);
        process = started;
        curl = printed;
        summary = lines;
    }

    /** Sends SIGTERM and returns the exit code. */
    int terminate() throws InterruptedException {
        process.destroy();
        if (!process.waitFor(60, TimeUnit.SECONDS)) {
            throw new AssertionError("the server does not end after SIGTERM");
        }
        return process.exitValue();
    }

    @Override
    void end() {
        process.destroy();
        try {
            if (!process.waitFor(60, TimeUnit.SECONDS)) {
                process.destroyForcibly();
            }
        } catch (InterruptedException e) {
            process.destroyForcibly();
            Thread.currentThread().interrupt();
        }
    }
}
