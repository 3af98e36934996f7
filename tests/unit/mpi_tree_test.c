/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/mpi/tree.c: every rank is added once, by whoever says so, and those of one CPU stand in one chain. */
#include "hosts/mpi/tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RANKS 40

static uint8_t masks[RANKS][NIGH_MPI_CPUS_BYTES];
static int chain[RANKS];

static void allow(int rank, int cpu)
{
    masks[rank][cpu / 8] |= (uint8_t)(1 << cpu % 8);
}

/* How many ranks hang under this one, itself included; what parents say must be what children say. */
static int under(int chains, int ranks, int root, int rank, int parent, int depth)
{
    struct nigh_mpi_tree tree;
    int sum = 1;

    assert_true(depth <= ranks);
    nigh_mpi_tree(chain, chains, ranks, root, rank, &tree);
    assert_int_equal(tree.parent, parent);
    assert_in_range(tree.count, 0, NIGH_MPI_CHILDREN);
    for (int c = 0; c < tree.count; c++)
        sum += under(chains, ranks, root, tree.children[c], rank, depth + 1);
    return sum;
}

static void check_all(int chains, int ranks)
{
    for (int root = 0; root < ranks; root++)
        assert_int_equal(under(chains, ranks, root, root, NIGH_MPI_NONE, 1), ranks);
}

static void each_rank_hangs_under_every_root_once(void **state)
{
    (void)state;
    for (int ranks = 1; ranks <= RANKS; ranks++)
        for (int cpus = 1; cpus <= ranks; cpus += 1 + cpus / 3) {
            int all;

            memset(masks, 0, sizeof masks);
            for (int r = 0; r < ranks; r++)
                allow(r, r % cpus);
            assert_int_equal(nigh_mpi_chains(masks[0], ranks, chain, &all), cpus);
            assert_int_equal(all, cpus);
            check_all(cpus, ranks);
        }
}

static void chains_of_any_lengths(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 300; round++) {
        int ranks = 1 + rand() % RANKS, cpus, chains;

        memset(masks, 0, sizeof masks);
        for (int r = 0; r < ranks; r++)
            allow(r, 100 * (rand() % 9) + 3);
        chains = nigh_mpi_chains(masks[0], ranks, chain, &cpus);
        assert_int_equal(chains, cpus);
        check_all(chains, ranks);
    }
}

/* Only the ends of chains are added across CPUs. */
static void a_chain_is_of_one_cpu(void **state)
{
    struct nigh_mpi_tree tree;
    int cpus;

    (void)state;
    memset(masks, 0, sizeof masks);
    for (int r = 0; r < 8; r++)
        allow(r, r < 4 ? 1 : 1000);
    assert_int_equal(nigh_mpi_chains(masks[0], 8, chain, &cpus), 2);
    for (int r = 0; r < 8; r++)
        assert_int_equal(chain[r], r >= 4);
    nigh_mpi_tree(chain, 2, 8, 6, 6, &tree);
    assert_int_equal(tree.count, 2);
    assert_int_equal(tree.children[0], 7); /* the next of its own, behind it in the circle */
    assert_int_equal(tree.children[1], 0); /* the end of the others: the first behind the root */
    nigh_mpi_tree(chain, 2, 8, 6, 5, &tree);
    assert_int_equal(tree.parent, 4);
    assert_int_equal(tree.count, 0);
}

static void who_may_use_several_cpus_takes_turns(void **state)
{
    int cpus;

    (void)state;
    memset(masks, 0, sizeof masks);
    for (int r = 0; r < 7; r++) {
        allow(r, 0);
        allow(r, 5);
        allow(r, 9);
    }
    assert_int_equal(nigh_mpi_chains(masks[0], 7, chain, &cpus), 3);
    assert_int_equal(cpus, 3);
    for (int r = 0; r < 7; r++)
        assert_int_equal(chain[r], r % 3);
    check_all(3, 7);
}

static void nobody_has_told(void **state)
{
    int cpus;

    (void)state;
    memset(masks, 0, sizeof masks);
    assert_int_equal(nigh_mpi_chains(masks[0], 5, chain, &cpus), 1);
    assert_int_equal(cpus, 0);
    check_all(1, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_rank_hangs_under_every_root_once),
        cmocka_unit_test(chains_of_any_lengths),
        cmocka_unit_test(a_chain_is_of_one_cpu),
        cmocka_unit_test(who_may_use_several_cpus_takes_turns),
        cmocka_unit_test(nobody_has_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
