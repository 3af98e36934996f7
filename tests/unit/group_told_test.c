/* SPDX-License-Identifier: BSD-3-Clause */
/* What the members of a group tell each other where results alone do not show it: which calls are done, that a group has ended and why;
 * and what a slot of a call still says to the call that uses it next. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/call.h"
#include "shm/shared.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHORTS = 3, LONG = 4 << 20, FIRST = 1, LAST = 100 };

static struct hosted one, other;
static struct nigh_endpoint *one_to[2], *other_to[2];

static struct nigh_group *make(struct hosted *hosted, struct nigh_endpoint **to)
{
    struct nigh_group_options options = {.size = sizeof(options), .count = 2, .members = to};
    struct nigh_group *group;

    assert_int_equal(hosted_ops->group_create(hosted->context, &options, &group), 0);
    return group;
}

static int start(void **state)
{
    (void)state;
    alarm(300);
    one_to[1] = hosted_open_pair(&one, &other, 0);
    one_to[0] = hosted_connect(&one, 0);
    other_to[0] = hosted_connect(&other, 0);
    other_to[1] = hosted_connect(&other, 1);
    hosted_meet(&one, one_to[1], &other, other_to[0]);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    hosted_close_pair(&one, &other);
    return 0;
}

static void post(struct nigh_group *group, struct nigh_collective call, uint64_t context)
{
    call.size = sizeof(call);
    call.context = context;
    assert_int_equal(hosted_ops->post_collective(group, &call), 0);
}

static const struct nigh_collective barrier = {.op = NIGH_BARRIER};

/* A call of both that completes well. */
static void both(struct nigh_group *const groups[2], const struct nigh_collective calls[2])
{
    one.count = other.count = 0;
    post(groups[0], calls[0], LAST);
    post(groups[1], calls[1], LAST);
    assert_int_equal(hosted_until(&one, &other, NIGH_OP_COLLECTIVE, LAST)->status, 0);
    assert_int_equal(hosted_until(&other, &one, NIGH_OP_COLLECTIVE, LAST)->status, 0);
}

static void make_both(struct nigh_group *groups[2])
{
    const struct nigh_collective calls[2] = {barrier, barrier};

    groups[0] = make(&one, one_to);
    groups[1] = make(&other, other_to);
    both(groups, calls);
    hosted_turns(&one, &other, 100);
}

static void leave(struct nigh_group *const groups[2])
{
    assert_int_equal(hosted_ops->group_free(groups[0]), 0);
    assert_int_equal(hosted_ops->group_free(groups[1]), 0);
    hosted_turns(&one, &other, 3000);
}

/* The other member is ahead by some short calls, so that ours complete when they are posted. Returns our calls before. */
static uint64_t post_shorts(struct nigh_group *const groups[2])
{
    uint64_t before = groups[0]->posted;

    assert_int_equal(groups[0]->board->done, before);
    for (unsigned i = 0; i < SHORTS; i++)
        post(groups[1], barrier, FIRST + i);
    for (unsigned i = 0; i < SHORTS; i++)
        post(groups[0], barrier, FIRST + i);
    assert_int_equal(groups[0]->done, before + SHORTS);
    assert_int_equal(groups[0]->board->done, before);
    return before;
}

/* ---- which calls are done ------------------------------------------------------------------------------ */

/* A host that takes one completion at a time, while a long call moves in each pass. */
static void test_done_before_long(void **state)
{
    struct nigh_collective call = {
        .op = NIGH_ALLREDUCE, .type = NIGH_U32, .reduction = NIGH_SUM, .count = LONG / 4};
    uint32_t *memory = calloc(4, LONG);
    struct nigh_group *groups[2];
    struct nigh_completion done;
    uint64_t before;
    unsigned taken = 0;

    (void)state;
    assert_non_null(memory);
    make_both(groups);
    one.count = other.count = 0;
    before = post_shorts(groups);
    call.send = memory;
    call.recv = memory + LONG / 4;
    post(groups[1], call, LAST);
    call.send = memory + LONG / 2;
    call.recv = memory + LONG / 4 * 3;
    post(groups[0], call, LAST);
    while (groups[0]->first && groups[0]->board->done == before) {
        hosted_poll(&other);
        taken += hosted_ops->poll_completions(one.context, &done, 1) > 0;
    }
    assert_in_range(taken, 1, SHORTS);
    assert_non_null(groups[0]->first);
    assert_int_equal(groups[0]->board->done, before + SHORTS);
    assert_int_equal(hosted_until(&one, &other, NIGH_OP_COLLECTIVE, LAST)->status, 0);
    assert_int_equal(hosted_until(&other, &one, NIGH_OP_COLLECTIVE, LAST)->status, 0);
    leave(groups);
    free(memory);
}

/* Members wait for it: a pass that has shown nothing else has moved. */
static void test_done_is_a_move(void **state)
{
    struct nigh_group *groups[2];

    (void)state;
    make_both(groups);
    post_shorts(groups);
    assert_true(nigh_coll_progress(groups[0]->coll));
    assert_int_equal(groups[0]->board->done, groups[0]->posted);
    assert_false(nigh_coll_progress(groups[0]->coll));
    hosted_turns(&one, &other, 100);
    leave(groups);
}

/* ---- the end of a group -------------------------------------------------------------------------------- */

static bool is_asleep(const struct nigh_member *member)
{
    return member->asleep && nigh_load_relaxed(member->asleep);
}

static void *sleep_for_end(void *arg)
{
    while (!hosted_find(&other, NIGH_OP_COLLECTIVE, LAST)) {
        (void)hosted_ops->wait(other.context, UINT64_C(20000000000));
        hosted_poll(&other);
    }
    return arg;
}

/* A host ends a group that is still forming for its member, not for the other one, which sleeps. */
static void test_ended_while_forming(void **state)
{
    const uint32_t *bell;
    struct nigh_group *groups[2];
    pthread_t sleeper;
    uint32_t rung;

    (void)state;
    hosted_turns(&one, &other, 100);
    one.count = other.count = 0;
    groups[0] = make(&one, one_to);
    hosted_poll(&one); /* it has met the other member, and has shown its key */
    assert_int_equal(groups[0]->state, NIGH_GROUP_FORMING);
    assert_true(groups[0]->key != 0);
    groups[1] = make(&other, other_to);
    post(groups[1], barrier, LAST);
    for (unsigned i = 0; i < 100 && groups[1]->state == NIGH_GROUP_FORMING; i++)
        hosted_poll(&other);
    assert_int_equal(groups[1]->state, NIGH_GROUP_READY);
    assert_int_equal(groups[0]->state, NIGH_GROUP_FORMING);
    assert_non_null(groups[0]->members[1].link.bell);
    bell = &groups[0]->members[1].link.bell->shared->bell;
    assert_int_equal(pthread_create(&sleeper, NULL, sleep_for_end, NULL), 0);
    while (!is_asleep(&groups[0]->members[1]))
        usleep(1000);
    rung = nigh_load_relaxed(bell);
    assert_int_equal(hosted_ops->group_end(groups[0], -EIO, "ended while it forms"), 0);
    assert_int_not_equal(nigh_load_relaxed(bell), rung);
    assert_int_equal(pthread_join(sleeper, NULL), 0);
    assert_int_equal(hosted_find(&other, NIGH_OP_COLLECTIVE, LAST)->status, -EIO);
    leave(groups);
}

/* A peer's text steers nobody's terminal. */
static void test_text(void **state)
{
    struct nigh_query_group facts = {.size = sizeof(facts)};
    struct nigh_group *groups[2];

    (void)state;
    make_both(groups);
    one.count = other.count = 0;
    post(groups[1], barrier, LAST);
    assert_int_equal(hosted_ops->group_end(groups[0], -EIO, "a\033[31mb\n\177c"), 0);
    assert_int_equal(hosted_until(&other, &one, NIGH_OP_COLLECTIVE, LAST)->status, -EIO);
    assert_int_equal(hosted_ops->query_group(groups[1], &facts), 0);
    assert_string_equal(facts.text, "a?[31mb??c");
    leave(groups);
}

/* ---- slots that are used again ------------------------------------------------------------------------- */

/* A call of which a member gives nothing, in a slot that says where the parts of an earlier call lie. */
static void test_nothing_behind_parts(void **state)
{
    static const uint64_t sends[2][2] = {{500, 100}, {300, 700}}, keeps[2][2] = {{500, 300}, {100, 700}},
                          none[2] = {0, 0};
    static uint32_t in[2][1000], out[2][1000];
    struct nigh_collective calls[2], barriers[2] = {barrier, barrier};
    struct nigh_group *groups[2];

    (void)state;
    make_both(groups);
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < 1000; k++)
            in[i][k] = i * 1000 + k;
        calls[i] = (struct nigh_collective){.op = NIGH_ALLTOALL,
                                            .type = NIGH_U32,
                                            .send = in[i],
                                            .recv = out[i],
                                            .send_counts = sends[i],
                                            .recv_counts = keeps[i]};
    }
    both(groups, calls);
    assert_int_equal(out[0][500], 1000);
    assert_int_equal(out[1][0], 500);
    for (unsigned i = 1; i < NIGH_CALL_SLOTS; i++)
        both(groups, barriers);
    /* Short for the first member, which stores no more than it must; the other one reads the slot as that of any call. */
    calls[0].send_counts = calls[0].recv_counts = NULL;
    calls[1].send_counts = calls[1].recv_counts = none;
    both(groups, calls);
    leave(groups);
}

/* ---- buffers of nothing -------------------------------------------------------------------------------- */

/* They overlap nothing, wherever they lie: in the middle of the other buffer, or both at one place. */
static void test_empty_buffers(void **state)
{
    static const uint64_t some[2] = {0, 8}, none[2] = {0, 0};
    static uint32_t memory[2][16];
    struct nigh_collective calls[2];
    struct nigh_group *groups[2];

    (void)state;
    make_both(groups);
    /* Member 1 sends 8 to itself and to member 0 nothing; each way is of no length for member 0. */
    for (unsigned i = 0; i < 2; i++)
        calls[i] = (struct nigh_collective){.op = NIGH_ALLTOALL,
                                            .type = NIGH_U32,
                                            .send = memory[i] + 4,
                                            .recv = memory[i] + (i ? 4 + 8 : 4),
                                            .send_counts = i ? some : none,
                                            .recv_counts = i ? some : none};
    calls[1].send = memory[1];
    calls[1].recv = memory[1] + 8;
    both(groups, calls);
    for (unsigned i = 0; i < 2; i++)
        calls[i] = (struct nigh_collective){.op = NIGH_ALLREDUCE,
                                            .type = NIGH_U32,
                                            .reduction = NIGH_SUM,
                                            .send = memory[i],
                                            .recv = memory[i]};
    both(groups, calls);
    /* A root that keeps nothing of a gather, at a place within what it would send. */
    for (unsigned i = 0; i < 2; i++)
        calls[i] = (struct nigh_collective){.op = NIGH_SCATTER,
                                            .type = NIGH_U32,
                                            .send = memory[i],
                                            .recv = memory[i] + 2,
                                            .send_counts = i ? NULL : some,
                                            .count = i ? 8 : 0};
    both(groups, calls);
    leave(groups);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_done_before_long, start, stop),
        cmocka_unit_test_setup_teardown(test_done_is_a_move, start, stop),
        cmocka_unit_test_setup_teardown(test_ended_while_forming, start, stop),
        cmocka_unit_test_setup_teardown(test_text, start, stop),
        cmocka_unit_test_setup_teardown(test_nothing_behind_parts, start, stop),
        cmocka_unit_test_setup_teardown(test_empty_buffers, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
