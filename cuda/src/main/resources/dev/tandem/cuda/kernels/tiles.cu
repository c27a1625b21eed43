// Prepended to both kernels of prefill attention. A tile is up to TILE_TOKENS tokens of a chunk with all heads of one
// group: PREFILL_ROWS rows of (token, head). A thread computes two rows: 16 warp + lane / 4, and the one 8 further.
#define TILE_TOKENS (PREFILL_ROWS / GROUP)

// The tile's first batch row, its number of tokens, the position of its first token, and the index of its block table
struct Tile { int row, rows, position, table; };

// Sliding windows: a query sees the last `window` positions up to its own; 0 stands for all. Models in which no layer
// has a window are compiled without it (WINDOWS).

// Whether a query of the tile does not see some token of the stage at position `at`.
__device__ __forceinline__ bool hides(const Tile &tile, int at, int window) {
#if WINDOWS
    return at + STAGE_TOKENS > tile.position || (window > 0 && at <= tile.position + tile.rows - 1 - window);
#else
    return at + STAGE_TOKENS > tile.position;
#endif
}

// Whether a query at `position` does not see the token `token`.
__device__ __forceinline__ bool hidden(int token, int position, int window) {
#if WINDOWS
    return token > position || (window > 0 && token <= position - window);
#else
    return token > position;
#endif
}

#if WINDOWS
// Stages before the first one that a query of the tile sees.
__device__ __forceinline__ int stagesBefore(const Tile &tile, int window) {
    return window > 0 ? max(0, tile.position - window + 1) / STAGE_TOKENS : 0;
}
#endif

// Split-KV: several thread blocks may compute a tile, each for part of its context. Each publishes its partial result,
// and the last one to finish merges all of them in a fixed order.
// parts [tiles][KV_HEADS][splits][PART_VALUES][PREFILL_THREADS]
#define MIN_STAGES 2

__device__ __forceinline__ void publishPartial(float *part, const float (*sums)[4], const float *reference,
        const float *total) {
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) part[(n * 4 + i) * PREFILL_THREADS + threadIdx.x] = sums[n][i];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        part[(HEAD_WIDTH / 2 + h) * PREFILL_THREADS + threadIdx.x] = reference[h];
        part[(HEAD_WIDTH / 2 + 2 + h) * PREFILL_THREADS + threadIdx.x] = total[h];
    }
}

__device__ __forceinline__ void mergePartial(const float *part, float (*sums)[4], float *reference, float *total,
        float scale) {
    float factor[2], otherFactor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float other = __ldcg(part + (HEAD_WIDTH / 2 + h) * PREFILL_THREADS + threadIdx.x);
        float top = fmaxf(reference[h], other);
        float m = top == -INFINITE ? 0 : top;
        factor[h] = exp2Fast((reference[h] - m) * scale);
        otherFactor[h] = exp2Fast((other - m) * scale);
        reference[h] = top;
        total[h] = total[h] * factor[h]
                + __ldcg(part + (HEAD_WIDTH / 2 + 2 + h) * PREFILL_THREADS + threadIdx.x) * otherFactor[h];
    }
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            sums[n][i] = sums[n][i] * factor[i / 2]
                    + __ldcg(part + (n * 4 + i) * PREFILL_THREADS + threadIdx.x) * otherFactor[i / 2];
        }
}

// Part `part` of `parts` of a tile's context: `count` stages from `first` on. A part has at least MIN_STAGES stages,
// unless the context is not split.
struct ContextPart { int tile, part, parts, first, count; };

// at: tile * splits + part
__device__ __forceinline__ ContextPart contextPart(const Tile &tile, int at, int splits, int window) {
    int stages = (tile.position + tile.rows + STAGE_TOKENS - 1) / STAGE_TOKENS;
#if WINDOWS
    stages -= stagesBefore(tile, window);
#endif
    ContextPart s;
    s.tile = at / splits;
    s.part = at % splits;
    s.parts = max(1, min(splits, stages / MIN_STAGES));
    s.first = stages * s.part / s.parts;
    s.count = stages * (s.part + 1) / s.parts - s.first;
#if WINDOWS
    s.first += stagesBefore(tile, window);
#endif
    return s;
}

// The work units of a thread block: a unit is (tile, context part, KV head), and the longest tiles come first. The
// first `blocks` thread blocks take units in turn. Every other round they take them in reverse order, so that no thread
// block gets the longest unit of each round.
struct Work {
    const Tile *tiles;
    int splits, units, blocks, round;
#if WINDOWS
    int window;
#else
    static const int window = 0;
#endif
    Tile tile;
    ContextPart context;
    int kvHead;

    __device__ __forceinline__ Work(const Tile *tiles, int tileCount, int splits, int blocks, int window)
            : tiles(tiles), splits(splits), units(tileCount * splits * KV_HEADS), blocks(blocks), round(0) {
#if WINDOWS
        this->window = window;
#endif
    }

    __device__ __forceinline__ bool next() {
        for (; round * blocks < units; ) {
            int unit = round * blocks + (round & 1 ? blocks - 1 - (int)blockIdx.x : (int)blockIdx.x);
            round++;
            if (unit >= units) continue;
            kvHead = unit % KV_HEADS;
            tile = tiles[unit / KV_HEADS / splits];
            context = contextPart(tile, unit / KV_HEADS, splits, window);
            if (tile.rows > 0 && context.part < context.parts) return true; // a graph's unused tiles have no rows
        }
        return false;
    }
};

// This thread's two rows of a tile: token within the tile, head, position; unused rows have position -1.
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

// A row's reference stays behind its max score until the weights reach two to this power. Sums are seldom rescaled
// then: 2,048 rows to 8,192 tokens took 540 instead of 567 us per layer (one H200). Weights keep their precision,
// because it is relative.
#define MAX_WEIGHT_EXPONENT 8

template <bool MASKED> __device__ __forceinline__ void onlineSoftmaxOf(float (*s)[4], int at, const int *position,
        int window, float scale, float *reference, float *total, float *factor) {
    float top[2] = {reference[0], reference[1]};
#pragma unroll
    for (int n = 0; n < STAGE_TOKENS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int token = at + n * 8 + threadIdx.x % 4 * 2 + i % 2;
            if (MASKED && hidden(token, position[i / 2], window)) s[n][i] = -INFINITE;
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        if ((top[h] - reference[h]) * scale <= MAX_WEIGHT_EXPONENT) top[h] = reference[h];
        // if all scores are masked, 0 replaces the reference, so that no difference is infinite minus infinite
        float r = top[h] == -INFINITE ? 0 : top[h];
        factor[h] = exp2Fast((reference[h] - r) * scale);
        reference[h] = top[h];
        top[h] = r * scale;
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

// Replaces the scores of STAGE_TOKENS tokens, from position `at` on, by their weights relative to the row's reference,
// a score that is at most its max so far. The caller multiplies earlier sums by `factor`, which is 1 where the
// reference stays. masked: whether some row does not see some of the tokens.
// s[n]: tokens 8n + 2 (lane % 4) and the next one, of both rows
__device__ __forceinline__ void onlineSoftmax(float (*s)[4], bool masked, int at, const int *position, int window,
        float scale, float *reference, float *total, float *factor) {
    if (masked) onlineSoftmaxOf<true>(s, at, position, window, scale, reference, total, factor);
    else onlineSoftmaxOf<false>(s, at, position, window, scale, reference, total, factor);
}

__device__ __forceinline__ void attentionBarrier() {
    asm volatile("bar.sync 1, %0;" :: "n"(PREFILL_THREADS) : "memory");
}

// Publishes a thread block's partial result. Returns true in the last thread block of the tile, whose sums, reference
// and total are then those of the whole context. `last` is shared memory that has no other use meanwhile.
// It does not share code with `Sum` of decode.cu: references here are not scaled and may be -INFINITE, and a thread
// merges the accumulators in its registers, not four values of one head.
__device__ __forceinline__ bool mergePartials(const ContextPart &context, int kvHead, int splits, float *parts,
        int *finished, float (*sums)[4], float *reference, float *total, float scale, bool *last) {
    const size_t PART = PART_VALUES * PREFILL_THREADS;
    int pair = context.tile * KV_HEADS + kvHead;
    float *first = parts + (size_t)pair * splits * PART;
    publishPartial(first + context.part * PART, sums, reference, total);
    stressDelay();
    __threadfence();
    attentionBarrier();
    if (threadIdx.x == 0) {
        *last = atomicAdd(finished + pair, 1) == context.parts - 1;
        if (*last) finished[pair] = 0;
    }
    attentionBarrier();
    if (!*last) return false;
    __threadfence();
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
    reference[0] = reference[1] = -INFINITE;
    total[0] = total[1] = 0;
    for (int s = 0; s < context.parts; s++) mergePartial(first + s * PART, sums, reference, total, scale);
    return true;
}
