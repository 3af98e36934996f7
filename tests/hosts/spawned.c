/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts two more of itself, which answer: a job grows, and processes meet that have another MPI_COMM_WORLD. The
 * first one prints what came of it. With a number it does so as often, with few descriptors: those of programs that have
 * ended are given back. */
#include "tests/support/footprint.h"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { CHILDREN = 2, CALLS = 40, WORDS = 100000, WARM = 3, DESCRIPTORS = 80 };

static int words[WORDS];

static void fill(int seed)
{
    for (int i = 0; i < WORDS; i++)
        words[i] = seed * WORDS + i;
}

static int right(int seed)
{
    int count = 0;

    for (int i = 0; i < WORDS; i++)
        count += words[i] == seed * WORDS + i;
    return count == WORDS;
}

/* One communicator of parent and children. One child calls as a program does whose collectives nothing of nigh's sees, as one in
 * Fortran over Open MPI. Returns how many results are wrong. */
static int merged(MPI_Comm others, int is_child, int rank)
{
    int wrong = 0, sum, one = 1;
    MPI_Comm all;

    MPI_Intercomm_merge(others, is_child, &all);
    for (int i = 0; i < CALLS; i++) {
        if (is_child && rank == 1)
            PMPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        else
            MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
        wrong += sum != CHILDREN + 1;
    }
    MPI_Comm_free(&all);
    return wrong;
}

static int child(MPI_Comm parent)
{
    int rank, sum, wrong, one = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Recv(words, WORDS, MPI_INT, 0, rank, parent, MPI_STATUS_IGNORE);
    sum = right(rank);
    fill(rank + CHILDREN);
    MPI_Send(words, WORDS, MPI_INT, 0, sum, parent);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent);
    wrong = merged(parent, 1, rank) + (sum != 1);
    MPI_Comm_disconnect(&parent);
    return wrong;
}

/* How many children have answered, and *sum of them heard all. */
static int start(char *program, int *sum)
{
    MPI_Comm children;
    MPI_Status status;
    int good = 0, one = 1;

    MPI_Comm_spawn(program, MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    for (int i = 0; i < CHILDREN; i++) {
        fill(i);
        MPI_Send(words, WORDS, MPI_INT, i, i, children);
    }
    for (int i = 0; i < CHILDREN; i++) {
        MPI_Recv(words, WORDS, MPI_INT, i, MPI_ANY_TAG, children, &status);
        good += status.MPI_TAG == 1 && right(i + CHILDREN);
    }
    MPI_Allreduce(&one, sum, 1, MPI_INT, MPI_SUM, children);
    if (merged(children, 0, 0))
        good = 0;
    MPI_Comm_disconnect(&children);
    return good;
}

/* That the last ones have ended may not have been noticed yet. */
static int start_often(char *program, int times)
{
    struct rlimit few = {DESCRIPTORS, DESCRIPTORS};
    struct footprint before = {0}, now;
    int sum, wrong = 0;

    setrlimit(RLIMIT_NOFILE, &few);
    for (int i = 0; i < times; i++) {
        wrong |= start(program, &sum) != CHILDREN || sum != CHILDREN;
        if (i < WARM)
            before = footprint_now();
    }
    now = footprint_now();
    printf("%d times %s, descriptors %u and %u, mappings %u and %u\n", times, wrong ? "not all" : "all",
           before.descriptors, now.descriptors, before.mappings, now.mappings);
    return wrong || now.descriptors > before.descriptors + 3 * CHILDREN ||
           now.mappings > before.mappings + 6 * CHILDREN;
}

int main(int argc, char **argv)
{
    MPI_Comm parent;
    int wrong, good, sum;

    MPI_Init(&argc, &argv);
    alarm(120);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        wrong = child(parent);
    } else if (argc > 1) {
        wrong = start_often(argv[0], atoi(argv[1]));
    } else {
        good = start(argv[0], &sum);
        printf("%d of %d children answered, %d heard all\n", good, CHILDREN, sum);
        wrong = good != CHILDREN || sum != CHILDREN;
    }
    MPI_Finalize();
    return wrong;
}
