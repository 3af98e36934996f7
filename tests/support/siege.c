/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/siege.c - three contexts, of which one is written by hand, until they have met. */
#include "tests/support/siege.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <unistd.h>

void siege_open(struct hosted *victim, struct foe *foe, struct hosted *good, struct nigh_endpoint **to_foe,
                struct nigh_endpoint **to_good)
{
    uint64_t job = hosted_job();

    hosted_open(victim, job, 0, 0);
    hosted_open(good, job, 2, 0);
    foe_open(foe, job, 1, 0);
    *to_foe = hosted_connect(victim, 1);
    *to_good = hosted_connect(victim, 2);
    for (unsigned i = 0; !foe->attached || hosted_state(victim, *to_foe) != NIGH_READY ||
                         hosted_state(victim, *to_good) != NIGH_READY;
         i++) {
        assert_true(i < 100000);
        foe_progress(foe);
        hosted_turns(victim, good, 10);
        usleep(100);
    }
    foe_ring(foe, 512);
}

void siege_close(struct hosted *victim, struct foe *foe, struct hosted *good)
{
    foe_close(foe);
    hosted_close(victim);
    hosted_close(good);
}
