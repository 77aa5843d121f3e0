/* What operators of attention share: keys turned over, weights of scores, sums of weighted values, block by block of keys.

   Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3. */

#ifndef ATTENDANT_ATTENTION_H
#define ATTENDANT_ATTENTION_H

#include <string.h>

#include "vectors.h"

#define BLOCK 256       /* keys, whose scores lie in the nearest cache */
#define STRIDE (BLOCK + LANES) /* of queries' scores there, which a power of two would let displace each other */
#define TOGETHER 6      /* queries that share a value, and its conversion */
#define WIDTH (LANES / 4) /* vectors of a head's numbers that are summed in registers */
#define MOST_HEADS 64   /* of a group */
#define MOST_SIZE 512   /* of a head: 2¹⁵ · 2⁷ · 512 fits 32 bits */

#if LANES == 16
#define BESIDE(a, b, which) _mm512_shuffle_i32x4(a, b, which)
#else
#define BESIDE(a, b, which) _mm256_permute2x128_si256(a, b, which)
#endif

/* As many rows as a vector has numbers become columns. */
INLINE void transpose(Integers v[LANES]) {
    Integers w[LANES];
    for (int i = 0; i < LANES; i += 2) {
        w[i] = UNPACK_LOW(v[i], v[i + 1]);
        w[i + 1] = UNPACK_HIGH(v[i], v[i + 1]);
    }
    for (int i = 0; i < LANES; i += 4)
        for (int k = 0; k < 2; ++k) {
            v[i + 2 * k] = UNPACK_LOW_TWO(w[i + k], w[i + k + 2]);
            v[i + 2 * k + 1] = UNPACK_HIGH_TWO(w[i + k], w[i + k + 2]);
        }
    for (int i = 0; i < 4; ++i) {
#if LANES == 16
        Integers left = BESIDE(v[i], v[i + 4], 0x88), right = BESIDE(v[i + 8], v[i + 12], 0x88);
        Integers upper = BESIDE(v[i], v[i + 4], 0xDD), lower = BESIDE(v[i + 8], v[i + 12], 0xDD);
        w[i] = BESIDE(left, right, 0x88);
        w[i + 8] = BESIDE(left, right, 0xDD);
        w[i + 4] = BESIDE(upper, lower, 0x88);
        w[i + 12] = BESIDE(upper, lower, 0xDD);
#else
        w[i] = BESIDE(v[i], v[i + 4], 0x20);
        w[i + 4] = BESIDE(v[i], v[i + 4], 0x31);
#endif
    }
    memcpy(v, w, sizeof w);
}

/* LANES keys, each `stride` numbers behind the one before, side by side: [size, LANES] of floats, or [size / 2, LANES, 2] of
   integers in 16 bits. */
INLINE void turn_over(const void *keys, int count, int64_t stride, int64_t size, Integers *turned, const int of_integers) {
    for (int64_t d = 0; d < size; d += of_integers ? 2 * LANES : LANES) {
        Integers v[LANES];
        for (int i = 0; i < LANES; ++i) {
            const int64_t place = (i < count ? i : count - 1) * stride + d;
            v[i] = of_integers ? load_pairs((const int8_t *)keys + place) : load_integers((const float *)keys + place);
        }
        transpose(v);
        for (int i = 0; i < LANES; ++i) turned[(of_integers ? d / 2 : d) + i] = v[i];
    }
}

/* Scores of a block become weights, relative to the largest score so far; what was summed before is to be scaled so. */
INLINE float weigh(float *scores, int count, float *largest, float *total) {
    Floats most = all_floats(-INFINITY), sum = all_floats(0);
    for (int j = 0; j < count; j += LANES)
        most = either(first(count - j), larger(most, load_floats(scores + j)), most);
    float before = *largest, found = largest_of(most);
    *largest = found > before ? found : before;
    for (int j = 0; j < count; j += LANES) {
        Floats weights = exponential(subtract(load_floats(scores + j), all_floats(*largest)));
        weights = either(first(count - j), weights, all_floats(0));
        sum = add_floats(sum, weights);
        store_floats(scores + j, weights);
    }
    float factor = before == -INFINITY ? 0.0f : expf(before - *largest);
    *total = *total * factor + sum_of(sum);
    return factor;
}

/* Add weighted values of a block to the sums of some heads, for LANES · width numbers of a head. */
INLINE void add_values(const void *values, int count, int64_t stride, const float *weights, const float *factors,
                       float *const *sums, int64_t at, const int heads, const int width, const int of_integers) {
    Floats y[TOGETHER][WIDTH];
    for (int h = 0; h < heads; ++h)
        for (int i = 0; i < width; ++i) y[h][i] = times(load_floats(sums[h] + at + i * LANES), all_floats(factors[h]));
    for (int j = 0; j < count; ++j) {
        Floats v[WIDTH];
        for (int i = 0; i < width; ++i)
            v[i] = of_integers ? from_integers(load_bytes((const int8_t *)values + j * stride + i * LANES))
                               : load_floats((const float *)values + j * stride + i * LANES);
        for (int h = 0; h < heads; ++h) {
            Floats weight = all_floats(weights[h * STRIDE + j]);
            for (int i = 0; i < width; ++i) y[h][i] = plus_product(y[h][i], weight, v[i]);
        }
    }
    for (int h = 0; h < heads; ++h)
        for (int i = 0; i < width; ++i) store_floats(sums[h] + at + i * LANES, y[h][i]);
}

#define ADD(heads, width)                                                                                              \
    add_values((const char *)values + d * bytes, count, stride, weights, factors, sums, d, heads, width, of_integers)
#define ADD_OF(width)                                                                                                  \
    switch (heads) {                                                                                                   \
        case 1: ADD(1, width); break;                                                                                  \
        case 2: ADD(2, width); break;                                                                                  \
        case 3: ADD(3, width); break;                                                                                  \
        case 4: ADD(4, width); break;                                                                                  \
        case 5: ADD(5, width); break;                                                                                  \
        default: ADD(6, width);                                                                                        \
    }
INLINE void add_heads(const void *values, int count, int64_t stride, int64_t size, const float *weights,
                      const float *factors, float *const *sums, int heads, const int of_integers) {
    const int64_t bytes = of_integers ? 1 : 4;
    int64_t d = 0;
    for (; d + WIDTH * LANES <= size; d += WIDTH * LANES) { ADD_OF(WIDTH) }
    for (; d < size; d += LANES) { ADD_OF(1) }
}

#endif
