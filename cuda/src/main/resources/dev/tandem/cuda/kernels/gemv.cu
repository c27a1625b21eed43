// GEMM of few rows: x [rows][depth] weights [n][depth]^T -> fp32 partial sums [splits][rows][n], or SwiGLU of the
// result [rows][INTERMEDIATE]. x has up to 8 TILES rows. The time is that of reading the weights once.
//
// The weights are the 16-row MMA operand. Both operands may permute k in the same way: of each 32 columns, lane (g, q)
// loads 8q .. 8q+7 of rows g and g+8, 16 bytes each, which are two MMA steps of 16. A warp computes 2 x 16 weight rows.
// The 8 warps share x, which is staged in the order of the fragments.
//
// Shared memory (dynamic): staged, two buffers of [GEMV_CHUNK_STEPS][TILES][32 lanes] 16-byte pieces of x.
//
// Waits and signals: dependencyWait before x is read; weights are read before.

#define AHEAD 4                // steps of weights that a warp loads ahead: 4 x 4 x 16 bytes per lane

__device__ __forceinline__ void stage(uint4 *to, const half16 *x, int depth, int step, int steps) {
    for (int i = threadIdx.x; i < GEMV_CHUNK_STEPS * TILES * 32; i += GEMV_THREADS) {
        int lane = i % 32, tile = i / 32 % TILES, s = step + i / (32 * TILES);
        if (s < steps) copy16(to + i, x + (size_t)(tile * 8 + lane / 4) * depth + s * 32 + lane % 4 * 8);
    }
    copyCommit();
}

struct Weights {
    uint4 first[2], second[2];   // rows g and g + 8 of the two tiles
};

__device__ __forceinline__ void load(Weights &w, const half16 *one, const half16 *two, int depth, int step) {
    w.first[0] = stream(one + step * 32);
    w.second[0] = stream(one + (size_t)8 * depth + step * 32);
    w.first[1] = stream(two + step * 32);
    w.second[1] = stream(two + (size_t)8 * depth + step * 32);
}

// FUSED: the second tile is INTERMEDIATE weight rows further, and out [rows][INTERMEDIATE] = silu(first) * second in 16
// bits. Otherwise out [splits][rows][n] are fp32 partial sums. grid (strips of 256 weight rows, splits)
template <bool FUSED> __device__ __forceinline__ void gemm(const half16 *weights, const half16 *x, void *out,
        int rows, int n, int depth) {
    extern __shared__ uint4 staged[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int unit = blockIdx.x * 8 + warp;
    int firstRow = FUSED ? unit * 16 : unit * 32;
    int secondRow = FUSED ? INTERMEDIATE + firstRow : firstRow + 16;
    bool active = firstRow < (FUSED ? INTERMEDIATE : n);
    int all = depth / 32;
    int from = (int)((long)all * blockIdx.y / gridDim.y), to = (int)((long)all * (blockIdx.y + 1) / gridDim.y);
    const half16 *one = weights + (size_t)(active ? firstRow + g : 0) * depth + q * 8;
    const half16 *two = weights + (size_t)(active ? secondRow + g : 0) * depth + q * 8;
    Weights ring[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++) if (from + i < to) load(ring[i], one, two, depth, from + i);
    float sums[2][TILES][4];
#pragma unroll
    for (int t = 0; t < TILES; t++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[0][t][i] = sums[1][t][i] = 0;
    dependencyWait();
    stage(staged, x, depth, from, to);
    int buffer = 0;
    for (int chunk = from; chunk < to; chunk += GEMV_CHUNK_STEPS, buffer ^= 1) {
        stage(staged + (buffer ^ 1) * GEMV_CHUNK_STEPS * TILES * 32, x, depth, chunk + GEMV_CHUNK_STEPS, to);
        copyWait<1>();
        __syncthreads();
        const uint4 *rowsOfX = staged + buffer * GEMV_CHUNK_STEPS * TILES * 32 + lane;
#pragma unroll
        for (int s = 0; s < GEMV_CHUNK_STEPS; s++) {
            int step = chunk + s;
            if (step < to) {
                Weights w = ring[s % AHEAD];
                if (step + AHEAD < to) load(ring[s % AHEAD], one, two, depth, step + AHEAD);
#pragma unroll
                for (int t = 0; t < TILES; t++) {
                    uint4 b = rowsOfX[(s * TILES + t) * 32];
#pragma unroll
                    for (int i = 0; i < 2; i++) {
                        multiply(sums[i][t], w.first[i].x, w.second[i].x, w.first[i].y, w.second[i].y, b.x, b.y);
                        multiply(sums[i][t], w.first[i].z, w.second[i].z, w.first[i].w, w.second[i].w, b.z, b.w);
                    }
                }
            }
        }
        __syncthreads();
    }
    dependentsLaunch();
    if (!active) return;
#pragma unroll
    for (int t = 0; t < TILES; t++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int m = t * 8 + q * 2 + i % 2, row = g + i / 2 * 8;
            if (m < rows) {
                if (FUSED) {
                    ((half16 *)out)[(size_t)m * INTERMEDIATE + firstRow + row] =
                            narrow(gatedOf(sums[0][t][i], sums[1][t][i]));
                } else {
                    float *to = (float *)out + ((size_t)blockIdx.y * rows + m) * n + row;
                    to[firstRow] = sums[0][t][i];
                    to[secondRow] = sums[1][t][i];
                }
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(GEMV_THREADS, 1) gemv(const half16 *weights, const half16 *x, float *out,
        int rows, int n, int depth) {
    gemm<false>(weights, x, out, rows, n, depth);
}

extern "C" __global__ void __launch_bounds__(GEMV_THREADS, 1) gemv_swiglu(const half16 *weights, const half16 *x,
        half16 *out, int rows, int n, int depth) {
    gemm<true>(weights, x, out, rows, n, depth);
}
