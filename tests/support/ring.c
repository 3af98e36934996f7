/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that passes a list of ranks around, under a launcher; with an argument rank 1 ends all of
 * them with status 7. */
#include "nigh/nigh.h"
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size;
    char list[64] = "0";

    (void)argv;
    if (nigh_init(NULL) != 0)
        return 1;
    nigh_comm_rank(nigh_world(), &rank);
    nigh_comm_size(nigh_world(), &size);
    if (argc > 1 && nigh_barrier(nigh_world()) == 0 && rank == 1)
        nigh_abort(7);
    if (rank > 0 || argc > 1)
        nigh_recv(list, sizeof(list), (rank + size - 1) % size, 1, nigh_world(), NIGH_STATUS_IGNORE);
    if (rank > 0)
        snprintf(list + strlen(list), sizeof(list) - strlen(list), " %d", rank);
    if (rank < size - 1)
        nigh_send(list, sizeof(list), rank + 1, 1, nigh_world());
    else
        puts(list);
    return nigh_finalize() == 0 ? 0 : 1;
}
