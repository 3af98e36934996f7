/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shm/tune.h - what was measured on this machine, as a small text file. `nigh-perf tune` writes it, contexts read
 * it once when they open. Without it the defaults that are compiled in hold; a file with an error in it is refused
 * as a whole, so that nobody runs on half of it.
 *
 *     # what one core says to another
 *     ring_max = 1024
 *     far_ns = 160
 *     strategy = plain>plain span=2M piece=64K
 *     strategy = nt>plain span=512K piece=64K
 *     strategy = plain>nt span=2M piece=64K from=16M try=4M
 *     near = 0
 *     far = 1
 */
#ifndef NIGH_SHM_TUNE_H
#define NIGH_SHM_TUNE_H

#include "shm/pace.h"

#include <stddef.h>
#include <stdint.h>

enum {
    NIGH_TUNE_ERROR = 512,  /* bytes of an error text, its end included */
    NIGH_TUNE_PATH = 1024,  /* bytes of a file's name */
    NIGH_TUNE_TEXT = 16384, /* bytes of the largest file */
    NIGH_TUNE_RING_MAX = 4096,
};

struct nigh_tune {
    uint32_t ring_max;  /* bytes: a longer message goes through chunks */
    uint32_t far_ns;    /* a handoff that is felt (plugin/feel.h) as more than this crosses an L3 boundary */
    uint32_t near, far; /* the strategies that a pair begins with */
    uint32_t count;
    struct nigh_strategy strategy[NIGH_PACE_STRATEGIES];
};

/* The values that are compiled in, less what this CPU lacks; docs/rationale/copies.md says where they come from. */
void nigh_tune_default(struct nigh_tune *out);

/* Reads a text. `name` stands in errors, as "name:line: what". 0; -EINVAL with *tune untouched and `error` set:
 * a line that is not understood, a value out of its range (the range is said), a strategy that cannot be or that
 * this CPU lacks. Keys that are absent keep their defaults; the first strategy replaces the default list. */
int nigh_tune_parse(const char *text, const char *name, struct nigh_tune *tune, char error[NIGH_TUNE_ERROR]);

/* The file of this machine: $NIGH_TUNE, else tune-HOSTNAME.conf in $XDG_CONFIG_HOME/nigh, else in
 * $HOME/.config/nigh. 1 when $NIGH_TUNE named it, 0 when not; -ENOENT when none of the three is set, -ENAMETOOLONG.
 * Reads the environment: not while another thread changes it. */
int nigh_tune_path(char path[NIGH_TUNE_PATH]);

/* Defaults, then the file of this machine. 1: read from `path`; 0: there is no file, `path` is "". Else negative,
 * *out holds the defaults and `error` says what is wrong: -EINVAL as in nigh_tune_parse, -ENOENT the file that
 * $NIGH_TUNE names is not there, -EFBIG above 16 KiB, or what open and read say. */
int nigh_tune_load(struct nigh_tune *out, char path[NIGH_TUNE_PATH], char error[NIGH_TUNE_ERROR]);

/* The text of a file that nigh_tune_parse reads back to the same values. `comment` (may be NULL) becomes its first
 * lines. The length, or -ENOSPC. */
int nigh_tune_format(const struct nigh_tune *tune, const char *comment, char *text, size_t bytes);

/* Writes a file beside `path` and moves it there, so that no reader sees half of it. The folder must be there.
 * 0, or negative errno with `error` set and no file left. */
int nigh_tune_save(const char *path, const struct nigh_tune *tune, const char *comment,
                   char error[NIGH_TUNE_ERROR]);

#endif
