/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_reach.c - see device_reach.h. */
#include "plugin/device_reach.h"
#include "cuda_ipc/import.h"
#include "plugin/answer.h"
#include "plugin/context.h"
#include "plugin/device_peer.h"
#include "plugin/device_receive.h"
#include "plugin/pieces.h"
#include "plugin/pull.h"
#include "plugin/receive.h"
#include "plugin/refuse.h"
#include "plugin/remote.h"
#include "shm/clock.h"

#include <errno.h>

/* What was asked for again may be lost among others: it is asked for once more after this, and then ever later. */
#define LOST_NS UINT64_C(10000000)
/* The same of what could not be mapped, as older mappings were being closed. */
#define STALE_NS UINT64_C(2000000)

void nigh_device_reach_close(struct nigh_device_reach *reach)
{
    if (reach->mapping)
        nigh_cuda_import_put(reach->mapping);
    *reach = (struct nigh_device_reach){.on = false};
}

/* ---- the copy ---- */

static int copy_from(struct nigh_message *message, struct nigh_cuda_context *cuda, uint64_t from)
{
    struct nigh_device_receive *receive = message->device;

    if (message->in_place) {
        receive->reach.at = from;
        return 0;
    }
    receive->slot[0] = (struct nigh_device_slot){.bytes = receive->bytes};
    nigh_device_slot_reach(message->endpoint->context, &receive->buffer, &receive->slot[0], cuda, from);
    return -EAGAIN;
}

/* Under NIGH_CUDA=require it is not staged. */
static int not_reached(const struct nigh_message *message)
{
    struct nigh_context *context = message->endpoint->context;

    if (!context->config.cuda_required || message->in_place)
        return -EREMOTE;
    return nigh_refuse(
        context, -ENOTSUP,
        "NIGH_CUDA=require: a message of rank %d from device memory that this process cannot map "
        "would be staged through the host (the line before says why); NIGH_CUDA=auto lets it be "
        "staged",
        (int)message->endpoint->rank);
}

/* Behind this pass. Who sleeps would not look. */
static void listen(const struct nigh_message *message)
{
    struct nigh_devices *devices = &message->endpoint->context->devices;

    devices->listens = devices->scarce = true;
}

static void ask(struct nigh_message *message, uint64_t now)
{
    struct nigh_device_reach *reach = &message->device->reach;
    uint64_t since = now + NIGH_DEVICE_BRING_NS - reach->until_ns;

    reach->again_ns = now + (since > LOST_NS ? since : LOST_NS);
    nigh_link_answer(message->endpoint, NIGH_K_GRANT, 0, message->id, NIGH_GRANT_BRING, NULL, 0);
}

/* A lend cannot come in pieces: it is brought again, in the time that it is waited for. */
static int lacks(struct nigh_message *message)
{
    struct nigh_device_reach *reach = &message->device->reach;
    uint64_t now = nigh_clock_ns();

    if (!message->in_place)
        return -ESTALE;
    if (!reach->again_ns) {
        reach->until_ns = now + NIGH_DEVICE_BRING_NS;
        ask(message, now);
    } else if (now < reach->until_ns) {
        reach->again_ns = now + STALE_NS;
    } else {
        return -EREMOTE;
    }
    listen(message);
    return -EAGAIN;
}

/* What is brought lies in a socket of ours before its name lies in the ring. So a look that leaves nothing there ends the
 * wait: it was lost, given up since, or never sent. What was asked for again comes later. */
static int await(struct nigh_message *message)
{
    struct nigh_device_reach *reach = &message->device->reach;
    uint32_t silences = message->endpoint->context->devices.silences;
    bool silent = !reach->again_ns && silences != reach->silences;
    uint64_t now = nigh_clock_ns();

    if (reach->listens && (silent || now >= reach->until_ns))
        return lacks(message);
    if (reach->again_ns && now >= reach->again_ns)
        ask(message, now);
    if (!reach->listens)
        reach->silences = silences;
    reach->listens = true;
    listen(message);
    return -EAGAIN;
}

static int find(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    struct nigh_device_reach *reach = &receive->reach;
    nigh_cuda_ptr from;
    int rc = nigh_device_peer_find(message->endpoint, receive->buffer.cuda, reach->number, &reach->mapping);

    switch (rc) {
    case 0:
        break;
    case -EAGAIN:
        return await(message);
    case -ENOTSUP:
        return not_reached(message);
    case -EPROTO:
        nigh_endpoint_suspect(message->endpoint, "what it has brought is no device memory");
        return -EAGAIN;
    case -ESTALE:
        return lacks(message);
    default:
        return not_reached(message);
    }
    if (nigh_cuda_import_at(reach->mapping, message->where, message->total, &from)) {
        nigh_endpoint_suspect(message->endpoint,
                              "its message lies outside of the device memory that it names");
        return -EAGAIN;
    }
    return copy_from(message, reach->mapping->context, from);
}

/* The memory of a process that has ended, or left, may be in other use. */
static bool has_left(const struct nigh_message *message)
{
    const struct nigh_endpoint *endpoint = message->endpoint;

    if (endpoint->state != NIGH_READY)
        return true;
    nigh_fence_full(LEAVE_HEAR);
    return nigh_endpoint_let_go(endpoint);
}

/* In this process: does the device of its place reach it? */
static bool is_near(const struct nigh_message *message)
{
    uint64_t number = message->device->reach.number;

    return !number || (number & NIGH_POINTER_COPIES && !message->in_place) ||
           (number & ~NIGH_POINTER_COPIES) - 1 == (uint64_t)message->device->buffer.cuda->ordinal;
}

static bool is_begun(const struct nigh_message *message)
{
    return message->refer == NIGH_REFER_POINTER ? message->device->slot[0].bytes != 0
                                                : message->device->reach.mapping != NULL;
}

void nigh_device_reach_move(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    int rc = nigh_device_slot_step(message->endpoint->context, &receive->slot[0]);

    if (rc != -EAGAIN && !receive->error)
        receive->error = rc;
}

int nigh_device_reach_step(struct nigh_message *message)
{
    struct nigh_device_receive *receive = message->device;
    int rc;

    rc = nigh_endpoint_check(message->endpoint);
    if (rc || message->endpoint->suspect)
        return rc ? rc : -EAGAIN;
    if (!receive->bytes)
        return 0;
    if (is_begun(message)) {
        nigh_device_reach_move(message);
        rc = receive->slot[0].copying ? -EAGAIN : receive->error;
    } else if (message->refer == NIGH_REFER_POINTER) {
        rc = is_near(message) ? copy_from(message, receive->buffer.cuda, message->where)
                              : not_reached(message);
    } else {
        rc = find(message);
    }
    return rc || !has_left(message) ? rc : -ECONNRESET;
}

/* ---- the end ---- */

static void tell(const struct nigh_message *message, int status)
{
    nigh_link_answer(message->endpoint, NIGH_K_FINISH, 0, message->id, (uint64_t)(int64_t)status, NULL, 0);
}

/* Why a message cannot be asked for. */
static int obstacle(const struct nigh_endpoint *endpoint)
{
    int rc = nigh_endpoint_check(endpoint);

    if (rc || endpoint->gone)
        return rc ? rc : -ECONNRESET;
    return endpoint->suspect ? -EPROTO : -ENOMEM;
}

static void stage(struct nigh_message *message, bool bring)
{
    if (message->kind != NIGH_MSG_REFER) {
        nigh_link_answer(message->endpoint, NIGH_K_GRANT, 0, message->id, bring ? NIGH_GRANT_AGAIN : 0, NULL,
                         0);
        nigh_remote_unbegun(message);
        return;
    }
    if (bring)
        message->late = true;
    message->again = bring;
    if (nigh_pull_divert(message))
        return;
    tell(message, -EIO);
    nigh_recv_finish(message, obstacle(message->endpoint));
}

void nigh_device_reach_end(struct nigh_message *message, int rc)
{
    struct nigh_device_reach *reach = &message->device->reach;

    if (!rc && message->in_place) {
        struct nigh_cuda_mapping *mapping = reach->mapping;

        reach->mapping = NULL; /* it goes with what the host holds */
        nigh_recv_lend_device(message, (void *)(uintptr_t)reach->at, mapping);
        return;
    }
    nigh_device_slots_stop(message->endpoint->context, message->device->slot);
    message->device->slot[0] = (struct nigh_device_slot){.memory = NULL};
    nigh_device_reach_close(reach);
    if ((rc == -EREMOTE || rc == -ESTALE) && !message->in_place) {
        stage(message, rc == -ESTALE);
        return;
    }
    rc = rc == -EREMOTE ? -EOPNOTSUPP : rc;
    if (message->kind != NIGH_MSG_PUT) /* which tells it by itself */
        tell(message, rc);
    nigh_arrive_done(message, rc);
}

void nigh_device_reach_cancel(struct nigh_message *message, int status)
{
    nigh_device_receive_leave(message);
    nigh_device_slots_stop(message->endpoint->context, message->device->slot);
    nigh_device_reach_close(&message->device->reach);
    tell(message, 0);
    nigh_arrive_done(message, status);
}

void nigh_device_reach_enter(struct nigh_message *message, uint64_t number)
{
    message->device->reach = (struct nigh_device_reach){
        .on = true, .number = number, .until_ns = nigh_clock_ns() + NIGH_DEVICE_BRING_NS};
    nigh_device_receive_enlist(message);
}

void nigh_device_reach_begin(struct nigh_message *message)
{
    /* Its receive has failed, or wants nothing: the sender's part is over. */
    if (message->status) {
        tell(message, 0);
        nigh_recv_finish(message, message->status);
        return;
    }
    if (!message->device) {
        stage(message, false);
        return;
    }
    if (message->in_place && message->total > message->room) {
        tell(message, 0);
        nigh_recv_finish(message, -EMSGSIZE);
        return;
    }
    nigh_device_reach_enter(message, message->key);
}
