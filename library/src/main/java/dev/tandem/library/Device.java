package dev.tandem.library;

import java.util.Locale;

/** Where the model runs. */
public enum Device {
    /** The first NVIDIA GPU that can be used, else the CPU. */
    AUTO,
    /** The CPU. */
    CPU,
    /** The first NVIDIA GPU. */
    CUDA;

    /** The device as the command line spells it. */
    String flag() {
        return name().toLowerCase(Locale.ROOT);
    }
}
