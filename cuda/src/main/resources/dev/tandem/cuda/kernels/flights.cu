// The link between GPU and host for rows in flight: sends what has departed with a task each, and brings results that are
// ready. Nobody waits for it before the step ends.

#define COURIER_WARPS 16
#define MOST_CARRIED (COURIER_WARPS * 32)
#define AHEAD 8

__device__ __forceinline__ void send(Flights *flights, wide number, wide departure) {
    const int EIGHTS = (HEADS + 2 * KV_HEADS) * HEAD_DIM / 8;
    int lane = threadIdx.x % 32;
    const uint4 *from = (const uint4 *)(flights->outgoing + (size_t)(departure & 0xffff) * EIGHTS * 8);
    uint4 *to = (uint4 *)(flights->sent + (size_t)(departure & 0xffff) * EIGHTS * 8);
#pragma unroll 8
    for (int i = lane; i < EIGHTS; i += 32) to[i] = __ldcg(from + i);
    __threadfence_system();
    __syncwarp();
    if (lane == 0) flights->tasks[number & flights->ringMask] = (number + 1) << 24 | departure;
}

__device__ __forceinline__ void bring(Flights *flights, int layer, int flight) {
    const int QUADS = HEADS * HEAD_DIM / 4;
    int lane = threadIdx.x % 32;
    const float *from = flights->results + (size_t)flight * QUADS * 4;
    uint2 *to = (uint2 *)(flights->incoming + (size_t)flight * QUADS * 4);
#pragma unroll 1
    for (int first = 0; first < QUADS; first += AHEAD * 32) {
        uint4 v[AHEAD];
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = first + i * 32 + lane;
            if (at < QUADS) asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + 4 * at));
        }
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            int at = first + i * 32 + lane;
            if (at < QUADS) to[at] = make_uint2(pack(__uint_as_float(v[i].x), __uint_as_float(v[i].y)), pack(__uint_as_float(v[i].z), __uint_as_float(v[i].w)));
        }
    }
    __threadfence();
    __syncwarp();
    if (lane == 0) {
        wide number = atomicAdd(&flights->arrived[layer], 1ull);
        *(volatile wide *)&flights->arrivals[(size_t)layer * (flights->ringMask + 1) + (number & flights->ringMask)] = (number + 1) << 16 | flight;
    }
}

// One thread block. `passes` = 1 looks once; more: until the last layer's attention, which the embedding and that layer mark.
extern "C" __global__ void __launch_bounds__(COURIER_WARPS * 32) courier(Flights *flights, int passes) {
    __shared__ int leaving, coming;
    __shared__ wide departures[MOST_CARRIED], entries[MOST_CARRIED];
    int warp = threadIdx.x / 32;
    wide *counters = flights->departed;
    wide sent = counters[1], received = counters[2];
    for (int pass = 0; pass < passes; pass++) {
        bool ends = *(volatile wide *)(counters + 3) != 0;
        wide entry = flights->ready[(received + threadIdx.x) & flights->ringMask];
        // the attention of a layer may be adding more meanwhile
        wide departing = *(volatile wide *)&flights->departures[(sent + threadIdx.x) & flights->ringMask];
        if (threadIdx.x == 0) leaving = coming = MOST_CARRIED;
        bool finished = __syncthreads_or(ends);
        if (entry >> 24 != received + threadIdx.x + 1) atomicMin(&coming, (int)threadIdx.x);
        if (departing >> 24 != sent + threadIdx.x + 1) atomicMin(&leaving, (int)threadIdx.x);
        entries[threadIdx.x] = entry;
        departures[threadIdx.x] = departing & 0xffffff;
        __syncthreads();
        __threadfence();
        for (int i = warp; i < leaving; i += COURIER_WARPS) send(flights, sent + i, departures[i]);
        for (int i = warp; i < coming; i += COURIER_WARPS) bring(flights, (int)(entries[i] >> 16 & 0xff), (int)(entries[i] & 0xffff));
        sent += leaving;
        received += coming;
        bool idle = leaving + coming == 0;
        if (finished) break;
        __syncthreads();
        if (idle) __nanosleep(1000);
    }
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}
