/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/stage.c - see stage.h. */
#include "hosts/libfabric/stage.h"
#include "hosts/libfabric/mr.h"

#include <stdlib.h>
#include <string.h>

/* ---- parts --------------------------------------------------------------------------------------------- */

int nigh_fi_parts_find(struct nigh_fi_ep *ep, const struct iovec *iov, void *const *desc, size_t count,
                       struct nigh_fi_parts *out)
{
    *out = (struct nigh_fi_parts){.iov = iov, .count = count};
    for (size_t i = 0; ep->hmem && i < count; i++) {
        const struct nigh_fi_mr *mr = desc ? desc[i] : NULL;
        int rc = 0;

        if (mr)
            out->on[i] = mr->device;
        else if (ep->domain->detects && iov[i].iov_len)
            rc = nigh_fi_device_of(ep->domain, iov[i].iov_base, &out->on[i]);
        if (rc)
            return rc;
        out->on_device |= out->on[i] != NULL;
    }
    return 0;
}

int nigh_fi_gather(void *to, const struct nigh_fi_parts *parts)
{
    char *at = to;
    int rc = 0;

    for (size_t i = 0; i < parts->count && !rc; i++) {
        const struct iovec *part = &parts->iov[i];

        if (parts->on[i])
            rc = nigh_fi_device_read(parts->on[i], at, part->iov_base, part->iov_len);
        else if (part->iov_len)
            memcpy(at, part->iov_base, part->iov_len);
        at += part->iov_len;
    }
    return rc;
}

int nigh_fi_scatter(const struct nigh_fi_op *op, const void *from, size_t bytes)
{
    const char *at = from;
    int rc = 0;

    for (size_t i = 0; i < op->count && bytes && !rc; i++) {
        size_t take = op->iov[i].iov_len < bytes ? op->iov[i].iov_len : bytes;

        if (op->on[i])
            rc = nigh_fi_device_write(op->on[i], op->iov[i].iov_base, at, take);
        else if (take)
            memcpy(op->iov[i].iov_base, at, take);
        at += take;
        bytes -= take;
    }
    return rc;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static void free_block(struct nigh_fi_block *block)
{
    if (block->pinned_by)
        nigh_fi_device_unpin(block->pinned_by, block->memory);
    free(block);
}

/* Back to the heap. */
static void drop(struct nigh_fi_ep *ep, struct nigh_fi_block *block)
{
    struct nigh_fi_block **link = &ep->blocks;
    void *memory = block->memory;

    while (*link != block)
        link = &(*link)->next;
    *link = block->next;
    free_block(block);
    ep->nigh->heap_free(ep->context, memory);
}

static void drop_idle(struct nigh_fi_ep *ep)
{
    struct nigh_fi_block *next;

    for (; ep->idle_blocks; ep->idle_blocks = next) {
        next = ep->idle_blocks->next_idle;
        drop(ep, ep->idle_blocks);
    }
    ep->idle_bytes = 0;
}

void nigh_fi_block_put(struct nigh_fi_block *block)
{
    struct nigh_fi_ep *ep = block->ep;

    if (ep->idle_bytes + block->bytes > NIGH_FI_IDLE_BYTES) {
        drop(ep, block);
        return;
    }
    block->idle = true;
    block->next_idle = ep->idle_blocks;
    ep->idle_blocks = block;
    ep->idle_bytes += block->bytes;
}

void nigh_fi_blocks_close(struct nigh_fi_ep *ep)
{
    struct nigh_fi_block *next;

    for (; ep->blocks; ep->blocks = next) {
        next = ep->blocks->next;
        free_block(ep->blocks);
    }
    ep->idle_blocks = NULL;
    ep->idle_bytes = 0;
}

/* Few sizes, so that blocks fit again; of long ones at most a megabyte is for nothing. */
static uint64_t round_up(uint64_t bytes)
{
    uint64_t room = NIGH_FI_BLOCK_LEAST, step = UINT64_C(1) << 20;

    if (bytes > step)
        return (bytes + step - 1) & ~(step - 1);
    while (room < bytes)
        room *= 2;
    return room;
}

static struct nigh_fi_block *reuse(struct nigh_fi_ep *ep, uint64_t room)
{
    for (struct nigh_fi_block **link = &ep->idle_blocks, *block; (block = *link); link = &block->next_idle) {
        if (block->bytes < room || block->bytes > 2 * room)
            continue;
        *link = block->next_idle;
        block->idle = false;
        ep->idle_bytes -= block->bytes;
        return block;
    }
    return NULL;
}

static bool any_in_use(const struct nigh_fi_ep *ep)
{
    for (const struct nigh_fi_block *block = ep->blocks; block; block = block->next)
        if (!block->idle)
            return true;
    return false;
}

static int new_block(struct nigh_fi_ep *ep, struct nigh_fi_device *device, uint64_t room,
                     struct nigh_fi_block **out)
{
    struct nigh_fi_block *block = calloc(1, sizeof(*block));
    int rc;

    if (!block)
        return -FI_EAGAIN;
    rc = ep->nigh->heap_alloc(ep->context, room, &block->memory);
    if (rc && ep->idle_blocks) {
        drop_idle(ep);
        rc = ep->nigh->heap_alloc(ep->context, room, &block->memory);
    }
    if (rc) {
        free(block);
        return any_in_use(ep) ? -FI_EAGAIN : -FI_ENOMEM;
    }
    block->ep = ep;
    block->bytes = room;
    if (nigh_fi_device_pin(device, block->memory, room) == 0)
        block->pinned_by = device;
    block->next = ep->blocks;
    ep->blocks = block;
    *out = block;
    return 0;
}

int nigh_fi_copy_room(struct nigh_fi_ep *ep, struct nigh_fi_op *op, const struct nigh_fi_parts *parts,
                      size_t bytes)
{
    uint64_t room = round_up(bytes);
    size_t first = 0;
    int rc;

    if (!parts->on_device || bytes <= ep->eager_bytes) {
        op->copy = malloc(bytes ? bytes : 1);
        return op->copy ? 0 : -FI_EAGAIN;
    }
    while (!parts->on[first])
        first++;
    op->block = reuse(ep, room);
    rc = op->block ? 0 : new_block(ep, parts->on[first], room, &op->block);
    if (!rc)
        op->copy = op->block->memory;
    return rc;
}

void nigh_fi_copy_for(struct nigh_fi_op *op, const struct nigh_fi_parts *parts)
{
    op->scatter = true;
    op->on_device = parts->on_device;
    op->count = (uint8_t)parts->count;
    for (size_t i = 0; i < parts->count; i++) {
        op->iov[i] = parts->iov[i];
        op->on[i] = parts->on[i];
    }
}
