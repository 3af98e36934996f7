/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of groups whose members are told that they run on several L3 caches, nodes and packages: every operation, against what
 * one process computes. The members are contexts of this process. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/company.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct company company;
static struct nigh_group *groups[COMPANY_MAX];
static const uint32_t in_order[COMPANY_MAX] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                               12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23};

/* Two domains by turns; one of one member; of one member each; all levels differ. */
static const char *const by_turns[] = {"0/0/0", "8/1/1", "0/0/0", "8/1/1", "0/0/0"};
static const char *const uneven[] = {"5/0/0", "5/0/0", "7/0/0", "5/0/0", "9/1/0", "9/1/0", "5/0/0"};
static const char *const each[] = {"0/0/0", "1/1/1", "2/2/2"};
static const char *const wide[] = {"0/0/0", "1/0/0", "2/1/0", "3/1/0", "4/2/1", "5/2/1", "6/3/1", "7/3/1",
                                   "0/0/0", "1/0/0", "2/1/0", "3/1/0", "4/2/1", "5/2/1", "6/3/1", "7/3/1"};

static void open_company(const char *level, const char *const *places, uint32_t members, const char *path)
{
    setenv("NIGH_DOMAINS", level, 1);
    company_places = places;
    company_open(&company, members, 0, path);
    unsetenv("NIGH_DOMAINS");
}

static struct nigh_query_group query(struct nigh_group *group)
{
    struct nigh_query_group is = {.size = sizeof(is)};

    assert_int_equal(company_ops->query_group(group, &is), 0);
    return is;
}

static void await_formed(uint32_t members)
{
    for (uint32_t i = 0; i < members; i++)
        while (!query(groups[i]).formed)
            company_poll(&company);
}

static void begin(const char *level, const char *const *places, uint32_t members, const char *path,
                  uint32_t domains)
{
    open_company(level, places, members, path);
    company_group(&company, in_order, members, groups);
    await_formed(members);
    for (uint32_t i = 0; i < members; i++) {
        struct nigh_query_group is = query(groups[i]);

        assert_int_equal(is.domains, domains);
        assert_true(is.domain < domains && is.representative <= i);
        if (domains > 1)
            assert_true(is.level >= NIGH_LEVEL_L3);
    }
}

static void end(uint32_t members)
{
    company_leave(groups, members);
    company_close(&company);
}

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

/* ---- every operation ----------------------------------------------------------------------------------- */

static void all_forms(uint16_t op, uint32_t members, uint64_t count)
{
    for (uint32_t root = 0; root<(is_rooted(op) ? members : 1); root += members> 8 ? 5 : 1) {
        for (int in_place = 0; in_place < (op == NIGH_BARRIER ? 1 : 2); in_place++) {
            struct call_case of = {.op = op,
                                   .type = count % 2 ? NIGH_F32 : NIGH_I32,
                                   .reduction = is_reduction(op) ? NIGH_SUM : 0,
                                   .members = members,
                                   .root = root,
                                   .count = count,
                                   .in_place = in_place,
                                   .blocks = has_blocks(op) ? (enum call_blocks)(count % 3) : CALL_EVEN,
                                   .seed = count * 7 + root + (uint64_t)op * 100 + (uint64_t)in_place};

            company_call(&company, in_order, groups, &of, (uint32_t)of.seed % members);
        }
    }
}

/* Elements of four bytes: both sides of what lies in the lines, of each limit, of units, and more than one turn. */
static void all_operations(uint32_t members, uint64_t most)
{
    static const uint64_t lengths[] = {0,    1,    2,    12,   13,   14,    15,    60,     61,    300,
                                       1023, 1024, 1025, 2049, 8192, 20001, 70003, 150001, 400000};

    for (uint16_t op = NIGH_BARRIER; op <= NIGH_EXSCAN; op++)
        for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]) && lengths[i] <= most; i++)
            all_forms(op, members, lengths[i]);
}

static void with(const char *level, const char *const *places, uint32_t members, const char *path,
                 uint32_t domains, uint64_t most)
{
    begin(level, places, members, path, domains);
    all_operations(members, most);
    end(members);
}

static void test_operations(void **state)
{
    (void)state;
    with("l3", by_turns, 2, NULL, 2, 400000);
    with("package", by_turns, 5, NULL, 2, 70003);
    with("l3", uneven, 7, NULL, 3, 20001);
    with("node", each, 3, NULL, 3, 20001);
    with("l3", wide, 16, NULL, 8, 2049);
    with("package", wide, 16, NULL, 2, 2049);
}

static void test_copied(void **state)
{
    (void)state;
    with("l3", by_turns, 5, "chunked", 2, 70003);
    with("l3", uneven, 7, "chunked", 3, 2049);
}

/* Where domains are not wanted, are not known, or would not pay. */
static void test_flat(void **state)
{
    static const char *const unbound[] = {"0/0/0", "1/0/0", "-/-/-"};
    static const char *const one[] = {"4/0/0", "4/1/0", "4/2/0"};

    (void)state;
    with("none", by_turns, 3, NULL, 1, 300);
    with("l3", unbound, 3, NULL, 1, 300);
    with("l3", one, 3, NULL, 1, 300);
    with("auto", wide, 16, NULL, 1, 60);
}

/* The model's own choice: three of these domains are worth it. */
static void test_chosen(void **state)
{
    static char text[COMPANY_MAX][8];
    static const char *places[COMPANY_MAX];

    (void)state;
    for (uint32_t i = 0; i < COMPANY_MAX; i++) {
        snprintf(text[i], sizeof(text[i]), "%u/0/%u", i / 8, i / 8);
        places[i] = text[i];
    }
    begin("auto", places, COMPANY_MAX, NULL, 3);
    all_operations(COMPANY_MAX, 60);
    end(COMPANY_MAX);
}

/* ---- types --------------------------------------------------------------------------------------------- */

/* Averages of four are exact, in whichever way they are rounded. */
static void test_types(void **state)
{
    static const uint64_t counts[] = {1, 7, 400, 20001};

    (void)state;
    begin("l3", uneven, 4, NULL, 2);
    for (uint16_t type = NIGH_I8; type <= NIGH_F64_I32; type++) {
        for (uint16_t reduction = NIGH_SUM; reduction <= NIGH_MAXLOC; reduction++) {
            struct call_room room;
            struct call_case of = {
                .op = NIGH_ALLREDUCE, .type = type, .reduction = reduction, .members = 4, .count = 1};
            int rc;

            /* Is it defined? Asked by a group of one. */
            struct nigh_endpoint *self = company.members[0].to[0];
            struct nigh_group_options options = {.size = sizeof(options), .count = 1, .members = &self};
            static struct nigh_group *alone;

            if (!alone)
                assert_int_equal(company_ops->group_create(company.members[0].context, &options, &alone), 0);
            of.members = 1;
            call_case_make(&of, 0, &room);
            room.call.context = 5;
            rc = company_ops->post_collective(alone, &room.call);
            assert_true(rc == 0 || rc == -95);
            if (!rc)
                assert_int_equal(company_await(&company, 0, 5).status, 0);
            call_case_free(&room);
            of.members = 4;
            for (unsigned i = 0; i < 4 && !rc; i++) {
                of.count = counts[i];
                of.seed = i + type * 10u;
                of.op = i % 2 ? NIGH_ALLREDUCE : NIGH_REDUCE;
                of.root = i % 2 ? 0 : type % 4;
                of.in_place = reduction % 2;
                company_call(&company, in_order, groups, &of, i);
                of.op = NIGH_ALLREDUCE;
                of.root = 0;
                company_call(&company, in_order, groups, &of, i);
            }
        }
    }
    end(4);
}

/* Its operands have an order, which domains by turns do not have. */
static void test_function(void **state)
{
    (void)state;
    begin("l3", by_turns, 5, NULL, 2);
    for (uint64_t count = 1; count < 50000; count = count * 5 + 1) {
        struct call_case of = {.op = NIGH_ALLREDUCE,
                               .type = NIGH_OPAQUE,
                               .reduction = NIGH_FUNCTION,
                               .members = 5,
                               .count = count,
                               .seed = count,
                               .in_place = count % 2};

        company_call(&company, in_order, groups, &of, 3);
        of.op = NIGH_REDUCE;
        of.root = 2;
        company_call(&company, in_order, groups, &of, 0);
    }
    end(5);
}

/* ---- several at a time --------------------------------------------------------------------------------- */

enum { ROUNDS = 12, UNDER_WAY = 70 };

static uint64_t random_state;

static uint64_t draw(uint64_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (random_state >> 33) % below;
}

static void draw_case(struct call_case *of, uint32_t members)
{
    static const uint64_t most[] = {13, 130, 600, 3000, 30000};

    *of = (struct call_case){
        .op = (uint16_t)(NIGH_BARRIER + draw(NIGH_EXSCAN)), .type = NIGH_F64, .members = members};
    if (of->op > NIGH_ALLREDUCE && draw(2))
        of->op = (uint16_t)(NIGH_BARRIER + draw(4));
    of->reduction = is_reduction(of->op) ? (uint16_t)(draw(2) ? NIGH_SUM : NIGH_MAX) : 0;
    of->type = draw(2) ? NIGH_F64 : NIGH_U16;
    of->root = is_rooted(of->op) ? (uint32_t)draw(members) : 0;
    of->count = draw(most[draw(5)]);
    of->in_place = of->op != NIGH_BARRIER && draw(2);
    of->blocks = has_blocks(of->op) ? (enum call_blocks)draw(3) : CALL_EVEN;
    of->seed = draw(1u << 30);
}

/* Each member posts its calls in their order, members in any, more than there are slots. */
static void mixed(const char *const *places, uint32_t members, uint64_t seed, const char *path)
{
    static struct call_case calls[UNDER_WAY];
    static struct call_room rooms[UNDER_WAY][COMPANY_MAX];
    uint32_t posted[COMPANY_MAX];

    random_state = seed;
    open_company("l3", places, members, path);
    company_group(&company, in_order, members, groups);
    for (unsigned round = 0; round < ROUNDS; round++) {
        uint32_t most = round % 2 ? UNDER_WAY : 8, left = most * members;

        memset(posted, 0, sizeof(posted));
        for (uint32_t i = 0; i < most; i++) {
            draw_case(&calls[i], members);
            for (uint32_t m = 0; m < members; m++) {
                call_case_make(&calls[i], m, &rooms[i][m]);
                rooms[i][m].call.context = 100 * i + m;
            }
        }
        while (left) {
            uint32_t member = (uint32_t)draw(members);
            struct company_member *of = &company.members[member];

            if (posted[member] == most || of->count > COMPANY_DONE - 4) {
                for (uint32_t m = 0; m < members; m++)
                    company.members[m].count = 0; /* looked at below by their buffers */
                company_poll(&company);
                continue;
            }
            assert_int_equal(
                company_ops->post_collective(groups[member], &rooms[posted[member]++][member].call), 0);
            left--;
            if (!draw(3))
                company_poll(&company);
        }
        for (uint32_t m = 0; m < members; m++)
            while (query(groups[m]).under_way || query(groups[m]).status) {
                assert_int_equal(query(groups[m]).status, 0);
                for (uint32_t k = 0; k < members; k++)
                    company.members[k].count = 0;
                company_poll(&company);
            }
        for (uint32_t k = 0; k < members; k++)
            company.members[k].count = 0;
        company_poll(&company);
        for (uint32_t k = 0; k < members; k++)
            company.members[k].count = 0;
        for (uint32_t i = 0; i < most; i++) {
            for (uint32_t m = 0; m < members; m++) {
                const char *wrong = call_case_check(&rooms[i][m]);

                if (wrong)
                    fail_msg("NIGH_TEST_SEED=%llu round %u: %s: %s", (unsigned long long)seed, round,
                             call_case_text(&calls[i], m), wrong);
                call_case_free(&rooms[i][m]);
            }
        }
    }
    end(members);
}

static void test_mixed(void **state)
{
    const char *given = getenv("NIGH_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : 1;

    (void)state;
    mixed(by_turns, 4, seed, NULL);
    mixed(uneven, 7, seed + 1, NULL);
    mixed(each, 3, seed + 2, "chunked");
}

/* ---- repeated ------------------------------------------------------------------------------------------ */

enum { REPEATS = 6, MANY = 9000 };

/* What a program's loop makes, with equal arguments each time: by vectors, reduced in each domain first, from a root, unit by unit,
 * and short without domains. */
static uint32_t make_repeated(struct nigh_collective calls[], uint32_t member, uint32_t *in, uint32_t *out)
{
    static const struct nigh_collective kinds[] = {
        {.op = NIGH_ALLREDUCE, .type = NIGH_F32, .reduction = NIGH_MAX, .count = 3},
        {.op = NIGH_ALLREDUCE, .type = NIGH_U32, .reduction = NIGH_SUM, .count = 3},
        {.op = NIGH_BROADCAST, .type = NIGH_U32, .root = 3, .count = 3},
        {.op = NIGH_BROADCAST, .type = NIGH_U32, .root = 3, .count = MANY},
        {.op = NIGH_ALLGATHER, .type = NIGH_U32, .count = 2},
        {.op = NIGH_REDUCE, .type = NIGH_U32, .reduction = NIGH_BOR, .root = 4, .count = 70},
        {.op = NIGH_SCAN, .type = NIGH_U32, .reduction = NIGH_SUM, .count = 1},
    };
    const uint32_t count = sizeof(kinds) / sizeof(kinds[0]);

    for (uint32_t i = 0; i < count; i++) {
        calls[i] = kinds[i];
        calls[i].size = sizeof(calls[i]);
        calls[i].context = i + 1;
        calls[i].send = calls[i].op == NIGH_BROADCAST && member != kinds[i].root ? NULL : in;
        calls[i].recv = out + (size_t)i * MANY;
    }
    return count;
}

static void check_repeated(const uint32_t *out, uint32_t member, uint32_t round)
{
    /* Member m gives round * 100 + m at each place, which is no NaN. */
    const uint32_t own = round * 100, sum = 5 * own + 10, highest = own + 4, root = own + 3;
    uint32_t all = 0, before = 0;

    for (uint32_t i = 0; i < 5; i++) {
        all |= own + i;
        before += i <= member ? own + i : 0;
        assert_int_equal(out[4 * MANY + 2 * i + 1], own + i);
    }
    assert_int_equal(out[2], highest);
    assert_int_equal(out[MANY + 2], sum);
    assert_int_equal(out[2 * MANY + 2], root);
    assert_int_equal(out[4 * MANY - 1], root);
    if (member == 4)
        assert_int_equal(out[5 * MANY + 69], all);
    assert_int_equal(out[6 * MANY], before);
}

/* Three members have posted the first round before the group has domains, two behind. */
static void test_repeated(void **state)
{
    static uint32_t in[5][MANY], out[5][7 * MANY];
    struct nigh_collective calls[8];
    uint32_t count = 0;

    (void)state;
    open_company("l3", by_turns, 5, NULL);
    company_group(&company, in_order, 5, groups);
    assert_int_equal(query(groups[4]).formed, 0);
    for (uint32_t round = 0; round < REPEATS; round++) {
        memset(out, 0xff, sizeof(out));
        for (uint32_t m = 0; m < 5; m++) {
            if (m == 3)
                await_formed(5);
            for (uint32_t i = 0; i < MANY; i++)
                in[m][i] = round * 100 + m;
            count = make_repeated(calls, m, in[m], out[m]);
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(company_ops->post_collective(groups[m], &calls[i]), 0);
        }
        for (uint32_t m = 0; m < 5; m++) {
            for (uint32_t i = 0; i < count; i++)
                assert_int_equal(company_await(&company, m, i + 1).status, 0);
            check_repeated(out[m], m, round);
        }
    }
    assert_int_equal(query(groups[0]).domains, 2);
    end(5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_operations), cmocka_unit_test(test_copied),   cmocka_unit_test(test_flat),
        cmocka_unit_test(test_chosen),     cmocka_unit_test(test_types),    cmocka_unit_test(test_function),
        cmocka_unit_test(test_mixed),      cmocka_unit_test(test_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
