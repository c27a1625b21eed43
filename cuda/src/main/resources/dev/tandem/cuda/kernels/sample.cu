// Sampling: from logits [rows][VOCABULARY] fp32, of which VOCABULARY_REAL are tokens, to tokens [rows]. Kernels:
// argmax, adjust, mask_logits, sample, logprobs, score.
//
// Shared memory: 32 candidates or sums for reductions of a thread block. sample has a histogram of BINS 64-bit totals.
// No dynamic shared memory.
//
// Waits and signals: dependencyWait at the start of each kernel; the ARGMAX_PARTS thread blocks of a row of argmax
// count in `finished`, and the last one merges.

#define BINS 2048
#define MASK_WORDS (VOCABULARY / 32)

// Maps fp32 values to integers of the same order.
__device__ __forceinline__ word key(float v) {
    word b = __float_as_uint(v);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}

// A token as (key of its logit, complement of its id): the larger candidate has the larger logit, or the lower id if
// the logits are equal.
__device__ __forceinline__ u64 larger(u64 a, u64 b) { return a > b ? a : b; }
__device__ __forceinline__ u64 candidate(float v, int id) { return (u64)key(v) << 32 | (word)~id; }

__device__ __forceinline__ u64 blockMax(u64 v) {
    __shared__ u64 bests[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    for (int i = 16; i; i >>= 1) v = larger(v, __shfl_xor_sync(~0u, v, i));
    if (lane == 0) bests[warp] = v;
    __syncthreads();
    v = lane < warps ? bests[lane] : 0;
    for (int i = 16; i; i >>= 1) v = larger(v, __shfl_xor_sync(~0u, v, i));
    __syncthreads();
    return v;
}

// tokens[row] = the lowest id of the largest logit, or -1 if a logit is NaN or infinite. grid (rows, ARGMAX_PARTS)
extern "C" __global__ void __launch_bounds__(ARGMAX_THREADS) argmax(const float *logits, u64 *parts, int *finished,
        int *tokens) {
    dependencyWait();
    int row = blockIdx.x, part = blockIdx.y;
    const float4 *mine = (const float4 *)(logits + (size_t)row * VOCABULARY);
    u64 best = 0;
    bool invalid = false;
    const int QUADS = VOCABULARY / 4;
    int from = (long)QUADS * part / ARGMAX_PARTS, to = (long)QUADS * (part + 1) / ARGMAX_PARTS;
    for (int i = from + threadIdx.x; i < to; i += ARGMAX_THREADS) {
        float4 v = mine[i];
        float x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if (i * 4 + j < VOCABULARY_REAL) {
                invalid |= !(fabsf(x[j]) < INFINITE);
                best = larger(best, candidate(x[j], i * 4 + j));
            }
        }
    }
    best = blockMax(best);
    invalid = __syncthreads_or(invalid);
    if (threadIdx.x == 0) {
        parts[(size_t)row * ARGMAX_PARTS + part] = invalid ? ~0ull : best;
        stressDelay();
        __threadfence();
        if (atomicAdd(&finished[row], 1) == ARGMAX_PARTS - 1) {
            finished[row] = 0;
            __threadfence();
            const u64 *all = parts + (size_t)row * ARGMAX_PARTS;
            for (int i = 0; i < ARGMAX_PARTS; i++) best = larger(best, __ldcg(all + i));
            for (int i = 0; i < ARGMAX_PARTS; i++) if (__ldcg(all + i) == ~0ull) best = ~0ull;
            tokens[row] = best == ~0ull ? -1 : (int)~(word)best;
        }
    }
}

// Returns the key at which the cumulative weight over descending keys reaches `target`. Radix select: histograms of the
// key's upper 11, next 11 and last 10 bits. The whole thread block calls it.
template <class Weight> __device__ word threshold(const float *logits, double target, Weight weight) {
    __shared__ u64 totals[BINS];   // in units of 2^-32: sums of integers do not depend on their order
    __shared__ word chosen;
    __shared__ double remaining;
    word prefix = 0;
    double rest = target * 4294967296.;
    const int shifts[3] = {21, 10, 0};
#pragma unroll 1
    for (int level = 0; level < 3; level++) {
        int shift = shifts[level], bins = level == 2 ? 1024 : 2048;
        for (int i = threadIdx.x; i < bins; i += blockDim.x) totals[i] = 0;
        __syncthreads();
        for (int i = threadIdx.x; i < VOCABULARY_REAL; i += blockDim.x) {
            word k = key(logits[i]);
            int above = level == 0 ? 0 : level == 1 ? 21 : 10;
            if (level == 0 || k >> above == prefix)
                atomicAdd(&totals[k >> shift & (bins - 1)], (u64)(weight(logits[i]) * 4294967296.f));
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            double sum = 0;
            int bin = bins - 1, lowest = -1;
            for (; bin >= 0; bin--) {
                if (totals[bin] > 0) lowest = bin;
                if (totals[bin] > 0 && sum + (double)totals[bin] >= rest) break;
                sum += (double)totals[bin];
            }
            // all bins may sum to less than the target, by rounding: then the lowest bin that is not empty is chosen
            if (bin < 0) {
                bin = lowest < 0 ? 0 : lowest;
                sum -= (double)totals[bin];
            }
            chosen = prefix << (level == 2 ? 10 : 11) | bin;
            remaining = rest - sum;
        }
        __syncthreads();
        prefix = chosen;
        rest = remaining;
        __syncthreads();
    }
    return prefix;
}

// Adds biases and penalties to logits. rows [thread blocks] of (row, first entry, number of entries). A row has at most
// one entry per token.
extern "C" __global__ void __launch_bounds__(ARGMAX_THREADS) adjust(float *all, const int4 *rows,
        const Adjustment *entries) {
    dependencyWait();
    int4 mine = rows[blockIdx.x];
    float *logits = all + (size_t)mine.x * VOCABULARY;
    for (int i = threadIdx.x; i < mine.z; i += blockDim.x) {
        Adjustment a = entries[mine.y + i];
        if ((word)a.token >= VOCABULARY_REAL) continue;
        float x = logits[a.token] + a.bias;
        logits[a.token] = (x > 0 ? x / a.repetition : x * a.repetition) - a.penalty;
    }
}

// Sets the logits of tokens whose bit is 0 to -infinity. rows [gridDim.x]; masks [gridDim.x][MASK_WORDS], bit i % 32 of
// word i / 32 for token i. grid (masked rows, ARGMAX_PARTS)
// NVRTC 13.0 crashes on a kernel that is called mask.
extern "C" __global__ void __launch_bounds__(ARGMAX_THREADS) mask_logits(float *all, const int *rows,
        const word *masks) {
    dependencyWait();
    float *logits = all + (size_t)rows[blockIdx.x] * VOCABULARY;
    const word *bits = masks + (size_t)blockIdx.x * MASK_WORDS;
    for (int i = blockIdx.y * ARGMAX_THREADS + threadIdx.x; i < VOCABULARY_REAL; i += ARGMAX_PARTS * ARGMAX_THREADS)
        if (!(bits[i / 32] >> i % 32 & 1)) logits[i] = -INFINITE;
}

// Returns the largest candidate of a row below `limit`. The whole thread block calls it.
__device__ u64 maxBelow(const float *logits, u64 limit) {
    u64 best = 0;
    for (int i = threadIdx.x; i < VOCABULARY_REAL; i += blockDim.x) {
        u64 token = candidate(logits[i], i);
        if (token < limit) best = larger(best, token);
    }
    return blockMax(best);
}

// Returns the sum over the threads, in an order that depends on nothing but their number. The whole thread block, of 32
// warps, calls it.
__device__ double blockTotal(double v) {
    __shared__ double totals[32];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
    if (lane == 0) totals[warp] = v;
    __syncthreads();
    v = totals[lane];
    for (int i = 16; i; i >>= 1) v += __shfl_xor_sync(~0u, v, i);
    __syncthreads();
    return v;
}

// Returns the logarithm of the sum of the exponentials of a row, whose largest logit is `top`.
__device__ double logSumExp(const float *logits, float top) {
    double sum = 0;
    for (int i = threadIdx.x; i < VOCABULARY_REAL; i += SAMPLE_THREADS) sum += expf(logits[i] - top);
    return top + log(blockTotal(sum));
}

// Writes the ids of the `count` most probable tokens of a row to out, and their log-probabilities MAX_LOGPROBS further.
// `best` is the most probable one as a candidate, `total` the row's logSumExp.
__device__ void mostProbable(const float *logits, u64 best, double total, int count, float *out) {
    for (int k = 0; k < count; k++) {
        if (k > 0) best = maxBelow(logits, best);
        int id = (int)~(word)best;
        if (threadIdx.x == 0) {
            ((int *)out)[k] = id;
            out[MAX_LOGPROBS + k] = (float)(logits[id] - total);
        }
    }
}

// Log-probabilities of the logits, to pinned host memory: out [rows] of { the sampled token's, MAX_LOGPROBS ids,
// MAX_LOGPROBS log-probabilities }, of which d.logprobs - 1 are written. grid (draws, then slots, as in `sample`)
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) logprobs(const float *all, const Draw *draws,
        const int *tokens, int count, int firstSample, const HostTokens *hostTokens, int layers, float *out) {
    dependencyWait();
    int hostToken = blockIdx.x < count ? -1 : inFlightToken(hostTokens, layers, blockIdx.x - count);
    if (blockIdx.x >= count && hostToken < 0) return;
    const Draw *d = hostToken < 0 ? draws + blockIdx.x : hostTokens->draws + hostToken;
    int row = hostToken < 0 ? d->row : firstSample + blockIdx.x - count, wanted = d->logprobs;
    if (wanted == 0 || tokens[row] < 0) return;
    const float *logits = all + (size_t)row * VOCABULARY;
    u64 best = maxBelow(logits, ~0ull);
    double total = logSumExp(logits, logits[(int)~(word)best]);
    float *mine = out + (size_t)row * (1 + 2 * MAX_LOGPROBS);
    if (threadIdx.x == 0) mine[0] = (float)(logits[tokens[row]] - total);
    mostProbable(logits, best, total, wanted - 1, mine + 1);
}

// Log-probabilities of the tokens that follow in prompts, to pinned host memory. targets [rows] of { that token, number
// of alternatives }. out [rows] of { its log-probability, its rank from 1 as an int, then what mostProbable writes }.
// The rank is 0, and nothing else is written, if a logit is NaN or infinite. grid (rows)
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) score(const float *all, const int2 *targets,
        float *out) {
    dependencyWait();
    int2 target = targets[blockIdx.x];
    const float *logits = all + (size_t)blockIdx.x * VOCABULARY;
    float *mine = out + (size_t)blockIdx.x * SCORE_WORDS;
    float own = logits[target.x];
    int better = 0;
    bool invalid = false;
    for (int i = threadIdx.x; i < VOCABULARY_REAL; i += SAMPLE_THREADS) {
        invalid |= !(fabsf(logits[i]) < INFINITE);
        better += logits[i] > own;
    }
    invalid = __syncthreads_or(invalid);
    int rank = invalid ? 0 : 1 + (int)blockTotal(better);
    if (threadIdx.x == 0) ((int *)mine)[1] = rank;
    if (invalid) return;
    u64 best = maxBelow(logits, ~0ull);
    double total = logSumExp(logits, logits[(int)~(word)best]);
    if (threadIdx.x == 0) mine[0] = (float)(own - total);
    mostProbable(logits, best, total, target.y, mine + 2);
}

// Samples tokens[d.row]: temperature, min-p, top-k, then top-p of the tokens that top-k keeps. The token is that at
// which the cumulative probability, in ascending order of ids, exceeds d.uniform. Tokens with the same probability as
// the last kept one are kept too. With temperature 0 the most probable token is chosen; `tokens` already has it if the
// logits were not adjusted.
// grid (draws, then slots): thread blocks from `count` on sample the in-flight tokens of the slots, from rows that
// begin at firstSample.
extern "C" __global__ void __launch_bounds__(SAMPLE_THREADS) sample(const float *all, const Draw *draws, int *tokens,
        int count, int firstSample, const HostTokens *hostTokens, int layers) {
    __shared__ double partial[32];
    dependencyWait();
    Draw d;
    if (blockIdx.x < count) {
        d = draws[blockIdx.x];
    } else {
        int hostToken = inFlightToken(hostTokens, layers, blockIdx.x - count);
        if (hostToken < 0 || hostTokens->draws[hostToken].temperature == 0) return;
        d = hostTokens->draws[hostToken];
        d.row = firstSample + blockIdx.x - count;
    }
    int best = tokens[d.row];
    if (best < 0) return;
    const float *logits = all + (size_t)d.row * VOCABULARY;
    if (d.adjusted) best = (int)~(word)maxBelow(logits, ~0ull);
    if (d.temperature == 0) {
        if (d.adjusted && threadIdx.x == 0) tokens[d.row] = best;
        return;
    }
    float top = logits[best], inverse = 1 / d.temperature;
    float smallest = d.minP > 0 ? d.minP : 0.f;
    auto weight = [&](float v) { float w = __expf((v - top) * inverse); return w < smallest ? 0.f : w; };
    word lowest = 0;
    if (d.topK > 0 && d.topK < VOCABULARY_REAL) lowest = threshold(logits, d.topK, [](float) { return 1.f; });
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    auto mass = [&](word from) {
        double sum = 0;
        for (int i = threadIdx.x; i < VOCABULARY_REAL; i += SAMPLE_THREADS)
            if (key(logits[i]) >= from) sum += weight(logits[i]);
        return blockTotal(sum);
    };
    double total = mass(lowest);
    if (d.topP < 1) {
        word from = lowest;
        lowest = threshold(logits, total * d.topP, [&](float v) { return key(v) >= from ? weight(v) : 0.f; });
        total = mass(lowest);
    }
    // each thread sums a range of ids; then the thread whose range contains the target searches it
    const int RANGE = (VOCABULARY_REAL + SAMPLE_THREADS - 1) / SAMPLE_THREADS;
    int begin = threadIdx.x * RANGE, end = min(begin + RANGE, VOCABULARY_REAL);
    double own = 0;
    for (int i = begin; i < end; i++) if (key(logits[i]) >= lowest) own += weight(logits[i]);
    double before = own;
    for (int i = 1; i < 32; i <<= 1) {
        double other = __shfl_up_sync(~0u, before, i);
        if (lane >= i) before += other;
    }
    if (lane == 31) partial[warp] = before;
    __syncthreads();
    for (int w = 0; w < warp; w++) before += partial[w];
    before -= own;
    double target = d.uniform * total;
    if (own > 0 && before <= target && target < before + own) {
        int id = best;
        for (int i = begin; i < end && before <= target; i++) {
            float w = key(logits[i]) >= lowest ? weight(logits[i]) : 0.f;
            if (w > 0) id = i;
            before += w;
        }
        tokens[d.row] = id;
    }
}
