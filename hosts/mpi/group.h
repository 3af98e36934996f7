/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/group.h - what this host knows of a communicator: its peers in nigh, and memory for parts on their way.
 * It comes with the communicator's first call that may be answered, is kept as an attribute, and forms when there
 * have been enough of them.
 */
#ifndef NIGH_MPI_GROUP_H
#define NIGH_MPI_GROUP_H

#include "hosts/mpi/session.h"
#include "hosts/mpi/tree.h"

/* Parts on their way from one rank, and the room for each. With four in place of two, or with larger ones, what a chain
 * works on falls out of the cache: 8 ranks on 2 CPUs of an Emerald Rapids reduce 1 MiB in 365 us, with four in 392. */
#define NIGH_MPI_SLOTS      2u
#define NIGH_MPI_SLOT_BYTES 131072u
/* Receives posted ahead, a peer. */
#define NIGH_MPI_AHEAD 2u
/* Those that a rank hears parts from: its children, and the root. */
#define NIGH_MPI_SOURCES (NIGH_MPI_CHILDREN + 1)

/* Of short vectors, a peer. Posted ahead are as many as one poll brings; of all peers and communicators no more than
 * PENDING, and then one each, since to take one of them back is to look at all. */
#define NIGH_MPI_SHORT_BYTES    256u
#define NIGH_MPI_SHORTS_AHEAD   64u
#define NIGH_MPI_SHORTS_POSTED  32u
#define NIGH_MPI_SHORTS_PENDING 1024u

static inline bool nigh_mpi_is_short(uint64_t bytes)
{
    return bytes <= NIGH_MPI_SHORT_BYTES;
}

/* What has come from a peer, or will: posted ahead by who has been a root or in an alltoall, and taken in turn. And of
 * those to it as their root one in so many, which the next such one waits for. */
struct nigh_mpi_shorts {
    struct nigh_mpi_question question;
    uint32_t posted, taken; /* ever; the number modulo NIGH_MPI_SHORTS_POSTED is the place in what follows */
    struct nigh_mpi_arrival arrivals[NIGH_MPI_SHORTS_POSTED];
    char rooms[NIGH_MPI_SHORTS_POSTED][NIGH_MPI_SHORT_BYTES];
};

/* What a rank lends to this one, or to all: `came` parts of it are here. */
struct nigh_mpi_source {
    uint64_t came;
    struct nigh_mpi_arrival arrivals[NIGH_MPI_AHEAD];
};

/* Tags of a group's messages, behind its own, which is that of parts. */
#define NIGH_MPI_TAG_WARNINGS 1u
#define NIGH_MPI_TAG_SHORTS   2u
#define NIGH_MPI_TAG_LENT     3u

struct nigh_mpi_group {
    struct nigh_mpi_group *next; /* of those that have something in nigh */
    uint64_t weight;             /* of the calls before it formed */
    bool formed;
    bool active;  /* else MPI's own do: a CPU for each rank, several machines, no nigh */
    bool broken;  /* a call failed: so do all later ones, and what peers may still use is not freed */
    bool leaving; /* its communicator is gone */
    int me;       /* NIGH_MPI_NONE in an intercommunicator */
    int ranks, chains;
    int *chain;                   /* a rank; see tree.h */
    struct nigh_mpi_peer **peers; /* a rank; NULL of this one */
    uint64_t tag;
    struct nigh_mpi_shorts *shorts;    /* a rank */
    struct nigh_mpi_source *sources;   /* a rank, of flat.h, spread.h and exchange.h */
    char *sums;                        /* room for half as many sums as there are ranks, at a root */
    int alarm;                         /* not 0: a warning has come */
    struct nigh_mpi_arrival *warnings; /* a rank; posted as long as the group lives */
    void *memory;                      /* of all slots */
    struct nigh_mpi_slot slots[NIGH_MPI_SLOTS];
    uint64_t used; /* slots, since it was made, round and round */
    struct nigh_mpi_arrival arrivals[NIGH_MPI_SOURCES][NIGH_MPI_AHEAD];
};

/* This rank's number in a communicator; NIGH_MPI_NONE: in none, or in one between two groups. And how many there are in
 * it; 0 there. */
int nigh_mpi_group_rank(nigh_mpi_comm comm);
int nigh_mpi_group_ranks(nigh_mpi_comm comm);

/* The active group of a communicator, or NULL: this call, of so many bytes, is the MPI's. When enough bytes have come
 * by it is collective over the communicator, and so is called by all ranks or by none. */
struct nigh_mpi_group *nigh_mpi_group_of(nigh_mpi_comm comm, uint64_t bytes);

/* Waits until what this rank has posted to a peer is on its way without it. 0, or errors as below. */
int nigh_mpi_group_let_out(struct nigh_mpi_group *group, const char *what, struct nigh_mpi_peer *peer);

/* For who found nothing to do, as nigh_mpi_session_idle(); 0, or -ECONNRESET, logged: a rank has given up, or its
 * process has ended. With the session's lock, which others may have meanwhile. */
int nigh_mpi_group_idle(struct nigh_mpi_group *group, const char *what, uint32_t empty);

/* Nothing has come: takes what there is, or is idle as above; *empty counts the times in a row. With the session's
 * lock. */
int nigh_mpi_group_wait(struct nigh_mpi_group *group, const char *what, uint32_t *empty);

/* This rank gives up: the others, who may wait for it, are told. With the session's lock. */
void nigh_mpi_group_give_up(struct nigh_mpi_group *group);

#endif
