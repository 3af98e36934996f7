/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of one rank that all others use without asking it: a counter that everybody draws tickets from, and a board on
 * which each leaves its name.
 *
 *     nigh-run -n 4 tickets
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { EACH = 100 };

int main(void)
{
    int rank, size;
    int64_t one = 1, ticket, last = -1, *memory;
    struct nigh_win *win;
    void *base;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    /* Rank 0 shows the counter and a place for each rank, the others nothing. */
    MUST(nigh_win_allocate(rank == 0 ? (uint64_t)(1 + size) * 8 : 0, nigh_world(), &base, &win));
    for (int i = 0; i < EACH; i++) {
        MUST(nigh_get_accumulate(&one, 1, NIGH_I64, &ticket, 0, 0, NIGH_SUM, win));
        MUST(nigh_win_flush(0, win));
        if (ticket <= last)
            return 1;
        last = ticket;
    }
    ticket = rank + 1000;
    MUST(nigh_put(&ticket, sizeof ticket, 0, (uint64_t)(1 + rank) * 8, win));
    MUST(nigh_win_fence(win));
    memory = base;
    if (rank == 0)
        printf("rank 0: %d tickets drawn, the last rank wrote %d\n", (int)memory[0], (int)memory[size]);
    MUST(nigh_win_free(&win));
    return nigh_finalize() != 0;
}
