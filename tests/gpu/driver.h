/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/driver.h - the machine's CUDA driver behind the layer of tests/gpu, and what was opened through the layer. */
#ifndef NIGH_TESTS_GPU_DRIVER_H
#define NIGH_TESTS_GPU_DRIVER_H

#include "tests/support/cuda/calls.h"

#include <stdbool.h>

/* The driver's own calls. Those that it is too old for give CU_NOT_FOUND through the layer, and are NULL here. */
struct real {
#define REAL_SLOT(name, parameters, arguments) int(*name) parameters;
    CUDA_CALLS(REAL_SLOT)
#undef REAL_SLOT
};

extern struct real real;

/* False: there is none. */
bool real_loaded(void);
/* Ends the program, with what the driver says, unless the result is 0. */
void real_must(const char *call, int result);
/* The call that the driver was given last. */
const char *real_calling(void);
void real_call(const char *call);

#define MUST(call, ...) (real_call(#call ", of the test's own"), real_must(#call, real.call(__VA_ARGS__)))

void real_set_broken(bool is);
void real_set_devices(int count);
size_t real_pinned(void);
/* What was opened through the layer and not closed, or NULL. */
const char *real_leaks(void);
/* What a context had goes with it. */
void real_forget_context(const void *context);

#endif
