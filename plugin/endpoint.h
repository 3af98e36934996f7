/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/endpoint.h - a context's connection to one peer: its two rings and what is under way on them. */
#ifndef NIGH_PLUGIN_ENDPOINT_H
#define NIGH_PLUGIN_ENDPOINT_H

#include "nigh/transport.h"
#include "plugin/end.h"
#include "plugin/feel.h"
#include "plugin/help.h"
#include "plugin/op.h"
#include "plugin/queue.h"
#include "plugin/wire.h"
#include "shm/arena.h"
#include "shm/cpu.h"
#include "shm/doorbell.h"
#include "shm/life.h"
#include "shm/pace.h"
#include "shm/ring.h"
#include "shm/window.h"

struct nigh_context;
struct nigh_identity;
struct nigh_last_note;

/* The index of an endpoint that has given its own back. No message has it as its source. */
#define NIGH_INDEX_NONE (NIGH_ANY - 1)

/* What came of a peer's message: done, go past it; no memory now, look again later; it cannot be. */
enum nigh_verdict { NIGH_GO, NIGH_STAY, NIGH_BAD };

/* A chunk that this endpoint's pieces fill: it can be reused once the peer has read up to `until`. */
struct nigh_held_chunk {
    uint64_t offset, until;
};

#define NIGH_CHUNKS_HELD_MAX 512u

/* Large messages that were timed and wait for the receiver's part of the figure, oldest first: plan.c. One
 * without bytes only asks for the handoff. */
#define NIGH_TIMED_MAX 16u
struct nigh_timed {
    uint64_t until; /* slots that the peer must have read */
    uint64_t bytes, copy_ns;
    uint32_t strategy, piece;
};

/* One of the two shuttles of a pair: shuttle.h. */
struct nigh_shuttle {
    uint8_t *base;  /* NULL: there is none */
    uint32_t bytes; /* that have memory, from the beginning */
    bool held;      /* we may write it */
};

/* Two words of struct nigh_arena_state at once: is the peer asleep, has it cold ones? */
typedef uint64_t nigh_attention __attribute__((may_alias));
static_assert(offsetof(struct nigh_arena_state, asleep) == 0 && offsetof(struct nigh_arena_state, cold) == 4,
              "they are one aligned word");

/* The peer's message that is being filled as a count says: counted.c. */
struct nigh_filling {
    struct nigh_message *message; /* NULL: none */
    const uint64_t *count;
    uint32_t flags;
};

/* For so long a process that was looked at has kept its number: in that time nobody dies, is waited for, and has it
 * given away. Ten times as long would spare 4 of 200 us of each window of 64 messages of 32 KiB, whose first look finds
 * the caches cold, but a receiver that begins another program (exec) would be written to for as long. */
#define NIGH_NUMBER_KEPT_NS UINT64_C(100000)

/*
 * What a short message needs lies in three lines: this one either way, the ring's own in each direction. Where ranks
 * share CPUs each turn finds them gone, so they are asked for (progress.c), for which more would be too many.
 */
struct nigh_endpoint {
    struct nigh_context *context;
    uint64_t source;             /* what completions say */
    const uint32_t *peer_asleep; /* and, behind it, whether the peer has cold ones: nigh_link_must_wake() */
    uint64_t heard;              /* when, on the context's clock */
    uint32_t index;
    uint32_t answered;    /* tx.next, its lower half, when credit went back */
    uint32_t sent_before; /* the same when the peer was heard last */
    uint32_t rx_bytes;    /* of chunks, read since credit went back */
    uint32_t in_a_row;    /* messages in pieces that we have begun since anything came */
    uint32_t stays;       /* the oldest message stays, for no receive below this number: stay.c; 0: none */
    enum nigh_state state;
    bool can_post;    /* READY, nothing queued before: a post may go straight to the ring */
    bool light : 1;   /* the peer's sleep fence covers us: no fence of our own */
    bool hurried : 1; /* nothing of it stays: stay.c */
    bool fills;       /* filling.message is not NULL */
    bool meets;       /* READY, there is a ring, nothing fills: a receive may take what lies there; short.c */

    _Alignas(NIGH_LINE) struct nigh_ring_rx rx;
    _Alignas(NIGH_LINE) struct nigh_ring_tx tx;

    struct nigh_ring_rx ahead; /* how far behind the oldest message, which stays, was looked: stay.c */
    uint64_t full_at;          /* rx.next when messages that stay filled it: stay.c */
    uint64_t full_ns;          /* when that was last looked at */
    uint32_t full_for;         /* in so many passes since, while nothing was taken */
    struct nigh_filling filling;
    const uint64_t *ring_word; /* where the peer says its ring to us lies */
    const uint32_t *peer_closed;
    uint32_t peer_open; /* what *peer_closed says as long as the peer has not left */
    const uint32_t *peer_life, *peer_ended;
    const uint32_t *peer_cold;
    const uint64_t *peer_read_cost;

    bool wanted;              /* a receive from it was posted; in a crowd, stay.c */
    bool drains;              /* the last wait for room was worth it */
    uint64_t heard_before;    /* rx.next at the last body, in slots or in chunks; not in a crowd's */
    uint64_t row, row_before; /* bytes in pieces of this row of messages, and of the one before: plan.c */
    uint64_t row_heard;       /* rx.next at its last message */
    uint64_t answered_us;     /* of what rx.next has counted: GRANT, HELP, FINISH */
    uint64_t one_way; /* rx.next without those at the last message of beside.c's lengths, + 1; 0: none yet */
    uint32_t row_messages; /* of those, since anything else came */
    uint64_t early_ns;     /* when one of ours was over that was `early`, or we were about to write some */
    uint32_t away;         /* so many of those lengths more go without the peer, which was not there */

    struct nigh_pair *pair; /* our lines about this peer */
    uint32_t their_index;
    uint32_t refs; /* connects not yet undone */
    uint32_t pins; /* messages that lie in the peer's memory, claimed ones, lends held: that must stay */
    uint32_t rank; /* NIGH_RANK_NONE: of another job */
    uint64_t job, incarnation; /* incarnation 0: not known yet */
    int pid;
    bool self;
    bool attached; /* view, bell and theirs are valid */
    bool gone;     /* disconnected: waits for the peer's last look at our ring */
    bool dead;  /* nobody looks at our ring any more, whatever the peer's flag says: its process has ended */
    bool bare;  /* has ended and given back what it had of the peer and for it: strip.c */
    bool knew;  /* bare, and it was attached */
    bool aside; /* bare, and in the context's `aside` in place of `all` */
    bool busy;  /* in the context's busy list */
    bool hot;
    bool
        no_room; /* a send found the ring full; the one that waits for it clears this before it tries again */
    bool starved;   /* what waits found room, and no memory: note.c */
    uint64_t early; /* bytes of the peer's that wait in private memory for receives */
    const uint32_t *peer_crammed;
    const uint32_t *peer_reading; /* may the peer read our private memory? see struct nigh_pair */
    const uint32_t *peer_asks;    /* does it ask for help, then? */
    const uint32_t *peer_maps;    /* has it mapped our program's memory? */
    const uint64_t *peer_offered, *peer_helped; /* of NIGH_OFFERS each: help.h */
    uint64_t left_over_ns; /* with threads: when nothing that is to be told named it any more; 0: not yet */
    const char *suspect;   /* the peer said what cannot be: progress breaks the endpoint */
    struct nigh_last_note *last_note; /* of a bare one; NULL: its peer never wrote one */

    struct nigh_view view;       /* the peer's arena */
    struct nigh_program program; /* its program's memory, as far as that can be mapped */
    uint64_t *met;               /* a bit for each chunk of its pool that we have read; NULL: not kept */
    struct nigh_bell bell;       /* the peer's doorbell */
    struct nigh_window window;   /* of our ring to the peer */
    struct nigh_window theirs;   /* of the peer's ring to us */

    struct nigh_shuttle shuttle[2]; /* in our window; in theirs */
    uint8_t shuttle_last;           /* of these, the one that came last */
    uint32_t spread;                /* long messages of ours that are under way: spread.h */
    uint64_t swaps;                 /* cq.told + 1 when a long receive from it was posted: swap.h; 0: never */

    struct nigh_help help[NIGH_OFFERS]; /* with messages of ours, each at the place of its number */
    struct nigh_message
        *offered[NIGH_OFFERS];           /* the peer's that it is asked to help with, the same; NULL: none */
    uint32_t offers;                     /* the number of the last one */
    uint32_t offered_count, asked_count; /* of `offered`, and of `help` */
    uint64_t probed;                     /* ns: when its process was last known to be the peer */
    uint64_t lived;                      /* ns: when it was last known to live: pull.c */

    struct nigh_send_queue queue;          /* nothing of them has been sent */
    struct nigh_send_queue flow;           /* pieces may be sent */
    struct nigh_send_queue waiting;        /* announced, nothing of them may be sent: trust.c */
    uint32_t device_slots;                 /* that they hold */
    struct nigh_device_send *device_sends; /* that read from a device: device_send.c */
    struct nigh_message *device_receives;  /* that have come, but to the device: device_receive.c */
    uint32_t device_receives_count;
    struct nigh_device_peer *device_peer; /* what each has handed to the other: device_peer.h */
    uint64_t unmatched;                   /* bytes sent ahead of their GRANTs, or that may be */
    uint32_t trusted;                     /* messages in a row that found their receives */
    uint32_t answers;                     /* operations that answer the peer's */
    uint64_t fetched;                     /* bytes that answers hold in memory */
    struct nigh_ids out;                  /* ours under way: struct nigh_send_op */
    struct nigh_ids in;                   /* the peer's: struct nigh_message */

    uint64_t chunk;                 /* being filled: its arena offset, 0 = none */
    uint32_t chunk_low, chunk_high; /* what is left of it: long messages take from below, others from above */
    uint64_t chunk_until; /* it has been read when the peer has read up to here: behind its last piece */
    struct nigh_held_chunk *
        held; /* full ones, oldest first: a circular queue of NIGH_CHUNKS_HELD_MAX; NULL: there were none yet */
    uint32_t held_head, held_count;
    struct nigh_pace pace;
    struct nigh_timed timed[NIGH_TIMED_MAX]; /* a circular queue */
    uint32_t timed_head, timed_count;
    struct nigh_feel feel;
    uint64_t read_before[NIGH_PACE_STRATEGIES]; /* the peer's read_cost when it was last learned from */
    float read_line_ns[NIGH_PACE_STRATEGIES];   /* and what that was for a line */

    struct nigh_end end; /* why, once its state says that it has ended */

    struct nigh_endpoint *next_asked;
    struct nigh_endpoint *next_busy, *next_all, **link_all;
    struct nigh_endpoint *next_alike, **link_alike; /* peers.c */
};
static_assert(offsetof(struct nigh_endpoint, rx) == NIGH_LINE, "what both directions need is one line");

/* Its state, its ring or what fills has changed. */
static inline void nigh_endpoint_settle(struct nigh_endpoint *endpoint)
{
    endpoint->meets = endpoint->state == NIGH_READY && endpoint->rx.slots && !endpoint->fills;
}

/* ---- endpoint.c ---- */
/* A new one, under an index of its own, that is CONNECTING. -ENOSPC, -ENOMEM, -EMFILE. */
int nigh_endpoint_create(struct nigh_context *context, const struct nigh_identity *who,
                         struct nigh_endpoint **out);
/* Makes sure that there is a list for chunks that the peer has to read. By itself, as it is two pages, and endpoints
 * are to lie close together. -ENOMEM. */
int nigh_endpoint_hold(struct nigh_endpoint *endpoint);
/* Gives back all that it has of the peer and for it; nothing may use that any more. Not its index. */
void nigh_endpoint_release(struct nigh_endpoint *endpoint);
/* The next new endpoint may have this index. */
void nigh_endpoint_give_index(struct nigh_context *context, uint32_t index);
/* Frees everything; nothing of it may be in a list any more. */
void nigh_endpoint_free(struct nigh_endpoint *endpoint);

/* ---- attach.c ---- */
/* What the rendezvous tells of peers; its cookies are endpoints. */
extern const struct nigh_rendezvous_events nigh_endpoint_events;
/* A READY peer's life word is marked: receives what it had published, then ends the endpoint. */
void nigh_endpoint_lost(struct nigh_endpoint *endpoint);
/* Where the program has closed the descriptors that tell of deaths, asks for each process now and then. Returns whether one has
 * ended: its endpoint ends, if it had not, and gives back what the process could reach. */
bool nigh_endpoint_ask_all(struct nigh_context *context);
/* One that leads to its own context: READY at once. */
void nigh_endpoint_attach_self(struct nigh_endpoint *endpoint);

/* ---- connect.c ---- */
int nigh_endpoint_connect(struct nigh_context *context, const struct nigh_connect *to,
                          struct nigh_endpoint **out);
int nigh_endpoint_disconnect(struct nigh_endpoint *endpoint);
/* -ECONNRESET, -EPROTO or 0 by the state. */
int nigh_endpoint_check(const struct nigh_endpoint *endpoint);
/* Tells the peer that we are gone from it; used by disconnect and close. */
void nigh_endpoint_farewell(struct nigh_endpoint *endpoint);
/* The last disconnect: abandons it, says farewell; freed by progress when the peer looks no longer. */
void nigh_endpoint_retire(struct nigh_endpoint *endpoint);
/* Does its process live? A system call. */
bool nigh_endpoint_lives(const struct nigh_endpoint *endpoint);
/* Has all of its process ended, or begun another program? Without a descriptor of it; several calls. False also where it
 * cannot be told. */
bool nigh_endpoint_ended(const struct nigh_endpoint *endpoint);
/* Has the peer left? What it had published before can be seen then. */
static inline bool nigh_endpoint_left(const struct nigh_endpoint *endpoint)
{
    return nigh_load_acquire(endpoint->peer_closed, GOODBYE_HEAR) != endpoint->peer_open;
}

/* Behind the fence LEAVE_HEAR: may what the peer has referred us to be in other use by now? */
static inline bool nigh_endpoint_let_go(const struct nigh_endpoint *endpoint)
{
    return nigh_endpoint_left(endpoint) || nigh_load_relaxed(endpoint->peer_ended);
}
/* Is its process ending, or has it begun another program? It may do a little yet: docs/memory-model.md, "Death". */
static inline bool nigh_endpoint_marked(const struct nigh_endpoint *endpoint)
{
    return nigh_life_is_marked(nigh_load_acquire(endpoint->peer_life, LIFE_SEE));
}

/* ---- strip.c: behind the end ---- */
/* One that has ended gives back all but what its host can still ask for. Nothing happens while something pins it, or
 * memory is short: then it is for a later call. Nobody up the stack may be looking at the peer's memory. */
void nigh_endpoint_strip(struct nigh_endpoint *endpoint);
/* Of a bare one that is freed. */
void nigh_endpoint_give_numbers(struct nigh_endpoint *endpoint);
/* Bare ones that the host still has, which no pass needs to look at, are a list of their own; others stay. */
void nigh_endpoint_set_aside(struct nigh_endpoint *endpoint);
void nigh_endpoint_take_back(struct nigh_endpoint *endpoint);
/* The peer's last status line: 0, or what reading it gave. */
int nigh_endpoint_last_note(const struct nigh_endpoint *endpoint, struct nigh_note *out);

/* ---- fail.c: the end ---- */
/* Ends the endpoint: all its operations complete with `error`. Idempotent. */
void nigh_endpoint_fail(struct nigh_endpoint *endpoint, enum nigh_state state, int error, const char *why);
/* The peer said what cannot be, or cannot be answered: progress breaks the endpoint, as no list is
 * being walked there. */
void nigh_endpoint_suspect(struct nigh_endpoint *endpoint, const char *why);
/* The peer's process has ended: gives back what it might have read of ours. */
void nigh_endpoint_reclaim(struct nigh_endpoint *endpoint);
/* Ends all that is under way with -ECANCELED and forgets unmatched messages: the host has disconnected. */
void nigh_endpoint_abandon(struct nigh_endpoint *endpoint);

/* ---- plan.c ---- */
void nigh_plan_open(struct nigh_endpoint *endpoint);
/* Finds out whether we may read the peer's private memory, and lets the peer know. */
void nigh_plan_probe(struct nigh_endpoint *endpoint);
/* We may (0), or may not (negative errno). */
void nigh_plan_reading(struct nigh_endpoint *endpoint, int rc);
/* A message of its could not be read: is it so of all? */
void nigh_plan_unread(struct nigh_endpoint *endpoint, int rc);
/* May the peer read ours? */
static inline bool nigh_plan_peer_reads(const struct nigh_endpoint *endpoint)
{
    /* Relaxed: one word that says all. */
    return endpoint->attached && nigh_load_relaxed(endpoint->peer_reading) == 1;
}
/* From how many bytes on a send of private memory may be read by its receiver where it lies, of one by itself. */
uint64_t nigh_plan_place_from(const struct nigh_context *context);
/* What config.place_from is on a CPU. */
uint64_t nigh_plan_crowded_from(enum nigh_cpu cpu);
/* Is the CPU better off with one copy where two could go by a shuttle, too? */
bool nigh_plan_prefers_once(const struct nigh_context *context);
/* Whether one of so many bytes is: one copy, by process_vm_readv, of which the sender may make a part (help.h, beside.h). */
bool nigh_plan_in_place(const struct nigh_endpoint *endpoint, uint64_t bytes);
/* May the next message lie in a shuttle? `stream`: it follows another one, and nothing has come
 * from the peer in between. */
bool nigh_plan_shuttles(const struct nigh_endpoint *endpoint, bool stream);
/* Before the first piece of a large message: how it is cut and copied. */
void nigh_plan_choose(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* The flags of the next piece's slot; asked before it is copied. */
uint32_t nigh_plan_flags(const struct nigh_send_op *op);
/* Copies a piece of it, whose flags those are. */
void nigh_plan_copy(struct nigh_send_op *op, void *to, const uint8_t *from, uint32_t bytes, uint32_t flags);
/* Behind the copy of a piece of `bytes`, before its slot is published: feels the handoff now and then. */
void nigh_plan_copied(struct nigh_endpoint *endpoint, uint32_t bytes);
/* The receiving side of a timed piece: `started` is nigh_clock_ns() before its copy. */
void nigh_plan_read(struct nigh_endpoint *endpoint, uint64_t started, uint64_t bytes, uint32_t flags);
/* After its last piece; after a message that needed no operation. */
void nigh_plan_sent(struct nigh_endpoint *endpoint, const struct nigh_send_op *op);
void nigh_plan_sent_short(struct nigh_endpoint *endpoint);
/* nigh_ring_consumed(), and feels what it costs to read; the same, now and then. */
uint64_t nigh_plan_consumed(struct nigh_endpoint *endpoint);
uint64_t nigh_plan_consumed_for_chunk(struct nigh_endpoint *endpoint);
/* Learns from timed messages that have been read. */
void nigh_plan_watch(struct nigh_endpoint *endpoint);

/* ---- link.c: the ring of an endpoint ---- */
/* Room for a message of `slots`? Allocates or grows the ring. 0, -EAGAIN, -ENOMEM. */
int nigh_link_room(struct nigh_endpoint *endpoint, uint32_t slots);
/* Publishes a message of `bytes` to a peer that has not attached, whose credit nobody knows: it reads it when it does.
 * -EAGAIN, -ENOMEM: no room. */
int nigh_link_ahead(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm,
                    const void *payload, uint32_t bytes);
/* Sets the hint that a message was published, and wakes the peer where it sleeps. */
void nigh_link_wake(struct nigh_endpoint *endpoint);

/* Sends a message with a payload of at most NIGH_BODY_MAX. -EAGAIN: no room. */
int nigh_link_send(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm,
                   const void *payload, uint32_t bytes);
/* The same, or queued: cannot fail but for memory, which breaks the endpoint. */
void nigh_link_answer(struct nigh_endpoint *endpoint, enum nigh_kind kind, uint32_t flags, uint64_t tag,
                      uint64_t imm, const void *payload, uint32_t bytes);

/* The one check after publishing (SLEEP_CHECK): true where nigh_link_wake() must follow. */
static inline bool nigh_link_must_wake(const struct nigh_endpoint *endpoint)
{
    if (__builtin_expect(endpoint->light, 1))
        nigh_fence_light(SLEEP_CHECK);
    else
        nigh_fence_full(SLEEP_CHECK);
    /* Relaxed: the words steer only whether to wake; the ring itself carries the data. Both in one load, and the line
     * of the pair only where the peer has cold ones. */
    if (__builtin_expect(nigh_load_relaxed((const nigh_attention *)(const void *)endpoint->peer_asleep) == 0,
                         1))
        return false;
    return nigh_load_relaxed(endpoint->peer_asleep) | nigh_load_relaxed(endpoint->peer_cold);
}

static inline void nigh_link_published(struct nigh_endpoint *endpoint)
{
    if (__builtin_expect(nigh_link_must_wake(endpoint), 0))
        nigh_link_wake(endpoint);
}

#endif
