/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/data.h - what messages carry: bytes that depend on their place and on a seed, in rooms whose edges are
 * watched. Rooms are freed when the case ends. */
#ifndef NIGH_TESTS_DATA_H
#define NIGH_TESTS_DATA_H

#include <stdint.h>

/* Memory of the case for `bytes`, with a mark behind it. */
uint8_t *data_room(uint64_t bytes);
/* The same, filled. */
uint8_t *data_filled(uint64_t bytes, uint64_t seed);
void data_fill(void *at, uint64_t bytes, uint64_t seed);
/* The bytes are those of `seed`, from its byte `from` on. The case fails where not. */
void data_check(const void *at, uint64_t bytes, uint64_t seed, uint64_t from);
/* A room of `bytes`: nothing was written from `written` on. */
void data_check_rest(const uint8_t *room, uint64_t written, uint64_t bytes);
/* Behind a room nothing was written; asked by itself when the case ends. */
void data_end(void);

#endif
