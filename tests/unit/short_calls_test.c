/* SPDX-License-Identifier: BSD-3-Clause */
/* Short calls: every operation, on both sides of each line of a slot; none becomes an ordinary call but where a member gives what
 * the others cannot know. Members show what they have done, also when their hosts make no more calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/call.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MEMBERS = 3, MOST = 80 };
static struct hosted members[MEMBERS];
static struct nigh_group *groups[MEMBERS];
static unsigned widened;

void __real_nigh_call_widen(struct nigh_call *call);
void __wrap_nigh_call_widen(struct nigh_call *call);
void __wrap_nigh_call_widen(struct nigh_call *call)
{
    widened++;
    __real_nigh_call_widen(call);
}

static void poll_all(void)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        hosted_poll(&members[i]);
}

static int start(void **state)
{
    uint64_t job = hosted_job();
    struct nigh_endpoint *to[MEMBERS][MEMBERS];

    (void)state;
    alarm(300);
    for (uint32_t i = 0; i < MEMBERS; i++)
        hosted_open(&members[i], job, i, 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t k = 0; k < MEMBERS; k++)
            to[i][k] = hosted_connect(&members[i], k);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct nigh_group_options options = {.size = sizeof(options), .count = MEMBERS, .members = to[i]};

        assert_int_equal(hosted_ops->group_create(members[i].context, &options, &groups[i]), 0);
    }
    widened = 0;
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
    for (unsigned i = 0; i < 2000; i++)
        poll_all();
    for (uint32_t i = 0; i < MEMBERS; i++)
        hosted_close(&members[i]);
    return 0;
}

static void await(unsigned i, uint64_t context)
{
    const struct nigh_completion *done;

    while (!(done = hosted_find(&members[i], NIGH_OP_COLLECTIVE, context)))
        poll_all();
    assert_int_equal(done->status, 0);
}

/* ---- every operation ----------------------------------------------------------------------------------- */

static uint32_t in[MEMBERS][MEMBERS * MOST], out[MEMBERS][MEMBERS * MOST];

static uint32_t value(uint32_t member, uint64_t k)
{
    return member * 1000 + (uint32_t)k * 7 + 1;
}

/* Element k of the first `end` members, reduced. */
static uint32_t sum(uint32_t end, uint64_t k)
{
    uint32_t all = 0;

    for (uint32_t i = 0; i < end; i++)
        all += value(i, k);
    return all;
}

/* What element k of member `me` must be; `*is`: whether there is one. */
static uint32_t expected(uint16_t op, uint32_t root, uint32_t me, uint64_t count, uint64_t k, bool *is)
{
    bool several = op == NIGH_GATHER || op == NIGH_ALLGATHER || op == NIGH_ALLTOALL;

    *is = k < (several ? MEMBERS * count : count) && op != NIGH_BARRIER;
    switch (op) {
    case NIGH_BROADCAST:
        *is &= me != root;
        return value(root, k);
    case NIGH_REDUCE:
        *is &= me == root;
        return sum(MEMBERS, k);
    case NIGH_ALLREDUCE:
        return sum(MEMBERS, k);
    case NIGH_GATHER:
        *is &= me == root;
        return count ? value((uint32_t)(k / count), k % count) : 0;
    case NIGH_ALLGATHER:
        return count ? value((uint32_t)(k / count), k % count) : 0;
    case NIGH_SCATTER:
        return value(root, me * count + k);
    case NIGH_ALLTOALL:
        return count ? value((uint32_t)(k / count), me * count + k % count) : 0;
    case NIGH_REDUCE_SCATTER:
        return sum(MEMBERS, me * count + k);
    case NIGH_SCAN:
        return sum(me + 1, k);
    default:
        *is &= me > 0 && op == NIGH_EXSCAN;
        return sum(me, k);
    }
}

static void one_call(uint16_t op, uint32_t root, uint64_t count)
{
    static uint64_t context;

    context++;
    memset(out, 0xee, sizeof(out));
    for (uint32_t n = 0; n < MEMBERS; n++) {
        uint32_t i = (uint32_t)(n + context) % MEMBERS;
        struct nigh_collective call = {
            .size = sizeof(call),
            .op = op,
            .type = op == NIGH_BARRIER ? 0 : NIGH_U32,
            .reduction =
                op == NIGH_REDUCE || op == NIGH_ALLREDUCE || op >= NIGH_REDUCE_SCATTER ? NIGH_SUM : 0,
            .root = root,
            .send = in[i],
            .recv = op == NIGH_BROADCAST && i == root ? NULL : out[i],
            .count = op == NIGH_BARRIER ? 0 : count,
            .context = context};

        assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
        hosted_poll(&members[context % MEMBERS]);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        await(i, context);
        for (uint64_t k = 0; k < MEMBERS * MOST; k++) {
            bool is;
            uint32_t must = expected(op, root, i, count, k, &is);

            assert_int_equal(out[i][k], is ? must : 0xeeeeeeee);
        }
        members[i].count = 0;
    }
}

static void test_operations(void **state)
{
    static const uint64_t counts[] = {0, 1, 2, 7, 8, 9, 23, 24, 25, 71, 72, 73, MOST};

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint64_t k = 0; k < MEMBERS * MOST; k++)
            in[i][k] = value(i, k);
    for (uint16_t op = NIGH_BARRIER; op <= NIGH_EXSCAN; op++)
        for (unsigned n = 0; n < sizeof(counts) / sizeof(counts[0]); n++)
            for (uint32_t root = 0;
                 root < (op <= NIGH_REDUCE || op == NIGH_GATHER || op == NIGH_SCATTER ? MEMBERS : 1); root++)
                if (op != NIGH_BARRIER || root == 0)
                    one_call(op, root, counts[n]);
    assert_int_equal(widened, 0);
}

/* A root whose counts the others do not know: each finds by the root's slot that the call is no short one for it. */
static void test_counts(void **state)
{
    static const uint64_t counts[] = {1, 4, 2}, offsets[] = {20, 0, 10};

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct nigh_collective call = {.size = sizeof(call),
                                       .op = NIGH_SCATTER,
                                       .type = NIGH_U32,
                                       .send = i ? NULL : in[0],
                                       .recv = out[i],
                                       .count = counts[i],
                                       .send_counts = i ? NULL : counts,
                                       .send_offsets = i ? NULL : offsets,
                                       .context = 1};

        for (uint64_t k = 0; k < MOST; k++)
            in[i][k] = value(i, k);
        assert_int_equal(hosted_ops->post_collective(groups[i], &call), 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++) {
        await(i, 1);
        assert_memory_equal(out[i], in[0] + offsets[i], counts[i] * sizeof(uint32_t));
    }
    assert_int_equal(widened, 2);
}

/* ---- what members show as done ------------------------------------------------------------------------- */

static void broadcast(uint32_t member, uint64_t context)
{
    struct nigh_collective call = {.size = sizeof(call),
                                   .flags = NIGH_COLLECTIVE_IN_PLACE,
                                   .op = NIGH_BROADCAST,
                                   .type = NIGH_U32,
                                   .recv = member ? out[member] : in[0],
                                   .count = 1,
                                   .context = context};

    assert_int_equal(hosted_ops->post_collective(groups[member], &call), 0);
}

static unsigned completed(uint32_t member)
{
    for (unsigned i = 0; i < 100; i++)
        hosted_poll(&members[member]);
    return members[member].count;
}

/* The root goes ahead by all slots, and for each call that all others have taken, by one more: they need make no other call, and
 * hear of the root's next one when they do. */
static void test_done(void **state)
{
    enum { AHEAD = NIGH_CALL_SLOTS + 40, LATER = 21 };

    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        broadcast(i, 1);
    for (uint32_t i = 0; i < MEMBERS; i++)
        await(i, 1);
    for (unsigned i = 0; i < 100; i++)
        poll_all();
    for (unsigned i = 0; i < AHEAD; i++)
        broadcast(0, 2 + i);
    assert_int_equal(completed(0), 1 + NIGH_CALL_SLOTS);
    for (unsigned i = 0; i < LATER; i++) {
        broadcast(1, 2 + i);
        broadcast(2, 2 + i);
    }
    assert_int_equal(completed(1), 1 + LATER);
    assert_int_equal(completed(2), 1 + LATER);
    assert_int_equal(completed(0), 1 + NIGH_CALL_SLOTS + LATER);
    for (unsigned i = LATER; i < AHEAD; i++) {
        broadcast(1, 2 + i);
        broadcast(2, 2 + i);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        await(i, 1 + AHEAD);
    assert_int_equal(widened, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_operations, start, stop),
        cmocka_unit_test_setup_teardown(test_counts, start, stop),
        cmocka_unit_test_setup_teardown(test_done, start, stop),
    };

    return cmocka_run_group_tests_name("short_calls", tests, NULL, NULL);
}
