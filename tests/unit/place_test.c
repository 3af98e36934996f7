/* SPDX-License-Identifier: BSD-3-Clause */
/* Where shared memory really lies, and in which pages: asked of the kernel, on a machine with several NUMA nodes, or
 * with huge pages for shared memory. With fakes topology_test.c and arena_test.c say what is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <numa.h>
#include <numaif.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NODES = 64, BYTES = 1 << 20, TAG = 1 };

static cpu_set_t affinity;
static int cpu_of[NODES]; /* one of the node's that we may use, -1 */
static int nodes[NODES], count;

static int find_nodes(void **state)
{
    (void)state;
    alarm(300);
    if (sched_getaffinity(0, sizeof(affinity), &affinity))
        return -1;
    for (int node = 0; node < NODES; node++)
        cpu_of[node] = -1;
    for (int cpu = 0; cpu < CPU_SETSIZE && numa_available() >= 0; cpu++) {
        int node = CPU_ISSET(cpu, &affinity) ? numa_node_of_cpu(cpu) : -1;

        if (node >= 0 && node < NODES && cpu_of[node] < 0) {
            cpu_of[node] = cpu;
            nodes[count++] = node;
        }
    }
    return 0;
}

static int unpin(void **state)
{
    (void)state;
    return sched_setaffinity(0, sizeof(affinity), &affinity);
}

static void pin(int node)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu_of[node], &one);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* The case ends here where there is nowhere else to be. */
static void needs_two_nodes(void)
{
    if (count > 1)
        return;
    print_message("the CPUs that this process may use are all on one NUMA node\n");
    skip();
}

static void check_pages(const char *what, const void *base, uint64_t bytes, int wanted)
{
    for (uint64_t at = 0; at < bytes; at += NIGH_PAGE) {
        int node = -1;

        assert_int_equal(
            get_mempolicy(&node, NULL, 0, (char *)(uintptr_t)base + at, MPOL_F_NODE | MPOL_F_ADDR), 0);
        if (node != wanted)
            fail_msg("%s: page %llu lies on node %d instead of %d", what,
                     (unsigned long long)(at / NIGH_PAGE), node, wanted);
    }
}

/* Backed by somebody who runs on the other node, it still lies where its owner opened it. */
static void test_an_arena_lies_on_the_node_of_its_owner(void **state)
{
    const struct nigh_arena_config config = {
        .heap_bytes = BYTES, .pool_bytes = BYTES, .peers_max = 64, .incarnation = 1};

    (void)state;
    needs_two_nodes();
    for (int i = 0; i < count; i++) {
        struct nigh_arena arena;
        uint64_t heap;

        pin(nodes[i]);
        assert_int_equal(nigh_arena_create(&config, &arena), 0);
        heap = arena.layout.heap_off;
        pin(nodes[(i + 1) % count]);
        assert_int_equal(nigh_arena_commit(&arena, heap, BYTES), 0);
        memset(arena.base + heap, 1, BYTES);
        check_pages("header", arena.base, arena.layout.pairs_off + NIGH_PAGE, nodes[i]);
        check_pages("heap", arena.base + heap, BYTES, nodes[i]);
        nigh_arena_destroy(&arena);
    }
}

/* Rings, chunks and heap of contexts that talk, each opened and run on a node of its own. */
static void test_what_contexts_write_lies_near_them(void **state)
{
    static struct hosted at[2];
    static uint8_t from[2][BYTES], to[BYTES];
    uint64_t job = hosted_job();
    struct nigh_endpoint *peer[2];
    void *heap;

    (void)state;
    needs_two_nodes();
    for (uint32_t i = 0; i < 2; i++) {
        pin(nodes[i]);
        hosted_open(&at[i], job, i, 0);
    }
    for (uint32_t i = 0; i < 2; i++) {
        uint64_t word = i;

        pin(nodes[i]);
        peer[i] = hosted_connect(&at[i], 1 - i);
        assert_int_equal(hosted_recv(&at[1 - i], NULL, 1 + i, TAG, to, BYTES, 0), 0);
        while (hosted_state(&at[i], peer[i]) != NIGH_READY) {
            pin(nodes[1 - i]);
            hosted_poll(&at[1 - i]);
            pin(nodes[i]);
            hosted_poll(&at[i]);
        }
        /* A short one, for which the ring gets its memory, and a long one, in chunks. */
        assert_int_equal(hosted_send(peer[i], 1, TAG, &word, 8, 0), 0);
        assert_int_equal(hosted_recv(&at[1 - i], NULL, 11 + i, TAG, to, BYTES, 0), 0);
        assert_int_equal(hosted_send(peer[i], 2, TAG, from[i], BYTES, 0), 0);
        while (!hosted_find(&at[1 - i], NIGH_OP_RECV, 11 + i)) {
            pin(nodes[1 - i]);
            hosted_poll(&at[1 - i]);
            pin(nodes[i]);
            hosted_poll(&at[i]);
        }
        assert_int_equal(hosted_ops->heap_alloc(at[i].context, BYTES, &heap), 0);
        memset(heap, 1, BYTES);
        check_pages("heap", heap, BYTES, nodes[i]);
        check_pages("chunks", at[i].context->arena.base + at[i].context->arena.layout.pool_off,
                    (uint64_t)at[i].context->pool.committed * NIGH_CHUNK, nodes[i]);
        check_pages("ring", peer[i]->window.base, peer[i]->window.used, nodes[i]);
    }
    hosted_close(&at[0]);
    hosted_close(&at[1]);
}

/* Who starts a program under numactl has chosen; what was chosen holds. */
static void test_a_policy_of_the_user_holds(void **state)
{
    static struct hosted one;
    unsigned long mask;
    void *heap;

    (void)state;
    needs_two_nodes();
    pin(nodes[0]);
    mask = 1ul << nodes[1];
    assert_int_equal(set_mempolicy(MPOL_BIND, &mask, NODES + 1), 0);
    hosted_open(&one, hosted_job(), 0, 0);
    assert_int_equal(hosted_ops->heap_alloc(one.context, BYTES, &heap), 0);
    memset(heap, 1, BYTES);
    check_pages("heap", heap, BYTES, nodes[1]);
    assert_int_equal(set_mempolicy(MPOL_DEFAULT, NULL, 0), 0);
    hosted_close(&one);
}

/* KiB of the mapping at `base` that lie in huge pages; -1: it is not listed. */
static long huge_kib(const void *base)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char line[256], end[64];
    unsigned long from, to;
    bool ours = false;
    long kib = -1;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file)) {
        if (sscanf(line, "%lx-%lx %63s", &from, &to, end) == 3 &&
            strchr(line, '-') == line + strcspn(line, "- "))
            ours = (uintptr_t)base >= from && (uintptr_t)base < to;
        else if (ours)
            (void)sscanf(line, "ShmemPmdMapped: %ld kB", &kib);
    }
    fclose(file);
    return kib;
}

/* Where they are allowed and free. */
static void test_heap_and_chunks_lie_in_huge_pages(void **state)
{
    static struct hosted one;
    const char *refused = nigh_arena_huge_policy();
    long kib;
    void *heap;

    (void)state;
    if (refused[0] != 0) {
        print_message("%s\n", refused);
        skip();
    }
    hosted_open(&one, hosted_job(), 0, NIGH_OPEN_HUGE);
    assert_true(one.context->arena.huge);
    assert_int_equal(hosted_ops->heap_alloc(one.context, 3 << 20, &heap), 0);
    memset(heap, 1, 3 << 20);
    kib = huge_kib(heap);
    print_message("%ld KiB of the heap's mapping in huge pages\n", kib);
    hosted_close(&one);
    if (kib == 0) {
        print_message("the kernel has no huge page free\n");
        skip();
    }
    assert_true(kib >= 2048);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_an_arena_lies_on_the_node_of_its_owner, unpin),
        cmocka_unit_test_teardown(test_what_contexts_write_lies_near_them, unpin),
        cmocka_unit_test_teardown(test_a_policy_of_the_user_holds, unpin),
        cmocka_unit_test(test_heap_and_chunks_lie_in_huge_pages),
    };

    return cmocka_run_group_tests_name("place", tests, find_nodes, NULL);
}
