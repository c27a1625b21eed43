// Joined in front of every kernel source. Defines given by ModelShape.java:
//   BF16        1: bfloat16 storage, 0: float16
//   LAYERS      of the model
//   HIDDEN      width of the residual stream, a multiple of 32; HIDDEN_REAL of it are the model's
//   HEADS, KV_HEADS, GROUP = HEADS / KV_HEADS
//   HEAD_DIM    the model's head size; HEAD_WIDTH: as stored, a multiple of 32, the rest is zero
//   INTERMEDIATE, VOCABULARY (rows of the output head; VOCABULARY_REAL of them are tokens)
// Constants that launches share with the kernels are defines too; KernelConstants.java explains each.
// All matrices are row-major. A KV block holds BLOCK_TOKENS tokens of every layer, in LAYERS layer blocks:
//   [LAYERS] [KV_HEADS] { K [tokens][HEAD_WIDTH], V [token pairs][HEAD_WIDTH][2] }
// Kernels of one layer receive the address of that layer's part of block 0.
// V of tokens that are not written yet is zero: attention multiplies it by a weight of zero, and 0 * NaN is NaN. Each
// kernel that writes a block clears it: rope_store and move_in. K of such tokens may be anything: their scores are
// replaced, not multiplied.
#define QKV_WIDTH ((HEADS + 2 * KV_HEADS) * HEAD_WIDTH)
#define KV_TILE (BLOCK_TOKENS * HEAD_WIDTH)
#define LAYER_BLOCK (2 * KV_HEADS * KV_TILE) // values
#define EIGHT_HEADS ((GROUP + 7) / 8)
#define INFINITE __int_as_float(0x7f800000)

typedef unsigned short half16;
typedef unsigned int word;
typedef unsigned long long wide;

// For stress tests, with -DSTRESS_DELAY=seed: around each flag that another block, another kernel or the CPU waits for,
// one warp in four sleeps for up to 32 microseconds. Without the define it is nothing.
#ifdef STRESS_DELAY
__device__ __forceinline__ void stressDelay() {
    wide x = (wide)clock64() ^ (wide)STRESS_DELAY << 32;
    x += blockIdx.x * 0x9e3779b97f4a7c15ull + threadIdx.x / 32 * 0x94d049bb133111ebull;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x ^= x >> 31;
    if ((x & 3) == 0) __nanosleep((word)(x >> 40) & 0x7fff);
}
#else
#define stressDelay()
#endif

#if BF16
__device__ __forceinline__ float widen(half16 v) { return __uint_as_float((word)v << 16); }
__device__ __forceinline__ word pack(float low, float high) {
    word r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
#else
__device__ __forceinline__ float widen(half16 v) {
    float r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v));
    return r;
}
__device__ __forceinline__ word pack(float low, float high) {
    half16 l, h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(l) : "f"(low));
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(high));
    return (word)l | (word)h << 16;
}
#endif
__device__ __forceinline__ half16 narrow(float v) { return (half16)(pack(v, 0.f) & 0xffff); }
__device__ __forceinline__ float low(word v) { return widen((half16)(v & 0xffff)); }
__device__ __forceinline__ float high(word v) { return widen((half16)(v >> 16)); }

// c[16 x 8] += a[16 x 16] b[16 x 8]: a0 (row g, k 2q), a1 (row g+8, k 2q), a2 (row g, k 2q+8), a3 (row g+8, k 2q+8);
// b0 (k 2q, column g), b1 (k 2q+8); c0, c1 (row g, columns 2q, 2q+1), c2, c3 (row g+8); g = lane / 4, q = lane % 4
__device__ __forceinline__ void multiply(float *c, word a0, word a1, word a2, word a3, word b0, word b1) {
#if BF16
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#elif __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
#else
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a0), "r"(a1), "r"(b0));
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5},{%6},{%0,%1,%2,%3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a2), "r"(a3), "r"(b1));
#endif
}

// the transpose of an 8 x 8 matrix of 16-bit values spread over the warp: row g, columns 2q and 2q+1 a lane
__device__ __forceinline__ word transpose(word v) {
    word r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

// 16 bytes that are read once: past the first-level cache
__device__ __forceinline__ uint4 stream(const void *p) {
    uint4 r;
#if __CUDA_ARCH__ >= 800
    asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z),
            "=r"(r.w) : "l"(p));
#else
    asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(r.x), "=r"(r.y), "=r"(r.z), "=r"(r.w) : "l"(p));
#endif
    return r;
}

__device__ __forceinline__ void copy16(void *shared, const void *global) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"((word)__cvta_generic_to_shared(shared)),
            "l"(global));
#else
    *(uint4 *)shared = *(const uint4 *)global;
#endif
}
__device__ __forceinline__ void copyCommit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;");
#endif
}
template <int PENDING> __device__ __forceinline__ void copyWait() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING));
#endif
}

// Programmatic dependent launch: everything before the wait may run while the kernel before still does
__device__ __forceinline__ void dependencyWait() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    stressDelay();
}
__device__ __forceinline__ void dependentsLaunch() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    stressDelay();
}

// Zeroes what pads the heads of `rows` rows of attended [rows][HEADS][HEAD_WIDTH], for kernels that write HEAD_DIM
// values of each head. A row of NaN that was there before leaves NaN in the padding, and the output projection
// multiplies it by zero weights.
__device__ __forceinline__ void clearPadding(half16 *attended, int rows, int thread, int threads) {
    const int PIECES = (HEAD_WIDTH - HEAD_DIM) / 8;
    for (int i = thread; PIECES > 0 && i < rows * HEADS * PIECES; i += threads)
        *(uint4 *)(attended + (size_t)(i / max(PIECES, 1)) * HEAD_WIDTH + HEAD_DIM + i % max(PIECES, 1) * 8)
            = make_uint4(0, 0, 0, 0);
}

__device__ __forceinline__ float exp2Fast(float v) {
    float r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
    return r;
}

// silu(gate) * up. The fast division errs by two units in the last place of fp32; results are rounded to 16 bits.
__device__ __forceinline__ float swigluOf(float gate, float up) {
    return __fdividef(gate, 1 + __expf(-gate)) * up;
}

__device__ __forceinline__ float warpSum(float v) {
    for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
    return v;
}

__device__ __forceinline__ wide mixed(wide x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// the sum over the block, in every thread; in one order
__device__ __forceinline__ float blockSum(float v) {
    __shared__ float sums[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    v = warpSum(v);
    if (lane == 0) sums[warp] = v;
    __syncthreads();
    v = warpSum(lane < warps ? sums[lane] : 0.f);
    __syncthreads();
    return v;
}

// Host KV blocks: HOST_TOKENS tokens of every KV head of one layer,
//   [KV_HEADS] { K [KEY_ROWS pairs of dims][tokens][2], V [pairs of tokens][HEAD_DIM][2] }
#define KEY_ROWS ((HEAD_DIM / 2 + 15) / 16 * 16)
#define HOST_KEY_WORDS (KEY_ROWS * HOST_TOKENS)
#define HOST_HEAD_WORDS (HOST_KEY_WORDS + HOST_TOKENS / 2 * HEAD_DIM)

// Where a layer's part of a block lies. Numbers from poolBlocks on name layer blocks instead of blocks: these hold the KV
// of offloaded prefills in transit, and `stagingShift` makes the number relative to this layer.
__device__ __forceinline__ const half16 *layerBlock(const half16 *blocks, int id, int poolBlocks, int stagingShift) {
    return blocks + (id < poolBlocks ? (long)id * LAYERS : (long)(id + stagingShift)) * LAYER_BLOCK;
}

struct Draw { float temperature, topP, minP, uniform; int topK, row, logprobs, adjusted; };
// what is done to a token's logit first; a forbidden token's penalty is infinite
struct Adjustment { int token; float bias, repetition, penalty; };
// the host writes these structs, and BatchHostTokens and HostTokens below, in the same layout
static_assert(sizeof(Draw) == 32 && sizeof(Adjustment) == 16, "StepBuffer.java writes these structs");

// In-flight tokens: decode rows whose attention the CPU computes. The last rows of a step, from `firstSlot` on, are
// slots: at each layer rows that are ready take them, run the post-projection and the next pre-projection, and leave
// again.
// A row keeps its residual and angles here. slotMaps[layer] says which host tokens hold the slots before layer's pre-
// projection.
// The step's own kernels touch GPU memory alone; `transfer` carries rows over the link beside them (host_transfer.cu).
struct HostTokens {
    float *residual;          // [host tokens][HIDDEN]
    float2 *angles;           // [host tokens][HEAD_DIM / 2]
    Draw *draws;              // [host tokens]
    int *slotMaps;            // [layers + 1][MAX_SLOTS] host token or -1
    half16 *outgoing;         // [host tokens][HEADS + 2 KV_HEADS][HEAD_DIM] q, k and v on their way to the host
    half16 *incoming;         // [host tokens][HEADS][HEAD_DIM] attention that has come from it
    wide *sendQueue;         // ring of (number + 1) << 24 | layer << 16 | host token
    wide *returnQueues;           // [layers] rings of (number + 1) << 16 | host token
    wide *returned;            // [layers] returns that slots have taken
    wide *arrived;            // [layers] returns so far
    // sendQueue so far; then those sent, results received, and whether the step nears its end
    wide *sendCounters;
    // pinned host memory
    volatile wide *tasks;     // ring of (number + 1) << 24 | layer << 16 | host token
    volatile wide *ready;     // likewise
    half16 *sent;             // [host tokens][HEADS + 2 KV_HEADS][HEAD_DIM]
    const half16 *results;    // [host tokens][HEADS][HEAD_DIM]
    int ringMask;             // of all rings
    wide *stamps;             // [layers + 1] when each layer's attention began, and when the step reported
    // pinned host memory, of rows that pass all layers in their step: `rope_store` or `send_host_tokens` asks for their
    // attention, `receive_host_tokens` waits for it
    volatile wide *asked;     // ring of (number + 1) << 24 | layer << 16 | host token
    volatile wide *answered;  // [host tokens] number + 1 of the last answer
    // not 0: no answers come any more; who says so: 1 the host or `receive_host_tokens`, 2 the transfer kernel
    volatile int *givenUp;
    // [2 sub-batches][layers][2] when `receive_host_tokens` began to wait, and when all was there
    wide *waits;
    wide timeout;            // nanoseconds that `receive_host_tokens` waits for a row
    int *sentWarps;           // [host tokens] warps of `rope_store` that have sent their part of a row
    wide transferTimeout;     // nanoseconds that `transfer` stays for its step to end
};
static_assert(sizeof(HostTokens) == 192, "HostLinkMemory.java writes this struct");

// Host tokens of a sub-batch, as its header says: `count` rows from `first` on. Their tasks of a layer are numbered
// from base + layer * all + offset on, where `all` are those of the step's sub-batches together.
struct BatchHostTokens { int first, count, all, offset; wide base; };
static_assert(sizeof(BatchHostTokens) == 24, "StepBuffer.java writes this struct");
__device__ __forceinline__ const BatchHostTokens *batchHostTokens(const int *header) {
    return (const BatchHostTokens *)(header + 8);
}
__device__ __forceinline__ void ask(const HostTokens *hostTokens, const BatchHostTokens *rows, int i, int hostToken,
        int layer) {
    wide number = rows->base + (wide)layer * rows->all + rows->offset + i;
    hostTokens->asked[number & hostTokens->ringMask] = (number + 1) << 24 | (wide)layer << 16 | hostToken;
}
// the host token of a row's slot, or -1
__device__ __forceinline__ int hostTokenIndex(int slot) { return slot < -1 ? -2 - slot : -1; }

__device__ __forceinline__ wide nanos() {
    wide t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

__device__ __forceinline__ int slotted(const HostTokens *hostTokens, int layer, int slot) {
    return hostTokens->slotMaps[layer * MAX_SLOTS + slot];
}

// Orders the read of a flag before the reads of the data that it announces, where the CPU or another kernel has written
// both. The thread that read the flag calls it before the barrier that lets other threads read the data.
__device__ __forceinline__ void acquireSystem() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void acquireDevice() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// The link between GPU and host for in-flight tokens: sends what has left with a task each, and brings results that are
// ready. No kernel waits for it.
//   flag          written by                                  read by                 between flag and data
//   ready         a worker: results, then setRelease          carryRows               acquireSystem, then the barrier
//   tasks         sendRow: sent, then __threadfence_system    a worker                getAcquire
//   sendQueue     exchange: after rope_store wrote outgoing   carryRows               acquireSystem, then the barrier
//   returnQueues  bringRow: incoming, then __threadfence      chooseReturningTokens   acquireDevice, the kernel's end
//   answered      a worker: results, then setRelease          receive_host_tokens     ld.acquire.sys, then the barrier
#define AHEAD 8

__device__ __forceinline__ void sendRow(HostTokens *hostTokens, wide number, wide entry) {
    const int EIGHTS = (HEADS + 2 * KV_HEADS) * HEAD_DIM / 8;
    int lane = threadIdx.x % 32;
    const uint4 *from = (const uint4 *)(hostTokens->outgoing + (size_t)(entry & 0xffff) * EIGHTS * 8);
    uint4 *to = (uint4 *)(hostTokens->sent + (size_t)(entry & 0xffff) * EIGHTS * 8);
#pragma unroll 4
    for (int i = lane; i < EIGHTS; i += 32) to[i] = __ldcg(from + i);
    stressDelay();
    __threadfence_system();
    __syncwarp();
    if (lane == 0) hostTokens->tasks[number & hostTokens->ringMask] = (number + 1) << 24 | entry;
}

__device__ __forceinline__ void bringRow(HostTokens *hostTokens, int layer, int hostToken) {
    const int EIGHTS = HEADS * HEAD_DIM / 8;
    int lane = threadIdx.x % 32;
    const uint4 *from = (const uint4 *)(hostTokens->results + (size_t)hostToken * EIGHTS * 8);
    uint4 *to = (uint4 *)(hostTokens->incoming + (size_t)hostToken * EIGHTS * 8);
#pragma unroll 1
    for (int first = 0; first < EIGHTS; first += AHEAD * 32) {
        uint4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = first + i * 32 + lane;
            if (at < EIGHTS)
                asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y),
                        "=r"(v[i].z), "=r"(v[i].w) : "l"(from + at));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = first + i * 32 + lane;
            if (at < EIGHTS) to[at] = v[i];
        }
    }
    stressDelay();
    __threadfence();
    __syncwarp();
    if (lane == 0) {
        wide number = atomicAdd(&hostTokens->arrived[layer], 1ull);
        *(volatile wide *)&hostTokens->returnQueues[(size_t)layer * (hostTokens->ringMask + 1)
                + (number & hostTokens->ringMask)] = (number + 1) << 16 | hostToken;
    }
}

// One look by a thread block of WARPS warps, in which at most 32 WARPS rows go either way; how many did.
template <int WARPS_HERE> __device__ __forceinline__ int carryRows(HostTokens *hostTokens, wide &sent, wide &received) {
    __shared__ int leaving, coming;
    __shared__ wide sendQueue[WARPS_HERE * 32], entries[WARPS_HERE * 32];
    int warp = threadIdx.x / 32;
    wide entry = hostTokens->ready[(received + threadIdx.x) & hostTokens->ringMask];
    // the attention of a layer may be adding more meanwhile
    wide sending = *(volatile wide *)&hostTokens->sendQueue[(sent + threadIdx.x) & hostTokens->ringMask];
    __syncthreads();
    if (threadIdx.x == 0) leaving = coming = WARPS_HERE * 32;
    __syncthreads();
    if (entry >> 24 != received + threadIdx.x + 1) atomicMin(&coming, (int)threadIdx.x);
    if (sending >> 24 != sent + threadIdx.x + 1) atomicMin(&leaving, (int)threadIdx.x);
    entries[threadIdx.x] = entry;
    sendQueue[threadIdx.x] = sending & 0xffffff;
    stressDelay();
    acquireSystem();
    __syncthreads();
    for (int i = warp; i < coming + leaving; i += WARPS_HERE) {
        if (i < coming) bringRow(hostTokens, (int)(entries[i] >> 16 & 0xff), (int)(entries[i] & 0xffff));
        else sendRow(hostTokens, sent + i - coming, sendQueue[i - coming]);
    }
    sent += leaving;
    received += coming;
    return leaving + coming;
}
