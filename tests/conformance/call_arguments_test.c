/* SPDX-License-Identifier: BSD-3-Clause */
/* What post_collective() and group_create() refuse, each with its error, and what they take although it looks odd: counts that
 * are not looked at, nothing where nothing is needed. A refused call has not been made. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/company.h"
#include <errno.h>
#include <string.h>

enum { MEMBERS = 2 };

static struct company company;
static const uint32_t who[] = {0, 1};
static struct nigh_group *groups[MEMBERS];
static uint32_t send[64], recv[MEMBERS][64];
static const uint64_t ones[] = {1, 1}, twos[] = {2, 2}, none[] = {0, 0}, ends[] = {0, 1},
                      huge[] = {UINT64_MAX, 1}, far[] = {UINT64_MAX / 4, 0};

static void add(void *arg, const void *in, void *inout, uint64_t count)
{
    (void)arg;
    for (uint64_t i = 0; i < count; i++)
        ((uint32_t *)inout)[i] += ((const uint32_t *)in)[i];
}

static int start(void **state)
{
    (void)state;
    company_open(&company, MEMBERS, 0, NULL);
    company_group(&company, who, MEMBERS, groups);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    company_leave(groups, MEMBERS);
    company_close(&company);
    return 0;
}

/* In the tables below what is 0 is as of a call of one element of four bytes; these are none. */
enum { NO_TYPE = 0xffff, NONE = 0x7fffffff };
static uint32_t nowhere;

static struct nigh_collective filled(const struct nigh_collective *given)
{
    struct nigh_collective call = *given;

    call.size = given->size ? given->size : sizeof(call);
    call.type = given->type == NO_TYPE ? 0 : given->type ? given->type : NIGH_U32;
    call.count = given->count == NONE ? 0 : given->count ? given->count : 1;
    call.send = given->send == &nowhere ? NULL : given->send ? given->send : send;
    call.recv = given->recv == &nowhere ? NULL : given->recv ? given->recv : recv[0];
    return call;
}

#define IN_PLACE .flags = NIGH_COLLECTIVE_IN_PLACE
#define SUM      .op = NIGH_ALLREDUCE, .reduction = NIGH_SUM

static void test_refused(void **state)
{
    static const struct {
        const char *what;
        int error;
        struct nigh_collective call;
    } cases[] = {
        {"size", -EINVAL, {.op = NIGH_BROADCAST, .size = 8}},
        {"reserved", -EINVAL, {.op = NIGH_BROADCAST, .reserved = 1}},
        {"no op", -EINVAL, {.op = 0}},
        {"no such op", -EINVAL, {.op = NIGH_EXSCAN + 1}},
        {"flags", -EINVAL, {.op = NIGH_BROADCAST, .flags = 2}},
        {"root", -EINVAL, {.op = NIGH_BROADCAST, .root = MEMBERS}},
        {"root of none", -EINVAL, {.op = NIGH_ALLGATHER, .root = 1}},
        {"no type", -EINVAL, {.op = NIGH_BROADCAST, .type = NO_TYPE}},
        {"no such type", -EINVAL, {.op = NIGH_BROADCAST, .type = NIGH_OPAQUE + 1}},
        {"barrier with a type", -EINVAL, {.op = NIGH_BARRIER}},
        {"opaque without width", -EINVAL, {.op = NIGH_BROADCAST, .type = NIGH_OPAQUE}},
        {"width with a type", -EINVAL, {.op = NIGH_BROADCAST, .width = 4}},
        {"reduction of a gather", -EINVAL, {.op = NIGH_GATHER, .reduction = NIGH_SUM}},
        {"no reduction", -EOPNOTSUPP, {.op = NIGH_ALLREDUCE}},
        {"not a reduction", -EOPNOTSUPP, {.op = NIGH_ALLREDUCE, .reduction = NIGH_CSWAP}},
        {"no such reduction", -EOPNOTSUPP, {.op = NIGH_SCAN, .reduction = NIGH_FUNCTION + 1}},
        {"bits of floats", -EOPNOTSUPP, {.op = NIGH_REDUCE, .reduction = NIGH_BAND, .type = NIGH_F32}},
        {"sum of opaque", -EOPNOTSUPP, {SUM, .type = NIGH_OPAQUE, .width = 4}},
        {"no function", -EFAULT, {.op = NIGH_ALLREDUCE, .reduction = NIGH_FUNCTION}},
        {"no factor", -EFAULT, {.op = NIGH_ALLREDUCE, .reduction = NIGH_PREMUL}},
        {"no send", -EFAULT, {SUM, .send = &nowhere}},
        {"no recv", -EFAULT, {SUM, .recv = &nowhere}},
        {"no recv in place", -EFAULT, {SUM, IN_PLACE, .recv = &nowhere}},
        {"no send of a root that scatters in place",
         -EFAULT,
         {.op = NIGH_SCATTER, IN_PLACE, .send = &nowhere}},
        {"overlap", -EINVAL, {SUM, .recv = send}},
        {"overlap of the last byte", -EINVAL, {.op = NIGH_ALLGATHER, .send = (uint8_t *)recv[0] + 7}},
        {"too much", -ERANGE, {SUM, .count = UINT64_MAX / 4}},
        {"more than a slot says", -ERANGE, {.op = NIGH_BROADCAST, .count = UINT64_C(1) << 55}},
        {"more than a slot says, together", -ERANGE, {.op = NIGH_ALLGATHER, .count = UINT64_C(1) << 54}},
        {"too much together", -ERANGE, {.op = NIGH_ALLGATHER, .count = UINT64_C(1) << 60}},
        {"too much in a block", -ERANGE, {.op = NIGH_ALLTOALL, .send_counts = huge, .recv_counts = ones}},
        {"too far",
         -ERANGE,
         {.op = NIGH_ALLTOALL, .send_counts = ones, .recv_counts = ones, .recv_offsets = far}},
        {"offsets without counts", -EINVAL, {.op = NIGH_ALLGATHER, .recv_offsets = ends}},
        {"counts of a broadcast", -EINVAL, {.op = NIGH_BROADCAST, .recv_counts = ones}},
        {"counts to send by of a gather", -EINVAL, {.op = NIGH_GATHER, .send_counts = ones}},
        {"offsets of reduce_scatter",
         -EINVAL,
         {.op = NIGH_REDUCE_SCATTER, .reduction = NIGH_SUM, .recv_counts = ones, .recv_offsets = ends}},
        {"counts to send by in place",
         -EINVAL,
         {.op = NIGH_ALLTOALL, IN_PLACE, .send_counts = ones, .recv_counts = ones}},
        {"more to itself than it keeps",
         -EINVAL,
         {.op = NIGH_ALLTOALL, .send_counts = twos, .recv_counts = ones}},
        {"more to itself than its count", -EINVAL, {.op = NIGH_ALLTOALL, .send_counts = twos}},
        {"less to itself than it keeps", -EINVAL, {.op = NIGH_ALLTOALL, .recv_counts = twos}},
        {"another count of its own", -EINVAL, {.op = NIGH_ALLGATHER, .recv_counts = twos}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_query_group facts = {.size = sizeof(facts)};
        struct nigh_collective call = filled(&cases[i].call);
        int rc = company_ops->post_collective(groups[0], &call);

        if (rc != cases[i].error)
            fail_msg("%s: %d, not %d", cases[i].what, rc, cases[i].error);
        assert_int_equal(company_ops->query_group(groups[0], &facts), 0);
        assert_int_equal(facts.posted, 0);
    }
    assert_int_equal(company_ops->post_collective(NULL, &cases[0].call), -EINVAL);
    assert_int_equal(company_ops->post_collective(groups[0], NULL), -EINVAL);
}

static void test_taken(void **state)
{
    static const struct {
        const char *what;
        struct nigh_collective call;
    } cases[] = {
        {"nothing, nowhere", {SUM, .count = NONE, .send = &nowhere, .recv = &nowhere}},
        {"nothing from anybody",
         {.op = NIGH_ALLTOALL, .send_counts = none, .recv_counts = none, .send = &nowhere, .recv = &nowhere}},
        {"count of an alltoall by counts",
         {.op = NIGH_ALLTOALL, .count = UINT64_MAX, .send_counts = ones, .recv_counts = ones}},
        {"count of an alltoall by counts, in place",
         {.op = NIGH_ALLTOALL, IN_PLACE, .count = UINT64_MAX, .recv_counts = ones}},
        {"count of a reduce_scatter by counts",
         {.op = NIGH_REDUCE_SCATTER, .reduction = NIGH_SUM, .count = UINT64_MAX, .recv_counts = ones}},
        {"send in place", {SUM, IN_PLACE, .send = &nowhere}},
        {"an order of blocks", {.op = NIGH_ALLGATHER, .recv_counts = ones, .recv_offsets = ends}},
        {"a function", {.op = NIGH_ALLREDUCE, .reduction = NIGH_FUNCTION, .function = add}},
        {"a broadcast without a copy", {.op = NIGH_BROADCAST, .count = 3}},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t m = 0; m < MEMBERS; m++) {
            struct nigh_collective call = filled(&cases[i].call);

            call.context = m;
            if (call.recv)
                call.recv = call.op == NIGH_BROADCAST && m == 0 ? NULL : recv[m];
            if (company_ops->post_collective(groups[m], &call))
                fail_msg("%s: refused", cases[i].what);
        }
        for (uint32_t m = 0; m < MEMBERS; m++)
            assert_int_equal(company_await(&company, m, m).status, 0);
    }
}

static void test_groups(void **state)
{
    struct nigh_endpoint *members[NIGH_GROUP_MAX + 1] = {company.members[0].to[0], company.members[0].to[1]};
    struct nigh_group_options good = {.size = sizeof(good), .count = 2, .members = members}, options;
    struct nigh_context *context = company.members[0].context;
    struct nigh_group *group = NULL;

    (void)state;
#define REFUSED(...)                                                                     \
    do {                                                                                 \
        options = good;                                                                  \
        __VA_ARGS__;                                                                     \
        assert_int_equal(company_ops->group_create(context, &options, &group), -EINVAL); \
        assert_null(group);                                                              \
    } while (0)
    REFUSED(options.size = 4);
    REFUSED(options.count = 0);
    REFUSED(options.count = NIGH_GROUP_MAX + 1);
    REFUSED(options.members = NULL);
    REFUSED(options.reserved[1] = 1);
    REFUSED(options.count = 3);                                /* NULL among them */
    REFUSED(options.count = 1; options.members = members + 1); /* not this context */
    members[2] = members[1];
    REFUSED(options.count = 3); /* one twice */
    members[2] = company.members[1].to[0];
    REFUSED(options.count = 3); /* of another context */
    assert_int_equal(company_ops->group_create(NULL, &good, &group), -EINVAL);
    assert_int_equal(company_ops->group_create(context, NULL, &group), -EINVAL);
    assert_int_equal(company_ops->group_create(context, &good, NULL), -EINVAL);
    assert_int_equal(company_ops->group_free(NULL), -EINVAL);
    assert_int_equal(company_ops->query_group(NULL, NULL), -EINVAL);
}

/* A call under way keeps its group. */
static void test_busy(void **state)
{
    struct nigh_collective call = {.size = sizeof(call), .op = NIGH_BARRIER, .context = 5};

    (void)state;
    assert_int_equal(company_ops->post_collective(groups[0], &call), 0);
    assert_int_equal(company_ops->group_free(groups[0]), -EBUSY);
    assert_int_equal(company_ops->post_collective(groups[1], &call), 0);
    for (uint32_t m = 0; m < MEMBERS; m++)
        assert_int_equal(company_await(&company, m, 5).status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_refused, start, stop),
        cmocka_unit_test_setup_teardown(test_taken, start, stop),
        cmocka_unit_test_setup_teardown(test_groups, start, stop),
        cmocka_unit_test_setup_teardown(test_busy, start, stop),
    };

    return cmocka_run_group_tests_name("arguments of calls", tests, NULL, NULL);
}
