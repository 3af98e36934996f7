/* SPDX-License-Identifier: BSD-3-Clause */
/* Attaching between processes where the machine gives less: no pidfds, other namespaces, few descriptors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/child.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- without pidfds --------------------------------------------------------------------------------------- */

static void serve_without_pidfds(int in, int out)
{
    osfail_take_pidfds();
    dial_and_serve(in, out);
}

static void close_without_pidfds(int in, int out)
{
    osfail_take_pidfds();
    serve_and_close(in, out);
}

static void hang_up_tells_where_pidfds_cannot_be_had(void **state)
{
    (void)state;
    /* Neither side has them; only this one; only the other. */
    for (unsigned who = 0; who < 3; who++) {
        struct peer *peer;

        if (who < 2)
            osfail_take_pidfds();
        start(who == 1 ? dial_and_serve : serve_without_pidfds);
        assert_true(party_until(us, 1, 5000, has_rank_1, &here));
        listen_to(from_child);
        peer = party_peer(&here, 1);
        party_for(us, 1, 50);
        assert_int_equal(peer->deaths + peer->failures, 0);
        assert_true(peer->attached);
        kill_as_told_once(peer);
        osfail_remove();
    }
}

static void closing_is_not_dying(void **state)
{
    struct peer *peer;

    (void)state;
    osfail_take_pidfds();
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
    if (party_open(&there, job, 1, where))
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
    assert_int_equal(party_open(&here, job, 0, where), 0);
    attach_over_namespaces();
    kill_child();
    party_peer(&here, 1)->used = false;
    /* The killed one's file is removed by the next that dials it. */
    party_dial(&here, 1, 1);
    party_for(us, 1, 20);
    party_close(&here);
    files = rmdir(directory);
    assert_int_equal(party_open(&here, job, 0, NULL), 0);
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
    assert_int_equal(party_open(&second, job, 1, NULL), 0);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(hang_up_tells_where_pidfds_cannot_be_had),
        CASE(closing_is_not_dying),
        CASE(another_pid_namespace),
        CASE(another_network_namespace_by_directory),
        CASE(descriptors_run_out),
    };
    signal(SIGPIPE, SIG_DFL); /* which would end this process if anything raised it */
    return cmocka_run_group_tests_name("attach_scarce", tests, NULL, NULL);
}
