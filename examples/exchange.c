/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ranks exchange messages with blocking calls. Were both to send first, each would wait for the other to receive;
 * so one sends and then receives, the other receives and then sends. nigh_sendrecv does both at once and needs no such
 * order.
 *
 *     nigh-run -n 2 exchange
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 1 << 20, BYTES = COUNT * sizeof(int), TAG = 3 };

static void fill(int *numbers, int value)
{
    for (int i = 0; i < COUNT; i++)
        numbers[i] = value + i;
}

static void ordered(int rank, int *mine, int *theirs)
{
    int other = 1 - rank;

    if (rank == 0) {
        MUST(nigh_send(mine, BYTES, other, TAG, nigh_world()));
        MUST(nigh_recv(theirs, BYTES, other, TAG, nigh_world(), NIGH_STATUS_IGNORE));
    } else {
        MUST(nigh_recv(theirs, BYTES, other, TAG, nigh_world(), NIGH_STATUS_IGNORE));
        MUST(nigh_send(mine, BYTES, other, TAG, nigh_world()));
    }
}

int main(void)
{
    int *mine = malloc(BYTES), *theirs = malloc(BYTES), rank;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank < 2) {
        fill(mine, 100 * rank);
        ordered(rank, mine, theirs);
        printf("rank %d: in order, got %d .. %d\n", rank, theirs[0], theirs[COUNT - 1]);

        fill(mine, 100 * rank + 7);
        MUST(nigh_sendrecv(mine, BYTES, 1 - rank, TAG, theirs, BYTES, 1 - rank, TAG, nigh_world(),
                           NIGH_STATUS_IGNORE));
        printf("rank %d: at once, got %d .. %d\n", rank, theirs[0], theirs[COUNT - 1]);
    }
    free(mine);
    free(theirs);
    return nigh_finalize() != 0;
}
