/* SPDX-License-Identifier: BSD-3-Clause */
/* Every rank passes its data to the right. The ends have no neighbour: NIGH_PROC_NULL stands for nobody, so that all
 * ranks run the same lines.
 *
 *     nigh-run -n 4 chain
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 3, TAG = 0 };

int main(void)
{
    int rank, size, left, right, mine[COUNT], theirs[COUNT] = {0};
    nigh_request requests[2];
    struct nigh_status statuses[2];

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    left = rank > 0 ? rank - 1 : NIGH_PROC_NULL;
    right = rank < size - 1 ? rank + 1 : NIGH_PROC_NULL;
    for (int i = 0; i < COUNT; i++)
        mine[i] = 10 * rank + i;

    MUST(nigh_irecv(theirs, sizeof theirs, left, TAG, nigh_world(), &requests[0]));
    MUST(nigh_isend(mine, sizeof mine, right, TAG, nigh_world(), &requests[1]));
    MUST(nigh_waitall(2, requests, statuses));

    if (statuses[0].source == NIGH_PROC_NULL)
        printf("rank %d: has no left neighbour\n", rank);
    else
        printf("rank %d: got %d %d %d from rank %d\n", rank, theirs[0], theirs[1], theirs[2],
               statuses[0].source);
    return nigh_finalize() != 0;
}
