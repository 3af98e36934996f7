/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/comm.c - the places of communicators: made, found, freed and, much later, used again. */
#include "lib/comm.h"
#include "lib/group.h"
#include "lib/peer.h"
#include "lib/post.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { QUARANTINE = 1024 }; /* freed places that are kept apart, so that late users are told */

static uint32_t used;                             /* places that were ever taken */
static uint32_t freed_first, freed_last, freed_n; /* those freed, in their order, by `next_freed` */

static struct nigh_comm *place(uint32_t index)
{
    return (struct nigh_comm *)(nigh_core.comms + (uintptr_t)index * NIGH_COMM_BYTES);
}

int nigh_comms_open(void)
{
    void *memory = mmap(NULL, (size_t)NIGH_COMM_MAX * NIGH_COMM_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (memory == MAP_FAILED)
        return -ENOMEM;
    nigh_core.comms = (uintptr_t)memory;
    nigh_core.comms_bytes = (uint64_t)NIGH_COMM_MAX * NIGH_COMM_BYTES;
    used = freed_n = 0;
    return 0;
}

static bool in_use(const struct nigh_comm *comm)
{
    for (uint32_t i = 0; i < nigh_core.operations_used; i++)
        if (nigh_core.operations[i].phase != NIGH_PHASE_FREE && nigh_core.operations[i].comm == comm)
            return true;
    return false;
}

static void free_tables(struct nigh_comm *comm)
{
    nigh_coll_forget(comm);
    if (comm->endpoints != nigh_core.endpoints)
        free(comm->endpoints);
    free((void *)(uintptr_t)comm->inverse);
    free((void *)(uintptr_t)comm->world);
    comm->endpoints = NULL;
    comm->inverse = comm->world = NULL;
}

void nigh_comms_close(void)
{
    if (!nigh_core.comms)
        return;
    for (uint32_t i = 0; i < used; i++)
        free_tables(place(i));
    munmap((void *)nigh_core.comms, nigh_core.comms_bytes);
    nigh_core.comms = 0;
    nigh_core.comms_bytes = 0;
}

/* The freed place that is the oldest one, NULL if it is too early for that or something still refers to it. */
static struct nigh_comm *reuse(void)
{
    struct nigh_comm *oldest = place(freed_first);

    if (freed_n <= QUARANTINE || in_use(oldest))
        return NULL;
    freed_n--;
    freed_first = oldest->next_freed;
    free_tables(oldest);
    return oldest;
}

static void append_freed(uint32_t index)
{
    if (freed_n++ == 0)
        freed_first = index;
    else
        place(freed_last)->next_freed = index;
    freed_last = index;
}

static struct nigh_comm *find_place(void)
{
    struct nigh_comm *comm = reuse();

    if (!comm && used < NIGH_COMM_MAX)
        comm = place(used++);
    return comm;
}

static int make_tables(struct nigh_comm *comm, const int32_t *world)
{
    size_t ranks = (size_t)nigh_core.ranks;
    int32_t *list, *inverse;

    if (!world) {
        comm->endpoints = nigh_core.endpoints;
        return 0;
    }
    comm->endpoints = calloc(comm->size, sizeof(struct nigh_endpoint *));
    comm->world = list = malloc(comm->size * sizeof(*list));
    comm->inverse = inverse = malloc(ranks * sizeof(*inverse));
    if (!comm->endpoints || !list || !inverse) {
        free_tables(comm);
        return -ENOMEM;
    }
    for (size_t i = 0; i < ranks; i++)
        inverse[i] = -1;
    for (uint32_t i = 0; i < comm->size; i++) {
        list[i] = world[i];
        inverse[world[i]] = (int32_t)i;
        comm->endpoints[i] = nigh_core.endpoints[world[i]];
    }
    return 0;
}

int nigh_comm_make(uint32_t id, uint32_t size, int32_t rank, const int32_t *world, const char *name,
                   struct nigh_comm **out)
{
    struct nigh_comm *comm = find_place();

    if (!comm)
        return -ENOSPC;
    *comm = (struct nigh_comm){
        .id = id,
        .size = size,
        .rank = rank,
        .timeout_ns = nigh_core.timeout_ns,
    };
    if (name)
        snprintf(comm->name, sizeof(comm->name), "%s", name);
    if (make_tables(comm, world)) {
        comm->state = NIGH_COMM_FREED;
        append_freed((uint32_t)(((uintptr_t)comm - nigh_core.comms) / NIGH_COMM_BYTES));
        return -ENOMEM;
    }
    comm->state = NIGH_COMM_ALIVE;
    *out = comm;
    return 0;
}

void nigh_comm_drop(struct nigh_comm *comm)
{
    uint32_t index = (uint32_t)(((uintptr_t)comm - nigh_core.comms) / NIGH_COMM_BYTES);

    nigh_coll_drop(comm);
    comm->state = NIGH_COMM_FREED;
    nigh_alike_forget(&nigh_lights.last);
    nigh_alike_forget(&nigh_last_recv);
    if (!in_use(comm))
        free_tables(comm);
    append_freed(index);
}

int nigh_comm_refuse(struct nigh_call call, const struct nigh_comm *comm)
{
    uint64_t offset = (uintptr_t)comm - nigh_core.comms;

    if (!comm)
        return nigh_fail(call, -EINVAL, "the communicator is NULL");
    if (offset < nigh_core.comms_bytes && offset % NIGH_COMM_BYTES == 0 && comm->state == NIGH_COMM_FREED)
        return nigh_fail(call, -EINVAL, "%s was freed by nigh_comm_free before", nigh_comm_text(comm).text);
    return nigh_fail(call, -EINVAL, "%p is no communicator", (const void *)comm);
}

int nigh_comm_connect(struct nigh_call call, struct nigh_comm *comm, int rank, struct nigh_endpoint **out)
{
    int rc = nigh_peer_connect(call, nigh_comm_to_world(comm, rank), out);

    if (!rc)
        comm->endpoints[rank] = *out;
    return rc;
}

struct nigh_comm_text nigh_comm_text(const struct nigh_comm *comm)
{
    struct nigh_comm_text text;

    if (comm->name[0])
        snprintf(text.text, sizeof(text.text), "communicator \"%s\"", comm->name);
    else
        snprintf(text.text, sizeof(text.text), "communicator %u%s%.60s%s", comm->id,
                 comm->site ? " (made at " : "", comm->site ? comm->site : "", comm->site ? ")" : "");
    return text;
}

struct nigh_comm *nigh_comm_by_id(uint32_t id)
{
    for (uint32_t i = 0; i < used; i++)
        if (place(i)->state != NIGH_COMM_UNUSED && place(i)->id == id)
            return place(i);
    return NULL;
}

void nigh_comms_each(void (*visit)(struct nigh_comm *comm, void *data), void *data)
{
    for (uint32_t i = 0; i < used; i++)
        if (place(i)->state == NIGH_COMM_ALIVE)
            visit(place(i), data);
}
