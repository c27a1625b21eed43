// Prepended to sources in which some warps fill stages of shared memory and others read them (compute capability 9.0
// and later): mbarriers and copies by the Tensor Memory Accelerator (TMA).

__device__ __forceinline__ word address(const void *p) { return (word)__cvta_generic_to_shared(p); }
__device__ __forceinline__ void barrierInit(u64 *b, int count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(address(b)), "r"(count));
}
__device__ __forceinline__ void barrierExpect(u64 *b, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(address(b)), "r"(bytes) : "memory");
}
__device__ __forceinline__ void barrierArrive(u64 *b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(address(b)) : "memory");
}
// The time limit is ten milliseconds: a warp that polls takes issue slots from those that it waits for.
__device__ __forceinline__ void barrierWait(u64 *b, int parity) {
    asm volatile("{\n.reg .pred p;\n"
        "waiting: mbarrier.try_wait.parity.shared.b64 p, [%0], %1, 10000000;\n"
        "@!p bra waiting;\n}" :: "r"(address(b)), "r"(parity) : "memory");
}

// Byte offset of 16-byte chunk `chunk` of a row of 128 bytes, with TMA's 128-byte swizzle
__device__ __forceinline__ word swizzled(int row, int chunk) { return row * 128 + ((chunk ^ row & 7) << 4); }

// A CUtensorMap (TensorMap.java), and cache policies for the L2 cache
struct alignas(64) TensorMap { u64 words[16]; };
#define EVICT_FIRST 0x12F0000000000000ull
#define EVICT_LAST 0x14F0000000000000ull

__device__ __forceinline__ void fetchBox(void *to, const TensorMap *map, int column, int row, u64 *barrier,
        u64 policy) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint "
        "[%0], [%1, {%2, %3}], [%4], %5;"
        :: "r"(address(to)), "l"(map), "r"(column), "r"(row), "r"(address(barrier)), "l"(policy) : "memory");
}
