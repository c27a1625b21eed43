package dev.tandem.cuda.gemm;

import java.util.Optional;

/** Where {@link CublasLtGemm} keeps the algorithms that it has measured, by name. */
public interface AlgorithmStore {
    /** The algorithm kept under a name; empty when there is none. */
    Optional<String> find(String name);

    /**
     * Keeps an algorithm.
     *
     * @param name without spaces
     * @param value in one line
     */
    void put(String name, String value);
}
