/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll/coll.h - the collectives of a context: its groups, and what the plugin and they ask of each other. A call that is posted
 * is a state machine that any pass moves on; nothing waits. One thread at a time.
 */
#ifndef NIGH_COLL_COLL_H
#define NIGH_COLL_COLL_H

#include "coll/member.h"
#include "coll/tree.h"
#include "nigh/transport.h"
#include "shm/copy.h"
#include "shm/far.h"

struct nigh_group;

/* How a call has ended. */
struct nigh_call_result {
    uint64_t context, number, bytes;
    int status;
    void *about; /* handle of the member that it is about; NULL: none */
    struct nigh_group *group;
};

struct nigh_coll_host {
    /* Fills in the link of a member that has been met; false: not yet. Once: the plugin keeps it mapped until `let_go`. */
    bool (*meet)(void *handle, struct nigh_member_link *out);
    /* The group looks at nothing of the member's any more; or, if it never met the member, waits for it no longer. */
    void (*let_go)(void *handle, bool met);
    /* Behind a copy out of its process: was it that process still? */
    bool (*lives)(void *handle);
    /* May all of [buffer, buffer + bytes) be read by peers out of this process, as far as that is known here? */
    bool (*may_be_read)(void *user, const void *buffer, uint64_t bytes);
    void (*complete)(void *user, const struct nigh_call_result *result);
};

struct nigh_coll {
    struct nigh_group
        *groups; /* all; those that were freed, too, while others may look at what they have shown */
    struct nigh_group *moving; /* with calls under way, or not formed yet */
    struct nigh_arena *arena;
    struct nigh_heap *heap;
    const struct nigh_coll_host *host;
    void *user;
    uint32_t rank;    /* for the log */
    bool copies_only; /* buffers are never read where they lie (NIGH_PATH) */
    bool streams;     /* two copies are better than one by the kernel here */
    bool is_placed;   /* the host says where this process is; else it is looked for */
    struct nigh_where where;
    enum nigh_level level;
    struct nigh_far far;
    nigh_copy_fn past;      /* non-temporal; NULL: the CPU has none */
    struct nigh_made *made; /* how many groups of the same members there were */
};

/* Groups and calls are gone, without completions. */
void nigh_coll_close(struct nigh_coll *coll);

/* Moves all calls on. True: something has changed. */
bool nigh_coll_progress(struct nigh_coll *coll);
static inline bool nigh_coll_is_idle(const struct nigh_coll *coll)
{
    return !coll->moving;
}

/* Has a call not begun for lack of memory that other members hold? They may be any, so nobody may call this one stuck. */
bool nigh_coll_is_starved(const struct nigh_coll *coll);

/* Now and then: looks whether others have ended a group, and frees groups that all have left. True as above. */
bool nigh_coll_sweep(struct nigh_coll *coll);

/* A member's process has ended, or left: its groups end once what it had shown is used up. */
void nigh_coll_lost(struct nigh_coll *coll, const void *handle);

struct nigh_group_member {
    void *handle;
    uint64_t source;
    bool self;
};
/* `members` are the host's, in the group's order, one of them itself. -ENOMEM. */
int nigh_group_create(struct nigh_coll *coll, const struct nigh_group_member *members, uint32_t count,
                      uint64_t id, struct nigh_group **out);
/* -EBUSY: calls are under way. */
int nigh_group_free(struct nigh_group *group);

/* As post_collective() of the table; what is wrong with the call itself is logged. */
int nigh_group_post(struct nigh_group *group, const struct nigh_collective *call);
/* As the slots of the table of these names. */
void nigh_group_query(struct nigh_group *group, struct nigh_query_group *out);
void nigh_group_end(struct nigh_group *group, int error, const char *text);
struct nigh_coll *nigh_group_coll(const struct nigh_group *group);

#endif
