/* SPDX-License-Identifier: BSD-3-Clause */
/* Wrong programs: each misuse of a call is an error with a sentence that says what, where and what to do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void arguments(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    nigh_request request;
    nigh_matched message;
    char buffer[8];
    int flag;

    CHECK_INT(nigh_send(buffer, 8, size, 1, world), -ERANGE);
    CHECK_TEXT("nigh_send at ");
    CHECK_TEXT("misuse_test.c:");
    CHECK_TEXT("there is no rank");
    CHECK_TEXT("\"world\": its ranks are 0 to");
    CHECK_INT(nigh_send(buffer, 8, NIGH_ANY_SOURCE, 1, world), -ERANGE);
    CHECK_TEXT("NIGH_ANY_SOURCE is for receives");
    CHECK_INT(nigh_send(buffer, 8, rank, -1, world), -ERANGE);
    CHECK_TEXT("tag -1 is not valid");
    CHECK_INT(nigh_recv(buffer, 8, rank, -2, world, NULL), -ERANGE);
    CHECK_INT(nigh_recv(buffer, 8, -3, 1, world, NULL), -ERANGE);
    CHECK_INT(nigh_send(NULL, 8, rank, 1, world), -EFAULT);
    CHECK_INT(nigh_recv(NULL, 8, rank, 1, world, NULL), -EFAULT);
    CHECK_INT(nigh_send(buffer, 8, rank, 1, NULL), -EINVAL);
    CHECK_TEXT("the communicator is NULL");
    CHECK_INT(nigh_isend(buffer, 8, rank, 1, world, NULL), -EINVAL);
    CHECK_INT(nigh_irecv(buffer, 8, rank, 1, world, NULL), -EINVAL);
    CHECK_INT(nigh_isend(buffer, 8, size, 1, world, &request), -ERANGE);
    CHECK_INT(nigh_irecv(buffer, 8, size, 1, world, &request), -ERANGE);
    CHECK_INT(nigh_issend(NULL, 8, rank, 1, world, &request), -EFAULT);
    CHECK_INT(nigh_sendrecv(buffer, 8, rank, 1, buffer, 8, size, 1, world, NULL), -ERANGE);
    CHECK_INT(nigh_sendrecv(buffer, 8, size, 1, buffer, 8, rank, 1, world, NULL), -ERANGE);
    CHECK_INT(nigh_recv_init(NULL, 8, rank, 1, world, &request), -EFAULT);
    CHECK_INT(nigh_send_init(buffer, 8, rank, 1, world, NULL), -EINVAL);
    CHECK_INT(nigh_probe(size, 1, world, NULL), -ERANGE);
    CHECK_INT(nigh_iprobe(rank, 1, world, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_improbe(rank, -5, world, &flag, &message, NULL), -ERANGE);
    CHECK_INT(nigh_mprobe(rank, 1, world, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_mrecv(buffer, 8, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_wait(NULL, NULL), -EINVAL);
    CHECK_INT(nigh_waitall(-1, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_waitall(1, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_startall(1, NULL), -EINVAL);
}

/* The stale copies: waited twice, freed, of another kind, garbage. */
static void requests(int rank, int size)
{
    nigh_request request, copy, garbage = {.id = UINT64_C(0x1234567890abcdef)}, zero = NIGH_REQUEST_NULL,
                                two[2];
    nigh_matched message;
    int value = 0, flag, index;

    (void)size;
    OK(nigh_isend(&value, sizeof(value), rank, 1, nigh_world(), &request));
    copy = request;
    OK(nigh_wait(&request, NULL));
    CHECK_INT(nigh_wait(&copy, NULL), -EINVAL);
    CHECK_TEXT("this request has ended");
    CHECK_INT(nigh_test(&copy, &flag, NULL), -EINVAL);
    CHECK_INT(nigh_cancel(&copy), -EINVAL);
    CHECK_INT(nigh_request_free(&copy), -EINVAL);
    CHECK_INT(nigh_request_get_status(copy, &flag, NULL), -EINVAL);
    two[0] = zero;
    two[1] = copy;
    CHECK_INT(nigh_waitall(2, two, NULL), -EINVAL);
    CHECK_INT(nigh_waitany(2, two, &index, NULL), -EINVAL);
    CHECK_INT(nigh_testall(2, two, &flag, NULL), -EINVAL);
    OK(nigh_irecv(&value, sizeof(value), rank, 1, nigh_world(), &request)); /* the same slot */
    CHECK_INT(nigh_wait(&copy, NULL), -EINVAL);
    OK(nigh_wait(&request, NULL));
    CHECK_INT(nigh_wait(&garbage, NULL), -EINVAL);
    CHECK_TEXT("is no request");
    CHECK_INT(nigh_request_free(&zero), -EINVAL);
    CHECK_INT(nigh_start(&zero), -EINVAL);
    OK(nigh_send(&value, sizeof(value), rank, 2, nigh_world()));
    OK(nigh_mprobe(rank, 2, nigh_world(), &message, NULL));
    request.id = message.id;
    CHECK_INT(nigh_wait(&request, NULL), -EINVAL);
    CHECK_TEXT("nigh_mrecv");
    OK(nigh_mrecv(&value, sizeof(value), &message, NULL));
    /* The same request twice in one list: found at the second. */
    OK(nigh_isend(&value, sizeof(value), rank, 3, nigh_world(), &two[0]));
    two[1] = two[0];
    CHECK_INT(nigh_waitall(2, two, NULL), -EINVAL);
    CHECK_TEXT("listed twice");
    OK(nigh_wait(&two[0], NULL));
    OK(nigh_recv(&value, sizeof(value), rank, 3, nigh_world(), NULL));
}

static void test_arguments(void **state)
{
    (void)state;
    ranks_run(1, arguments, NULL);
    ranks_run(2, arguments, NULL);
    ranks_run(2, arguments, &(struct ranks_how){.threads = 1});
}

static void test_requests(void **state)
{
    (void)state;
    ranks_run(1, requests, NULL);
    ranks_run(1, requests, &(struct ranks_how){.threads = 1});
}

/* Without nigh_init and after nigh_finalize; and nigh can be started again. */
static void outside(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config)};
    int value;

    (void)rank;
    (void)size;
    CHECK_INT(nigh_init(&config), -EALREADY);
    CHECK_INT(nigh_initialized(), 1);
    OK(nigh_finalize());
    CHECK_INT(nigh_initialized(), 0);
    CHECK(nigh_world() == NULL && nigh_self() == NULL && nigh_plugin() == NULL &&
          nigh_plugin_context() == NULL);
    CHECK_INT(nigh_send(&value, 4, 0, 1, NULL), -ENOTCONN);
    CHECK_TEXT("called after nigh_finalize");
    CHECK_INT(nigh_barrier(NULL), -ENOTCONN);
    CHECK_INT(nigh_finalize(), -ENOTCONN);
    OK(nigh_init(NULL));
    OK(nigh_send(&value, 4, 0, 1, nigh_world()));
    OK(nigh_recv(&value, 4, 0, 1, nigh_world(), NULL));
    OK(nigh_finalize());
}

static void test_outside(void **state)
{
    int value;

    (void)state;
    assert_int_equal(nigh_recv(&value, 4, 0, 1, NULL, NULL), -ENOTCONN);
    assert_non_null(strstr(nigh_error_text(), "called before nigh_init"));
    assert_int_equal(nigh_waitall(0, NULL, NULL), -ENOTCONN);
    assert_int_equal(nigh_initialized(), 0);
    ranks_run(1, outside, &(struct ranks_how){.loose = true});
}

static void forked(int rank, int size)
{
    int status = 0, value = 0;
    pid_t pid;

    (void)size;
    pid = fork();
    if (pid == 0) {
        if (nigh_send(&value, 4, rank, 1, nigh_world()) != -ECHILD || nigh_initialized() ||
            !strstr(nigh_error_text(), "forked") || nigh_finalize() != -ECHILD || nigh_init(NULL) != -ECHILD)
            _exit(9);
        _exit(0);
    }
    CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_INT(status, 0);
    OK(nigh_barrier(nigh_world()));
}

static void test_forked(void **state)
{
    (void)state;
    ranks_run(2, forked, NULL);
    ranks_run(2, forked, &(struct ranks_how){.threads = 1});
}

/* A buffer that is changed too early, and a receive that is read too early. */
static void watched(int rank, int size)
{
    char out[16] = "fifteen letters", in[16] = "";
    nigh_request request, other;

    (void)size;
    OK(nigh_irecv(in, sizeof(in), rank, 1, nigh_world(), &other));
    CHECK_INT((unsigned char)in[3], 0xa5);
    OK(nigh_isend(out, sizeof(out), rank, 1, nigh_world(), &request));
    out[7] = '!';
    OK(nigh_wait(&request, NULL));
    OK(nigh_wait(&other, NULL));
    CHECK(strstr(ranks_said(), "the buffer was changed before the request had ended, first at byte 7"));
    CHECK(strcmp(in, "fifteen letters") == 0);
}

static void test_debug(void **state)
{
    (void)state;
    ranks_run(1, watched, &(struct ranks_how){.environment = "NIGH_DEBUG=1"});
}

/* What was forgotten is named with the place where it was begun. */
static void forget(int rank, int size)
{
    nigh_request request;
    struct nigh_comm *comm;
    nigh_matched message;
    int value = 0;

    (void)size;
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_isend(&value, sizeof(value), 0, 11, nigh_world(), &request));
    OK(nigh_irecv(&value, sizeof(value), 0, 12, comm, &request));
    OK(nigh_recv_init(&value, sizeof(value), 0, 13, comm, &request));
    OK(nigh_send(&value, sizeof(value), rank, 14, nigh_world()));
    OK(nigh_mprobe(rank, 14, nigh_world(), &message, NULL));
    CHECK_INT(nigh_finalize(), -EBUSY);
    CHECK_TEXT("left over");
    CHECK(strstr(ranks_said(),
                 "request never waited for, though it has ended: send of 4 bytes to rank 0, tag 11"));
    CHECK(strstr(ranks_said(), "not ended: receive of at most 4 bytes from rank 0, tag 12"));
    CHECK(strstr(ranks_said(), "persistent request never freed"));
    CHECK(strstr(ranks_said(), "never received (nigh_mrecv): message taken by a matched probe of 4 bytes"));
    CHECK(strstr(ranks_said(), "never freed (nigh_comm_free): communicator 3 (made at "));
    CHECK(strstr(ranks_said(), "misuse_test.c:"));
    if (rank == 0) {
        CHECK(strstr(ranks_said(),
                     "never received: a message of 4 bytes from rank 0, tag 11, in communicator "
                     "\"world\""));
        CHECK(strstr(ranks_said(),
                     "never received: a message of 4 bytes from rank 1, tag 11, in communicator "
                     "\"world\""));
    }
}

static void test_forget(void **state)
{
    (void)state;
    ranks_run(2, forget, &(struct ranks_how){.loose = true});
}

/* A small send that takes the short way, which a rank's first messages do not, is named as any other. */
static void light(int rank, int size)
{
    struct nigh_comm *comm;
    nigh_request request, kept;
    int value = 0;

    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_comm_set_name(comm, "work"));
    for (int i = 0; i < 1000; i++) {
        OK(nigh_isend(&value, 4, size - 1 - rank, 1, comm, &request));
        OK(nigh_recv(&value, 4, size - 1 - rank, 1, comm, NULL));
        OK(nigh_wait(&request, NULL));
    }
    OK(nigh_isend(&value, 4, size - 1 - rank, 17, comm, &request));
    CHECK(request.id >> 63);
    CHECK_INT(nigh_start(&request), -EINVAL);
    CHECK_TEXT(rank == 0 ? "send of 4 bytes to rank 1, tag 17, in communicator \"work\", posted at "
                         : "send of 4 bytes to rank 0, tag 17, in communicator \"work\", posted at ");
    OK(nigh_wait(&request, NULL));
    OK(nigh_isend(&value, 3, size - 1 - rank, 18, comm, &request));
    OK(nigh_isend(&value, 2, size - 1 - rank, 19, comm, &kept));
    OK(nigh_wait(&request, NULL));
    OK(nigh_recv(&value, 4, size - 1 - rank, 17, comm, NULL));
    OK(nigh_recv(&value, 4, size - 1 - rank, 18, comm, NULL));
    OK(nigh_recv(&value, 4, size - 1 - rank, 19, comm, NULL));
    OK(nigh_comm_free(&comm));
    CHECK_INT(nigh_finalize(), -EBUSY);
    CHECK(strstr(ranks_said(),
                 rank == 0 ? "though it has ended: send of 2 bytes to rank 1, tag 19, in communicator "
                             "\"work\", posted at "
                           : "though it has ended: send of 2 bytes to rank 0, tag 19, in communicator "
                             "\"work\", posted at "));
    CHECK(strstr(ranks_said(), "of 3 bytes") == NULL);
}

static void test_light(void **state)
{
    (void)state;
    ranks_run(2, light, &(struct ranks_how){.loose = true});
}

/* Where a result, a type or a window should be there is none. */
static void missing(int rank, int size)
{
    struct nigh_comm *world = nigh_world();
    nigh_request request = NIGH_REQUEST_NULL;
    struct nigh_win *win = NULL;
    uint64_t word = 0;
    int flag, index;
    void *base;

    (void)size;
    CHECK_INT(nigh_test(&request, NULL, NULL), -EINVAL);
    CHECK_TEXT("flag is NULL");
    CHECK_INT(nigh_testall(1, &request, NULL, NULL), -EINVAL);
    CHECK_TEXT("flag is NULL");
    CHECK_INT(nigh_request_get_status(request, NULL, NULL), -EINVAL);
    CHECK_TEXT("flag is NULL");
    CHECK_INT(nigh_waitany(1, &request, NULL, NULL), -EINVAL);
    CHECK_TEXT("index is NULL");
    CHECK_INT(nigh_testany(1, &request, &index, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_waitsome(1, &request, NULL, &index, NULL), -EINVAL);
    CHECK_TEXT("outcount or indices is NULL");
    CHECK_INT(nigh_testsome(1, &request, &flag, NULL, NULL), -EINVAL);
    CHECK_INT(nigh_wait_for(&request, -1, NULL), -EINVAL);
    CHECK_TEXT("-1 is no number of seconds");
    CHECK_INT(nigh_recv_in_place(NULL, 8, rank, 1, world, NULL), -EINVAL);
    CHECK_TEXT("data is NULL");
    CHECK_INT(nigh_irecv_in_place(8, rank, 1, world, NULL), -EINVAL);
    CHECK_INT(nigh_irecv_in_place(8, rank, -9, world, &request), -ERANGE);
    CHECK_INT(nigh_ilend(&word, 8, rank, 1, world, &request), -EINVAL);
    CHECK_TEXT("only memory from nigh_alloc_mem can be lent");
    CHECK_INT(nigh_free_mem(&word), -EINVAL);
    CHECK_TEXT("is not memory from nigh_alloc_mem");
    CHECK_INT(nigh_release(&word), -EINVAL);
    CHECK_TEXT("no message received in place lies at");
    /* Each is said once, by the call of the program. */
    CHECK(!strstr(ranks_said(), "post_lend:") && !strstr(ranks_said(), "heap_free:"));
    CHECK(!strstr(ranks_said(), "release: ") && strstr(ranks_said(), "nigh_release"));
    CHECK_INT(nigh_alloc_mem(0, &base), -EINVAL);
    CHECK_INT(nigh_alloc_mem(64, NULL), -EINVAL);
    CHECK_INT(nigh_allreduce(&word, &word, 1, 99, NIGH_SUM, world), -EINVAL);
    CHECK_TEXT("99 is no type: see enum nigh_type");
    CHECK_INT(nigh_allgather(NULL, NULL, 1, NIGH_U64, world), -EFAULT);
    CHECK_INT(nigh_bcast(NULL, 1, NIGH_U64, 0, world), -EFAULT);
    CHECK_INT(nigh_put(&word, 8, 0, 0, NULL), -EINVAL);
    CHECK_TEXT("the window is NULL");
    CHECK_INT(nigh_win_fence(NULL), -EINVAL);
    CHECK_INT(nigh_win_free(&win), -EINVAL);
    CHECK_INT(nigh_win_free(NULL), -EINVAL);
    CHECK_INT(nigh_plugin_poll(NULL, 1), -EINVAL);
    CHECK_INT(nigh_comm_dup(world, NULL), -EINVAL);
    CHECK_INT(nigh_comm_split(world, 0, 0, NULL), -EINVAL);
    CHECK_INT(nigh_comm_free(NULL), -EINVAL);
    OK(nigh_barrier(world));
}

static void test_missing(void **state)
{
    (void)state;
    ranks_run(1, missing, NULL);
    ranks_run(2, missing, NULL);
}

/* What cannot be started with is refused by name, and nothing is open then. */
static void configured(int rank, int size)
{
    struct nigh_config reserved = {.size = sizeof(reserved), .reserved = {[3] = 1}},
                       threads = {.size = sizeof(threads), .threads = 2},
                       crowd = {.size = sizeof(crowd), .set = 1, .ranks = 70000, .job = 5},
                       none = {.size = sizeof(none), .plugin = "/proc/self/exe"};

    (void)rank, (void)size;
    OK(nigh_finalize());
    CHECK_INT(nigh_init(&reserved), -EINVAL);
    CHECK_TEXT("nigh_config.reserved must be zero");
    CHECK_INT(nigh_init(&threads), -EINVAL);
    CHECK_TEXT("are 0 or 1");
    CHECK_INT(nigh_init(&crowd), -EINVAL);
    CHECK_TEXT("70000");
    CHECK_INT(nigh_init(&none), -ENOENT);
    CHECK_TEXT("/proc/self/exe");
    CHECK_INT(nigh_initialized(), 0);
}

static void test_configured(void **state)
{
    (void)state;
    ranks_run(1, configured, &(struct ranks_how){.loose = true});
}

static int said(const char *part)
{
    int count = 0;

    for (const char *at = ranks_said(); (at = strstr(at, part)) != NULL; at++)
        count++;
    return count;
}

/* Two mistakes in turn, in a loop: 16 lines of each are enough. Another place is another kind. */
static void in_a_loop(int rank, int size)
{
    for (int i = 0; i < 100; i++) {
        CHECK_INT(nigh_send(NULL, 1, rank, 1, nigh_world()), -EFAULT);
        CHECK_INT(nigh_send(NULL, 0, size, 1, nigh_world()), -ERANGE);
        CHECK_TEXT("there is no rank");
    }
    CHECK_INT(said("1 bytes are to be sent"), 16);
    CHECK_INT(said("there is no rank"), 16);
    CHECK_INT(said("(the 16th line of this kind: more of them are not written)"), 2);
    CHECK_INT(nigh_send(NULL, 1, rank, 1, nigh_world()), -EFAULT);
    CHECK_INT(said("1 bytes are to be sent"), 17);
}

static void test_in_a_loop(void **state)
{
    (void)state;
    ranks_run(1, in_a_loop, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_in_a_loop),  cmocka_unit_test(test_arguments), cmocka_unit_test(test_requests),
        cmocka_unit_test(test_outside),    cmocka_unit_test(test_forked),    cmocka_unit_test(test_debug),
        cmocka_unit_test(test_forget),     cmocka_unit_test(test_light),     cmocka_unit_test(test_missing),
        cmocka_unit_test(test_configured),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
