package dev.tandem.app;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** {@code tandem serve} as a process of its own, with the default model on a free port. */
final class TestServer implements AutoCloseable {
    private static final Pattern ADDRESS = Pattern.compile("^address +(http://127\\.0\\.0\\.1:\\d+) ");

    final String address;
    final String curl;
    /** The lines of standard output before the curl line. */
    final List<String> summary = new ArrayList<>();

    private final Process process;
    final HttpClient http = HttpClient.newHttpClient();

    TestServer(String... options) throws IOException {
        List<String> command = new ArrayList<>(List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "--add-modules",
                "jdk.incubator.vector",
                "--enable-native-access=ALL-UNNAMED",
                "-Djdk.incubator.vector.VECTOR_ACCESS_OOB_CHECK=0",
                "-cp",
                System.getProperty("java.class.path"),
                "dev.tandem.app.Main",
                "serve",
                "--port",
                "0"));
        command.addAll(List.of(options));
        process = new ProcessBuilder(command)
                .redirectError(ProcessBuilder.Redirect.INHERIT)
                .start();
        BufferedReader out =
                new BufferedReader(new InputStreamReader(process.getInputStream(), StandardCharsets.UTF_8));
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
            summary.add(line);
        }
        if (found.isEmpty()) {
            throw new IllegalStateException("the server ended with " + process.exitValue());
        }
        address = found;
        curl = printed;
    }

    HttpResponse<String> post(String path, String body, String... headers) throws IOException, InterruptedException {
        return post(path, body.getBytes(StandardCharsets.UTF_8), headers);
    }

    HttpResponse<String> post(String path, byte[] body, String... headers) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + path))
                .header("Content-Type", "application/json")
                .POST(HttpRequest.BodyPublishers.ofByteArray(body));
        for (int i = 0; i < headers.length; i += 2) {
            request.header(headers[i], headers[i + 1]);
        }
        return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    HttpResponse<String> get(String path, String... headers) throws IOException, InterruptedException {
        HttpRequest.Builder request = HttpRequest.newBuilder(URI.create(address + path));
        for (int i = 0; i < headers.length; i += 2) {
            request.header(headers[i], headers[i + 1]);
        }
        return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    }

    /** The value of a series of one model. */
    double metric(String name) throws IOException, InterruptedException {
        return get("/metrics")
                .body()
                .lines()
                .filter(line -> line.startsWith(name + "{"))
                .mapToDouble(line -> Double.parseDouble(line.substring(line.lastIndexOf(' ') + 1)))
                .sum();
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
    public void close() {
        http.close();
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
