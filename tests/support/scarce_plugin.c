/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that is short of memory: $NIGH_REAL_PLUGIN, whose first receive of a verdict (traffic class and tag as
 * libnigh has them: lib/core.h, lib/control.h) is refused with -ENOMEM, its first claim of a message, and each release.
 * With $NIGH_SCARCE_SLOTS it is of a time before the last slot that libnigh uses. The collectives whose bits are set in
 * $NIGH_SCARCE_CALLS, bit 0 the first that this process posts, are refused with -ENOMEM. */
#include "nigh/transport.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { CONTROL = 6, VERDICT = 5 };

static const struct nigh_ops *real;
static struct nigh_ops scarce;
static bool receive_refused, claim_refused;
static void (*tell)(void *data, int level, const char *text);
static void *tell_data;

static int post_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    bool verdict = recv->tclass == CONTROL && (recv->tag & 0xffffffff) >> 24 == VERDICT;

    if (verdict && !receive_refused) {
        receive_refused = true;
        return -ENOMEM;
    }
    return real->post_recv(context, from, recv);
}

static int claim(struct nigh_context *context, struct nigh_message *message, const struct nigh_recv *recv)
{
    if (!claim_refused) {
        claim_refused = true;
        return -ENOMEM;
    }
    return real->claim(context, message, recv);
}

static int post_collective(struct nigh_group *group, const struct nigh_collective *call)
{
    static unsigned posted;
    const char *bits = getenv("NIGH_SCARCE_CALLS");

    if (bits && posted < 64 && strtoull(bits, NULL, 16) >> posted++ & 1)
        return -ENOMEM;
    return real->post_collective(group, call);
}

/* Refused with its own line and another one's. */
static int release(struct nigh_context *context, void *data)
{
    (void)context;
    (void)data;
    tell(tell_data, 0, "release: nothing is held");
    tell(tell_data, 0, "there is no memory");
    return -EINVAL;
}

static int open_told(const struct nigh_open *options, struct nigh_context **out)
{
    tell = options->log;
    tell_data = options->log_data;
    return real->open(options, out);
}

__attribute__((visibility("default"))) const struct nigh_ops *nigh_transport(uint32_t abi)
{
    const char *file = getenv("NIGH_REAL_PLUGIN");
    void *object = file ? dlopen(file, RTLD_NOW | RTLD_LOCAL) : NULL;
    nigh_transport_fn entry = NULL;

    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    real = entry ? entry(abi) : NULL;
    if (!real)
        return NULL;
    scarce = *real;
    scarce.post_recv = post_recv;
    scarce.claim = claim;
    scarce.release = release;
    scarce.post_collective = post_collective;
    scarce.open = open_told;
    if (getenv("NIGH_SCARCE_SLOTS"))
        scarce.size = offsetof(struct nigh_ops, group_end);
    return &scarce;
}
