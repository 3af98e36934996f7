/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that is short of memory: $NIGH_REAL_PLUGIN, whose first receive of a verdict (traffic class and tag as libnigh
 * has them: lib/core.h, lib/control.h) is refused with -ENOMEM, and its first claim of a message. With $NIGH_SCARCE_SLOTS it
 * is of a time before the last slot that libnigh uses. */
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
    if (getenv("NIGH_SCARCE_SLOTS"))
        scarce.size = offsetof(struct nigh_ops, expect);
    return &scarce;
}
