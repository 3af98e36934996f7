/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/ring.h - the ring of 64-byte slots from one context to one peer: single producer, single consumer. The slots lie
 * in the pair's window (shm/window.h), how far the consumer has read (its credit) in the consumer's. Everything here
 * runs for every message, so it is inline.
 *
 *   producer                                  consumer
 *   reserve(n): room for n slots?             peek: does the slot at the cursor carry the expected lap?
 *   fill body slots, then the header slot     read it
 *   commit: store word 0 (RING_PUBLISH)       advance(n); now and then return credit (CREDIT_RETURN)
 *
 * Slots are used downwards: the reader's hardware prefetcher runs on upwards from what is read, and would take the
 * lines that the producer writes next away from it (docs/rationale/small-messages.md has the figures).
 *
 * A message of n slots is a header slot and, below it, n - 1 slots of pure payload, in it upwards; where they go past
 * the ring's beginning the first of the payload lies there and the rest at the ring's end. Payload may look like
 * anything, also like the header of the next lap, so a slot that was payload is disarmed before the consumer
 * can come to look at it as a header: commit writes an old lap into the slot behind the message first, if that
 * can have been payload when last used.
 *
 * A producer that dies before commit has published nothing. The consumer never writes a slot.
 */
#ifndef NIGH_SHM_RING_H
#define NIGH_SHM_RING_H

#include "shm/copy.h"
#include "shm/layout.h"
#include "shm/shared.h"
#include <stdbool.h>
#include <string.h>

#define NIGH_BODY_MAX \
    2088u /* longest payload in a ring: 33 slots, so a ring of NIGH_RING_SLOTS_MIN always can take one */
#define NIGH_RING_AHEAD 8u /* 8 to 24 are alike, 4 is too near (docs/rationale/small-messages.md) */
#define NIGH_RING_FORESEEN \
    8u /* lines of body that are asked for before they come: more gain nothing (1 KiB) */
#define NIGH_LAP_SHIFT 48

/* Word 0 of a slot without its lap. */
static inline uint64_t nigh_head_make(uint32_t kind, uint32_t bytes, uint32_t tclass, uint32_t flags)
{
    return (uint64_t)bytes << 32 | (uint64_t)tclass << 24 | (uint64_t)kind << 16 | flags;
}

static inline uint32_t nigh_head_kind(uint64_t head)
{
    return head >> 16 & 0xff;
}

static inline uint32_t nigh_head_bytes(uint64_t head)
{
    return head >> 32 & 0xffff;
}

static inline uint32_t nigh_head_tclass(uint64_t head)
{
    return head >> 24 & 0xff;
}

static inline uint32_t nigh_head_flags(uint64_t head)
{
    return head & 0xffff;
}

/* Slots that a payload of `bytes` takes, header slot included. */
static inline uint32_t nigh_slots_for(uint32_t bytes)
{
    return bytes <= NIGH_SLOT_PAYLOAD ? 1 : 1 + (bytes - NIGH_SLOT_PAYLOAD + NIGH_LINE - 1) / NIGH_LINE;
}

/* ---- producer ------------------------------------------------------------------------------------------ */

struct nigh_ring_tx {
    /* What a post of one slot reads and writes: one line, if the struct begins on one. */
    struct nigh_slot *slots; /* NULL: no ring yet */
    uint64_t limit;          /* `next` may come up to here without asking for credit */
    uint64_t next;           /* slots produced, ever, over all rings of this pair */
    uint64_t bytes;          /* payload of messages posted by nigh_ring_commit_one(): one store with `next` */
    uint64_t others;         /* so much of `next` are not those; the caller takes both over now and then */
    uint64_t base;           /* `next` when this ring was taken into use */
    uint64_t armed;          /* slots from this one on were no payload when last used */
    uint32_t mask;           /* slots - 1 */
    uint32_t shift;          /* log2 of slots */

    uint32_t spare; /* slots kept back, so that a full ring has room for the message that replaces it */
    const uint64_t *credit; /* consumed, in the peer's arena */
    nigh_copy_fn copy;      /* for bodies */
};

/* The lap of slot `seq` as a number; 16 bits of it are in word 0. */
static inline uint64_t nigh_ring_lap(const struct nigh_ring_tx *tx, uint64_t seq)
{
    return ((seq - tx->base) >> tx->shift) + 1;
}

/* Where slot `seq` lies: downwards from the ring's end. */
static inline struct nigh_slot *nigh_ring_slot(const struct nigh_ring_tx *tx, uint64_t seq)
{
    return tx->slots + (~(seq - tx->base) & tx->mask);
}

/* The slot that the next message begins with. */
static inline struct nigh_slot *nigh_ring_at(const struct nigh_ring_tx *tx)
{
    return nigh_ring_slot(tx, tx->next);
}

/*
 * How far the peer has read, or UINT64_MAX if it claims what it cannot have. A value that goes back is the peer's own
 * loss: it gets less room.
 */
static inline uint64_t nigh_ring_consumed(const struct nigh_ring_tx *tx)
{
    uint64_t consumed = nigh_load_acquire(tx->credit, CREDIT_TAKE);

    return consumed <= tx->next ? consumed : UINT64_MAX;
}

/* Asks for credit: 0, or -EPROTO through false when the peer's word cannot be true. */
static inline bool nigh_ring_refresh(struct nigh_ring_tx *tx)
{
    uint64_t consumed = nigh_ring_consumed(tx);

    if (consumed == UINT64_MAX)
        return false;
    tx->limit = (consumed > tx->base ? consumed : tx->base) + tx->mask + 1 - tx->spare;
    return true;
}

/* Is there room for `count` slots and the one behind them, by the credit that we know of? */
static inline bool nigh_ring_has_room(const struct nigh_ring_tx *tx, uint32_t count)
{
    return tx->next + count < tx->limit;
}

/* The same, asking for credit if need be. */
static inline bool nigh_ring_room(struct nigh_ring_tx *tx, uint32_t count)
{
    if (__builtin_expect(nigh_ring_has_room(tx, count), 1))
        return true;
    return nigh_ring_refresh(tx) && nigh_ring_has_room(tx, count);
}

/* Makes slot `seq` none that begins a message. */
static inline void nigh_ring_disarm(struct nigh_ring_tx *tx, uint64_t seq)
{
    /* Relaxed: the RING_PUBLISH store that lets the consumer come here follows. */
    nigh_store_relaxed(&nigh_ring_slot(tx, seq)->head, (nigh_ring_lap(tx, seq) - 1) << NIGH_LAP_SHIFT);
}

/* Can a message of one slot be published with nothing but its own slot written, by the credit that we know of? */
static inline bool nigh_ring_takes_one(const struct nigh_ring_tx *tx)
{
    return tx->next + 1 < tx->limit && tx->next + 1 >= tx->armed;
}

/* Word 0 of the message at `next`. */
static inline uint64_t nigh_ring_word(const struct nigh_ring_tx *tx, uint64_t head)
{
    return nigh_ring_lap(tx, tx->next) << NIGH_LAP_SHIFT | head;
}

/* Publishes such a message in `slot`, the one at `next`: everything but word 0 has been written. It has `bytes`. */
static inline void nigh_ring_commit_one(struct nigh_ring_tx *tx, struct nigh_slot *slot, uint64_t word,
                                        uint64_t bytes)
{
    nigh_store_release(&slot->head, word, RING_PUBLISH);
    tx->next++;
    tx->bytes += bytes;
}

/* Messages that were published so since nigh_ring_tallied(). */
static inline uint64_t nigh_ring_ones(const struct nigh_ring_tx *tx)
{
    return tx->next - tx->others;
}

static inline void nigh_ring_tallied(struct nigh_ring_tx *tx)
{
    tx->others = tx->next;
    tx->bytes = 0;
}

/* Publishes a message of `count` slots at `next`: everything but word 0 has been written. */
static inline void nigh_ring_commit(struct nigh_ring_tx *tx, uint64_t head, uint32_t count)
{
    uint64_t behind = tx->next + count;

    if (behind < tx->armed)
        nigh_ring_disarm(tx, behind);
    nigh_store_release(&nigh_ring_at(tx)->head, nigh_ring_word(tx, head), RING_PUBLISH);
    tx->next = behind;
    tx->others += count;
    if (count > 1)
        tx->armed = behind + tx->mask + 1;
}

/* The words of a header slot beside word 0. Relaxed: RING_PUBLISH follows. */
static inline void nigh_ring_address(struct nigh_slot *slot, uint64_t tag, uint64_t imm)
{
    nigh_store_pair_relaxed(&slot->tag, tag, imm);
}

/* Writes the payload of a message at `next`: its body slots, then into its header slot. `bytes` <= NIGH_BODY_MAX. */
void nigh_ring_write_body(struct nigh_ring_tx *tx, const void *payload, uint32_t bytes);

/* Takes the `count` slots behind the next one away from the consumer, if there is room for them, so
 * that a message of so many does not wait for them. Asks for credit if need be. Call it when there is
 * nothing else to do: behind a message. */
void nigh_ring_own(struct nigh_ring_tx *tx, uint32_t count);

/* Takes `memory`, zeroed and of `slots`, into use from now on, `spare` of them kept back. */
void nigh_ring_tx_use(struct nigh_ring_tx *tx, void *memory, uint32_t slots, uint32_t spare);
/* Lets the next message use what was kept back. */
static inline void nigh_ring_unspare(struct nigh_ring_tx *tx)
{
    tx->limit += tx->spare;
    tx->spare = 0;
}

/* ---- consumer ------------------------------------------------------------------------------------------ */

/* One line: a reader that has not had the CPU for a while fetches each again. */
struct nigh_ring_rx {
    const struct nigh_slot *at;    /* the next slot to look at */
    uint64_t lap;                  /* what it will carry, in its place in word 0 */
    const struct nigh_slot *slots; /* in the peer's window; NULL: no ring yet */
    uint64_t next;                 /* slots consumed, ever */
    uint32_t returned;             /* of `next`, what the producer knows, its lower half */
    uint32_t base;                 /* `next` when this ring was taken into use, its lower half */
    uint32_t mask;
    uint8_t shift;
    bool streak;       /* since the reader last found nothing, something has come */
    uint8_t foreseen;  /* lines of body that the message to come may have */
    bool quiet;        /* it found nothing, owes and foresees nothing: until something comes it only peeks */
    uint64_t *credit;  /* consumed, in our own arena */
    nigh_copy_fn copy; /* for bodies */
};
static_assert(sizeof(struct nigh_ring_rx) == NIGH_LINE, "what a look needs of the ring is one line");
/* Laps have 16 bits. */
static_assert(NIGH_RING_SLOTS_MAX <= 65536,
              "a slot's number and lap come out of the lower half of what was consumed");

/* The next message's word 0, or 0 if there is none: a word with a lap is never 0 where a kind is set. */
static inline uint64_t nigh_ring_peek(const struct nigh_ring_rx *rx)
{
    uint64_t head = nigh_load_acquire(&rx->at->head, RING_PEEK);

    return (head ^ rx->lap) >> NIGH_LAP_SHIFT == 0 ? head : 0;
}

/* Goes past a message of one slot. */
static inline void nigh_ring_advance_one(struct nigh_ring_rx *rx)
{
    rx->next++;
    if (__builtin_expect(rx->at == rx->slots, 0)) {
        rx->at += rx->mask;
        rx->lap += UINT64_C(1) << NIGH_LAP_SHIFT;
    } else {
        rx->at--;
    }
}

/* Goes past a message of `count` slots. */
static inline void nigh_ring_advance(struct nigh_ring_rx *rx, uint32_t count)
{
    uint32_t seq = (uint32_t)rx->next + count - rx->base;

    rx->next += count;
    rx->at = rx->slots + (~seq & rx->mask);
    rx->lap = ((uint64_t)(seq >> rx->shift) + 1) << NIGH_LAP_SHIFT;
}

/*
 * A reader that takes messages of one slot, one kind and class and without flags, one after the other, keeps its place
 * in registers: begin, then as long as _fits() says so look and go on, then end.
 */
struct nigh_ring_walk {
    const struct nigh_slot *at;
    uint64_t expect; /* its word 0, but for the bytes */
};

static inline struct nigh_ring_walk nigh_ring_walk_begin(const struct nigh_ring_rx *rx, uint32_t kind,
                                                         uint32_t tclass)
{
    return (struct nigh_ring_walk){rx->at, rx->lap | nigh_head_make(kind, 0, tclass, 0)};
}

/* Is `head`, word 0 of the slot, such a message? Then it also tells its bytes. */
static inline bool nigh_ring_walk_fits(const struct nigh_ring_walk *walk, uint64_t head, uint32_t *bytes)
{
    uint64_t differs = head ^ walk->expect;

    *bytes = (uint32_t)(differs >> 32);
    return (uint32_t)differs == 0 && *bytes <= NIGH_SLOT_PAYLOAD;
}

static inline uint64_t nigh_ring_walk_peek(const struct nigh_ring_walk *walk)
{
    return nigh_load_acquire(&walk->at->head, RING_PEEK);
}

static inline void nigh_ring_walk_on(struct nigh_ring_walk *walk, const struct nigh_ring_rx *rx)
{
    if (__builtin_expect(walk->at == rx->slots, 0)) {
        walk->at += rx->mask;
        walk->expect += UINT64_C(1) << NIGH_LAP_SHIFT;
    } else {
        walk->at--;
    }
}

/* Past `count` messages in all. */
static inline void nigh_ring_walk_end(const struct nigh_ring_walk *walk, struct nigh_ring_rx *rx,
                                      uint32_t count)
{
    rx->next += count;
    rx->at = walk->at;
    rx->lap = walk->expect >> NIGH_LAP_SHIFT << NIGH_LAP_SHIFT;
}

/* As nigh_ring_prefetch(), but where the ring ends. */
static inline void nigh_ring_walk_prefetch(const struct nigh_ring_walk *walk, const struct nigh_ring_rx *rx)
{
    if (__builtin_expect(walk->at >= rx->slots + NIGH_RING_AHEAD, 1))
        __builtin_prefetch(walk->at - NIGH_RING_AHEAD);
}

/* Asks for a slot some messages ahead. Behind the first of a batch alone: where messages come one by one, it would take
 * lines from a producer that is about to write them. */
static inline void nigh_ring_prefetch(const struct nigh_ring_rx *rx)
{
    __builtin_prefetch(rx->slots + (~((uint32_t)rx->next - rx->base + NIGH_RING_AHEAD) & rx->mask));
}

/* Asks for the body of the message of `bytes` at the cursor, where it does not wrap. */
static inline void nigh_ring_prefetch_body(const struct nigh_ring_rx *rx, uint32_t bytes)
{
    uint32_t count = nigh_slots_for(bytes) - 1, header = (uint32_t)(rx->at - rx->slots);

    for (uint32_t i = 1; i <= count && i <= header; i++)
        __builtin_prefetch(rx->at - i);
}

/* Lines of body of the message with word 0 `head`, whatever that says: as many of the next one are asked for. */
static inline uint8_t nigh_ring_foreseen(uint64_t head)
{
    uint32_t lines = nigh_slots_for(nigh_head_bytes(head)) - 1;

    return (uint8_t)(lines < NIGH_RING_FORESEEN ? lines : NIGH_RING_FORESEEN);
}

/*
 * Asks for the body of a message that has not come yet, in each look that finds none: what the producer has written of
 * it then comes while its store to the header, whose line it must take from us, is under way, and not after that. Where
 * it is asked for too early it must be fetched again by both, but side by side with the header.
 */
static inline void nigh_ring_ask_body(const struct nigh_ring_rx *rx)
{
    uint32_t header = (uint32_t)(rx->at - rx->slots);

    for (uint32_t i = 1; i <= rx->foreseen && i <= header; i++)
        __builtin_prefetch(rx->at - i);
}

/* Slots read that the producer has not been told of. */
static inline uint32_t nigh_ring_owed(const struct nigh_ring_rx *rx)
{
    return (uint32_t)rx->next - rx->returned;
}

/* Credit goes back when there is nothing to read and a quarter of the ring is owed: the store takes the line away from
 * the producer, and what the consumer stores next, an answer often, would wait for it. */
static inline bool nigh_ring_owes(const struct nigh_ring_rx *rx)
{
    return nigh_ring_owed(rx) > rx->mask >> 2;
}

/* With three eighths it goes back at once: the longest message takes a slot more than half of the smallest ring. */
static inline bool nigh_ring_owes_much(const struct nigh_ring_rx *rx)
{
    return nigh_ring_owed(rx) > (rx->mask >> 3) * 3;
}

static inline void nigh_ring_return(struct nigh_ring_rx *rx)
{
    rx->returned = (uint32_t)rx->next;
    nigh_store_release(rx->credit, rx->next, CREDIT_RETURN);
}

/* Copies the first `wanted` bytes of the payload of the message at the cursor, which has `bytes`, to `out`;
 * wanted <= bytes <= NIGH_BODY_MAX. */
void nigh_ring_read_body(const struct nigh_ring_rx *rx, void *out, uint32_t bytes, uint32_t wanted);

/* Reads the ring at `memory` from now on. */
void nigh_ring_rx_use(struct nigh_ring_rx *rx, const void *memory, uint32_t slots);

#endif
