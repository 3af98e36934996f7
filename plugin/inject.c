/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/inject.c - post_send without a struct: what a small message is comes in registers, and nothing is stored but
 * its slots, the ring's own line and, for whom it is told to, half a line. */
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/guard.h"
#include "plugin/refuse.h"
#include "plugin/registers.h"
#include <assert.h>
#include <errno.h>

static_assert(NIGH_SHAPE_TCLASS(NIGH_SHAPE(7, 5)) == 5 && NIGH_SHAPE_BYTES(NIGH_SHAPE(7, 5)) == 7,
              "size and class come apart again");

static __attribute__((noinline)) int woken(struct nigh_endpoint *endpoint)
{
    nigh_link_wake(endpoint);
    return 0;
}

/* In a crowd a message of several slots, for which there is room, is sent here, too, by both generally(): in a turn that
 * finds caches cold each line and each instruction counts, and an alltoall of 64 bytes takes 0.9 of its time. */
static inline bool is_body_now(const struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape)
{
    const struct nigh_context *context = endpoint->context;
    uint64_t bytes = NIGH_SHAPE_BYTES(shape);

    return context->crowd.full && buffer && NIGH_SHAPE_TCLASS(shape) < NIGH_TCLASSES &&
           bytes > NIGH_SLOT_PAYLOAD && bytes <= context->config.body_bytes && bytes <= NIGH_INJECT_BYTES &&
           context->guard == 0 && endpoint->can_post &&
           nigh_ring_has_room(&endpoint->tx, nigh_slots_for((uint32_t)bytes));
}

static int body_now(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t imm)
{
    struct nigh_ring_tx *tx = &endpoint->tx;
    uint32_t bytes = (uint32_t)NIGH_SHAPE_BYTES(shape);

    nigh_ring_write_body(tx, buffer, bytes);
    nigh_ring_address(nigh_ring_at(tx), tag, imm);
    nigh_ring_commit(tx, nigh_head_make(NIGH_K_MESSAGE, bytes, NIGH_SHAPE_TCLASS(shape), 0),
                     nigh_slots_for(bytes));
    nigh_count_sent(endpoint->context, NIGH_PATH_EAGER, 1, bytes);
    return __builtin_expect(nigh_link_must_wake(endpoint), 0) ? woken(endpoint) : 0;
}

/* As a post_send. */
static __attribute__((noinline)) int imm_by_struct(struct nigh_endpoint *endpoint, const void *buffer,
                                                   uint64_t shape, uint64_t tag, uint64_t imm)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .buffer = buffer,
        .bytes = NIGH_SHAPE_BYTES(shape),
        .tag = tag,
        .imm = imm,
        .tclass = NIGH_SHAPE_TCLASS(shape),
    };

    return endpoint ? nigh_guarded_send(endpoint, &send) : nigh_refuse_missing("inject_imm");
}

static __attribute__((noinline)) int imm_generally(struct nigh_endpoint *endpoint, const void *buffer,
                                                   uint64_t shape, uint64_t tag, uint64_t imm)
{
    if (!endpoint || !is_body_now(endpoint, buffer, shape))
        return imm_by_struct(endpoint, buffer, shape, tag, imm);
    return body_now(endpoint, buffer, shape, tag, imm);
}

static __attribute__((noinline)) int inject_generally(struct nigh_endpoint *endpoint, const void *buffer,
                                                      uint64_t shape, uint64_t tag, uint64_t context,
                                                      nigh_refused_fn refused)
{
    int rc = endpoint ? imm_generally(endpoint, buffer, shape, tag, 0) : nigh_refuse_missing("inject");

    return rc && refused ? refused(endpoint, buffer, shape, tag, context, rc) : rc;
}

/* The same of a send that is told of. */
static __attribute__((noinline)) int send_by_struct(struct nigh_endpoint *endpoint, const void *buffer,
                                                    uint64_t shape, uint64_t tag, uint64_t imm,
                                                    uint64_t context)
{
    struct nigh_send send = {
        .size = sizeof(send),
        .buffer = buffer,
        .bytes = NIGH_SHAPE_BYTES(shape),
        .tag = tag,
        .imm = imm,
        .context = context,
        .tclass = NIGH_SHAPE_TCLASS(shape),
    };

    return endpoint ? nigh_guarded_send(endpoint, &send) : nigh_refuse_missing("send_imm");
}

static __attribute__((noinline)) int send_generally(struct nigh_endpoint *endpoint, const void *buffer,
                                                    uint64_t shape, uint64_t tag, uint64_t imm,
                                                    uint64_t context)
{
    if (!endpoint || !is_body_now(endpoint, buffer, shape) || !nigh_cq_takes_sent(&endpoint->context->cq))
        return send_by_struct(endpoint, buffer, shape, tag, imm, context);
    nigh_cq_push_sent(&endpoint->context->cq, context, shape, endpoint->source, endpoint);
    return body_now(endpoint, buffer, shape, tag, imm);
}

/* It goes into the next slot. */
static inline __attribute__((always_inline)) int publish(struct nigh_endpoint *endpoint, const void *buffer,
                                                         uint64_t shape, uint64_t tag, uint64_t imm)
{
    struct nigh_ring_tx *tx = &endpoint->tx;
    uint64_t bytes = NIGH_SHAPE_BYTES(shape), word;
    struct nigh_slot *slot = nigh_ring_at(tx);

    if (bytes > NIGH_SLOT_PAYLOAD)
        __builtin_unreachable();
    word = nigh_ring_word(tx, nigh_head_make(NIGH_K_MESSAGE, (uint32_t)bytes, NIGH_SHAPE_TCLASS(shape), 0));
    nigh_ring_address(slot, tag, imm);
    nigh_copy_slot(slot->payload, buffer, bytes);
    nigh_ring_commit_one(tx, slot, word, bytes);
    return __builtin_expect(nigh_link_must_wake(endpoint), 0) ? woken(endpoint) : 0;
}

/* Apart from the checks, whose refusal needs two registers more: both fit the registers that need not be saved. */
static __attribute__((noinline)) int inject_now(struct nigh_endpoint *endpoint, const void *buffer,
                                                uint64_t shape, uint64_t tag, uint64_t imm)
{
    return publish(endpoint, buffer, shape, tag, imm);
}

/* The same, and told of: before, as what is stored behind a slot waits with it for its line. */
static __attribute__((noinline)) int send_now(struct nigh_endpoint *endpoint, const void *buffer,
                                              uint64_t shape, uint64_t tag, uint64_t imm, uint64_t context)
{
    nigh_cq_push_sent(&endpoint->context->cq, context, shape, endpoint->source, endpoint);
    return publish(endpoint, buffer, shape, tag, imm);
}

static inline bool is_usual(const struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape)
{
    return endpoint && buffer && NIGH_SHAPE_TCLASS(shape) < NIGH_TCLASSES &&
           NIGH_SHAPE_BYTES(shape) <= NIGH_SLOT_PAYLOAD && endpoint->context->guard == 0 &&
           endpoint->can_post && nigh_ring_takes_one(&endpoint->tx);
}

/* As nigh_send_post(), see there: what is rare is called last and not inlined. */
int nigh_inject(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                uint64_t context, nigh_refused_fn refused)
{
    if (__builtin_expect(!is_usual(endpoint, buffer, shape), 0))
        return inject_generally(endpoint, buffer, shape, tag, context, refused);
    return inject_now(endpoint, buffer, shape, tag, 0);
}

int nigh_inject_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t imm)
{
    if (__builtin_expect(!is_usual(endpoint, buffer, shape), 0))
        return imm_generally(endpoint, buffer, shape, tag, imm);
    return inject_now(endpoint, buffer, shape, tag, imm);
}

int nigh_send_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                  uint64_t imm, uint64_t context)
{
    if (__builtin_expect(!is_usual(endpoint, buffer, shape) || !nigh_cq_takes_sent(&endpoint->context->cq),
                         0))
        return send_generally(endpoint, buffer, shape, tag, imm, context);
    return send_now(endpoint, buffer, shape, tag, imm, context);
}
