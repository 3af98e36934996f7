/* SPDX-License-Identifier: BSD-3-Clause */
/* Requests of collectives are not answered over an MPI that holds a lock of all its calls while one waits in a function of ours: an MPI
 * of the test's own, with such a lock and without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "hosts/mpi/calls.h"
#include "hosts/mpi/lock.h"
#include "hosts/mpi/progress.h"
#include <pthread.h>
#include <string.h>

/* ---- the MPI ------------------------------------------------------------------------------------------- */

enum { PLAIN = 11, EXTENDED = 22 };

static pthread_mutex_t lock; /* one thread may take it again */
static bool has_lock, polls;
static int level, tests, begun, ended;
static struct {
    bool complete;
    void *state;
    nigh_mpi_request_query query;
    nigh_mpi_request_free release;
    nigh_mpi_request_poll poll;
    nigh_mpi_request_wait wait;
} plain, extended;

static void enter(void)
{
    if (has_lock)
        pthread_mutex_lock(&lock);
}

static void leave(void)
{
    if (has_lock)
        pthread_mutex_unlock(&lock);
}

static int query_thread(int *out)
{
    *out = level;
    return 0;
}

static int plain_start(nigh_mpi_request_query query, nigh_mpi_request_free release,
                       nigh_mpi_request_cancel cancel, void *state, nigh_mpi_request *request)
{
    (void)cancel;
    begun++;
    plain.complete = false;
    plain.state = state;
    plain.query = query;
    plain.release = release;
    *request = PLAIN;
    return 0;
}

static int extended_start(nigh_mpi_request_query query, nigh_mpi_request_free release,
                          nigh_mpi_request_cancel cancel, nigh_mpi_request_poll poll,
                          nigh_mpi_request_wait wait, void *state, nigh_mpi_request *request)
{
    (void)cancel;
    begun++;
    extended.complete = false;
    extended.state = state;
    extended.query = query;
    extended.release = release;
    extended.poll = poll;
    extended.wait = wait;
    *request = EXTENDED;
    return 0;
}

static int complete(nigh_mpi_request request)
{
    bool *one = request == PLAIN ? &plain.complete : &extended.complete;

    enter();
    assert_false(*one);
    *one = true;
    leave();
    return 0;
}

static int end(nigh_mpi_request *request, nigh_mpi_request_query query, nigh_mpi_request_free release,
               void *state)
{
    ended++;
    *request = 0;
    (void)query(state, NULL);
    return release(state);
}

static int wait_one(nigh_mpi_request *request, void *status)
{
    (void)status;
    assert_int_equal(*request, PLAIN);
    assert_true(plain.complete);
    return end(request, plain.query, plain.release, plain.state);
}

static int wait_all(int count, nigh_mpi_request *requests, void *statuses)
{
    assert_int_equal(count, 1);
    assert_int_equal(requests[0], EXTENDED);
    enter();
    if (polls)
        (void)extended.poll(extended.state, statuses);
    (void)extended.wait(1, &extended.state, 0, NULL);
    leave();
    assert_true(extended.complete);
    return end(&requests[0], extended.query, extended.release, extended.state);
}

static int test(nigh_mpi_request *request, int *over, void *status)
{
    (void)status;
    enter();
    assert_int_equal(*request, PLAIN);
    __atomic_add_fetch(&tests, 1, __ATOMIC_RELAXED);
    *over = 0;
    leave();
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
    .Query_thread = query_thread,
    .Grequest_start = plain_start,
    .Grequest_complete = complete,
    .Test = test,
    .Wait = wait_one,
    .Waitall = wait_all,
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
    nigh_mpi_request_start start = extended_start;
    void *found = NULL;

    if (strcmp(name, "PMPIX_Grequest_start") == 0)
        memcpy(&found, &start, sizeof(found));
    return found;
}

/* ---- the tests ----------------------------------------------------------------------------------------- */

static void set(bool with_lock, bool with_polls, int threads)
{
    has_lock = with_lock;
    polls = with_polls;
    level = threads;
    tests = begun = ended = 0;
}

static void test_without_lock(void **state)
{
    (void)state;
    for (int with_polls = 0; with_polls < 2; with_polls++) {
        set(false, with_polls, NIGH_MPI_THREAD_MULTIPLE);
        assert_true(nigh_mpi_lock_is_shared(extended_start));
        assert_int_equal(tests, 1);
        assert_int_equal(begun, 2);
        assert_int_equal(ended, 2);
    }
}

static void test_with_lock(void **state)
{
    (void)state;
    set(true, false, NIGH_MPI_THREAD_MULTIPLE);
    assert_false(nigh_mpi_lock_is_shared(extended_start));
    assert_int_equal(begun, 2);
    assert_int_equal(ended, 2);
}

/* Nobody calls meanwhile. */
static void test_one_thread(void **state)
{
    (void)state;
    set(true, false, NIGH_MPI_THREAD_MULTIPLE - 1);
    assert_true(nigh_mpi_lock_is_shared(extended_start));
    assert_int_equal(begun, 0);
}

/* What the ranks tell each other when a communicator's group is made. */
static void test_told(void **state)
{
    (void)state;
    set(true, false, NIGH_MPI_THREAD_MULTIPLE);
    assert_false(nigh_mpi_progress_can());
    assert_false(nigh_mpi_progress_can());
    assert_int_equal(ended, 2); /* tried once */
    assert_true(nigh_mpi_progress_without_nigh());
}

int main(void)
{
    const struct CMUnitTest tests_of_it[] = {
        cmocka_unit_test(test_without_lock),
        cmocka_unit_test(test_with_lock),
        cmocka_unit_test(test_one_thread),
        cmocka_unit_test(test_told),
    };
    pthread_mutexattr_t again;

    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &again);
    return cmocka_run_group_tests_name("mpi_lock", tests_of_it, NULL, NULL);
}
