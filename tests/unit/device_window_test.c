/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that the CPU stores to, with a driver that can and one that cannot: every size and place, and no byte beside. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/window.h"
#include "tests/support/cuda_lab.h"
#include "tests/support/logged.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 65536, MOST = 100 };

static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_MAPPED, MEMORY_POOL, MEMORY_MANAGED};

static void cannot(int socket)
{
    lab_begin();
    for (int i = 0; i < 4; i++) {
        char *at = lab.test->alloc(kinds[i], 0, ROOM);
        struct nigh_cuda_memory *memory = lab_look((uintptr_t)at, ROOM);
        struct nigh_cuda_window window = {.bytes = 7};
        unsigned fds = lab_fds();

        logged_begin();
        IS(nigh_cuda_window_open(memory, &window), -ENOTSUP);
        IS(logged_lines(), 0);
        logged_end();
        IS(window.bytes, 7);
        IS(lab_fds(), fds);
        free(memory);
        lab.test->free(at);
    }
    lab_hear(socket);
    lab_end();
}

static void write_everywhere(const struct nigh_cuda_window *window, uint64_t at)
{
    unsigned char before[256], bytes[MOST], now[256];

    lab_fill(bytes, MOST, 5);
    for (unsigned offset = 0; offset < 40; offset++)
        for (unsigned count = 0; count <= MOST; count += count < 34 ? 1 : 11) {
            lab_put(at, sizeof(before), count);
            lab.test->get(before, (void *)(uintptr_t)at, sizeof(before));
            nigh_cuda_window_write(window, at + offset, bytes, count);
            memcpy(before + offset, bytes, count);
            lab.test->get(now, (void *)(uintptr_t)at, sizeof(now));
            MUST(memcmp(before, now, sizeof(now)) == 0);
        }
}

static void bounds(const struct nigh_cuda_window *window)
{
    uint64_t end = window->base + window->bytes;

    MUST(nigh_cuda_window_has(window, window->base, window->bytes));
    MUST(nigh_cuda_window_has(window, end, 0));
    MUST(!nigh_cuda_window_has(window, end, 1));
    MUST(!nigh_cuda_window_has(window, window->base + 1, window->bytes));
    MUST(!nigh_cuda_window_has(window, window->base - 1, 1));
    MUST(!nigh_cuda_window_has(window, window->base + 1, UINT64_MAX));
    MUST(!nigh_cuda_window_has(window, UINT64_MAX, 2));
    MUST(!nigh_cuda_window_has(&(struct nigh_cuda_window){.view = NULL}, 0, 0));
}

static void can(int socket)
{
    setenv("NIGH_FAKE_CUDA_MMAP", "1", 1);
    lab_begin();
    for (int i = 0; i < 2; i++) {
        char *at = lab.test->alloc(kinds[i], 0, ROOM);
        struct nigh_cuda_memory *memory = lab_look((uintptr_t)at, ROOM - 3);
        struct nigh_cuda_window window;
        unsigned fds = lab_fds();

        IS(nigh_cuda_window_open(memory, &window), 0);
        IS(lab_fds(), fds); /* the mapping keeps it */
        IS(window.bytes, ROOM);
        bounds(&window);
        write_everywhere(&window, (uintptr_t)at);
        nigh_cuda_window_close(&window);
        MUST(!nigh_cuda_window_has(&window, (uintptr_t)at, 1));
        logged_begin();
        lab.test->fail_once("cuMemGetHandleForAddressRange", 0);
        IS(nigh_cuda_window_open(memory, &window), -ENOTSUP);
        lab.test->fail_once("cuCtxPushCurrent_v2", 0);
        IS(nigh_cuda_window_open(memory, &window), -EIO);
        lab.test->fail_once("cuCtxPopCurrent_v2", 0);
        IS(nigh_cuda_window_open(memory, &window), -EIO);
        logged_end();
        IS(lab_fds(), fds);
        free(memory);
        lab.test->free(at);
    }
    lab_say(socket, 1);
    lab_end();
}

static void stores(void **state)
{
    (void)state;
    lab_pair(cannot, can);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(stores)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
