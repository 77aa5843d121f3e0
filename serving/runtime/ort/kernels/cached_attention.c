/* Two operators of ONNX Runtime: attention of new positions over a cache of keys and values, which is updated in place.

       attendant.CachedAttention(qkv, K, V, n[, cos, sin])               over float32
       attendant.CachedAttentionInt8(qkv, K, V, n, s_K, s_V[, cos, sin]) over integers, round(k / s_K) and round(v / s_V)

   {heads, groups, turns, scale}: a row's new keys and values are turned, rounded where the cache is of integers, and written to
   the positions n − T + 1 … n; position p then sees 0 … p:

       y_p = Σ_{j ≤ p} e^(a_j − m) v_j / Σ_{j ≤ p} e^(a_j − m),   a_j = scale · q_p · k_j,   m = max_j a_j

   in blocks of keys, with what was summed so far scaled anew where a block's maximum is larger. Over integers, queries are
   rounded to 16 bits, so that products of them with keys are exact sums of integers; values are multiplied in float32.
   Each position of each row is computed by itself: nothing of it depends on the others of its batch, to the last bit.

   Legend: B rows, T new positions, H heads, G groups of them with keys of their own, M capacity, D head size; qkv [B, T,
   (H + 2G) · D]; K, V [B, G, M, D]; n [B]; cos, sin [positions, turned / 2]; y [B, T, H · D].
   Source: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax", 2018, algorithm 3; rotation as in
   ONNX Runtime's docs/ContribOperators.md, com.microsoft.GroupQueryAttention, not interleaved. */

#define OPERATOR "CachedAttention"
#include "attention.h"
#include "operator.h"

#define MOST MOST_HEADS /* queries of a group's heads, and of positions, that a thread takes at once */
#define FEW 8           /* queries for which keys are not worth turning over */

typedef struct {
    int64_t heads, groups, turns;
    float scale;
    int of_integers;
} Kernel;

typedef struct {
    const Kernel *kernel;
    int64_t rows, steps, capacity, size, turned, parts;
    const float *qkv, *cos, *sin;
    const int32_t *newest;
    void *keys, *values;
    float key_step, value_step;
    float *y;
} Work;

/* ---- sums ---------------------------------------------------------------------------------------------------------- */

/* As many sums as a vector has numbers, each of the numbers of one vector, in order: of floats or of integers. */
#if LANES == 16
#define SUM_ALL(name, add)                                                                                             \
    INLINE Integers name(const Integers v[16]) {                                                                       \
        Integers pairs[8], fours[4];                                                                                   \
        for (int i = 0; i < 8; ++i) pairs[i] = add(UNPACK_LOW(v[2 * i], v[2 * i + 1]), UNPACK_HIGH(v[2 * i], v[2 * i + 1]));     \
        for (int i = 0; i < 4; ++i)                                                                                    \
            fours[i] = add(UNPACK_LOW_TWO(pairs[2 * i], pairs[2 * i + 1]), UNPACK_HIGH_TWO(pairs[2 * i], pairs[2 * i + 1]));     \
        Integers left = add(BESIDE(fours[0], fours[1], 0x88), BESIDE(fours[0], fours[1], 0xDD));                       \
        Integers right = add(BESIDE(fours[2], fours[3], 0x88), BESIDE(fours[2], fours[3], 0xDD));                      \
        return add(BESIDE(left, right, 0x88), BESIDE(left, right, 0xDD));                                              \
    }
#else
#define SUM_ALL(name, add)                                                                                             \
    INLINE Integers name(const Integers v[8]) {                                                                        \
        Integers pairs[4], fours[2];                                                                                   \
        for (int i = 0; i < 4; ++i) pairs[i] = add(UNPACK_LOW(v[2 * i], v[2 * i + 1]), UNPACK_HIGH(v[2 * i], v[2 * i + 1]));     \
        for (int i = 0; i < 2; ++i)                                                                                    \
            fours[i] = add(UNPACK_LOW_TWO(pairs[2 * i], pairs[2 * i + 1]), UNPACK_HIGH_TWO(pairs[2 * i], pairs[2 * i + 1]));     \
        return add(BESIDE(fours[0], fours[1], 0x20), BESIDE(fours[0], fours[1], 0x31));                                \
    }
#endif
#define ADD_AS_FLOATS(a, b) AS_INTEGERS(add_floats(AS_FLOATS(a), AS_FLOATS(b)))
SUM_ALL(sum_floats, ADD_AS_FLOATS)
SUM_ALL(sum_integers, add_integers)

/* Of `count` keys in a row, the products with one query, times a factor; behind the last, up to LANES of no meaning. */
INLINE void score(const void *keys, int count, const void *query, int64_t size, float factor, float *scores,
                  const int of_integers) {
    for (int j = 0; j < count; j += LANES) {
        Integers sums[LANES];
        for (int i = 0; i < LANES; ++i) {
            const int64_t place = (j + i < count ? j + i : count - 1) * size;
            if (of_integers) {
                sums[i] = all_integers(0);
                for (int64_t d = 0; d < size; d += 2 * LANES)
                    sums[i] = plus_pairs(
                        sums[i], load_pairs((const int8_t *)keys + place + d), load_integers((const int16_t *)query + d));
            } else {
                Floats sum = all_floats(0);
                for (int64_t d = 0; d < size; d += LANES)
                    sum = plus_product(sum, load_floats((const float *)keys + place + d), load_floats((const float *)query + d));
                sums[i] = AS_INTEGERS(sum);
            }
        }
        Floats found = of_integers ? from_integers(sum_integers(sums)) : AS_FLOATS(sum_floats(sums));
        store_floats(scores + j, times(found, all_floats(factor)));
    }
}

/* The products of some queries with keys of floats that lie side by side: the same sums in the same order as in `score`. */
INLINE void score_floats(const Integers *keys, const float *queries, int count, int64_t size, const float *factors,
                         float *scores) {
    for (int r = 0; r < count; ++r, queries += size, scores += STRIDE) {
        Floats sums[LANES], fours[LANES / 4];
        for (int i = 0; i < LANES; ++i) sums[i] = all_floats(0);
        for (int64_t d = 0; d < size; d += LANES)
            for (int i = 0; i < LANES; ++i)
                sums[i] = plus_product(sums[i], AS_FLOATS(keys[d + i]), all_floats(queries[d + i]));
        for (int i = 0; i < LANES / 4; ++i)
            fours[i] = add_floats(add_floats(sums[4 * i], sums[4 * i + 2]), add_floats(sums[4 * i + 1], sums[4 * i + 3]));
        Floats found = add_floats(fours[0], fours[1]);
        if (LANES == 16) found = add_floats(found, add_floats(fours[LANES / 4 - 2], fours[LANES / 4 - 1]));
        store_floats(scores, times(found, all_floats(factors[r])));
    }
}

/* Those with vectors of keys of integers, whose sums are the same in any order. */
INLINE void score_integers(const Integers *keys, const int16_t *queries, int count, int64_t size, const float *factors,
                           float *scores, const int width) {
    Integers sums[TOGETHER][WIDTH];
    const int32_t *pairs[TOGETHER]; /* the last one again where there are fewer: no forms for fewer */
    for (int r = 0; r < TOGETHER; ++r) {
        pairs[r] = (const int32_t *)(queries + (r < count ? r : count - 1) * size);
        for (int i = 0; i < width; ++i) sums[r][i] = all_integers(0);
    }
    for (int64_t d = 0; d < size / 2; ++d) {
        Integers k[WIDTH];
        for (int i = 0; i < width; ++i) k[i] = keys[i * (size / 2) + d];
        for (int r = 0; r < TOGETHER; ++r) {
            Integers pair = all_integers(pairs[r][d]);
            for (int i = 0; i < width; ++i) sums[r][i] = plus_pairs(sums[r][i], k[i], pair);
        }
    }
    for (int r = 0; r < count; ++r)
        for (int i = 0; i < width; ++i)
            store_floats(scores + r * STRIDE + i * LANES, times(from_integers(sums[r][i]), all_floats(factors[r])));
}

/* ---- positions ------------------------------------------------------------------------------------------------------ */

static void turn(const Work *w, const float *x, int64_t position, float *y) {
    const int64_t half = w->turned / 2;
    const float *cos = w->cos + position * half, *sin = w->sin + position * half;
    for (int64_t i = 0; i < half; ++i) {
        y[i] = x[i] * cos[i] - x[half + i] * sin[i];
        y[half + i] = x[half + i] * cos[i] + x[i] * sin[i];
    }
    memcpy(y + w->turned, x + w->turned, (size_t)(w->size - w->turned) * sizeof(float));
}

static void keep(const Work *w, const float *x, float step, void *to) {
    if (!w->kernel->of_integers) memcpy(to, x, (size_t)w->size * sizeof(float));
    else
        for (int64_t i = 0; i < w->size; ++i) {
            float level = nearbyintf(x[i] / step);
            ((int8_t *)to)[i] = (int8_t)(level > 127 ? 127 : level < -128 ? -128 : level == level ? level : 0);
        }
}

static void write_new(void *work, size_t row_and_group) {
    const Work *w = work;
    const Kernel *k = w->kernel;
    const int64_t row = (int64_t)row_and_group / k->groups, group = (int64_t)row_and_group % k->groups;
    const int64_t bytes = k->of_integers ? 1 : 4;
    const int64_t first = w->newest[row] + 1 - w->steps;
    float turned[MOST_SIZE];
    for (int64_t t = 0; t < w->steps; ++t) {
        const float *x = w->qkv + ((row * w->steps + t) * (k->heads + 2 * k->groups) + k->heads + group) * w->size;
        int64_t place = (((row * k->groups + group) * w->capacity) + first + t) * w->size * bytes;
        turn(w, x, first + t, turned);
        keep(w, turned, w->key_step, (char *)w->keys + place);
        keep(w, x + k->groups * w->size, w->value_step, (char *)w->values + place);
    }
}

/* A query in 16 bits, and what one of its steps is. */
static float round_query(const float *x, int64_t size, int16_t *to) {
    Floats most = all_floats(0);
    for (int64_t i = 0; i < size; i += LANES) most = larger(most, magnitude(load_floats(x + i)));
    float largest = largest_of(most), inverse = largest > 1e-30f ? 32767.0f / largest : 0.0f;
    for (int64_t i = 0; i < size; i += LANES)
        store_shorts(to + i, to_integers(times(load_floats(x + i), all_floats(inverse))));
    for (int64_t i = 0; i < size; ++i)
        if (!isfinite(x[i])) return NAN;
    return inverse ? largest / 32767.0f : 0.0f;
}

/* Positions `begin` to `end` of a row, of the heads of a group. Queries that share keys are those of several heads and
   positions; each sees as far as its own position. */
INLINE void attend_positions(const Work *w, int64_t row, int64_t group, int64_t begin, int64_t end,
                                  const int of_integers) {
    const Kernel *k = w->kernel;
    const int64_t heads = k->heads / k->groups, size = w->size, bytes = of_integers ? 1 : 4, each = of_integers ? size / 2 : size;
    const int64_t first_position = w->newest[row] + 1 - w->steps, longest = first_position + end;
    const char *keys = (const char *)w->keys + (row * k->groups + group) * w->capacity * size * bytes;
    const char *values = (const char *)w->values + (row * k->groups + group) * w->capacity * size * bytes;
    const int count = (int)((end - begin) * heads);
    float weights[TOGETHER * STRIDE], before[TOGETHER], factors[MOST], largest[MOST], totals[MOST];
    float *sums[MOST];
    int64_t lengths[MOST];
    float queries[count * size]; /* of their own size, for what is used to lie near */
    int16_t rounded[of_integers ? count * size : 1];
    Integers turned[count >= FEW ? BLOCK / LANES * each : 1];
    for (int r = 0; r < count; ++r) {
        const int64_t t = begin + r / heads, head = group * heads + r % heads;
        lengths[r] = first_position + t + 1;
        turn(w, w->qkv + ((row * w->steps + t) * (k->heads + 2 * k->groups) + head) * size, lengths[r] - 1, queries + r * size);
        factors[r] = k->scale;
        if (of_integers) factors[r] *= round_query(queries + r * size, size, rounded + r * size) * w->key_step;
        largest[r] = -INFINITY;
        totals[r] = 0;
        sums[r] = w->y + ((row * w->steps + t) * k->heads + head) * size;
        memset(sums[r], 0, (size_t)size * sizeof(float));
    }
    for (int64_t at = 0; at < longest; at += BLOCK) {
        const int there = longest - at < BLOCK ? (int)(longest - at) : BLOCK;
        const char *block = keys + at * size * bytes;
        for (int j = 0; count >= FEW && j < there; j += LANES)
            turn_over(block + j * size * bytes, there - j, size, size, turned + j / LANES * each, of_integers);
        for (int r = 0; r < count; r += TOGETHER) {
            const int some = count - r < TOGETHER ? count - r : TOGETHER;
            const int64_t left = lengths[r + some - 1] - at; /* of the one that sees most */
            const int seen_by_some = left < 0 ? 0 : left < there ? (int)left : there;
            const int vectors = (seen_by_some + LANES - 1) / LANES, wide = vectors / WIDTH * WIDTH;
            if (!seen_by_some) continue;
            if (count >= FEW && of_integers) {
                for (int i = 0; i < wide; i += WIDTH)
                    score_integers(turned + i * each, rounded + r * size, some, size, factors + r, weights + i * LANES, WIDTH);
                for (int i = wide; i < vectors; ++i)
                    score_integers(turned + i * each, rounded + r * size, some, size, factors + r, weights + i * LANES, 1);
            }
            for (int i = 0; i < vectors && count >= FEW && !of_integers; ++i)
                score_floats(turned + i * each, queries + r * size, some, size, factors + r, weights + i * LANES);
            for (int q = 0; q < some; ++q) {
                const int64_t own = lengths[r + q] - at;
                const int seen = own < 0 ? 0 : own < seen_by_some ? (int)own : seen_by_some;
                float *scores = weights + q * STRIDE;
                if (count < FEW && seen)
                    score(block, seen, of_integers ? (const void *)(rounded + (r + q) * size) : queries + (r + q) * size, size,
                          factors[r + q], scores, of_integers);
                before[q] = seen ? weigh(scores, seen, &largest[r + q], &totals[r + q]) : 1.0f;
                for (int j = (seen + LANES - 1) / LANES * LANES; j < seen_by_some; ++j) scores[j] = 0;
            }
            add_heads(values + at * size * bytes, seen_by_some, size, size, weights, before, sums + r, some, of_integers);
        }
    }
    for (int r = 0; r < count; ++r) {
        const float whole = (of_integers ? w->value_step : 1.0f) / totals[r];
        for (int64_t i = 0; i < size; ++i) sums[r][i] *= whole;
    }
}

static void attend(void *work, size_t task) {
    const Work *w = work;
    const int64_t part = (int64_t)task % w->parts, group = (int64_t)task / w->parts % w->kernel->groups;
    const int64_t row = (int64_t)task / w->parts / w->kernel->groups;
    const int64_t begin = w->steps * part / w->parts, end = w->steps * (part + 1) / w->parts;
    if (w->parts == 1) write_new(work, task); /* nobody else reads them */
    if (w->kernel->of_integers) attend_positions(w, row, group, begin, end, 1);
    else attend_positions(w, row, group, begin, end, 0);
}

/* ---- the operators -------------------------------------------------------------------------------------------------- */

static Status *output_over(Context *context, size_t index, const Tensor *cache, size_t bytes, void **place) {
    Value *output;
    TRY(GET_OUTPUT(context, index, cache->sizes, cache->count, &output));
    TRY(TENSOR_DATA(output, place));
    if (*place != cache->data) { /* not bound to the same memory: its contents are wanted all the same */
        for (size_t i = 0; i < cache->count; ++i) bytes *= (size_t)cache->sizes[i];
        memcpy(*place, cache->data, bytes);
    }
    return NULL;
}

static int is_one(const Tensor *tensor) {
    return tensor->count == 0 || (tensor->count == 1 && tensor->sizes[0] == 1);
}

static Status *compute(void *kernel, Context *context) {
    const Kernel *k = kernel;
    const size_t steps_at = 4, turns_at = k->of_integers ? 6 : 4, bytes = k->of_integers ? 1 : 4;
    const Value *input;
    Value *output;
    Tensor qkv, keys, values, newest, cos = {0}, sin = {0}, key_step, value_step;
#define READ(index, tensor)                                                                                            \
    TRY(GET_INPUT(context, index, &input));                                                                            \
    REQUIRE(input, "all inputs, with tables of turns where there are any");                                            \
    TRY(read_tensor(input, tensor))
    READ(0, &qkv);
    READ(1, &keys);
    READ(2, &values);
    READ(3, &newest);
    Work w = {.kernel = k, .qkv = qkv.data, .newest = newest.data, .key_step = 1, .value_step = 1};
    REQUIRE(qkv.count == 3 && keys.count == 4 && values.count == 4, "queries of three dimensions over caches of four");
    REQUIRE(!memcmp(keys.sizes, values.sizes, 4 * sizeof *keys.sizes), "caches of the same shape");
    w.rows = qkv.sizes[0], w.steps = qkv.sizes[1], w.capacity = keys.sizes[2], w.size = keys.sizes[3];
    REQUIRE(keys.sizes[0] == w.rows && keys.sizes[1] == k->groups, "caches for all rows and groups");
    REQUIRE(w.size > 0 && w.size <= MOST_SIZE && w.size % (k->of_integers ? 32 : 16) == 0,
            "heads of 16 to 512 numbers, by sixteens, over integers by 32");
    REQUIRE(qkv.sizes[2] == (k->heads + 2 * k->groups) * w.size, "queries, keys and values beside each other");
    REQUIRE(newest.count == 1 && newest.sizes[0] == w.rows, "a newest position a row");
    if (k->of_integers) {
        READ(steps_at, &key_step);
        READ(steps_at + 1, &value_step);
        REQUIRE(is_one(&key_step) && is_one(&value_step), "one step of all keys and one of all values");
        w.key_step = *(float *)key_step.data, w.value_step = *(float *)value_step.data;
    }
    if (k->turns) {
        READ(turns_at, &cos);
        READ(turns_at + 1, &sin);
        REQUIRE(cos.count == 2 && sin.count == 2 && !memcmp(cos.sizes, sin.sizes, 2 * sizeof *cos.sizes), "two tables");
        w.cos = cos.data, w.sin = sin.data, w.turned = 2 * cos.sizes[1];
        REQUIRE(w.turned <= w.size, "no more turned numbers than a head has");
    }
    for (int64_t row = 0; row < w.rows; ++row) {
        int64_t last = w.newest[row];
        REQUIRE(last + 1 >= w.steps && last < w.capacity, "new positions within the cache");
        REQUIRE(!k->turns || last < cos.sizes[0], "new positions within the tables");
    }
    int64_t shape[3] = {w.rows, w.steps, k->heads * w.size};
    TRY(GET_OUTPUT(context, 0, shape, 3, &output));
    TRY(TENSOR_DATA(output, (void **)&w.y));
    TRY(output_over(context, 1, &keys, bytes, &w.keys));
    TRY(output_over(context, 2, &values, bytes, &w.values));
    if (!w.rows || !w.steps) return NULL;
    const int64_t positions = MOST / (k->heads / k->groups);
    w.parts = (w.steps + positions - 1) / positions;
    if (w.parts > 1) TRY(PARALLEL_FOR(context, write_new, (size_t)(w.rows * k->groups), 0, &w));
    return PARALLEL_FOR(context, attend, (size_t)(w.rows * k->groups * w.parts), 0, &w);
}

static Status *create_for(const Info *info, void **kernel, int of_integers) {
    Kernel k = {.of_integers = of_integers};
    TRY(ATTRIBUTE_INT(info, "heads", &k.heads));
    TRY(ATTRIBUTE_INT(info, "groups", &k.groups));
    TRY(ATTRIBUTE_INT(info, "turns", &k.turns));
    TRY(ATTRIBUTE_FLOAT(info, "scale", &k.scale));
    REQUIRE(k.groups > 0 && k.heads > 0 && k.heads % k.groups == 0, "heads that are whole groups");
    REQUIRE(k.heads / k.groups <= MOST_HEADS, "at most 64 heads a group");
    Kernel *made = malloc(sizeof k);
    REQUIRE(made, "memory");
    *made = k;
    *kernel = made;
    return NULL;
}

static Status *create_of_floats(const Operator *operator, const void *api, const Info *info, void **kernel) {
    return (void)operator, (void)api, create_for(info, kernel, 0);
}
static Status *create_of_integers(const Operator *operator, const void *api, const Info *info, void **kernel) {
    return (void)operator, (void)api, create_for(info, kernel, 1);
}

ANSWER(name_of_floats, const char *, OPERATOR)
ANSWER(name_of_integers, const char *, OPERATOR "Int8")
ANSWER(provider, const char *, NULL)
ANSWER(input_of_floats, int, index == 3 ? INT32 : FLOAT, size_t index)
ANSWER(input_of_integers, int, index == 1 || index == 2 ? INT8 : index == 3 ? INT32 : FLOAT, size_t index)
ANSWER(inputs_of_floats, size_t, 6)
ANSWER(inputs_of_integers, size_t, 8)
ANSWER(output_of_floats, int, ((void)index, FLOAT), size_t index)
ANSWER(output_of_integers, int, index ? INT8 : FLOAT, size_t index)
ANSWER(output_count, size_t, 3)
ANSWER(optional_of_floats, int, index >= 4, size_t index)
ANSWER(optional_of_integers, int, index >= 6, size_t index)
ANSWER(first_kind, int, ((void)index, 0), size_t index)

#define ATTENTION(operator, kind)                                                                                      \
    const Operator operator= {                                                                                         \
        .version = OPERATOR_VERSION,                                                                                   \
        .name = name_of_##kind,                                                                                        \
        .provider = provider,                                                                                          \
        .input_type = input_of_##kind,                                                                                 \
        .input_count = inputs_of_##kind,                                                                               \
        .output_type = output_of_##kind,                                                                               \
        .output_count = output_count,                                                                                  \
        .destroy = free,                                                                                               \
        .input_is_optional = optional_of_##kind,                                                                       \
        .output_is_optional = first_kind,                                                                              \
        .input_memory = first_kind,                                                                                    \
        .create_checked = create_of_##kind,                                                                            \
        .compute_checked = compute,                                                                                    \
    };
ATTENTION(cached_attention, floats)
ATTENTION(cached_attention_int8, integers)
