// The link between GPU and host for rows in flight. A pass runs beside the step's kernels after each layer's attention; passes
// follow one another, and nobody waits for them before the step ends.

#define COURIER_WARPS 16
#define MOST_CARRIED (COURIER_WARPS * 32)

// Sends what has departed with a task each, and brings results that are ready. One thread block.
extern "C" __global__ void __launch_bounds__(COURIER_WARPS * 32) courier(Flights *flights) {
    const int EIGHTS = (HEADS + 2 * KV_HEADS) * HEAD_DIM / 8, QUADS = HEADS * HEAD_DIM / 4, AHEAD = 8;
    __shared__ int leaving, coming;
    __shared__ wide departures[MOST_CARRIED], entries[MOST_CARRIED];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    wide *counters = flights->departed;
    wide sent = counters[1], received = counters[2];
    if (threadIdx.x == 0) leaving = coming = MOST_CARRIED;
    wide entry = flights->ready[(received + threadIdx.x) & flights->ringMask];
    // the next layer's attention may be adding more meanwhile
    wide departing = *(volatile wide *)&flights->departures[(sent + threadIdx.x) & flights->ringMask];
    __syncthreads();
    if (entry >> 24 != received + threadIdx.x + 1) atomicMin(&coming, (int)threadIdx.x);
    if (departing >> 24 != sent + threadIdx.x + 1) atomicMin(&leaving, (int)threadIdx.x);
    entries[threadIdx.x] = entry;
    departures[threadIdx.x] = departing & 0xffffff;
    __syncthreads();
    __threadfence();
    for (int i = warp; i < leaving; i += COURIER_WARPS) {
        wide number = sent + i, departure = departures[i];
        const uint4 *from = (const uint4 *)(flights->outgoing + (size_t)(departure & 0xffff) * EIGHTS * 8);
        uint4 *to = (uint4 *)(flights->sent + (size_t)(departure & 0xffff) * EIGHTS * 8);
#pragma unroll 8
        for (int at = lane; at < EIGHTS; at += 32) to[at] = __ldcg(from + at);
        __threadfence_system();
        __syncwarp();
        if (lane == 0) flights->tasks[number & flights->ringMask] = (number + 1) << 24 | departure;
    }
    for (int arrival = warp; arrival < coming; arrival += COURIER_WARPS) {
        int flight = (int)(entries[arrival] & 0xffff), layer = (int)(entries[arrival] >> 16 & 0xff);
        const float *from = flights->results + (size_t)flight * QUADS * 4;
        uint2 *to = (uint2 *)(flights->incoming + (size_t)flight * QUADS * 4);
#pragma unroll 1
        for (int first = lane; first < QUADS; first += AHEAD * 32) {
            uint4 v[AHEAD];
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                if (first + i * 32 < QUADS) asm volatile("ld.volatile.global.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v[i].x), "=r"(v[i].y), "=r"(v[i].z), "=r"(v[i].w) : "l"(from + 4 * (first + i * 32)));
            }
#pragma unroll
            for (int i = 0; i < AHEAD; i++) {
                if (first + i * 32 < QUADS) to[first + i * 32] = make_uint2(pack(__uint_as_float(v[i].x), __uint_as_float(v[i].y)), pack(__uint_as_float(v[i].z), __uint_as_float(v[i].w)));
            }
        }
        __threadfence();
        __syncwarp();
        if (lane == 0) {
            wide number = atomicAdd(&flights->arrived[layer], 1ull);
            *(volatile wide *)&flights->arrivals[(size_t)layer * (flights->ringMask + 1) + (number & flights->ringMask)] = (number + 1) << 16 | flight;
        }
    }
    if (threadIdx.x == 0) {
        counters[1] = sent + leaving;
        counters[2] = received + coming;
    }
}
