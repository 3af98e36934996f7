/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/counts.c - see counts.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/shared.h"
#include "tests/support/counts.h"
#include <string.h>
#include <unistd.h>

struct counts counts;

int counts_open(void **state)
{
    uint64_t job = hosted_job();

    (void)state;
    alarm(300);
    hosted_open(&counts.victim, job, 0, 0);
    hosted_open(&counts.good, job, 2, 0);
    foe_open(&counts.foe, job, 1, 0);
    counts.to_foe = hosted_connect(&counts.victim, 1);
    counts.to_good = hosted_connect(&counts.victim, 2);
    for (unsigned i = 0; !counts.foe.attached || hosted_state(&counts.victim, counts.to_foe) != NIGH_READY ||
                         hosted_state(&counts.victim, counts.to_good) != NIGH_READY;
         i++) {
        assert_true(i < 100000);
        foe_progress(&counts.foe);
        hosted_turns(&counts.victim, &counts.good, 10);
        usleep(100);
    }
    foe_ring(&counts.foe, 512);
    assert_int_equal(nigh_window_back_shuttle(&counts.foe.window, &counts.foe.arena, 65536), 0);
    for (uint32_t i = 0; i < sizeof(counts.out); i++)
        counts.out[i] = (uint8_t)(i * 7 + i / 251);
    memset(counts.in, 0, sizeof(counts.in));
    counts_crowd(false);
    return 0;
}

void counts_crowd(bool full)
{
    counts.victim.context->crowd.full = counts.good.context->crowd.full = full;
}

int counts_close(void **state)
{
    (void)state;
    foe_close(&counts.foe);
    hosted_close(&counts.victim);
    hosted_close(&counts.good);
    return 0;
}

uint64_t *counts_word(const struct nigh_window *window)
{
    return (uint64_t *)(void *)(nigh_window_shuttle(window) + NIGH_SHUTTLE_COUNT);
}

void counts_say(uint64_t bytes)
{
    nigh_store_release(counts_word(&counts.foe.window), bytes, COUNT_SET);
    foe_wake(&counts.foe);
}

void counts_fill(uint32_t from, uint32_t upto)
{
    memcpy(nigh_window_shuttle(&counts.foe.window) + from, counts.out + from, upto - from);
    counts_say(upto);
}

struct nigh_wire_first counts_first(void)
{
    return (struct nigh_wire_first){
        .total = COUNTS_BYTES, .eager = COUNTS_BYTES, .id = 3, .bytes = COUNTS_STEP};
}

void counts_announce(const struct nigh_wire_first *first, uint32_t flags)
{
    foe_send(&counts.foe, nigh_head_make(NIGH_K_FIRST, 0, 0, flags), COUNTS_TAG, 5, first, sizeof(*first));
}

void counts_begin(void)
{
    struct nigh_wire_first first = counts_first();

    counts_fill(0, COUNTS_STEP);
    counts_announce(&first, NIGH_F_SHUTTLE | NIGH_F_COUNTED);
    hosted_turns(&counts.victim, NULL, 20);
}
