/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/context.h - a presence in a job: its arena, its peers, its queues. Private to plugin/. */
#ifndef NIGH_PLUGIN_CONTEXT_H
#define NIGH_PLUGIN_CONTEXT_H

#include "nigh/transport.h"
#include "plugin/completion.h"
#include "plugin/early.h"
#include "plugin/endpoint.h"
#include "plugin/far.h"
#include "plugin/field.h"
#include "plugin/lent.h"
#include "plugin/match.h"
#include "plugin/options.h"
#include "plugin/peers.h"
#include "plugin/refuse.h"
#include "plugin/region.h"
#include "plugin/share.h"
#include "plugin/slab.h"
#include "shm/arena.h"
#include "shm/copy.h"
#include "shm/crowd.h"
#include "shm/doorbell.h"
#include "shm/heap.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/pool.h"
#include "shm/rendezvous.h"
#include "shm/service.h"
#include <pthread.h>

/* Polled each time; the others are found by hints and by a sweep now and then. 16 lines are one L1 set's worth of
 * latency, about 10 ns of loads that overlap. */
#define NIGH_HOT_MAX 16u

enum { NIGH_GUARD_THREADS = 1, NIGH_GUARD_FORKED = 2 };

/* Who is waited for, as the host's note says. */
struct nigh_waits_for {
    uint32_t peer;
    uint64_t members;
};

struct nigh_context {
    uint16_t guard; /* NIGH_GUARD_*: 0 on the fast path */
    bool meets;     /* no guard, a crowd, no note that says blocked: a post may take what lies there */
    uint32_t hot_count;
    struct nigh_endpoint *hot[NIGH_HOT_MAX];
    uint32_t first_hot; /* of these, where the next pass begins */
    const uint32_t *service_flag;
    const uint64_t *hint_summary;
    struct nigh_endpoint *busy; /* with queued or flowing sends */
    uint64_t copied_by; /* ns: by then the peer has copied what was last sent as a reference, if it looks */
    struct nigh_message *pulls;   /* references being read */
    struct nigh_message *copying; /* of which nothing is left to be taken: threads copy their last slices */
    struct nigh_endpoint *asked;  /* whose messages from us we may help to copy: help.h */
    uint32_t referred; /* messages of ours that their receivers read out of this process, or will */
    uint32_t begun;    /* of these pulls, of which nothing is copied yet as it should have been at once */
    bool helps_not;    /* writing into a process has failed */
    uint8_t gave_way;  /* passes since `begun` in which nothing was copied, that others might run: pull.c */
    uint32_t idle_passes; /* since something arrived or a sweep was made */
    uint32_t busy_passes; /* in which something arrived, since a sweep was made */
    uint32_t sleepers;    /* threads in wait() that are or go to sleep */
    bool fd_armed;        /* somebody may be waiting for the descriptor */
    bool looks_for;       /* this pass is a probe's, so it leaves none */
    bool apart;           /* copies of large messages are not made in this pass, but behind it: pull.c */
    bool leaves;          /* this pass may leave unexpected messages in the rings: stay.c */
    bool suspects;        /* an endpoint is to be broken */
    bool blocked;         /* so says the host's note: what moves is counted there */
    bool hands;           /* the poll that makes this pass has had completions for its host before */
    bool probing; /* so says the host's note: it waits for messages that nobody has posted a receive for */
    uint32_t probed_class;
    uint64_t probed;      /* of the unexpected messages so many had come when probe() found nothing */
    bool nudged;          /* a peer has asked for a full pass, and wait() has not told yet */
    uint64_t nudges_seen; /* of the doorbell's */
    uint64_t received;    /* by the short way, for the counters: nigh_count_taken() */
    uint64_t clock;       /* counts what is heard, for the order of use */
    uint64_t
        received_bytes; /* as `received`, and not beside it, or compilers add both at once by way of vectors */
    struct nigh_cq cq;
    struct nigh_matcher matcher;
    struct nigh_slab send_ops, recv_ops, messages;
    struct nigh_arena_counters *counters; /* without what stands in struct nigh_ring_tx */

    struct nigh_config config;
    uint64_t incarnation;
    struct nigh_arena arena;
    struct nigh_bell bell;
    struct nigh_pool pool;
    struct nigh_heap *heap;
    struct nigh_shares shares;
    struct nigh_early early;
    struct nigh_rendezvous *rendezvous;
    struct nigh_service *service;
    /* In a crowd: receives that look into their peer's ring at once, and those that wait for what lies behind others. */
    bool at_once;   /* a post has found its message since the last poll */
    bool wants_any; /* by `sought` a receive from anyone was posted */
    bool waits;     /* and one that ends with its message */
    bool stays;     /* a message may have been found to stay */
    uint8_t
        unlooked; /* polls in a row without a pass, as there was such a message or the array was full of what waited */
    uint64_t sought;          /* the matcher's sequence when `wanted` of endpoints was found out, */
    uint32_t sought_of;       /* and how many were posted */
    uint32_t met, met_before; /* posts that have found their message; when it was last looked */
    uint32_t quiet_passes;    /* in a row without news, of a message that stays and others */
    uint32_t news_passes;     /* with news, since it was looked at what lies behind messages that stay */
    struct nigh_crowd crowd;  /* of all attached processes */
    struct nigh_regions regions;
    struct nigh_lents lents;
    struct nigh_far far; /* slices that are copied for another thread */
    uintptr_t inside;    /* NIGH_GUARD_THREADS: the thread that has the lock, as pthread_self() */
    struct nigh_message *claimed;
    struct nigh_endpoint **by_index; /* peers_max entries */
    uint32_t index_next, *index_free, index_free_count;
    struct nigh_endpoint *all;
    struct nigh_peers peers;
    uint32_t endpoint_count;
    uint32_t shuttles; /* bytes of ours that have memory */
    bool has_matcher;
    struct nigh_waits_for waits_for;
    uint32_t deaths_untold; /* peers that died with no wildcard receive posted to tell it */
    struct nigh_log_sink log;
    uint32_t refusals; /* told of; refuse.h */
    bool refused_child;

    pthread_mutex_t lock;                        /* NIGH_GUARD_THREADS */
    struct nigh_context *next_open, **link_open; /* all contexts of the process, for fork */
};

/* ---- progress.c ---- */
/* One pass over whatever may have something. Returns whether anything moved. */
bool nigh_progress(struct nigh_context *context);
/* Looks at every endpoint, not only the hot ones, and brings the counters up to date. */
bool nigh_progress_sweep(struct nigh_context *context);
/* Looks at everything there is: the sockets of attaching too. Costs system calls. */
bool nigh_progress_all(struct nigh_context *context);
/* Puts the endpoint on the list of those whose sends wait. */
void nigh_progress_busy(struct nigh_endpoint *endpoint);
/* Makes the endpoint one that is polled each time. */
void nigh_progress_warm(struct nigh_endpoint *endpoint);
/* A new one: polled each time if there is room for it, else by the hints that it is asked for. */
void nigh_progress_admit(struct nigh_endpoint *endpoint);
void nigh_progress_forget(struct nigh_endpoint *endpoint);

/* ---- stay.c: short messages that come before their receives ---- */
/* May this one stay in its ring for now? */
bool nigh_stay_may(struct nigh_endpoint *endpoint, uint32_t bytes);
/* The same in a crowd, where it may, of one that is no longer than half of the ring with what is owed: unless its sender was held up, and
 * nothing that was kept of it has found its receive since. */
static inline bool nigh_stay_may_in_crowd(struct nigh_endpoint *endpoint)
{
    if (__builtin_expect(endpoint->hurried, 0))
        return false;
    endpoint->stays = (uint32_t)endpoint->context->matcher.sequence + 1;
    endpoint->context->stays = true;
    return true;
}
/* In a pass that leaves some: the oldest one was found to stay, and no receive was posted since. */
static inline bool nigh_stay_goes_on(const struct nigh_endpoint *endpoint)
{
    return endpoint->stays && endpoint->stays == (uint32_t)endpoint->context->matcher.sequence + 1;
}
/* A receive from the peer was posted: takes the oldest short message, if there is one. In a crowd, where that is there before its
 * receive most often, and a pass over all rings costs more. */
void nigh_stay_seek(struct nigh_endpoint *endpoint);
/* Behind a pass in a crowd, in which something has `moved` or not, where a message may stay. When it is time it looks behind those, and takes
 * or keeps them where what lies there is no message, or a receive may wait for it, or their sender is held up. True: something moved. */
bool nigh_stay_pass(struct nigh_context *context, bool moved);

/* ---- arrive.c ---- */
/* Messages taken from one peer before the next gets its turn. */
#define NIGH_TURN 64u

/* Handles what the peer has sent, at most `budget` messages. Returns how many. */
uint32_t nigh_arrive_poll(struct nigh_endpoint *endpoint, uint32_t budget);

/* Slots of its ring were read: the peer gets its credit back if that is due and would not hold our answer up. 0. */
int nigh_arrive_owing(struct nigh_endpoint *endpoint);

/* Handles the rest of what a peer that has left had published. True: there is no more, or it goes on without end. */
bool nigh_arrive_rest(struct nigh_endpoint *endpoint);
/* The payload of the slot at the cursor: a struct of plugin/wire.h, whole words and at most a slot's. Inline, so that it stays
 * in registers: memcpy() would load what has just been stored in other pieces. */
static inline __attribute__((always_inline)) void nigh_arrive_payload(const struct nigh_endpoint *endpoint,
                                                                      void *out, size_t bytes)
{
    const uint64_t *from = (const uint64_t *)(const void *)endpoint->rx.at->payload;

    /* Relaxed: RING_PEEK came before. Word by word, so that the compiler cannot read anything twice. */
    for (size_t i = 0; i < bytes / 8; i++) {
        uint64_t word = nigh_load_relaxed(&from[i]);

        memcpy((uint8_t *)out + 8 * i, &word, 8);
    }
}
/* What a peer may report as a status; anything else it says is "it failed". */
int nigh_arrive_status(uint64_t imm);

/* ---- short.c: a lone message of one slot ---- */
/* nigh_arrive_poll() of a quiet ring in which there is a message, whose word 0 is `head`. */
uint32_t nigh_short_poll(struct nigh_endpoint *endpoint, uint64_t head);
/* The slot: a plain receive from the peer, which may take a message that is there; nigh_recv_file() the others. */
int nigh_recv_imm(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t ignore,
                  uint64_t context);

/* ---- pieces.c ---- */
/* Can a message in pieces begin like this? Its id is unused, its first piece, if any, lies in the peer's pool or in a shuttle. */
bool nigh_arrive_first_is_sound(struct nigh_endpoint *endpoint, const struct nigh_wire_first *first,
                                uint32_t flags);
/* A message in pieces whose place is known and whose beginning is sound: files it and takes its first piece. */
enum nigh_verdict nigh_arrive_first_piece(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                          uint32_t flags);
/* A peer's slot of that kind. */
enum nigh_verdict nigh_arrive_first(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
enum nigh_verdict nigh_arrive_piece(struct nigh_endpoint *endpoint, uint64_t head, uint64_t id);
enum nigh_verdict nigh_arrive_whole(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
enum nigh_verdict nigh_arrive_refer(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag,
                                    uint64_t imm);
/* The next `bytes` of a message, at `line`. Whoever calls it has filed the message; it is gone when it was the last piece. */
enum nigh_verdict nigh_arrive_more(struct nigh_message *message, uint32_t line, uint32_t bytes,
                                   uint32_t flags);
/* Copies a piece with the kernel that its sender asked for. */
void nigh_arrive_copy(void *to, const void *from, uint64_t bytes, uint32_t flags);

/* ---- counted.c: messages in a shuttle of which one slot tells, and then a count ---- */
/* Should a message of `bytes` go so? */
bool nigh_counted_is_for(uint64_t bytes);
/* Sends it. The shuttle and `id` are the message's, there is room for a slot, and the flags name the shuttle. */
void nigh_counted_send(struct nigh_endpoint *endpoint, const struct nigh_send *send, uint8_t *shuttle,
                       uint32_t flags, uint32_t id);
/* Can one begin like this? */
bool nigh_counted_is_sound(const struct nigh_wire_first *first, uint32_t flags);
/* Its first step has been taken: the rest is looked for now, and in each poll of the endpoint. NIGH_BAD: the count cannot be. */
enum nigh_verdict nigh_counted_begin(struct nigh_message *message, uint32_t flags);
/* Takes what the count of the endpoint's message, which there is, says is there. `behind`: a slot behind it is, so all of it
 * must be; else, and where the count cannot be, the endpoint breaks. Returns whether anything moved. */
bool nigh_counted_fill(struct nigh_endpoint *endpoint, bool behind);

/* ---- send.c, large.c ---- */
int nigh_send_post(struct nigh_endpoint *endpoint, const struct nigh_send *send);
/* The same under the context's guard; entry.c. */
int nigh_guarded_send(struct nigh_endpoint *endpoint, const struct nigh_send *send);
/* The slots of the table themselves: whatever is called before them would save registers; inject.c, expect.c. */
int nigh_expect(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag, uint64_t context,
                nigh_refused_fn refused);
int nigh_inject(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                uint64_t context, nigh_refused_fn refused);
int nigh_inject_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t imm);
int nigh_send_imm(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                  uint64_t imm, uint64_t context);
int nigh_recv_file(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t ignore, uint64_t context);
/* May one more be posted? 0; -ECONNRESET, -EPROTO by the state; -EAGAIN: as many are queued as one endpoint may have. */
int nigh_send_check(const struct nigh_endpoint *endpoint);
/* Posts an operation that is filled in: starts it or queues it. The CQ entry is reserved. */
void nigh_send_begin(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Starts queued and continues flowing sends. Returns whether anything moved. */
bool nigh_send_progress(struct nigh_endpoint *endpoint);
/* Completes an operation and frees it. */
void nigh_send_complete(struct nigh_endpoint *endpoint, struct nigh_send_op *op, int status, uint64_t bytes);
/* Frees without a completion. */
void nigh_send_discard(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* First slot of an operation with pieces; then as many pieces as can go. -EAGAIN: nothing sent. */
int nigh_large_start(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* Sends a message of at most NIGH_WHOLE_MAX, one that fits a shuttle that we hold, and at most what goes without asking,
 * without an operation: in one piece up to NIGH_ONE_PIECE and in streams, else in several. -EAGAIN: it must go the long
 * way. */
#define NIGH_WHOLE_MAX 65535u
#define NIGH_ONE_PIECE 4096u
int nigh_large_whole(struct nigh_endpoint *endpoint, const struct nigh_send *send);
/* Sends pieces; true when something moved. */
bool nigh_large_flow(struct nigh_endpoint *endpoint);
/* The peer has matched it; `late`: its receive came behind it. */
void nigh_large_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late);
/* Chunks that the peer has read go back to the pool. */
bool nigh_large_reclaim(struct nigh_endpoint *endpoint, bool all);

/* ---- trust.c: how much of a message longer than NIGH_EAGER goes before it is matched ---- */
/* Before its first slot. False: NIGH_EAGER bytes. True: all may be announced, and `allowed` is set to what may be sent now, all or
 * nothing; its GRANT is asked for. */
bool nigh_trust_whole(struct nigh_endpoint *endpoint, struct nigh_send_op *op);
/* It is matched. */
void nigh_trust_granted(struct nigh_endpoint *endpoint, struct nigh_send_op *op, bool late);
/* One that was announced and may be sent now, all of it; NULL: none. */
struct nigh_send_op *nigh_trust_next(struct nigh_endpoint *endpoint);

/* ---- receive.c ---- */
int nigh_recv_post(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);
/* The same without the short way of a plain one, which does not tell who has posted it. */
int nigh_recv_post_generally(struct nigh_context *context, struct nigh_endpoint *from,
                             const struct nigh_recv *recv);
/* The same under the context's guard; entry.c. */
int nigh_guarded_recv(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv);
/* In a crowd one was posted: while all before it have found their messages it is looked for at once. Else who has posted one that is
 * not there yet posts on, sends or waits, and a pass sees to all. 0. */
int nigh_recv_look(struct nigh_endpoint *from);
/* Why a receive that found no message cannot wait for one: its peer has ended, or somebody died while nobody waited
 * for anyone, which is told to the first who does. 0: it can. */
int nigh_recv_cannot_wait(struct nigh_context *context, const struct nigh_endpoint *from);
/* 0, -EINVAL, -EFAULT: what the host asks for. Told as `call`'s. */
int nigh_recv_check(struct nigh_context *context, const char *call, const struct nigh_recv *recv);
/* An operation with its room in the completion queue. -ENOMEM. */
int nigh_recv_create(struct nigh_context *context, struct nigh_endpoint *from, const struct nigh_recv *recv,
                     struct nigh_recv_op **out);
/* Takes back a receive that is out of the matcher: it completes with `status`, a multi-receive buffer not before the
 * messages that are arriving in it. */
void nigh_recv_cancel(struct nigh_context *context, struct nigh_recv_op *op, int status,
                      struct nigh_endpoint *endpoint);

/* ---- deliver.c ---- */
/* A message of the peer's, empty and without an id. NULL: no memory. */
struct nigh_message *nigh_message_create(struct nigh_endpoint *endpoint);
/* With its private buffer. */
void nigh_message_free(struct nigh_message *message);
/* A receive that took no message, or no more, ends: completes and is freed. */
void nigh_recv_end(struct nigh_context *context, struct nigh_recv_op *op, int status,
                   struct nigh_endpoint *endpoint);
/* A receive that a message of `total` bytes has matched takes it on: where do the bytes go? */
void nigh_recv_accept(struct nigh_message *message, struct nigh_recv_op *op);
/* Its sender has withdrawn a claimed message: the receive fails, the message is freed. */
void nigh_recv_refuse(struct nigh_message *message, struct nigh_recv_op *op);
/* The message is complete (or has failed): completion of its receive, message freed. */
void nigh_recv_finish(struct nigh_message *message, int status);
/* A whole message of `bytes` at the ring's cursor for a posted receive. */
void nigh_recv_deliver(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, uint32_t bytes, uint64_t tag,
                       uint64_t imm);
/* The same for one that lies in a chunk; `op` is a plain receive. */
void nigh_recv_deliver_piece(struct nigh_endpoint *endpoint, struct nigh_recv_op *op, const void *from,
                             uint32_t bytes, uint64_t tag, uint64_t imm, uint32_t flags);
/* A lend whose receiver reads in place: nothing is copied, release() answers the lender. `op` takes it. */
void nigh_recv_lend(struct nigh_endpoint *endpoint, struct nigh_recv_op *op,
                    const struct nigh_wire_refer *refer, uint64_t tag, uint64_t imm);
/* Can it? */
static inline bool nigh_recv_takes_lend(const struct nigh_posted *posted, uint64_t bytes)
{
    const struct nigh_recv_op *op = (const struct nigh_recv_op *)(const void *)posted;

    return op->flags == NIGH_IN_PLACE && bytes <= op->bytes;
}
/* A multi-receive buffer needs an entry in the completion queue for each message: looked for before it is taken further,
 * so that nothing has to be undone. */
static inline bool nigh_recv_can_complete(struct nigh_context *context, const struct nigh_posted *posted)
{
    return !posted->keep || nigh_cq_reserve(&context->cq, 1) == 0;
}

/* ---- multi.c ---- */
/* Files a multi-receive buffer and fills it with what waits. */
void nigh_multi_post(struct nigh_context *context, struct nigh_endpoint *from, struct nigh_recv_op *op);
/* Gives the next `bytes` of it to a message. */
void nigh_multi_take(struct nigh_context *context, struct nigh_recv_op *op, uint64_t bytes);
/* Completes one message in it. The last frees the operation. */
void nigh_multi_complete(struct nigh_context *context, struct nigh_recv_op *op, struct nigh_completion *done);

/* ---- probe.c, cancel.c ---- */
int nigh_probe(struct nigh_context *context, struct nigh_endpoint *from, uint64_t tag, uint64_t ignore,
               uint32_t tclass, struct nigh_completion *found, struct nigh_message **out);
int nigh_recv_claim(struct nigh_context *context, struct nigh_message *message, const struct nigh_recv *recv);
int nigh_cancel(struct nigh_context *context, uint64_t op_context);

/* ---- pull.c: reading what lies with the sender ---- */
void nigh_pull_begin(struct nigh_message *message);
/* Continues; true when something moved. */
bool nigh_pull_progress(struct nigh_context *context);
/* The same, with the context's lock open while bytes are copied: other threads come in, and may copy the same message. For those
 * who have nothing half done. */
bool nigh_pull_apart(struct nigh_context *context);
/* Ends one before its time; at once, or, where threads or its sender are copying it, when they are done. */
void nigh_pull_fail(struct nigh_message *message, int status);
/* For close: waits for senders that are in the middle of a slice of what has been ended so; 5 s at most, if one was stopped there. */
void nigh_pull_drain(struct nigh_context *context);

/* ---- rma.c, lend.c ---- */
int nigh_rma_put(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
int nigh_rma_get(struct nigh_endpoint *endpoint, const struct nigh_rma *rma);
int nigh_atomic_post(struct nigh_endpoint *endpoint, const struct nigh_atomic *atomic);
/* Requests and answers of peers. */
enum nigh_verdict nigh_rma_arrive(struct nigh_endpoint *endpoint, uint64_t head, uint64_t tag, uint64_t imm);
/* An operation of a peer on region `key` is done, and the host wants to hear of it: there is room for that. */
void nigh_rma_tell(struct nigh_endpoint *endpoint, enum nigh_op op, uint64_t key, uint64_t bytes,
                   uint64_t imm);
void nigh_rma_put_done(struct nigh_message *message);
void nigh_rma_reply_done(struct nigh_message *message);
int nigh_lend_post(struct nigh_endpoint *endpoint, const struct nigh_lend *lend);
int nigh_lend_release(struct nigh_context *context, void *data);

/* ---- note.c ---- */
int nigh_note_set(struct nigh_context *context, const struct nigh_note *note);
int nigh_endpoint_nudge(struct nigh_endpoint *endpoint, uint64_t *number);
/* Has a peer asked for a full pass? Says so once. */
bool nigh_note_is_asked(struct nigh_context *context);
/* Makes that pass, behind one in which something has `moved` or not. Returns whether anything moved in it. */
bool nigh_note_answer(struct nigh_context *context, bool moved);

/* ---- wait.c, query.c ---- */
int nigh_wait(struct nigh_context *context, uint64_t timeout_ns);
int nigh_wait_fd(struct nigh_context *context, int *fd);
int nigh_query(struct nigh_context *context, struct nigh_endpoint *endpoint, uint32_t what, void *out,
               uint64_t *bytes);
/* Hands an answer over: cut to the caller's room, or followed by zeros. */
int nigh_query_answer(const void *from, uint64_t known, void *out, uint64_t *bytes);
/* query_list.c: NIGH_QUERY_UNEXPECTED and NIGH_QUERY_POSTED. */
int nigh_query_unexpected(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                          uint64_t *bytes);
int nigh_query_posted(const struct nigh_context *context, const struct nigh_endpoint *only, void *out,
                      uint64_t *bytes);

/* ---- counting: words in the arena that observers read, each by itself, so relaxed ---- */
static inline void nigh_count(uint64_t *word, uint64_t more)
{
    nigh_store_relaxed(word, nigh_load_relaxed(word) + more);
}

/* Has something come that a blocked probe has not looked at? */
static inline bool nigh_is_unprobed(const struct nigh_context *context)
{
    return context->probing && nigh_load_relaxed(&context->counters->unexpected) != context->probed;
}

static inline void nigh_count_sent(struct nigh_context *context, enum nigh_path path, uint64_t messages,
                                   uint64_t bytes)
{
    nigh_count(&context->counters->sent[path], messages);
    nigh_count(&context->counters->sent_bytes[path], bytes);
}

/* A message has gone another way than the one it was counted for. In this order nobody sees one less in all. */
static inline void nigh_count_redirected(struct nigh_context *context, enum nigh_path from, enum nigh_path to,
                                         uint64_t bytes)
{
    nigh_count_sent(context, to, 1, bytes);
    nigh_count_sent(context, from, -UINT64_C(1), -bytes);
}

/* Takes over what the short way has counted in the ring's own line. */
static inline void nigh_count_tally(struct nigh_endpoint *endpoint)
{
    nigh_count_sent(endpoint->context, NIGH_PATH_INLINE, nigh_ring_ones(&endpoint->tx), endpoint->tx.bytes);
    nigh_ring_tallied(&endpoint->tx);
}

/* The same of what was received. */
static inline void nigh_count_taken(struct nigh_context *context)
{
    nigh_count(&context->counters->received, context->received);
    nigh_count(&context->counters->received_bytes, context->received_bytes);
    context->received = context->received_bytes = 0;
}

/* ---- context.c ---- */
int nigh_context_open(const struct nigh_open *options, struct nigh_context **out);
int nigh_context_close(struct nigh_context *context);

/* The crowd has changed, and what goes by it with it. */
void nigh_context_crowd(struct nigh_context *context);

/* The crowd, the guard or the note has changed. */
static inline void nigh_context_settle(struct nigh_context *context)
{
    context->meets = context->crowd.full && !context->guard && !context->blocked;
}

/* How copies for several receivers are made and read: ranks that run in turns find nothing of long ones in their caches, so the order
 * counts. Allgather of 1 MiB over Open MPI, 8 ranks on 2 CPUs: 0.88 and, in quarters, 0.68 of its own; below, nothing that shows. */
static inline enum nigh_copy_kernel nigh_context_kernel(const struct nigh_context *context, uint64_t bytes)
{
    return context->crowd.full && bytes > 512 * 1024 ? NIGH_COPY_QUARTERS : NIGH_COPY_PLAIN;
}

/* ---- poll.c ---- */
int nigh_poll(struct nigh_context *context, struct nigh_completion *out, uint32_t count);
/* With threads. */
int nigh_poll_shared(struct nigh_context *context, struct nigh_completion *out, uint32_t count);
int nigh_take(struct nigh_context *context, struct nigh_taken *out, uint32_t count);

/* ---- entry.c ---- */
/* Lets other threads in while this one sleeps. */
void nigh_guard_leave(struct nigh_context *context);
void nigh_guard_enter(struct nigh_context *context);
/* Only that, for a while in which this thread neither sleeps nor has anything to poll. nigh_guard_enter() ends it. */
void nigh_guard_open(struct nigh_context *context);

/* Is there something that a sleeping thread must wake for and that nobody else will wake it for? */
static inline bool nigh_is_restless(const struct nigh_context *context)
{
    return nigh_cq_count(&context->cq) != 0 || context->pulls || context->suspects || context->nudged;
}

static inline void nigh_complete(struct nigh_context *context, const struct nigh_completion *completion)
{
    nigh_cq_push(&context->cq, completion);
}

#endif
