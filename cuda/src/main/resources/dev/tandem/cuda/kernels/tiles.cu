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

#if WINDOWS
// Whether a query at `position` does not see the token `token`.
__device__ __forceinline__ bool hidden(int token, int position, int window) {
    return token > position || (window > 0 && token <= position - window);
}

// Stages before the first one that a query of the tile sees.
__device__ __forceinline__ int stagesBefore(const Tile &tile, int window) {
    return window > 0 ? max(0, tile.position - window + 1) / STAGE_TOKENS : 0;
}
#endif

// Split-KV: several thread blocks may compute a tile, each for part of its context. Each publishes its partial result,
// and the last one to finish merges all of them in the order of the context.
// parts [2 thread blocks][PART_VALUES][PREFILL_THREADS]: a thread block computes at most one part that begins a
// context, which is at 2 block + 1, and one that does not, at 2 block
#define MIN_STAGES 2
// Max parts of a context of mean length, since one thread block reads all of them.
#define MAX_PARTS 8
// Stages that take as long as the start, end and merge of shared work units, of which a thread block may have two. On an
// H200 a stage takes 1.3 us, and sharing a unit 2.5 us.
#define SHARING_STAGES 4

__device__ __forceinline__ void publishPartial(float *part, const float (*sums)[4], const float *maximum,
        const float *total) {
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) part[(n * 4 + i) * PREFILL_THREADS + threadIdx.x] = sums[n][i];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        part[(HEAD_WIDTH / 2 + h) * PREFILL_THREADS + threadIdx.x] = maximum[h];
        part[(HEAD_WIDTH / 2 + 2 + h) * PREFILL_THREADS + threadIdx.x] = total[h];
    }
}

__device__ __forceinline__ void mergePartial(const float *part, float (*sums)[4], float *maximum, float *total,
        float scale) {
    float factor[2], otherFactor[2];
#pragma unroll
    for (int h = 0; h < 2; h++) {
        float other = __ldcg(part + (HEAD_WIDTH / 2 + h) * PREFILL_THREADS + threadIdx.x);
        float top = fmaxf(maximum[h], other);
        float m = top == -INFINITE ? 0 : top;
        factor[h] = exp2Fast((maximum[h] - m) * scale);
        otherFactor[h] = exp2Fast((other - m) * scale);
        maximum[h] = top;
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

// A tile's stages that its queries see.
__device__ __forceinline__ int stagesOf(const Tile &tile, int window) {
    int stages = (tile.position + tile.rows + STAGE_TOKENS - 1) / STAGE_TOKENS;
#if WINDOWS
    stages -= stagesBefore(tile, window);
#endif
    return stages;
}

__device__ __forceinline__ int sumOfWarp(int value) {
#pragma unroll
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
    return value;
}

// How the first `blocks` thread blocks divide the work units: a unit is (tile, KV head), and a chunk's longest tiles come
// first. Thread blocks take as many units in turn as all of them get alike, every other round in reverse order, so that
// none gets the longest unit of each round. The stages of the remaining units lie one after the other, and each thread
// block gets an equal share of them, if that ends sooner than one more round.
struct Division {
    int blocks, units, whole;  // whole: units that are taken in turn
    int share;                 // stages of a share; 0: none are shared
    int unit, before;          // the first unit that reaches into this thread block's share; shared stages before it

    // Called by a whole warp.
    __device__ __forceinline__ Division(const Tile *tiles, int tileCount, int blocks, int window)
            : blocks(blocks), share(0), before(0) {
        int lane = threadIdx.x % 32, used = 0, stages = 0;
        for (int t = lane; t < tileCount; t += 32) used += tiles[t].rows > 0; // a graph's unused tiles come last
        units = sumOfWarp(used) * KV_HEADS;
        whole = unit = units / blocks * blocks;
        int rest = units - whole;
        if (rest == 0) return;
        for (int t = whole / KV_HEADS + lane; t < units / KV_HEADS; t += 32)
            stages += stagesOf(tiles[t], window) * (KV_HEADS - max(0, whole - t * KV_HEADS));
        stages = sumOfWarp(stages);
        int longest = stagesOf(tiles[whole / KV_HEADS], window);
        share = max(MIN_STAGES, max((stages + blocks - 1) / blocks, (stages - 1) / (MAX_PARTS * rest) + 1));
        if (share + SHARING_STAGES >= longest) {
            whole = units;
            share = 0;
            return;
        }
        int start = blockIdx.x * share;
        while (unit < units) {
            int length = stagesOf(tiles[unit / KV_HEADS], window), alike = KV_HEADS - unit % KV_HEADS;
            int skipped = min(alike, (start - before) / length);
            unit += skipped;
            before += skipped * length;
            if (skipped < alike) break;
        }
    }

    __device__ __forceinline__ Division() {}
};

// Part `blockIdx.x - firstBlock` of `parts` of a work unit's context: `count` stages from `first` on.
// shared: number of the unit among those with parts
struct ContextPart {
    int parts, first, count, firstBlock, shared;

    __device__ __forceinline__ bool beginsContext() const { return blockIdx.x == firstBlock; }
};

// The work units of a thread block. No part of a unit has fewer than MIN_STAGES stages, unless it is all of the unit.
struct Work {
    const Tile *tiles;
    int at, before;         // the next round, or behind the last one the next shared unit + 1, negated
#if WINDOWS
    int window;
#else
    static const int window = 0;
#endif
    Tile tile;
    ContextPart context;
    int kvHead;

    __device__ __forceinline__ Work(const Tile *tiles, int window) : tiles(tiles), at(0) {
#if WINDOWS
        this->window = window;
#endif
    }

    __device__ __forceinline__ bool next(const Division &division) {
        for (; at >= 0 && at * division.blocks < division.whole; ) {
            int unit = at * division.blocks + (at & 1 ? division.blocks - 1 - (int)blockIdx.x : (int)blockIdx.x);
            at++;
            if (unit >= division.whole) continue;
            take(unit, 0, stagesOf(tiles[unit / KV_HEADS], window));
            context.parts = 1;
            return true;
        }
        int share = division.share, block = blockIdx.x;
        if (share == 0) return false;
        if (at >= 0) {
            at = -1 - division.unit;
            before = division.before;
        }
        while (-1 - at < division.units && before < (block + 1) * share) {
            int unit = -1 - at--, from = before, length = stagesOf(tiles[unit / KV_HEADS], window);
            before += length;
            // parts begin at the multiples of a share that leave MIN_STAGES on both sides
            int cut = (from + MIN_STAGES + share - 1) / share, lastCut = (before - MIN_STAGES) / share;
            context.parts = max(1, lastCut - cut + 2);
            context.firstBlock = (from + min(MIN_STAGES, length) - 1) / share;
            context.shared = unit - division.whole;
            int part = block - context.firstBlock;
            if (part < 0 || part >= context.parts) continue;
            int begin = part == 0 ? from : block * share;
            take(unit, begin - from, (part == context.parts - 1 ? before : (block + 1) * share) - begin);
            return true;
        }
        return false;
    }

    __device__ __forceinline__ void take(int unit, int first, int count) {
        kvHead = unit % KV_HEADS;
        tile = tiles[unit / KV_HEADS];
        context.first = first;
        context.count = count;
#if WINDOWS
        context.first += stagesBefore(tile, window);
#endif
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

// Replaces the scores of STAGE_TOKENS tokens, from position `at` on, by their weights relative to the max score so far.
// The caller multiplies earlier sums by `factor`. s[n]: tokens 8n + 2 (lane % 4) and the next one, of both rows
__device__ __forceinline__ void onlineSoftmax(float (*s)[4], bool masked, int at, const int *position, int window,
        float scale, float *maximum, float *total, float *factor) {
    float top[2] = {maximum[0], maximum[1]};
#pragma unroll
    for (int n = 0; n < STAGE_TOKENS / 8; n++) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
#if WINDOWS
            if (masked && hidden(at + n * 8 + threadIdx.x % 4 * 2 + i % 2, position[i / 2], window))
                s[n][i] = -INFINITE;
#else
            if (masked && at + n * 8 + threadIdx.x % 4 * 2 + i % 2 > position[i / 2]) s[n][i] = -INFINITE;
#endif
            top[i / 2] = fmaxf(top[i / 2], s[n][i]);
        }
    }
#pragma unroll
    for (int h = 0; h < 2; h++) {
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 1));
        top[h] = fmaxf(top[h], __shfl_xor_sync(~0u, top[h], 2));
        // if all scores are masked, 0 replaces the maximum, so that no difference is infinite minus infinite
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

__device__ __forceinline__ void attentionBarrier() {
    asm volatile("bar.sync 1, %0;" :: "n"(PREFILL_THREADS) : "memory");
}

// Publishes a thread block's partial result. Returns true in the last thread block of the unit, whose sums, maximum and
// total are then those of the whole context. `last` is shared memory that has no other use meanwhile.
// It does not share code with `Sum` of decode.cu: maxima here are not scaled yet and may be -INFINITE, and a thread
// merges the accumulators in its registers, not four values of one head.
__device__ __forceinline__ bool mergePartials(const ContextPart &context, float *parts, int *finished,
        float (*sums)[4], float *maximum, float *total, float scale, bool *last) {
    const size_t PART = PART_VALUES * PREFILL_THREADS;
    publishPartial(parts + (2 * (size_t)blockIdx.x + context.beginsContext()) * PART, sums, maximum, total);
    stressDelay();
    __threadfence();
    attentionBarrier();
    if (threadIdx.x == 0) {
        *last = atomicAdd(finished + context.shared, 1) == context.parts - 1;
        if (*last) finished[context.shared] = 0;
    }
    attentionBarrier();
    if (!*last) return false;
    __threadfence();
#pragma unroll
    for (int n = 0; n < HEAD_WIDTH / 8; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) sums[n][i] = 0;
    maximum[0] = maximum[1] = -INFINITE;
    total[0] = total[1] = 0;
    for (int p = 0; p < context.parts; p++)
        mergePartial(parts + (2 * (size_t)(context.firstBlock + p) + (p == 0)) * PART, sums, maximum, total, scale);
    return true;
}
