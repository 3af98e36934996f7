/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/entry.c - the tables that NCCL looks for: v12 since 2.30, v11 since 2.28, v10 since 2.27 at the latest. It takes the newest that
 * it knows. */
#include "hosts/nccl/entry.h"
#include "hosts/nccl/abi.h"
#include "hosts/nccl/comm.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"

#include <pthread.h>
#include <string.h>

#define EXPORTED __attribute__((visibility("default")))

enum {
    SPEED_MBPS = 100000, /* NCCL weighs networks by it: as a NIC of this speed */
    COMMS_MAX = 65536,
    GUID = 0x6e696768,
};

/* ---- v10's contexts -------------------------------------------------------------------------------------------- */

/*
 * v10 does not say which communicator a connection belongs to, and connections of one context can end together. Each of NCCL's
 * communicators has a service thread that makes its connections, so each thread has a context, and one more from each init() on
 * that it calls.
 */
static pthread_mutex_t shared_lock = PTHREAD_MUTEX_INITIALIZER; /* of the list, and of `users` */
static struct nigh_nccl_context *shared;
static _Atomic(uint64_t) groups;
static _Thread_local uint64_t group;

void nigh_nccl_shared_hold(struct nigh_nccl_context *context)
{
    if (!context->group)
        return;
    pthread_mutex_lock(&shared_lock);
    context->users++;
    pthread_mutex_unlock(&shared_lock);
}

/* Under the list's lock. */
static bool is_last(struct nigh_nccl_context *context)
{
    bool last;

    if (--context->users)
        return false;
    nigh_nccl_turn_wait(&context->turn);
    last = !context->comms && !context->listeners;
    nigh_nccl_turn_give(&context->turn);
    return last;
}

void nigh_nccl_shared_drop(struct nigh_nccl_context *context)
{
    struct nigh_nccl_context **at = &shared;
    bool last;

    if (!context->group)
        return;
    pthread_mutex_lock(&shared_lock);
    last = is_last(context);
    while (last && *at != context)
        at = &(*at)->next;
    if (last)
        *at = context->next;
    pthread_mutex_unlock(&shared_lock);
    if (last)
        nigh_nccl_context_close(context);
}

/* The context of the thread's group, held; NULL: there is none yet. */
static struct nigh_nccl_context *shared_find(void)
{
    struct nigh_nccl_context *context;

    pthread_mutex_lock(&shared_lock);
    for (context = shared; context && context->group != group;)
        context = context->next;
    if (context)
        context->users++;
    pthread_mutex_unlock(&shared_lock);
    return context;
}

/* The same, opened if need be: no other thread opens one for this group. */
static int shared_get(struct nigh_nccl_context **out)
{
    int rc;

    group = group ? group : ++groups;
    *out = shared_find();
    if (*out)
        return 0;
    rc = nigh_nccl_context_open(out);
    if (rc)
        return rc;
    (*out)->group = group;
    (*out)->users = 1;
    pthread_mutex_lock(&shared_lock);
    (*out)->next = shared;
    shared = *out;
    pthread_mutex_unlock(&shared_lock);
    return 0;
}

void nigh_nccl_shared_forked(void)
{
    shared_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    shared = NULL;
    group = 0;
}

/* Whether nigh can be used: the context is opened again for the first listener. */
static enum nccl_result init_v10(nccl_logger logger, nccl_profiler profiler)
{
    struct nigh_nccl_context *context;
    int rc;

    (void)profiler;
    nigh_nccl_log_to(logger);
    group = ++groups;
    rc = shared_get(&context);
    if (!rc)
        nigh_nccl_shared_drop(context);
    return nigh_nccl_result(rc);
}

static enum nccl_result listen_v10(int device, void *handle, void **listener)
{
    struct nigh_nccl_context *context;
    enum nccl_result result;
    int rc = shared_get(&context);

    if (rc)
        return nigh_nccl_result(rc);
    result = nigh_nccl_listen(context, device, handle, listener);
    nigh_nccl_shared_drop(context);
    return result;
}

static enum nccl_result connect_v10(int device, struct nccl_config *config, void *handle, void **comm,
                                    void **device_comm)
{
    struct nigh_nccl_context *context = nigh_nccl_connecting(handle);
    enum nccl_result result;
    int rc = 0;

    (void)config, (void)device_comm;
    if (context && context->group)
        nigh_nccl_shared_hold(context);
    else
        rc = shared_get(&context);
    if (rc)
        return nigh_nccl_result(rc);
    result = nigh_nccl_connect(context, device, handle, comm);
    nigh_nccl_shared_drop(context);
    return result;
}

/* ---- v11 and v12 ---------------------------------------------------------------------------------------------- */

static enum nccl_result init(void **out, uint64_t communicator, struct nccl_config *config,
                             nccl_logger logger, nccl_profiler profiler)
{
    struct nigh_nccl_context *context;
    int rc;

    (void)communicator, (void)config, (void)profiler;
    nigh_nccl_log_to(logger);
    if (!out)
        return NCCL_INVALID_ARGUMENT;
    rc = nigh_nccl_context_open(&context);
    if (!rc)
        *out = context->number;
    return nigh_nccl_result(rc);
}

static enum nccl_result listen_in(void *number, int device, void *handle, void **listener)
{
    struct nigh_nccl_context *context;
    enum nccl_result result = nigh_nccl_context_of(number, "listen", &context);

    return result ? result : nigh_nccl_listen(context, device, handle, listener);
}

static enum nccl_result connect_in(void *number, int device, void *handle, void **comm, void **device_comm)
{
    struct nigh_nccl_context *context;
    enum nccl_result result = nigh_nccl_context_of(number, "connect", &context);

    (void)device_comm; /* of offloads to a device, which are not offered */
    return result ? result : nigh_nccl_connect(context, device, handle, comm);
}

static enum nccl_result finalize(void *number)
{
    struct nigh_nccl_context *context;
    enum nccl_result result = nigh_nccl_context_of(number, "finalize", &context);

    if (!result)
        nigh_nccl_context_close(context);
    return result;
}

/* ---- properties ----------------------------------------------------------------------------------------------- */

static enum nccl_result devices(int *count)
{
    if (!count)
        return NCCL_INVALID_ARGUMENT;
    *count = 1;
    return NCCL_SUCCESS;
}

static enum nccl_result properties_v12(int device, struct nccl_properties_v12 *out)
{
    if (device != 0 || !out) {
        nigh_nccl_warn("getProperties: there is no device %d: 0 is the only one", device);
        return NCCL_INVALID_ARGUMENT;
    }
    *out = (struct nccl_properties_v12){
        .name = "nigh",
        .guid = GUID,
        .pointers = nigh_nccl_pointers(),
        .speed = SPEED_MBPS,
        .latency = 1, /* NCCL takes whole microseconds */
        .comms_max = COMMS_MAX,
        .receives_max = 1,
        .virtual_devices = {.count = 1, .devices = {device}},
        .p2p_bytes_max = NCCL_BYTES_MAX,
        .collective_bytes_max = NCCL_BYTES_MAX,
        .multi_request_max = 1,
        .rail = -1,
        .plane = -1,
    };
    return NCCL_SUCCESS;
}

/* The older ones are the beginning of v12's, with fewer virtual devices. */
static enum nccl_result properties_v11(int device, struct nccl_properties_v11 *out)
{
    struct nccl_properties_v12 now;
    enum nccl_result result = properties_v12(device, out ? &now : NULL);

    if (result)
        return result;
    memset(out, 0, sizeof(*out));
    memcpy(out, &now, offsetof(struct nccl_properties_v12, virtual_devices));
    out->virtual_devices.count = 1;
    out->p2p_bytes_max = now.p2p_bytes_max;
    out->collective_bytes_max = now.collective_bytes_max;
    out->multi_request_max = now.multi_request_max;
    return NCCL_SUCCESS;
}

static enum nccl_result properties_v10(int device, struct nccl_properties_v10 *out)
{
    struct nccl_properties_v11 now;
    enum nccl_result result = properties_v11(device, out ? &now : NULL);

    if (!result)
        memcpy(out, &now, sizeof(*out));
    return result;
}
_Static_assert(offsetof(struct nccl_properties_v11, multi_request_max) == sizeof(struct nccl_properties_v10),
               "v10 is the beginning of v11");

/* ---- the tables ----------------------------------------------------------------------------------------------- */

/* Slots that are left out may be: NCCL looks, and what they are for is not offered (DMA-BUF, virtual devices, offloads). */
#define MEMORY_SLOTS                                                                                        \
    .accept = nigh_nccl_accept, .register_memory = nigh_nccl_register, .deregister = nigh_nccl_deregister,  \
    .isend = nigh_nccl_isend, .irecv = nigh_nccl_irecv, .iflush = nigh_nccl_iflush, .test = nigh_nccl_test, \
    .close_send = nigh_nccl_close_send, .close_recv = nigh_nccl_close_recv,                                 \
    .close_listen = nigh_nccl_close_listen

EXPORTED extern const struct nccl_net_v10 ncclNetPlugin_v10;
EXPORTED extern const struct nccl_net_v11 ncclNetPlugin_v11;
EXPORTED extern const struct nccl_net_v12 ncclNetPlugin_v12;

const struct nccl_net_v10 ncclNetPlugin_v10 = {
    .name = "nigh",
    .init = init_v10,
    .devices = devices,
    .properties = properties_v10,
    .listen = listen_v10,
    .connect = connect_v10,
    MEMORY_SLOTS,
};

const struct nccl_net_v11 ncclNetPlugin_v11 = {
    .name = "nigh",
    .init = init,
    .devices = devices,
    .properties = properties_v11,
    .listen = listen_in,
    .connect = connect_in,
    MEMORY_SLOTS,
    .finalize = finalize,
};

const struct nccl_net_v12 ncclNetPlugin_v12 = {
    .name = "nigh",
    .init = init,
    .devices = devices,
    .properties = properties_v12,
    .listen = listen_in,
    .connect = connect_in,
    MEMORY_SLOTS,
    .finalize = finalize,
};
