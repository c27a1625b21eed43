package dev.tandem.server;

import java.io.BufferedInputStream;
import java.io.ByteArrayOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import tools.jackson.databind.JsonNode;
import tools.jackson.databind.ObjectMapper;

/** An HTTP client on a plain socket: it sends any bytes, also invalid ones, and reads answers one by one. */
public final class RawClient implements AutoCloseable {
    private static final ObjectMapper JSON = new ObjectMapper();
    /** A server that does not answer fails the test. */
    private static final int READ_TIMEOUT_MILLIS = 30_000;

    /** @param headers names in lower case */
    record Answer(int status, Map<String, String> headers, String body) {
        JsonNode json() {
            return JSON.readTree(body);
        }

        String error() {
            return json().at("/error/message").asString();
        }

        String parameter() {
            return json().at("/error/param").asString("");
        }
    }

    final Socket socket;
    private final InputStream in;

    RawClient(int port) throws IOException {
        socket = new Socket(InetAddress.getLoopbackAddress(), port);
        socket.setSoTimeout(READ_TIMEOUT_MILLIS);
        in = new BufferedInputStream(socket.getInputStream());
    }

    void send(String text) throws IOException {
        socket.getOutputStream().write(text.getBytes(StandardCharsets.UTF_8));
        socket.getOutputStream().flush();
    }

    void post(String path, String json, String... headers) throws IOException {
        send(request(path, json, headers));
    }

    /** @param headers whole header lines */
    static String request(String path, String json, String... headers) {
        StringBuilder head = new StringBuilder(
                "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n");
        for (String header : headers) {
            head.append(header).append("\r\n");
        }
        return head.append("Content-Length: ")
                        .append(json.getBytes(StandardCharsets.UTF_8).length)
                        .append("\r\n\r\n")
                + json;
    }

    /** Reads the next answer with its whole body. */
    Answer read() throws IOException {
        return read(false);
    }

    /** @param head whether the answer has no body, as for HEAD */
    Answer read(boolean head) throws IOException {
        String status = line();
        Map<String, String> headers = new LinkedHashMap<>();
        for (String line = line(); !line.isEmpty(); line = line()) {
            int colon = line.indexOf(':');
            headers.put(
                    line.substring(0, colon).toLowerCase(Locale.ROOT),
                    line.substring(colon + 1).strip());
        }
        int code = Integer.parseInt(status.split(" ")[1]);
        byte[] body;
        if (head || code == 204 || code == 100) {
            body = new byte[0];
        } else if (headers.containsKey("content-length")) {
            body = in.readNBytes(Integer.parseInt(headers.get("content-length")));
        } else if (headers.getOrDefault("transfer-encoding", "").equals("chunked")) {
            body = chunks();
        } else {
            body = in.readAllBytes();
        }
        return new Answer(code, headers, new String(body, StandardCharsets.UTF_8));
    }

    private byte[] chunks() throws IOException {
        ByteArrayOutputStream body = new ByteArrayOutputStream();
        for (int size = Integer.parseInt(line(), 16); size > 0; size = Integer.parseInt(line(), 16)) {
            body.write(in.readNBytes(size));
            line();
        }
        line();
        return body.toByteArray();
    }

    /** A line without its end. */
    String line() throws IOException {
        ByteArrayOutputStream line = new ByteArrayOutputStream();
        for (int b = in.read(); b != '\n'; b = in.read()) {
            if (b < 0) {
                throw new EOFException("the server closed the connection after '" + line + "'");
            }
            line.write(b);
        }
        return line.toString(StandardCharsets.UTF_8).stripTrailing();
    }

    /** Whether the server has closed the connection, after reading everything it sent. */
    boolean isClosed() throws IOException {
        return in.read() < 0;
    }

    @Override
    public void close() throws IOException {
        socket.close();
    }
}
