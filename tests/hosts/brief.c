/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/brief.c - a program that only begins and ends: whatever MPI's own messages are, they are last words. */
#include <mpi.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
