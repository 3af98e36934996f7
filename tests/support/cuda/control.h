/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/control.h - what tests can do with the fake CUDA driver beyond test_cuda.h: with no other. From any
 * thread. tests/support/cuda/README.md lists what the environment can say. */
#ifndef NIGH_TESTS_CUDA_CONTROL_H
#define NIGH_TESTS_CUDA_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fake_cuda {
    /* The call gives this CUresult from now on; 0: it works again. */
    void (*refuse)(const char *call, int result);
    /* The order in which streams' work is done, and how much of it when somebody asks. */
    void (*seed)(uint64_t seed);
    /* Work begins no earlier than this after it was asked for. */
    void (*delay)(long us);
    /* All work that can be done now: true, if there was any. */
    bool (*run)(void);
    /* Work is also done by a thread, not only when it is asked for or waited for. It cannot be stopped. */
    void (*start_worker)(void);
    /* Bytes of the device's memory that this process has made and anybody holds, descriptors on their way included. */
    size_t (*used)(int device);
    /* Bytes of addresses reserved by cuMemAddressReserve(). */
    size_t (*reserved)(void);
    /* Whether two devices, by their numbers in the machine, reach each other. */
    void (*set_peers)(int a, int b, bool reach);
    /* Bytes that a device has. */
    void (*set_memory)(size_t bytes);
};

#define FAKE_CUDA_SYMBOL "fake_cuda"

#endif
