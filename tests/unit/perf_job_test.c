/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-perf as a launcher: all ranks run, meet in barriers and leave their figures; a rank that fails, dies or hangs
 * ends the job, and nothing is left running. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tools/perf/clock.h"
#include "tools/perf/cpus.h"
#include "tools/perf/job.h"
#include "tools/perf/rounds.h"

enum { RANKS = 5 };

static int cpus[64];

static struct perf_job job_of(uint32_t ranks)
{
    int n = perf_cpus(cpus, 64);
    struct perf_job job = {
        .ranks = ranks, .cpus = cpus, .scratch_bytes = 4096, .limit_seconds = 30, .what = "the test"};

    assert_true(n >= 1);
    job.cpu_count = (uint32_t)n;
    return job;
}

/* Each rank adds its number a hundred times, one after the other by turns; a barrier that lets anybody through early
 * shows as a wrong sum. */
static int adds_in_turn(struct perf_rank *me, void *arg)
{
    uint64_t *sum = (uint64_t *)me->scratch;

    (void)arg;
    for (uint32_t i = 0; i < 20 * me->ranks; i++) {
        if (i % me->ranks == me->rank)
            *(volatile uint64_t *)sum += me->rank + 1;
        perf_barrier(me);
    }
    me->shared->figure[me->rank][0] = (double)*sum;
    return 0;
}

static void all_ranks_run_and_barriers_hold(void **state)
{
    struct perf_job job = job_of(RANKS);

    (void)state;
    assert_int_equal(perf_job_run(&job, adds_in_turn, NULL), 0);
    for (uint32_t i = 0; i < RANKS; i++)
        assert_float_equal(job.shared->figure[i][0], 20 * (1 + 2 + 3 + 4 + 5), 0);
    assert_true(job.shared->job != 0);
    perf_job_end(&job);
}

static int tells_where_it_runs(struct perf_rank *me, void *arg)
{
    (void)arg;
    me->shared->figure[me->rank][0] = sched_getcpu();
    me->shared->figure[me->rank][1] = me->crowded;
    return 0;
}

static void ranks_are_pinned_in_turn(void **state)
{
    struct perf_job job = job_of(3);

    (void)state;
    assert_int_equal(perf_job_run(&job, tells_where_it_runs, NULL), 0);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal((int)job.shared->figure[i][0], cpus[i % job.cpu_count]);
        assert_int_equal((int)job.shared->figure[i][1], job.cpu_count < 3);
    }
    perf_job_end(&job);
}

static int waits_for_ever(const struct perf_rank *me)
{
    for (;;)
        if (me->shared->job == 0)
            return 0;
        else
            usleep(1000);
}

static int second_rank_fails(struct perf_rank *me, void *arg)
{
    (void)arg;
    return me->rank == 1 ? -EPROTO : waits_for_ever(me);
}

static int second_rank_dies(struct perf_rank *me, void *arg)
{
    (void)arg;
    if (me->rank == 1)
        raise(SIGKILL);
    return waits_for_ever(me);
}

static int all_wait(struct perf_rank *me, void *arg)
{
    (void)arg;
    return waits_for_ever(me);
}

static int finds_wrong_data(struct perf_rank *me, void *arg)
{
    (void)arg;
    if (me->rank == 2)
        perf_fail(me, "byte 3 is wrong");
    return waits_for_ever(me);
}

static void nothing_is_left(void)
{
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

static void a_rank_that_fails_ends_the_job(void **state)
{
    struct perf_job job = job_of(3);

    (void)state;
    assert_int_equal(perf_job_run(&job, second_rank_fails, NULL), -EIO);
    nothing_is_left();
    assert_int_equal(perf_job_run(&job, second_rank_dies, NULL), -EIO);
    nothing_is_left();
    assert_int_equal(perf_job_run(&job, finds_wrong_data, NULL), -EIO);
    nothing_is_left();
}

static double ends(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)me;
    (void)arg;
    return count;
}

static double hangs(struct perf_rank *me, void *arg, uint32_t count)
{
    (void)arg;
    (void)count;
    return waits_for_ever(me);
}

/* One of three columns hangs, the last two of which are peers; of column 3, which there is not, what comes behind. */
static int hangs_in(struct perf_rank *me, void *arg)
{
    struct perf_piece piece[] = {
        {"latency", ends, NULL, 1, 0}, {"openmpi", ends, NULL, 1, 0}, {"ucx", ends, NULL, 1, 0}};
    struct perf_plan plan = {.piece = piece,
                             .pieces = 3,
                             .peers = 2,
                             .sampled = PERF_COLUMN_NONE,
                             .seconds = 0.001,
                             .least_rounds = 1,
                             .no_handoff = true,
                             .hasty = true};
    uint32_t column = *(const uint32_t *)arg;

    if (column < 3)
        piece[column].run = hangs;
    perf_rounds_run(me, &plan);
    return waits_for_ever(me);
}

static void a_job_that_hangs_names_whose_ranks(void **state)
{
    static const char *const whose[] = {"nigh (\"latency\"), in round 1", "openmpi, in round 1",
                                        "ucx, in round 1", "nigh"};

    (void)state;
    for (uint32_t column = 0; column < 4; column++) {
        struct perf_job job = job_of(2);
        FILE *said = tmpfile();
        int kept = dup(STDERR_FILENO);
        char text[256], wanted[256];
        size_t got;

        assert_true(said && kept >= 0);
        job.limit_seconds = 1;
        assert_int_equal(dup2(fileno(said), STDERR_FILENO), STDERR_FILENO);
        assert_int_equal(perf_job_run(&job, hangs_in, &column), -ETIMEDOUT);
        assert_int_equal(dup2(kept, STDERR_FILENO), STDERR_FILENO);
        close(kept);
        rewind(said);
        got = fread(text, 1, sizeof(text) - 1, said);
        text[got] = '\0';
        fclose(said);
        snprintf(wanted, sizeof(wanted),
                 "nigh-perf: the test has not ended after 1.0 s: it waits for the ranks of %s; ending all "
                 "ranks\n",
                 whose[column]);
        if (!strstr(text, wanted))
            fail_msg("\"%s\" instead of \"%s\"", text, wanted);
    }
    nothing_is_left();
}

static void a_job_that_hangs_is_ended(void **state)
{
    struct perf_job job = job_of(3);
    uint64_t start = perf_clock_system();

    (void)state;
    job.limit_seconds = 0.3;
    assert_int_equal(perf_job_run(&job, all_wait, NULL), -ETIMEDOUT);
    assert_in_range(perf_clock_system() - start, 300000000, 20000000000);
    nothing_is_left();
}

static void the_clock_runs_like_the_systems(void **state)
{
    double ratio = 0;

    (void)state;
    /* Where the process was interrupted between the two clocks, they are read again. */
    for (int tries = 0; tries < 50 && !(ratio > 0.98 && ratio < 1.02); tries++) {
        uint64_t system = perf_clock_system(), ticks = perf_ticks();

        usleep(50000);
        ratio = perf_ns(ticks, perf_ticks()) / (double)(perf_clock_system() - system);
    }
    assert_float_equal(ratio, 1, 0.02);
    assert_true(nigh_perf_clock.overhead_ns >= 0 && nigh_perf_clock.overhead_ns < 2000);
    assert_float_equal(perf_ns_net(1000, 1000), 0, 0);
}

static int start_clock(void **state)
{
    (void)state;
    perf_clock_init();
    return 0;
}

/* Half a launcher's variables are none, and must not be taken for no launcher. */
static void the_launchers_variables_make_sense(void **state)
{
    static const struct {
        const char *rank, *size;
        int rc;
    } cases[] = {{"0", "1", 0},
                 {"3", "4", 0},
                 {"4", "4", -EINVAL},
                 {"-1", "4", -EINVAL},
                 {"0", "0", -EINVAL},
                 {"x", "4", -EINVAL},
                 {"0", "4x", -EINVAL},
                 {NULL, "4", -EINVAL},
                 {"0", NULL, -EINVAL},
                 {"", "", -EINVAL},
                 {"1", "1e9", -EINVAL},
                 {" 1", "4", -EINVAL},
                 {"+1", "4", -EINVAL},
                 {"0", "4294967295", -EINVAL},
                 {"0", "4294967298", -EINVAL},
                 {"0", "18446744073709551617", -EINVAL}};

    (void)state;
    setenv("NIGH_JOB", "5", 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsetenv("NIGH_RANK");
        unsetenv("NIGH_SIZE");
        if (cases[i].rank)
            setenv("NIGH_RANK", cases[i].rank, 1);
        if (cases[i].size)
            setenv("NIGH_SIZE", cases[i].size, 1);
        if (perf_job_check() != cases[i].rc)
            fail_msg("rank \"%s\" of \"%s\": not %d", cases[i].rank, cases[i].size, cases[i].rc);
    }
    unsetenv("NIGH_JOB");
    assert_int_equal(perf_job_check(), -EINVAL); /* the plugin refuses it, too */
    unsetenv("NIGH_RANK");
    unsetenv("NIGH_SIZE");
    assert_int_equal(perf_job_check(), 0);
}

/* As the plugin reads it: what is no job there is none here, or ranks measure that are nobody's. */
static void a_job_is_a_number(void **state)
{
    static const char *const jobs[] = {"", "0", "0x", "x", "myjob", "5 ", " 5", "-5", "10000000000000000"};
    static const char *const good[] = {"5", "0x5", "0XaBc", "FFFFFFFFFFFFFFFF"};

    (void)state;
    setenv("NIGH_RANK", "0", 1);
    setenv("NIGH_SIZE", "1", 1);
    for (size_t i = 0; i < sizeof(jobs) / sizeof(jobs[0]); i++) {
        setenv("NIGH_JOB", jobs[i], 1);
        if (perf_job_check() != -EINVAL || perf_job_launched())
            fail_msg("NIGH_JOB \"%s\" is taken for a job", jobs[i]);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        setenv("NIGH_JOB", good[i], 1);
        if (perf_job_check() != 0 || !perf_job_launched())
            fail_msg("NIGH_JOB \"%s\" is taken for no job", good[i]);
    }
    unsetenv("NIGH_JOB");
    unsetenv("NIGH_RANK");
    unsetenv("NIGH_SIZE");
}

/* One number in two ways of writing it is one job. */
static void ranks_meet_by_the_number(void **state)
{
    struct perf_job job = job_of(2);
    char text[2][24];
    pid_t other;
    int status, rc;

    (void)state;
    snprintf(text[0], sizeof(text[0]), "0x%x", 0xa0000000u + (unsigned)getpid());
    snprintf(text[1], sizeof(text[1]), "0%X", 0xa0000000u + (unsigned)getpid());
    setenv("NIGH_SIZE", "2", 1);
    other = fork();
    assert_true(other >= 0);
    setenv("NIGH_RANK", other ? "0" : "1", 1);
    setenv("NIGH_JOB", text[other == 0], 1);
    rc = perf_job_run(&job, adds_in_turn, NULL);
    if (other == 0)
        _exit(rc != 0);
    unsetenv("NIGH_JOB");
    unsetenv("NIGH_RANK");
    unsetenv("NIGH_SIZE");
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(status, 0);
    assert_int_equal(rc, 0);
    perf_job_end(&job);
}

/* Ranks run on the first CPUs of the list; it is all that there are where nobody names some. */
static void who_helps_gets_what_no_rank_has(void **state)
{
    static const int cpus[] = {4, 1, 2, 7};
    struct perf_rank me = {.cpus = cpus, .cpu_count = 4, .ranks = 2};
    cpu_set_t usable;
    char list[16];

    (void)state;
    CPU_ZERO(&usable);
    for (unsigned i = 0; i < 4; i++)
        CPU_SET((size_t)cpus[i], &usable);
    perf_job_spare(&me, &usable, list, sizeof(list));
    assert_string_equal(list, "2,7");
    perf_job_spare(&me, &usable, list, 3);
    assert_string_equal(list, "");
    me.ranks = 8;
    perf_job_spare(&me, &usable, list, sizeof(list));
    assert_string_equal(list, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ranks_run_and_barriers_hold),
        cmocka_unit_test(ranks_are_pinned_in_turn),
        cmocka_unit_test(a_rank_that_fails_ends_the_job),
        cmocka_unit_test(a_job_that_hangs_is_ended),
        cmocka_unit_test(a_job_that_hangs_names_whose_ranks),
        cmocka_unit_test(the_launchers_variables_make_sense),
        cmocka_unit_test(a_job_is_a_number),
        cmocka_unit_test(ranks_meet_by_the_number),
        cmocka_unit_test(who_helps_gets_what_no_rank_has),
        cmocka_unit_test(the_clock_runs_like_the_systems),
    };
    return cmocka_run_group_tests_name("perf_job", tests, start_clock, NULL);
}
