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

int nigh_fi_gather(void *to, const struct nigh_fi_parts *parts, bool pinned)
{
    char *at = to;
    int rc = 0;

    for (size_t i = 0; i < parts->count && !rc; i++) {
        const struct iovec *part = &parts->iov[i];

        if (parts->on[i])
            rc = nigh_fi_device_read(parts->on[i], at, part->iov_base, part->iov_len, pinned);
        else if (part->iov_len)
            memcpy(at, part->iov_base, part->iov_len);
        at += part->iov_len;
    }
    return rc;
}

int nigh_fi_scatter(const struct nigh_fi_op *op, const void *from, size_t bytes)
{
    const char *at = from;
    bool pinned = nigh_fi_copy_is_pinned(op);
    int rc = 0;

    for (size_t i = 0; i < op->count && bytes && !rc; i++) {
        size_t take = op->iov[i].iov_len < bytes ? op->iov[i].iov_len : bytes;

        if (op->on[i])
            rc = nigh_fi_device_write(op->on[i], op->iov[i].iov_base, at, take, pinned);
        else if (take)
            memcpy(op->iov[i].iov_base, at, take);
        at += take;
        bytes -= take;
    }
    return rc;
}

bool nigh_fi_copy_is_pinned(const struct nigh_fi_op *op)
{
    return op->block && op->block->pinned_by;
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

static void free_block(struct nigh_fi_block *block)
{
    if (block->pinned_by) {
        nigh_fi_device_unpin(block->pinned_by, block->memory);
        block->ep->pinned_bytes -= block->bytes;
    }
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

static void take_idle(struct nigh_fi_ep *ep, struct nigh_fi_block **link)
{
    struct nigh_fi_block *block = *link;

    *link = block->next_idle;
    block->idle = false;
    if (!block->pinned_by)
        ep->idle_bytes -= block->bytes;
}

/* Those that are not pinned, or all. */
static void drop_idle(struct nigh_fi_ep *ep, bool pinned)
{
    struct nigh_fi_block **link = &ep->idle_blocks, *block;

    while ((block = *link)) {
        if (block->pinned_by && !pinned) {
            link = &block->next_idle;
            continue;
        }
        take_idle(ep, link);
        drop(ep, block);
    }
}

void nigh_fi_block_put(struct nigh_fi_block *block)
{
    struct nigh_fi_ep *ep = block->ep;

    if (!block->pinned_by && ep->idle_bytes + block->bytes > NIGH_FI_IDLE_BYTES) {
        drop(ep, block);
        return;
    }
    block->idle = true;
    block->next_idle = ep->idle_blocks;
    ep->idle_blocks = block;
    if (!block->pinned_by)
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

/* A context that is gone took it along. */
static void forget_pin(struct nigh_fi_block *block)
{
    if (!block->pinned_by || !block->pinned_by->gone)
        return;
    block->pinned_by = NULL;
    block->ep->pinned_bytes -= block->bytes;
}

static struct nigh_fi_block *reuse(struct nigh_fi_ep *ep, uint64_t room, uint64_t most)
{
    for (struct nigh_fi_block **link = &ep->idle_blocks, *block; (block = *link); link = &block->next_idle) {
        if (block->bytes < room || block->bytes > most)
            continue;
        take_idle(ep, link);
        forget_pin(block);
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

    if (!block)
        return -FI_EAGAIN;
    if (ep->nigh->heap_alloc(ep->context, room, &block->memory)) {
        free(block);
        return -FI_ENOMEM;
    }
    block->ep = ep;
    block->bytes = room;
    if (ep->pinned_bytes + room <= NIGH_FI_PINNED_BYTES &&
        nigh_fi_device_pin(device, block->memory, room) == 0) {
        block->pinned_by = device;
        ep->pinned_bytes += room;
    }
    block->next = ep->blocks;
    ep->blocks = block;
    *out = block;
    return 0;
}

/* The heap is full: the idle ones make room, those that are pinned only when nothing else can: see stage.h. */
static int squeeze(struct nigh_fi_ep *ep, struct nigh_fi_device *device, uint64_t room,
                   struct nigh_fi_block **out)
{
    int rc;

    drop_idle(ep, false);
    rc = new_block(ep, device, room, out);
    if (rc != -FI_ENOMEM)
        return rc;
    *out = reuse(ep, room, UINT64_MAX);
    if (*out)
        return 0;
    drop_idle(ep, true);
    rc = new_block(ep, device, room, out);
    return rc == -FI_ENOMEM && any_in_use(ep) ? -FI_EAGAIN : rc;
}

static int find_block(struct nigh_fi_ep *ep, struct nigh_fi_device *device, uint64_t room,
                      struct nigh_fi_block **out)
{
    int rc;

    *out = reuse(ep, room, 2 * room);
    if (*out)
        return 0;
    rc = new_block(ep, device, room, out);
    return rc == -FI_ENOMEM ? squeeze(ep, device, room, out) : rc;
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
    rc = find_block(ep, parts->on[first], room, &op->block);
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
