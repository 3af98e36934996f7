/* SPDX-License-Identifier: BSD-3-Clause */
/* Nobody has to wait: nigh_test alone brings a message in and a large one out, and says when it is done.
 *
 *     nigh-run -n 2 poll_until_done
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 1 << 20, TAG_DATA = 1, TAG_GO = 2 };

static void poll_until_done(nigh_request *request, struct nigh_status *status)
{
    int done = 0;

    while (!done)
        MUST(nigh_test(request, &done, status)); /* a real program does something useful in between */
}

static void send(int *numbers)
{
    nigh_request request;

    for (int i = 0; i < COUNT; i++)
        numbers[i] = i;
    MUST(nigh_recv(NULL, 0, 1, TAG_GO, nigh_world(), NIGH_STATUS_IGNORE));
    MUST(nigh_isend(numbers, COUNT * sizeof *numbers, 1, TAG_DATA, nigh_world(), &request));
    poll_until_done(&request, NIGH_STATUS_IGNORE);
    printf("rank 0: the send has ended\n");
}

static void receive(int *numbers)
{
    nigh_request request;
    struct nigh_status status;
    int done;

    MUST(nigh_irecv(numbers, COUNT * sizeof *numbers, 0, TAG_DATA, nigh_world(), &request));
    MUST(nigh_test(&request, &done, &status));
    printf("rank 1: before anything was sent nigh_test says %d\n", done);
    MUST(nigh_send(NULL, 0, 0, TAG_GO, nigh_world()));
    poll_until_done(&request, &status);
    printf("rank 1: the receive has ended, %llu bytes, the last number is %d\n",
           (unsigned long long)status.bytes, numbers[COUNT - 1]);
}

int main(void)
{
    int *numbers = malloc(COUNT * sizeof *numbers), rank;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank == 0)
        send(numbers);
    else if (rank == 1)
        receive(numbers);
    free(numbers);
    return nigh_finalize() != 0;
}
