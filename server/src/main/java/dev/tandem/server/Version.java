package dev.tandem.server;

import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.Properties;

/** Tandem's version, which the build writes into {@code version.properties}. */
public final class Version {
    private Version() {}

    /** The version, for example {@code 0.1.0}. */
    public static String text() {
        Properties properties = new Properties();
        try (InputStream resource = Version.class.getResourceAsStream("version.properties")) {
            if (resource == null) {
                throw new IllegalStateException("version.properties is missing beside " + Version.class.getName());
            }
            properties.load(resource);
        } catch (IOException e) {
            throw new UncheckedIOException(e);
        }
        return properties.getProperty("version", "");
    }
}
