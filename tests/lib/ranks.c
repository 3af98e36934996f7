/* SPDX-License-Identifier: BSD-3-Clause */
/* Forks the ranks of a job, collects what they say, and tells which one failed where. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 16, NOTES = 16, SECONDS = 300 };

static _Atomic int *notes; /* shared by all ranks */
static int said_fd = -1;   /* this rank's standard error, a file */
static char said[1 << 16];
static uint64_t own_job;

const char *ranks_said(void)
{
    ssize_t bytes = pread(said_fd, said, sizeof(said) - 1, 0);

    said[bytes > 0 ? bytes : 0] = '\0';
    return said;
}

static void give_up(void)
{
    _exit(1);
}

void ranks_check(const char *file, int line, bool good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "%s:%d: not true: %s (last error: %s)\n", file, line, what, nigh_error_text());
    give_up();
}

void ranks_check_int(const char *file, int line, const char *what, long long got, long long expected)
{
    if (got == expected)
        return;
    fprintf(stderr, "%s:%d: %s is %lld, expected %lld (last error: %s)\n", file, line, what, got, expected,
            nigh_error_text());
    give_up();
}

void ranks_check_text(const char *file, int line, const char *text, const char *part)
{
    if (strstr(text, part))
        return;
    fprintf(stderr, "%s:%d: \"%s\" does not say \"%s\"\n", file, line, text, part);
    give_up();
}

void ranks_fill(void *buffer, uint64_t bytes, uint64_t seed)
{
    uint8_t *at = buffer;

    for (uint64_t i = 0; i < bytes; i++)
        at[i] = (uint8_t)((seed * 31 + i * 7 + (i >> 8)) & 0xff);
}

bool ranks_is_filled(const void *buffer, uint64_t bytes, uint64_t seed)
{
    const uint8_t *at = buffer;

    for (uint64_t i = 0; i < bytes; i++)
        if (at[i] != (uint8_t)((seed * 31 + i * 7 + (i >> 8)) & 0xff))
            return false;
    return true;
}

void ranks_nap(unsigned ms)
{
    struct timespec nap = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&nap, NULL);
}

uint64_t ranks_job(void)
{
    return own_job;
}

void ranks_tell(unsigned note)
{
    notes[note] = 1;
}

bool ranks_told(unsigned note)
{
    return notes[note] != 0;
}

void ranks_hear(unsigned note)
{
    for (int i = 0; !ranks_told(note); i++) {
        CHECK(i < 60000);
        ranks_nap(1);
    }
}

void ranks_poll(void)
{
    int flag;

    for (int i = 0; i < 10; i++)
        OK(nigh_iprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &flag, NIGH_STATUS_IGNORE));
}

static void live(int rank, int ranks, uint64_t job, ranks_body *body, const struct ranks_how *how)
{
    struct nigh_config config = {
        .size = sizeof(config),
        .set = 1,
        .rank = (uint32_t)rank,
        .ranks = (uint32_t)ranks,
        .job = job,
        .threads = how->threads,
        .progress = how->progress,
        .timeout = how->timeout,
    };

    alarm(SECONDS);
    own_job = job;
    if (how->environment)
        putenv((char *)(uintptr_t)how->environment);
    OK(nigh_init(&config));
    body(rank, ranks);
    if (!how->loose)
        CHECK_INT(nigh_finalize(), how->finalize);
    exit(0);
}

static pid_t start(int rank, int ranks, uint64_t job, ranks_body *body, const struct ranks_how *how, int fd)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    said_fd = fd;
    dup2(fd, STDERR_FILENO);
    live(rank, ranks, job, body, how);
    _exit(1);
}

static int open_file(void)
{
    FILE *file = tmpfile();
    int fd = file ? dup(fileno(file)) : -1;

    if (file)
        fclose(file);
    assert_true(fd >= 0);
    return fd;
}

static bool ended_well(int rank, int status, const struct ranks_how *how)
{
    return how->killed == rank + 1 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void ranks_run(int ranks, ranks_body *body, const struct ranks_how *how)
{
    static const struct ranks_how plain;
    static uint64_t number;
    uint64_t job = (uint64_t)getpid() << 32 | ++number;
    pid_t pids[RANKS_MAX];
    int fds[RANKS_MAX], failed = -1;
    char text[4096];

    assert_in_range(ranks, 1, RANKS_MAX);
    if (!how)
        how = &plain;
    if (!notes)
        notes = mmap(NULL, NOTES * sizeof(*notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(notes != MAP_FAILED);
    memset((void *)(uintptr_t)notes, 0, NOTES * sizeof(*notes));
    for (int rank = 0; rank < ranks; rank++) {
        fds[rank] = open_file();
        pids[rank] = start(rank, ranks, job, body, how, fds[rank]);
        assert_true(pids[rank] > 0);
    }
    for (int left = ranks; left > 0; left--) {
        int status, rank = 0;
        pid_t pid = wait(&status);

        while (rank < ranks && pids[rank] != pid)
            rank++;
        assert_true(rank < ranks);
        pids[rank] = 0;
        if (ended_well(rank, status, how) || failed >= 0)
            continue;
        failed = rank;
        print_error("rank %d of %d ended with status 0x%x\n", rank, ranks, status);
        for (int other = 0; other < ranks; other++)
            if (pids[other])
                kill(pids[other], SIGTERM);
    }
    for (int rank = 0; rank < ranks; rank++) {
        off_t all = lseek(fds[rank], 0, SEEK_END),
              from = all > (off_t)sizeof(text) - 1 ? all - (off_t)sizeof(text) + 1 : 0;
        ssize_t bytes = failed >= 0 ? pread(fds[rank], text, sizeof(text) - 1, from) : 0;

        if (bytes > 0) {
            text[bytes] = '\0';
            fprintf(stderr, "rank %d said:\n%s", rank, text);
        }
        close(fds[rank]);
    }
    assert_int_equal(failed, -1);
}

void ranks_run_all(ranks_body *body, const struct ranks_how *how)
{
    for (int ranks = 1; ranks <= 8; ranks *= 2)
        ranks_run(ranks, body, how);
}
