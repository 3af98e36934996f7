/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of groups, against what one process computes without nigh: every operation, all lengths' ways, in place and not, blocks
 * that differ, several calls under way. The members are contexts of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/company.h"
#include "tests/support/pair.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct company company;
static const uint32_t in_order[COMPANY_MAX] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                               12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};
/* Elements of four bytes: nothing; both sides of a slot's first line, and of its last; whole; both sides of each limit; units and a rest; more than one turn. */
static const uint64_t lengths[] = {0, 1, 3, 8, 9, 72, 73, 1023, 1025, 2049, 4097, 8193, 20001, 70003, 150001};

static bool is_rooted(uint16_t op)
{
    return op == NIGH_BROADCAST || op == NIGH_REDUCE || op == NIGH_GATHER || op == NIGH_SCATTER;
}

static bool is_reduction(uint16_t op)
{
    return op == NIGH_REDUCE || op == NIGH_ALLREDUCE || op >= NIGH_REDUCE_SCATTER;
}

static bool has_blocks(uint16_t op)
{
    return op == NIGH_GATHER || op == NIGH_SCATTER || op == NIGH_ALLGATHER || op == NIGH_ALLTOALL ||
           op == NIGH_REDUCE_SCATTER;
}

/* All forms of `op` of one length. */
static void all_forms(uint16_t op, uint32_t members, struct nigh_group *const *groups, uint64_t count,
                      const struct call_case *base)
{
    uint32_t roots = is_rooted(op) ? members : 1;

    for (uint32_t root = 0; root<roots; root += roots> 3 ? 2 : 1) {
        for (int blocks = CALL_EVEN; blocks <= (has_blocks(op) ? CALL_GAPPED : CALL_EVEN); blocks++) {
            for (int in_place = 0; in_place < (op == NIGH_BARRIER ? 1 : 2); in_place++) {
                struct call_case of = *base;

                of.op = op;
                of.type = NIGH_I32;
                of.reduction = is_reduction(op) ? NIGH_SUM : 0;
                of.members = members;
                of.root = root;
                of.count = count;
                of.in_place = in_place;
                of.blocks = (enum call_blocks)blocks;
                of.seed = count * 7 + root + (uint64_t)op * 100 + (uint64_t)in_place;
                company_call(&company, in_order, groups, &of, (uint32_t)of.seed % members);
            }
        }
    }
}

static void all_operations(uint32_t members, const struct call_case *base, uint64_t most)
{
    struct nigh_group *groups[COMPANY_MAX];

    company_group(&company, in_order, members, groups);
    for (uint16_t op = NIGH_BARRIER; op <= NIGH_EXSCAN; op++)
        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++)
            if (lengths[i] <= most)
                all_forms(op, members, groups, lengths[i], base);
    company_leave(groups, members);
}

/* NIGH_TEST_BRIEF: an emulator does several members' long calls in minutes. */
static void with_path(const char *path, uint32_t members, uint64_t most)
{
    struct call_case base = {.op = 0};

    if (getenv("NIGH_TEST_BRIEF") && members > 2)
        most = members > 8 ? 73 : 2049;
    company_open(&company, members, 0, path);
    all_operations(members, &base, most);
    company_close(&company);
}

static void test_alone(void **state)
{
    (void)state;
    with_path(NULL, 1, UINT64_MAX);
}

static void test_two(void **state)
{
    (void)state;
    with_path(NULL, 2, UINT64_MAX);
}

static void test_three(void **state)
{
    (void)state;
    with_path(NULL, 3, 20001);
}

static void test_eight(void **state)
{
    (void)state;
    with_path(NULL, 8, 20001);
}

static void test_seventeen(void **state)
{
    (void)state;
    with_path(NULL, 17, 2049);
}

/* Where nobody may read another's memory. */
static void test_copied(void **state)
{
    (void)state;
    with_path("chunked", 2, UINT64_MAX);
    with_path("chunked", 5, 20001);
}

static void *take_heap(void *arg, uint64_t bytes)
{
    struct company_member *member = arg;
    void *memory;

    assert_int_equal(company_ops->heap_alloc(member->context, bytes, &memory), 0);
    return memory;
}

/* In turn of each member's heap: as a member's own in place, or not its own, which is read by the kernel. */
static void test_heap(void **state)
{
    struct nigh_group *groups[COMPANY_MAX];

    (void)state;
    company_open(&company, 3, 0, NULL);
    company_group(&company, in_order, 3, groups);
    for (uint16_t op = NIGH_BROADCAST; op <= NIGH_EXSCAN; op++) {
        struct call_case of = {.op = op,
                               .type = NIGH_U32,
                               .reduction = is_reduction(op) ? NIGH_MAX : 0,
                               .members = 3,
                               .count = 30011,
                               .seed = op,
                               .take = take_heap,
                               .arg = &company.members[op % 3]};

        company_call(&company, in_order, groups, &of, 0);
        of.in_place = true;
        company_call(&company, in_order, groups, &of, 1);
    }
    company_leave(groups, 3);
    company_close(&company);
}

/* ---- types and operations ------------------------------------------------------------------------------ */

static void test_types(void **state)
{
    static const uint64_t counts[] = {1, 6, 1000, 9001};
    struct nigh_group *groups[COMPANY_MAX];

    (void)state;
    company_open(&company, 4, 0, NULL);
    company_group(&company, in_order, 4, groups);
    for (uint16_t type = NIGH_I8; type <= NIGH_F64_I32; type++) {
        for (uint16_t reduction = NIGH_SUM; reduction <= NIGH_MAXLOC; reduction++) {
            for (unsigned i = 0; i < 4; i++) {
                struct call_case of = {.op = NIGH_ALLREDUCE,
                                       .type = type,
                                       .reduction = reduction,
                                       .members = 4,
                                       .count = counts[i],
                                       .seed = i};
                struct call_room room;
                int rc;

                call_case_make(&of, 0, &room);
                room.call.context = 1000;
                rc = i ? 0 : company_ops->post_collective(groups[0], &room.call);
                if (rc) {
                    assert_int_equal(rc, -EOPNOTSUPP);
                    call_case_free(&room);
                    break;
                }
                if (!i) { /* the others of the call that was tried */
                    struct call_room others[3];

                    for (uint32_t m = 1; m < 4; m++) {
                        call_case_make(&of, m, &others[m - 1]);
                        others[m - 1].call.context = 1000 + m;
                        assert_int_equal(company_ops->post_collective(groups[m], &others[m - 1].call), 0);
                    }
                    for (uint32_t m = 0; m < 4; m++) {
                        struct call_room *of_member = m ? &others[m - 1] : &room;

                        assert_int_equal(company_await(&company, m, 1000 + m).status, 0);
                        if (call_case_check(of_member))
                            fail_msg("%s: %s", call_case_text(&of, m), call_case_check(of_member));
                        call_case_free(of_member);
                    }
                    continue;
                }
                call_case_free(&room);
                company_call(&company, in_order, groups, &of, i);
            }
        }
    }
    company_leave(groups, 4);
    company_close(&company);
}

/* The host's function, whose operands have an order; elements longer than a unit. */
static void test_function(void **state)
{
    struct nigh_group *groups[COMPANY_MAX];
    static const uint16_t ops[] = {NIGH_REDUCE, NIGH_ALLREDUCE, NIGH_REDUCE_SCATTER, NIGH_SCAN, NIGH_EXSCAN};

    (void)state;
    company_open(&company, 5, 0, NULL);
    company_group(&company, in_order, 5, groups);
    for (unsigned k = 0; k < 5; k++) {
        for (uint64_t count = 1; count < 50000; count = count * 5 + 1) {
            struct call_case of = {.op = ops[k],
                                   .type = NIGH_OPAQUE,
                                   .reduction = NIGH_FUNCTION,
                                   .members = 5,
                                   .count = count,
                                   .seed = count + k,
                                   .in_place = count % 2};

            company_call(&company, in_order, groups, &of, k);
        }
    }
    company_leave(groups, 5);
    company_close(&company);
}

/* ---- several at a time --------------------------------------------------------------------------------- */

enum { GROUPS = 5, ROUNDS = 40, UNDER_WAY = 12 };

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

static void draw_case(struct call_case *of, uint32_t members)
{
    static const uint64_t most[] = {13, 600, 3000, 30000, 100000};

    *of = (struct call_case){
        .op = (uint16_t)(NIGH_BARRIER + draw(NIGH_EXSCAN)), .type = NIGH_U16, .members = members};
    of->reduction = is_reduction(of->op) ? (uint16_t)(draw(2) ? NIGH_SUM : NIGH_MAX) : 0;
    of->root = is_rooted(of->op) ? (uint32_t)draw(members) : 0;
    of->count = draw(most[draw(5)]);
    of->in_place = of->op != NIGH_BARRIER && draw(2);
    of->blocks = has_blocks(of->op) ? (enum call_blocks)draw(3) : CALL_EVEN;
    of->seed = draw(1u << 30);
}

struct together {
    struct call_case of;
    uint32_t group;
    struct call_room rooms[COMPANY_MAX];
    uint32_t posted; /* members that have */
};

/* Groups that overlap, calls of each in its order, members in any. */
static void mixed(uint32_t count, uint64_t seed, const char *path)
{
    static struct together calls[UNDER_WAY];
    static struct nigh_group *groups[GROUPS][COMPANY_MAX];
    uint32_t who[GROUPS][COMPANY_MAX], size[GROUPS];

    random_state = seed;
    company_open(&company, count, 0, path);
    for (uint32_t g = 0; g < GROUPS; g++) {
        uint32_t from = (uint32_t)draw(count);

        size[g] = 1 + (uint32_t)draw(count);
        for (uint32_t i = 0; i < size[g]; i++)
            who[g][i] = (from + i) % count;
        company_group(&company, who[g], size[g], groups[g]);
    }
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t left = 0;

        for (uint32_t i = 0; i < UNDER_WAY; i++) {
            struct together *call = &calls[i];

            call->group = (uint32_t)draw(GROUPS);
            call->posted = 0;
            draw_case(&call->of, size[call->group]);
            left += call->of.members;
            for (uint32_t m = 0; m < call->of.members; m++) {
                call_case_make(&call->of, m, &call->rooms[m]);
                call->rooms[m].call.context = 100 * i + m;
            }
        }
        /* One post of any member's next call, which is the first that it has not made. */
        while (left) {
            uint32_t member = (uint32_t)draw(count), at = 0;
            struct together *call = NULL;
            uint32_t place = 0;

            for (; at < UNDER_WAY && !call; at++)
                for (uint32_t m = 0; m < calls[at].of.members && !call; m++)
                    if (who[calls[at].group][m] == member && !(calls[at].posted >> m & 1)) {
                        call = &calls[at];
                        place = m;
                    }
            if (!call)
                continue;
            assert_int_equal(
                company_ops->post_collective(groups[call->group][place], &call->rooms[place].call), 0);
            call->posted |= 1u << place;
            left--;
            if (!draw(4))
                company_poll(&company);
        }
        for (uint32_t i = 0; i < UNDER_WAY; i++) {
            struct together *call = &calls[i];

            for (uint32_t m = 0; m < call->of.members; m++) {
                struct nigh_completion done = company_await(&company, who[call->group][m], 100 * i + m);
                const char *wrong = done.status ? "it has failed" : call_case_check(&call->rooms[m]);

                if (wrong)
                    fail_msg("seed %llu round %u: %s: %s", (unsigned long long)seed, round,
                             call_case_text(&call->of, m), wrong);
                call_case_free(&call->rooms[m]);
            }
        }
    }
    for (uint32_t g = 0; g < GROUPS; g++)
        company_leave(groups[g], size[g]);
    company_close(&company);
}

static void test_mixed(void **state)
{
    const char *given = getenv("NIGH_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;

    (void)state;
    mixed(2, seed, NULL);
    mixed(4, seed + 1, NULL);
    mixed(6, seed + 2, NULL);
    mixed(4, seed + 3, "chunked");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone), cmocka_unit_test(test_two),       cmocka_unit_test(test_three),
        cmocka_unit_test(test_eight), cmocka_unit_test(test_seventeen), cmocka_unit_test(test_copied),
        cmocka_unit_test(test_heap),  cmocka_unit_test(test_types),     cmocka_unit_test(test_function),
        cmocka_unit_test(test_mixed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
