package dev.tandem.fetch;

import java.util.Arrays;
import java.util.Locale;

/**
 * Which wheels are for a machine, by the platform tags that end a wheel's name (PEP 425, PEP 600). An index lists a
 * version's wheels for all platforms in any order.
 *
 * @param system as {@code os.name} has it
 * @param processor as {@code os.arch} has it
 */
record WheelPlatform(String system, String processor) {
    static WheelPlatform here() {
        return new WheelPlatform(System.getProperty("os.name"), System.getProperty("os.arch"));
    }

    /**
     * Wheels of nothing but data or Python are for everyone; those with libraries are taken for glibc's Linux alone.
     */
    boolean takes(String wheel) {
        String name = wheel.substring(0, wheel.length() - ".whl".length());
        String tags = name.substring(name.lastIndexOf('-') + 1);
        return Arrays.stream(tags.split("\\.")).anyMatch(this::takesTag);
    }

    private boolean takesTag(String tag) {
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
