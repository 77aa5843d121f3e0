/* The operators of the domain "attendant", as ONNX Runtime asks for them. */

#define OPERATOR "attendant"
#include "operator.h"

extern const Operator blocked_matmul, cached_attention, cached_attention_int8, packed_attention;
static const Operator *const operators[] = {&blocked_matmul, &cached_attention, &cached_attention_int8, &packed_attention};
void *const *ort_table;

typedef struct {
    const void *(*table)(uint32_t version);
    const char *(*version)(void);
} Base;

/* What ONNX Runtime calls once a session that registers the library. The domain is made once and never released: sessions
   refer to it for as long as the process lives. */
__attribute__((visibility("default"))) Status *RegisterCustomOps(Options *options, const Base *base) {
    static Domain *domain;
    ort_table = base->table(TABLE_VERSION);
    if (!ort_table) {
        ort_table = base->table(1); /* whose first function makes errors, as in any */
        return CREATE_STATUS(NOT_IMPLEMENTED, "Attendant's operators need ONNX Runtime 1.17 or newer");
    }
    if (!domain) {
        Domain *made;
        TRY(CREATE_DOMAIN("attendant", &made));
        for (size_t i = 0; i < sizeof operators / sizeof *operators; ++i) TRY(ADD_OPERATOR(made, operators[i]));
        domain = made;
    }
    return ADD_DOMAIN(options, domain);
}
