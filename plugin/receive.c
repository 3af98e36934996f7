/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/receive.c - post_recv: checked, given room for its completion, and filed or matched at
 * once; and taken back. */
#include "plugin/receive.h"
#include "plugin/context.h"
#include "plugin/device_slot.h"
#include "plugin/field.h"
#include "plugin/refuse.h"
#include "plugin/registers.h"
#include "plugin/stay.h"
#include "plugin/swap.h"
#include <errno.h>

void nigh_recv_cancel(struct nigh_context *context, struct nigh_recv_op *op, int status,
                      struct nigh_endpoint *endpoint)
{
    if (op->flags & NIGH_MULTI && op->busy) {
        /* Messages are still arriving in it: they come first. */
        op->retired = true;
        op->ended = status;
        return;
    }
    if (op->flags & NIGH_IN_PLACE)
        nigh_lents_unreserve(&context->lents);
    nigh_recv_end(context, op, status, endpoint);
}

int nigh_recv_check(struct nigh_context *context, const char *call, const struct nigh_recv *recv)
{
    const uint32_t known = NIGH_MULTI | NIGH_IN_PLACE | NIGH_DEVICE;
    int rc = nigh_check_struct(context, call, recv, recv->size, sizeof(*recv));

    if (rc)
        return rc;
    if (recv->flags & ~known)
        return nigh_refuse_flags(context, call, recv->flags, known);
    if (recv->flags & (recv->flags - 1) && recv->flags != (NIGH_IN_PLACE | NIGH_DEVICE))
        return nigh_refuse(context, -EINVAL, "%s: NIGH_MULTI excludes NIGH_IN_PLACE and NIGH_DEVICE", call);
    if (recv->tclass >= NIGH_TCLASSES)
        return nigh_refuse_tclass(context, call, recv->tclass);
    if (recv->flags & NIGH_MULTI && (!recv->min_free || recv->min_free > recv->bytes))
        return nigh_refuse(context, -EINVAL, "%s: min_free is %u: 1 to the %llu bytes of the buffer", call,
                           recv->min_free, (unsigned long long)recv->bytes);
    if (!(recv->flags & NIGH_IN_PLACE) && recv->bytes && !recv->buffer)
        return nigh_refuse_null(context, call, recv->bytes);
    return 0;
}

/* Of the buffer; in place, where any of that device's memory tells it. */
static int find_device(struct nigh_context *context, const char *call, const struct nigh_recv *recv,
                       struct nigh_device_buffer *out)
{
    bool in_place = recv->flags & NIGH_IN_PLACE;
    uint64_t bytes = in_place ? 1 : recv->bytes;
    int rc =
        bytes && recv->buffer ? nigh_device_find(context, call, recv->region, recv->buffer, bytes, out) : 0;

    if (rc || !in_place || out->cuda)
        return rc;
    return nigh_refuse(
        context, -EINVAL,
        "%s: NIGH_IN_PLACE with NIGH_DEVICE, but %p is no device memory: it says where the message is "
        "to be seen",
        call, recv->buffer);
}

int nigh_recv_create(struct nigh_context *context, const char *call, struct nigh_endpoint *from,
                     const struct nigh_recv *recv, struct nigh_recv_op **out)
{
    struct nigh_device_buffer device = {0};
    struct nigh_recv_op *op;
    int rc;

    if (__builtin_expect(recv->flags & NIGH_DEVICE, 0)) {
        rc = find_device(context, call, recv, &device);
        if (rc)
            return rc;
    }
    if (recv->flags & NIGH_IN_PLACE && nigh_lents_reserve(&context->lents))
        return -ENOMEM;
    if (nigh_cq_reserve(&context->cq, 1))
        goto unreserve_lent;
    op = nigh_slab_take(&context->recv_ops);
    if (!op)
        goto unreserve_cq;
    op->posted.source = from ? from->index : NIGH_ANY;
    op->posted.tclass = (uint16_t)recv->tclass;
    op->posted.tag = recv->tag;
    op->posted.ignore = recv->ignore;
    op->posted.keep = recv->flags & NIGH_MULTI;
    op->buffer = recv->buffer;
    op->bytes = recv->bytes;
    op->context = recv->context;
    op->flags = device.cuda ? recv->flags : recv->flags & ~NIGH_DEVICE;
    if (__builtin_expect(device.cuda != NULL, 0)) {
        op->cuda = device.cuda;
        op->stores = device.stores;
    }
    op->poster = context->inside;
    if (recv->flags & NIGH_MULTI) {
        op->from = from;
        op->min_free = recv->min_free;
        op->used = 0;
        op->busy = 0;
        op->ended = 0;
        op->retired = false;
    }
    *out = op;
    return 0;

unreserve_cq:
    nigh_cq_unreserve(&context->cq, 1);
unreserve_lent:
    if (recv->flags & NIGH_IN_PLACE)
        nigh_lents_unreserve(&context->lents);
    return -ENOMEM;
}

static struct nigh_message *find(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag,
                                 uint64_t ignore, uint32_t tclass, bool take)
{
    struct nigh_arrived *arrived =
        nigh_match_find(&context->matcher, from ? from->index : NIGH_ANY, tclass, tag, ignore, take);

    return (struct nigh_message *)(void *)arrived;
}

int nigh_recv_cannot_wait(struct nigh_context *context, const struct nigh_endpoint *from)
{
    if (from)
        return nigh_endpoint_check(from);
    if (!context->deaths_untold)
        return 0;
    context->deaths_untold--;
    return -ECONNRESET;
}

int nigh_recv_look(struct nigh_endpoint *from)
{
    if (from->context->matcher.posted_count == 1)
        nigh_stay_seek(from);
    return 0;
}

static __attribute__((noinline)) int post_shaped(struct nigh_context *context, struct nigh_endpoint *from,
                                                 struct nigh_posted *posted)
{
    nigh_match_post(&context->matcher, posted);
    return context->crowd.full && from ? nigh_recv_look(from) : 0;
}

__attribute__((noinline)) int nigh_recv_post_generally(struct nigh_context *context,
                                                       struct nigh_endpoint *from,
                                                       const struct nigh_recv *recv)
{
    struct nigh_message *message = NULL;
    struct nigh_recv_op *op;
    int rc = nigh_recv_check(context, "post_recv", recv);

    if (rc)
        return rc;
    if (__builtin_expect(from && from->state >= NIGH_PEER_CLOSED, 0) &&
        !find(context, from, recv->tag, recv->ignore, recv->tclass, false))
        return nigh_endpoint_check(from);
    rc = nigh_recv_create(context, "post_recv", from, recv, &op);
    if (rc)
        return rc;
    if (from)
        nigh_swap_expect(from, recv->bytes);
    if (__builtin_expect(op->flags & NIGH_MULTI, 0)) {
        nigh_multi_post(context, from, op);
        return 0;
    }
    if (__builtin_expect(context->matcher.arrived_count != 0, 0))
        message = find(context, from, recv->tag, recv->ignore, recv->tclass, true);
    if (!message && (from || !context->deaths_untold))
        return post_shaped(context, from, &op->posted);
    if (message)
        nigh_recv_accept(message, op);
    else
        nigh_recv_cancel(context, op, nigh_recv_cannot_wait(context, NULL), NULL);
    return 0;
}

/* The common case in one look: a plain receive, nothing waits to be matched or told. */
static inline bool is_plain(const struct nigh_context *context, const struct nigh_endpoint *from,
                            const struct nigh_recv *recv)
{
    return NIGH_FIELD(recv->size) == sizeof(*recv) && !NIGH_FIELD(recv->flags) &&
           NIGH_FIELD(recv->tclass) < NIGH_TCLASSES && recv->buffer && !context->matcher.arrived_count &&
           (from ? from->state < NIGH_PEER_CLOSED : !context->deaths_untold);
}

/* Of a plain receive, for which there is an operation and room in the completion queue. */
static inline __attribute__((always_inline)) int file_plain(struct nigh_context *context,
                                                            struct nigh_endpoint *from,
                                                            const struct nigh_recv *recv)
{
    struct nigh_recv_op *op = nigh_slab_take_free(&context->recv_ops);

    context->cq.promised++;
    op->posted.source = from ? from->index : NIGH_ANY;
    op->posted.tclass = (uint16_t)NIGH_FIELD(recv->tclass);
    op->posted.keep = false;
    op->posted.tag = NIGH_FIELD(recv->tag);
    op->posted.ignore = nigh_field_halves(&recv->ignore);
    op->buffer = NIGH_FIELD(recv->buffer);
    op->bytes = NIGH_FIELD(recv->bytes);
    op->context = NIGH_FIELD(recv->context);
    op->flags = 0;
    if (from)
        nigh_swap_expect(from, op->bytes);
    if (__builtin_expect(!nigh_match_is_hot(&context->matcher, op->posted.source, op->posted.ignore), 0))
        return post_shaped(context, from, &op->posted);
    nigh_match_post_hot(&context->matcher, &op->posted);
    return 0;
}

/* Whatever is rare is called as the last thing and not inlined, so that nothing is saved on the stack. */
int nigh_recv_post(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv)
{
    if (__builtin_expect(
            !is_plain(context, from, recv) || !context->recv_ops.free || !nigh_cq_has_room(&context->cq), 0))
        return nigh_recv_post_generally(context, from, recv);
    if (__builtin_expect(context->crowd.full, 0) && from && NIGH_FIELD(recv->bytes) <= UINT32_MAX)
        return nigh_recv_imm(
            from, NIGH_FIELD(recv->buffer), NIGH_SHAPE(NIGH_FIELD(recv->bytes), NIGH_FIELD(recv->tclass)),
            NIGH_FIELD(recv->tag), nigh_field_halves(&recv->ignore), NIGH_FIELD(recv->context));
    return file_plain(context, from, recv);
}
