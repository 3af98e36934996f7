/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that do not call the same: whoever needs something of a rank that calls something else is told, with both calls; nobody
 * hangs, and the next collective works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 0x77 };

/* Somebody is told: in the call itself, or in the one behind it. And then all goes on. */
static void somebody_was_told(int rc)
{
    int told = rc == -EPROTO, any = 0;

    CHECK(rc == 0 || rc == -EPROTO);
    rc = nigh_allreduce(&told, &any, 1, NIGH_I32, NIGH_MAX, nigh_world());
    CHECK(rc == -EPROTO || (rc == 0 && any == 1));
    if (rc)
        OK(nigh_barrier(nigh_world()));
}

/* Program 32 of the list of programs: the text has both calls, each with its place. */
static void both_calls(int rank, int size)
{
    float vector[100], sum[100];
    char one[120], two[120];
    int rc, line;

    (void)size;
    memset(vector, GUARD, sizeof(vector));
    memset(sum, GUARD, sizeof(sum));
    line = __LINE__;
    /* The root needs nothing of others, and may be through before they have come. */
    if (rank == 0)
        rc = nigh_bcast(vector, 100, NIGH_F32, 0, nigh_world());
    else
        rc = nigh_allreduce(vector, sum, 100, NIGH_F32, NIGH_SUM, nigh_world());
    snprintf(one, sizeof(one),
             "rank 0 calls broadcast of 100 f32, root 0 at collective_wrong_test.c:%d; rank ", line + 3);
    snprintf(two, sizeof(two), " calls allreduce of 100 f32 (sum) at collective_wrong_test.c:%d", line + 5);
    CHECK(rc == -EPROTO || (rank == 0 && rc == 0));
    if (rc) {
        CHECK_TEXT(one);
        CHECK_TEXT(two);
    }
    for (size_t i = 0; i < sizeof(sum); i++)
        CHECK_INT(((uint8_t *)sum)[i] == GUARD && ((uint8_t *)vector)[i] == GUARD, 1);
    OK(nigh_barrier(nigh_world()));
    OK(nigh_bcast(vector, 100, NIGH_F32, 0, nigh_world()));
    CHECK(strstr(ranks_said(), one) && strstr(ranks_said(), two));
}

static void test_both_calls(void **state)
{
    (void)state;
    ranks_run(2, both_calls, NULL);
    ranks_run(5, both_calls, NULL);
    ranks_run(2, both_calls, &(struct ranks_how){.threads = 1});
}

/* ---- every call against every other one ---- */

enum { CALLS = 13, ROOM = 8 * 40000 };

static uint8_t *in, *out;

static int call_number(int number, uint64_t count, struct nigh_comm *comm)
{
    struct nigh_comm *made;

    switch (number) {
    case 0:
        return nigh_barrier(comm);
    case 1:
        return nigh_bcast(out, count, NIGH_U8, 1, comm);
    case 2:
        return nigh_reduce(in, out, count, NIGH_U8, NIGH_SUM, 1, comm);
    case 3:
        return nigh_allreduce(in, out, count, NIGH_U8, NIGH_SUM, comm);
    case 4:
        return nigh_gather(in, out, count, NIGH_U8, 1, comm);
    case 5:
        return nigh_scatter(in, out, count, NIGH_U8, 1, comm);
    case 6:
        return nigh_allgather(in, out, count, NIGH_U8, comm);
    case 7:
        return nigh_alltoall(in, out, count, NIGH_U8, comm);
    case 8:
        return nigh_reduce_scatter(in, out, count, NIGH_U8, NIGH_SUM, comm);
    case 9:
        return nigh_scan(in, out, count, NIGH_U8, NIGH_SUM, comm);
    case 10:
        return nigh_exscan(in, out, count, NIGH_U8, NIGH_SUM, comm);
    case 11:
        return nigh_comm_dup(comm, &made);
    default:
        return nigh_comm_split(comm, 0, 0, &made);
    }
}

#define MEETS "one of nigh_comm_dup"

static const char *const names[CALLS] = {
    "barrier",    "broadcast of", "reduce of",   "allreduce of",      "gather of",
    "scatter of", "allgather of", "alltoall of", "reduce_scatter of", "scan of",
    "exscan of",  MEETS,          MEETS};

static void every_pair(int rank, int size)
{
    static const uint64_t counts[] = {3, 30000};

    in = malloc(ROOM);
    out = malloc(ROOM);
    memset(in, 1, ROOM);
    memset(out, GUARD, ROOM);
    for (int one = 0; one < CALLS; one++)
        for (int two = 0; two < CALLS; two++)
            for (int i = 0; one != two && i < 4; i++) {
                int odd = (one + two) % size; /* the rank that is wrong */
                int rc =
                    call_number(rank == odd ? one : two, counts[rank == odd ? i / 2 : i % 2], nigh_world());

                if (rc && one < 11 && two < 11) {
                    CHECK_TEXT(names[one]);
                    CHECK_TEXT(names[two]);
                }
                somebody_was_told(rc);
            }
    OK(nigh_barrier(nigh_world()));
    free(in);
    free(out);
}

static void test_every_pair(void **state)
{
    (void)state;
    ranks_run(2, every_pair, NULL);
    ranks_run(3, every_pair, NULL);
    ranks_run(8, every_pair, NULL);
}

/* ---- the same call with another argument ---- */

static void arguments(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    int odd = size - 1, wrong = rank == odd, rc;
    uint32_t a[4] = {1, 2, 3, 4}, b[32] = {0};

    rc = nigh_bcast(a, wrong ? 3 : 4, NIGH_U32, 0, world);
    if (wrong) {
        CHECK_INT(rc, -EPROTO);
        CHECK_TEXT("rank 0 calls broadcast of 4 u32, root 0 at");
        CHECK_TEXT("calls broadcast of 3 u32, root 0 at");
    }
    somebody_was_told(rc);
    somebody_was_told(nigh_bcast(a, 4, NIGH_U32, wrong, world));
    rc = nigh_allreduce(a, b, 4, NIGH_U32, wrong ? NIGH_MAX : NIGH_MIN, world);
    CHECK_INT(rc, -EPROTO);
    CHECK_TEXT("calls allreduce of 4 u32 (min) at");
    CHECK_TEXT("calls allreduce of 4 u32 (max) at");
    somebody_was_told(rc);
    rc = nigh_allreduce(a, b, 4, wrong ? NIGH_F32 : NIGH_U32, NIGH_SUM, world);
    CHECK_INT(rc, -EPROTO);
    CHECK_TEXT("calls allreduce of 4 u32 (sum) at");
    CHECK_TEXT("calls allreduce of 4 f32 (sum) at");
    somebody_was_told(rc);
    somebody_was_told(nigh_gather(a, b, 0, NIGH_U32, wrong, world));
    rc = nigh_allgather(a, b, wrong ? 0 : 1, NIGH_U32, world);
    CHECK_INT(rc, -EPROTO);
    CHECK_TEXT("bytes");
    somebody_was_told(rc);
    OK(nigh_allreduce(a, b, 4, NIGH_U32, NIGH_SUM, world));
    CHECK_INT(b[3], 4 * size);
}

static void test_arguments(void **state)
{
    (void)state;
    ranks_run(2, arguments, NULL);
    ranks_run(3, arguments, NULL);
    ranks_run(8, arguments, NULL);
}

/* Three ranks, three calls. */
static void three(int rank, int size)
{
    int one = 1, all[3];

    (void)size;
    if (rank == 0)
        CHECK_INT(nigh_barrier(nigh_world()), -EPROTO);
    else if (rank == 1)
        CHECK_INT(nigh_scan(&one, all, 1, NIGH_I32, NIGH_SUM, nigh_world()), -EPROTO);
    else
        CHECK_INT(nigh_allgather(&one, all, 1, NIGH_I32, nigh_world()), -EPROTO);
    CHECK_TEXT("do not call the same: rank ");
    CHECK_TEXT("; rank ");
}

static void test_three(void **state)
{
    (void)state;
    ranks_run(3, three, NULL);
}

/* ---- what one rank finds wrong by itself ---- */

/* Others are told, unless they were through: in all calls about communicators, which all wait for all. */
static void check_refused(int rank, int odd, int rc, int error, const char *text, const char *call)
{
    if (rank == odd) {
        CHECK_INT(rc, error);
        CHECK_TEXT(text);
    } else {
        CHECK(rc == -EPROTO || (rc == 0 && !strstr(call, "nigh_comm_")));
        if (rc)
            CHECK_TEXT(call);
        if (rc)
            CHECK_TEXT("refused there");
    }
    OK(nigh_barrier(nigh_world()));
}

static void refused(int rank, int size)
{
    struct nigh_comm *world = nigh_world(), *made = NULL;
    int odd = size - 1, wrong = rank == odd;
    static int8_t from[30000], to[30000];
    int32_t a[64] = {0}, b[64] = {0};
    char call[64];

    check_refused(rank, odd, nigh_bcast(a, 1, NIGH_I32, wrong ? size : 0, world), -ERANGE,
                  "its ranks are 0 to", "root ");
    check_refused(rank, odd, nigh_bcast(wrong ? NULL : a, 1, NIGH_I32, 0, world), -EFAULT, "NULL",
                  "nigh_bcast(");
    check_refused(rank, odd, nigh_bcast(a, 1, wrong ? 99 : NIGH_I32, 0, world), -EINVAL, "99 is no type",
                  "type 99");
    check_refused(rank, odd, nigh_allreduce(a, b, 1, NIGH_I32, wrong ? NIGH_CSWAP : NIGH_SUM, world),
                  -EOPNOTSUPP, "NIGH_CSWAP is not defined for NIGH_I32", "NIGH_CSWAP");
    check_refused(rank, odd,
                  nigh_reduce(wrong ? NULL : a, rank == 0 ? b : NULL, 1, NIGH_I32, NIGH_SUM, 0, world),
                  -EFAULT, "NULL", "nigh_reduce(");
    check_refused(rank, odd, nigh_gather(wrong ? NULL : a, b, 1, NIGH_I32, 0, world), -EFAULT,
                  "in place is for the root, rank 0", "nigh_gather(");
    check_refused(rank, odd, nigh_allgather(a, b, wrong ? UINT64_C(1) << 62 : 1, NIGH_I32, world), -ERANGE,
                  "more than memory can hold", "nigh_allgather(");
    check_refused(rank, odd, nigh_alltoall(a, wrong ? NULL : b, 1, NIGH_I32, world), -EFAULT, "NULL",
                  "nigh_alltoall(");
    check_refused(rank, odd, nigh_comm_split(world, wrong ? -7 : NIGH_UNDEFINED, 0, &made), -ERANGE,
                  "colour -7", "nigh_comm_split(");
    check_refused(rank, odd, nigh_comm_dup(world, wrong ? NULL : &made), -EINVAL, "no place",
                  "nigh_comm_dup(");
    snprintf(call, sizeof(call), "rank %d calls nigh_scan(", odd);
    check_refused(rank, odd, nigh_scan(from, wrong ? NULL : to, 30000, NIGH_I8, NIGH_SUM, world), -EFAULT,
                  "NULL", call);
    OK(nigh_barrier(world));
}

static void test_refused(void **state)
{
    (void)state;
    ranks_run(2, refused, NULL);
    ranks_run(3, refused, NULL);
    ranks_run(5, refused, NULL);
}

/* ---- a call that is refused while requests are under way ---- */

/* Rank 0 has refused `refusals` broadcasts since its request, which the others have not started then: the request ends well, each of the
 * broadcasts as it was refused, and what rank 0 has started behind them goes on. */
static void refuse_behind(int rank, int size, int refusals)
{
    int32_t sent = rank + 1, sums[2] = {0, 0}, value = 0;
    nigh_request requests[2];

    if (rank) {
        ranks_hear((unsigned)refusals);
        OK(nigh_iallreduce(&sent, &sums[0], 1, NIGH_I32, NIGH_SUM, nigh_world(), &requests[0]));
    } else {
        OK(nigh_iallreduce(&sent, &sums[0], 1, NIGH_I32, NIGH_SUM, nigh_world(), &requests[0]));
    }
    for (int i = 0; i < refusals; i++) {
        CHECK_INT(nigh_bcast(&value, 1, NIGH_I32, rank ? 0 : size, nigh_world()), rank ? -EPROTO : -ERANGE);
        CHECK_TEXT(rank ? "rank 0 calls nigh_bcast(" : "its ranks are 0 to");
        if (rank)
            CHECK_TEXT("refused there");
        if (rank == 0 && i == refusals - 1)
            ranks_tell((unsigned)refusals);
        if (rank == 0 && i == refusals - 1)
            OK(nigh_iallreduce(&sent, &sums[1], 1, NIGH_I32, NIGH_MAX, nigh_world(), &requests[1]));
        /* Nobody else moves what is under way at rank 0. */
        if (rank == 0 && i == refusals - 1)
            OK(nigh_wait(&requests[0], NULL));
    }
    if (rank) {
        OK(nigh_iallreduce(&sent, &sums[1], 1, NIGH_I32, NIGH_MAX, nigh_world(), &requests[1]));
        OK(nigh_wait(&requests[0], NULL));
    }
    OK(nigh_wait(&requests[1], NULL));
    CHECK_INT(sums[0], size * (size + 1) / 2);
    CHECK_INT(sums[1], size);
    OK(nigh_barrier(nigh_world()));
}

static void refused_behind(int rank, int size)
{
    refuse_behind(rank, size, 1);
    refuse_behind(rank, size, 2);
}

/* The request itself fails: each rank hears of either call what was wrong with it. */
static void refused_behind_failed(int rank, int size)
{
    int32_t sent[2] = {1, 2}, sums[2];
    nigh_request request;

    OK(nigh_barrier(nigh_world()));
    if (rank)
        ranks_hear(1);
    OK(nigh_iallreduce(sent, sums, rank ? 1 : 2, NIGH_I32, NIGH_SUM, nigh_world(), &request));
    if (rank == 0) {
        CHECK_INT(nigh_bcast(sent, 1, NIGH_I32, size, nigh_world()), -ERANGE);
        ranks_tell(1);
    }
    CHECK_INT(nigh_wait(&request, NULL), -EPROTO);
    CHECK_TEXT("allreduce of 1 i32 (sum)");
    CHECK_TEXT("allreduce of 2 i32 (sum)");
    if (rank) {
        CHECK_INT(nigh_bcast(sent, 1, NIGH_I32, 0, nigh_world()), -EPROTO);
        CHECK_TEXT("rank 0 calls nigh_bcast(");
    }
    OK(nigh_barrier(nigh_world()));
}

/* Rank 0 frees the communicator behind its refusal and one call more, which is like that of the others in the place of the refused
 * one: they are told, and get its bytes in their next call. */
static void refused_and_freed(int rank, int size)
{
    int32_t sent = 1, sum = 0, value = rank ? -1 : 77;
    nigh_request requests[2];
    struct nigh_comm *comm;

    OK(nigh_comm_dup(nigh_world(), &comm));
    if (rank)
        ranks_hear(3);
    OK(nigh_iallreduce(&sent, &sum, 1, NIGH_I32, NIGH_SUM, comm, &requests[0]));
    if (rank == 0) {
        CHECK_INT(nigh_bcast(&value, 1, NIGH_I32, size, comm), -ERANGE);
        OK(nigh_ibcast(&value, 1, NIGH_I32, 0, comm, &requests[1]));
        OK(nigh_comm_free(&comm));
        ranks_tell(3);
        OK(nigh_wait(&requests[0], NULL));
        OK(nigh_wait(&requests[1], NULL));
    } else {
        CHECK_INT(nigh_bcast(&value, 1, NIGH_I32, 0, comm), -EPROTO);
        CHECK_TEXT("refused there");
        CHECK_INT(value, -1);
        OK(nigh_wait(&requests[0], NULL));
        OK(nigh_bcast(&value, 1, NIGH_I32, 0, comm));
        CHECK_INT(value, 77);
        OK(nigh_comm_free(&comm));
    }
    CHECK_INT(sum, size);
    OK(nigh_barrier(nigh_world()));
}

static void test_refused_behind(void **state)
{
    (void)state;
    ranks_run(2, refused_and_freed, NULL);
    ranks_run(4, refused_and_freed, NULL);
    ranks_run(2, refused_behind, NULL);
    ranks_run(4, refused_behind, NULL);
    ranks_run(2, refused_behind_failed, NULL);
    ranks_run(3, refused_behind_failed, NULL);
}

/* ---- buffers that overlap ---- */

/* The call of this number, with 3 elements a part. */
static int moved(int number, const int32_t *send, int32_t *recv, struct nigh_comm *comm)
{
    switch (number) {
    case 0:
        return nigh_allreduce(send, recv, 3, NIGH_I32, NIGH_SUM, comm);
    case 1:
        return nigh_reduce(send, recv, 3, NIGH_I32, NIGH_SUM, 0, comm);
    case 2:
        return nigh_scan(send, recv, 3, NIGH_I32, NIGH_SUM, comm);
    case 3:
        return nigh_exscan(send, recv, 3, NIGH_I32, NIGH_SUM, comm);
    case 4:
        return nigh_reduce_scatter(send, recv, 3, NIGH_I32, NIGH_SUM, comm);
    case 5:
        return nigh_gather(send, recv, 3, NIGH_I32, 0, comm);
    case 6:
        return nigh_scatter(send, recv, 3, NIGH_I32, 0, comm);
    case 7:
        return nigh_allgather(send, recv, 3, NIGH_I32, comm);
    default:
        return nigh_alltoall(send, recv, 3, NIGH_I32, comm);
    }
}

enum { MOVED = 9 };

/* Parts of the sent buffer and of the received one. */
static int sent_parts(int number, int size)
{
    return number == 4 || number == 6 || number == 8 ? size : 1;
}

static int received_parts(int number, int size)
{
    return number == 5 || number == 7 || number == 8 ? size : 1;
}

static void overlapping(int rank, int size)
{
    int32_t room[128] = {0}, before[128], *middle = room + 64;

    for (int number = 0; number < MOVED; number++) {
        int sent = 3 * sent_parts(number, size), received = 3 * received_parts(number, size);
        /* The one that looks at both buffers: a root, or for exscan one that has a rank before it. */
        int odd = number == 1 || number == 5 || number == 6 ? 0 : size - 1;
        int32_t *wrong[] = {middle, middle - received + 1, middle + sent - 1};

        for (int i = 0; i < 3; i++) {
            memset(room, GUARD, sizeof(room));
            memcpy(before, room, sizeof(room));
            check_refused(rank, odd,
                          moved(number, middle, rank == odd ? wrong[i] : middle - received, nigh_world()),
                          -EINVAL, "overlap", "rank ");
            CHECK(rank != odd || memcmp(room, before, sizeof(room)) == 0);
        }
        memset(room, 0, sizeof(room));
        OK(moved(number, middle, middle - received, nigh_world()));
        OK(moved(number, middle, middle + sent, nigh_world()));
        /* What is not looked at may be anything. */
        if (number == 1 || number == 5 || number == 6)
            OK(moved(number, middle, rank == 0 ? middle + sent : middle, nigh_world()));
        if (number == 3)
            OK(moved(number, middle, rank == 0 ? middle : middle + sent, nigh_world()));
        OK(nigh_barrier(nigh_world())); /* who is refused ends what others are still in */
    }
}

/* Long ones go another way, behind the same checks. */
static void overlapping_long(int rank, int size)
{
    enum { LONG = 50000 };
    int32_t *room = calloc(2 * LONG, sizeof(*room));

    CHECK(room != NULL);
    check_refused(rank, size - 1,
                  nigh_allreduce(room + (rank == size - 1), room + LONG - (rank == size - 1), LONG, NIGH_I32,
                                 NIGH_SUM, nigh_world()),
                  -EINVAL, "NULL as send", "nigh_allreduce(");
    OK(nigh_allreduce(NULL, room, LONG, NIGH_I32, NIGH_SUM, nigh_world()));
    free(room);
}

static void test_overlapping(void **state)
{
    (void)state;
    ranks_run(2, overlapping, NULL);
    ranks_run(3, overlapping, NULL);
    ranks_run(5, overlapping, NULL);
    ranks_run(2, overlapping_long, NULL);
}

/* All make the same mistake: all get its error. Alone, too. */
static void all_refused(int rank, int size)
{
    double a = rank, b;

    CHECK_INT(nigh_allreduce(&a, &b, 1, NIGH_F64, NIGH_BAND, nigh_world()), -EOPNOTSUPP);
    CHECK_TEXT("NIGH_BAND is not defined for NIGH_F64");
    CHECK_INT(nigh_bcast(&a, 1, NIGH_F64, size, nigh_world()), -ERANGE);
    CHECK_INT(nigh_bcast(&a, 1, NIGH_F64, -1, nigh_world()), -ERANGE);
    CHECK_INT(nigh_barrier(NULL), -EINVAL);
    CHECK_INT(nigh_bcast(&a, 1, NIGH_F64, 0, NULL), -EINVAL);
    /* No elements need no buffers. */
    OK(nigh_allreduce(NULL, NULL, 0, NIGH_F64, NIGH_SUM, nigh_world()));
    OK(nigh_allreduce(&a, &b, 1, NIGH_F64, NIGH_SUM, nigh_world()));
    CHECK(b == size * (size - 1) / 2);
}

static void test_all_refused(void **state)
{
    (void)state;
    ranks_run_all(all_refused, NULL);
}

/* One rank is in no collective at all, but waits for one that is. When it comes there after all the
 * others are told, or have what they need. */
static void elsewhere(int rank, int size)
{
    int one = 1, sum = 0, rc;

    OK(nigh_barrier(nigh_world()));
    OK(nigh_barrier(nigh_world()));
    if (rank == 1) {
        CHECK_INT(nigh_recv(&one, sizeof(one), 0, 5, nigh_world(), NIGH_STATUS_IGNORE), -EDEADLK);
        CHECK_TEXT("rank 0 waits in nigh_allreduce for rank 1");
    }
    rc = nigh_allreduce(&one, &sum, 1, NIGH_I32, NIGH_SUM, nigh_world());
    CHECK(rc == -EDEADLK || (rc == 0 && sum == size));
    if (rank == 0 && rc)
        CHECK_TEXT("rank 1 waits in nigh_recv from rank 0");
    OK(nigh_barrier(nigh_world()));
}

static void test_elsewhere(void **state)
{
    (void)state;
    ranks_run(2, elsewhere, NULL);
    ranks_run(4, elsewhere, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_both_calls),  cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_arguments),   cmocka_unit_test(test_three),
        cmocka_unit_test(test_refused),     cmocka_unit_test(test_all_refused),
        cmocka_unit_test(test_elsewhere),   cmocka_unit_test(test_refused_behind),
        cmocka_unit_test(test_overlapping),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
