/* Vectors of a processor, sixteen numbers with AVX-512 and eight with AVX2, and what the operators do with them. */

#ifndef ATTENDANT_VECTORS_H
#define ATTENDANT_VECTORS_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

#ifdef __AVX512F__
#define LANES 16
typedef __m512 Floats;
typedef __m512i Integers;
typedef __mmask16 Which;

INLINE Floats load_floats(const float *from) { return _mm512_loadu_ps(from); }
INLINE void store_floats(float *to, Floats x) { _mm512_storeu_ps(to, x); }
INLINE Floats all_floats(float x) { return _mm512_set1_ps(x); }
INLINE Floats add_floats(Floats a, Floats b) { return _mm512_add_ps(a, b); }
INLINE Floats subtract(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
INLINE Floats times(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
INLINE Floats plus_product(Floats sum, Floats a, Floats b) { return _mm512_fmadd_ps(a, b, sum); }
INLINE Floats minus_product(Floats sum, Floats a, Floats b) { return _mm512_fnmadd_ps(a, b, sum); }
INLINE Floats larger(Floats a, Floats b) { return _mm512_max_ps(a, b); } /* b where one is no number */
INLINE Floats magnitude(Floats x) { return _mm512_abs_ps(x); }
INLINE Floats nearest(Floats x) { return _mm512_roundscale_ps(x, 0); }
INLINE Floats scaled(Floats x, Floats n) { return _mm512_scalef_ps(x, n); } /* x · 2ⁿ of whole n */
INLINE Floats from_integers(Integers x) { return _mm512_cvtepi32_ps(x); }
INLINE float largest_of(Floats x) { return _mm512_reduce_max_ps(x); }
INLINE float sum_of(Floats x) { return _mm512_reduce_add_ps(x); }
INLINE int any_odd(Floats x) { return _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q) != 0; } /* not a number */
INLINE Floats load_some(const float *from, Which which) { return _mm512_maskz_loadu_ps(which, from); }
INLINE Floats divide(Floats a, Floats b) { return _mm512_div_ps(a, b); }
INLINE Which below_zero(Floats x) { return _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ); }
INLINE Which first(int64_t count) { return count >= 16 ? 0xFFFF : (Which)((1u << count) - 1); }
INLINE Floats either(Which which, Floats yes, Floats no) { return _mm512_mask_blend_ps(which, no, yes); }
INLINE void store_some(float *to, Which which, Floats x) { _mm512_mask_storeu_ps(to, which, x); }

INLINE Integers load_integers(const void *from) { return _mm512_loadu_si512(from); }
INLINE Integers all_integers(int32_t x) { return _mm512_set1_epi32(x); }
INLINE Integers add_integers(Integers a, Integers b) { return _mm512_add_epi32(a, b); }
INLINE Integers multiply_integers(Integers a, Integers b) { return _mm512_mullo_epi32(a, b); }
INLINE Integers to_integers(Floats x) { return _mm512_cvtps_epi32(x); }
INLINE int32_t sum_of_integers(Integers x) { return _mm512_reduce_add_epi32(x); }
INLINE void store_bytes(int8_t *to, Integers x) { _mm_storeu_si128((__m128i *)to, _mm512_cvtsepi32_epi8(x)); }
INLINE void store_shorts(int16_t *to, Integers x) { _mm256_storeu_si256((__m256i *)to, _mm512_cvtsepi32_epi16(x)); }
INLINE Integers load_bytes(const int8_t *from) { /* sixteen, in 32 bits */
    return _mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)from));
}
INLINE Integers load_pairs(const int8_t *from) { /* sixteen times two, in 16 bits */
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256((const __m256i *)from));
}
INLINE Which is_above_zero(Integers x) { return _mm512_cmpgt_epi32_mask(x, _mm512_setzero_si512()); }
INLINE Integers low_halves(Integers x) { return _mm512_and_si512(x, _mm512_set1_epi8(15)); }
INLINE Integers high_halves(Integers x) { return low_halves(_mm512_srli_epi16(x, 4)); }
INLINE Integers plus_pairs(Integers sum, Integers a, Integers b) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); /* in place: gcc 12 copies, and spills, the intrinsic's sums */
    return sum;
}

#define UNPACK_LOW(a, b) _mm512_unpacklo_epi32(a, b)
#define UNPACK_HIGH(a, b) _mm512_unpackhi_epi32(a, b)
#define UNPACK_LOW_TWO(a, b) _mm512_unpacklo_epi64(a, b)
#define UNPACK_HIGH_TWO(a, b) _mm512_unpackhi_epi64(a, b)
#define AS_FLOATS(x) _mm512_castsi512_ps(x)
#define AS_INTEGERS(x) _mm512_castps_si512(x)

#else
#define LANES 8
typedef __m256 Floats;
typedef __m256i Integers;
typedef __m256i Which;

INLINE Floats load_floats(const float *from) { return _mm256_loadu_ps(from); }
INLINE void store_floats(float *to, Floats x) { _mm256_storeu_ps(to, x); }
INLINE Floats all_floats(float x) { return _mm256_set1_ps(x); }
INLINE Floats add_floats(Floats a, Floats b) { return _mm256_add_ps(a, b); }
INLINE Floats subtract(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
INLINE Floats times(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
INLINE Floats plus_product(Floats sum, Floats a, Floats b) { return _mm256_fmadd_ps(a, b, sum); }
INLINE Floats minus_product(Floats sum, Floats a, Floats b) { return _mm256_fnmadd_ps(a, b, sum); }
INLINE Floats larger(Floats a, Floats b) { return _mm256_max_ps(a, b); }
INLINE Floats magnitude(Floats x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), x); }
INLINE Floats nearest(Floats x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
INLINE Floats from_integers(Integers x) { return _mm256_cvtepi32_ps(x); }
INLINE float largest_of(Floats x) {
    __m128 four = _mm_max_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(four, _mm_shuffle_ps(four, four, 1)));
}
INLINE float sum_of(Floats x) {
    __m128 four = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    four = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(four, _mm_shuffle_ps(four, four, 1)));
}
INLINE int any_odd(Floats x) { return _mm256_movemask_ps(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)) != 0; }
INLINE Floats load_some(const float *from, Which which) { return _mm256_maskload_ps(from, which); }
INLINE Floats divide(Floats a, Floats b) { return _mm256_div_ps(a, b); }
INLINE Which below_zero(Floats x) { return _mm256_castps_si256(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ)); }
INLINE Which first(int64_t count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count > 8 ? 8 : (int)count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE Floats either(Which which, Floats yes, Floats no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(which)); }
INLINE void store_some(float *to, Which which, Floats x) { _mm256_maskstore_ps(to, which, x); }

INLINE Integers load_integers(const void *from) { return _mm256_loadu_si256(from); }
INLINE Integers all_integers(int32_t x) { return _mm256_set1_epi32(x); }
INLINE Integers add_integers(Integers a, Integers b) { return _mm256_add_epi32(a, b); }
INLINE Integers multiply_integers(Integers a, Integers b) { return _mm256_mullo_epi32(a, b); }
INLINE Integers to_integers(Floats x) { return _mm256_cvtps_epi32(x); }
INLINE int32_t sum_of_integers(Integers x) {
    __m128i four = _mm_add_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
    four = _mm_add_epi32(four, _mm_unpackhi_epi64(four, four));
    return _mm_cvtsi128_si32(_mm_add_epi32(four, _mm_shuffle_epi32(four, 1)));
}
INLINE __m128i shorts(Integers x) {
    return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1));
}
INLINE void store_bytes(int8_t *to, Integers x) {
    __m128i eight = shorts(x);
    _mm_storel_epi64((__m128i *)to, _mm_packs_epi16(eight, eight));
}
INLINE void store_shorts(int16_t *to, Integers x) { _mm_storeu_si128((__m128i *)to, shorts(x)); }
INLINE Integers load_bytes(const int8_t *from) {
    return _mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)from));
}
INLINE Integers load_pairs(const int8_t *from) {
    return _mm256_cvtepi8_epi16(_mm_loadu_si128((const __m128i *)from));
}
INLINE Which is_above_zero(Integers x) { return _mm256_cmpgt_epi32(x, _mm256_setzero_si256()); }
INLINE Integers low_halves(Integers x) { return _mm256_and_si256(x, _mm256_set1_epi8(15)); }
INLINE Integers high_halves(Integers x) { return low_halves(_mm256_srli_epi16(x, 4)); }
INLINE Integers plus_pairs(Integers sum, Integers a, Integers b) { return _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)); }
/* In two halves, each a power of two that a float holds: n is −150 … 0. */
INLINE Floats scaled(Floats x, Floats n) {
    const Integers whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1), one = _mm256_set1_epi32(127);
    const Integers left = _mm256_slli_epi32(_mm256_add_epi32(half, one), 23);
    const Integers right = _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, half), one), 23);
    return _mm256_mul_ps(_mm256_mul_ps(x, _mm256_castsi256_ps(left)), _mm256_castsi256_ps(right));
}

#define UNPACK_LOW(a, b) _mm256_unpacklo_epi32(a, b)
#define UNPACK_HIGH(a, b) _mm256_unpackhi_epi32(a, b)
#define UNPACK_LOW_TWO(a, b) _mm256_unpacklo_epi64(a, b)
#define UNPACK_HIGH_TWO(a, b) _mm256_unpackhi_epi64(a, b)
#define AS_FLOATS(x) _mm256_castsi256_ps(x)
#define AS_INTEGERS(x) _mm256_castps_si256(x)
#endif

/* e^x of numbers that are not above zero, by its Taylor series: what is left out is less than 10⁻⁸ of it. */
INLINE Floats exponential(Floats x) {
    x = larger(all_floats(-104.0f), x); /* what is smaller is 0; what is no number stays none */
    Floats n = nearest(times(x, all_floats(1.44269504f)));
    Floats r = minus_product(x, n, all_floats(0.693359375f));
    r = minus_product(r, n, all_floats(-2.12194440e-4f));
    Floats y = all_floats(1.0f / 5040);
    const float taylor[] = {1.0f / 720, 1.0f / 120, 1.0f / 24, 1.0f / 6, 0.5f, 1.0f, 1.0f};
    for (int i = 0; i < 7; ++i) y = plus_product(all_floats(taylor[i]), y, r);
    return scaled(y, n);
}

/* Four products of bytes added to each 32-bit sum. Without VNNI pairs are summed in 16 bits first, so that weights in 8 bits
   must be signed: |w| · (q with w's sign) is at most 128 · 127, and two of it fit. */
#if defined __AVX512VNNI__
#define BYTES_ARE_SIGNED 0
INLINE Integers plus_fours(Integers sum, Integers w, Integers q, const int bits) {
    (void)bits;
    __asm__("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(w), "v"(q)); /* as plus_pairs */
    return sum;
}
#elif defined __AVXVNNI__
#define BYTES_ARE_SIGNED 0
INLINE Integers plus_fours(Integers sum, Integers w, Integers q, const int bits) {
    return (void)bits, _mm256_dpbusd_avx_epi32(sum, w, q);
}
#else
#define BYTES_ARE_SIGNED 1
INLINE Integers plus_fours(Integers sum, Integers w, Integers q, const int bits) {
    const Integers pairs = bits == 8 ? _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(q, w)) : _mm256_maddubs_epi16(w, q);
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}
#endif

#endif
