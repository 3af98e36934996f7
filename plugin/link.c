/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/link.c - the ring of an endpoint: taken into use at the first message, grown when it was full, written. */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/send.h"
#include <errno.h>
#include <stdlib.h>

/* One to two microseconds of looking: a receiver that posts a window of 64 does not look at its ring for about one. Not
 * in a crowd, where it may be the CPU that we look on that it waits for. */
#define ROOM_PAUSES 128u

static int first_ring(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    uint32_t slots = NIGH_RING_SLOTS_MIN;
    uint64_t offset;
    int rc;

    rc = nigh_window_take(&endpoint->window, &context->arena, slots, &offset);
    if (rc)
        return rc;
    nigh_ring_tx_use(&endpoint->tx, endpoint->window.base + offset, slots,
                     context->config.ring_slots > slots);
    nigh_store_release(&endpoint->pair->ring, nigh_window_word(offset, slots), DIRECTORY_SET);
    endpoint->can_post = endpoint->state == NIGH_READY && !endpoint->queue.head;
    return 0;
}

static uint32_t busy_slots(const struct nigh_context *context)
{
    const struct nigh_crowd *crowd = &context->crowd;

    return context->config.ring_by_load && crowd->full && crowd->ranks <= NIGH_RING_CROWDED_RANKS &&
                   crowd->members <= NIGH_RING_CROWDED_RANKS
               ? NIGH_RING_CROWDED
               : context->config.ring_slots;
}

/* The next ring's memory, of *slots, or of the usual ones where there is not as much. */
static int take_larger(struct nigh_endpoint *endpoint, uint32_t *slots, uint64_t *offset)
{
    struct nigh_context *context = endpoint->context;
    int rc;

    *slots = busy_slots(context);
    rc = nigh_window_take(&endpoint->window, &context->arena, *slots, offset);
    if (rc && *slots > context->config.ring_slots) {
        *slots = context->config.ring_slots;
        rc = nigh_window_take(&endpoint->window, &context->arena, *slots, offset);
    }
    return rc;
}

/* Replaces a ring that was full by one of the size for busy pairs, once; the slot kept back carries the news. */
static int grow(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_ring_tx *tx = &endpoint->tx;
    uint32_t slots;
    uint64_t offset;
    int rc;

    if (!tx->spare)
        return -EAGAIN;
    rc = take_larger(endpoint, &slots, &offset);
    if (rc)
        return rc;
    nigh_ring_unspare(tx);
    /* The slot kept back is there: a peer whose credit goes back, so that it is not, loses the larger ring. */
    if (!nigh_ring_room(tx, 1))
        return -EAGAIN;
    nigh_ring_address(nigh_ring_at(tx), nigh_window_word(offset, slots), 0);
    nigh_ring_commit(tx, nigh_head_make(NIGH_K_MOVE, 0, 0, 0), 1);
    nigh_link_published(endpoint);
    nigh_ring_tx_use(tx, endpoint->window.base + offset, slots, 0);
    nigh_count(&context->counters->ring_grown, 1);
    return 0;
}

/* A reader that keeps up has given room by then: far less than queueing the message and taking it up again
 * costs. One that does not is waited for once, and then not again until it reads. */
static bool room_soon(struct nigh_endpoint *endpoint, uint32_t slots)
{
    if (!endpoint->drains)
        return false;
    for (uint32_t i = 0; i < ROOM_PAUSES; i++) {
        nigh_pause();
        if (nigh_ring_room(&endpoint->tx, slots))
            return true;
    }
    endpoint->drains = false;
    return false;
}

int nigh_link_room(struct nigh_endpoint *endpoint, uint32_t slots)
{
    struct nigh_ring_tx *tx = &endpoint->tx;
    int rc;

    if (endpoint->state != NIGH_READY)
        return -EAGAIN;
    if (!tx->slots) {
        rc = first_ring(endpoint);
        if (rc)
            return rc;
    }
    if (nigh_ring_room(tx, slots)) {
        endpoint->drains = true;
        return 0;
    }
    if (nigh_ring_consumed(tx) == UINT64_MAX) {
        /* If it has left, its index may be another's by now. */
        if (!nigh_endpoint_left(endpoint))
            nigh_endpoint_suspect(endpoint, "it claims to have read what was never sent");
        return -EAGAIN;
    }
    nigh_count(&endpoint->context->counters->ring_full, 1);
    if (grow(endpoint) == 0 && nigh_ring_room(tx, slots))
        return 0;
    if (!endpoint->self && !endpoint->context->crowd.full && room_soon(endpoint, slots))
        return 0;
    endpoint->no_room = true;
    return -EAGAIN;
}

void nigh_link_wake(struct nigh_endpoint *endpoint)
{
    uint32_t asleep = nigh_load_relaxed(endpoint->peer_asleep);

    nigh_bell_hint(&endpoint->bell, endpoint->their_index);
    if (!asleep)
        return;
    nigh_count(&endpoint->context->counters->wakes, 1);
    nigh_bell_ring(&endpoint->bell, asleep);
}

static void publish(struct nigh_ring_tx *tx, uint64_t head, uint64_t tag, uint64_t imm, const void *payload,
                    uint32_t bytes)
{
    nigh_ring_write_body(tx, payload, bytes);
    nigh_ring_address(nigh_ring_at(tx), tag, imm);
    nigh_ring_commit(tx, head | (uint64_t)bytes << 32, nigh_slots_for(bytes));
}

int nigh_link_send(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm,
                   const void *payload, uint32_t bytes)
{
    int rc = nigh_link_room(endpoint, nigh_slots_for(bytes));

    if (rc)
        return rc;
    publish(&endpoint->tx, head, tag, imm, payload, bytes);
    nigh_link_published(endpoint);
    return 0;
}

int nigh_link_ahead(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm,
                    const void *payload, uint32_t bytes)
{
    int rc = endpoint->tx.slots ? 0 : first_ring(endpoint);

    if (rc)
        return rc;
    if (!nigh_ring_has_room(&endpoint->tx, nigh_slots_for(bytes)))
        return -EAGAIN;
    publish(&endpoint->tx, head, tag, imm, payload, bytes);
    return 0;
}

/* An answer that found no room waits like any send, with its payload copied. */
static int queue_answer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm,
                        const void *payload, uint32_t bytes)
{
    struct nigh_send_op *op;

    /* It can have no more under way than there are ids: what it asks beyond them it asks to use up our memory. */
    if (endpoint->answers >= NIGH_IDS_MAX)
        return -EPROTO;
    op = nigh_slab_take(&endpoint->context->send_ops);
    if (!op)
        return -ENOMEM;
    nigh_slab_zero(op, sizeof(*op));
    if (bytes) {
        op->owned = malloc(bytes);
        if (!op->owned) {
            nigh_slab_give(&endpoint->context->send_ops, op);
            return -ENOMEM;
        }
        memcpy(op->owned, payload, bytes);
    }
    op->kind = NIGH_SEND_CONTROL;
    op->id = NIGH_NO_ID;
    op->head = (uint32_t)head;
    op->tag = tag;
    op->imm = imm;
    op->buffer = op->owned;
    op->bytes = bytes;
    endpoint->answers++;
    nigh_send_begin(endpoint, op);
    return 0;
}

void nigh_link_answer(struct nigh_endpoint *endpoint, enum nigh_kind kind, uint32_t flags, uint64_t tag,
                      uint64_t imm, const void *payload, uint32_t bytes)
{
    uint64_t head = nigh_head_make(kind, 0, 0, flags);
    int rc;

    if (endpoint->state != NIGH_READY || endpoint->gone)
        return;
    if (nigh_link_send(endpoint, head, tag, imm, payload, bytes) == 0)
        return;
    rc = queue_answer(endpoint, head, tag, imm, payload, bytes);
    if (rc)
        nigh_endpoint_suspect(endpoint, rc == -EPROTO ? "it does not read the answers to what it asks"
                                                      : "no memory to answer it");
}
