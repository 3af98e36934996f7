/* SPDX-License-Identifier: BSD-3-Clause */
/* Endpoints are found by who is at their other end: against a list that is searched from its beginning. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/peers.h"
#include <stdlib.h>
#include <string.h>

enum { MOST = 600, OPEN = 6 };

static struct nigh_peers peers;
static struct nigh_endpoint *all[MOST];
static uint32_t flags[MOST]; /* what their peers say of having left */
static unsigned count;

static int start(void **state)
{
    (void)state;
    count = 0;
    return nigh_peers_create(&peers, 64);
}

static int stop(void **state)
{
    (void)state;
    nigh_peers_destroy(&peers);
    while (count)
        free(all[--count]);
    return 0;
}

static struct nigh_endpoint *insert(uint64_t job, uint32_t rank, uint64_t incarnation, enum nigh_state as)
{
    size_t bytes = (sizeof(struct nigh_endpoint) + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE;
    struct nigh_endpoint *endpoint = aligned_alloc(NIGH_LINE, bytes);

    assert_true(count < MOST);
    memset(endpoint, 0, bytes);
    endpoint->job = job;
    endpoint->rank = rank;
    endpoint->incarnation = incarnation;
    endpoint->state = as;
    endpoint->attached = as != NIGH_CONNECTING;
    endpoint->peer_open = OPEN;
    endpoint->peer_closed = &flags[count];
    flags[count] = OPEN;
    all[count++] = endpoint;
    nigh_peers_insert(&peers, endpoint);
    return endpoint;
}

static struct nigh_endpoint *find(uint64_t job, uint32_t rank, uint64_t incarnation)
{
    struct nigh_identity who = {.job = job, .rank = rank, .incarnation = incarnation};

    return nigh_peers_find(&peers, &who);
}

static void nobody_is_found(void **state)
{
    (void)state;
    assert_null(find(1, 0, 0));
    insert(1, 0, 0, NIGH_READY);
    assert_null(find(1, 1, 0));
    assert_null(find(2, 0, 0));
    assert_null(find(UINT64_MAX, NIGH_RANK_NONE, UINT64_MAX));
}

/* Dialled by rank, and not answered yet: whoever of that rank greets is meant. Then it is one of them. */
static void incarnations_count_where_both_are_known(void **state)
{
    struct nigh_endpoint *dialled = insert(1, 3, 0, NIGH_CONNECTING), *other;

    (void)state;
    assert_ptr_equal(find(1, 3, 0), dialled);
    assert_ptr_equal(find(1, 3, 77), dialled);
    dialled->incarnation = 77;
    assert_ptr_equal(find(1, 3, 77), dialled);
    assert_null(find(1, 3, 78));
    other = insert(1, 3, 78, NIGH_READY);
    assert_ptr_equal(find(1, 3, 77), dialled);
    assert_ptr_equal(find(1, 3, 78), other);
    assert_ptr_equal(find(1, 3, 0), other); /* the latest */
    nigh_peers_remove(other);
    assert_ptr_equal(find(1, 3, 0), dialled);
}

static void the_living_are_found(void **state)
{
    static const enum nigh_state ends[] = {NIGH_PEER_CLOSED, NIGH_PEER_DEAD, NIGH_BROKEN};
    struct nigh_endpoint *endpoint;

    (void)state;
    for (unsigned i = 0; i < 3; i++)
        insert(1, 3, 0, ends[i]);
    assert_null(find(1, 3, 0));
    endpoint = insert(1, 3, 0, NIGH_READY);
    assert_ptr_equal(find(1, 3, 0), endpoint);
    endpoint->gone = true;
    assert_null(find(1, 3, 0));
    endpoint->gone = false;
    flags[count - 1] = OPEN + 1; /* it has said goodbye, and nobody has looked yet */
    assert_null(find(1, 3, 0));
    endpoint->attached = false; /* there is no such word then */
    assert_ptr_equal(find(1, 3, 0), endpoint);
}

static struct nigh_endpoint *in_list(uint64_t job, uint32_t rank, const bool *there)
{
    for (unsigned i = count; i-- > 0;)
        if (there[i] && all[i]->job == job && all[i]->rank == rank)
            return all[i];
    return NULL;
}

/* Many of the same bucket, taken out in any order. */
static void a_list_finds_the_same(void **state)
{
    bool there[MOST] = {false};
    unsigned seed = 1;

    (void)state;
    for (unsigned i = 0; i < MOST; i++) {
        insert(i % 3, i % 200, 0, NIGH_CONNECTING);
        there[i] = true;
    }
    for (unsigned turn = 0; turn < 2 * MOST; turn++) {
        unsigned i = (unsigned)rand_r(&seed) % MOST;

        if (there[i])
            nigh_peers_remove(all[i]);
        there[i] = false;
        for (uint32_t rank = 0; rank < 200; rank += 1 + turn % 7)
            for (uint64_t job = 0; job < 3; job++)
                assert_ptr_equal(find(job, rank, 0), in_list(job, rank, there));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nobody_is_found, start, stop),
        cmocka_unit_test_setup_teardown(incarnations_count_where_both_are_known, start, stop),
        cmocka_unit_test_setup_teardown(the_living_are_found, start, stop),
        cmocka_unit_test_setup_teardown(a_list_finds_the_same, start, stop),
    };

    return cmocka_run_group_tests_name("peers", tests, NULL, NULL);
}
