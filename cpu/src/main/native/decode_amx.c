/*
 * Decode attention over host KV blocks with AMX tiles, in bf16.
 *
 * Computes: for one host token in one layer, the partial attention over its KV blocks [first, last), from the token
 * `visible` of the first block on:
 *     scores[head][token] = q[head] . K[token]            (AMX tile products)
 *     p[head][token]      = 2^(scores * scale - max)      (online softmax, AVX-512)
 *     weighted[head]     += p[head] . V                   (AMX tile products)
 * BlockFormat.java describes the layout of a block. A row of 64 32-bit lanes is 256 bytes. An AMX tile is 16 rows of
 * 64 bytes.
 * The tile registers are released before the call returns. The caller runs it on one thread; nothing is shared.
 *
 * Each softmax weight p is split into two bf16 values, p = high + low, and each is multiplied by V. The sums are then
 * within 2^-16 of sums with fp32 weights. That takes twice the tile products, but the kernel waits for memory anyway.
 */
#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TOKENS = 64, ROW = 256, MAX_GROUP = 16, PAGE = 4096, AHEAD = 4 * PAGE };
static const float MIN = -1e30f;

struct task {
    const uint16_t *q;         /* bf16 [kv_heads * group][key_dims], zeros beyond head_dim */
    const char *const *blocks; /* [last] addresses */
    int32_t first, last, context;
    int32_t kv_heads, group, head_dim, key_dims;
    float scale;               /* log2(e) / sqrt(head_dim) */
    float *max, *sum;          /* [kv_heads * group] */
    float *weighted;           /* [kv_heads * group][head_dim] */
    const char *next;          /* the block that this thread will probably read next; 0 if unknown */
    const uint16_t *k, *v;     /* bf16 [kv_heads][head_dim] of the last token, to be appended to the last block; or 0 */
    float *out;                /* [kv_heads * group][head_dim] final result, if these are all blocks; or 0 */
    int64_t visible;           /* the first token attended to, in the first block; those before it have weight 0 */
};

/* AmxDecodeAttention.TASK has the same offsets; AmxTaskTest compares the two. */
_Static_assert(offsetof(struct task, q) == 0, "q");
_Static_assert(offsetof(struct task, blocks) == 8, "blocks");
_Static_assert(offsetof(struct task, first) == 16, "first");
_Static_assert(offsetof(struct task, last) == 20, "last");
_Static_assert(offsetof(struct task, context) == 24, "context");
_Static_assert(offsetof(struct task, kv_heads) == 28, "kv_heads");
_Static_assert(offsetof(struct task, group) == 32, "group");
_Static_assert(offsetof(struct task, head_dim) == 36, "head_dim");
_Static_assert(offsetof(struct task, key_dims) == 40, "key_dims");
_Static_assert(offsetof(struct task, scale) == 44, "scale");
_Static_assert(offsetof(struct task, max) == 48, "max");
_Static_assert(offsetof(struct task, sum) == 56, "sum");
_Static_assert(offsetof(struct task, weighted) == 64, "weighted");
_Static_assert(offsetof(struct task, next) == 72, "next");
_Static_assert(offsetof(struct task, k) == 80, "k");
_Static_assert(offsetof(struct task, v) == 88, "v");
_Static_assert(offsetof(struct task, out) == 96, "out");
_Static_assert(offsetof(struct task, visible) == 104, "visible");
_Static_assert(sizeof(struct task) == 112, "task");

struct __attribute__((aligned(64))) config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
};

struct __attribute__((aligned(64))) working {
    float scores[MAX_GROUP * TOKENS];
    uint16_t high[MAX_GROUP * TOKENS];
    uint16_t low[MAX_GROUP * TOKENS];
};

/*
 * Software prefetch while a block is computed. It runs 16 KiB ahead of the tiles in use, on four pages side by side.
 * The hardware prefetchers follow one stream per page; four streams give a third more bandwidth than one.
 *
 * The prefetch is spread evenly over the compute: each tile product and each softmax makes some 1024ths of a tile due,
 * so that memory is never idle. A block with few tokens has fewer products for the same bytes, so each makes more due.
 * All of such a block's K is prefetched: its rows are 256 bytes, and fetching some lines of a row takes longer than
 * fetching all of them.
 */
struct prefetch {
    const char *begin, *end, *next;
    long done; /* bytes of the block whose successors have been prefetched, in whole tiles */
    int due;   /* 1024ths of a tile that are to be prefetched */
    int per_key_tile, per_value_tile, per_softmax; /* 1024ths that one such piece of work makes due */
    int value_pages; /* pages of V with tokens, 16 tokens each; below 4 only for heads of 128, whose V is 16 KiB */
};

/* Asks Linux to let this process use AMX tile data; returns 0 if it does. */
int tandem_amx_request(void) {
    const long permission = 0x1023, tile_data = 18;
    return (int)syscall(SYS_arch_prctl, permission, tile_data);
}

/* Sets the shape of the eight tile registers; `rows` is the number of query heads per KV head. */
static void configure(int rows) {
    struct config c;
    memset(&c, 0, sizeof c);
    c.palette = 1;
    for (int i = 0; i < 8; i++) {
        c.bytes[i] = 64;
        c.rows[i] = i < 6 ? rows : 16; /* tiles 0-3: sums, 4-5: q or p, 6-7: K or V */
    }
    _tile_loadconfig(&c);
}

/* Prefetches for one tile: 16 lines, four on each page. `whole`: the block has tokens in all four pages of V. */
static inline void prefetch_tile(struct prefetch *s, int whole) {
    long at = s->done / AHEAD * AHEAD + AHEAD;
    const char *from = s->begin + at;
    long line = s->done % AHEAD / 1024 * 4;
    int pages = 4;
    s->done += 1024;
    if (from >= s->end) {
        if (!s->next)
            return;
        from = s->next + (from - s->end);
    } else if (!whole && at / AHEAD % 2) {
        pages = s->value_pages;
    }
    for (int i = 0; i < 4; i++)
        for (int page = 0; page < pages; page++)
            _mm_prefetch(from + page * PAGE + (line + i) * 64, _MM_HINT_T0);
}

static inline void prefetch_some(struct prefetch *s, int due, int whole) {
    for (s->due += due; s->due >= 1024; s->due -= 1024)
        prefetch_tile(s, whole);
}

/* 2^x by a polynomial of degree 5; relative error below 3e-7. */
static inline __m512 exp2_16(__m512 x) {
    x = _mm512_max_ps(x, _mm512_set1_ps(-80));
    __m512 whole = _mm512_roundscale_ps(x, 8);
    __m512 f = _mm512_sub_ps(x, whole);
    __m512 p = _mm512_set1_ps(1.3333558e-3f);
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(9.6181291e-3f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(5.5504109e-2f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(2.4022651e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(6.9314718e-1f));
    p = _mm512_fmadd_ps(p, f, _mm512_set1_ps(1));
    return _mm512_scalef_ps(p, whole);
}

/* Scores of one KV head's query heads with a block's tokens: out [group][64]. `groups`: groups of 16 tokens in use. */
static inline void scores(
        const uint16_t *q, const char *k, int key_dims, int groups, float *out, struct prefetch *s, int whole) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int dim = 0; dim < key_dims; dim += 32) {
        const char *rows = k + dim / 2 * ROW;
        _tile_loadd(4, q + dim, key_dims * 2);
        _tile_loadd(6, rows, ROW);
        _tile_dpbf16ps(0, 4, 6);
        prefetch_some(s, s->per_key_tile, whole);
        if (groups > 1) {
            _tile_loadd(7, rows + 64, ROW);
            _tile_dpbf16ps(1, 4, 7);
            prefetch_some(s, s->per_key_tile, whole);
        }
        if (groups > 2) {
            _tile_loadd(6, rows + 128, ROW);
            _tile_dpbf16ps(2, 4, 6);
            prefetch_some(s, s->per_key_tile, whole);
        }
        if (groups > 3) {
            _tile_loadd(7, rows + 192, ROW);
            _tile_dpbf16ps(3, 4, 7);
            prefetch_some(s, s->per_key_tile, whole);
        }
    }
    _tile_stored(0, out, TOKENS * 4);
    _tile_stored(1, out + 16, TOKENS * 4);
    _tile_stored(2, out + 32, TOKENS * 4);
    _tile_stored(3, out + 48, TOKENS * 4);
}

/* 16 bf16 values as fp32. */
static inline __m512 widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

/* Splits 32 fp32 weights into two bf16 values each, weight = high + low. */
static inline void split(__m512 a, __m512 b, uint16_t *high, uint16_t *low) {
    __m512i h = (__m512i)_mm512_cvtne2ps_pbh(b, a);
    __m512 a_high = widen(_mm512_castsi512_si256(h));
    __m512 b_high = widen(_mm512_extracti64x4_epi64(h, 1));
    _mm512_store_si512(high, h);
    _mm512_store_si512(low, (__m512i)_mm512_cvtne2ps_pbh(_mm512_sub_ps(b, b_high), _mm512_sub_ps(a, a_high)));
}

/* Bits 0 to n - 1 of 16. */
static inline __mmask16 below(int n) {
    return n >= 16 ? 0xFFFF : n <= 0 ? 0 : (1 << n) - 1;
}

/*
 * Online softmax of one query head over the block's tokens [visible, tokens): turns scores s [64] into weights, updates
 * the head's max and sum.
 */
static inline void online_softmax(
        float *s, int visible, int tokens, float scale, float *max, float *sum, float *weighted, int head_dim,
        uint16_t *high, uint16_t *low) {
    __m512 x[4];
    __mmask16 valid[4];
    __m512 maxima = _mm512_set1_ps(MIN);
    for (int i = 0; i < 4; i++) {
        valid[i] = below(tokens - 16 * i) & ~below(visible - 16 * i);
        x[i] = _mm512_mask_mul_ps(_mm512_set1_ps(MIN), valid[i], _mm512_load_ps(s + 16 * i), _mm512_set1_ps(scale));
        maxima = _mm512_max_ps(maxima, x[i]);
    }
    float top = _mm512_reduce_max_ps(maxima);
    if (top > *max) {
        float shrink = *max <= MIN ? 0 : _mm512_cvtss_f32(exp2_16(_mm512_set1_ps(*max - top)));
        if (*max - top < -80)
            shrink = 0;
        *max = top;
        *sum *= shrink;
        for (int i = 0; i < head_dim; i += 16)
            _mm512_storeu_ps(weighted + i, _mm512_mul_ps(_mm512_loadu_ps(weighted + i), _mm512_set1_ps(shrink)));
    }
    for (int i = 0; i < 4; i++)
        x[i] = _mm512_maskz_mov_ps(valid[i], exp2_16(_mm512_sub_ps(x[i], _mm512_set1_ps(*max))));
    *sum += _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(x[0], x[1]), _mm512_add_ps(x[2], x[3])));
    split(x[0], x[1], high, low);
    split(x[2], x[3], high + 32, low + 32);
}

/* weighted [group][width] += p . V. Four tiles of 16 dims at a time; fewer for the last dims of a head of 80 or 96. */
static inline void add_values(
        const struct working *w, const char *v, int tokens, int width, float *weighted, int head_dim,
        struct prefetch *s, int whole) {
    long stride = (long)head_dim * 4;
    int row = head_dim * 4;
    _tile_loadd(0, weighted, stride);
    if (width > 16) _tile_loadd(1, weighted + 16, stride);
    if (width > 32) _tile_loadd(2, weighted + 32, stride);
    if (width > 48) _tile_loadd(3, weighted + 48, stride);
    for (int token = 0; token < tokens; token += 32) {
        const char *rows = v + token / 2 * row;
        _tile_loadd(4, w->high + token, TOKENS * 2);
        _tile_loadd(5, w->low + token, TOKENS * 2);
        _tile_loadd(6, rows, row);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(0, 5, 6);
        prefetch_some(s, s->per_value_tile, whole);
        if (width > 16) {
            _tile_loadd(7, rows + 64, row);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(1, 5, 7);
            prefetch_some(s, s->per_value_tile, whole);
        }
        if (width > 32) {
            _tile_loadd(6, rows + 128, row);
            _tile_dpbf16ps(2, 4, 6);
            _tile_dpbf16ps(2, 5, 6);
            prefetch_some(s, s->per_value_tile, whole);
        }
        if (width > 48) {
            _tile_loadd(7, rows + 192, row);
            _tile_dpbf16ps(3, 4, 7);
            _tile_dpbf16ps(3, 5, 7);
            prefetch_some(s, s->per_value_tile, whole);
        }
    }
    _tile_stored(0, weighted, stride);
    if (width > 16) _tile_stored(1, weighted + 16, stride);
    if (width > 32) _tile_stored(2, weighted + 32, stride);
    if (width > 48) _tile_stored(3, weighted + 48, stride);
}

/* Write one KV head's K or V of the new token into its tiles. By then the tiles' cache lines have been read. */
static inline void append_key(char *k, const uint16_t *from, int head_dim, int token) {
    for (int i = 0; i < head_dim / 2; i++)
        memcpy(k + i * ROW + token * 4, from + 2 * i, 4);
}

static inline void append_value(char *v, const uint16_t *from, int head_dim, int token) {
    char *to = v + token / 2 * head_dim * 4 + token % 2 * 2;
    for (int i = 0; i < head_dim; i++)
        memcpy(to + 4 * i, from + i, 2);
}

/* All heads of a block. `whole` is a constant in both callers; 1 means value_pages is 4, which shortens the loops. */
static inline void attend(
        const struct task *t, struct working *w, const char *block, int visible, int tokens, int appends,
        struct prefetch *s, int whole) {
    long key_bytes = (long)t->key_dims * TOKENS * 2;
    long head_bytes = key_bytes + (long)t->head_dim * TOKENS * 2;
    for (int kv = 0; kv < t->kv_heads; kv++) {
        const char *k = block + kv * head_bytes;
        int head = kv * t->group;
        float *weighted = t->weighted + (long)head * t->head_dim;
        if (appends)
            append_key((char *)k, t->k + (long)kv * t->head_dim, t->head_dim, tokens - 1);
        scores(t->q + (long)head * t->key_dims, k, t->key_dims, (tokens + 15) / 16, w->scores, s, whole);
        for (int r = 0; r < t->group; r++) {
            prefetch_some(s, s->per_softmax, whole);
            online_softmax(w->scores + r * TOKENS, visible, tokens, t->scale, t->max + head + r, t->sum + head + r,
                   weighted + (long)r * t->head_dim, t->head_dim, w->high + r * TOKENS, w->low + r * TOKENS);
        }
        if (appends)
            append_value((char *)k + key_bytes, t->v + (long)kv * t->head_dim, t->head_dim, tokens - 1);
        for (int dim = 0; dim < t->head_dim; dim += 64) {
            int width = t->head_dim - dim < 64 ? t->head_dim - dim : 64;
            add_values(w, k + key_bytes + dim * 4, tokens, width, weighted + dim, t->head_dim, s, whole);
        }
    }
}

/* A block with at most 48 tokens: some tile products are left out. A function of its own keeps attend's loops short. */
static __attribute__((noinline)) void attend_short(
        const struct task *t, struct working *w, const char *block, int visible, int tokens, int appends,
        struct prefetch *s) {
    int halves = (tokens + 31) / 32;
    s->per_key_tile = s->per_key_tile * 4 / ((tokens + 15) / 16);
    s->per_value_tile = s->per_value_tile * 2 / halves;
    s->value_pages = t->head_dim == 128 ? 2 * halves : 4;
    attend(t, w, block, visible, tokens, appends, s, 0);
}

/* Divides one head's weighted sum by its sum of weights. head_dim is a multiple of 16. */
static inline void normalise(const float *weighted, float inverse, int head_dim, float *out) {
    for (int i = 0; i < head_dim; i += 16)
        _mm512_storeu_ps(out + i, _mm512_mul_ps(_mm512_loadu_ps(weighted + i), _mm512_set1_ps(inverse)));
}

/* The entry point that AmxDecodeAttention.java calls. */
void tandem_amx_partial(const struct task *t) {
    struct working w;
    int heads = t->kv_heads * t->group;
    long head_bytes = (long)(t->key_dims + t->head_dim) * TOKENS * 2;
    for (int i = 0; i < heads; i++) {
        t->max[i] = MIN;
        t->sum[i] = 0;
    }
    memset(t->weighted, 0, sizeof(float) * heads * t->head_dim);
    int tiles = (int)(head_bytes / 1024);
    /* Measured: one head's softmax takes as long as fetching one tile's lines. */
    int softmax_tiles = t->group + 1 < tiles / 4 ? t->group + 1 : tiles / 4;
    int per_tile = (1024 * (tiles - softmax_tiles) + tiles - 1) / tiles;
    int per_softmax = 1024 * softmax_tiles / t->group;
    configure(t->group);
    for (int b = t->first; b < t->last; b++) {
        const char *block = t->blocks[b];
        int tokens = t->context - b * TOKENS < TOKENS ? t->context - b * TOKENS : TOKENS;
        int visible = b == t->first ? (int)t->visible : 0;
        int appends = t->k && b + 1 == t->last;
        struct prefetch s = {
            block, block + t->kv_heads * head_bytes, b + 1 < t->last ? t->blocks[b + 1] : t->next,
            0, 0, per_tile, per_tile, per_softmax, 4};
        if (tokens > TOKENS - 16)
            attend(t, &w, block, visible, tokens, appends, &s, 1);
        else
            attend_short(t, &w, block, visible, tokens, appends, &s);
    }
    _tile_release();
    if (t->out)
        for (int i = 0; i < heads; i++)
            normalise(t->weighted + (long)i * t->head_dim, 1 / t->sum[i], t->head_dim, t->out + (long)i * t->head_dim);
}

/* Reads `bytes`, a multiple of 256, with software prefetch: the bandwidth probe. The result depends on every byte. */
int64_t tandem_read(const char *from, int64_t bytes) {
    __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
    for (int64_t i = 0; i < bytes; i += 256) {
        for (int line = 0; line < 256; line += 64)
            _mm_prefetch(from + i + line + 2 * PAGE, _MM_HINT_T0);
        a = _mm512_xor_si512(a, _mm512_loadu_si512(from + i));
        b = _mm512_xor_si512(b, _mm512_loadu_si512(from + i + 64));
        c = _mm512_xor_si512(c, _mm512_loadu_si512(from + i + 128));
        d = _mm512_xor_si512(d, _mm512_loadu_si512(from + i + 192));
    }
    return _mm512_reduce_add_epi64(_mm512_xor_si512(_mm512_xor_si512(a, b), _mm512_xor_si512(c, d)));
}
