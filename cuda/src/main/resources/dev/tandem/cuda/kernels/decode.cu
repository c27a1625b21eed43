// Decode attention over paged KV: queries [rows][HEADS][HEAD_WIDTH] -> out of the same shape.
//
// Work units: one per KV block of each pair (row, KV head), in the order of the rows, plus a start-up cost in units at
// the beginning of each pair. Each thread block computes an equal partition of all units, so that all end at the same
// time. If several partitions have units of a pair, the first of them merges the partial results of the others
// (split-KV). All these thread blocks fit on the GPU together, so that they may wait for each other.
// The warps of a thread block take a pair's KV blocks in turn. Tokens are the 16-row MMA operand, and the heads of the
// group are the 8 columns: scores^T = K q^T, then out^T = V^T p^T, with V stored in token pairs. K and V are loaded to
// registers in the order in which the MMAs need them.
//
// Shared memory: merged [WARPS][GROUP][HEAD_WIDTH] fp32, the sums of each warp for a pair; maxima and totals
// [WARPS][GROUP]; found, the row of the partition's first unit. No dynamic shared memory.
//
// Waits and signals:
//   previous kernel        dependencyWait, once; KV blocks that it does not write are read before
//   partial results        publishPartial writes words other than UNPUBLISHED; mergePartials polls and resets them
//   in-flight tokens       leaveBatch appends to sendQueue for the transfer kernel (table in prelude.cu)

#define GROUPS32 (HEAD_WIDTH / 32)
#define WARPS DECODE_WARPS

#if HEAD_WIDTH > 128
#define DECODE_BOUNDS __launch_bounds__(WARPS * 32, 8 / WARPS)
#else
#define DECODE_BOUNDS __launch_bounds__(WARPS * 32, 12 / WARPS)
#endif

struct Sequence { int firstUnit, length, table, blocks; };

#define QUADS (GROUP * HEAD_WIDTH / 4)
#define PARTIALS_AT_ONCE 8
// Max polls for a partial result. A poll is at least a round trip to the L2 cache, so the kernel traps after ten
// seconds or later. Without the partial result the token would be wrong, and an endless wait would block the GPU.
#define MAX_POLLS (1 << 24)

// Each word of a partial result signals its own arrival, because a published word is never UNPUBLISHED. The thread that
// waits for it needs no counter and no fence. A NaN with these bits becomes another NaN.
__device__ __forceinline__ word published(float v) {
    return __float_as_uint(v) == (word)UNPUBLISHED ? 0x7fffffffu : __float_as_uint(v);
}
__device__ __forceinline__ void store4(float4 *to, word x, word y, word z, word w) {
    asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%2,%3,%4};" :: "l"(to), "r"(x), "r"(y), "r"(z),
            "r"(w) : "memory");
}
__device__ __forceinline__ void store2(float2 *to, word x, word y) {
    asm volatile("st.relaxed.gpu.global.v2.u32 [%0], {%1,%2};" :: "l"(to), "r"(x), "r"(y) : "memory");
}
__device__ __forceinline__ bool load4(const float4 *from, float4 &v) {
    word x, y, z, w;
    asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(x), "=r"(y), "=r"(z),
            "=r"(w) : "l"(from) : "memory");
    v = make_float4(__uint_as_float(x), __uint_as_float(y), __uint_as_float(z), __uint_as_float(w));
    return x != UNPUBLISHED && y != UNPUBLISHED && z != UNPUBLISHED && w != UNPUBLISHED;
}
__device__ __forceinline__ bool load2(const float2 *from, float2 &v) {
    word x, y;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];" : "=r"(x), "=r"(y) : "l"(from) : "memory");
    v = make_float2(__uint_as_float(x), __uint_as_float(y));
    return x != UNPUBLISHED && y != UNPUBLISHED;
}

// Attention over part of a context: four values of a head's weighted sum of V, the max score, and the sum of weights.
// The weights are relative to the max score.
struct Sum {
    float4 values;
    float maximum, weights;

    __device__ __forceinline__ void add(const float4 &other, float otherMaximum, float otherWeights) {
        float m = fmaxf(maximum, otherMaximum), factor = exp2Fast(maximum - m),
                otherFactor = exp2Fast(otherMaximum - m);
        values.x = values.x * factor + otherFactor * other.x; values.y = values.y * factor + otherFactor * other.y;
        values.z = values.z * factor + otherFactor * other.z; values.w = values.w * factor + otherFactor * other.w;
        weights = weights * factor + otherFactor * otherWeights;
        maximum = m;
    }
    __device__ __forceinline__ void store(uint2 *result) const {
        float inverse = 1 / weights;
        *result = make_uint2(pack(values.x * inverse, values.y * inverse),
                pack(values.z * inverse, values.w * inverse));
    }
};

// Merges the partial results of the thread block's warps for the four values `quad` of [GROUP][HEAD_WIDTH].
__device__ __forceinline__ Sum mergeWarps(const float (*merged)[GROUP][HEAD_WIDTH], const float (*maxima)[GROUP],
        const float (*totals)[GROUP], int quad) {
    int head = quad / (HEAD_WIDTH / 4);
    Sum sum = {make_float4(0, 0, 0, 0), -INFINITE, 0};
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum.maximum = fmaxf(sum.maximum, maxima[w][head]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        float factor = exp2Fast(maxima[w][head] - sum.maximum);
        float4 v = ((const float4 *)merged[w])[quad];
        sum.values.x += factor * v.x; sum.values.y += factor * v.y;
        sum.values.z += factor * v.z; sum.values.w += factor * v.w;
        sum.weights += factor * totals[w][head];
    }
    return sum;
}

__device__ __forceinline__ void publishPartial(float4 *parts, float2 *norms, size_t at, const Sum &sum) {
    stressDelay();
    store4(parts + at, published(sum.values.x), published(sum.values.y), published(sum.values.z),
            published(sum.values.w));
    stressDelay();
    store2(norms + at, published(sum.maximum), published(sum.weights));
}

// Adds the partial results of `count` partitions, which begin at `at` and are QUADS apart. It polls until all of
// PARTIALS_AT_ONCE partitions are published.
__device__ __forceinline__ void mergePartials(float4 *parts, float2 *norms, size_t at, int count, Sum &sum) {
#pragma unroll 1
    for (int from = 0; from < count; from += PARTIALS_AT_ONCE) {
        float4 values[PARTIALS_AT_ONCE];
        float2 sums[PARTIALS_AT_ONCE];
        int polls = 0;
        bool all;
        do {
            if (++polls > MAX_POLLS) __trap();
            all = true;
#pragma unroll
            for (int s = 0; s < PARTIALS_AT_ONCE; s++) {
                if (from + s >= count) continue;
                all &= load4(parts + at + (size_t)(from + s) * QUADS, values[s]);
                all &= load2(norms + at + (size_t)(from + s) * QUADS, sums[s]);
            }
        } while (!all);
        stressDelay();
#pragma unroll
        for (int s = 0; s < PARTIALS_AT_ONCE; s++) {
            if (from + s >= count) continue;
            sum.add(values[s], sums[s].x, sums[s].y);
            store4(parts + at + (size_t)(from + s) * QUADS, UNPUBLISHED, UNPUBLISHED, UNPUBLISHED, UNPUBLISHED);
            store2(norms + at + (size_t)(from + s) * QUADS, UNPUBLISHED, UNPUBLISHED);
        }
    }
}

// Ends the use of this layer's first `leaving` slots by tokens that leave, and begins that of `returning` slots by
// tokens that return: their attention output is copied to out [returning][HEADS][HEAD_WIDTH]. All thread blocks take
// part.
__device__ __noinline__ void exchangeSlots(HostTokens *hostTokens, int layer, int returning, int leaving, int flags,
        int thread, int threads, half16 *out) {
    copyReturned(hostTokens, layer, returning, thread, threads, out);
    if (thread == 0) {
        hostTokens->stamps[layer] = nanos();
        if (flags & DECODE_LAST_LAYER) *(volatile u64 *)(hostTokens->sendCounters + 3) = 1;
    }
    for (int slot = thread; slot < leaving; slot += threads) leaveBatch(hostTokens, layer, slot);
}

__device__ __noinline__ void transferOnce(HostTokens *hostTokens) {
    u64 sent = hostTokens->sendCounters[1], received = hostTokens->sendCounters[2];
    transferTokens<WARPS>(hostTokens, sent, received);
    if (threadIdx.x == 0) {
        hostTokens->sendCounters[1] = sent;
        hostTokens->sendCounters[2] = received;
    }
}

// Attention of the step's decode rows. With DECODE_EXCHANGES in `flags`, the step has slots for in-flight tokens, from
// row firstSlot on: tokens leave the first `leaving` of them and return to the first `returning`.
// With DECODE_TRANSFERS in `flags`, no transfer kernel runs, and the first thread block transfers in-flight tokens.
// With DECODE_OVERLAPS_PREFILL, the previous kernel is prefill attention, and this kernel runs at the same time. Its
// own inputs are complete by then, so it waits for that kernel only at its end. The last thread blocks get the
// partitions. The others may start only when prefill attention has ended, so no partition may depend on them.
//   queries, out [rows][HEADS][HEAD_WIDTH]; blocks: those of this layer
//   header: rows, work units, partitions, start-up cost in units
//   parts [thread blocks][QUADS]: partial result of each partition's first pair, if the pair began in an earlier one
//   partNorms [thread blocks][QUADS]: its max score and sum of weights
// All words of parts and partNorms are UNPUBLISHED before the launch and after it.
// In a layer with a sliding window, a row sees its last `window` tokens; 0 stands for all. The sequences of such layers
// begin at the block with the first token that the row sees, and their lengths are counted from there. Models in which
// no layer has a window are compiled without it (WINDOWS).
extern "C" __global__ void DECODE_BOUNDS decode_attention(
        const half16 *queries, const half16 *blocks, const int *tables, const Sequence *sequences, const int *header,
        float scale, half16 *out, float4 *parts, float2 *partNorms, int returning, int leaving, int firstSlot,
        HostTokens *hostTokens, int layer, int flags, int window) {
    __shared__ float merged[WARPS][GROUP][HEAD_WIDTH];
    __shared__ float maxima[WARPS][GROUP], totals[WARPS][GROUP];
    __shared__ int found;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int rows = header[0], units = header[1], partitions = header[2];
    dependentsLaunch();
    bool overlaps = flags & DECODE_OVERLAPS_PREFILL;
    if (overlaps) __threadfence(); // discards older data in the L1 cache
    if (blockIdx.x < (flags & DECODE_TRANSFERS)) {
        if (!overlaps) dependencyWait();
        transferOnce(hostTokens);
        if (overlaps) dependencyWait();
        return;
    }
    int partition = overlaps ? (int)blockIdx.x - ((int)gridDim.x - partitions)
            : (int)blockIdx.x - (flags & DECODE_TRANSFERS);
    if (partition < 0 || partition >= partitions) return;
    int unit = (int)((long)units * partition / partitions),
            endUnit = (int)((long)units * (partition + 1) / partitions);
    int thread = partition * WARPS * 32 + threadIdx.x;
    bool exchanges = flags & DECODE_EXCHANGES
            && partition * WARPS * 32 < max(max(returning * HEADS * HEAD_DIM / 8, leaving), 1),
            waited = overlaps || exchanges;
    if (exchanges) {
        if (!overlaps) dependencyWait();
        exchangeSlots(hostTokens, layer, returning, leaving, flags, thread, partitions * WARPS * 32,
                out + (size_t)firstSlot * HEADS * HEAD_WIDTH);
    }
    for (int r = threadIdx.x; r < rows; r += WARPS * 32) {
        if (sequences[r].firstUnit <= unit && (r + 1 == rows || sequences[r + 1].firstUnit > unit)) found = r;
    }
    __syncthreads();
    int row = found, others = 0; // partitions that have later units of the last pair
    uint2 *result = nullptr;
    while (unit < endUnit) {
        Sequence sequence = sequences[row];
        int startUpCost = header[3];
        int kvHead = (unit - sequence.firstUnit) / (sequence.blocks + startUpCost);
        int pairBegin = sequence.firstUnit + kvHead * (sequence.blocks + startUpCost) + startUpCost,
                pairEnd = pairBegin + sequence.blocks;
        unit = max(unit, pairBegin);
        int count = min(pairEnd, endUnit) - unit, first = unit - pairBegin;
        if (count <= 0) break;
        int mine = (count - warp + WARPS - 1) / WARPS;
        int ids = 0;
        uint4 k0[GROUPS32], k1[GROUPS32], v0[GROUPS32], v1[GROUPS32];
        auto keys = [&](int j) {
            if (j % 32 == 0) ids = j + lane < mine ? tables[sequence.table + first + warp + (j + lane) * WARPS] : 0;
            int id = __shfl_sync(~0u, ids, j % 32);
            const half16 *tile = blocks + (size_t)id * LAYERS_PER_PAGE * LAYER_BLOCK + kvHead * 2 * KV_TILE
                    + g * HEAD_WIDTH + q * 8;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                k0[t] = stream(tile + t * 32);
                k1[t] = stream(tile + 8 * HEAD_WIDTH + t * 32);
            }
        };
        auto values = [&](int j) {
            int id = __shfl_sync(~0u, ids, j % 32);
            const half16 *tile = blocks + (size_t)id * LAYERS_PER_PAGE * LAYER_BLOCK + kvHead * 2 * KV_TILE
                    + KV_TILE + (q * HEAD_WIDTH + g * 4) * 2;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                v0[t] = stream(tile + t * 64);
                v1[t] = stream(tile + 8 * HEAD_WIDTH + t * 64);
            }
        };
        // the previous kernel writes only the sequence's last block: others may be read before it has ended
        bool early = !waited && mine > 0 && first + warp < sequence.blocks - 1;
        if (early) {
            keys(0);
            values(0);
        }
        if (!waited) dependencyWait();
        waited = true;
        if (mine > 0 && !early) {
            keys(0);
            values(0);
        }
        const half16 *query = queries + ((size_t)row * HEADS + kvHead * GROUP) * HEAD_WIDTH;
        uint4 fragments[HEAD_TILES][GROUPS32];
        float sums[HEAD_TILES][2 * GROUPS32][4];
        float maximum[HEAD_TILES][2], total[HEAD_TILES][2];
#pragma unroll
        for (int e = 0; e < HEAD_TILES; e++) {
            maximum[e][0] = maximum[e][1] = -INFINITE;
            total[e][0] = total[e][1] = 0;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                fragments[e][t] = e * 8 + g < GROUP ? *(const uint4 *)(query + (e * 8 + g) * HEAD_WIDTH + t * 32 + q
                        * 8) : make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int i = 0; i < 4; i++) sums[e][2 * t][i] = sums[e][2 * t + 1][i] = 0;
            }
        }
        for (int j = 0; j < mine; j++) {
            // four independent accumulators, because each MMA waits for the one before on the same accumulator
            float scores[HEAD_TILES][4][4];
#pragma unroll
            for (int e = 0; e < HEAD_TILES; e++) {
#pragma unroll
                for (int i = 0; i < 4; i++) scores[e][0][i] = scores[e][1][i] = scores[e][2][i] = scores[e][3][i] = 0;
#pragma unroll
                for (int t = 0; t < GROUPS32; t++) {
                    uint4 f = fragments[e][t];
                    multiply(scores[e][t % 2 * 2], k0[t].x, k1[t].x, k0[t].y, k1[t].y, f.x, f.y);
                    multiply(scores[e][t % 2 * 2 + 1], k0[t].z, k1[t].z, k0[t].w, k1[t].w, f.z, f.w);
                }
            }
            if (j + 1 < mine) keys(j + 1);
            int token = (first + warp + j * WARPS) * BLOCK_TOKENS + g;
#if WINDOWS
            int visible = window > 0 ? sequence.length - window : 0;
#endif
            word weights[HEAD_TILES][2];
#pragma unroll
            for (int e = 0; e < HEAD_TILES; e++) {
                float s[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[i] = token + i / 2 * 8 < sequence.length
#if WINDOWS
                                    && token + i / 2 * 8 >= visible
#endif
                            ? ((scores[e][0][i] + scores[e][1][i]) + (scores[e][2][i] + scores[e][3][i])) * scale
                            : -INFINITE;
                float factor[2];
#pragma unroll
                for (int i = 0; i < 2; i++) {
                    float m = fmaxf(s[i], s[i + 2]);
                    for (int step = 4; step < 32; step <<= 1) m = fmaxf(m, __shfl_xor_sync(~0u, m, step));
                    m = fmaxf(m, maximum[e][i]);
                    factor[i] = exp2Fast(maximum[e][i] - m);
                    maximum[e][i] = m;
                    s[i] = exp2Fast(s[i] - m);
                    s[i + 2] = exp2Fast(s[i + 2] - m);
                    total[e][i] = total[e][i] * factor[i] + s[i] + s[i + 2];
                }
                weights[e][0] = transpose(pack(s[0], s[1]));
                weights[e][1] = transpose(pack(s[2], s[3]));
                if (__any_sync(~0u, factor[0] != 1 || factor[1] != 1)) {
#pragma unroll
                    for (int t = 0; t < 2 * GROUPS32; t++) {
                        sums[e][t][0] *= factor[0]; sums[e][t][1] *= factor[1];
                        sums[e][t][2] *= factor[0]; sums[e][t][3] *= factor[1];
                    }
                }
            }
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
#pragma unroll
                for (int e = 0; e < HEAD_TILES; e++) {
                    multiply(sums[e][2 * t], v0[t].x, v0[t].y, v1[t].x, v1[t].y, weights[e][0], weights[e][1]);
                    multiply(sums[e][2 * t + 1], v0[t].z, v0[t].w, v1[t].z, v1[t].w, weights[e][0], weights[e][1]);
                }
            }
            if (j + 1 < mine) values(j + 1);
        }
#pragma unroll
        for (int e = 0; e < HEAD_TILES; e++) {
#pragma unroll
            for (int i = 0; i < 2; i++) {
                for (int step = 4; step < 32; step <<= 1) total[e][i] += __shfl_xor_sync(~0u, total[e][i], step);
                int head = e * 8 + q * 2 + i;
                if (head < GROUP) {
                    if (g == 0) {
                        maxima[warp][head] = maximum[e][i];
                        totals[warp][head] = total[e][i];
                    }
#pragma unroll
                    for (int t = 0; t < GROUPS32; t++) {
                        *(float4 *)&merged[warp][head][t * 32 + g * 4] = make_float4(
                            sums[e][2 * t][i], sums[e][2 * t][i + 2], sums[e][2 * t + 1][i], sums[e][2 * t + 1][i + 2]);
                    }
                }
            }
        }
        __syncthreads();
        // partition c has the units from units * c / partitions on: these have the pair's first and last unit
        int firstOwner = (int)(((long)(pairBegin + 1) * partitions - 1) / units),
                lastOwner = (int)(((long)pairEnd * partitions - 1) / units);
        result = (uint2 *)(out + ((size_t)row * HEADS + kvHead * GROUP) * HEAD_WIDTH);
        others = lastOwner - partition;
        if (partition == firstOwner && others > 0) break; // the partition ends within this pair
#pragma unroll 1
        for (int i = threadIdx.x; i < QUADS; i += WARPS * 32) {
            Sum sum = mergeWarps(merged, maxima, totals, i);
            if (partition == firstOwner) sum.store(result + i);
            else publishPartial(parts, partNorms, (size_t)partition * QUADS + i, sum);
        }
        others = 0;
        __syncthreads();
        unit += count;
        if (unit == pairEnd && kvHead == KV_HEADS - 1) row++;
    }
#pragma unroll 1
    for (int i = threadIdx.x; others > 0 && i < QUADS; i += WARPS * 32) {
        Sum sum = mergeWarps(merged, maxima, totals, i);
        mergePartials(parts, partNorms, (size_t)(partition + 1) * QUADS + i, others, sum);
        sum.store(result + i);
    }
    // a partition without work waits too: the next kernel relies on the previous one having ended
    if (!waited || overlaps) dependencyWait();
}
