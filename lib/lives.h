/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/lives.h - how often this process has left a job. All its ranks leave it together, so all count the
 * same, and a job that is joined once more meets under its next life: nobody there knows of the one
 * before, however late somebody leaves that.
 */
#ifndef NIGH_LIB_LIVES_H
#define NIGH_LIB_LIVES_H

#include <stdint.h>

/* How often it has been left. */
uint64_t nigh_lives_of(uint64_t job);

/* Makes room for counting, so that leaving cannot fail. -ENOMEM. */
int nigh_lives_begin(uint64_t job);

/* Left once more. Nothing where nigh_lives_begin() made no room: of jobs of one rank, which meet nobody. */
void nigh_lives_end(uint64_t job);

#endif
