/* SPDX-License-Identifier: BSD-3-Clause */
/* Any thread at any time: each thread makes the calls of a group of its own, all groups have the same contexts, and whoever polls
 * takes the completions of all. One thread makes groups and leaves them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/company.h"
#include <pthread.h>
#include <stdlib.h>

enum { MEMBERS = 3, THREADS = 4, ROUNDS = 60, CHURNS = 30 };

static struct company company;
static const uint32_t who[] = {0, 1, 2};
static uint32_t ended[THREADS][MEMBERS]; /* calls of this group that have, at that member */
static uint32_t wrong;

static void count_wrong(bool is_wrong)
{
    if (is_wrong)
        __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

/* Each thread looks at the members in turn, some asleep. */
static void take_some(uint32_t member, bool sleeps)
{
    struct nigh_context *context = company.members[member].context;
    struct nigh_completion done[4];
    int polled;

    if (sleeps)
        (void)company_ops->wait(context, 200000);
    polled = company_ops->poll_completions(context, done, 4);
    count_wrong(polled < 0);
    for (int i = 0; i < polled; i++) {
        count_wrong(done[i].status != 0);
        __atomic_fetch_add(&ended[done[i].context][member], 1, __ATOMIC_RELEASE);
    }
}

static void await(uint32_t thread, uint32_t calls)
{
    for (uint32_t turn = 0;; turn++) {
        bool all = true;

        for (uint32_t m = 0; m < MEMBERS; m++) {
            all &= __atomic_load_n(&ended[thread][m], __ATOMIC_ACQUIRE) >= calls;
            take_some(m, turn % 8 == thread);
        }
        if (all || __atomic_load_n(&wrong, __ATOMIC_RELAXED))
            return;
    }
}

static void one_round(uint32_t thread, uint32_t round, struct nigh_group *const *groups)
{
    static const uint64_t counts[] = {1, 700, 5000, 40000};
    static const uint16_t ops[] = {NIGH_ALLREDUCE, NIGH_ALLTOALL, NIGH_BARRIER, NIGH_BROADCAST, NIGH_SCAN};
    uint16_t op = ops[(round + thread) % 5];
    struct call_case of = {.op = op,
                           .type = NIGH_U32,
                           .reduction = op == NIGH_ALLREDUCE || op == NIGH_SCAN ? NIGH_SUM : 0,
                           .members = MEMBERS,
                           .count = counts[round % 4],
                           .seed = round};
    struct call_room rooms[MEMBERS];

    for (uint32_t m = 0; m < MEMBERS; m++) {
        call_case_make(&of, m, &rooms[m]);
        rooms[m].call.context = thread;
        count_wrong(company_ops->post_collective(groups[m], &rooms[m].call) != 0);
    }
    await(thread, round + 1);
    for (uint32_t m = 0; m < MEMBERS && !__atomic_load_n(&wrong, __ATOMIC_RELAXED); m++) {
        count_wrong(call_case_check(&rooms[m]) != NULL);
        call_case_free(&rooms[m]);
    }
}

static struct nigh_group *made[THREADS][MEMBERS];

static void *call_much(void *argument)
{
    uint32_t thread = (uint32_t)(uintptr_t)argument;

    for (uint32_t round = 0; round < ROUNDS && !__atomic_load_n(&wrong, __ATOMIC_RELAXED); round++)
        one_round(thread, round, made[thread]);
    return NULL;
}

/* A group a round: its last call may be under way at others when a member leaves. */
static void *make_much(void *argument)
{
    uint32_t thread = (uint32_t)(uintptr_t)argument;

    for (uint32_t round = 0; round < CHURNS && !__atomic_load_n(&wrong, __ATOMIC_RELAXED); round++) {
        struct nigh_group *groups[MEMBERS];

        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct nigh_group_options options = {
                .size = sizeof(options), .count = MEMBERS, .members = company.members[m].to};

            count_wrong(company_ops->group_create(company.members[m].context, &options, &groups[m]) != 0);
        }
        one_round(thread, round, groups);
        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct nigh_query_group facts = {.size = sizeof(facts)};

            count_wrong(company_ops->query_group(groups[m], &facts) != 0 || facts.under_way);
            count_wrong(company_ops->group_free(groups[m]) != 0);
        }
    }
    return NULL;
}

static void run(const char *path)
{
    pthread_t threads[THREADS];

    company_open(&company, MEMBERS, NIGH_OPEN_THREADS, path);
    for (uint32_t t = 0; t < THREADS; t++) {
        for (uint32_t m = 0; m < MEMBERS; m++)
            ended[t][m] = 0;
        if (t)
            company_group(&company, who, MEMBERS, made[t]);
    }
    for (uint32_t t = 0; t < THREADS; t++)
        assert_int_equal(pthread_create(&threads[t], NULL, t ? call_much : make_much, (void *)(uintptr_t)t),
                         0);
    for (uint32_t t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    assert_int_equal(wrong, 0);
    for (uint32_t t = 1; t < THREADS; t++)
        company_leave(made[t], MEMBERS);
    company_close(&company);
}

static void test_threads(void **state)
{
    (void)state;
    run(NULL);
}

static void test_threads_copied(void **state)
{
    (void)state;
    run("chunked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads), cmocka_unit_test(test_threads_copied)};

    return cmocka_run_group_tests_name("threads of calls", tests, NULL, NULL);
}
