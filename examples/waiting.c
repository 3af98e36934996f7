/* SPDX-License-Identifier: BSD-3-Clause */
/* Five ways to wait for several requests. Rank 0 receives from everybody else, the same each time; the numbers that it
 * gets must add up whichever way it waits.
 *
 *     nigh-run -n 4 waiting
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { MOST = 100 };

static int count,
    ended[MOST + 1]; /* how many requests there are; their indices, in the order in which they end */
static nigh_request requests[MOST];
static struct nigh_status statuses[MOST];

static void wait_all(void)
{
    MUST(nigh_waitall(count, requests, statuses));
    for (int i = 0; i < count; i++)
        ended[i] = i;
}

/* One at a time: each index comes once, then NIGH_UNDEFINED. */
static void wait_any(void)
{
    int n = 0;

    do
        MUST(nigh_waitany(count, requests, &ended[n], NIGH_STATUS_IGNORE));
    while (ended[n++] != NIGH_UNDEFINED);
}

/* As many as have ended by now, at least one. */
static void wait_some(void)
{
    int found, n = 0;

    for (;; n += found) {
        MUST(nigh_waitsome(count, requests, &found, &ended[n], statuses));
        if (found == NIGH_UNDEFINED)
            return;
    }
}

/* The same without waiting: a program would compute in these loops. */
static void test_all(void)
{
    int done = 0;

    while (!done)
        MUST(nigh_testall(count, requests, &done, statuses));
    for (int i = 0; i < count; i++)
        ended[i] = i;
}

static void test_any(void)
{
    int done, n = 0;

    do
        MUST(nigh_testany(count, requests, &ended[n], &done, NIGH_STATUS_IGNORE));
    while (!done || ended[n++] != NIGH_UNDEFINED);
}

static void receive(const char *name, void (*wait)(void), int tag)
{
    int numbers[MOST], seen[MOST] = {0}, sum = 0, once = 0;

    for (int i = 0; i < count; i++)
        MUST(nigh_irecv(&numbers[i], sizeof numbers[i], i + 1, tag, nigh_world(), &requests[i]));
    wait();
    for (int i = 0; i < count; i++) {
        sum += numbers[ended[i]];
        once += ++seen[ended[i]] == 1;
    }
    printf("%-8s  %d of %d requests, each once; the sum is %d\n", name, once, count, sum);
}

int main(void)
{
    static void (*const wait[])(void) = {wait_all, wait_any, wait_some, test_all, test_any};
    static const char *const name[] = {"waitall", "waitany", "waitsome", "testall", "testany"};
    int rank, size;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    MUST(nigh_comm_size(nigh_world(), &size));
    count = size - 1 < MOST ? size - 1 : MOST;
    for (int tag = 0; tag < 5; tag++) {
        int number = 100 * tag + rank;

        if (rank == 0)
            receive(name[tag], wait[tag], tag);
        else if (rank <= count)
            MUST(nigh_send(&number, sizeof number, 0, tag, nigh_world()));
    }
    return nigh_finalize() != 0;
}
