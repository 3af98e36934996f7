/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-run as a user meets it: exit statuses and what is said about them, arguments, environment, input, output. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/capture.h"

struct expected {
    const char *line;
    int status;
    const char *out; /* all of stdout, or NULL: anything */
    const char *err; /* a part of stderr, or NULL: must be empty */
};

static void check(const struct expected *expected, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct capture run;

        capture_run(&run, expected[i].line);
        if (run.status != expected[i].status ||
            (expected[i].out != NULL && strcmp(run.out, expected[i].out) != 0) ||
            (expected[i].err != NULL ? strstr(run.err, expected[i].err) == NULL : run.err[0] != '\0'))
            fail_msg(
                "%s\n  status %d, expected %d\n  stdout: %s\n  expected: %s\n  stderr: %s\n  expected: %s",
                expected[i].line, run.status, expected[i].status, run.out,
                expected[i].out != NULL ? expected[i].out : "(any)", run.err,
                expected[i].err != NULL ? expected[i].err : "(empty)");
        capture_free(&run);
    }
}

#define CHECK(table) check(table, sizeof(table) / sizeof((table)[0]))

static void test_exit_statuses(void **state)
{
    static const struct expected table[] = {
        {"$RUN -n 1 true", 0, "", NULL},
        {"$RUN --bind none -n 3 true", 0, "", NULL},
        {"$RUN -n 1 sh -c 'exit 3'", 3, "", "sh) exited with status 3 after "},
        {"$RUN -n 1 sh -c 'exit 127'", 127, "",
         " s (if a library is missing: ldconfig or LD_LIBRARY_PATH)\n"},
        {"$RUN --bind none -n 4 sh -c 'test $NIGH_RANK != 2 || exit 7; sleep 100'", 7, "",
         "nigh-run: rank 2 (pid "},
        {"$RUN --bind none -n 4 sh -c 'test $NIGH_RANK != 2 || exit 7; sleep 100'", 7, "",
         "; ending the other 3 of 4 ranks\n"},
        {"$RUN --bind none -n 2 sh -c 'kill -KILL $$'", 137, "", "was killed by SIGKILL after"},
        {"$RUN -n 1 sh -c 'kill -SEGV $$'", 139, "", "was killed by SIGSEGV"},
        {"$RUN -n 1 sh -c 'kill -USR1 $$'", 138, "", "was killed by SIGUSR1"},
        {"$RUN -n 2 /nonexistent/program", 127, "",
         "cannot execute \"/nonexistent/program\" (rank 0): No such file or directory"},
        {"$RUN -n 1 no-such-program-anywhere", 127, "", "cannot execute \"no-such-program-anywhere\""},
        {"$RUN -n 1 /etc/passwd", 126, "", "cannot execute \"/etc/passwd\" (rank 0): Permission denied"},
        {"$RUN -n 1 --wdir /nonexistent true", 125, "", "cannot change to the --wdir of \"true\" (rank 0)"},
        {"$RUN -n 1 true : -n 1 sh -c 'exit 9'", 9, "", "rank 1 (pid "},
    };

    (void)state;
    CHECK(table);
}

static void test_the_rest_of_the_job_is_not_run_on(void **state)
{
    struct capture run;

    (void)state;
    capture_run(&run, "$RUN -n 1 sleep 300 : -n 1 no-such-program-anywhere");
    assert_int_equal(run.status, 127);
    assert_true(run.seconds < 200);
    capture_free(&run);
}

static void test_bad_arguments(void **state)
{
    static const struct expected table[] = {
        {"$RUN", 125, "", "no program given"},
        {"$RUN true", 125, "", "how many ranks of \"true\"? Give -n N in front of it"},
        {"$RUN -n 2", 125, "", "no program given"},
        {"$RUN -n 2 true :", 125, "", "no program given after \":\""},
        {"$RUN -n 2 true : false", 125, "", "how many ranks of \"false\"?"},
        {"$RUN -n 0 true", 125, "", "-n is \"0\": expected a whole number from 1 to 65535"},
        {"$RUN -n -1 true", 125, "", "-n is \"-1\""},
        {"$RUN -n 1x true", 125, "", "-n is \"1x\""},
        {"$RUN -n 65536 true", 125, "", "-n is \"65536\""},
        {"$RUN -n 65535 true : -n 1 true", 125, "", "65536 ranks in all: the limit is 65535"},
        {"$RUN --bind socket -n 1 true", 125, "", "--bind is \"socket\": expected core, l3, numa or none"},
        {"$RUN --timeout 0 -n 1 true", 125, "", "--timeout is \"0\": expected more than 0 seconds"},
        {"$RUN --timeout soon -n 1 true", 125, "", "--timeout is \"soon\""},
        {"$RUN --timeout nan -n 1 true", 125, "", "--timeout is \"nan\""},
        {"$RUN --kill-grace -1 -n 1 true", 125, "", "--kill-grace is \"-1\""},
        {"$RUN --stdin 2 -n 2 true", 125, "", "--stdin is \"2\": expected a rank below 2, or none"},
        {"$RUN --stdin x -n 2 true", 125, "", "--stdin is \"x\""},
        {"$RUN -x FOO -n 1 true", 125, "", "-x is \"FOO\": expected NAME=VALUE"},
        {"$RUN -x =1 -n 1 true", 125, "", "-x is \"=1\""},
        {"$RUN -x NIGH_RANK=1 -n 1 true", 125, "", "nigh-run sets NIGH_RANK itself"},
        {"$RUN -n 1 true : --label -n 1 true", 125, "", "\"--label\" is for the whole job"},
        {"$RUN --no-such-option -n 1 true", 125, "", "unrecognized option"},
    };

    (void)state;
    CHECK(table);
}

static void test_help_and_version(void **state)
{
    static const struct expected table[] = {{"$RUN --help", 0, NULL, NULL},
                                            {"$RUN --version", 0, NULL, NULL}};
    struct capture run;

    (void)state;
    CHECK(table);
    capture_run(&run, "$RUN --help");
    assert_non_null(strstr(run.out, "--kill-grace=SECONDS"));
    assert_non_null(strstr(run.out, "Exit status:"));
    capture_free(&run);
}

static void test_environment(void **state)
{
    static const struct expected table[] = {
        {"$RUN -n 1 sh -c 'echo $NIGH_RANK $NIGH_SIZE $NIGH_LOCAL_RANK $NIGH_LOCAL_SIZE'", 0, "0 1 0 1\n",
         NULL},
        {"$RUN --bind none -n 1 true : -n 1 sh -c 'echo $NIGH_RANK $NIGH_SIZE $NIGH_LOCAL_RANK "
         "$NIGH_LOCAL_SIZE'",
         0, "1 2 1 2\n", NULL},
        {"$RUN -x A=1 -x 'B=x y' -n 1 sh -c 'echo $A.$B.$#.$1' sh :", 125, NULL, "no program given after"},
        {"$RUN -x A=1 -x 'B=x y' -n 1 sh -c 'echo \"$A.$B.$#.$1\"' sh -n", 0, "1.x y.1.-n\n", NULL},
        {"$RUN --bind none -x A=1 -n 1 sh -c 'test $A = 1' : -n 1 sh -c 'echo \"<$A>\"'", 0, "<>\n", NULL},
        {"$RUN --wdir / -n 1 pwd", 0, "/\n", NULL},
        {"env NIGH_OVERSUBSCRIBED=1 $RUN -n 1 sh -c 'echo \"<$NIGH_OVERSUBSCRIBED>\"'", 0, "<>\n", NULL},
        {"$RUN --bind none -n 1 sh -c 'echo \"<$NIGH_PROGRESS_CPUS>\"'", 0, "<>\n", NULL},
        {"env NIGH_RANK=0 NIGH_PROGRESS_CPUS=0 $RUN --bind none -n 1 sh -c 'echo \"<$NIGH_PROGRESS_CPUS>\"'",
         0, "<>\n", NULL},
        {"env -u NIGH_RANK NIGH_PROGRESS_CPUS=0,0 $RUN --bind core -n 1 sh -c 'echo "
         "\"<$NIGH_PROGRESS_CPUS>\"'",
         0, "<0,0>\n", NULL},
        {"$RUN --bind core -n 1 sh -c 'own=$(sed -n \"s/^Cpus_allowed_list:.//p\" /proc/self/status); "
         "test \"$own\" = \"$NIGH_PROGRESS_CPUS\" || echo apart'",
         0, "apart\n", NULL},
        {"$RUN --bind none -n 1000 sh -c 'test $NIGH_RANK != 7 || echo $NIGH_OVERSUBSCRIBED'", 0, "1\n",
         NULL},
        {"env -u GLIBC_TUNABLES $RUN --bind none -n 1 sh -c 'echo \"<$GLIBC_TUNABLES>\"'", 0, "<>\n", NULL},
        {"env GLIBC_TUNABLES=a=b $RUN --bind none -n 999 true : -n 1 sh -c 'echo $GLIBC_TUNABLES'", 0,
         "a=b:glibc.pthread.rseq=0\n", NULL},
        {"$RUN --bind none -n 999 true : -n 1 -x GLIBC_TUNABLES=c=d sh -c 'echo $GLIBC_TUNABLES'", 0, "c=d\n",
         NULL},
        {"env -u GLIBC_TUNABLES $RUN -v --bind none -n 999 true", 0, "",
         "all ranks: GLIBC_TUNABLES=glibc.pthread.rseq=0"},
        {"env GLIBC_TUNABLES=a=b $RUN -v --bind none -n 1 -x GLIBC_TUNABLES=c=d true : -n 999 true", 0, "",
         "ranks without a -x of it: GLIBC_TUNABLES=a=b:glibc.pthread.rseq=0"},
        {"sh -c '$RUN -v --bind none -x GLIBC_TUNABLES=c=d -n 999 true 2>&1 | grep -c GLIBC_T'", 1, "0\n",
         NULL},
    };

    (void)state;
    CHECK(table);
}

static void test_jobs_have_different_ids(void **state)
{
    struct capture first, second;

    (void)state;
    capture_run(&first, "$RUN --bind none -n 2 sh -c 'echo $NIGH_JOB'");
    capture_run(&second, "$RUN --bind none -n 2 sh -c 'echo $NIGH_JOB'");
    assert_int_equal(strlen(first.out), 2 * strlen("0x0123456789abcdef\n"));
    assert_memory_equal(first.out, first.out + strlen(first.out) / 2, strlen(first.out) / 2);
    assert_string_not_equal(first.out, second.out);
    capture_free(&first);
    capture_free(&second);
}

static void test_binding(void **state)
{
    static const struct expected table[] = {
        {"$RUN -n 1000 true", 0, "", "1000 ranks on "},
        {"$RUN --bind numa -n 2 true", 0, "", NULL},
    };
    struct capture run;
    char *second;

    (void)state;
    CHECK(table);
    capture_run(&run, "$RUN -n 1000 true");
    second = strstr(run.err, "none is bound");
    assert_non_null(second);
    assert_null(strstr(second + 1, "none is bound")); /* once */
    capture_free(&run);
    capture_run(&run, "$RUN -n 2 --label grep Cpus_allowed_list /proc/self/status");
    if (strstr(run.err, "none is bound") == NULL) {
        char *list0 = strstr(run.out, "[0] Cpus_allowed_list:"),
             *list1 = strstr(run.out, "[1] Cpus_allowed_list:");

        assert_non_null(list0);
        assert_non_null(list1);
        list0[strcspn(list0, "\n")] = '\0';
        list1[strcspn(list1, "\n")] = '\0';
        assert_string_not_equal(list0 + 3, list1 + 3);
    }
    capture_free(&run);
}

static void test_stdin(void **state)
{
    static const struct expected table[] = {
        {"sh -c 'echo hello | $RUN --bind none --label -n 2 wc -c'", 0, NULL, NULL},
        {"sh -c 'echo hello | $RUN --bind none -n 2 cat'", 0, "hello\n", NULL},
        {"sh -c 'echo hello | $RUN --bind none --stdin none -n 2 cat'", 0, "", NULL},
        {"sh -c 'echo hello | $RUN --bind none --stdin 1 -n 2 sh -c \"sed s/^/\\$NIGH_RANK/\"'", 0,
         "1hello\n", NULL},
        /* the writer must find out that rank 0 reads no more */
        {"sh -c '{ yes 2>/dev/null; echo ended >&2; } | $RUN -n 1 "
         "sh -c \"head -n 1; exec </dev/null; sleep 1; echo late >&2\"'",
         0, "y\n", "ended\nlate\n"},
        {"sh -c '$RUN -n 1 cat <&-'", 0, "", NULL},
        {"sh -c '$RUN -n 1 true <&- >&- 2>&-'", 0, "", NULL},
    };

    (void)state;
    CHECK(table);
}

static void test_labels(void **state)
{
    static const struct expected table[] = {
        {"$RUN --label -n 1 printf 'a\\n\\nb'", 0, "[0] a\n[0] \n[0] b\n", NULL},
        {"$RUN --label -n 1 sh -c 'echo out; echo err >&2'", 0, "[0] out\n", "[0] err\n"},
        {"$RUN --label -n 1 sh -c 'echo out 2>&1; exit 4'", 4, "[0] out\n", "nigh-run: rank 0 (pid "},
        {"sh -c '$RUN --label -n 1 sh -c \"echo out; echo err >&2\" 2>&1 | sort'", 0, "[0] err\n[0] out\n",
         NULL},
        /* nobody reads: the rank finds out by SIGPIPE, and the job ends */
        {"sh -c '$RUN --label -n 1 yes | head -n 2'", 0, "[0] y\n[0] y\n", "was killed by SIGPIPE"},
    };

    (void)state;
    CHECK(table);
}

/* Lines of 3000 bytes, written in pieces, by eight ranks at once. */
static void test_labelled_lines_stay_whole(void **state)
{
    static const char line[] =
        "$RUN --bind none --label -n 8 sh -c 'c=$(printf %0999d 0 | tr 0 $NIGH_RANK); i=0; "
        "while [ $i -lt 100 ]; do printf %s $c; printf %s $c; echo $c; i=$((i + 1)); done'";
    struct capture run;
    int counts[8] = {0};
    char *at;

    (void)state;
    capture_run(&run, line);
    assert_int_equal(run.status, 0);
    for (at = run.out; *at != '\0'; at += strcspn(at, "\n") + 1) {
        int rank = at[1] - '0';

        if (at[0] != '[' || rank < 0 || rank > 7 || at[2] != ']' || at[3] != ' ')
            fail_msg("label: %.20s", at);
        if (strspn(at + 4, (char[]){at[1], '\0'}) != 2997 || at[4 + 2997] != '\n')
            fail_msg("line of rank %d is broken: %.3010s", rank, at);
        counts[rank]++;
    }
    for (int i = 0; i < 8; i++)
        assert_int_equal(counts[i], 100);
    capture_free(&run);
}

static void test_many_ranks_in_bounded_time(void **state)
{
    struct capture run;

    (void)state;
    capture_run(&run, "$RUN -n 64 /bin/true");
    assert_int_equal(run.status, 0);
    if (run.seconds > 120)
        fail_msg("64 ranks of /bin/true took %.3f s", run.seconds);
    capture_free(&run);
    capture_run(&run, "$RUN --bind none --label -n 64 echo x");
    assert_int_equal(run.status, 0);
    assert_int_equal(strlen(run.out), 10 * strlen("[0] x\n") + 54 * strlen("[10] x\n"));
    capture_free(&run);
}

static void test_more_labelled_ranks_than_descriptors(void **state)
{
    struct capture run;

    (void)state;
    capture_run(
        &run,
        "sh -c 'ulimit -S -n 64; $RUN --bind none --label -n 64 sh -c \"ulimit -S -n\" | sort | uniq -c | "
        "wc -l'");
    assert_int_equal(run.status, 0);
    assert_string_equal(run.out, "64\n");
    capture_free(&run);
    capture_run(&run, "sh -c 'ulimit -S -n 64; $RUN --label -n 1 sh -c \"ulimit -S -n\"'");
    assert_string_equal(run.out, "[0] 64\n"); /* the rank's limit is the user's */
    capture_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exit_statuses),
        cmocka_unit_test(test_the_rest_of_the_job_is_not_run_on),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_jobs_have_different_ids),
        cmocka_unit_test(test_binding),
        cmocka_unit_test(test_stdin),
        cmocka_unit_test(test_labels),
        cmocka_unit_test(test_labelled_lines_stay_whole),
        cmocka_unit_test(test_many_ranks_in_bounded_time),
        cmocka_unit_test(test_more_labelled_ranks_than_descriptors),
    };

    return cmocka_run_group_tests_name("run", tests, NULL, NULL);
}
