/* SPDX-License-Identifier: BSD-3-Clause */
/* Records whose size the receiver does not know: it asks for the next message with a matched probe, which tells the
 * size and keeps the message for this receive alone, makes room, and receives. Once waiting, once with requests.
 *
 *     nigh-run -n 2 records
 */
#include <nigh/nigh.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUST(call) ((call) == 0 ? (void)0 : nigh_abort(1)) /* the reason is on stderr already */

enum { TAG = 4, ROOM = 256 };

/* A record is "key=value" strings, one after the other, each with its final zero. */
static size_t pack(char *record, const char *const *entries)
{
    size_t bytes = 0;

    for (; *entries; entries++)
        bytes += (size_t)sprintf(record + bytes, "%s", *entries) + 1;
    return bytes;
}

static void show(const char *how, const char *record, size_t bytes)
{
    printf("%s, %zu bytes:", how, bytes);
    for (size_t at = 0; at < bytes; at += strlen(record + at) + 1)
        printf(" %s", record + at);
    printf("\n");
}

static void send_records(void)
{
    static const char *const circle[] = {"shape=circle", "radius=2.5", NULL};
    static const char *const box[] = {"shape=box", "width=3", "height=4", "colour=blue", NULL};
    char record[ROOM];
    nigh_request request;

    MUST(nigh_send(record, pack(record, circle), 1, TAG, nigh_world()));
    MUST(nigh_isend(record, pack(record, box), 1, TAG, nigh_world(), &request));
    MUST(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static void receive_waiting(void)
{
    nigh_matched message;
    struct nigh_status status;
    char *record;

    MUST(nigh_mprobe(0, TAG, nigh_world(), &message, &status));
    record = malloc(status.bytes);
    MUST(nigh_mrecv(record, status.bytes, &message, &status));
    show("waiting", record, status.bytes);
    free(record);
}

static void receive_polling(void)
{
    nigh_matched message;
    nigh_request request;
    struct nigh_status status;
    char *record;
    int found = 0;

    while (!found)
        MUST(nigh_improbe(0, TAG, nigh_world(), &found, &message, &status));
    record = malloc(status.bytes);
    MUST(nigh_imrecv(record, status.bytes, &message, &request));
    MUST(nigh_wait(&request, &status));
    show("polling", record, status.bytes);
    free(record);
}

int main(void)
{
    int rank;

    MUST(nigh_init(NULL));
    MUST(nigh_comm_rank(nigh_world(), &rank));
    if (rank == 0) {
        send_records();
    } else if (rank == 1) {
        receive_waiting();
        receive_polling();
    }
    return nigh_finalize() != 0;
}
