/* SPDX-License-Identifier: BSD-3-Clause */
/* The first program: rank 0 sends a thousand floats to rank 1, and both wait until that is done.
 *
 *     nigh-run -n 2 send_recv
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 1000, TAG = 7 };

int main(void)
{
    float numbers[COUNT];
    struct nigh_status status;
    int rank, equal = 0;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank == 0) {
        for (int i = 0; i < COUNT; i++)
            numbers[i] = 0.5f * (float)i;
        MUST(nigh_send(numbers, sizeof numbers, 1, TAG, nigh_world()));
        printf("rank 0 has sent %d floats\n", COUNT);
    } else if (rank == 1) {
        MUST(nigh_recv(numbers, sizeof numbers, 0, TAG, nigh_world(), &status));
        for (int i = 0; i < COUNT; i++)
            equal += numbers[i] == 0.5f * (float)i;
        printf("rank 1 got %llu bytes from rank %d, tag %d: %d of %d floats are equal\n",
               (unsigned long long)status.bytes, status.source, status.tag, equal, COUNT);
    }
    return nigh_finalize() != 0;
}
