/* SPDX-License-Identifier: BSD-3-Clause */
/* Two contexts dial each other; one hears the other's greeting only when it has read the answer to its own, left, and dialled
 * once more: a greeting of a connection that it has left, which says nothing about the one that it is at. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "shm/rendezvous.h"
#include "tests/support/hosted.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <time.h>

enum { PAUSE_NS = 150000000, HEARD = 7 }; /* longer than a listener that failed to accept waits */

static struct hosted a, b;

static void listener_is_late(void **state)
{
    uint64_t job = hosted_job();
    const struct timespec pause = {.tv_nsec = PAUSE_NS};
    struct nigh_endpoint *first, *second;
    uint32_t word = 5, got = 0;

    (void)state;
    hosted_open(&a, job, 0, 0);
    hosted_open(&b, job, 1, 0);
    first = hosted_connect(&a, 1);
    hosted_connect(&b, 0);
    nigh_rendezvous_progress(b.context->rendezvous);
    osfail_install();
    osfail_arm(OSFAIL_accept4, 1, EMFILE);
    nigh_rendezvous_progress(a.context->rendezvous);
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(hosted_state(&a, first), NIGH_READY);
    assert_int_equal(hosted_ops->disconnect(first), 0);
    second = hosted_connect(&a, 1);
    nanosleep(&pause, NULL);
    nigh_rendezvous_progress(a.context->rendezvous); /* listens again */
    nigh_rendezvous_progress(a.context->rendezvous);
    assert_int_equal(hosted_state(&a, second), NIGH_CONNECTING);
    assert_int_equal(hosted_recv(&b, NULL, HEARD, 1, &got, sizeof(got), 0), 0);
    assert_int_equal(hosted_send(second, 1, 1, &word, sizeof(word), 0), 0);
    hosted_until(&b, &a, NIGH_OP_RECV, HEARD);
    assert_int_equal(got, word);
    assert_int_equal(hosted_state(&a, second), NIGH_READY);
    hosted_close(&a);
    hosted_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(listener_is_late)};

    hosted_quiet = true;
    return cmocka_run_group_tests_name("stale_greeting", tests, NULL, NULL);
}
