/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/complete.h - from nigh's completions to libfabric's. The common ones are written straight into the
 * host's array; all others, and those that another queue's reader has come across, wait in their queue.
 */
#ifndef NIGH_LIBFABRIC_COMPLETE_H
#define NIGH_LIBFABRIC_COMPLETE_H

#include "hosts/libfabric/op.h"
#include "hosts/libfabric/provider.h"
#include "hosts/libfabric/wait.h"

#include <errno.h>
#include <string.h>

/* Makes room for `count` more that wait. -FI_ENOMEM. */
int nigh_fi_cq_grow(struct nigh_fi_cq *cq, uint64_t count);

static inline int nigh_fi_cq_room(struct nigh_fi_cq *cq, uint64_t count)
{
    if (NIGH_FI_LIKELY(cq->mask + 1 - (cq->tail - cq->head) >= count))
        return 0;
    return nigh_fi_cq_grow(cq, count);
}

/* Errors with words: struct nigh_fi_staged. */
static inline bool nigh_fi_is_loss(int err)
{
    return err == FI_ECONNRESET || err == EPROTO;
}

/* Queues one; there is room. */
static inline void nigh_fi_cq_put(struct nigh_fi_cq *cq, const struct nigh_fi_staged *staged)
{
    cq->staged[cq->tail++ & cq->mask] = *staged;
    nigh_fi_news(cq->domain, &cq->waiter);
}

/* FI_SEND, FI_RECV and so on of a completion; by what it is, in the operation's own words. */
extern const uint64_t nigh_fi_kinds[2][16];

static inline uint64_t nigh_fi_flags(const struct nigh_completion *done)
{
    /* The bits lie so that both marks are shifts: FI_REMOTE_CQ_DATA and FI_MULTI_RECV. */
    return nigh_fi_kinds[NIGH_DONE_CLASS(done->flags) & 1][done->op & 15] |
           (done->imm & NIGH_FI_WITH_DATA) >> 15 | (uint64_t)(done->flags & NIGH_DONE_RELEASED) << 16;
}

/* Status, op and flags of a completion at once, and of the one that MPIs see most: without an error
 * or a mark, tagged. */
static inline uint64_t nigh_fi_what_of(const struct nigh_completion *done)
{
    uint64_t what;

    memcpy(&what, &done->status, sizeof(what));
    return what;
}

#define NIGH_FI_RECEIVED                                                                          \
    (__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? UINT64_C(1) << 56 | (uint64_t)NIGH_OP_RECV << 32 \
                                               : (uint64_t)NIGH_OP_RECV << 16 | UINT64_C(1) << 8)

/* Neither an error nor of a record: what nigh tells is all there is to tell. */
static inline bool nigh_fi_is_plain(const struct nigh_fi_ep *ep, const struct nigh_completion *done)
{
    return done->status == 0 && !nigh_fi_op_is(&ep->domain->ops, done->context);
}

static inline void nigh_fi_entry(const struct nigh_completion *done, struct fi_cq_tagged_entry *entry)
{
    entry->op_context = (void *)(uintptr_t)done->context;
    entry->flags = nigh_fi_flags(done);
    entry->len = done->bytes;
    entry->buf = done->data;
    entry->data = done->imm & NIGH_FI_DATA;
    entry->tag = done->tag;
}

static inline struct nigh_completion nigh_fi_of_sent(const struct nigh_sent *sent)
{
    return (struct nigh_completion){.context = sent->context,
                                    .op = NIGH_OP_SEND,
                                    .flags = (uint16_t)(sent->tclass << 8),
                                    .bytes = sent->bytes,
                                    .source = sent->source,
                                    .endpoint = sent->endpoint};
}

/* Counts it where counters are bound. */
void nigh_fi_count(struct nigh_fi_ep *ep, const struct nigh_completion *done);

/* Any completion, into the queue that it belongs to, which has room. Uses up its record. */
void nigh_fi_complete(struct nigh_fi_ep *ep, const struct nigh_completion *done);

/* Takes what nigh has for `ep` into its queues, NIGH_FI_BATCH at most. Returns how many. -FI_ENOMEM: the queues
 * have no room, and it stays with nigh. The lock is held. */
int nigh_fi_ep_progress(struct nigh_fi_ep *ep);

/* The peer of a completion as the host knows it; FI_ADDR_NOTAVAIL: it is not in the vector. The lock is held. */
fi_addr_t nigh_fi_source(struct nigh_fi_ep *ep, const struct nigh_completion *done);

#endif
