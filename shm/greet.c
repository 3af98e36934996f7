/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/greet.c - the listener's side of an attach. */
#include "shm/exchange.h"
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>

static void log_stranger(struct nigh_rendezvous *rendezvous, const struct nigh_credentials *stranger)
{
    if (rendezvous->strangers_logged)
        return;
    rendezvous->strangers_logged = true;
    nigh_log(NIGH_LOG_WARN,
             "process %d of user %u tried to attach to this process, whose job is of user %u: refused; the "
             "processes of a job must be of one user when they open it",
             (int)stranger->pid, (unsigned)stranger->uid, (unsigned)rendezvous->place.uid);
}

static void refuse_socket(const struct nigh_rendezvous *rendezvous, int fd, int error)
{
    struct nigh_wire message;

    nigh_wire_begin(&message, NIGH_WIRE_REFUSE, NULL);
    message.error = nigh_wire_error(error);
    message.value = nigh_exchange_value(rendezvous, message.error);
    nigh_wire_send(fd, &message, NULL); /* if it cannot be told, it sees the socket close */
}

/* A socket is given up on which nothing has come. Of what comes yet a HELLO is said again; of a parcel that has come before
 * this its sender believes that it lies with us, and of one that comes after it hears. */
static bool has_parcel_at_last(int fd)
{
    uint32_t kind;

    nigh_os.shutdown(fd, SHUT_RD);
    return nigh_wire_next(fd, &kind) == 0 && kind == NIGH_WIRE_PARCEL;
}

/*
 * A dialler of another user may be a rank that has changed its user since it opened. Then it still listens under its name
 * with the user that it had, of which the kernel tells, and with the same process. So may whoever was let in before the
 * change, but no other process of the new user. Nothing is kept of it, and no descriptor taken, before that is known.
 */
static int check_stranger(const struct nigh_rendezvous *rendezvous, int fd, pid_t dialler)
{
    struct nigh_name name = rendezvous->name;
    struct nigh_credentials owner;
    struct nigh_wire hello;
    int socket, error = nigh_wire_peek(fd, &hello);

    if (error == -EAGAIN && has_parcel_at_last(fd))
        error = nigh_wire_peek(fd, &hello);
    if (error)
        return error == -EPROTO ? -EACCES : error;
    name.job = hello.job;
    name.rank = hello.rank;
    error = nigh_name_connect(&name, &socket);
    if (error)
        return error == -EAGAIN || error == -EMFILE || error == -ENOMEM ? error : -EACCES;
    error = nigh_liveness_credentials(socket, &owner);
    nigh_os_close(socket);
    return !error && owner.uid == rendezvous->place.uid && owner.pid && owner.pid == dialler ? 0 : -EACCES;
}

/* Takes over an accepted socket. -EACCES, -EAGAIN, -EMFILE, -ENOMEM; -ECONNRESET: somebody looked who listens. */
static int admit(struct nigh_rendezvous *rendezvous, int fd, struct nigh_exchange **out)
{
    struct nigh_credentials dialler;
    struct nigh_exchange *exchange;
    int error;

    if (nigh_liveness_credentials(fd, &dialler) < 0)
        return -EACCES;
    if (dialler.uid != rendezvous->place.uid) {
        error = check_stranger(rendezvous, fd, dialler.pid);
        if (error == -EACCES)
            log_stranger(rendezvous, &dialler);
        if (error)
            return error;
    }
    exchange = nigh_exchange_create(rendezvous, NIGH_WAIT_HELLO);
    if (!exchange)
        return -EAGAIN;
    rendezvous->half_open++;
    exchange->pid = dialler.pid;
    exchange->deadline = nigh_clock_ns() + NIGH_SILENCE_NS;
    if (nigh_exchange_hold(exchange, fd) < 0) {
        nigh_exchange_drop(exchange);
        return -EAGAIN;
    }
    *out = exchange;
    return 0;
}

void nigh_greet_keep_spare(struct nigh_rendezvous *rendezvous)
{
    /* Of the arena, as that is known again by its inode. */
    if (rendezvous->spare < 0 && nigh_os_is(rendezvous->arena_fd, &rendezvous->arena_id))
        rendezvous->spare = nigh_os.fcntl(rendezvous->arena_fd, F_DUPFD_CLOEXEC, 3);
}

/* Nobody can be accepted for want of descriptors. Those who wait would wait for ever, and never know for what, so the
 * spare one serves to tell them. */
static void turn_away(struct nigh_rendezvous *rendezvous)
{
    uint64_t now = nigh_clock_ns();
    int fd;

    nigh_exchange_log_full(rendezvous);
    if (!rendezvous->full_since)
        rendezvous->full_since = now;
    if (rendezvous->spare < 0 || now - rendezvous->full_since < NIGH_FULL_NS)
        return;
    nigh_os_close_own(rendezvous->spare, &rendezvous->arena_id);
    rendezvous->spare = -1;
    for (unsigned tries = 0; tries < NIGH_HALF_OPEN_MAX; tries++) {
        fd = nigh_os.accept4(rendezvous->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            break;
        refuse_socket(rendezvous, fd, -EMFILE);
        nigh_os_close(fd);
    }
    nigh_greet_keep_spare(rendezvous);
}

/* Whether there may be more. */
static bool accept_some(struct nigh_rendezvous *rendezvous)
{
    nigh_greet_keep_spare(rendezvous);

    for (unsigned tries = 0; tries < NIGH_HALF_OPEN_MAX && rendezvous->half_open < NIGH_HALF_OPEN_MAX;
         tries++) {
        int fd = nigh_os.accept4(rendezvous->listener.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        struct nigh_exchange *exchange;
        int error;

        if (fd < 0 && errno == EAGAIN)
            return false;
        if (fd < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (fd < 0) { /* without a pause the waiting connection would wake us for ever */
            if (errno == EMFILE || errno == ENFILE)
                turn_away(rendezvous);
            rendezvous->accept_again = nigh_clock_ns() + NIGH_ACCEPT_AGAIN_NS;
            return false;
        }
        rendezvous->full_since = 0;
        error = admit(rendezvous, fd, &exchange);
        if (!error) {
            nigh_greet_ready(exchange); /* a dialler has mostly spoken by now */
            continue;
        }
        refuse_socket(rendezvous, fd, error);
        nigh_os_close(fd);
    }
    return rendezvous->half_open < NIGH_HALF_OPEN_MAX;
}

void nigh_greet_accept(struct nigh_rendezvous *rendezvous)
{
    (void)accept_some(rendezvous);
}

static void refuse(struct nigh_exchange *exchange, int error)
{
    if (error == -EMFILE)
        nigh_exchange_log_full(exchange->rendezvous);
    refuse_socket(exchange->rendezvous, exchange->fd, error);
    nigh_exchange_drop(exchange);
}

int nigh_greet_check_target(const struct nigh_rendezvous *rendezvous, const struct nigh_wire *message)
{
    const struct nigh_identity *self = &rendezvous->self.self;

    if (message->to_job != self->job || message->to_rank != self->rank)
        return -EPROTO;
    return message->to_incarnation && message->to_incarnation != self->incarnation ? -ECONNREFUSED : 0;
}

/* What it had answered to a dial of ours before it came, which the set of descriptors may name behind this. Heard in the other
 * order, our endpoint would be handed to the newcomer, that reads from the start what the one before it has read, and the
 * answer, with the words behind it, would be refused. */
void nigh_greet_take_answer(struct nigh_rendezvous *rendezvous, const struct nigh_wire *message)
{
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->state == NIGH_WAIT_ANSWER && at->to.job == message->job && at->to.rank == message->rank)
            nigh_dial_ready(at);
    }
}

static int find_record(struct nigh_exchange *exchange, const struct nigh_wire *message)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    struct nigh_hello hello;
    int error;

    nigh_wire_hello(message, &hello);
    error = rendezvous->events->greeted(rendezvous->user, &hello, &exchange->index, &exchange->window_fd,
                                        &exchange->cookie);

    return error ? error : nigh_os_identify(exchange->window_fd, &exchange->window_id);
}

/* A dialler has one dial for a peer: if it comes again, its earlier attempt is over, however that ended. */
static void drop_earlier(const struct nigh_exchange *exchange)
{
    for (struct nigh_exchange *at = exchange->rendezvous->exchanges; at; at = at->next) {
        if (at != exchange && at->cookie == exchange->cookie &&
            (at->state == NIGH_ANSWERING || at->state == NIGH_WAIT_DONE || at->state == NIGH_ENDED))
            nigh_exchange_drop(at);
    }
}

static void greeted(struct nigh_exchange *exchange, const struct nigh_wire *message, const int *fds)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    int error;

    /* Before it had an answer: it has left, and what it comes back as, it says itself. */
    if (nigh_liveness_hung_up(exchange->fd)) {
        nigh_exchange_close_fds(fds);
        nigh_exchange_drop(exchange);
        return;
    }
    error = nigh_greet_check_target(rendezvous, message);
    if (!error)
        error = nigh_watch_create(&rendezvous->watches, exchange->fd, exchange->pid, &exchange->watch);
    if (!error) {
        nigh_greet_take_answer(rendezvous, message);
        error = find_record(exchange, message);
    }
    if (error) {
        nigh_exchange_close_fds(fds);
        refuse(exchange, error == -ESRCH ? -EAGAIN : error);
        return;
    }
    rendezvous->half_open--;
    exchange->state = NIGH_ANSWERING;
    exchange->to = (struct nigh_identity){
        .job = message->job, .incarnation = message->incarnation, .rank = message->rank};
    error = nigh_exchange_attach(exchange, message, fds);
    if (exchange->state == NIGH_DEAD)
        return;
    if (error) {
        refuse(exchange, error);
        return;
    }
    drop_earlier(exchange);
    nigh_greet_answer(exchange);
}

/* The other side hung up and did not say why. If its process has ended, the watch says so in a moment. */
static void ended(struct nigh_exchange *exchange)
{
    nigh_exchange_hang_up(exchange);
    exchange->state = NIGH_ENDED;
    exchange->deadline = nigh_clock_ns() + NIGH_ENDED_NS;
}

void nigh_greet_answer(struct nigh_exchange *exchange)
{
    int error = nigh_exchange_introduce(exchange, NIGH_WIRE_ANSWER, NULL);

    nigh_fence_full(ATTACH_TELL);
    exchange->state = NIGH_WAIT_DONE;
    exchange->deadline = 0;
    if (error == -EAGAIN) {
        exchange->state = NIGH_ANSWERING;
        exchange->deadline = nigh_clock_ns() + NIGH_RETRY_FIRST_NS;
    } else if (error) {
        ended(exchange);
    }
}

static void hear_greeting(struct nigh_exchange *exchange)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];
    int error = nigh_wire_receive(exchange->fd, &message, fds);

    if (error == -EAGAIN)
        return;
    if (error == -ECONNRESET) { /* somebody looked whether the name is in use */
        nigh_exchange_drop(exchange);
        return;
    }
    if (!error && message.kind == NIGH_WIRE_HELLO) {
        greeted(exchange, &message, fds);
        return;
    }
    if (!error)
        nigh_exchange_close_fds(fds);
    if (error == -EPROTONOSUPPORT)
        nigh_log(
            NIGH_LOG_WARN,
            "process %d sent a greeting of version %u, not %u: refused; all processes of a job must load "
            "the same nigh",
            (int)exchange->pid, message.version, NIGH_WIRE_VERSION);
    else if (error != -EMFILE)
        nigh_log(NIGH_LOG_WARN,
                 "process %d sent something that is no greeting of version %u: refused; all processes of a "
                 "job must load the same nigh",
                 (int)exchange->pid, NIGH_WIRE_VERSION);
    refuse(exchange, error == -EMFILE ? error : -EPROTO);
}

/* What an accepted socket is for, if it has said so. False: nothing can be read from it. */
static bool look(struct nigh_exchange *exchange, uint32_t *kind)
{
    int error;

    if (exchange->state != NIGH_WAIT_HELLO || exchange->fd < 0)
        return false;
    error = nigh_wire_next(exchange->fd, kind);
    if (error == -ECONNRESET) /* somebody looked whether the name is in use */
        nigh_exchange_drop(exchange);
    return !error;
}

static void hear(struct nigh_exchange *exchange, uint32_t kind)
{
    if (kind == NIGH_WIRE_PARCEL)
        nigh_parcel_take(exchange);
    else
        hear_greeting(exchange);
}

/* Those that wait from `newest` on, the oldest first; of the process `pid`, or of all. */
static void hear_waiting(struct nigh_exchange *newest, const pid_t *pid)
{
    struct nigh_exchange *waiting[NIGH_HALF_OPEN_MAX];
    unsigned count = 0;
    uint32_t kind;

    for (struct nigh_exchange *at = newest; at; at = at->next) {
        if (at->state == NIGH_WAIT_HELLO && (!pid || at->pid == *pid) && count < NIGH_HALF_OPEN_MAX)
            waiting[count++] = at;
    }
    while (count > 0) {
        struct nigh_exchange *oldest = waiting[--count];

        if (oldest->fd >= 0 && nigh_exchange_may_use(oldest) && look(oldest, &kind))
            hear(oldest, kind);
    }
}

void nigh_greet_ready(struct nigh_exchange *exchange)
{
    uint32_t kind;

    if (!look(exchange, &kind))
        return;
    /* A sender sends a parcel before it connects for the next, but may have been between the two when we accepted it. */
    if (kind == NIGH_WIRE_PARCEL)
        hear_waiting(exchange->next, &exchange->pid);
    if (exchange->state == NIGH_WAIT_HELLO && exchange->fd >= 0)
        hear(exchange, kind);
}

void nigh_greet_hear_all(struct nigh_rendezvous *rendezvous)
{
    hear_waiting(rendezvous->exchanges, NULL);
    for (unsigned turns = 0; turns < NIGH_TURNS_MAX && rendezvous->listens && !rendezvous->accept_again;
         turns++) {
        if (!accept_some(rendezvous))
            break;
    }
}

void nigh_greet_expire(struct nigh_exchange *exchange)
{
    if (!nigh_exchange_may_use(exchange))
        return;
    nigh_greet_ready(exchange);
    if (exchange->state == NIGH_WAIT_HELLO && exchange->fd >= 0 && has_parcel_at_last(exchange->fd))
        nigh_greet_ready(exchange);
    if (exchange->state != NIGH_WAIT_HELLO)
        return;
    nigh_log(NIGH_LOG_INFO, "process %d connected and said nothing for %" PRIu64 " s: dropped",
             (int)exchange->pid, NIGH_SILENCE_NS / UINT64_C(1000000000));
    nigh_exchange_drop(exchange);
}

void nigh_greet_done(struct nigh_exchange *exchange)
{
    struct nigh_wire message = {.value = 0};
    int fds[NIGH_WIRE_FDS];
    int error = nigh_wire_receive(exchange->fd, &message, fds);

    if (error == -EAGAIN)
        return;
    if (error == -ECONNRESET) {
        ended(exchange);
        return;
    }
    if (!error) {
        nigh_exchange_close_fds(fds);
        error = exchange->state == NIGH_WAIT_DONE && message.kind == NIGH_WIRE_DONE ? message.error : -EPROTO;
    }
    if (error) {
        struct nigh_refusal why = nigh_exchange_why(exchange, error, true, message.value);

        nigh_exchange_give_up(exchange, &why);
        return;
    }
    exchange->keep = message.flags & NIGH_WIRE_KEEP;
    nigh_exchange_complete(exchange);
}
