#define COURIER_WARPS 8
#define FEW_ROWS 8

// Looks without a find after which the courier asks whether it should go on: some milliseconds.
#define LOOKS 512

// Carries rows in flight beside a step's kernels. One thread block, until the last layer's attention, which the embedding and
// that layer mark. So few registers that two blocks of decode attention have room beside it.
// A step that hangs, or whose next launch failed, never marks it: then the courier ends when the host gives up, or
// after its patience, and says so.
extern "C" __global__ void __launch_bounds__(COURIER_WARPS * 32, 3) courier(Flights *flights) {
    wide *counters = flights->departed;
    wide sent = counters[1], received = counters[2], began = nanos();
    bool stops = false;
    for (int looks = 1;; looks++) {
        bool ends = __syncthreads_or(stops || *(volatile wide *)(counters + 3) != 0);
        // one thread looks, now and then: all of them looking over the link slow every kernel beside this one
        bool any = threadIdx.x == 0 && (flights->ready[received & flights->ringMask] >> 24 == received + 1
            || *(volatile wide *)&flights->departures[sent & flights->ringMask] >> 24 == sent + 1);
        any = __syncthreads_or(any);
        if (any) carryRows<COURIER_WARPS>(flights, sent, received);
        if (ends) break;
        if (any) continue;
        if (threadIdx.x == 0 && looks % LOOKS == 0) {
            if (nanos() - began > flights->courierPatience) *flights->givenUp = 2;
            stops = *flights->givenUp != 0;
        }
        stressDelay();
        __nanosleep(4000);
    }
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}

// Rows that the CPU attends to while their step waits, where they are many: q, k and v of row blockIdx.x go to the host, then its task.
extern "C" __global__ void __launch_bounds__(128) depart(const int *header, const int *slots, Flights *flights, int layer) {
    const HostRows *rows = hostRows(header);
    const int EIGHTS = (HEADS + 2 * KV_HEADS) * HEAD_DIM / 8;
    int flight = hostFlight(slots[rows->first + blockIdx.x]);
    const uint4 *from = (const uint4 *)(flights->outgoing + (size_t)flight * EIGHTS * 8);
    uint4 *to = (uint4 *)(flights->sent + (size_t)flight * EIGHTS * 8);
#pragma unroll 4
    for (int i = threadIdx.x; i < EIGHTS; i += 128) to[i] = __ldcg(from + i);
    stressDelay();
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) ask(flights, rows, blockIdx.x, flight, layer);
}

// What was written before the value is seen by whoever is told of it
__device__ __forceinline__ wide acquired(const volatile wide *p) {
    wide v;
    asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(p) : "memory");
    return v;
}

// Nobody waits for ever: after the patience the step gives up in the host's place, which sees it.
__device__ __forceinline__ void awaitAnswer(const Flights *flights, int flight, wide wanted) {
    wide began = nanos();
    while (acquired(&flights->answered[flight]) != wanted && *flights->givenUp == 0) {
        if (nanos() - began > flights->patience) *flights->givenUp = 1;
        __nanosleep(200);
    }
}

// The other way: waits for each row's attention, unless the host has given up, and brings it to attended [rows][HEADS][HEAD_WIDTH].
// Looking for it needs nothing of the kernels before, so for few rows it begins beside them (many looking over the link all the time would
// slow them); the last block says when they have ended.
// The grid may be smaller than the rows: `depart`, which may come later, needs room beside blocks that wait. So do not let the
// next kernels in before all is there: they would take that room. at: sub-batch * layers + layer
extern "C" __global__ void __launch_bounds__(128) collect(const int *header, const int *slots, const Flights *flights, int layer, int at, half16 *attended) {
    const HostRows *rows = hostRows(header);
    const int EIGHTS = HEAD_DIM / 8, PIECES = HEADS * EIGHTS, MINE = (PIECES + 127) / 128;
    int blocks = gridDim.x - 1;
    if (blockIdx.x == blocks) {
        dependentsLaunch();
        dependencyWait();
        if (threadIdx.x == 0) flights->waits[2 * at] = nanos();
        return;
    }
    if (rows->count > FEW_ROWS) dependencyWait();
    for (int i = blockIdx.x; i < rows->count; i += blocks) {
        int row = rows->first + i, flight = hostFlight(slots[row]);
        stressDelay();
        if (threadIdx.x == 0) awaitAnswer(flights, flight, rows->base + (wide)layer * rows->all + rows->offset + i + 1);
        __syncthreads();
        const uint4 *from = (const uint4 *)(flights->results + (size_t)flight * HEADS * HEAD_DIM);
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
        if (i == rows->count - 1 && threadIdx.x == 0) flights->waits[2 * at + 1] = nanos();
    }
}

// What a step tells the host: chosen tokens, who sits in the slots after the last layer, and when it reported, with slots when
// each layer was, with host rows of `passes` sub-batches when it waited for them; straight to pinned memory
extern "C" __global__ void report(const int *tokens, int count, const Flights *flights, int layers, int slots, int passes, int *out, wide *stamps) {
    dependencyWait();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tokens[i];
    for (int i = threadIdx.x; i < slots; i += blockDim.x) out[count + i] = slotted(flights, layers, i);
    for (int i = threadIdx.x; slots && i < layers; i += blockDim.x) stamps[i] = flights->stamps[i];
    for (int i = threadIdx.x; i < 2 * passes * layers; i += blockDim.x) stamps[layers + 1 + i] = flights->waits[i];
    if (threadIdx.x == 0 && (slots || passes)) stamps[layers] = nanos();
}
