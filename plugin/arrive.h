/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/arrive.h - what a peer has published: a ring is read slot by slot, and each is handed to whom it is for. */
#ifndef NIGH_PLUGIN_ARRIVE_H
#define NIGH_PLUGIN_ARRIVE_H

#include "plugin/endpoint.h"

/* Messages taken from one peer before the next gets its turn. */
#define NIGH_TURN 64u

/* Handles what the peer has sent, at most `budget` messages. Returns how many. */
uint32_t nigh_arrive_poll(struct nigh_endpoint *endpoint, uint32_t budget);

/* Slots of its ring were read: the peer gets its credit back if that is due and would not hold our answer up. 0. */
int nigh_arrive_owing(struct nigh_endpoint *endpoint);

/* Handles the rest of what a peer that has left had published. True: there is no more, or it goes on without end. */
bool nigh_arrive_rest(struct nigh_endpoint *endpoint);
/* The payload of the slot at the cursor: a struct of plugin/wire.h, whole words and at most a slot's. Inline, so that
 * it stays in registers: memcpy() would load what has just been stored in other pieces. */
static inline __attribute__((always_inline)) void nigh_arrive_payload(const struct nigh_endpoint *endpoint,
                                                                      void *out, size_t bytes)
{
    const uint64_t *from = (const uint64_t *)(const void *)endpoint->rx.at->payload;

    /* Relaxed: RING_PEEK came before. Word by word, so that the compiler cannot read anything twice. */
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word = nigh_load_relaxed(&from[i]);

        memcpy((uint8_t *)out + 8 * i, &word, 8);
    }
}

/* ---- short.c: a lone message of one slot, in a crowd of several, too ---- */
/* nigh_arrive_poll() of a quiet ring in which there is a message, whose word 0 is `head`. */
uint32_t nigh_short_poll(struct nigh_endpoint *endpoint, uint64_t head);

#endif
