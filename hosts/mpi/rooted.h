/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/rooted.h - a call in which each rank of a group gives one vector, and one of them adds them or keeps them,
 * or all keep them; or one for each. */
#ifndef NIGH_MPI_ROOTED_H
#define NIGH_MPI_ROOTED_H

#include "hosts/mpi/add.h"
#include "hosts/mpi/group.h"

struct nigh_mpi_rooted {
    struct nigh_mpi_group *group;
    const char *what; /* for people: the call's name */
    const char *send; /* this rank's vector */
    char *
        recv; /* whose it is: the sum, which may be `send`; or all vectors, where `send` may lie in its place */
    uint32_t bytes;      /* of one vector */
    uint32_t count;      /* of its elements, which are added */
    nigh_mpi_add_fn add; /* NULL: none are */
    int root;            /* NIGH_MPI_NONE: all keep them */
    bool apart;          /* and each gets another one: that for rank r lies at nigh_mpi_rooted_part() */
};

static inline const char *nigh_mpi_rooted_part(const struct nigh_mpi_rooted *call, int rank)
{
    return call->send + (uint64_t)rank * call->bytes;
}

/* Where the vector of a rank is kept. */
static inline char *nigh_mpi_rooted_place(const struct nigh_mpi_rooted *call, int rank)
{
    return call->recv + (uint64_t)rank * call->bytes;
}

/* What a rank lends to this one, where it lends once in a call. */
static inline struct nigh_mpi_arrival *nigh_mpi_rooted_arrival(const struct nigh_mpi_rooted *call, int rank)
{
    return &call->group->sources[rank].arrivals[0];
}

/* Runs one to its end, by short.h, flat.h, spread.h or exchange.h, which say who waits for whom. All ranks of the group
 * call it with the same but for `send` and `recv`. 0; or a negative errno, logged: -ECONNRESET, -EPROTO a peer has
 * ended or is broken, -EMSGSIZE one has another length. The group is broken then. */
int nigh_mpi_rooted_run(const struct nigh_mpi_rooted *call);

/* Waits from now on for the next of what a rank lends to this one, or lends a rank the first `bytes` of a slot. 0, or
 * an error, logged: mostly that the rank is gone. */
int nigh_mpi_rooted_expect(const struct nigh_mpi_rooted *call, int rank, struct nigh_mpi_arrival *arrival);
int nigh_mpi_rooted_lend(const struct nigh_mpi_rooted *call, int rank, struct nigh_mpi_slot *slot,
                         uint64_t bytes);

/* Waits for one from each other rank, at nigh_mpi_rooted_arrival(): `came` of its source is 0 until who calls has seen
 * that it has come. */
int nigh_mpi_rooted_expect_each(const struct nigh_mpi_rooted *call);

/* Tells people that a rank cannot be reached, because of `rc`, which is returned. */
int nigh_mpi_rooted_gone(const struct nigh_mpi_rooted *call, int rank, int rc);

/* What has come from a rank, which is to be so many bytes: 0, or an error as above, logged. */
int nigh_mpi_rooted_check(const struct nigh_mpi_rooted *call, int rank,
                          const struct nigh_mpi_arrival *arrival, uint64_t bytes);

/* Of a slot that has come back: 0, or an error, logged. */
int nigh_mpi_rooted_check_slot(const struct nigh_mpi_rooted *call, const struct nigh_mpi_slot *slot);

/* Waits until all that this rank has posted to the others is on its way without it. Errors as those of
 * nigh_mpi_group_let_out(). */
int nigh_mpi_rooted_let_out(const struct nigh_mpi_rooted *call);

#endif
