/* SPDX-License-Identifier: BSD-3-Clause */
/* A multi-receive buffer for whose first message there is no room in the completion queue: it ends, and that message is
 * still before the next one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <unistd.h>

enum { TAG = 7 };

static struct hosted from, at;
static struct nigh_endpoint *to;

static int open_two(void **state)
{
    uint64_t job = hosted_job(), word = 0;

    (void)state;
    alarm(300);
    hosted_open(&from, job, 0, 0);
    hosted_open(&at, job, 1, 0);
    to = hosted_connect(&from, 1);
    /* from then on there is an operation to take */
    assert_int_equal(hosted_recv(&at, NULL, 1, 1, &word, 8, 0), 0);
    assert_int_equal(hosted_send(to, 1, 1, &word, 8, 0), 0);
    (void)hosted_until(&at, &from, NIGH_OP_RECV, 1);
    return 0;
}

static int close_two(void **state)
{
    (void)state;
    hosted_close(&from);
    hosted_close(&at);
    return 0;
}

/* All that the queue has room for but `left`. Returns how much that is. */
static uint32_t fill(struct nigh_cq *cq, uint32_t left)
{
    uint32_t count = 0;

    while (nigh_cq_reserve(cq, 1) == 0)
        count++;
    nigh_cq_unreserve(cq, left);
    return count - left;
}

static void test_no_room_for_what_waits(void **state)
{
    struct nigh_cq *cq = &at.context->cq;
    uint64_t first = 11, second = 22, word = 0;
    uint8_t room[64];
    uint32_t filled;

    (void)state;
    assert_int_equal(hosted_send(to, 2, TAG, &first, 8, 0), 0);
    for (unsigned i = 0; !at.context->matcher.arrived_count; i++) {
        assert_true(i < 100000);
        hosted_turns(&from, &at, 10);
    }
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    filled = fill(cq, 1);
    assert_int_equal(hosted_recv(&at, NULL, 3, TAG, room, sizeof(room), NIGH_MULTI), 0);
    osfail_remove();
    nigh_cq_unreserve(cq, filled);
    assert_int_equal(hosted_until(&at, &from, NIGH_OP_RECV, 3)->status, -ENOMEM);
    assert_int_equal(nigh_match_posted(&at.context->matcher), 0);

    assert_int_equal(hosted_send(to, 4, TAG, &second, 8, 0), 0);
    assert_int_equal(hosted_recv(&at, NULL, 5, TAG, &word, 8, 0), 0);
    (void)hosted_until(&at, &from, NIGH_OP_RECV, 5);
    assert_int_equal(word, first);
    assert_int_equal(hosted_recv(&at, NULL, 6, TAG, &word, 8, 0), 0);
    (void)hosted_until(&at, &from, NIGH_OP_RECV, 6);
    assert_int_equal(word, second);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_no_room_for_what_waits, open_two, close_two),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
