package dev.tandem.cuda.ffi;

/** A failure of a CUDA library. The message names the function, the code and the remedy. */
public final class CudaException extends RuntimeException {
    /** {@code CUDA_ERROR_OUT_OF_MEMORY}, cuda.h. */
    public static final int OUT_OF_MEMORY = 2;

    private final int code;

    public CudaException(String message) {
        this(message, 0);
    }

    public CudaException(String message, int code) {
        super(message);
        this.code = code;
    }

    public CudaException(String message, Throwable cause) {
        super(message, cause);
        this.code = cause instanceof CudaException inner ? inner.code : 0;
    }

    /** The library's status code; 0 when the failure is not the library's. */
    public int code() {
        return code;
    }
}
