/* Memory for weights, in large pages where the system has some: a step reads all of it, and small pages are found anew
   every 4 KB. Weights of a session share chunks; a chunk goes back once nothing of it is held. */

#define _GNU_SOURCE
#include "memory.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define PAGE ((size_t)2 << 20)
#define CHUNK ((size_t)32 << 20)
#define LINE ((size_t)64)

struct Chunk {
    char *begin;
    size_t size, used;
    int64_t held;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Chunk *latest; /* from which the next ones are taken */

static Chunk *new_chunk(size_t bytes) {
    const size_t size = ((bytes > CHUNK ? bytes : CHUNK) + PAGE - 1) / PAGE * PAGE;
    Chunk *chunk = calloc(1, sizeof *chunk);
    char *place = chunk ? mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (place == MAP_FAILED) {
        free(chunk);
        return NULL;
    }
    const size_t before = (PAGE - (uintptr_t)place % PAGE) % PAGE;
    if (before) munmap(place, before);
    munmap(place + before + size, PAGE - before);
    *chunk = (Chunk){.begin = place + before, .size = size};
    madvise(chunk->begin, size, MADV_HUGEPAGE);
    return chunk;
}

void *hold(size_t bytes, Chunk **owner) {
    bytes = (bytes + LINE - 1) / LINE * LINE;
    void *place = NULL;
    pthread_mutex_lock(&lock);
    if (!latest || latest->size - latest->used < bytes) {
        Chunk *made = new_chunk(bytes);
        if (made) latest = made;
    }
    if (latest && latest->size - latest->used >= bytes) {
        place = latest->begin + latest->used;
        latest->used += bytes;
        ++latest->held;
        *owner = latest;
    }
    pthread_mutex_unlock(&lock);
    return place;
}

void let_go(Chunk *chunk) {
    pthread_mutex_lock(&lock);
    if (!--chunk->held) {
        if (chunk == latest) latest = NULL;
        munmap(chunk->begin, chunk->size);
        free(chunk);
    }
    pthread_mutex_unlock(&lock);
}
