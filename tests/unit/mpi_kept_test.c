/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls with large counts over an MPI that has none and reads its arrays until a request is complete: an MPI of the test's own, of
 * which hosts/mpi sees one communicator of which it answers nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hosts/mpi/calls.h"
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 4, INNER = 77, OUTER = 88, COMM = 5, TESTS_MOST = 3 };

int MPI_Ialltoallv_c(const void *send, const nigh_mpi_count *send_counts, const nigh_mpi_aint *send_offsets,
                     intptr_t send_type, void *recv, const nigh_mpi_count *recv_counts,
                     const nigh_mpi_aint *recv_offsets, intptr_t recv_type, intptr_t comm,
                     nigh_mpi_request *request);
int MPI_Ibcast_c(void *buffer, nigh_mpi_count count, intptr_t type, int root, intptr_t comm,
                 nigh_mpi_request *request);

/* ---- the MPI ------------------------------------------------------------------------------------------- */

static struct {
    const int *arrays[4]; /* of the call under way */
    int tests, seen[4][RANKS];
    int refuses; /* what the call returns */
    int inner_error;
    bool complete, released;
    void *state;
    nigh_mpi_request_query query;
    nigh_mpi_request_free release;
    int (*poll)(void *, void *);
    int (*wait)(int, void **, double, void *);
} mpi;

static int ialltoallv(const void *send, const int *send_counts, const int *send_offsets,
                      nigh_mpi_type send_type, void *recv, const int *recv_counts, const int *recv_offsets,
                      nigh_mpi_type recv_type, nigh_mpi_comm comm, nigh_mpi_request *request)
{
    (void)send, (void)recv, (void)send_type, (void)recv_type;
    assert_int_equal(comm, COMM);
    mpi.arrays[0] = send_counts;
    mpi.arrays[1] = send_offsets;
    mpi.arrays[2] = recv_counts;
    mpi.arrays[3] = recv_offsets;
    mpi.tests = 0;
    if (!mpi.refuses)
        *request = INNER;
    return mpi.refuses;
}

static int ibcast(void *buffer, int count, nigh_mpi_type type, int root, nigh_mpi_comm comm,
                  nigh_mpi_request *request)
{
    (void)buffer, (void)count, (void)type, (void)root, (void)comm;
    *request = INNER;
    return 0;
}

/* The last of some tests finds the call complete, and has read the arrays then. */
static int test(nigh_mpi_request *request, int *over, void *status)
{
    (void)status;
    assert_int_equal(*request, INNER);
    *over = ++mpi.tests == TESTS_MOST;
    for (int i = 0; *over && i < 4; i++)
        memcpy(mpi.seen[i], mpi.arrays[i], sizeof(mpi.seen[i]));
    return *over ? mpi.inner_error : 0;
}

static int grequest_start(nigh_mpi_request_query query, nigh_mpi_request_free release,
                          nigh_mpi_request_cancel cancel, int (*poll)(void *, void *),
                          int (*wait)(int, void **, double, void *), void *state, nigh_mpi_request *request)
{
    (void)cancel;
    mpi.query = query;
    mpi.release = release;
    mpi.poll = poll;
    mpi.wait = wait;
    mpi.state = state;
    mpi.complete = mpi.released = false;
    *request = OUTER;
    return 0;
}

static int grequest_complete(nigh_mpi_request request)
{
    assert_int_equal(request, OUTER);
    assert_false(mpi.complete);
    mpi.complete = true;
    return 0;
}

static int end(void)
{
    int error;

    assert_true(mpi.complete);
    error = mpi.query(mpi.state, NULL);
    mpi.release(mpi.state);
    mpi.released = true;
    return error;
}

static int wait_for(nigh_mpi_request *request, void *status)
{
    (void)status;
    assert_int_equal(*request, OUTER);
    return end();
}

static int is_inter(nigh_mpi_comm comm, int *inter)
{
    *inter = 0;
    return comm == COMM ? 0 : 1;
}

static int rank_of(nigh_mpi_comm comm, int *rank)
{
    *rank = 1;
    return comm == COMM ? 0 : 1;
}

static int size_of(nigh_mpi_comm comm, int *size)
{
    *size = RANKS;
    return comm == COMM ? 0 : 1;
}

/* So that hosts/mpi knows no communicator. */
static int create_keyval(nigh_mpi_copy_attr copy, nigh_mpi_delete_attr delete, int *key, void *extra)
{
    (void)copy, (void)delete, (void)key, (void)extra;
    return 1;
}

static int handled;
static int call_errhandler(nigh_mpi_comm comm, int error)
{
    assert_int_equal(comm, COMM);
    handled = error;
    return 0;
}

static int set_elements(void *status, nigh_mpi_type type, int count)
{
    (void)status, (void)type, (void)count;
    return 0;
}

static int set_cancelled(void *status, int flag)
{
    (void)status, (void)flag;
    return 0;
}

static const struct nigh_mpi_calls calls = {
    .Ialltoallv = ialltoallv,
    .Ibcast = ibcast,
    .Test = test,
    .Wait = wait_for,
    .Grequest_complete = grequest_complete,
    .Comm_test_inter = is_inter,
    .Comm_rank = rank_of,
    .Comm_size = size_of,
    .Comm_create_keyval = create_keyval,
    .Comm_call_errhandler = call_errhandler,
    .Status_set_elements = set_elements,
    .Status_set_cancelled = set_cancelled,
};
const struct nigh_mpi_calls *nigh_mpi_calls_early = &calls;

const struct nigh_mpi_calls *nigh_mpi_calls_late(void)
{
    return &calls;
}

void *nigh_mpi_find(const char *name)
{
    return strcmp(name, "PMPIX_Grequest_start") == 0
               ? *(void **)&(int (*)(nigh_mpi_request_query, nigh_mpi_request_free, nigh_mpi_request_cancel,
                                     int (*)(void *, void *), int (*)(int, void **, double, void *), void *,
                                     nigh_mpi_request *)){grequest_start}
               : NULL;
}

/* ---- the program --------------------------------------------------------------------------------------- */

static nigh_mpi_count counts[2][RANKS];
static nigh_mpi_aint offsets[2][RANKS];

static void fill(void)
{
    for (int i = 0; i < 2; i++)
        for (int r = 0; r < RANKS; r++) {
            counts[i][r] = 100 * (i + 1) + r;
            offsets[i][r] = 1000 * (i + 1) + r;
        }
}

enum { OTHERS = 64, OTHER = (4 * RANKS + 1) * sizeof(int) };

static int begin(nigh_mpi_request *request)
{
    void *others[OTHERS];
    int rc = MPI_Ialltoallv_c(NULL, counts[0], offsets[0], 1, NULL, counts[1], offsets[1], 1, COMM, request);

    /* Memory that was given back is another's. */
    for (int i = 0; i < OTHERS; i++) {
        others[i] = malloc(OTHER);
        assert_non_null(others[i]);
        memset(others[i], 0x55, OTHER);
    }
    for (int i = 0; i < OTHERS; i++)
        free(others[i]);
    return rc;
}

static void check_seen(void)
{
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(mpi.seen[0][r], counts[0][r]);
        assert_int_equal(mpi.seen[1][r], offsets[0][r]);
        assert_int_equal(mpi.seen[2][r], counts[1][r]);
        assert_int_equal(mpi.seen[3][r], offsets[1][r]);
    }
}

static void test_polled(void **state)
{
    nigh_mpi_request request = 0;

    (void)state;
    fill();
    assert_int_equal(begin(&request), 0);
    assert_int_equal(request, OUTER);
    for (int i = 1; i < TESTS_MOST; i++) {
        mpi.poll(mpi.state, NULL);
        assert_false(mpi.complete);
    }
    mpi.poll(mpi.state, NULL);
    assert_int_equal(end(), 0);
    check_seen();
}

static void test_waited_for(void **state)
{
    nigh_mpi_request request = 0;

    (void)state;
    mpi.inner_error = 16;
    assert_int_equal(begin(&request), 0);
    mpi.wait(1, &mpi.state, 0, NULL);
    assert_int_equal(end(), 16);
    mpi.inner_error = 0;
    check_seen();
}

/* Its request is the program's, and ours is gone. */
static void test_refused(void **state)
{
    nigh_mpi_request request = 0;

    (void)state;
    mpi.refuses = 15;
    assert_int_equal(begin(&request), 15);
    mpi.refuses = 0;
    assert_int_equal(request, 0);
    assert_true(mpi.released);
}

static void test_too_large(void **state)
{
    nigh_mpi_request request = 0;

    (void)state;
    counts[1][2] = INT_MAX + INT64_C(1);
    mpi.released = false;
    assert_int_equal(begin(&request), NIGH_MPI_ERR_COUNT);
    assert_int_equal(handled, NIGH_MPI_ERR_COUNT);
    assert_int_equal(request, 0);
    fill();
}

/* The MPI reads no array, so its request is the program's. */
static void test_without_arrays(void **state)
{
    nigh_mpi_request request = 0;

    (void)state;
    assert_int_equal(MPI_Ibcast_c(NULL, 3, 1, 0, COMM, &request), 0);
    assert_int_equal(request, INNER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_polled),         cmocka_unit_test(test_waited_for),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_too_large),
        cmocka_unit_test(test_without_arrays),
    };

    return cmocka_run_group_tests_name("mpi_kept", tests, NULL, NULL);
}
