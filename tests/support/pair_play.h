/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/pair_play.h - one thread's part in a case: between pair.c, which scenarios call, and pair_run.c, which
 * calls scenarios. */
#ifndef NIGH_TESTS_PAIR_PLAY_H
#define NIGH_TESTS_PAIR_PLAY_H

#include "tests/support/pair.h"
#include <setjmp.h>

enum { PAIR_WRITING = 1, PAIR_FAILED, PAIR_SKIPPED };

/* What all sides of a case see. */
struct pair_shared {
    uint32_t verdict; /* 0: nothing said yet */
    uint32_t met[2];
    char text[1024];
    volatile uint64_t words[16];
};

struct pair_queue {
    struct nigh_completion *at;
    uint32_t count, room;
};

struct pair_play {
    struct pair pair;
    struct pair_end ends[2];
    struct pair_queue queues[2];
    struct pair_shared *shared;
    const char *name;
    uint64_t deadline; /* of pair_now_ms() */
    uint32_t idle;
    uint32_t polls;
    sigjmp_buf out;
};

/* The part that this thread plays. */
extern _Thread_local struct pair_play *pair_now;

uint64_t pair_now_ms(void);

#endif
