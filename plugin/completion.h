/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/completion.h - the completion queue: a private ring that grows. It lives alone because of its one
 * promise: room is reserved before anything is claimed, so that reporting what has happened can never fail.
 * One thread at a time.
 */
#ifndef NIGH_PLUGIN_COMPLETION_H
#define NIGH_PLUGIN_COMPLETION_H

#include "nigh/transport.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#define NIGH_CQ_SENT_MAX 64u
#define NIGH_CQ_LINE_MAX 32u
static_assert(NIGH_CQ_LINE_MAX >= NIGH_TAKEN_FULL, "hosts that are given fewer do not look for more");

/*
 * What goes ahead of the ring, in the same few lines whenever the host has taken all that there was: where
 * ranks share CPUs the ring's lines are cold at each turn. Most sends are over when they have been posted, so
 * what is told of them takes half a line each.
 */
struct nigh_cq_first {
    struct nigh_completion line[NIGH_CQ_LINE_MAX];
    struct nigh_sent sent[NIGH_CQ_SENT_MAX]; /* told of before what is in `line` */
};

struct nigh_cq {
    struct nigh_cq_first *first;         /* aligned to 64 bytes */
    uint32_t sent_taken, sent_count;     /* of `sent`: taken, and all */
    struct nigh_completion *direct;      /* where the next goes: in `line`, or in the host's array */
    struct nigh_completion *direct_from; /* the first there that is not taken */
    uint32_t direct_left;                /* so many more go there, 0 while there are some in the ring */
    uint32_t direct_room; /* what the host has asked for of them in this pass; 0: between polls */
    uint64_t head;        /* completions taken off the ring, ever */
    /* Completions put into it, ever; not beside `promised`, or compilers count both by way of vectors. */
    uint64_t tail;
    uint64_t mask; /* of the ring: slots - 1 */
    uint64_t
        promised; /* tail, what `line` has, and reservations that are not used up: a reservation touches nothing else */
    uint64_t told;                /* given to the host, ever, but for those of `sent` */
    struct nigh_completion *ring; /* aligned to 64 bytes */
    void *memory, *first_memory;  /* what they lie in */
    bool shown;                   /* the host has been given some, and has not come back since */
};

/* An empty queue with room for `slots` completions (rounded up to a power of two, at least 64). -ENOMEM. */
int nigh_cq_create(struct nigh_cq *cq, uint32_t slots);
void nigh_cq_destroy(struct nigh_cq *cq);

/* For nigh_cq_reserve() alone: a ring with room for `count` more reservations. -ENOMEM, nothing changed. */
int nigh_cq_grow(struct nigh_cq *cq, uint64_t count);

/* For nigh_cq_show() alone: what waits ahead of the ring and in it lies together ahead of it, as
 * far as there is room. */
void nigh_cq_gather(struct nigh_cq *cq);

/* Completions that wait to be taken. */
static inline uint64_t nigh_cq_count(const struct nigh_cq *cq)
{
    return cq->tail - cq->head + (uint64_t)(cq->direct - cq->direct_from) + (cq->sent_count - cq->sent_taken);
}

static inline bool nigh_cq_is_empty(const struct nigh_cq *cq)
{
    return cq->tail == cq->head && cq->direct == cq->direct_from && cq->sent_count == cq->sent_taken;
}

/* The number of the completion that is pushed next by a post, but for those of nigh_cq_push_sent(): it is the
 * host's when `told` has come there. Between passes. */
static inline uint64_t nigh_cq_number(const struct nigh_cq *cq)
{
    return cq->told + (cq->tail - cq->head) + (uint64_t)(cq->direct - cq->direct_from) + 1;
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

/* A slot without a reservation, for what a post completes at once: nigh_cq_has_room() has said yes. Not in the ring
 * whatever `direct_left` says: what a pass finds later would be told of before. */
static inline struct nigh_completion *nigh_cq_next_unpromised(struct nigh_cq *cq)
{
    cq->promised++;
    return nigh_cq_next(cq);
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
    struct nigh_sent *sent = &cq->first->sent[cq->sent_count++];

    sent->context = context;
    sent->bytes = NIGH_SHAPE_BYTES(shape);
    sent->tclass = NIGH_SHAPE_TCLASS(shape);
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

/* Where the next go when the host has taken all that there was. */
static inline void nigh_cq_begin_anew(struct nigh_cq *cq)
{
    cq->direct = cq->direct_from = cq->first->line;
    cq->direct_left = NIGH_CQ_LINE_MAX;
    cq->sent_taken = cq->sent_count = 0;
}

/* While the queue is empty completions may go straight into the host's array: one copy less. Begin, behind the `filled`
 * that were popped into it; then nigh_cq_undirect() tells how many there are in all. The queue must be empty. */
static inline void nigh_cq_direct(struct nigh_cq *cq, struct nigh_completion *out, uint32_t filled,
                                  uint32_t count)
{
    cq->direct_from = out;
    cq->direct = out + filled;
    cq->direct_left = cq->direct_room = count - filled;
    cq->shown = false; /* what is there counts as waiting until then */
}

/* The caller has filled up to `to` by itself, in order. */
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
    return !nigh_cq_is_empty(cq) || cq->shown;
}

static inline uint32_t nigh_cq_undirect(struct nigh_cq *cq)
{
    uint32_t count = (uint32_t)(cq->direct - cq->direct_from);

    /* As if never promised: they did not go through the ring. */
    cq->promised -= cq->direct_room - cq->direct_left;
    cq->told += cq->direct_room - cq->direct_left;
    cq->direct_room = 0;
    cq->direct = cq->direct_from = cq->first->line;
    cq->direct_left = cq->tail == cq->head ? NIGH_CQ_LINE_MAX : 0;
    cq->shown = count != 0;
    return count;
}

/* Most completions are popped right after they were pushed. A vector load of words that are still in the store
 * buffer waits until all of them have left it, so it goes by words (volatile keeps compilers from joining them): 4 ns
 * where a plain copy of the struct takes 9. */
static inline void nigh_cq_copy(struct nigh_completion *to, const struct nigh_completion *from)
{
    const volatile nigh_word *words = (const volatile nigh_word *)(const void *)from;
    volatile nigh_word *out = (volatile nigh_word *)(void *)to;

    for (uint32_t i = 0; i < sizeof(*to) / sizeof(*words); i++)
        out[i] = words[i];
}

/* nigh_cq_pop() of the sends. */
static inline uint32_t nigh_cq_pop_sent(struct nigh_cq *cq, struct nigh_completion *out, uint32_t count)
{
    const struct nigh_sent *sent = &cq->first->sent[cq->sent_taken];
    uint32_t waiting = cq->sent_count - cq->sent_taken, take = waiting < count ? waiting : count;

    for (const struct nigh_sent *end = sent + take; sent != end; sent++, out++)
        nigh_completion_fill(out, sent->context, NIGH_OP_SEND, sent->tclass, sent->bytes, 0, 0, sent->source,
                             sent->endpoint);
    cq->sent_taken += take;
    return take;
}

/* Takes up to `count` that lie behind each other ahead of the ring, or else in it; returns the first. */
static inline const struct nigh_completion *nigh_cq_take(struct nigh_cq *cq, uint32_t count, uint32_t *taken)
{
    const struct nigh_completion *from = cq->direct_from;
    uint64_t at = cq->head & cq->mask, left = (uint64_t)(cq->direct - from);

    if (left) {
        *taken = left < count ? (uint32_t)left : count;
        cq->direct_from += *taken;
        cq->promised -= *taken;
        cq->told += *taken;
        return from;
    }
    left = cq->tail - cq->head;
    if (left > cq->mask + 1 - at)
        left = cq->mask + 1 - at;
    *taken = left < count ? (uint32_t)left : count;
    cq->head += *taken;
    cq->told += *taken;
    return &cq->ring[at];
}

/* Copies up to `count` completions to `out`; returns how many. The lines begin anew with an empty queue only: a host
 * that posts a send for each that it hears of, one at a time, would never hear of what is in the ring. */
static inline uint32_t nigh_cq_pop(struct nigh_cq *cq, struct nigh_completion *out, uint32_t count)
{
    uint32_t popped = nigh_cq_pop_sent(cq, out, count), taken;

    do { /* in line, and two pieces of the ring */
        const struct nigh_completion *from = nigh_cq_take(cq, count - popped, &taken);

        for (const struct nigh_completion *end = from + taken; from != end; from++)
            nigh_cq_copy(&out[popped++], from);
    } while (taken && popped < count);
    if (popped)
        cq->shown = true;
    if (nigh_cq_is_empty(cq))
        nigh_cq_begin_anew(cq);
    return popped;
}

/* Takes up to `count` without copying them: what `shown` says stays until the next call on the
 * queue. Fewer than `count` and than NIGH_CQ_LINE_MAX are all: a host that is given less than it has
 * room for does not come back at once. */
static inline uint32_t nigh_cq_show(struct nigh_cq *cq, struct nigh_taken *shown, uint32_t count)
{
    uint32_t waiting = cq->sent_count - cq->sent_taken, sent = waiting < count ? waiting : count, taken;

    if (cq->tail != cq->head && (uint64_t)(cq->direct - cq->direct_from) < count - sent)
        nigh_cq_gather(cq);
    shown->sent = &cq->first->sent[cq->sent_taken];
    shown->sent_count = sent;
    cq->sent_taken += sent;
    shown->done = nigh_cq_take(cq, count - sent, &taken);
    shown->done_count = taken;
    cq->shown = sent + taken != 0;
    if (nigh_cq_is_empty(cq))
        nigh_cq_begin_anew(cq);
    return sent + taken;
}

/* The same of all that there are, if they are ahead of the ring and no more than `count`. False: they are not. */
static inline bool nigh_cq_show_all(struct nigh_cq *cq, struct nigh_taken *shown, uint32_t count)
{
    uint32_t sent = cq->sent_count - cq->sent_taken, in_line = (uint32_t)(cq->direct - cq->direct_from);

    if (__builtin_expect(cq->tail != cq->head || sent + in_line > count, 0))
        return false;
    shown->sent = &cq->first->sent[cq->sent_taken];
    shown->done = cq->direct_from;
    shown->sent_count = sent;
    shown->done_count = in_line;
    cq->promised -= in_line;
    cq->told += in_line;
    cq->shown = true;
    nigh_cq_begin_anew(cq);
    return true;
}

#endif
