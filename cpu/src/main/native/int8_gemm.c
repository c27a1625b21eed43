/*
 * GEMM of int8 activations with a panel of packed quants, by AVX-512 VNNI.
 *
 * Computes, for each row and each of a panel's 32 columns, group by group in ascending order:
 *     out += scale * (float(sum of quant * x) * step)
 *     out += minimum * (step * sum of x)
 * x are the row's inputs of the group as int8, and step is what one of them is worth. Both sums are exact integers, so
 * their order does not matter, and a row's result does not depend on how many rows there are. Int8Kernel.java calls
 * this; QuantFormat.java describes the panel. A vector is 16 words, and one word of each vector belongs to a column.
 *
 * The result of a group is an operand of fused multiply-adds; the compiler must not fuse others (-ffp-contract=off).
 */
#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

enum { VECTOR = 64, SUPER_BLOCK = 256, PANEL = 32, MAX_WORDS = 8 };

/* As QuantFormat.Scales, in its order. */
enum scales { GROUP, GROUP_AND_MINIMUM, SUPER_BLOCK_SCALES, SUPER_BLOCK_AND_MINIMUM };

struct format {
    int bits, group;
    enum scales scales;
    float offset;
};

/* The scales and minimums of a group; low and high are the panel's first and second 16 columns. */
struct factors {
    __m512 scale_low, scale_high, minimum_low, minimum_high;
};

/* Rows of a call, as tandem_int8_multiply describes them. */
struct rows {
    const int8_t *x;
    const float *steps, *sums;
    int stride, count;
};

/*
 * How far ahead of its reads the kernel prefetches into the second-level cache. One row is bound by reads. Two cores of
 * a Zen 4 read Q4_K at 23 GB/s without prefetch, 31 from 4 KiB ahead, and 43, as fast as they can, from 8 to 32 KiB.
 * Prefetch into the first level reached 27 GB/s at any distance.
 */
enum { AHEAD = 16384 };

INLINE __m512i load(const char *at) {
    _mm_prefetch(at + AHEAD, _MM_HINT_T1);
    return _mm512_loadu_si512(at);
}

/* fp16 in the lower or the upper half of each word */
INLINE __m512 lower(__m512i words) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(words)); }

INLINE __m512 upper(__m512i words) { return lower(_mm512_srli_epi32(words, 16)); }

INLINE __m512 unsigned_byte(__m512i words, int index) {
    return _mm512_cvtepi32_ps(_mm512_and_si512(_mm512_srli_epi32(words, 8 * index), _mm512_set1_epi32(0xFF)));
}

INLINE __m512 signed_byte(__m512i words, int index) {
    return _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(words, 24 - 8 * index), 24));
}

/* GroupScales.java widens them with the same operations. */
INLINE struct factors widen(struct format f, const char *super_blocks, const char *scales, int group) {
    struct factors r;
    __m512 offset = _mm512_set1_ps(-f.offset);
    if (f.scales == GROUP) {
        __m512i words = load(scales + group * VECTOR);
        r.scale_low = lower(words);
        r.scale_high = upper(words);
        r.minimum_low = _mm512_mul_ps(r.scale_low, offset);
        r.minimum_high = _mm512_mul_ps(r.scale_high, offset);
    } else if (f.scales == GROUP_AND_MINIMUM) {
        __m512i words = load(scales + 2 * group * VECTOR);
        __m512i minimums = load(scales + (2 * group + 1) * VECTOR);
        r.scale_low = lower(words);
        r.scale_high = upper(words);
        r.minimum_low = lower(minimums);
        r.minimum_high = upper(minimums);
    } else if (f.scales == SUPER_BLOCK_SCALES) {
        __m512i d = load(super_blocks + group / (SUPER_BLOCK / f.group) * VECTOR);
        __m512i words = load(scales + group / 2 * VECTOR);
        int byte = group % 2 * 2;
        words = _mm512_srlv_epi32(words, _mm512_set1_epi32(8 * byte));
        r.scale_low = _mm512_mul_ps(signed_byte(words, 0), lower(d));
        r.scale_high = _mm512_mul_ps(signed_byte(words, 1), upper(d));
        r.minimum_low = _mm512_mul_ps(r.scale_low, offset);
        r.minimum_high = _mm512_mul_ps(r.scale_high, offset);
    } else {
        const char *super_block = super_blocks + group / (SUPER_BLOCK / f.group) * 2 * VECTOR;
        __m512i d = load(super_block);
        __m512i dmin = load(super_block + VECTOR);
        __m512i words = load(scales + group * VECTOR);
        __m512 minus = _mm512_set1_ps(-1);
        r.scale_low = _mm512_mul_ps(unsigned_byte(words, 0), lower(d));
        r.scale_high = _mm512_mul_ps(unsigned_byte(words, 2), upper(d));
        r.minimum_low = _mm512_mul_ps(unsigned_byte(words, 1), _mm512_mul_ps(lower(dmin), minus));
        r.minimum_high = _mm512_mul_ps(unsigned_byte(words, 3), _mm512_mul_ps(upper(dmin), minus));
    }
    return r;
}

/* a | b & mask */
INLINE __m512i with(__m512i a, __m512i b, int mask) {
    return _mm512_ternarylogic_epi32(a, b, _mm512_set1_epi32(mask), 0xF8);
}

/* Unpacks a group's quants of 16 columns to bytes: vector i holds the quants that belong to word i of the inputs. */
INLINE void unpack(struct format f, const char *at, __m512i *bytes) {
    if (f.bits == 4) {
        __m512i mask = _mm512_set1_epi8(0xF);
        for (int i = 0; i < f.group / 8; i++) {
            __m512i words = load(at + 2 * i * VECTOR);
            bytes[2 * i] = _mm512_and_si512(words, mask);
            bytes[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi32(words, 4), mask);
        }
    } else if (f.bits == 8) {
        for (int i = 0; i < f.group / 4; i++) {
            bytes[i] = load(at + 2 * i * VECTOR);
        }
    } else {
        for (int unit = 0; unit < f.group / 16; unit++) {
            __m512i words[3];
            for (int word = 0; word < 3; word++) {
                words[word] = load(at + 2 * (3 * unit + word) * VECTOR);
                __m512i first = _mm512_and_si512(words[word], _mm512_set1_epi32(0x3F));
                __m512i second = with(first, _mm512_slli_epi32(words[word], 2), 0x3F00);
                __m512i third = with(second, _mm512_slli_epi32(words[word], 4), 0x3F0000);
                bytes[4 * unit + word] = with(third, _mm512_slli_epi32(words[word], 6), 0x3F000000);
            }
            /* bytes 0 to 2: the fifth quant of each word, and above it two bits of the unit's last quant */
            __m512i fifths = _mm512_srli_epi32(words[0], 24);
            fifths = with(fifths, _mm512_srli_epi32(words[1], 16), 0xFF00);
            fifths = with(fifths, _mm512_srli_epi32(words[2], 8), 0xFF0000);
            __m512i last = _mm512_and_si512(fifths, _mm512_set1_epi32(0x3F3F3F));
            last = with(last, _mm512_slli_epi32(fifths, 18), 0x03000000);
            last = with(last, _mm512_slli_epi32(fifths, 12), 0x0C000000);
            bytes[4 * unit + 3] = with(last, _mm512_slli_epi32(fifths, 6), 0x30000000);
        }
    }
}

INLINE void add(float *out, __m512i sum, __m512 step, __m512 steps, __m512 scale, __m512 minimum) {
    __m512 value = _mm512_mul_ps(_mm512_cvtepi32_ps(sum), step);
    __m512 result = _mm512_fmadd_ps(scale, value, _mm512_loadu_ps(out));
    _mm512_storeu_ps(out, _mm512_fmadd_ps(minimum, steps, result));
}

/* Multiplies the rows by a panel, and returns the panel's end. */
INLINE const char *multiply(struct format f, const char *panel, int depth, struct rows r, float *out) {
    static const int per_super_block[] = {0, 0, 1, 2};
    static const int per_two_groups[] = {2, 4, 1, 2};
    int groups = depth / f.group;
    const char *scales = panel + depth / SUPER_BLOCK * per_super_block[f.scales] * VECTOR;
    const char *quants = scales + groups * per_two_groups[f.scales] / 2 * VECTOR;
    int words = f.group / 4;
    int bytes_per_group = f.group * f.bits / 32 * 2 * VECTOR;
    for (int group = 0; group < groups; group++) {
        __m512i low[MAX_WORDS], high[MAX_WORDS];
        unpack(f, quants, low);
        unpack(f, quants + VECTOR, high);
        quants += bytes_per_group;
        struct factors by = widen(f, panel, scales, group);
        for (int row = 0; row < r.count; row++) {
            int64_t index = (int64_t)group * r.stride + row;
            const int32_t *inputs = (const int32_t *)(r.x + index * f.group);
            __m512i sum_low = _mm512_setzero_si512();
            __m512i sum_high = _mm512_setzero_si512();
            for (int i = 0; i < words; i++) {
                __m512i input = _mm512_set1_epi32(inputs[i]);
                sum_low = _mm512_dpbusd_epi32(sum_low, low[i], input);
                sum_high = _mm512_dpbusd_epi32(sum_high, high[i], input);
            }
            __m512 step = _mm512_set1_ps(r.steps[index]);
            __m512 sum = _mm512_set1_ps(r.sums[index]);
            float *to = out + row * PANEL;
            add(to, sum_low, step, sum, by.scale_low, by.minimum_low);
            add(to + 16, sum_high, step, sum, by.scale_high, by.minimum_high);
        }
    }
    return quants;
}

INLINE void multiply_all(struct format f, const char *panel, int panels, int depth, struct rows r, float *out) {
    for (int i = 0; i < panels; i++) {
        panel = multiply(f, panel, depth, r, out + (int64_t)i * r.count * PANEL);
    }
}

/*
 * Multiplies some rows by adjacent panels and adds the result to out [panels][rows][32].
 *
 * format: as Int8Kernel.java numbers them
 * x: [groups][stride][group] int8 from the first row on, as tandem_int8_arrange writes them
 * steps, sums: [groups][stride] from the first row on
 */
void tandem_int8_multiply(
    int32_t format, const char *panel, int32_t panels, int32_t depth, const int8_t *x, const float *steps,
    const float *sums, int32_t stride, int32_t rows, float *out) {
    struct rows r = {x, steps, sums, stride, rows};
    /* constants, so that the compiler makes a loop for each format */
    switch (format) {
    case 0: multiply_all((struct format){4, 32, GROUP, 8}, panel, panels, depth, r, out); break;
    case 1: multiply_all((struct format){4, 32, GROUP_AND_MINIMUM, 0}, panel, panels, depth, r, out); break;
    case 2: multiply_all((struct format){6, 32, GROUP, 16}, panel, panels, depth, r, out); break;
    case 3: multiply_all((struct format){6, 32, GROUP_AND_MINIMUM, 0}, panel, panels, depth, r, out); break;
    case 4: multiply_all((struct format){8, 32, GROUP, 128}, panel, panels, depth, r, out); break;
    case 5: multiply_all((struct format){4, 32, SUPER_BLOCK_AND_MINIMUM, 0}, panel, panels, depth, r, out); break;
    case 6: multiply_all((struct format){6, 32, SUPER_BLOCK_AND_MINIMUM, 0}, panel, panels, depth, r, out); break;
    case 7: multiply_all((struct format){6, 16, SUPER_BLOCK_SCALES, 32}, panel, panels, depth, r, out); break;
    }
}

/*
 * Rounds a row to int8 per group: step = max |x| / 127, the nearest integer to x * (127 / max), ties to even. Groups
 * below 1e-30 become zeros, since 127 / max would overflow. A group with NaN or an infinity gets the step NaN, which
 * makes the row's results NaN.
 *
 * bits, group: of the matrix's format; the inputs of a word are ordered as its quants are unpacked
 * to: [groups][stride][group] from this row on; steps, sums: [groups][stride] from this row on
 */
void tandem_int8_arrange(
    const float *x, int32_t depth, int32_t bits, int32_t group, int32_t stride, int8_t *to, float *steps, float *sums) {
    const __m128i order = bits == 4   ? _mm_setr_epi8(0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15)
                          : bits == 6 ? _mm_setr_epi8(0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 4, 9, 14, 15)
                                      : _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (int32_t g = 0; g < depth / group; g++) {
        const float *from = x + g * group;
        __m512 top = _mm512_setzero_ps();
        __mmask16 finite = 0xFFFF;
        for (int i = 0; i < group; i += 16) {
            __m512 values = _mm512_abs_ps(_mm512_loadu_ps(from + i));
            finite &= _mm512_cmp_ps_mask(values, _mm512_set1_ps(__FLT_MAX__), _CMP_LE_OQ);
            top = _mm512_max_ps(top, values);
        }
        float max = _mm512_reduce_max_ps(top);
        float inverse = max < 1e-30f || finite != 0xFFFF ? 0 : 127 / max;
        float step = finite != 0xFFFF ? __builtin_nanf("") : max < 1e-30f ? 0 : max / 127;
        __m512i sum = _mm512_setzero_si512();
        int8_t *row = to + (int64_t)g * stride * group;
        for (int i = 0; i < group; i += 16) {
            __m512 scaled = _mm512_mul_ps(_mm512_loadu_ps(from + i), _mm512_set1_ps(inverse));
            __m512i rounded = finite != 0xFFFF ? _mm512_setzero_si512() : _mm512_cvtps_epi32(scaled);
            sum = _mm512_add_epi32(sum, rounded);
            __m128i bytes = _mm_shuffle_epi8(_mm512_cvtepi32_epi8(rounded), order);
            _mm_storeu_si128((__m128i *)(row + i), bytes);
        }
        steps[(int64_t)g * stride] = step;
        sums[(int64_t)g * stride] = step * (float)_mm512_reduce_add_epi32(sum);
    }
}
