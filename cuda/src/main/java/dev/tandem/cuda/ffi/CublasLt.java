package dev.tandem.cuda.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.SymbolLookup;

/** libcublasLt under its C names (cublasLt.h of CUDA 13.0). */
public final class CublasLt {
    /** library_types.h. */
    public static final int CUDA_R_32F = 0;

    public static final int CUDA_R_16F = 2;
    public static final int CUDA_R_16BF = 14;
    /** cublas_api.h. */
    public static final int CUBLAS_COMPUTE_32F = 68;

    public static final int CUBLAS_OP_T = 1;
    public static final int CUBLASLT_MATMUL_DESC_TRANSA = 3;
    public static final int CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET = 15;
    public static final int CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES = 1;
    /**
     * {@code cublasLtMatmulHeuristicResult_t}: algorithm (64), workspace size (8), state (4), waves (4), reserved (16).
     */
    public static final int HEURISTIC_RESULT_BYTES = 96;

    public static final int ALGORITHM_BYTES = 64;
    public static final int HEURISTIC_WORKSPACE_OFFSET = 64;
    public static final int HEURISTIC_STATE_OFFSET = 72;

    public final NativeFunction cublasLtCreate;
    public final NativeFunction cublasLtDestroy;
    public final NativeFunction cublasLtMatmul;
    public final NativeFunction cublasLtMatmulDescCreate;
    public final NativeFunction cublasLtMatmulDescSetAttribute;
    public final NativeFunction cublasLtMatmulDescDestroy;
    public final NativeFunction cublasLtMatrixLayoutCreate;
    public final NativeFunction cublasLtMatrixLayoutDestroy;
    public final NativeFunction cublasLtMatmulPreferenceCreate;
    public final NativeFunction cublasLtMatmulPreferenceSetAttribute;
    public final NativeFunction cublasLtMatmulPreferenceDestroy;
    public final NativeFunction cublasLtMatmulAlgoGetHeuristic;
    public final NativeFunction cublasLtMatmulAlgoCheck;
    private final NativeFunction cublasLtGetVersion;

    public CublasLt(SymbolLookup library) {
        NativeFunction.Namer namer = code -> "status";
        cublasLtCreate = new NativeFunction(library, namer, "cublasLtCreate", ADDRESS);
        cublasLtDestroy = new NativeFunction(library, namer, "cublasLtDestroy", ADDRESS);
        cublasLtMatmul = new NativeFunction(
                library,
                namer,
                "cublasLtMatmul",
                ADDRESS,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                JAVA_LONG,
                ADDRESS,
                ADDRESS,
                JAVA_LONG,
                JAVA_LONG,
                ADDRESS);
        cublasLtMatmulDescCreate =
                new NativeFunction(library, namer, "cublasLtMatmulDescCreate", ADDRESS, JAVA_INT, JAVA_INT);
        cublasLtMatmulDescSetAttribute = new NativeFunction(
                library, namer, "cublasLtMatmulDescSetAttribute", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
        cublasLtMatmulDescDestroy = new NativeFunction(library, namer, "cublasLtMatmulDescDestroy", ADDRESS);
        cublasLtMatrixLayoutCreate = new NativeFunction(
                library, namer, "cublasLtMatrixLayoutCreate", ADDRESS, JAVA_INT, JAVA_LONG, JAVA_LONG, JAVA_LONG);
        cublasLtMatrixLayoutDestroy = new NativeFunction(library, namer, "cublasLtMatrixLayoutDestroy", ADDRESS);
        cublasLtMatmulPreferenceCreate = new NativeFunction(library, namer, "cublasLtMatmulPreferenceCreate", ADDRESS);
        cublasLtMatmulPreferenceSetAttribute = new NativeFunction(
                library, namer, "cublasLtMatmulPreferenceSetAttribute", ADDRESS, JAVA_INT, ADDRESS, JAVA_LONG);
        cublasLtMatmulPreferenceDestroy =
                new NativeFunction(library, namer, "cublasLtMatmulPreferenceDestroy", ADDRESS);
        cublasLtMatmulAlgoGetHeuristic = new NativeFunction(
                library,
                namer,
                "cublasLtMatmulAlgoGetHeuristic",
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                JAVA_INT,
                ADDRESS,
                ADDRESS);
        cublasLtMatmulAlgoCheck = new NativeFunction(
                library,
                namer,
                "cublasLtMatmulAlgoCheck",
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS);
        cublasLtGetVersion = new NativeFunction(library, namer, "cublasLtGetVersion");
    }

    /**
     * The library's version; 130000 is 13.0.0. The library returns a {@code size_t}, of which this is the lower half.
     */
    public int version() {
        return cublasLtGetVersion.code();
    }
}
