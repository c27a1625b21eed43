package dev.tandem.app;

import dev.tandem.engine.config.ConfigurationException;
import dev.tandem.server.http.HttpLimits;
import dev.tandem.server.http.OriginPolicy;
import dev.tandem.server.http.Tls;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import picocli.CommandLine.Option;

/** Options that limit what clients may use, and choose which web pages may use the server. */
@Section(Section.Heading.SERVER)
final class HttpOptions {
    /** Proxies in front of servers commonly allow 8 KiB to 64 KiB. */
    private static final int MAX_HEADER_BYTES = 64 << 10;
    /** The heap divided by this bounds the bodies of all requests; parsed bodies take several times their size. */
    private static final int HEAP_DIVISOR = 8;

    @Option(
            names = "--max-body-size",
            paramLabel = "SIZE",
            defaultValue = "8MiB",
            converter = ByteSize.Converter.class,
            description = "Max size of a request's body; larger ones are refused with 413. Default: ${DEFAULT-VALUE}.")
    ByteSize maxBodySize = ByteSize.parse("8MiB");

    @Option(
            names = "--max-connections",
            paramLabel = "NUMBER",
            defaultValue = "4096",
            description = "Max open connections; more are refused with 503. Default: ${DEFAULT-VALUE}.")
    int maxConnections = 4096;

    @Option(
            names = "--header-timeout",
            paramLabel = "SECONDS",
            defaultValue = "10",
            description = "Seconds that a client has to send a request's headers. Default: ${DEFAULT-VALUE}.")
    int headerTimeout = 10;

    @Option(
            names = "--body-timeout",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description = "Seconds that a client has to send a request's body. Default: ${DEFAULT-VALUE}.")
    int bodyTimeout = 60;

    @Option(
            names = "--idle-timeout",
            paramLabel = "SECONDS",
            defaultValue = "75",
            description = "Seconds that a connection stays open between requests. Default: ${DEFAULT-VALUE}.")
    int idleTimeout = 75;

    @Option(
            names = "--write-timeout",
            paramLabel = "SECONDS",
            defaultValue = "60",
            description = "Seconds after which the server closes the connection of a client that reads nothing of its"
                    + " answer. Default: ${DEFAULT-VALUE}.")
    int writeTimeout = 60;

    @Option(
            names = "--allowed-hosts",
            split = ",",
            paramLabel = "NAME",
            description = "Host names under which clients may reach the server, besides localhost and IP addresses; *"
                    + " allows all. A server on a loopback address refuses other names, against DNS rebinding; other"
                    + " servers refuse them only with this option. Default: none.")
    List<String> allowedHosts = List.of();

    @Option(
            names = "--allowed-origins",
            split = ",",
            paramLabel = "ORIGIN",
            description = "Origins of web pages that may use the server; * allows all."
                    + " For example https://chat.example.org. Requests of other pages are refused. Default: none.")
    List<String> allowedOrigins = List.of();

    @Option(
            names = "--ssl-certfile",
            paramLabel = "FILE",
            description = "Certificate chain in PEM format; the server then speaks TLS 1.2 and 1.3 only. Needs"
                    + " --ssl-keyfile. Default: none, plain HTTP.")
    Optional<Path> certificateFile = Optional.empty();

    @Option(
            names = "--ssl-keyfile",
            paramLabel = "FILE",
            description = "Private key of --ssl-certfile: PKCS #8 in PEM format, without a password. Default: none.")
    Optional<Path> keyFile = Optional.empty();

    /** @throws ConfigurationException that names the option, its value and the remedy */
    void check() {
        if (certificateFile.isPresent() != keyFile.isPresent()) {
            throw new ConfigurationException(
                    "TLS needs both --ssl-certfile and --ssl-keyfile; give both, or leave both out for plain HTTP");
        }
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

    /** The certificate and key to speak TLS with; empty for plain HTTP. */
    Optional<Tls> tls() {
        return certificateFile.map(certificate -> Tls.of(certificate, keyFile.orElseThrow()));
    }

    /** The file by which curl knows the server; empty for plain HTTP. */
    Optional<String> curlCertificate() {
        return certificateFile.map(Path::toString);
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
                Math.max(2 * maxBodySize.bytes(), heap / HEAP_DIVISOR),
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
