/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/core.h - what every call of libnigh looks at first: is the library open, in this process, with or without other
 * threads; and where its tables lie. One struct, so that a call on the short way touches one or two lines of it.
 */
#ifndef NIGH_LIB_CORE_H
#define NIGH_LIB_CORE_H

#ifndef NIGH_NO_SITES
#define NIGH_NO_SITES
#endif
#include "nigh/nigh.h"

#include <pthread.h>
#include <stdbool.h>

#define NIGH_PUBLIC        __attribute__((visibility("default")))
#define nigh_likely(x)     __builtin_expect(!!(x), 1)
#define nigh_unlikely(x)   __builtin_expect(!!(x), 0)
#define NIGH_MAX_RANKS     65536u
#define NIGH_CLASS_USER    5u /* messages of the program */
#define NIGH_CLASS_CONTROL 6u /* collectives, agreements, wake-ups: no wildcard of the program sees them */
#define NIGH_CLASS_WINDOW  7u

/* Why a call may not take the short way. */
enum nigh_guard {
    NIGH_GUARD_CLOSED = 1,  /* nigh_init has not been called, or nigh_finalize has */
    NIGH_GUARD_FORKED = 2,  /* in a child of the process that called nigh_init */
    NIGH_GUARD_THREADS = 4, /* the lock must be held */
    NIGH_GUARD_DEBUG = 8,   /* NIGH_DEBUG: lib/debug.c sees every operation */
    NIGH_GUARD_YOUNG = 16,  /* among its first messages: lib/young.c sees every operation */
    NIGH_GUARD_BLOCKED =
        32, /* a thread sleeps in a call, and no other may call: without NIGH_GUARD_THREADS */
};

/* What nigh/nigh.h packs with NIGH_WITH(). */
#define NIGH_RANK_OF(with) ((int32_t)(uint32_t)(with))
#define NIGH_TAG_OF(with)  ((int32_t)((with) >> 32))

struct nigh_operation;

struct nigh_core {
    /* On the short way of every call. */
    uint32_t guard; /* enum nigh_guard; 0: go on */
    uint32_t
        inject_below; /* sends of fewer bytes are copied out at once; 0 with NIGH_STRICT and NIGH_DEBUG */
    const struct nigh_ops *ops;
    struct nigh_context *context;
    uintptr_t comms; /* the communicators: lib/comm.c */
    uint64_t comms_bytes;
    struct nigh_operation *operations; /* lib/request.c */
    uint64_t operations_bytes;         /* of the slots that can be in use: usable memory */
    uint32_t operations_used;          /* slots that were ever handed out */
    uint32_t operations_free;          /* the first free one, NIGH_NO_OPERATION */
    uint32_t watchers;                 /* threads asleep that must hear of completions others have polled */

    /* ops->inject and ops->expect: looked up there they cost 2 % of the message rate. */
    int (*inject)(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                  uint64_t context, nigh_refused_fn refused);
    int (*expect)(struct nigh_endpoint *from, void *buffer, uint64_t shape, uint64_t tag, uint64_t context,
                  nigh_refused_fn refused);

    uint32_t waiters; /* calls of the program that wait, and so move things themselves */

    uint32_t was_open; /* nigh_init has succeeded before */
    int32_t rank, ranks;
    uint64_t job;
    struct nigh_comm *world, *self;
    struct nigh_endpoint **endpoints; /* by rank of the world; NULL: not connected yet */
    uint32_t next_comm_id;            /* above every identifier this rank has seen: lib/agree.c */

    /* Settings. */
    bool strict, debug, threads, progress;
    bool spare;           /* the thread of NIGH_PROGRESS=thread has a CPU that no rank needs */
    bool leaving;         /* in nigh_finalize */
    int log_level;        /* 0 error, 1 warning, 2 information */
    uint64_t stall_ns;    /* 0: never look for deadlocks */
    uint64_t timeout_ns;  /* 0: none */
    pthread_mutex_t lock; /* NIGH_GUARD_THREADS: held by whoever is inside, except asleep */
    pthread_mutex_t
        door; /* held by a call that waits for the lock: `spare` alone, whose thread lets it pass */
    pthread_cond_t changed; /* somebody has polled, or the waiting thread has left: lib/progress.c */
};

extern struct nigh_core nigh_core;

/* Which call of the program is running: for messages. Passed by value: two registers. */
struct nigh_call {
    const char *name; /* "nigh_send" */
    const char *site; /* "file.c:12", NULL where unknown */
};

/* The site that the macro of the call has left. A bare call must not get that of an earlier one. */
static inline const char *nigh_site_take(void)
{
    const char *site = nigh_site.at;

    nigh_site.at = NULL;
    return site;
}

#define NIGH_CALL(name_) ((struct nigh_call){.name = (name_), .site = nigh_site_take()})

/* Begins a call: 0, with the lock where there is one, or -ENOTCONN, -ECHILD, -EPERM (said). nigh_leave() ends it. */
int nigh_enter_guarded(struct nigh_call call);
void nigh_leave_guarded(void);

static inline int nigh_enter(struct nigh_call call)
{
    return nigh_likely(nigh_core.guard == 0) ? 0 : nigh_enter_guarded(call);
}

/* Of a call that any thread may make beside one that blocks: it changes nothing. */
static inline int nigh_enter_beside(struct nigh_call call)
{
    return nigh_core.guard & (NIGH_GUARD_CLOSED | NIGH_GUARD_FORKED | NIGH_GUARD_THREADS)
               ? nigh_enter_guarded(call)
               : 0;
}

static inline void nigh_leave(void)
{
    if (nigh_unlikely(nigh_core.guard != 0))
        nigh_leave_guarded();
}

/* The lock, where there is one. A thread of the program does not sleep for it at once when nigh's
 * own has it for a moment. */
void nigh_lock(void);

static inline void nigh_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb" : : : "memory");
#endif
}

/* Of CLOCK_MONOTONIC. */
uint64_t nigh_now_ns(void);

#endif
