// Kernels that send a host token's q, k and v [HEADS + 2 KV_HEADS][HEAD_DIM] to the host and receive its attention
// output [HEADS][HEAD_DIM]. `transfer` serves in-flight tokens while a step runs. `send_in_flight` and
// `receive_in_flight` serve them in steps that resume some of them. `receive_host_tokens` serves same-layer tokens,
// which rope_store sends. `report` writes a step's sampled tokens to the host.
//
// Shared memory: transferTokens has two counters and two lists of ring entries; receive_in_flight has the slot of each
// resumed token too.
//
// Waits and signals (flags and fences: table in prelude.cu):
//   transfer               polls ready and sendQueue; ends by sendCounters[3], aborted or its timeout
//   send_in_flight         follows rope_store in its stream; appends to sendQueue, then sends what is in it
//   receive_in_flight      polls `waiting` of each resumed token; stops when aborted is set or after the timeout
//   receive_host_tokens    polls completed of each token; stops when aborted is set or after the timeout
//   report                 dependencyWait

// The transfer kernel checks `aborted` and its timeout once per this many polls, which is a few milliseconds.
#define POLLS_PER_CHECK 512

// Transfers in-flight tokens while a step's kernels run. grid (1). It ends with the last layer's attention, which sets
// sendCounters[3]; the embedding has cleared it. The launch bounds limit its registers, so that a multiprocessor has
// room for two thread blocks of decode attention as well.
// A step that hangs, or whose later launch fails, never sets sendCounters[3]. Then the transfer kernel ends when the
// host sets `aborted`, or sets it itself after its timeout.
extern "C" __global__ void __launch_bounds__(TRANSFER_THREADS, 3) transfer(HostTokens *hostTokens) {
    u64 *counters = hostTokens->sendCounters;
    u64 sent = counters[1], received = counters[2], start = nanos();
    bool aborts = false;
    for (int polls = 1;; polls++) {
        bool ends = __syncthreads_or(aborts || *(volatile u64 *)(counters + 3) != 0);
        bool found = threadIdx.x == 0 && hasTransfers(hostTokens, sent, received);
        found = __syncthreads_or(found);
        if (found) transferTokens<TRANSFER_THREADS / 32>(hostTokens, sent, received);
        if (ends) break;
        if (found) continue;
        if (threadIdx.x == 0 && polls % POLLS_PER_CHECK == 0) {
            if (nanos() - start > hostTokens->transferTimeout) *hostTokens->aborted = ABORTED_BY_TRANSFER;
            aborts = *hostTokens->aborted != 0;
        }
        stressDelay();
        __nanosleep(4000);
    }
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}

// Sends the tokens that leave the first `slots` slots before the layer's attention, in a step that resumes in-flight
// tokens. grid (1). No transfer kernel runs in such a step.
extern "C" __global__ void __launch_bounds__(TRANSFER_THREADS, 1) send_in_flight(HostTokens *hostTokens, int layer,
        int slots) {
    u64 *counters = hostTokens->sendCounters;
    u64 sent = counters[1], received = counters[2];
    for (int slot = threadIdx.x; slot < slots; slot += TRANSFER_THREADS) leaveBatch(hostTokens, layer, slot);
    __syncthreads();
    u64 end = *(volatile u64 *)counters;
    while (sent < end) transferTokens<TRANSFER_THREADS / 32>(hostTokens, sent, received);
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}

// One warp empties the layer's return queue: resumed tokens take their slots, others take the first `slots` slots in
// the order of the queue, and those without a slot go back to its end. Tokens that go back never overwrite an entry
// that is still to be read, because the queue has room for all host tokens and entries are read first.
__device__ __forceinline__ void takeReturned(HostTokens *hostTokens, int layer, int slots, const short *resumedSlot) {
    int lane = threadIdx.x % 32, *map = hostTokens->slotMaps + (layer + 1) * MAX_SLOTS, filled = 0;
    volatile u64 *ring = hostTokens->returnQueues + (size_t)layer * (hostTokens->ringMask + 1);
    u64 end = *(volatile u64 *)&hostTokens->arrived[layer], back = end;
    word before = (1u << lane) - 1;
    for (u64 from = hostTokens->returned[layer]; from < end; from += 32) {
        u64 number = from + lane;
        bool valid = number < end;
        int token = valid ? (int)(ring[number & hostTokens->ringMask] & 0xffff) : 0, slot = -1;
        if (valid) slot = resumedSlot[token];
        bool other = valid && slot < 0;
        word others = __ballot_sync(~0u, other);
        int place = filled + __popc(others & before);
        if (other && place < slots) slot = place;
        word kept = __ballot_sync(~0u, valid && slot < 0);
        u64 next = back + __popc(kept & before);
        if (slot >= 0) map[slot] = token;
        else if (valid) ring[next & hostTokens->ringMask] = (next + 1) << 16 | token;
        filled += __popc(others);
        back += __popc(kept);
    }
    acquireDevice(); // the other threads and the next kernels read the data of these entries
    if (lane == 0) {
        hostTokens->returned[layer] = end;
        hostTokens->arrived[layer] = back;
    }
}

// Waits until the resumed tokens that stand at the layer have their attention. Then fills the slots after the layer's
// attention and copies the attention outputs to attended [slots, then resumed][HEADS][HEAD_WIDTH]. Meanwhile it
// transfers in-flight tokens, because no transfer kernel runs in such a step.
//   resumed [count]: host tokens; at: sub-batch * layers + layer; begins: whether this is the layer's first wait
// grid (1)
extern "C" __global__ void __launch_bounds__(TRANSFER_THREADS, 1) receive_in_flight(HostTokens *hostTokens,
        const int *resumed, int count, int layer, int slots, int at, int begins, half16 *attended) {
    __shared__ short resumedSlot[MAX_HOST_TOKENS];
    dependencyWait();
    u64 *counters = hostTokens->sendCounters;
    u64 sent = counters[1], received = counters[2], start = nanos();
    int *map = hostTokens->slotMaps + (layer + 1) * MAX_SLOTS;
    for (int i = threadIdx.x; i < MAX_HOST_TOKENS; i += TRANSFER_THREADS) resumedSlot[i] = -1;
    for (int i = threadIdx.x; i < slots + count; i += TRANSFER_THREADS) map[i] = -1;
    __syncthreads();
    for (int i = threadIdx.x; i < count; i += TRANSFER_THREADS) resumedSlot[resumed[i]] = (short)(slots + i);
    if (threadIdx.x == 0) {
        hostTokens->stamps[layer] = start;
        if (begins) hostTokens->waits[2 * at] = start;
    }
    for (;;) {
        bool found = threadIdx.x == 0 && hasTransfers(hostTokens, sent, received);
        if (__syncthreads_or(found)) transferTokens<TRANSFER_THREADS / 32>(hostTokens, sent, received);
        bool waits = false, aborts = false;
        for (int i = threadIdx.x; i < count; i += TRANSFER_THREADS)
            waits |= *(volatile int *)&hostTokens->waiting[resumed[i]] == layer;
        if (!__syncthreads_or(waits)) break;
        stressDelay();
        if (threadIdx.x == 0) {
            if (nanos() - start > hostTokens->timeout) *hostTokens->aborted = ABORTED;
            aborts = *hostTokens->aborted != 0;
        }
        if (__syncthreads_or(aborts)) break;
    }
    __syncthreads();
    if (threadIdx.x < 32) takeReturned(hostTokens, layer, slots, resumedSlot);
    __syncthreads();
    copyReturned(hostTokens, layer, slots + count, threadIdx.x, TRANSFER_THREADS, attended);
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
        hostTokens->waits[2 * at + 1] = nanos();
    }
}

__device__ __forceinline__ u64 loadAcquire(const volatile u64 *p) {
    u64 v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

// Waits until a same-layer token has completed the task `number - 1`. After the timeout it sets `aborted`, which the
// host reads.
__device__ __forceinline__ void awaitResult(const HostTokens *hostTokens, int hostToken, u64 number) {
    u64 start = nanos();
    while (loadAcquire(&hostTokens->completed[hostToken]) != number && *hostTokens->aborted == 0) {
        if (nanos() - start > hostTokens->timeout) *hostTokens->aborted = ABORTED;
        __nanosleep(200);
    }
}

// Waits for the attention of each same-layer token and copies it to attended [rows][HEADS][HEAD_WIDTH].
// at: sub-batch * layers + layer. grid (thread blocks that copy, plus one that records when the previous kernel ends)
// Polling does not depend on the previous kernels, so it begins while they run. The grid may have fewer thread blocks
// than tokens, so that they leave the previous kernel its room. The next kernel is launched only when the last results
// are there.
extern "C" __global__ void __launch_bounds__(HOST_TOKEN_THREADS) receive_host_tokens(const int *header,
        const int *slots, const HostTokens *hostTokens, int layer, int at, half16 *attended) {
    const BatchHostTokens *rows = batchHostTokens(header);
    const int EIGHTS = HEAD_DIM / 8, PIECES = HEADS * EIGHTS,
            PER_THREAD = (PIECES + HOST_TOKEN_THREADS - 1) / HOST_TOKEN_THREADS;
    int blocks = gridDim.x - 1;
    if (blockIdx.x == blocks) {
        dependentsLaunch();
        dependencyWait();
        if (threadIdx.x == 0) hostTokens->waits[2 * at] = nanos();
        return;
    }
    for (int i = blockIdx.x; i < rows->count; i += blocks) {
        int row = rows->first + i, hostToken = sameLayerToken(slots[row]);
        stressDelay();
        if (threadIdx.x == 0)
            awaitResult(hostTokens, hostToken, rows->base + (u64)layer * rows->all + rows->offset + i + 1);
        __syncthreads();
        const uint4 *from = (const uint4 *)(hostTokens->results + (size_t)hostToken * HEADS * HEAD_DIM);
        uint4 v[PER_THREAD];
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++)
            if (j * HOST_TOKEN_THREADS + threadIdx.x < PIECES)
                asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                    : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w)
                    : "l"(from + j * HOST_TOKEN_THREADS + threadIdx.x));
        if (i == blockIdx.x) dependencyWait();
        if (i + blocks >= rows->count) dependentsLaunch();
        half16 *to = attended + (size_t)row * HEADS * HEAD_WIDTH;
#pragma unroll
        for (int j = 0; j < PER_THREAD; j++) {
            int piece = j * HOST_TOKEN_THREADS + threadIdx.x;
            if (piece < PIECES) *(uint4 *)(to + piece / EIGHTS * HEAD_WIDTH + piece % EIGHTS * 8) = v[j];
        }
        clearPadding(to, 1, threadIdx.x, HOST_TOKEN_THREADS);
        if (i == rows->count - 1 && threadIdx.x == 0) hostTokens->waits[2 * at + 1] = nanos();
    }
}

// Writes a step's results to pinned host memory.
//   out [count + slots]: sampled tokens, then the host token of each slot after the last layer
//   stamps [layers + 1 + 2 * subBatches * layers]: with slots, the start of each layer's attention; then the time of
//   this kernel; with same-layer tokens in `subBatches` sub-batches, the start and end of each wait
extern "C" __global__ void report(const int *tokens, int count, const HostTokens *hostTokens, int layers, int slots,
        int subBatches, int *out, u64 *stamps) {
    dependencyWait();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tokens[i];
    for (int i = threadIdx.x; i < slots; i += blockDim.x) out[count + i] = inFlightToken(hostTokens, layers, i);
    for (int i = threadIdx.x; slots && i < layers; i += blockDim.x) stamps[i] = hostTokens->stamps[i];
    for (int i = threadIdx.x; i < 2 * subBatches * layers; i += blockDim.x)
        stamps[layers + 1 + i] = hostTokens->waits[i];
    if (threadIdx.x == 0 && (slots || subBatches)) stamps[layers] = nanos();
}
