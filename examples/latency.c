/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a message takes one way: half of a round trip of 8 bytes, with blocking calls and with requests.
 * nigh-perf measures with more care; this is what one writes to get a first idea.
 *
 *     nigh-run -n 2 latency
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { WARM = 1000, TIMED = 10000, TAG = 0 };

static void send_blocking(int other)
{
    double word = 1;

    MUST(nigh_send(&word, sizeof word, other, TAG, nigh_world()));
}

static void recv_blocking(int other)
{
    double word;

    MUST(nigh_recv(&word, sizeof word, other, TAG, nigh_world(), NIGH_STATUS_IGNORE));
}

static void send_request(int other)
{
    double word = 1;
    nigh_request request;

    MUST(nigh_isend(&word, sizeof word, other, TAG, nigh_world(), &request));
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static void recv_request(int other)
{
    double word;
    nigh_request request;

    MUST(nigh_irecv(&word, sizeof word, other, TAG, nigh_world(), &request));
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static void measure(const char *what, int rank, void (*send)(int), void (*recv)(int))
{
    static double ns[TIMED];

    for (int i = -WARM; i < TIMED; i++) {
        double start = nigh_wtime();

        (rank == 0 ? send : recv)(1 - rank);
        (rank == 0 ? recv : send)(1 - rank);
        if (i >= 0)
            ns[i] = (nigh_wtime() - start) / 2 * 1e9;
    }
    qsort(ns, TIMED, sizeof *ns, ascending);
    if (rank == 0)
        printf("%-22s median %.0f ns, p99 %.0f ns\n", what, ns[TIMED / 2], ns[TIMED / 100 * 99]);
}

int main(void)
{
    int rank;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank < 2) {
        measure("send, recv:", rank, send_blocking, recv_blocking);
        measure("isend, irecv, wait:", rank, send_request, recv_request);
    }
    return nigh_finalize() != 0;
}
