// Decode attention over paged KV, split over context. A work item is a row, one of its KV heads and a range of its
// context; a block's warps take its KV blocks in turn, 16 tokens each, and merge; the last item of a (row, head) to finish
// merges the items. Tokens are the 16-row operand, the heads of the group the 8 columns: scores^T = K q^T, then
// out^T = V^T p^T with V stored in token pairs. K and V go from memory to registers in the order in which they are used.

#define GROUPS32 (HEAD_WIDTH / 32)
#define WARPS (GROUP * HEAD_WIDTH > 2560 ? 2 : 4)

struct Item { int row, firstToken, endToken, table, split, splits, unused0, unused1; };

// queries, out [rows][HEADS][HEAD_WIDTH]; blocks: this layer's; count[0] items, each for KV_HEADS heads
// partialOut [items][KV_HEADS][GROUP][HEAD_WIDTH], partialNorm [items][KV_HEADS][GROUP] (maximum, sum); finished zeroed
extern "C" __global__ void __launch_bounds__(WARPS * 32, 12 / WARPS) decode_attention(const half16 *queries, const half16 *blocks,
        const int *tables, const Item *items, const int *count, float scale, half16 *out, float *partialOut,
        float2 *partialNorm, int *finished) {
    __shared__ float merged[WARPS][GROUP][HEAD_WIDTH];
    __shared__ float maxima[WARPS][GROUP], totals[WARPS][GROUP];
    __shared__ int last;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
    dependentsLaunch();
    dependencyWait();
    int work = count[0] * KV_HEADS;
    for (int at = blockIdx.x; at < work; at += gridDim.x) {
        Item item = items[at / KV_HEADS];
        int kvHead = at % KV_HEADS;
        int first = item.firstToken / BLOCK_TOKENS, here = (item.endToken - item.firstToken + BLOCK_TOKENS - 1) / BLOCK_TOKENS;
        int mine = (here - warp + WARPS - 1) / WARPS;
        int ids = lane < mine ? tables[item.table + first + warp + lane * WARPS] : 0;
        const half16 *query = queries + ((size_t)item.row * HEADS + kvHead * GROUP) * HEAD_WIDTH;
        uint4 fragments[EIGHT_HEADS][GROUPS32];
        float sums[EIGHT_HEADS][2 * GROUPS32][4];
        float maximum[EIGHT_HEADS][2], total[EIGHT_HEADS][2];
#pragma unroll
        for (int e = 0; e < EIGHT_HEADS; e++) {
            maximum[e][0] = maximum[e][1] = -INFINITE;
            total[e][0] = total[e][1] = 0;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                fragments[e][t] = e * 8 + g < GROUP ? *(const uint4 *)(query + (e * 8 + g) * HEAD_WIDTH + t * 32 + q * 8) : make_uint4(0, 0, 0, 0);
#pragma unroll
                for (int i = 0; i < 4; i++) sums[e][2 * t][i] = sums[e][2 * t + 1][i] = 0;
            }
        }
        uint4 k0[GROUPS32], k1[GROUPS32], v0[GROUPS32], v1[GROUPS32];
        auto keys = [&](int j) {
            int id = __shfl_sync(~0u, ids, j);
            const half16 *tile = blocks + ((size_t)id * KV_HEADS + kvHead) * 2 * KV_TILE + g * HEAD_WIDTH + q * 8;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                k0[t] = stream(tile + t * 32);
                k1[t] = stream(tile + 8 * HEAD_WIDTH + t * 32);
            }
        };
        auto values = [&](int j) {
            int id = __shfl_sync(~0u, ids, j);
            const half16 *tile = blocks + ((size_t)id * KV_HEADS + kvHead) * 2 * KV_TILE + KV_TILE + (q * HEAD_WIDTH + g * 4) * 2;
#pragma unroll
            for (int t = 0; t < GROUPS32; t++) {
                v0[t] = stream(tile + t * 64);
                v1[t] = stream(tile + 8 * HEAD_WIDTH + t * 64);
            }
        };
        if (mine > 0) {
            keys(0);
            values(0);
        }
        for (int j = 0; j < mine; j++) {
            float scores[EIGHT_HEADS][4];
#pragma unroll
            for (int e = 0; e < EIGHT_HEADS; e++) {
#pragma unroll
                for (int i = 0; i < 4; i++) scores[e][i] = 0;
#pragma unroll
                for (int t = 0; t < GROUPS32; t++) {
                    uint4 f = fragments[e][t];
                    multiply(scores[e], k0[t].x, k1[t].x, k0[t].y, k1[t].y, f.x, f.y);
                    multiply(scores[e], k0[t].z, k1[t].z, k0[t].w, k1[t].w, f.z, f.w);
                }
            }
            if (j + 1 < mine) keys(j + 1);
            int token = item.firstToken + (warp + j * WARPS) * BLOCK_TOKENS + g;
            word weights[EIGHT_HEADS][2];
#pragma unroll
            for (int e = 0; e < EIGHT_HEADS; e++) {
                float s[4];
#pragma unroll
                for (int i = 0; i < 4; i++) s[i] = token + i / 2 * 8 < item.endToken ? scores[e][i] * scale : -INFINITE;
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
        half16 *result = out + ((size_t)item.row * HEADS + kvHead * GROUP) * HEAD_WIDTH;
        for (int i = threadIdx.x; i < GROUP * HEAD_WIDTH; i += WARPS * 32) {
            int head = i / HEAD_WIDTH;
            float m = -INFINITE, sum = 0, norm = 0;
#pragma unroll
            for (int w = 0; w < WARPS; w++) m = fmaxf(m, maxima[w][head]);
#pragma unroll
            for (int w = 0; w < WARPS; w++) {
                float factor = exp2Fast(maxima[w][head] - m);
                sum += factor * merged[w][head][i % HEAD_WIDTH];
                norm += factor * totals[w][head];
            }
            if (item.splits == 1) {
                result[i] = narrow(sum / norm);
            } else {
                partialOut[(size_t)at * GROUP * HEAD_WIDTH + i] = sum;
                if (i % HEAD_WIDTH == 0) partialNorm[(size_t)at * GROUP + head] = make_float2(m, norm);
            }
        }
        if (item.splits > 1) {
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) {
                int *counter = finished + item.row * KV_HEADS + kvHead;
                last = atomicAdd(counter, 1) == item.splits - 1;
                if (last) *counter = 0;
            }
            __syncthreads();
            if (last) {
                __threadfence();
                // items of a row follow each other; so do their partials, KV_HEADS apart
                size_t base = (size_t)(at - item.split * KV_HEADS);
                for (int i = threadIdx.x; i < GROUP * HEAD_WIDTH; i += WARPS * 32) {
                    int head = i / HEAD_WIDTH;
                    float m = -INFINITE, sum = 0, norm = 0;
                    for (int s = 0; s < item.splits; s++) m = fmaxf(m, __ldcg(&partialNorm[(base + s * KV_HEADS) * GROUP + head].x));
                    for (int s = 0; s < item.splits; s++) {
                        size_t part = base + s * KV_HEADS;
                        float factor = exp2Fast(__ldcg(&partialNorm[part * GROUP + head].x) - m);
                        sum += factor * __ldcg(&partialOut[part * GROUP * HEAD_WIDTH + i]);
                        norm += factor * __ldcg(&partialNorm[part * GROUP + head].y);
                    }
                    result[i] = narrow(sum / norm);
                }
            }
        }
        __syncthreads();
    }
}
