// Prepended to sources that use asynchronous warpgroup MMA (wgmma, compute capability 9.0).

#if BF16
#define TYPES "f32.bf16.bf16"
#else
#define TYPES "f32.f16.f16"
#endif

// The matrix descriptor of a wgmma operand in shared memory. Rows have 128 bytes and are swizzled. The next eight rows
// are 1,024 bytes further. If wgmma sums over rows, the next 64 columns are `leading` bytes further.
__device__ __forceinline__ u64 matrixDescriptor(word at, int leading) {
    return (u64)(at >> 4) | (u64)(leading >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// Operand lists for the accumulators of wgmma: sixteen per macro
#define S0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define S1 ",%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define S2 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define S3 ",%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define S4 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define S5 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define S6 ",%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111"
#define S7 ",%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define FLOATS8(d, \
    n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3]), "+f"(d[n + 1][0]), "+f"(d[n + 1][1]), \
    "+f"(d[n + 1][2]), "+f"(d[n + 1][3])
#define FLOATS16(d, n) FLOATS8(d, n), FLOATS8(d, n + 2)
#define FLOATS32(d, n) FLOATS16(d, n), FLOATS16(d, n + 4)

__device__ __forceinline__ void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most PENDING groups of wgmma are unfinished.
template <int PENDING> __device__ __forceinline__ void wgmmaWait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(PENDING) : "memory");
}
// A compiler fence for accumulators: no read or write of them moves across it.
template <int N> __device__ __forceinline__ void fenceAccumulators(float (*d)[4]) {
#pragma unroll
    for (int n = 0; n < N; n++)
        asm volatile("" : "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3]) :: "memory");
}
