/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/notes.h - what tests of status lines and nudges share: reading and writing a line, and
 * words that both sides of a pair see. */
#ifndef NIGH_TESTS_NOTES_H
#define NIGH_TESTS_NOTES_H

#include "tests/support/pair.h"
#include <time.h>

#define MS UINT64_C(1000000)

static const struct nigh_ops *nigh; /* main() has loaded it */

static inline uint64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000 * MS + (uint64_t)time.tv_nsec;
}

static inline void sleep_ms(unsigned ms)
{
    struct timespec time = {.tv_nsec = ms * (long)MS};

    nanosleep(&time, NULL);
}

/* The words that both sides see. */
static inline void tell(struct pair *pair, unsigned word, uint64_t value)
{
    __atomic_store_n(&pair->shared[word], value, __ATOMIC_SEQ_CST);
}

static inline uint64_t told(struct pair *pair, unsigned word)
{
    return __atomic_load_n(&pair->shared[word], __ATOMIC_SEQ_CST);
}

static inline int read_note(struct pair_end *end, struct nigh_endpoint *of, struct nigh_note *out)
{
    uint64_t bytes = sizeof(*out);
    int rc = nigh->query(end->context, of, NIGH_QUERY_NOTE, out, &bytes);

    if (!rc)
        CHECK_INT(bytes, sizeof(*out));
    return rc;
}

static inline struct nigh_note note_of(struct pair_end *end, struct nigh_endpoint *of)
{
    struct nigh_note note;
    int rc = -EAGAIN;

    /* A reader gives up on a writer that was interrupted. */
    for (unsigned i = 0; rc == -EAGAIN && i < 30000; i++) {
        rc = read_note(end, of, &note);
        if (rc == -EAGAIN)
            sleep_ms(1);
    }
    CHECK_INT(rc, 0);
    return note;
}

static inline void write_note(struct pair_end *end, uint32_t state)
{
    struct nigh_note note = {.size = sizeof(note),
                             .state = state,
                             .op = NIGH_NOTE_OP_RECV,
                             .peer = 1 - end->side,
                             .requests = 1,
                             .since_ns = now_ns()};

    CHECK_INT(nigh->note(end->context, &note), 0);
}

static inline void both_ready(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    pair_meet();
}

#endif
