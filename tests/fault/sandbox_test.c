/* SPDX-License-Identifier: BSD-3-Clause */
/* System calls that a sandbox refuses, to both sides, to one, or from some moment on: messages go another way, the
 * report of paths says why, and what cannot go on without them says so. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/support/cpus.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/membarrier.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* From now on the call fails with the error in this thread and those that it starts. */
static void forbid(long call, int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)call, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((uint32_t)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = 4, .filter = filter};

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
        fault_skip("seccomp filters are not allowed here: %s", strerror(errno));
}

static struct nigh_query_stats stats_of(struct nigh_context *context)
{
    struct nigh_query_stats stats = {.size = sizeof(stats)};
    uint64_t bytes = sizeof(stats);

    WANT_INT(fault_ops()->query(context, NULL, NIGH_QUERY_STATS, &stats, &bytes), 0);
    return stats;
}

/* The report of paths has a row for cma with this in its reason. */
static void want_reason(struct fault_pair *pair, unsigned side, const char *part)
{
    static struct nigh_query_path rows[32];
    uint64_t bytes = sizeof(rows);

    rows[0].size = sizeof(rows[0]);
    WANT_INT(fault_ops()->query(pair->context[side], pair->to[side], NIGH_QUERY_PATHS, rows, &bytes), 0);
    for (uint64_t i = 0; i < bytes / sizeof(rows[0]); i++)
        if (!strcmp(rows[i].path, "cma") && strstr(rows[i].reason, part))
            return;
    fault_fail(__FILE__, __LINE__, "side %u: no row of path cma says \"%s\"", side, part);
}

/* ---- reading another's memory
 * -------------------------------------------------------------------------------------- */

static int refused_from_the_start(void *data)
{
    struct fault_held before = fault_held();
    struct fault_pair pair;
    int error = *(int *)data;

    setenv("NIGH_PATH", "cma", 1);
    forbid(SYS_process_vm_readv, error);
    fault_pair_open(&pair);
    fault_pair_talk(&pair);
    for (unsigned side = 0; side < 2; side++) {
        WANT_INT(stats_of(pair.context[side]).cma_sent, 0);
        WANT(stats_of(pair.context[side]).chunked_sent > 0);
        want_reason(&pair, side, strerror(error));
    }
    WANT_INT(fault_lines(), 2);
    WANT_SAID("NIGH_PATH=cma");
    WANT_SAID(strerror(error));
    WANT_SAID("ptrace_scope");
    fault_pair_close(&pair);
    WANT_HELD(before);
    return 0;
}

static void test_reading_is_refused(void **state)
{
    int errors[] = {EPERM, ENOSYS};

    (void)state;
    fault_apart(refused_from_the_start, &errors[0]);
    fault_apart(refused_from_the_start, &errors[1]);
}

static int refused_to_oneself(void *data)
{
    struct fault_pair pair;

    (void)data;
    setenv("NIGH_PATH", "cma", 1);
    forbid(SYS_process_vm_readv, EPERM);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    pair.context[1] = pair.context[0];
    pair.to[0] = pair.to[1] = fault_connect(pair.context[0], 0);
    for (unsigned i = 0; i < 3; i++) {
        struct nigh_send send = {.size = sizeof(send), .bytes = 300000, .buffer = calloc(1, 300000)};
        struct nigh_recv recv = {.size = sizeof(recv), .bytes = 300000, .buffer = malloc(300000)};
        struct nigh_completion done;
        unsigned count = 0;

        WANT_INT(fault_ops()->post_recv(pair.context[0], pair.to[0], &recv), 0);
        WANT_INT(fault_ops()->post_send(pair.to[0], &send), 0);
        while (count < 2)
            if (fault_ops()->poll_completions(pair.context[0], &done, 1) == 1) {
                WANT_INT(done.status, 0);
                count++;
            }
        free((void *)send.buffer);
        free(recv.buffer);
    }
    WANT_INT(stats_of(pair.context[0]).cma_sent, 0);
    want_reason(&pair, 0, strerror(EPERM));
    fault_close(pair.context[0]);
    return 0;
}

static void test_reading_oneself_is_refused(void **state)
{
    (void)state;
    fault_apart(refused_to_oneself, NULL);
}

/* The message that was under way by the closed way and the next ones go another way. */
static int refused_later(void *data)
{
    int error = *(int *)data;
    struct fault_held before = fault_held();
    struct fault_pair pair;
    int sent, received;

    setenv("NIGH_PATH", "cma", 1);
    fault_pair_open(&pair);
    if (!fault_pair_send(&pair, 300000, &sent, &received) || !stats_of(pair.context[0]).cma_sent)
        fault_skip("process_vm_readv is not allowed here");
    forbid(SYS_process_vm_readv, error);
    for (unsigned i = 0; i < 3; i++) {
        WANT(fault_pair_send(&pair, 300000 + i, &sent, &received));
        WANT_INT(received, 0);
        WANT_INT(sent, 0);
    }
    WANT_INT(stats_of(pair.context[0]).cma_sent, 1);
    WANT_INT(stats_of(pair.context[0]).chunked_sent, 3);
    WANT_INT(stats_of(pair.context[0]).sent_bytes, 4 * 300000 + 0 + 1 + 2);
    WANT_SAID("NIGH_PATH=cma");
    want_reason(&pair, 0, strerror(error));
    WANT_INT(fault_state(pair.context[0], pair.to[0]), NIGH_READY);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return 0;
}

static void test_reading_is_refused_later(void **state)
{
    int errors[] = {EPERM, ENOSYS, EACCES, ESRCH};

    (void)state;
    for (unsigned i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        fault_apart(refused_later, &errors[i]);
}

/* Unasked, since the two share a CPU; a message that comes before its receive, several at a time,
 * and one that is cut. */
static int refused_to_a_crowd(void *data)
{
    enum { COUNT = 6, LONG = 1 << 20 };
    static uint8_t out[COUNT][LONG], in[COUNT][LONG];
    struct fault_pair pair;
    struct nigh_completion done;
    struct nigh_query_stats stats;
    unsigned each[2] = {0};
    cpu_set_t all;

    (void)data;
    WANT_INT(cpus_one(&all), 0);
    fault_pair_open(&pair);
    osfail_arm_all(OSFAIL_process_vm_readv, 1, EPERM);
    for (unsigned i = 0; i < COUNT; i++) {
        struct nigh_send send = {
            .size = sizeof(send), .buffer = out[i], .bytes = LONG, .tag = i, .context = i};

        memset(out[i], (int)i + 1, LONG);
        WANT_INT(fault_ops()->post_send(pair.to[0], &send), 0);
    }
    if (!stats_of(pair.context[0]).cma_sent)
        fault_skip("process_vm_readv is not allowed here");
    for (unsigned i = COUNT; i-- > 0;) {
        struct nigh_recv recv = {
            .size = sizeof(recv), .buffer = in[i], .bytes = i ? LONG : LONG / 2, .tag = i, .context = i};

        (void)fault_ops()->poll_completions(pair.context[1], &done, 0);
        WANT_INT(fault_ops()->post_recv(pair.context[1], pair.to[1], &recv), 0);
    }
    while (each[0] < COUNT || each[1] < COUNT)
        for (unsigned side = 0; side < 2; side++) {
            if (fault_ops()->poll_completions(pair.context[side], &done, 1) != 1)
                continue;
            WANT_INT(done.status, side && done.context == 0 ? -EMSGSIZE : 0);
            each[side]++;
        }
    osfail_remove();
    stats = stats_of(pair.context[0]);
    WANT_INT(stats.cma_sent, 0);
    WANT_INT(stats.chunked_sent, COUNT);
    for (unsigned i = 0; i < COUNT; i++)
        WANT_INT(memcmp(out[i], in[i], i ? LONG : LONG / 2), 0);
    WANT_INT(in[0][LONG / 2], 0);
    WANT_INT(fault_lines(), 0);
    fault_pair_close(&pair);
    return 0;
}

static void test_reading_is_refused_to_a_crowd(void **state)
{
    (void)state;
    fault_apart(refused_to_a_crowd, NULL);
}

/* ---- the same with one side in a sandbox, the other outside
 * --------------------------------------------------------- */

enum { ROUNDS = 3, BYTES = 300000, NOBODY = 65534 };

static void await(struct nigh_context *context, unsigned wanted)
{
    struct nigh_completion done;

    while (wanted)
        if (fault_ops()->poll_completions(context, &done, 1) == 1) {
            WANT_INT(done.status, 0);
            wanted--;
        }
}

/* Sends and receives; the last message comes when the other side has all of ours. */
static void swap(struct nigh_context *context, struct nigh_endpoint *to)
{
    uint8_t *out = malloc(BYTES), *in = malloc(BYTES);
    struct nigh_send send = {.size = sizeof(send), .flags = NIGH_SYNC, .buffer = out, .bytes = BYTES};
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = BYTES};

    WANT(out && in);
    for (unsigned i = 0; i < ROUNDS; i++) {
        memset(out, (int)i + 1, BYTES);
        memset(in, 0, BYTES);
        WANT_INT(fault_ops()->post_recv(context, to, &recv), 0);
        WANT_INT(fault_ops()->post_send(to, &send), 0);
        await(context, 2);
        WANT(in[0] == i + 1 && memcmp(in, in + 1, BYTES - 1) == 0);
    }
    free(out);
    free(in);
}

static void play(uint32_t rank, uint64_t job, bool sandboxed)
{
    struct nigh_open options = fault_options(rank);
    struct fault_pair pair = {0};

    options.job = job;
    if (sandboxed)
        forbid(SYS_process_vm_readv, EPERM);
    WANT_INT(fault_ops()->open(&options, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1 - rank);
    WANT(fault_until(&pair, 0, NIGH_READY, 100000));
    swap(pair.context[0], pair.to[0]);
    /* What we send is read, or not, by the other. */
    if (!sandboxed) {
        WANT_INT(stats_of(pair.context[0]).cma_sent, 0);
        want_reason(&pair, 0, strerror(EPERM));
    }
    fault_close(pair.context[0]);
}

static int refused_to_one(void *data)
{
    uint32_t sandboxed = *(uint32_t *)data;
    uint64_t job = (uint64_t)getpid() << 32 | 0xfb;
    int status;
    pid_t child;

    setenv("NIGH_PATH", "cma", 1);
    child = fork();
    WANT(child >= 0);
    if (child == 0) {
        alarm(200);
        play(1, job, sandboxed == 1);
        _exit(0);
    }
    play(0, job, sandboxed == 0);
    WANT_INT(waitpid(child, &status, 0), child);
    if (status)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    return 0;
}

/* Both were there to be read when they met, and wish not to be any more. */
static void hide(uint32_t rank, uint64_t job)
{
    struct nigh_open options = fault_options(rank);
    struct fault_pair pair = {0};
    uint64_t before;

    options.job = job;
    WANT_INT(fault_ops()->open(&options, &pair.context[0]), 0);
    pair.to[0] = fault_connect(pair.context[0], 1 - rank);
    WANT(fault_until(&pair, 0, NIGH_READY, 100000));
    swap(pair.context[0], pair.to[0]);
    before = stats_of(pair.context[0]).cma_sent;
    WANT_INT(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0), 0);
    swap(pair.context[0], pair.to[0]);
    if (before)
        WANT_INT(stats_of(pair.context[0]).cma_sent, before);
    /* The other side may have left by now, and ended. */
    WANT(fault_state(pair.context[0], pair.to[0]) != NIGH_BROKEN);
    fault_close(pair.context[0]);
}

/* Not as root, who may read whom he likes. */
static int hidden_later(void *data)
{
    uint64_t job = (uint64_t)getpid() << 32 | 0xfc;
    int status;
    pid_t child;

    (void)data;
    if (geteuid() == 0 && (setresgid(NOBODY, NOBODY, NOBODY) || setresuid(NOBODY, NOBODY, NOBODY)))
        fault_skip("rights cannot be dropped here: %s", strerror(errno));
    /* A change of the user takes it away. */
    WANT_INT(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
    setenv("NIGH_PATH", "cma", 1);
    child = fork();
    WANT(child >= 0);
    if (child == 0) {
        alarm(200);
        hide(1, job);
        _exit(0);
    }
    hide(0, job);
    WANT_INT(waitpid(child, &status, 0), child);
    if (status)
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    return 0;
}

static void test_peers_hide(void **state)
{
    (void)state;
    fault_apart(hidden_later, NULL);
}

static void test_reading_is_refused_to_one(void **state)
{
    uint32_t sandboxed[] = {0, 1};

    (void)state;
    assert_int_equal(fault_apart(refused_to_one, &sandboxed[0]), 0);
    assert_int_equal(fault_apart(refused_to_one, &sandboxed[1]), 0);
}

/* ---- what nigh cannot do without, and what it can
 * ------------------------------------------------------------------ */

struct call {
    const char *name;
    long number;
    int error, result; /* of open() */
};

static int refused_at_open(void *data)
{
    const struct call *call = data;
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;
    struct fault_pair pair;

    forbid(call->number, call->error);
    if (!call->result) {
        fault_pair_open(&pair);
        fault_pair_talk(&pair);
        fault_pair_close(&pair);
        WANT_HELD(before);
        return 0;
    }
    if (fault_open(0, &context) != call->result)
        fault_fail(__FILE__, __LINE__, "%s refused with %s: not %d; said \"%s\"", call->name,
                   strerror(call->error), call->result, fault_said());
    WANT(context == NULL);
    WANT(fault_lines() >= 1);
    WANT_SAID(strerror(call->error));
    WANT_HELD(before);
    return 0;
}

static void test_calls_that_are_refused(void **state)
{
    static struct call calls[] = {
        {"memfd_create", SYS_memfd_create, EPERM, -EPERM},
        {"memfd_create", SYS_memfd_create, ENOSYS, -ENOSYS},
        {"socket", SYS_socket, EPERM, -EPERM},
        {"bind", SYS_bind, EPERM, -EPERM},
        {"fallocate", SYS_fallocate, EPERM, -ENOMEM},
        {"epoll_create1", SYS_epoll_create1, EMFILE, -EMFILE},
        {"timerfd_create", SYS_timerfd_create, ENOSYS, -ENOSYS},
        {"membarrier", SYS_membarrier, ENOSYS, 0},
        {"membarrier", SYS_membarrier, EPERM, 0},
        {"pidfd_open", SYS_pidfd_open, ENOSYS, 0},
        {"pidfd_open", SYS_pidfd_open, EPERM, 0},
#if !FAULT_SANITIZED
        {"sched_getaffinity", SYS_sched_getaffinity, EPERM, 0},
#endif
        {"mbind", SYS_mbind, EPERM, 0},
        {"get_mempolicy", SYS_get_mempolicy, EPERM, 0},
    };

    (void)state;
    for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
        fault_apart(refused_at_open, &calls[i]);
}

/* ---- a sandbox that closes later, without membarrier ------------------------------------------------------------- */

#define WAIT_NS UINT64_C(300000000)

static struct nigh_context *open_to_wait(uint32_t rank)
{
    struct nigh_open options = fault_options(rank);
    struct nigh_context *context;

    options.flags = NIGH_OPEN_WAIT_FD;
    WANT_INT(fault_ops()->open(&options, &context), 0);
    return context;
}

static uint64_t sleeps_of_a_wait(struct nigh_context *context)
{
    uint64_t before = stats_of(context).sleeps;

    WANT_INT(fault_ops()->wait(context, WAIT_NS), -ETIMEDOUT);
    return stats_of(context).sleeps - before;
}

/* Whether its descriptor becomes readable with nothing to poll. */
static bool looks_up(struct nigh_context *context, int ms)
{
    struct pollfd look = {.events = POLLIN};

    WANT_INT(fault_ops()->wait_fd(context, &look.fd), 0);
    return poll(&look, 1, ms) == 1;
}

/* Peers of the one that was open rely on it, so it looks up by itself from then on. Nobody relies on one that is opened later. */
static int fence_refused_later(void *data)
{
    struct nigh_context *context = open_to_wait(0), *later;
    uint64_t quiet;

    (void)data;
    quiet = sleeps_of_a_wait(context);
    WANT(quiet > 0 && quiet < 5);
    WANT(!looks_up(context, 100));
    WANT_INT(fault_ops()->wait_fd(context, NULL), 0);
    forbid(SYS_membarrier, EPERM);
    WANT(sleeps_of_a_wait(context) >= 8);
    WANT(looks_up(context, 10000));
    WANT(looks_up(context, 10000));
    WANT_INT(fault_lines(), 1);
    WANT_SAID("membarrier");
    later = open_to_wait(1);
    WANT(sleeps_of_a_wait(later) < 5);
    WANT(!looks_up(later, 100));
    WANT_INT(fault_lines(), 1);
    fault_close(later);
    fault_close(context);
    return 0;
}

static void test_fences_are_refused_later(void **state)
{
    (void)state;
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) < 0) {
        print_message("this kernel refuses membarrier: %s\n", strerror(errno));
        skip();
    }
    fault_apart(fence_refused_later, NULL);
}

/* ---- no /proc, no /sys
 * ---------------------------------------------------------------------------------------------- */

struct hidden {
    const char *folder, *said; /* NULL: nothing is missed enough to be told */
};

/* In a mount namespace of its own, which goes with the process. */
static int without(void *data)
{
    const struct hidden *hidden = data;
    struct fault_held before = fault_held();
    struct nigh_query_machine facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);
    struct fault_pair pair;

    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", hidden->folder, "tmpfs", 0, NULL))
        fault_skip("%s cannot be hidden here: %s", hidden->folder, strerror(errno));
    fault_pair_open(&pair);
    fault_pair_talk(&pair);
    WANT_INT(fault_ops()->query(pair.context[0], NULL, NIGH_QUERY_MACHINE, &facts, &bytes), 0);
    WANT(facts.cpus > 0);
    if (hidden->said)
        WANT_SAID(hidden->said);
    else
        WANT_INT(fault_lines(), 0);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return 0;
}

static void test_folders_that_are_hidden(void **state)
{
    static struct hidden folders[] = {{"/proc", "mount /proc"}, {"/sys", NULL}};

    (void)state;
    for (unsigned i = 0; i < 2; i++)
        fault_apart(without, &folders[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reading_is_refused),
        cmocka_unit_test(test_reading_oneself_is_refused),
        cmocka_unit_test(test_reading_is_refused_later),
        cmocka_unit_test(test_reading_is_refused_to_a_crowd),
        cmocka_unit_test(test_reading_is_refused_to_one),
        cmocka_unit_test(test_peers_hide),
        cmocka_unit_test(test_calls_that_are_refused),
        cmocka_unit_test(test_fences_are_refused_later),
        cmocka_unit_test(test_folders_that_are_hidden),
    };

    unsetenv("NIGH_PATH");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
