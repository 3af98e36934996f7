/* SPDX-License-Identifier: BSD-3-Clause */
/* Domains of groups on machines that hwloc makes up: which, by which level, and that the steps of small calls bring everything
 * to everyone; against what is computed here the long way. And where this process runs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/tree.h"
#include <hwloc.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = NIGH_GROUP_MAX, LEVELS = 3 };

static struct nigh_where places[MOST];
static uint64_t words[MOST];
static uint32_t members;

static uint16_t number_of(hwloc_topology_t machine, hwloc_obj_t pu, hwloc_obj_type_t type)
{
    hwloc_obj_t object = hwloc_get_ancestor_obj_by_type(machine, type, pu);

    return object ? (uint16_t)(object->logical_index + 1) : 0;
}

/* One member on each `step`th PU of the machine. */
static void on_machine(const char *description, unsigned step)
{
    hwloc_topology_t machine;

    assert_int_equal(hwloc_topology_init(&machine), 0);
    assert_int_equal(hwloc_topology_set_synthetic(machine, description), 0);
    assert_int_equal(hwloc_topology_load(machine), 0);
    members = 0;
    for (int i = 0; i < hwloc_get_nbobjs_by_type(machine, HWLOC_OBJ_PU); i += (int)step) {
        hwloc_obj_t pu = hwloc_get_obj_by_type(machine, HWLOC_OBJ_PU, (unsigned)i);

        assert_true(members < MOST);
        places[members++] = (struct nigh_where){
            .l3 = number_of(machine, pu, HWLOC_OBJ_L3CACHE),
            .node = (uint16_t)(hwloc_bitmap_first(pu->nodeset) + 1),
            .package = number_of(machine, pu, HWLOC_OBJ_PACKAGE),
        };
    }
    hwloc_topology_destroy(machine);
}

static void shuffle(uint64_t seed)
{
    for (uint32_t i = members; i > 1; i--) {
        uint32_t other;
        struct nigh_where kept = places[i - 1];

        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        other = (uint32_t)(seed >> 33) % i;
        places[i - 1] = places[other];
        places[other] = kept;
    }
}

/* ---- the long way -------------------------------------------------------------------------------------- */

static uint16_t place_of(uint32_t member, enum nigh_level level)
{
    const struct nigh_where *at = &places[member];

    return level == NIGH_LEVEL_L3 ? at->l3 : level == NIGH_LEVEL_NODE ? at->node : at->package;
}

static bool all_know(enum nigh_level level)
{
    for (uint32_t i = 0; i < members; i++)
        if (!place_of(i, level))
            return false;
    return true;
}

static bool together(uint32_t one, uint32_t other, enum nigh_level level)
{
    return level == NIGH_LEVEL_FLAT || place_of(one, level) == place_of(other, level);
}

static bool leads(uint32_t member, enum nigh_level level)
{
    for (uint32_t i = 0; i < member; i++)
        if (together(i, member, level))
            return false;
    return true;
}

static uint32_t domains_at(enum nigh_level level)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < members; i++)
        count += leads(i, level);
    return count;
}

static uint32_t line_ns(uint32_t one, uint32_t other)
{
    const struct nigh_where *a = &places[one], *b = &places[other];

    if (a->l3 && a->l3 == b->l3)
        return 50;
    if (a->package != b->package)
        return 250;
    return a->l3 == b->l3 ? 50 : 150;
}

enum { WITHIN, ACROSS };

/* The slowest of those that load a line each of all whom they meet. */
static uint32_t loads_ns(enum nigh_level level, int which)
{
    uint32_t slowest = 0;

    for (uint32_t i = 0; i < members; i++) {
        uint32_t most = 0, sum = 0, ns;

        if (!leads(i, level) && level != NIGH_LEVEL_FLAT)
            continue;
        for (uint32_t k = 0; k < members; k++) {
            if (k == i || (which == WITHIN ? !together(i, k, level) : !leads(k, level)))
                continue;
            ns = line_ns(i, k);
            sum += ns;
            most = ns > most ? ns : most;
        }
        ns = most + (sum - most) / 8;
        slowest = ns > slowest ? ns : slowest;
    }
    return slowest;
}

static enum nigh_level fastest(uint32_t *flat, uint32_t *ns)
{
    enum nigh_level best = NIGH_LEVEL_FLAT;

    *flat = *ns = loads_ns(NIGH_LEVEL_FLAT, WITHIN);
    for (int i = NIGH_LEVEL_L3; i <= NIGH_LEVEL_PACKAGE; i++) {
        enum nigh_level level = (enum nigh_level)i;
        uint32_t tree;

        if (members < NIGH_TREE_LEAST || !all_know(level) || domains_at(level) < 2)
            continue;
        tree = 2 * (loads_ns(level, WITHIN) + 50) + loads_ns(level, ACROSS);
        if (tree >= *flat - *flat / 5 || tree >= *ns)
            continue;
        best = level;
        *ns = tree;
    }
    return best;
}

/* ---- checks -------------------------------------------------------------------------------------------- */

static void say(enum nigh_level level)
{
    for (uint32_t i = 0; i < members; i++) {
        words[i] = nigh_tree_word(&places[i], level);
        assert_true(nigh_tree_is_word(words[i]));
    }
}

static void check_domains(const struct nigh_tree *tree)
{
    uint32_t at = 0;

    assert_int_equal(tree->members, members);
    assert_int_equal(tree->domains, domains_at(tree->level));
    for (uint32_t d = 0; d < tree->domains; d++) {
        uint32_t lowest = nigh_tree_representative(tree, d, NIGH_TREE_NO_ROOT), before = 0;

        assert_int_equal(tree->start[d], at);
        assert_true(nigh_tree_size(tree, d) > 0);
        assert_true(leads(lowest, tree->level));
        for (; at < tree->start[d + 1]; at++) {
            uint32_t member = tree->order[at];

            assert_true(at == tree->start[d] || member > before);
            before = member;
            assert_int_equal(tree->domain[member], d);
            assert_int_equal(tree->position[member], at - tree->start[d]);
            assert_true(together(lowest, member, tree->level));
        }
    }
    assert_int_equal(at, members);
}

/* What each member has of whose input, step by step, as far as those before it have come. */
struct play {
    bool has[MOST][MOST], up[MOST][MOST], down[MOST][MOST];
    bool is_up[MOST], is_down[MOST];
    enum nigh_tree_step step[MOST];
};
static struct play play;

static void join(bool *into, const bool *from)
{
    for (uint32_t i = 0; i < members; i++)
        into[i] |= from[i];
}

static bool step(const struct nigh_tree *tree, uint32_t root, uint32_t me)
{
    uint32_t home = tree->domain[me];

    switch (play.step[me]) {
    case NIGH_TREE_COLLECT:
        for (uint32_t i = 0; i < members; i++)
            play.has[me][i] |= tree->domain[i] == home;
        return true;
    case NIGH_TREE_SHOW_UP:
        assert_int_equal(nigh_tree_representative(tree, home, NIGH_TREE_NO_ROOT), me);
        join(play.up[me], play.has[me]);
        return play.is_up[me] = true;
    case NIGH_TREE_EXCHANGE:
        for (uint32_t d = 0; d < tree->domains; d++)
            if (d != home && !play.is_up[nigh_tree_representative(tree, d, root)])
                return false;
        for (uint32_t d = 0; d < tree->domains; d++)
            if (d != home)
                join(play.has[me], play.up[nigh_tree_representative(tree, d, root)]);
        return true;
    case NIGH_TREE_FROM_ROOT:
        if (root < MOST)
            play.has[me][root] = true;
        return true;
    case NIGH_TREE_SHOW_DOWN:
        assert_int_equal(nigh_tree_representative(tree, home, NIGH_TREE_NO_ROOT), me);
        join(play.down[me], play.has[me]);
        return play.is_down[me] = true;
    case NIGH_TREE_FROM_REPRESENTATIVE:
        if (!play.is_down[nigh_tree_representative(tree, home, root)])
            return false;
        join(play.has[me], play.down[nigh_tree_representative(tree, home, root)]);
        return true;
    default:
        return true;
    }
}

static void check_steps(const struct nigh_tree *tree, uint32_t op, uint32_t root)
{
    bool moved = true;

    memset(&play, 0, sizeof(play));
    for (uint32_t i = 0; i < members; i++)
        play.step[i] = nigh_tree_next(tree, op, root, i, NIGH_TREE_DONE);
    while (moved) {
        moved = false;
        for (uint32_t i = members; i-- > 0;) {
            if (play.step[i] == NIGH_TREE_DONE || !step(tree, root, i))
                continue;
            play.step[i] = nigh_tree_next(tree, op, root, i, play.step[i]);
            moved = true;
        }
    }
    for (uint32_t i = 0; i < members; i++) {
        assert_int_equal(play.step[i], NIGH_TREE_DONE);
        for (uint32_t k = 0; k < members; k++) {
            if (op == NIGH_ALLREDUCE || op == NIGH_BARRIER || (op == NIGH_REDUCE && i == root))
                assert_true(play.has[i][k]);
            if (op == NIGH_BROADCAST && i != root)
                assert_int_equal(play.has[i][k], k == root);
        }
    }
}

static void check_all_steps(const struct nigh_tree *tree)
{
    check_steps(tree, NIGH_BARRIER, NIGH_TREE_NO_ROOT);
    check_steps(tree, NIGH_ALLREDUCE, NIGH_TREE_NO_ROOT);
    for (uint32_t root = 0; root<members; root += members> 40 ? 37 : 1) {
        check_steps(tree, NIGH_BROADCAST, root);
        check_steps(tree, NIGH_REDUCE, root);
    }
}

/* By the model, and by each level that the host wants. */
static enum nigh_level check(void)
{
    struct nigh_tree tree, again;
    uint32_t flat, ns;
    enum nigh_level best = fastest(&flat, &ns);

    say(NIGH_LEVEL_AUTO);
    nigh_tree_make(words, members, &tree);
    nigh_tree_make(words, members, &again);
    assert_memory_equal(&tree, &again, sizeof(tree));
    assert_int_equal(tree.level, best);
    assert_int_equal(tree.flat_ns, flat);
    assert_int_equal(tree.ns, ns);
    check_domains(&tree);
    for (int i = NIGH_LEVEL_FLAT; i <= NIGH_LEVEL_PACKAGE; i++) {
        enum nigh_level level = (enum nigh_level)i;
        bool can = level == NIGH_LEVEL_FLAT || (all_know(level) && domains_at(level) > 1);

        say(level);
        nigh_tree_make(words, members, &tree);
        assert_int_equal(tree.level, can ? level : NIGH_LEVEL_FLAT);
        check_domains(&tree);
        if (tree.level != NIGH_LEVEL_FLAT)
            check_all_steps(&tree);
    }
    return best;
}

/* ---- machines ------------------------------------------------------------------------------------------ */

static void test_machines(void **state)
{
    static const struct {
        const char *machine;
        unsigned step;
        enum nigh_level level;
    } cases[] = {
        {"pack:1 [numa] l3:1 core:2 pu:1", 1, NIGH_LEVEL_FLAT},
        {"pack:1 [numa] l3:1 core:64 pu:1", 1, NIGH_LEVEL_FLAT},
        {"pack:1 [numa] l3:2 core:8 pu:1", 1, NIGH_LEVEL_FLAT},
        {"pack:1 [numa] l3:4 core:8 pu:1", 1, NIGH_LEVEL_L3},
        {"pack:1 [numa] l3:8 core:8 pu:1", 1, NIGH_LEVEL_L3},
        {"pack:2 [numa] l3:12 core:8 pu:1", 1, NIGH_LEVEL_L3},
        {"pack:2 [numa] l3:12 core:8 pu:2", 2, NIGH_LEVEL_L3},
        {"pack:2 [numa] l3:1 core:32 pu:1", 1, NIGH_LEVEL_L3},
        {"pack:2 numa:4 l3:4 core:4 pu:2", 2, NIGH_LEVEL_L3},
        {"pack:2 numa:4 l3:4 core:4 pu:2", 1, NIGH_LEVEL_L3},
        {"pack:2 numa:4 core:16 pu:1", 1, NIGH_LEVEL_NODE},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        on_machine(cases[i].machine, cases[i].step);
        assert_int_equal(check(), cases[i].level);
        shuffle(i);
        assert_int_equal(check(), cases[i].level);
    }
}

/* Members on some domains alone, one in a domain, and fewer than a domain holds. */
static void test_uneven(void **state)
{
    (void)state;
    for (unsigned step = 3; step < 64; step = step * 2 + 1) {
        on_machine("pack:2 numa:4 l3:4 core:4 pu:2", step);
        check();
        shuffle(step);
        check();
    }
    on_machine("pack:2 [numa] l3:12 core:8 pu:1", 1);
    memmove(places + 50, places + 100, 92 * sizeof(places[0]));
    members = 142;
    shuffle(7);
    assert_int_equal(check(), NIGH_LEVEL_L3);
    for (members = 1; members < 40; members += 5)
        check();
}

static void test_unbound(void **state)
{
    struct nigh_tree tree;

    (void)state;
    on_machine("pack:2 [numa] l3:12 core:8 pu:1", 1);
    places[77].l3 = 0;
    check();
    places[77] = (struct nigh_where){.l3 = 0};
    assert_int_equal(check(), NIGH_LEVEL_FLAT);
    /* One that wants none decides for all, and of several levels the widest. */
    on_machine("pack:2 [numa] l3:12 core:8 pu:1", 1);
    say(NIGH_LEVEL_L3);
    words[9] = nigh_tree_word(&places[9], NIGH_LEVEL_PACKAGE);
    nigh_tree_make(words, members, &tree);
    assert_int_equal(tree.level, NIGH_LEVEL_PACKAGE);
    words[10] = nigh_tree_word(&places[10], NIGH_LEVEL_FLAT);
    nigh_tree_make(words, members, &tree);
    assert_int_equal(tree.level, NIGH_LEVEL_FLAT);
    assert_false(nigh_tree_is_word(UINT64_C(5) << 48));
    assert_false(nigh_tree_is_word(UINT64_MAX));
}

/* Whatever is said, the domains hold together. */
static void test_nonsense(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (unsigned round = 0; round < 200; round++) {
        struct nigh_tree tree;
        uint32_t seen[MOST] = {0};

        members = 1 + round * 7 % MOST;
        for (uint32_t i = 0; i < members; i++) {
            random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
            words[i] = random >> 8 & UINT64_C(0xffffffffffff);
            words[i] = (round % 2 ? words[i] & UINT64_C(0x000300030003) : words[i]) | (uint64_t)(round % 5)
                                                                                          << 48;
        }
        nigh_tree_make(words, members, &tree);
        assert_true(tree.domains >= 1 && tree.domains <= members);
        assert_int_equal(tree.start[tree.domains], members);
        for (uint32_t i = 0; i < members; i++)
            seen[tree.order[i]]++;
        for (uint32_t i = 0; i < members; i++)
            assert_int_equal(seen[i], 1);
    }
}

/* ---- which calls --------------------------------------------------------------------------------------- */

static void test_kinds(void **state)
{
    struct nigh_tree tree;
    struct nigh_collective call = {.op = NIGH_ALLREDUCE, .type = NIGH_I32, .reduction = NIGH_SUM};

    (void)state;
    on_machine("pack:1 [numa] l3:8 core:8 pu:1", 1);
    say(NIGH_LEVEL_AUTO);
    nigh_tree_make(words, members, &tree);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 4096), NIGH_TREE_PARTIAL);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 4100), NIGH_TREE_NOT);
    /* A sum of floats has an order. */
    call.type = NIGH_F32;
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 512), NIGH_TREE_VECTORS);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 516), NIGH_TREE_NOT);
    call.type = NIGH_BOOL;
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 512), NIGH_TREE_PARTIAL);
    call.type = NIGH_I64_I32;
    call.reduction = NIGH_MINLOC;
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 16), NIGH_TREE_VECTORS);
    call.type = NIGH_I32;
    call.reduction = NIGH_FUNCTION;
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 16), NIGH_TREE_VECTORS);
    call = (struct nigh_collective){.op = NIGH_SCAN, .type = NIGH_I32, .reduction = NIGH_SUM};
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 16), NIGH_TREE_NOT);
    call = (struct nigh_collective){.op = NIGH_BROADCAST, .type = NIGH_F32};
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 8192), NIGH_TREE_VECTORS);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 8193), NIGH_TREE_RELAY);
    call.op = NIGH_ALLGATHER;
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 64 * 8192), NIGH_TREE_NOT);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 64 * 8192 + 1), NIGH_TREE_RELAY);
    call = (struct nigh_collective){.op = NIGH_BARRIER};
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 0), NIGH_TREE_VECTORS);
    members = 8;
    nigh_tree_make(words, members, &tree);
    assert_int_equal(nigh_tree_kind_of(&tree, &call, 0), NIGH_TREE_NOT);
}

/* ---- where --------------------------------------------------------------------------------------------- */

static void test_parse(void **state)
{
    static const char *const bad[] = {"",       "1",      "1/2",    "1/2/",    "1/2/3/",
                                      "a/b/c",  "1//2",   " 1/2/3", "1/2/3 ",  "65535/0/0",
                                      "-1/0/0", "0/0/-0", "/0/0",   "1/2/3/4", "999999999999999999999/0/0"};
    struct nigh_where where = {9, 9, 9};

    (void)state;
    for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_false(nigh_where_parse(bad[i], &where));
        assert_int_equal(where.l3, 9);
    }
    assert_true(nigh_where_parse("3/-/65534", &where));
    assert_int_equal(where.l3, 4);
    assert_int_equal(where.node, 0);
    assert_int_equal(where.package, 65535);
}

static int first_cpu(void)
{
    cpu_set_t all;
    int cpu = 0;

    assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    return cpu;
}

static void bind_to(int cpu, cpu_set_t *before)
{
    cpu_set_t one;

    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    assert_int_equal(sched_getaffinity(0, sizeof(*before), before), 0);
    assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

/* As hwloc says it of the CPU that this thread is bound to. */
static void test_here(void **state)
{
    hwloc_topology_t machine;
    struct nigh_where where;
    cpu_set_t before;
    hwloc_obj_t pu, l3;
    int cpu = first_cpu();

    (void)state;
    assert_int_equal(hwloc_topology_init(&machine), 0);
    assert_int_equal(hwloc_topology_load(machine), 0);
    pu = hwloc_get_pu_obj_by_os_index(machine, (unsigned)cpu);
    assert_non_null(pu);
    l3 = hwloc_get_ancestor_obj_by_type(machine, HWLOC_OBJ_L3CACHE, pu);
    bind_to(cpu, &before);
    nigh_where_look(&where);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    if (l3)
        assert_int_equal(where.l3, hwloc_bitmap_first(l3->complete_cpuset) + 1);
    if (where.node)
        assert_int_equal(where.node, hwloc_bitmap_first(pu->nodeset) + 1);
    hwloc_topology_destroy(machine);
}

/* On a machine that is described: the place of the CPUs that this thread may use, as far as they agree. */
static void test_described(void **state)
{
    struct nigh_where where;
    cpu_set_t before;
    int cpu = first_cpu();

    (void)state;
    if (cpu > 60)
        skip();
    setenv("HWLOC_SYNTHETIC", "pack:2 [numa] l3:2 core:16 pu:1", 1);
    bind_to(cpu, &before);
    nigh_where_look(&where);
    assert_int_equal(where.l3, cpu / 16 + 1);
    assert_int_equal(where.node, cpu / 32 + 1);
    assert_int_equal(where.package, cpu / 32 + 1);
    assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
    setenv("HWLOC_SYNTHETIC", "pack:1 [numa] l3:64 core:1 pu:1", 1);
    nigh_where_look(&where);
    if (CPU_COUNT(&before) > 1)
        assert_int_equal(where.l3, 0);
    /* It has no such CPU. */
    setenv("HWLOC_SYNTHETIC", "pack:1 [numa] l3:1 core:1 pu:1", 1);
    nigh_where_look(&where);
    if (CPU_COUNT(&before) > 1)
        assert_int_equal(where.l3 + where.node + where.package, 0);
    unsetenv("HWLOC_SYNTHETIC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machines), cmocka_unit_test(test_uneven),    cmocka_unit_test(test_unbound),
        cmocka_unit_test(test_nonsense), cmocka_unit_test(test_kinds),     cmocka_unit_test(test_parse),
        cmocka_unit_test(test_here),     cmocka_unit_test(test_described),
    };

    unsetenv("HWLOC_XMLFILE");
    unsetenv("HWLOC_SYNTHETIC");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
