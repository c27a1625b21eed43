// Row-wise operations between the products. One block a row unless said otherwise.

// residual[row] = table[tokens[row]]; angles[row][i] = (cos, sin) of position times frequency
extern "C" __global__ void embed(const int *tokens, const int *positions, const half16 *table, const float *frequencies,
                                 float *residual, float2 *angles) {
    dependentsLaunch();
    dependencyWait();
    int row = blockIdx.x;
    const half16 *from = table + (size_t)tokens[row] * HIDDEN;
    for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) residual[(size_t)row * HIDDEN + i] = widen(from[i]);
    for (int i = threadIdx.x; i < HEAD_DIM / 2; i += blockDim.x) {
        float s, c;
        sincosf(positions[row] * frequencies[i], &s, &c);
        angles[(size_t)row * (HEAD_DIM / 2) + i] = make_float2(c, s);
    }
}

// residual[row] += sum of the product's partials [splits][partialRows][HIDDEN]; out[block] = its RMS norm.
// rowMap picks the rows whose norm is wanted; with it the residual is left as it was.
extern "C" __global__ void __launch_bounds__(1024) add_norm(float *residual, const float *partials, int splits, int partialRows,
                                                          const float *weight, const int *rowMap, half16 *out, float epsilon) {
    dependentsLaunch();
    dependencyWait();
    int row = rowMap ? rowMap[blockIdx.x] : blockIdx.x;
    float4 *mine = (float4 *)(residual + (size_t)row * HIDDEN);
    const int PER = (HIDDEN / 4 + 1023) / 1024;
    float4 v[PER];
    float squares = 0;
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = threadIdx.x + j * blockDim.x;
        if (i >= HIDDEN / 4) break;
        v[j] = mine[i];
#pragma unroll 4
        for (int s = 0; s < splits; s++) {
            float4 p = ((const float4 *)(partials + ((size_t)s * partialRows + row) * HIDDEN))[i];
            v[j].x += p.x; v[j].y += p.y; v[j].z += p.z; v[j].w += p.w;
        }
        if (splits && !rowMap) mine[i] = v[j];
        squares += v[j].x * v[j].x + v[j].y * v[j].y + v[j].z * v[j].z + v[j].w * v[j].w;
    }
    float scale = rsqrtf(blockSum(squares) / HIDDEN_REAL + epsilon);
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = threadIdx.x + j * blockDim.x;
        if (i >= HIDDEN / 4) break;
        float4 w = ((const float4 *)weight)[i];
        uint2 r = make_uint2(pack(v[j].x * scale * w.x, v[j].y * scale * w.y), pack(v[j].z * scale * w.z, v[j].w * scale * w.w));
        ((uint2 *)(out + (size_t)blockIdx.x * HIDDEN))[i] = r;
    }
}

// q, k and v of a row: sum of partials (splits > 0) or the finished product, bias, norm of q and k heads, rotation.
// q goes to queries [rows][HEADS][HEAD_WIDTH], k and v to the row's slot of this layer's blocks (slot < 0: nowhere).
// A warp a head; grid (rows, heads / 4).
extern "C" __global__ void __launch_bounds__(128) rope_store(const float *partials, int splits, int partialRows, const half16 *product,
        const float *bias, const float *queryNorm, const float *keyNorm, float epsilon, const float2 *angles,
        const int *slots, half16 *queries, half16 *blocks) {
    dependentsLaunch();
    dependencyWait();
    int row = blockIdx.x, head = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (head >= HEADS + 2 * KV_HEADS) return;
    int column = head * HEAD_WIDTH;
    const int PER = HEAD_WIDTH / 32;
    // lane holds dimensions lane + 32 i: rotation needs both halves of the head, so they go through shared memory
    __shared__ float values[4][HEAD_WIDTH];
    float *mine = values[threadIdx.x / 32];
    float squares = 0;
    float x[PER];
#pragma unroll
    for (int i = 0; i < PER; i++) {
        int d = column + lane + 32 * i;
        float v = bias ? bias[d] : 0.f;
        if (splits == 0) v += widen(product[(size_t)row * QKV_WIDTH + d]);
#pragma unroll 4
        for (int s = 0; s < splits; s++) v += partials[((size_t)s * partialRows + row) * QKV_WIDTH + d];
        x[i] = v;
        squares += v * v;
    }
    bool isKey = head >= HEADS && head < HEADS + KV_HEADS, isQuery = head < HEADS;
    const float *norm = isQuery ? queryNorm : isKey ? keyNorm : nullptr;
    if (norm) {
        float scale = rsqrtf(warpSum(squares) / HEAD_DIM + epsilon);
#pragma unroll
        for (int i = 0; i < PER; i++) x[i] *= lane + 32 * i < HEAD_DIM ? scale * norm[lane + 32 * i] : 0.f;
    }
#pragma unroll
    for (int i = 0; i < PER; i++) mine[lane + 32 * i] = x[i];
    __syncwarp();
    if (isQuery || isKey) {
#pragma unroll
        for (int i = 0; i < PER; i++) {
            int d = lane + 32 * i;
            if (d < HEAD_DIM) {
                bool first = d < HEAD_DIM / 2;
                float2 a = angles[(size_t)row * (HEAD_DIM / 2) + (first ? d : d - HEAD_DIM / 2)];
                float other = mine[first ? d + HEAD_DIM / 2 : d - HEAD_DIM / 2];
                x[i] = first ? x[i] * a.x - other * a.y : x[i] * a.x + other * a.y;
            }
        }
    }
    if (isQuery) {
        for (int i = 0; i < PER; i++) queries[((size_t)row * HEADS + head) * HEAD_WIDTH + lane + 32 * i] = narrow(x[i]);
        return;
    }
    int slot = slots[row];
    if (slot < 0) return;
    int kvHead = (head - HEADS) % KV_HEADS, token = slot % BLOCK_TOKENS;
    half16 *tile = blocks + ((size_t)(slot / BLOCK_TOKENS) * KV_HEADS + kvHead) * 2 * KV_TILE;
    for (int i = 0; i < PER; i++) {
        int d = lane + 32 * i;
        if (isKey) tile[token * HEAD_WIDTH + d] = narrow(x[i]);
        else tile[KV_TILE + ((token / 2) * HEAD_WIDTH + d) * 2 + token % 2] = narrow(x[i]);
    }
}

// out[row][i] = silu(gate) * up of a product [rows][2 INTERMEDIATE]; eight values a thread
extern "C" __global__ void __launch_bounds__(256) swiglu(const half16 *gateUp, half16 *out, int rows) {
    dependentsLaunch();
    dependencyWait();
    long at = ((long)blockIdx.x * blockDim.x + threadIdx.x) * 8;
    if (at >= (long)rows * INTERMEDIATE) return;
    long row = at / INTERMEDIATE, column = at % INTERMEDIATE;
    uint4 gates = *(const uint4 *)(gateUp + row * 2 * INTERMEDIATE + column);
    uint4 ups = *(const uint4 *)(gateUp + row * 2 * INTERMEDIATE + INTERMEDIATE + column);
    uint4 r;
    const word *g = (const word *)&gates, *u = (const word *)&ups;
    word *o = (word *)&r;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float a = low(g[i]), b = high(g[i]);
        o[i] = pack(a / (1 + __expf(-a)) * low(u[i]), b / (1 + __expf(-b)) * high(u[i]));
    }
    *(uint4 *)(out + at) = r;
}

// whole blocks of all layers from one pool to another; a pool may be pinned host memory.
// Pools are [layers][blocks]{block}; pairs holds (from, to). grid (pairs, layers)
extern "C" __global__ void copy_blocks(const uint4 *from, uint4 *to, long fromLayer, long toLayer, const int2 *pairs) {
    const int WORDS = KV_HEADS * 2 * KV_TILE / 8;
    int2 pair = pairs[blockIdx.x];
    const uint4 *source = from + blockIdx.y * fromLayer + (long)pair.x * WORDS;
    uint4 *target = to + blockIdx.y * toLayer + (long)pair.y * WORDS;
    for (int i = threadIdx.x; i < WORDS; i += blockDim.x) target[i] = source[i];
}

// seeded values, uniform around `centre`, for weights of which only the shape matters; columns beyond `real` are zero
extern "C" __global__ void random_fill(half16 *out, long count, int columns, int real, wide seed, float centre, float scale) {
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
        wide x = seed + (wide)i * 0x9e3779b97f4a7c15ull;
        x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
        x = (x ^ x >> 27) * 0x94d049bb133111ebull;
        x ^= x >> 31;
        float uniform = (float)(x >> 40) * (2.f / 16777216.f) - 1;
        out[i] = i % columns < real ? narrow(centre + scale * uniform) : (half16)0;
    }
}
