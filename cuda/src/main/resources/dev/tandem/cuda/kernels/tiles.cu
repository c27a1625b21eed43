// Joined in front of both kernels of prefill attention. A block takes a tile of a chunk's tokens with all heads of one
// group, 128 rows of (token, head): row 16 warp + lane / 4, and the one 8 further on, are a thread's; so are their
// results.
#define TILE_TOKENS (128 / GROUP)

struct Tile { int row, rows, position, table; };

// What a thread of one block of a tile has: the blocks that share a tile's context leave it for the last of them, which
// adds them up in their order. parts [tiles][KV_HEADS][splits][PART_VALUES][256 threads]
#define PART_VALUES (HEAD_WIDTH / 2 + 4)
#define MIN_STAGES 2

__device__ __forceinline__ void leavePart(float *part, const float (*sums)[4], const float *maximum,
        const float *total) {
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) part[(n * 4 + i) * 256 + threadIdx.x] = sums[n][i];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        part[(HEAD_WIDTH / 2 + h) * 256 + threadIdx.x] = maximum[h];
        part[(HEAD_WIDTH / 2 + 2 + h) * 256 + threadIdx.x] = total[h];
    }
}

__device__ __forceinline__ void addPart(const float *part, float (*sums)[4], float *maximum, float *total,
        float scale) {
    float mine[2], theirs[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float other = __ldcg(part + (HEAD_WIDTH / 2 + h) * 256 + threadIdx.x), top = fmaxf(maximum[h], other);
        float m = top == -INFINITE ? 0 : top;
        mine[h] = exp2Fast((maximum[h] - m) * scale);
        theirs[h] = exp2Fast((other - m) * scale);
        maximum[h] = top;
        total[h] = total[h] * mine[h] + __ldcg(part + (HEAD_WIDTH / 2 + 2 + h) * 256 + threadIdx.x) * theirs[h];
    }
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[n][i] = sums[n][i] * mine[i / 2] + __ldcg(part + (n * 4 + i) * 256 + threadIdx.x) * theirs[i / 2];
        }
}

// The stages of a tile's context that one of its blocks takes; none has fewer than MIN_STAGES unless it is alone.
struct Share { int tile, part, parts, first, count; };

// `at`: of the parts of all tiles
__device__ __forceinline__ Share share(const Tile &tile, int at, int splits) {
    int stages = (tile.position + tile.rows + STAGE_TOKENS - 1) / STAGE_TOKENS;
    Share s;
    s.tile = at / splits;
    s.part = at % splits;
    s.parts = max(1, min(splits, stages / MIN_STAGES));
    s.first = stages * s.part / s.parts;
    s.count = stages * (s.part + 1) / s.parts - s.first;
    return s;
}

// What a block does, one after the other: the parts of all tiles and KV heads, the longest first. The first `blocks` of
// the grid take them in turns, and every other time the other way round, so that none has the longest each time.
struct Work {
    const Tile *tiles;
    int splits, items, blocks, turn;
    Tile tile;
    Share share;
    int kvHead;

    __device__ __forceinline__ Work(const Tile *tiles, int tileCount, int splits, int blocks)
            : tiles(tiles), splits(splits), items(tileCount * splits * KV_HEADS), blocks(blocks), turn(0) {}

    __device__ __forceinline__ bool next() {
        for (; turn * blocks < items; ) {
            int item = turn * blocks + (turn & 1 ? blocks - 1 - (int)blockIdx.x : (int)blockIdx.x);
            turn++;
            if (item >= items) continue;
            kvHead = item % KV_HEADS;
            tile = tiles[item / KV_HEADS / splits];
            share = ::share(tile, item / KV_HEADS, splits);
            if (tile.rows > 0 && share.part < share.parts) return true; // tiles without rows fill up a graph's
        }
        return false;
    }
};

// This thread's two rows of a tile.
struct Rows { int token[2], head[2], position[2]; bool used[2]; };

__device__ __forceinline__ Rows rowsOf(const Tile &tile, int kvHead) {
    Rows rows;
#pragma unroll
    for (int h = 0; h < 2; h++) {
        int r = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + h * 8;
        rows.token[h] = r / GROUP;
        rows.head[h] = kvHead * GROUP + r % GROUP;
        rows.used[h] = rows.token[h] < tile.rows && r < TILE_TOKENS * GROUP;
        rows.position[h] = rows.used[h] ? tile.position + rows.token[h] : -1;
    }
    return rows;
}

// Scores of STAGE_TOKENS tokens from `at` on become powers of 2, relative to the largest so far; what was summed before
// is to be multiplied by factor. s[n]: tokens 8n + 2 (lane % 4) and the next one, of both rows
__device__ __forceinline__ void onlineSoftmax(float (*s)[4], bool masked, int at, const int *position, float scale,
        float *maximum, float *total, float *factor) {
    float top[2] = {maximum[0], maximum[1]};
#pragma unroll
    for (int n = 0; n < STAGE_TOKENS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (masked && at + n * 8 + threadIdx.x % 4 * 2 + i % 2 > position[i / 2]) s[n][i] = -INFINITE;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        // a row that sees nothing yet keeps a finite maximum, so that no difference is infinite minus infinite
        float m = top[h] == -INFINITE ? 0 : top[h];
        factor[h] = exp2Fast((maximum[h] - m) * scale);
        maximum[h] = top[h];
        top[h] = m * scale;
        total[h] *= factor[h];
    }
#pragma unroll
    for (int n = 0; n < STAGE_TOKENS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            s[n][i] = exp2Fast(fmaf(s[n][i], scale, -top[i / 2]));
            total[i / 2] += s[n][i];
        }
    }
}

__device__ __forceinline__ void attendersMeet() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// Where blocks share a tile: whether this one is the last, which has everything then. `last` is shared memory that
// nothing else uses meanwhile.
__device__ __forceinline__ bool merge(const Share &share, int kvHead, int splits, float *parts, int *finished,
        float (*sums)[4], float *maximum, float *total, float scale, bool *last) {
    const size_t PART = PART_VALUES * 256;
    int pair = share.tile * KV_HEADS + kvHead;
    float *first = parts + (size_t)pair * splits * PART;
    leavePart(first + share.part * PART, sums, maximum, total);
    stressDelay();
    __threadfence();
    attendersMeet();
    if (threadIdx.x == 0) {
        *last = atomicAdd(finished + pair, 1) == share.parts - 1;
        if (*last) finished[pair] = 0;
    }
    attendersMeet();
    if (!*last) return false;
    __threadfence();
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
    maximum[0] = maximum[1] = -INFINITE;
    total[0] = total[1] = 0;
    for (int s = 0; s < share.parts; s++) addPart(first + s * PART, sums, maximum, total, scale);
    return true;
}
