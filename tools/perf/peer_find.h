/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers that --compare knows: where each is looked for, how its program is compiled and how its ranks are
 * started. Nothing here runs anything. */
#ifndef NIGH_PERF_PEER_FIND_H
#define NIGH_PERF_PEER_FIND_H

#include "tools/mpi/find.h"
#include "tools/mpi/words.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct perf_case;

/* An installed peer. */
struct perf_peer_place {
    const char *name;               /* as --compare knows it */
    const char *program;            /* the source of its rank: "peer_mpi.c" */
    bool collectives;               /* has those of perf_peer_collectives */
    struct mpi_place mpi;           /* UCX: the compiler alone */
    char providers[MPI_PATH_BYTES]; /* directory of libnigh-fi.so when it is to run over nigh, else "" */
    const char *variant;            /* perf_peer_variant() of the name it was looked for by */
};

/* Names of all peers, static storage; returns how many, writes at most `max`. */
size_t perf_peer_all(const char **names, size_t max);

/* Looks for a peer; `name` must stay as long as the place. -ENOENT no such name; -ENOSYS not installed, `why` says what is missing and what installs it. */
int perf_peer_find(const char *name, struct perf_peer_place *place, char *why, size_t room);

/* The command that compiles the peer's program, of the tree with root `sources`, into `output`. */
void perf_peer_compile_words(const struct perf_peer_place *place, const char *sources, const char *output,
                             struct mpi_words *words);

/* The command that starts c->ranks ranks of `binary` on c->cpus with buffers as c->cuda says, obeying the control socket. */
void perf_peer_start_words(const struct perf_peer_place *place, const char *binary, const struct perf_case *c,
                           const char *control, struct mpi_words *words);

#endif
