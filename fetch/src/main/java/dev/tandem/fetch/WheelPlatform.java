package dev.tandem.fetch;

import java.util.Arrays;
import java.util.Locale;

/**
 * Decides which wheels a machine supports, by the platform tags at the end of a wheel's name (PEP 425, PEP 600). An
 * index lists the wheels of all platforms in any order.
 *
 * @param system value of {@code os.name}
 * @param processor value of {@code os.arch}
 */
record WheelPlatform(String system, String processor) {
    static WheelPlatform here() {
        return new WheelPlatform(System.getProperty("os.name"), System.getProperty("os.arch"));
    }

    /**
     * Whether the machine can use the wheel. All machines can use wheels with only data or Python; wheels with
     * libraries are supported on Linux with glibc only.
     */
    boolean supports(String wheel) {
        String name = wheel.substring(0, wheel.length() - ".whl".length());
        String tags = name.substring(name.lastIndexOf('-') + 1);
        return Arrays.stream(tags.split("\\.")).anyMatch(this::supportsTag);
    }

    private boolean supportsTag(String tag) {
        boolean glibc = tag.startsWith("manylinux") || tag.startsWith("linux_");
        return tag.equals("any") || system.equals("Linux") && glibc && tag.endsWith("_" + machine());
    }

    private String machine() {
        return processor.equals("amd64") ? "x86_64" : processor;
    }

    @Override
    public String toString() {
        return system.toLowerCase(Locale.ROOT) + " on " + machine();
    }
}
