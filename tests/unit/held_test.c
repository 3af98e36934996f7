/* SPDX-License-Identifier: BSD-3-Clause */
/* A child that is forked at any moment of a context's life, also by another thread, has none of nigh's descriptors, touches none
 * of the program's, and ends as it should: an attach under way in its parent does not concern it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/clock.h"
#include "shm/held.h"
#include "shm/os.h"
#include "tests/support/hosted.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FDS = 256, FORKS_MOST = 3000, ROUNDS_LEAST = 30, KINDS = 5, TAG = 5 };
#define FORKING_NS UINT64_C(700000000)

static bool programs[FDS]; /* open before nigh was */

static void look_first(void)
{
    for (int fd = 0; fd < FDS; fd++)
        programs[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* The C library's, which another thread of the parent had open for a moment. */
static bool is_libcs(int fd)
{
    char name[32], path[8] = "";

    snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
    return readlink(name, path, sizeof(path) - 1) > 0 && strncmp(path, "/sys/", 5) == 0;
}

/* In a child. 0; else the first descriptor that is not as it was. */
static int differs(void)
{
    for (int fd = 0; fd < FDS; fd++)
        if ((fcntl(fd, F_GETFD) >= 0) != programs[fd] && !is_libcs(fd))
            return fd;
    return 0;
}

static int status_of(pid_t child)
{
    int status = -1;

    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* A child that is forked between the end of a thread and its join cannot join it, which thread sanitizer calls a leak. */
const char *__tsan_default_options(void);
__attribute__((visibility("default"))) const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

/* ---- behind every call ----------------------------------------------------------------------------------- */

static struct nigh_os real;
static struct nigh_context *opened; /* NULL: not yet, or no more */
static unsigned forks;
static int worst;
static const char *worst_call;

static int of_child(void)
{
    if (opened && hosted_ops->close(opened) != -ECHILD)
        return 99;
    return differs();
}

static void fork_behind(const char *call)
{
    int error = errno, status;
    pid_t child;

    if (__atomic_fetch_add(&forks, 1, __ATOMIC_RELAXED) >= FORKS_MOST)
        return;
    child = fork();
    if (child == 0)
        _exit(of_child());
    status = status_of(child);
    if (status && !__atomic_exchange_n(&worst, status, __ATOMIC_RELAXED))
        worst_call = call;
    errno = error;
}

#define SPY(result, failed, name, parameters, arguments) \
    static result spy_##name parameters                  \
    {                                                    \
        result made = real.name arguments;               \
                                                         \
        fork_behind(#name);                              \
        return made;                                     \
    }
NIGH_OS_CALLS(SPY)

#define MEMBER(result, failed, name, parameters, arguments) .name = spy_##name,
static const struct nigh_os spies = {NIGH_OS_CALLS(MEMBER)};

static uint64_t job;

/* Another process: attached, answered, and left. */
static int be_peer(void)
{
    struct nigh_open options = {
        .size = sizeof(options), .job = job, .rank = 1, .ranks = 8, .heap_bytes = 1 << 20};
    struct nigh_connect to = {.size = sizeof(to), .rank = 0};
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);
    struct nigh_endpoint *endpoint;
    struct nigh_context *context;
    struct nigh_completion done;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(100);
    hosted_ops = nigh_transport(NIGH_ABI);
    if (hosted_ops->open(&options, &context) || hosted_ops->connect(context, &to, &endpoint))
        return 1;
    do {
        hosted_ops->wait(context, 1000000);
        hosted_ops->poll_completions(context, &done, 1);
        bytes = sizeof(facts);
        if (hosted_ops->query(context, endpoint, NIGH_QUERY_ENDPOINT, &facts, &bytes))
            return 2;
    } while (facts.state < NIGH_PEER_CLOSED);
    return hosted_ops->close(context) ? 3 : 0;
}

static void forked_behind_every_call(void **state)
{
    static struct hosted a;
    struct nigh_endpoint *to;
    pid_t peer;
    int fd;

    (void)state;
    alarm(200);
    job = hosted_job();
    peer = fork();
    if (peer == 0)
        _exit(be_peer());
    look_first();
    real = nigh_os;
    nigh_os = spies;
    hosted_open(&a, job, 0, NIGH_OPEN_WAIT_FD);
    opened = a.context;
    to = hosted_connect(&a, 1);
    while (hosted_state(&a, to) != NIGH_READY)
        hosted_poll(&a);
    assert_true(hosted_ops->wait_fd(a.context, &fd) <= 0);
    opened = NULL;
    hosted_close(&a);
    nigh_os = real;
    assert_int_equal(status_of(peer), 0);
    if (worst)
        fail_msg("a child behind %s ended with %d", worst_call, worst);
    assert_true(forks > 100);
    print_message("%u children\n", forks);
}

/* ---- the program's own ----------------------------------------------------------------------------------- */

static int new_file(int kind)
{
    int pair[2];

    switch (kind) {
    case 0:
        return memfd_create("program", MFD_CLOEXEC);
    case 1:
        return timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    case 2:
        return eventfd(0, EFD_CLOEXEC);
    case 3:
        return epoll_create1(EPOLL_CLOEXEC);
    default:
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        close(pair[1]);
        return pair[0];
    }
}

/* In a process of its own: it loses nigh's. */
static int closes_all(int first)
{
    static struct hosted a;
    int last = 0;
    pid_t child;

    hosted_quiet = true;
    hosted_open(&a, hosted_job(), 0, 0);
    for (int fd = 3; fd < FDS; fd++)
        if (fcntl(fd, F_GETFD) >= 0) {
            last = fd;
            close(fd);
        }
    for (int fd = 3; fd <= last; fd++)
        if (fcntl(fd, F_GETFD) < 0)
            dup2(new_file((first + fd) % KINDS), fd);
    look_first();
    child = fork();
    if (child == 0)
        _exit(differs());
    return status_of(child);
}

static void what_the_program_has_stays(void **state)
{
    (void)state;
    alarm(200);
#ifdef __SANITIZE_THREAD__
    print_message("a program that closes what threads of nigh's use is a race that the sanitizer tells of\n");
    skip();
#endif
    for (int first = 0; first < KINDS; first++) {
        pid_t child = fork();

        if (child == 0)
            _exit(closes_all(first));
        assert_int_equal(status_of(child), 0);
    }
}

/* ---- names and locks ------------------------------------------------------------------------------------- */

/* In the abstract namespace and in a directory, of which a lock is held while the name is taken. */
static void a_name_is_free_again(void **state)
{
    char directory[] = "/tmp/nigh-held-XXXXXX";
    static struct hosted a;
    int go[2];

    (void)state;
    alarm(200);
    assert_non_null(mkdtemp(directory));
    for (int with = 0; with < 2; with++) {
        uint64_t number = hosted_job();
        pid_t child;

        if (with)
            setenv("NIGH_DIR", directory, 1);
        assert_int_equal(pipe2(go, O_CLOEXEC), 0);
        hosted_open(&a, number, 0, 0);
        child = fork();
        if (child == 0) {
            close(go[1]);
            _exit(read(go[0], &(char){0}, 1) != 0);
        }
        hosted_close(&a);
        hosted_open(&a, number, 0, 0);
        hosted_close(&a);
        close(go[0]);
        close(go[1]);
        assert_int_equal(status_of(child), 0);
    }
    unsetenv("NIGH_DIR");
    assert_int_equal(rmdir(directory), 0);
}

/* ---- a thread that attaches ------------------------------------------------------------------------------ */

static uint32_t ends, attached;
static int failed;

/* Contexts that meet, and leave, without end. */
static void *attach(void *argument)
{
    struct nigh_open options = {.size = sizeof(options), .job = job, .ranks = 8, .heap_bytes = 1 << 20};
    struct nigh_connect to = {.size = sizeof(to)};

    (void)argument;
    while (!failed && !__atomic_load_n(&ends, __ATOMIC_RELAXED)) {
        struct nigh_query_endpoint facts = {.size = sizeof(facts)};
        struct nigh_context *context[2] = {NULL};
        struct nigh_endpoint *endpoint[2];
        struct nigh_completion done;

        for (uint32_t i = 0; i < 2; i++) {
            options.rank = i;
            failed |= hosted_ops->open(&options, &context[i]);
        }
        for (uint32_t i = 0; i < 2 && !failed; i++) {
            to.rank = !i;
            failed |= hosted_ops->connect(context[i], &to, &endpoint[i]);
        }
        while (!failed && facts.state != NIGH_READY) {
            uint64_t bytes = sizeof(facts);

            for (uint32_t i = 0; i < 2; i++)
                hosted_ops->poll_completions(context[i], &done, 1);
            failed |= hosted_ops->query(context[0], endpoint[0], NIGH_QUERY_ENDPOINT, &facts, &bytes);
        }
        for (uint32_t i = 0; i < 2; i++)
            if (context[i])
                hosted_ops->close(context[i]);
        __atomic_fetch_add(&attached, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

/* qemu's user-mode emulator, which has no robust lists, has locks of its own that the fork of another thread leaves taken. */
static bool is_emulated(void)
{
    return syscall(SYS_set_robust_list, NULL, 0) != 0 && errno == ENOSYS;
}

static void forked_while_a_thread_attaches(void **state)
{
    static struct hosted still;
    uint64_t until = nigh_clock_ns() + FORKING_NS;
    unsigned rounds = 0;
    pthread_t thread;

    (void)state;
    if (is_emulated()) {
        print_message("SKIP: an emulator, whose child may hang when a process with threads forks\n");
        skip();
    }
    alarm(200);
    job = hosted_job();
    look_first();
    hosted_open(&still, hosted_job(), 0, 0);
    opened = still.context;
    assert_int_equal(pthread_create(&thread, NULL, attach, NULL), 0);
    for (int status = 0; !status && (nigh_clock_ns() < until || rounds < ROUNDS_LEAST); rounds++) {
        pid_t child = fork();

        if (child == 0)
            _exit(of_child());
        status = status_of(child);
        if (status)
            failed = status;
    }
    __atomic_store_n(&ends, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    opened = NULL;
    hosted_close(&still);
    assert_int_equal(failed, 0);
    assert_true(attached > 0);
    print_message("%u children, %u attaches\n", rounds, attached);
}

/* A signal's handler that forks, as some do for a debugger, in the middle of nigh. */
static void forked_within(void **state)
{
    static struct hosted a;
    pid_t child;

    (void)state;
    alarm(200);
    look_first();
    hosted_open(&a, hosted_job(), 0, 0);
    nigh_held_lock();
    child = fork();
    if (child == 0)
        _exit(differs());
    nigh_held_unlock();
    assert_int_equal(status_of(child), 0);
    hosted_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forked_behind_every_call),
        cmocka_unit_test(what_the_program_has_stays),
        cmocka_unit_test(a_name_is_free_again),
        cmocka_unit_test(forked_while_a_thread_attaches),
        cmocka_unit_test(forked_within),
    };

    return cmocka_run_group_tests_name("held", tests, NULL, NULL);
}
