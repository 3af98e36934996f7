/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/shares.h - a root and two peers of its on one CPU, a crowd: what tests of copies for several receivers
 * begin and end with. Of one program, so all of it is static. */
#ifndef NIGH_TESTS_SHARES_H
#define NIGH_TESTS_SHARES_H

#include "tests/support/cpus.h"
#include "tests/support/hosted.h"

enum { PEERS = 2 };

static struct hosted root, peer[PEERS];
static struct nigh_endpoint *to[PEERS], *back[PEERS];
static cpu_set_t allowed;

static void shares_open(void)
{
    uint64_t job = hosted_job();

    assert_int_equal(cpus_one(&allowed), 0);
    hosted_open(&root, job, 0, 0);
    root.context->config.place_from = NIGH_SHUTTLE_BYTES + 1; /* on every CPU */
    for (unsigned p = 0; p < PEERS; p++) {
        hosted_open(&peer[p], job, p + 1, 0);
        peer[p].context->config.place_from = NIGH_SHUTTLE_BYTES + 1;
        to[p] = hosted_connect(&root, p + 1);
        back[p] = hosted_connect(&peer[p], 0);
    }
}

static int shares_close(void)
{
    for (unsigned p = 0; p < PEERS; p++)
        hosted_close(&peer[p]);
    hosted_close(&root);
    return cpus_all(&allowed);
}

static void turns(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (root.context)
            hosted_poll(&root);
        for (unsigned p = 0; p < PEERS; p++)
            if (peer[p].context)
                hosted_poll(&peer[p]);
    }
}

static const struct nigh_completion *until(struct hosted *hosted, uint16_t op, uint64_t context)
{
    const struct nigh_completion *done;

    while ((done = hosted_find(hosted, op, context)) == NULL)
        turns(1);
    return done;
}

/* Messages that went as a copy for several, so far. */
static uint64_t shared(void)
{
    return hosted_stats(&root).heap_sent;
}

#endif
