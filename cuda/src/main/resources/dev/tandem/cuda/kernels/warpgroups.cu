// Joined in front of sources whose groups of four warps multiply asynchronously (Hopper).

#if BF16
#define TYPES "f32.bf16.bf16"
#else
#define TYPES "f32.f16.f16"
#endif

// How a product finds its second operand in shared memory: rows of 128 bytes, swizzled; 1,024 bytes to the next eight rows,
// `leading` to the next 64 columns where rows are tokens to sum over
__device__ __forceinline__ wide operand(word at, int leading) {
    return (wide)(at >> 4) | (wide)(leading >> 4) << 16 | (wide)(1024 >> 4) << 32 | 1ull << 62;
}

#define FLOATS8(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3]), "+f"(d[n + 1][0]), "+f"(d[n + 1][1]), "+f"(d[n + 1][2]), "+f"(d[n + 1][3])
#define FLOATS16(d, n) FLOATS8(d, n), FLOATS8(d, n + 2)
#define FLOATS32(d, n) FLOATS16(d, n), FLOATS16(d, n + 4)

__device__ __forceinline__ void productsBegin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void productsCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// until no more than PENDING groups of products are under way
template <int PENDING> __device__ __forceinline__ void productsWait() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory"); }
// the compiler moves no use of these values over this place
template <int N> __device__ __forceinline__ void hold(float (*d)[4]) {
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3]) :: "memory");
}
