/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda_calls.h - the calls that a driver of test_cuda.h was given, and the one that is to fail. */
#ifndef NIGH_TESTS_CUDA_CALLS_H
#define NIGH_TESTS_CUDA_CALLS_H

#include "tests/support/test_cuda.h"

/* Notes the call; true: it is to fail. */
bool cuda_call_fails(const char *call);

/* Those of struct test_cuda. */
void cuda_fail_once(const char *call, unsigned after);
unsigned cuda_calls(const char *call);

#endif
