/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching across processes, and what is told when they end: at every stage of the exchange, killed or by
 * themselves. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/child.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- attached -------------------------------------------------------------------------------------------- */

static void attaches_to_another_process(void **state)
{
    struct peer *peer;

    (void)state;
    start(serve);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    assert_int_equal(peer->pid, child);
    assert_true(peer->fds_are_right);
    party_for(us, 1, 50);
    /* Seven of this party and two pipes; the other's arena, doorbell and window, and one to
     * see it end: no socket. */
    assert_int_equal(osfail_open_fds(), fds_before + 7 + 2 + 3 + 1);
}

static void killed_peer_is_told_once(void **state)
{
    struct peer *peer;

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        start(i % 2 ? dial_and_serve : serve);
        if (i % 2 == 0) {
            listen_to(from_child);
            peer = party_dial(&here, 1, 0);
        } else {
            assert_true(party_until(us, 1, 5000, has_rank_1, &here));
            peer = party_peer(&here, 1);
        }
        assert_true(party_until(us, 1, 5000, is_attached, peer));
        if (i % 4 < 2)
            party_for(us, 1, 10);
        kill_as_told_once(peer);
    }
}

static void peer_that_exits_is_told_once(void **state)
{
    struct peer *peer;

    (void)state;
    start(serve);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    say(to_child);
    assert_true(party_until(us, 1, 5000, has_died, peer));
    party_for(us, 1, 30);
    assert_int_equal(peer->deaths, 1);
    assert_int_equal(peer->failures, 0);
    await_end();
}

static void stopped_peer_is_not_dead(void **state)
{
    struct peer *peer;

    (void)state;
    start(serve);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    kill(child, SIGSTOP);
    party_for(us, 1, 100);
    assert_int_equal(peer->deaths + peer->failures, 0);
    kill(child, SIGKILL);
    assert_true(party_until(us, 1, 5000, has_died, peer));
}

static void child_of_the_dead_changes_nothing(void **state)
{
    struct peer *peer, *again;
    pid_t dead;

    (void)state;
    start(serve_with_grandchild);
    dead = child;
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    say(to_child);
    listen_to(from_child); /* the grandchild has all sockets of the child now */
    kill(dead, SIGKILL);
    assert_true(party_until(us, 1, 5000, has_died, peer));
    assert_int_equal(waitpid(dead, NULL, 0), dead);
    /* Its name is still taken, by nobody who will ever answer. */
    again = party_dial(&here, 1, peer->who.incarnation);
    assert_true(party_until(us, 1, 5000, has_failed, again));
    assert_int_equal(again->error, -ECONNREFUSED);
    child = 0;
    close(from_child);
    close(to_child);
}

static void forgotten_peer_is_not_told(void **state)
{
    struct peer *peer;

    (void)state;
    start(serve);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    party_forget(&here, peer);
    kill_child();
    party_for(us, 1, 50);
    assert_int_equal(peer->deaths + peer->failures, 0);
}

/* ---- in the middle --------------------------------------------------------------------------------------- */

static void listener_dies_before_it_answers(void **state)
{
    struct peer *known, *any;

    (void)state;
    start(open_and_sleep);
    listen_to(from_child);
    any = party_dial(&here, 1, 0);
    party_for(us, 1, 20);
    assert_int_equal(any->attaches + any->failures, 0);
    kill_child();
    party_for(us, 1, 50);
    assert_int_equal(any->attaches + any->failures, 0); /* whoever comes next will do */
    start(serve);
    listen_to(from_child);
    assert_true(party_until(us, 1, 5000, is_attached, any));
    assert_int_equal(any->pid, child);
    known = party_dial(&here, 1, any->who.incarnation);
    kill_child();
    assert_true(party_until(us, 1, 2000, has_died, any));
    assert_true(party_until(us, 1, 2000, is_told, known));
    party_for(us, 1, 50);
    assert_int_equal(any->deaths, 1);
    assert_int_equal(known->attaches + known->failures, 1);
}

static void dialler_dies_before_it_is_done(void **state)
{
    struct peer *peer;

    (void)state;
    start(dial_and_sleep);
    listen_to(from_child);
    assert_true(party_until(us, 1, 5000, has_rank_1, &here));
    peer = party_peer(&here, 1);
    assert_true(peer->attached);
    party_for(us, 1, 50);
    assert_int_equal(peer->deaths + peer->failures, 0); /* it may take its time */
    kill(child, SIGKILL);
    assert_true(party_until(us, 1, 5000, has_died, peer));
    party_for(us, 1, 60);
    assert_int_equal(peer->deaths, 1);
    assert_int_equal(peer->failures, 0);
}

static void dialler_dies_before_it_is_heard(void **state)
{
    (void)state;
    start(dial_and_sleep);
    listen_to(from_child);
    kill_child();
    party_for(us, 1, 30);
    assert_int_equal(here.greetings, 0);
    assert_null(party_peer(&here, 1));
}

static void both_dial_at_once(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 100; i++) {
        struct peer *peer;

        start(dial_and_serve); /* attaches, to one record, or exits */
        peer = party_dial(&here, 1, 0);
        assert_true(party_until(us, 1, 5000, is_attached, peer));
        listen_to(from_child);
        assert_true(peer->fds_are_right);
        assert_int_equal(peer->pid, child);
        assert_int_equal(peer->their_index, 0);
        assert_ptr_equal(party_peer(&here, 1), peer);
        party_for(us, 1, i % 4);
        assert_int_equal(peer->failures + peer->deaths, 0);
        kill_child();
        assert_true(party_until(us, 1, 5000, has_died, peer));
        assert_int_equal(peer->failures, 0);
        party_forget(&here, peer);
    }
}

/* ---- many ------------------------------------------------------------------------------------------------ */

static void hundred_processes_dial_at_once(void **state)
{
    static pid_t children[100];
    int go[2];

    (void)state;
    assert_int_equal(pipe(go), 0);
    for (unsigned i = 0; i < 100; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct peer *peer;
            char byte;

            prctl(PR_SET_PDEATHSIG, SIGKILL);
            party_abandon(&here);
            close(go[1]);
            if (party_open(&there, job, i + 1, NULL) || read(go[0], &byte, 1) != 0)
                _exit(1);
            peer = party_dial(&there, 0, 0);
            _exit(party_until(them, 1, 20000, is_attached, peer) && peer->fds_are_right ? 0 : 2);
        }
    }
    close(go[0]);
    close(go[1]);
    /* Not polled for a while: all knock at a closed door. */
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    for (unsigned i = 0; i < 100; i++) {
        int status;

        while (waitpid(children[i], &status, WNOHANG) == 0)
            party_for(us, 1, 5);
        if (status)
            fail_msg("dialler %u ended with %d", i, WEXITSTATUS(status));
    }
    party_for(us, 1, 50);
    for (unsigned i = 0; i < 100; i++) {
        struct peer *peer = party_peer(&here, i + 1);

        assert_non_null(peer);
        assert_int_equal(peer->pid, children[i]);
        assert_int_equal(peer->attaches, 1);
        assert_int_equal(peer->deaths, 1); /* all have exited since */
        assert_int_equal(peer->failures, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(attaches_to_another_process),
        CASE(killed_peer_is_told_once),
        CASE(peer_that_exits_is_told_once),
        CASE(stopped_peer_is_not_dead),
        CASE(child_of_the_dead_changes_nothing),
        CASE(forgotten_peer_is_not_told),
        CASE(listener_dies_before_it_answers),
        CASE(dialler_dies_before_it_is_done),
        CASE(dialler_dies_before_it_is_heard),
        CASE(hundred_processes_dial_at_once),
        CASE(both_dial_at_once),
    };
    signal(SIGPIPE, SIG_DFL); /* which would end this process if anything raised it */
    return cmocka_run_group_tests_name("attach_process", tests, NULL, NULL);
}
