/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How jobs end: signals, time-outs, failing ranks, killed launchers, and that none of it leaves a process behind.
 * Every process of a job carries a mark in its environment, by which stragglers are found whatever they did.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/capture.h"

/* A rank that is to end when the others are ready: until go(), however slow the machine is. */
#define UNTIL_GO "while [ ! -e $GO ]; do sleep 0.01; done; "

static char go_name[256];

static void expect_go(void)
{
    const char *folder = getenv("TMPDIR");

    snprintf(go_name, sizeof(go_name), "%.200s/nigh_go.%d", folder ? folder : "/tmp", (int)getpid());
    setenv("GO", go_name, 1);
}

static void go(void)
{
    FILE *file = fopen(go_name, "we");

    assert_non_null(file);
    fclose(file);
}

/* Start "$RUN -x MARK OPTIONS", and wait until it has printed "ready" `ready` times. */
static const char *start(struct capture *run, const char *options, int ready)
{
    char line[4096], text[64] = "";
    const char *mark = capture_mark();

    snprintf(line, sizeof(line), "$RUN --bind none -x %s %s", mark, options);
    capture_start(run, line);
    for (int i = 0; i < ready; i++)
        strcat(text, "ready\n");
    if (!capture_until(run, text)) {
        kill(run->pid, SIGKILL);
        capture_wait(run, 300);
        fail_msg("%s: not ready: %s %s", line, run->out, run->err);
    }
    return mark;
}

static void finish(struct capture *run, const char *mark, int status, const char *err)
{
    capture_wait(run, 300);
    if (run->status != status || (err != NULL && strstr(run->err, err) == NULL))
        fail_msg("status %d, expected %d; stderr: %s expected: %s; stdout: %s", run->status, status, run->err,
                 err != NULL ? err : "(any)", run->out);
    if (!capture_mark_gone(mark))
        fail_msg("%d process(es) left", capture_marked(mark));
    capture_free(run);
}

/* ---- failing ranks ---- */

static void test_others_get_term(void **state)
{
    struct capture run;
    const char *mark;

    (void)state;
    expect_go();
    mark = start(&run,
                 "-n 1 sh -c '" UNTIL_GO "exit 5' : -n 2 sh -c 'trap \"echo term; exit 0\" TERM; "
                 "echo ready; while :; do sleep 0.01; done'",
                 2);
    go();
    capture_wait(&run, 300);
    assert_int_equal(run.status, 5);
    assert_string_equal(run.out, "ready\nready\nterm\nterm\n");
    assert_true(capture_mark_gone(mark));
    capture_free(&run);
    unlink(go_name);
}

static void test_then_kill_after_the_grace(void **state)
{
    struct capture run;
    const char *mark;

    (void)state;
    expect_go();
    mark = start(&run,
                 "--kill-grace 0.3 -n 1 sh -c '" UNTIL_GO "exit 5' : "
                 "-n 2 sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done'",
                 2);
    go();
    finish(&run, mark, 5, "exited with status 5");
    assert_true(run.seconds > 0.3);
    unlink(go_name);
}

static void test_keep_going(void **state)
{
    struct capture run;
    const char *mark =
        start(&run,
              "--keep-going -n 3 sh -c 'case $NIGH_RANK in 0) exit 4;; 1) sleep 2; exit 5;; esac; sleep 2.5; "
              "echo ready'",
              1);

    (void)state;
    capture_wait(&run, 300);
    assert_int_equal(run.status, 4);
    assert_non_null(strstr(run.err, "rank 0 (pid "));
    assert_non_null(strstr(run.err, "exited with status 5"));
    assert_null(strstr(run.err, "ending the other"));
    assert_true(capture_mark_gone(mark));
    capture_free(&run);
}

/* ---- signals ---- */

static void test_signals_reach_all_ranks(void **state)
{
    static const struct {
        int number;
        const char *name;
    } signals[] = {{SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGHUP, "HUP"},
                   {SIGINT, "INT"},   {SIGTERM, "TERM"}, {SIGQUIT, "QUIT"}};

    (void)state;
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        struct capture run;
        char options[256];
        const char *mark;

        snprintf(options, sizeof(options),
                 "-n 2 sh -c 'trap \"echo got; exit 0\" %s; echo ready; while :; do sleep 0.01; done'",
                 signals[i].name);
        mark = start(&run, options, 2);
        kill(run.pid, signals[i].number);
        capture_wait(&run, 300);
        if (run.status != 0 || strcmp(run.out, "ready\nready\ngot\ngot\n") != 0)
            fail_msg("%s: %d %s %s", signals[i].name, run.status, run.out, run.err);
        assert_true(capture_mark_gone(mark));
        capture_free(&run);
    }
}

static void test_ranks_that_die_of_a_signal_passed_on(void **state)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct capture run;
        const char *mark = start(&run, "--kill-grace 90 -n 3 sh -c 'echo ready; exec sleep 300'", 3);

        kill(run.pid, signals[i]);
        finish(&run, mark, 128 + signals[i], "was killed by SIG");
        assert_true(run.seconds < 90);
    }
}

/* One rank dies of the signal, the other still writes its checkpoint: it gets the grace, and no second signal. */
static void test_a_rank_may_obey_slowly(void **state)
{
    struct capture run;
    const char *mark = start(
        &run,
        "-n 1 sh -c 'echo ready; exec sleep 100' : "
        "-n 1 sh -c 'trap \"trap \\\"echo again\\\" TERM; sleep 0.5; echo saved; exit 0\" TERM; echo ready; "
        "while :; do sleep 0.01; done'",
        2);

    (void)state;
    kill(run.pid, SIGTERM);
    capture_wait(&run, 300);
    assert_int_equal(run.status, 143);
    assert_string_equal(run.out, "ready\nready\nsaved\n");
    assert_true(capture_mark_gone(mark));
    capture_free(&run);
}

static void nap(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
}

static void test_a_second_int_ends_the_job(void **state)
{
    struct capture run;
    const char *mark =
        start(&run,
              "--kill-grace 0.2 -n 2 sh -c 'trap \"\" TERM; trap \"echo int\" INT; echo ready; "
              "while :; do sleep 0.05; done'",
              2);

    (void)state;
    kill(run.pid, SIGINT);
    assert_true(capture_until(&run, "int\nint\n")); /* the first has been passed on: the next is a second */
    assert_int_equal(kill(run.pid, 0), 0);
    assert_int_equal(capture_marked(mark) >= 2, 1);
    kill(run.pid, SIGINT);
    finish(&run, mark, 130, "second SIGINT: ending the job");
}

static void test_ignored_signals_stay_ignored(void **state)
{
    struct capture run;
    char line[512];
    const char *mark = capture_mark();

    (void)state;
    snprintf(line, sizeof(line),
             "sh -c 'trap \"\" HUP; exec $RUN -x %s -n 1 sh -c \"echo ready; sleep 0.5; echo on\"'", mark);
    capture_start(&run, line);
    assert_true(capture_until(&run, "ready"));
    kill(run.pid, SIGHUP);
    finish(&run, mark, 0, NULL);
}

static char state_of(pid_t pid)
{
    char path[64], line[512] = "", *end;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL)
        return '-';
    if (fgets(line, sizeof(line), file) == NULL)
        line[0] = '\0';
    fclose(file);
    end = strrchr(line, ')');
    return end != NULL ? end[2] : '-';
}

static bool becomes(pid_t pid, char wanted)
{
    for (int i = 0; i < 12000 && state_of(pid) != wanted; i++)
        nap(5);
    return state_of(pid) == wanted;
}

/* Stopped, the clock of --timeout stands still as well. */
static void test_stop_and_continue(void **state)
{
    struct capture run;
    pid_t rank;
    const char *mark = start(&run, "--timeout 4 -n 1 sh -c 'echo $$; echo ready; exec sleep 0.5'", 0);

    (void)state;
    assert_true(capture_until(&run, "ready"));
    {
        char text[32] = "";

        assert_true(pread(run.out_fd, text, sizeof(text) - 1, 0) > 0);
        rank = atoi(text);
    }
    kill(run.pid, SIGTSTP);
    assert_true(becomes(run.pid, 'T'));
    assert_true(becomes(rank, 'T'));
    nap(4200);
    kill(run.pid, SIGCONT);
    finish(&run, mark, 0, NULL);
}

/* ---- time ---- */

static void test_timeout(void **state)
{
    struct capture run;
    const char *mark =
        start(&run, "--timeout 3 -n 4 sh -c 'echo ready; test $NIGH_RANK = 1 || exec sleep 300'", 4);

    (void)state;
    finish(&run, mark, 124, "(--timeout); ranks 0,2-3 still ran");
    assert_true(run.seconds >= 3);
    assert_true(run.seconds < 200);
}

static void test_timeout_of_ranks_that_ignore_term(void **state)
{
    struct capture run;
    const char *mark = start(&run,
                             "--timeout 2 --kill-grace 0.2 -n 2 sh -c 'trap \"\" TERM; echo ready; "
                             "while :; do sleep 1; done'",
                             2);

    (void)state;
    finish(&run, mark, 124, "ranks 0-1 still ran");
}

static void test_no_timeout_in_time(void **state)
{
    struct capture run;
    const char *mark = start(&run, "--timeout 200 -n 1 echo ready", 1);

    (void)state;
    finish(&run, mark, 0, NULL);
    assert_true(run.seconds < 200);
}

/* ---- nothing is left ---- */

/* Ranks with children in the background, in sessions of their own, detached by a double fork, deaf to TERM. */
#define FAMILY                                                                                         \
    "sh -c 'sleep 300 & setsid sleep 300 & (setsid sh -c \"trap : TERM INT HUP; while :; do sleep 1; " \
    "done\" &) ; "                                                                                     \
    "echo ready; wait'"

static void test_killed_front_leaves_nothing(void **state)
{
    struct capture run;
    const char *mark = start(&run, "-n 3 " FAMILY, 3);

    (void)state;
    assert_true(capture_marked(mark) >= 9);
    kill(run.pid, SIGKILL);
    finish(&run, mark, 137, NULL);
}

static pid_t child_of(pid_t parent)
{
    char path[64];
    int child = -1;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
    file = fopen(path, "r");
    if (file == NULL)
        return -1;
    if (fscanf(file, "%d", &child) != 1)
        child = -1;
    fclose(file);
    return child;
}

static void test_killed_keeper_leaves_nothing(void **state)
{
    struct capture run;
    const char *mark = start(&run, "-n 3 " FAMILY, 3);
    pid_t keeper = child_of(run.pid);

    (void)state;
    if (keeper < 0) {
        kill(run.pid, SIGKILL);
        capture_wait(&run, 300);
        print_message("skipped: this kernel does not list children in /proc\n");
        skip();
    }
    kill(keeper, SIGKILL);
    finish(&run, mark, 125, "was killed by SIGKILL; ending the job");
}

/* Nobody of ours is left to do anything: the kernel itself takes the ranks. */
static void test_killed_front_and_keeper_take_the_ranks_along(void **state)
{
    struct capture run;
    const char *mark = start(&run, "-n 3 sh -c 'echo ready; exec sleep 300'", 3);
    pid_t keeper = child_of(run.pid);

    (void)state;
    kill(run.pid, SIGSTOP); /* so that it cannot act between the two */
    if (keeper > 0)
        kill(keeper, SIGKILL);
    kill(run.pid, SIGKILL);
    finish(&run, mark, 137, NULL);
}

static void test_a_group_killed_at_once_leaves_nothing(void **state)
{
    struct capture run;
    char line[2048];
    const char *mark = capture_mark();

    (void)state;
    snprintf(line, sizeof(line), "setsid $RUN --bind none -x %s -n 3 " FAMILY, mark);
    capture_start(&run, line);
    assert_true(capture_until(&run, "ready\nready\nready"));
    kill(-run.pid, SIGKILL); /* setsid has made it a group's leader */
    finish(&run, mark, 137, NULL);
}

static void test_timeout_leaves_nothing(void **state)
{
    struct capture run;
    const char *mark = start(&run, "--timeout 3 --kill-grace 0.2 -n 2 " FAMILY, 2);

    (void)state;
    finish(&run, mark, 124, NULL);
}

static void test_what_ranks_leave_behind_is_ended(void **state)
{
    struct capture run;
    const char *mark = start(&run, "-n 2 sh -c 'sleep 300 & (setsid sleep 300 &); echo ready'", 2);

    (void)state;
    finish(&run, mark, 0, "ended 4 process(es) that ranks had left behind");
    assert_true(run.seconds < 200);
}

/* The window between a rank's birth and its request to die with its parent. */
static void test_killed_while_starting_leaves_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct capture run;
        const char *mark = start(&run, "-n 40 sleep 300", 0);

        nap(1 + 2 * i);
        kill(run.pid, SIGKILL);
        finish(&run, mark, 137, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_others_get_term),
        cmocka_unit_test(test_then_kill_after_the_grace),
        cmocka_unit_test(test_keep_going),
        cmocka_unit_test(test_signals_reach_all_ranks),
        cmocka_unit_test(test_ranks_that_die_of_a_signal_passed_on),
        cmocka_unit_test(test_a_rank_may_obey_slowly),
        cmocka_unit_test(test_a_second_int_ends_the_job),
        cmocka_unit_test(test_ignored_signals_stay_ignored),
        cmocka_unit_test(test_stop_and_continue),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_timeout_of_ranks_that_ignore_term),
        cmocka_unit_test(test_no_timeout_in_time),
        cmocka_unit_test(test_killed_front_leaves_nothing),
        cmocka_unit_test(test_killed_keeper_leaves_nothing),
        cmocka_unit_test(test_killed_front_and_keeper_take_the_ranks_along),
        cmocka_unit_test(test_a_group_killed_at_once_leaves_nothing),
        cmocka_unit_test(test_timeout_leaves_nothing),
        cmocka_unit_test(test_what_ranks_leave_behind_is_ended),
        cmocka_unit_test(test_killed_while_starting_leaves_nothing),
    };

    return cmocka_run_group_tests_name("run_end", tests, NULL, NULL);
}
