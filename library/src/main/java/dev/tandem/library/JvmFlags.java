package dev.tandem.library;

import dev.tandem.engine.config.ConfigurationException;
import java.util.ArrayList;
import java.util.List;

/** Checks that the JVM was started with the flags that Tandem needs. */
final class JvmFlags {
    private JvmFlags() {}

    /** @throws ConfigurationException that names the missing flags */
    static void check() {
        check(
                ModuleLayer.boot().findModule("jdk.incubator.vector").isPresent(),
                JvmFlags.class.getModule().isNativeAccessEnabled());
    }

    static void check(boolean vectors, boolean nativeAccess) {
        List<String> missing = new ArrayList<>();
        if (!vectors) {
            missing.add("--add-modules jdk.incubator.vector");
        }
        if (!nativeAccess) {
            missing.add("--enable-native-access=ALL-UNNAMED");
        }
        if (!missing.isEmpty()) {
            throw new ConfigurationException(
                    "Tandem computes with vectors and calls native code; start Java with " + String.join(" ", missing));
        }
    }
}
