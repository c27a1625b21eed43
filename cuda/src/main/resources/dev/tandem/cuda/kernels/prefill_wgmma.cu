// Causal attention of prompt chunks over paged KV on Hopper, for heads of 64 and 128: queries [rows][HEADS][HEAD_WIDTH]
// -> out of the same shape.
//
// Two warpgroups take 64 of a tile's 128 rows each and multiply them asynchronously by K and V in shared memory; a
// third warpgroup stages these ahead of them. While a warpgroup computes the softmax of one stage, its GEMMs of the
// stage before and the other warpgroup's run. Thread blocks stay for all tiles.
//
// Shared memory (dynamic): STAGES of { K, V }, each HEAD_WIDTH / 64 panels of [64 tokens][64] 16-bit, swizzled. Static:
// barriers full and empty [STAGES]; last, whether this thread block merges.
//
// Waits and signals:
//   the kernel before      dependencyWait; decode attention beside this kernel begins only after it
//   full[stage]            the staging warpgroup has filled it: both others wait
//   empty[stage]           the 8 attending warps have read it: the staging warpgroup waits
//   finished[tile]         thread blocks that share a tile count in it (merge of tiles.cu)

#define PANEL_BYTES (STAGE_TOKENS * 128)               // 64 dimensions of a stage's tokens
#define VALUES_AT (HEAD_WIDTH / 64 * PANEL_BYTES)
#define STAGE_BYTES (2 * VALUES_AT)
#define ATTENDERS 256
#define STAGERS 128
#define ROW_CHUNKS (HEAD_WIDTH / 8)                    // 16-byte pieces of a token's K or V
#define TOKENS_AT_ONCE (STAGERS / ROW_CHUNKS)
#define STAGE_BLOCKS (STAGE_TOKENS / BLOCK_TOKENS)

// d [64 x 64] = (ADD: +) a [64 x 16] b [16 x 64]; ROWS: b's rows are those to sum over
template <int ADD, int ROWS> __device__ __forceinline__ void multiply64(float (*d)[4], const word *a, wide b) {
    asm volatile("{\n.reg .pred add;\nsetp.ne.s32 add, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16." TYPES
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
        "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31}, {%32,%33,%34,%35}, %36, add, 1, 1, %38;\n}"
        : FLOATS32(d, 0) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(ADD), "n"(ROWS));
}

// d [64 x 128] += a [64 x 16] b [16 x 128], b's rows those to sum over
__device__ __forceinline__ void multiply128(float (*d)[4], const word *a, wide b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16." TYPES
        " {%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,"
        "%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,"
        "%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,"
        "%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;\n"
        : FLOATS32(d, 0), FLOATS32(d, 8) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// K and V of stages from their blocks into shared memory: K by asynchronous copies, V through registers, because two
// tokens lie interleaved in a block and are to lie apart. Both are asked for two stages ahead, across tiles.
struct Stager {
    static const int VALUES = STAGE_TOKENS / 2 / TOKENS_AT_ONCE, BLOCKS_AT_ONCE = TOKENS_AT_ONCE / (BLOCK_TOKENS / 2);
    const half16 *blocks;
    const int *tables;
    int poolBlocks, stagingShift;
    Work work;
    int stage, stop;                  // of the work at hand: the next to be found, and behind the last
    int row;                          // of the tokens, or pairs, taken at once
    int keyFrom, keyTo, valueFrom, evenTo, oddTo;
    int head;                         // of the stage that has been found; -1: there is no further
    int asked;                        // stages so far
    int ids[STAGE_BLOCKS];
    uint4 values[2][VALUES][2];

    __device__ __forceinline__ Stager(const half16 *blocks, const int *tables, const Work &work, int poolBlocks,
            int stagingShift)
            : blocks(blocks), tables(tables), poolBlocks(poolBlocks), stagingShift(stagingShift), work(work), stage(0),
                    stop(0), head(0), asked(0) {
        int thread = threadIdx.x - ATTENDERS, chunk = thread % ROW_CHUNKS;
        row = thread / ROW_CHUNKS;
        keyFrom = row * HEAD_WIDTH + chunk * 8;
        keyTo = chunk / 8 * PANEL_BYTES + swizzled(row, chunk % 8);
        valueFrom = KV_TILE + (row % (BLOCK_TOKENS / 2) * HEAD_WIDTH + chunk * 8) * 2;
        evenTo = VALUES_AT + chunk / 8 * PANEL_BYTES + swizzled(2 * row, chunk % 8);
        oddTo = VALUES_AT + chunk / 8 * PANEL_BYTES + swizzled(2 * row + 1, chunk % 8);
    }

    __device__ __forceinline__ void find() {
        if (stage == stop) {
            if (head < 0 || !work.next()) {
                head = -1;
                return;
            }
            stage = work.share.first;
            stop = stage + work.share.count;
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

    // Hands over the number-th stage, which was asked for, and asks for the one that has been found.
    template <int BUFFER> __device__ __forceinline__ void handOver(char *ring, wide *full, wide *empty, int number) {
        storeValues<BUFFER>(ring + number % STAGES * STAGE_BYTES);
        copyWait<1>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); // wgmma reads through another proxy
        barrierArrive(&full[number % STAGES]);
        int next = number + 2;
        if (head >= 0) {
            if (next >= STAGES) barrierWait(&empty[next % STAGES], (next / STAGES - 1) & 1);
            load<BUFFER>(ring + next % STAGES * STAGE_BYTES);
            asked++;
            find();
        }
        copyCommit();
    }

    __device__ __forceinline__ void all(char *ring, wide *full, wide *empty) {
        find();
        if (head >= 0) {
            load<0>(ring);
            asked++;
            find();
        }
        copyCommit();
        if (head >= 0) {
            load<1>(ring + STAGE_BYTES);
            asked++;
            find();
        }
        copyCommit();
        for (int number = 0; number < asked; number += 2) {
            handOver<0>(ring, full, empty, number);
            if (number + 1 < asked) handOver<1>(ring, full, empty, number + 1);
        }
    }
};

// Results of four groups of 8 columns, two columns a lane, become one group of 8 columns a lane.
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
        wide keys = operand(stage + k / 4 * PANEL_BYTES + k % 4 * 32, 16);
        if (k == 0) multiply64<0, 0>(s, query[k], keys);
        else multiply64<1, 0>(s, query[k], keys);
    }
}

__device__ __forceinline__ void addValues(float (*sums)[4], const word (*weights)[4], word stage) {
#pragma unroll
    for (int k = 0; k < STAGE_TOKENS / 16; k++) {
        wide values = operand(stage + VALUES_AT + k * 16 * 128, PANEL_BYTES);
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

// Waits for what is being added up of the slot `attended`, if any, and gives the slot back.
__device__ __forceinline__ void settle(float (*sums)[4], int attended, wide *empty) {
    gemmWait<0>();
    hold<HEAD_WIDTH / 8>(sums);
    if (attended >= 0 && threadIdx.x % 32 == 0) barrierArrive(&empty[attended]);
}

__device__ __forceinline__ void rescale(float (*sums)[4], const float *factor) {
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++) {
        sums[n][0] *= factor[0]; sums[n][1] *= factor[0];
        sums[n][2] *= factor[1]; sums[n][3] *= factor[1];
    }
}

// Attention of one work's rows; `number`: stages before its first.
__device__ __forceinline__ void attend(const Work &work, const half16 *queries, float scale, half16 *out, int splits,
        float *parts, int *finished, word base, wide *full, wide *empty, int &number) {
    const Tile &tile = work.tile;
    const Share &mine = work.share;
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
    gemmBegin();
    scores(s, query, base + number % STAGES * STAGE_BYTES);
    gemmCommit();
    gemmWait<0>();
    hold<STAGE_TOKENS / 8>(s);
    onlineSoftmax(s, at + STAGE_TOKENS > tile.position, at, rows.position, scale, maximum, total, factor);
    int attended = -1; // slot whose values are being added up
    for (int i = 1; i < mine.count; i++) {
        at += STAGE_TOKENS;
        int before = number++ % STAGES;
        barrierWait(&full[number % STAGES], number / STAGES & 1);
        settle(sums, attended, empty);
        rescale(sums, factor);
        packWeights(weights, s);
        attended = before;
        hold<STAGE_TOKENS / 8>(s);
        hold<HEAD_WIDTH / 8>(sums);
        gemmBegin();
        scores(s, query, base + number % STAGES * STAGE_BYTES);
        gemmCommit();
        addValues(sums, weights, base + before * STAGE_BYTES);
        gemmCommit();
        gemmWait<1>();
        hold<STAGE_TOKENS / 8>(s);
        onlineSoftmax(s, at + STAGE_TOKENS > tile.position, at, rows.position, scale, maximum, total, factor);
    }
    settle(sums, attended, empty);
    rescale(sums, factor);
    packWeights(weights, s);
    attended = number++ % STAGES;
    hold<HEAD_WIDTH / 8>(sums);
    gemmBegin();
    addValues(sums, weights, base + attended * STAGE_BYTES);
    gemmCommit();
    settle(sums, attended, empty);
    __shared__ bool last;
    if (mine.parts > 1 && !merge(mine, work.kvHead, splits, parts, finished, sums, maximum, total, scale, &last))
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
// any grid: its blocks take the parts of all tiles, of each KV head, between them; `splits` of a tile's context where
// it is long enough;
// finished [tiles][KV_HEADS] zeroed. With 160 registers a block of host tokens that are sent fits beside it (4,096 are
// left).
// With a step's header decode attention is the next kernel, and runs beside this one on the multiprocessors that the
// header leaves it: it does not wait for the kernel before, so it must not begin before that has ended. Then the header
// says how many share a tile, too.
extern "C" __global__ void __maxnreg__(160) prefill_attention(const half16 *queries, const half16 *blocks,
        const int *tables, const Tile *tiles, float scale, half16 *out, int poolBlocks, int stagingShift, int splits,
        float *parts, int *finished, int tileCount, const int *header) {
    extern __shared__ __align__(1024) char ring[];
    __shared__ wide full[STAGES], empty[STAGES];
    if (!header) dependentsLaunch();
    dependencyWait();
    if (header) dependentsLaunch();
    int working = header ? min(header[PROMPT_BLOCKS], (int)gridDim.x) : gridDim.x;
    if (blockIdx.x >= working) return;
    if (header) splits = header[PROMPT_SPLITS];
    if (threadIdx.x == 0) {
        for (int i = 0; i < STAGES; i++) {
            barrierInit(&full[i], STAGERS);
            barrierInit(&empty[i], ATTENDERS / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    Work work(tiles, tileCount, splits, working);
    if (threadIdx.x >= ATTENDERS) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 96;");
        Stager(blocks, tables, work, poolBlocks, stagingShift).all(ring, full, empty);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 192;");
    word base = address(ring);
    int number = 0;
    while (work.next()) attend(work, queries, scale, out, splits, parts, finished, base, full, empty, number);
}
