/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of struct perf_peer, which starting (peer_open.c) and running rounds (peers.c) share. */
#ifndef NIGH_PERF_PEER_SESSION_H
#define NIGH_PERF_PEER_SESSION_H

#include "tools/perf/peer_find.h"
#include "tools/perf/peer_process.h"
#include "tools/perf/peers.h"

#define PERF_PEER_RANKS 256
#define PERF_PEER_PACES 64
#define PERF_PEER_LINE  1024 /* of the control protocol, its end included */

/* How many operations of one case make a round of the wanted length. */
struct perf_peer_pace {
    char test[16];
    uint64_t bytes, iterations;
    uint64_t last_ns; /* what the last round took; 0: none yet with so many operations */
    uint32_t window;
    enum perf_how how;
    bool stale;
};

struct perf_peer {
    struct perf_peer_place place;
    struct perf_process process; /* of the program's --launch, which ends all others */
    uint32_t ranks;
    bool broken; /* its processes have been told to end */
    int socket[PERF_PEER_RANKS];
    struct perf_peer_pace pace[PERF_PEER_PACES];
    uint32_t paces;
    char version[256];
    char command[2048];
    char said[PERF_WHY_BYTES / 2];
};

/* Milliseconds of a clock that only goes forward, and until `end` on it. */
uint64_t perf_peer_now(void);
int perf_peer_left(uint64_t end);

/* Waits for one packet of a rank and gives it as text. Returns its length, 0 when the rank is gone, -EAGAIN when
 * `end` is there first. */
int perf_peer_receive(int fd, char *text, size_t size, uint64_t end);

/* Asks the launching process to end everything at once. Works in a forked child too, where it cannot be waited for. */
void perf_peer_break(struct perf_peer *peer);

#endif
