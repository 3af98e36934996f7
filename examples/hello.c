/* SPDX-License-Identifier: BSD-3-Clause */
/* The whole life of a transport in one page: load it, join the job, connect, send or receive, leave.
 *
 *     nigh-run -n 2 hello
 *
 * Every rank sends a line to the next one and prints the line that it gets. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "nigh/transport.h"

#ifndef NIGH_PKGLIBDIR /* $(pkg-config --variable=pkglibdir nigh) */
#define NIGH_PKGLIBDIR "/usr/local/lib/nigh"
#endif

static const struct nigh_ops *nigh;

static void must(int rc, const char *what)
{
    if (rc >= 0)
        return;
    fprintf(stderr, "hello: %s: %s\n", what, strerror(-rc));
    exit(1);
}

/* NIGH_PLUGIN names the module; without it the one that was installed is taken. */
static void load(void)
{
    const char *path = getenv("NIGH_PLUGIN");
    void *object = dlopen(path ? path : NIGH_PKGLIBDIR "/nigh.so", RTLD_NOW);
    nigh_transport_fn entry = NULL;

    if (object)
        *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    if (!entry) {
        fprintf(stderr, "hello: cannot load nigh (%s): set NIGH_PLUGIN to nigh.so\n", dlerror());
        exit(1);
    }
    nigh = entry(NIGH_ABI);
    must(nigh ? 0 : -ELIBBAD, "the module is of another major version");
}

/* Waits until `left` operations have completed. */
static void finish(struct nigh_context *context, int left)
{
    struct nigh_completion done[4];

    while (left > 0) {
        int n = nigh->poll_completions(context, done, 4);

        must(n, "poll");
        for (int i = 0; i < n; i++)
            must(done[i].status, done[i].op == NIGH_OP_SEND ? "send" : "receive");
        left -= n;
        if (n == 0)
            must(nigh->wait(context, UINT64_MAX), "wait");
    }
}

int main(void)
{
    struct nigh_open options = {.size = sizeof options, .flags = NIGH_OPEN_DETECT};
    struct nigh_query_context me = {.size = sizeof me};
    struct nigh_connect next = {.size = sizeof next, .source = NIGH_SOURCE_NONE};
    struct nigh_send send = {.size = sizeof send, .tag = 7};
    struct nigh_recv receive = {.size = sizeof receive, .tag = 7};
    struct nigh_context *context;
    struct nigh_endpoint *endpoint;
    uint64_t room = sizeof me;
    char mine[64], theirs[64];

    load();
    must(nigh->open(&options, &context), "open (start me with nigh-run -n 2)");
    must(nigh->query(context, NULL, NIGH_QUERY_CONTEXT, &me, &room), "query");
    next.rank = (me.rank + 1) % me.ranks;
    must(nigh->connect(context, &next, &endpoint), "connect");

    receive.buffer = theirs;
    receive.bytes = sizeof theirs;
    must(nigh->post_recv(context, NULL, &receive), "receive");
    send.buffer = mine;
    send.bytes = (uint64_t)snprintf(mine, sizeof mine, "hello from rank %u of %u", me.rank, me.ranks) + 1;
    must(nigh->post_send(endpoint, &send), "send");
    finish(context, 2);

    printf("rank %u got: %s\n", me.rank, theirs);
    must(nigh->disconnect(endpoint), "disconnect");
    return nigh->close(context) == 0 ? 0 : 1;
}
