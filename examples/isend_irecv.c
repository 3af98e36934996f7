/* SPDX-License-Identifier: BSD-3-Clause */
/* Everybody sends 0, 1, 2, ... times its own number to everybody and receives from everybody: all receives and sends
 * are started, and one call waits for all of them.
 *
 *     nigh-run -n 4 isend_irecv
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 10, TAG = 11 };

static void arange(int *numbers, int factor)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = i * factor;
}

int main(void)
{
    int rank, size, mine[COUNT], (*theirs)[COUNT];
    nigh_request *requests;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    theirs = malloc((size_t)size * sizeof *theirs);
    requests = malloc(2 * (size_t)size * sizeof *requests);

    arange(mine, rank + 1);
    for (int i = 0; i < size; i++)
        MUST(nigh_irecv(theirs[i], sizeof theirs[i], i, TAG, nigh_world(), &requests[i]));
    for (int i = 0; i < size; i++)
        MUST(nigh_isend(mine, sizeof mine, i, TAG, nigh_world(), &requests[size + i]));
    MUST(nigh_waitall(2 * size, requests, NIGH_STATUSES_IGNORE));

    printf("rank %d: the last numbers of all are", rank);
    for (int i = 0; i < size; i++)
        printf(" %d", theirs[i][COUNT - 1]);
    printf("\n");
    free(theirs);
    free(requests);
    return nigh_finalize() != 0;
}
