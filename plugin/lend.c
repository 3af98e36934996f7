/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/lend.c - heap memory handed over without a copy, and given back. */
#include "plugin/lend.h"
#include "cuda_ipc/import.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/device_peer.h"
#include "plugin/device_post.h"
#include "plugin/field.h"
#include "plugin/progress.h"
#include "plugin/refuse.h"
#include "plugin/send.h"
#include "shm/heap.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool is_sound(const struct nigh_lend *lend)
{
    return !lend->reserved0 && !lend->region && !(lend->flags & ~NIGH_SILENT) && lend->tclass < NIGH_TCLASSES;
}

/* What is_sound() found: one of a device's memory, or a fault; or that the memory is not of the heap. */
static __attribute__((cold, noinline)) int other(struct nigh_endpoint *endpoint, const struct nigh_lend *lend)
{
    const uint32_t known = NIGH_SILENT | NIGH_DEVICE;
    struct nigh_context *context = endpoint->context;

    if (lend->reserved0 || (lend->region && !(lend->flags & NIGH_DEVICE)))
        return nigh_refuse_reserved(context, "post_lend");
    if (lend->flags & ~known)
        return nigh_refuse_flags(context, "post_lend", lend->flags, known);
    if (lend->tclass >= NIGH_TCLASSES)
        return nigh_refuse_tclass(context, "post_lend", lend->tclass);
    if (lend->flags & NIGH_DEVICE)
        return nigh_device_lend_post(endpoint, lend);
    return nigh_refuse(context, -EINVAL,
                       "post_lend: the %llu bytes at %p are not inside of one block from heap_alloc()",
                       (unsigned long long)lend->bytes, lend->buffer);
}

/*
 * Nothing waits before it and there is room by the credit that we know of; else NIGH_NO_ID: it takes the long way. The
 * operation is filled in behind this: stores leave the CPU in order, and nobody looks at it before
 * the peer answers and we poll.
 */
static uint32_t publish(struct nigh_endpoint *endpoint, struct nigh_send_op *op, const struct nigh_lend *lend,
                        uint64_t offset)
{
    struct nigh_ring_tx *tx = &endpoint->tx;
    struct nigh_wire_refer *refer;
    struct nigh_slot *slot;
    uint32_t id;

    if (!endpoint->can_post || !nigh_ring_takes_one(tx) || nigh_ids_take(&endpoint->out, op, &id))
        return NIGH_NO_ID;
    slot = nigh_ring_at(tx);
    refer = (struct nigh_wire_refer *)(void *)slot->payload;
    nigh_ring_address(slot, NIGH_FIELD(lend->tag), nigh_field_halves(&lend->imm));
    /* Field by field: a copy of a struct on the stack would wait for the stores that made it. */
    refer->total = lend->bytes;
    refer->where = offset;
    refer->id = id;
    refer->refer = NIGH_REFER_LEND;
    refer->cpu = refer->reserved = 0;
    nigh_ring_commit_one(
        tx, slot, nigh_ring_word(tx, nigh_head_make(NIGH_K_REFER, sizeof(*refer), lend->tclass, 0)), 0);
    tx->others++; /* counted by its own path */
    nigh_link_published(endpoint);
    return id;
}

int nigh_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op;
    uint64_t offset;
    uint32_t id;
    int rc;

    if (__builtin_expect(lend->size != sizeof(*lend), 0) &&
        nigh_check_struct(context, "post_lend", lend, lend->size, sizeof(*lend)))
        return -EINVAL;
    if (!is_sound(lend) || nigh_heap_find_and_hold(context->heap, lend->buffer, lend->bytes, &offset))
        return other(endpoint, lend);
    rc = nigh_send_check(endpoint);
    op = rc ? NULL : nigh_send_claim(context);
    if (!op) {
        nigh_heap_unhold(context->heap, lend->buffer);
        return rc ? rc : -ENOMEM;
    }
    id = publish(endpoint, op, lend, offset);
    nigh_send_clear(op, NIGH_SEND_REFER, NIGH_OP_LEND);
    op->id = id;
    op->refer = NIGH_REFER_LEND;
    op->path = NIGH_PATH_LEND;
    op->bytes = lend->bytes;
    op->key = offset;
    op->tag = NIGH_FIELD(lend->tag);
    op->imm = nigh_field_halves(&lend->imm);
    op->context = lend->context;
    op->tclass = (uint8_t)lend->tclass;
    op->silent = lend->flags & NIGH_SILENT;
    op->held = lend->buffer;
    if (id == NIGH_NO_ID)
        nigh_send_begin(endpoint, op);
    nigh_count_sent(context, NIGH_PATH_LEND, 1, lend->bytes);
    return 0;
}

int nigh_lend_release(struct nigh_context *context, void *data)
{
    struct nigh_lent lent;
    int rc = nigh_lents_take(&context->lents, data, &lent);

    if (rc)
        return nigh_refuse(context, rc, "release: nothing is held at %p, or it has been given back", data);
    if (lent.id == NIGH_NO_ID) {
        free(data);
    } else {
        if (lent.mapping) {
            nigh_cuda_import_put(lent.mapping);
            nigh_device_peer_released(lent.endpoint);
        }
        nigh_link_answer(lent.endpoint, NIGH_K_FINISH, 0, lent.id, 0, NULL, 0);
        nigh_progress_unpin(lent.endpoint);
    }
    return 0;
}
