/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/rendezvous.c - the set of descriptors and the clock behind all attaches of a context: open, close, and one
 * pass over what is ready. */
#include "shm/exchange.h"
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_AT_ONCE 64

static int add_source(int epoll, int fd, enum nigh_source *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return nigh_os.epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static int open_set(struct nigh_rendezvous *rendezvous)
{
    int error;

    rendezvous->listener_source = NIGH_SOURCE_LISTENER;
    rendezvous->timer_source = NIGH_SOURCE_TIMER;
    rendezvous->epoll = nigh_os.epoll_create1(EPOLL_CLOEXEC);
    if (rendezvous->epoll < 0)
        return -errno;
    rendezvous->timer = nigh_os.timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (rendezvous->timer < 0)
        return -errno;
    error = add_source(rendezvous->epoll, rendezvous->timer, &rendezvous->timer_source);
    if (error) {
        nigh_os_close(rendezvous->timer);
        rendezvous->timer = -1;
    }
    if (!error)
        error = nigh_watches_open(&rendezvous->watches, rendezvous->epoll, rendezvous->self.peers_max);
    return error;
}

static int open_directory(struct nigh_rendezvous *rendezvous, const char *directory)
{
    struct stat stat;
    size_t bytes;
    int error;

    if (!directory) {
        nigh_place_find(NULL, &rendezvous->place);
        return 0;
    }
    error = nigh_name_directory(directory, &stat);
    if (error)
        return error;
    bytes = strlen(directory) + 1;
    rendezvous->directory = nigh_os.calloc(1, bytes);
    if (!rendezvous->directory)
        return -ENOMEM;
    memcpy(rendezvous->directory, directory, bytes);
    nigh_place_find(&stat, &rendezvous->place);
    return 0;
}

static int open_name(struct nigh_rendezvous *rendezvous)
{
    int error;

    rendezvous->name = (struct nigh_name){
        .directory = rendezvous->directory,
        .uid = rendezvous->place.uid,
        .job = rendezvous->self.self.job,
        .rank = rendezvous->self.self.rank,
        .called = rendezvous->name.called,
    };
    error = nigh_name_listen(&rendezvous->name, &rendezvous->listener);
    if (error)
        return error;
    error = nigh_os_identify(rendezvous->listener.fd, &rendezvous->listener_id);
    if (!error)
        error = add_source(rendezvous->epoll, rendezvous->listener.fd, &rendezvous->listener_source);
    rendezvous->accepting = rendezvous->listens = !error;
    nigh_greet_keep_spare(rendezvous);
    return error;
}

static void fill_in(struct nigh_rendezvous *rendezvous, const struct nigh_rendezvous_config *config)
{
    *rendezvous = (struct nigh_rendezvous){
        .name = {.called = config->called},
        .self = {.self = config->self, .peers_max = config->peers_max, .ranks = config->ranks},
        .arena_fd = config->arena_fd,
        .doorbell_fd = config->doorbell_fd,
        .events = config->events,
        .user = config->user,
        .listener = {.fd = -1},
        .epoll = -1,
        .timer = -1,
        .spare = -1,
        .late_ns = config->late_ns ? config->late_ns : nigh_late_ns(config->ranks),
    };
}

int nigh_rendezvous_open(const struct nigh_rendezvous_config *config, struct nigh_rendezvous **out)
{
    struct nigh_rendezvous *rendezvous = nigh_os.calloc(1, sizeof(*rendezvous));
    bool logged = false;
    int error;

    if (!rendezvous)
        return -ENOMEM;
    fill_in(rendezvous, config);
    nigh_liveness_raise_limit();
    error = nigh_os_identify(rendezvous->arena_fd, &rendezvous->arena_id);
    if (!error)
        error = nigh_os_identify(rendezvous->doorbell_fd, &rendezvous->doorbell_id);
    if (!error)
        error = open_set(rendezvous);
    if (!error) {
        error = open_directory(rendezvous, config->directory);
        if (!error)
            error = open_name(rendezvous);
        logged = true;
    }
    if (error) {
        if (!logged)
            nigh_log(NIGH_LOG_ERROR,
                     "cannot watch descriptors: %s (limits: ulimit -n, fs.epoll.max_user_watches, memory)",
                     strerror(-error));
        nigh_rendezvous_close(rendezvous);
        return error == -ENFILE ? -EMFILE : error;
    }
    *out = rendezvous;
    return 0;
}

/* A timer has no inode: it is known by its place in the set. */
static bool has_timer(struct nigh_rendezvous *rendezvous)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &rendezvous->timer_source};

    return rendezvous->timer >= 0 &&
           nigh_watches_holds(rendezvous->epoll, EPOLL_CTL_MOD, rendezvous->timer, &event);
}

static void free_rendezvous(struct nigh_rendezvous *rendezvous)
{
    nigh_os_close_own(rendezvous->spare, &rendezvous->arena_id);
    if (has_timer(rendezvous))
        nigh_os_close(rendezvous->timer);
    nigh_os_close(rendezvous->epoll);
    free(rendezvous->directory);
    free(rendezvous);
}

void nigh_rendezvous_close(struct nigh_rendezvous *rendezvous)
{
    if (!rendezvous)
        return;
    (void)nigh_rendezvous_is_sound(rendezvous);
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next)
        nigh_exchange_drop(at);
    nigh_exchange_reap(rendezvous);
    nigh_watches_close(&rendezvous->watches);
    if (rendezvous->listener.fd >= 0)
        nigh_name_close(&rendezvous->name, &rendezvous->listener);
    free_rendezvous(rendezvous);
}

void nigh_rendezvous_deafen(struct nigh_rendezvous *rendezvous)
{
    if (!nigh_rendezvous_is_sound(rendezvous) || !rendezvous->listens)
        return;
    nigh_os.epoll_ctl(rendezvous->epoll, EPOLL_CTL_DEL, rendezvous->listener.fd, NULL);
    nigh_name_close(&rendezvous->name, &rendezvous->listener);
    rendezvous->accepting = rendezvous->listens = false;
}

void nigh_rendezvous_address(const struct nigh_rendezvous *rendezvous, struct nigh_address *out)
{
    nigh_address_encode(&rendezvous->place, &rendezvous->self.self, out);
}

int nigh_rendezvous_parse(const struct nigh_rendezvous *rendezvous, const struct nigh_address *address,
                          struct nigh_identity *out)
{
    return nigh_address_decode(&rendezvous->place, address, out);
}

int nigh_rendezvous_fd(const struct nigh_rendezvous *rendezvous)
{
    return rendezvous->epoll;
}

static uint64_t next_deadline(const struct nigh_rendezvous *rendezvous)
{
    uint64_t next = rendezvous->accept_again;

    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->deadline && (!next || at->deadline < next))
            next = at->deadline;
    }
    return next;
}

static int set_timer(struct nigh_rendezvous *rendezvous, uint64_t deadline)
{
    struct itimerspec to = {.it_value = {.tv_sec = (time_t)(deadline / UINT64_C(1000000000)),
                                         .tv_nsec = (long)(deadline % UINT64_C(1000000000))}};

    if (deadline == rendezvous->armed)
        return 0;
    if (!has_timer(rendezvous)) {
        nigh_rendezvous_lose(rendezvous);
        return -EBADF;
    }
    /* Setting also takes the readiness off the descriptor, so it is never read. */
    if (nigh_os.timerfd_settime(rendezvous->timer, TFD_TIMER_ABSTIME, &to, NULL) < 0)
        return -errno;
    rendezvous->armed = deadline;
    return 0;
}

/* Stops listening while there is no room for more, so that the set does not stay readable for them. */
static int set_accepting(struct nigh_rendezvous *rendezvous)
{
    bool accept = rendezvous->listener.fd >= 0 && !rendezvous->accept_again &&
                  rendezvous->half_open < NIGH_HALF_OPEN_MAX;
    struct epoll_event event = nigh_listener_event(rendezvous, accept);

    if (accept == rendezvous->accepting)
        return 0;
    if (nigh_os.epoll_ctl(rendezvous->epoll, EPOLL_CTL_MOD, rendezvous->listener.fd, &event) < 0)
        return -errno;
    rendezvous->accepting = accept;
    return 0;
}

/* After anything happened: frees, and sets the set and its timer to what is left. If that fails, the next pass does
 * it. */
static void settle(struct nigh_rendezvous *rendezvous)
{
    int error;

    if (rendezvous->in_progress)
        return;
    nigh_exchange_reap(rendezvous);
    if (rendezvous->lost)
        return;
    error = set_accepting(rendezvous);
    if (!error)
        error = set_timer(rendezvous, next_deadline(rendezvous));
    rendezvous->unsettled = error != 0;
}

int nigh_rendezvous_dial(struct nigh_rendezvous *rendezvous, const struct nigh_identity *to, uint32_t index,
                         int window_fd, void *cookie)
{
    struct nigh_exchange *exchange;
    struct nigh_file_id window_id;

    if (!nigh_rendezvous_is_sound(rendezvous) || nigh_os_identify(window_fd, &window_id))
        return -EBADF;
    exchange = nigh_exchange_create(rendezvous, NIGH_DIALLING);
    if (!exchange)
        return -ENOMEM;
    exchange->to = *to;
    exchange->index = index;
    exchange->window_fd = window_fd;
    exchange->window_id = window_id;
    exchange->cookie = cookie;
    exchange->pause_ns = NIGH_RETRY_FIRST_NS;
    exchange->begun = nigh_clock_ns();
    nigh_dial_try(exchange);
    if (rendezvous->lost)
        nigh_exchange_drop(exchange);
    settle(rendezvous);
    return rendezvous->lost ? -EBADF : 0;
}

void nigh_rendezvous_forget(struct nigh_rendezvous *rendezvous, void *cookie)
{
    (void)nigh_rendezvous_is_sound(rendezvous);
    nigh_exchange_forget(rendezvous, cookie);
    settle(rendezvous);
}

void nigh_rendezvous_undial(struct nigh_rendezvous *rendezvous, const void *cookie)
{
    (void)nigh_rendezvous_is_sound(rendezvous);
    nigh_exchange_undial(rendezvous, cookie);
    settle(rendezvous);
}

bool nigh_rendezvous_dials(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    return nigh_exchange_dials(rendezvous, cookie);
}

bool nigh_rendezvous_lives(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    struct nigh_watch *watch = nigh_watch_find(&rendezvous->watches, cookie);

    if (!watch)
        return false;
    if (!watch->hangup)
        return watch->pidfd < 0 || !nigh_liveness_ended(watch->pidfd) || /* none is needed of ourselves */
               !nigh_watches_has(&rendezvous->watches, watch);
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->cookie == cookie && at->rely && at->fd >= 0)
            return !nigh_liveness_hung_up(at->fd);
    }
    return false;
}

static const struct nigh_exchange *reached(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next)
        if (at->cookie == cookie &&
            ((at->state == NIGH_WAIT_ANSWER && at->fd >= 0) || (at->state == NIGH_DIALLING && at->put_off)))
            return at;
    return NULL;
}

pid_t nigh_rendezvous_reached(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    const struct nigh_exchange *exchange = reached(rendezvous, cookie);

    return exchange ? exchange->pid : 0;
}

bool nigh_rendezvous_greeted(const struct nigh_rendezvous *rendezvous, const void *cookie)
{
    return reached(rendezvous, cookie) != NULL;
}

enum nigh_seen nigh_rendezvous_seen(const struct nigh_rendezvous *rendezvous, const void *cookie,
                                    uint64_t *value, uint64_t *ns)
{
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->cookie != cookie || (at->state != NIGH_DIALLING && at->state != NIGH_WAIT_ANSWER))
            continue;
        *value = at->seen_value;
        *ns = nigh_clock_ns() - at->begun;
        return at->state == NIGH_WAIT_ANSWER ? NIGH_SEEN_REACHED : at->seen;
    }
    *value = *ns = 0;
    return NIGH_SEEN_NOBODY;
}

uint32_t nigh_rendezvous_user(const struct nigh_rendezvous *rendezvous)
{
    return rendezvous->place.uid;
}

bool nigh_rendezvous_listens(const struct nigh_rendezvous *rendezvous, const struct nigh_identity *who)
{
    struct nigh_name name = rendezvous->name;
    int fd, error;

    name.job = who->job;
    name.rank = who->rank;
    error = nigh_name_connect(&name, &fd);
    if (!error)
        nigh_os_close(fd);
    return error != -ECONNREFUSED;
}

static void timer_ready(struct nigh_rendezvous *rendezvous)
{
    uint64_t now = nigh_clock_ns();

    rendezvous->armed = UINT64_MAX; /* whatever comes next, it must be set, to take the readiness off */
    if (rendezvous->accept_again <= now)
        rendezvous->accept_again = 0;
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->deadline && at->deadline <= now)
            nigh_exchange_expire(at);
    }
}

static void dispatch(struct nigh_rendezvous *rendezvous, void *pointer)
{
    switch (*(const enum nigh_source *)pointer) {
    case NIGH_SOURCE_LISTENER:
        nigh_greet_accept(rendezvous);
        break;
    case NIGH_SOURCE_TIMER:
        timer_ready(rendezvous);
        break;
    case NIGH_SOURCE_EXCHANGE:
        nigh_exchange_ready(pointer);
        break;
    case NIGH_SOURCE_WATCH:
        nigh_exchange_died(rendezvous, pointer);
        break;
    }
}

bool nigh_rendezvous_progress(struct nigh_rendezvous *rendezvous)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int count, turns = 0;

    if (!nigh_rendezvous_is_sound(rendezvous)) {
        if (rendezvous->lost_told)
            return false;
        nigh_rendezvous_tell_lost(rendezvous);
        return true;
    }
    if (rendezvous->unsettled)
        settle(rendezvous);
    do {
        count = nigh_os.epoll_wait(rendezvous->epoll, events, EVENTS_AT_ONCE, 0);
        if (count <= 0)
            break;
        rendezvous->in_progress = true;
        for (int i = 0; i < count && !rendezvous->lost; i++)
            dispatch(rendezvous, events[i].data.ptr);
        rendezvous->in_progress = false;
        settle(rendezvous);
    } while (++turns < (int)NIGH_TURNS_MAX && count == EVENTS_AT_ONCE && !rendezvous->lost);
    if (rendezvous->lost)
        nigh_rendezvous_tell_lost(rendezvous);
    return turns > 0;
}
