/* SPDX-License-Identifier: BSD-3-Clause */
/* The patterns that every peer runs, written over the static inline verbs op_* that the including file
 * defines first. They are inlined rather than called through pointers, so that no peer pays for the
 * comparison: op_send op_recv (blocking), op_isend op_irecv op_waitall (window), and where OP_COLLECTIVES is
 * 1 those of peer_collectives.h. */
#ifndef NIGH_TOOLS_PERF_PEER_PATTERNS_H
#define NIGH_TOOLS_PERF_PEER_PATTERNS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tools/perf/peer_device.h"
#include "tools/perf/peer_rank.h"

/* Up to here rewriting and checking a message costs less than two readings of the clock, so both stay in the
 * timed part; above, they lie outside of it. */
#define SMALL_MAX 1024

enum { TAG_DATA = 1, TAG_READY = 2, TAG_DONE = 3 };

/* Send and receive buffers, kept from case to case and grown. */
static unsigned char *outgoing, *incoming;
static size_t buffers_size;

/* From message to message of a window, as nigh's own lie. */
static inline size_t buffer_step(size_t bytes)
{
    return (bytes + 63) / 64 * 64 + 64;
}

/* Of the program's malloc, which an MPI may have replaced; in small pages, as nigh's own have. */
static unsigned char *buffer_pages(size_t size)
{
    size_t whole = (size + 4095) / 4096 * 4096;
    void *at = aligned_alloc(4096, whole);

    if (!at)
        return NULL;
    madvise(at, whole, MADV_NOHUGEPAGE);
    memset(at, 1, size);
    return at;
}

static int buffers_grow(size_t size)
{
    if (size <= buffers_size)
        return 0;
    if (buffers_size) {
        free(peer_device_sends() ? NULL : outgoing);
        free(peer_device_receives() ? NULL : incoming);
        buffers_size = 0;
    }
    outgoing = peer_device_sends() ? NULL : buffer_pages(size);
    incoming = peer_device_receives() ? NULL : buffer_pages(size);
    if (peer_device_grow(size, &outgoing, &incoming))
        return -1;
    if (!outgoing || !incoming) {
        fprintf(stderr, "peer: no memory for two buffers of %zu bytes\n", size);
        return -1;
    }
    buffers_size = size;
    return 0;
}

static inline void write_words(unsigned char *buffer, size_t bytes, uint64_t value)
{
    uint64_t *word = (uint64_t *)buffer;
    for (size_t i = 0; i < bytes / 8; i++)
        word[i] = value;
}

/* 0 when all words hold `value`. */
static inline uint64_t check_words(const unsigned char *buffer, size_t bytes, uint64_t value)
{
    const uint64_t *word = (const uint64_t *)buffer;
    uint64_t wrong = 0;
    for (size_t i = 0; i < bytes / 8; i++)
        wrong |= word[i] ^ value;
    return wrong;
}

/* The messages of a window, the values from `value` on; on a device through its mirror. */
static void write_window(const struct peer_case *c, uint64_t value)
{
    unsigned char *to = peer_device_sends() ? peer_device_mirror() : outgoing;
    size_t step = buffer_step(c->bytes);

    for (uint32_t w = 0; w < c->window; w++)
        write_words(to + w * step, c->bytes, value + w);
    if (peer_device_sends())
        peer_device_put(c->window * step);
}

static uint64_t check_window(const struct peer_case *c, uint64_t value)
{
    const unsigned char *from = peer_device_receives() ? peer_device_mirror() : incoming;
    size_t step = buffer_step(c->bytes);
    uint64_t wrong = 0;

    if (peer_device_receives())
        peer_device_get(c->window * step);
    for (uint32_t w = 0; w < c->window; w++)
        wrong |= check_words(from + w * step, c->bytes, value + w);
    return wrong;
}

static int wrong_data(const struct peer_case *c, uint64_t wrong)
{
    if (!wrong)
        return 0;
    fprintf(stderr, "peer: %s of %llu bytes delivered wrong data\n", c->test, (unsigned long long)c->bytes);
    return -1;
}

static uint64_t min_u64(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Operations per sample: small ones are timed in groups, because the clock would otherwise be part of them.
 */
static uint64_t group_size(const struct peer_case *c, uint64_t wanted)
{
    uint64_t least = (c->iterations + PEER_SAMPLES_MAX - 1) / PEER_SAMPLES_MAX;
    uint64_t group = min_u64(wanted, c->iterations);
    return group < least ? least : group;
}

/* ---- latency ---- */

static int latency_small(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    uint64_t group = group_size(c, 16), count = c->iterations / group, wrong = 0, seq = 1, step = !c->stale;
    int other = 1 - self->rank;

    write_words(outgoing, c->bytes, seq);
    for (uint64_t s = 0; s < count; s++) {
        uint64_t start = peer_ticks();
        for (uint64_t i = 0; i < group; i++) {
            seq += step;
            if (self->rank == 0) {
                if (step)
                    write_words(outgoing, c->bytes, seq);
                op_send(self, outgoing, c->bytes, other, TAG_DATA);
                op_recv(self, incoming, c->bytes, other, TAG_DATA);
                wrong |= check_words(incoming, c->bytes, seq);
            } else {
                op_recv(self, incoming, c->bytes, other, TAG_DATA);
                wrong |= check_words(incoming, c->bytes, seq);
                if (step)
                    write_words(outgoing, c->bytes, seq);
                op_send(self, outgoing, c->bytes, other, TAG_DATA);
            }
        }
        if (samples)
            samples[s] = (double)(peer_ticks() - start) * self->tick_ns / (2.0 * (double)group);
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

/* The same as nigh's own: both messages are written before the clock starts and checked after it has stopped. */
static int latency_large(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    uint64_t count = min_u64(c->iterations, PEER_SAMPLES_MAX), wrong = 0, seq = 1, step = !c->stale;
    int other = 1 - self->rank;

    write_window(c, seq);
    for (uint64_t s = 0; s < count; s++) {
        seq += step;
        if (step)
            write_window(c, seq);
        peer_meet(self);
        if (self->rank == 0) {
            uint64_t start = peer_ticks();
            op_send(self, outgoing, c->bytes, other, TAG_DATA);
            op_recv(self, incoming, c->bytes, other, TAG_DATA);
            if (samples)
                samples[s] = (double)(peer_ticks() - start) * self->tick_ns / 2.0;
        } else {
            op_recv(self, incoming, c->bytes, other, TAG_DATA);
            op_send(self, outgoing, c->bytes, other, TAG_DATA);
        }
        wrong |= check_window(c, seq);
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

/* ---- windows ---- */

static inline int each_is_waited_for(const struct peer_case *c)
{
    return !strcmp(c->test, "sends");
}

static void send_window(struct peer_rank *self, const struct peer_case *c)
{
    size_t step = buffer_step(c->bytes);

    for (uint32_t w = 0; w < c->window; w++)
        if (each_is_waited_for(c))
            op_send(self, outgoing + w * step, c->bytes, 1 - self->rank, TAG_DATA);
        else
            op_isend(self, w, outgoing + w * step, c->bytes, 1 - self->rank, TAG_DATA);
    if (!each_is_waited_for(c))
        op_waitall(self, c->window);
}

static void recv_window(struct peer_rank *self, const struct peer_case *c)
{
    size_t step = buffer_step(c->bytes);

    for (uint32_t w = 0; w < c->window && !each_is_waited_for(c); w++)
        op_irecv(self, w, incoming + w * step, c->bytes, 1 - self->rank, TAG_DATA);
    op_send(self, outgoing, 0, 1 - self->rank, TAG_READY);
    for (uint32_t w = 0; w < c->window && each_is_waited_for(c); w++)
        op_recv(self, incoming + w * step, c->bytes, 1 - self->rank, TAG_DATA);
    if (!each_is_waited_for(c))
        op_waitall(self, c->window);
}

/* One window of distinct buffers, rewritten before the clock starts, receives posted before it starts, and
 * one empty message back when all have arrived. Of "sends" each is sent when the one before is over, and received so. */
static int bandwidth(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    uint64_t count = min_u64(c->iterations, PEER_SAMPLES_MAX), wrong = 0, seq = 1;
    int other = 1 - self->rank;

    for (uint64_t s = 0; s < count; s++) {
        if (self->rank == 0) {
            if (!c->stale || s == 0)
                write_window(c, seq);
            op_recv(self, incoming, 0, other, TAG_READY);
            uint64_t start = peer_ticks();
            send_window(self, c);
            op_recv(self, incoming, 0, other, TAG_DONE);
            if (samples)
                samples[s] = (double)(peer_ticks() - start) * self->tick_ns;
        } else {
            recv_window(self, c);
            op_send(self, outgoing, 0, other, TAG_DONE);
            wrong |= check_window(c, seq);
        }
        seq += c->stale ? 0 : c->window;
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

/* Windows back to back, one empty message back after each group of them: what a pair sustains. */
static int rate(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    uint64_t group = group_size(c, 16), count = c->iterations / group, wrong = 0, seq = 1;
    size_t step = buffer_step(c->bytes);
    int other = 1 - self->rank;

    for (uint64_t s = 0; s < count; s++) {
        uint64_t start = peer_ticks();
        for (uint64_t g = 0; g < group; g++, seq += c->window) {
            for (uint32_t w = 0; w < c->window; w++) {
                if (self->rank == 0) {
                    write_words(outgoing + w * step, c->bytes, seq + w);
                    op_isend(self, w, outgoing + w * step, c->bytes, other, TAG_DATA);
                } else {
                    op_irecv(self, w, incoming + w * step, c->bytes, other, TAG_DATA);
                }
            }
            op_waitall(self, c->window);
            for (uint32_t w = 0; self->rank && w < c->window; w++)
                wrong |= check_words(incoming + w * step, c->bytes, seq + w);
        }
        if (self->rank == 0)
            op_recv(self, incoming, 0, other, TAG_DONE);
        else
            op_send(self, outgoing, 0, other, TAG_DONE);
        if (samples)
            samples[s] = (double)(peer_ticks() - start) * self->tick_ns / (double)group;
    }
    return wrong_data(c, wrong) ? -1 : (int)count;
}

/* ---- collectives ---- */

#if OP_COLLECTIVES

#include "tools/perf/peer_collectives.h"

#else

static size_t collective_step(const struct peer_rank *self, const struct peer_case *c)
{
    (void)self;
    return buffer_step(c->bytes);
}

static int run_collective(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    (void)samples;
    fprintf(stderr, "peer: %s has no collectives: '%s' cannot be compared\n", self->name, c->test);
    return -1;
}

#endif

static int on_devices(void)
{
    return peer_device_sends() || peer_device_receives();
}

static int run_pair(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    if (self->rank > 1)
        return 0;
    if (!strcmp(c->test, "latency"))
        return c->bytes <= SMALL_MAX && !on_devices() ? latency_small(self, c, samples)
                                                      : latency_large(self, c, samples);
    return !strcmp(c->test, "rate") ? rate(self, c, samples) : bandwidth(self, c, samples);
}

/* The whole of struct peer_rank's `run`. Every rank reaches its end; ranks that have no part wait in no call
 * of the peer. */
static int run_pattern(struct peer_rank *self, const struct peer_case *c, double *samples)
{
    int pair = !strcmp(c->test, "latency") || !strcmp(c->test, "bandwidth") || each_is_waited_for(c) ||
               !strcmp(c->test, "rate");
    size_t window = c->window ? c->window : 1;

    if (c->bytes % 8 || window > OP_WINDOW_MAX || !c->iterations) {
        fprintf(stderr,
                "peer: bytes %llu (a multiple of 8), window %zu (at most %d), iterations %llu (at least 1)\n",
                (unsigned long long)c->bytes, window, OP_WINDOW_MAX, (unsigned long long)c->iterations);
        return -1;
    }
    if (on_devices() && strcmp(c->test, "latency") && strcmp(c->test, "bandwidth")) {
        fprintf(stderr, "peer: '%s' has no buffers on devices; latency and bandwidth have\n", c->test);
        return -1;
    }
    size_t step = pair ? buffer_step(c->bytes) : collective_step(self, c);
    if (buffers_grow((step * window + 8191) / 4096 * 4096))
        return -1;
    return pair ? run_pair(self, c, samples) : run_collective(self, c, samples);
}

#endif
