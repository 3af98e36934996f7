/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/call_case.h - one call of a group, for any member: its buffers filled, and what it must give, computed in one
 * process without nigh. */
#ifndef NIGH_TESTS_CALL_CASE_H
#define NIGH_TESTS_CALL_CASE_H

#include "nigh/transport.h"
#include <stdbool.h>

enum call_blocks {
    CALL_EVEN,   /* count elements each */
    CALL_VARIED, /* counts that differ, some 0 */
    CALL_GAPPED, /* and offsets, from the last to the first, with gaps */
};

struct call_case {
    uint16_t op, type, reduction;
    uint32_t members, root;
    uint64_t count;
    bool in_place;
    enum call_blocks blocks;
    uint64_t seed;
    /* Where buffers come from; NULL: malloc. */
    void *(*take)(void *arg, uint64_t bytes);
    void *arg;
};

struct call_room {
    struct nigh_collective call;
    uint8_t *send, *recv; /* NULL: none */
    uint64_t send_bytes, recv_bytes;
    uint8_t *send_before, *wanted; /* what they must hold afterwards */
    uint64_t *arrays;              /* of counts and offsets */
    bool taken;
};

/* "allreduce u32 sum, 5 members, 1000 elements, in place" */
const char *call_case_text(const struct call_case *of, uint32_t me);

void call_case_make(const struct call_case *of, uint32_t me, struct call_room *out);
/* NULL: as it must be; else what is not. */
const char *call_case_check(const struct call_room *room);
void call_case_free(struct call_room *room);

#endif
