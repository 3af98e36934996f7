/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/exchange.h - one attach under way, from either side, and the rendezvous that it is part of. Private to
 * rendezvous.c, exchange.c, dial.c, greet.c, parcel.c, late.c and lost.c. */
#ifndef NIGH_SHM_EXCHANGE_H
#define NIGH_SHM_EXCHANGE_H

#include "include/common/descriptor.h"
#include "shm/address.h"
#include "shm/clock.h"
#include "shm/name.h"
#include "shm/rendezvous.h"
#include "shm/watch.h"
#include "shm/wire.h"

/*
 *   dialler:   DIALLING -> WAIT_ANSWER -> (FINISHING) -> DEAD or KEPT        FAILING: failed() is due
 *   listener:  WAIT_HELLO -> (ANSWERING) -> WAIT_DONE -> DEAD or KEPT       ENDED: the other hung up unsaid
 *              WAIT_HELLO -> DEAD, if it is a parcel that comes
 */
enum nigh_exchange_state {
    NIGH_DIALLING,    /* no socket; tries to connect when its time comes */
    NIGH_WAIT_ANSWER, /* has sent HELLO */
    NIGH_FINISHING,   /* answered; stays so while DONE cannot be sent */
    NIGH_FAILING,     /* `error` is to be told, from progress only */
    NIGH_WAIT_HELLO,  /* accepted; the only state without a cookie */
    NIGH_ANSWERING,   /* attached; ANSWER could not be sent yet */
    NIGH_WAIT_DONE,   /* attached, answered: the other may still fail to */
    NIGH_ENDED, /* attached, the other closed before it said DONE: dead (the watch will tell) or gave up */
    NIGH_KEPT,  /* done; the socket is how a side sees the other die */
    NIGH_DEAD,  /* waits for nigh_exchange_reap() */
};

struct nigh_exchange {
    enum nigh_source source;
    enum nigh_exchange_state state;
    struct nigh_rendezvous *rendezvous;
    struct nigh_exchange *next;
    int fd;                  /* in the epoll set; -1: none */
    pid_t pid;               /* of the other side; 0: not visible */
    uint64_t deadline;       /* monotonic ns when something is to be done without an event; 0: never */
    uint64_t pause_ns;       /* before the next try */
    struct nigh_identity to; /* of a listener: who has greeted it */
    uint32_t index;          /* under which we know the other */
    int window_fd;           /* of our ring to it: the cookie's */
    struct nigh_file_id window_id;
    void *cookie;
    struct nigh_watch *watch; /* until it is in the table */
    bool counted;             /* in the rendezvous' `dials` */
    bool rely;                /* our watch needs the socket's hang-up */
    bool keep;                /* theirs does */
    bool put_off;             /* DIALLING because the other asked for that */
    bool told_late;           /* late.c */
    enum nigh_seen seen;      /* while DIALLING */
    uint64_t seen_value;
    uint64_t begun;          /* monotonic ns when it was dialled */
    struct nigh_refusal why; /* FAILING */
};

struct nigh_rendezvous {
    struct nigh_hello self; /* index: filled in for each message */
    int arena_fd, doorbell_fd;
    struct nigh_file_id arena_id, doorbell_id, listener_id;
    const struct nigh_rendezvous_events *events;
    void *user;
    struct nigh_name name;
    char *directory;
    struct nigh_place place;
    struct nigh_listener listener;
    int epoll, timer;
    enum nigh_source listener_source, timer_source;
    struct nigh_exchange *exchanges;
    struct nigh_watches watches;
    uint32_t half_open;    /* in WAIT_HELLO */
    uint32_t dials;        /* dialled, with a socket, until both sides are attached */
    int dialled_fd;        /* of the last of them */
    uint64_t dials_moved;  /* when the last of them began or ended */
    bool accepting;        /* the listener is armed in the epoll set */
    bool in_progress;      /* events in hand may point at what is dead */
    bool unsettled;        /* the timer could not be set */
    bool strangers_logged; /* once is enough: they may come as often as they like */
    bool full_logged;
    bool parcels_logged;
    bool listens;          /* the listener is in the set */
    bool lost;             /* the program has closed our descriptors */
    bool lost_told;        /* and those who wait have been told */
    uint64_t accept_again; /* after a failure to accept; 0: at once */
    uint64_t full_since;   /* since when no descriptor is left to accept anybody; 0: there are some */
    int spare;             /* given up to tell diallers so; -1: it could not be had again */
    uint64_t late_ns;
    uint32_t late_lines;
    uint64_t armed; /* deadline that the timer is set to; 0: off */
};

#define NIGH_HALF_OPEN_MAX 64u
#define NIGH_TURNS_MAX \
    256u /* of a pass: more than peers can answer at a time; those that are ready still come last */
#define NIGH_DIALS_MAX       32u /* where descriptors are scarce */
#define NIGH_TURN_NS         UINT64_C(1000000)
#define NIGH_STUCK_NS        UINT64_C(20000000) /* no dial began or ended: nobody looks */
#define NIGH_SILENCE_NS      UINT64_C(5000000000)
#define NIGH_ENDED_NS        UINT64_C(20000000) /* a process's files close before its pidfd tells: wait for it */
#define NIGH_RETRY_FIRST_NS  UINT64_C(1000000)
#define NIGH_RETRY_LAST_NS   UINT64_C(100000000)
#define NIGH_ACCEPT_AGAIN_NS UINT64_C(100000000)
#define NIGH_FULL_NS         UINT64_C(1000000000) /* without a descriptor: it will not pass by itself */

/* ---- exchange.c: what both sides do ---- */
/* A new one, in the list. NULL: no memory. */
struct nigh_exchange *nigh_exchange_create(struct nigh_rendezvous *rendezvous,
                                           enum nigh_exchange_state state);
/* Puts `fd` into the epoll set and the exchange. -ENOMEM: fd stays the caller's. */
int nigh_exchange_hold(struct nigh_exchange *exchange, int fd);
void nigh_exchange_hang_up(struct nigh_exchange *exchange);
/* Ends it without an event; freed by reap. */
void nigh_exchange_drop(struct nigh_exchange *exchange);
/* Ends it; failed() unless the pair is attached by another exchange, or another may still attach it. */
void nigh_exchange_give_up(struct nigh_exchange *exchange, const struct nigh_refusal *why);
/* What `error` means, if nothing more is known; `value` is what the other side (`there`) has said of it. */
struct nigh_refusal nigh_exchange_why(const struct nigh_exchange *exchange, int error, bool there,
                                      uint64_t value);
/* The value that goes with an error which the other side is told. */
uint64_t nigh_exchange_value(const struct nigh_rendezvous *rendezvous, int error);
/* Does what `deadline` was for. */
void nigh_exchange_expire(struct nigh_exchange *exchange);
/* Whether its socket is ours yet; if not, the rendezvous is lost: what has the number now may be the program's. */
bool nigh_exchange_may_use(struct nigh_exchange *exchange);
/* Its socket is readable. */
void nigh_exchange_ready(struct nigh_exchange *exchange);
/* A watched process has ended. */
void nigh_exchange_died(struct nigh_rendezvous *rendezvous, struct nigh_watch *watch);
/* Forgets everything about a cookie. */
void nigh_exchange_forget(struct nigh_rendezvous *rendezvous, const void *cookie);
/* Drops its dials: those that nobody has answered. */
void nigh_exchange_undial(struct nigh_rendezvous *rendezvous, const void *cookie);
/* Has it one? */
bool nigh_exchange_dials(const struct nigh_rendezvous *rendezvous, const void *cookie);
/* Frees what is dead. */
void nigh_exchange_reap(struct nigh_rendezvous *rendezvous);
/* Sends a message without descriptors, as well as it goes. */
int nigh_exchange_tell(struct nigh_exchange *exchange, enum nigh_wire_kind kind, int error);
/* HELLO and ANSWER: who we are, with our descriptors. `to` is for HELLO. */
int nigh_exchange_introduce(struct nigh_exchange *exchange, enum nigh_wire_kind kind,
                            const struct nigh_identity *to);
/* Calls attached() with what `message` says and brought; moves the watch into the table. 0 or its error; the
 * exchange may be dead afterwards. */
int nigh_exchange_attach(struct nigh_exchange *exchange, const struct nigh_wire *message, const int *fds);
/* Both sides are attached: keeps the socket if a side needs it. */
void nigh_exchange_complete(struct nigh_exchange *exchange);
void nigh_exchange_close_fds(const int *fds);
void nigh_exchange_log_full(struct nigh_rendezvous *rendezvous);

static inline struct epoll_event nigh_listener_event(struct nigh_rendezvous *rendezvous, bool accept)
{
    return (struct epoll_event){.events = accept ? EPOLLIN : 0, .data.ptr = &rendezvous->listener_source};
}

/* ---- lost.c ---- */
/* Whether the descriptors are ours yet. Before whatever uses the set, a socket or the timer. */
bool nigh_rendezvous_is_sound(struct nigh_rendezvous *rendezvous);
/* They are not (logged once): none of them is used, or closed, from now on. */
void nigh_rendezvous_lose(struct nigh_rendezvous *rendezvous);
/* Whoever waits for an attach waits in vain: failed(). In progress only. */
void nigh_rendezvous_tell_lost(struct nigh_rendezvous *rendezvous);

/* ---- dial.c: the dialler ---- */
/* Connects and sends HELLO, or arranges for the next try or for failed(). */
void nigh_dial_try(struct nigh_exchange *exchange);
void nigh_dial_ready(struct nigh_exchange *exchange);
void nigh_dial_finish(struct nigh_exchange *exchange);
/* The other side is gone before it answered. */
void nigh_dial_lost(struct nigh_exchange *exchange);

/* ---- greet.c: the listener ---- */
/* A descriptor for when there is none to accept anybody; as well as it goes. */
void nigh_greet_keep_spare(struct nigh_rendezvous *rendezvous);
/* Accepts whoever knocks, as far as there is room. */
void nigh_greet_accept(struct nigh_rendezvous *rendezvous);
/* Hears all who have knocked: a process that has ended may have brought something before. */
void nigh_greet_hear_all(struct nigh_rendezvous *rendezvous);
void nigh_greet_ready(struct nigh_exchange *exchange);
/* It has been silent for too long. */
void nigh_greet_expire(struct nigh_exchange *exchange);
/* Whether we are the one it means. */
int nigh_greet_check_target(const struct nigh_rendezvous *rendezvous, const struct nigh_wire *message);
/* What the speaker has answered to a dial of ours before. */
void nigh_greet_take_answer(struct nigh_rendezvous *rendezvous, const struct nigh_wire *message);
void nigh_greet_answer(struct nigh_exchange *exchange);
void nigh_greet_done(struct nigh_exchange *exchange);

/* ---- parcel.c: what attached peers hand over ---- */
/* A parcel is there on an exchange that waits for HELLO: takes it, drops the exchange, calls brought(). */
void nigh_parcel_take(struct nigh_exchange *exchange);

/* ---- late.c: peers that nobody has met ---- */
/* Tells, once each, of those that are dialled in vain for late_ns, and looks where they may be. */
void nigh_late_look(struct nigh_rendezvous *rendezvous, const struct nigh_exchange *oldest);

#endif
