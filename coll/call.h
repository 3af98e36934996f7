/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/call.h - one call of a group, from its post to its completion:
 *
 *   WAITING  its slot is still in use, or its group is not formed
 *   TAKING   it has shown its `in`; takes others' bytes (move.c), or reduces them (combine.c)
 *   LEAVING  it needs nothing of others any more; others still take its bytes
 */
#ifndef NIGH_COLL_CALL_H
#define NIGH_COLL_CALL_H

#include "coll/group.h"
#include "coll/source.h"

enum nigh_call_state { NIGH_CALL_WAITING = 0, NIGH_CALL_TAKING, NIGH_CALL_LEAVING };

/* What one other member has to do with a call. */
struct nigh_call_peer {
    struct nigh_source in, out;
    uint64_t got;     /* bytes of `in` that were taken */
    uint64_t to;      /* where in the result they go */
    uint64_t got_out; /* units of `out` */
    bool seen, has_out;
    uint32_t relayed;     /* the source at which it is, of those whose bytes it takes of this member */
    uint64_t relayed_to;  /* bytes of that block which it has */
    const uint8_t *shown; /* of a call by domains: what this member needs of it */
};

struct nigh_call {
    struct nigh_call *next;
    struct nigh_group *group;
    uint64_t number;
    struct nigh_collective what;
    struct nigh_shape shape;
    uint32_t
        print; /* of it and all before it: who has made another call once is found by whoever takes of it */
    enum nigh_call_state state;
    uint8_t factor[NIGH_FACTOR_BYTES];

    uint8_t *to;      /* where the result is made: recv, or `scratch` */
    uint8_t *scratch; /* copied to recv when nobody reads that any more; NULL: none is needed */

    enum nigh_lies lies, out_lies;
    uint8_t *stream, *out_stream; /* of these */
    uint64_t staged, stages;      /* units of the stream: copied, and all */
    uint64_t units;               /* of a vector that is shared out */
    uint64_t reduced;             /* units; of one that is not, bytes */
    uint8_t *window;         /* shape.returns: results on their way to recv; NULL: they go there at once */
    uint64_t returned;       /* bytes of them that have come there */
    uint32_t unseen;         /* members whose `in` it takes, and that have not come */
    uint32_t open, open_out; /* members of whom it has not all */
    bool took_direct;
    enum nigh_tree_kind kind; /* NOT: without domains */
    enum nigh_tree_step step;
    uint32_t relaying;   /* the source at which it is, of those that it shows to its domain */
    uint64_t relayed_to; /* bytes of that block which it has shown */
    uint8_t *up, *down;  /* what it shows to other domains, and to its own */
    uint64_t unread_ns;  /* when reading a member failed as if it were ending; 0: never */
    struct nigh_call_peer peers[];
};

/* All calls of a group that is READY; of one that is BROKEN. True: something has changed. */
bool nigh_calls_progress(struct nigh_group *group);
bool nigh_calls_fail(struct nigh_group *group);
/* Memory of all of them, without completions. */
void nigh_calls_free(struct nigh_group *group);

/* ---- broken.c: the call cannot go on, and the group ends, at once or behind this pass ---- */
/* The member has left or died. */
void nigh_call_lost(struct nigh_call *call, uint32_t member);
/* What it shows cannot be. */
void nigh_call_impossible(struct nigh_call *call, uint32_t member);
/* Reading its memory has failed: it may be ending, which is known a little later. */
void nigh_call_unreadable(struct nigh_call *call, uint32_t member, int error);
/* It has called something else, this time or before; or gives another number of bytes. */
void nigh_call_mismatch(struct nigh_call *call, uint32_t member);
void nigh_call_wrong_bytes(struct nigh_call *call, uint32_t member, uint64_t expected, uint64_t given);

/* Wakes those of `whom` that sleep. */
static inline void nigh_call_tell(const struct nigh_call *call, enum nigh_whom whom)
{
    const struct nigh_shape *shape = &call->shape;

    if (whom == NIGH_WHOM_ROOT)
        nigh_group_tell_some(call->group, shape->root, shape->root + 1);
    else if (whom == NIGH_WHOM_BEFORE)
        nigh_group_tell_some(call->group, 0, shape->me);
    else if (whom == NIGH_WHOM_BEHIND)
        nigh_group_tell_some(call->group, shape->me + 1, shape->members);
    else if (whom != NIGH_WHOM_NONE)
        nigh_group_tell(call->group);
}

/* Stores one of the words of the third line of our slot. */
static inline void nigh_call_step(uint64_t *word, uint64_t value)
{
    nigh_store_release(word, value, STEP_SET);
}

static inline struct nigh_call_slot *nigh_call_own(const struct nigh_call *call)
{
    return nigh_group_slot(call->group, call->number);
}

/* The slot of a member for this call. */
static inline const struct nigh_call_slot *nigh_call_of(const struct nigh_call *call, uint32_t member)
{
    return &call->group->members[member].slots[call->number % NIGH_CALL_SLOTS];
}

/* Results go to recv at once: nobody reads it. */
void nigh_call_direct(struct nigh_call *call);

/* ---- begin.c: shows this member's `in` ---- */
/* 0; -EAGAIN: memory for it is still in use; -ENOMEM. */
int nigh_call_begin(struct nigh_call *call);
/* Copies what the others have made room for into a stream. */
bool nigh_call_stage(struct nigh_call *call);
/* Units of its stream, or of that of its part of the result, that all members have taken that take it. */
uint64_t nigh_call_taken(const struct nigh_call *call, bool results);

/* ---- tree_call.c: small calls by domains ---- */
/* Is it one? Its shape is for nigh_call_begin() then. */
void nigh_tree_choose(struct nigh_call *call);
/* As nigh_call_begin(). */
int nigh_tree_begin(struct nigh_call *call);
/* Its step is DONE when it takes nothing any more. */
bool nigh_tree_take(struct nigh_call *call);
bool nigh_tree_waits_for(const struct nigh_call *call, uint32_t member);

/* ---- relay.c: of a call that relays ---- */
/* Shows, before it begins, which blocks it expects. */
void nigh_relay_say_blocks(const struct nigh_call *call);
/* Counts what it shows to its domain. */
void nigh_relay_count(struct nigh_call *call);
/* Shows its domain what it has taken of others. */
bool nigh_call_relay(struct nigh_call *call);
/* Takes what its domain has taken of others. */
bool nigh_call_take_relayed(struct nigh_call *call);

/* ---- move.c, combine.c ---- */
/* Reduces whole vectors, in this order; `factors` are read by PREMUL alone. Functions: at most a tile. */
void nigh_call_fold(const struct nigh_call *call, enum nigh_atomic_op op, const void *const *sources,
                    const void *const *factors, uint32_t count, uint64_t bytes, uint8_t *into);
bool nigh_call_move(struct nigh_call *call);
bool nigh_call_combine(struct nigh_call *call);
bool nigh_call_take_results(struct nigh_call *call);
/* False: what it says of its part of the result cannot be. */
bool nigh_call_open_result(struct nigh_call *call, uint32_t member);
/* Has the others' part of the result room for one more unit? */
bool nigh_call_has_room(const struct nigh_call *call);

#endif
