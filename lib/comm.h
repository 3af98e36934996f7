/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/comm.h - communicators. A tag of the plugin is the communicator's identifier in the upper 32 bits and the
 * program's tag in the lower: messages of two communicators cannot match, and "any tag" ignores the lower half.
 *
 * They lie in one array of address space, so that whatever a program hands in is known to be one, or not, before it is
 * looked at; one that was freed keeps its place until 1024 others have been freed.
 */
#ifndef NIGH_LIB_COMM_H
#define NIGH_LIB_COMM_H

#include "lib/core.h"
#include "lib/error.h"

#define NIGH_COMM_NAME  32
#define NIGH_COMM_BYTES 512u       /* a power of two: each call takes the remainder */
#define NIGH_COMM_MAX   (1u << 16) /* at one time */

enum nigh_comm_state { NIGH_COMM_UNUSED = 0, NIGH_COMM_ALIVE = 1, NIGH_COMM_FREED = 2 };

struct nigh_comm {
    uint32_t state; /* enum nigh_comm_state */
    uint32_t id;
    uint32_t size;
    int32_t rank;                     /* of this process */
    struct nigh_endpoint **endpoints; /* by rank; NULL: not connected yet, nigh_comm_endpoint() */
    const int32_t *inverse;           /* rank by rank of the world, -1 not in it; NULL: the same */
    const int32_t *world;             /* rank of the world by rank; NULL: the same */
    uint64_t timeout_ns;              /* 0: never */
    char name[NIGH_COMM_NAME];
    uint32_t
        deaths_untold;   /* members that died while no receive from anyone was posted: the next one is told */
    uint32_t next_freed; /* place of the one that was freed next */
    uint64_t collectives;          /* begun on it */
    struct nigh_comm_group *group; /* lib/group.c; NULL: no collective yet */
    int lost; /* a collective has lost rank lost_rank, as this error: there are no more */
    int lost_rank;
    bool lost_alive;  /* that rank's process was still there */
    const char *site; /* of the call that made it */
};

_Static_assert(sizeof(struct nigh_comm) <= NIGH_COMM_BYTES, "places are that far apart");

int nigh_comms_open(void);
void nigh_comms_close(void);

/*
 * A new communicator of `size` ranks, this one being `rank`; `world` lists their ranks in the world (copied), NULL for
 * the world itself. It is known to no other rank: whoever calls has agreed on `id`. -ENOMEM, -ENOSPC NIGH_COMM_MAX.
 */
int nigh_comm_make(uint32_t id, uint32_t size, int32_t rank, const int32_t *world, const char *name,
                   struct nigh_comm **out);

/* Makes its place unusable; the tables go when no operation of it is active any more. */
void nigh_comm_drop(struct nigh_comm *comm);

/* Is it a communicator that is alive? Safe for any pointer. */
static inline bool nigh_comm_is_good(const struct nigh_comm *comm)
{
    uint64_t offset = (uintptr_t)comm - nigh_core.comms;

    return nigh_likely(offset < nigh_core.comms_bytes) && offset % NIGH_COMM_BYTES == 0 &&
           comm->state == NIGH_COMM_ALIVE;
}

/* -EINVAL, said. */
int nigh_comm_refuse(struct nigh_call call, const struct nigh_comm *comm);

static inline int nigh_comm_check(struct nigh_call call, const struct nigh_comm *comm)
{
    return nigh_likely(nigh_comm_is_good(comm)) ? 0 : nigh_comm_refuse(call, comm);
}

/* The endpoint of a rank, connected if it is not yet; never waits. Errors: those of connect(), said. */
int nigh_comm_connect(struct nigh_call call, struct nigh_comm *comm, int rank, struct nigh_endpoint **out);

static inline int nigh_comm_endpoint(struct nigh_call call, struct nigh_comm *comm, int rank,
                                     struct nigh_endpoint **out)
{
    *out = comm->endpoints[rank];
    return nigh_likely(*out != NULL) ? 0 : nigh_comm_connect(call, comm, rank, out);
}

/* Rank in `comm` of a completion's source; NIGH_ANY_SOURCE if that is none of it. */
static inline int nigh_comm_rank_of(const struct nigh_comm *comm, uint64_t source)
{
    if (nigh_likely(comm->inverse == NULL))
        return source < comm->size ? (int)source : NIGH_ANY_SOURCE;
    return source < (uint64_t)nigh_core.ranks ? comm->inverse[source] : NIGH_ANY_SOURCE;
}

static inline int nigh_comm_to_world(const struct nigh_comm *comm, int rank)
{
    return comm->world ? comm->world[rank] : rank;
}

static inline uint64_t nigh_comm_tag(const struct nigh_comm *comm, int tag)
{
    return (uint64_t)comm->id << 32 | (uint32_t)tag;
}

/* "world", "a communicator of 3 ranks (split.c:9)", or what was given as its name. */
struct nigh_comm_text {
    char text[96];
};
struct nigh_comm_text nigh_comm_text(const struct nigh_comm *comm);

/* The first communicator with this identifier, alive or freed; NULL if its place is in other use by now. */
struct nigh_comm *nigh_comm_by_id(uint32_t id);

/* Calls `visit` for every one that is alive. */
void nigh_comms_each(void (*visit)(struct nigh_comm *comm, void *data), void *data);

#endif
