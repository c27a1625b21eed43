package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.OriginPolicy;
import java.time.Duration;
import java.util.List;
import picocli.CommandLine.Option;

/** What one client may take of the server, and which web pages may use it. */
final class HttpOptions {
    /** Proxies in front of servers commonly allow 8 KiB to 64 KiB. */
    private static final int MAX_HEADER_BYTES = 64 << 10;
    /** Of the heap, for the bodies of all requests under way; what they are parsed into takes several times as much. */
    private static final int HEAP_SHARE_OF_BODIES = 8;

    @Option(
            names = "--max-body-size",
            defaultValue = "8MiB",
            converter = ModelOptions.ByteSizeConverter.class,
            description = "Larger request bodies are refused with 413 (${DEFAULT-VALUE}).")
    ByteSize maxBodySize;

    @Option(
            names = "--max-connections",
            defaultValue = "4096",
            description = "Open connections; further ones are refused with 503 (${DEFAULT-VALUE}).")
    int maxConnections;

    @Option(
            names = "--header-timeout",
            defaultValue = "10",
            description = "Seconds that a client has to send a request's headers (${DEFAULT-VALUE}).")
    int headerTimeout;

    @Option(
            names = "--body-timeout",
            defaultValue = "60",
            description = "Seconds that a client has to send a request's body (${DEFAULT-VALUE}).")
    int bodyTimeout;

    @Option(
            names = "--idle-timeout",
            defaultValue = "75",
            description = "Seconds that a connection stays open between requests (${DEFAULT-VALUE}).")
    int idleTimeout;

    @Option(
            names = "--write-timeout",
            defaultValue = "60",
            description =
                    "Seconds after which a client that reads nothing of its answer is cut off (${DEFAULT-VALUE}).")
    int writeTimeout;

    @Option(
            names = "--allowed-hosts",
            split = ",",
            paramLabel = "NAME",
            description = {
                "Host names by which clients may reach the server, besides localhost and addresses; * allows all. On a",
                "loopback address others are refused, against DNS rebinding; elsewhere only where this option is given."
            })
    List<String> allowedHosts = List.of();

    @Option(
            names = "--allowed-origins",
            split = ",",
            paramLabel = "ORIGIN",
            description = {
                "Web pages that may use the server, such as https://chat.example.org; * allows all. Default: none,",
                "requests with an Origin header are refused."
            })
    List<String> allowedOrigins = List.of();

    void check() {
        if (maxBodySize.bytes() < 1 || maxBodySize.bytes() > Integer.MAX_VALUE) {
            throw new ConfigurationException("--max-body-size " + maxBodySize
                    + " must be at least 1 byte and less than 2GiB; the default is 8MiB");
        }
        atLeastOne("--max-connections", maxConnections);
        atLeastOne("--header-timeout", headerTimeout);
        atLeastOne("--body-timeout", bodyTimeout);
        atLeastOne("--idle-timeout", idleTimeout);
        atLeastOne("--write-timeout", writeTimeout);
        for (String origin : allowedOrigins) {
            if (!origin.equals("*") && !origin.matches("[a-z][a-z0-9+.-]*://[^/\\s]+")) {
                throw new ConfigurationException("--allowed-origins " + origin
                        + " is not an origin: scheme, host and port without a path, such as "
                        + "https://chat.example.org, or *");
            }
        }
    }

    private static void atLeastOne(String option, int value) {
        if (value < 1) {
            throw new ConfigurationException(option + " " + value + " must be at least 1");
        }
    }

    HttpLimits limits() {
        long heap = Runtime.getRuntime().maxMemory();
        return new HttpLimits(
                (int) maxBodySize.bytes(),
                MAX_HEADER_BYTES,
                Math.max(2 * maxBodySize.bytes(), heap / HEAP_SHARE_OF_BODIES),
                maxConnections,
                Duration.ofSeconds(headerTimeout),
                Duration.ofSeconds(bodyTimeout),
                Duration.ofSeconds(idleTimeout),
                Duration.ofSeconds(writeTimeout));
    }

    /** @param loopback whether the server listens on a loopback address */
    OriginPolicy origins(boolean loopback) {
        return new OriginPolicy(loopback, allowedHosts, allowedOrigins);
    }
}
