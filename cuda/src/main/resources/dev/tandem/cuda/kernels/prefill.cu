// Causal attention of prompt chunks over paged KV: queries [rows][HEADS][HEAD_WIDTH] -> out of the same shape.
//
// A thread block computes a tile (tiles.cu). Its 8 warps share K and V, staged STAGE_TOKENS tokens at a time. The
// tile's rows are the 16-row operand of S = Q K^T, and the registers of S are already the operand of P V.
//
// Shared memory (dynamic): STAGES of { K [STAGE_TOKENS][HEAD_WIDTH], V [STAGE_TOKENS / 2 pairs][HEAD_WIDTH][2] }
// 16-bit, swizzled. After the last stage, its first byte says whether this thread block merges partial results.
//
// Waits and signals: dependencyWait at the start. Thread blocks of the same tile count in `finished` (mergePartials of
// tiles.cu).

#define GROUPS32 (HEAD_WIDTH / 32)
#define STAGE_CHUNKS (STAGE_TOKENS * HEAD_WIDTH / 8)   // 16-byte pieces of K, and of V
#define KEY_SWIZZLE(token, chunk) (HEAD_WIDTH % 64 == 0 ? (chunk) ^ ((token) & 1) << 2 : (chunk))
#define VALUE_SWIZZLE(pair, chunk) ((chunk) ^ ((pair) & 3) << 1)

__device__ __forceinline__ void stageBlocks(uint4 *to, const half16 *blocks, const int *table, int kvHead, int token,
        int end, int poolBlocks, int stagingShift) {
    const int KEY_CHUNKS = HEAD_WIDTH / 8, VALUE_CHUNKS = HEAD_WIDTH / 4;
    for (int i = threadIdx.x; i < STAGE_CHUNKS; i += PREFILL_THREADS) {
        int row = i / KEY_CHUNKS, chunk = i % KEY_CHUNKS;
        int pair = i / VALUE_CHUNKS, piece = i % VALUE_CHUNKS;
        // K's token `row` and V's token pair `pair` are in the same block, because a block has 16 tokens in both
        int block = (token + row) / BLOCK_TOKENS;
        bool inside = block * BLOCK_TOKENS < end;
        int id = inside ? table[block] : 0;
        const half16 *tile = layerBlock(blocks, id, poolBlocks, stagingShift) + kvHead * 2 * KV_TILE;
        uint4 *key = to + row * KEY_CHUNKS + KEY_SWIZZLE(row, chunk);
        uint4 *value = to + STAGE_CHUNKS + pair * VALUE_CHUNKS + VALUE_SWIZZLE(pair, piece);
        if (inside) {
            copy16(key, tile + (row % BLOCK_TOKENS) * HEAD_WIDTH + chunk * 8);
            copy16(value, tile + KV_TILE + (pair % (BLOCK_TOKENS / 2)) * 2 * HEAD_WIDTH + piece * 8);
        } else {
            *key = make_uint4(0, 0, 0, 0);
            *value = make_uint4(0, 0, 0, 0);
        }
    }
    copyCommit();
}

// queries, out [rows][HEADS][HEAD_WIDTH]; tables of block numbers, as layerBlock takes them;
// finished [tiles][KV_HEADS] is zero before and after. grid (KV_HEADS * tiles * splits): up to `splits` thread blocks
// compute a tile, if its context is long enough.
// The parameter without a name is the header of prefill_wgmma.cu, whose kernel has the same parameters. This kernel
// does not use it, because it leaves no multiprocessors to decode attention.
// window: of the layer, see tiles.cu
extern "C" __global__ void __launch_bounds__(PREFILL_THREADS, 1) prefill_attention(const half16 *queries,
        const half16 *blocks, const int *tables, const Tile *tiles, float scale, half16 *out, int poolBlocks,
        int stagingShift, int splits, float *parts, int *finished, int tileCount, const int *, int window) {
    extern __shared__ uint4 staged[];
    dependentsLaunch();
    dependencyWait();
    Work work(tiles, tileCount, splits, gridDim.x, window);
    if (!work.next()) return;
    const Tile &tile = work.tile;
    const ContextPart &mine = work.context;
    const int *table = tables + tile.table;
    int kvHead = work.kvHead, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int end = tile.position + tile.rows, begin = mine.first * STAGE_TOKENS,
            stop = min(end, begin + mine.count * STAGE_TOKENS);
    Rows rows = rowsOf(tile, kvHead);
    uint4 f[2][GROUPS32];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        const half16 *query = queries + ((size_t)(tile.row + rows.token[h]) * HEADS + rows.head[h]) * HEAD_WIDTH + q
                * 8;
#pragma unroll
        for (int t = 0; t < GROUPS32; t++)
            f[h][t] = rows.used[h] ? *(const uint4 *)(query + t * 32) : make_uint4(0, 0, 0, 0);
    }
    float sums[HEAD_WIDTH / 8][4];
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
    float reference[2] = {-INFINITE, -INFINITE}, total[2] = {0, 0};
#if STAGES == 2
    stageBlocks(staged, blocks, table, kvHead, begin, end, poolBlocks, stagingShift);
#endif
    int buffer = 0;
    for (int at = begin; at < stop; at += STAGE_TOKENS) {
#if STAGES == 2
        if (at + STAGE_TOKENS < stop) {
            stageBlocks(staged + (buffer ^ 1) * 2 * STAGE_CHUNKS, blocks, table, kvHead, at + STAGE_TOKENS, end,
                    poolBlocks, stagingShift);
            copyWait<1>();
        } else {
            copyWait<0>();
        }
        const uint4 *keys = staged + buffer * 2 * STAGE_CHUNKS;
        buffer ^= 1;
#else
        stageBlocks(staged, blocks, table, kvHead, at, end, poolBlocks, stagingShift);
        copyWait<0>();
        const uint4 *keys = staged;
#endif
        const uint4 *values = keys + STAGE_CHUNKS;
        __syncthreads();
        float s[STAGE_TOKENS / 8][4];
#pragma unroll
        for (int n = 0; n < STAGE_TOKENS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) s[n][i] = 0;
        // tokens in the inner loop, so that consecutive MMAs have different accumulators
#pragma unroll
        for (int t = 0; t < GROUPS32; t++) {
            uint4 b[STAGE_TOKENS / 8];
#pragma unroll
            for (int n = 0; n < STAGE_TOKENS / 8; n++) {
                int k = n * 8 + g;
                b[n] = keys[k * (HEAD_WIDTH / 8) + KEY_SWIZZLE(k, t * 4 + q)];
            }
#pragma unroll
            for (int n = 0; n < STAGE_TOKENS / 8; n++)
                multiply(s[n], f[0][t].x, f[1][t].x, f[0][t].y, f[1][t].y, b[n].x, b[n].y);
#pragma unroll
            for (int n = 0; n < STAGE_TOKENS / 8; n++)
                multiply(s[n], f[0][t].z, f[1][t].z, f[0][t].w, f[1][t].w, b[n].z, b[n].w);
        }
        bool masked = hides(tile, at, window);
        float factor[2];
        onlineSoftmax(s, masked, at, rows.position, window, scale, reference, total, factor);
#pragma unroll
        for (int n = 0; n < HEAD_WIDTH / 8; n++) {
            sums[n][0] *= factor[0]; sums[n][1] *= factor[0];
            sums[n][2] *= factor[1]; sums[n][3] *= factor[1];
        }
#pragma unroll
        for (int k = 0; k < STAGE_TOKENS / 16; k++) {
            word a0 = pack(s[2 * k][0], s[2 * k][1]), a1 = pack(s[2 * k][2], s[2 * k][3]);
            word a2 = pack(s[2 * k + 1][0], s[2 * k + 1][1]), a3 = pack(s[2 * k + 1][2], s[2 * k + 1][3]);
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                int pair = k * 8 + q;
                uint4 b0 = values[pair * (HEAD_WIDTH / 4) + VALUE_SWIZZLE(pair, t * 8 + g)];
                uint4 b1 = values[(pair + 4) * (HEAD_WIDTH / 4) + VALUE_SWIZZLE(pair + 4, t * 8 + g)];
                multiply(sums[4 * t], a0, a1, a2, a3, b0.x, b1.x);
                multiply(sums[4 * t + 1], a0, a1, a2, a3, b0.y, b1.y);
                multiply(sums[4 * t + 2], a0, a1, a2, a3, b0.z, b1.z);
                multiply(sums[4 * t + 3], a0, a1, a2, a3, b0.w, b1.w);
            }
        }
        __syncthreads();
    }
    // The flag uses the first byte of the stages, which are free by now. The 64 KiB of a T4 hold two stages of heads of
    // 128, or one of heads of 256, and nothing else.
    if (mine.parts > 1
            && !mergePartials(mine, kvHead, splits, parts, finished, sums, reference, total, scale, (bool *)staged))
        return;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        total[h] += __shfl_xor_sync(~0u, total[h], 1);
        total[h] += __shfl_xor_sync(~0u, total[h], 2);
        if (!rows.used[h]) continue;
        float inverse = 1 / total[h];
        half16 *to = out + ((size_t)(tile.row + rows.token[h]) * HEADS + rows.head[h]) * HEAD_WIDTH + q * 8;
#pragma unroll
        for (int t = 0; t < GROUPS32; t++) {
            // columns 2q and 2q+1 of the four tiles are dimensions 8q .. 8q+7
            float *c0 = sums[4 * t], *c1 = sums[4 * t + 1], *c2 = sums[4 * t + 2], *c3 = sums[4 * t + 3];
            int left = 2 * h, right = 2 * h + 1;
            *(uint4 *)(to + t * 32) = make_uint4(
                pack(c0[left] * inverse, c1[left] * inverse), pack(c2[left] * inverse, c3[left] * inverse),
                pack(c0[right] * inverse, c1[right] * inverse), pack(c2[right] * inverse, c3[right] * inverse));
        }
    }
}
