/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/collective.h - one rank's part in a collective.
 *
 * Each begins with an *agreement*: ceil(log2 n) rounds of dissemination in which every message carries a mark, a number
 * made of the call and its arguments, in its immediate. After the last round each rank has heard, directly or not, from
 * every other: either all marks are equal, and every rank knows that, or every rank knows that they are not; then all
 * exchange what they call, and each says so. Nobody's data have moved before. What is short travels with these
 * messages; for the rest there is a second phase, which needs no more checks.
 *
 * A rank that fails on its way (somebody has died, its time-out has passed) tells all others: its *abort* is the next
 * message that they get from it, whatever they wait for, and they fail, too. It leaves sinks behind, which take what
 * others had sent to it already, so that no send of theirs waits for ever.
 *
 * All messages of one collective have one tag, made of its number in the communicator: between two
 * ranks order does the rest.
 */
#ifndef NIGH_LIB_COLLECTIVE_H
#define NIGH_LIB_COLLECTIVE_H

#include "lib/comm.h"
#include "lib/control.h"
#include "lib/request.h"

/* Up to so many bytes from all ranks together travel with the agreement: every rank gets them all. */
#define NIGH_COLL_SMALL 16384u
/* The same where each rank needs only its own part of every other's: the parts for others go along in vain. With 2 and
 * 3 ranks the ways are alike at 4 to 8 KiB. */
#define NIGH_COLL_SMALL_PARTS 4096u

enum { NIGH_COLL_ROUNDS = 16 }; /* log2 of NIGH_MAX_RANKS */

/* Which call it is. Those up to NIGH_EXSCAN are of enum nigh_collective_op. */
enum nigh_coll_what {
    NIGH_COLL_DUP = 32,
    NIGH_COLL_SPLIT,
    NIGH_COLL_WIN_ALLOCATE,
    NIGH_COLL_WIN_CREATE,
    NIGH_COLL_WIN_FREE,
    NIGH_COLL_WIN_FENCE,
};

/* Which arguments it has, that must be equal on all ranks. */
enum nigh_coll_has {
    NIGH_COLL_COUNT = 1, /* and a type */
    NIGH_COLL_OP = 2,
    NIGH_COLL_ROOT = 4,
    NIGH_COLL_WINDOW = 8, /* its number is in `count` */
};

/* What goes to and comes from one rank in the second phase. */
struct nigh_coll_peer {
    const void *out;
    void *in;
    uint64_t out_bytes, in_bytes;
    struct nigh_operation *sending, *receiving; /* at most one each way; NULL: none */
};

struct nigh_coll {
    /* The call: set by whoever begins. */
    struct nigh_call call;
    struct nigh_comm *comm;
    int what; /* enum nigh_collective_op or nigh_coll_what */
    unsigned has;
    uint64_t count;
    int type, op, root;
    const void *send;
    void *recv;
    int refused; /* error of this rank's own, said already: it only takes part so that the others hear of it */
    /* By nigh_coll_begin(). */
    int me, size, tag;
    uint64_t width, bytes; /* of an element, of `count` elements */
    uint64_t deadline_ns;  /* 0: none */
    /* On the way. */
    int failed;  /* the error that has ended it: all others have been told */
    int told_by; /* the rank whose abort ended it, -1 */
    bool posted; /* something: others may have seen that this rank takes part */
    struct nigh_operation *round_in, *round_out[NIGH_COLL_ROUNDS];
    struct nigh_coll_peer *peers;
    void *room; /* what nigh_coll_room() has allocated */
};

/*
 * Fills in the rest, takes the next number of the communicator. -ECONNRESET, -EPROTO (said and told): a rank of it is
 * dead; nigh_coll_end() must follow all the same. It fails here, because not all ranks have failed in the same call:
 * some had got all they needed, and are a call ahead. They would wait for ranks that never come.
 */
int nigh_coll_begin(struct nigh_coll *coll);

/* Takes everything back that is under way and frees memory; returns `rc`. */
int nigh_coll_end(struct nigh_coll *coll, int rc);

/*
 * 64-byte aligned memory until the end, once per collective; 0 bytes are some, too. NULL: refused with -ENOMEM,
 * which the agreement then tells everybody.
 */
void *nigh_coll_room(struct nigh_coll *coll, uint64_t bytes);

/* Memory for coll->peers, all empty; the same on failure. False: refused. */
bool nigh_coll_meet_peers(struct nigh_coll *coll);

/* ---- agreement: each of the three ends with the agreement of all; errors (said): -EPROTO another rank calls something
 * else, or its call was refused; coll->refused; and those of nigh_coll_await() ---- */

int nigh_coll_agree(struct nigh_coll *coll);

/* Every rank's `block` bytes at every rank: *all points at this rank's own, behind it come those of the
 * next rank and so on, around the end. */
int nigh_coll_share(struct nigh_coll *coll, const void *mine, uint64_t block, const uint8_t **all);

/* The root's `bytes` at every rank: *all points at them. `mine` is the root's own. */
int nigh_coll_cast(struct nigh_coll *coll, const void *mine, uint64_t bytes, const uint8_t **all);

/* Place of `rank` in what nigh_coll_share() gives. */
static inline uint64_t nigh_coll_place(const struct nigh_coll *coll, int rank)
{
    return (uint64_t)((rank - coll->me + coll->size) % coll->size);
}

/* ---- messages; `tell` is what the immediate says. Errors are said and have been told to all others ---- */

int nigh_coll_isend(struct nigh_coll *coll, int to, const void *buffer, uint64_t bytes, uint64_t tell,
                    struct nigh_operation **out);
int nigh_coll_irecv(struct nigh_coll *coll, int from, void *buffer, uint64_t bytes,
                    struct nigh_operation **out);

/*
 * Waits for one, which is NULL afterwards; NULL is done already. *told, if not NULL: the immediate. Errors:
 * -ECONNRESET, -EPROTO somebody has died or left, which may be another rank; -ETIMEDOUT; -EDEADLK.
 */
int nigh_coll_await(struct nigh_coll *coll, struct nigh_operation **operation, uint64_t *told);

/* Ends the collective for all: `error` (said) happened to this rank with `culprit`, a rank or -1. Returns `error`. */
int nigh_coll_fail(struct nigh_coll *coll, int error, int culprit);

/* Does an immediate say that its sender has failed? */
bool nigh_coll_is_abort(uint64_t told);

/* The communicator has lost a rank (comm->lost): says so, tells all others. Returns the error. */
int nigh_coll_fail_again(struct nigh_coll *coll);

/* ---- the second phase ---- */

/* Starts all of coll->peers that have bytes. */
int nigh_coll_swap(struct nigh_coll *coll);
/* Waits for all that is under way with all of them. */
int nigh_coll_drain(struct nigh_coll *coll);
/* When all is done: has somebody failed that this rank did not wait for? What it has sent him is lost. */
int nigh_coll_look_back(struct nigh_coll *coll);

/* ---- sinks ---- */

/* Takes what comes from everybody with the tag of this collective, until each has sent its abort. */
void nigh_coll_sink(const struct nigh_coll *coll);
/* All ranks have left every earlier collective of the communicator: none is needed any more. */
void nigh_coll_unsink(struct nigh_comm *comm);

/* ---- the calls, from where they were checked on ---- */

int nigh_coll_run_moving(struct nigh_coll *coll);
int nigh_coll_run_reducing(struct nigh_coll *coll);

/* "nigh_bcast(count 100, NIGH_F32, root 0) at a.c:10". */
struct nigh_sentence nigh_coll_text(const struct nigh_coll *coll);

/* A collective that does nothing but agree: the beginning of nigh_comm_dup() and the like. `refused`: 0, or what this
 * rank has found wrong with its own arguments, which is returned then. */
int nigh_coll_meet(struct nigh_call call, struct nigh_comm *comm, enum nigh_coll_what what, int refused);

#endif
