package dev.tandem.server.http;

import dev.tandem.engine.config.ConfigurationException;
import io.netty.channel.ChannelPipeline;
import io.netty.handler.ssl.SslContext;
import io.netty.handler.ssl.SslContextBuilder;
import io.netty.handler.ssl.SslProvider;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The certificate with which the server speaks TLS.
 *
 * <p>Owned by: any thread; immutable.
 */
public final class Tls {
    private final SslContext context;

    private Tls(SslContext context) {
        this.context = context;
    }

    /**
     * Reads a certificate chain and its private key.
     *
     * @param certificates X.509 in PEM format, the server's own first
     * @param key PKCS #8 in PEM format, without a password
     * @throws ConfigurationException when one of the files cannot be read or they do not belong together
     */
    public static Tls of(Path certificates, Path key) {
        readable("--ssl-certfile", certificates);
        readable("--ssl-keyfile", key);
        try {
            return new Tls(SslContextBuilder.forServer(certificates.toFile(), key.toFile())
                    .sslProvider(SslProvider.JDK)
                    .protocols("TLSv1.3", "TLSv1.2")
                    .build());
        } catch (IllegalArgumentException | IOException e) {
            throw new ConfigurationException("--ssl-certfile " + certificates + " and --ssl-keyfile " + key
                    + " are no certificate and its key: " + reason(e)
                    + "; give an X.509 certificate chain and its PKCS #8 key without a password, both in PEM format");
        }
    }

    private static void readable(String option, Path file) {
        if (!Files.isReadable(file) || Files.isDirectory(file)) {
            throw new ConfigurationException(option + " " + file + " is no file that can be read; name a PEM file");
        }
    }

    /** Netty wraps the parser's reason. */
    private static String reason(Exception e) {
        Throwable cause = e.getCause() == null ? e : e.getCause();
        return Printable.oneLine(String.valueOf(cause.getMessage()));
    }

    /** Encrypts a new connection; called before any other handler is added. */
    void encrypt(ChannelPipeline pipeline) {
        pipeline.addLast(context.newHandler(pipeline.channel().alloc()));
    }
}
