/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/ids.h - numbers for what is under way towards a peer, and the peer's numbers at the other side. Dense, so that
 * a table serves; bounded, so that a hostile peer cannot make it large. */
#ifndef NIGH_PLUGIN_IDS_H
#define NIGH_PLUGIN_IDS_H

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NIGH_IDS_MAX (UINT32_C(1) << 20)
#define NIGH_NO_ID   UINT32_MAX

struct nigh_ids {
    void **at;
    uint32_t size;
    uint32_t *unused; /* given back: used again first */
    uint32_t unused_count, next;
};

/* Makes room for `id`. -ENOMEM, -ERANGE. */
static inline int nigh_ids_fit(struct nigh_ids *ids, uint32_t id)
{
    uint32_t size = ids->size ? ids->size : 16;
    uint32_t *unused;
    void **at;

    if (id < ids->size)
        return 0;
    if (id >= NIGH_IDS_MAX)
        return -ERANGE;
    while (size <= id)
        size *= 2;
    at = realloc(ids->at, size * sizeof(*at));
    if (!at)
        return -ENOMEM;
    ids->at = at;
    unused = realloc(ids->unused, size * sizeof(*unused));
    if (!unused)
        return -ENOMEM;
    ids->unused = unused;
    memset(ids->at + ids->size, 0, (size - ids->size) * sizeof(*at));
    ids->size = size;
    return 0;
}

/* A number for `object`. -ENOMEM, -ERANGE. */
static inline int nigh_ids_take(struct nigh_ids *ids, void *object, uint32_t *id)
{
    int rc;

    if (ids->unused_count) {
        *id = ids->unused[--ids->unused_count];
    } else {
        rc = nigh_ids_fit(ids, ids->next);
        if (rc)
            return rc;
        *id = ids->next++;
    }
    ids->at[*id] = object;
    return 0;
}

static inline void nigh_ids_give(struct nigh_ids *ids, uint32_t id)
{
    ids->at[id] = NULL;
    ids->unused[ids->unused_count++] = id;
}

static inline void *nigh_ids_get(const struct nigh_ids *ids, uint64_t id)
{
    return id < ids->size ? ids->at[id] : NULL;
}

static inline void nigh_ids_destroy(struct nigh_ids *ids)
{
    free(ids->at);
    free(ids->unused);
    memset(ids, 0, sizeof(*ids));
}

#endif
