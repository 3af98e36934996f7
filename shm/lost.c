/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/lost.c - a rendezvous whose descriptors the program has closed, or opened others under their numbers: how it is noticed,
 * and what is left then. docs/architecture.md, "Descriptors". */
#include "shm/exchange.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>

/* An epoll set has no inode by which it is known again; what is in it it knows by file and number. */
static bool holds_ours(struct nigh_rendezvous *rendezvous)
{
    struct epoll_event event = nigh_listener_event(rendezvous, rendezvous->accepting);

    return nigh_os_is(rendezvous->listener.fd, &rendezvous->listener_id) &&
           nigh_watches_holds(rendezvous->epoll, EPOLL_CTL_MOD, rendezvous->listener.fd, &event);
}

/* Whoever waits for an answer hears that none comes. A socket that is kept stays as it is: a peer would take its end for ours. */
static void close_members(struct nigh_rendezvous *rendezvous)
{
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->state != NIGH_KEPT)
            nigh_exchange_hang_up(at);
        if (at->watch)
            nigh_watches_close_member(rendezvous->epoll, at->watch->pidfd);
    }
    nigh_watches_close_member(rendezvous->epoll, rendezvous->timer);
}

void nigh_rendezvous_lose(struct nigh_rendezvous *rendezvous)
{
    bool set_is_own;

    if (rendezvous->lost)
        return;
    nigh_log(NIGH_LOG_ERROR,
             "rank %u: the program has closed descriptors of nigh's, or opened others under their numbers "
             "(closefrom closes all): with connected peers all goes on, but nobody else can be connected: "
             "close only what is the program's own, or do it before nigh is opened",
             rendezvous->self.self.rank);
    set_is_own = holds_ours(rendezvous);
    rendezvous->lost = true;
    if (set_is_own)
        close_members(rendezvous);
    nigh_watches_lose(&rendezvous->watches, set_is_own);
    if (set_is_own)
        nigh_os_close(rendezvous->epoll);
    nigh_os_close_own(rendezvous->listener.fd, &rendezvous->listener_id);
    rendezvous->listener.fd = rendezvous->epoll = rendezvous->timer = -1;
    rendezvous->accepting = rendezvous->listens = false;
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        at->fd = -1;
        if (at->watch)
            at->watch->pidfd = -1;
    }
}

bool nigh_rendezvous_is_sound(struct nigh_rendezvous *rendezvous)
{
    /* Without a listener it is being opened or closed. */
    if (rendezvous->listens && !holds_ours(rendezvous))
        nigh_rendezvous_lose(rendezvous);
    return !rendezvous->lost;
}

bool nigh_rendezvous_is_lost(const struct nigh_rendezvous *rendezvous)
{
    return rendezvous->lost;
}

void nigh_rendezvous_tell_lost(struct nigh_rendezvous *rendezvous)
{
    rendezvous->lost_told = rendezvous->in_progress = true;
    /* Those who have our answer attach by that, whether they can say so or not. */
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next)
        if (at->state == NIGH_WAIT_DONE)
            nigh_exchange_complete(at);
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->state == NIGH_DEAD || at->state == NIGH_KEPT)
            continue;
        if (at->cookie) {
            const struct nigh_refusal why = nigh_exchange_why(at, -EBADF, false, 0);

            nigh_exchange_give_up(at, &why);
        } else {
            nigh_exchange_drop(at);
        }
    }
    rendezvous->in_progress = false;
    nigh_exchange_reap(rendezvous);
}
