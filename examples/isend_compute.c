/* SPDX-License-Identifier: BSD-3-Clause */
/* Compute while a message is under way: nigh_isend returns at once, and its buffer is the program's again after
 * nigh_wait.
 *
 *     nigh-run -n 2 isend_compute
 *     nigh-run -n 2 isend_compute mistake    every rank sends to itself, nobody receives: nigh_finalize names the messages
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { COUNT = 4000, TAG = 0 };

static long long computation(int from)
{
    long long sum = 0;

    for (int i = from; i < from + COUNT; i++)
        sum += i;
    return sum;
}

static void send(int dest)
{
    int numbers[COUNT];
    nigh_request request;
    long long sum;

    for (int i = 0; i < COUNT; i++)
        numbers[i] = i;
    MUST(nigh_isend(numbers, sizeof numbers, dest, TAG, nigh_world(), &request));
    sum =
        computation(0); /* of everything but `numbers`, which may be read, but not written, until the wait */
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++)
        numbers[i] = -1; /* the receiver has its own by now */
    printf("sent to rank %d, computed %lld meanwhile\n", dest, sum);
}

static void receive(void)
{
    int numbers[COUNT];
    long long sum = 0;

    MUST(nigh_recv(numbers, sizeof numbers, 0, TAG, nigh_world(), NIGH_STATUS_IGNORE));
    for (int i = 0; i < COUNT; i++)
        sum += numbers[i];
    printf("received: the sum is %lld\n", sum);
}

int main(int argc, char **argv)
{
    int rank;

    (void)argv;
    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (argc > 1)
        send(rank);
    else if (rank == 0)
        send(1);
    else if (rank == 1)
        receive();
    return nigh_finalize() != 0;
}
