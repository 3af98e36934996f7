/* SPDX-License-Identifier: BSD-3-Clause */
/* Whoever is dialled may answer anything: what is no answer ends that dial and costs nothing, and what
 * is a refusal for now is tried again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/victim.h"
#include <errno.h>
#include <poll.h>
#include <unistd.h>

static struct nigh_listener trap;
static struct nigh_name trap_name;

static void set_trap(void)
{
    trap_name = name;
    trap_name.rank = 1;
    assert_int_equal(nigh_name_listen(&trap_name, &trap), 0);
}

static bool is_dialled(void *data)
{
    (void)data;
    return poll(&(struct pollfd){.fd = trap.fd, .events = POLLIN}, 1, 0) == 1;
}

/* Accepts the victim's dial and reads its greeting. */
static int take_dial(void)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS], fd;

    assert_true(party_until(us, 1, 2000, is_dialled, NULL));
    fd = accept4(trap.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    assert_true(fd >= 0);
    assert_int_equal(nigh_wire_receive(fd, &message, fds), 0);
    assert_int_equal(message.kind, NIGH_WIRE_HELLO);
    assert_int_equal(message.fds, 3);
    close(fds[0]);
    close(fds[1]);
    close(fds[2]);
    return fd;
}

static struct nigh_wire answer(uint32_t rank, uint64_t incarnation)
{
    struct nigh_hello self = {
        .self = {.job = job, .incarnation = incarnation, .rank = rank}, .peers_max = 64, .ranks = 16};
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_ANSWER, &self);
    message.fds = 3;
    return message;
}

/* Dials (incarnation 5), is answered so, and must fail so. */
static void expect_failure(const struct nigh_wire *message, unsigned fd_count, int error)
{
    struct peer *peer = party_dial(&victim, 1, 5);
    int fd = take_dial();

    assert_int_equal(send_raw(fd, message, sizeof(*message), fd_count), 0);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, error);
    assert_int_equal(peer->attaches, 0);
    close(fd);
    party_forget(&victim, peer);
}

/* Another nigh: its version is told. */
static void answers_of_another_version(void **state)
{
    struct nigh_wire message = answer(1, 5);
    struct peer *peer;
    int fd;

    (void)state;
    set_trap();
    peer = party_dial(&victim, 1, 5);
    fd = take_dial();
    message.version = NIGH_WIRE_VERSION + 1;
    assert_int_equal(send_raw(fd, &message, sizeof(message), 3), 0);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, -EPROTONOSUPPORT);
    assert_int_equal(peer->why.cause, NIGH_CAUSE_VERSION);
    assert_false(peer->why.there);
    assert_int_equal(peer->why.value, NIGH_WIRE_VERSION + 1);
    close(fd);
    party_forget(&victim, peer);
    nigh_name_close(&trap_name, &trap);
    still_works();
}

static void wrong_answers(void **state)
{
    struct nigh_wire message = answer(1, 5);

    (void)state;
    set_trap();
    expect_failure(&message, 0, -EPROTO);
    expect_failure(&message, 2, -EPROTO);
    expect_failure(&message, 50, -EPROTO);
    message = answer(2, 5);
    expect_failure(&message, 3, -EPROTO);
    message = answer(1, 6);
    expect_failure(&message, 3, -ECONNREFUSED);
    message = answer(1, 5);
    message.job++;
    expect_failure(&message, 3, -EPROTO);
    message = answer(1, 5);
    message.to_rank = 1;
    expect_failure(&message, 3, -EPROTO);
    message = greeting(); /* a greeting is no answer */
    expect_failure(&message, 3, -EPROTO);
    nigh_wire_begin(&message, NIGH_WIRE_DONE, NULL);
    expect_failure(&message, 0, -EPROTO);
    nigh_wire_begin(&message, NIGH_WIRE_REFUSE, NULL);
    message.error = -EIO; /* not one that is known */
    expect_failure(&message, 0, -EPROTO);
    message.error = 5;
    expect_failure(&message, 0, -EPROTO);
    message.error = -ENOSPC;
    expect_failure(&message, 0, -ENOSPC);
    nigh_name_close(&trap_name, &trap);
    still_works();
}

/* Hangs up on every dial: it is tried again at the slower pace, for ever, and costs no descriptor. */
static void listener_that_hangs_up(void **state)
{
    struct peer *peer;
    unsigned dials = 0;
    uint64_t begun, stop;

    (void)state;
    set_trap();
    peer = party_dial(&victim, 1, 5);
    begun = now_ms();
    for (stop = begun + 500; now_ms() < stop || (dials < 8 && now_ms() < begun + 60000);) {
        int fd = accept4(trap.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        dials += fd >= 0;
        if (fd >= 0)
            close(fd);
        party_for(us, 1, 1);
    }
    assert_in_range(dials, 8, 12 + (now_ms() - begun) / 100); /* 1, 2, 4 .. 64, 100, 100 ms */
    assert_int_equal(peer->failures, 0);
    nigh_name_close(&trap_name, &trap);
    assert_true(party_until(us, 1, 2000, has_failed, peer));
    assert_int_equal(peer->error, -ECONNREFUSED);
    still_works();
}

static void refusal_for_now_is_tried_again(void **state)
{
    struct nigh_wire message;
    struct peer *peer;
    int fd;

    (void)state;
    set_trap();
    peer = party_dial(&victim, 1, 5);
    for (unsigned i = 0; i < 3; i++) {
        fd = take_dial();
        nigh_wire_begin(&message, NIGH_WIRE_REFUSE, NULL);
        message.error = -EAGAIN;
        assert_int_equal(send_raw(fd, &message, sizeof(message), 0), 0);
        close(fd);
        party_for(us, 1, 20);
    }
    fd = take_dial();
    message = answer(1, 5);
    assert_int_equal(send_raw(fd, &message, sizeof(message), 3), 0);
    assert_true(party_until(us, 1, 2000, is_attached, peer));
    assert_int_equal(nigh_wire_receive(fd, &message, (int[NIGH_WIRE_FDS]){0}), 0);
    assert_int_equal(message.kind, NIGH_WIRE_DONE);
    assert_int_equal(message.error, 0);
    close(fd);
    nigh_name_close(&trap_name, &trap);
    party_forget(&victim, peer);
    still_works();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(wrong_answers),
        CASE(answers_of_another_version),
        CASE(listener_that_hangs_up),
        CASE(refusal_for_now_is_tried_again),
    };
    return cmocka_run_group_tests_name("attach_listener", tests, NULL, NULL);
}
