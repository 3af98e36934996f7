/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/dial.c - the dialler's side of an attach. */
#include "shm/exchange.h"
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <inttypes.h>

/* Nothing of the connection that was tried is left. */
static void undo(struct nigh_exchange *exchange)
{
    nigh_exchange_hang_up(exchange);
    nigh_watch_destroy(&exchange->rendezvous->watches, exchange->watch);
    exchange->watch = NULL;
}

/* failed() is not called from here: who dials is not prepared for an event before dial() returns. A first try has no watch,
 * so what nigh_dial_try() gives up it gives up in progress. */
static void fail(struct nigh_exchange *exchange, int error)
{
    undo(exchange);
    if (error == -EMFILE)
        nigh_exchange_log_full(exchange->rendezvous);
    exchange->state = NIGH_FAILING;
    exchange->error = error;
    exchange->deadline = 1;
}

static void pause_for(struct nigh_exchange *exchange)
{
    exchange->deadline = nigh_clock_ns() + exchange->pause_ns;
    exchange->pause_ns *= 2;
    if (exchange->pause_ns > NIGH_RETRY_LAST_NS)
        exchange->pause_ns = NIGH_RETRY_LAST_NS;
}

/* Closes the socket and tries again later. */
static void again(struct nigh_exchange *exchange)
{
    undo(exchange);
    exchange->state = NIGH_DIALLING;
    pause_for(exchange);
}

static void not_reached(struct nigh_exchange *exchange, int error)
{
    exchange->put_off &= error == -EAGAIN;
    if (error == -EAGAIN || (error == -ECONNREFUSED && exchange->to.incarnation == 0))
        again(exchange);
    else
        fail(exchange, error);
}

static int check_listener(struct nigh_exchange *exchange, int fd)
{
    const struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    struct nigh_credentials listener;
    int error = nigh_liveness_credentials(fd, &listener);

    if (!error && listener.uid != rendezvous->place.uid) {
        nigh_log(NIGH_LOG_ERROR,
                 "rank %" PRIu32 " of job %016" PRIx64
                 " is held by a process of user %u (process %d), and this is user %u: not attached; give the "
                 "job an id of its own (NIGH_JOB)",
                 exchange->to.rank, nigh_name_called(&rendezvous->name, exchange->to.job),
                 (unsigned)listener.uid, (int)listener.pid, (unsigned)rendezvous->place.uid);
        error = -EACCES;
    }
    exchange->pid = error ? 0 : listener.pid;
    return error;
}

/* Has a connected socket: checks who listens, watches it, greets it. */
static int greet(struct nigh_exchange *exchange, int fd)
{
    struct nigh_watches *watches = &exchange->rendezvous->watches;
    int error = check_listener(exchange, fd);

    if (!error)
        error = nigh_watch_create(watches, fd, exchange->pid, &exchange->watch);
    if (error == -ESRCH) /* the queue of the dead, kept open by a child of theirs */
        error = -ECONNREFUSED;
    if (!error) {
        exchange->watch->exchange = exchange;
        error = nigh_exchange_hold(exchange, fd);
    }
    if (error) {
        nigh_os_close(fd);
        return error;
    }
    exchange->counted = true;
    exchange->rendezvous->dials++;
    exchange->rendezvous->dialled_fd = fd;
    exchange->rendezvous->dials_moved = nigh_clock_ns();
    error = nigh_exchange_introduce(exchange, NIGH_WIRE_HELLO, &exchange->to);
    /* If it has closed already, why may be waiting to be read. */
    return error == -EPIPE || error == -ECONNRESET ? 0 : error;
}

/*
 * An attach takes seven descriptors for a moment, thirteen where its answer is read beside a greeting of the same peer, and two for
 * good: a rank that dials hundreds at once may need more than it is given, where all of them one behind the other fit.
 * Numbers are given from below, so a high one says how many are in use. Not a limit for all: diallers of peers that do not
 * look for long would keep others waiting.
 */
static bool must_wait(const struct nigh_rendezvous *rendezvous)
{
    struct rlimit limit;
    uint64_t quiet;

    if (rendezvous->dials < NIGH_DIALS_MAX || nigh_os.getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    /* Peers that do not look for long must not keep out those that do. With no room in the end the error says so. */
    quiet = nigh_clock_ns() - rendezvous->dials_moved;
    if (quiet >= NIGH_SILENCE_NS)
        return false;
    return (rlim_t)rendezvous->dialled_fd >=
           (quiet < NIGH_STUCK_NS ? limit.rlim_cur / 2 : limit.rlim_cur - limit.rlim_cur / 8);
}

void nigh_dial_try(struct nigh_exchange *exchange)
{
    struct nigh_name name = exchange->rendezvous->name;
    int fd, error;

    /* Attached the other way round meanwhile: there is nothing left to try for, unless that was not to be. */
    if (nigh_watch_find(&exchange->rendezvous->watches, exchange->cookie)) {
        nigh_exchange_give_up(exchange, -ECONNREFUSED);
        return;
    }
    name.job = exchange->to.job;
    name.rank = exchange->to.rank;
    if (must_wait(exchange->rendezvous)) {
        exchange->state = NIGH_DIALLING;
        exchange->deadline = nigh_clock_ns() + NIGH_TURN_NS;
        return;
    }
    error = nigh_name_connect(&name, &fd);
    if (!error)
        error = greet(exchange, fd);
    if (error) {
        not_reached(exchange, error);
        return;
    }
    exchange->put_off = false;
    exchange->state = NIGH_WAIT_ANSWER;
}

void nigh_dial_lost(struct nigh_exchange *exchange)
{
    again(exchange);
}

void nigh_dial_finish(struct nigh_exchange *exchange)
{
    int error = nigh_exchange_tell(exchange, NIGH_WIRE_DONE, 0);

    if (error == -EAGAIN) {
        exchange->state = NIGH_FINISHING;
        exchange->deadline = nigh_clock_ns() + NIGH_RETRY_FIRST_NS;
    } else if (error && error != -EPIPE && error != -ECONNRESET) {
        nigh_exchange_give_up(exchange, error); /* the other will take our hanging up for that, too */
    } else {
        nigh_exchange_complete(exchange); /* if the other is gone, the watch tells */
    }
}

/* Whether this is whom we dialled. */
static int check_answer(const struct nigh_exchange *exchange, const struct nigh_wire *message)
{
    const struct nigh_watch *watch = nigh_watch_find(&exchange->rendezvous->watches, exchange->cookie);

    if (message->kind != NIGH_WIRE_ANSWER || message->job != exchange->to.job ||
        message->rank != exchange->to.rank)
        return -EPROTO;
    if (exchange->to.incarnation && message->incarnation != exchange->to.incarnation)
        return -ECONNREFUSED;
    /* It has forgotten the attach that it began itself, and took this one for a new acquaintance. */
    return watch && watch->their_index != message->index ? -ECONNREFUSED : 0;
}

static void answered(struct nigh_exchange *exchange, const struct nigh_wire *message, const int *fds)
{
    int error = check_answer(exchange, message);

    if (error) {
        nigh_exchange_close_fds(fds);
        nigh_exchange_tell(exchange, NIGH_WIRE_DONE, error);
        fail(exchange, error);
        return;
    }
    exchange->keep = message->flags & NIGH_WIRE_KEEP;
    exchange->state = NIGH_FINISHING; /* no dial any more, which attached() may undo */
    error = nigh_exchange_attach(exchange, message, fds);
    if (exchange->state == NIGH_DEAD)
        return;
    if (error) {
        nigh_exchange_tell(exchange, NIGH_WIRE_DONE, error == -EAGAIN ? -ECONNREFUSED : error);
        nigh_exchange_drop(exchange); /* the callee has failed by itself and knows */
        return;
    }
    nigh_dial_finish(exchange);
}

static void refused(struct nigh_exchange *exchange, int error)
{
    exchange->put_off = error == -EAGAIN;
    if (exchange->put_off)
        again(exchange);
    else
        fail(exchange, error);
}

void nigh_dial_ready(struct nigh_exchange *exchange)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];
    int error = nigh_wire_receive(exchange->fd, &message, fds);

    if (error == -EAGAIN)
        return;
    if (error == -ECONNRESET) {
        nigh_dial_lost(exchange);
    } else if (error) {
        nigh_log(NIGH_LOG_WARN, "rank %" PRIu32 " of job %016" PRIx64 " (process %d): %s", exchange->to.rank,
                 nigh_name_called(&exchange->rendezvous->name, exchange->to.job), (int)exchange->pid,
                 error == -EMFILE
                     ? "no descriptors are left for its memory: raise the limit (ulimit -n)"
                     : "its answer is malformed: all processes of a job must load the same nigh");
        nigh_exchange_tell(exchange, NIGH_WIRE_DONE, error);
        refused(exchange, error);
    } else if (message.kind == NIGH_WIRE_REFUSE) {
        refused(exchange, message.error);
    } else {
        answered(exchange, &message, fds);
    }
}
