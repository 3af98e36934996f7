/* SPDX-License-Identifier: BSD-3-Clause */
/* Busy loops: processes that do nothing but use CPUs, so that a figure can be taken on a machine
 * that has other work. */
#ifndef NIGH_PERF_BESIDE_H
#define NIGH_PERF_BESIDE_H

#include <stdint.h>

#define PERF_BESIDE 1024

/* Starts `count` of them, at most PERF_BESIDE, on whatever CPUs this process may use. They end with the caller, however
 * that ends. 0; -EAGAIN (said) when there are no processes for all of them, none runs then. */
int perf_beside_start(uint32_t count);
/* Ends those that run. */
void perf_beside_stop(void);

#endif
