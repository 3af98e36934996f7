/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/counts.h - a peer that counts by hand the bytes of a message that one slot announces
 * (plugin/counted.c), the context that it sends to, and another one, which must never notice. */
#ifndef NIGH_TESTS_COUNTS_H
#define NIGH_TESTS_COUNTS_H

#include "tests/support/foe.h"
#include "tests/support/hosted.h"

enum { COUNTS_BYTES = 32768, COUNTS_STEP = 4096, COUNTS_TAG = 77 };

struct counts {
    struct hosted victim, good;
    struct foe foe;
    struct nigh_endpoint *to_foe, *to_good; /* the victim's */
    uint8_t in[1 << 16], out[1 << 16];      /* zeroes; what messages consist of */
};
extern struct counts counts;

/* Setup and teardown of a test: all are connected, and have a CPU each, as they think: who shares one counts nothing. */
int counts_open(void **state);
int counts_close(void **state);
/* Whether they think that they share CPUs. */
void counts_crowd(bool full);

/* The count in the shuttle of a window. */
uint64_t *counts_word(const struct nigh_window *window);
/* The foe says how much is there, and wakes the victim; the same behind having written it. */
void counts_say(uint64_t bytes);
void counts_fill(uint32_t from, uint32_t upto);
/* How a message of COUNTS_BYTES should begin, with a step of COUNTS_STEP. */
struct nigh_wire_first counts_first(void);
void counts_announce(const struct nigh_wire_first *first, uint32_t flags);
/* The first step of one, and the victim has seen it. */
void counts_begin(void);

#endif
