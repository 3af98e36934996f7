/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank that is a script runs: turn MODE [FILE]. FILE is there once rank 0's next program has spoken. */
#include "nigh/nigh.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int rank, size;

static void must(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "turn: rank %d: not so: %s (%s)\n", rank, what, nigh_error_text());
    exit(1);
}

#define MUST(condition) must(condition, #condition)

/* With both neighbours, who say which program they are of. */
static int exchange(int value)
{
    int got = -1, rc;

    rc = nigh_sendrecv(&value, sizeof(value), (rank + 1) % size, 1, &got, sizeof(got),
                       (rank + size - 1) % size, 1, nigh_world(), NIGH_STATUS_IGNORE);
    return rc ? rc : got;
}

static void see_nothing(int times)
{
    for (int i = 0; i < times; i++) {
        int flag = 0;

        MUST(nigh_iprobe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &flag, NIGH_STATUS_IGNORE) == 0);
        MUST(!flag);
        usleep(10000);
    }
}

/* Rank 0 goes on to its next program, and rank 1 stays in this one until that has spoken. */
static void early(const char *file)
{
    MUST(exchange(1) == 1);
    MUST(nigh_comm_set_timeout(nigh_world(), 0.2) == 0);
    if (rank == 0) {
        MUST(nigh_finalize() == -ETIMEDOUT);
        return;
    }
    while (access(file, F_OK))
        see_nothing(1);
    see_nothing(20);
    (void)nigh_finalize(); /* rank 0 has left */
}

static void late(const char *file)
{
    int value = 2;

    if (rank == 0) {
        MUST(nigh_send(&value, sizeof(value), 1, 5, nigh_world()) == 0);
        close(open(file, O_CREAT | O_WRONLY, 0600));
    } else {
        MUST(nigh_recv(&value, sizeof(value), 0, 5, nigh_world(), NIGH_STATUS_IGNORE) == 0);
    }
    MUST(exchange(2) == 2);
    MUST(nigh_finalize() == 0);
}

/* Rank 1, without a word, once all have met it; the others hear of it. */
static void die(void)
{
    int value = 0;

    if (rank == 1) {
        for (int other = 0; other < size; other++)
            if (other != 1)
                MUST(nigh_recv(&value, sizeof(value), other, 5, nigh_world(), NIGH_STATUS_IGNORE) == 0);
        _exit(0);
    }
    MUST(nigh_send(&value, sizeof(value), 1, 5, nigh_world()) == 0);
    MUST(nigh_recv(&value, sizeof(value), 1, 5, nigh_world(), NIGH_STATUS_IGNORE) == -ECONNRESET);
    (void)nigh_finalize();
}

/* Another program in the middle of this one. */
static void nest(const char *program)
{
    char line[4200];

    MUST(exchange(1) == 1);
    snprintf(line, sizeof(line), "%s meet", program);
    MUST(system(line) != 0);
    MUST(exchange(1) == 1);
    MUST(nigh_finalize() == 0);
}

/* It was started without stdin, stdout and stderr, and prints all the same: into nothing. Its own file of data gets no line of
 * nigh's. */
static void print(void)
{
    struct stat stat;

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) >= 0 || write(fd, "a line", 6) != -1)
            _exit(fd + 10);
    if (exchange(1) != 1)
        _exit(20);
    for (int fd = 0; fd < 3; fd++)
        if (memfd_create("data", MFD_CLOEXEC) != fd)
            _exit(21);
    if (nigh_send(&rank, sizeof(rank), size, 0, nigh_world()) != -ERANGE)
        _exit(22);
    if (nigh_finalize() || fstat(2, &stat) || stat.st_size != 0)
        _exit(23);
}

static uint64_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    MUST(file && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Rank 0 has too little address space at first, in the end for nothing but libnigh's own tables: it
 * was in the job then. */
static void stumble(void)
{
    struct rlimit limit, all;
    int late = 0;

    MUST(getrlimit(RLIMIT_AS, &all) == 0);
    MUST(setenv("NIGH_HEAP", "4M", 1) == 0 && setenv("NIGH_POOL", "8M", 1) == 0);
    for (uint64_t more = 8 << 20; !nigh_initialized(); more += 8 << 20) {
        limit = (struct rlimit){.rlim_cur = address_space() + more, .rlim_max = all.rlim_max};
        MUST(setrlimit(RLIMIT_AS, &limit) == 0);
        if (nigh_init(NULL))
            late += strstr(nigh_error_text(), "no memory for the tables") != NULL;
        MUST(setrlimit(RLIMIT_AS, &all) == 0);
    }
    MUST(late > 0);
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "", *file = argc > 2 ? argv[2] : "", *me = getenv("NIGH_RANK");

    if (strcmp(mode, "stumble") == 0 && me && atoi(me) == 0)
        stumble();
    else if (nigh_init(NULL))
        return 1;
    MUST(nigh_comm_rank(nigh_world(), &rank) == 0 && nigh_comm_size(nigh_world(), &size) == 0);
    if (strcmp(mode, "early") == 0)
        early(file);
    else if (strcmp(mode, "late") == 0)
        late(file);
    else if (strcmp(mode, "nest") == 0)
        nest(argv[0]);
    else if (strcmp(mode, "print") == 0)
        print();
    else if (strcmp(mode, "die") == 0)
        die();
    else if (strcmp(mode, "meet") == 0 || strcmp(mode, "stumble") == 0)
        MUST(exchange(argc) == argc && nigh_finalize() == 0);
    else
        must(false, "a mode that there is");
    return 0;
}
