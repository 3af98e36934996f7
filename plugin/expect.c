/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/expect.c - post_recv without a struct, of a plain receive from one peer: the other side of plugin/inject.c. */
#include "plugin/context.h"
#include "plugin/guard.h"
#include "plugin/match_alone.h"
#include "plugin/receive.h"
#include "plugin/refuse.h"
#include "plugin/registers.h"
#include "plugin/swap.h"
#include <errno.h>

/* As a post_recv. */
static __attribute__((noinline)) int expect_generally(struct nigh_endpoint *endpoint, const void *buffer,
                                                      uint64_t shape, uint64_t tag, uint64_t context,
                                                      nigh_refused_fn refused)
{
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = (void *)(uintptr_t)buffer,
        .bytes = NIGH_SHAPE_BYTES(shape),
        .tag = tag,
        .context = context,
        .tclass = NIGH_SHAPE_TCLASS(shape),
    };
    int rc = endpoint ? nigh_guarded_recv(endpoint->context, endpoint, &recv) : nigh_refuse_missing("expect");

    return rc && refused ? refused(endpoint, buffer, shape, tag, context, rc) : rc;
}

/* In a crowd the first one that is posted looks into the ring, and a long one tells of itself. */
static inline bool is_filed_alone(const struct nigh_context *context, uint64_t shape)
{
    return !context->crowd.full ||
           (context->matcher.posted_count && NIGH_SHAPE_BYTES(shape) < NIGH_SWAP_FROM);
}

/* Nothing waits to be matched, there is room, and it is of the shape that receives mostly have. */
static inline bool is_usual(const struct nigh_context *context, const struct nigh_endpoint *endpoint,
                            uint64_t shape)
{
    return context->guard == 0 && is_filed_alone(context, shape) && !context->matcher.arrived_count &&
           endpoint->state < NIGH_PEER_CLOSED && context->recv_ops.free && nigh_cq_has_room(&context->cq) &&
           nigh_match_hot_is_plain(&context->matcher);
}

/* An operation of that shape; there is one, and room for its completion. */
static inline __attribute__((always_inline)) struct nigh_recv_op *take_op(struct nigh_context *context,
                                                                          void *buffer, uint64_t shape,
                                                                          uint64_t word)
{
    struct nigh_recv_op *op = nigh_slab_take_free(&context->recv_ops);

    context->cq.promised++;
    op->buffer = buffer;
    op->bytes = NIGH_SHAPE_BYTES(shape);
    op->context = word;
    op->flags = 0;
    return op;
}

/* Apart from the checks, as in inject.c: neither part has to save a register. */
static __attribute__((noinline)) int expect_now(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                                uint64_t tag, uint64_t word)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_recv_op *op = take_op(context, buffer, shape, word);

    nigh_swap_expect(endpoint, NIGH_SHAPE_BYTES(shape));
    nigh_match_post_plain(&context->matcher, &op->posted, endpoint->index, NIGH_SHAPE_TCLASS(shape), tag);
    return 0;
}

int nigh_expect(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t context,
                nigh_refused_fn refused)
{
    if (__builtin_expect(!endpoint || !buffer || NIGH_SHAPE_TCLASS(shape) >= NIGH_TCLASSES ||
                             !is_usual(endpoint->context, endpoint, shape),
                         0))
        return expect_generally(endpoint, buffer, shape, tag, context, refused);
    return expect_now(endpoint, buffer, shape, tag, context);
}

/* ---- with a mask ------------------------------------------------------------------------------------------ */

static __attribute__((noinline)) int file_generally(struct nigh_endpoint *endpoint, void *buffer,
                                                    uint64_t shape, uint64_t tag, uint64_t ignore,
                                                    uint64_t context)
{
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = buffer,
        .bytes = NIGH_SHAPE_BYTES(shape),
        .tag = tag,
        .ignore = ignore,
        .context = context,
        .tclass = NIGH_SHAPE_TCLASS(shape),
    };

    return endpoint ? nigh_guarded_recv(endpoint->context, endpoint, &recv) : nigh_refuse_missing("recv_imm");
}

static inline bool may_be_filed(const struct nigh_context *context, const struct nigh_endpoint *endpoint,
                                uint32_t tclass, uint64_t ignore)
{
    return context->guard == 0 && !nigh_match_keeps(&context->matcher, endpoint->index, tclass) &&
           endpoint->state < NIGH_PEER_CLOSED && context->recv_ops.free && nigh_cq_has_room(&context->cq) &&
           nigh_match_is_hot(&context->matcher, endpoint->index, ignore);
}

static inline __attribute__((always_inline)) struct nigh_recv_op *take_masked(struct nigh_endpoint *endpoint,
                                                                              void *buffer, uint64_t shape,
                                                                              uint64_t tag, uint64_t ignore,
                                                                              uint64_t word)
{
    struct nigh_recv_op *op = take_op(endpoint->context, buffer, shape, word);

    op->posted.source = endpoint->index;
    op->posted.tclass = (uint16_t)NIGH_SHAPE_TCLASS(shape);
    op->posted.keep = false;
    op->posted.tag = tag;
    op->posted.ignore = ignore;
    return op;
}

static __attribute__((noinline)) int file_now(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                              uint64_t tag, uint64_t ignore, uint64_t word)
{
    struct nigh_context *context = endpoint->context;
    struct nigh_recv_op *op = take_masked(endpoint, buffer, shape, tag, ignore, word);

    nigh_swap_expect(endpoint, NIGH_SHAPE_BYTES(shape));
    nigh_match_post_hot(&context->matcher, &op->posted);
    if (__builtin_expect(context->meets && endpoint->meets && nigh_ring_peek(&endpoint->rx), 0))
        return nigh_recv_look(endpoint);
    return 0;
}

int nigh_recv_file(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t ignore, uint64_t context)
{
    if (__builtin_expect(!endpoint || !buffer || NIGH_SHAPE_TCLASS(shape) >= NIGH_TCLASSES ||
                             !may_be_filed(endpoint->context, endpoint, NIGH_SHAPE_TCLASS(shape), ignore),
                         0))
        return file_generally(endpoint, buffer, shape, tag, ignore, context);
    return file_now(endpoint, buffer, shape, tag, ignore, context);
}

/* ---- one that waits alone: match_alone.h ------------------------------------------------------------------- */

/* Nothing is kept, all that is posted waits alone, and there is room. That there is no guard, and the peer is there, is
 * known: a post may meet what lies in the ring. */
static inline bool may_wait_alone(const struct nigh_context *context, const struct nigh_endpoint *endpoint)
{
    return !context->matcher.arrived_count && context->recv_ops.free && nigh_cq_has_room(&context->cq) &&
           nigh_match_may_wait_alone(&context->matcher, endpoint->index);
}

static __attribute__((noinline)) int wait_alone(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape,
                                                uint64_t tag, uint64_t ignore, uint64_t word)
{
    struct nigh_recv_op *op = take_masked(endpoint, buffer, shape, tag, ignore, word);

    nigh_match_post_alone(&endpoint->context->matcher, &op->posted);
    return __builtin_expect(nigh_ring_peek(&endpoint->rx), 0) ? nigh_recv_look(endpoint) : 0;
}

int nigh_recv_wait(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t ignore, uint64_t context)
{
    nigh_swap_expect(endpoint, NIGH_SHAPE_BYTES(shape));
    if (__builtin_expect(
            NIGH_SHAPE_TCLASS(shape) >= NIGH_TCLASSES || !may_wait_alone(endpoint->context, endpoint), 0))
        return nigh_recv_file(endpoint, buffer, shape, tag, ignore, context);
    return wait_alone(endpoint, buffer, shape, tag, ignore, context);
}
