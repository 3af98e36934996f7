/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/block.h - a call that waits. It polls for a moment, then sleeps; only from there on it *blocks*: then it can be
 * seen (nigh_blocked), is asked now and then whether it waits in vain, and has a time-out.
 */
#ifndef NIGH_LIB_BLOCK_H
#define NIGH_LIB_BLOCK_H

#include "lib/core.h"

enum nigh_block_kind {
    NIGH_BLOCK_ONE = 1, /* until `operation` has ended */
    NIGH_BLOCK_ALL,     /* until all of `requests` have */
    NIGH_BLOCK_ANY,     /* until one of `requests` has */
    NIGH_BLOCK_PROBE,   /* until a message of (comm, peer, tag) is there */
    NIGH_BLOCK_ROOM,    /* until a send of (comm, peer, tag, bytes) can be posted */
};

/* What a call waits for: everything that a diagnosis needs. On the stack of the call. */
struct nigh_block {
    struct nigh_call call; /* of the program: a collective's, too, while it waits for a message of its own */
    enum nigh_block_kind kind;
    const struct nigh_operation *operation;
    const nigh_request *requests;
    int count;
    struct nigh_comm *comm; /* whose time-out holds; PROBE, ROOM: of the message */
    int peer, tag;
    uint64_t bytes;
    bool (*over)(struct nigh_block *block); /* has come what is waited for? Called after each poll */
    void *data;                             /* of `over` */
    uint64_t timeout_ns;                    /* 0: never */
    uint64_t nap_ns; /* longest sleep where nobody wakes the caller for what it waits for; 0: any */
    /* Set when it blocks. */
    uint64_t since_ns; /* tells this call from the rank's others */
    uint64_t look_ns;
    uint64_t look_every_ns; /* grows: a rank that waits for hours looks up a few times */
    uint32_t tries;         /* looks in a row that found a deadlock and could not prove it */
    bool warned, begun;
    int ended;               /* of `requests`: so many at the beginning have */
    uint64_t shown[3];       /* whom the status line names: lib/line.c */
    uint64_t tried;          /* nigh_block_try(): the serial of this rank's line then */
    struct nigh_block *next; /* nigh_blocked: calls of other threads */
};

/*
 * Waits until block->over() says so. Errors: -ETIMEDOUT; what nigh_block_look() says (-EDEADLK). Nothing has been taken
 * back then, and the sentence is the caller's to say.
 */
int nigh_block_until(struct nigh_block *block);

/* Calls of this process that block now; under the lock. */
extern struct nigh_block *nigh_blocked;

/* Does no other thread block, or may it? -EPERM (said): it does, and may not. */
int nigh_block_alone(struct nigh_call call);

/* Around all of the sleeping of one call, which has found nothing while it polled. */
void nigh_block_begin(struct nigh_block *block);
void nigh_block_end(struct nigh_block *block);

/* For `over` of NIGH_BLOCK_ROOM: posts once more if anything has moved since the last try. False: still -EAGAIN. */
bool nigh_block_try(struct nigh_block *block, int (*post)(void *data));

/*
 * Called when block->look_ns has come; sets the next one (UINT64_MAX: never again). 0: goes on waiting; a negative
 * errno ends the call with it, and has been said. lib/stall.c.
 */
int nigh_block_look(struct nigh_block *block, uint64_t now_ns);

/* Called when a peer has nudged this rank while it slept: perhaps it has something to say. Results
 * as of nigh_block_look(). */
int nigh_block_nudged(struct nigh_block *block);

#endif
