/* SPDX-License-Identifier: BSD-3-Clause */
/* Once around: a value visits every rank, each adds 10, and it comes back to rank 0. Then the form in which all ranks
 * do the same thing at the same time: everybody posts the receive, sends, and waits.
 *
 *     nigh-run -n 4 ring
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { START = 5, TAG = 0 };

static struct nigh_comm *world;
static int rank, left, right;

static void one_value(int size)
{
    int value = START;

    if (rank != 0) {
        MUST(nigh_recv(&value, sizeof value, left, TAG, world, NIGH_STATUS_IGNORE));
        value += 10;
    }
    MUST(nigh_send(&value, sizeof value, right, TAG, world));
    if (rank == 0) {
        MUST(nigh_recv(&value, sizeof value, left, TAG, world, NIGH_STATUS_IGNORE));
        printf("rank 0: %d + 10 * %d = %d\n", START, size - 1, value);
    }
}

static void everybody(void)
{
    nigh_request request;
    int mine = 100 + rank, theirs;

    MUST(nigh_irecv(&theirs, sizeof theirs, left, TAG, world, &request));
    MUST(nigh_send(&mine, sizeof mine, right, TAG, world));
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
    printf("rank %d: got %d from rank %d\n", rank, theirs, left);
}

int main(void)
{
    int size;

    MUST(nigh_init(NULL));
    world = nigh_world();
    MUST(nigh_comm_rank(world, &rank));
    MUST(nigh_comm_size(world, &size));
    left = (rank + size - 1) % size;
    right = (rank + 1) % size;
    one_value(size);
    everybody();
    return nigh_finalize() != 0;
}
