/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/exchange.c - what both sides of an attach have in common: its life, its events and its end. */
#include "shm/exchange.h"
#include "shm/layout.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>

struct nigh_exchange *nigh_exchange_create(struct nigh_rendezvous *rendezvous, enum nigh_exchange_state state)
{
    struct nigh_exchange *exchange = nigh_os.calloc(1, sizeof(*exchange));

    if (!exchange)
        return NULL;
    *exchange = (struct nigh_exchange){.source = NIGH_SOURCE_EXCHANGE,
                                       .state = state,
                                       .rendezvous = rendezvous,
                                       .next = rendezvous->exchanges,
                                       .fd = -1};
    rendezvous->exchanges = exchange;
    return exchange;
}

int nigh_exchange_hold(struct nigh_exchange *exchange, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = exchange};

    if (nigh_os.epoll_ctl(exchange->rendezvous->epoll, EPOLL_CTL_ADD, fd, &event) < 0)
        return -ENOMEM;
    exchange->fd = fd;
    return 0;
}

/* An epoll set knows what is in it by file and number. */
static bool has_socket(struct nigh_exchange *exchange)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = exchange};

    return exchange->fd >= 0 &&
           nigh_watches_holds(exchange->rendezvous->epoll, EPOLL_CTL_MOD, exchange->fd, &event);
}

bool nigh_exchange_may_use(struct nigh_exchange *exchange)
{
    if (has_socket(exchange))
        return true;
    nigh_rendezvous_lose(exchange->rendezvous);
    return false;
}

/* A socket that is kept is no dial any more. */
static void uncount(struct nigh_exchange *exchange)
{
    if (!exchange->counted)
        return;
    exchange->rendezvous->dials--;
    exchange->rendezvous->dials_moved = nigh_clock_ns();
    exchange->counted = false;
}

void nigh_exchange_hang_up(struct nigh_exchange *exchange)
{
    uncount(exchange);
    if (exchange->fd < 0)
        return;
    /* Closing alone would not do: a forked child may hold the socket, and with it its place in the set. */
    nigh_watches_close_member(exchange->rendezvous->epoll, exchange->fd);
    exchange->fd = -1;
}

void nigh_exchange_drop(struct nigh_exchange *exchange)
{
    if (exchange->state == NIGH_DEAD)
        return;
    if (exchange->state == NIGH_KEPT)
        nigh_exchange_tell(exchange, NIGH_WIRE_BYE, 0);
    if (exchange->state == NIGH_WAIT_HELLO)
        exchange->rendezvous->half_open--;
    exchange->state = NIGH_DEAD;
    exchange->deadline = 0;
    nigh_exchange_hang_up(exchange);
    nigh_watch_destroy(&exchange->rendezvous->watches, exchange->watch);
    exchange->watch = NULL;
}

void nigh_exchange_reap(struct nigh_rendezvous *rendezvous)
{
    struct nigh_exchange **at = &rendezvous->exchanges;

    while (*at) {
        struct nigh_exchange *exchange = *at;

        if (exchange->state != NIGH_DEAD) {
            at = &exchange->next;
            continue;
        }
        *at = exchange->next;
        free(exchange);
    }
    nigh_watches_reap(&rendezvous->watches);
}

static bool is_about(const struct nigh_exchange *exchange, const void *cookie)
{
    return exchange->state != NIGH_DEAD && exchange->state != NIGH_WAIT_HELLO && exchange->cookie == cookie;
}

static bool under_way(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (is_about(at, cookie))
            return true;
    }
    return false;
}

static enum nigh_cause cause_of(int error, bool there)
{
    switch (error) {
    case -ECONNREFUSED:
        return NIGH_CAUSE_GONE;
    case -EACCES:
        return there ? NIGH_CAUSE_USER : NIGH_CAUSE_DENIED;
    case -EMFILE:
        return NIGH_CAUSE_DESCRIPTORS;
    case -ENOMEM:
        return NIGH_CAUSE_MEMORY;
    case -ENOSPC:
        return NIGH_CAUSE_PEERS;
    case -EPROTONOSUPPORT: /* greetings of another version are not read at all */
        return there ? NIGH_CAUSE_LAYOUT : NIGH_CAUSE_VERSION;
    case -EPROTO:
        return NIGH_CAUSE_PROTOCOL;
    default:
        return NIGH_CAUSE_DENIED;
    }
}

uint64_t nigh_exchange_value(const struct nigh_rendezvous *rendezvous, int error)
{
    struct rlimit limit = {0};

    switch (error) {
    case -EMFILE:
        nigh_os.getrlimit(RLIMIT_NOFILE, &limit);
        return limit.rlim_cur;
    case -EACCES:
        return rendezvous->place.uid;
    case -ENOSPC:
        return rendezvous->self.peers_max;
    case -EPROTONOSUPPORT:
        return NIGH_LAYOUT_VERSION;
    default:
        return 0;
    }
}

struct nigh_refusal nigh_exchange_why(const struct nigh_exchange *exchange, int error, bool there,
                                      uint64_t value)
{
    return (struct nigh_refusal){
        .cause = cause_of(error, there),
        .error = error,
        .there = there,
        .pid = (int)exchange->pid,
        .value = there || value ? value : nigh_exchange_value(exchange->rendezvous, error),
    };
}

void nigh_exchange_give_up(struct nigh_exchange *exchange, const struct nigh_refusal *why)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    void *cookie = exchange->cookie;
    struct nigh_watch *watch = nigh_watch_find(&rendezvous->watches, cookie);
    struct nigh_refusal told = *why; /* it may be the exchange's */

    nigh_exchange_drop(exchange);
    if ((watch && watch->confirmed) || under_way(rendezvous, cookie))
        return;
    nigh_watch_destroy(&rendezvous->watches, watch);
    rendezvous->events->failed(rendezvous->user, cookie, &told);
}

void nigh_exchange_forget(struct nigh_rendezvous *rendezvous, const void *cookie)
{
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (is_about(at, cookie))
            nigh_exchange_drop(at);
    }
    nigh_watch_destroy(&rendezvous->watches, nigh_watch_find(&rendezvous->watches, cookie));
}

static bool dials(const struct nigh_exchange *exchange, const void *cookie)
{
    return exchange->cookie == cookie &&
           (exchange->state == NIGH_DIALLING || exchange->state == NIGH_WAIT_ANSWER);
}

void nigh_exchange_undial(struct nigh_rendezvous *rendezvous, const void *cookie)
{
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (dials(at, cookie))
            nigh_exchange_drop(at);
    }
}

bool nigh_exchange_dials(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (dials(at, cookie))
            return true;
    }
    return false;
}

static void tell_death(struct nigh_rendezvous *rendezvous, void *cookie)
{
    nigh_exchange_forget(rendezvous, cookie);
    rendezvous->events->died(rendezvous->user, cookie);
}

void nigh_exchange_died(struct nigh_rendezvous *rendezvous, struct nigh_watch *watch)
{
    struct nigh_exchange *exchange = watch->exchange;

    if (watch->ended)
        return;
    if (!exchange) {
        nigh_greet_hear_all(rendezvous);
        if (!watch->ended)
            tell_death(rendezvous, watch->cookie);
        return;
    }
    /* It may have answered, and sent messages, before it ended: take the answer first. */
    if (exchange->state == NIGH_WAIT_ANSWER && nigh_exchange_may_use(exchange))
        nigh_dial_ready(exchange);
    if (exchange->state == NIGH_WAIT_ANSWER)
        nigh_dial_lost(exchange);
}

int nigh_exchange_tell(struct nigh_exchange *exchange, enum nigh_wire_kind kind, int error)
{
    struct nigh_wire message;

    if (!nigh_exchange_may_use(exchange))
        return -EBADF;
    nigh_wire_begin(&message, kind, NULL);
    message.error = nigh_wire_error(error);
    message.value = nigh_exchange_value(exchange->rendezvous, message.error);
    if (kind == NIGH_WIRE_DONE && exchange->rely)
        message.flags = NIGH_WIRE_KEEP;
    return nigh_wire_send(exchange->fd, &message, NULL);
}

int nigh_exchange_introduce(struct nigh_exchange *exchange, enum nigh_wire_kind kind,
                            const struct nigh_identity *to)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    const int fds[NIGH_WIRE_FDS] = {rendezvous->arena_fd, rendezvous->doorbell_fd, exchange->window_fd};
    struct nigh_hello self = rendezvous->self;
    struct nigh_wire message;

    /* What has their numbers now may be the program's: nobody is to have it. */
    if (!nigh_os_is(fds[0], &rendezvous->arena_id) || !nigh_os_is(fds[1], &rendezvous->doorbell_id) ||
        !nigh_os_is(fds[2], &exchange->window_id) || !has_socket(exchange)) {
        nigh_rendezvous_lose(rendezvous);
        return -EBADF;
    }
    self.index = exchange->index;
    nigh_wire_begin(&message, kind, &self);
    if (to) {
        message.to_job = to->job;
        message.to_incarnation = to->incarnation;
        message.to_rank = to->rank;
    }
    if (kind == NIGH_WIRE_ANSWER && exchange->rely)
        message.flags = NIGH_WIRE_KEEP;
    message.fds = NIGH_WIRE_FDS;
    return nigh_wire_send(exchange->fd, &message, fds);
}

void nigh_exchange_close_fds(const int *fds)
{
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++)
        nigh_os_close(fds[i]);
}

int nigh_exchange_attach(struct nigh_exchange *exchange, const struct nigh_wire *message, const int *fds)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    struct nigh_attach attach = {
        .arena_fd = fds[0], .doorbell_fd = fds[1], .window_fd = fds[2], .pid = (int)exchange->pid};
    int error;

    nigh_wire_hello(message, &attach.hello);
    error = rendezvous->events->attached(rendezvous->user, exchange->cookie, &attach);
    if (error < 0 || exchange->state == NIGH_DEAD)
        return error;
    exchange->rely = exchange->watch->hangup;
    if (!nigh_watch_find(&rendezvous->watches, exchange->cookie))
        nigh_watch_insert(&rendezvous->watches, exchange->watch, exchange->cookie, attach.hello.index);
    else
        nigh_watch_destroy(&rendezvous->watches, exchange->watch);
    exchange->watch = NULL;
    return 0;
}

void nigh_exchange_complete(struct nigh_exchange *exchange)
{
    struct nigh_watch *watch = nigh_watch_find(&exchange->rendezvous->watches, exchange->cookie);

    if (watch)
        watch->confirmed = true;
    uncount(exchange);
    if (exchange->rely || exchange->keep)
        exchange->state = NIGH_KEPT;
    else
        nigh_exchange_drop(exchange);
}

/* A kept socket says goodbye, or hangs up because its process has ended. */
static void kept_ready(struct nigh_exchange *exchange)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];
    int error = nigh_wire_receive(exchange->fd, &message, fds);
    bool rely = exchange->rely;

    if (error == -EAGAIN)
        return;
    if (!error)
        nigh_exchange_close_fds(fds);
    nigh_exchange_hang_up(exchange);
    exchange->state = NIGH_ENDED;
    if (rely && (error || message.kind != NIGH_WIRE_BYE)) {
        nigh_greet_hear_all(exchange->rendezvous);
        if (exchange->state != NIGH_DEAD)
            tell_death(exchange->rendezvous, exchange->cookie);
    } else {
        nigh_exchange_drop(exchange);
    }
}

void nigh_exchange_ready(struct nigh_exchange *exchange)
{
    if (exchange->fd >= 0 && !nigh_exchange_may_use(exchange))
        return;
    switch (exchange->state) {
    case NIGH_WAIT_ANSWER:
        nigh_dial_ready(exchange);
        break;
    case NIGH_WAIT_HELLO:
        nigh_greet_ready(exchange);
        break;
    case NIGH_WAIT_DONE:
    case NIGH_ANSWERING:
        nigh_greet_done(exchange);
        break;
    case NIGH_FINISHING: /* a listener says nothing more: it is gone, or this is its answer, that was read before */
        nigh_dial_finish(exchange);
        break;
    case NIGH_KEPT:
        kept_ready(exchange);
        break;
    default:
        break;
    }
}

void nigh_exchange_expire(struct nigh_exchange *exchange)
{
    struct nigh_refusal gone;

    exchange->deadline = 0;
    switch (exchange->state) {
    case NIGH_DIALLING:
        nigh_dial_try(exchange);
        break;
    case NIGH_FAILING:
        nigh_exchange_give_up(exchange, &exchange->why);
        break;
    case NIGH_FINISHING:
        nigh_dial_finish(exchange);
        break;
    case NIGH_ANSWERING:
        nigh_greet_answer(exchange);
        break;
    case NIGH_ENDED:
        gone = nigh_exchange_why(exchange, -ECONNREFUSED, true, 0);
        nigh_exchange_give_up(exchange, &gone);
        break;
    case NIGH_WAIT_HELLO:
        nigh_greet_expire(exchange);
        break;
    default:
        break;
    }
}

void nigh_exchange_log_full(struct nigh_rendezvous *rendezvous)
{
    struct rlimit limit = {0};

    if (rendezvous->full_logged)
        return;
    rendezvous->full_logged = true;
    nigh_os.getrlimit(RLIMIT_NOFILE, &limit);
    nigh_log(NIGH_LOG_ERROR,
             "no file descriptor is left to attach a peer: the process may have %llu, and a peer takes two, "
             "while it attaches up to thirteen: raise the limit (ulimit -n, or fs.file-max of the machine)",
             (unsigned long long)limit.rlim_cur);
}
