/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/account.c - see account.h. */
#include "hosts/libfabric/account.h"
#include "hosts/append.h"
#include "hosts/libfabric/launcher.h"
#include "hosts/libfabric/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int describe(char *line, size_t room, const struct nigh_fi_job *job, const struct nigh_query_stats *s)
{
    return snprintf(
        line, room,
        "{\"launcher\": \"%s\", \"rank\": %" PRIu32 ", \"ranks\": %" PRIu32 ", \"pid\": %d, "
        "\"sent\": %" PRIu64 ", \"sent_bytes\": %" PRIu64 ", \"received\": %" PRIu64
        ", \"received_bytes\": %" PRIu64 ", \"inline\": %" PRIu64 ", \"eager\": %" PRIu64
        ", \"chunked\": %" PRIu64 ", \"heap\": %" PRIu64 ", \"cma\": %" PRIu64 ", \"put\": %" PRIu64
        ", \"get\": %" PRIu64 ", \"atomic\": %" PRIu64 ", \"unexpected\": %" PRIu64
        ", \"truncated\": %" PRIu64 ", \"peers_lost\": %" PRIu64 ", \"rescues\": %" PRIu64 "}\n",
        job->launcher, job->rank, job->size, (int)getpid(), s->sent, s->sent_bytes, s->received,
        s->received_bytes, s->inline_sent, s->eager_sent, s->chunked_sent, s->heap_sent, s->cma_sent, s->put,
        s->get, s->atomic, s->unexpected, s->truncated, s->peers_lost, s->rescues);
}

void nigh_fi_account(const struct nigh_fi_ep *ep)
{
    const char *path = getenv("NIGH_FI_ACCOUNT");
    struct nigh_query_stats stats = {.size = sizeof(stats)};
    uint64_t bytes = sizeof(stats);
    struct nigh_fi_job job;
    char line[1024];
    int length, rc;

    if (!path || !*path)
        return;
    rc = -ep->nigh->query(ep->context, NULL, NIGH_QUERY_STATS, &stats, &bytes);
    if (!rc) {
        nigh_fi_job_find(&job);
        length = describe(line, sizeof(line), &job, &stats);
        rc = nigh_host_append(path, line, (size_t)length);
    }
    if (rc)
        nigh_fi_log(NIGH_FI_WARN, "NIGH_FI_ACCOUNT is \"%s\": cannot be written: %s", path, strerror(rc));
}
