/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocks are aligned, apart, found again from any byte of them, and refuse to be freed twice, in the middle or
 * while somebody reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/heap.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (KIB * 1024)

static struct nigh_arena arena;
static struct nigh_heap *heap;

static void make(uint64_t bytes)
{
    struct nigh_arena_config config = {.incarnation = 1, .peers_max = 1, .heap_bytes = bytes};

    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    assert_int_equal(nigh_heap_create(&arena, &heap), 0);
}

static void unmake(void)
{
    nigh_heap_destroy(heap);
    nigh_arena_destroy(&arena);
}

static uint8_t *alloc(uint64_t bytes)
{
    void *memory = NULL;
    int error = nigh_heap_alloc(heap, bytes, &memory);

    if (error)
        fail_msg("a block of %lu bytes: error %d", (unsigned long)bytes, error);
    return memory;
}

static uint8_t *heap_base(void)
{
    return arena.base + arena.layout.heap_off;
}

static void not_found(const void *memory, uint64_t bytes)
{
    uint64_t offset = 7;

    assert_int_equal(nigh_heap_find(heap, memory, bytes, &offset), -EINVAL);
    assert_int_equal(offset, 7);
}

/* Every size there is: each block has its bytes, its alignment, and is found whole. */
static void every_size_is_served(void **state)
{
    (void)state;
    make(64 * MIB);
    for (uint64_t bytes = 1; bytes <= 300 * KIB; bytes = bytes < 2100 ? bytes + 1 : bytes * 65 / 64 + 13) {
        uint8_t *memory = alloc(bytes);
        uint64_t offset = 0, used = nigh_heap_used(heap);

        assert_int_equal((uintptr_t)memory % 64, 0);
        if (bytes >= 64 * KIB)
            assert_int_equal((uintptr_t)memory % 4096, 0);
        assert_true(used >= bytes && used <= (bytes < 512 ? bytes + 63 : bytes + bytes / 4));
        memory[0] = memory[bytes - 1] = 1;
        assert_int_equal(nigh_heap_find(heap, memory, bytes, &offset), 0);
        assert_int_equal(offset, (uint64_t)(memory - arena.base));
        assert_int_equal(nigh_heap_find(heap, memory + bytes - 1, 1, &offset), 0);
        assert_int_equal(offset, (uint64_t)(memory - arena.base) + bytes - 1);
        not_found(memory, used + 1);
        not_found(memory + 1, used);
        assert_int_equal(nigh_heap_free(heap, memory), 0);
        not_found(memory, 1);
        assert_int_equal(nigh_heap_used(heap), 0);
    }
    unmake();
}

static void what_is_not_a_block_is_not_found(void **state)
{
    uint8_t *small, *large;
    uint64_t offset;

    (void)state;
    make(16 * MIB);
    not_found(heap_base(), 1);
    small = alloc(128);
    large = alloc(200000);
    not_found(NULL, 1);
    not_found(NULL, 0);
    not_found((void *)UINTPTR_MAX, 1);
    not_found(&offset, 1);
    not_found(arena.base, 1);
    not_found(heap_base() - 1, 2);
    not_found(heap_base() + arena.layout.heap_bytes, 0);
    not_found(heap_base() + arena.layout.heap_bytes - 1, 1);
    not_found(small + 128, 1);
    not_found(small, 129);
    not_found(small + 1, UINT64_MAX);
    not_found(large, UINT64_MAX);
    not_found(large + 200000, 4097);
    assert_int_equal(nigh_heap_find(heap, small, 0, &offset), 0);
    assert_int_equal(nigh_heap_find(heap, large + 100, 100000, &offset), 0);
    assert_int_equal(offset, (uint64_t)(large - arena.base) + 100);
    unmake();
}

/* The tail of a slab that is too short for another object belongs to nobody. */
static void a_slabs_tail_is_not_found(void **state)
{
    uint8_t *memory;

    (void)state;
    make(4 * MIB);
    memory = alloc(57344);
    not_found(memory + 4 * 57344, 1);
    not_found(memory + 256 * KIB - 1, 1);
    unmake();
}

static void bad_frees_are_refused(void **state)
{
    uint8_t *small, *large;

    (void)state;
    make(16 * MIB);
    small = alloc(1000);
    large = alloc(100 * KIB);
    alloc(1000);
    assert_int_equal(nigh_heap_free(heap, NULL), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, small + 64), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, small + 1), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, large + 4096), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, large + 100 * KIB), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, heap_base() - 64), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, &small), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, small), 0);
    assert_int_equal(nigh_heap_free(heap, large), 0);
    assert_int_equal(nigh_heap_free(heap, small), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, large), -EINVAL);
    unmake();
}

static void held_blocks_stay(uint64_t bytes)
{
    uint8_t *memory, *other;

    make(16 * MIB);
    memory = alloc(bytes);
    other = alloc(bytes);
    assert_int_equal(nigh_heap_hold(heap, memory), 0);
    assert_int_equal(nigh_heap_hold(heap, memory + bytes - 1), 0); /* any byte of it */
    assert_int_equal(nigh_heap_free(heap, memory), -EBUSY);
    assert_int_equal(nigh_heap_free(heap, other), 0);
    nigh_heap_unhold(heap, memory + 1);
    assert_int_equal(nigh_heap_free(heap, memory), -EBUSY);
    nigh_heap_unhold(heap, memory);
    assert_int_equal(nigh_heap_free(heap, memory), 0);
    assert_int_equal(nigh_heap_hold(heap, memory), -EINVAL);
    assert_int_equal(nigh_heap_hold(heap, NULL), -EINVAL);
    /* A new block in its place is not held. */
    assert_ptr_equal(alloc(bytes), memory);
    assert_int_equal(nigh_heap_free(heap, memory), 0);
    unmake();
}

static void held_small_blocks_stay(void **state)
{
    (void)state;
    held_blocks_stay(64);
    held_blocks_stay(5000);
}

static void held_large_blocks_stay(void **state)
{
    (void)state;
    held_blocks_stay(64 * KIB);
    held_blocks_stay(3 * MIB + 5);
}

static void unhold_dies(void *memory)
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(2);
        signal(SIGABRT, SIG_DFL);
        nigh_heap_unhold(heap, memory);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void unhold_of_what_is_not_held_is_asserted(void **state)
{
    (void)state;
    make(4 * MIB);
    unhold_dies(alloc(64));
    unhold_dies(alloc(100 * KIB));
    unhold_dies(NULL);
    unmake();
}

static void a_full_heap_refuses_once_in_words(void **state)
{
    void *out = &out;
    unsigned blocks = 0;

    (void)state;
    make(1 * MIB);
    logged_begin();
    while (nigh_heap_alloc(heap, 64 * KIB, &out) == 0)
        blocks++;
    assert_int_equal(blocks, 16);
    logged_assert_has("no room for a block of 64.0 KiB: 1.0 MiB of 1.0 MiB");
    logged_assert_has("NIGH_HEAP");
    out = &blocks;
    assert_int_equal(nigh_heap_alloc(heap, 1, &out), -ENOMEM);
    assert_int_equal(nigh_heap_alloc(heap, 2 * MIB, &out), -ENOMEM);
    assert_int_equal(nigh_heap_alloc(heap, UINT64_MAX, &out), -ENOMEM);
    assert_ptr_equal(out, &blocks);
    assert_int_equal(logged_lines(), 1);
    assert_int_equal(nigh_heap_alloc(heap, 0, &out), -EINVAL);
    logged_end();
    unmake();
}

static void an_empty_heap_serves_nothing(void **state)
{
    void *out;

    (void)state;
    make(0);
    logged_begin();
    assert_int_equal(nigh_heap_alloc(heap, 1, &out), -ENOMEM);
    logged_end();
    not_found(heap_base(), 0);
    unmake();
    nigh_heap_destroy(NULL);
}

/* Small blocks fill every slab, and all of it can be one large block afterwards. */
static void small_blocks_fill_it_and_leave_it_whole(void **state)
{
    enum { BLOCKS = 4 * 4096 };
    static void *blocks[BLOCKS + 1];

    (void)state;
    make(1 * MIB);
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = alloc(64);
        memset(blocks[i], i, 64);
    }
    assert_int_equal(nigh_heap_used(heap), 1 * MIB);
    logged_begin();
    assert_int_equal(nigh_heap_alloc(heap, 64, &blocks[BLOCKS]), -ENOMEM);
    logged_end();
    for (int i = 0; i < BLOCKS; i++) {
        assert_int_equal(*(uint8_t *)blocks[i], (uint8_t)i);
        assert_int_equal(nigh_heap_free(heap, blocks[i]), 0);
    }
    assert_int_equal(nigh_heap_used(heap), 0);
    alloc(1 * MIB); /* the slab that was kept gives way */
    unmake();
}

static void freed_memory_is_used_again_first(void **state)
{
    uint64_t committed;

    (void)state;
    make(256 * MIB);
    for (int i = 0; i < 20; i++) {
        uint8_t *large = alloc(5 * MIB), *small = alloc(3000);

        if (i == 0)
            committed = nigh_arena_committed(&arena);
        assert_int_equal(nigh_arena_committed(&arena), committed);
        assert_int_equal(nigh_heap_free(heap, large), 0);
        assert_int_equal(nigh_heap_free(heap, small), 0);
    }
    unmake();
}

static void memory_is_committed_as_it_is_used(void **state)
{
    uint64_t before;

    (void)state;
    make(1024 * MIB);
    before = nigh_arena_committed(&arena);
    alloc(64);
    assert_int_equal(nigh_arena_committed(&arena), before + 64 * KIB);
    alloc(10 * MIB + 1);
    assert_int_equal(nigh_arena_committed(&arena), before + 64 * KIB + 10 * MIB + 4 * KIB);
    unmake();
}

static void refused_commits_change_nothing(void **state)
{
    void *out;
    uint8_t *memory;

    (void)state;
    make(16 * MIB);
    logged_begin();
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    assert_int_equal(nigh_heap_alloc(heap, 64, &out), -ENOMEM);
    assert_int_equal(nigh_heap_alloc(heap, 2 * MIB, &out), -ENOMEM);
    assert_int_equal(nigh_heap_used(heap), 0);
    osfail_remove();
    logged_end();
    memory = alloc(64);
    assert_int_equal(nigh_heap_free(heap, memory), 0);
    alloc(16 * MIB);
    unmake();
}

static void missing_private_memory_changes_nothing(void **state)
{
    struct nigh_heap *made = (void *)&made;
    void *out;

    (void)state;
    make(16 * MIB);
    for (unsigned nth = 1; nth <= 3; nth++) {
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_heap_create(&arena, &made), -ENOMEM);
        assert_true(osfail_hit());
        assert_ptr_equal(made, (void *)&made);
    }
    logged_begin();
    for (unsigned nth = 1; nth <= 2; nth++) {
        osfail_arm(OSFAIL_calloc, nth, ENOMEM);
        assert_int_equal(nigh_heap_alloc(heap, 64, &out), -ENOMEM);
        assert_true(osfail_hit());
    }
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_heap_alloc(heap, MIB, &out), -ENOMEM);
    osfail_remove();
    logged_end();
    assert_int_equal(nigh_heap_used(heap), 0);
    alloc(16 * MIB);
    unmake();
}

/* ---- against a model ------------------------------------------------------------------------------------- */

/* What was allocated: filled with a pattern of its own to the last byte, so that any overlap shows. */
struct kept {
    uint8_t *memory;
    uint64_t bytes;
    uint32_t pattern, holds;
};

static uint32_t next_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static uint64_t random_size(uint32_t *seed)
{
    switch (next_random(seed) % 8) {
    case 0:
        return 1 + next_random(seed) % (600 * KIB);
    case 1:
        return 60 * KIB + next_random(seed) % (10 * KIB);
    case 2:
    case 3:
        return 1 + next_random(seed) % (64 * KIB);
    default:
        return 1 + next_random(seed) % 2048;
    }
}

static void fill(const struct kept *kept)
{
    uint32_t seed = kept->pattern;

    for (uint64_t i = 0; i < kept->bytes; i += 61)
        kept->memory[i] = (uint8_t)next_random(&seed);
    kept->memory[kept->bytes - 1] = (uint8_t)kept->pattern;
}

static void check(const struct kept *kept)
{
    uint32_t seed = kept->pattern;
    uint64_t last = kept->bytes - 1, offset;

    for (uint64_t i = 0; i < kept->bytes; i += 61) {
        uint8_t expected = (uint8_t)next_random(&seed);

        if (i != last && kept->memory[i] != expected)
            fail_msg("byte %lu of a block of %lu is %u, was %u", (unsigned long)i, (unsigned long)kept->bytes,
                     kept->memory[i], expected);
    }
    assert_int_equal(kept->memory[last], (uint8_t)kept->pattern);
    assert_int_equal(nigh_heap_find(heap, kept->memory, kept->bytes, &offset), 0);
    assert_int_equal(offset, (uint64_t)(kept->memory - arena.base));
}

/* No block reaches into another: sorted by address, each ends before the next begins. */
static int by_address(const void *a, const void *b)
{
    const struct kept *first = a, *second = b;

    return first->memory < second->memory ? -1 : first->memory > second->memory;
}

static void check_apart(const struct kept *all, unsigned count)
{
    struct kept *sorted = malloc(count * sizeof(*sorted));

    assert_non_null(sorted);
    memcpy(sorted, all, count * sizeof(*sorted));
    qsort(sorted, count, sizeof(*sorted), by_address);
    for (unsigned i = 0; i + 1 < count; i++) {
        if (sorted[i].memory && sorted[i].memory + sorted[i].bytes > sorted[i + 1].memory)
            fail_msg("a block of %lu bytes at %p reaches into the one at %p", (unsigned long)sorted[i].bytes,
                     (void *)sorted[i].memory, (void *)sorted[i + 1].memory);
    }
    free(sorted);
}

static void drop(struct kept *kept)
{
    check(kept);
    if (kept->holds)
        assert_int_equal(nigh_heap_free(heap, kept->memory), -EBUSY);
    for (; kept->holds; kept->holds--)
        nigh_heap_unhold(heap, kept->memory + kept->bytes / 2);
    if (kept->bytes > 1)
        assert_int_equal(nigh_heap_free(heap, kept->memory + 1), -EINVAL);
    assert_int_equal(nigh_heap_free(heap, kept->memory), 0);
    kept->memory = NULL;
}

static void random_use_agrees_with_a_model(void **state)
{
    enum { SLOTS = 300 };
    static struct kept slots[SLOTS];
    uint32_t seed = 5;
    unsigned refusals = 0;

    (void)state;
    make(12 * MIB);
    logged_begin();
    for (unsigned step = 0; step < 60000; step++) {
        struct kept *kept = &slots[next_random(&seed) % SLOTS];

        if (kept->memory && next_random(&seed) % 4 == 0) {
            assert_int_equal(nigh_heap_hold(heap, kept->memory + kept->bytes - 1), 0);
            kept->holds++;
        } else if (kept->memory) {
            drop(kept);
        } else {
            uint64_t bytes = random_size(&seed);
            void *memory;
            int error = nigh_heap_alloc(heap, bytes, &memory);

            refusals += error != 0;
            if (error) {
                assert_int_equal(error, -ENOMEM);
                continue;
            }
            *kept = (struct kept){.memory = memory, .bytes = bytes, .pattern = step};
            fill(kept);
        }
        if (step % 1000 == 0)
            check_apart(slots, SLOTS);
    }
    logged_end();
    assert_true(refusals > 0 && refusals < 20000);
    for (unsigned i = 0; i < SLOTS; i++) {
        if (slots[i].memory)
            drop(&slots[i]);
    }
    assert_int_equal(nigh_heap_used(heap), 0);
    assert_int_equal(nigh_heap_free(heap, alloc(12 * MIB)), 0); /* whole again */
    unmake();
}

/* The brackets around every block are looked at byte by byte: find agrees with the model in and beside it. */
static void find_agrees_with_a_model_at_every_byte(void **state)
{
    enum { BLOCKS = 24 };
    struct kept blocks[BLOCKS];
    uint32_t seed = 9;
    uint64_t span = 0;

    (void)state;
    make(4 * MIB);
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i].bytes = (i % 3 == 0 ? 1000 : 0) + random_size(&seed) % 90000 + 1;
        blocks[i].memory = alloc(blocks[i].bytes);
    }
    for (unsigned i = 0; i < BLOCKS; i += 2)
        assert_int_equal(nigh_heap_free(heap, blocks[i].memory), 0);
    for (uint64_t at = 0; at < 4 * MIB; at += 32) {
        const uint8_t *memory = heap_base() + at;
        bool inside = false, in_slack = false;
        uint64_t offset;

        for (unsigned i = 1; i < BLOCKS; i += 2) {
            uint64_t behind = (uint64_t)(memory - blocks[i].memory);

            inside |= memory >= blocks[i].memory && behind < blocks[i].bytes;
            in_slack |= memory >= blocks[i].memory && behind >= blocks[i].bytes &&
                        behind < blocks[i].bytes * 5 / 4 + 4096;
        }
        if (inside) {
            assert_int_equal(nigh_heap_find(heap, memory, 1, &offset), 0);
            assert_int_equal(offset, arena.layout.heap_off + at);
            span++;
        } else if (!in_slack) {
            not_found(memory, 1);
        }
    }
    assert_true(span > 1000);
    unmake();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_is_served),
        cmocka_unit_test(what_is_not_a_block_is_not_found),
        cmocka_unit_test(a_slabs_tail_is_not_found),
        cmocka_unit_test(bad_frees_are_refused),
        cmocka_unit_test(held_small_blocks_stay),
        cmocka_unit_test(held_large_blocks_stay),
        cmocka_unit_test(unhold_of_what_is_not_held_is_asserted),
        cmocka_unit_test(a_full_heap_refuses_once_in_words),
        cmocka_unit_test(an_empty_heap_serves_nothing),
        cmocka_unit_test(small_blocks_fill_it_and_leave_it_whole),
        cmocka_unit_test(freed_memory_is_used_again_first),
        cmocka_unit_test(memory_is_committed_as_it_is_used),
        cmocka_unit_test(refused_commits_change_nothing),
        cmocka_unit_test(missing_private_memory_changes_nothing),
        cmocka_unit_test(random_use_agrees_with_a_model),
        cmocka_unit_test(find_agrees_with_a_model_at_every_byte),
    };
    return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
