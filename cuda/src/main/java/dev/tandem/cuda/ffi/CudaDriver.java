package dev.tandem.cuda.ffi;

import static java.lang.foreign.ValueLayout.ADDRESS;
import static java.lang.foreign.ValueLayout.JAVA_INT;
import static java.lang.foreign.ValueLayout.JAVA_LONG;

import java.lang.foreign.Arena;
import java.lang.foreign.MemoryLayout;
import java.lang.foreign.MemorySegment;
import java.lang.foreign.SymbolLookup;

/** libcuda under its C names (cuda.h of CUDA 13.0). Handles are addresses, device pointers are longs. */
public final class CudaDriver {
    private final SymbolLookup library;

    public final NativeFunction cuInit;
    public final NativeFunction cuDriverGetVersion;
    public final NativeFunction cuDeviceGetCount;
    public final NativeFunction cuDeviceGet;
    public final NativeFunction cuDeviceGetName;
    public final NativeFunction cuDeviceGetAttribute;
    public final NativeFunction cuDeviceTotalMem;
    public final NativeFunction cuDevicePrimaryCtxRetain;
    public final NativeFunction cuDevicePrimaryCtxRelease;
    public final NativeFunction cuCtxSetCurrent;
    public final NativeFunction cuMemGetInfo;
    public final NativeFunction cuMemAlloc;
    public final NativeFunction cuMemFree;
    public final NativeFunction cuMemHostAlloc;
    public final NativeFunction cuMemFreeHost;
    public final NativeFunction cuMemHostRegister;
    public final NativeFunction cuMemHostUnregister;
    public final NativeFunction cuMemcpyHtoDAsync;
    public final NativeFunction cuMemcpyDtoHAsync;
    public final NativeFunction cuMemcpy2DAsync;
    public final NativeFunction cuMemsetD32Async;
    public final NativeFunction cuStreamCreateWithPriority;
    public final NativeFunction cuStreamDestroy;
    public final NativeFunction cuStreamQuery;
    public final NativeFunction cuStreamWaitEvent;
    public final NativeFunction cuStreamBeginCapture;
    public final NativeFunction cuStreamEndCapture;
    public final NativeFunction cuGraphInstantiateWithFlags;
    public final NativeFunction cuGraphLaunch;
    public final NativeFunction cuGraphExecDestroy;
    public final NativeFunction cuGraphDestroy;
    public final NativeFunction cuEventCreate;
    public final NativeFunction cuEventRecord;
    public final NativeFunction cuEventQuery;
    public final NativeFunction cuEventSynchronize;
    public final NativeFunction cuEventElapsedTime;
    public final NativeFunction cuEventDestroy;
    public final NativeFunction cuModuleLoadData;
    public final NativeFunction cuModuleUnload;
    public final NativeFunction cuModuleGetFunction;
    public final NativeFunction cuFuncLoad;
    public final NativeFunction cuFuncGetParamInfo;
    public final NativeFunction cuFuncGetAttribute;
    public final NativeFunction cuFuncSetAttribute;
    public final NativeFunction cuLaunchKernel;
    public final NativeFunction cuOccupancyMaxActiveBlocksPerMultiprocessor;
    public final NativeFunction cuLaunchKernelEx;
    public final NativeFunction cuTensorMapEncodeTiled;
    public final NativeFunction cuDeviceGetDevResource;
    public final NativeFunction cuDevSmResourceSplitByCount;
    public final NativeFunction cuDevResourceGenerateDesc;
    public final NativeFunction cuGreenCtxCreate;
    public final NativeFunction cuGreenCtxDestroy;
    public final NativeFunction cuCtxFromGreenCtx;
    public final NativeFunction cuGreenCtxStreamCreate;
    private final NativeFunction cuGetErrorName;

    public CudaDriver(SymbolLookup library) {
        this.library = library;
        cuGetErrorName = new NativeFunction(library, Integer::toString, "cuGetErrorName", JAVA_INT, ADDRESS);
        cuInit = function("cuInit", JAVA_INT);
        cuDriverGetVersion = function("cuDriverGetVersion", ADDRESS);
        cuDeviceGetCount = function("cuDeviceGetCount", ADDRESS);
        cuDeviceGet = function("cuDeviceGet", ADDRESS, JAVA_INT);
        cuDeviceGetName = function("cuDeviceGetName", ADDRESS, JAVA_INT, JAVA_INT);
        cuDeviceGetAttribute = function("cuDeviceGetAttribute", ADDRESS, JAVA_INT, JAVA_INT);
        cuDeviceTotalMem = function("cuDeviceTotalMem_v2", ADDRESS, JAVA_INT);
        cuDevicePrimaryCtxRetain = function("cuDevicePrimaryCtxRetain", ADDRESS, JAVA_INT);
        cuDevicePrimaryCtxRelease = function("cuDevicePrimaryCtxRelease_v2", JAVA_INT);
        cuCtxSetCurrent = function("cuCtxSetCurrent", ADDRESS);
        cuMemGetInfo = function("cuMemGetInfo_v2", ADDRESS, ADDRESS);
        cuMemAlloc = function("cuMemAlloc_v2", ADDRESS, JAVA_LONG);
        cuMemFree = function("cuMemFree_v2", JAVA_LONG);
        cuMemHostAlloc = function("cuMemHostAlloc", ADDRESS, JAVA_LONG, JAVA_INT);
        cuMemFreeHost = function("cuMemFreeHost", ADDRESS);
        cuMemHostRegister = function("cuMemHostRegister_v2", ADDRESS, JAVA_LONG, JAVA_INT);
        cuMemHostUnregister = function("cuMemHostUnregister", ADDRESS);
        cuMemcpyHtoDAsync = function("cuMemcpyHtoDAsync_v2", JAVA_LONG, ADDRESS, JAVA_LONG, ADDRESS);
        cuMemcpyDtoHAsync = function("cuMemcpyDtoHAsync_v2", ADDRESS, JAVA_LONG, JAVA_LONG, ADDRESS);
        cuMemcpy2DAsync = function("cuMemcpy2DAsync_v2", ADDRESS, ADDRESS);
        cuMemsetD32Async = function("cuMemsetD32Async", JAVA_LONG, JAVA_INT, JAVA_LONG, ADDRESS);
        cuStreamCreateWithPriority = function("cuStreamCreateWithPriority", ADDRESS, JAVA_INT, JAVA_INT);
        cuStreamDestroy = function("cuStreamDestroy_v2", ADDRESS);
        cuStreamQuery = function("cuStreamQuery", ADDRESS);
        cuStreamWaitEvent = function("cuStreamWaitEvent", ADDRESS, ADDRESS, JAVA_INT);
        cuStreamBeginCapture = function("cuStreamBeginCapture_v2", ADDRESS, JAVA_INT);
        cuStreamEndCapture = function("cuStreamEndCapture", ADDRESS, ADDRESS);
        cuGraphInstantiateWithFlags = function("cuGraphInstantiateWithFlags", ADDRESS, ADDRESS, JAVA_LONG);
        cuGraphLaunch = function("cuGraphLaunch", ADDRESS, ADDRESS);
        cuGraphExecDestroy = function("cuGraphExecDestroy", ADDRESS);
        cuGraphDestroy = function("cuGraphDestroy", ADDRESS);
        cuEventCreate = function("cuEventCreate", ADDRESS, JAVA_INT);
        cuEventRecord = function("cuEventRecord", ADDRESS, ADDRESS);
        cuEventQuery = function("cuEventQuery", ADDRESS);
        cuEventSynchronize = function("cuEventSynchronize", ADDRESS);
        cuEventElapsedTime = function("cuEventElapsedTime", ADDRESS, ADDRESS, ADDRESS);
        cuEventDestroy = function("cuEventDestroy_v2", ADDRESS);
        cuModuleLoadData = function("cuModuleLoadData", ADDRESS, ADDRESS);
        cuModuleUnload = function("cuModuleUnload", ADDRESS);
        cuModuleGetFunction = function("cuModuleGetFunction", ADDRESS, ADDRESS, ADDRESS);
        cuFuncLoad = function("cuFuncLoad", ADDRESS);
        cuFuncGetParamInfo = function("cuFuncGetParamInfo", ADDRESS, JAVA_LONG, ADDRESS, ADDRESS);
        cuFuncGetAttribute = function("cuFuncGetAttribute", ADDRESS, JAVA_INT, ADDRESS);
        cuFuncSetAttribute = function("cuFuncSetAttribute", ADDRESS, JAVA_INT, JAVA_INT);
        cuLaunchKernel = function(
                "cuLaunchKernel",
                ADDRESS,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                ADDRESS,
                ADDRESS,
                ADDRESS);
        cuOccupancyMaxActiveBlocksPerMultiprocessor =
                function("cuOccupancyMaxActiveBlocksPerMultiprocessor", ADDRESS, ADDRESS, JAVA_INT, JAVA_LONG);
        cuLaunchKernelEx = function("cuLaunchKernelEx", ADDRESS, ADDRESS, ADDRESS, ADDRESS);
        cuTensorMapEncodeTiled = function(
                "cuTensorMapEncodeTiled",
                ADDRESS,
                JAVA_INT,
                JAVA_INT,
                JAVA_LONG,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                ADDRESS,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT,
                JAVA_INT);
        cuDeviceGetDevResource = function("cuDeviceGetDevResource", JAVA_INT, ADDRESS, JAVA_INT);
        cuDevSmResourceSplitByCount =
                function("cuDevSmResourceSplitByCount", ADDRESS, ADDRESS, ADDRESS, ADDRESS, JAVA_INT, JAVA_INT);
        cuDevResourceGenerateDesc = function("cuDevResourceGenerateDesc", ADDRESS, ADDRESS, JAVA_INT);
        cuGreenCtxCreate = function("cuGreenCtxCreate", ADDRESS, ADDRESS, JAVA_INT, JAVA_INT);
        cuGreenCtxDestroy = function("cuGreenCtxDestroy", ADDRESS);
        cuCtxFromGreenCtx = function("cuCtxFromGreenCtx", ADDRESS, ADDRESS);
        cuGreenCtxStreamCreate = function("cuGreenCtxStreamCreate", ADDRESS, ADDRESS, JAVA_INT, JAVA_INT);
    }

    private NativeFunction function(String name, MemoryLayout... arguments) {
        return new NativeFunction(library, this::errorName, name, arguments);
    }

    private String errorName(int code) {
        try (Arena arena = Arena.ofConfined()) {
            MemorySegment name = arena.allocate(ADDRESS);
            return cuGetErrorName.code(code, name) == 0
                    ? name.get(ADDRESS, 0).reinterpret(256).getString(0)
                    : "unknown error";
        }
    }
}
