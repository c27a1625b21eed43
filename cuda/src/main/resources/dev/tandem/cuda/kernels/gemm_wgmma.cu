// GEMM of 17 to 192 rows with wgmma: x [rows][depth] weights [n][depth]^T -> fp32 partial sums [splits][rows][n], or
// SwiGLU of the result [rows][INTERMEDIATE].
//
// Weights are the 64-row operand of wgmma. x is the other one, with up to TOKENS rows, so that little work is done for
// rows that do not exist. Only the rows that exist are copied, up to the next multiple of 8: what the others hold
// reaches no result that is stored. A thread block computes a strip of weight rows, 64 per warpgroup. With two
// warpgroups, one more warp issues the copies by the Tensor Memory Accelerator (TMA). Four warpgroups copy x half as
// often, but leave no registers for another warp, so a thread of the first warpgroup issues the copies.
//
// With few rows, memory takes longer than the products. Then four warpgroups wait for each stage's products and give it
// back at once, so that all stages are being copied while they wait for the next.
//
// Shared memory (dynamic): stages of weights GROUPS x [64][64], then as many or fewer of x [TOKENS][64], 16-bit,
// swizzled. Results replace them at the end. Static: barriers full and empty, one per stage of weights.
//
// Waits and signals:
//   previous kernel        dependencyWait, before x is read; weights are fetched before
//   full[stage]            TMA has copied its weights and x: all warpgroups wait
//   empty[stage]           all warpgroups have read it: the copying thread waits

#define BOX_BYTES (BOX_ROWS * 128)
#define X_BYTES (TOKENS * 128)

#if TOKENS == 32
#define LIST S0
#define SUMS FLOATS16(d, 0)
#define OPERANDS(a, b) "setp.ne.s32 add, %18, 0;\n" a "%16, %17" b
#elif TOKENS == 48
#define LIST S0 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define SUMS FLOATS16(d, 0), FLOATS8(d, 4)
#define OPERANDS(a, b) "setp.ne.s32 add, %26, 0;\n" a "%24, %25" b
#elif TOKENS == 64
#define LIST S0 S1
#define SUMS FLOATS32(d, 0)
#define OPERANDS(a, b) "setp.ne.s32 add, %34, 0;\n" a "%32, %33" b
#elif TOKENS == 96
#define LIST S0 S1 S2
#define SUMS FLOATS32(d, 0), FLOATS16(d, 8)
#define OPERANDS(a, b) "setp.ne.s32 add, %50, 0;\n" a "%48, %49" b
#elif TOKENS == 128
#define LIST S0 S1 S2 S3
#define SUMS FLOATS32(d, 0), FLOATS32(d, 8)
#define OPERANDS(a, b) "setp.ne.s32 add, %66, 0;\n" a "%64, %65" b
#elif TOKENS == 160
#define LIST S0 S1 S2 S3 S4
#define SUMS FLOATS32(d, 0), FLOATS32(d, 8), FLOATS16(d, 16)
#define OPERANDS(a, b) "setp.ne.s32 add, %82, 0;\n" a "%80, %81" b
#elif TOKENS == 192
#define LIST S0 S1 S2 S3 S4 S5
#define SUMS FLOATS32(d, 0), FLOATS32(d, 8), FLOATS32(d, 16)
#define OPERANDS(a, b) "setp.ne.s32 add, %98, 0;\n" a "%96, %97" b
#endif
#define TEXT(n) #n
#define SHAPE(n) "m64n" TEXT(n) "k16."

// d [64 x TOKENS] = (add: +) weights [64 x 16] x^T [16 x TOKENS]
__device__ __forceinline__ void multiplyRows(float (*d)[4], u64 weights, u64 x, int add) {
    asm volatile("{\n.reg .pred add;\n" OPERANDS("wgmma.mma_async.sync.aligned." SHAPE(TOKENS) TYPES " {" LIST "}, ",
            ", add, 1, 1, 0, 0;\n}")
        : SUMS : "l"(weights), "l"(x), "r"(add));
}

// Copies 8 weight rows of gate, 8 of up, and so on.
__device__ __forceinline__ void fetchPairs(void *to, const TensorMap *map, int column, int group, u64 *barrier,
        u64 policy) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3, %3, %4}], [%5], %6;"
        :: "r"(address(to)), "l"(map), "r"(column), "r"(0), "r"(group), "r"(address(barrier)), "l"(policy) : "memory");
}
template <int GROUPS> __device__ __forceinline__ void warpgroupsSync() {
    asm volatile("bar.sync 1, %0;" :: "n"(GROUPS * 128) : "memory");
}

// Stores fp32 sums to out [rows][n], columns firstRow to firstRow + STRIP - 1, through shared memory.
template <int GROUPS>
__device__ __forceinline__ void storeSums(char *ring, const float (*sums)[4], float *out, int rows, int n,
        int firstRow) {
    const int STRIP = GROUPS * BOX_ROWS, STRIDE = STRIP + 4;
    float *tile = (float *)ring;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < TOKENS / 8; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            float *to = tile + (t * 8 + q * 2 + i) * STRIDE + warp * 16 + g;
            to[0] = sums[t][i];
            to[8] = sums[t][i + 2];
        }
    warpgroupsSync<GROUPS>();
    for (int i = threadIdx.x; i < rows * (STRIP / 4); i += GROUPS * 128) {
        int m = i / (STRIP / 4), column = i % (STRIP / 4) * 4;
        if (firstRow + column < n)
            *(float4 *)(out + (size_t)m * n + firstRow + column) = *(const float4 *)(tile + m * STRIDE + column);
    }
}

// Stores gatedOf(gate, up) to out [rows][INTERMEDIATE], COLUMNS columns from firstColumn on, through shared memory.
template <int GROUPS>
__device__ __forceinline__ void storeActivation(char *ring, const float (*sums)[4], half16 *out, int rows,
        int firstColumn) {
    const int COLUMNS = GROUPS * BOX_ROWS / 2, STRIDE = COLUMNS + 8;
    half16 *tile = (half16 *)ring;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < TOKENS / 8; t++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            tile[(t * 8 + q * 2 + i) * STRIDE + warp * 8 + g] =
                    narrow(gatedOf(sums[t][i], sums[t][i + 2]));
        }
    warpgroupsSync<GROUPS>();
    for (int i = threadIdx.x; i < rows * (COLUMNS / 8); i += GROUPS * 128) {
        int m = i / (COLUMNS / 8), column = i % (COLUMNS / 8) * 8;
        if (firstColumn + column < INTERMEDIATE)
            *(uint4 *)(out + (size_t)m * INTERMEDIATE + firstColumn + column) =
                    *(const uint4 *)(tile + m * STRIDE + column);
    }
}

// Multiplies the thread block's weight rows by x over `count` stages of 64 columns, from stage `from` on. Returns
// whether this thread has sums. FUSED: 16 weight rows are 8 of gate and 8 of up.
template <int GROUPS, bool FUSED, int STAGES, int STAGES_OF_X>
__device__ __forceinline__ bool gemm(const TensorMap *weights, const TensorMap *x, char *ring, int rows, int from,
        int count, float (*sums)[4]) {
    const int STAGE_BYTES = GROUPS * BOX_BYTES;
    static_assert(STAGES * STAGE_BYTES + STAGES_OF_X * X_BYTES >= TOKENS * (GROUPS * BOX_ROWS + 4) * 4,
            "the results replace the stages");
    const bool COPY_WARP = GROUPS == 2, AT_ONCE = GROUPS == 4 && TOKENS <= 96;
    __shared__ u64 full[STAGES], empty[STAGES];
    dependentsLaunch();
    int warp = threadIdx.x / 32, firstRow = blockIdx.x * GROUPS * BOX_ROWS;
    int copied = STAGE_BYTES + (rows + 7) / 8 * 8 * 128;
    char *xRing = ring + STAGES * STAGE_BYTES;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(&full[i], 1);
            barrierInit(&empty[i], GROUPS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    auto fetchWeights = [&](int i) {
        char *stage = ring + i % STAGES * STAGE_BYTES;
        u64 *barrier = &full[i % STAGES];
        barrierExpect(barrier, copied);
#pragma unroll
        for (int b = 0; b < GROUPS; b += FUSED ? 2 : 1) {
            if (FUSED)
                fetchPairs(stage + b * BOX_BYTES, weights, (from + i) * 64, firstRow / 16 + b * (BOX_ROWS / 16),
                        barrier, EVICT_FIRST);
            else
                fetchBox(stage + b * BOX_BYTES, weights, (from + i) * 64, firstRow + b * BOX_ROWS, barrier,
                        EVICT_FIRST);
        }
    };
    auto fetchX = [&](int i) {
        fetchBox(xRing + i % STAGES_OF_X * X_BYTES, x, (from + i) * 64, 0, &full[i % STAGES], EVICT_LAST);
    };
    auto refill = [&](int read) { // with the weights and x that replace those of a stage that has been read
        if (read + STAGES_OF_X >= count) return;
        barrierWait(&empty[read % STAGES], read / STAGES & 1);
        if (read + STAGES < count) fetchWeights(read + STAGES);
        fetchX(read + STAGES_OF_X);
    };
    if (threadIdx.x == (COPY_WARP ? GROUPS * 128 : 0)) {
        for (int i = 0; i < min(count, STAGES); i++) fetchWeights(i);
        dependencyWait();
        for (int i = 0; i < min(count, STAGES_OF_X); i++) fetchX(i);
        for (int i = 0; COPY_WARP && i < count; i++) refill(i);
    }
    if (warp == GROUPS * 4) return false;
    dependencyWait();
    word base = address(ring) + warp / 4 * BOX_BYTES, xBase = address(xRing);
    for (int i = 0; i < count; i++) {
        int slot = i % STAGES;
        barrierWait(&full[slot], i / STAGES & 1);
        u64 weightRows = matrixDescriptor(base + slot * STAGE_BYTES, 16),
                xRows = matrixDescriptor(xBase + i % STAGES_OF_X * X_BYTES, 16);
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < 4; k++) multiplyRows(sums, weightRows + 2 * k, xRows + 2 * k, i + k);
        wgmmaCommit();
        wgmmaWait<AT_ONCE ? 0 : 1>();
        int read = AT_ONCE ? i : i - 1;
        if (read >= 0 && threadIdx.x % 128 == 0) barrierArrive(&empty[read % STAGES]);
        if (!COPY_WARP && threadIdx.x == 0 && read >= 0) refill(read);
    }
    wgmmaWait<0>();
    fenceAccumulators<TOKENS / 8>(sums);
    warpgroupsSync<GROUPS>(); // the stages have been read: results replace them
    return true;
}

template <int GROUPS, int STAGES, int STAGES_OF_X>
__device__ __forceinline__ void swiglu(const TensorMap *weights, const TensorMap *x, char *ring, half16 *out, int rows,
        int depth) {
    float sums[TOKENS / 8][4];
    if (gemm<GROUPS, true, STAGES, STAGES_OF_X>(weights, x, ring, rows, 0, (depth + 63) / 64, sums))
        storeActivation<GROUPS>(ring, sums, out, rows, blockIdx.x * (GROUPS * BOX_ROWS / 2));
}

template <int GROUPS, int STAGES, int STAGES_OF_X>
__device__ __forceinline__ void partialSums(const TensorMap *weights, const TensorMap *x, char *ring, float *out,
        int rows, int n, int depth) {
    int all = (depth + 63) / 64;
    int from = (int)((long)all * blockIdx.y / gridDim.y),
            count = (int)((long)all * (blockIdx.y + 1) / gridDim.y) - from;
    float sums[TOKENS / 8][4];
    if (gemm<GROUPS, false, STAGES, STAGES_OF_X>(weights, x, ring, rows, from, count, sums))
        storeSums<GROUPS>(ring, sums, out + (size_t)blockIdx.y * rows * n, rows, n, blockIdx.x * GROUPS * BOX_ROWS);
}

// out [splits][rows][n]: partial sums. grid (strips of 128 weight rows, splits)
extern "C" __global__ void __launch_bounds__(WGMMA_THREADS, 1) gemm_wgmma(const __grid_constant__ TensorMap weights,
        const __grid_constant__ TensorMap x, float *out, int rows, int n, int depth) {
    extern __shared__ __align__(1024) char ring[];
    partialSums<2, STRIP_STAGES, STRIP_STAGES>(&weights, &x, ring, out, rows, n, depth);
}

// The same, with grid (strips of 256 weight rows, splits).
extern "C" __global__ void __launch_bounds__(WGMMA_TALL_THREADS, 1) gemm_wgmma_tall(
        const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x, float *out, int rows, int n,
        int depth) {
    extern __shared__ __align__(1024) char ring[];
    partialSums<4, TALL_STAGES, TALL_STAGES_OF_X>(&weights, &x, ring, out, rows, n, depth);
}

// out [rows][INTERMEDIATE] = silu(gate) * up. grid (strips of 128 weight rows)
extern "C" __global__ void __launch_bounds__(WGMMA_THREADS, 1) gemm_wgmma_swiglu(
        const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x, half16 *out, int rows, int n,
        int depth) {
    extern __shared__ __align__(1024) char ring[];
    swiglu<2, STRIP_STAGES, STRIP_STAGES>(&weights, &x, ring, out, rows, depth);
}

// The same, with grid (strips of 256 weight rows).
extern "C" __global__ void __launch_bounds__(WGMMA_TALL_THREADS, 1) gemm_wgmma_swiglu_tall(
        const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x, half16 *out, int rows, int n,
        int depth) {
    extern __shared__ __align__(1024) char ring[];
    swiglu<4, TALL_STAGES, TALL_STAGES_OF_X>(&weights, &x, ring, out, rows, depth);
}
