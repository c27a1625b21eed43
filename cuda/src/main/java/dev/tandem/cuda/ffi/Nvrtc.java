package dev.tandem.cuda.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;

import java.lang.foreign.SymbolLookup;

/** libnvrtc under its C names (nvrtc.h of CUDA 13.0). */
public final class Nvrtc {
    /** {@code NVRTC_ERROR_COMPILATION}. */
    public static final int COMPILATION_FAILED = 6;

    public final NativeFunction nvrtcVersion;
    public final NativeFunction nvrtcCreateProgram;
    public final NativeFunction nvrtcCompileProgram;
    public final NativeFunction nvrtcDestroyProgram;
    public final NativeFunction nvrtcGetCUBINSize;
    public final NativeFunction nvrtcGetCUBIN;
    public final NativeFunction nvrtcGetProgramLogSize;
    public final NativeFunction nvrtcGetProgramLog;

    public Nvrtc(SymbolLookup library) {
        NativeFunction.Namer namer = code -> code == COMPILATION_FAILED ? "the source does not compile" : "status";
        nvrtcVersion = new NativeFunction(library, namer, "nvrtcVersion", ADDRESS, ADDRESS);
        nvrtcCreateProgram = new NativeFunction(
                library, namer, "nvrtcCreateProgram", ADDRESS, ADDRESS, ADDRESS, JAVA_INT, ADDRESS, ADDRESS);
        nvrtcCompileProgram = new NativeFunction(library, namer, "nvrtcCompileProgram", ADDRESS, JAVA_INT, ADDRESS);
        nvrtcDestroyProgram = new NativeFunction(library, namer, "nvrtcDestroyProgram", ADDRESS);
        nvrtcGetCUBINSize = new NativeFunction(library, namer, "nvrtcGetCUBINSize", ADDRESS, ADDRESS);
        nvrtcGetCUBIN = new NativeFunction(library, namer, "nvrtcGetCUBIN", ADDRESS, ADDRESS);
        nvrtcGetProgramLogSize = new NativeFunction(library, namer, "nvrtcGetProgramLogSize", ADDRESS, ADDRESS);
        nvrtcGetProgramLog = new NativeFunction(library, namer, "nvrtcGetProgramLog", ADDRESS, ADDRESS);
    }
}
