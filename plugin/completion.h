/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/completion.h - the completion queue: a private ring that grows. It lives alone because of its one
 * promise: room is reserved before anything is claimed, so that reporting what has happened can never fail.
 * One thread at a time.
 */
#ifndef NIGH_PLUGIN_COMPLETION_H
#define NIGH_PLUGIN_COMPLETION_H

#include "nigh/transport.h"

#include <stdbool.h>
#include <string.h>

/* A send that was complete when it was posted, and went well: all that is to be told of it. */
struct nigh_cq_sent {
    uint64_t context, shape; /* NIGH_SHAPE() */
    uint64_t source;
    struct nigh_endpoint *endpoint;
};

#define NIGH_CQ_SENT_MAX 64u

/*
 * Most sends are over when they have been posted. What is told of them waits in half a line each, and in the same few lines
 * whenever the host has read what there was, ahead of the ring: where ranks share CPUs the ring's lines are cold at each turn.
 */
struct nigh_cq {
    struct nigh_cq_sent *sent;       /* NIGH_CQ_SENT_MAX; told of before what is in the ring */
    uint32_t sent_taken, sent_count; /* of these: popped, and all */
    uint64_t head;                   /* completions popped, ever */
    uint64_t
        tail; /* completions pushed, ever; not beside `promised`, or compilers count both by way of vectors */
    uint64_t mask;     /* of the ring: slots - 1 */
    uint64_t promised; /* tail + reservations that are not used up: a reservation touches nothing else */
    struct nigh_completion *direct; /* where the next goes while the host's array has room: past the ring */
    uint32_t direct_left, direct_room;   /* of the host's array: what is left, and all of it */
    struct nigh_completion *direct_from; /* where the host's array begins */
    uint64_t direct_tail;                /* `tail` when the host last came with an empty queue */
    struct nigh_completion *ring;        /* aligned to 64 bytes */
    void *memory;                        /* what it lies in */
};

/* An empty queue with room for `slots` completions (rounded up to a power of two, at least 64). -ENOMEM. */
int nigh_cq_create(struct nigh_cq *cq, uint32_t slots);
void nigh_cq_destroy(struct nigh_cq *cq);

/* For nigh_cq_reserve() alone: a ring with room for `count` more reservations. -ENOMEM, nothing changed. */
int nigh_cq_grow(struct nigh_cq *cq, uint64_t count);

/* Completions that wait to be popped. */
static inline uint64_t nigh_cq_count(const struct nigh_cq *cq)
{
    return cq->tail - cq->head + (cq->sent_count - cq->sent_taken);
}

/* Promises room for `count` completions. Each is used up by one nigh_cq_push() or nigh_cq_unreserve(). Memory is
 * allocated only when more are queued and promised than ever before. -ENOMEM, nothing changed. */
static inline int nigh_cq_reserve(struct nigh_cq *cq, uint32_t count)
{
    uint64_t promised = cq->promised + count;

    if (__builtin_expect(promised - cq->head > cq->mask + 1, 0))
        return nigh_cq_grow(cq, count);
    cq->promised = promised;
    return 0;
}

/* Is there room for one more that nobody has promised? */
static inline bool nigh_cq_has_room(const struct nigh_cq *cq)
{
    return cq->promised - cq->head <= cq->mask;
}

/* Gives reservations back: of operations that end without a completion. */
static inline void nigh_cq_unreserve(struct nigh_cq *cq, uint32_t count)
{
    cq->promised -= count;
}

/* Uses up one reservation and returns its slot, to be filled in, all fields, before the next call on the queue. */
static inline struct nigh_completion *nigh_cq_next(struct nigh_cq *cq)
{
    if (cq->direct_left) {
        cq->direct_left--;
        return cq->direct++;
    }
    return &cq->ring[cq->tail++ & cq->mask];
}

/* A slot without a reservation, for what a post completes at once, so that no poll is under way: nigh_cq_has_room() has said yes. */
static inline struct nigh_completion *nigh_cq_next_unpromised(struct nigh_cq *cq)
{
    cq->promised++;
    return &cq->ring[cq->tail++ & cq->mask];
}

/* May a send that is complete be told of by nigh_cq_push_sent()? */
static inline bool nigh_cq_takes_sent(const struct nigh_cq *cq)
{
    return cq->sent_count < NIGH_CQ_SENT_MAX;
}

/* Without a reservation. */
static inline void nigh_cq_push_sent(struct nigh_cq *cq, uint64_t context, uint64_t shape, uint64_t source,
                                     struct nigh_endpoint *endpoint)
{
    struct nigh_cq_sent *sent = &cq->sent[cq->sent_count++];

    sent->context = context;
    sent->shape = shape;
    sent->source = source;
    sent->endpoint = endpoint;
}

/* Uses up one reservation. Cannot fail. */
static inline void nigh_cq_push(struct nigh_cq *cq, const struct nigh_completion *completion)
{
    *nigh_cq_next(cq) = *completion;
}

/* The class where NIGH_DONE_CLASS() finds it. */
static inline uint16_t nigh_done_class(uint32_t tclass)
{
    return (uint16_t)(tclass << 8);
}

/* Words that lie one behind the other as one entry of the store queue. */
typedef uint64_t nigh_two_fields __attribute__((vector_size(16), aligned(8), may_alias));

typedef uint64_t nigh_word __attribute__((may_alias));

/* Status 0, op and flags in one word. */
static inline uint64_t nigh_completion_what(uint16_t op, uint32_t tclass)
{
    uint64_t flags = (uint64_t)tclass << 8;

    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? flags << 48 | (uint64_t)op << 32
                                                     : (uint64_t)op << 16 | flags;
}

/* A completion without an error, flags or data. Eight words: what compilers make of an initializer is partly stored
 * twice. */
static inline void nigh_completion_fill(struct nigh_completion *done, uint64_t context, uint16_t op,
                                        uint32_t tclass, uint64_t bytes, uint64_t tag, uint64_t imm,
                                        uint64_t source, struct nigh_endpoint *endpoint)
{
    done->context = context;
    *(volatile nigh_word *)(void *)&done->status = nigh_completion_what(op, tclass);
    done->bytes = bytes;
    done->tag = tag;
    done->imm = imm;
    done->source = source;
    done->endpoint = endpoint;
    done->data = NULL;
}

/* The same of a receive, in fewer stores. `from` is {source, endpoint}. */
static inline void nigh_completion_fill_recv(struct nigh_completion *done, uint64_t context, uint64_t what,
                                             uint64_t bytes, uint64_t tag, uint64_t imm, nigh_two_fields from)
{
    /* Words through volatile, or compilers join neighbours by way of the stack. */
    *(volatile uint64_t *)&done->context = context;
    *(volatile nigh_word *)(void *)&done->status = what;
    *(volatile uint64_t *)&done->bytes = bytes;
    *(volatile uint64_t *)&done->tag = tag;
    *(volatile uint64_t *)&done->imm = imm;
    *(nigh_two_fields *)(void *)&done->source = from;
    done->data = NULL;
}

/* While the queue is empty completions may go straight into the host's array: one copy less, and the ring's lines stay
 * out of the cache. Begin, behind the `filled` that were popped into it; then nigh_cq_undirect() tells how many there are in all.
 * The queue must be empty, or the array full. */
static inline void nigh_cq_direct(struct nigh_cq *cq, struct nigh_completion *out, uint32_t filled,
                                  uint32_t count)
{
    cq->direct_from = out;
    cq->direct = out + filled;
    cq->direct_left = cq->direct_room = count - filled;
    cq->direct_tail = cq->tail;
}

/* The caller has filled the host's array up to `to` by itself, in order. */
static inline void nigh_cq_direct_to(struct nigh_cq *cq, struct nigh_completion *to)
{
    cq->direct_left -= (uint32_t)(to - cq->direct);
    cq->direct = to;
}

/* Has the host got as many as it has asked for? */
static inline bool nigh_cq_is_full(const struct nigh_cq *cq)
{
    return cq->direct_left == 0 && cq->direct_room != 0;
}

/* Are there completions that the host has not seen, or may be looking at? What they point at must stay. */
static inline bool nigh_cq_in_use(const struct nigh_cq *cq)
{
    return nigh_cq_count(cq) || cq->tail != cq->direct_tail || cq->direct != cq->direct_from;
}

static inline uint32_t nigh_cq_undirect(struct nigh_cq *cq)
{
    cq->promised -=
        cq->direct_room - cq->direct_left; /* as if never promised: they did not go through the ring */
    cq->direct_left = cq->direct_room = 0;
    return (uint32_t)(cq->direct - cq->direct_from);
}

/* Most completions are popped right after they were pushed. A vector load of words that are still in the store
 * buffer waits until all of them have left it, so it goes by words (volatile keeps compilers from joining them): 4 ns where
 * a plain copy of the struct takes 9. */
static inline void nigh_cq_copy(struct nigh_completion *to, const struct nigh_completion *from)
{
    const volatile nigh_word *words = (const volatile nigh_word *)(const void *)from;
    volatile nigh_word *out = (volatile nigh_word *)(void *)to;

    for (uint32_t i = 0; i < sizeof(*to) / sizeof(*words); i++)
        out[i] = words[i];
}

/* nigh_cq_pop() of those that are ahead of the ring. */
static inline uint32_t nigh_cq_pop_sent(struct nigh_cq *cq, struct nigh_completion *out, uint32_t count)
{
    const struct nigh_cq_sent *sent = &cq->sent[cq->sent_taken];
    uint32_t waiting = cq->sent_count - cq->sent_taken, take = waiting < count ? waiting : count;

    for (const struct nigh_cq_sent *end = sent + take; sent != end; sent++, out++)
        nigh_completion_fill(out, sent->context, NIGH_OP_SEND, NIGH_SHAPE_TCLASS(sent->shape),
                             NIGH_SHAPE_BYTES(sent->shape), 0, 0, sent->source, sent->endpoint);
    cq->sent_taken += take;
    return take;
}

/* Moves up to `count` completions to `out`; returns how many. The sends begin anew with an empty queue only: a host that posts one for
 * each that it hears of, one at a time, would never hear of what is in the ring. */
static inline uint32_t nigh_cq_pop(struct nigh_cq *cq, struct nigh_completion *out, uint32_t count)
{
    uint32_t taken = nigh_cq_pop_sent(cq, out, count);
    uint64_t at = cq->head, left = cq->tail - at, take = left < count - taken ? left : count - taken;
    const struct nigh_completion *from = cq->ring, *first = from + (at & cq->mask), *wrap = from + cq->mask;

    out += taken;
    for (const struct nigh_completion *end = out + take; out != end; out++) {
        nigh_cq_copy(out, first);
        first = first == wrap ? from : first + 1;
    }
    cq->head = at + take;
    if (nigh_cq_count(cq) == 0)
        cq->sent_taken = cq->sent_count = 0;
    return taken + (uint32_t)take;
}

/* nigh_cq_pop() behind nigh_cq_undirect(), into the rest of the host's array. With threads others may have polled between the two,
 * so what the queue knows of an array is no longer of this one. */
static inline uint32_t nigh_cq_more(struct nigh_cq *cq, struct nigh_completion *out, uint32_t count)
{
    uint32_t taken = nigh_cq_pop(cq, out, count);

    if (taken) { /* in use, until the host is back */
        cq->direct_from = out;
        cq->direct = out + taken;
    }
    return taken;
}

#endif
