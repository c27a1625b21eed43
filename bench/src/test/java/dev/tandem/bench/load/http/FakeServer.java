package dev.tandem.bench.load.http;

import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * A server that answers as a test says, on a port of its own and with a virtual thread per connection. It reads
 * requests with a content length, and keeps connections open.
 */
final class FakeServer implements AutoCloseable {
    /** One request: its path and its body. */
    record Call(String path, String body) {}

    /** Writes the answer to a request. */
    interface Answer {
        /** @return whether the connection stays open */
        boolean write(Call call, OutputStream out) throws IOException, InterruptedException;
    }

    private final ServerSocket socket;
    private final Answer answer;
    private final List<Call> calls = new CopyOnWriteArrayList<>();
    private final List<Socket> connections = new CopyOnWriteArrayList<>();
    private final CountDownLatch clientHasLeft = new CountDownLatch(1);

    FakeServer(Answer answer) {
        this.answer = answer;
        try {
            this.socket = new ServerSocket(0, 1024, InetAddress.getLoopbackAddress());
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        Thread.ofVirtual().start(this::accept);
    }

    String url() {
        return "http://127.0.0.1:" + socket.getLocalPort();
    }

    List<Call> calls() {
        return calls;
    }

    /** Waits until the client has closed a connection between two requests; false when it keeps all for that long. */
    boolean awaitClosedConnection(Duration limit) throws InterruptedException {
        return clientHasLeft.await(limit.toNanos(), TimeUnit.NANOSECONDS);
    }

    /** A stream of completions with one event per text, then the finish reason, the usage and the last event. */
    static void stream(OutputStream out, int promptTokens, String... texts) throws IOException {
        begin(out);
        for (String text : texts) {
            event(out, "{\"choices\":[{\"text\":\"" + text + "\",\"finish_reason\":null}]}");
        }
        finish(out, promptTokens, texts.length);
    }

    static void begin(OutputStream out) throws IOException {
        write(out, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n");
    }

    static void event(OutputStream out, String data) throws IOException {
        String line = "data: " + data + "\n\n";
        write(out, Integer.toHexString(line.getBytes(StandardCharsets.UTF_8).length) + "\r\n" + line + "\r\n");
    }

    static void finish(OutputStream out, int promptTokens, int outputTokens) throws IOException {
        event(out, "{\"choices\":[{\"text\":\"\",\"finish_reason\":\"length\"}]}");
        event(
                out,
                "{\"choices\":[],\"usage\":{\"prompt_tokens\":" + promptTokens + ",\"completion_tokens\":"
                        + outputTokens + "}}");
        end(out);
    }

    static void end(OutputStream out) throws IOException {
        event(out, "[DONE]");
        write(out, "0\r\n\r\n");
    }

    static void plain(OutputStream out, int status, String body) throws IOException {
        write(
                out,
                "HTTP/1.1 " + status + " Status\r\nContent-Type: application/json\r\nContent-Length: " + body.length()
                        + "\r\n\r\n" + body);
    }

    private static void write(OutputStream out, String text) throws IOException {
        out.write(text.getBytes(StandardCharsets.UTF_8));
        out.flush();
    }

    private void accept() {
        while (!socket.isClosed()) {
            try {
                Socket connection = socket.accept();
                connection.setTcpNoDelay(true);
                connections.add(connection);
                Thread.ofVirtual().start(() -> serve(connection));
            } catch (IOException e) {
                return; // closed
            }
        }
    }

    private void serve(Socket connection) {
        try (connection) {
            InputStream in = new BufferedInputStream(connection.getInputStream());
            OutputStream out = connection.getOutputStream();
            boolean open = true;
            while (open) {
                String first = line(in);
                if (first.isEmpty()) {
                    clientHasLeft.countDown();
                    return;
                }
                int length = 0;
                for (String header = line(in); !header.isEmpty(); header = line(in)) {
                    if (header.toLowerCase(Locale.ROOT).startsWith("content-length:")) {
                        length = Integer.parseInt(header.substring(15).strip());
                    }
                }
                String body = new String(in.readNBytes(length), StandardCharsets.UTF_8);
                Call call = new Call(first.split(" ")[1], body);
                calls.add(call);
                open = answer.write(call, out);
            }
        } catch (IOException | InterruptedException e) {
            // the client has left
        }
    }

    private static String line(InputStream in) throws IOException {
        StringBuilder line = new StringBuilder();
        for (int next = in.read(); next >= 0 && next != '\n'; next = in.read()) {
            if (next != '\r') {
                line.append((char) next);
            }
        }
        return line.toString();
    }

    @Override
    public void close() {
        try {
            socket.close();
            for (Socket connection : connections) {
                connection.close();
            }
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
    }
}
