/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/child.h - what tests of attaching between processes share: a party here, and one in a child that speaks
 * and hears by pipes. */
#ifndef NIGH_TESTS_CHILD_H
#define NIGH_TESTS_CHILD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <signal.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t job;
static struct party here;
static struct party *const us[] = {&here};
static pid_t child;
static int from_child, to_child; /* pipes */
static unsigned fds_before;

static inline int begin(void **state)
{
    (void)state;
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&here, job, 0, NULL), 0);
    child = 0;
    return 0;
}

static inline void await_end(void)
{
    if (child > 0) {
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(from_child);
        close(to_child);
    }
    child = 0;
}

static inline void kill_child(void)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    await_end();
}

static inline int end(void **state)
{
    (void)state;
    if (child > 0)
        kill_child();
    osfail_remove();
    party_close(&here);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static inline void say(int fd)
{
    if (write(fd, "", 1) != 1)
        _exit(9);
}

static inline void listen_to(int fd)
{
    char byte;

    assert_int_equal(read(fd, &byte, 1), 1);
}

/* Runs `run` in a child that speaks on `out` and hears on `in`. */
static inline void start(void (*run)(int in, int out))
{
    int out[2], in[2];

    assert_int_equal(pipe(out), 0);
    assert_int_equal(pipe(in), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        party_abandon(&here);
        close(out[0]);
        close(in[1]);
        run(in[0], out[1]);
        _exit(0);
    }
    close(out[1]);
    close(in[0]);
    from_child = out[0];
    to_child = in[1];
}

static inline bool is_attached(void *data)
{
    return ((struct peer *)data)->attached;
}

static inline bool is_settled(void *data)
{
    const struct peer *peer = data;

    return peer->attached || peer->failures > 0;
}

static inline bool is_told(void *data)
{
    const struct peer *peer = data;

    return peer->attaches + peer->failures > 0;
}

static inline bool has_died(void *data)
{
    return ((struct peer *)data)->deaths > 0;
}

/* The child, whose record `peer` is: that it died is told, once, and its record may be another's then. */
static inline void kill_as_told_once(struct peer *peer)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_true(party_until(us, 1, 60000, has_died, peer));
    await_end();
    party_for(us, 1, 50);
    assert_int_equal(peer->deaths, 1);
    assert_int_equal(peer->failures, 0);
    peer->used = false;
}

static inline bool has_failed(void *data)
{
    return ((struct peer *)data)->failures > 0;
}

static inline bool has_rank_1(void *data)
{
    return party_peer(data, 1) != NULL;
}

/* ---- children ---------------------------------------------------------------------------------------------- */

static struct party there;
static struct party *const them[] = {&there};

static inline void open_there(void)
{
    if (party_open(&there, job, 1, NULL))
        _exit(8);
}

static inline bool told_to_stop(void *data)
{
    struct timespec none = {0};
    fd_set set;
    int fd = *(int *)data;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, &none, NULL) > 0;
}

/* Polls until the pipe closes or speaks, then exits without closing anything. */
static inline void serve(int in, int out)
{
    open_there();
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

static inline void serve_and_close(int in, int out)
{
    serve(in, out);
    party_close(&there);
    say(out);
    pause();
}

/* The same, with a grandchild that inherits all descriptors and lives on until the pipe closes. */
static inline void serve_with_grandchild(int in, int out)
{
    serve(in, out);
    if (fork() == 0) {
        char byte;

        prctl(PR_SET_PDEATHSIG, 0);
        say(out);
        while (read(in, &byte, 1) > 0)
            continue;
        _exit(0);
    }
    pause();
}

static inline void open_and_sleep(int in, int out)
{
    (void)in;
    open_there();
    say(out);
    pause();
}

static inline void dial_and_sleep(int in, int out)
{
    (void)in;
    open_there();
    party_dial(&there, 0, 0);
    say(out);
    pause();
}

/* Dials and polls; says when it is attached, then as serve(). */
static inline void dial_and_serve(int in, int out)
{
    struct peer *peer;

    open_there();
    peer = party_dial(&there, 0, 0);
    if (!party_until(them, 1, 10000, is_attached, peer) || !peer->fds_are_right || peer->pid != getppid())
        _exit(7);
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

/* A case that begins with `here` and leaves nothing. */
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

#endif
