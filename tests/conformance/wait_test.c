/* SPDX-License-Identifier: BSD-3-Clause */
/* wait() and wait_fd(): time-outs, waking by messages of every kind, by the end of a peer and by a
 * signal; and epoll. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static const struct nigh_ops *nigh;

static uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

static void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_nsec = ms * (long)MS};

    nanosleep(&time, NULL);
}

/* Below 1000 times what was asked for, which another unit would take: a busy machine does not. */
static void times_out(struct pair *pair)
{
    uint64_t start;

    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];

        if (!end)
            continue;
        pair_state(end, NIGH_READY);
        start = now_ns();
        CHECK_INT(nigh->wait(end->context, 0), -ETIMEDOUT);
        CHECK_INT(nigh->wait(end->context, 1), -ETIMEDOUT);
        CHECK(now_ns() - start < 20000 * MS);
        start = now_ns();
        CHECK_INT(nigh->wait(end->context, 30 * MS), -ETIMEDOUT);
        CHECK(now_ns() - start >= 30 * MS);
        CHECK(now_ns() - start < 20000 * MS);
    }
    pair_meet();
}

/* What is there already makes every wait return. */
static void there_already(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_completion done;
    uint64_t value = 1;
    struct nigh_send send = pair_a_send(&value, 8, 1, 1);

    if (end) {
        pair_state(end, NIGH_READY);
        CHECK_INT(nigh->post_send(end->peer, &send), 0);
        CHECK_INT(nigh->wait(end->context, 0), 0);
        CHECK_INT(nigh->wait(end->context, UINT64_MAX), 0);
        CHECK_INT(nigh->poll_completions(end->context, &done, 1), 1);
        CHECK_INT(done.op, NIGH_OP_SEND);
    }
    if (pair->end[1]) {
        uint64_t got;

        pair_recv(pair->end[1], &got, 8, 1, 2);
        pair_received(pair->end[1], 2, 8);
    }
}

/* Waits for the one completion that is to come; polling between sleeps. */
static struct nigh_completion waited(struct pair_end *end)
{
    struct nigh_completion done;
    int rc;

    for (uint32_t i = 0; i < 1000; i++) {
        rc = nigh->wait(end->context, 100000 * MS);
        if (rc)
            pair_fail(__FILE__, __LINE__, "wait: %d", rc);
        rc = nigh->poll_completions(end->context, &done, 1);
        if (rc == 1)
            return done;
    }
    pair_fail(__FILE__, __LINE__, "wait returned 1000 times with nothing to poll");
}

/* The second side sleeps until the first sends, twenty times, and until it has slept; number: bytes. No
 * sleep may end by its own time-out. */
static void wakes(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    struct nigh_completion done;
    uint8_t *buffer = tx ? data_filled(bytes, 1) : data_room(bytes);

    if (pair->end[0])
        pair_state(pair->end[0], NIGH_READY);
    if (pair->end[1])
        pair_state(pair->end[1], NIGH_READY);
    for (uint32_t i = 0; i < 20 || pair->shared[0] < i; i++) {
        if (rx)
            pair_recv(rx, buffer, bytes, i, i);
        pair_meet();
        if (tx) {
            /* Where CPUs are short the message may come before the receiver could lie down: it is given longer then. */
            sleep_ms(i < 20 ? 3 : 3 * (i - 17));
            pair_send(tx, buffer, bytes, i, i % 2 ? NIGH_SYNC : 0, i);
            done = waited(tx);
        }
        if (rx) {
            done = waited(rx);
            data_check(buffer, bytes, 1, 0);
            if (pair_stats(rx).sleeps > 0)
                pair->shared[0] = UINT32_MAX;
        }
        CHECK_INT(done.context, i);
        CHECK_INT(done.status, 0);
        CHECK_INT(done.bytes, bytes);
        CHECK(i < 200);
        pair_meet();
    }
    if (rx)
        CHECK_INT(pair_stats(rx).rescues, 0);
    pair_meet();
}

/* A token goes round; both sleep in turn. */
static void token(struct pair *pair)
{
    uint64_t value = 0;

    for (uint32_t round = 0; round < 200; round++)
        for (unsigned side = 0; side < 2; side++) {
            struct pair_end *end = pair->end[side];

            if (!end)
                continue;
            if (round % 2 == side) {
                struct nigh_send send = pair_a_send(&value, 8, 1, 1);

                value = round;
                send.flags = NIGH_INJECT | NIGH_SILENT;
                CHECK_INT(nigh->post_send(end->peer, &send), 0);
            } else {
                pair_recv(end, &value, 8, 1, round);
                CHECK_INT(waited(end).context, round);
                CHECK_INT(value, round);
            }
        }
    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side])
            CHECK_INT(pair_stats(pair->end[side]).rescues, 0);
    pair_meet();
}

/* number: 0 the peer disconnects, 1 closes, 2 is killed. */
static void end_wakes(struct pair *pair)
{
    struct pair_end *waits = pair->end[0], *ends = pair->end[1];
    struct nigh_completion done;
    uint64_t got;

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    pair_meet();
    if (ends) {
        sleep_ms(20);
        if (pair->of->number == 2)
            kill(getpid(), SIGKILL);
        if (pair->of->number == 1)
            pair_close(ends);
        else
            pair_disconnect(ends);
    }
    if (waits) {
        pair_recv(waits, &got, 8, 1, 1);
        done = waited(waits);
        CHECK_INT(done.context, 1);
        CHECK_INT(done.status, -ECONNRESET);
        CHECK_INT(pair_stats(waits).rescues, 0);
    }
    if (pair->of->number != 2)
        pair_meet();
}

static void nothing_to_do(int signal)
{
    (void)signal;
}

static void interrupted(struct pair *pair)
{
    struct sigaction action = {.sa_handler = nothing_to_do}, before;
    /* It repeats, so that a signal before the sleep begins is not the last one. */
    struct itimerval timer = {.it_interval.tv_usec = 30000, .it_value.tv_usec = 30000}, off = {0};

    CHECK_INT(sigaction(SIGALRM, &action, &before), 0);
    CHECK_INT(setitimer(ITIMER_REAL, &timer, NULL), 0);
    CHECK_INT(nigh->wait(pair->end[0]->context, 100000 * MS), -EINTR);
    CHECK_INT(setitimer(ITIMER_REAL, &off, NULL), 0);
    CHECK_INT(sigaction(SIGALRM, &before, NULL), 0);
}

/* ---- the descriptor --------------------------------------------------------------------------------------------- */

/* Sleeps in epoll until there is something to poll. Returns how often the descriptor woke it. */
static uint32_t epoll_until(struct pair_end *end, int set, struct nigh_completion *done)
{
    struct epoll_event event = {.events = EPOLLIN};
    uint32_t wakes = 0;
    int fd, rc;

    for (uint32_t i = 0; i < 1000; i++) {
        rc = nigh->wait_fd(end->context, &fd);
        if (rc == -EAGAIN) {
            if (nigh->poll_completions(end->context, done, 1) == 1)
                return wakes;
            continue;
        }
        CHECK_INT(rc, 0);
        if (epoll_ctl(set, EPOLL_CTL_ADD, fd, &event))
            CHECK_INT(errno, EEXIST);
        CHECK_INT(epoll_wait(set, &event, 1, 100000), 1);
        wakes++;
    }
    pair_fail(__FILE__, __LINE__, "the descriptor woke 1000 times with nothing to poll");
}

/* As in `wakes`, at least one of the messages is slept for. */
static void by_descriptor(struct pair *pair)
{
    static const uint64_t sizes[] = {8, 1000, 50000, 3000000};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    int set = epoll_create1(EPOLL_CLOEXEC);
    struct nigh_completion done;
    uint8_t *buffer;

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    for (uint32_t i = 0; i < 40 || pair->shared[0] < i; i++) {
        uint64_t bytes = sizes[i % 4];

        buffer = data_room(bytes);
        if (rx)
            pair_recv(rx, buffer, bytes, i, i);
        pair_meet();
        if (tx) {
            data_fill(buffer, bytes, i);
            sleep_ms(i < 40 ? 2 : 2 * (i - 37));
            pair_send(tx, buffer, bytes, i, 0, i);
            epoll_until(tx, set, &done);
        }
        if (rx) {
            if (epoll_until(rx, set, &done) > 0)
                pair->shared[0] = UINT32_MAX;
            data_check(buffer, bytes, i, 0);
        }
        CHECK_INT(done.context, i);
        CHECK_INT(done.status, 0);
        CHECK(i < 200);
        pair_meet();
    }
    close(set);
    pair_meet();
}

/* Armed and nothing comes: it stays silent. Something is there: -EAGAIN. */
static void descriptor_alone(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct epoll_event event = {.events = EPOLLIN};
    int set = epoll_create1(EPOLL_CLOEXEC), fd = -1, rc;
    uint64_t value = 7, got = 0;

    pair_state(end, NIGH_READY);
    pair_pump_ms(20);
    while ((rc = nigh->wait_fd(end->context, &fd)) == -EAGAIN)
        pair_pump();
    CHECK_INT(rc, 0);
    CHECK(fd >= 0);
    CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
    CHECK_INT(epoll_wait(set, &event, 1, 30), 0);
    pair_recv(end, &got, 8, 1, 1);
    pair_send(end, &value, 8, 1, 0, 2);
    fd = -1;
    CHECK_INT(nigh->wait_fd(end->context, &fd), -EAGAIN);
    CHECK_INT(fd, -1);
    pair_received(end, 1, 8);
    pair_sent(end, 2, 8);
    close(set);
}

/* A message rings an armed descriptor, and one that is armed no more is left alone. */
static void armed_and_not(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct epoll_event event = {.events = EPOLLIN};
    uint64_t value = 7, got[2];
    int set = epoll_create1(EPOLL_CLOEXEC), fd = -1;

    pair_state(tx, NIGH_READY);
    pair_state(rx, NIGH_READY);
    for (uint32_t i = 0; i < 2; i++) {
        pair_recv(rx, &got[i], 8, i, i);
        pair_pump_ms(20);
        while (nigh->wait_fd(rx->context, &fd) == -EAGAIN)
            pair_pump();
        if (i == 0)
            CHECK_INT(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), 0);
        else
            CHECK_INT(nigh->wait_fd(rx->context, NULL), 0);
        pair_send(tx, &value, 8, i, 0, 10 + i);
        CHECK_INT(epoll_wait(set, &event, 1, i == 0 ? 60000 : 20), i == 0);
        pair_received(rx, i, 8);
        pair_sent(tx, 10 + i, 8);
    }
    close(set);
}

/* Between the parts of a long message its receiver does not sleep, though nothing is there to be polled yet: it waits for a
 * part ten times as long as for anything else. */
static void parts(struct pair *pair)
{
    enum { LONG = 32 << 20 };
    struct pair_end *from = pair->end[0], *to = pair->end[1];
    uint8_t *room = to ? data_room(LONG) : NULL;
    struct nigh_completion done;
    uint64_t before;

    pair_state(from ? from : to, NIGH_READY);
    pair_meet();
    if (from) {
        uint8_t *data = data_filled(LONG, 1);

        pair_meet();
        sleep_ms(20);
        pair_send(from, data, LONG, 1, 0, 1); /* its begin */
        sleep_ms(450);
        for (unsigned i = 0; i < 3; i++) /* and a little more */
            pair_pump();
        sleep_ms(450);
        pair_sent(from, 1, LONG);
    } else {
        pair_recv(to, room, LONG, 1, 2);
        pair_meet();
        before = pair_stats(to).sleeps;
        CHECK_INT(nigh->wait(to->context, 60 * 1000 * MS), 0);
        CHECK_INT(pair_stats(to).sleeps, before);
        CHECK_INT(nigh->poll_completions(to->context, &done, 1), 1);
        CHECK_INT(done.bytes, LONG);
        data_check(room, LONG, 1, 0);
    }
}

/* A peer whose parts come one by one, each before a wait for it is over, does not keep a wait from its time-out. */
static void trickle(struct pair *pair)
{
    enum { LONG = 64 << 20 };
    struct pair_end *from = pair->end[0], *to = pair->end[1];
    uint8_t *room = from ? data_filled(LONG, 1) : data_room(LONG);
    uint64_t start;

    pair_state(from ? from : to, NIGH_READY);
    if (to)
        pair_recv(to, room, LONG, 1, 2);
    pair_meet();
    if (from) {
        pair_send(from, room, LONG, 1, 0, 1);
        for (unsigned i = 0; i < 10000 && !pair->shared[0]; i++) {
            sleep_ms(2);
            if (i < 25)
                pair_pump();
        }
        pair_sent(from, 1, LONG);
    } else {
        start = now_ns();
        CHECK_INT(nigh->wait(to->context, 30 * MS), -ETIMEDOUT);
        CHECK(now_ns() - start < 900 * MS);
        pair->shared[0] = 1;
        pair_received(to, 2, LONG);
    }
}

#define TWO_RANKS (PAIR_FORK | PAIR_THREADS)
#define SLEEPY       \
    {                \
        .spin_ns = 1 \
    }

static const struct pair_case cases[] = {
    {.name = "times out", .play = times_out},
    {.name = "there already", .play = there_already},
    {.name = "a message in parts",
     .play = parts,
     .forms = PAIR_FORK,
     .options = {.spin_ns = 150 * MS, .path = "chunked"}},
    {.name = "parts that trickle",
     .play = trickle,
     .forms = PAIR_FORK,
     .options = {.spin_ns = 100 * MS, .path = "chunked"}},
    {.name = "a message of 8 bytes wakes", .play = wakes, .forms = TWO_RANKS, .number = 8, .options = SLEEPY},
    {.name = "a message of 1000 bytes wakes",
     .play = wakes,
     .forms = TWO_RANKS,
     .number = 1000,
     .options = SLEEPY},
    {.name = "a message of 50000 bytes wakes",
     .play = wakes,
     .forms = TWO_RANKS,
     .number = 50000,
     .options = SLEEPY},
    {.name = "a message of 5 MiB wakes",
     .play = wakes,
     .forms = TWO_RANKS,
     .number = 5 << 20,
     .options = SLEEPY},
    {.name = "token", .play = token, .forms = TWO_RANKS, .options = SLEEPY},
    {.name = "a disconnect wakes", .play = end_wakes, .forms = TWO_RANKS},
    {.name = "a close wakes", .play = end_wakes, .forms = TWO_RANKS, .number = 1},
    {.name = "a death wakes", .play = end_wakes, .forms = PAIR_FORK, .how = PAIR_DEATH, .number = 2},
    {.name = "interrupted", .play = interrupted, .forms = PAIR_SELF},
    {.name = "descriptor",
     .play = by_descriptor,
     .forms = TWO_RANKS,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
    {.name = "descriptor armed and not",
     .play = armed_and_not,
     .forms = PAIR_TWO,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
    {.name = "descriptor alone",
     .play = descriptor_alone,
     .forms = PAIR_SELF,
     .options = {.flags = NIGH_OPEN_WAIT_FD}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
