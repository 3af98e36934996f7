/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/device_siege.h - siege.h with memory on a device of the fake CUDA driver: what a foe brings, names and hears. */
#ifndef NIGH_TESTS_DEVICE_SIEGE_H
#define NIGH_TESTS_DEVICE_SIEGE_H

#include "plugin/wire.h"
#include "tests/support/siege.h"
#include "tests/support/test_cuda.h"

enum { BYTES = 128 * 1024, POLLS = 1000 };

extern struct hosted victim, good;
extern struct foe foe;
extern struct nigh_endpoint *to_foe, *to_good;
extern const struct test_cuda *cuda;
/* Of BYTES, on the device; `memory` has what `out` has. */
extern uint8_t *place, *memory, out[BYTES], in[BYTES];

/* Before and after a test. The victim has a receive from the foe, of tag and context 1, at `place`. */
int start(void **state);
int stop(void **state);

/* Its endpoint fails, with the receive that waited for it; others are served. */
void is_broken(void);
/* A message of the foe's, of tag 1 and number 3, from memory that it has brought under `number`, or not. */
void refer(uint64_t number, uint64_t where, uint64_t total);
int bring(uint64_t number, const void *record, size_t bytes, const int *fds, uint32_t count);
/* Memory that is there, brought as it should be. */
void bring_memory(uint64_t number);
/* The victim's next slot, soon: a wait for what does not come takes a thousand times as many polls. */
struct nigh_slot hear(enum nigh_kind kind);
/* A message of the victim's, of context 2, that the foe's device is to copy; its number. */
uint64_t sent(void);

#endif
