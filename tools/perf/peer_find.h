/* SPDX-License-Identifier: BSD-3-Clause */
/* The peers that --compare knows: where each is looked for, how its program is compiled and how its ranks are
 * started. Nothing here runs anything. */
#ifndef NIGH_PERF_PEER_FIND_H
#define NIGH_PERF_PEER_FIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PERF_WORDS      96
#define PERF_PATH_BYTES 1024

/* A command in the making, ready for execvp: NULL follows the last word. The words lie in `room`. */
struct perf_words {
    size_t count, used;
    bool overflow; /* a word did not fit; it and all later ones are missing */
    char *word[PERF_WORDS + 1];
    char room[16384];
};

void perf_words_init(struct perf_words *words);

/* Appends a copy of the text. */
void perf_words_add(struct perf_words *words, const char *text);

/* The words with blanks between them, cut to `size`. */
void perf_words_join(const struct perf_words *words, char *text, size_t size);

/* An installed peer. */
struct perf_peer_place {
    const char *name;               /* as --compare knows it */
    const char *program;            /* the source of its rank: "peer_mpi.c" */
    bool collectives;               /* has barrier, allreduce, bcast */
    char compiler[PERF_PATH_BYTES]; /* its mpicc, or cc */
    char launcher[PERF_PATH_BYTES]; /* its mpirun, "" where its program starts its own ranks */
    char include[PERF_PATH_BYTES];  /* headers that the compiler does not find by itself, or "" */
    char library[PERF_PATH_BYTES];  /* the same for libraries */
};

/* Names of all peers, static storage; returns how many, writes at most `max`. */
size_t perf_peer_all(const char **names, size_t max);

/* Looks for a peer. -ENOENT no such name; -ENOSYS not installed, `why` says what is missing and what installs it. */
int perf_peer_find(const char *name, struct perf_peer_place *place, char *why, size_t room);

/* The cache of nigh-perf, "$XDG_CACHE_HOME/nigh/NAME" (default ~/.cache). False when neither is set or it is
 * too long. Makes nothing. */
bool perf_peer_cache(const char *name, char *path, size_t size);

/* The command that compiles the peer's program, of the tree with root `sources`, into `output`. */
void perf_peer_compile_words(const struct perf_peer_place *place, const char *sources, const char *output,
                             struct perf_words *words);

/* The command that starts `ranks` ranks of `binary` on `cpus` (NULL: anywhere), obeying the control socket. */
void perf_peer_start_words(const struct perf_peer_place *place, const char *binary, uint32_t ranks,
                           const int *cpus, const char *control, struct perf_words *words);

#endif
