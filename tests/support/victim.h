/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/victim.h - a party that is lied to, and what a liar says in the exchange by which two attach. */
#ifndef NIGH_TESTS_VICTIM_H
#define NIGH_TESTS_VICTIM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/name.h"
#include "shm/wire.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static uint64_t job;
static struct party victim;
static struct party *const us[] = {&victim};
static struct nigh_name name;
static unsigned fds_before;

static inline int begin(void **state)
{
    (void)state;
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&victim, job, 0, NULL), 0);
    name = (struct nigh_name){.uid = geteuid(), .job = job, .rank = 0};
    logged_begin();
    return 0;
}

static inline int end(void **state)
{
    (void)state;
    logged_end();
    party_close(&victim);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static inline bool is_attached(void *data)
{
    return ((struct peer *)data)->attached;
}

static inline bool has_failed(void *data)
{
    return ((struct peer *)data)->failures > 0;
}

/* The victim still attaches to an honest one, and has kept nothing of anybody else's. */
static inline void still_works(void)
{
    static struct party honest;
    struct party *const two[] = {&victim, &honest};
    struct peer *peer;

    assert_int_equal(party_open(&honest, job, 1000, NULL), 0);
    peer = party_dial(&honest, 0, 0);
    assert_true(party_until(two, 2, 2000, is_attached, peer));
    party_for(two, 2, 50);
    peer = party_peer(&victim, 1000);
    assert_true(peer->attached);
    party_forget(&victim, peer);
    party_close(&honest);
    party_for(us, 1, 30);
    assert_int_equal(osfail_open_fds(), fds_before + 7);
}

static inline int knock(void)
{
    int fd;

    assert_int_equal(nigh_name_connect(&name, &fd), 0);
    return fd;
}

/* A greeting that would be welcome. */
static inline struct nigh_wire greeting(void)
{
    struct nigh_hello self = {
        .self = {.job = job, .incarnation = 99, .rank = 1}, .peers_max = 64, .ranks = 16};
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_HELLO, &self);
    message.to_job = job;
    message.fds = 3;
    return message;
}

static inline int send_raw(int fd, const void *bytes, size_t length, unsigned fd_count)
{
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(253 * sizeof(int))];
    } control = {0};
    struct iovec iov = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = length};
    struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

    if (fd_count) {
        int *fds = (int *)(void *)CMSG_DATA(&control.header);

        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(fd_count * sizeof(int));
        for (unsigned i = 0; i < fd_count; i++)
            fds[i] = STDERR_FILENO;
        header.msg_control = &control;
        header.msg_controllen = control.header.cmsg_len;
    }
    return sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

/* What the victim says to it: the error of a REFUSE, 0 for an ANSWER, 1 when it just hangs up, 2 nothing. */
static inline int verdict(int fd)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];
    int error;

    for (unsigned i = 0; i < 3; i++)
        nigh_rendezvous_progress(victim.rendezvous);
    error = nigh_wire_receive(fd, &message, fds);
    if (error)
        return error == -EAGAIN ? 2 : 1;
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    return message.kind == NIGH_WIRE_ANSWER ? 0 : message.error;
}

static inline int say(const void *bytes, size_t length, unsigned fd_count)
{
    int fd = knock(), result;

    assert_int_equal(send_raw(fd, bytes, length, fd_count), 0);
    result = verdict(fd);
    close(fd);
    return result;
}

static inline uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A case that begins with `victim` and leaves nothing. */
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
