/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups where memory is short: each allocation of a member fails in turn, when it makes a group, while the group meets, and when it
 * posts a call. Nothing stays behind, and no member waits for another one that has failed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1 /* gcc's, whose system headers may define __has_feature(x) as 0 */
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#if SANITIZED
/* A sanitizer has a malloc of its own. */
int main(void)
{
    printf("# skipped: a sanitizer has a malloc of its own\n");
    return 77;
}
#else

enum { MEMBERS = 3, SCARCE = 1, COUNT = 65536 };

static struct hosted members[MEMBERS];
static struct nigh_endpoint *to[MEMBERS][MEMBERS];
static struct nigh_group *groups[MEMBERS];
static uint64_t next_id, next_context;

/* The nth allocation fails, once; 0: none does. */
static _Thread_local unsigned fails_in;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *memory, size_t bytes);

static bool is_scarce(void)
{
    if (!fails_in || --fails_in)
        return false;
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    return is_scarce() ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return is_scarce() ? NULL : __libc_calloc(count, bytes);
}

__attribute__((visibility("default"))) void *realloc(void *memory, size_t bytes)
{
    return is_scarce() ? NULL : __libc_realloc(memory, bytes);
}

static void poll_all(void)
{
    for (unsigned i = 0; i < MEMBERS; i++)
        hosted_poll(&members[i]);
}

/* Each runs on an L3 of its own, so that each has slots for a domain. */
static int start(void **state)
{
    static const char *const places[MEMBERS] = {"0/0/0", "1/1/1", "2/2/2"};
    uint64_t job = hosted_job();

    (void)state;
    alarm(60); /* a member that waits for ever */
    hosted_quiet = true;
    setenv("NIGH_DOMAINS", "l3", 1);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        setenv("NIGH_PLACE", places[i], 1);
        hosted_open(&members[i], job, i, 0);
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        for (uint32_t k = 0; k < MEMBERS; k++)
            to[i][k] = hosted_connect(&members[i], k);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < MEMBERS; i++)
        hosted_close(&members[i]);
    return 0;
}

static int make(uint32_t i)
{
    struct nigh_group_options options = {
        .size = sizeof(options), .count = MEMBERS, .members = to[i], .id = next_id};

    return hosted_ops->group_create(members[i].context, &options, &groups[i]);
}

static void leave(void)
{
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(hosted_ops->group_free(groups[i]), 0);
    for (unsigned turn = 0;
         turn < 100000 && (members[0].context->coll.groups || members[1].context->coll.groups ||
                           members[2].context->coll.groups);
         turn++)
        poll_all();
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_null(members[i].context->coll.groups);
}

/* What a call of all completes with, at all alike. */
static int await(uint64_t context)
{
    int status = 0;

    for (uint32_t i = 0; i < MEMBERS; i++) {
        const struct nigh_completion *done;

        while (!(done = hosted_find(&members[i], NIGH_OP_COLLECTIVE, context)))
            poll_all();
        if (i)
            assert_int_equal(done->status, status);
        status = done->status;
    }
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].count = 0;
    return status;
}

static int post(uint32_t i, struct nigh_collective call)
{
    call.size = sizeof(call);
    call.context = next_context;
    return hosted_ops->post_collective(groups[i], &call);
}

static int barrier(void)
{
    next_context++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(post(i, (struct nigh_collective){.op = NIGH_BARRIER}), 0);
    return await(next_context);
}

/* ---- when it makes the group --------------------------------------------------------------------------- */

static void test_made(void **state)
{
    const struct nigh_context *context = members[SCARCE].context;
    unsigned failed = 0;
    int rc = -ENOMEM;

    (void)state;
    next_id++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (i != SCARCE)
            assert_int_equal(make(i), 0);
    while (rc) {
        uint64_t used = nigh_heap_used(context->heap);
        uint32_t refs = to[SCARCE][0]->refs;

        fails_in = ++failed;
        rc = make(SCARCE);
        if (fails_in) { /* there were fewer */
            fails_in = 0;
            assert_int_equal(rc, 0);
            break;
        }
        assert_int_equal(rc, -ENOMEM);
        assert_int_equal(nigh_heap_used(context->heap), used);
        assert_int_equal(to[SCARCE][0]->refs, refs);
        assert_null(context->coll.groups);
        poll_all();
    }
    assert_true(failed > 5);
    assert_int_equal(barrier(), 0);
    leave();
}

/* ---- while it meets ------------------------------------------------------------------------------------ */

/* The group is there for all, or has ended for all: *hit, whether an allocation has failed. */
static int met(unsigned nth, bool *hit)
{
    int rc;

    next_id++;
    next_context++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(make(i), 0);
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(post(i, (struct nigh_collective){.op = NIGH_BARRIER}), 0);
    fails_in = nth;
    for (unsigned turn = 0; turn < 1000; turn++) {
        unsigned left;

        hosted_poll(&members[SCARCE]);
        left = fails_in;
        fails_in = 0;
        poll_all();
        fails_in = left;
    }
    *hit = !fails_in;
    fails_in = 0;
    rc = await(next_context);
    leave();
    return rc;
}

static void test_met(void **state)
{
    unsigned nth = 0, ended = 0;
    bool hit = true;

    (void)state;
    while (hit) {
        int rc = met(++nth, &hit);

        assert_int_equal(rc, rc ? -ENOMEM : 0);
        ended += rc != 0;
        if (!hit)
            assert_int_equal(rc, 0);
    }
    printf("# %u allocations while it meets, of which %u end the group\n", nth - 1, ended);
}

/* No room in the heap for the slots of a domain: all are told so. */
static void test_heap_is_full(void **state)
{
    struct nigh_context *context = members[SCARCE].context;
    void *blocks[4096];
    unsigned count = 0;

    (void)state;
    next_id++;
    next_context++;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        assert_int_equal(make(i), 0);
        assert_int_equal(post(i, (struct nigh_collective){.op = NIGH_BARRIER}), 0);
    }
    for (uint64_t bytes = 1 << 20; bytes >= 64; bytes /= 2)
        while (count < 4096 && hosted_ops->heap_alloc(context, bytes, &blocks[count]) == 0)
            count++;
    assert_int_equal(await(next_context), -ENOMEM);
    while (count)
        assert_int_equal(hosted_ops->heap_free(context, blocks[--count]), 0);
    leave();
}

/* ---- when it posts ------------------------------------------------------------------------------------- */

static void add(void *arg, const void *in, void *inout, uint64_t count)
{
    (void)arg;
    (void)in;
    (void)inout;
    (void)count;
}

static void test_posted(void **state)
{
    static uint32_t vectors[MEMBERS][2 * COUNT];
    static const struct nigh_collective calls[] = {
        {.op = NIGH_BARRIER},
        {.op = NIGH_ALLTOALL, .type = NIGH_U32, .count = COUNT / MEMBERS, .flags = NIGH_COLLECTIVE_IN_PLACE},
        {.op = NIGH_SCAN,
         .type = NIGH_U32,
         .reduction = NIGH_SUM,
         .count = COUNT,
         .flags = NIGH_COLLECTIVE_IN_PLACE},
        {.op = NIGH_ALLREDUCE,
         .type = NIGH_OPAQUE,
         .width = 2 * COUNT,
         .reduction = NIGH_FUNCTION,
         .function = add,
         .count = 1,
         .flags = NIGH_COLLECTIVE_IN_PLACE},
    };

    (void)state;
    next_id++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(make(i), 0);
    for (unsigned c = 0; c < sizeof(calls) / sizeof(*calls); c++) {
        struct nigh_collective call = calls[c];
        int rc = -ENOMEM;

        next_context++;
        for (unsigned nth = 1; rc; nth++) {
            call.recv = call.op == NIGH_BARRIER ? NULL : vectors[SCARCE];
            fails_in = nth;
            rc = post(SCARCE, call);
            fails_in = 0;
            assert_int_equal(rc, rc ? -ENOMEM : 0);
        }
        for (uint32_t i = 0; i < MEMBERS; i++) {
            call.recv = call.op == NIGH_BARRIER ? NULL : vectors[i];
            if (i != SCARCE)
                assert_int_equal(post(i, call), 0);
        }
        assert_int_equal(await(next_context), 0);
    }
    assert_int_equal(barrier(), 0);
    leave();
}

/* ---- while others read ------------------------------------------------------------------------------------ */

/* Asked by a peer, does it say that nothing moves? Its host waits in a receive, say, beside its calls. */
static bool says_stuck(void)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_BLOCKED}, is = {.size = sizeof(is)};
    uint64_t bytes = sizeof(is), number;

    assert_int_equal(hosted_ops->note(members[0].context, &note), 0);
    assert_int_equal(hosted_ops->nudge(to[1][0], &number), 0);
    for (unsigned turn = 0; turn < 1000; turn++)
        hosted_poll(&members[0]);
    assert_int_equal(hosted_ops->query(members[1].context, to[1][0], NIGH_QUERY_NOTE, &is, &bytes), 0);
    note.state = NIGH_NOTE_RUNNING;
    assert_int_equal(hosted_ops->note(members[0].context, &note), 0);
    return is.checked >= number;
}

/* A root whose data others have not read yet: it has no memory for the next call, and is not stuck, whatever nobody moves. */
static void test_starved(void **state)
{
    enum { CALLS = 60, BYTES = 3000 };
    static uint8_t room[MEMBERS][CALLS][BYTES];
    struct nigh_coll *coll = &members[0].context->coll;
    unsigned posted = 0;

    (void)state;
    next_id++;
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_int_equal(make(i), 0);
    assert_int_equal(barrier(), 0);
    assert_true(says_stuck());
    for (; posted < CALLS && !nigh_coll_is_starved(coll); posted++) {
        struct nigh_collective call = {
            .op = NIGH_BROADCAST, .type = NIGH_U8, .count = BYTES, .send = room[0][posted], .root = 0};

        next_context++;
        memset(room[0][posted], (int)posted + 1, BYTES);
        assert_int_equal(post(0, call), 0);
        for (unsigned turn = 0; turn < 50; turn++)
            hosted_poll(&members[0]);
    }
    assert_true(nigh_coll_is_starved(coll));
    assert_false(says_stuck());
    for (uint32_t i = 1; i < MEMBERS; i++) {
        next_context -= posted;
        for (unsigned n = 0; n < posted; n++) {
            struct nigh_collective call = {
                .op = NIGH_BROADCAST, .type = NIGH_U8, .count = BYTES, .recv = room[i][n], .root = 0};

            next_context++;
            assert_int_equal(post(i, call), 0);
        }
    }
    while (!hosted_find(&members[0], NIGH_OP_COLLECTIVE, next_context) ||
           !hosted_find(&members[1], NIGH_OP_COLLECTIVE, next_context) ||
           !hosted_find(&members[2], NIGH_OP_COLLECTIVE, next_context))
        poll_all();
    assert_false(nigh_coll_is_starved(coll));
    for (uint32_t i = 0; i < MEMBERS; i++)
        assert_memory_equal(room[i], room[0], (size_t)posted * BYTES);
    for (uint32_t i = 0; i < MEMBERS; i++)
        members[i].count = 0;
    leave();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_made),   cmocka_unit_test(test_met),     cmocka_unit_test(test_heap_is_full),
        cmocka_unit_test(test_posted), cmocka_unit_test(test_starved),
    };

    return cmocka_run_group_tests_name("group_scarce", tests, start, stop);
}
#endif
