/* SPDX-License-Identifier: BSD-3-Clause */
/* Every system call of an attach, at every place where it is made, fails once: both sides end up attached or told,
 * nothing hangs and no descriptor is left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/name.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include "tests/support/party.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static uint64_t job;
static char directory[64];
static struct party a, b;
static struct party *const both[] = {&a, &b};

/* Each side has settled: it is attached, was told that it is not, or said so itself. */
static bool settled(void *data)
{
    struct peer *there = data;
    struct peer *here = party_peer(&b, 0);
    bool over = there->failures || (here && here->failures);

    return over || (there->attached && here && here->attached);
}

/* One attach from open to close. Returns the first error of an open, or 0; -ETIMEDOUT when it hangs. */
static int scenario(const char *where)
{
    struct peer *there, *here;
    int error = party_open(&a, job, 0, where);

    if (error)
        return error;
    error = party_open(&b, job, 1, where);
    if (error) {
        party_close(&a);
        return error;
    }
    there = party_dial(&a, 1, b.config.self.incarnation);
    if (!there) {
        party_close(&b);
        party_close(&a);
        return -ENOMEM;
    }
    if (!party_until(both, 2, 3000, settled, there))
        error = -ETIMEDOUT;
    party_for(both, 2, 30); /* what is left of it: DONE, the grace of a hang-up */
    here = party_peer(&b, 0);
    if (!error && there->attached != (here && here->attached))
        error = -EPROTO; /* one believes to be attached, the other not */
    party_close(&b);
    party_close(&a);
    return error;
}

/* With each of `kinds` errors. */
static void sweep(const char *where, unsigned kinds)
{
    static const int errors[] = {ENOMEM, EINTR, EMFILE};
    unsigned counts[OSFAIL_CALLS], fds = osfail_open_fds(), failed = 0, survived = 0;

    osfail_install();
    assert_int_equal(scenario(where), 0);
    for (unsigned i = 0; i < OSFAIL_CALLS; i++)
        counts[i] = osfail_count((enum osfail_call)i);
    logged_begin();
    for (unsigned i = 0; i < OSFAIL_CALLS; i++) {
        if (i == OSFAIL_close ||
            i == OSFAIL_epoll_wait) /* one cannot fail, the other may be called any number of times */
            continue;
        for (unsigned nth = 1; nth <= counts[i]; nth++) {
            for (unsigned e = 0; e < kinds; e++) {
                int error;

                job++;
                osfail_arm((enum osfail_call)i, nth, errors[e]);
                error = scenario(where);
                if (error == -ETIMEDOUT || error == -EPROTO)
                    fail_msg("%s, call %u, failed with %s: %s", osfail_names[i], nth, strerror(errors[e]),
                             error == -EPROTO ? "the sides disagree" : "nothing came of it");
                if (osfail_open_fds() != fds)
                    fail_msg("%s, call %u, failed with %s: %u descriptors, %u before", osfail_names[i], nth,
                             strerror(errors[e]), osfail_open_fds(), fds);
                failed += error != 0;
                survived += error == 0;
            }
        }
    }
    logged_end();
    osfail_remove();
    print_message("%u attaches with a failure: %u did not open, %u did\n", failed + survived, failed,
                  survived);
    assert_true(failed > 20 && survived > 20);
}

static void in_the_abstract_namespace(void **state)
{
    (void)state;
    sweep(NULL, 3);
}

/* A close whose unlink() or lstat() failed leaves its file, as a killed process does: the next to open in the directory
 * removes it, or whoever dials it. */
static void remove_stale_files(void)
{
    DIR *files = opendir(directory);
    struct dirent *entry;
    unsigned left = 0;

    assert_non_null(files);
    while ((entry = readdir(files))) {
        struct nigh_name name = {.directory = directory, .uid = geteuid()};
        int fd;

        if (sscanf(entry->d_name, "%" SCNx64 "-%" SCNu32, &name.job, &name.rank) != 2)
            continue;
        left++;
        assert_int_equal(nigh_name_connect(&name, &fd), -ECONNREFUSED);
    }
    closedir(files);
    assert_in_range(left, 0, 4); /* two ranks, two calls */
}

static void in_a_directory(void **state)
{
    (void)state;
    strcpy(directory, "/tmp/nigh-fail-XXXXXX");
    assert_non_null(mkdtemp(directory));
    sweep(directory, 1);
    remove_stale_files();
    if (rmdir(directory) < 0)
        fail_msg("%s: %s", directory, strerror(errno));
}

static bool is_gone(void *data)
{
    return !((const struct peer *)data)->attached;
}

static void play_other(bool dial, int ready)
{
    struct party *const one[] = {&b};

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    party_abandon(&a);
    if (party_open(&b, job, 1, NULL) || write(ready, "", 1) != 1)
        _exit(1);
    if (!dial)
        party_dial(&b, 0, a.config.self.incarnation);
    party_for(one, 1, 10000);
    _exit(0);
}

/* The same between processes, where a pidfd is fetched: the failure is in this one, as dialler and as listener. */
static void between_processes(void **state)
{
    static const enum osfail_call calls[] = {
        OSFAIL_getsockopt, OSFAIL_epoll_ctl, OSFAIL_sendmsg, OSFAIL_recvmsg, OSFAIL_poll,
        OSFAIL_calloc,     OSFAIL_accept4,   OSFAIL_socket,  OSFAIL_connect, OSFAIL_timerfd_settime};
    static const int errors[] = {ENOMEM, ESRCH};
    unsigned fds = osfail_open_fds();

    (void)state;
    logged_begin();
    for (unsigned i = 0; i < sizeof(calls) / sizeof(*calls) * 3 * 2 * 2; i++) {
        enum osfail_call call = calls[i / 12];
        unsigned nth = i / 4 % 3 + 1;
        int error = errors[i / 2 % 2], ready[2];
        bool dial = i % 2;
        struct peer *peer = NULL;
        pid_t child;

        job++;
        assert_int_equal(pipe(ready), 0);
        assert_int_equal(party_open(&a, job, 0, NULL), 0);
        child = fork();
        if (child == 0)
            play_other(dial, ready[1]);
        assert_int_equal(read(ready[0], &(char){0}, 1), 1);
        osfail_arm(call, nth, error);
        if (dial)
            peer = party_dial(&a, 1, 0);
        /* Where this one dials it is told in any case, when the other has had a CPU. */
        for (unsigned passes = 0; passes < (dial && peer ? 12000 : 50); passes++) {
            party_for(both, 1, 5);
            if (!peer)
                peer = party_peer(&a, 1);
            if (peer && (peer->attached || peer->failures))
                break;
        }
        /* A listener may have refused, which the other has to bear; a dialler must know. */
        if (dial && peer && !peer->attached && !peer->failures)
            fail_msg("%s, call %u, failed with %s: the dialler was left waiting", osfail_names[call], nth,
                     strerror(error));
        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        party_for(both, 1, 30);
        if (peer && !party_until(both, 1, 2000, is_gone, peer))
            fail_msg("%s, call %u, failed with %s: the death was not told", osfail_names[call], nth,
                     strerror(error));
        osfail_remove();
        party_close(&a);
        close(ready[0]);
        close(ready[1]);
        assert_int_equal(osfail_open_fds(), fds);
    }
    logged_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_the_abstract_namespace),
        cmocka_unit_test(in_a_directory),
        cmocka_unit_test(between_processes),
    };
    job = (uint64_t)getpid() << 32;
    return cmocka_run_group_tests_name("attach_failure", tests, NULL, NULL);
}
