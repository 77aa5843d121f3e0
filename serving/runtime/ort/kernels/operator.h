/* What an operator of ours needs of ONNX Runtime, and no more: its functions by their places in the table of
   onnxruntime_c_api.h, which only grows. The places are those of version 17 of the table (ONNX Runtime 1.17); the runtime
   says whether it has them. Included by each operator's file. */

#ifndef ATTENDANT_OPERATOR_H
#define ATTENDANT_OPERATOR_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { TABLE_VERSION = 17, OPERATOR_VERSION = 16, INVALID_ARGUMENT = 2, NOT_IMPLEMENTED = 9 };
enum { FLOAT = 1, UINT8 = 2, INT8 = 3, INT32 = 6, BOOL = 9, UINT4 = 21, INT4 = 22 };
typedef void Status, Value, Info, Context, Domain, Options, Shape;
typedef Status *(*CreateStatus)(int, const char *);
typedef Status *(*CreateDomain)(const char *, Domain **);
typedef Status *(*TensorData)(const Value *, void **);
typedef Status *(*ShapeOf)(const Value *, Shape **);
typedef Status *(*ElementType)(const Shape *, int *);
typedef Status *(*CountOf)(const Shape *, size_t *);
typedef Status *(*Dimensions)(const Shape *, int64_t *, size_t);
typedef void (*ReleaseShape)(Shape *);
typedef Status *(*AttributeFloat)(const Info *, const char *, float *);
typedef Status *(*AttributeInt)(const Info *, const char *, int64_t *);
typedef Status *(*ConstantInput)(const Info *, size_t, int *, const Value **);
typedef Status *(*GetInput)(const Context *, size_t, const Value **);
typedef Status *(*GetOutput)(Context *, size_t, const int64_t *, size_t, Value **);
typedef Status *(*ParallelFor)(const Context *, void (*)(void *, size_t), size_t, size_t, void *);

extern void *const *ort_table;
#define CALL(type, place) ((type)ort_table[place])
#define CREATE_STATUS CALL(CreateStatus, 0)
#define CREATE_DOMAIN CALL(CreateDomain, 26)
#define ADD_OPERATOR CALL(Status *(*)(Domain *, const void *), 27)
#define ADD_DOMAIN CALL(Status *(*)(Options *, Domain *), 28)
#define TENSOR_DATA CALL(TensorData, 51)
#define ELEMENT_TYPE CALL(ElementType, 60)
#define COUNT_OF CALL(CountOf, 61)
#define DIMENSIONS CALL(Dimensions, 62)
#define SHAPE_OF CALL(ShapeOf, 65)
#define ATTRIBUTE_FLOAT CALL(AttributeFloat, 85)
#define ATTRIBUTE_INT CALL(AttributeInt, 86)
#define GET_INPUT CALL(GetInput, 90)
#define GET_OUTPUT CALL(GetOutput, 91)
#define RELEASE_STATUS CALL(void (*)(Status *), 93)
#define RELEASE_SHAPE CALL(ReleaseShape, 99)
#define CONSTANT_INPUT CALL(ConstantInput, 249)
#define PARALLEL_FOR CALL(ParallelFor, 274)

#define TRY(call)                                                                                                      \
    do {                                                                                                               \
        Status *failed_ = (call);                                                                                      \
        if (failed_) return failed_;                                                                                   \
    } while (0)
#define REQUIRE(condition, message)                                                                                    \
    do {                                                                                                               \
        if (!(condition)) return CREATE_STATUS(INVALID_ARGUMENT, OPERATOR ": " message);                           \
    } while (0)

#define MOST_DIMENSIONS 8
typedef struct {
    void *data;
    int type;
    size_t count;
    int64_t sizes[MOST_DIMENSIONS];
} Tensor;

static inline Status *read_tensor(const Value *value, Tensor *tensor) {
    Shape *shape;
    TRY(SHAPE_OF(value, &shape));
    Status *failed = ELEMENT_TYPE(shape, &tensor->type);
    if (!failed) failed = COUNT_OF(shape, &tensor->count);
    if (!failed && tensor->count <= MOST_DIMENSIONS) failed = DIMENSIONS(shape, tensor->sizes, tensor->count);
    RELEASE_SHAPE(shape);
    if (failed) return failed;
    REQUIRE(tensor->count <= MOST_DIMENSIONS, "at most 8 dimensions");
    return TENSOR_DATA(value, &tensor->data);
}

typedef struct Operator Operator;
struct Operator { /* OrtCustomOp of onnxruntime_c_api.h, up to version 16 */
    uint32_t version;
    void *create;
    const char *(*name)(const Operator *);
    const char *(*provider)(const Operator *);
    int (*input_type)(const Operator *, size_t);
    size_t (*input_count)(const Operator *);
    int (*output_type)(const Operator *, size_t);
    size_t (*output_count)(const Operator *);
    void *compute;
    void (*destroy)(void *);
    int (*input_is_optional)(const Operator *, size_t);
    int (*output_is_optional)(const Operator *, size_t);
    int (*input_memory)(const Operator *, size_t);
    void *variadic[4];
    Status *(*create_checked)(const Operator *, const void *, const Info *, void **);
    Status *(*compute_checked)(void *, Context *);
    void *newer[8];
};

#define ANSWER(name, type, value, ...)                                                                                 \
    static type name(const Operator *operator, ##__VA_ARGS__) { return (void)operator, (value); }

#endif
