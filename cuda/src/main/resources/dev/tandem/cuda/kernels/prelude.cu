// Prepended to every kernel source. ModelShape.java passes these defines:
//   BF16        1: bfloat16 storage, 0: float16
//   LAYERS_PER_PAGE  layers whose KV a page has: those of a group (KvLayout.java)
//   HIDDEN      width of the residual stream, padded with zeros to a multiple of 32; HIDDEN_REAL: without padding
//   HEADS, KV_HEADS, GROUP = HEADS / KV_HEADS
//   HEAD_DIM    head size of the model; HEAD_WIDTH: padded with zeros to a multiple of 32
//   INTERMEDIATE, VOCABULARY (rows of the output head; VOCABULARY_REAL of them are tokens)
//   NORMS_ON_INPUTS, NORMS_ON_OUTPUTS   where attention and MLP have RMS norms
//   QK_NORM_ROWS     1: a norm of q and k is over all heads of a row, 0: over each head
//   ROTATIONS        ways in which layers rotate; ROTATION_FACTORS: whether some have factors of cosine and sine
//   GELU             1: the MLP's gates are GELU by tanh, 0: SiLU
//   EMBEDDING_SCALE  factor of the embeddings
// Constants that launches and kernels share are defines too: KernelConstants.java explains each.
// All matrices are row-major. A KV block is a page: it holds BLOCK_TOKENS tokens of every layer of a group, in
// LAYERS_PER_PAGE layer blocks:
//   [LAYERS_PER_PAGE] [KV_HEADS] { K [tokens][HEAD_WIDTH], V [token pairs][HEAD_WIDTH][2] }
// Kernels of one layer receive the address of that layer's part of block 0.
// V of tokens that are not written yet is zero, because attention multiplies it by a weight of zero, and 0 * NaN is
// NaN. The kernels that write blocks ensure this: rope_store and move_in. K of such tokens may be anything, because
// attention replaces their scores.
#define QKV_WIDTH ((HEADS + 2 * KV_HEADS) * HEAD_WIDTH)
#define KV_TILE (BLOCK_TOKENS * HEAD_WIDTH)
#define LAYER_BLOCK (2 * KV_HEADS * KV_TILE) // values
#define HEAD_TILES ((GROUP + 7) / 8)
#define HALF_HEAD (HEAD_DIM / 2)
#define ANGLES (ROTATIONS * HALF_HEAD) // pairs of cosine and sine per row
#define INFINITE __int_as_float(0x7f800000)

typedef unsigned short half16;
typedef unsigned int word;
typedef unsigned long long u64;

// For stress tests, with -DSTRESS_DELAY=seed: at a call, one warp in four sleeps for up to 32 microseconds. Calls stand
// around each flag that another thread block, another kernel or the CPU waits for. Without the define it is empty.
#ifdef STRESS_DELAY
__device__ __forceinline__ void stressDelay() {
    u64 x = (u64)clock64() ^ (u64)STRESS_DELAY << 32;
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

// c[16 x 8] += a[16 x 16] b[16 x 8]. With g = lane / 4 and q = lane % 4, a lane holds:
//   a0 (row g, k 2q), a1 (row g+8, k 2q), a2 (row g, k 2q+8), a3 (row g+8, k 2q+8)
//   b0 (k 2q, column g), b1 (k 2q+8, column g)
//   c0, c1 (row g, columns 2q, 2q+1), c2, c3 (row g+8, the same columns)
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

// Transposes an 8 x 8 matrix of 16-bit values that the warp holds: a lane has columns 2q and 2q+1 of row g.
__device__ __forceinline__ word transpose(word v) {
    word r;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
    return r;
}

// Loads 16 bytes that are read once, without allocating them in the L1 cache.
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

// Programmatic dependent launch: what stands before the wait may run before the previous kernel has ended.
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

// Zeroes the padding of each head in attended [rows][HEADS][HEAD_WIDTH], for kernels that write HEAD_DIM values of each
// head. An earlier row of NaN may have left NaN in the padding, which the output projection multiplies by zero weights.
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

// silu(gate) * up, or gelu(gate) * up with GELU's approximation by tanh: 0.5 (1 + tanh(x)) = 1 / (1 + exp(-2x)), here
// with 2x = 2 sqrt(2 / pi) (gate + 0.044715 gate^3). The fast division has an error of two units in the last place of
// fp32; results have 16 bits. The names of kernels and their comments say SwiGLU for both.
__device__ __forceinline__ float gatedOf(float gate, float up) {
#if GELU
    float exponent = -1.5957691216f * gate * (1 + 0.044715f * gate * gate);
#else
    float exponent = -gate;
#endif
    return __fdividef(gate, 1 + __expf(exponent)) * up;
}

__device__ __forceinline__ float warpSum(float v) {
    for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
    return v;
}

__device__ __forceinline__ u64 mix64(u64 x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

// Returns the sum over the thread block in every thread. The order of additions is fixed.
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
#define KEY_ROWS ((HEAD_DIM / 2 + KEY_ROW_STEP - 1) / KEY_ROW_STEP * KEY_ROW_STEP)
#define HOST_KEY_WORDS (KEY_ROWS * HOST_TOKENS)
#define HOST_HEAD_WORDS (HOST_KEY_WORDS + HOST_TOKENS / 2 * HEAD_DIM)

// Address of a layer's part of a block. Numbers from poolBlocks on are those of layer blocks, not of blocks: they hold
// the KV of prefills that are being offloaded. stagingShift makes such a number relative to this layer.
__device__ __forceinline__ const half16 *layerBlock(const half16 *blocks, int id, int poolBlocks, int stagingShift) {
    return blocks + (id < poolBlocks ? (long)id * LAYERS_PER_PAGE : (long)(id + stagingShift)) * LAYER_BLOCK;
}

struct Draw { float temperature, topP, minP, uniform; int topK, row, logprobs, adjusted; };
// Changes a token's logit before sampling. The penalty of a forbidden token is infinite.
struct Adjustment { int token; float bias, repetition, penalty; };
// The host writes these structs, and BatchHostTokens and HostTokens below.
static_assert(sizeof(Draw) == 32 && sizeof(Adjustment) == 16, "StepBuffer.java writes these structs");

// Host tokens: decode tokens whose attention the CPU computes. An in-flight token keeps its residual and angles here
// between layers. The last rows of a step, from `firstSlot` on, are slots. At each layer, in-flight tokens whose
// attention has returned take the slots. They run the output projection, the MLP and the next QKV projection, and
// leave. slotMaps[layer] has the host token of each slot before the QKV projection of that layer. It is meaningful
// where the step computes the slots there: a step may compute them at some layers only.
// A step may resume in-flight tokens. Each has a slot of its own behind the others, and the step waits for it at every
// layer from the one where it stands.
// The step's own kernels access GPU memory only. The kernel `transfer` runs beside them and copies over the link.
struct HostTokens {
    float *residual;          // [host tokens][HIDDEN]
    float2 *angles;           // [host tokens][ROTATIONS][HALF_HEAD]
    Draw *draws;              // [host tokens]
    int *slotMaps;            // [layers + 1][MAX_SLOTS] host token or -1
    half16 *outgoing;         // [host tokens][HEADS + 2 KV_HEADS][HEAD_DIM] q, k and v to send to the host
    half16 *incoming;         // [host tokens][HEADS][HEAD_DIM] attention output received from the host
    u64 *sendQueue;           // ring of (number + 1) << 24 | layer << 16 | host token
    u64 *returnQueues;        // [layers] rings of (number + 1) << 16 | host token
    u64 *returned;            // [layers] number of entries of returnQueues that slots have taken
    u64 *arrived;             // [layers] number of entries written to returnQueues
    // [4] numbers of entries written to sendQueue, of those sent, and of results received; 1 in the last layer's
    // attention, 0 in the embedding
    u64 *sendCounters;
    // the next four are pinned host memory
    volatile u64 *tasks;      // ring of (number + 1) << 24 | layer << 16 | host token
    volatile u64 *ready;      // ring of results, with the same entries
    half16 *sent;             // [host tokens][HEADS + 2 KV_HEADS][HEAD_DIM]
    const half16 *results;    // [host tokens][HEADS][HEAD_DIM]
    int ringMask;             // entries of each ring, minus 1
    u64 *stamps;              // [layers + 1] start of each layer's attention and of `report`, in nanoseconds
    // pinned host memory of same-layer tokens: `rope_store` pushes their tasks, and
    // `receive_host_tokens` waits for their results
    volatile u64 *sameLayerTasks; // ring of (number + 1) << 24 | layer << 16 | host token
    volatile u64 *completed;  // [host tokens] number + 1 of the last completed same-layer task
    // not 0: no results will come; ABORTED: set by the host or `receive_host_tokens`, ABORTED_BY_TRANSFER: by
    // `transfer`
    volatile int *aborted;
    // [2 sub-batches][layers][2] start and end of the wait of `receive_host_tokens`, in nanoseconds
    u64 *waits;
    u64 timeout;              // max nanoseconds that `receive_host_tokens` waits for a host token
    int *sentParts;           // [host tokens] number of thread blocks of `rope_store` that have sent their part
    u64 transferTimeout;      // max nanoseconds that `transfer` waits for the end of its step
    int *waiting;             // [host tokens] layer whose attention an in-flight token waits for; -1 once it is there
};
static_assert(sizeof(HostTokens) == 200, "HostLinkMemory.java writes this struct");

// The same-layer tokens of a sub-batch, from its header: `count` rows that begin at `first`. The first task of a layer
// has number base + layer * all + offset. `all` counts the same-layer tokens of all sub-batches of the step.
struct BatchHostTokens { int first, count, all, offset; u64 base; };
static_assert(sizeof(BatchHostTokens) == 24, "StepBuffer.java writes this struct");
__device__ __forceinline__ const BatchHostTokens *batchHostTokens(const int *header) {
    return (const BatchHostTokens *)(header + HEADER_HOST_TOKENS);
}
__device__ __forceinline__ void pushSameLayerTask(const HostTokens *hostTokens, const BatchHostTokens *rows, int i,
        int hostToken, int layer) {
    u64 number = rows->base + (u64)layer * rows->all + rows->offset + i;
    hostTokens->sameLayerTasks[number & hostTokens->ringMask] = (number + 1) << 24 | (u64)layer << 16 | hostToken;
}
// The same-layer token of a row, which its KV slot encodes as -2 - index; -1 if it has none.
__device__ __forceinline__ int sameLayerToken(int slot) { return slot < -1 ? -2 - slot : -1; }

__device__ __forceinline__ u64 nanos() {
    u64 t;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
    return t;
}

// The in-flight token that holds a slot of the layer, or -1.
__device__ __forceinline__ int inFlightToken(const HostTokens *hostTokens, int layer, int slot) {
    return hostTokens->slotMaps[layer * MAX_SLOTS + slot];
}

// Orders the read of a flag before the reads of its data, if the CPU or another kernel has written both. The thread
// that has read the flag calls it before the barrier after which other threads read the data.
__device__ __forceinline__ void acquireSystem() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
__device__ __forceinline__ void acquireDevice() { asm volatile("fence.acq_rel.gpu;" ::: "memory"); }

// Transfers between GPU and host. A writer writes the data, then the flag; a reader reads the flag, then the data.
//   flag            written by                                     read by                between flag and data
//   ready           worker: results, then setRelease               transferTokens         acquireSystem, barrier
//   tasks           sendToken: sent, then __threadfence_system     worker                 getAcquire
//   sendQueue       leaveBatch: after rope_store's outgoing        transferTokens         acquireSystem, barrier
//   returnQueues    receiveToken: incoming, then __threadfence     chooseReturningTokens  acquireDevice, end of kernel
//                                                                  receive_in_flight      acquireDevice, barrier
//   sameLayerTasks  rope_store: sent, then __threadfence_system    worker                 getAcquire
//   completed       worker: results, then setRelease               receive_host_tokens    ld.acquire.sys, barrier
// No kernel waits for the transfers of in-flight tokens, except for those of resumed ones.
// Loads that a lane of receiveToken has under way at a time:
#define LOADS_AT_ONCE 8

__device__ __forceinline__ void sendToken(HostTokens *hostTokens, u64 number, u64 entry) {
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

__device__ __forceinline__ void receiveToken(HostTokens *hostTokens, int layer, int hostToken) {
    const int EIGHTS = HEADS * HEAD_DIM / 8;
    int lane = threadIdx.x % 32;
    const uint4 *from = (const uint4 *)(hostTokens->results + (size_t)hostToken * EIGHTS * 8);
    uint4 *to = (uint4 *)(hostTokens->incoming + (size_t)hostToken * EIGHTS * 8);
#pragma unroll 1
    for (int first = 0; first < EIGHTS; first += LOADS_AT_ONCE * 32) {
        uint4 v[LOADS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < LOADS_AT_ONCE; i++) {
            int at = first + i * 32 + lane;
            if (at < EIGHTS)
                asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y),
                        "=r"(v[i].z), "=r"(v[i].w) : "l"(from + at));
        }
#pragma unroll
        for (int i = 0; i < LOADS_AT_ONCE; i++) {
            int at = first + i * 32 + lane;
            if (at < EIGHTS) to[at] = v[i];
        }
    }
    stressDelay();
    __threadfence();
    __syncwarp();
    if (lane == 0) {
        *(volatile int *)&hostTokens->waiting[hostToken] = -1;
        u64 number = atomicAdd(&hostTokens->arrived[layer], 1ull);
        *(volatile u64 *)&hostTokens->returnQueues[(size_t)layer * (hostTokens->ringMask + 1)
                + (number & hostTokens->ringMask)] = (number + 1) << 16 | hostToken;
    }
}

// Sends and receives the host tokens whose entries are in the rings, at most 32 * BLOCK_WARPS each way. A thread block
// of BLOCK_WARPS warps calls it.
template <int BLOCK_WARPS>
__device__ __forceinline__ void transferTokens(HostTokens *hostTokens, u64 &sent, u64 &received) {
    __shared__ int sendCount, receiveCount;
    __shared__ u64 toSend[BLOCK_WARPS * 32], toReceive[BLOCK_WARPS * 32];
    int warp = threadIdx.x / 32;
    u64 entry = hostTokens->ready[(received + threadIdx.x) & hostTokens->ringMask];
    // decode attention may append entries at the same time, so each thread reads its entry once
    u64 sending = *(volatile u64 *)&hostTokens->sendQueue[(sent + threadIdx.x) & hostTokens->ringMask];
    __syncthreads();
    if (threadIdx.x == 0) sendCount = receiveCount = BLOCK_WARPS * 32;
    __syncthreads();
    if (entry >> 24 != received + threadIdx.x + 1) atomicMin(&receiveCount, (int)threadIdx.x);
    if (sending >> 24 != sent + threadIdx.x + 1) atomicMin(&sendCount, (int)threadIdx.x);
    toReceive[threadIdx.x] = entry;
    toSend[threadIdx.x] = sending & 0xffffff;
    stressDelay();
    acquireSystem();
    __syncthreads();
    for (int i = warp; i < receiveCount + sendCount; i += BLOCK_WARPS) {
        if (i < receiveCount) receiveToken(hostTokens, (int)(toReceive[i] >> 16 & 0xff), (int)(toReceive[i] & 0xffff));
        else sendToken(hostTokens, sent + i - receiveCount, toSend[i - receiveCount]);
    }
    sent += sendCount;
    received += receiveCount;
}

// Whether there may be a token to send or to receive. One thread of a block calls it: polling over the link by all
// threads slows every kernel that runs now.
__device__ __forceinline__ bool hasTransfers(const HostTokens *hostTokens, u64 sent, u64 received) {
    return hostTokens->ready[received & hostTokens->ringMask] >> 24 == received + 1
        || *(volatile u64 *)&hostTokens->sendQueue[sent & hostTokens->ringMask] >> 24 == sent + 1;
}

// Ends the use of a slot by the token that has it before the layer's QKV projection, if there is one: the token, whose
// q, k and v rope_store has written to `outgoing`, is appended to sendQueue.
__device__ __forceinline__ void leaveBatch(HostTokens *hostTokens, int layer, int slot) {
    int leaving = inFlightToken(hostTokens, layer, slot);
    if (leaving < 0) return;
    *(volatile int *)&hostTokens->waiting[leaving] = layer;
    stressDelay();
    __threadfence();
    u64 number = atomicAdd(hostTokens->sendCounters, 1ull);
    *(volatile u64 *)&hostTokens->sendQueue[number & hostTokens->ringMask] = (number + 1) << 24 | (u64)layer << 16
            | leaving;
}

// Copies the attention output of the tokens that take the first `slots` slots after the layer's attention to
// out [slots][HEADS][HEAD_WIDTH].
__device__ __forceinline__ void copyReturned(const HostTokens *hostTokens, int layer, int slots, int thread,
        int threads, half16 *out) {
    const int EIGHTS = HEAD_DIM / 8;
    for (int i = thread; i < slots * HEADS * EIGHTS; i += threads) {
        int slot = i / (HEADS * EIGHTS), returning = inFlightToken(hostTokens, layer + 1, slot);
        if (returning < 0) continue;
        uint4 v = __ldcg((const uint4 *)(hostTokens->incoming + (size_t)returning * HEADS * HEAD_DIM)
                + i % (HEADS * EIGHTS));
        *(uint4 *)(out + (size_t)(i / EIGHTS) * HEAD_WIDTH + i % EIGHTS * 8) = v;
    }
    clearPadding(out, slots, thread, threads);
}
