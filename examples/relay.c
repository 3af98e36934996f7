/* SPDX-License-Identifier: BSD-3-Clause */
/* A relay: rank 0 starts a value, every rank in between adds 10 and passes it on, the last one prints it.
 *
 *     nigh-run -n 4 relay
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { START = 5, TAG = 0 };

int main(void)
{
    struct nigh_comm *world;
    int rank, size, value = START;

    MUST(nigh_init(NULL));
    world = nigh_world();
    MUST(nigh_comm_rank(world, &rank));
    MUST(nigh_comm_size(world, &size));
    if (rank > 0)
        MUST(nigh_recv(&value, sizeof value, rank - 1, TAG, world, NIGH_STATUS_IGNORE));
    if (rank > 0 && rank < size - 1)
        value += 10;
    if (rank < size - 1)
        MUST(nigh_send(&value, sizeof value, rank + 1, TAG, world));
    else
        printf("rank %d: %d + 10 * %d = %d\n", rank, START, size > 2 ? size - 2 : 0, value);
    return nigh_finalize() != 0;
}
