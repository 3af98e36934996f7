/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/seen.c - see seen.h. */
#include "cuda_ipc/seen.h"

#include <stdlib.h>
#include <string.h>

void nigh_cuda_seen_begin(struct nigh_cuda_seen *seen)
{
    *seen = (struct nigh_cuda_seen){.count = 0};
    pthread_mutex_init(&seen->lock, NULL);
}

/* All of these are with the lock held. */

static struct nigh_cuda_export *remove_at(struct nigh_cuda_seen *seen, unsigned i)
{
    struct nigh_cuda_export *export = seen->export[i];

    seen->count--;
    memmove(&seen->export[i], &seen -> export[i + 1], (seen->count - i) * sizeof(seen->export[0]));
    return export;
}

static void put_first(struct nigh_cuda_seen *seen, struct nigh_cuda_export *export)
{
    memmove(&seen->export[1], &seen -> export[0], seen -> count * sizeof(seen->export[0]));
    seen->export[0] = export;
    seen->count++;
}

static bool holds(const struct nigh_cuda_export *export, uint64_t at, uint64_t bytes)
{
    uint64_t base = export->wire->segment[0].base, extent = nigh_cuda_record_extent(export->wire);

    return at >= base && at - base < extent && bytes <= extent - (at - base);
}

static struct nigh_cuda_export *known(struct nigh_cuda_seen *seen, uint64_t at, uint64_t bytes,
                                      struct nigh_cuda_export **evicted)
{
    struct nigh_cuda_export *export;
    unsigned i = 0;

    while (i < seen->count && !holds(seen->export[i], at, bytes))
        i++;
    if (i == seen->count)
        return NULL;
    export = remove_at(seen, i);
    if (!nigh_cuda_export_is_current(export)) {
        *evicted = export;
        return NULL;
    }
    put_first(seen, export);
    return export;
}

/* The one to go: that which was used least of those that no message is about now, if there is one. */
static unsigned least(struct nigh_cuda_seen *seen)
{
    for (unsigned i = seen->count; i > 0; i--)
        if (!nigh_cuda_export_is_shared(seen->export[i - 1]))
            return i - 1;
    return seen->count - 1;
}

/* What was seen already, under another of its addresses, is not kept twice. */
static void keep(struct nigh_cuda_seen *seen, struct nigh_cuda_export *export,
                 struct nigh_cuda_export **evicted)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->export[i] == export)
            return;
    if (seen->count == NIGH_CUDA_SEEN_MAX)
        *evicted = remove_at(seen, least(seen));
    nigh_cuda_export_use(export);
    put_first(seen, export);
}

static int find(struct nigh_cuda_seen *seen, struct nigh_cuda *cuda, const void *at, uint64_t bytes,
                struct nigh_cuda_export **out, struct nigh_cuda_export **evicted)
{
    struct nigh_cuda_memory *memory;
    int rc;

    *out = known(seen, (uintptr_t)at, bytes, evicted);
    if (*out) {
        nigh_cuda_export_use(*out);
        return 0;
    }
    rc = nigh_cuda_look(cuda, at, bytes, &memory);
    if (rc || !memory)
        return rc;
    rc = nigh_cuda_export_get(cuda, memory, out);
    free(memory);
    if (!rc)
        keep(seen, *out, evicted);
    return rc;
}

int nigh_cuda_seen_find(struct nigh_cuda_seen *seen, struct nigh_cuda *cuda, const void *at, uint64_t bytes,
                        struct nigh_cuda_export **out, struct nigh_cuda_export **evicted)
{
    struct nigh_cuda_export *found = NULL;
    int rc;

    *evicted = NULL;
    pthread_mutex_lock(&seen->lock);
    rc = find(seen, cuda, at, bytes, &found, evicted);
    pthread_mutex_unlock(&seen->lock);
    if (!rc)
        *out = found;
    return rc;
}

bool nigh_cuda_seen_keeps(struct nigh_cuda_seen *seen, const struct nigh_cuda_export *export)
{
    bool keeps = false;

    pthread_mutex_lock(&seen->lock);
    for (unsigned i = 0; i < seen->count; i++)
        keeps |= seen->export[i] == export;
    pthread_mutex_unlock(&seen->lock);
    return keeps;
}

struct nigh_cuda_export *nigh_cuda_seen_take(struct nigh_cuda_seen *seen)
{
    struct nigh_cuda_export *export;

    pthread_mutex_lock(&seen->lock);
    export = seen->count ? remove_at(seen, 0) : NULL;
    pthread_mutex_unlock(&seen->lock);
    return export;
}

void nigh_cuda_seen_end(struct nigh_cuda_seen *seen)
{
    pthread_mutex_destroy(&seen->lock);
}
