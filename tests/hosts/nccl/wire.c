/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/wire.c - connections and traffic on them, as NCCL's service and progress threads make them. */
#include "tests/hosts/nccl/host.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { CANARY = 64, CANARY_BYTE = 0xa5 };

double host_now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void pause_for(double seconds)
{
    struct timespec time = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - (double)(time_t)seconds) * 1e9)};

    nanosleep(&time, NULL);
}

bool broken(struct rank *rank, const char *format, ...)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    va_list list;

    pthread_mutex_lock(&lock);
    if (!rank->why[0]) {
        va_start(list, format);
        vsnprintf(rank->why, WHY_BYTES, format, list);
        va_end(list);
        rank->seen->broken_ns = (uint64_t)(host_now() * 1e9);
    }
    pthread_mutex_unlock(&lock);
    return false;
}

bool went_well(struct rank *rank, enum nccl_result result, const char *call)
{
    return result == NCCL_SUCCESS || broken(rank, "%s() returns %d", call, result);
}

bool swap(struct rank *rank, const void *mine, void *theirs, size_t bytes)
{
    if (write(rank->other, mine, bytes) != (ssize_t)bytes)
        return broken(rank, "the other rank has ended");
    for (size_t have = 0; have < bytes;) {
        ssize_t more = read(rank->other, (char *)theirs + have, bytes - have);

        if (more <= 0)
            return broken(rank, "the other rank has ended");
        have += (size_t)more;
    }
    return true;
}

bool meet(struct rank *rank)
{
    char mine = 'm', theirs;

    return swap(rank, &mine, &theirs, 1);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

bool poll_connect(struct rank *rank, void *context, void *handle, void *listener, struct wire *wire)
{
    double end = host_now() + rank->patience;

    wire->send = wire->recv = NULL;
    while (!wire->send || !wire->recv) {
        if (!wire->send && !went_well(rank, net_connect(&rank->net, context, handle, &wire->send), "connect"))
            return false;
        if (!wire->recv && !went_well(rank, net_accept(&rank->net, listener, &wire->recv), "accept"))
            return false;
        if (host_now() > end)
            return broken(rank, "%s() gives no connection in %.0f s", wire->send ? "accept" : "connect",
                          rank->patience);
        sched_yield();
    }
    return true;
}

static bool open_to(struct rank *rank, void *context, struct wire *wire, bool self)
{
    uint8_t mine[NCCL_HANDLE_BYTES] = {0}, theirs[NCCL_HANDLE_BYTES];
    void *listener;

    if (!went_well(rank, net_listen(&rank->net, context, mine, &listener), "listen"))
        return false;
    if (!listener)
        return broken(rank, "listen() returns success and no listener");
    if (self)
        memcpy(theirs, mine, sizeof(mine));
    else if (!swap(rank, mine, theirs, sizeof(mine)))
        return false;
    return poll_connect(rank, context, theirs, listener, wire) &&
           went_well(rank, net_close_listen(&rank->net, listener), "closeListen");
}

bool wire_open(struct rank *rank, void *context, struct wire *wire)
{
    return open_to(rank, context, wire, false);
}

bool wire_open_self(struct rank *rank, void *context, struct wire *wire)
{
    return open_to(rank, context, wire, true);
}

bool wire_close(struct rank *rank, struct wire *wire)
{
    return went_well(rank, net_close_send(&rank->net, wire->send), "closeSend") &&
           went_well(rank, net_close_recv(&rank->net, wire->recv), "closeRecv");
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

static uint8_t byte_of(size_t at, unsigned channel, uint64_t number)
{
    return (uint8_t)(at * 7 + at / 4096 + channel * 31 + number * 13 + 1);
}

void fill(uint8_t *data, size_t bytes, unsigned channel, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        data[i] = byte_of(i, channel, number);
}

bool is_filled(const uint8_t *data, size_t bytes, unsigned channel, uint64_t number)
{
    for (size_t i = 0; i < bytes; i++)
        if (data[i] != byte_of(i, channel, number))
            return false;
    return true;
}

bool send_one(struct rank *rank, void *comm, void *data, size_t bytes, void *memory, void **request)
{
    double end = host_now() + rank->patience;

    do {
        if (!went_well(rank, net_isend(&rank->net, comm, data, bytes, memory, request), "isend"))
            return false;
        if (*request)
            return true;
        sched_yield();
    } while (host_now() < end);
    return broken(rank, "isend() gives no request in %.0f s", rank->patience);
}

bool recv_one(struct rank *rank, void *comm, void *data, size_t bytes, void *memory, void **request)
{
    double end = host_now() + rank->patience;

    do {
        *request = NULL;
        if (!went_well(rank, net_irecv(&rank->net, comm, data, bytes, memory, request), "irecv"))
            return false;
        if (*request)
            return true;
        sched_yield();
    } while (host_now() < end);
    return broken(rank, "irecv() gives no request in %.0f s", rank->patience);
}

bool finish(struct rank *rank, void *request, int *bytes)
{
    double end = host_now() + rank->patience;
    int done = 0;

    while (!done) {
        if (!went_well(rank, net_test(&rank->net, request, &done, bytes), "test"))
            return false;
        if (host_now() > end)
            return broken(rank, "test() does not find a request done in %.0f s", rank->patience);
        if (!done)
            sched_yield();
    }
    return true;
}

/* ---- traffic ---------------------------------------------------------------------------------------------------- */

/* One direction: a window of buffers that are in flight, oldest first. */
struct window {
    uint8_t *memory;
    void *registered, *requests[NCCL_REQUESTS_MAX];
    unsigned begun, ended;
};

static uint8_t *slot_of(const struct traffic *traffic, const struct window *window, unsigned number)
{
    return window->memory + number % traffic->depth * (traffic->room + CANARY);
}

static bool window_open(struct traffic *traffic, struct window *window, void *comm)
{
    size_t bytes = traffic->depth * (traffic->room + CANARY);

    *window = (struct window){.memory = malloc(bytes)};
    return went_well(
        traffic->rank,
        net_register(&traffic->rank->net, comm, window->memory, bytes, NCCL_PTR_HOST, &window->registered),
        "regMr");
}

static bool window_close(struct traffic *traffic, struct window *window, void *comm)
{
    bool well =
        went_well(traffic->rank, net_deregister(&traffic->rank->net, comm, window->registered), "deregMr");

    free(window->memory);
    return well;
}

static bool look(struct traffic *traffic, struct window *in, int bytes)
{
    unsigned number = in->ended;
    size_t expected = traffic->bytes(number);
    uint8_t *data = slot_of(traffic, in, number);

    if ((size_t)bytes != expected)
        return broken(traffic->rank, "message %u: test() says %d bytes, %zu were sent", number, bytes,
                      expected);
    if (!is_filled(data, expected, traffic->channel, number))
        return broken(traffic->rank, "message %u of %zu bytes on channel %u holds other bytes than were sent",
                      number, expected, traffic->channel);
    for (size_t i = expected; i < traffic->room + CANARY; i++)
        if (data[i] != CANARY_BYTE)
            return broken(traffic->rank, "message %u of %zu bytes: byte %zu behind it was written", number,
                          expected, i - expected);
    return true;
}

/* A pass over one direction; *moved counts. */
static bool step_in(struct traffic *traffic, struct window *in, unsigned *moved)
{
    struct rank *rank = traffic->rank;
    int done = 0, bytes = -1;

    if (in->begun < traffic->count && in->begun - in->ended < traffic->depth) {
        void **request = &in->requests[in->begun % traffic->depth];
        uint8_t *data = slot_of(traffic, in, in->begun);

        memset(data, CANARY_BYTE, traffic->room + CANARY);
        *request = NULL;
        if (!went_well(
                rank, net_irecv(&rank->net, traffic->wire.recv, data, traffic->room, in->registered, request),
                "irecv"))
            return false;
        in->begun += *request != NULL;
        *moved += *request != NULL;
    }
    if (in->ended == in->begun)
        return true;
    if (!went_well(rank, net_test(&rank->net, in->requests[in->ended % traffic->depth], &done, &bytes),
                   "test"))
        return false;
    if (!done)
        return true;
    if (!look(traffic, in, bytes))
        return false;
    in->ended++;
    traffic->received = in->ended;
    (*moved)++;
    return true;
}

static bool step_out(struct traffic *traffic, struct window *out, unsigned *moved)
{
    struct rank *rank = traffic->rank;
    int done = 0;

    if (out->begun < traffic->count && out->begun - out->ended < traffic->depth) {
        void **request = &out->requests[out->begun % traffic->depth];
        uint8_t *data = slot_of(traffic, out, out->begun);
        size_t bytes = traffic->bytes(out->begun);

        fill(data, bytes, traffic->channel, out->begun);
        if (!went_well(rank, net_isend(&rank->net, traffic->wire.send, data, bytes, out->registered, request),
                       "isend"))
            return false;
        out->begun += *request != NULL;
        *moved += *request != NULL;
    }
    if (out->ended == out->begun)
        return true;
    if (!went_well(rank, net_test(&rank->net, out->requests[out->ended % traffic->depth], &done, NULL),
                   "test"))
        return false;
    out->ended += done != 0;
    *moved += done != 0;
    return true;
}

bool traffic_run(struct traffic *traffic)
{
    struct window in, out;
    double end = host_now() + traffic->rank->patience;

    if (!window_open(traffic, &in, traffic->wire.recv) || !window_open(traffic, &out, traffic->wire.send))
        return false;
    while (in.ended < traffic->count || out.ended < traffic->count) {
        unsigned moved = 0;

        if (!step_in(traffic, &in, &moved) || !step_out(traffic, &out, &moved))
            return false;
        if (moved)
            end = host_now() + traffic->rank->patience;
        else if (host_now() > end)
            return broken(traffic->rank,
                          "channel %u stands still for %.0f s: %u of %u received, %u sent; every receive is "
                          "posted",
                          traffic->channel, traffic->rank->patience, in.ended, traffic->count, out.ended);
        else
            sched_yield();
    }
    return window_close(traffic, &in, traffic->wire.recv) && window_close(traffic, &out, traffic->wire.send);
}

static void *progress(void *data)
{
    struct traffic *traffic = data;

    traffic->failed = !traffic_run(traffic);
    return NULL;
}

bool traffic_start(struct traffic *traffic, pthread_t *thread)
{
    return pthread_create(thread, NULL, progress, traffic) == 0 || broken(traffic->rank, "no thread");
}

bool traffic_reach(struct traffic *traffic, unsigned count)
{
    while (traffic->received < count && !traffic->failed)
        sched_yield();
    return !traffic->failed;
}

bool traffic_join(struct traffic *traffic, pthread_t thread)
{
    pthread_join(thread, NULL);
    return !traffic->failed;
}
