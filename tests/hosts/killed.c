/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank exchanges with every other for ever; then rank 1 ends itself as the kernel would. The job must end. */
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#define MANY  16
#define BYTES 100000

int main(int argc, char **argv)
{
    static char out[BYTES], in[MANY][BYTES];
    MPI_Request requests[2 * MANY];
    int rank, ranks;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    alarm(120); /* a job that does not end must not stay */
    for (int turn = 0; ranks <= MANY; turn++) {
        for (int r = 0; r < ranks; r++) {
            MPI_Irecv(in[r], BYTES, MPI_BYTE, r, 0, MPI_COMM_WORLD, &requests[2 * r]);
            MPI_Isend(out, turn % 2 ? BYTES : 8, MPI_BYTE, r, 0, MPI_COMM_WORLD, &requests[2 * r + 1]);
        }
        if (turn == 50 && rank == 1) {
            /* Into a file: a launcher that ends because of the death may lose what it had not passed on yet. */
            int told = argc > 1 ? open(argv[1], O_CREAT | O_WRONLY | O_CLOEXEC, 0600) : -1;

            if (told >= 0)
                raise(SIGKILL);
        }
        MPI_Waitall(2 * ranks, requests, MPI_STATUSES_IGNORE);
    }
    MPI_Finalize();
    return 0;
}
