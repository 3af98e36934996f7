/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that cannot be reached: why is kept with the endpoint, with its value, the limit and what to do, and is logged
 * once. A rank that changes its user after it has opened is reached all the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "shm/name.h"
#include "tests/fault/fault.h"
#include "tests/support/foe.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { OTHER = 1234, LIMIT = 200, BOUND_MS = 100000 };

static struct nigh_query_end end_of(const struct fault_pair *pair)
{
    struct nigh_query_end end = {.size = sizeof(end)};
    uint64_t bytes = sizeof(end);

    WANT_INT(fault_ops()->query(pair->context[0], pair->to[0], NIGH_QUERY_END, &end, &bytes), 0);
    WANT_INT(bytes, sizeof(end));
    WANT_INT(end.size, sizeof(end));
    WANT_INT(end.state, fault_state(pair->context[0], pair->to[0]));
    return end;
}

/* Side 0 hears that; the log has the same words. */
static struct nigh_query_end want_end(struct fault_pair *pair, uint32_t reason, bool there, const char *part,
                                      const char *advice)
{
    struct nigh_query_end end;

    WANT(fault_until(pair, 0, NIGH_PEER_CLOSED, BOUND_MS));
    end = end_of(pair);
    WANT_INT(end.reason, reason);
    WANT_INT(end.there, there);
    WANT(end.error < 0);
    if (!strstr(end.text, part) || !strstr(end.text, advice))
        fault_fail(__FILE__, __LINE__, "\"%s\" has no \"%s\" or no \"%s\"", end.text, part, advice);
    WANT_SAID(end.text);
    return end;
}

static void become_another(void)
{
    if (setresgid(OTHER, OTHER, OTHER) || setresuid(OTHER, OTHER, OTHER))
        fault_skip("users cannot be changed here: %s", strerror(errno));
}

/* ---- the other side is a process of its own -------------------------------------------------------------------------- */

static pid_t peer;

static void end_peer(void)
{
    kill(peer, SIGKILL);
    waitpid(peer, NULL, 0);
}

/* Rank 1, after `before`, which is told of its context's options, until it is killed. Back when it is open. */
static void start_peer(uint64_t job, void (*before)(struct nigh_open *options), void (*after)(void))
{
    int ready[2];
    char byte;

    WANT(pipe(ready) == 0);
    peer = fork();
    WANT(peer >= 0);
    if (peer == 0) {
        struct nigh_open options = fault_options(1);
        struct nigh_context *context;
        struct nigh_completion done;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        options.job = job;
        if (before)
            before(&options);
        if (fault_ops()->open(&options, &context))
            _exit(1);
        if (after)
            after();
        if (write(ready[1], "", 1) != 1)
            _exit(1);
        for (;;) {
            (void)fault_ops()->poll_completions(context, &done, 1);
            (void)fault_ops()->wait(context, 50000000);
        }
    }
    close(ready[1]);
    WANT(read(ready[0], &byte, 1) == 1);
    close(ready[0]);
}

static uint64_t own_job(void)
{
    return fault_options(0).job;
}

static void fill_descriptors(void)
{
    struct rlimit limit = {LIMIT, LIMIT};

    if (setrlimit(RLIMIT_NOFILE, &limit))
        _exit(1);
    while (fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) >= 0)
        continue;
}

static int peer_without_descriptors(void *data)
{
    struct fault_pair pair = {0};
    struct nigh_query_end end;

    (void)data;
    start_peer(own_job(), NULL, fill_descriptors);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    end = want_end(&pair, NIGH_REASON_DESCRIPTORS, true, "it may have 200",
                   "raise the limit there (ulimit -n)");
    WANT_INT(end.value, LIMIT);
    WANT_INT(end.error, -EMFILE);
    WANT_INT(fault_lines(), 1);
    end_peer();
    fault_close(pair.context[0]);
    return 0;
}

static void test_peer_without_descriptors(void **state)
{
    (void)state;
    fault_apart(peer_without_descriptors, NULL);
}

/* ---- here ------------------------------------------------------------------------------------------------------------ */

static int no_descriptors(void *data)
{
    struct fault_pair pair;
    struct rlimit limit;
    struct nigh_query_end end;

    (void)data;
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_open(1, &pair.context[1]), 0);
    WANT_INT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    osfail_arm_all(OSFAIL_socket, 1, EMFILE);
    pair.to[0] = fault_connect(pair.context[0], 1);
    end = want_end(&pair, NIGH_REASON_DESCRIPTORS, false, "this process has no file descriptor left",
                   "ulimit -n");
    WANT_INT(end.value, limit.rlim_cur);
    osfail_remove();
    fault_pair_close(&pair);
    return 0;
}

static int no_addresses(void *data)
{
    struct fault_pair pair;
    struct nigh_query_end end;

    (void)data;
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_open(1, &pair.context[1]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    osfail_arm_all(OSFAIL_mmap, 1, ENOMEM);
    end = want_end(&pair, NIGH_REASON_MEMORY, true, "no memory or address space left",
                   "raise the limit there (ulimit -v");
    WANT_INT(end.error, -ENOMEM);
    osfail_remove();
    fault_pair_close(&pair);
    return 0;
}

static int denied(void *data)
{
    struct fault_pair pair;
    int error = *(int *)data;

    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_open(1, &pair.context[1]), 0);
    osfail_arm_all(OSFAIL_connect, 1, error);
    pair.to[0] = fault_connect(pair.context[0], 1);
    want_end(&pair, NIGH_REASON_DENIED, false, strerror(error == EPERM ? EACCES : error), "seccomp");
    osfail_remove();
    fault_pair_close(&pair);
    return 0;
}

/* Its one place is taken by itself. */
static int too_many_peers(void *data)
{
    struct nigh_open options = fault_options(1);
    struct fault_pair pair;

    (void)data;
    options.peers_max = 1;
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_ops()->open(&options, &pair.context[1]), 0);
    fault_connect(pair.context[1], 1);
    pair.to[0] = fault_connect(pair.context[0], 1);
    WANT_INT(want_end(&pair, NIGH_REASON_PEERS, true, "as many peers as it may, 1", "NIGH_PEERS_MAX").value,
             1);
    fault_pair_close(&pair);
    return 0;
}

static int another_layout(void *data)
{
    static struct foe foe;
    struct fault_pair pair = {0};
    struct nigh_query_end end;

    (void)data;
    foe_open(&foe, own_job(), 1, 0);
    ((struct nigh_arena_header *)(void *)foe.arena.base)->version = 7;
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    for (unsigned i = 0; i < 10000 && fault_state(pair.context[0], pair.to[0]) == NIGH_CONNECTING; i++) {
        foe_progress(&foe);
        (void)fault_until(&pair, 0, NIGH_BROKEN, 1);
    }
    end = end_of(&pair);
    WANT_INT(end.state, NIGH_BROKEN);
    WANT_INT(end.reason, NIGH_REASON_LAYOUT);
    WANT_INT(end.value, 7);
    WANT(strstr(end.text, "shared memory has version 7") && strstr(end.text, "load the same nigh"));
    WANT_SAID("of another version: 7, not");
    fault_close(pair.context[0]);
    foe_close(&foe);
    return 0;
}

static void test_what_is_missing_here(void **state)
{
    int errors[] = {EPERM, EACCES, ENOSYS};

    (void)state;
    fault_apart(no_descriptors, NULL);
    fault_apart(too_many_peers, NULL);
    fault_apart(another_layout, NULL);
    for (unsigned i = 0; i < 3; i++)
        fault_apart(denied, &errors[i]);
}

static void test_no_memory(void **state)
{
    (void)state;
    fault_apart(no_addresses, NULL);
}

/* ---- users ----------------------------------------------------------------------------------------------------------- */

/* Somebody else sits on the name. */
static int squatted(void *data)
{
    struct fault_pair pair = {0};
    struct nigh_query_end end;
    int ready[2];
    char byte;

    (void)data;
    if (geteuid() != 0)
        fault_skip("only root can become another user");
    WANT(pipe(ready) == 0);
    peer = fork();
    if (peer == 0) {
        struct nigh_name name = {.uid = 0, .job = own_job(), .rank = 1};
        struct nigh_listener listener;

        name.job = (uint64_t)getppid() << 32 | 0xfa;
        become_another();
        if (nigh_name_listen(&name, &listener) || write(ready[1], "", 1) != 1)
            _exit(1);
        pause();
    }
    WANT(read(ready[0], &byte, 1) == 1);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    end = want_end(&pair, NIGH_REASON_USER, false, "of user 1234, and this job is of user 0", "NIGH_JOB");
    WANT_INT(end.value, OTHER);
    end_peer();
    fault_close(pair.context[0]);
    return 0;
}

/* NIGH_DIR cannot be entered by whom this process has become. */
static int left_the_directory(void *data)
{
    char directory[] = "/tmp/nigh-left-XXXXXX";
    struct fault_pair pair = {0};
    pid_t changed;
    int status;

    (void)data;
    if (geteuid() != 0)
        fault_skip("only root can become another user");
    WANT(mkdtemp(directory) != NULL);
    setenv("NIGH_DIR", directory, 1);
    changed = fork();
    if (changed == 0) {
        WANT_INT(fault_open(0, &pair.context[0]), 0);
        become_another();
        pair.to[0] = fault_connect(pair.context[0], 1);
        WANT_INT(want_end(&pair, NIGH_REASON_DIRECTORY, false, "is of user 1234 now", directory).value, 0);
        fault_close(pair.context[0]);
        _exit(0);
    }
    WANT(waitpid(changed, &status, 0) == changed);
    /* It may not remove its socket either: the next job does. */
    WANT(rmdir(directory) < 0 && errno == ENOTEMPTY);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    fault_close(pair.context[0]);
    WANT(rmdir(directory) == 0);
    if (status)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    return 0;
}

static void test_users(void **state)
{
    (void)state;
    fault_apart(squatted, NULL);
    fault_apart(left_the_directory, NULL);
}

/* ---- never met ------------------------------------------------------------------------------------------------------- */

static void in_another_network(struct nigh_open *options)
{
    (void)options;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) && unshare(CLONE_NEWNET))
        _exit(77);
}

/* It is told after 3 s, without a time-out, and once. */
static int never_met(void *data)
{
    struct fault_pair pair = {0};
    struct nigh_query_end end;
    struct nigh_completion done;

    (void)data;
    start_peer(own_job(), in_another_network, NULL);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    for (unsigned i = 0; i < 600 && !fault_lines(); i++) {
        WANT(fault_ops()->poll_completions(pair.context[0], &done, 1) == 0);
        (void)fault_ops()->wait(pair.context[0], 50000000);
    }
    WANT_INT(fault_lines(), 1);
    WANT_SAID("rank 1 of job");
    WANT_SAID("network namespace");
    WANT_SAID("NIGH_JOB");
    end = end_of(&pair);
    WANT_INT(end.state, NIGH_CONNECTING);
    WANT_INT(end.reason, NIGH_REASON_ABSENT);
    WANT(strstr(end.text, "network namespace") != NULL);
    end_peer();
    fault_close(pair.context[0]);
    return 0;
}

static void test_never_met(void **state)
{
    (void)state;
    fault_apart(never_met, NULL);
}

static int reasons_of_the_living(void *data)
{
    struct fault_pair pair;
    struct nigh_query_end end;

    (void)data;
    fault_pair_open(&pair);
    end = end_of(&pair);
    WANT_INT(end.reason, NIGH_REASON_NONE);
    WANT_INT(end.text[0], 0);
    fault_close(pair.context[1]);
    pair.context[1] = NULL;
    WANT(fault_until(&pair, 0, NIGH_PEER_CLOSED, BOUND_MS));
    WANT_INT(end_of(&pair).reason, NIGH_REASON_LEFT);
    fault_close(pair.context[0]);
    return 0;
}

static void test_reasons_of_the_living(void **state)
{
    (void)state;
    fault_apart(reasons_of_the_living, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_peer_without_descriptors),
        cmocka_unit_test(test_what_is_missing_here),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_never_met),
        cmocka_unit_test(test_reasons_of_the_living),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
