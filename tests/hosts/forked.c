/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An MPI program that forks while its messages are under way, long ones out of malloc'ed buffers; built by
 * tests/hosts/mpi_run. Children write over all they have; nobody else may see that. Before its first fork a rank's memory
 * is its peers' to read, behind it no longer, so what it sends then must not be read where it was. Messages lie in pages of
 * their own (hosts/malloc/README.md has why).
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 60, FORKS = 7, MESSAGES = 12, LONGEST = 320 * 1024 };

static int rank, size;
static unsigned char *out, *in;

static size_t bytes_of(int round, int message)
{
    return (size_t)(1 + (round * 5 + message * 3) % 10) * 32 * 1024 - (size_t)(round % 3);
}

static unsigned char byte_of(int from, int round, int message, size_t at)
{
    return (unsigned char)(at * 7 + at / 4096 + (unsigned)(from * 11 + round * 31 + message * 101));
}

static void fill(int round)
{
    for (int i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < bytes_of(round, i); at++)
            out[(size_t)i * LONGEST + at] = byte_of(rank, round, i, at);
}

static int wrong(int from, int round)
{
    for (int i = 0; i < MESSAGES; i++)
        for (size_t at = 0; at < bytes_of(round, i); at++)
            if (in[(size_t)i * LONGEST + at] != byte_of(from, round, i, at)) {
                printf("rank %d, round %d: byte %zu of message %d is wrong\n", rank, round, at, i);
                return 1;
            }
    return 0;
}

/* How many peers' memory is mapped here, all of it read-only; of our own, which has the same name, that is a page. */
static int mapped(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    unsigned long from, to;
    char line[512], rights[8];
    int count = 0;

    while (maps && fgets(line, sizeof(line), maps))
        count += strstr(line, "memfd:nigh-malloc") && sscanf(line, "%lx-%lx %7s", &from, &to, rights) == 3 &&
                 to - from > 4096 && strcmp(rights, "r--s") == 0;
    if (maps)
        fclose(maps);
    return count;
}

/* Every rank in rounds of its own, at times that differ by the round. */
static pid_t fork_in(int round)
{
    pid_t child;

    if (round % FORKS != rank % FORKS)
        return 0;
    usleep((useconds_t)(round * 7 % 50));
    child = fork();
    if (child)
        return child;
    memset(out, 0xee, (size_t)MESSAGES * LONGEST);
    memset(in, 0xdd, (size_t)MESSAGES * LONGEST);
    free(in);
    _exit(0);
}

int main(int argc, char **argv)
{
    MPI_Request request[2 * MESSAGES];
    int failed = 0, all, forks = 0, peers = 0, before, behind;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    before = (rank + size - 1) % size, behind = (rank + 1) % size;
    out = aligned_alloc(4096, (size_t)MESSAGES * LONGEST);
    in = aligned_alloc(4096, (size_t)MESSAGES * LONGEST);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child;

        fill(round);
        for (int i = 0; i < MESSAGES; i++)
            MPI_Irecv(in + (size_t)i * LONGEST, LONGEST, MPI_BYTE, before, i, MPI_COMM_WORLD, &request[i]);
        for (int i = 0; i < MESSAGES; i++)
            MPI_Isend(out + (size_t)i * LONGEST, (int)bytes_of(round, i), MPI_BYTE, behind, i, MPI_COMM_WORLD,
                      &request[MESSAGES + i]);
        child = fork_in(round);
        MPI_Waitall(2 * MESSAGES, request, MPI_STATUSES_IGNORE);
        if (round == 0)
            peers = mapped();
        failed |= child < 0 || wrong(before, round);
        if (child > 0)
            forks += waitpid(child, NULL, 0) == child;
    }
    MPI_Allreduce(&failed, &all, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (rank == 0 && !all)
        printf("all right, %d forks, %d peers mapped\n", forks, peers);
    free(out);
    free(in);
    MPI_Finalize();
    return all;
}
