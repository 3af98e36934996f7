/* SPDX-License-Identifier: BSD-3-Clause */
/* coll/member.h - a member of a group, as another one sees it: where its memory is mapped, how it is woken, its board. */
#ifndef NIGH_COLL_MEMBER_H
#define NIGH_COLL_MEMBER_H

#include "coll/boards.h"
#include "shm/doorbell.h"
#include "shm/program.h"

/* What the plugin knows of it. Once `view` is set nothing of this changes until the group is freed. */
struct nigh_member_link {
    const struct nigh_view *view; /* its arena; NULL: not met yet */
    const struct nigh_program *program;
    struct nigh_bell *bell;
    const uint32_t *asleep;
    const uint32_t *reads; /* 1: it may read our private memory */
    const uint32_t *maps;  /* 1: it has mapped our program's memory */
    int pid;
    bool light; /* its sleep fence covers us: no fence of our own */
};

/* First what each call looks at. */
struct nigh_member {
    const struct nigh_call_slot *slots;
    const uint32_t *asleep;        /* NULL: it need not be woken */
    struct nigh_board_place place; /* key NULL: its board was not found yet */
    uint64_t key;
    uint64_t done; /* its calls that take nothing any more, as last seen */
    bool self;
    bool ended; /* it has left or died: what it shows changes no more */

    void *handle; /* the plugin's, for its calls */
    uint64_t source;
    struct nigh_member_link link;
    const struct nigh_domain_slot *domain_slots; /* NULL: it has shown none yet */
    uint64_t where;                              /* its place, as its board has said it once */
};

static inline void nigh_member_end(struct nigh_member *member)
{
    member->ended = true;
    member->asleep = NULL;
}

/* What lies at an offset that it has shown; NULL: it cannot lie there. */
static inline const void *nigh_member_at(const struct nigh_member *member, uint64_t where, uint64_t bytes)
{
    const struct nigh_view *view = member->link.view;

    return where < view->layout.heap_off ? NULL : nigh_view_at(view, where, bytes);
}

static inline bool nigh_member_is_found(const struct nigh_member *member)
{
    return member->place.key != NULL;
}

/* It has ended the group, or its board is another group's by now: the word of its board; 0: it has not. */
static inline uint64_t nigh_member_revoked(const struct nigh_member *member)
{
    uint64_t word = nigh_load_acquire(&member->place.board->revoked, STEP_GET);

    if (nigh_load_acquire(member->place.key, BOARD_FIND) != member->key)
        return NIGH_REVOKED(NIGH_REVOKED_LEFT, 0, 0);
    return word;
}

/* It has freed the group: what it shows changes no more. */
static inline bool nigh_member_left(const struct nigh_member *member)
{
    return nigh_load_acquire(&member->place.board->left, STEP_GET) ||
           nigh_load_acquire(member->place.key, BOARD_FIND) != member->key;
}

/* Calls that it is done with. We use memory again by it, so the member cannot take back what it has said. */
static inline uint64_t nigh_member_done(struct nigh_member *member)
{
    uint64_t done;

    if (member->ended || member->self)
        return UINT64_MAX;
    done = nigh_load_acquire(&member->place.board->done, STEP_GET);
    if (done > member->done)
        member->done = done;
    return member->done;
}

#endif
