/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives as requests, once and persistent; blocks of lengths of their own; types and operations beyond those of atomics. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdlib.h>
#include <string.h>

static const int group_sizes[] = {1, 2, 3, 5};

static void run_all(ranks_body *body, const struct ranks_how *how)
{
    for (size_t i = 0; i < sizeof(group_sizes) / sizeof(*group_sizes); i++)
        ranks_run(group_sizes[i], body, how);
}

/* ---- each call, as a request ---- */

enum { CALLS = 11, MOST = 5 * 9000 };

struct room {
    int64_t in[MOST], out[MOST];
};

static struct room *new_room(int rank)
{
    struct room *room = malloc(sizeof(*room));

    CHECK(room != NULL);
    for (int i = 0; i < MOST; i++)
        room->in[i] = 1000 * (rank + 1) + i;
    memset(room->out, 0, sizeof(room->out));
    return room;
}

static int start(int number, struct room *room, uint64_t count, bool persistent, nigh_request *request)
{
    struct nigh_comm *world = nigh_world();
    int64_t *in = room->in, *out = room->out;

#define EITHER(name, ...) \
    return persistent ? nigh_##name##_init(__VA_ARGS__, request) : nigh_i##name(__VA_ARGS__, request)
    switch (number) {
    case 0:
        EITHER(barrier, world);
    case 1:
        EITHER(bcast, in, count, NIGH_I64, 0, world);
    case 2:
        EITHER(reduce, in, out, count, NIGH_I64, NIGH_SUM, 0, world);
    case 3:
        EITHER(allreduce, in, out, count, NIGH_I64, NIGH_SUM, world);
    case 4:
        EITHER(gather, in, out, count, NIGH_I64, 0, world);
    case 5:
        EITHER(scatter, in, out, count, NIGH_I64, 0, world);
    case 6:
        EITHER(allgather, in, out, count, NIGH_I64, world);
    case 7:
        EITHER(alltoall, in, out, count, NIGH_I64, world);
    case 8:
        EITHER(reduce_scatter, in, out, count, NIGH_I64, NIGH_SUM, world);
    case 9:
        EITHER(scan, in, out, count, NIGH_I64, NIGH_SUM, world);
    default:
        EITHER(exscan, in, out, count, NIGH_I64, NIGH_SUM, world);
    }
}

/* What element i of the ranks 0 .. end-1 sums up to. */
static int64_t sum_of(int end, int64_t i)
{
    return (int64_t)end * (end + 1) / 2 * 1000 + end * i;
}

static void check_one(int number, const struct room *room, int64_t count, int rank, int size)
{
    int64_t last = count - 1, blocks = (size - 1) * count + last;

    switch (number) {
    case 1:
        CHECK_INT(room->in[last], 1000 + last);
        break;
    case 2:
        CHECK_INT(room->out[last], rank == 0 ? sum_of(size, last) : 0);
        break;
    case 3:
        CHECK_INT(room->out[last], sum_of(size, last));
        break;
    case 4:
    case 6:
        CHECK_INT(room->out[blocks], rank == 0 || number == 6 ? 1000 * size + last : 0);
        break;
    case 5:
        CHECK_INT(room->out[last], 1000 + rank * count + last);
        break;
    case 7:
        CHECK_INT(room->out[blocks], 1000 * size + rank * count + last);
        break;
    case 8:
        CHECK_INT(room->out[last], sum_of(size, rank * count + last));
        break;
    case 9:
        CHECK_INT(room->out[last], sum_of(rank + 1, last));
        break;
    case 10:
        CHECK_INT(room->out[last], rank ? sum_of(rank, last) : 0);
        break;
    default:
        break;
    }
}

/* All of them under way at once, in every way to wait for them. */
static void together(int rank, int size)
{
    static const uint64_t counts[] = {1, 500, 9000};

    for (int c = 0; c < 3; c++)
        for (int way = 0; way < 4; way++) {
            struct room *rooms[CALLS];
            nigh_request requests[CALLS];
            int flag = 0, index, done = 0;

            for (int i = 0; i < CALLS; i++) {
                rooms[i] = new_room(rank);
                OK(start(i, rooms[i], counts[c], false, &requests[i]));
            }
            if (way == 0)
                OK(nigh_waitall(CALLS, requests, NIGH_STATUSES_IGNORE));
            for (int i = CALLS - 1; way == 1 && i >= 0; i--)
                OK(nigh_wait(&requests[i], NIGH_STATUS_IGNORE));
            for (; way == 2 && done < CALLS; done++) {
                OK(nigh_waitany(CALLS, requests, &index, NIGH_STATUS_IGNORE));
                CHECK(index >= 0 && requests[index].id == 0);
            }
            while (way == 3 && !flag)
                OK(nigh_testall(CALLS, requests, &flag, NIGH_STATUSES_IGNORE));
            for (int i = 0; i < CALLS; i++) {
                CHECK_INT(requests[i].id, 0);
                check_one(i, rooms[i], (int64_t)counts[c], rank, size);
                free(rooms[i]);
            }
        }
}

static void test_together(void **state)
{
    (void)state;
    run_all(together, NULL);
    ranks_run(3, together, &(struct ranks_how){.threads = 1});
    ranks_run(2, together, &(struct ranks_how){.progress = 1});
    ranks_run(2, together, &(struct ranks_how){.environment = "NIGH_DEBUG=1"});
}

/* Made once, started again and again, some at a time; a blocking one in between. */
static void persistent(int rank, int size)
{
    struct room *rooms[CALLS];
    nigh_request requests[CALLS];

    for (int i = 0; i < CALLS; i++) {
        rooms[i] = new_room(rank);
        OK(start(i, rooms[i], 500, true, &requests[i]));
    }
    for (int round = 0; round < 20; round++) {
        OK(nigh_startall(CALLS, requests));
        CHECK_INT(nigh_start(&requests[0]), -EBUSY);
        OK(nigh_barrier(nigh_world()));
        OK(nigh_waitall(CALLS, requests, NIGH_STATUSES_IGNORE));
        for (int i = 0; i < CALLS; i++) {
            check_one(i, rooms[i], 500, rank, size);
            memset(rooms[i]->out, 0, sizeof(rooms[i]->out));
        }
    }
    for (int i = 0; i < CALLS; i++) {
        OK(nigh_request_free(&requests[i]));
        free(rooms[i]);
    }
}

static void test_persistent(void **state)
{
    (void)state;
    run_all(persistent, NULL);
}

/* ---- requests that are used wrongly, and collectives that fail ---- */

static void wrong(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    nigh_request request, other;
    int one = 1, sum = 0, flag, rc;

    /* Who comes last is waited for. */
    if (rank == 0) {
        OK(nigh_iallreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, world, &request));
        OK(nigh_test(&request, &flag, NIGH_STATUS_IGNORE));
        CHECK_INT(flag, size == 1);
        if (!flag) {
            CHECK_INT(nigh_cancel(&request), -EINVAL);
            CHECK_TEXT("cannot be taken back");
            CHECK_INT(nigh_request_free(&request), -EBUSY);
            CHECK_INT(nigh_wait_for(&request, 0.06, NIGH_STATUS_IGNORE), -ETIMEDOUT);
            CHECK_TEXT("nigh_iallreduce of NIGH_I32, NIGH_SUM");
        }
        ranks_tell(0);
    } else {
        ranks_hear(0);
        OK(nigh_iallreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, world, &request));
    }
    OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
    CHECK_INT(sum, size);
    /* Two calls that differ, and one behind them that does not. */
    if (rank == size - 1 && size > 1)
        OK(nigh_ibarrier(world, &request));
    else
        OK(nigh_iallreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, world, &request));
    OK(nigh_iallreduce(&one, &flag, 1, NIGH_I32, NIGH_SUM, world, &other));
    rc = nigh_wait(&request, NIGH_STATUS_IGNORE);
    CHECK_INT(rc, size > 1 ? -EPROTO : 0);
    if (rc) {
        CHECK_TEXT("nigh_wait at");
        CHECK_TEXT("calls allreduce of 1 i32 (sum)");
        CHECK_TEXT("calls barrier");
    }
    OK(nigh_wait(&other, NIGH_STATUS_IGNORE));
    CHECK_INT(flag, size);
    /* What this rank is refused for. */
    CHECK_INT(nigh_ibcast(NULL, 1, NIGH_I32, 0, world, &request), -EFAULT);
    CHECK_INT(request.id, 0);
    CHECK_INT(nigh_bcast_init(&one, 1, 99, 0, world, &request), -EINVAL);
    CHECK_INT(nigh_ibarrier(world, NULL), -EINVAL);
    OK(nigh_barrier(world));
    OK(nigh_ibarrier(world, &request)); /* never waited for: named */
}

static void test_wrong(void **state)
{
    (void)state;
    run_all(wrong, &(struct ranks_how){.finalize = -EBUSY});
    ranks_run(3, wrong, &(struct ranks_how){.finalize = -EBUSY, .threads = 1});
}

/* A rank that waits for a collective of all, and one that waits for a message of it, are a circle. */
static void circle(int rank, int size)
{
    nigh_request request;
    int rc, value;

    (void)size;
    OK(nigh_barrier(nigh_world()));
    OK(nigh_barrier(nigh_world()));
    if (rank == 0) {
        OK(nigh_ibarrier(nigh_world(), &request));
        rc = nigh_wait(&request, NIGH_STATUS_IGNORE);
        CHECK_INT(rc, -EDEADLK);
        CHECK_TEXT("rank 0 waits in nigh_barrier for rank 1");
        ranks_tell(0);
        OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
    } else {
        CHECK_INT(nigh_recv(&value, sizeof(value), 0, 5, nigh_world(), NIGH_STATUS_IGNORE), -EDEADLK);
        ranks_hear(0);
        OK(nigh_barrier(nigh_world()));
    }
}

static void test_circle(void **state)
{
    (void)state;
    ranks_run(2, circle, NULL);
}

/* Freed while one is under way: it goes on. */
static void freed(int rank, int size)
{
    struct nigh_comm *comm;
    nigh_request request;
    int one = 1, sum = 0;

    for (int i = 0; i < 20; i++) {
        OK(nigh_comm_dup(nigh_world(), &comm));
        if ((rank + i) % 3 == 0)
            ranks_nap(1);
        OK(nigh_iallreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, comm, &request));
        OK(nigh_comm_free(&comm));
        OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
        CHECK_INT(sum, size);
    }
}

static void test_freed(void **state)
{
    (void)state;
    run_all(freed, NULL);
}

/* ---- blocks of lengths of their own ---- */

/* Rank r has r + 1 elements, each 100 r + i; blocks lie apart by one element. */
static void blocks(int rank, int size)
{
    uint64_t counts[8], offsets[8], whole = 0, mine = (uint64_t)rank + 1;
    int32_t in[64], all[128], part[16], sums[16];
    struct nigh_comm *world = nigh_world();

    for (int r = 0; r < size; r++) {
        counts[r] = (uint64_t)r + 1;
        offsets[r] = whole + (uint64_t)r;
        whole += counts[r];
    }
    for (int i = 0; i < 64; i++)
        in[i] = 100 * rank + i;
    for (int form = 0; form < 3; form++) {
        memset(all, 0xff, sizeof(all));
        if (form == 1)
            memcpy(all + offsets[rank], in, mine * sizeof(*in));
        OK(nigh_allgatherv(form == 1 ? NULL : in, mine, all, counts, form == 2 ? NULL : offsets, NIGH_I32,
                           world));
        for (int r = 0, at = 0; r < size; at += r + 1, r++)
            for (int i = 0; i <= r; i++)
                CHECK_INT(all[form == 2 ? (uint64_t)(at + i) : offsets[r] + (uint64_t)i], 100 * r + i);
        CHECK_INT(form == 2 ? -1 : all[counts[0]], -1); /* between two blocks */
    }
    memset(all, 0xff, sizeof(all));
    OK(nigh_gatherv(in, mine, all, rank == size - 1 ? counts : NULL, rank == size - 1 ? offsets : NULL,
                    NIGH_I32, size - 1, world));
    CHECK_INT(all[offsets[size - 1]], rank == size - 1 ? 100 * rank : -1);
    OK(nigh_scatterv(rank == 0 ? in : NULL, counts, offsets, part, mine, NIGH_I32, 0, world));
    CHECK_INT(part[rank], (int)offsets[rank] + rank);
    OK(nigh_reduce_scatterv(in, sums, counts, NIGH_I32, NIGH_MAX, world));
    CHECK_INT(sums[rank], 100 * (size - 1) + (int)(whole - counts[size - 1]) * (rank == size - 1) +
                              (rank == size - 1 ? rank : rank * (rank + 1) / 2 + rank));
    /* From each rank as many as it has, to each the same. */
    {
        uint64_t sent[8], from[8];

        for (int r = 0; r < size; r++)
            sent[r] = mine, from[r] = 0;
        OK(nigh_alltoallv(in, sent, from, all, counts, NULL, NIGH_I32, world));
        for (int r = 0, at = 0; r < size; at += r + 1, r++)
            CHECK_INT(all[at + r], 100 * r + r);
        CHECK_INT(nigh_alltoallv(in, NULL, NULL, all, counts, NULL, NIGH_I32, world), -EFAULT);
        CHECK_TEXT("the counts are NULL");
    }
}

static void test_blocks(void **state)
{
    (void)state;
    run_all(blocks, NULL);
}

/* ---- types and operations ---- */

static void types(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    struct pair {
        double value;
        int32_t index;
    } mine = {-(double)(rank % 3), rank}, least;
    float complex_in[2] = {1, (float)rank}, complex_out[2];
    double average = rank;
    uint16_t half = 0x3f80, half_sum; /* bf16: 1.0 */
    uint8_t truth = rank == size - 1, any = 0;
    int whole = rank, out;

    OK(nigh_allreduce(NULL, &average, 1, NIGH_F64, NIGH_AVG, world));
    CHECK(average == (size - 1) / 2.0);
    OK(nigh_allreduce(&mine, &least, 1, NIGH_F64_I32, NIGH_MINLOC, world));
    CHECK(least.value == (size >= 3 ? -2 : 1 - size) && least.index == (size >= 3 ? 2 : size - 1));
    OK(nigh_allreduce(complex_in, complex_out, 1, NIGH_CF32, NIGH_SUM, world));
    CHECK(complex_out[0] == (float)size && complex_out[1] == (float)(size * (size - 1) / 2));
    OK(nigh_allreduce(&half, &half_sum, 1, NIGH_BF16, NIGH_SUM, world));
    CHECK_INT(half_sum, size == 1 ? 0x3f80 : size == 2 ? 0x4000 : size == 3 ? 0x4040 : 0x40a0);
    OK(nigh_reduce(&truth, &any, 1, NIGH_BOOL, NIGH_LOR, 0, world));
    CHECK_INT(any, rank == 0);
    CHECK_INT(nigh_allreduce(&whole, &out, 1, NIGH_I32, NIGH_MINLOC, world), -EOPNOTSUPP);
    CHECK_TEXT("NIGH_MINLOC is not defined for NIGH_I32");
    CHECK_INT(nigh_allreduce(complex_in, complex_out, 1, NIGH_CF32, NIGH_MIN, world), -EOPNOTSUPP);
    CHECK_INT(nigh_bcast(&whole, 1, NIGH_OPAQUE, 0, world), -EINVAL);
    OK(nigh_barrier(world));
}

static void test_types(void **state)
{
    (void)state;
    run_all(types, NULL);
}

/* What is said to be defined is, and nothing else: each operation of each type, at all ranks. */
static void defined(int rank, int size)
{
    uint64_t in[4] = {0}, out[4];
    int refused = 0, done = 0;

    (void)rank, (void)size;
    for (int type = NIGH_I8; type < NIGH_OPAQUE; type++)
        for (int op = NIGH_SUM; op <= NIGH_FUNCTION; op++) {
            int rc = nigh_allreduce(in, out, 1, type, op, nigh_self());

            CHECK(rc == 0 || rc == -EOPNOTSUPP);
            refused += rc != 0;
            done += rc == 0;
            CHECK(!strstr(nigh_error_text(), "Invalid"));
        }
    CHECK(refused > 0);
    CHECK_INT(done, 8 * 11 + 4 * 8 + 2 * 3 + 10 + 5 * 2);
}

static void test_defined(void **state)
{
    (void)state;
    ranks_run(1, defined, NULL);
}

/* ---- operations and types of the program's ---- */

/* x -> times * x + more */
struct map {
    uint8_t times, more, count;
};

/* The lower rank's map first, then the other: does not commute. */
static void join(void *arg, const void *in, void *inout, uint64_t count)
{
    const struct map *lower = in;
    struct map *upper = inout;

    for (uint64_t i = 0; i < count; i++) {
        upper[i].more = (uint8_t)(upper[i].times * lower[i].more + upper[i].more);
        upper[i].times = (uint8_t)(upper[i].times * lower[i].times);
        upper[i].count = (uint8_t)(upper[i].count + lower[i].count);
    }
    ++*(int *)arg;
}

static void operations(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    struct map mine[700], all[5 * 700], result[700], whole = {1, 0, 0};
    double values[3] = {rank, 1, 2}, sums[3], factor = rank + 1;
    int called = 0, function, premul, many[NIGH_OP_MAX], type = NIGH_BYTES(sizeof(struct map));
    nigh_request request;

    for (int i = 0; i < 700; i++)
        mine[i] = (struct map){3, (uint8_t)(rank + 1), 1};
    for (int r = 0; r < size; r++)
        whole = (struct map){(uint8_t)(3 * whole.times), (uint8_t)(3 * whole.more + r + 1), (uint8_t)(r + 1)};
    OK(nigh_op_create(join, &called, &function));
    OK(nigh_op_premul(&factor, NIGH_F64, &premul));
    OK(nigh_allreduce(mine, result, 700, type, function, world));
    CHECK(memcmp(&result[699], &whole, sizeof(whole)) == 0);
    CHECK(size == 1 || called > 0);
    OK(nigh_allgather(mine, all, 700, type, world));
    CHECK_INT(all[700 * size - 1].more, size);
    /* Freed, and kept by what was made before. */
    OK(nigh_allreduce_init(values, sums, 3, NIGH_F64, premul, world, &request));
    OK(nigh_op_free(&premul));
    CHECK_INT(premul, 0);
    for (int i = 0; i < 2; i++) {
        OK(nigh_start(&request));
        OK(nigh_wait(&request, NIGH_STATUS_IGNORE));
        CHECK(sums[2] == size * (size + 1) && sums[0] == (size - 1) * size * (size + 1) / 3.0);
    }
    OK(nigh_request_free(&request));
    CHECK_INT(nigh_op_free(&premul), -EINVAL);
    /* What is refused, here and so at all ranks. */
    CHECK_INT(nigh_op_premul(&factor, NIGH_BOOL, &premul), -EOPNOTSUPP);
    CHECK_INT(nigh_op_create(NULL, NULL, &premul), -EINVAL);
    CHECK_INT(nigh_allreduce(mine, result, 1, type, NIGH_SUM, world), -EOPNOTSUPP);
    CHECK_TEXT("NIGH_SUM is not defined for NIGH_BYTES(3)");
    CHECK_INT(nigh_bcast(mine, 1, NIGH_BYTES(0), 0, world), -EINVAL);
    for (int i = 1; i < NIGH_OP_MAX; i++)
        OK(nigh_op_premul(&factor, NIGH_F64, &many[i]));
    CHECK_INT(nigh_op_premul(&factor, NIGH_F64, &premul), -ENOSPC);
    CHECK_INT(nigh_allreduce(values, sums, 1, NIGH_F32, many[7], world), -EOPNOTSUPP);
    CHECK_TEXT("the factor is of NIGH_F64");
    for (int i = 1; i < NIGH_OP_MAX; i++)
        OK(nigh_op_free(&many[i]));
    CHECK_INT(nigh_allreduce(values, sums, 1, NIGH_F64, 1001, world), -EINVAL);
    CHECK_TEXT("was it freed?");
    OK(nigh_op_free(&function));
    /* Each type has a factor, or is refused one, as the plugin has it. */
    for (type = NIGH_I8; type <= NIGH_OPAQUE; type++) {
        uint64_t one[2] = {0}, out[2];
        int rc = nigh_op_premul(one, type, &premul);

        CHECK(rc == 0 || rc == -EOPNOTSUPP);
        if (rc == 0) {
            OK(nigh_allreduce(one, out, 1, type, premul, nigh_self()));
            OK(nigh_op_free(&premul));
        }
    }
    OK(nigh_barrier(world));
}

static void test_operations(void **state)
{
    (void)state;
    run_all(operations, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_together),   cmocka_unit_test(test_persistent), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_circle),     cmocka_unit_test(test_freed),      cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_operations), cmocka_unit_test(test_types),      cmocka_unit_test(test_defined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
