// Row-wise kernels between the GEMMs: embed, add_norm, compact_rows, qk_scales, rope_store and swiglu. Then move_out,
// move_in and sum_moved, which convert KV between GPU blocks and host blocks. Unless a kernel says otherwise, one
// thread block computes one row.
//
// Shared memory: add_norm and qk_scales have the 32 sums of blockSum, and add_norm, in a cluster, one sum per thread
// block. sum_moved has 8 sums. None has dynamic shared memory.
//
// Waits and signals:
//   all but move_*, sum_moved, random_fill      dependencyWait before they read results of the previous kernel
//   add_norm               thread blocks of a cluster exchange sums (clusterSum)
//   rope_store             takes returning tokens from returnQueues; a same-layer token's last thread block pushes its
//                          task
//   embed                  clears sendCounters[3], which ends the transfer kernel when it is 1

// N adjacent values that a thread loads or stores together
template <int N> struct alignas(N >= 4 ? 16 : 4 * N) Floats {
    float values[N];
    __device__ __forceinline__ void operator+=(const Floats &v) {
#pragma unroll
        for (int i = 0; i < N; i++) values[i] += v.values[i];
    }
};
template <int N> struct alignas(2 * N) Halves { word values[N / 2]; };
template <int N> __device__ __forceinline__ Halves<N> narrowed(const Floats<N> &v) {
    Halves<N> r;
#pragma unroll
    for (int i = 0; i < N; i += 2) r.values[i / 2] = pack(v.values[i], v.values[i + 1]);
    return r;
}
template <int N> __device__ __forceinline__ Floats<N> widened(const Halves<N> &v) {
    Floats<N> r;
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        r.values[i] = low(v.values[i / 2]);
        r.values[i + 1] = high(v.values[i / 2]);
    }
    return r;
}

// residual[row] = table[tokens[row]] * EMBEDDING_SCALE; angles[row][i] = (cos, sin) of position times frequency i, for
// the frequencies [ROTATIONS][HALF_HEAD] of all of the model's rotations. With ROTATION_FACTORS, as many factors of cos
// and sin lie behind the frequencies.
// A negative token is a placeholder for sampled[-1 - token], a token that the previous step sampled. That one is -1 if
// its logits had a NaN. Rows from firstSlot on are slots. An in-flight token that enters layer 0 (admitted[slot] >= 0)
// gets its residual, angles and draw in `hostTokens`.
extern "C" __global__ void embed(const int *tokens, const int *sampled, const int *positions, const half16 *table,
        const float *frequencies, float *residual, float2 *angles, int firstSlot, HostTokens *hostTokens,
        const int *admitted, const Draw *draws) {
    dependentsLaunch();
    dependencyWait();
    int row = blockIdx.x;
    float *to = residual + (size_t)row * HIDDEN;
    float2 *rotations = angles + (size_t)row * ANGLES;
    if (row >= firstSlot) {
        int slot = row - firstSlot, hostToken = admitted[slot];
        if (threadIdx.x == 0) hostTokens->slotMaps[slot] = hostToken;
        if (threadIdx.x == 0 && slot == 0) *(volatile u64 *)(hostTokens->sendCounters + 3) = 0;
        for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) to[i] = 0;
        if (hostToken < 0) return;
        to = hostTokens->residual + (size_t)hostToken * HIDDEN;
        rotations = hostTokens->angles + (size_t)hostToken * ANGLES;
        if (threadIdx.x == 0) hostTokens->draws[hostToken] = draws[slot];
    }
    int token = tokens[row];
    if (token < 0) token = max(sampled[-1 - token], 0);
    const half16 *from = table + (size_t)token * HIDDEN;
    for (int i = threadIdx.x; i < HIDDEN; i += blockDim.x) to[i] = widen(from[i]) * EMBEDDING_SCALE;
    for (int i = threadIdx.x; i < ANGLES; i += blockDim.x) {
        float s, c;
        sincosf(positions[row] * frequencies[i], &s, &c);
#if ROTATION_FACTORS
        s *= frequencies[ANGLES + i];
        c *= frequencies[ANGLES + i];
#endif
        rotations[i] = make_float2(c, s);
    }
}

#if __CUDA_ARCH__ >= 900
// Returns the sum over the thread blocks of a cluster in every thread. The order of additions is fixed.
template <int BLOCKS> __device__ __forceinline__ float clusterSum(float v) {
    __shared__ float sums[BLOCKS];
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); // all thread blocks of the cluster have started
    if (threadIdx.x < BLOCKS) {
        asm volatile("{\n.reg .b32 there, rank;\nmov.u32 rank, %%cluster_ctarank;\n"
            "mad.lo.u32 there, rank, 4, %0;\nmapa.shared::cluster.u32 there, there, %1;\n"
            "st.shared::cluster.f32 [there], %2;\n}" :: "r"((word)__cvta_generic_to_shared(sums)), "r"(threadIdx.x),
                    "f"(v) : "memory");
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    v = 0;
#pragma unroll
    for (int i = 0; i < BLOCKS; i++) v += sums[i];
    return v;
}
#endif

// Adds value i of a row's partials, in groups of Floats<VALUES>. It loads those of PARTIALS splits before it adds them.
template <int VALUES, int PARTIALS, int UNROLLED>
__device__ __forceinline__ void addPartials(Floats<VALUES> &sum, const float *partials, int splits, int partialRows,
        int row, int i) {
    typedef Floats<VALUES> Values;
#pragma unroll UNROLLED
    for (int from = 0; from < splits; from += PARTIALS) {
        Values parts[PARTIALS];
#pragma unroll
        for (int k = 0; k < PARTIALS; k++)
            if (from + k < splits)
                parts[k] = ((const Values *)(partials + ((size_t)(from + k) * partialRows + row) * HIDDEN))[i];
#pragma unroll
        for (int k = 0; k < PARTIALS; k++)
            if (from + k < splits) sum += parts[k];
    }
}

// residual[row] += sum of the GEMM's partials [splits][partialRows][HIDDEN]; out[row] = its RMS norm.
// grid (rows, BLOCKS)
// With NORMS_ON_OUTPUTS the RMS norm of that sum, with the weights `outputWeight`, is added instead of the sum; before
// the first layer there is neither. Without NORMS_ON_INPUTS, where `weight` is absent, out[row] = residual[row].
// rowMap, if present, selects the rows of the norm, and the residual does not change.
// The residual of an in-flight token is in `hostTokens`. GEMMs since the last norm have added to the slot's row of
// `residual`, which is added to the token's residual and zeroed.
// BLOCKS thread blocks compute a row together; several form a cluster. A thread loads VALUES adjacent values at a time,
// and those of PARTIALS partials before it adds them.
template <int BLOCKS, int THREADS, int VALUES, int PARTIALS, int UNROLLED>
__device__ __forceinline__ void addNorm(float *residual, const float *partials, int splits, int partialRows,
        const float *weight, const int *rowMap, half16 *out, float epsilon, int firstSlot, const HostTokens *hostTokens,
        int mapLayer, const float *outputWeight) {
    typedef Floats<VALUES> Values;
    const int ALL = HIDDEN / VALUES, PER_BLOCK = (ALL + BLOCKS - 1) / BLOCKS, PER = (PER_BLOCK + THREADS - 1) / THREADS;
    int place = blockIdx.x, begin = blockIdx.y * PER_BLOCK, end = min(ALL, begin + PER_BLOCK);
    Values v[PER], w[PER];
#if NORMS_ON_OUTPUTS
    Values o[PER];
#endif
    dependentsLaunch();
#if __CUDA_ARCH__ >= 900
    if (BLOCKS > 1) asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
#endif
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = begin + threadIdx.x + j * THREADS;
#if NORMS_ON_INPUTS
        if (i < end) w[j] = ((const Values *)weight)[i];
#else
        if (i < end && weight) w[j] = ((const Values *)weight)[i];
#endif
#if NORMS_ON_OUTPUTS
        if (i < end && outputWeight) o[j] = ((const Values *)outputWeight)[i];
#endif
    }
    dependencyWait();
    int row = rowMap ? rowMap[place] : place;
    Values *mine = (Values *)(residual + (size_t)row * HIDDEN), *stored = nullptr;
    if (row >= firstSlot) {
        int hostToken = inFlightToken(hostTokens, mapLayer, row - firstSlot);
        if (hostToken >= 0) stored = (Values *)(hostTokens->residual + (size_t)hostToken * HIDDEN);
    }
    float squares = 0;
#if NORMS_ON_OUTPUTS
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = begin + threadIdx.x + j * THREADS;
        if (i >= end) break;
        v[j] = Values();
        addPartials<VALUES, PARTIALS, UNROLLED>(v[j], partials, splits, partialRows, row, i);
#pragma unroll
        for (int k = 0; k < VALUES; k++) squares += v[j].values[k] * v[j].values[k];
    }
    squares = blockSum(squares);
#if __CUDA_ARCH__ >= 900
    if (BLOCKS > 1) {
        squares = clusterSum<BLOCKS>(squares);
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); // this block has read the sums
    }
#endif
    float outputScale = rsqrtf(squares / HIDDEN_REAL + epsilon);
    squares = 0;
#endif
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = begin + threadIdx.x + j * THREADS;
        if (i >= end) break;
#if NORMS_ON_OUTPUTS
        if (outputWeight)
#pragma unroll
            for (int k = 0; k < VALUES; k++) v[j].values[k] *= outputScale * o[j].values[k];
        v[j] += mine[i];
#else
        v[j] = mine[i];
        addPartials<VALUES, PARTIALS, UNROLLED>(v[j], partials, splits, partialRows, row, i);
#endif
        if (row >= firstSlot) {
            if (stored) v[j] += stored[i];
            if (stored && !rowMap) stored[i] = v[j];
            if (!rowMap) mine[i] = Values();
        } else if (splits && !rowMap) {
            mine[i] = v[j];
        }
#pragma unroll
        for (int k = 0; k < VALUES; k++) squares += v[j].values[k] * v[j].values[k];
    }
    squares = blockSum(squares);
#if __CUDA_ARCH__ >= 900
    if (BLOCKS > 1) squares = clusterSum<BLOCKS>(squares);
#endif
    float scale = rsqrtf(squares / HIDDEN_REAL + epsilon);
#pragma unroll
    for (int j = 0; j < PER; j++) {
        int i = begin + threadIdx.x + j * THREADS;
        if (i >= end) break;
#if !NORMS_ON_INPUTS
        if (weight)
#endif
#pragma unroll
        for (int k = 0; k < VALUES; k++) v[j].values[k] *= scale * w[j].values[k];
        ((Halves<VALUES> *)(out + (size_t)place * HIDDEN))[i] = narrowed(v[j]);
    }
}
#define ADD_NORM(NAME, CLUSTER, BLOCKS, THREADS, VALUES, PARTIALS, UNROLLED) \
    extern "C" __global__ void CLUSTER __launch_bounds__(THREADS) NAME(float *residual, const float *partials, \
            int splits, int partialRows, \
            const float *weight, const int *rowMap, half16 *out, float epsilon, int firstSlot, \
                    const HostTokens *hostTokens, int mapLayer, const float *outputWeight) { \
        addNorm<BLOCKS, THREADS, VALUES, PARTIALS, UNROLLED>(residual, partials, splits, partialRows, weight, rowMap, \
                out, epsilon, firstSlot, hostTokens, mapLayer, outputWeight); \
    }
// For few rows the time is that of reading a row's partials, so a thread has those of up to 8 splits under way. For
// more rows, small thread blocks fit beside the last ones of the GEMM. For many rows, without partials, more thread
// blocks and 16 bytes per load matter.
// With 1024 threads a thread has 64 registers. In rows of more than 4096 values it has two quads of values, and room
// for the partials of 4 splits instead of 8.
#define FEW_PARTIALS (HIDDEN > 4096 ? 4 : 8)
ADD_NORM(add_norm_few, , 1, NORM_THREADS, 4, FEW_PARTIALS, 1)
#if __CUDA_ARCH__ >= 900
ADD_NORM(add_norm, __cluster_dims__(1, 2, 1), 2, NORM_THREADS / 2, 4, 1, 8)
#else
ADD_NORM(add_norm, , 1, NORM_THREADS, 4, 1, 8)
#endif
ADD_NORM(add_norm_many, , 1, NORM_MANY_THREADS, 8, 1, 1)

// Moves the rows that are sampled to the front of residual [rows][HIDDEN] and attended [rows][HEADS][HEAD_WIDTH]: row i
// becomes row rowMap[i]. The other rows need nothing of the last layer but their K and V.
// It works in place, because rowMap ascends and rowMap[i] >= i. A thread moves 16 bytes of each row, ROWS_AT_ONCE rows
// at a time, which its registers hold.
#define ROWS_AT_ONCE 16
extern "C" __global__ void __launch_bounds__(COMPACT_ROWS_THREADS) compact_rows(float *residual, half16 *attended,
        const int *rowMap, int count) {
    dependentsLaunch();
    dependencyWait();
    const int RESIDUAL = HIDDEN / 4, ATTENDED = HEADS * HEAD_WIDTH / 8;
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= RESIDUAL + ATTENDED) return;
    uint4 *data = column < RESIDUAL ? (uint4 *)residual + column : (uint4 *)attended + column - RESIDUAL;
    size_t stride = column < RESIDUAL ? RESIDUAL : ATTENDED;
    for (int from = 0; from < count; from += ROWS_AT_ONCE) {
        uint4 values[ROWS_AT_ONCE];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            if (from + i < count) values[i] = data[rowMap[from + i] * stride];
#pragma unroll
        for (int i = 0; i < ROWS_AT_ONCE; i++)
            if (from + i < count) data[(from + i) * stride] = values[i];
    }
}

// One warp assigns the layer's slots to the next entries of its return queue, in order.
__device__ __noinline__ void chooseReturningTokens(const HostTokens *hostTokens, int layer, int slots) {
    int lane = threadIdx.x % 32;
    stressDelay();
    u64 taken = hostTokens->returned[layer];
    int returned = 0;
    bool more = true;
    for (int from = 0; from < slots; from += 32) {
        int slot = from + lane;
        const volatile u64 *ring = hostTokens->returnQueues + (size_t)layer * (hostTokens->ringMask + 1);
        u64 entry = more && slot < slots ? ring[(taken + slot) & hostTokens->ringMask] : 0;
        word ready = __ballot_sync(~0u, entry >> 16 == taken + slot + 1);
        int count = ready == ~0u ? 32 : __ffs(~ready) - 1;
        if (slot < slots)
            hostTokens->slotMaps[(layer + 1) * MAX_SLOTS + slot] = lane < count ? (int)(entry & 0xffff) : -1;
        returned += min(count, slots - from);
        more = count == 32;
    }
    acquireDevice(); // the next kernels read the data of these entries
    if (lane == 0) hostTokens->returned[layer] = taken + returned;
}

// RoPE rotates value i of a head together with value i + HEAD_DIM / 2. A thread has ROTATED adjacent values of the
// first half, and those of the second half that belong to them.
typedef Floats<ROTATED> Rotated;
struct Pair { Rotated first, second; };

#define QKV_AT_ONCE 4

// Returns q, k or v of a row before norm and RoPE, from `column` on and half a head further: the sum of the partials
// (splits > 0) or the result of the GEMM, plus the bias.
__device__ __forceinline__ Pair readProjection(const float *partials, int splits, int partialRows,
        const half16 *product, const float *bias, int row, int column) {
    Pair r = {};
    size_t at = (size_t)row * QKV_WIDTH + column;
    if (splits == 0) {
        r.first = widened(*(const Halves<ROTATED> *)(product + at));
        r.second = widened(*(const Halves<ROTATED> *)(product + at + HALF_HEAD));
    }
    for (int from = 0; from < splits; from += QKV_AT_ONCE) {
        Pair parts[QKV_AT_ONCE];
#pragma unroll
        for (int s = 0; s < QKV_AT_ONCE; s++) {
            if (from + s >= splits) continue;
            const float *part = partials + (size_t)(from + s) * partialRows * QKV_WIDTH + at;
            parts[s] = {*(const Rotated *)part, *(const Rotated *)(part + HALF_HEAD)};
        }
#pragma unroll
        for (int s = 0; s < QKV_AT_ONCE; s++) {
            if (from + s >= splits) continue;
            r.first += parts[s].first;
            r.second += parts[s].second;
        }
    }
    if (bias) {
        r.first += *(const Rotated *)(bias + column);
        r.second += *(const Rotated *)(bias + column + HALF_HEAD);
    }
    return r;
}

__device__ __forceinline__ float sumOfSquares(const Pair &v) {
    float squares = 0;
#pragma unroll
    for (int i = 0; i < ROTATED; i++)
        squares += v.first.values[i] * v.first.values[i] + v.second.values[i] * v.second.values[i];
    return squares;
}

#if QK_NORM_ROWS
// scales[row] = the factors of the RMS norms over all heads of q, and over all heads of k. Arguments as of rope_store.
// grid (rows, 2): a thread block of the first half computes that of q, one of the second half that of k.
extern "C" __global__ void __launch_bounds__(QK_SCALES_THREADS) qk_scales(const float *partials, int splits,
        int partialRows, const half16 *product, const float *bias, float epsilon, float *scales) {
    dependentsLaunch();
    dependencyWait();
    int row = blockIdx.x, first = blockIdx.y ? HEADS : 0, heads = blockIdx.y ? KV_HEADS : HEADS;
    float squares = 0;
    for (int i = threadIdx.x; i < heads * HEAD_LANES; i += QK_SCALES_THREADS) {
        int lane = i % HEAD_LANES, column = (first + i / HEAD_LANES) * HEAD_WIDTH + lane * ROTATED;
        if (lane * ROTATED < HALF_HEAD)
            squares += sumOfSquares(readProjection(partials, splits, partialRows, product, bias, row, column));
    }
    squares = blockSum(squares);
    if (threadIdx.x == 0) scales[row * 2 + blockIdx.y] = rsqrtf(squares / (heads * HEAD_DIM) + epsilon);
}
#endif

// Stores a thread's values of a head [width] in 16 bits, and zeroes the padding behind HEAD_DIM.
__device__ __forceinline__ void storeHead(half16 *head, int lane, int width, const Pair &v) {
    if (lane * ROTATED < HALF_HEAD) {
        *(Halves<ROTATED> *)(head + lane * ROTATED) = narrowed(v.first);
        *(Halves<ROTATED> *)(head + HALF_HEAD + lane * ROTATED) = narrowed(v.second);
    }
    for (int d = HEAD_DIM + lane * ROTATED; d < width; d += HEAD_LANES * ROTATED)
        *(Halves<ROTATED> *)(head + d) = Halves<ROTATED>();
}

// Stores V of a head for an even token, the next one, or both: pair [HEAD_WIDTH][2]. The padding of stored tokens
// becomes zero.
template <int EVEN, int ODD>
__device__ __forceinline__ void storeTokens(half16 *pair, int lane, const Pair &even, const Pair &odd) {
    auto store = [&](int d, const Rotated &a, const Rotated &b) {
        struct alignas(ROTATED == 2 ? 8 : 16) Both { word values[ROTATED]; } r;
#pragma unroll
        for (int i = 0; i < ROTATED; i++) {
            if (EVEN && ODD) r.values[i] = pack(a.values[i], b.values[i]);
            else pair[(d + i) * 2 + ODD] = narrow(EVEN ? a.values[i] : b.values[i]);
        }
        if (EVEN && ODD) *(Both *)(pair + d * 2) = r;
    };
    if (lane * ROTATED < HALF_HEAD) {
        store(lane * ROTATED, even.first, odd.first);
        store(HALF_HEAD + lane * ROTATED, even.second, odd.second);
    }
    for (int d = HEAD_DIM + lane * ROTATED; d < HEAD_WIDTH; d += HEAD_LANES * ROTATED) store(d, Rotated(), Rotated());
}

// Called when the threads of this block have written their part of a same-layer token's q, k and v to pinned memory.
// The token's last thread block pushes its task. One thread's fence orders what the others wrote before the barrier.
__device__ __forceinline__ void finishSending(const HostTokens *hostTokens, const BatchHostTokens *rows, int row,
        int hostToken, int layer) {
    stressDelay();
    __syncthreads(); // of the threads that have a head
    if (threadIdx.x) return;
    __threadfence_system();
    if (atomicAdd(hostTokens->sentParts + hostToken, 1) < (int)gridDim.y - 1) return;
    hostTokens->sentParts[hostToken] = 0;
    __threadfence_system();
    pushSameLayerTask(hostTokens, rows, row - rows->first, hostToken, layer);
}

// q, k and v of a row: sum of partials (splits > 0) or the finished GEMM, bias, norm of q and k heads, rotation by the
// layer's row of angles [rows][ROTATIONS][HALF_HEAD]. With QK_NORM_ROWS, norms have weights of their own for each head
// [heads][HEAD_WIDTH] and the row's `scales`, else each head its own scale and the weights [HEAD_DIM].
// q goes to queries [rows][HEADS][HEAD_WIDTH], k and v to the row's slot of this layer's blocks (slot -1: nowhere);
// layerBlock says where a block lies. q, k and v of in-flight tokens go to
// `hostTokens`;
// so do those of same-layer tokens (slot < -1). A block interleaves V of two tokens: if the next row is the second of
// the pair, a thread stores both.
// V of the block's later tokens becomes zero, whatever the block held before, because attention multiplies it by zero.
// HEAD_LANES threads per head; grid (rows, heads * HEAD_LANES / ROPE_THREADS). Where slots are computed after this
// layer's attention, one more row of thread blocks chooses the tokens that return to these `returning` slots.
extern "C" __global__ void __launch_bounds__(ROPE_THREADS) rope_store(const float *partials, int splits,
        int partialRows, const half16 *product, const float *bias, const float *queryNorm, const float *keyNorm,
        float epsilon, const float2 *angles, const int *slots, half16 *queries, half16 *blocks, int poolBlocks,
        int stagingShift, int firstSlot, const HostTokens *hostTokens, int layer, int rows,
        int returning, const int *header, int rotation, const float *scales) {
    dependentsLaunch();
    int row = blockIdx.x, thread = blockIdx.y * ROPE_THREADS + threadIdx.x, head = thread / HEAD_LANES,
            lane = thread % HEAD_LANES;
    // the transfer kernel writes what this reads, so it need not wait for the GEMM
    if (row == rows && thread < 32) chooseReturningTokens(hostTokens, layer, returning);
    dependencyWait();
    if (row == rows || head >= HEADS + 2 * KV_HEADS) return;
    int hostToken = row >= firstSlot ? inFlightToken(hostTokens, layer, row - firstSlot) : -1;
    if (row >= firstSlot && hostToken < 0) return;
    bool isQuery = head < HEADS, isKey = !isQuery && head < HEADS + KV_HEADS, real = lane * ROTATED < HALF_HEAD;
    int column = head * HEAD_WIDTH + lane * ROTATED, slot = hostToken >= 0 ? -1 : slots[row];
    Pair mine = {}, next = {};
    if (real) mine = readProjection(partials, splits, partialRows, product, bias, row, column);
    bool together = false, clears = false;
    if (!isQuery && !isKey && slot >= 0) {
        bool continues = row > 0 && slots[row - 1] == slot - 1;
        if (slot % 2 && continues) return;
        int ordinaryRows = min(partialRows, firstSlot), end = slot + 1, endRow = row + 1;
        together = slot % 2 == 0 && endRow < ordinaryRows && slots[endRow] == end;
        if (together && real) next = readProjection(partials, splits, partialRows, product, bias, row + 1, column);
        // The last token that this launch stores in a block clears V behind it. A single token need not, unless it
        // begins the block: an earlier launch has cleared it.
        if (together) {
            end++;
            endRow++;
            clears = end % BLOCK_TOKENS && !(endRow < ordinaryRows && slots[endRow] == end);
        } else {
            clears = slot % BLOCK_TOKENS == 0 || slot % 2 == 0 && continues;
        }
    }
    const float *norm = isQuery ? queryNorm : isKey ? keyNorm : nullptr;
    if (norm) {
#if QK_NORM_ROWS
        float scale = scales[row * 2 + isKey];
        norm += (isQuery ? head : head - HEADS) * HEAD_WIDTH;
#else
        float squares = sumOfSquares(mine);
        word lanes = (word)((1ull << HEAD_LANES) - 1) << (threadIdx.x % 32 / HEAD_LANES * HEAD_LANES);
#pragma unroll
        for (int i = HEAD_LANES / 2; i; i >>= 1) squares += __shfl_xor_sync(lanes, squares, i);
        float scale = rsqrtf(squares / HEAD_DIM + epsilon);
#endif
#pragma unroll
        for (int i = 0; i < ROTATED; i++)
            if (real) {
                mine.first.values[i] *= scale * norm[lane * ROTATED + i];
                mine.second.values[i] *= scale * norm[HALF_HEAD + lane * ROTATED + i];
            }
    }
    if (real && (isQuery || isKey)) {
        const float2 *rotations = (hostToken >= 0 ? hostTokens->angles + (size_t)hostToken * ANGLES
                : angles + (size_t)row * ANGLES) + lane * ROTATED;
#if ROTATIONS > 1
        rotations += rotation * HALF_HEAD;
#endif
#pragma unroll
        for (int i = 0; i < ROTATED; i++) {
            float2 rotation = rotations[i];
            float a = mine.first.values[i], b = mine.second.values[i];
            mine.first.values[i] = a * rotation.x - b * rotation.y;
            mine.second.values[i] = b * rotation.x + a * rotation.y;
        }
    }
    int host = hostToken >= 0 ? hostToken : sameLayerToken(slot);
    if (host >= 0) {
        bool sends = header && hostToken < 0;
        half16 *to = sends ? hostTokens->sent : hostTokens->outgoing;
        storeHead(to + ((size_t)host * (HEADS + 2 * KV_HEADS) + head) * HEAD_DIM, lane, HEAD_DIM, mine);
        if (sends) finishSending(hostTokens, batchHostTokens(header), row, host, layer);
        return;
    }
    if (isQuery) {
        storeHead(queries + ((size_t)row * HEADS + head) * HEAD_WIDTH, lane, HEAD_WIDTH, mine);
        return;
    }
    if (slot < 0) return;
    int token = slot % BLOCK_TOKENS, block = slot / BLOCK_TOKENS;
    half16 *tile = (half16 *)layerBlock(blocks, block, poolBlocks, stagingShift) + (head - HEADS) % KV_HEADS * 2
            * KV_TILE;
    half16 *pair = tile + KV_TILE + token / 2 * HEAD_WIDTH * 2;
    if (isKey) storeHead(tile + token * HEAD_WIDTH, lane, HEAD_WIDTH, mine);
    else if (together || clears) storeTokens<1, 1>(pair, lane, mine, next);
    else if (token % 2) storeTokens<0, 1>(pair, lane, mine, mine);
    else storeTokens<1, 0>(pair, lane, mine, mine);
    if (!clears) return;
#pragma unroll 1
    for (int after = token / 2 + 1; after < BLOCK_TOKENS / 2; after++)
        storeTokens<1, 1>(tile + KV_TILE + after * HEAD_WIDTH * 2, lane, Pair(), Pair());
}

// out [rows][INTERMEDIATE] = gatedOf(gate, up), from the GEMM's result [rows][2 INTERMEDIATE]. A thread computes 8
// values.
extern "C" __global__ void __launch_bounds__(SWIGLU_THREADS) swiglu(const half16 *gateUp, half16 *out, int rows) {
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
        o[i] = pack(gatedOf(low(g[i]), low(u[i])), gatedOf(high(g[i]), high(u[i])));
    }
    *(uint4 *)(out + at) = r;
}

// One host block and the layer blocks of its tokens, counted from layer 0 of block 0.
struct Move { int host, tokens, gpu[4], unused0, unused1; };
struct Moves { int count, unused[7]; Move list[1]; };

__device__ __forceinline__ word component(const uint4 &v, int i) { return ((const word *)&v)[i]; }
// Transposes a 4 x 4 matrix of words.
__device__ __forceinline__ void transpose(uint4 *v) {
    uint4 r[4];
#pragma unroll
    for (int i = 0; i < 4; i++)
        r[i] = make_uint4(component(v[0], i), component(v[1], i), component(v[2], i), component(v[3], i));
#pragma unroll
    for (int i = 0; i < 4; i++) v[i] = r[i];
}

// A thread's part of one KV head of a block to copy: K of four tokens by eight dimensions, and V of two tokens by four
// dimensions, four times. These kernels use no shared memory, because they run beside kernels that need all of it.
#define PARTS_PER_HEAD (2 * HEAD_WIDTH)
struct MovePart {
    const Move *move;
    long hostBlock;
    int layer, head, token, pair, part;
    __device__ __forceinline__ MovePart(const Moves *moves, int count, long at, long hostBlock)
            : hostBlock(hostBlock) {
        part = at % PARTS_PER_HEAD;
        int item = at / PARTS_PER_HEAD;
        head = item % KV_HEADS;
        layer = item / KV_HEADS / count;
        move = &moves->list[item / KV_HEADS % count];
        token = part % (HOST_TOKENS / 4) * 4;
        pair = part / (HOST_TOKENS / 4) * 4;
    }
    __device__ __forceinline__ long gpuTile(int token) const {
        return ((long)move->gpu[token / BLOCK_TOKENS] * KV_HEADS + head) * KV_TILE;
    }
    __device__ __forceinline__ long gpuKeys(int token) const {
        return gpuTile(token) + token % BLOCK_TOKENS * (HEAD_WIDTH / 2) + pair;
    }
    __device__ __forceinline__ long host() const { return move->host * hostBlock + head * HOST_HEAD_WORDS; }
    __device__ __forceinline__ long hostKeys(int i) const { return host() + (pair + i) * HOST_TOKENS + token; }
    // the token pair, and the first dimension, of the i-th piece of V
    __device__ __forceinline__ int valuePair(int i) const { return (part + i * PARTS_PER_HEAD) / (HEAD_WIDTH / 4); }
    __device__ __forceinline__ int valueDim(int i) const { return (part + i * PARTS_PER_HEAD) % (HEAD_WIDTH / 4) * 4; }
    __device__ __forceinline__ long gpuValues(int i) const {
        int first = 2 * valuePair(i);
        return gpuTile(first) + KV_TILE / 2 + first % BLOCK_TOKENS / 2 * HEAD_WIDTH + valueDim(i);
    }
    __device__ __forceinline__ long hostValues(int i) const {
        return host() + HOST_KEY_WORDS + valuePair(i) * HEAD_DIM + valueDim(i);
    }
};

// Copies KV of `layers` layers from GPU blocks to host blocks. gpu and host point at the first layer. hostLayer is the
// number of words to the next layer in `host`, and hostBlock to the next host block. In the host block, V of tokens
// that the sequence does not have is zero, and so is the padding of K.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) move_out(const word *gpu, word *host, long hostLayer,
        long hostBlock, const Moves *moves, int layers) {
    int count = moves->count;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    for (long at = (long)blockIdx.x * MOVE_THREADS + threadIdx.x; at < (long)layers * count * KV_HEADS * PARTS_PER_HEAD;
            at += (long)gridDim.x * MOVE_THREADS) {
        MovePart part(moves, count, at, hostBlock);
        const word *source = gpu + (long)part.layer * (LAYER_BLOCK / 2);
        word *target = host + part.layer * hostLayer;
        int tokens = part.move->tokens;
        uint4 k[4], v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            k[i] = part.token + i < tokens ? *(const uint4 *)(source + part.gpuKeys(part.token + i)) : zero;
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = 2 * part.valuePair(i) < tokens ? *(const uint4 *)(source + part.gpuValues(i)) : zero;
        transpose(k);
#pragma unroll
        for (int i = 0; i < 4; i++) *(uint4 *)(target + part.hostKeys(i)) = part.pair + i < HEAD_DIM / 2 ? k[i] : zero;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (2 * part.valuePair(i) + 1 == tokens)
                v[i] = make_uint4(v[i].x & 0xffff, v[i].y & 0xffff, v[i].z & 0xffff, v[i].w & 0xffff);
            if (part.valueDim(i) < HEAD_DIM) *(uint4 *)(target + part.hostValues(i)) = v[i];
        }
    }
}

// Copies KV from host blocks to GPU blocks. V of tokens that the sequence does not have becomes zero in its last block,
// as it is in the host block.
extern "C" __global__ void __launch_bounds__(MOVE_THREADS) move_in(word *gpu, const word *host, long hostLayer,
        long hostBlock, const Moves *moves, int layers) {
    int count = moves->count;
    const uint4 zero = make_uint4(0, 0, 0, 0);
    for (long at = (long)blockIdx.x * MOVE_THREADS + threadIdx.x; at < (long)layers * count * KV_HEADS * PARTS_PER_HEAD;
            at += (long)gridDim.x * MOVE_THREADS) {
        MovePart part(moves, count, at, hostBlock);
        word *target = gpu + (long)part.layer * (LAYER_BLOCK / 2);
        const word *source = host + part.layer * hostLayer;
        int tokens = part.move->tokens;
        uint4 k[4], v[4];
#pragma unroll
        for (int i = 0; i < 4; i++)
            k[i] = part.token < tokens && part.pair + i < HEAD_DIM / 2 ? *(const uint4 *)(source + part.hostKeys(i))
                    : zero;
#pragma unroll
        for (int i = 0; i < 4; i++)
            v[i] = 2 * part.valuePair(i) < tokens && part.valueDim(i) < HEAD_DIM
                    ? *(const uint4 *)(source + part.hostValues(i)) : zero;
        transpose(k);
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (part.token + i < tokens) *(uint4 *)(target + part.gpuKeys(part.token + i)) = k[i];
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int firstOfBlock = 2 * part.valuePair(i) / BLOCK_TOKENS * BLOCK_TOKENS;
            if (firstOfBlock < tokens) *(uint4 *)(target + part.gpuValues(i)) = v[i];
        }
    }
}

// Checksums of copied KV: sums [moves][allLayers] over every value and its index in the host block. GPU and host
// compute the same sum, although their formats differ.
// gpu points at layer `first`; grid (any, layers)
extern "C" __global__ void __launch_bounds__(256) sum_moved(const half16 *gpu, const Moves *moves,
        int first, int allLayers, u64 *sums) {
    __shared__ u64 warps[8];
    gpu += (size_t)blockIdx.y * LAYER_BLOCK;
    for (int i = blockIdx.x; i < moves->count; i += gridDim.x) {
        const Move *move = &moves->list[i];
        int tokens = move->tokens;
        u64 sum = 0;
        for (int at = threadIdx.x; at < 2 * KV_HEADS * tokens * HEAD_DIM; at += 256) {
            int dim = at % HEAD_DIM, token = at / HEAD_DIM % tokens, kind = at / HEAD_DIM / tokens,
                    here = token % BLOCK_TOKENS;
            const half16 *tile = gpu + ((size_t)move->gpu[token / BLOCK_TOKENS] * KV_HEADS + kind / 2) * 2 * KV_TILE;
            half16 value = kind % 2 ? tile[KV_TILE + (here / 2 * HEAD_WIDTH + dim) * 2 + here % 2]
                    : tile[here * HEAD_WIDTH + dim];
            u64 place = ((u64)kind * HOST_TOKENS + token) * HEAD_DIM + dim;
            sum += mix64((place << 16 | value) * 0x9e3779b97f4a7c15ull);
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

// Fills dummy weights [count / columns][columns] with random values centre - scale ... centre + scale that depend on
// the seed only. Columns from `real` on become zero.
extern "C" __global__ void random_fill(half16 *out, long count, int columns, int real, u64 seed, float centre,
        float scale) {
    for (long i = (long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (long)gridDim.x * blockDim.x) {
        u64 x = mix64(seed + (u64)i * 0x9e3779b97f4a7c15ull);
        float uniform = (float)(x >> 40) * (2.f / 16777216.f) - 1;
        out[i] = i % columns < real ? narrow(centre + scale * uniform) : (half16)0;
    }
}
