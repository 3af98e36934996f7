/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/match.h - tag matching: which receive takes which message. Private memory only, no I/O, one thread at
 * a time. It lives alone because the order rule below is what hosts build on, and because the common case (a
 * receive that names its source and its tag) has to cost a few nanoseconds however many others wait.
 */
#ifndef NIGH_PLUGIN_MATCH_H
#define NIGH_PLUGIN_MATCH_H

#include "nigh/transport.h"
#include "plugin/match_table.h"

#define NIGH_ANY UINT32_MAX /* as source: every peer */

/*
 * The order rule. Of the receives that match a message the one posted first takes it. Of the messages that
 * match a receive the one that was kept first is taken. A receive matches a message when the class is the
 * same, the source is the same or NIGH_ANY, and the tags are equal in all bits that `ignore` leaves.
 *
 * Receives that name the same things form a *shape*: whether one source or any, and which bits of the tag are
 * ignored. Of one shape all that match a message have the same key, so they are a queue of the table that the
 * message finds at once; it looks into one queue for each shape that is in use and takes the oldest head. Hosts
 * use few shapes (many ignore the same protocol bits in all their receives). More than NIGH_MATCH_SHAPES at one
 * time go to a list per class, which is walked.
 *
 * Receives that a match leaves where they stand are a list per class of their own, and count among no others: a host
 * that has some for one purpose, always, and in a class of their own, as Intel MPI does, has the short ways in all other
 * classes. The first of them mostly is the one.
 *
 * A message that no receive was there for is in four queues at once: (source, class, tag), (class, tag),
 * (source, class), and its class. The tags of the first two leave out the bits of `filed_ignore`: what most
 * receives that look for messages ignore, as learnt from them. Other masks walk the third or the fourth queue.
 */
enum nigh_match_shape_number {
    NIGH_MATCH_EXACT = 0,      /* one source, the whole tag */
    NIGH_MATCH_ANY_SOURCE = 1, /* any source, the whole tag */
    NIGH_MATCH_ANY_TAG = 2,    /* one source, nothing of the tag */
    NIGH_MATCH_ANYTHING = 3,
    NIGH_MATCH_FREE = 4, /* this and all above: whatever is posted */
    NIGH_MATCH_SHAPES = 16,
    NIGH_MATCH_LISTED = NIGH_MATCH_SHAPES, /* of a receive in the list */
    NIGH_MATCH_ALONE,                      /* of one that waits alone: match_alone.h */
    NIGH_MATCH_STANDING,                   /* of one that a match leaves where it stands */
};

/* Sources below this number may have one that waits alone: a bit each. */
#define NIGH_MATCH_LONE_MAX 64u

struct nigh_match_shape {
    uint64_t ignore;
    uint32_t any;   /* all bits of a source where that does not count, else 0 */
    uint32_t count; /* receives of this shape; of the hot one it is posted_count - others */
};

/* A posted receive: a member of the caller's operation. The caller sets tag, ignore, source, tclass and keep.
 * From nigh_match_post() until it is handed back it belongs to the matcher and must not move. The node lies behind the
 * rest, as one that waits alone does not need it: so the caller's operation may have that in one line with its own. */
struct nigh_posted {
    uint64_t tag, ignore;
    uint32_t source; /* index of the peer, or NIGH_ANY */
    uint16_t tclass; /* below NIGH_TCLASSES */
    bool keep;     /* a match leaves it where it stands (multi-receive); the caller withdraws it in the end */
    uint8_t shape; /* number of its shape, or what is not filed by one; the matcher's */
    uint64_t sequence; /* when it was posted; the matcher's */
    struct nigh_match_node node;
};

/* A link of the list of a class. */
struct nigh_match_link {
    struct nigh_match_link *next, *prev;
};

/* A message that waits for its receive: a member of the caller's unexpected message. The caller sets source,
 * tclass and tag. From nigh_match_keep() until it is taken or dropped it belongs to the matcher. */
struct nigh_arrived {
    struct nigh_match_node exact, any_source, any_tag;
    struct nigh_match_link order;
    uint64_t tag;
    uint32_t source; /* index of the peer, never NIGH_ANY */
    uint32_t tclass; /* below NIGH_TCLASSES */
};

struct nigh_matcher {
    union {
        struct {
            uint32_t posted_count;  /* receives, but for those that stand */
            uint32_t arrived_count; /* messages */
        };
        uint64_t waiting; /* 0: neither */
    };
    uint32_t standing_count; /* receives that stand */
    uint32_t stands;         /* a bit for each class that has such */
    uint64_t alone;    /* a bit for each source of one that waits alone: then all do (`others` counts them) */
    uint32_t others;   /* receives that do not lie in the table under the hot shape */
    uint32_t active;   /* bit of each shape that may have receives */
    uint64_t sequence; /* of the receive that is posted next */
    uint64_t hot_key;  /* nigh_match_key(number, any, 0) of the last receive's shape: mostly all's */
    uint64_t hot_ignore; /* and what it ignores */
    struct nigh_match_table posted;
    struct nigh_match_node *recent; /* posted last, if it is in the table: then it ends its queue */
    struct nigh_match_shape shapes[NIGH_MATCH_SHAPES];
    struct nigh_match_node listed[NIGH_TCLASSES];   /* rings of the other receives through next and prev */
    struct nigh_match_node standing[NIGH_TCLASSES]; /* and of those that stand */
    struct nigh_match_table arrived;
    uint64_t filed_ignore; /* bits that the tags of the first two queues leave out */
    uint64_t walked;       /* messages looked at in vain since it was last chosen */
    struct nigh_match_link arrived_order[NIGH_TCLASSES]; /* rings of messages through `order` */
    struct nigh_posted *lone[NIGH_MATCH_LONE_MAX];       /* by source, where `alone` has its bit */
};

/* -ENOMEM; nothing to destroy then. The matcher must not be moved afterwards. */
int nigh_match_init(struct nigh_matcher *matcher);

/* Frees the tables. Receives and messages that are left are the caller's. */
void nigh_match_destroy(struct nigh_matcher *matcher);

/* No two shapes share a key. `source` is NIGH_ANY in those of any source. */
static inline uint64_t nigh_match_key(uint32_t shape, uint32_t source, uint32_t tclass)
{
    return (uint64_t)shape << 48 | (uint64_t)tclass << 32 | source;
}

/* NULL of NULL. */
static inline struct nigh_posted *nigh_match_posted_of(struct nigh_match_node *node)
{
    return node ? (struct nigh_posted *)(void *)((char *)node - offsetof(struct nigh_posted, node)) : NULL;
}

/* For match*.c and the inline functions below alone. */
void nigh_match_forget(struct nigh_matcher *matcher,
                       const struct nigh_posted *posted); /* it is out already */
struct nigh_posted *nigh_match_arrive_mixed(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                            uint64_t tag);
struct nigh_arrived *nigh_match_find_any(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                         uint64_t tag, uint64_t ignore, bool take);

/* All receives that are posted. */
static inline uint32_t nigh_match_posted(const struct nigh_matcher *matcher)
{
    return matcher->posted_count + matcher->standing_count;
}

/* Does a receive of this class stand? */
static inline bool nigh_match_stands(const struct nigh_matcher *matcher, uint32_t tclass)
{
    return matcher->stands >> tclass & 1;
}

/* Is a receive from `source`, or NIGH_ANY, of the hot shape, and none waits alone? */
static inline bool nigh_match_is_hot(const struct nigh_matcher *matcher, uint32_t source, uint64_t ignore)
{
    return ignore == matcher->hot_ignore && (source == NIGH_ANY) == ((uint32_t)matcher->hot_key != 0) &&
           !matcher->alone;
}

/* nigh_match_post() of one that is. */
static inline void nigh_match_post_hot(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    struct nigh_match_node *recent = matcher->recent;

    posted->sequence = matcher->sequence++;
    matcher->posted_count++;
    posted->shape = (uint8_t)(matcher->hot_key >> 48);
    posted->node.key = matcher->hot_key | (uint64_t)posted->tclass << 32 | posted->source;
    posted->node.tag = posted->tag & ~posted->ignore;
    matcher->recent = &posted->node;
    /* A window of receives has one key: its queue need not be looked for. */
    if (recent && recent->key == posted->node.key && recent->tag == posted->node.tag)
        nigh_match_append_behind(recent, &posted->node);
    else
        nigh_match_append(&matcher->posted, &posted->node);
}

/* Is the hot shape that of receives from one peer with exactly one tag, and none waits alone? */
static inline bool nigh_match_hot_is_plain(const struct nigh_matcher *matcher)
{
    return matcher->hot_ignore == 0 && (uint32_t)matcher->hot_key == 0 && !matcher->alone;
}

/* nigh_match_post() of such a receive, of which nothing is set. */
static inline void nigh_match_post_plain(struct nigh_matcher *matcher, struct nigh_posted *posted,
                                         uint32_t source, uint32_t tclass, uint64_t tag)
{
    struct nigh_match_node *recent = matcher->recent;
    uint64_t key = matcher->hot_key | (uint64_t)tclass << 32 | source;

    posted->source = source;
    posted->tclass = (uint16_t)tclass;
    posted->keep = false;
    posted->shape = (uint8_t)(matcher->hot_key >> 48);
    posted->tag = posted->node.tag = tag;
    posted->ignore = 0;
    posted->sequence = matcher->sequence++;
    posted->node.key = key;
    matcher->posted_count++;
    matcher->recent = &posted->node;
    if (recent && recent->key == key && recent->tag == tag)
        nigh_match_append_behind(recent, &posted->node);
    else
        nigh_match_append(&matcher->posted, &posted->node);
}

/* Files a receive behind all that are posted. The caller has looked for a message that is there already
 * (nigh_match_find with take). Cannot fail: where memory is short look-ups get longer. */
void nigh_match_post(struct nigh_matcher *matcher, struct nigh_posted *posted);

/* Where the oldest receive of the hot shape hangs that matches a message from `source`; NULL hangs there if none does.
 * While there are no others, and none of the class stands, it is what nigh_match_arrive() would give. */
static inline struct nigh_match_node **nigh_match_waiting(const struct nigh_matcher *matcher, uint32_t source,
                                                          uint32_t tclass, uint64_t tag)
{
    return nigh_match_seek(&matcher->posted, matcher->hot_key | (uint64_t)tclass << 32 | source,
                           tag & ~matcher->hot_ignore);
}

/* Takes the receive that hangs there out. */
static inline void nigh_match_take(struct nigh_matcher *matcher, struct nigh_match_node **at)
{
    struct nigh_match_node *taken = *at;

    nigh_match_shift(&matcher->posted, at);
    matcher->posted_count--;
    if (matcher->recent == taken)
        matcher->recent = NULL;
}

/* The oldest receive that matches a message from `source`, NULL if there is none. It is out of the matcher,
 * unless its `keep` is set: then it stands where it stood. */
static inline struct nigh_posted *nigh_match_arrive(struct nigh_matcher *matcher, uint32_t source,
                                                    uint32_t tclass, uint64_t tag)
{
    struct nigh_match_node **at;
    struct nigh_posted *posted;

    if (__builtin_expect(matcher->others || nigh_match_stands(matcher, tclass), 0))
        return nigh_match_arrive_mixed(matcher, source, tclass, tag);
    if (matcher->posted_count == 0)
        return NULL;
    at = nigh_match_waiting(matcher, source, tclass, tag);
    posted = nigh_match_posted_of(*at);
    if (posted != NULL)
        nigh_match_take(matcher, at);
    return posted;
}

/*
 * Messages of one peer and class, taken one after the other: those with the same tag take their receives from one
 * queue, which is looked for once and put in order when the run ends. For receives of the hot shape, while there are no
 * others and none of the class stands. Between the first peek and the end nothing else may be done with the matcher.
 */
struct nigh_match_run {
    struct nigh_match_node *head; /* what the next message with `tag` gets, unless `last` was the tail */
    struct nigh_match_node *last, *tail; /* taken last; the end of the queue; equal: there is no queue */
    uint64_t tag;
    struct nigh_match_node **at, *chain; /* where the queue hangs, and what behind it */
};

static inline void nigh_match_run_close(struct nigh_matcher *matcher, const struct nigh_match_run *run)
{
    if (!run->at)
        return;
    if (run->last != run->tail) {
        run->head->prev = run->tail;
        run->tail->next = run->head;
        run->head->chain = run->chain;
        *run->at = run->head;
        return;
    }
    *run->at = run->chain;
    matcher->posted.queues--;
    if (matcher->recent == run->tail)
        matcher->recent = NULL;
}

/* The receive that the next message matches, NULL: none. It stays. */
static inline struct nigh_posted *nigh_match_run_peek(struct nigh_matcher *matcher,
                                                      struct nigh_match_run *run, uint32_t source,
                                                      uint32_t tclass, uint64_t tag)
{
    if (__builtin_expect(run->last == run->tail || tag != run->tag, 0)) {
        struct nigh_match_node **at, *head;

        nigh_match_run_close(matcher, run);
        at = nigh_match_waiting(matcher, source, tclass, tag);
        head = *at;
        *run = (struct nigh_match_run){.head = head, .tag = tag};
        if (!head)
            return NULL;
        run->tail = head->prev;
        run->at = at;
        run->chain = head->chain;
    }
    return nigh_match_posted_of(run->head);
}

/* Takes the receive that was just peeked at. */
static inline void nigh_match_run_take(struct nigh_match_run *run)
{
    run->last = run->head;
    run->head = run->head->next;
}

/* `taken` receives in all. */
static inline void nigh_match_run_end(struct nigh_matcher *matcher, const struct nigh_match_run *run,
                                      uint32_t taken)
{
    nigh_match_run_close(matcher, run);
    matcher->posted_count -= taken;
}

/* The oldest message that a receive of (source or NIGH_ANY, class, tag, ignore) matches, NULL if there is none.
 * With `take` it is out of the matcher. */
static inline struct nigh_arrived *nigh_match_find(struct nigh_matcher *matcher, uint32_t source,
                                                   uint32_t tclass, uint64_t tag, uint64_t ignore, bool take)
{
    if (matcher->arrived_count == 0)
        return NULL;
    return nigh_match_find_any(matcher, source, tclass, tag, ignore, take);
}

/* Is there any of this source and class? */
static inline bool nigh_match_keeps(const struct nigh_matcher *matcher, uint32_t source, uint32_t tclass)
{
    return matcher->arrived_count != 0 &&
           *nigh_match_seek(&matcher->arrived, nigh_match_key(NIGH_MATCH_ANY_TAG, source, tclass), 0) != NULL;
}

/* Files a message behind all that wait. Cannot fail. */
void nigh_match_keep(struct nigh_matcher *matcher, struct nigh_arrived *arrived);

/* Takes a posted receive back; it must be in the matcher. */
void nigh_match_withdraw(struct nigh_matcher *matcher, struct nigh_posted *posted);

/* Takes a waiting message out; it must be in the matcher. */
void nigh_match_drop(struct nigh_matcher *matcher, struct nigh_arrived *arrived);

/* The oldest posted receive for which `accept` says true, NULL if none. It stays in the matcher. Takes time in
 * proportion to what is posted, as everything below that looks at all receives. */
struct nigh_posted *nigh_match_oldest(const struct nigh_matcher *matcher,
                                      bool (*accept)(const struct nigh_posted *posted, void *data),
                                      void *data);

/* The oldest posted receive from anyone, NULL if none. It stays in the matcher. */
struct nigh_posted *nigh_match_oldest_from_anyone(const struct nigh_matcher *matcher);

/* Takes out all receives that name `source` (NIGH_ANY: those from anyone). The first of them in posting order,
 * the others by nigh_posted_next(); NULL if there is none. */
struct nigh_posted *nigh_match_take_posted(struct nigh_matcher *matcher, uint32_t source);

/* The next one of a chain from nigh_match_take_posted(), NULL behind the last. Read it before `posted` is
 * reused. */
static inline struct nigh_posted *nigh_posted_next(const struct nigh_posted *posted)
{
    return nigh_match_posted_of(posted->node.next);
}

/* Takes out all messages of `source`, class by class, oldest first; the others by nigh_arrived_next(). Time in
 * proportion to what it takes out. */
struct nigh_arrived *nigh_match_take_arrived(struct nigh_matcher *matcher, uint32_t source);

static inline struct nigh_arrived *nigh_arrived_next(const struct nigh_arrived *arrived)
{
    struct nigh_match_link *next = arrived->order.next;

    return next == NULL
               ? NULL
               : (struct nigh_arrived *)(void *)((char *)next - offsetof(struct nigh_arrived, order));
}

/* Calls `visit` for each receive in no order, and for each message, class by class, oldest first. `visit` may
 * not change the matcher. */
void nigh_match_each_posted(const struct nigh_matcher *matcher,
                            void (*visit)(struct nigh_posted *posted, void *data), void *data);
void nigh_match_each_arrived(const struct nigh_matcher *matcher,
                             void (*visit)(struct nigh_arrived *arrived, void *data), void *data);

#endif
