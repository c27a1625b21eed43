// Causal attention of prompt chunks over paged KV on Hopper, for heads of 64 and 128: queries [rows][HEADS][HEAD_WIDTH]
// -> out of the same shape.
//
// Two attention warpgroups compute 64 of a tile's 128 rows each, with wgmma on K and V in shared memory. A third, the
// staging warpgroup, copies K and V ahead of them. While an attention warpgroup computes the softmax of one stage, its
// wgmma of the stage before runs, and so does that of the other warpgroup. Thread blocks are persistent.
//
// Shared memory (dynamic): STAGES of { K, V }, each HEAD_WIDTH / 64 panels of [STAGE_TOKENS][64] 16-bit, swizzled.
// Static: barriers full and empty [STAGES]; last, whether this thread block merges partial results.
//
// Waits and signals:
//   previous kernel        dependencyWait; overlapping decode attention begins only after it
//   full[stage]            the staging warpgroup has filled it: the attention warpgroups wait
//   empty[stage]           the 8 attention warps have read it: the staging warpgroup waits
//   finished[tile]         thread blocks of the same tile count in it (mergePartials of tiles.cu)

#define PANEL_BYTES (STAGE_TOKENS * 128)               // 64 dimensions of a stage's tokens
#define VALUES_AT (HEAD_WIDTH / 64 * PANEL_BYTES)
#define STAGE_BYTES (2 * VALUES_AT)
#define ROW_CHUNKS (HEAD_WIDTH / 8)                    // 16-byte pieces of a token's K or V
#define TOKENS_AT_ONCE (STAGING_THREADS / ROW_CHUNKS)
#define STAGE_BLOCKS (STAGE_TOKENS / BLOCK_TOKENS)

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

// The staging warpgroup: copies K and V of each stage from KV blocks to shared memory. K is copied asynchronously. V
// goes through registers, because a block interleaves two tokens and wgmma needs them apart. Loads begin two stages
// ahead, also across tiles.
struct Stager {
    static const int VALUES = STAGE_TOKENS / 2 / TOKENS_AT_ONCE, BLOCKS_AT_ONCE = TOKENS_AT_ONCE / (BLOCK_TOKENS / 2);
    const half16 *blocks;
    const int *tables;
    int poolBlocks, stagingShift;
    Work work;
    int stage, stop;                  // of the current work unit: the next stage to look up, and the end
    int row;                          // this thread's token of K, and token pair of V
    int keyFrom, keyTo, valueFrom, evenTo, oddTo;
    int head;                         // KV head of the stage that findNext has looked up; -1: no more stages
    int loads;                        // number of stages whose loads have begun
    int ids[STAGE_BLOCKS];            // blocks of the stage that findNext has looked up; -1: behind the context
    uint4 values[2][VALUES][2];

    __device__ __forceinline__ Stager(const half16 *blocks, const int *tables, const Work &work, int poolBlocks,
            int stagingShift)
            : blocks(blocks), tables(tables), poolBlocks(poolBlocks), stagingShift(stagingShift), work(work), stage(0),
                    stop(0), head(0), loads(0) {
        int thread = threadIdx.x - PREFILL_THREADS, chunk = thread % ROW_CHUNKS;
        row = thread / ROW_CHUNKS;
        keyFrom = row * HEAD_WIDTH + chunk * 8;
        keyTo = chunk / 8 * PANEL_BYTES + swizzled(row, chunk % 8);
        valueFrom = KV_TILE + (row % (BLOCK_TOKENS / 2) * HEAD_WIDTH + chunk * 8) * 2;
        evenTo = VALUES_AT + chunk / 8 * PANEL_BYTES + swizzled(2 * row, chunk % 8);
        oddTo = VALUES_AT + chunk / 8 * PANEL_BYTES + swizzled(2 * row + 1, chunk % 8);
    }

    __device__ __forceinline__ void findNext() {
        if (stage == stop) {
            if (head < 0 || !work.next()) {
                head = -1;
                return;
            }
            stage = work.context.first;
            stop = stage + work.context.count;
        }
        head = work.kvHead;
        int end = work.tile.position + work.tile.rows;
#pragma unroll
        for (int i = 0; i < STAGE_BLOCKS; i++) {
            int block = stage * STAGE_BLOCKS + i;
            ids[i] = block * BLOCK_TOKENS < end ? tables[work.tile.table + block] : -1;
        }
        stage++;
    }

    __device__ __forceinline__ const half16 *tile(int id) const {
        return layerBlock(blocks, id, poolBlocks, stagingShift) + head * (2 * KV_TILE);
    }

    template <int BUFFER> __device__ __forceinline__ void load(char *to) {
#pragma unroll
        for (int j = 0; j < STAGE_TOKENS / TOKENS_AT_ONCE; j++) {
            const int TOKEN = j * TOKENS_AT_ONCE;
            int id = ids[TOKEN / BLOCK_TOKENS];
            uint4 *key = (uint4 *)(to + keyTo + TOKEN * 128);
            if (id >= 0) copy16(key, tile(id) + TOKEN % BLOCK_TOKENS * HEAD_WIDTH + keyFrom);
            else *key = make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int k = 0; k < VALUES; k++) {
            int id = ids[k * BLOCKS_AT_ONCE];
            if (BLOCKS_AT_ONCE == 2 && row >= BLOCK_TOKENS / 2) id = ids[k * BLOCKS_AT_ONCE + BLOCKS_AT_ONCE - 1];
            const uint4 *from = (const uint4 *)(tile(id) + valueFrom);
            values[BUFFER][k][0] = id >= 0 ? from[0] : make_uint4(0, 0, 0, 0);
            values[BUFFER][k][1] = id >= 0 ? from[1] : make_uint4(0, 0, 0, 0);
        }
    }

    template <int BUFFER> __device__ __forceinline__ void storeValues(char *to) const {
#pragma unroll
        for (int k = 0; k < VALUES; k++) {
            uint4 a = values[BUFFER][k][0], b = values[BUFFER][k][1];
            *(uint4 *)(to + evenTo + k * TOKENS_AT_ONCE * 256) = make_uint4(
                __byte_perm(a.x, a.y, 0x5410), __byte_perm(a.z, a.w, 0x5410), __byte_perm(b.x, b.y, 0x5410),
                        __byte_perm(b.z, b.w, 0x5410));
            *(uint4 *)(to + oddTo + k * TOKENS_AT_ONCE * 256) = make_uint4(
                __byte_perm(a.x, a.y, 0x7632), __byte_perm(a.z, a.w, 0x7632), __byte_perm(b.x, b.y, 0x7632),
                        __byte_perm(b.z, b.w, 0x7632));
        }
    }

    // Completes stage `number`, whose loads have begun, and begins the loads of stage number + 2.
    template <int BUFFER> __device__ __forceinline__ void complete(char *ring, u64 *full, u64 *empty, int number) {
        storeValues<BUFFER>(ring + number % STAGES * STAGE_BYTES);
        copyWait<1>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads through another proxy
        barrierArrive(&full[number % STAGES]);
        int next = number + 2;
        if (head >= 0) {
            if (next >= STAGES) barrierWait(&empty[next % STAGES], (next / STAGES - 1) & 1);
            load<BUFFER>(ring + next % STAGES * STAGE_BYTES);
            loads++;
            findNext();
        }
        copyCommit();
    }

    __device__ __forceinline__ void run(char *ring, u64 *full, u64 *empty) {
        findNext();
        if (head >= 0) {
            load<0>(ring);
            loads++;
            findNext();
        }
        copyCommit();
        if (head >= 0) {
            load<1>(ring + STAGE_BYTES);
            loads++;
            findNext();
        }
        copyCommit();
        for (int number = 0; number < loads; number += 2) {
            complete<0>(ring, full, empty, number);
            if (number + 1 < loads) complete<1>(ring, full, empty, number + 1);
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
#pragma unroll
    for (int k = 0; k < HEAD_WIDTH / 16; k++) {
        u64 keys = matrixDescriptor(stage + k / 4 * PANEL_BYTES + k % 4 * 32, 16);
        if (k == 0) multiply64<0, 0>(s, query[k], keys);
        else multiply64<1, 0>(s, query[k], keys);
    }
}

__device__ __forceinline__ void addValues(float (*sums)[4], const word (*weights)[4], word stage) {
#pragma unroll
    for (int k = 0; k < STAGE_TOKENS / 16; k++) {
        u64 values = matrixDescriptor(stage + VALUES_AT + k * 16 * 128, PANEL_BYTES);
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
    float maximum[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0}, factor[2];
    word weights[STAGE_TOKENS / 16][4];
    int at = mine.first * STAGE_TOKENS;
    barrierWait(&full[number % STAGES], number / STAGES & 1);
    wgmmaFence();
    scores(s, query, base + number % STAGES * STAGE_BYTES);
    wgmmaCommit();
    wgmmaWait<0>();
    fenceAccumulators<STAGE_TOKENS / 8>(s);
    onlineSoftmax(s, hides(tile, at, work.window), at, rows.position, work.window, scale, maximum, total, factor);
    int reading = -1; // stage buffer whose V a wgmma is reading
    for (int i = 1; i < mine.count; i++) {
        at += STAGE_TOKENS;
        int before = number++ % STAGES;
        barrierWait(&full[number % STAGES], number / STAGES & 1);
        finishValues(sums, reading, empty);
        rescale(sums, factor);
        packWeights(weights, s);
        reading = before;
        fenceAccumulators<STAGE_TOKENS / 8>(s);
        fenceAccumulators<HEAD_WIDTH / 8>(sums);
        wgmmaFence();
        scores(s, query, base + number % STAGES * STAGE_BYTES);
        wgmmaCommit();
        addValues(sums, weights, base + before * STAGE_BYTES);
        wgmmaCommit();
        wgmmaWait<1>();
        fenceAccumulators<STAGE_TOKENS / 8>(s);
        onlineSoftmax(s, hides(tile, at, work.window), at, rows.position, work.window, scale, maximum, total, factor);
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
            && !mergePartials(mine, work.kvHead, splits, parts, finished, sums, maximum, total, scale, &last))
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
// send_host_tokens.
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
            barrierInit(&full[i], STAGING_THREADS);
            barrierInit(&empty[i], PREFILL_THREADS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    Work work(tiles, tileCount, splits, working, window);
    if (threadIdx.x >= PREFILL_THREADS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Stager(blocks, tables, work, poolBlocks, stagingShift).run(ring, full, empty);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
    word base = address(ring);
    int number = 0;
    while (work.next()) computeUnit(work, queries, scale, out, splits, parts, finished, base, full, empty, number);
}
