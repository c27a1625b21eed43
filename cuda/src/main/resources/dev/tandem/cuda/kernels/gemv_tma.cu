// GEMM of few rows with TMA: x [rows][depth] weights [n][depth]^T -> fp32 partial sums [splits][rows][n], or SwiGLU of
// the result [rows][INTERMEDIATE]. x has up to 8 TILES rows. The time is that of reading the weights once.
//
// The Tensor Memory Accelerator (TMA) copies tiles of 64 columns to a ring in shared memory. Many bytes are under way
// without registers, and copies of weights begin while the previous kernel runs. A thread block computes 128 weight
// rows, in two boxes of 64. Each of its 4 warps computes 32 of them, and a fifth warp issues the copies.
//
// Shared memory (dynamic): STAGES_OF_RING of { weights 2 x [64][64], x [8 TILES][64] } 16-bit, swizzled. Static:
// barriers full and empty [STAGES_OF_RING].
//
// Waits and signals:
//   previous kernel        dependencyWait, before x is read
//   full[stage]            TMA has filled it: the four warps wait
//   empty[stage]           the four warps have read it: the copying lane waits

#define BOX_BYTES (BOX_ROWS * 128)
#define X_BYTES (TILES * 8 * 128)
#define STAGE_BYTES (2 * BOX_BYTES + X_BYTES)

__device__ __forceinline__ void matrices4(word *r, word at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]),
            "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void matrices2(word *r, word at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(r[0]), "=r"(r[1]) : "r"(at));
}
// FUSED: the second box is INTERMEDIATE weight rows further, and out [rows][INTERMEDIATE] = silu(gate) * up in 16 bits.
// A 16-row operand is then 8 rows of gate and 8 of up. Otherwise out [splits][rows][n] are fp32 partial sums.
// grid (strips of 128 weight rows, splits)
template <bool FUSED>
__device__ __forceinline__ void gemm(const TensorMap *weights, const TensorMap *x, void *out, int rows, int n,
        int depth) {
    extern __shared__ __align__(1024) char ring[];
    __shared__ u64 full[STAGES_OF_RING], empty[STAGES_OF_RING];
    // All thread blocks fit on the GPU together, so those of the next kernel start only in the place of finished ones.
    dependentsLaunch();
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int firstRow = blockIdx.x * (FUSED ? BOX_ROWS : 2 * BOX_ROWS),
            secondRow = FUSED ? INTERMEDIATE + firstRow : firstRow + BOX_ROWS;
    int all = (depth + 63) / 64;
    int from = (int)((long)all * blockIdx.y / gridDim.y),
            count = (int)((long)all * (blockIdx.y + 1) / gridDim.y) - from;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES_OF_RING; i++) {
            barrierInit(&full[i], 1);
            barrierInit(&empty[i], 4);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warp == 4) {
        if (lane == 0) {
            auto fetchWeights = [&](int i) {
                char *stage = ring + i % STAGES_OF_RING * STAGE_BYTES;
                u64 *barrier = &full[i % STAGES_OF_RING];
                barrierExpect(barrier, STAGE_BYTES);
                fetchBox(stage, weights, (from + i) * 64, firstRow, barrier, EVICT_FIRST);
                fetchBox(stage + BOX_BYTES, weights, (from + i) * 64, secondRow, barrier, EVICT_FIRST);
            };
            auto fetchX = [&](int i) {
                fetchBox(ring + i % STAGES_OF_RING * STAGE_BYTES + 2 * BOX_BYTES, x, (from + i) * 64, 0,
                        &full[i % STAGES_OF_RING], EVICT_LAST);
            };
            int ahead = count < STAGES_OF_RING ? count : STAGES_OF_RING;
            for (int i = 0; i < ahead; i++) fetchWeights(i);
            dependencyWait();
            for (int i = 0; i < ahead; i++) fetchX(i);
            for (int i = ahead; i < count; i++) {
                barrierWait(&empty[i % STAGES_OF_RING], (i / STAGES_OF_RING - 1) & 1);
                fetchWeights(i);
                fetchX(i);
            }
        }
        return;
    }
    dependencyWait();
    float sums[2][TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[0][t][i] = sums[1][t][i] = 0;
    // the operand row whose address this lane gives to ldmatrix, counted over both boxes
    int part = lane / 8 % 2, line = lane % 8;
    int rowOf[2];
#pragma unroll
    for (int i = 0; i < 2; i++)
        rowOf[i] = FUSED ? part * BOX_ROWS + warp * 16 + i * 8 + line : warp * 32 + i * 16 + part * 8 + line;
    for (int i = 0; i < count; i++) {
        int slot = i % STAGES_OF_RING;
        barrierWait(&full[slot], i / STAGES_OF_RING & 1);
        word stage = address(ring + slot * STAGE_BYTES), xs = stage + 2 * BOX_BYTES;
#pragma unroll
        for (int k = 0; k < 4; k++) {
            word a[2][4], b[(TILES + 1) / 2][4];
#pragma unroll
            for (int j = 0; j < 2; j++) matrices4(a[j], stage + swizzled(rowOf[j], 2 * k + lane / 16));
#pragma unroll
            for (int t = 0; t < TILES; t += 2) {
                // two tiles of x: lanes 0 to 15 give the addresses of the first one's halves, 16 to 31 of the second's
                if (t + 1 < TILES) matrices4(b[t / 2], xs + swizzled((t + lane / 16) * 8 + line, 2 * k + part));
                else matrices2(b[t / 2], xs + swizzled(t * 8 + line, 2 * k + part));
            }
#pragma unroll
            for (int t = 0; t < TILES; t++)
#pragma unroll
                for (int j = 0; j < 2; j++)
                    multiply(sums[j][t], a[j][0], a[j][1], a[j][2], a[j][3], b[t / 2][t % 2 * 2],
                            b[t / 2][t % 2 * 2 + 1]);
        }
        __syncwarp();
        if (lane == 0) barrierArrive(&empty[slot]);
    }
    int g = lane / 4, q = lane % 4;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int j = 0; j < 2; j++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                int m = t * 8 + q * 2 + i;
                if (m >= rows) continue;
                if (FUSED) {
                    int column = firstRow + warp * 16 + j * 8 + g;
                    if (column < INTERMEDIATE)
                        ((half16 *)out)[(size_t)m * INTERMEDIATE + column] =
                                narrow(gatedOf(sums[j][t][i], sums[j][t][i + 2]));
                } else {
                    int column = firstRow + warp * 32 + j * 16 + g;
                    float *to = (float *)out + ((size_t)blockIdx.y * rows + m) * n;
                    if (column < n) to[column] = sums[j][t][i];
                    if (column + 8 < n) to[column + 8] = sums[j][t][i + 2];
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(GEMV_TMA_THREADS, 2) gemv_tma(const __grid_constant__ TensorMap weights,
        const __grid_constant__ TensorMap x, float *out, int rows, int n, int depth) {
    gemm<false>(&weights, &x, out, rows, n, depth);
}

extern "C" __global__ void __launch_bounds__(GEMV_TMA_THREADS, 2) gemv_tma_swiglu(
        const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x, half16 *out, int rows, int n,
        int depth) {
    gemm<true>(&weights, &x, out, rows, n, depth);
}
