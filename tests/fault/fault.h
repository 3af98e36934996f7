/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/fault/fault.h - a process of its own for each bad environment, because limits and sandboxes cannot be taken off
 * again; two contexts in it that must be able to talk, or must say what is in their way; and what it holds. */
#ifndef NIGH_TESTS_FAULT_H
#define NIGH_TESTS_FAULT_H

#include "nigh/transport.h"
#include <stdbool.h>

/* A sanitizer makes system calls and takes address space of its own. */
#if defined(__has_feature)
#define FAULT_SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FAULT_SANITIZED 1
#else
#define FAULT_SANITIZED 0
#endif

/* ---- the process ------------------------------------------------------------------------------------------------- */

/* Runs `play(data)` in a child. A WANT that does not hold there fails the calling case, fault_skip() skips it, and so
 * does a signal or 30 s fail it. Returns what play() returned, 0 .. 100. */
int fault_apart(int (*play)(void *data), void *data);
void fault_skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void fault_fail(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

#define WANT_INT(got, wanted)                                                                         \
    do {                                                                                              \
        long long got_ = (long long)(got), wanted_ = (long long)(wanted);                             \
        if (got_ != wanted_)                                                                          \
            fault_fail(__FILE__, __LINE__, "%s is %lld, not %lld; said: \"%s\"", #got, got_, wanted_, \
                       fault_said());                                                                 \
    } while (0)
#define WANT(condition)                                                                           \
    do {                                                                                          \
        if (!(condition))                                                                         \
            fault_fail(__FILE__, __LINE__, "not so: %s; said: \"%s\"", #condition, fault_said()); \
    } while (0)

/* What the contexts of this process have logged since fault_hush(): all lines, how many, and
 * whether `part` is in them. */
const char *fault_said(void);
unsigned fault_lines(void);
void fault_hush(void);
void fault_want_said(const char *file, int line, const char *part);
#define WANT_SAID(part) fault_want_said(__FILE__, __LINE__, part)

/* ---- what a process holds
 * ----------------------------------------------------------------------------------------- */

struct fault_held {
    unsigned fds, maps; /* descriptors; mappings of shared memory */
    unsigned long threads;
};

/* Before the first limit is lowered: keeps open what counting needs. */
void fault_count_begin(void);
struct fault_held fault_held(void);
/* The same as `before`. */
void fault_want_held(const char *file, int line, struct fault_held before);
#define WANT_HELD(before) fault_want_held(__FILE__, __LINE__, before)
/* Uses up descriptors until `left` remain; gives them back. */
void fault_fds_eat(unsigned left);
void fault_fds_give(void);

/* ---- two contexts
 * ------------------------------------------------------------------------------------------------- */

struct fault_pair {
    struct nigh_context *context[2];
    struct nigh_endpoint *to[2]; /* to the other */
};

const struct nigh_ops *fault_ops(void);
/* Small defaults, ranks 0 and 1 of 2 of this process' job, logging to fault_said(). */
struct nigh_open fault_options(uint32_t rank);
int fault_open(uint32_t rank, struct nigh_context **out);
void fault_close(struct nigh_context *context);
struct nigh_endpoint *fault_connect(struct nigh_context *context, uint32_t rank);
uint32_t fault_state(struct nigh_context *context, struct nigh_endpoint *endpoint);
/* Polls both until the endpoint is in `state`, at most `ms`. Returns whether it is. */
bool fault_until(struct fault_pair *pair, unsigned side, uint32_t state, unsigned ms);
/* Both opened and connected. Must succeed. */
void fault_pair_open(struct fault_pair *pair);
void fault_pair_close(struct fault_pair *pair);
/* Messages of every kind of size in both directions, each byte checked. Must succeed. */
void fault_pair_talk(struct fault_pair *pair);
/* One message from side 0 to side 1. The statuses of both; true when both have completed. */
bool fault_pair_send(struct fault_pair *pair, uint64_t bytes, int *sent, int *received);

#endif
