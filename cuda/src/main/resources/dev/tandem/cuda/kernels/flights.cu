#define COURIER_WARPS 8

// Carries rows in flight beside a step's kernels. One thread block, until the last layer's attention, which the embedding and
// that layer mark.
extern "C" __global__ void __launch_bounds__(COURIER_WARPS * 32, 2) courier(Flights *flights) {
    wide *counters = flights->departed;
    wide sent = counters[1], received = counters[2];
    for (;;) {
        bool ends = __syncthreads_or(*(volatile wide *)(counters + 3) != 0);
        int carried = carryRows<COURIER_WARPS>(flights, sent, received);
        if (ends) break;
        if (carried == 0) __nanosleep(1000);
    }
    if (threadIdx.x == 0) {
        counters[1] = sent;
        counters[2] = received;
    }
}

// What a step tells the host: chosen tokens, who sits in the slots after the last layer, and with slots when each layer was;
// straight to pinned memory
extern "C" __global__ void report(const int *tokens, int count, const Flights *flights, int layers, int slots, int *out, wide *stamps) {
    dependencyWait();
    for (int i = threadIdx.x; i < count; i += blockDim.x) out[i] = tokens[i];
    for (int i = threadIdx.x; i < slots; i += blockDim.x) out[count + i] = slotted(flights, layers, i);
    for (int i = threadIdx.x; slots && i <= layers; i += blockDim.x) stamps[i] = i == layers ? nanos() : flights->stamps[i];
}
