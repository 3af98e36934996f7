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

#include "coll/fold.h"
#include "coll/group.h"
#include "coll/source.h"
#include <string.h>

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

/* A short call, as short.c has it. */
struct nigh_short {
    bool is;
    uint32_t begin, end; /* of the members whose input it takes */
    uint32_t lines;      /* of their payload, behind the head's */
    uint64_t word;       /* `bytes` of their slots */
    nigh_fold_fn kernel; /* NULL: nothing is reduced here */
    /* What moves here: bytes of each member, from where in its payload, from one to the next in the result. */
    uint64_t part, at, stride;
};

struct nigh_call {
    struct nigh_call *next;
    struct nigh_group *group;

    /* These follow from the arguments, but for `context` and `place`. */
    struct nigh_collective what;
    struct nigh_shape shape;
    struct nigh_short brief;
    enum nigh_tree_kind kind; /* NOT: without domains. The shape is that of the kind. */
    uint64_t bytes;           /* of recv that it may write, from its beginning */
    uint64_t agreed;          /* fingerprint of what members must agree in */
    bool is_kept;             /* for the next call with the same arguments */

    uint64_t number;
    uint32_t
        print; /* of it and all before it: who has made another call once is found by whoever takes of it */
    enum nigh_call_state state;
    enum nigh_lies lies;
    uint32_t next_member; /* SHORT: those before have come */
    bool told;            /* SHORT: the members that take its input were woken */
    bool wide;            /* not short, whatever its arguments say */

    /* From here on a short call leaves all as it is. */
    uint8_t factor[NIGH_FACTOR_BYTES];
    uint8_t *to;      /* where the result is made: recv, or `scratch` */
    uint8_t *scratch; /* copied to recv when no member reads recv any more; NULL: none is needed */
    uint8_t *window;  /* shape.returns: results on their way to recv; NULL: they go there at once */

    enum nigh_lies out_lies;
    uint8_t *stream, *out_stream; /* of `lies` and `out_lies` */
    uint64_t staged, stages;      /* units of the stream: copied, and all */
    uint64_t units;               /* of a vector that is shared out */
    uint64_t reduced;             /* units; of one that is not, bytes */
    uint64_t returned;            /* bytes out of `window` that have come to recv */
    uint32_t unseen;              /* members whose `in` it takes, and that have not come */
    uint32_t open, open_out;      /* members of whom it has not all */
    bool took_direct;
    bool lacks_memory; /* for a stream: what can be read where it lies is */
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
/* The group has a tree from now on: calls that were posted before go by it, too. */
void nigh_calls_choose(struct nigh_group *group);
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

static inline bool nigh_call_is_short(const struct nigh_call *call)
{
    return call->brief.is && !call->wide;
}

/* As before anything has come. */
static inline void nigh_call_clear(struct nigh_call *call)
{
    memset(call->factor, 0, sizeof(*call) - offsetof(struct nigh_call, factor));
    if (call->shape.takes != NIGH_WHOM_NONE || call->shape.takes_out != NIGH_WHOM_NONE)
        memset(call->peers, 0, call->shape.members * sizeof(call->peers[0]));
    call->to = call->shape.result;
}

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

/* Gives it back to its group, with its memory. */
void nigh_call_give(struct nigh_call *call);

/* Results go to recv at once: no member reads it. */
void nigh_call_direct(struct nigh_call *call);

/* ---- begin.c: shows this member's `in` ---- */
/* 0: of a short call the members that take it are still to be woken; -EAGAIN: memory for it is still in use; -ENOMEM. */
int nigh_call_begin(struct nigh_call *call);
/* A short call that has begun goes on as an ordinary one. */
void nigh_call_widen(struct nigh_call *call);
/* Copies what the others have made room for into a stream. */
bool nigh_call_stage(struct nigh_call *call);
/* Units of its stream, or of that of its part of the result, that all members have taken that take it. */
uint64_t nigh_call_taken(const struct nigh_call *call, bool results);

/* ---- tree_call.c: small calls by domains ---- */
/* Is it one, or one that relays? Its shape is for that then. Behind its fingerprint: members have different shapes. */
void nigh_tree_choose(struct nigh_call *call);
/* Before it shows its input, also if it relays. As nigh_call_begin(). */
int nigh_tree_begin(struct nigh_call *call);
/* Its step is DONE when it takes nothing any more. */
bool nigh_tree_take(struct nigh_call *call);
bool nigh_tree_waits_for(const struct nigh_call *call, uint32_t member);

/* ---- tree_source.c: what others show in such a call ---- */
/* What a representative shows of this call, `bytes`, upwards or downwards; NULL: nothing yet, or the group is broken. */
const uint8_t *nigh_tree_shown_by(struct nigh_call *call, uint32_t member, bool up, uint64_t bytes);
/* A member's input of `bytes`, which is always a copy of it. NULL: as above. */
const uint8_t *nigh_tree_input_of(struct nigh_call *call, uint32_t member, uint64_t bytes);

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
