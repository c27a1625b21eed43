// Causal attention of prompt chunks over paged KV on Hopper, for heads of 64 and 128: queries [rows][HEADS][HEAD_WIDTH]
// -> out of the same shape.
//
// Two attention warpgroups compute 64 of a tile's 128 rows each, with wgmma on K and V in shared memory. A third, the
// staging warpgroup, copies K and V ahead of them; each of its halves stages every other stage. While an attention
// warpgroup computes the softmax of one stage, its wgmma of the stage before runs, and so does that of the other
// warpgroup. Thread blocks are persistent.
//
// Shared memory (dynamic): STAGES of { K, V }, each HEAD_WIDTH / 64 panels of [STAGE_TOKENS][64] 16-bit, swizzled.
// Static: barriers full and empty [STAGES]; last, whether this thread block merges partial results.
//
// Waits and signals:
//   previous kernel        dependencyWait; overlapping decode attention begins only after it
//   full[stage]            half of the staging warpgroup has filled it: the attention warpgroups wait
//   empty[stage]           the 8 attention warps have read it: half of the staging warpgroup waits
//   finished[tile]         thread blocks of the same tile count in it (mergePartials of tiles.cu)

#define PANEL_BYTES (STAGE_TOKENS * 128)               // 64 dimensions of a stage's tokens
#define VALUES_AT (HEAD_WIDTH / 64 * PANEL_BYTES)
#define STAGE_BYTES (2 * VALUES_AT)
#define ROW_CHUNKS (HEAD_WIDTH / 8)                    // 16-byte pieces of a token's K or V
#define STAGE_BLOCKS (STAGE_TOKENS / BLOCK_TOKENS)
#define STAGING_HALF (STAGING_THREADS / 2)

// d [64 x 64] = (ADD: +) a [64 x 16] b [16 x 64]; ROWS: shared memory has b as [16][64] instead of [64][16]
template <int ADD, int ROWS> __device__ __forceinline__ void multiply64(float (*d)[4], const word *a, u64 b) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.s32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16." TYPES
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
        "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;\n}"
        : FLOATS32(d, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(ADD), "n"(ROWS));
}

// d [64 x 128] += a [64 x 16] b [16 x 128]; shared memory has b as [16][128]
__device__ __forceinline__ void multiply128(float (*d)[4], const word *a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16." TYPES
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
        "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,"
        "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"
        "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
        : FLOATS32(d, 0), FLOATS32(d, 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// Half of the staging warpgroup: copies K and V of every other stage from KV blocks to shared memory. K is copied
// asynchronously. V goes through registers, because a block interleaves two tokens and wgmma needs them apart.
// The fence before a stage's signal waits for all loads of its threads. So a half has the loads of one stage under way,
// and the other half those of the next.
struct Stager {
    static const int ROWS = STAGING_HALF / ROW_CHUNKS; // tokens of K, and token pairs of V, that are copied at once
    static const int KEYS = BLOCK_TOKENS / ROWS, VALUES = BLOCK_TOKENS / 2 / ROWS; // copies of a block
    const half16 *blocks;
    const int *tables;
    int poolBlocks, stagingShift;
    Work work;
    int stage, stop;                  // of the current work unit: the next stage, and the end
    int keyTo[2], evenTo, oddTo;      // this thread's first tokens of K, and of V, in a stage
    int head;                         // KV head of the stage that find has looked up; -1: no more stages
    int ids[STAGE_BLOCKS];            // blocks of the stage that find has looked up
    uint4 values[STAGE_BLOCKS][VALUES][2];

    __device__ __forceinline__ Stager(const half16 *blocks, const int *tables, const Work &work, int poolBlocks,
            int stagingShift)
            : blocks(blocks), tables(tables), poolBlocks(poolBlocks), stagingShift(stagingShift), work(work), stage(0),
                    stop(0), head(0) {
        int thread = threadIdx.x % STAGING_HALF, row = thread / ROW_CHUNKS, chunk = thread % ROW_CHUNKS;
        int panel = chunk / 8 * PANEL_BYTES;
        keyTo[0] = panel + swizzled(row, chunk % 8);
        keyTo[1] = panel + swizzled(row + ROWS, chunk % 8);
        evenTo = VALUES_AT + panel + swizzled(2 * row, chunk % 8);
        oddTo = VALUES_AT + panel + swizzled(2 * row + 1, chunk % 8);
    }

    // Looks up the blocks of the stage `steps` stages further. Behind the context it repeats the last block, whose
    // tokens have no weight there.
    __device__ __forceinline__ void find(int steps) {
        for (; steps > 0; steps--) {
            if (stage == stop) {
                if (!work.next()) {
                    head = -1;
                    return;
                }
                stage = work.context.first;
                stop = stage + work.context.count;
            }
            stage++;
        }
        head = work.kvHead;
        int last = (work.tile.position + work.tile.rows - 1) / BLOCK_TOKENS;
#pragma unroll
        for (int b = 0; b < STAGE_BLOCKS; b++)
            ids[b] = tables[work.tile.table + min((stage - 1) * STAGE_BLOCKS + b, last)];
    }

    // This thread's part of the first K of block b
    __device__ __forceinline__ const half16 *keys(int b) const {
        return layerBlock(blocks, ids[b], poolBlocks, stagingShift) + head * (2 * KV_TILE)
                + threadIdx.x % STAGING_HALF * 8;
    }

    __device__ __forceinline__ void loadValues() {
#pragma unroll
        for (int b = 0; b < STAGE_BLOCKS; b++) {
            const half16 *from = keys(b) + KV_TILE + threadIdx.x % STAGING_HALF * 8;
#pragma unroll
            for (int i = 0; i < VALUES; i++) {
                values[b][i][0] = *(const uint4 *)(from + i * ROWS * HEAD_WIDTH * 2);
                values[b][i][1] = *(const uint4 *)(from + i * ROWS * HEAD_WIDTH * 2 + 8);
            }
        }
    }

    __device__ __forceinline__ void copyKeys(char *to) const {
#pragma unroll
        for (int b = 0; b < STAGE_BLOCKS; b++) {
            const half16 *from = keys(b);
#pragma unroll
            for (int i = 0; i < KEYS; i++)
                copy16(to + keyTo[i % 2] + (b * BLOCK_TOKENS + i / 2 * 2 * ROWS) * 128, from + i * ROWS * HEAD_WIDTH);
        }
        copyCommit();
    }

    __device__ __forceinline__ void storeValues(char *to) const {
#pragma unroll
        for (int b = 0; b < STAGE_BLOCKS; b++) {
#pragma unroll
            for (int i = 0; i < VALUES; i++) {
                uint4 v = values[b][i][0], w = values[b][i][1];
                int at = (b * BLOCK_TOKENS + 2 * i * ROWS) * 128;
                *(uint4 *)(to + evenTo + at) = make_uint4(
                    __byte_perm(v.x, v.y, 0x5410), __byte_perm(v.z, v.w, 0x5410), __byte_perm(w.x, w.y, 0x5410),
                            __byte_perm(w.z, w.w, 0x5410));
                *(uint4 *)(to + oddTo + at) = make_uint4(
                    __byte_perm(v.x, v.y, 0x7632), __byte_perm(v.z, v.w, 0x7632), __byte_perm(w.x, w.y, 0x7632),
                            __byte_perm(w.z, w.w, 0x7632));
            }
        }
    }

    __device__ __forceinline__ void run(char *ring, u64 *full, u64 *empty) {
        // a shuffle tells the compiler that the whole warp has the same number
        int number = __shfl_sync(~0u, (threadIdx.x - PREFILL_THREADS) / STAGING_HALF, 0);
        find(number + 1);
        for (; head >= 0; number += 2) {
            char *to = ring + number % STAGES * STAGE_BYTES;
            loadValues();
            if (number >= STAGES) barrierWait(&empty[number % STAGES], (number / STAGES - 1) & 1);
            copyKeys(to);
            find(2);
            storeValues(to);
            copyWait<0>();
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads through another proxy
            barrierArrive(&full[number % STAGES]);
        }
    }
};

// Exchanges results between four lanes: from two columns of each of four groups of 8 columns, to all 8 columns of one
// group.
__device__ __forceinline__ uint4 gather(word *w) {
    int q = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
        word x = __shfl_xor_sync(~0u, q & 1 ? w[i] : w[i + 1], 1);
        if (q & 1) w[i] = x; else w[i + 1] = x;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) {
        word x = __shfl_xor_sync(~0u, q & 2 ? w[i] : w[i + 2], 2);
        if (q & 2) w[i] = x; else w[i + 2] = x;
    }
    return make_uint4(w[0], w[1], w[2], w[3]);
}

__device__ __forceinline__ void scores(float (*s)[4], const word (*query)[4], word stage) {
    u64 first = matrixDescriptor(stage, 16);
#pragma unroll
    for (int k = 0; k < HEAD_WIDTH / 16; k++) {
        u64 keys = first + (k / 4 * PANEL_BYTES + k % 4 * 32 >> 4); // a descriptor counts 16 bytes
        if (k == 0) multiply64<0, 0>(s, query[k], keys);
        else multiply64<1, 0>(s, query[k], keys);
    }
}

__device__ __forceinline__ void addValues(float (*sums)[4], const word (*weights)[4], word stage) {
    u64 first = matrixDescriptor(stage + VALUES_AT, PANEL_BYTES);
#pragma unroll
    for (int k = 0; k < STAGE_TOKENS / 16; k++) {
        u64 values = first + (k * 16 * 128 >> 4);
#if HEAD_WIDTH == 128
        multiply128(sums, weights[k], values);
#else
        multiply64<1, 1>(sums, weights[k], values);
#endif
    }
}

__device__ __forceinline__ void packWeights(word (*weights)[4], const float (*s)[4]) {
#pragma unroll
    for (int k = 0; k < STAGE_TOKENS / 16; k++) {
        weights[k][0] = pack(s[2 * k][0], s[2 * k][1]);
        weights[k][1] = pack(s[2 * k][2], s[2 * k][3]);
        weights[k][2] = pack(s[2 * k + 1][0], s[2 * k + 1][1]);
        weights[k][3] = pack(s[2 * k + 1][2], s[2 * k + 1][3]);
    }
}

// Waits for the wgmma that reads V of stage buffer `reading`, if any (-1: none), and releases the buffer.
__device__ __forceinline__ void finishValues(float (*sums)[4], int reading, u64 *empty) {
    wgmmaWait<0>();
    fenceAccumulators<HEAD_WIDTH / 8>(sums);
    if (reading >= 0 && threadIdx.x % 32 == 0) barrierArrive(&empty[reading]);
}

__device__ __forceinline__ void rescale(float (*sums)[4], const float *factor) {
    if (!__any_sync(~0u, factor[0] != 1 || factor[1] != 1)) return;
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++) {
        sums[n][0] *= factor[0]; sums[n][1] *= factor[0];
        sums[n][2] *= factor[1]; sums[n][3] *= factor[1];
    }
}

// Computes a work unit. number: of its first stage, counted over all work units of this thread block
__device__ __forceinline__ void computeUnit(const Work &work, const half16 *queries, float scale, half16 *out,
        int splits, float *parts, int *finished, word base, u64 *full, u64 *empty, int &number) {
    const Tile &tile = work.tile;
    const ContextPart &mine = work.context;
    int q = threadIdx.x % 4;
    Rows rows = rowsOf(tile, work.kvHead);
    word query[HEAD_WIDTH / 16][4];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const half16 *from = queries + ((size_t)(tile.row + rows.token[h]) * HEADS + rows.head[h]) * HEAD_WIDTH + q * 2;
#pragma unroll
        for (int k = 0; k < HEAD_WIDTH / 16; k++) {
            query[k][h] = rows.used[h] ? *(const word *)(from + k * 16) : 0;
            query[k][h + 2] = rows.used[h] ? *(const word *)(from + k * 16 + 8) : 0;
        }
    }
    float sums[HEAD_WIDTH / 8][4], s[STAGE_TOKENS / 8][4];
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
    float reference[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0}, factor[2];
    word weights[STAGE_TOKENS / 16][4];
    int at = mine.first * STAGE_TOKENS;
    barrierWait(&full[number % STAGES], number / STAGES & 1);
    wgmmaFence();
    scores(s, query, base + number % STAGES * STAGE_BYTES);
    wgmmaCommit();
    wgmmaWait<0>();
    fenceAccumulators<STAGE_TOKENS / 8>(s);
    onlineSoftmax(s, hides(tile, at, work.window), at, rows.position, work.window, scale, reference, total, factor);
    int reading = -1; // stage buffer whose V a wgmma is reading
    for (int i = 1; i < mine.count; i++) {
        at += STAGE_TOKENS;
        int before = number++ % STAGES;
        barrierWait(&full[number % STAGES], number / STAGES & 1);
        finishValues(sums, reading, empty);
        packWeights(weights, s);
        reading = before;
        fenceAccumulators<STAGE_TOKENS / 8>(s);
        wgmmaFence();
        scores(s, query, base + number % STAGES * STAGE_BYTES);
        wgmmaCommit();
        rescale(sums, factor);
        fenceAccumulators<HEAD_WIDTH / 8>(sums);
        wgmmaFence();
        addValues(sums, weights, base + before * STAGE_BYTES);
        wgmmaCommit();
        wgmmaWait<1>();
        fenceAccumulators<STAGE_TOKENS / 8>(s);
        onlineSoftmax(s, hides(tile, at, work.window), at, rows.position, work.window, scale, reference, total, factor);
    }
    finishValues(sums, reading, empty);
    rescale(sums, factor);
    packWeights(weights, s);
    reading = number++ % STAGES;
    fenceAccumulators<HEAD_WIDTH / 8>(sums);
    wgmmaFence();
    addValues(sums, weights, base + reading * STAGE_BYTES);
    wgmmaCommit();
    finishValues(sums, reading, empty);
    __shared__ bool last;
    if (mine.parts > 1
            && !mergePartials(mine, work.kvHead, splits, parts, finished, sums, reference, total, scale, &last))
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
        float inverse = 1 / total[h];
        half16 *to = out + ((size_t)(tile.row + rows.token[h]) * HEADS + rows.head[h]) * HEAD_WIDTH + q * 8;
#pragma unroll
        for (int t = 0; t < HEAD_WIDTH / 32; t++) {
            word w[4];
#pragma unroll
            for (int n = 0; n < 4; n++)
                w[n] = pack(sums[4 * t + n][2 * h] * inverse, sums[4 * t + n][2 * h + 1] * inverse);
            uint4 eight = gather(w);
            if (rows.used[h]) *(uint4 *)(to + t * 32) = eight;
        }
    }
}

// queries, out [rows][HEADS][HEAD_WIDTH]; tables of block numbers, as layerBlock takes them;
// finished [tiles][KV_HEADS] is zero before and after. Any grid: the thread blocks take the work units in turn
// (tiles.cu). With 160 registers per thread, 4,096 registers of a multiprocessor are left, enough for a thread block of
// few registers that copies over the link.
// With a header, the next kernel is decode attention, which runs on the multiprocessors that the header leaves it. It
// does not wait for the kernel before this one, so this kernel lets it start only after that kernel has ended. The
// header also has the number of splits.
// window: of the layer, see tiles.cu
extern "C" __global__ void __maxnreg__(160) prefill_attention(const half16 *queries, const half16 *blocks,
        const int *tables, const Tile *tiles, float scale, half16 *out, int poolBlocks, int stagingShift, int splits,
        float *parts, int *finished, int tileCount, const int *header, int window) {
    extern __shared__ __align__(1024) char ring[];
    __shared__ u64 full[STAGES], empty[STAGES];
    if (!header) dependentsLaunch();
    dependencyWait();
    if (header) dependentsLaunch();
    int working = header ? min(header[PROMPT_BLOCKS], (int)gridDim.x) : gridDim.x;
    if (blockIdx.x >= working) return;
    if (header) splits = header[PROMPT_SPLITS];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(&full[i], STAGING_HALF);
            barrierInit(&empty[i], PREFILL_THREADS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    Work work(tiles, tileCount, splits, working, window);
    if (threadIdx.x >= PREFILL_THREADS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 112;");
        Stager(blocks, tables, work, poolBlocks, stagingShift).run(ring, full, empty);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 184;");
    word base = address(ring);
    int number = 0;
    while (work.next()) computeUnit(work, queries, scale, out, splits, parts, finished, base, full, empty, number);
}
