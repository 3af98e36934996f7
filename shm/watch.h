/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/watch.h - which peers a rendezvous is attached to and how it will see their processes end, found by the
 * callee's cookie. */
#ifndef NIGH_SHM_WATCH_H
#define NIGH_SHM_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

/* What an event of the rendezvous' epoll set points at begins with this. */
enum nigh_source { NIGH_SOURCE_LISTENER, NIGH_SOURCE_TIMER, NIGH_SOURCE_EXCHANGE, NIGH_SOURCE_WATCH };

struct nigh_exchange;

struct nigh_watch {
    enum nigh_source source;
    int pidfd;                      /* in the epoll set; -1: none */
    bool hangup;                    /* a socket's hang-up is the only sign there will be */
    bool confirmed;                 /* both sides are attached */
    bool ended;                     /* destroyed, but an event in hand may still point here */
    struct nigh_exchange *exchange; /* whose it is until it is in the table */
    void *cookie;
    uint32_t their_index;
    struct nigh_watch *next; /* in its bucket, or among the ended */
};

struct nigh_watches {
    int epoll;
    uint32_t mask;
    struct nigh_watch **buckets;
    struct nigh_watch *ended;
};

/* `epoll` is borrowed. -ENOMEM. */
int nigh_watches_open(struct nigh_watches *watches, int epoll, uint32_t peers_max);
/* Destroys all. */
void nigh_watches_close(struct nigh_watches *watches);

/* epoll_ctl(), of EPOLL_CTL_MOD or _DEL: false where `epoll` is no set that holds `fd`, which it knows by file and number. */
bool nigh_watches_holds(int epoll, int op, int fd, struct epoll_event *event);
/* Takes a descriptor out of an epoll set and closes it, unless it is not there: then the program has closed it, and what has
 * its number now is the program's. */
void nigh_watches_close_member(int epoll, int fd);
/* Whether its descriptor is the one that was made for it. */
bool nigh_watches_has(const struct nigh_watches *watches, struct nigh_watch *watch);
/* The program has closed what the rendezvous needs: no watch tells of an end any more, and no number is used. Only what is in a
 * set that is still our own is closed. */
void nigh_watches_lose(struct nigh_watches *watches, bool set_is_own);

/* A watch of the process at the other end of `socket`, in no table yet; none is needed of this process. -ESRCH
 * it has ended; -EMFILE, -ENOMEM. */
int nigh_watch_create(struct nigh_watches *watches, int socket, pid_t pid, struct nigh_watch **out);
/* Removes it from the table if it is there. NULL: nothing. */
void nigh_watch_destroy(struct nigh_watches *watches, struct nigh_watch *watch);
/* Frees what was destroyed, when no event points there any more. */
void nigh_watches_reap(struct nigh_watches *watches);

void nigh_watch_insert(struct nigh_watches *watches, struct nigh_watch *watch, void *cookie,
                       uint32_t their_index);
struct nigh_watch *nigh_watch_find(const struct nigh_watches *watches, const void *cookie);

#endif
