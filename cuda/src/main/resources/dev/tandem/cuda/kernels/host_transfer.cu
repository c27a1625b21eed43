// Kernels that carry host tokens between GPU and host: q, k and v [HEADS + 2 KV_HEADS][HEAD_DIM] of a token go out,
// attention's output [HEADS][HEAD_DIM] comes back. `transfer` serves in-flight tokens beside a step; `send_host_tokens`
// and `receive_host_tokens` serve tokens for which the step waits; `report` tells the host what a step chose.
//
// Shared memory: none but what __syncthreads_or needs.
//
// Waits and signals (flags and fences: table in prelude.cu):
//   transfer               polls ready and sendQueue; ends by sendCounters[3], givenUp or its timeout
//   send_host_tokens       follows rope_store in its stream; signals asked
//   receive_host_tokens    polls answered of each token, until givenUp is set or time is over
//   report                 dependencyWait

#define TRANSFER_WARPS 8
#define FEW_ROWS 8

// Looks without a find after which the transfer kernel asks whether it should go on: some milliseconds.
#define LOOKS 512

// Carries in-flight tokens beside a step's kernels. One thread block, until the last layer's attention, which the
// embedding and that layer mark. So few registers that two blocks of decode attention have room beside it.
// A step that hangs, or whose next launch failed, never marks it: then the transfer kernel ends when the host gives up,
// or after its timeout, and says so.
extern "C" __global__ void __launch_bounds__(TRANSFER_WARPS * 32, 3) transfer(HostTokens *hostTokens) {
    wide *counters = hostTokens->sendCounters;
    wide sent = counters[1], received = counters[2], began = nanos();
    bool stops = false;
    for (int looks = 1;; looks++) {
        bool ends = __syncthreads_or(stops || *(volatile wide *)(counters + 3) != 0);
        // one thread looks, now and then: all of them looking over the link slow every kernel beside this one
        bool any = threadIdx.x == 0 && (hostTokens->ready[received & hostTokens->ringMask] >> 24 == received + 1
            || *(volatile wide *)&hostTokens->sendQueue[sent & hostTokens->ringMask] >> 24 == sent + 1);
        any = __syncthreads_or(any);
        if (any) carryRows<TRANSFER_WARPS>(hostTokens, sent, received);
        if (ends) break;
        if (any) continue;
        if (threadIdx.x == 0 && looks % LOOKS == 0) {
            if (nanos() - began > hostTokens->transferTimeout) *hostTokens->givenUp = 2;
            stops = *hostTokens->givenUp != 0;
        }
        stressDelay();
        __nanosleep(4000);
    }
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}

// Rows that the CPU attends to while their step waits, where they are many: q, k and v of row blockIdx.x go to the
// host, then its task.
extern "C" __global__ void __launch_bounds__(128) send_host_tokens(const int *header, const int *slots,
        HostTokens *hostTokens, int layer) {
    const BatchHostTokens *rows = batchHostTokens(header);
    const int EIGHTS = (HEADS + 2 * KV_HEADS) * HEAD_DIM / 8;
    int hostToken = hostTokenIndex(slots[rows->first + blockIdx.x]);
    const uint4 *from = (const uint4 *)(hostTokens->outgoing + (size_t)hostToken * EIGHTS * 8);
    uint4 *to = (uint4 *)(hostTokens->sent + (size_t)hostToken * EIGHTS * 8);
#pragma unroll 4
    for (int i = threadIdx.x; i < EIGHTS; i += 128) to[i] = __ldcg(from + i);
    stressDelay();
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) ask(hostTokens, rows, blockIdx.x, hostToken, layer);
}

// What was written before the value is seen by a thread that acquires it
__device__ __forceinline__ wide acquired(const volatile wide *p) {
    wide v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

// No step waits for ever: after the timeout it gives up in the host's place, which sees it.
__device__ __forceinline__ void awaitAnswer(const HostTokens *hostTokens, int hostToken, wide wanted) {
    wide began = nanos();
    while (acquired(&hostTokens->answered[hostToken]) != wanted && *hostTokens->givenUp == 0) {
        if (nanos() - began > hostTokens->timeout) *hostTokens->givenUp = 1;
        __nanosleep(200);
    }
}

// The other way: waits for each row's attention, unless the host has given up, and brings it to attended
// [rows][HEADS][HEAD_WIDTH].
// Looking for it needs nothing of the kernels before, so for few rows it begins beside them (many looking over the link
// all the time would slow them); the last block says when they have ended.
// The grid may be smaller than the rows: `send_host_tokens`, which may come later, needs room beside blocks that wait.
// So do not let the next kernels in before all is there: they would take that room. at: sub-batch * layers + layer
extern "C" __global__ void __launch_bounds__(128) receive_host_tokens(const int *header, const int *slots,
        const HostTokens *hostTokens, int layer, int at, half16 *attended) {
    const BatchHostTokens *rows = batchHostTokens(header);
    const int EIGHTS = HEAD_DIM / 8, PIECES = HEADS * EIGHTS, MINE = (PIECES + 127) / 128;
    int blocks = gridDim.x - 1;
    if (blockIdx.x == blocks) {
        dependentsLaunch();
        dependencyWait();
        if (threadIdx.x == 0) hostTokens->waits[2 * at] = nanos();
        return;
    }
    if (rows->count > FEW_ROWS) dependencyWait();
    for (int i = blockIdx.x; i < rows->count; i += blocks) {
        int row = rows->first + i, hostToken = hostTokenIndex(slots[row]);
        stressDelay();
        if (threadIdx.x == 0)
            awaitAnswer(hostTokens, hostToken, rows->base + (wide)layer * rows->all + rows->offset + i + 1);
        __syncthreads();
        const uint4 *from = (const uint4 *)(hostTokens->results + (size_t)hostToken * HEADS * HEAD_DIM);
        uint4 v[MINE];
#pragma unroll
        for (int j = 0; j < MINE; j++)
            if (j * 128 + threadIdx.x < PIECES)
                asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];"
                    : "=r"(v[j].x), "=r"(v[j].y), "=r"(v[j].z), "=r"(v[j].w) : "l"(from + j * 128 + threadIdx.x));
        if (i == blockIdx.x) dependencyWait();
        if (i + blocks >= rows->count) dependentsLaunch();
        half16 *to = attended + (size_t)row * HEADS * HEAD_WIDTH;
#pragma unroll
        for (int j = 0; j < MINE; j++) {
            int piece = j * 128 + threadIdx.x;
            if (piece < PIECES) *(uint4 *)(to + piece / EIGHTS * HEAD_WIDTH + piece % EIGHTS * 8) = v[j];
        }
        clearPadding(to, 1, threadIdx.x, 128);
        if (i == rows->count - 1 && threadIdx.x == 0) hostTokens->waits[2 * at + 1] = nanos();
    }
}

// What a step tells the host: chosen tokens, which host tokens hold the slots after the last layer, and when it
// reported, with
// slots when each layer was, with host tokens of `passes` sub-batches when it waited for them; straight to pinned
// memory
extern "C" __global__ void report(const int *tokens, int count, const HostTokens *hostTokens, int layers, int slots,
        int passes, int *out, wide *stamps) {
    dependencyWait();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tokens[i];
    for (int i = threadIdx.x; i < slots; i += blockDim.x) out[count + i] = slotted(hostTokens, layers, i);
    for (int i = threadIdx.x; slots && i < layers; i += blockDim.x) stamps[i] = hostTokens->stamps[i];
    for (int i = threadIdx.x; i < 2 * passes * layers; i += blockDim.x) stamps[layers + 1 + i] = hostTokens->waits[i];
    if (threadIdx.x == 0 && (slots || passes)) stamps[layers] = nanos();
}
