/* One operator of ONNX Runtime: float activations times weights in 4 or 8 bits, summed in integers.

       attendant.BlockedMatMul(x, W, s[, z, d, y']) {block, transposed, activation, gated}

       p = Σ_b r_b · s_b · (W_b − z_b)ᵀ q_b + d,   y = f(p) + y',   or gated, of p = [g u],   y = f(g) · u + y'

   The activations of each row are rounded to 8 bits block by block, q_b = round(x_b / r_b) with r_b = max |x_b| / 127, so
   that a row's result depends on that row alone, to the last bit: whichever rows stand beside it, and however many.

   Weights are laid out once, as the kernel is created, in tiles of two vectors' columns (L: a vector's 32-bit numbers):

       for each four (8 bits) or eight (4 bits) of a block's numbers: 2 × [L columns × 4 bytes]

   One VPDPBUSD adds four products to each of L columns; two vectors of columns and some rows are summed in registers. Of
   4 bits, the low halves of bytes hold the first four numbers, the high halves the next four. Gated, the first vector is of
   columns of g, and the second of those of u that they scale: what follows a product is done before it leaves registers.

   Legend: x [..., in] float, W [in, out] or, transposed, [out, in], of 4 or 8 bits; s, z [⌈in / block⌉, out], or [out] of
   one block; d [out]; y, y' [..., out], or half as wide, gated; f(p) = p · σ(p), or GELU by tanh or erf.
   Source: Intel, "Intel 64 and IA-32 Architectures Software Developer's Manual", VPDPBUSD; erf as in M. Abramowitz,
   I. Stegun, "Handbook of Mathematical Functions", 7.1.26, to 1.5 · 10⁻⁷. */

#define OPERATOR "BlockedMatMul"
#include "memory.h"
#include "operator.h"
#include "vectors.h"

#define COLUMNS (2 * LANES)
#define ROWS (LANES / 2) /* whose sums fit the registers */
#define STEP (4 * COLUMNS) /* bytes of weights that are multiplied at once */
#define CHUNKS 16          /* of the columns, for threads to take */
#define NEAR_ROWS 64       /* that stay in a near cache while a thread multiplies them by its columns */
#define PARALLEL_ROWS 16   /* from so many on, rows are rounded by all threads */
#define LEAST_SCALE 1e-30f /* rows below it are zeros: the reciprocal must be a number */
#define AHEAD 1024         /* bytes of weights that are asked for before they are needed */
#define MOST_BLOCK 65536   /* 255 · 127 · it still fits 32 bits */

/* ---- the weights -------------------------------------------------------------------------------------------------- */

typedef struct {
    int64_t in, out, block, blocks, tiles, wide; /* wide: of an answer */
    int64_t activation, gated;
    int bits;
    int32_t zero;    /* of all columns, where they have none of their own */
    Chunk *chunk;     /* that holds the weights */
    uint8_t *weights; /* [tiles, in / (8 or 4), 2, LANES, 4] */
    float *scales;   /* [tiles, blocks, COLUMNS] */
    int32_t *zeros;  /* likewise, or none */
    float *bias;     /* [tiles, COLUMNS], or none */
} Kernel;
enum { NONE, GELU, SILU, GELU_ERF };

static void destroy(void *kernel) {
    Kernel *k = kernel;
    if (k->weights) let_go(k->chunk);
    free(k->scales);
    free(k->zeros);
    free(k->bias);
    free(k);
}

static int level(const Tensor *tensor, int64_t place) { /* a number of the weight, as it is multiplied */
    const uint8_t *bytes = tensor->data;
    switch (tensor->type) {
        case UINT4: return (bytes[place / 2] >> (place % 2 * 4)) & 15;
        case INT4: return ((bytes[place / 2] >> (place % 2 * 4)) & 15) ^ 8;
        case INT8: return (bytes[place] ^ 128) - 128 * BYTES_ARE_SIGNED;
        default: return bytes[place] - 128 * BYTES_ARE_SIGNED;
    }
}

/* Which column stands at a place of a tile; none behind the last. */
static int64_t column_of(const Kernel *k, int64_t tile, int64_t place) {
    int64_t column = k->gated ? tile * LANES + place % LANES : tile * COLUMNS + place;
    if (column >= k->wide) return -1;
    return k->gated ? column + place / LANES * k->wide : column;
}

static void pack(Kernel *k, const Tensor *weight, int transposed) {
    const int64_t step = k->bits == 4 ? 8 : 4;
    for (int64_t tile = 0; tile < k->tiles; ++tile)
        for (int64_t i = 0; i < k->in; ++i) {
            uint8_t *to = k->weights + (tile * (k->in / step) + i / step) * STEP + i % 4;
            int shift = k->bits == 4 && i % 8 >= 4 ? 4 : 0;
            for (int64_t place = 0; place < COLUMNS; ++place) {
                int64_t n = column_of(k, tile, place);
                if (n < 0) continue;
                to[place * 4] |= (uint8_t)(level(weight, transposed ? n * k->in + i : i * k->out + n) << shift);
            }
        }
}

static void *tiled(const Kernel *k, size_t size) {
    return calloc((size_t)(k->tiles * k->blocks * COLUMNS) + 1, size);
}

static int is_of_blocks(const Tensor *tensor, const Kernel *k) {
    return tensor->count == 2 ? tensor->sizes[0] == k->blocks && tensor->sizes[1] == k->out
                              : tensor->count == 1 && k->blocks == 1 && tensor->sizes[0] == k->out;
}

/* Graphs of before there was such an attribute have none. */
static int64_t attribute_or_zero(const Info *info, const char *name) {
    int64_t value = 0;
    Status *failed = ATTRIBUTE_INT(info, name, &value);
    if (failed) RELEASE_STATUS(failed);
    return failed ? 0 : value;
}

static Status *fill(Kernel *k, const Info *info) {
    const Value *values[4];
    Tensor weight, scale, zero, bias;
    int64_t transposed = 0;
    for (int input = 1; input <= 4; ++input) {
        int constant = 0;
        values[input - 1] = NULL;
        Status *failed = CONSTANT_INPUT(info, input, &constant, &values[input - 1]);
        if (input < 3) {
            if (failed) return failed;
            REQUIRE(constant && values[input - 1], "a constant weight with constant scales");
        } else if (failed || !constant) { /* there are only so many */
            values[input - 1] = NULL;
            if (failed) RELEASE_STATUS(failed);
        }
    }
    k->activation = attribute_or_zero(info, "activation");
    k->gated = attribute_or_zero(info, "gated");
    REQUIRE(k->activation >= NONE && k->activation <= GELU_ERF, "an activation that it knows");
    TRY(ATTRIBUTE_INT(info, "block", &k->block));
    TRY(ATTRIBUTE_INT(info, "transposed", &transposed));
    TRY(read_tensor(values[0], &weight));
    TRY(read_tensor(values[1], &scale));
    REQUIRE(weight.count == 2 && weight.sizes[0] > 0 && weight.sizes[1] > 0, "a weight of two dimensions");
    REQUIRE(weight.type == INT4 || weight.type == UINT4 || weight.type == INT8 || weight.type == UINT8, "4 or 8 bits");
    k->in = weight.sizes[transposed ? 1 : 0];
    k->out = weight.sizes[transposed ? 0 : 1];
    REQUIRE(!k->gated || k->out % 2 == 0, "as many columns that gate as are gated");
    k->wide = k->gated ? k->out / 2 : k->out;
    k->bits = weight.type == INT4 || weight.type == UINT4 ? 4 : 8;
    REQUIRE(k->block > 0 && k->block % 16 == 0 && k->block <= MOST_BLOCK, "blocks of 16 to 65,536, by sixteens");
    REQUIRE(k->in % 16 == 0, "a width by sixteens");
    k->blocks = (k->in + k->block - 1) / k->block;
    k->tiles = k->gated ? (k->wide + LANES - 1) / LANES : (k->out + COLUMNS - 1) / COLUMNS;
    REQUIRE(scale.type == FLOAT && is_of_blocks(&scale, k), "a float32 scale a block and column");
    k->weights = hold((size_t)(k->tiles * COLUMNS * k->in * k->bits / 8), &k->chunk);
    k->scales = tiled(k, sizeof(float));
    REQUIRE(k->weights && k->scales, "memory for the weight");
    pack(k, &weight, transposed != 0);
    k->zero = weight.type == INT4 ? 8 : weight.type == INT8 ? 128 : 0;
    if (k->bits == 8) k->zero -= 128 * BYTES_ARE_SIGNED;
    if (values[2]) {
        TRY(read_tensor(values[2], &zero));
        REQUIRE(zero.type == weight.type && is_of_blocks(&zero, k), "a zero point a block and column, of the weight's type");
        k->zeros = tiled(k, sizeof(int32_t));
        REQUIRE(k->zeros, "memory for the zero points");
    }
    if (values[3]) {
        TRY(read_tensor(values[3], &bias));
        REQUIRE(bias.type == FLOAT && bias.count == 1 && bias.sizes[0] == k->out, "a float32 bias a column");
        k->bias = calloc((size_t)(k->tiles * COLUMNS) + 1, sizeof(float));
        REQUIRE(k->bias, "memory for the bias");
    }
    for (int64_t tile = 0; tile < k->tiles; ++tile)
        for (int64_t place = 0; place < COLUMNS; ++place) {
            int64_t n = column_of(k, tile, place);
            if (n < 0) continue;
            if (k->bias) k->bias[tile * COLUMNS + place] = ((const float *)bias.data)[n];
            for (int64_t b = 0; b < k->blocks; ++b) {
                int64_t to = (tile * k->blocks + b) * COLUMNS + place, from = b * k->out + n;
                k->scales[to] = ((const float *)scale.data)[from];
                if (k->zeros) k->zeros[to] = level(&zero, from);
            }
        }
    return NULL;
}

/* ---- the product -------------------------------------------------------------------------------------------------- */

static inline int64_t length_of(const Kernel *k, int64_t block) { /* the last may be shorter */
    const int64_t left = k->in - block * k->block;
    return left < k->block ? left : k->block;
}

typedef struct {
    const Kernel *kernel;
    int64_t rows;
    const float *x;     /* [rows, in] */
    const float *added; /* [rows, wide], or none */
    float *y;           /* [rows, wide] */
    int8_t *q;      /* [rows, in] */
    float *r;       /* [rows, blocks] */
    int32_t *sums;  /* [rows, blocks], of q */
} Work;

static void round_row(void *work, size_t row) {
    const Work *w = work;
    const Kernel *k = w->kernel;
    const float *x = w->x + row * k->in;
    int8_t *q = w->q + row * k->in;
    for (int64_t b = 0; b < k->blocks; ++b, x += k->block, q += k->block) {
        const int64_t length = length_of(k, b);
        Floats most = all_floats(0);
        int odd = 0; /* not a number, which a maximum would lose */
        for (int64_t i = 0; i < length; i += LANES) {
            Floats part = load_floats(x + i);
            odd |= any_odd(part);
            most = larger(most, magnitude(part));
        }
        float largest = largest_of(most);
        int counts = largest > LEAST_SCALE;
        Floats inverse = all_floats(counts ? 127.0f / largest : 0.0f);
        Integers sum = all_integers(0);
        for (int64_t i = 0; i < length; i += LANES) {
            Integers part = to_integers(times(load_floats(x + i), inverse));
            sum = add_integers(sum, part);
            store_bytes(q + i, part);
        }
        w->r[row * k->blocks + b] = odd ? __builtin_nanf("") : counts ? largest / 127.0f : 0.0f;
        w->sums[row * k->blocks + b] = sum_of_integers(sum);
    }
}

static inline int32_t four(const int8_t *q) {
    int32_t numbers;
    memcpy(&numbers, q, 4);
    return numbers;
}

/* GELU, p · Φ(p): of what Φ leaves to 1 for |p|, by erf's approximation. */
INLINE Floats gelu_by_erf(Floats p) {
    Floats size = magnitude(p), one = all_floats(1.0f);
    Floats t = divide(one, plus_product(one, size, all_floats(0.3275911f * 0.70710678f)));
    Floats sum = all_floats(1.061405429f / 2);
    const float factors[] = {-1.453152027f / 2, 1.421413741f / 2, -0.284496736f / 2, 0.254829592f / 2};
    for (int i = 0; i < 4; ++i) sum = plus_product(all_floats(factors[i]), sum, t);
    Floats left = times(times(sum, t), exponential(times(times(size, size), all_floats(-0.5f))));
    return times(p, either(below_zero(p), left, subtract(one, left)));
}

/* p · σ(p), or GELU by tanh, which is p · σ(√(8/π) (p + 0.044715 p³)): e^x of what is not above zero, so that none is infinite. */
INLINE Floats activated(Floats p, int64_t activation) {
    if (activation == GELU_ERF) return gelu_by_erf(p);
    Floats u = p;
    if (activation == GELU) {
        Floats inner = plus_product(all_floats(1.0f), times(p, p), all_floats(0.044715f));
        u = times(times(p, all_floats(1.5957691216f)), inner);
    }
    Floats e = exponential(subtract(all_floats(0), magnitude(u)));
    Floats numerator = either(below_zero(u), e, all_floats(1.0f));
    return times(p, divide(numerator, add_floats(e, all_floats(1.0f))));
}

/* What follows a product: bias, activation, gate, what is added. Of two vectors of p, one is answered where the other gates it. */
INLINE void finish(const Work *w, int64_t tile, int64_t row, const int rows, const int vectors, Floats p[][2]) {
    const Kernel *k = w->kernel;
    for (int m = 0; m < rows; ++m) {
        if (k->bias)
            for (int c = 0; c < 2; ++c) p[m][c] = add_floats(p[m][c], load_floats(k->bias + tile * COLUMNS + c * LANES));
        if (k->activation)
            for (int c = 0; c < vectors; ++c) p[m][c] = activated(p[m][c], k->activation);
        if (vectors == 1) p[m][0] = times(p[m][0], p[m][1]);
    }
    for (int c = 0; c < vectors; ++c) {
        const int64_t column = (tile * vectors + c) * LANES, left = k->wide - column;
        if (left <= 0) return;
        for (int m = 0; m < rows; ++m) {
            const int64_t place = (row + m) * k->wide + column;
            if (w->added) p[m][c] = add_floats(p[m][c], load_some(w->added + place, first(left)));
            store_some(w->y + place, first(left), p[m][c]);
        }
    }
}

/* `rows` and `bits` are constants wherever this is inlined, so that all sums stay in registers. */
INLINE void multiply(const Work *w, int64_t tile, int64_t row, const int rows, const int bits) {
    const Kernel *k = w->kernel;
    const int step = bits == 4 ? 8 : 4;
    const uint8_t *weights = k->weights + tile * (k->in / step) * STEP;
    const int8_t *q = w->q + row * k->in;
    Floats y[ROWS][2];
    for (int m = 0; m < rows; ++m) y[m][0] = y[m][1] = all_floats(0);
    if (w->rows > NEAR_ROWS) /* answers of many rows are in no near cache, nor what is added: each line would be waited for */
        for (int m = 0; m < rows; ++m)
            for (int line = 0; line < (k->gated ? LANES : COLUMNS); line += 16) {
                const int64_t place = (row + m) * k->wide + tile * (k->gated ? LANES : COLUMNS) + line;
                _mm_prefetch((const char *)(w->y + place), _MM_HINT_T0);
                if (w->added) _mm_prefetch((const char *)(w->added + place), _MM_HINT_T0);
            }
    for (int64_t b = 0; b < k->blocks; ++b, q += k->block) {
        const int64_t length = length_of(k, b);
        Integers sum[ROWS][2];
        for (int m = 0; m < rows; ++m) {
            int32_t of_row = -w->sums[(row + m) * k->blocks + b];
            if (k->zeros) {
                const int32_t *zeros = k->zeros + (tile * k->blocks + b) * COLUMNS;
                for (int c = 0; c < 2; ++c)
                    sum[m][c] = multiply_integers(load_integers(zeros + c * LANES), all_integers(of_row));
            } else sum[m][0] = sum[m][1] = all_integers(of_row * k->zero);
        }
        for (int64_t i = 0; i < length; i += step, weights += STEP) {
            for (int line = 0; line < STEP; line += 64) _mm_prefetch((const char *)weights + AHEAD + line, _MM_HINT_T0);
            Integers left = load_integers(weights), right = load_integers(weights + STEP / 2);
            if (bits == 4) {
                Integers left_low = low_halves(left), right_low = low_halves(right);
                Integers left_high = high_halves(left), right_high = high_halves(right);
                for (int m = 0; m < rows; ++m) {
                    Integers first_four = all_integers(four(q + m * k->in + i));
                    Integers second_four = all_integers(four(q + m * k->in + i + 4));
                    sum[m][0] = plus_fours(sum[m][0], left_low, first_four, bits);
                    sum[m][1] = plus_fours(sum[m][1], right_low, first_four, bits);
                    sum[m][0] = plus_fours(sum[m][0], left_high, second_four, bits);
                    sum[m][1] = plus_fours(sum[m][1], right_high, second_four, bits);
                }
            } else {
                for (int m = 0; m < rows; ++m) {
                    Integers numbers = all_integers(four(q + m * k->in + i));
                    sum[m][0] = plus_fours(sum[m][0], left, numbers, bits);
                    sum[m][1] = plus_fours(sum[m][1], right, numbers, bits);
                }
            }
        }
        const float *scales = k->scales + (tile * k->blocks + b) * COLUMNS;
        for (int m = 0; m < rows; ++m) {
            Floats r = all_floats(w->r[(row + m) * k->blocks + b]);
            for (int c = 0; c < 2; ++c)
                y[m][c] = plus_product(y[m][c], from_integers(sum[m][c]), times(load_floats(scales + c * LANES), r));
        }
    }
    if (k->gated) finish(w, tile, row, rows, 1, y);
    else finish(w, tile, row, rows, 2, y);
}

#define CASE(count, bits)                                                                                              \
    case count: multiply(w, tile, row, count, bits); break;
#if ROWS == 8
#define CASES(bits) CASE(1, bits) CASE(2, bits) CASE(3, bits) CASE(4, bits) CASE(5, bits) CASE(6, bits) CASE(7, bits)
#else
#define CASES(bits) CASE(1, bits) CASE(2, bits) CASE(3, bits)
#endif
#define MULTIPLY_TILE(name, bits)                                                                                      \
    static void name(const Work *w, int64_t tile, int64_t row, int64_t end) {                                          \
        for (; row + ROWS <= end; row += ROWS) multiply(w, tile, row, ROWS, bits);                                     \
        switch (end - row) { CASES(bits) }                                                                             \
    }
MULTIPLY_TILE(multiply_tile_4, 4)
MULTIPLY_TILE(multiply_tile_8, 8)

static void multiply_chunk(void *work, size_t chunk) {
    const Work *w = work;
    const Kernel *k = w->kernel;
    const int64_t begin = (int64_t)chunk * k->tiles / CHUNKS, end = (int64_t)(chunk + 1) * k->tiles / CHUNKS;
    for (int64_t row = 0; row < w->rows; row += NEAR_ROWS) {
        const int64_t last = row + NEAR_ROWS < w->rows ? row + NEAR_ROWS : w->rows;
        for (int64_t tile = begin; tile < end; ++tile)
            (k->bits == 4 ? multiply_tile_4 : multiply_tile_8)(w, tile, row, last);
    }
}

static Status *compute(void *kernel, Context *context) {
    const Kernel *k = kernel;
    const Value *input, *zero = NULL, *bias = NULL, *other = NULL;
    Value *output;
    Tensor x, added;
    TRY(GET_INPUT(context, 0, &input));
    TRY(read_tensor(input, &x));
    REQUIRE(x.count > 0 && x.sizes[x.count - 1] == k->in, "an activation as wide as the weight");
    Work w = {.kernel = k, .rows = 1, .x = x.data};
    for (size_t i = 0; i + 1 < x.count; ++i) w.rows *= x.sizes[i];
    x.sizes[x.count - 1] = k->wide;
    TRY(GET_INPUT(context, 3, &zero));
    TRY(GET_INPUT(context, 4, &bias));
    REQUIRE((k->zeros || !zero) && (k->bias || !bias), "constant zero points and a constant bias, where it has any");
    TRY(GET_INPUT(context, 5, &other));
    if (other) {
        TRY(read_tensor(other, &added));
        REQUIRE(added.count == x.count && !memcmp(added.sizes, x.sizes, x.count * sizeof(int64_t)),
                "a sum with numbers of the answer's sizes");
        w.added = added.data;
    }
    TRY(GET_OUTPUT(context, 0, x.sizes, x.count, &output));
    if (!w.rows) return NULL;
    TRY(TENSOR_DATA(output, (void **)&w.y));
    size_t parts = (size_t)(w.rows * k->blocks);
    w.r = malloc(parts * 8 + (size_t)(w.rows * k->in));
    REQUIRE(w.r, "memory for the activation");
    w.sums = (int32_t *)(w.r + parts);
    w.q = (int8_t *)(w.sums + parts);
    Status *failed = NULL;
    if (w.rows < PARALLEL_ROWS)
        for (int64_t row = 0; row < w.rows; ++row) round_row(&w, (size_t)row);
    else failed = PARALLEL_FOR(context, round_row, (size_t)w.rows, 0, &w);
    if (!failed) failed = PARALLEL_FOR(context, multiply_chunk, CHUNKS, 0, &w);
    free(w.r);
    return failed;
}

/* ---- the operator ------------------------------------------------------------------------------------------------- */

static Status *create_checked(const Operator *operator, const void *api, const Info *info, void **kernel) {
    (void)operator, (void)api;
    Kernel *k = calloc(1, sizeof(Kernel));
    REQUIRE(k, "memory");
    Status *failed = fill(k, info);
    if (failed) destroy(k);
    else *kernel = k;
    return failed;
}

ANSWER(name, const char *, OPERATOR)
ANSWER(provider, const char *, NULL)
ANSWER(input_type, int, index == 1 || index == 3 ? 0 : FLOAT, size_t index) /* 0: any */
ANSWER(input_count, size_t, 6)
ANSWER(output_type, int, ((void)index, FLOAT), size_t index)
ANSWER(output_count, size_t, 1)
ANSWER(input_is_optional, int, index >= 3, size_t index)
ANSWER(first_kind, int, ((void)index, 0), size_t index)

const Operator blocked_matmul = {
    .version = OPERATOR_VERSION,
    .name = name,
    .provider = provider,
    .input_type = input_type,
    .input_count = input_count,
    .output_type = output_type,
    .output_count = output_count,
    .destroy = destroy,
    .input_is_optional = input_is_optional,
    .output_is_optional = first_kind,
    .input_memory = first_kind,
    .create_checked = create_checked,
    .compute_checked = compute,
};
