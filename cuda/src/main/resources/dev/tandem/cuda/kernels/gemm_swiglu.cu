// Gate and up GEMM with SwiGLU for many rows, with wgmma: out [rows][INTERMEDIATE] = silu(gate) * up of
// x [rows][depth] weights [2 INTERMEDIATE][depth]^T.
//
// A tile is 128 rows of x and 256 weight rows, alternately 8 of gate and 8 of up. Two warpgroups compute 64 rows of x
// each, and one more warp issues the copies by the Tensor Memory Accelerator (TMA). A cluster is two thread blocks with
// adjacent rows of x and the same weight rows, of which each copies half to both (multicast). Thread blocks are
// persistent, and copy the next tile's operands while results are stored.
//
// Shared memory (dynamic): STAGES of { x [SWIGLU_TILE_ROWS][64], weights [SWIGLU_TILE_WEIGHTS][64] } 16-bit, swizzled;
// then a tile's results, PANELS of [64][64] 16-bit per warpgroup. Static: barriers full and empty [STAGES].
//
// Waits and signals:
//   previous kernel        dependencyWait, before the first tile
//   full[stage]            TMA has filled it: the warpgroups of this thread block wait
//   empty[stage]           both warpgroups of both thread blocks have read it: the copying warp waits

#define COLUMNS (SWIGLU_TILE_WEIGHTS / 2)                        // result columns of a tile
#define PANEL_BYTES (64 * 128)                            // 64 rows of 64 values
#define X_BYTES (SWIGLU_TILE_ROWS * 128)
#define HALF_BYTES (COLUMNS * 128)                        // half of a stage's weights: one thread block copies them
#define STAGE_BYTES (X_BYTES + 2 * HALF_BYTES)
#define PANELS (COLUMNS / 64)                             // panels of a warpgroup's results
// Pairs of tiles with the same weight rows that are computed at about the same time, so that the weights are read from
// memory once for all of them
#define PAIRS_PER_ROUND 8

// d [64 x 256] = (add: +) x [64 x 16] weights^T [16 x 256]
__device__ __forceinline__ void multiplyTile(float (*d)[4], u64 x, u64 weights, int add) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.s32 add, %130, 0;\nwgmma.mma_async.sync.aligned.m64n256k16." TYPES
        " {" S0 S1 S2 S3 S4 S5 S6 S7 "}, %128, %129, add, 1, 1, 0, 0;\n}"
        : FLOATS32(d, 0), FLOATS32(d, 8), FLOATS32(d, 16), FLOATS32(d, 24) : "l"(x), "l"(weights), "r"(add));
}

__device__ __forceinline__ int rankInCluster() {
    int r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// Arrives at the barrier of thread block `rank` of the cluster. It keeps the default scope, because a wider one costs a
// memory fence per call.
__device__ __forceinline__ void arriveAt(u64 *b, int rank) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
        "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
        :: "r"(address(b)), "r"(rank) : "memory");
}
// Copies 8 weight rows of gate, 8 of up, and so on, to the same address in both thread blocks, and signals the barrier
// of each.
__device__ __forceinline__ void fetchPairsMulticast(void *to, const TensorMap *map, int column, int group,
        u64 *barrier) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes"
        ".multicast::cluster.L2::cache_hint [%0], [%1, {%2, %3, %3, %4}], [%5], %6, %7;"
        :: "r"(address(to)), "l"(map), "r"(column), "r"(0), "r"(group), "r"(address(barrier)), "h"((half16)3),
                "l"(EVICT_LAST) : "memory");
}
__device__ __forceinline__ void storeBox(const TensorMap *map, const void *from, int column, int row) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%0, {%1, %2}], [%3];\n"
        "cp.async.bulk.commit_group;"
        :: "l"(map), "r"(column), "r"(row), "r"(address(from)) : "memory");
}
__device__ __forceinline__ void storeMatrices4(word to, const word *r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" :: "r"(to), "r"(r[0]), "r"(r[1]),
            "r"(r[2]), "r"(r[3]) : "memory");
}
__device__ __forceinline__ void groupSync(int group) { asm volatile("bar.sync %0, 128;" :: "r"(group + 1) : "memory"); }

// The pairs of tiles that a cluster computes: two tiles of rows, and the same weight rows.
struct Tiles {
    int pairs, columns, at;
    int pair, column; // of the current tiles
    __device__ __forceinline__ Tiles(int rows) : pairs((rows + 2 * SWIGLU_TILE_ROWS - 1) / (2 * SWIGLU_TILE_ROWS)),
            columns((INTERMEDIATE + COLUMNS - 1) / COLUMNS), at(blockIdx.x / 2) {}
    __device__ __forceinline__ bool next() {
        if (at >= pairs * columns) return false;
        int round = at / (PAIRS_PER_ROUND * columns), firstPair = round * PAIRS_PER_ROUND,
                count = min(PAIRS_PER_ROUND, pairs - firstPair), index = at - firstPair * columns;
        pair = firstPair + index % count;
        column = index / count;
        at += gridDim.x / 2;
        return true;
    }
};

__device__ __forceinline__ void fetchTiles(Tiles tiles, const TensorMap *weights, const TensorMap *x, char *ring,
        u64 *full, u64 *empty, int rank, int count) {
    for (int stage = 0; tiles.next();)
        for (int k = 0; k < count; k++, stage++) {
            int slot = stage % STAGES;
            char *to = ring + slot * STAGE_BYTES;
            if (stage >= STAGES) barrierWait(&empty[slot], (stage / STAGES - 1) & 1);
            barrierExpect(&full[slot], STAGE_BYTES);
            fetchPairsMulticast(to + X_BYTES + rank * HALF_BYTES, weights, k * 64,
                    tiles.column * (SWIGLU_TILE_WEIGHTS / 16) + rank * (SWIGLU_TILE_WEIGHTS / 32), &full[slot]);
            fetchBox(to, x, k * 64, (tiles.pair * 2 + rank) * SWIGLU_TILE_ROWS, &full[slot], EVICT_LAST);
        }
}

// Writes gatedOf(gate, up) of a warpgroup's sums to its panels. A warp writes 16 rows, 16 columns at a time.
__device__ __forceinline__ void activate(const float (*sums)[4], char *panels) {
    int row = threadIdx.x % 128 / 32 * 16 + threadIdx.x % 16, next = threadIdx.x % 32 / 16;
#pragma unroll
    for (int j = 0; j < COLUMNS / 8; j += 2) {
        word r[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *gate = sums[2 * (j + i / 2)] + i % 2 * 2, *up = sums[2 * (j + i / 2) + 1] + i % 2 * 2;
            r[i] = pack(gatedOf(gate[0], up[0]), gatedOf(gate[1], up[1]));
        }
        storeMatrices4(address(panels) + j / 8 * PANEL_BYTES + swizzled(row, j % 8 + next), r);
    }
}

__device__ __forceinline__ void multiplyTiles(Tiles tiles, const TensorMap *out, char *ring, u64 *full, u64 *empty,
        int rank, int count) {
    int group = threadIdx.x / 128, thread = threadIdx.x % 128;
    char *panels = ring + STAGES * STAGE_BYTES + group * PANELS * PANEL_BYTES;
    for (int stage = 0; tiles.next();) {
        float sums[SWIGLU_TILE_WEIGHTS / 8][4];
        for (int k = 0; k < count; k++, stage++) {
            barrierWait(&full[stage % STAGES], stage / STAGES & 1);
            word at = address(ring) + stage % STAGES * STAGE_BYTES;
            u64 rowsOfX = matrixDescriptor(at + group * PANEL_BYTES, 16),
                    weightRows = matrixDescriptor(at + X_BYTES, 16);
            wgmmaFence();
#pragma unroll
            for (int i = 0; i < 4; i++) multiplyTile(sums, rowsOfX + 2 * i, weightRows + 2 * i, k + i);
            wgmmaCommit();
            wgmmaWait<1>();
            if (k > 0 && thread < 2) arriveAt(&empty[(stage - 1) % STAGES], thread);
        }
        wgmmaWait<0>();
        fenceAccumulators<SWIGLU_TILE_WEIGHTS / 8>(sums);
        if (thread < 2) arriveAt(&empty[(stage - 1) % STAGES], thread);
        // the copies of the previous tile's results have read the panels
        if (thread == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        groupSync(group);
        activate(sums, panels);
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        groupSync(group);
        if (thread == 0)
            for (int p = 0; p < PANELS; p++)
                storeBox(out, panels + p * PANEL_BYTES, tiles.column * COLUMNS + p * 64,
                        (tiles.pair * 2 + rank) * SWIGLU_TILE_ROWS + group * 64);
    }
    if (thread == 0) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// Rows behind `rows`, up to a multiple of 256, are computed if x and out have memory for them.
// grid: any even number of thread blocks
extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(GEMM_SWIGLU_THREADS, 1) gemm_swiglu(
         const __grid_constant__ TensorMap weights, const __grid_constant__ TensorMap x,
        const __grid_constant__ TensorMap out, int rows, int depth) {
    extern __shared__ __align__(1024) char ring[];
    __shared__ u64 full[STAGES], empty[STAGES];
    dependentsLaunch();
    int rank = rankInCluster(), count = (depth + 63) / 64;
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(&full[i], 1);
            barrierInit(&empty[i], 4); // two warpgroups of both thread blocks
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    clusterSync();
    dependencyWait();
    if (threadIdx.x >= 256) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 256) fetchTiles(Tiles(rows), &weights, &x, ring, full, empty, rank, count);
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        multiplyTiles(Tiles(rows), &out, ring, full, empty, rank, count);
    }
    __syncwarp();
    clusterSync(); // the other thread block may arrive at this one's barriers until here
}
