/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport that is wrong: $NIGH_REAL_PLUGIN with one byte changed of each received message, and of each collective's
 * result, from the 20th on (a benchmark may check only some of them). What goes to or from a device's memory by a receive, a put or a
 * get goes past it from then on, and completes as if it had been there. It is how a test of its checks can fail. */
#include "nigh/transport.h"

#include <dlfcn.h>
#include <stdlib.h>

enum { WRONG_MESSAGE = 20, SHORTEST = 8 }; /* early: a loaded machine gets to few messages in a short run */

static const struct nigh_ops *real;
static struct nigh_ops wrong;
static uint8_t *last_buffer;
static uint64_t received, on_devices;

/* Memory of the host in a device's place, which stays: NULL before the 20th. */
static void *elsewhere(uint64_t bytes)
{
    return ++on_devices < WRONG_MESSAGE ? NULL : calloc(1, bytes);
}

static int post_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    struct nigh_recv past = *recv;

    last_buffer = recv->flags & NIGH_DEVICE ? NULL : recv->buffer;
    if (recv->flags & NIGH_DEVICE && (past.buffer = elsewhere(recv->bytes))) {
        past.flags &= ~NIGH_DEVICE;
        past.region = NULL;
        return real->post_recv(context, from, &past);
    }
    return real->post_recv(context, from, recv);
}

static struct nigh_rma moved(const struct nigh_rma *rma)
{
    struct nigh_rma past = *rma;

    if (rma->flags & NIGH_DEVICE && (past.buffer = elsewhere(rma->bytes))) {
        past.flags &= ~NIGH_DEVICE;
        past.region = NULL;
        return past;
    }
    return *rma;
}

static int post_put(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    struct nigh_rma put = moved(rma);

    return real->post_put(endpoint, &put);
}

static int post_get(struct nigh_endpoint *endpoint, const struct nigh_rma *rma)
{
    struct nigh_rma get = moved(rma);

    return real->post_get(endpoint, &get);
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
    wrong.post_put = post_put;
    wrong.post_get = post_get;
    wrong.post_collective = post_collective;
    wrong.poll_completions = poll_completions;
    return &wrong;
}
