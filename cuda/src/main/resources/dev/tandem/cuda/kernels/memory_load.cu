// Reads GPU memory at a chosen rate, so that kernels on other multiprocessors find less bandwidth.

// Each thread block reads `words` 16-byte words per turn, then sleeps. The blocks of one turn read one stretch of
// `data`, and turns go round in it.
//   data   [size] 16-byte words, a multiple of the words that all blocks read per turn
//   pause  nanoseconds between two turns of a block
//   sink   never written: it keeps the compiler from dropping the reads
extern "C" __global__ void read_memory(const uint4* data, u64 size, int words, int turns, int pause, word* sink) {
    const u64 stretch = (u64)gridDim.x * words;
    u64 at = (u64)blockIdx.x * words;
    word sum = 0;
    for (int turn = 0; turn < turns; turn++) {
        const uint4* from = data + at;
#pragma unroll 4
        for (int i = threadIdx.x; i < words; i += blockDim.x) {
            uint4 v;
            asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                         : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                         : "l"(from + i));
            sum += v.x ^ v.y ^ v.z ^ v.w;
        }
        at += stretch;
        at = at < size ? at : at - size;
        if (pause > 0) __nanosleep(pause);
    }
    if (sum == 0x9e3779b9u && turns < 0) *sink = sum;
}
