/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/send.c - post_send: the short way straight into a slot, and everything that cannot take it. What
 * becomes an operation goes on in op.c. */
#include "plugin/send.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/crammed.h"
#include "plugin/device_post.h"
#include "plugin/field.h"
#include "plugin/large.h"
#include "plugin/refuse.h"
#include "shm/clock.h"
#include "shm/copy.h"
#include "shm/heap.h"
#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* In which a peer that looks for it has found a message, and copied it: at 2 GB/s, which it does across L3s. */
#define FIND_NS            UINT64_C(100000)
#define COPY_NS_OF(bytes_) ((bytes_) / 2)

static __attribute__((cold, noinline)) int refuse_inject(struct nigh_endpoint *endpoint,
                                                         const struct nigh_send *send)
{
    return nigh_refuse(endpoint->context, -EMSGSIZE, "post_send: NIGH_INJECT of %llu bytes: at most %u",
                       (unsigned long long)send->bytes, NIGH_INJECT_BYTES);
}

static int check(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    const uint32_t known = NIGH_SYNC | NIGH_INJECT | NIGH_SILENT | NIGH_MAY_WAIT | NIGH_DEVICE;
    struct nigh_context *context = endpoint->context;
    int rc = nigh_check_struct(context, "post_send", send, send->size, sizeof(*send));

    if (rc)
        return rc;
    if (send->reserved0)
        return nigh_refuse_reserved(context, "post_send");
    if (send->flags & ~known)
        return nigh_refuse_flags(context, "post_send", send->flags, known);
    if (send->tclass >= NIGH_TCLASSES)
        return nigh_refuse_tclass(context, "post_send", send->tclass);
    if (send->bytes && !send->buffer)
        return nigh_refuse_null(context, "post_send", send->bytes);
    if (send->flags & NIGH_INJECT && send->bytes > NIGH_INJECT_BYTES)
        return refuse_inject(endpoint, send);
    return nigh_send_check(endpoint);
}

/* Its receiver has much of ours unreceived, and need not keep this one, too. */
static bool waits_where_it_lies(const struct nigh_endpoint *endpoint, const struct nigh_send_op *op)
{
    return nigh_crammed(endpoint, op->silent) && endpoint->context->config.path < 0 &&
           nigh_plan_peer_reads(endpoint);
}

/* Not what is silent: its host need not poll, so it may never hear that one is over. */
static bool may_wait(const struct nigh_send *send)
{
    return (send->flags & (NIGH_MAY_WAIT | NIGH_SILENT)) == NIGH_MAY_WAIT;
}

/* One of up to NIGH_EAGER bytes that lies here until it is received, or fetched, where ranks run in turns. */
static bool lies_early(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    return may_wait(send) && nigh_spread_early(endpoint, send->buffer, send->bytes);
}

/* Before a peer is to read memory where it lies: it would copy the file's from its mapping of it, where the program has
 * something else mapped by now. False: it must not. */
bool nigh_send_may_be_read(const struct nigh_context *context, const void *buffer, uint64_t bytes)
{
    const struct nigh_arena_header *own = &context->arena.layout;

    return bytes < NIGH_PROGRAM_WATCH_FROM ||
           nigh_program_is_there(&context->program_watch, own, buffer, bytes) ||
           nigh_program_take_back(own) == 0;
}

/* Which way the bytes go, for what does not fit a ring. */
static void route(struct nigh_endpoint *endpoint, const struct nigh_send *send, struct nigh_send_op *op)
{
    struct nigh_context *context = endpoint->context;
    int forced = context->config.path;
    uint64_t offset;
    bool beside, early, alone, in_place;

    op->kind = NIGH_SEND_CHUNKED;
    op->path = NIGH_PATH_CHUNKED;
    /* What is injected is the host's again before anybody reads it. */
    if (send->flags & NIGH_INJECT || send->bytes <= context->config.body_bytes)
        return;
    nigh_spread_begin(endpoint, op);
    beside = nigh_beside_takes_next(endpoint, send->bytes, may_wait(send));
    nigh_beside_begun(endpoint, send->bytes);
    early = lies_early(endpoint, send);
    alone = beside || early || nigh_plan_in_place(endpoint, send->bytes);
    in_place = alone || nigh_spread_in_place(endpoint, op) || waits_where_it_lies(endpoint, op);
    if ((forced == NIGH_PATH_HEAP || (forced < 0 && send->bytes >= context->config.heap_from)) &&
        nigh_heap_find_and_hold(context->heap, send->buffer, send->bytes, &offset) == 0) {
        op->refer = NIGH_REFER_HEAP;
        op->path = NIGH_PATH_HEAP;
        op->key = offset;
        op->held = send->buffer;
    } else if (!op->silent && nigh_share_is_for(endpoint, send->bytes) &&
               nigh_share_begin(endpoint, send, op, in_place, &offset)) {
        op->refer = NIGH_REFER_HEAP;
        op->path = NIGH_PATH_HEAP;
        op->key = offset;
    } else if (in_place && nigh_send_may_be_read(context, send->buffer, send->bytes)) {
        op->refer = NIGH_REFER_CMA;
        op->path = NIGH_PATH_CMA;
        op->key = (uintptr_t)send->buffer;
        op->counted = alone;
        op->early = send->bytes <= context->config.eager_bytes && (beside || early) && !op->sync;
        context->referred += alone;
        endpoint->in_a_row += beside;
    } else {
        return;
    }
    op->kind = NIGH_SEND_REFER;
    op->begun = nigh_clock_ns();
    context->copied_by = op->begun + FIND_NS + COPY_NS_OF(send->bytes);
}

static int post_op(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_send_op *op = nigh_slab_take(&context->send_ops);

    if (!op)
        return -ENOMEM;
    nigh_slab_zero(op, sizeof(*op));
    op->id = NIGH_NO_ID;
    op->buffer = send->buffer;
    op->bytes = send->bytes;
    op->tag = NIGH_FIELD(send->tag);
    op->imm = nigh_field_halves(&send->imm);
    op->context = send->context;
    op->op = NIGH_OP_SEND;
    op->tclass = (uint8_t)send->tclass;
    op->silent = send->flags & NIGH_SILENT;
    op->sync = send->flags & NIGH_SYNC;
    if (send->flags & NIGH_INJECT && send->bytes) {
        op->owned = malloc(send->bytes);
        if (!op->owned) {
            nigh_slab_give(&context->send_ops, op);
            return -ENOMEM;
        }
        memcpy(op->owned, send->buffer, send->bytes);
        op->buffer = op->owned;
    }
    if (send->bytes <= context->config.body_bytes && !op->sync) {
        op->kind = NIGH_SEND_BODY;
        op->path = send->bytes <= NIGH_SLOT_PAYLOAD ? NIGH_PATH_INLINE : NIGH_PATH_EAGER;
    } else {
        route(endpoint, send, op);
    }
    nigh_count_sent(context, op->path, 1, send->bytes);
    nigh_send_begin(endpoint, op);
    return 0;
}

static __attribute__((noinline)) int post_general(struct nigh_endpoint *endpoint,
                                                  const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    int rc = check(endpoint, send);

    if (rc)
        return rc;
    if (send->flags & NIGH_DEVICE)
        return nigh_device_send_post(endpoint, send);
    rc = nigh_cq_reserve(&context->cq, 1);
    if (rc)
        return rc;
    rc = post_op(endpoint, send);
    if (rc)
        nigh_cq_unreserve(&context->cq, 1);
    return rc;
}

/* Everything of it is published: it is done with, and told of in half a line. Not what a copy for several serves: that
 * is held until the host has taken the completion with its number, and what goes ahead of the queue has none. */
static void sent(struct nigh_endpoint *endpoint, const struct nigh_send *send, enum nigh_path path)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_cq *cq = &context->cq;
    uint32_t tclass = NIGH_FIELD(send->tclass);
    uint64_t bytes = NIGH_FIELD(send->bytes);

    nigh_count_sent(context, path, 1, bytes);
    if (!(send->flags & NIGH_SILENT) && (path == NIGH_PATH_HEAP || !nigh_cq_takes_sent(cq))) {
        nigh_send_tell(endpoint, send->context, NIGH_OP_SEND, tclass, 0, bytes);
        return;
    }
    nigh_cq_unreserve(cq, 1);
    if (!(send->flags & NIGH_SILENT))
        nigh_cq_push_sent(cq, NIGH_FIELD(send->context), NIGH_SHAPE(bytes, tclass), endpoint->source,
                          endpoint);
}

/* Lines of the next message, if it is as long as this one, where the two sides talk in turn. In a stream they are under
 * way by themselves, so asking for them costs more than it gains: 104 ns for 512 bytes instead of 89. */
static inline void own_next(struct nigh_endpoint *endpoint, uint32_t slots)
{
    bool talks = endpoint->rx.next != endpoint->heard_before;

    endpoint->heard_before = endpoint->rx.next;
    if (talks && slots > 1 && !endpoint->context->crowd.full)
        nigh_ring_own(&endpoint->tx, slots);
}

/* At most a body: consecutive slots. */
static int post_body(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    uint32_t bytes = (uint32_t)NIGH_FIELD(send->bytes), slots = nigh_slots_for(bytes);

    if (nigh_cq_reserve(&context->cq, 1))
        return post_general(endpoint, send);
    if (!nigh_ring_room(&endpoint->tx, slots) && nigh_link_room(endpoint, slots)) {
        nigh_cq_unreserve(&context->cq, 1);
        return post_general(endpoint, send);
    }
    nigh_ring_write_body(&endpoint->tx, send->buffer, bytes);
    nigh_ring_address(nigh_ring_at(&endpoint->tx), NIGH_FIELD(send->tag), nigh_field_halves(&send->imm));
    nigh_ring_commit(&endpoint->tx, nigh_head_make(NIGH_K_MESSAGE, bytes, NIGH_FIELD(send->tclass), 0),
                     slots);
    nigh_link_published(endpoint);
    own_next(endpoint, slots);
    sent(endpoint, send, slots == 1 ? NIGH_PATH_INLINE : NIGH_PATH_EAGER);
    return 0;
}

/* Does it lie in the heap, where the receiver can read it by itself? */
static bool in_heap(const struct nigh_context *context, const struct nigh_send *send)
{
    uint64_t offset;

    return send->bytes >= context->config.heap_from &&
           nigh_heap_find(context->heap, send->buffer, send->bytes, &offset) == 0;
}

/* May it be over before it is received, and is to be? */
static bool is_eager(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    return send->bytes <= endpoint->context->config.eager_bytes &&
           !(may_wait(send) && nigh_beside_takes_next(endpoint, send->bytes, true));
}

/* More than a body: without an operation where that will do. */
static int post_large(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_context *context = endpoint->context;
    const struct nigh_config *config = &context->config;
    enum nigh_path path = NIGH_PATH_CHUNKED;

    if (!is_eager(endpoint, send) || lies_early(endpoint, send) || config->path >= 0 ||
        in_heap(context, send) || nigh_crammed(endpoint, send->flags & NIGH_SILENT) ||
        nigh_cq_reserve(&context->cq, 1))
        return post_general(endpoint, send);
    if (context->crowd.full && nigh_share_whole(endpoint, send) == 0) {
        path = NIGH_PATH_HEAP;
    } else if (nigh_large_whole(endpoint, send)) {
        nigh_cq_unreserve(&context->cq, 1);
        return post_general(endpoint, send);
    }
    nigh_beside_begun(endpoint, send->bytes);
    sent(endpoint, send, path);
    return 0;
}

/* ---- the short way --------------------------------------------------------------------------------------- */

/*
 * A slot's line has to be taken from its reader, which costs about a handoff. Several are under way at once, but only
 * among the stores that the CPU holds back until then, which leave it in order: what else a post stores takes their
 * room, less so where it goes to one line at a time. Hence: what is rare is called as the last thing and not
 * inlined, so that nothing is saved on the stack; a silent send reserves no completion; fields go through registers;
 * the counters lie beside the ring's own.
 */

static __attribute__((noinline)) int post_longer(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    if (__builtin_expect(send->flags & NIGH_INJECT && send->bytes > NIGH_INJECT_BYTES, 0))
        return refuse_inject(endpoint, send);
    return send->bytes > endpoint->context->config.body_bytes ? post_large(endpoint, send)
                                                              : post_body(endpoint, send);
}

/* The credit that we know of is used up, or payload lay here a lap ago. */
static __attribute__((noinline)) int post_refreshed(struct nigh_endpoint *endpoint,
                                                    const struct nigh_send *send)
{
    nigh_count_tally(endpoint);
    if (!nigh_ring_room(&endpoint->tx, 1) || !nigh_ring_takes_one(&endpoint->tx))
        return post_body(endpoint, send);
    return nigh_send_post(endpoint, send);
}

static __attribute__((noinline)) int woken(struct nigh_endpoint *endpoint)
{
    nigh_link_wake(endpoint);
    return 0;
}

/* All in one look: what is not 0 here makes a send not plain. */
static inline uint32_t oddities(const struct nigh_send *send, uint32_t flags, uint32_t tclass)
{
    return (NIGH_FIELD(send->size) ^ (uint32_t)sizeof(*send)) |
           (flags & ~(NIGH_INJECT | NIGH_SILENT | NIGH_MAY_WAIT)) | (tclass & ~(NIGH_TCLASSES - 1)) |
           NIGH_FIELD(send->reserved0);
}
static_assert((NIGH_TCLASSES & (NIGH_TCLASSES - 1)) == 0, "a class is checked by its bits");

static inline void tell_sent(struct nigh_endpoint *endpoint, uint64_t context, uint32_t tclass,
                             uint32_t bytes)
{
    struct nigh_cq *cq = &endpoint->context->cq;

    if (__builtin_expect(nigh_cq_takes_sent(cq), 1))
        nigh_cq_push_sent(cq, context, NIGH_SHAPE(bytes, tclass), endpoint->source, endpoint);
    else
        nigh_completion_fill(nigh_cq_next_unpromised(cq), context, NIGH_OP_SEND, tclass, bytes, 0, 0,
                             endpoint->source, endpoint);
}

int nigh_send_post(struct nigh_endpoint *endpoint, const struct nigh_send *send)
{
    struct nigh_ring_tx *tx = &endpoint->tx;
    uint32_t flags = NIGH_FIELD(send->flags), tclass = NIGH_FIELD(send->tclass);
    const void *buffer = NIGH_FIELD(send->buffer);
    uint64_t bytes = NIGH_FIELD(send->bytes), word;
    struct nigh_slot *slot;

    if (__builtin_expect(oddities(send, flags, tclass) || !buffer || !endpoint->can_post, 0))
        return post_general(endpoint, send);
    if (bytes > NIGH_SLOT_PAYLOAD)
        return post_longer(endpoint, send);
    if (__builtin_expect(!nigh_ring_takes_one(tx), 0))
        return post_refreshed(endpoint, send);
    if (__builtin_expect(!(flags & NIGH_SILENT) && !nigh_cq_has_room(&endpoint->context->cq), 0))
        return post_general(endpoint, send);
    slot = nigh_ring_at(tx);
    word = nigh_ring_word(tx, nigh_head_make(NIGH_K_MESSAGE, (uint32_t)bytes, tclass, 0));
    nigh_ring_address(slot, NIGH_FIELD(send->tag), nigh_field_halves(&send->imm));
    nigh_copy_slot(slot->payload, buffer, bytes);
    nigh_ring_commit_one(tx, slot, word, bytes);
    if (!(flags & NIGH_SILENT))
        tell_sent(endpoint, NIGH_FIELD(send->context), tclass, (uint32_t)bytes);
    return __builtin_expect(nigh_link_must_wake(endpoint), 0) ? woken(endpoint) : 0;
}
