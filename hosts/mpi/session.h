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

/* What peers have not acknowledged yet. */
struct nigh_mpi_receipt {
    int open;   /* so many */
    int status; /* of the first that never will be: a negative errno */
};

/* Memory of ours that peers read: a part on its way. */
struct nigh_mpi_slot {
    char *memory;
    struct nigh_mpi_receipt lent;
};

/*
 * Another process, the same for all communicators. What is posted to it is counted: what finds no room in the ring
 * waits at this side, for calls that a program which waits for something else never makes.
 */
struct nigh_mpi_peer {
    struct nigh_mpi_peer *next;
    struct nigh_endpoint *endpoint;
    uint32_t uses;      /* groups that name it */
    uint32_t posted;    /* slots of its ring */
    uint32_t taken;     /* so many of them have been, at least */
    uint32_t looked_at; /* the last one for which it was seen that nothing waits */
};

/* One message to a peer that is told of when it has been taken, in the order of those of one communicator: what is
 * taken there does not wait for what is taken elsewhere. */
struct nigh_mpi_question {
    uint32_t at; /* so much had been posted to the peer before it */
    struct nigh_mpi_receipt asked;
};

/* A peer's part that is waited for. */
struct nigh_mpi_arrival {
    struct nigh_mpi_peer *from;
    void *room;            /* where it is put; NULL: it is read where it lies */
    void *data;            /* NULL: not there yet */
    uint64_t bytes, total; /* of the part, and of all that the peer takes part with */
    int status;            /* negative: it will not come */
    bool posted;
    int *alarm; /* if it is not NULL becomes `status`, or 1 of what has come, when this is over */
};

/* Joins nigh; `rank` of `ranks` are for nigh's log. 0 also when that has been done; a negative errno, logged: the
 * plugin cannot be loaded, or open() of it fails. */
int nigh_mpi_session_open(int rank, int ranks);
bool nigh_mpi_session_is_open(void);

/* Of an open session. */
const struct nigh_ops *nigh_mpi_session_nigh(void);
struct nigh_context *nigh_mpi_session_context(void);

/* MPI was told that one thread at a time calls it: the lock is left alone, which would take a tenth of a short call. */
extern bool nigh_mpi_session_alone;
void nigh_mpi_session_lock_always(void);
void nigh_mpi_session_unlock_always(void);

/* All that follows, and what it points to, belongs to who holds the lock. */
static inline void nigh_mpi_session_lock(void)
{
    if (!nigh_mpi_session_alone)
        nigh_mpi_session_lock_always();
}

static inline void nigh_mpi_session_unlock(void)
{
    if (!nigh_mpi_session_alone)
        nigh_mpi_session_unlock_always();
}

/* What calls have done. */
extern struct nigh_mpi_account nigh_mpi_session_account;

/* The peer at an address, for a group. Connected until the session ends, or its process has and no group names it any
 * more. 0 or connect()'s errors, -ENOMEM. */
int nigh_mpi_session_connect(const struct nigh_address *address, struct nigh_mpi_peer **out);
/* A group that named it is over; NULL: nothing. */
void nigh_mpi_session_let_go(struct nigh_mpi_peer *peer);

/* NIGH_CONNECTING and so on. */
uint32_t nigh_mpi_session_state(const struct nigh_mpi_peer *peer);

/* Does nothing of ours for it, or for any peer, wait at this side? */
bool nigh_mpi_session_is_out(struct nigh_mpi_peer *peer);
bool nigh_mpi_session_all_out(void);

/* Is that worth a look, behind a short message? */
bool nigh_mpi_session_may_wait(const struct nigh_mpi_peer *peer);

/* Lends the first `bytes` of a slot to a peer, a part of `total`: slot->lent is open until it is given back. 0 or
 * post_lend()'s errors. */
int nigh_mpi_session_lend(struct nigh_mpi_peer *to, struct nigh_mpi_slot *slot, uint64_t bytes,
                          uint64_t total, uint64_t tag);

/* Waits from now on for a part of at most `bytes` from arrival->from: see its other members. 0 or post_recv()'s
 * errors. */
int nigh_mpi_session_expect(struct nigh_mpi_arrival *arrival, uint64_t bytes, uint64_t tag);

/* The part has been read: gives it back to its owner. */
void nigh_mpi_session_give_back(struct nigh_mpi_arrival *arrival);

/* The same of a message of at most `bytes`, into `room`, which arrival->data then is. 0 or expect()'s errors. */
int nigh_mpi_session_expect_into(struct nigh_mpi_arrival *arrival, void *room, uint32_t bytes, uint64_t tag);

/* How many of these are posted, of all communicators. */
uint32_t nigh_mpi_session_pending(void);

/* Sends at most NIGH_INJECT_BYTES; `question`, if it is not NULL, is open until the message has been taken, and must not
 * be before. 0, or the errors of post_send(): -EAGAIN too many are on their way. */
int nigh_mpi_session_send(struct nigh_mpi_peer *to, const void *buffer, uint32_t bytes, uint64_t tag,
                          struct nigh_mpi_question *question);

/* No longer: what is posted is taken back, and `posted` is false when that is over, at a later poll. */
void nigh_mpi_session_forget(struct nigh_mpi_arrival *arrival);

/* A message without bytes, for whoever waits for one of that tag; a peer that is gone does not get it. */
void nigh_mpi_session_warn(struct nigh_mpi_peer *to, uint64_t tag);

/* Takes what has come, and files it. Returns how much that was. */
int nigh_mpi_session_poll(void);

/* Leaves nigh. Lends that are still open are withdrawn. */
void nigh_mpi_session_close(void);

/*
 * For who found nothing to do: lets MPI go on with its own messages, as peers may need that before they come to what is
 * waited for, and gives the CPU away, as there are more ranks than CPUs. `empty` counts the times in a row. Without
 * the lock.
 */
void nigh_mpi_session_idle(uint32_t empty);

#endif
