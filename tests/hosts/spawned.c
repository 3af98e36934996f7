/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts two more of itself, which answer: a job grows, and processes meet that have another MPI_COMM_WORLD. The
 * first one prints what came of it. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { CHILDREN = 2, WORDS = 100000 };

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

static int child(MPI_Comm parent)
{
    int rank, sum, one = 1;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Recv(words, WORDS, MPI_INT, 0, rank, parent, MPI_STATUS_IGNORE);
    sum = right(rank);
    fill(rank + CHILDREN);
    MPI_Send(words, WORDS, MPI_INT, 0, sum, parent);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, parent);
    MPI_Comm_disconnect(&parent);
    return sum != 1;
}

int main(int argc, char **argv)
{
    MPI_Comm parent, children;
    MPI_Status status;
    int good = 0, one = 1, sum;

    MPI_Init(&argc, &argv);
    alarm(120);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        int wrong = child(parent);

        MPI_Finalize();
        return wrong;
    }
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, CHILDREN, MPI_INFO_NULL, 0, MPI_COMM_SELF, &children,
                   MPI_ERRCODES_IGNORE);
    for (int i = 0; i < CHILDREN; i++) {
        fill(i);
        MPI_Send(words, WORDS, MPI_INT, i, i, children);
    }
    for (int i = 0; i < CHILDREN; i++) {
        MPI_Recv(words, WORDS, MPI_INT, i, MPI_ANY_TAG, children, &status);
        good += status.MPI_TAG == 1 && right(i + CHILDREN);
    }
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, children);
    MPI_Comm_disconnect(&children);
    printf("%d of %d children answered, %d heard all\n", good, CHILDREN, sum);
    MPI_Finalize();
    return good != CHILDREN || sum != CHILDREN;
}
