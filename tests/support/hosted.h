/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/hosted.h - contexts of the transport inside a test's process, through its table: opened with small
 * defaults, polled in turn, and what completed kept in a list that a test can look through. */
#ifndef NIGH_TESTS_HOSTED_H
#define NIGH_TESTS_HOSTED_H

#include "nigh/transport.h"
#include <stdbool.h>

enum { HOSTED_DONE = 4096 };

struct hosted {
    struct nigh_context *context;
    struct nigh_completion done[HOSTED_DONE];
    unsigned count;
};

extern const struct nigh_ops *hosted_ops;
/* Contexts opened from now on say nothing: for tests whose peers give cause to say much. */
extern bool hosted_quiet;

/* A job number that no other test of this machine uses. */
uint64_t hosted_job(void);
/* Rank `rank` of 8; `flags` as of nigh_open. Fails the test when it cannot. */
void hosted_open(struct hosted *hosted, uint64_t job, uint32_t rank, uint32_t flags);
void hosted_close(struct hosted *hosted);
struct nigh_endpoint *hosted_connect(struct hosted *hosted, uint32_t rank);
/* Ranks 0 and 1 of a job of their own, `b` with `flags`; what a sends to b on. The end of both. */
struct nigh_endpoint *hosted_open_pair(struct hosted *a, struct hosted *b, uint32_t flags);
void hosted_close_pair(struct hosted *a, struct hosted *b);
/* Moves what completed into the list. */
void hosted_poll(struct hosted *hosted);
/* The completion of `context` and `op`, NULL if there is none yet; the first where there are several. */
const struct nigh_completion *hosted_find(const struct hosted *hosted, uint16_t op, uint64_t context);

/* Posts; the results of the slots. */
int hosted_send(struct nigh_endpoint *to, uint64_t context, uint64_t tag, const void *buffer, uint64_t bytes,
                uint32_t flags);
int hosted_recv(struct hosted *hosted, struct nigh_endpoint *from, uint64_t context, uint64_t tag,
                void *buffer, uint64_t bytes, uint32_t flags);
uint32_t hosted_state(struct hosted *hosted, struct nigh_endpoint *endpoint);
struct nigh_query_context hosted_facts(struct hosted *hosted);
struct nigh_query_stats hosted_stats(struct hosted *hosted);
/* May processes read each other here? Where not, long messages go in chunks: both sides have to poll. */
bool hosted_may_read(struct hosted *hosted);

/* Polls in turn until `context` of `op` is in the list of `hosted`; fails the test after 120 s. */
const struct nigh_completion *hosted_until(struct hosted *hosted, struct hosted *other, uint16_t op,
                                           uint64_t context);
/* Polls both for a while: long enough for sweeps. */
void hosted_turns(struct hosted *hosted, struct hosted *other, unsigned turns);

/* A message each way, after which both have found out whether they may read each other. */
void hosted_meet(struct hosted *one, struct nigh_endpoint *to_other, struct hosted *other,
                 struct nigh_endpoint *to_one);

#endif
