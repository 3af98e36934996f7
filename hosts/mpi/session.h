/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/mpi/session.h - this process's presence in nigh: one context for all communicators, opened when the first of
 * them needs it and closed when MPI is finalized. Threads of the program take turns at it.
 */
#ifndef NIGH_MPI_SESSION_H
#define NIGH_MPI_SESSION_H

#include "hosts/mpi/abi.h"
#include "hosts/mpi/account.h"
#include "nigh/transport.h"

#include <stdbool.h>
#include <stdint.h>

/* Memory of ours that peers read: a part on its way. */
struct nigh_mpi_slot {
    char *memory;
    int lent;   /* peers that have not given it back */
    int status; /* of the first of them that will not: a negative errno */
};

/* A peer's part that is waited for. */
struct nigh_mpi_arrival {
    struct nigh_endpoint *from;
    void *room;            /* where it is put; NULL: it is read where it lies */
    void *data;            /* NULL: not there yet */
    uint64_t bytes, total; /* of the part, and of all that the peer takes part with */
    int status;            /* negative: it will not come */
    bool posted;
    int *alarm; /* if it is not NULL becomes `status`, or 1 of what has come, when this is over */
};

/* Joins nigh; `rank` of `ranks` in the program's world, for nigh's log. 0 also when that has been done; a negative
 * errno, logged: the plugin cannot be loaded, or open() of it fails. */
int nigh_mpi_session_open(int rank, int ranks);

/* Of an open session. */
const struct nigh_ops *nigh_mpi_session_nigh(void);
struct nigh_context *nigh_mpi_session_context(void);

/* What calls have done; with the lock. */
struct nigh_mpi_account *nigh_mpi_session_account(void);

/* All that follows, slots and arrivals included, belongs to who holds the lock. */
void nigh_mpi_session_lock(void);
void nigh_mpi_session_unlock(void);

/* Lends the first `bytes` of a slot to a peer, a part of `total`: slot->lent goes up until it is given back. 0 or
 * post_lend()'s errors. */
int nigh_mpi_session_lend(struct nigh_endpoint *to, struct nigh_mpi_slot *slot, uint64_t bytes,
                          uint64_t total, uint64_t tag);

/* Waits from now on for a part of at most `bytes` from arrival->from: see its other members. 0 or post_recv()'s
 * errors. */
int nigh_mpi_session_expect(struct nigh_mpi_arrival *arrival, uint64_t bytes, uint64_t tag);

/* The part has been read: gives it back to its owner. */
void nigh_mpi_session_give_back(struct nigh_mpi_arrival *arrival);

/* The same of a message of at most `bytes`, into `room`, which arrival->data then is. 0 or expect()'s errors. */
int nigh_mpi_session_expect_into(struct nigh_mpi_arrival *arrival, void *room, uint32_t bytes, uint64_t tag);

/* Sends at most NIGH_INJECT_BYTES; `slot`, if it is not NULL, counts until the message has been received. 0, or the
 * errors of post_send(): -EAGAIN too many are on their way. */
int nigh_mpi_session_send(struct nigh_endpoint *to, const void *buffer, uint32_t bytes, uint64_t tag,
                          struct nigh_mpi_slot *slot);

/* No longer: what is posted is taken back, and `posted` is false when that is over, at a later poll. */
void nigh_mpi_session_forget(struct nigh_mpi_arrival *arrival);

/* A message without bytes, for whoever waits for one of that tag; a peer that is gone does not get it. */
void nigh_mpi_session_warn(struct nigh_endpoint *to, uint64_t tag);

/* Takes what has come, and files it. Returns how much that was. With the lock. */
int nigh_mpi_session_poll(void);

/*
 * For who found nothing to do: lets MPI go on with its own messages, as peers may need that before they come to what is
 * waited for, and gives the CPU away, as there are more ranks than CPUs. `empty` counts the times in a row. Without
 * the lock.
 */
void nigh_mpi_session_idle(uint32_t empty);

/* MPI is about to be finalized: leaves nigh, after peers have read what is still lent to them. */
void nigh_mpi_session_close(void);
bool nigh_mpi_session_is_open(void);

#endif
