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
 * How a receive is kept depends on what it names; the queues of all kinds share one table:
 *
 *   kind         source  ignore     kept in                               an arrival finds it
 *   exact        one     0          queue (source, class, tag)            at once
 *   any source   any     0          queue (class, tag)                    at once
 *   any tag      one     all bits   queue (source, class)                 at once
 *   masked       one     some bits  list of the class, in posting order   by walking the list
 *   masked       any     > 0        the same list                         by walking the list
 *
 * A message that no receive was there for is in four queues at once: (source, class, tag), (class, tag),
 * (source, class), and its class. A masked receive walks the third or the fourth.
 */
enum nigh_match_kind {
    NIGH_MATCH_EXACT = 0,
    NIGH_MATCH_ANY_SOURCE = 1,
    NIGH_MATCH_ANY_TAG = 2,
    NIGH_MATCH_MASKED = 3,
    NIGH_MATCH_KINDS = 4,
};

/* A posted receive: the first member of the caller's operation. The caller sets the fields up to `keep`. From
 * nigh_match_post() until it is handed back it belongs to the matcher and must not move. */
struct nigh_posted {
    struct nigh_match_node node;
    uint64_t ignore;
    uint32_t source; /* index of the peer, or NIGH_ANY */
    uint16_t tclass; /* below NIGH_TCLASSES */
    bool keep;    /* a match leaves it where it stands (multi-receive); the caller withdraws it in the end */
    uint8_t kind; /* enum nigh_match_kind; the matcher's */
    uint64_t sequence; /* when it was posted; the matcher's */
    uint64_t tag;
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
    struct nigh_match_table posted;
    uint32_t posted_count;            /* all receives */
    uint32_t wild_count;              /* those of them that are not exact */
    uint64_t sequence;                /* of the receive that is posted next */
    uint32_t kinds[NIGH_MATCH_KINDS]; /* receives of each kind, exact ones not counted */
    uint32_t arrived_count;           /* messages */
    struct nigh_match_table arrived;
    struct nigh_match_node masked[NIGH_TCLASSES];        /* rings of masked receives through next and prev */
    struct nigh_match_link arrived_order[NIGH_TCLASSES]; /* rings of messages through `order` */
};

/* -ENOMEM; nothing to destroy then. The matcher must not be moved afterwards. */
int nigh_match_init(struct nigh_matcher *matcher);

/* Frees the tables. Receives and messages that are left are the caller's. */
void nigh_match_destroy(struct nigh_matcher *matcher);

/* The keys under which the kinds are filed: no two kinds share one. */
static inline uint64_t nigh_match_key(enum nigh_match_kind kind, uint32_t source, uint32_t tclass)
{
    return (uint64_t)kind << 48 | (uint64_t)tclass << 32 | source;
}

/* For the inline functions below alone: a receive that is not exact. */
void nigh_match_post_wild(struct nigh_matcher *matcher, struct nigh_posted *posted);
struct nigh_posted *nigh_match_arrive_wild(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                           uint64_t tag);
struct nigh_arrived *nigh_match_find_any(struct nigh_matcher *matcher, uint32_t source, uint32_t tclass,
                                         uint64_t tag, uint64_t ignore, bool take);

/* Files a receive behind all that are posted. The caller has looked for a message that is there already
 * (nigh_match_find with take). Cannot fail: where memory is short look-ups get longer. */
static inline void nigh_match_post(struct nigh_matcher *matcher, struct nigh_posted *posted)
{
    posted->sequence = matcher->sequence++;
    matcher->posted_count++;
    if (__builtin_expect(posted->source == NIGH_ANY || posted->ignore != 0, 0)) {
        nigh_match_post_wild(matcher, posted);
        return;
    }
    posted->kind = NIGH_MATCH_EXACT;
    posted->node.key = nigh_match_key(NIGH_MATCH_EXACT, posted->source, posted->tclass);
    posted->node.tag = posted->tag;
    nigh_match_append(&matcher->posted, &posted->node);
}

/* The oldest receive that matches a message from `source`, NULL if there is none. It is out of the matcher,
 * unless its `keep` is set: then it stands where it stood. */
static inline struct nigh_posted *nigh_match_arrive(struct nigh_matcher *matcher, uint32_t source,
                                                    uint32_t tclass, uint64_t tag)
{
    struct nigh_match_node **at;
    struct nigh_posted *posted;

    if (__builtin_expect(matcher->wild_count != 0, 0))
        return nigh_match_arrive_wild(matcher, source, tclass, tag);
    if (matcher->posted_count == 0)
        return NULL;
    at = nigh_match_seek(&matcher->posted, nigh_match_key(NIGH_MATCH_EXACT, source, tclass), tag);
    posted = (struct nigh_posted *)(void *)*at;
    if (posted == NULL || __builtin_expect(posted->keep, 0))
        return posted;
    nigh_match_shift(&matcher->posted, at);
    matcher->posted_count--;
    return posted;
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
    return (struct nigh_posted *)(void *)posted->node.next;
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
