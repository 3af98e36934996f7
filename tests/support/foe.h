/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/foe.h - a peer that attaches as it should and then says whatever a test wants: its slots, credits and
 * flags are written by hand. It lives in the test's process or in a forked one; the library knows no difference. */
#ifndef NIGH_TESTS_FOE_H
#define NIGH_TESTS_FOE_H

#include "plugin/wire.h"
#include "shm/arena.h"
#include "shm/doorbell.h"
#include "shm/rendezvous.h"
#include "shm/window.h"

struct foe {
    struct nigh_arena arena;
    struct nigh_bell bell; /* its own */
    struct nigh_rendezvous *rendezvous;
    struct nigh_view view;       /* the victim's arena */
    struct nigh_window window;   /* of its ring to the victim */
    struct nigh_window theirs;   /* of the victim's ring to it */
    struct nigh_bell victim;     /* the victim's doorbell */
    struct nigh_pair *pair;      /* its lines about the victim, index 0 */
    const struct nigh_pair *own; /* the victim's lines about it */
    struct nigh_ring_tx tx;
    uint64_t ring_word;
    struct nigh_ring_rx rx; /* what the victim sends: slots NULL until it has a ring */
    uint64_t job, incarnation;
    uint32_t rank, their_index;
    bool attached;
};

/* Opens under (job, rank); incarnation 0: a number of its own. Aborts when it cannot. Pool and heap have 1 MiB each. */
void foe_open(struct foe *foe, uint64_t job, uint32_t rank, uint64_t incarnation);
/* Leaves without a word, as a process that was killed. */
void foe_close(struct foe *foe);
void foe_dial(struct foe *foe, uint32_t rank);
/* Handles the exchange. A test lets it and the victim progress in turn until `attached`. */
void foe_progress(struct foe *foe);

/* A ring of `slots`, named in the directory. */
void foe_ring(struct foe *foe, uint32_t slots);
/* Publishes a message as a sound peer would, with up to NIGH_BODY_MAX bytes, and wakes the victim. */
void foe_send(struct foe *foe, uint64_t head, uint64_t tag, uint64_t imm, const void *payload,
              uint32_t bytes);
/* The same, but word 0 claims `bytes` whatever was written, and nothing is checked. */
void foe_publish(struct foe *foe, uint64_t head, uint64_t tag, uint64_t imm, const void *payload,
                 uint32_t slots);
/* Hint and bell. */
void foe_wake(struct foe *foe);
/* The line of the arena where its pool begins, and where its heap begins, backed by memory. */
uint32_t foe_pool_line(struct foe *foe);
uint64_t foe_heap(struct foe *foe);

/* The next slot of the victim: copied to *out, true; false when there is none. Returns credit for it. */
bool foe_receive(struct foe *foe, struct nigh_slot *out);

#endif
