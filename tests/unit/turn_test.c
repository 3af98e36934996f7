/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/turn.c: turns are counted in the file of this job alone, by one process at a time, and a refused one is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "lib/turn.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOB = 0x5eed, RANKS = 3 };

static int fd;

static void name(uint64_t job, const char *path)
{
    char text[128];

    snprintf(text, sizeof(text), "0x%llx:%s", (unsigned long long)job, path);
    setenv("NIGH_LIVES", text, 1);
}

static int open_file(const char *called)
{
    char path[64];

    fd = memfd_create(called, MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, RANKS * sizeof(uint64_t)), 0);
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)getpid(), fd);
    name(JOB, path);
    return 0;
}

static int set_up(void **state)
{
    (void)state;
    return open_file("nigh-lives-0000000000005eed");
}

static int tear_down(void **state)
{
    (void)state;
    nigh_turn_end();
    unsetenv("NIGH_LIVES");
    unsetenv("NIGH_JOB");
    unsetenv("NIGH_RANK");
    return close(fd);
}

static uint64_t counted(uint32_t rank)
{
    uint64_t count = UINT64_MAX;

    assert_int_equal(pread(fd, &count, sizeof(count), (off_t)(rank * sizeof(count))), sizeof(count));
    return count;
}

/* The life that a rank's next turn is, UINT64_MAX: it is not counted. */
static uint64_t next(uint64_t job, uint32_t rank)
{
    struct nigh_open options = {.job = job, .rank = rank, .ranks = RANKS};
    uint64_t life = UINT64_MAX;

    return nigh_turn_begin(&options, &life) ? life : UINT64_MAX;
}

/* The same in another process. */
static uint64_t next_elsewhere(uint32_t rank)
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit((int)next(JOB, rank));
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return (uint64_t)WEXITSTATUS(status);
}

static void test_each_rank_for_itself(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(next(JOB, 1), i);
    assert_int_equal(next(JOB, 2), 0);
    nigh_turn_end();
    assert_int_equal(next_elsewhere(1), 4);
    assert_int_equal(next_elsewhere(1), 5); /* the one before has ended without a word */
    assert_int_equal(counted(0), 0);
    assert_int_equal(counted(1), 6);
    assert_int_equal(counted(2), 1);
}

static void test_what_is_undone_was_none(void **state)
{
    (void)state;
    nigh_turn_undo();
    assert_int_equal(next(JOB, 0), 0);
    nigh_turn_undo();
    assert_int_equal(next(JOB, 0), 0);
    nigh_turn_end();
    nigh_turn_undo();
    assert_int_equal(next(JOB, 0), 1);
}

/* A place that is taken is asked for in the life in which it is, and nothing is counted. */
static void test_a_place_that_is_taken(void **state)
{
    (void)state;
    assert_int_equal(next(JOB, 0), 0);
    assert_int_equal(next_elsewhere(0), 0);
    assert_int_equal(next_elsewhere(1), 0);
    nigh_turn_end();
    assert_int_equal(next(JOB, 0), 1);
    assert_int_equal(next_elsewhere(0), 1);
    assert_int_equal(counted(0), 2);
}

/* A child that outlives the rank does not keep its place. */
static void test_a_child_that_stays(void **state)
{
    int ends[2], status;
    pid_t rank, child = -1;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    rank = fork();
    if (rank == 0) {
        uint64_t life = next(JOB, 0);

        child = fork();
        if (child == 0) {
            close(ends[1]);
            _exit(read(ends[0], &life, 1) != 0);
        }
        _exit((int)life);
    }
    assert_int_equal(waitpid(rank, &status, 0), rank);
    assert_int_equal(status, 0);
    assert_int_equal(next(JOB, 0), 1);
    close(ends[0]);
    close(ends[1]);
}

static void test_by_the_launchers_variables(void **state)
{
    struct nigh_open options = {.flags = NIGH_OPEN_DETECT};
    uint64_t life = 9;

    (void)state;
    assert_false(nigh_turn_begin(&options, &life));
    setenv("NIGH_JOB", "0x5EED", 1);
    assert_false(nigh_turn_begin(&options, &life));
    setenv("NIGH_RANK", "2x", 1);
    assert_false(nigh_turn_begin(&options, &life));
    assert_int_equal(life, 9);
    setenv("NIGH_RANK", "2", 1);
    assert_true(nigh_turn_begin(&options, &life));
    assert_int_equal(life, 0);
    assert_true(nigh_turn_begin(&options, &life));
    assert_int_equal(life, 1);
    assert_int_equal(counted(2), 2);
    setenv("NIGH_JOB", "5eee", 1);
    assert_false(nigh_turn_begin(&options, &life));
}

static void test_not_counted(void **state)
{
    static const char *const files[] = {"",    "/nonexistent", "/dev/null", "/proc/self/fd/0", "/etc/passwd",
                                        "/tmp"};
    uint64_t before;

    (void)state;
    assert_int_equal(next(JOB + 1, 0), UINT64_MAX);
    assert_int_equal(next(JOB, RANKS), UINT64_MAX);
    assert_int_equal(next(JOB, UINT32_MAX), UINT64_MAX);
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        name(JOB, files[i]);
        assert_int_equal(next(JOB, 0), UINT64_MAX);
    }
    setenv("NIGH_LIVES", "5eed", 1);
    assert_int_equal(next(JOB, 0), UINT64_MAX);
    setenv("NIGH_LIVES", "", 1);
    assert_int_equal(next(JOB, 0), UINT64_MAX);
    before = counted(0);
    assert_int_equal(before, 0);
    close(fd);
    open_file("something-else"); /* that has the place in another PID namespace */
    assert_int_equal(next(JOB, 0), UINT64_MAX);
    assert_int_equal(counted(0), 0);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_each_rank_for_itself),       CASE(test_what_is_undone_was_none),
        CASE(test_a_place_that_is_taken),      CASE(test_a_child_that_stays),
        CASE(test_by_the_launchers_variables), CASE(test_not_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
