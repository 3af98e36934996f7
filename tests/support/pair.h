/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/pair.h - two ends that talk to each other through the vtable of the loaded module, in each form that
 * two ranks can take. A scenario is written once, in steps that each side takes for itself:
 *
 *     struct pair_end *tx = pair->end[0], *rx = pair->end[1];    NULL: that side is played elsewhere
 *
 *     if (rx)
 *         pair_recv(rx, to, bytes, tag, 1);
 *     pair_meet();
 *     if (tx)
 *         pair_send(tx, from, bytes, tag, 0, 2);
 *     if (rx)
 *         pair_received(rx, 1);
 *
 * Where one thread plays both sides it goes through all of the steps, so what one side waits for must have been begun
 * further up.
 */
#ifndef NIGH_TESTS_PAIR_H
#define NIGH_TESTS_PAIR_H

#include "nigh/transport.h"
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

enum pair_form {
    PAIR_SELF = 1,    /* one context, connected to itself: both sides are one */
    PAIR_TWO = 2,     /* two contexts, one thread drives both */
    PAIR_FORK = 4,    /* two processes */
    PAIR_THREADS = 8, /* two threads, a context each */
};
#define PAIR_ALL   (PAIR_SELF | PAIR_TWO | PAIR_FORK | PAIR_THREADS)
#define PAIR_APART (PAIR_TWO | PAIR_FORK | PAIR_THREADS)

/* how, of a case */
#define PAIR_MANUAL 1u /* the scenario opens, connects and closes */
#define PAIR_LOOSE  2u /* completions and messages that nobody took are no mistake */
#define PAIR_DEATH  4u /* PAIR_FORK: the second process ends itself in the middle */
#define PAIR_FRESH \
    8u /* in a process of its own: what the case starts there, as a driver, no other case meets */

struct pair;

struct pair_case {
    const char *name;
    void (*play)(struct pair *pair);
    unsigned forms; /* 0: all */
    unsigned how;
    uint64_t number; /* the scenario's own */
    const void *data;
    struct nigh_open options; /* its flags and sizes; who it is comes from the harness */
};

struct pair_queue;

struct pair_end {
    struct nigh_context *context;
    struct nigh_endpoint *peer;
    unsigned side;
    struct pair_queue *queue; /* completions that were polled and not taken; both sides' of a self */
};

struct pair {
    const struct nigh_ops *nigh;
    const struct pair_case *of;
    enum pair_form form;
    uint64_t job;
    struct pair_end *end[2];
    volatile uint64_t *shared; /* 16 words that both sides see, zero at first */
};

/* Runs each case in each of its forms; the result of main(). A first argument is a filter for names. */
int pair_run(int argc, char **argv, const struct pair_case *cases, size_t count);
/* The table of the module that NIGH_PLUGIN names; ends the program where there is none. */
const struct nigh_ops *pair_load(void);

/* ---- saying no: from whichever side, thread or process, the case fails with the first of these --------------- */

void pair_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
void pair_skip(const char *reason) __attribute__((noreturn));
void pair_check_int(const char *file, int line, const char *what, long long got, long long expected);

#define CHECK(condition)                               \
    do {                                               \
        if (!(condition))                              \
            pair_fail(__FILE__, __LINE__, #condition); \
    } while (0)
#define CHECK_INT(got, expected) \
    pair_check_int(__FILE__, __LINE__, #got, (long long)(got), (long long)(expected))

/* ---- ends --------------------------------------------------------------------------------------------------- */

/* For PAIR_MANUAL. In PAIR_SELF both ends are one context, opened and closed with either. */
void pair_open(struct pair_end *end);
void pair_connect(struct pair_end *end);
void pair_disconnect(struct pair_end *end);
void pair_close(struct pair_end *end);
/* Until the endpoint is in this state. */
void pair_state(struct pair_end *end, enum nigh_state state);
enum nigh_state pair_state_now(struct pair_end *end);

/* Waits until the other side comes to its call of the same number. What is done meanwhile stays with the context, for a
 * test that polls by itself: the other side may send what follows before this one has left. */
void pair_meet(void);
/* Polls each end that is played here once. */
void pair_pump(void);
/* Polls for this long, and so often that all peers are looked at. */
void pair_pump_ms(unsigned ms);
/* Until this many messages wait for their receive. */
void pair_unexpected(struct pair_end *end, uint32_t count);

/* The completion of `op` with this context: waited for, and taken. */
struct nigh_completion pair_await(struct pair_end *end, enum nigh_op op, uint64_t context);
/* The same if it is there. */
bool pair_take(struct pair_end *end, enum nigh_op op, uint64_t context, struct nigh_completion *out);
/* The oldest completion of `op`, whatever its context. */
struct nigh_completion pair_next(struct pair_end *end, enum nigh_op op);
/* Completions that were polled and not taken. */
uint32_t pair_left(const struct pair_end *end);

/* ---- posts that must succeed ---------------------------------------------------------------------------------- */

void pair_send(struct pair_end *end, const void *buffer, uint64_t bytes, uint64_t tag, uint32_t flags,
               uint64_t context);
void pair_recv(struct pair_end *end, void *buffer, uint64_t bytes, uint64_t tag, uint64_t context);
/* Await with success; the bytes are checked. */
void pair_sent(struct pair_end *end, uint64_t context, uint64_t bytes);
struct nigh_completion pair_received(struct pair_end *end, uint64_t context, uint64_t bytes);

/* The structs of the posts, with their sizes. */
struct nigh_send pair_a_send(const void *buffer, uint64_t bytes, uint64_t tag, uint64_t context);
struct nigh_recv pair_a_recv(void *buffer, uint64_t bytes, uint64_t tag, uint64_t context);

struct nigh_query_context pair_facts(struct pair_end *end);
struct nigh_query_stats pair_stats(struct pair_end *end);
struct nigh_query_endpoint pair_peer_facts(struct pair_end *end);

#endif
