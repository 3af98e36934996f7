/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/dial.c - the dialler's side of an attach. */
#include "shm/exchange.h"
#include "shm/liveness.h"
#include "shm/os.h"

#include <errno.h>
#include <unistd.h>

/* Nothing of the connection that was tried is left. */
static void undo(struct nigh_exchange *exchange)
{
    nigh_exchange_hang_up(exchange);
    nigh_watch_destroy(&exchange->rendezvous->watches, exchange->watch);
    exchange->watch = NULL;
}

/* failed() is not called from here: who dials is not prepared for an event before dial() returns. A first try has no watch,
 * so what nigh_dial_try() gives up it gives up in progress. */
static void fail(struct nigh_exchange *exchange, const struct nigh_refusal *why)
{
    undo(exchange);
    exchange->state = NIGH_FAILING;
    exchange->why = *why;
    exchange->deadline = 1;
}

static void fail_here(struct nigh_exchange *exchange, int error)
{
    struct nigh_refusal why = nigh_exchange_why(exchange, error, false, 0);

    if (error == -EMFILE)
        nigh_exchange_log_full(exchange->rendezvous);
    /* NIGH_DIR is open to its owner alone, whom this process was when it opened. */
    if (error == -EACCES && exchange->rendezvous->directory && geteuid() != exchange->rendezvous->place.uid) {
        why.cause = NIGH_CAUSE_DIRECTORY;
        why.value = exchange->rendezvous->place.uid;
    }
    fail(exchange, &why);
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
    if (exchange->why.cause) { /* it is another user's */
        fail(exchange, &exchange->why);
        return;
    }
    if (error != -EAGAIN && !(error == -ECONNREFUSED && exchange->to.incarnation == 0)) {
        fail_here(exchange, error);
        return;
    }
    if (error == -EAGAIN)
        exchange->seen = exchange->put_off ? NIGH_SEEN_REACHED : NIGH_SEEN_BUSY;
    else if (exchange->seen < NIGH_SEEN_USER)
        exchange->seen = NIGH_SEEN_NOBODY;
    nigh_late_look(exchange->rendezvous, exchange);
    again(exchange);
}

/* Who listens there? The kernel says as whom it began to, which a change of its user since does not alter. */
static int check_listener(struct nigh_exchange *exchange, int fd)
{
    struct nigh_credentials listener;
    int error = nigh_liveness_credentials(fd, &listener);

    exchange->pid = error ? 0 : listener.pid;
    if (!error && listener.uid != exchange->rendezvous->place.uid) {
        exchange->why = nigh_exchange_why(exchange, -EACCES, false, listener.uid);
        exchange->why.cause = NIGH_CAUSE_USER;
        error = -EACCES;
    }
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
        exchange->why = nigh_exchange_why(exchange, -ECONNREFUSED, true, 0);
        nigh_exchange_give_up(exchange, &exchange->why);
        return;
    }
    exchange->why = (struct nigh_refusal){0};
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
        exchange->why = nigh_exchange_why(exchange, error, false, 0);
        nigh_exchange_give_up(exchange,
                              &exchange->why); /* the other will take our hanging up for that, too */
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
        struct nigh_refusal why = nigh_exchange_why(exchange, error, true, 0);

        nigh_exchange_close_fds(fds);
        nigh_exchange_tell(exchange, NIGH_WIRE_DONE, error);
        fail(exchange, &why);
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

/* By the other side, or because of what it said. */
static void refused(struct nigh_exchange *exchange, const struct nigh_refusal *why)
{
    exchange->put_off = why->error == -EAGAIN;
    if (!exchange->put_off) {
        fail(exchange, why);
        return;
    }
    exchange->seen = NIGH_SEEN_REACHED;
    again(exchange);
}

/* Its answer is none, or its descriptors have no place here. */
static void answered_badly(struct nigh_exchange *exchange, int error, uint32_t version)
{
    struct nigh_refusal why =
        nigh_exchange_why(exchange, error, false, error == -EPROTONOSUPPORT ? version : 0);

    if (error == -EMFILE)
        nigh_exchange_log_full(exchange->rendezvous);
    nigh_exchange_tell(exchange, NIGH_WIRE_DONE, error);
    fail(exchange, &why);
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
        answered_badly(exchange, error, message.version);
    } else if (message.kind == NIGH_WIRE_REFUSE) {
        struct nigh_refusal why = nigh_exchange_why(exchange, message.error, true, message.value);

        refused(exchange, &why);
    } else {
        answered(exchange, &message, fds);
    }
}
