// Row-wise operations between the products. One block a row unless said otherwise.

// residual[row] = table[tokens[row]]; angles[row][i] = (cos, sin) of position times frequency. Rows from firstSlot on are
// slots: those that enter layer 0 (admitted[slot] >= 0, with what their token is drawn by) keep theirs in `flights`. A negative
// token is one that the step before has chosen, its -1 - token'th; that one is -1 where logits were no numbers.
extern "C" __global__ void embed(const int *tokens, const int *chosen, const int *positions, const half16 *table, const float *frequencies,
                                 float *residual, float2 *angles, int firstSlot, Flights *flights, const int *admitted,
                                 const Draw *draws) {
    dependentsLaunch();
    dependencyWait();
    int row = blockIdx.x;
    float *to = residual + (size_t)row * HIDDEN;
    float2 *turns = angles + (size_t)row * (HEAD_DIM / 2);
    if (row >= firstSlot) {
        int slot = row - firstSlot, flight = admitted[slot];
        if (threadIdx.x == 0) flights->slotMaps[slot] = flight;
        if (threadIdx.x == 0 && slot == 0) *(volatile wide *)(flights->departed + 3) = 0;
        for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) to[i] = 0;
        if (flight < 0) return;
        to = flights->residual + (size_t)flight * HIDDEN;
        turns = flights->angles + (size_t)flight * (HEAD_DIM / 2);
        if (threadIdx.x == 0) flights->draws[flight] = draws[slot];
    }
    int token = tokens[row];
    if (token < 0) token = max(chosen[-1 - token], 0);
    const half16 *from = table + (size_t)token * HIDDEN;
    for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) to[i] = widen(from[i]);
    for (int i = threadIdx.x; i < HEAD_DIM / 2; i += blockDim.x) {
        float s, c;
        sincosf(positions[row] * frequencies[i], &s, &c);
        turns[i] = make_float2(c, s);
    }
}

// residual[row] += sum of the product's partials [splits][partialRows][HIDDEN]; out[block] = its RMS norm.
// rowMap picks the rows whose norm is wanted; with it the residual is left as it was.
// The residual of a slot's row is in `flights`; what products have added since is in the slot's own place, and becomes zero.
extern "C" __global__ void __launch_bounds__(1024) add_norm(float *residual, const float *partials, int splits, int partialRows,
                                                          const float *weight, const int *rowMap, half16 *out, float epsilon,
                                                          int firstSlot, const Flights *flights, int mapLayer) {
    dependentsLaunch();
    dependencyWait();
    int row = rowMap ? rowMap[blockIdx.x] : blockIdx.x;
    float4 *mine = (float4 *)(residual + (size_t)row * HIDDEN), *home = nullptr;
    if (row >= firstSlot) {
        int flight = slotted(flights, mapLayer, row - firstSlot);
        if (flight >= 0) home = (float4 *)(flights->residual + (size_t)flight * HIDDEN);
    }
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
        if (row >= firstSlot) {
            float4 before = home ? home[i] : make_float4(0, 0, 0, 0);
            v[j].x += before.x; v[j].y += before.y; v[j].z += before.z; v[j].w += before.w;
            if (home && !rowMap) home[i] = v[j];
            if (!rowMap) mine[i] = make_float4(0, 0, 0, 0);
        } else if (splits && !rowMap) {
            mine[i] = v[j];
        }
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

// The last layer's rows that nobody samples have stored their K and V and go no further: the others, rowMap[0], rowMap[1], ..., close up
// to the front of residual [rows][HIDDEN] and attended [rows][HEADS][HEAD_WIDTH], in place: rowMap[i] >= i. A thread takes 16 bytes
// of all rows in turn, as many at a time as it has registers for.
#define CLOSING 16
extern "C" __global__ void __launch_bounds__(128) close_up(float *residual, half16 *attended, const int *rowMap, int count) {
    dependentsLaunch();
    dependencyWait();
    const int RESIDUAL = HIDDEN / 4, ATTENDED = HEADS * HEAD_WIDTH / 8;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= RESIDUAL + ATTENDED) return;
    uint4 *data = column < RESIDUAL ? (uint4 *)residual + column : (uint4 *)attended + column - RESIDUAL;
    size_t stride = column < RESIDUAL ? RESIDUAL : ATTENDED;
    for (int from = 0; from < count; from += CLOSING) {
        uint4 some[CLOSING];
#pragma unroll
        for (int i = 0; i < CLOSING; i++)
            if (from + i < count) some[i] = data[rowMap[from + i] * stride];
#pragma unroll
        for (int i = 0; i < CLOSING; i++)
            if (from + i < count) data[(from + i) * stride] = some[i];
    }
}

// a warp: the next entries of the layer's ring, in order, take the slots
__device__ __noinline__ void choosePassengers(const Flights *flights, int layer, int slots) {
    int lane = threadIdx.x % 32;
    wide taken = flights->boarded[layer];
    int boarded = 0;
    bool more = true;
    for (int from = 0; from < slots; from += 32) {
        int slot = from + lane;
        const volatile wide *ring = flights->arrivals + (size_t)layer * (flights->ringMask + 1);
        wide entry = more && slot < slots ? ring[(taken + slot) & flights->ringMask] : 0;
        word there = __ballot_sync(~0u, entry >> 16 == taken + slot + 1);
        int run = there == ~0u ? 32 : __ffs(~there) - 1;
        if (slot < slots) flights->slotMaps[(layer + 1) * MOST_SLOTS + slot] = lane < run ? (int)(entry & 0xffff) : -1;
        boarded += min(run, slots - from);
        more = run == 32;
    }
    if (lane == 0) flights->boarded[layer] = taken + boarded;
}

// q, k and v of a row: sum of partials (splits > 0) or the finished product, bias, norm of q and k heads, rotation.
// q goes to queries [rows][HEADS][HEAD_WIDTH], k and v to the row's slot of this layer's blocks (slot -1: nowhere); blocks
// from poolBlocks on are staging, stagingShift blocks further. q, k and v of rows in flight go to `flights`; so do those of rows
// that the CPU attends to within the step (slot < -1).
// A warp a head; grid (rows, heads / 4), with slots a row of blocks more, which chooses who boards at this layer.
extern "C" __global__ void __launch_bounds__(128) rope_store(const float *partials, int splits, int partialRows, const half16 *product,
        const float *bias, const float *queryNorm, const float *keyNorm, float epsilon, const float2 *angles,
        const int *slots, half16 *queries, half16 *blocks, int poolBlocks, int stagingShift, int firstSlot, const Flights *flights, int layer,
        int rows) {
    dependentsLaunch();
    int row = blockIdx.x, head = blockIdx.y * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
    // the courier beside this fills what it reads: no need to wait for the product
    if (row == rows && head == 0) choosePassengers(flights, layer, rows - firstSlot);
    dependencyWait();
    if (row == rows || head >= HEADS + 2 * KV_HEADS) return;
    int flight = row >= firstSlot ? slotted(flights, layer, row - firstSlot) : -1;
    if (row >= firstSlot && flight < 0) return;
    const float2 *turns = flight >= 0 ? flights->angles + (size_t)flight * (HEAD_DIM / 2) : angles + (size_t)row * (HEAD_DIM / 2);
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
                float2 a = turns[first ? d : d - HEAD_DIM / 2];
                float other = mine[first ? d + HEAD_DIM / 2 : d - HEAD_DIM / 2];
                x[i] = first ? x[i] * a.x - other * a.y : x[i] * a.x + other * a.y;
            }
        }
    }
    int slot = flight >= 0 ? -1 : slots[row], passing = flight >= 0 ? flight : hostFlight(slot);
    if (passing >= 0) {
        half16 *to = flights->outgoing + ((size_t)passing * (HEADS + 2 * KV_HEADS) + head) * HEAD_DIM;
        for (int i = 0; i < PER; i++) {
            if (lane + 32 * i < HEAD_DIM) to[lane + 32 * i] = narrow(x[i]);
        }
        return;
    }
    if (isQuery) {
        for (int i = 0; i < PER; i++) queries[((size_t)row * HEADS + head) * HEAD_WIDTH + lane + 32 * i] = narrow(x[i]);
        return;
    }
    int kvHead = (head - HEADS) % KV_HEADS;
    if (slot < 0) return;
    int token = slot % BLOCK_TOKENS, block = slot / BLOCK_TOKENS;
    if (block >= poolBlocks) block += stagingShift;
    half16 *tile = blocks + ((size_t)block * KV_HEADS + kvHead) * 2 * KV_TILE;
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

// One host block and the GPU blocks of its tokens.
struct Move { int host, tokens, gpu[4], unused0, unused1; };
struct Moves { int count, unused[7]; Move list[1]; };

__device__ __forceinline__ word component(const uint4 &v, int i) { return ((const word *)&v)[i]; }
// four rows of four columns become four columns of four rows
__device__ __forceinline__ void transpose(uint4 *v) {
    uint4 r[4];
#pragma unroll
    for (int i = 0; i < 4; i++) r[i] = make_uint4(component(v[0], i), component(v[1], i), component(v[2], i), component(v[3], i));
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = r[i];
}

// A thread's part of one KV head of a moved block: K of four tokens by eight dimensions, and four times four dimensions of V of
// two tokens. No shared memory: these run beside kernels that want all of it.
#define MOVE_THREADS 512
#define PARTS_A_HEAD (2 * HEAD_WIDTH)
struct MovePart {
    const Move *move;
    int layer, head, token, pair, part;
    __device__ __forceinline__ MovePart(const Moves *moves, int count, long at) {
        part = at % PARTS_A_HEAD;
        int item = at / PARTS_A_HEAD;
        head = item % KV_HEADS;
        layer = item / KV_HEADS / count;
        move = &moves->list[item / KV_HEADS % count];
        token = part % (HOST_TOKENS / 4) * 4;
        pair = part / (HOST_TOKENS / 4) * 4;
    }
    __device__ __forceinline__ long gpuTile(int token) const { return ((long)move->gpu[token / BLOCK_TOKENS] * KV_HEADS + head) * KV_TILE; }
    __device__ __forceinline__ long gpuKeys(int token) const { return gpuTile(token) + token % BLOCK_TOKENS * (HEAD_WIDTH / 2) + pair; }
    __device__ __forceinline__ long host() const { return ((long)move->host * KV_HEADS + head) * HOST_HEAD_WORDS; }
    __device__ __forceinline__ long hostKeys(int i) const { return host() + (pair + i) * HOST_TOKENS + token; }
    // the i-th of V's: tokens 2 at / (HEAD_WIDTH / 4) and the next
    __device__ __forceinline__ int valuePair(int i) const { return (part + i * PARTS_A_HEAD) / (HEAD_WIDTH / 4); }
    __device__ __forceinline__ int valueDim(int i) const { return (part + i * PARTS_A_HEAD) % (HEAD_WIDTH / 4) * 4; }
    __device__ __forceinline__ long gpuValues(int i) const {
        int first = 2 * valuePair(i);
        return gpuTile(first) + KV_TILE / 2 + first % BLOCK_TOKENS / 2 * HEAD_WIDTH + valueDim(i);
    }
    __device__ __forceinline__ long hostValues(int i) const { return host() + HOST_KEY_WORDS + valuePair(i) * HEAD_DIM + valueDim(i); }
};

// KV of `layers` layers from GPU blocks to host blocks. gpu and host point at the first layer; gpuLayer and hostLayer are words
// to the next one. V of tokens that are not there is zero, and so are the rows that pad K.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) move_out(const word *gpu, word *host, long gpuLayer, long hostLayer, const Moves *moves, int layers) {
    int count = moves->count;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    for (long at = (long)blockIdx.x * MOVE_THREADS + threadIdx.x; at < (long)layers * count * KV_HEADS * PARTS_A_HEAD; at += (long)gridDim.x * MOVE_THREADS) {
        MovePart part(moves, count, at);
        const word *source = gpu + part.layer * gpuLayer;
        word *target = host + part.layer * hostLayer;
        int tokens = part.move->tokens;
        uint4 k[4], v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) k[i] = part.token + i < tokens ? *(const uint4 *)(source + part.gpuKeys(part.token + i)) : zero;
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = 2 * part.valuePair(i) < tokens ? *(const uint4 *)(source + part.gpuValues(i)) : zero;
        transpose(k);
#pragma unroll
        for (int i = 0; i < 4; i++) *(uint4 *)(target + part.hostKeys(i)) = part.pair + i < HEAD_DIM / 2 ? k[i] : zero;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (2 * part.valuePair(i) + 1 == tokens) v[i] = make_uint4(v[i].x & 0xffff, v[i].y & 0xffff, v[i].z & 0xffff, v[i].w & 0xffff);
            if (part.valueDim(i) < HEAD_DIM) *(uint4 *)(target + part.hostValues(i)) = v[i];
        }
    }
}

// the other way
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) move_in(word *gpu, const word *host, long gpuLayer, long hostLayer, const Moves *moves, int layers) {
    int count = moves->count;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    for (long at = (long)blockIdx.x * MOVE_THREADS + threadIdx.x; at < (long)layers * count * KV_HEADS * PARTS_A_HEAD; at += (long)gridDim.x * MOVE_THREADS) {
        MovePart part(moves, count, at);
        word *target = gpu + part.layer * gpuLayer;
        const word *source = host + part.layer * hostLayer;
        int tokens = part.move->tokens;
        uint4 k[4], v[4];
#pragma unroll
        for (int i = 0; i < 4; i++) k[i] = part.token < tokens && part.pair + i < HEAD_DIM / 2 ? *(const uint4 *)(source + part.hostKeys(i)) : zero;
#pragma unroll
        for (int i = 0; i < 4; i++) v[i] = 2 * part.valuePair(i) < tokens && part.valueDim(i) < HEAD_DIM ? *(const uint4 *)(source + part.hostValues(i)) : zero;
        transpose(k);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (part.token + i < tokens) *(uint4 *)(target + part.gpuKeys(part.token + i)) = k[i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (2 * part.valuePair(i) < tokens) *(uint4 *)(target + part.gpuValues(i)) = v[i];
        }
    }
}

// Whether KV arrives as it leaves, whatever the format: sums [moves][allLayers] over every value and its place in the host block.
// gpu points at layer `first`, gpuLayer values to the next one; grid (any, layers)
extern "C" __global__ void __launch_bounds__(256) sum_moved(const half16 *gpu, long gpuLayer, const Moves *moves, int first, int allLayers, wide *sums) {
    __shared__ wide warps[8];
    gpu += blockIdx.y * gpuLayer;
    for (int i = blockIdx.x; i < moves->count; i += gridDim.x) {
        const Move *move = &moves->list[i];
        int tokens = move->tokens;
        wide sum = 0;
        for (int at = threadIdx.x; at < 2 * KV_HEADS * tokens * HEAD_DIM; at += 256) {
            int dim = at % HEAD_DIM, token = at / HEAD_DIM % tokens, kind = at / HEAD_DIM / tokens, here = token % BLOCK_TOKENS;
            const half16 *tile = gpu + ((size_t)move->gpu[token / BLOCK_TOKENS] * KV_HEADS + kind / 2) * 2 * KV_TILE;
            half16 value = kind % 2 ? tile[KV_TILE + (here / 2 * HEAD_WIDTH + dim) * 2 + here % 2] : tile[here * HEAD_WIDTH + dim];
            wide place = ((wide)kind * HOST_TOKENS + token) * HEAD_DIM + dim;
            sum += mixed((place << 16 | value) * 0x9e3779b97f4a7c15ull);
        }
        for (int step = 16; step; step >>= 1) sum += __shfl_xor_sync(~0u, sum, step);
        __syncthreads();
        if (threadIdx.x % 32 == 0) warps[threadIdx.x / 32] = sum;
        __syncthreads();
        if (threadIdx.x == 0) {
            for (int w = 1; w < 8; w++) sum += warps[w];
            sums[(size_t)i * allLayers + first + blockIdx.y] = sum;
        }
    }
}

// seeded values, uniform around `centre`, for weights of which only the shape matters; columns beyond `real` are zero
extern "C" __global__ void random_fill(half16 *out, long count, int columns, int real, wide seed, float centre, float scale) {
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
        wide x = mixed(seed + (wide)i * 0x9e3779b97f4a7c15ull);
        float uniform = (float)(x >> 40) * (2.f / 16777216.f) - 1;
        out[i] = i % columns < real ? narrow(centre + scale * uniform) : (half16)0;
    }
}
