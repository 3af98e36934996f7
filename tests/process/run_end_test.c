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

/* A rank that is to end when the others are ready: until go(), however slow the machine is; and until go_on(). */
#define UNTIL_GO    "while [ ! -e $GO ]; do sleep 0.01; done; "
#define UNTIL_GO_ON "while [ ! -e $GO.on ]; do sleep 0.01; done; "

static char go_name[256];

static void expect_go(void)
{
    const char *folder = getenv("TMPDIR");

    snprintf(go_name, sizeof(go_name), "%.200s/nigh_go.%d", folder ? folder : "/tmp", (int)getpid());
    setenv("GO", go_name, 1);
}

static void make_file(const char *name)
{
    FILE *file = fopen(name, "we");

    assert_non_null(file);
    fclose(file);
}

static void go(void)
{
    make_file(go_name);
}

static void go_on(void)
{
    char name[sizeof(go_name) + 4];

    snprintf(name, sizeof(name), "%s.on", go_name);
    make_file(name);
}

static void gone(void)
{
    char name[sizeof(go_name) + 4];

    snprintf(name, sizeof(name), "%s.on", go_name);
    unlink(name);
    unlink(go_name);
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

/* ---- processes ---- */

static void nap(long ms)
{
    struct timespec time = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000};

    nanosleep(&time, NULL);
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

/* False when it ends instead. */
static bool becomes(pid_t pid, char wanted)
{
    char now = state_of(pid);

    for (int i = 0; i < 12000 && now != wanted && now != 'Z' && now != '-'; i++) {
        nap(5);
        now = state_of(pid);
    }
    return now == wanted;
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

/* The number in front of `text` in what is printed. */
static pid_t pid_of(struct capture *run, const char *text)
{
    char printed[256] = "", *at;

    assert_true(capture_until(run, text));
    assert_true(pread(run->out_fd, printed, sizeof(printed) - 1, 0) > 0);
    at = strstr(printed, text);
    assert_non_null(at);
    while (at > printed && at[-1] != '\n')
        at--;
    return atoi(at);
}

static void lists_no_children(struct capture *run)
{
    kill(run->pid, SIGKILL);
    capture_wait(run, 300);
    print_message("skipped: this kernel does not list children in /proc\n");
    skip();
}

/* ---- failing ranks ---- */

static void test_others_get_term(void **state)
{
    struct capture run;
    const char *mark;

    (void)state;
    expect_go();
    mark = start(&run,
                 "--kill-grace 90 -n 1 sh -c '" UNTIL_GO
                 "exit 5' : -n 2 sh -c 'trap \"echo term; exit 0\" TERM; "
                 "echo ready; while :; do sleep 0.01; done'",
                 2);
    go();
    capture_wait(&run, 300);
    assert_int_equal(run.status, 5);
    assert_string_equal(run.out, "ready\nready\nterm\nterm\n");
    assert_true(capture_mark_gone(mark));
    capture_free(&run);
    gone();
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
    gone();
}

/* What a rank that ends does to the others, as nigh_abort() does, is not taken for the cause,
 * however late it is looked at. */
static void test_the_first_to_fail_is_the_cause(void **state)
{
    struct capture run;
    const char *mark;
    pid_t keeper, first, victim;

    (void)state;
    expect_go();
    mark = start(
        &run, "-n 2 sh -c 'echo $$ is $NIGH_RANK; test $NIGH_RANK = 0 && exec sleep 300; " UNTIL_GO "exit 7'",
        0);
    victim = pid_of(&run, " is 0\n");
    first = pid_of(&run, " is 1\n");
    keeper = child_of(run.pid);
    if (keeper < 0)
        lists_no_children(&run);
    kill(keeper, SIGSTOP);
    assert_true(becomes(keeper, 'T'));
    go();
    assert_true(becomes(first, 'Z'));
    kill(victim, SIGTERM);
    assert_true(becomes(victim, 'Z'));
    kill(keeper, SIGCONT);
    finish(&run, mark, 7, "exited with status 7");
    gone();
}

static void test_keep_going(void **state)
{
    struct capture run;
    const char *mark;

    (void)state;
    expect_go();
    mark = start(&run,
                 "--keep-going -n 3 sh -c 'case $NIGH_RANK in 0) exit 4;; 1) " UNTIL_GO
                 "exit 5;; esac; " UNTIL_GO_ON "echo ready'",
                 0);
    assert_true(capture_until_said(&run, "rank 0 (pid "));
    go();
    assert_true(capture_until_said(&run, "exited with status 5"));
    go_on();
    capture_wait(&run, 300);
    assert_int_equal(run.status, 4);
    assert_string_equal(run.out, "ready\n");
    assert_null(strstr(run.err, "ending the other"));
    assert_true(capture_mark_gone(mark));
    capture_free(&run);
    gone();
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
        "--kill-grace 90 -n 1 sh -c 'echo ready; exec sleep 300' : "
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

/* The status of a job whose rank is killed after it has stood still for longer than the time-out. */
static int stopped_for(unsigned seconds)
{
    struct capture run;
    char options[256];
    const char *mark;
    bool stopped;
    int status;
    pid_t rank;

    /* A shell that starts a process does not stop before that one runs: exec. */
    snprintf(options, sizeof(options), "--timeout %u -n 1 sh -c 'echo $$ is ready; exec sleep 300'", seconds);
    mark = start(&run, options, 0);
    rank = pid_of(&run, " is ready\n");
    kill(run.pid, SIGTSTP);
    stopped = becomes(run.pid, 'T') && becomes(rank, 'T');
    if (stopped)
        nap(seconds * 1000 + 200);
    kill(run.pid, SIGCONT);
    kill(rank, SIGKILL);
    capture_wait(&run, 300);
    assert_true(stopped || run.status == 124);
    assert_true(capture_mark_gone(mark));
    status = run.status;
    capture_free(&run);
    return status;
}

/* Stopped, the clock of --timeout stands still as well. A slow machine needs a longer one for what is left. */
static void test_stop_and_continue(void **state)
{
    int status = 124;

    (void)state;
    for (unsigned seconds = 3; seconds < 50 && status == 124; seconds *= 4)
        status = stopped_for(seconds);
    assert_int_equal(status, 137);
}

/* ---- time ---- */

/* A job that its time-out ends, a longer one where the machine has not brought all ranks to their
 * "ready" by then, or says `early`. */
static void timed_out(const char *options, int ready, const char *err, const char *early)
{
    bool late = true;

    for (unsigned seconds = 2; late; seconds *= 4) {
        struct capture run;
        char line[1024], text[64] = "";
        const char *mark;

        snprintf(line, sizeof(line), "--timeout %u %s", seconds, options);
        for (int i = 0; i < ready; i++)
            strcat(text, "ready\n");
        mark = start(&run, line, 0);
        capture_wait(&run, 300);
        assert_int_equal(run.status, 124);
        assert_true(run.seconds >= seconds);
        assert_true(run.seconds < 200);
        assert_true(capture_mark_gone(mark));
        late = seconds < 120 && (!strstr(run.out, text) || strstr(run.err, early));
        if (!late && (!strstr(run.out, text) || !strstr(run.err, err)))
            fail_msg("after %u s: %s%s", seconds, run.out, run.err);
        capture_free(&run);
    }
}

static void test_timeout(void **state)
{
    (void)state;
    timed_out("-n 4 sh -c 'echo ready; test $NIGH_RANK = 1 || exec sleep 300'", 4,
              "(--timeout); ranks 0,2-3 still ran", "ranks 0-3 still ran");
}

static void test_timeout_of_ranks_that_ignore_term(void **state)
{
    (void)state;
    timed_out("--kill-grace 0.2 -n 2 sh -c 'trap \"\" TERM; echo ready; while :; do sleep 1; done'", 2,
              "ranks 0-1 still ran", "nobody");
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

static void test_killed_keeper_leaves_nothing(void **state)
{
    struct capture run;
    const char *mark = start(&run, "-n 3 " FAMILY, 3);
    pid_t keeper = child_of(run.pid);

    (void)state;
    if (keeper < 0)
        lists_no_children(&run);
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
    (void)state;
    timed_out("--kill-grace 0.2 -n 2 " FAMILY, 2, "ranks 0-1 still ran", "nobody");
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
        cmocka_unit_test(test_the_first_to_fail_is_the_cause),
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
