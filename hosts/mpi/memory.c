/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/memory.c - see memory.h. */
#include "hosts/mpi/memory.h"
#include "hosts/mpi/log.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/*
 * One that was released is kept, up to so much: malloc() has the kernel map large memory for each call anew, page by page, which
 * takes longer than to pack. How long it is stands before it.
 */
#define KEPT_MAX (32u << 20)
#define HEAD     64u
static char *kept;
static pthread_mutex_t kept_lock = PTHREAD_MUTEX_INITIALIZER; /* whoever has it waits for nothing */

static char *exchange(char *memory)
{
    char *before;

    pthread_mutex_lock(&kept_lock);
    before = kept;
    kept = memory;
    pthread_mutex_unlock(&kept_lock);
    return before;
}

static uint64_t length_of(const char *memory)
{
    uint64_t bytes = 0;

    if (memory)
        memcpy(&bytes, memory - HEAD, sizeof(bytes));
    return bytes;
}

static void discard(char *memory)
{
    if (memory)
        free(memory - HEAD);
}

char *nigh_mpi_memory(const char *what, uint64_t bytes)
{
    char *memory = exchange(NULL);

    if (memory && length_of(memory) >= bytes)
        return memory;
    discard(memory);
    memory = bytes < UINT64_MAX / 2 ? malloc(HEAD + bytes) : NULL;
    if (!memory) {
        nigh_mpi_log("%s: no memory for %llu bytes to pack", what, (unsigned long long)bytes);
        return NULL;
    }
    memcpy(memory, &bytes, sizeof(bytes));
    return memory + HEAD;
}

void nigh_mpi_memory_release(char *memory)
{
    if (length_of(memory) <= KEPT_MAX)
        memory = exchange(memory);
    discard(memory);
}
