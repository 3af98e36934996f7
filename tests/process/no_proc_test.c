/* SPDX-License-Identifier: BSD-3-Clause */
/* Where /proc is not mounted, or is that of another PID namespace: jobs run, end and leave nothing behind; what cannot be had
 * is said once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/support/capture.h"
#include <stdio.h>
#include <string.h>

#define WITHOUT "unshare -rm sh -c 'mount -t tmpfs none /proc && exec \"$@\"' sh "
/* Its own numbers, and the /proc of those outside. The shell is number 1, whose end would end all others. */
#define FOREIGN "unshare -rpf sh -c '\"$@\"; exit $?' sh "
#define TURN    "$NIGH_BUILDDIR/tests/support/turn"

static const char said[] = "nigh-run: /proc is not mounted here, or shows other processes: ";

static void need(const char *line)
{
    struct capture run;

    capture_run(&run, line);
    if (run.status) {
        print_message("[  SKIPPED ] no namespaces of one's own here: %s", run.err);
        capture_free(&run);
        skip();
    }
    capture_free(&run);
}

/* Runs it; `text` is said so many times. */
static void run_and_say(const char *line, int status, const char *text, int times)
{
    struct capture run;
    const char *at;

    capture_run(&run, line);
    at = run.err;
    for (int i = 0; i < times; i++, at += strlen(text)) {
        at = strstr(at, text);
        if (!at)
            break;
    }
    if (run.status != status || !at || strstr(at, text))
        fail_msg("%s: status %d; expected %d, and %d times \"%s\":\n%s%s", line, run.status, status, times,
                 text, run.out, run.err);
    capture_free(&run);
}

static void test_a_job_runs(void **state)
{
    (void)state;
    need(WITHOUT "true");
    run_and_say(WITHOUT "$RUN -n 2 " TURN " meet", 0, said, 1);
    run_and_say(WITHOUT "$RUN --bind none -n 3 " TURN " meet", 0, said, 1);
}

static void test_ranks_are_bound(void **state)
{
    struct capture with, without;

    (void)state;
    need(WITHOUT "true");
    capture_run(&with, "taskset -c 0 $RUN -n 1 nproc");
    capture_run(&without, WITHOUT "taskset -c 0 $RUN -n 1 nproc");
    assert_int_equal(without.status, 0);
    assert_string_equal(without.out, with.out);
    assert_string_equal(without.out, "1\n");
    capture_free(&with);
    capture_free(&without);
}

/* In sessions of their own: one that does not obey TERM and has a child, and one whose parent has ended. */
#define LEAVE                                                                                                \
    "sh -c 'setsid sleep 1000 & setsid sh -c \"trap : TERM; while :; do sleep 1000; done\" & (setsid sleep " \
    "1000 &)'"

static void see_orphans_ended(const char *where)
{
    const char *mark = capture_mark();
    char line[1024];

    snprintf(line, sizeof(line), "%s $RUN --bind none --kill-grace 0.2 -x %s -n 2 " LEAVE, where, mark);
    run_and_say(line, 0, " process(es) that ranks had left behind\n", 1);
    if (!capture_mark_gone(mark))
        fail_msg("%d process(es) left", capture_marked(mark));
}

static void test_orphans_are_ended(void **state)
{
    (void)state;
    need(WITHOUT "true");
    see_orphans_ended(WITHOUT);
}

/* The front alone is left to do it. */
static void test_the_keeper_is_killed(void **state)
{
    const char *mark = capture_mark();
    char line[1024];

    (void)state;
    need(WITHOUT "true");
    snprintf(line, sizeof(line),
             WITHOUT "$RUN -x %s -n 1 sh -c 'setsid sleep 1000 & kill -KILL $PPID; sleep 1000'", mark);
    run_and_say(line, 125, "the process that watches the ranks was killed by SIGKILL; ending the job\n", 1);
    if (!capture_mark_gone(mark))
        fail_msg("%d process(es) left", capture_marked(mark));
}

/* A rank that goes into a container of its own. */
static void test_a_rank_has_none(void **state)
{
    (void)state;
    need(WITHOUT "true");
    run_and_say("$RUN --label --bind none -n 2 " WITHOUT TURN " meet", 0,
                "nigh: /proc is not mounted here: which of a rank's programs this is cannot be told", 2);
}

/* Numbers there are other processes: none of those may be signalled, or counted with. */
static void test_the_proc_of_others(void **state)
{
    (void)state;
    need(FOREIGN "true");
    see_orphans_ended(FOREIGN);
    run_and_say(FOREIGN "$RUN --bind none -n 3 sh -c 'for i in 1 2 3; do " TURN " meet || exit 1; done'", 0,
                "nigh", 0);
}

static void test_tools_say_so(void **state)
{
    struct capture run;

    (void)state;
    need(WITHOUT "true");
    run_and_say(WITHOUT "$NIGH_BUILDDIR/tools/nigh-top --once", 1,
                "nigh-top: cannot look for jobs in /proc: No such file or directory; it is not mounted here",
                1);
    capture_run(&run, WITHOUT "$NIGH_BUILDDIR/tools/nigh-info machine");
    if (run.status || !strstr(run.out, "GiB; pages of") || !strstr(run.out, "no /proc tells"))
        fail_msg("status %d\n%s%s", run.status, run.out, run.err);
    capture_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_job_runs),        cmocka_unit_test(test_ranks_are_bound),
        cmocka_unit_test(test_orphans_are_ended), cmocka_unit_test(test_the_keeper_is_killed),
        cmocka_unit_test(test_a_rank_has_none),   cmocka_unit_test(test_the_proc_of_others),
        cmocka_unit_test(test_tools_say_so),
    };

    if (FAULT_SANITIZED) {
        printf("skip: sanitizers read /proc themselves\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
