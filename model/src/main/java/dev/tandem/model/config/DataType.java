package dev.tandem.model.config;

import dev.tandem.model.ModelException;

/** The type of weights and KV cache in memory; arithmetic always accumulates in fp32. */
public enum DataType {
    FLOAT32("float32", 4),
    BFLOAT16("bfloat16", 2),
    FLOAT16("float16", 2);

    private final String flag;
    private final int bytes;

    DataType(String flag, int bytes) {
        this.flag = flag;
        this.bytes = bytes;
    }

    /** The name on the command line and in model files. */
    public String flag() {
        return flag;
    }

    public int bytes() {
        return bytes;
    }

    public static DataType of(String flag) {
        for (DataType type : values()) {
            if (type.flag.equals(flag)) {
                return type;
            }
        }
        throw new ModelException("data type '" + flag + "' is unknown; use auto, bfloat16, float16 or float32");
    }
}
