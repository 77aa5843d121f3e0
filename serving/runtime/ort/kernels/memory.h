/* Memory that holds a session's weights (memory.c). */

#ifndef ATTENDANT_MEMORY_H
#define ATTENDANT_MEMORY_H

#include <stddef.h>

typedef struct Chunk Chunk;

void *hold(size_t bytes, Chunk **owner); /* zeroed, and aligned to a line; none where there is no memory */
void let_go(Chunk *owner);

#endif
