/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that is wrong: $NIGH_REAL_PLUGIN with one byte changed of each received message, and of each collective's
 * result, from the 20th on (a benchmark may check only some of them). It is how a test of its checks can fail. */
#include "nigh/transport.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { WRONG_MESSAGE = 20, SHORTEST = 8 }; /* early: a loaded machine gets to few messages in a short run */

static const struct nigh_ops *real;
static struct nigh_ops wrong;
static uint8_t *last_buffer;
static uint64_t received;

static int post_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    last_buffer = recv->buffer;
    return real->post_recv(context, from, recv);
}

static int post_collective(struct nigh_group *group, const struct nigh_collective *call)
{
    last_buffer = call->recv; /* NULL: the root of a broadcast */
    return real->post_collective(group, call);
}

static int poll_completions(struct nigh_context *context, struct nigh_completion *out, uint32_t count)
{
    int n = real->poll_completions(context, out, count);

    for (int i = 0; i < n; i++)
        if ((out[i].op == NIGH_OP_RECV || out[i].op == NIGH_OP_COLLECTIVE) && last_buffer &&
            out[i].bytes >= SHORTEST && ++received >= WRONG_MESSAGE)
            last_buffer[out[i].bytes / 2] ^= 1;
    return n;
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
    wrong = *real;
    wrong.post_recv = post_recv;
    wrong.post_collective = post_collective;
    wrong.poll_completions = poll_completions;
    return &wrong;
}
