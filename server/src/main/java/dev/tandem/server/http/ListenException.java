package dev.tandem.server.http;

import java.io.IOException;
import java.net.UnknownHostException;
import java.nio.channels.UnresolvedAddressException;
import java.util.Locale;

/** The server cannot listen on the given address; the message names host, port and remedy. */
public final class ListenException extends RuntimeException {
    private static final int FIRST_UNPRIVILEGED_PORT = 1024;

    private ListenException(String message, Throwable cause) {
        super(message, cause);
    }

    static ListenException of(String host, int port, Throwable cause) {
        return new ListenException("cannot listen on " + host + ":" + port + ": " + reason(host, port, cause), cause);
    }

    private static String reason(String host, int port, Throwable cause) {
        String said = String.valueOf(cause.getMessage());
        String lower = said.toLowerCase(Locale.ROOT);
        return switch (cause) {
            case UnresolvedAddressException unknown -> unknownHost(host);
            case UnknownHostException unknown -> unknownHost(host);
            case IOException taken
            when lower.contains("in use") ->
                "the port is in use; stop the program that has it, or choose another --port (0 takes a free one)";
            case IOException foreign
            when lower.contains("assign") || lower.contains("not available") ->
                "this machine does not have that address; use --host 127.0.0.1, or 0.0.0.0 for all of its addresses";
            case IOException denied
            when lower.contains("denied") || lower.contains("permitted") ->
                port < FIRST_UNPRIVILEGED_PORT
                        ? "ports below " + FIRST_UNPRIVILEGED_PORT + " are for privileged users; choose a higher --port"
                        : "the system does not permit it (" + said + "); choose another --port or --host";
            default -> said + "; choose another --port or --host";
        };
    }

    private static String unknownHost(String host) {
        return "'" + host
                + "' is not a known host name or address; use --host 127.0.0.1, or 0.0.0.0 for all addresses of "
                + "this machine";
    }
}
