/* SPDX-License-Identifier: BSD-3-Clause */
/* Beginnings and ends: user program 33, calls outside of the job, forked children. */
#include "tests/wrong/wrong.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char room[64];

/* A rank that has met the others, and then is not there any more. */
static void lose(int rank, int which, void (*how)(void))
{
    nigh_barrier(WORLD);
    if (rank == which)
        how();
}

static void be_killed(void)
{
    raise(SIGKILL);
}

static void exit_early(void)
{
    exit(0);
}

static void crash(void)
{
    signal(SIGABRT, SIG_DFL);
    abort();
}

static void killed(int rank, int size)
{
    double before = nigh_wtime();

    (void)size;
    lose(rank, 1, be_killed);
    TELL(nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE));
    if (nigh_wtime() - before > 1)
        fprintf(stderr, "told after %.3f s\n", nigh_wtime() - before);
}

static void killed_after_sending(int rank, int size)
{
    (void)size;
    nigh_barrier(WORLD);
    if (rank == 1) {
        nigh_send(room, 20, 0, 6, WORLD);
        wrong_nap(50);
        raise(SIGKILL);
    }
    TELL(nigh_recv(room, 20, 1, 5, WORLD, NIGH_STATUS_IGNORE));
}

static void exits_early(int rank, int size)
{
    (void)size;
    lose(rank, 2, exit_early);
    TELL(nigh_recv(room, 8, 2, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void aborts(int rank, int size)
{
    (void)size;
    lose(rank, 1, crash);
    TELL(nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void killed_in_a_barrier(int rank, int size)
{
    (void)size;
    lose(rank, 1, be_killed);
    TELL(nigh_barrier(WORLD));
}

static void anyone_and_one_is_killed(int rank, int size)
{
    (void)size;
    lose(rank, 1, be_killed);
    TELL(nigh_recv(room, 8, NIGH_ANY_SOURCE, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void send_to_the_dead(int rank, int size)
{
    (void)size;
    lose(rank, 1, be_killed);
    wrong_nap(50);
    TELL(nigh_ssend(room, 8, 1, 1, WORLD));
}

static void aborts_the_job(int rank, int size)
{
    (void)size;
    nigh_barrier(WORLD);
    if (rank == 1)
        nigh_abort(3);
    nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE);
}

static void finalize_missing(int rank, int size)
{
    (void)rank;
    (void)size;
    if (nigh_init(NULL) == 0)
        exit(0);
}

static void finalize_it(void)
{
    if (nigh_initialized())
        nigh_finalize();
}

/* Registered first, so called last: behind whatever nigh_init registers. */
static void finalize_at_exit(int rank, int size)
{
    (void)rank;
    (void)size;
    atexit(finalize_it);
    if (nigh_init(NULL) == 0)
        exit(0);
}

static void one_never_finalizes(int rank, int size)
{
    (void)size;
    nigh_barrier(WORLD);
    nigh_comm_set_timeout(WORLD, 0.3);
    if (rank == 1)
        wrong_nap_until(0, "not come to nigh_finalize");
}

static void before_init(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_send(room, 8, 0, 1, nigh_world()));
}

static void after_finalize(int rank, int size)
{
    (void)rank, (void)size;
    nigh_init(NULL);
    nigh_finalize();
    TELL(nigh_barrier(nigh_world()));
}

static void init_twice(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_init(NULL));
}

static void finalize_twice(int rank, int size)
{
    (void)rank, (void)size;
    nigh_init(NULL);
    nigh_finalize();
    TELL(nigh_finalize());
}

static void in_a_child(int rank, int size)
{
    pid_t child = fork();

    (void)rank, (void)size;
    if (child == 0) {
        TELL(nigh_send(room, 8, 0, 1, nigh_world()));
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void init_in_a_child(int rank, int size)
{
    pid_t child = fork();

    (void)rank, (void)size;
    if (child == 0) {
        TELL(nigh_init(NULL));
        exit(0);
    }
    waitpid(child, NULL, 0);
}

static void just_init(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_init(NULL));
}

static void config_of_another_size(int rank, int size)
{
    struct nigh_config config = {.size = 8};

    (void)rank, (void)size;
    TELL(nigh_init(&config));
}

static void rank_beyond_the_job(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config), .set = 1, .rank = 4, .ranks = 4, .job = 1};

    (void)rank, (void)size;
    TELL(nigh_init(&config));
}

#define GONE "rank 1 \\(process [0-9]+\\) was killed or has exited without nigh_finalize"

const struct wrong wrong_ends[] = {
    {"killed",
     2,
     killed,
     {GONE ": .*receive of at most 8 bytes from rank 1.*\nreturned ECONNRESET$", WHATEVER},
     NULL,
     WRONG_KILLED},
    {"killed-after-sending-another-tag",
     2,
     killed_after_sending,
     {GONE ".*not received so far: rank 1 has sent tag 6, 20 bytes", WHATEVER},
     NULL,
     WRONG_KILLED},
    {"exits-early",
     3,
     exits_early,
     {"rank 2 \\(process [0-9]+\\) was killed or has exited without nigh_finalize: .*receive of at most 8 "
      "bytes from rank 2",
      "rank 2 \\(process [0-9]+\\)", "ends without nigh_finalize"},
     NULL,
     WRONG_KILLED},
    {"aborts", 2, aborts, {GONE, WHATEVER}, NULL, WRONG_KILLED},
    {"killed-before-a-barrier", 2, killed_in_a_barrier, {GONE, WHATEVER}, NULL, WRONG_KILLED},
    {"from-anyone-and-one-is-killed",
     3,
     anyone_and_one_is_killed,
     {"killed or has exited without nigh_finalize.*receive of at most 8 bytes from any rank|" GONE, WHATEVER,
      WHATEVER},
     NULL,
     WRONG_KILLED},
    {"send-to-the-dead",
     2,
     send_to_the_dead,
     {GONE ": .*synchronous send of 8 bytes to rank 1", WHATEVER},
     NULL,
     WRONG_KILLED},
    {"ends-the-job",
     2,
     aborts_the_job,
     {WHATEVER, "nigh_abort at .*ends.c:[0-9]+: ends all ranks with status 3"},
     NULL,
     WRONG_KILLED},
    {"finalize-missing", 1, finalize_missing, {"the program ends without nigh_finalize"}, NULL, WRONG_LOOSE},
    {"finalize-at-exit", 2, finalize_at_exit, {"", ""}, NULL, WRONG_LOOSE},
    {"one-never-finalizes",
     3,
     one_never_finalizes,
     {"not come to nigh_finalize within 0.3 s.*rank 1 runs the program", WHATEVER, WHATEVER},
     NULL,
     0},
    {"before-init", 1, before_init, {"nigh_send at .*: called before nigh_init"}, NULL, WRONG_LOOSE},
    {"after-finalize",
     1,
     after_finalize,
     {"nigh_barrier at .*: called after nigh_finalize"},
     NULL,
     WRONG_LOOSE},
    {"init-twice", 1, init_twice, {"nigh_init at .*: called before, and nigh_finalize was not"}, NULL, 0},
    {"finalize-twice",
     1,
     finalize_twice,
     {"nigh_finalize at .*: called after nigh_finalize"},
     NULL,
     WRONG_LOOSE},
    {"in-a-forked-child",
     1,
     in_a_child,
     {"this process was forked from the one that called nigh_init and is no rank"},
     NULL,
     0},
    {"init-in-a-forked-child", 1, init_in_a_child, {"nigh_init at .*this process was forked"}, NULL, 0},
    {"stall-is-no-number",
     1,
     just_init,
     {"NIGH_STALL=\"soon\" is not valid: expected a number of seconds"},
     "NIGH_STALL=soon",
     WRONG_LOOSE},
    {"strict-is-neither",
     1,
     just_init,
     {"NIGH_STRICT=\"yes\" is not valid: expected 0 or 1"},
     "NIGH_STRICT=yes",
     WRONG_LOOSE},
    {"no-such-plugin",
     1,
     just_init,
     {"nigh_init.*/nowhere/nigh.so"},
     "NIGH_PLUGIN=/nowhere/nigh.so",
     WRONG_LOOSE},
    {"config-of-another-size",
     1,
     config_of_another_size,
     {"nigh_config.size is 8: set it to sizeof"},
     NULL,
     WRONG_LOOSE},
    {"rank-beyond-the-job", 1, rank_beyond_the_job, {"nigh_config: rank 4 of 4"}, NULL, WRONG_LOOSE},
    {0},
};
