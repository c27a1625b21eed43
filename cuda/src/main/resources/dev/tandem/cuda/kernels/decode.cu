// Decode attention over paged KV: queries [rows][HEADS][HEAD_WIDTH] -> out of the same shape.
//
// Work: a line of units, one for each KV block of each pair (row, KV head), rows one after another. Each pair begins
// with a start-up cost of so many units. Every thread block takes an equal partition of the line, so that all end at
// the same time. Where several partitions share a pair, the first of them merges what the others publish (split-KV).
// All thread blocks that share the line fit on the GPU at a time, so waiting for each other is safe.
// Within a pair the warps take KV blocks in turn. Tokens are the 16-row operand, the heads of the group the 8 columns:
// scores^T = K q^T, then out^T = V^T p^T with V stored in token pairs. K and V go from memory to registers in the order
// in which they are used.
//
// Shared memory: merged [WARPS][GROUP][HEAD_WIDTH] fp32, the warps' sums of a pair; maxima and totals [WARPS][GROUP];
// found, the row of the partition's first unit. No dynamic part.
//
// Waits and signals:
//   the kernel before      dependencyWait, once; KV blocks that it cannot write are read before
//   partial results        publishPartial writes words other than NOT_THERE, mergePartials polls them and resets them
//   in-flight tokens       exchange appends to sendQueue for the transfer kernel (table in prelude.cu)

#define GROUPS32 (HEAD_WIDTH / 32)
#define WARPS DECODE_WARPS

struct Sequence { int firstUnit, length, table, blocks; };

#define QUADS (GROUP * HEAD_WIDTH / 4)
#define PARTS_AT_ONCE 8
// How often a block looks for partial results that do not come. Each look is a round trip to the second-level cache or
// more, so the kernel fails after ten seconds or later. To go on without a partial result would be a wrong token; to
// wait for ever would be a GPU that no one can stop.
#define MAX_LOOKS (1 << 24)
// Of a part that has not been left yet, and again once it has been taken.
#define NOT_THERE 0xffffffffu

// A part's words say themselves whether they are there: no other is NOT_THERE, and a thread that waits for them needs
// no
// counter and no fence.
__device__ __forceinline__ word there(float v) {
    return __float_as_uint(v) == NOT_THERE ? 0x7fffffffu : __float_as_uint(v);
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
    return x != NOT_THERE && y != NOT_THERE && z != NOT_THERE && w != NOT_THERE;
}
__device__ __forceinline__ bool load2(const float2 *from, float2 &v) {
    word x, y;
    asm volatile("ld.relaxed.gpu.global.v2.u32 {%0,%1}, [%2];" : "=r"(x), "=r"(y) : "l"(from) : "memory");
    v = make_float2(__uint_as_float(x), __uint_as_float(y));
    return x != NOT_THERE && y != NOT_THERE;
}

// four values of a head's sum, with the largest score that it is estimated from and the sum of weights
struct Sum {
    float4 of;
    float maximum, weights;

    __device__ __forceinline__ void add(const float4 &other, float largest, float total) {
        float m = fmaxf(maximum, largest), mine = exp2Fast(maximum - m), its = exp2Fast(largest - m);
        of.x = of.x * mine + its * other.x; of.y = of.y * mine + its * other.y;
        of.z = of.z * mine + its * other.z; of.w = of.w * mine + its * other.w;
        weights = weights * mine + its * total;
        maximum = m;
    }
    __device__ __forceinline__ void store(uint2 *result) const {
        float whole = 1 / weights;
        *result = make_uint2(pack(of.x * whole, of.y * whole), pack(of.z * whole, of.w * whole));
    }
};

// what the block's warps have of the values' `quad`
__device__ __forceinline__ Sum overWarps(const float (*merged)[GROUP][HEAD_WIDTH], const float (*maxima)[GROUP],
        const float (*totals)[GROUP], int quad) {
    int head = quad / (HEAD_WIDTH / 4);
    Sum sum = {make_float4(0, 0, 0, 0), -INFINITE, 0};
#pragma unroll
    for (int w = 0; w < WARPS; w++) sum.maximum = fmaxf(sum.maximum, maxima[w][head]);
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        float factor = exp2Fast(maxima[w][head] - sum.maximum);
        float4 v = ((const float4 *)merged[w])[quad];
        sum.of.x += factor * v.x; sum.of.y += factor * v.y;
        sum.of.z += factor * v.z; sum.of.w += factor * v.w;
        sum.weights += factor * totals[w][head];
    }
    return sum;
}

__device__ __forceinline__ void publishPartial(float4 *parts, float2 *norms, size_t at, const Sum &sum) {
    stressDelay();
    store4(parts + at, there(sum.of.x), there(sum.of.y), there(sum.of.z), there(sum.of.w));
    stressDelay();
    store2(norms + at, there(sum.maximum), there(sum.weights));
}

// Adds what `count` partitions have left from `at` on, each QUADS after the one before, as soon as all of it is there.
__device__ __forceinline__ void mergePartials(float4 *parts, float2 *norms, size_t at, int count, Sum &sum) {
#pragma unroll 1
    for (int from = 0; from < count; from += PARTS_AT_ONCE) {
        float4 values[PARTS_AT_ONCE];
        float2 sums[PARTS_AT_ONCE];
        int looks = 0;
        bool all;
        do {
            if (++looks > MAX_LOOKS) __trap();
            all = true;
#pragma unroll
            for (int s = 0; s < PARTS_AT_ONCE; s++) {
                if (from + s >= count) continue;
                all &= load4(parts + at + (size_t)(from + s) * QUADS, values[s]);
                all &= load2(norms + at + (size_t)(from + s) * QUADS, sums[s]);
            }
        } while (!all);
        stressDelay();
#pragma unroll
        for (int s = 0; s < PARTS_AT_ONCE; s++) {
            if (from + s >= count) continue;
            sum.add(values[s], sums[s].x, sums[s].y);
            store4(parts + at + (size_t)(from + s) * QUADS, NOT_THERE, NOT_THERE, NOT_THERE, NOT_THERE);
            store2(norms + at + (size_t)(from + s) * QUADS, NOT_THERE, NOT_THERE);
        }
    }
}

// Slots of in-flight tokens: rows that leave, whose q, k and v rotation has left for the transfer kernel, ask for their
// attention of this layer; tokens that return take their attention's result. Thread blocks share this work.
__device__ __noinline__ void exchange(HostTokens *hostTokens, int layer, int slots, int place, int thread, int threads,
        half16 *out) {
    const int EIGHTS = HEAD_DIM / 8;
    for (int i = thread; i < slots * HEADS * EIGHTS; i += threads) {
        int slot = i / (HEADS * EIGHTS), returning = slotted(hostTokens, layer + 1, slot);
        if (returning < 0) continue;
        uint4 v = __ldcg((const uint4 *)(hostTokens->incoming + (size_t)returning * HEADS * HEAD_DIM)
                + i % (HEADS * EIGHTS));
        *(uint4 *)(out + (size_t)(i / EIGHTS) * HEAD_WIDTH + i % EIGHTS * 8) = v;
    }
    clearPadding(out, slots, thread, threads);
    if (thread >= slots) return;
    if (thread == 0) {
        hostTokens->stamps[layer] = nanos();
        if (place & DECODE_LAST_LAYER) *(volatile wide *)(hostTokens->sendCounters + 3) = 1;
    }
    int leaving = slotted(hostTokens, layer, thread);
    if (leaving < 0) return;
    stressDelay();
    __threadfence();
    wide number = atomicAdd(hostTokens->sendCounters, 1ull);
    *(volatile wide *)&hostTokens->sendQueue[number & hostTokens->ringMask] = (number + 1) << 24 | (wide)layer << 16
            | leaving;
}

__device__ __noinline__ void carry(HostTokens *hostTokens) {
    wide sent = hostTokens->sendCounters[1], received = hostTokens->sendCounters[2];
    carryRows<WARPS>(hostTokens, sent, received);
    if (threadIdx.x == 0) {
        hostTokens->sendCounters[1] = sent;
        hostTokens->sendCounters[2] = received;
    }
}

// The step's own rows, and slots for in-flight tokens from row firstSlot on. Where no transfer kernel carries these
// (place & DECODE_CARRIES), the first thread block does. Beside prompts' attention (place & DECODE_BESIDE), the kernel
// before this one, all that is read here is there, and the last thread blocks have the partitions: others, which find
// no room yet, must not be waited for. It is waited for at the end.
// queries, out [rows][HEADS][HEAD_WIDTH]; blocks: this layer's; header: rows, units, thread blocks that share them,
// units of start-up cost parts [thread blocks][QUADS] of the pair that began in an earlier partition, with partNorms
// (maximum,
// sum of weights) likewise; both NOT_THERE, before and after
extern "C" __global__ void __launch_bounds__(WARPS * 32, (HEAD_WIDTH > 128 ? 8 : 12) / WARPS) decode_attention(
        const half16 *queries, const half16 *blocks, const int *tables, const Sequence *sequences, const int *header,
        float scale, half16 *out, float4 *parts, float2 *partNorms, int slots, int firstSlot, HostTokens *hostTokens,
        int layer, int place) {
    __shared__ float merged[WARPS][GROUP][HEAD_WIDTH];
    __shared__ float maxima[WARPS][GROUP], totals[WARPS][GROUP];
    __shared__ int found;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    int rows = header[0], units = header[1], sharing = header[2];
    dependentsLaunch();
    bool beside = place & DECODE_BESIDE;
    if (beside) __threadfence(); // nothing older is in the first-level cache
    if (blockIdx.x < (place & DECODE_CARRIES)) {
        if (!beside) dependencyWait();
        carry(hostTokens);
        if (beside) dependencyWait();
        return;
    }
    int partition = beside ? (int)blockIdx.x - ((int)gridDim.x - sharing) : (int)blockIdx.x - (place & DECODE_CARRIES);
    if (partition < 0 || partition >= sharing) return;
    int unit = (int)((long)units * partition / sharing), endUnit = (int)((long)units * (partition + 1) / sharing);
    int thread = partition * WARPS * 32 + threadIdx.x;
    bool exchanges = partition * WARPS * 32 < slots * HEADS * HEAD_DIM / 8, waited = beside || exchanges;
    if (exchanges) {
        if (!beside) dependencyWait();
        exchange(hostTokens, layer, slots, place, thread, sharing * WARPS * 32,
                out + (size_t)firstSlot * HEADS * HEAD_WIDTH);
    }
    for (int r = threadIdx.x; r < rows; r += WARPS * 32) {
        if (sequences[r].firstUnit <= unit && (r + 1 == rows || sequences[r + 1].firstUnit > unit)) found = r;
    }
    __syncthreads();
    int row = found, others = 0; // partitions that leave a part of the last pair
    uint2 *result = nullptr;
    while (unit < endUnit) {
        Sequence sequence = sequences[row];
        int startUpCost = header[3];
        int kvHead = (unit - sequence.firstUnit) / (sequence.blocks + startUpCost);
        int pairBegin = sequence.firstUnit + kvHead * (sequence.blocks + startUpCost) + startUpCost,
                pairEnd = pairBegin + sequence.blocks;
        unit = max(unit, pairBegin);
        int here = min(pairEnd, endUnit) - unit, first = unit - pairBegin;
        if (here <= 0) break;
        int mine = (here - warp + WARPS - 1) / WARPS;
        int ids = 0;
        uint4 k0[GROUPS32], k1[GROUPS32], v0[GROUPS32], v1[GROUPS32];
        auto keys = [&](int j) {
            if (j % 32 == 0) ids = j + lane < mine ? tables[sequence.table + first + warp + (j + lane) * WARPS] : 0;
            int id = __shfl_sync(~0u, ids, j % 32);
            const half16 *tile = blocks + (size_t)id * LAYERS * LAYER_BLOCK + kvHead * 2 * KV_TILE + g * HEAD_WIDTH + q * 8;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                k0[t] = stream(tile + t * 32);
                k1[t] = stream(tile + 8 * HEAD_WIDTH + t * 32);
            }
        };
        auto values = [&](int j) {
            int id = __shfl_sync(~0u, ids, j % 32);
            const half16 *tile = blocks + (size_t)id * LAYERS * LAYER_BLOCK + kvHead * 2 * KV_TILE + KV_TILE
                    + (q * HEAD_WIDTH + g * 4) * 2;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                v0[t] = stream(tile + t * 64);
                v1[t] = stream(tile + 8 * HEAD_WIDTH + t * 64);
            }
        };
        // only the sequence's last block is written by the kernel before: others may be read before it has ended
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
        uint4 fragments[EIGHT_HEADS][GROUPS32];
        float sums[EIGHT_HEADS][2 * GROUPS32][4];
        float maximum[EIGHT_HEADS][2], total[EIGHT_HEADS][2];
#pragma unroll
        for (int e = 0; e < EIGHT_HEADS; e++) {
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
            // four chains: the MMAs of one wait for each other
            float scores[EIGHT_HEADS][4][4];
#pragma unroll
            for (int e = 0; e < EIGHT_HEADS; e++) {
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
            word weights[EIGHT_HEADS][2];
#pragma unroll
            for (int e = 0; e < EIGHT_HEADS; e++) {
                float s[4];
#pragma unroll
                for (int i = 0; i < 4; i++)
                    s[i] = token + i / 2 * 8 < sequence.length
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
                for (int e = 0; e < EIGHT_HEADS; e++) {
                    multiply(sums[e][2 * t], v0[t].x, v0[t].y, v1[t].x, v1[t].y, weights[e][0], weights[e][1]);
                    multiply(sums[e][2 * t + 1], v0[t].z, v0[t].w, v1[t].z, v1[t].w, weights[e][0], weights[e][1]);
                }
            }
            if (j + 1 < mine) values(j + 1);
        }
#pragma unroll
        for (int e = 0; e < EIGHT_HEADS; e++) {
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
        // the thread block that owns a unit: the one whose partition of units * c / sharing ... holds it
        int firstOwner = (int)(((long)(pairBegin + 1) * sharing - 1) / units),
                lastOwner = (int)(((long)pairEnd * sharing - 1) / units);
        result = (uint2 *)(out + ((size_t)row * HEADS + kvHead * GROUP) * HEAD_WIDTH);
        others = lastOwner - partition;
        if (partition == firstOwner && others > 0) break; // which is the partition's end
#pragma unroll 1
        for (int i = threadIdx.x; i < QUADS; i += WARPS * 32) {
            Sum sum = overWarps(merged, maxima, totals, i);
            if (partition == firstOwner) sum.store(result + i);
            else publishPartial(parts, partNorms, (size_t)partition * QUADS + i, sum);
        }
        others = 0;
        __syncthreads();
        unit += here;
        if (unit == pairEnd && kvHead == KV_HEADS - 1) row++;
    }
#pragma unroll 1
    for (int i = threadIdx.x; others > 0 && i < QUADS; i += WARPS * 32) {
        Sum sum = overWarps(merged, maxima, totals, i);
        mergePartials(parts, partNorms, (size_t)(partition + 1) * QUADS + i, others, sum);
        sum.store(result + i);
    }
    // without work too: the kernel after this one relies on the kernel before it having ended
    if (!waited || beside) dependencyWait();
}
