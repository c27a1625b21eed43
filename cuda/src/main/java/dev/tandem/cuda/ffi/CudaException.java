package dev.tandem.cuda.ffi;

/** A CUDA library refused or failed; the message carries the function, the code's name and what to do. */
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
