/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching across processes, and what is told when they end: at every stage of the exchange, killed or by
 * themselves, with and without pidfds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t job;
static struct party here;
static struct party *const us[] = {&here};
static pid_t child;
static int from_child, to_child; /* pipes */
static unsigned fds_before;

static int begin(void **state)
{
    (void)state;
    job = ((uint64_t)getpid() << 32) + (job & 0xffff) + 1;
    fds_before = osfail_open_fds();
    assert_int_equal(party_open(&here, job, 0, NULL, false), 0);
    child = 0;
    return 0;
}

static void await_end(void)
{
    if (child > 0) {
        assert_int_equal(waitpid(child, NULL, 0), child);
        close(from_child);
        close(to_child);
    }
    child = 0;
}

static void kill_child(void)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    await_end();
}

static int end(void **state)
{
    (void)state;
    if (child > 0)
        kill_child();
    osfail_remove();
    party_close(&here);
    assert_int_equal(osfail_open_fds(), fds_before);
    return 0;
}

static void say(int fd)
{
    if (write(fd, "", 1) != 1)
        _exit(9);
}

static void listen_to(int fd)
{
    char byte;

    assert_int_equal(read(fd, &byte, 1), 1);
}

/* Runs `run` in a child that speaks on `out` and hears on `in`. */
static void start(void (*run)(int in, int out))
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

static bool is_attached(void *data)
{
    return ((struct peer *)data)->attached;
}

static bool is_settled(void *data)
{
    const struct peer *peer = data;

    return peer->attached || peer->failures > 0;
}

static bool is_told(void *data)
{
    const struct peer *peer = data;

    return peer->attaches + peer->failures > 0;
}

static bool has_died(void *data)
{
    return ((struct peer *)data)->deaths > 0;
}

static bool has_failed(void *data)
{
    return ((struct peer *)data)->failures > 0;
}

static bool has_rank_1(void *data)
{
    return party_peer(data, 1) != NULL;
}

/* ---- children ---------------------------------------------------------------------------------------------- */

static struct party there;
static struct party *const them[] = {&there};

static void open_there(void)
{
    if (party_open(&there, job, 1, NULL, true))
        _exit(8);
}

static bool told_to_stop(void *data)
{
    struct timespec none = {0};
    fd_set set;
    int fd = *(int *)data;

    FD_ZERO(&set);
    FD_SET(fd, &set);
    return pselect(fd + 1, &set, NULL, NULL, &none, NULL) > 0;
}

/* Polls until the pipe closes or speaks, then exits without closing anything. */
static void serve(int in, int out)
{
    open_there();
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

static void serve_and_close(int in, int out)
{
    serve(in, out);
    party_close(&there);
    say(out);
    pause();
}

/* The same, with a grandchild that inherits all descriptors and lives on until the pipe closes. */
static void serve_with_grandchild(int in, int out)
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

static void open_and_sleep(int in, int out)
{
    (void)in;
    open_there();
    say(out);
    pause();
}

static void dial_and_sleep(int in, int out)
{
    (void)in;
    open_there();
    party_dial(&there, 0, 0);
    say(out);
    pause();
}

/* Dials and polls; says when it is attached, then as serve(). */
static void dial_and_serve(int in, int out)
{
    struct peer *peer;

    open_there();
    peer = party_dial(&there, 0, 0);
    if (!party_until(them, 1, 10000, is_attached, peer) || !peer->fds_are_right || peer->pid != getppid())
        _exit(7);
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
}

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
    assert_true(peer->fds[3] >= 0);
    party_for(us, 1, 50);
    /* Six of this party and two pipes; the other's arena, doorbell, window and eventfd, and one to see it end: no socket. */
    assert_int_equal(osfail_open_fds(), fds_before + 6 + 2 + 4 + 1);
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
        kill(child, SIGKILL);
        assert_true(party_until(us, 1, 5000, has_died, peer));
        await_end();
        party_for(us, 1, 30);
        assert_int_equal(peer->deaths, 1);
        assert_int_equal(peer->failures, 0);
        peer->used = false;
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
            if (party_open(&there, job, i + 1, NULL, false) || read(go[0], &byte, 1) != 0)
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

/* ---- without pidfds --------------------------------------------------------------------------------------- */

static int (*real_getsockopt)(int fd, int level, int option, void *value, socklen_t *bytes);

static int old_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    if (option == SO_PEERCRED)
        return real_getsockopt(fd, level, option, value, bytes);
    errno = ENOPROTOOPT;
    return -1;
}

static int no_pidfd_open(pid_t pid, unsigned flags)
{
    (void)pid, (void)flags;
    errno = ENOSYS;
    return -1;
}

static void take_pidfds_away(void)
{
    osfail_install();
    real_getsockopt = nigh_os.getsockopt;
    nigh_os.getsockopt = old_getsockopt;
    nigh_os.pidfd_open = no_pidfd_open;
}

static void serve_without_pidfds(int in, int out)
{
    take_pidfds_away();
    dial_and_serve(in, out);
}

static void close_without_pidfds(int in, int out)
{
    take_pidfds_away();
    serve_and_close(in, out);
}

static void hang_up_tells_where_pidfds_cannot_be_had(void **state)
{
    (void)state;
    /* Neither side has them; only this one; only the other. */
    for (unsigned who = 0; who < 3; who++) {
        struct peer *peer;

        if (who < 2)
            take_pidfds_away();
        start(who == 1 ? dial_and_serve : serve_without_pidfds);
        assert_true(party_until(us, 1, 5000, has_rank_1, &here));
        listen_to(from_child);
        peer = party_peer(&here, 1);
        party_for(us, 1, 50);
        assert_int_equal(peer->deaths + peer->failures, 0);
        assert_true(peer->attached);
        kill(child, SIGKILL);
        assert_true(party_until(us, 1, 5000, has_died, peer));
        await_end();
        party_for(us, 1, 50);
        assert_int_equal(peer->deaths, 1);
        assert_int_equal(peer->failures, 0);
        peer->used = false;
        osfail_remove();
    }
}

static void closing_is_not_dying(void **state)
{
    struct peer *peer;

    (void)state;
    take_pidfds_away();
    start(close_without_pidfds);
    listen_to(from_child);
    peer = party_dial(&here, 1, 0);
    assert_true(party_until(us, 1, 5000, is_attached, peer));
    party_for(us, 1, 50);
    say(to_child);
    listen_to(from_child); /* it has closed its rendezvous and lives on */
    party_for(us, 1, 50);
    assert_int_equal(peer->deaths + peer->failures, 0);
}

/* ---- namespaces -------------------------------------------------------------------------------------------- */

static const char *where; /* the directory of the cases below, or NULL */

static void dial_from_another_namespace(int in, int out)
{
    struct peer *peer;
    pid_t inner;

    if (unshare(where ? CLONE_NEWNET | CLONE_NEWPID : CLONE_NEWPID) < 0)
        _exit(77);
    inner = fork(); /* the first process of the new namespace */
    if (inner) {
        prctl(PR_SET_CHILD_SUBREAPER, 1);
        waitpid(inner, NULL, 0);
        _exit(0);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (party_open(&there, job, 1, where, true))
        _exit(8);
    peer = party_dial(&there, 0, 0);
    if (!party_until(them, 1, 10000, is_attached, peer) || !peer->fds_are_right || peer->pid != 0)
        _exit(7); /* 0: the dialled process has no number in there */
    say(out);
    party_until(them, 1, 60000, told_to_stop, &in);
    _exit(0);
}

static bool attached_or_over(void *data)
{
    struct peer *peer = party_peer(&here, 1);
    siginfo_t ended = {0};

    (void)data;
    waitid(P_PID, (id_t)child, &ended, WEXITED | WNOHANG | WNOWAIT);
    return (peer && peer->attached) || ended.si_pid != 0;
}

static void attach_over_namespaces(void)
{
    struct peer *peer;
    int status;

    start(dial_from_another_namespace);
    assert_true(party_until(us, 1, 10000, attached_or_over, NULL));
    if (waitpid(child, &status, WNOHANG) == child) {
        child = 0;
        close(from_child);
        close(to_child);
        assert_int_equal(WEXITSTATUS(status), 77);
        print_message("namespaces cannot be made here\n");
        skip();
    }
    listen_to(from_child);
    peer = party_peer(&here, 1);
    assert_true(peer->attached && peer->fds_are_right);
    assert_true(peer->pid > 0 && peer->pid != child);
    party_for(us, 1, 50);
    assert_int_equal(peer->deaths + peer->failures, 0);
    kill(peer->pid, SIGKILL);
    assert_true(party_until(us, 1, 5000, has_died, peer));
    party_for(us, 1, 30);
    assert_int_equal(peer->deaths, 1);
}

static void another_pid_namespace(void **state)
{
    (void)state;
    where = NULL;
    attach_over_namespaces();
}

/* Abstract names end at the network namespace; a directory does not. */
static void another_network_namespace_by_directory(void **state)
{
    static char directory[] = "/tmp/nigh-attach-XXXXXX";
    int files;

    (void)state;
    assert_non_null(mkdtemp(directory));
    where = directory;
    party_close(&here);
    assert_int_equal(party_open(&here, job, 0, where, false), 0);
    attach_over_namespaces();
    kill_child();
    party_peer(&here, 1)->used = false;
    /* The killed one's file is removed by the next that dials it. */
    party_dial(&here, 1, 1);
    party_for(us, 1, 20);
    party_close(&here);
    files = rmdir(directory);
    assert_int_equal(party_open(&here, job, 0, NULL, false), 0);
    assert_int_equal(files, 0);
}

/* ---- descriptors ------------------------------------------------------------------------------------------ */

static int set_limit(unsigned count)
{
    struct rlimit limit;

    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = count;
    return setrlimit(RLIMIT_NOFILE, &limit);
}

/* At every number of descriptors too few: both sides hear of it, nothing leaks, and with enough it works. */
static void descriptors_run_out(void **state)
{
    static struct party second;
    struct party *const two[] = {&here, &second};
    struct rlimit before;
    unsigned failures = 0;

    (void)state;
    assert_int_equal(party_open(&second, job, 1, NULL, true), 0);
    getrlimit(RLIMIT_NOFILE, &before);
    logged_begin();
    for (unsigned spare = 0; spare < 8; spare++) {
        unsigned open_now = osfail_open_fds() - 3; /* ".", ".." and the directory's own */
        struct peer *peer;

        assert_int_equal(set_limit(open_now + spare), 0);
        peer = party_dial(&here, 1, 0);
        for (unsigned i = 0; i < 20; i++) {
            nigh_rendezvous_progress(here.rendezvous);
            nigh_rendezvous_progress(second.rendezvous);
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
        assert_true(party_until(two, 2, 2000, is_settled, peer));
        if (peer->failures)
            assert_int_equal(peer->error, -EMFILE);
        failures += peer->failures;
        party_for(two, 2, 50);
        party_forget(&here, peer);
        if (party_peer(&second, 0))
            party_forget(&second, party_peer(&second, 0));
        assert_int_equal(osfail_open_fds() - 3, open_now);
    }
    assert_true(failures > 0);
    logged_end();
    party_close(&second);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

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
        CASE(hang_up_tells_where_pidfds_cannot_be_had),
        CASE(closing_is_not_dying),
        CASE(both_dial_at_once),
        CASE(another_pid_namespace),
        CASE(another_network_namespace_by_directory),
        CASE(descriptors_run_out),
    };
    signal(SIGPIPE, SIG_DFL); /* which would end this process if anything raised it */
    return cmocka_run_group_tests_name("attach_process", tests, NULL, NULL);
}
