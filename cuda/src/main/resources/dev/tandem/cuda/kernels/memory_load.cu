// Reads GPU memory at a chosen rate, so that kernels on other multiprocessors find less bandwidth.

// Each thread block reads `words` 16-byte words per turn, then sleeps. The blocks of one turn read one stretch of
// `data`, and turns go round in it.
// `words` is a multiple of the LOADS of a thread times the threads of a block.
//   data   [size] 16-byte words, a multiple of the words that all blocks read per turn
//   turns  of a block at most
//   time   nanoseconds after which no thread begins a turn, so that all end together, however fast each is served
//   pause  nanoseconds between two turns of a block
//   sink   never written: it keeps the compiler from dropping the reads
#define LOADS 8

extern "C" __global__ void read_memory(const uint4* data, u64 size, int words, int turns, int time, int pause,
                                       word* sink) {
    const u64 begin = nanos();
    const u64 stretch = (u64)gridDim.x * words;
    u64 at = (u64)blockIdx.x * words;
    word sum = 0;
    for (int turn = 0; turn < turns && nanos() - begin < (u64)time; turn++) {
        const uint4* from = data + at;
        // all loads of a thread are under way before the first result is used
        for (int i = threadIdx.x; i < words; i += LOADS * blockDim.x) {
            uint4 v[LOADS];
#pragma unroll
            for (int load = 0; load < LOADS; load++) {
                asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(v[load].x), "=r"(v[load].y), "=r"(v[load].z), "=r"(v[load].w)
                             : "l"(from + i + load * blockDim.x));
            }
#pragma unroll
            for (int load = 0; load < LOADS; load++) sum += v[load].x ^ v[load].y ^ v[load].z ^ v[load].w;
        }
        at += stretch;
        at = at < size ? at : at - size;
        if (pause > 0) __nanosleep(pause);
    }
    if (sum == 0x9e3779b9u && turns < 0) *sink = sum;
}
