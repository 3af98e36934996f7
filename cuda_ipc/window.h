/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/window.h - device memory that the CPU stores to: a short message goes to the device without an engine, an event or
 * the process' turn on the device. Where the driver maps a dma-buf for the CPU (CUDA 13.3). Reads through it are slow.
 */
#ifndef NIGH_CUDA_IPC_WINDOW_H
#define NIGH_CUDA_IPC_WINDOW_H

#include "cuda_ipc/pointer.h"

struct nigh_cuda_window {
    char *view;
    uint64_t base, bytes; /* addresses of the device: whole pages */
};

/*
 * Of the buffer's pages that lie whole in its first segment. -ENOTSUP: the driver or device cannot, or there is no such page.
 * -ENOMEM, -EMFILE, -ECHILD. Off the way of messages: it may wait.
 */
int nigh_cuda_window_open(const struct nigh_cuda_memory *memory, struct nigh_cuda_window *out);
void nigh_cuda_window_close(struct nigh_cuda_window *window);

/* True: these addresses of the device lie in the window. */
bool nigh_cuda_window_has(const struct nigh_cuda_window *window, uint64_t at, uint64_t bytes);

/* Stores bytes that nigh_cuda_window_has(). When it returns they are on their way before any later store of this thread, so whatever
 * tells the host of them, tells it of memory that its kernels then find. The host's own copies came first
 * (nigh_cuda_settle()). */
void nigh_cuda_window_write(const struct nigh_cuda_window *window, uint64_t at, const void *from,
                            uint64_t bytes);

#endif
