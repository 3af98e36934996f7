/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/roles.h - tests of the fake CUDA driver: each case is played by up to three new processes, since a
 * forked one cannot use what its parent has begun. */
#ifndef NIGH_TESTS_CUDA_ROLES_H
#define NIGH_TESTS_CUDA_ROLES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/cuda/calls.h"
#include "tests/support/cuda/control.h"
#include "tests/support/test_cuda.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROLES_MOST = 3, MIB = 1 << 20, PIECE = 2 << 20 };

extern const struct fake_cuda fake_cuda;
extern const struct test_cuda test_cuda;

typedef void role(void);

static int me, lines[ROLES_MOST][ROLES_MOST];

/* ---- what a role checks -------------------------------------------------------------------------------------------- */

static inline void role_fails(const char *file, int line, const char *what, long got, long wanted)
{
    fprintf(stderr, "%s:%d: role %d: %s is %ld, not %ld\n", file, line, me, what, got, wanted);
    _exit(1);
}

#define GIVES(call, wanted)                                       \
    do {                                                          \
        long got_ = (long)(call), wanted_ = (long)(wanted);       \
        if (got_ != wanted_)                                      \
            role_fails(__FILE__, __LINE__, #call, got_, wanted_); \
    } while (0)
#define OK(call)  GIVES(call, 0)
#define HOLDS(it) GIVES(!!(it), 1)

/* ---- what roles tell each other --------------------------------------------------------------------------------------- */

static inline void say(int to, const void *bytes, size_t count)
{
    HOLDS(send(lines[me][to], bytes, count, MSG_NOSIGNAL) == (ssize_t)count);
}

static inline void hear(int from, void *bytes, size_t count)
{
    HOLDS(recv(lines[me][from], bytes, count, MSG_WAITALL) == (ssize_t)count);
}

static inline void tell(int to)
{
    say(to, "", 1);
}

static inline void await(int from)
{
    char byte;

    hear(from, &byte, 1);
}

/* The sender's own goes. */
static inline void give_fd(int to, int fd)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {
        .header = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS}};
    struct iovec byte = {(char[]){0}, 1};
    struct msghdr message = {
        .msg_iov = &byte, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room)};

    memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
    HOLDS(sendmsg(lines[me][to], &message, 0) == 1);
    close(fd);
}

static inline int take_fd(int from)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    char byte;
    struct iovec iov = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control.room)};
    int fd;

    HOLDS(recvmsg(lines[me][from], &message, MSG_CMSG_CLOEXEC) == 1);
    memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
    return fd;
}

/* ---- playing ---------------------------------------------------------------------------------------------------------------- */

/* A context of the device is current afterwards. */
static inline void start(int device)
{
    void *context;

    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxSetCurrent(context));
}

static inline pid_t play_one(role *plays, int number, int errors)
{
    pid_t child = fork();

    if (child)
        return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    me = number;
    if (errors >= 0)
        dup2(errors, STDERR_FILENO);
    for (int i = 0; i < ROLES_MOST; i++)
        for (int j = 0; j < ROLES_MOST; j++)
            if (i != j && i != me)
                close(lines[i][j]);
    plays();
    _exit(0);
}

static inline void connect_all(bool open)
{
    int pair[2];

    for (int i = 0; i < ROLES_MOST; i++)
        for (int j = 0; j < i; j++)
            if (!open) {
                close(lines[i][j]);
                close(lines[j][i]);
            } else {
                assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
                lines[i][j] = pair[0];
                lines[j][i] = pair[1];
            }
}

/* All of them end well. */
static inline void play(role *first, role *second, role *third)
{
    role *const roles[ROLES_MOST] = {first, second, third};
    pid_t children[ROLES_MOST] = {0};
    int status, failed = 0;

    connect_all(true);
    for (int i = 0; i < ROLES_MOST && roles[i]; i++)
        children[i] = play_one(roles[i], i, -1);
    connect_all(false);
    for (int i = 0; i < ROLES_MOST && roles[i]; i++) {
        assert_int_equal(waitpid(children[i], &status, 0), children[i]);
        failed |= status;
    }
    assert_int_equal(failed, 0);
}

/* The process is ended by the driver, which says `why`. */
static inline void faults(role *plays, const char *why)
{
    char text[4096];
    int pipes[2], status;
    size_t used = 0;
    ssize_t got;
    pid_t child;

    assert_int_equal(pipe(pipes), 0);
    connect_all(true);
    child = play_one(plays, 0, pipes[1]);
    connect_all(false);
    close(pipes[1]);
    while ((got = read(pipes[0], text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = '\0';
    close(pipes[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || !strstr(text, why))
        fail_msg("it ended with %x and said: %s", (unsigned)status, text);
}

/* ---- memory ----------------------------------------------------------------------------------------------------------------- */

static inline void fill(char *at, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        at[i] = (char)(i * 7 + i / 251 + seed);
}

static inline void put(cu_address at, size_t bytes, unsigned seed)
{
    char *copy = malloc(bytes);
    void *stream;

    fill(copy, bytes, seed);
    OK(cuStreamCreate(&stream, 1));
    OK(cuMemcpyHtoDAsync_v2(at, copy, bytes, stream));
    OK(cuStreamSynchronize(stream));
    OK(cuStreamDestroy_v2(stream));
    free(copy);
}

static inline void has(cu_address at, size_t bytes, unsigned seed)
{
    char *wanted = malloc(bytes), *got = malloc(bytes);

    fill(wanted, bytes, seed);
    OK(cuMemcpyDtoH_v2(got, at, bytes));
    OK(memcmp(wanted, got, bytes));
    free(wanted);
    free(got);
}

static inline struct cu_allocation on_device(int device)
{
    return (struct cu_allocation){
        .type = CU_PINNED, .handle_types = CU_POSIX_FD, .location = {CU_ON_DEVICE, device}};
}

/* One piece at an address that is reserved; the handle is kept. */
static inline unsigned long long create(size_t bytes, int device)
{
    struct cu_allocation properties = on_device(device);
    unsigned long long handle;

    OK(cuMemCreate(&handle, bytes, &properties, 0));
    return handle;
}

static inline cu_address reserve(size_t bytes)
{
    cu_address at;

    OK(cuMemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

static inline void map(cu_address at, size_t bytes, unsigned long long handle, int device)
{
    struct cu_access access = {.location = {CU_ON_DEVICE, device}, .flags = CU_READ_WRITE};

    OK(cuMemMap(at, bytes, 0, handle, 0));
    OK(cuMemSetAccess(at, bytes, &access, 1));
}

#endif
