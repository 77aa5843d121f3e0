/* One operator of ONNX Runtime: attention of the positions of a row to each other, as encoders have it.

       attendant.PackedAttention(qkv[, seen]) {heads, groups, scale}

       y_p = Σ_j e^(a_j − m) v_j / Σ_j e^(a_j − m),   a_j = scale · q_p · k_j,   m = max_j a_j,   over the j that p sees

   in blocks of keys, with what was summed so far scaled anew where a block's maximum is larger. Queries, keys and values are
   read where their product wrote them, and answers stand where the next product reads them: no heads are moved. Each position
   is computed by itself, to the last bit; keys behind the others that nobody sees change nothing. One that sees none is zero.

   Legend: B rows, T positions, H heads, G groups of them with keys of their own, D head size; qkv [B, T, (H + 2G) · D];
   seen [B or 1, 1, T or 1, T]; y [B, T, H · D].
   Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3. */

#define OPERATOR "PackedAttention"
#include <float.h>

#include "attention.h"
#include "operator.h"

#define POSITIONS 96 /* of a row that a thread takes at once, for which it turns keys over */
#define NEAR 16384   /* numbers of turned keys, which stay in a near cache */

typedef struct {
    int64_t heads, groups;
    float scale;
} Kernel;

typedef struct {
    const Kernel *kernel;
    int64_t rows, positions, size, parts;
    const float *qkv;
    const int8_t *seen; /* or none */
    int64_t to_row, to_position; /* of what is seen, from one to the next */
    float *y;
} Work;

/* The products of some queries with the keys of some vectors, which lie side by side, each sum in one order. */
INLINE void score_vectors(const Integers *keys, const float *const *queries, int64_t size, float factor, float *scores,
                          const int width) {
    Floats sums[TOGETHER][WIDTH];
    for (int r = 0; r < TOGETHER; ++r)
        for (int i = 0; i < width; ++i) sums[r][i] = all_floats(0);
    for (int64_t d = 0; d < size; ++d) {
        Floats k[WIDTH];
        for (int i = 0; i < width; ++i) k[i] = AS_FLOATS(keys[i * size + d]);
        for (int r = 0; r < TOGETHER; ++r) {
            Floats q = all_floats(queries[r][d]);
            for (int i = 0; i < width; ++i) sums[r][i] = plus_product(sums[r][i], q, k[i]);
        }
    }
    for (int r = 0; r < TOGETHER; ++r)
        for (int i = 0; i < width; ++i) store_floats(scores + r * STRIDE + i * LANES, times(sums[r][i], all_floats(factor)));
}

static void score_block(const Integers *keys, int vectors, const float *const *queries, int64_t size, float factor,
                        float *scores) {
    int i = 0;
    for (; i + WIDTH <= vectors; i += WIDTH)
        score_vectors(keys + i * size, queries, size, factor, scores + i * LANES, WIDTH);
    for (; i < vectors; ++i) score_vectors(keys + i * size, queries, size, factor, scores + i * LANES, 1);
}

static void hide(const int8_t *seen, int count, float *scores) {
    int8_t padded[BLOCK + LANES] = {0};
    memcpy(padded, seen, (size_t)count);
    for (int j = 0; j < count; j += LANES)
        store_floats(scores + j, either(is_above_zero(load_bytes(padded + j)), load_floats(scores + j), all_floats(-INFINITY)));
}

static void attend(void *work, size_t task) {
    const Work *w = work;
    const Kernel *k = w->kernel;
    const int64_t part = (int64_t)task % w->parts, group = (int64_t)task / w->parts % k->groups;
    const int64_t row = (int64_t)task / w->parts / k->groups, size = w->size, stride = (k->heads + 2 * k->groups) * size;
    const int64_t begin = w->positions * part / w->parts, end = w->positions * (part + 1) / w->parts;
    const int64_t heads = k->heads / k->groups, most = NEAR / size / LANES * LANES, block = most < BLOCK ? most : BLOCK;
    const float *x = w->qkv + row * w->positions * stride;
    const float *keys = x + (k->heads + group) * size, *values = keys + k->groups * size;
    Integers turned[NEAR / LANES];
    float weights[TOGETHER * STRIDE], largest[MOST_HEADS * POSITIONS], totals[MOST_HEADS * POSITIONS];
    for (int64_t at = 0; at < w->positions; at += block) {
        const int there = (int)(w->positions - at < block ? w->positions - at : block), vectors = (there + LANES - 1) / LANES;
        for (int i = 0; i < vectors; ++i)
            turn_over(keys + (at + i * LANES) * stride, there - i * LANES, stride, size, turned + i * size, 0);
        for (int64_t head = 0; head < heads; ++head)
            for (int64_t p = begin; p < end; p += TOGETHER) {
                const int count = end - p < TOGETHER ? (int)(end - p) : TOGETHER;
                const int64_t of_head = head * POSITIONS + p - begin;
                const float *queries[TOGETHER];
                float *sums[TOGETHER], before[TOGETHER];
                for (int r = 0; r < TOGETHER; ++r) /* the last one again where there are fewer: no forms for fewer */
                    queries[r] = x + (p + (r < count ? r : count - 1)) * stride + (group * heads + head) * size;
                for (int r = 0; r < count; ++r)
                    sums[r] = w->y + ((row * w->positions + p + r) * k->heads + group * heads + head) * size;
                score_block(turned, vectors, queries, size, k->scale, weights);
                for (int r = 0; r < count; ++r) {
                    float *most_so_far = &largest[of_head + r], *total = &totals[of_head + r];
                    if (!at) {
                        *most_so_far = -FLT_MAX, *total = 0; /* and not −∞, of which nothing can be subtracted */
                        memset(sums[r], 0, (size_t)size * sizeof(float));
                    }
                    const int8_t *seen = w->seen ? w->seen + row * w->to_row + (p + r) * w->to_position + at : NULL;
                    if (seen && memchr(seen, 0, (size_t)there)) hide(seen, there, weights + r * STRIDE);
                    before[r] = weigh(weights + r * STRIDE, there, most_so_far, total);
                }
                add_heads(values + at * stride, there, stride, size, weights, before, sums, count, 0);
                for (int r = 0; r < count && at + block >= w->positions; ++r) {
                    const float total = totals[of_head + r];
                    for (int64_t i = 0; i < size; ++i) sums[r][i] *= total == 0 ? 0 : 1 / total;
                }
            }
    }
}

/* ---- the operator --------------------------------------------------------------------------------------------------- */

static Status *compute(void *kernel, Context *context) {
    const Kernel *k = kernel;
    const Value *input;
    Value *output;
    Tensor qkv, seen;
    TRY(GET_INPUT(context, 0, &input));
    TRY(read_tensor(input, &qkv));
    REQUIRE(qkv.count == 3, "queries, keys and values of three dimensions");
    Work w = {.kernel = k, .rows = qkv.sizes[0], .positions = qkv.sizes[1], .qkv = qkv.data};
    w.size = qkv.sizes[2] / (k->heads + 2 * k->groups);
    REQUIRE(w.size > 0 && w.size <= MOST_SIZE && w.size % 16 == 0, "heads of 16 to 512 numbers, by sixteens");
    REQUIRE(qkv.sizes[2] == (k->heads + 2 * k->groups) * w.size, "queries, keys and values beside each other");
    TRY(GET_INPUT(context, 1, &input));
    if (input) {
        TRY(read_tensor(input, &seen));
        REQUIRE(seen.count == 4 && (seen.sizes[0] == w.rows || seen.sizes[0] == 1) && seen.sizes[1] == 1 &&
                    (seen.sizes[2] == w.positions || seen.sizes[2] == 1) && seen.sizes[3] == w.positions,
                "what is seen of rows, positions and keys, alike in all heads");
        w.seen = seen.data;
        w.to_position = seen.sizes[2] == 1 ? 0 : w.positions;
        w.to_row = seen.sizes[0] == 1 ? 0 : seen.sizes[2] * w.positions;
    }
    int64_t shape[3] = {w.rows, w.positions, k->heads * w.size};
    TRY(GET_OUTPUT(context, 0, shape, 3, &output));
    if (!w.rows || !w.positions) return NULL;
    TRY(TENSOR_DATA(output, (void **)&w.y));
    w.parts = (w.positions + POSITIONS - 1) / POSITIONS;
    return PARALLEL_FOR(context, attend, (size_t)(w.rows * k->groups * w.parts), 0, &w);
}

static Status *create_checked(const Operator *operator, const void *api, const Info *info, void **kernel) {
    (void)operator, (void)api;
    Kernel k = {0};
    TRY(ATTRIBUTE_INT(info, "heads", &k.heads));
    TRY(ATTRIBUTE_INT(info, "groups", &k.groups));
    TRY(ATTRIBUTE_FLOAT(info, "scale", &k.scale));
    REQUIRE(k.groups > 0 && k.heads > 0 && k.heads % k.groups == 0, "heads that are whole groups");
    REQUIRE(k.heads < 1 << 16, "fewer than 65,536 heads"); /* so that no product of sizes is too large */
    REQUIRE(k.heads / k.groups <= MOST_HEADS, "at most 64 heads a group");
    Kernel *made = malloc(sizeof k);
    REQUIRE(made, "memory");
    *made = k;
    *kernel = made;
    return NULL;
}

ANSWER(name, const char *, OPERATOR)
ANSWER(provider, const char *, NULL)
ANSWER(input_type, int, index ? BOOL : FLOAT, size_t index)
ANSWER(input_count, size_t, 2)
ANSWER(output_type, int, ((void)index, FLOAT), size_t index)
ANSWER(output_count, size_t, 1)
ANSWER(input_is_optional, int, index == 1, size_t index)
ANSWER(first_kind, int, ((void)index, 0), size_t index)

const Operator packed_attention = {
    .version = OPERATOR_VERSION,
    .name = name,
    .provider = provider,
    .input_type = input_type,
    .input_count = input_count,
    .output_type = output_type,
    .output_count = output_count,
    .destroy = free,
    .input_is_optional = input_is_optional,
    .output_is_optional = first_kind,
    .input_memory = first_kind,
    .create_checked = create_checked,
    .compute_checked = compute,
};
