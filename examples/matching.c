/* SPDX-License-Identifier: BSD-3-Clause */
/* Which message a receive gets: the first sent one whose source and tag fit, whatever kind of send and receive they
 * are.
 *
 *     nigh-run -n 2 matching
 */
#include <nigh/nigh.h>
#include <stdio.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

static const char words[][8] = {"one", "two", "three", "four", "five"};

static void send(void)
{
    static const int tags[] = {1, 2, 3, 3, 5};
    nigh_request requests[5];

    for (int i = 0; i < 5; i++)
        MUST(nigh_isend(words[i], sizeof words[i], 1, tags[i], nigh_world(), &requests[i]));
    MUST(nigh_waitall(5, requests, NIGH_STATUSES_IGNORE));
    MUST(nigh_ssend("last", 5, 1, 6, nigh_world())); /* ends when rank 1 has begun to receive it */
}

static void receive(const char *why, int source, int tag)
{
    struct nigh_status status;
    char word[8];

    MUST(nigh_recv(word, sizeof word, source, tag, nigh_world(), &status));
    printf("%s: \"%s\" from rank %d, tag %d\n", why, word, status.source, status.tag);
}

static void receive_later(void)
{
    nigh_request request;
    char word[8];

    MUST(nigh_irecv(word, sizeof word, 0, 6, nigh_world(), &request));
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
    printf("a non-blocking receive of a synchronous send: \"%s\"\n", word);
}

int main(void)
{
    int rank;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank == 0) {
        send();
    } else if (rank == 1) {
        receive("tag 2, though another one was sent before", 0, 2);
        receive("any tag, the first that is left", 0, NIGH_ANY_TAG);
        receive("tag 3, the earlier of two", 0, 3);
        receive("tag 3 from anyone", NIGH_ANY_SOURCE, 3);
        receive("anything", NIGH_ANY_SOURCE, NIGH_ANY_TAG);
        receive_later();
    }
    return nigh_finalize() != 0;
}
