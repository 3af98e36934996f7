/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks started by the launchers that this machine has find their rank, their size and one job of their own. */
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

/* The environments that a launcher of the surrounding session left would win, or be refused. */
#define CLEAN "env -u NIGH_RANK -u NIGH_SIZE -u NIGH_JOB -u SLURM_STEP_ID "

/* Run two ranks; they must be 0 and 1 of 2 by `launcher`. Their job, as text, into job[17]. */
static void launch(const char *launcher, const char *line, char *job)
{
    struct capture run;
    char first[17], second[17];
    bool seen[2] = {false, false};
    unsigned int rank, size, local, locals;
    const char *at;

    capture_run(&run, line);
    if (run.status != 0)
        fail_msg("%s: status %d: %s%s", line, run.status, run.out, run.err);
    at = run.out;
    for (int i = 0; i < 2; i++) {
        char name[32];

        if (sscanf(at, "%31s rank %u of %u local %u of %u job %16s", name, &rank, &size, &local, &locals,
                   i == 0 ? first : second) != 6 ||
            strcmp(name, launcher) != 0 || rank > 1 || size != 2 || local != rank || locals != 2 ||
            seen[rank])
            fail_msg("%s: %s", line, run.out);
        seen[rank] = true;
        at += strcspn(at, "\n") + 1;
    }
    assert_string_equal(first, second);
    memcpy(job, first, sizeof(first));
    capture_free(&run);
}

static void two_jobs(const char *launcher, const char *line)
{
    char first[17], second[17];

    launch(launcher, line, first);
    launch(launcher, line, second);
    assert_string_not_equal(first, second);
}

/* Does it work on this machine at all (as root, in a container, on few cores)? */
static void need(const char *what, const char *line)
{
    struct capture run;

    capture_run(&run, line);
    if (run.status != 0) {
        print_message("skipped: no working %s here (status %d)\n", what, run.status);
        capture_free(&run);
        skip();
    }
    capture_free(&run);
}

static void test_nigh_run(void **state)
{
    (void)state;
    two_jobs("nigh", "$RUN --bind none -n 2 $BIN/launched");
}

#define OPENMPI \
    CLEAN "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun.openmpi --oversubscribe -n 2 "

static void test_open_mpi(void **state)
{
    (void)state;
    need("mpirun.openmpi", OPENMPI "true");
    two_jobs("openmpi", OPENMPI "$BIN/launched");
}

/* Hydra hands standard input down when its ranks have begun. If all have ended by then, as they may on a busy machine,
 * it dies of SIGPIPE (4.0.2, with `true`, too), so these stay a while. */
#define MPICH CLEAN "mpirun.mpich -n 2 "

static void test_mpich(void **state)
{
    (void)state;
    need("mpirun.mpich", MPICH "sleep 0.5");
    two_jobs("hydra", MPICH "$BIN/launched stays");
    two_jobs("hydra", MPICH "sh -c '$BIN/launched stays; :'");
}

/* Two jobs at the same time are two jobs, also when one program starts both. */
static void test_mpich_within_nigh_run(void **state)
{
    struct capture run;

    (void)state;
    need("mpirun.mpich", MPICH "sleep 0.5");
    capture_run(&run, "$RUN --bind none -n 2 " MPICH "$BIN/launched stays");
    assert_int_equal(run.status, 0);
    for (int i = 0; i < 2; i++) {
        char job[] = "job 0123456789abcdef", *again;
        char *at = strstr(run.out, "job ");

        assert_non_null(at);
        memcpy(job, at, sizeof(job) - 1);
        memset(at, '-', 3);
        again = strstr(run.out, job); /* each id twice, no more */
        if (again == NULL)
            fail_msg("%s: %s", job, run.out);
        memset(again, '-', 3);
        assert_null(strstr(run.out, job));
    }
    capture_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nigh_run),
        cmocka_unit_test(test_open_mpi),
        cmocka_unit_test(test_mpich),
        cmocka_unit_test(test_mpich_within_nigh_run),
    };

    return cmocka_run_group_tests_name("launched", tests, NULL, NULL);
}
