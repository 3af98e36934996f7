/* SPDX-License-Identifier: BSD-3-Clause */
/* The peer's program, compiled on the machine where the comparison is made: only there is known which MPIs are
 * installed, and nigh itself must build without any. */
#ifndef NIGH_PERF_PEER_BUILD_H
#define NIGH_PERF_PEER_BUILD_H

#include "tools/perf/peer_find.h"

/*
 * Gives the path of the compiled program of an installed peer, compiling it when the cache has none for these
 * sources, this compiler and these options. Sources are taken from $NIGH_PEER_SOURCES (the root of nigh's tree),
 * else from those of the build folder that the program lies in, else from where nigh was installed. Several processes may do this at once. Errors, with `why` (several lines)
 * saying what failed: -ENOENT no sources, -EACCES or another -errno no cache directory, -EIO the compiler
 * failed, -ETIMEDOUT it took longer than 60 s.
 */
int perf_peer_build(const struct perf_peer_place *place, char *binary, size_t size, char *why, size_t room);

#endif
