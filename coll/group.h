/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/group.h - a group as its member has it: private memory but for `board`, `slots` and what is in `stage`. */
#ifndef NIGH_COLL_GROUP_H
#define NIGH_COLL_GROUP_H

#include "coll/coll.h"
#include "coll/stage.h"

struct nigh_call;

/* So many short calls are shown as done together, unless nothing moves, or a longer call is the oldest. */
#define NIGH_DONE_EVERY 16u

enum nigh_group_state {
    NIGH_GROUP_FORMING = 1, /* members are met, and their boards looked for */
    NIGH_GROUP_READY,
    NIGH_GROUP_BROKEN, /* all calls fail */
};

struct nigh_group {
    struct nigh_coll *coll;
    struct nigh_group *next, *next_moving;
    bool moves;         /* in the list of groups that move */
    bool formed;        /* all members have shown their boards */
    bool freed_by_host; /* waits for the others to leave, too */
    bool left;          /* says so on its board */
    /* ended by our host before it was formed: all calls fail, and it is formed so that the others see it */
    bool given_up;
    bool lost;  /* a member has ended */
    bool light; /* all members' sleep fences cover us */
    enum nigh_group_state state;
    uint32_t count, me;
    uint32_t unmet; /* members that are waited for before the group is formed */
    uint64_t id, key;

    uint64_t posted; /* calls, ever */
    uint32_t print;  /* of the last that was posted, and all before it */
    uint64_t done;   /* calls that take nothing any more */
    uint64_t
        shown; /* of these, as our board says: behind `done` by less than NIGH_DONE_EVERY while calls move on */
    uint64_t freed; /* calls that no member needs any more: as of the last look at all boards */
    struct nigh_call *first, *last; /* under way, oldest first */
    struct nigh_call *waiting;      /* of these the first that has not begun */
    bool starved;                   /* as memory lacks that others still read */
    struct nigh_call *spare;        /* memory of calls that have ended, the last first */
    uint32_t calls;                 /* that have memory */
    uint32_t quiet;                 /* passes in a row in which nothing moved */

    struct nigh_board *board;
    struct nigh_board_place place; /* of it */
    struct nigh_call_slot *slots;
    struct nigh_domain_slot *domain_slots; /* NULL: it represents no domain */
    struct nigh_tree *tree;                /* NULL: one domain */
    /* What the meeting needs, from the beginning: once the others look for its board it may not fail. NULL: used. */
    struct nigh_made *made;
    struct nigh_tree *room;
    uint32_t tree_print;
    struct nigh_stage stage;
    uint64_t mark[NIGH_CALL_SLOTS]; /* of the blocks that the call in this slot has taken; 0: none */
    uint8_t *window;                /* of a call that returns its results, kept; NULL: none, or in use */
    uint8_t *tiles;                 /* for what is read by the kernel and reduced */
    uint64_t tile;                  /* bytes of one */

    /* Another member, `ends_by`, has ended it: behind the next pass. What its board says; 0: none has. */
    uint64_t ends_word;
    uint32_t ends_by, ends_about;
    char text[NIGH_GROUP_TEXT_BYTES]; /* why; empty: it is not */
    int error;                        /* BROKEN */
    uint32_t about;                   /* the member that it is about */
    uint64_t ended_in;                /* number of the call in which it has ended */
    bool by_host;                     /* of member `about` */
    struct nigh_member members[];
};

/* Tells the others that something of ours has changed: wakes the members that sleep. */
void nigh_group_tell(struct nigh_group *group);
/* The members from `first` to `end` - 1 alone. */
void nigh_group_tell_some(struct nigh_group *group, uint32_t first, uint32_t end);

/* The members of a list alone. */
void nigh_group_tell_these(struct nigh_group *group, const uint8_t *members, uint32_t count);

/* ---- tree_form.c ---- */
/* What its board says of its place. */
uint64_t nigh_group_where(const struct nigh_coll *coll, uint32_t members);
/* Makes the tree out of what all boards have said. -ENOMEM. */
int nigh_group_make_tree(struct nigh_group *group);
/* Looks whether a member has come to another tree: one shows different places to different members. */
void nigh_group_compare_tree(struct nigh_group *group, uint32_t member);

/* Whether slot and blocks of call `number` - NIGH_CALL_SLOTS may be used again. */
bool nigh_group_has_slot(struct nigh_group *group, uint64_t number);
/* Shows the others which of our calls are done. True: there was news, and they are told. */
bool nigh_group_show_done(struct nigh_group *group);
/* Gives back the blocks of calls that no member needs any more. */
void nigh_group_reclaim(struct nigh_group *group);

/* Because of call `number` (0: no call). All its calls fail from now on, here and at the other members, who may no longer rely on what they read of ours. */
void nigh_group_revoke(struct nigh_group *group, enum nigh_revoked why, uint64_t number, uint32_t about,
                       int error);

/* Keeps why it will be broken, unless that is known; also for the log, at `level`. */
void nigh_group_say(struct nigh_group *group, int level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Shows the others why we have ended it, and `text`: once. */
void nigh_group_show_end(struct nigh_group *group, uint64_t revoked);

/* Another member has ended it: keeps and logs why; breaks it. Behind a pass, or where no call is under way. */
void nigh_group_follow_end(struct nigh_group *group);
/* Not yet, if it has ended in a call that we have not made: for those before it all may be there, or come. */
bool nigh_group_must_end(const struct nigh_group *group);

/* Has a member ended the group? Then it is broken here, too. Also whether one has ended. */
void nigh_group_look(struct nigh_group *group);

/* Behind copies out of a member's own buffers: was the call still the member's? */
bool nigh_group_is_sound(struct nigh_group *group, uint32_t member, bool by_kernel);

/* It has something to do in each pass. */
void nigh_group_move(struct nigh_group *group);

static inline struct nigh_call_slot *nigh_group_slot(const struct nigh_group *group, uint64_t number)
{
    return &group->slots[number % NIGH_CALL_SLOTS];
}

#endif
