/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/driver.h - what tests change about the fake driver's start. */
#ifndef NIGH_TESTS_CUDA_DRIVER_H
#define NIGH_TESTS_CUDA_DRIVER_H

#include <stdbool.h>

void fake_set_broken(bool is);
void fake_set_devices(int count);

#endif
