/* SPDX-License-Identifier: BSD-3-Clause */
/* Chunks go round: fresh ones up to the span, then the one freed longest ago; never one twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/pool.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct nigh_arena arena;
static struct nigh_pool pool;

static void make(uint32_t chunks, uint32_t span)
{
    struct nigh_arena_config config = {
        .incarnation = 1, .peers_max = 1, .pool_bytes = (uint64_t)chunks * NIGH_CHUNK};

    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    assert_int_equal(nigh_pool_create(&arena, (uint64_t)span * NIGH_CHUNK, &pool), 0);
}

static void unmake(void)
{
    nigh_pool_destroy(&pool);
    nigh_arena_destroy(&arena);
}

/* The number of the chunk taken. */
static uint32_t take(void)
{
    uint64_t offset;

    assert_int_equal(nigh_pool_take(&pool, &offset), 0);
    assert_int_equal((offset - arena.layout.pool_off) % NIGH_CHUNK, 0);
    return (uint32_t)((offset - arena.layout.pool_off) / NIGH_CHUNK);
}

static void give(uint32_t chunk)
{
    nigh_pool_give(&pool, arena.layout.pool_off + (uint64_t)chunk * NIGH_CHUNK);
}

static void nothing_is_committed_before_use(void **state)
{
    uint64_t before;

    (void)state;
    make(16, 8);
    before = nigh_arena_committed(&arena);
    give(take());
    assert_int_equal(nigh_arena_committed(&arena), before + NIGH_CHUNK);
    assert_int_equal(pool.committed, 1);
    unmake();
}

static void rotation_is_first_in_first_out(void **state)
{
    (void)state;
    make(16, 4);
    /* One at a time: all four of the span are visited before the first comes again. */
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            uint32_t chunk = take();

            assert_int_equal(chunk, i);
            give(chunk);
        }
    }
    assert_int_equal(pool.committed, 4);
    /* Given back in another order: handed out in that order. */
    for (uint32_t i = 0; i < 4; i++)
        take();
    give(2);
    give(0);
    give(3);
    give(1);
    assert_int_equal(take(), 2);
    assert_int_equal(take(), 0);
    assert_int_equal(take(), 3);
    assert_int_equal(take(), 1);
    unmake();
}

static void chunks_can_be_written_to_their_ends(void **state)
{
    (void)state;
    make(3, 3);
    for (uint32_t i = 0; i < 3; i++)
        memset(arena.base + arena.layout.pool_off + (uint64_t)take() * NIGH_CHUNK, 1, NIGH_CHUNK);
    assert_int_equal(nigh_arena_committed(&arena), 3 * NIGH_PAGE + 3 * NIGH_CHUNK);
    unmake();
}

/* Ready: the next one is there, within the span; asking again and again takes no more memory. */
static void one_is_made_ready_within_the_span(void **state)
{
    (void)state;
    make(6, 2);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < 3; k++)
            assert_true(nigh_pool_ready(&pool));
        take();
        assert_int_equal(pool.committed, 2);
    }
    assert_false(nigh_pool_ready(&pool));
    assert_int_equal(pool.committed, 2);
    give(1);
    assert_true(nigh_pool_ready(&pool));
    assert_int_equal(take(), 1);
    unmake();
}

static void beyond_the_span_only_when_none_is_free(void **state)
{
    uint64_t offset = 7;

    (void)state;
    make(6, 2);
    for (uint32_t i = 0; i < 6; i++)
        assert_int_equal(take(), i);
    assert_int_equal(nigh_pool_take(&pool, &offset), -EAGAIN);
    assert_int_equal(offset, 7);
    give(4);
    assert_int_equal(take(), 4);
    assert_int_equal(nigh_pool_take(&pool, &offset), -EAGAIN);
    /* All come back: the rotation is two wide again, the rest is aside. */
    for (uint32_t i = 0; i < 6; i++)
        give(i);
    assert_int_equal(pool.count, 2);
    assert_int_equal(pool.parked_count, 4);
    for (uint32_t round = 0; round < 3; round++) {
        for (uint32_t i = 4; i < 6; i++) {
            uint32_t chunk = take();

            assert_int_equal(chunk, i);
            give(chunk);
        }
    }
    unmake();
}

static void spans_are_held_within_the_pool(void **state)
{
    static const struct {
        uint64_t bytes;
        uint32_t span;
    } cases[] = {{0, 1}, {1, 1}, {NIGH_CHUNK + 1, 2}, {4 * NIGH_CHUNK, 4}, {UINT64_MAX, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_pool other;

        make(4, 1);
        assert_int_equal(nigh_pool_create(&arena, cases[i].bytes, &other), 0);
        assert_int_equal(other.span, cases[i].span);
        nigh_pool_destroy(&other);
        unmake();
    }
}

/* Narrower, what is given back goes aside until the rotation fits; wider, those are the first to come again. */
static void the_span_can_change(void **state)
{
    uint32_t chunk[4];

    (void)state;
    make(8, 4);
    for (uint32_t i = 0; i < 4; i++)
        chunk[i] = take();
    nigh_pool_set_span(&pool, 2 * NIGH_CHUNK);
    assert_int_equal(pool.span, 2);
    for (uint32_t i = 0; i < 4; i++)
        give(chunk[i]);
    assert_int_equal(pool.parked_count, 2);
    for (uint32_t round = 0; round < 3; round++)
        for (uint32_t i = 2; i < 4; i++) {
            assert_int_equal(take(), chunk[i]);
            give(chunk[i]);
        }
    nigh_pool_set_span(&pool, 3 * NIGH_CHUNK);
    assert_int_equal(take(), chunk[1]);
    assert_int_equal(pool.committed, 4);
    give(chunk[1]);
    assert_int_equal(pool.parked_count, 1);
    nigh_pool_set_span(&pool, UINT64_MAX);
    assert_int_equal(pool.span, 8);
    unmake();
}

static void an_empty_pool_has_nothing_ever(void **state)
{
    uint64_t offset;

    (void)state;
    make(0, 4);
    assert_int_equal(nigh_pool_take(&pool, &offset), -ENOMEM);
    unmake();
}

static void short_memory_leaves_what_is_there(void **state)
{
    uint64_t offset;
    uint32_t chunk;

    (void)state;
    make(8, 8);
    logged_begin();
    osfail_arm_all(OSFAIL_fallocate, 1, ENOMEM);
    assert_int_equal(nigh_pool_take(&pool, &offset), -ENOMEM);
    osfail_remove();
    chunk = take(); /* memory is back: the pool works */
    osfail_arm_all(OSFAIL_fallocate, 1, ENOMEM);
    assert_int_equal(nigh_pool_take(&pool, &offset), -EAGAIN);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 1);
    assert_int_equal(nigh_pool_take(&pool, &offset), -EAGAIN);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 1); /* not asked again */
    give(chunk);
    assert_int_equal(take(), chunk);
    osfail_remove();
    logged_end();
    unmake();
}

/* Random takes and gives against a set: no chunk twice, none lost. */
static void random_use_agrees_with_a_model(void **state)
{
    enum { CHUNKS = 24 };
    bool held[CHUNKS] = {false};
    unsigned count = 0;

    (void)state;
    make(CHUNKS, 5);
    srand(11);
    for (int step = 0; step < 20000; step++) {
        if (rand() % 2) {
            uint64_t offset;
            int error = nigh_pool_take(&pool, &offset);
            uint32_t chunk = (uint32_t)((offset - arena.layout.pool_off) / NIGH_CHUNK);

            assert_int_equal(error, count == CHUNKS ? -EAGAIN : 0);
            if (error)
                continue;
            assert_true(chunk < CHUNKS);
            assert_false(held[chunk]);
            held[chunk] = true;
            count++;
        } else {
            uint32_t chunk = (uint32_t)rand() % CHUNKS;

            if (!held[chunk])
                continue;
            give(chunk);
            held[chunk] = false;
            count--;
        }
        assert_int_equal(pool.count + pool.parked_count + count, pool.committed);
    }
    unmake();
}

static void give_dies(uint64_t offset)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        nigh_pool_give(&pool, offset);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void garbage_is_asserted(void **state)
{
    uint64_t base;

    (void)state;
    make(8, 4);
    base = arena.layout.pool_off;
    assert_int_equal(take(), 0);
    assert_int_equal(take(), 1);
    give(1);
    give_dies(base + 1);                 /* not a chunk's beginning */
    give_dies(base + NIGH_CHUNK);        /* given back already */
    give_dies(base + 2 * NIGH_CHUNK);    /* never taken */
    give_dies(base + 1000 * NIGH_CHUNK); /* beyond the pool */
    give_dies(0);                        /* before it */
    give_dies(UINT64_MAX);
    give(0);
    unmake();
}

static void failures_clean_up(void **state)
{
    struct nigh_pool out = {.chunks = 7};

    (void)state;
    make(8, 4);
    for (unsigned nth = 1; nth <= 3; nth++) {
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_pool_create(&arena, 0, &out), -ENOMEM);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(out.chunks, 7);
    }
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_committed_before_use),
        cmocka_unit_test(rotation_is_first_in_first_out),
        cmocka_unit_test(chunks_can_be_written_to_their_ends),
        cmocka_unit_test(one_is_made_ready_within_the_span),
        cmocka_unit_test(beyond_the_span_only_when_none_is_free),
        cmocka_unit_test(spans_are_held_within_the_pool),
        cmocka_unit_test(the_span_can_change),
        cmocka_unit_test(an_empty_pool_has_nothing_ever),
        cmocka_unit_test(short_memory_leaves_what_is_there),
        cmocka_unit_test(random_use_agrees_with_a_model),
        cmocka_unit_test(garbage_is_asserted),
        cmocka_unit_test(failures_clean_up),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
