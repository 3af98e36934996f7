/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/net.c - one set of calls over the tables of three versions. Each call is timed and named, for the parent. */
#include "tests/hosts/nccl/host.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct seen *host_seen;
_Atomic(int) host_warnings;

static void __attribute__((format(printf, 5, 6)))
log_line(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    va_list list;

    (void)flags, (void)file, (void)line;
    if (level != NCCL_LOG_WARN)
        return;
    host_warnings++;
    if (!getenv("NET_HOST_VERBOSE"))
        return;
    va_start(list, format);
    fputs("# plugin: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
}

bool net_load(struct net *net, const char *path, int version, char *why)
{
    char symbol[32];
    void *table;

    *net = (struct net){.path = path, .version = version};
    net->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!net->object) {
        snprintf(why, WHY_BYTES, "dlopen: %s", dlerror());
        return false;
    }
    snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
    table = dlsym(net->object, symbol);
    if (!table) {
        snprintf(why, WHY_BYTES, "it has no symbol %s", symbol);
        dlclose(net->object);
        return false;
    }
    net->v10 = version == 10 ? table : NULL;
    net->v11 = version == 11 ? table : NULL;
    net->v12 = version == 12 ? table : NULL;
    net->name = *(const char *const *)table;
    return true;
}

void net_unload(struct net *net)
{
    dlclose(net->object);
    net->object = NULL;
}

/* A slot that is the same in all versions. */
#define SLOT(net, slot) ((net)->v12 ? (net)->v12->slot : (net)->v11 ? (net)->v11->slot : (net)->v10->slot)

/* ---- times ------------------------------------------------------------------------------------------------------ */

static double enter(const char *call)
{
    if (host_seen)
        host_seen->call = call;
    return host_now();
}

static enum nccl_result leave(const char *call, double since, enum nccl_result result)
{
    uint64_t took = (uint64_t)((host_now() - since) * 1e9);

    if (host_seen && took > host_seen->longest_ns) {
        host_seen->longest_ns = took;
        host_seen->longest_call = call;
    }
    return result;
}

#define TIMED(call, expression)              \
    double since = enter(call);              \
    enum nccl_result result_ = (expression); \
    return leave(call, since, result_)

/* ---- calls ------------------------------------------------------------------------------------------------------ */

enum nccl_result net_init(const struct net *net, void **context)
{
    static _Atomic(uint64_t) communicators;
    struct nccl_config config = {.traffic_class = -1};

    *context = NULL;
    TIMED("init", net->v12   ? net->v12->init(context, ++communicators, &config, log_line, NULL)
                  : net->v11 ? net->v11->init(context, ++communicators, &config, log_line, NULL)
                             : net->v10->init(log_line, NULL));
}

enum nccl_result net_finalize(const struct net *net, void *context)
{
    if (net->v10)
        return NCCL_SUCCESS;
    TIMED("finalize", net->v12 ? net->v12->finalize(context) : net->v11->finalize(context));
}

enum nccl_result net_devices(const struct net *net, int *count)
{
    TIMED("devices", SLOT(net, devices)(count));
}

enum nccl_result net_properties(const struct net *net, int device, struct nccl_properties_v12 *out)
{
    struct nccl_properties_v11 v11;
    struct nccl_properties_v10 v10;
    enum nccl_result result;

    memset(out, 0, sizeof(*out));
    if (net->v12)
        return net->v12->properties(device, out);
    memset(&v10, 0, sizeof(v10));
    memset(&v11, 0, sizeof(v11));
    result = net->v11 ? net->v11->properties(device, &v11) : net->v10->properties(device, &v10);
    if (net->v11)
        memcpy(&v10, &v11, sizeof(v10));
    memcpy(out, &v10, offsetof(struct nccl_properties_v10, virtual_devices));
    memcpy(&out->virtual_devices, &v10.virtual_devices, sizeof(v10.virtual_devices));
    out->p2p_bytes_max = v10.p2p_bytes_max;
    out->collective_bytes_max = v10.collective_bytes_max;
    out->multi_request_max = net->v11 ? v11.multi_request_max : 1;
    out->rail = out->plane = -1;
    return result;
}

enum nccl_result net_listen(const struct net *net, void *context, void *handle, void **listener)
{
    *listener = NULL;
    TIMED("listen", net->v12   ? net->v12->listen(context, 0, handle, listener)
                    : net->v11 ? net->v11->listen(context, 0, handle, listener)
                               : net->v10->listen(0, handle, listener));
}

enum nccl_result net_connect(const struct net *net, void *context, void *handle, void **comm)
{
    struct nccl_config config = {.traffic_class = -1};
    void *device = NULL;

    TIMED("connect", net->v12   ? net->v12->connect(context, 0, handle, comm, &device)
                     : net->v11 ? net->v11->connect(context, 0, handle, comm, &device)
                                : net->v10->connect(0, &config, handle, comm, &device));
}

enum nccl_result net_accept(const struct net *net, void *listener, void **comm)
{
    void *device = NULL;

    TIMED("accept", SLOT(net, accept)(listener, comm, &device));
}

enum nccl_result net_close_listen(const struct net *net, void *listener)
{
    TIMED("closeListen", SLOT(net, close_listen)(listener));
}

enum nccl_result net_close_send(const struct net *net, void *comm)
{
    TIMED("closeSend", SLOT(net, close_send)(comm));
}

enum nccl_result net_close_recv(const struct net *net, void *comm)
{
    TIMED("closeRecv", SLOT(net, close_recv)(comm));
}

enum nccl_result net_register(const struct net *net, void *comm, void *data, size_t bytes, int type,
                              void **memory)
{
    TIMED("regMr", SLOT(net, register_memory)(comm, data, bytes, type, memory));
}

enum nccl_result net_deregister(const struct net *net, void *comm, void *memory)
{
    TIMED("deregMr", SLOT(net, deregister)(comm, memory));
}

enum nccl_result net_isend(const struct net *net, void *comm, void *data, size_t bytes, void *memory,
                           void **request)
{
    *request = NULL;
    TIMED("isend", SLOT(net, isend)(comm, data, bytes, 0, memory, NULL, request));
}

enum nccl_result net_irecv(const struct net *net, void *comm, void *data, size_t bytes, void *memory,
                           void **request)
{
    void *parents[1] = {NULL};
    int tags[1] = {0};

    TIMED("irecv", SLOT(net, irecv)(comm, 1, &data, &bytes, tags, &memory, parents, request));
}

enum nccl_result net_test(const struct net *net, void *request, int *done, int *bytes)
{
    TIMED("test", SLOT(net, test)(request, done, bytes));
}

#define NEEDED(slot, called)  \
    do {                      \
        if (!SLOT(net, slot)) \
            return called;    \
    } while (0)

const char *net_missing(const struct net *net)
{
    if (!net->name || !*net->name)
        return "name";
    if (net->v12 ? !net->v12->init : net->v11 ? !net->v11->init : !net->v10->init)
        return "init";
    if (net->v12 ? !net->v12->properties : net->v11 ? !net->v11->properties : !net->v10->properties)
        return "getProperties";
    if (net->v12 ? !net->v12->listen : net->v11 ? !net->v11->listen : !net->v10->listen)
        return "listen";
    if (net->v12 ? !net->v12->connect : net->v11 ? !net->v11->connect : !net->v10->connect)
        return "connect";
    if (net->v12 ? !net->v12->finalize : net->v11 && !net->v11->finalize)
        return "finalize";
    NEEDED(devices, "devices");
    NEEDED(accept, "accept");
    NEEDED(register_memory, "regMr");
    NEEDED(deregister, "deregMr");
    NEEDED(isend, "isend");
    NEEDED(irecv, "irecv");
    NEEDED(iflush, "iflush");
    NEEDED(test, "test");
    NEEDED(close_send, "closeSend");
    NEEDED(close_recv, "closeRecv");
    NEEDED(close_listen, "closeListen");
    return NULL;
}
