/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/table.c - see table.h. */
#include "hosts/nccl/table.h"

#include <pthread.h>
#include <stdlib.h>

/* From the lowest bit: serial, place, index, generation, kind, and one bit that says whether it is a request. */
enum {
    INDEX_AT = NIGH_NCCL_SERIAL_BITS + NIGH_NCCL_PLACE_BITS,
    INDEX_BITS = 20,
    GENERATION_AT = INDEX_AT + INDEX_BITS,
    GENERATION_BITS = 14,
    KIND_AT = GENERATION_AT + GENERATION_BITS,
    KIND_BITS = 5,
    REQUEST_AT = KIND_AT + KIND_BITS,
    CHUNK_BITS = 12,
    CHUNKS = 1 << (INDEX_BITS - CHUNK_BITS),
};
_Static_assert(REQUEST_AT == 63, "a number has 64 bits");

#define MASK(bits)  ((UINT64_C(1) << (bits)) - 1)
#define CONNECTIONS (NIGH_NCCL_SENDER | NIGH_NCCL_RECEIVER)

struct entry {
    _Atomic(uint64_t) number; /* 0: not in use */
    _Atomic(void *) object;
    uint64_t generation;
    uint32_t next; /* of those not in use, index + 1 */
    /* Forked children: of the parent. The object stays where it is, as the parent's threads may have been at work on it. */
    uint64_t inherited;
    void *left;
};

/* Never freed: any number may be asked for at any time. */
static _Atomic(struct entry *) chunks[CHUNKS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint32_t unused, made; /* index + 1 of the first that is not in use; how many there are */

static struct entry *entry_at(uint64_t index)
{
    struct entry *chunk = chunks[index >> CHUNK_BITS];

    return chunk ? chunk + (index & MASK(CHUNK_BITS)) : NULL;
}

/* An index that is not in use; false: none. */
static bool take(uint32_t *index)
{
    struct entry *entry;

    if (unused) {
        *index = unused - 1;
        entry = entry_at(*index);
        unused = entry->next;
        return true;
    }
    if (made == 1u << INDEX_BITS)
        return false;
    if (!entry_at(made)) {
        entry = calloc(1u << CHUNK_BITS, sizeof(*entry));
        if (!entry)
            return false;
        chunks[made >> CHUNK_BITS] = entry;
    }
    *index = made++;
    return true;
}

void *nigh_nccl_table_add(enum nigh_nccl_kind kind, void *object)
{
    struct entry *entry;
    uint64_t number = 0;
    uint32_t index;

    pthread_mutex_lock(&lock);
    if (take(&index)) {
        entry = entry_at(index);
        number = (uint64_t)kind << KIND_AT | (entry->generation & MASK(GENERATION_BITS)) << GENERATION_AT |
                 (uint64_t)index << INDEX_AT;
        entry->object = object;
        entry->number = number;
    }
    pthread_mutex_unlock(&lock);
    return (void *)(uintptr_t)number;
}

static void *find(uint64_t number)
{
    struct entry *entry = entry_at(number >> INDEX_AT & MASK(INDEX_BITS));

    return entry && entry->number == number ? entry->object : NULL;
}

void *nigh_nccl_table_find(unsigned kinds, const void *number)
{
    uint64_t bits = (uint64_t)(uintptr_t)number;

    return (bits >> KIND_AT & MASK(KIND_BITS)) & kinds ? find(bits) : NULL;
}

void nigh_nccl_table_remove(const void *number)
{
    uint64_t index = (uint64_t)(uintptr_t)number >> INDEX_AT & MASK(INDEX_BITS);
    struct entry *entry = entry_at(index);

    if (!entry)
        return;
    pthread_mutex_lock(&lock);
    entry->number = 0;
    entry->object = NULL;
    entry->generation++;
    entry->next = unused;
    unused = (uint32_t)index + 1;
    pthread_mutex_unlock(&lock);
}

void nigh_nccl_table_forked(void)
{
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    unused = 0;
    for (uint32_t index = 0; index < made; index++) {
        struct entry *entry = entry_at(index);

        if (entry->number) {
            entry->inherited = entry->number;
            entry->left = entry->object;
            entry->generation++;
        }
        entry->number = 0;
        entry->object = NULL;
        entry->next = unused;
        unused = index + 1;
    }
}

bool nigh_nccl_table_inherited(const void *number)
{
    uint64_t bits = (uint64_t)(uintptr_t)number & ~(UINT64_C(1) << REQUEST_AT);
    struct entry *entry = entry_at(bits >> INDEX_AT & MASK(INDEX_BITS));

    if ((uint64_t)(uintptr_t)number >> REQUEST_AT)
        bits &= ~MASK(INDEX_AT);
    return entry && bits && entry->inherited == bits;
}

void *nigh_nccl_request_number(const void *connection, unsigned place, uint32_t serial)
{
    return (void *)(uintptr_t)(UINT64_C(1) << REQUEST_AT | (uint64_t)(uintptr_t)connection |
                               (uint64_t)place << NIGH_NCCL_SERIAL_BITS |
                               (serial & MASK(NIGH_NCCL_SERIAL_BITS)));
}

unsigned nigh_nccl_request_place(const void *request)
{
    return (unsigned)((uint64_t)(uintptr_t)request >> NIGH_NCCL_SERIAL_BITS & MASK(NIGH_NCCL_PLACE_BITS));
}

uint32_t nigh_nccl_request_serial(const void *request)
{
    return (uint32_t)((uint64_t)(uintptr_t)request & MASK(NIGH_NCCL_SERIAL_BITS));
}

void *nigh_nccl_request_find(const void *request)
{
    uint64_t bits = (uint64_t)(uintptr_t)request;

    if (!(bits >> REQUEST_AT) || !((bits >> KIND_AT & MASK(KIND_BITS)) & CONNECTIONS))
        return NULL;
    return find((bits & ~(UINT64_C(1) << REQUEST_AT)) & ~MASK(INDEX_AT));
}
