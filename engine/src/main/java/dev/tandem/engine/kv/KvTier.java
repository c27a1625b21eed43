package dev.tandem.engine.kv;

/** A tier that holds KV blocks. On the CPU executor both are host memory, so that every placement can be tested. */
public enum KvTier {
    GPU,
    HOST
}
