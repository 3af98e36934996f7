/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_send.c - see device_send.h. */
#include "plugin/device_send.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_give.h"
#include "plugin/device_peer.h"
#include "plugin/device_way.h"
#include "plugin/large.h"
#include "plugin/progress.h"
#include "plugin/refuse.h"
#include "plugin/send.h"
#include "shm/clock.h"

#include <errno.h>
#include <stdlib.h>

/* Between two trials to bring a lend again. */
#define AGAIN_NS UINT64_C(200000)

/* Bytes before `low` have been sent, those before `staged` may be, those before `arrived` lie in slots, those before `begun` have been
 * asked for. */
struct nigh_device_send {
    struct nigh_device_send *next, **link; /* of the endpoint; link NULL: not started, or all has come */
    struct nigh_context *context;
    struct nigh_endpoint *endpoint;
    struct nigh_send_op *op;
    struct nigh_device_buffer buffer;
    struct nigh_device_gift gift;
    uint64_t bring_until_ns,
        bring_at_ns; /* the peer has asked for it again; 0: it has not, or it was brought */
    uint64_t bytes, low, staged, arrived, begun;
    int error;
    uint32_t first, count; /* slots in use, a circular queue: the first begins at `low` of its slot */
    struct nigh_device_slot slot[NIGH_DEVICE_SLOTS];
};

static struct nigh_device_slot *slot_of(struct nigh_device_send *send, uint32_t number)
{
    return &send->slot[(send->first + number) % NIGH_DEVICE_SLOTS];
}

struct nigh_device_send *nigh_device_send_open(const struct nigh_device_buffer *buffer, uint64_t bytes)
{
    struct nigh_device_send *send = calloc(1, sizeof(*send));

    if (!send)
        return NULL;
    send->buffer = *buffer;
    send->bytes = bytes;
    return send;
}

static void drop_first(struct nigh_device_send *send)
{
    nigh_device_slot_give(&send->buffer, slot_of(send, 0));
    send->first = (send->first + 1) % NIGH_DEVICE_SLOTS;
    send->count--;
    send->endpoint->device_slots--;
}

static void leave(struct nigh_device_send *send)
{
    if (!send->link)
        return;
    *send->link = send->next;
    if (send->next)
        send->next->link = send->link;
    send->link = NULL;
}

void nigh_device_send_close(struct nigh_device_send *send)
{
    leave(send);
    nigh_device_slots_stop(send->context, send->slot); /* not started: nothing is copied */
    while (send->count)
        drop_first(send);
    nigh_device_gift_close(&send->gift);
    free(send);
}

/* ---- from the device ---- */

/* Private memory for the first slot of a peer's sends alone: so each peer's move on, and many of them take little. */
static void begin_slots(struct nigh_device_send *send)
{
    int rc = 0;

    while (!rc && send->count < NIGH_DEVICE_SLOTS && send->begun < send->bytes) {
        struct nigh_device_slot *slot = slot_of(send, send->count);
        uint64_t rest = send->bytes - send->begun;

        rc = nigh_device_slot_take(&send->buffer,
                                   rest < NIGH_DEVICE_SLOT_BYTES ? rest : NIGH_DEVICE_SLOT_BYTES,
                                   !send->endpoint->device_slots, slot);
        if (rc)
            break;
        nigh_device_slot_copy(send->context, &send->buffer, slot, NIGH_CUDA_COPY_TO_HOST, send->begun);
        send->begun += slot->bytes;
        send->count++;
        send->endpoint->device_slots++;
    }
    send->context->devices.scarce |= rc == -ENOMEM; /* the next pass tries again */
}

/* All move on; what has come behind one that has not waits for it. */
static void move_slots(struct nigh_device_send *send)
{
    uint64_t end = send->low;
    bool gap = false;

    for (uint32_t i = 0; i < send->count; i++) {
        struct nigh_device_slot *slot = slot_of(send, i);
        int rc = nigh_device_slot_step(send->context, slot);

        if (rc && rc != -EAGAIN && !send->error)
            send->error = rc;
        gap |= rc == -EAGAIN;
        end += slot->bytes;
        if (!gap && !send->error && end > send->arrived)
            send->arrived = end;
    }
}

/* Returns whether something has come. The send is gone where it fails. */
static bool move(struct nigh_device_send *send)
{
    begin_slots(send);
    move_slots(send);
    if (send->error) {
        nigh_large_fail(send->endpoint, send->op, send->error);
        return true;
    }
    if (send->staged == send->arrived)
        return false;
    send->staged = send->arrived;
    if (send->staged == send->bytes)
        leave(send);
    nigh_large_allow(send->endpoint, send->op, send->staged);
    return true;
}

/* Among those that passes move on. */
static void join(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_device_send *send = op->device, **last = &endpoint->device_sends;

    send->context = endpoint->context;
    send->endpoint = endpoint;
    send->op = op;
    while (*last) /* the oldest first */
        last = &(*last)->next;
    send->next = NULL;
    send->link = last;
    *last = send;
    nigh_progress_busy(endpoint);
}

void nigh_device_send_start(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    join(endpoint, op);
    begin_slots(op->device);
}

/* Is it to be tried once more? */
static bool bring(struct nigh_device_send *send)
{
    int rc = nigh_device_gift_ready(send->endpoint, &send->buffer, &send->gift);

    return rc == -EAGAIN || rc == -EMFILE || rc == -ENOMEM;
}

static void bring_again(struct nigh_device_send *send)
{
    uint64_t now = nigh_clock_ns();

    if (now >= send->bring_at_ns) {
        send->bring_at_ns = now + AGAIN_NS;
        if (now >= send->bring_until_ns || !bring(send)) {
            send->bring_until_ns = 0;
            leave(send);
            return;
        }
    }
    send->context->devices.scarce = true; /* who sleeps would not try again */
}

void nigh_device_send_bring(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    struct nigh_device_send *send = op->device;

    nigh_device_send_lacks(endpoint, send);
    if (!send->link)
        join(endpoint, op);
    send->bring_until_ns = nigh_clock_ns() + NIGH_DEVICE_BRING_NS;
    bring_again(send);
}

void nigh_device_send_step(struct nigh_endpoint *endpoint)
{
    for (struct nigh_device_send *send = endpoint->device_sends; send; send = send->next)
        move_slots(send);
}

bool nigh_device_send_progress(struct nigh_endpoint *endpoint)
{
    bool moved = false;

    for (struct nigh_device_send *send = endpoint->device_sends, *next; send; send = next) {
        next = send->next;
        if (send->bring_until_ns)
            bring_again(send);
        else
            moved |= move(send);
    }
    return moved;
}

/* ---- to the peer ---- */

const uint8_t *nigh_device_send_at(const struct nigh_device_send *send, uint64_t offset, uint64_t *left)
{
    const struct nigh_device_slot *slot = &send->slot[send->first];
    uint64_t in = offset - send->low;

    if (*left > slot->bytes - in)
        *left = slot->bytes - in;
    return slot->memory + in;
}

void nigh_device_send_sent(struct nigh_device_send *send, uint64_t offset)
{
    struct nigh_device_slot *slot = slot_of(send, 0);

    if (offset - send->low < slot->bytes)
        return;
    send->low += slot->bytes;
    drop_first(send);
}

/* ---- without slots ---- */

void nigh_device_send_over(struct nigh_endpoint *endpoint, const struct nigh_device_send *send)
{
    nigh_device_gift_over(endpoint, &send->gift);
}

int nigh_device_send_may_stage(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    struct nigh_context *context = endpoint->context;

    if (!context->config.cuda_required)
        return 0;
    return nigh_refuse(
        context, -ENOTSUP,
        "NIGH_CUDA=require: a message to rank %d from memory of CUDA device %d would be staged through "
        "the host, as it cannot be handed over (the line before says why); NIGH_CUDA=auto lets it be staged",
        (int)endpoint->rank, op->device->buffer.cuda->ordinal);
}

void nigh_device_send_give(struct nigh_device_send *send, const struct nigh_device_gift *gift)
{
    send->gift = *gift;
}

bool nigh_device_send_refers(const struct nigh_device_send *send)
{
    return send->gift.refer != 0;
}

void nigh_device_send_offer(struct nigh_endpoint *endpoint, struct nigh_device_send *send,
                            struct nigh_region *region, bool always)
{
    if (always || endpoint->context->config.cuda_required ||
        !nigh_device_gift_is_short(endpoint, send->bytes))
        (void)nigh_device_gift_open(endpoint, region, send->bytes, &send->buffer, &send->gift);
}

int nigh_device_send_refer(struct nigh_endpoint *endpoint, struct nigh_device_send *send,
                           struct nigh_wire_refer *refer)
{
    refer->where = send->gift.where;
    refer->refer = send->gift.refer;
    refer->number = send->gift.number;
    return nigh_device_gift_ready(endpoint, &send->buffer, &send->gift);
}

void nigh_device_send_lacks(struct nigh_endpoint *endpoint, const struct nigh_device_send *send)
{
    nigh_device_peer_lacks(endpoint, send->gift.number);
}

void nigh_device_send_unrefer(struct nigh_endpoint *endpoint, struct nigh_device_send *send)
{
    nigh_device_gift_over(endpoint, &send->gift);
    nigh_device_gift_close(&send->gift);
}

void nigh_device_send_stage(struct nigh_endpoint *endpoint, struct nigh_send_op *op)
{
    leave(op->device);
    op->device->bring_until_ns = 0;
    nigh_device_gift_over(endpoint, &op->device->gift);
    nigh_device_gift_close(&op->device->gift);
    nigh_count_redirected(endpoint->context, op->path, NIGH_PATH_CHUNKED, op->bytes);
    op->kind = NIGH_SEND_CHUNKED;
    op->path = NIGH_PATH_CHUNKED;
}

void nigh_device_send_asked(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool again)
{
    if (again)
        nigh_device_send_lacks(endpoint, op->device);
    nigh_device_send_stage(endpoint, op);
    op->asks = true;
}
