/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/window.c - see window.h. */
#include "cuda_ipc/window.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define WORD 16u /* what a CPU writes at once to memory that it combines writes of */

/* By trying: the attribute promises what some kernels refuse. */
static int open_range(const struct nigh_driver *driver, uint64_t base, uint64_t bytes, int *fd)
{
    int made = -1;

    if (!driver->range_handle ||
        NIGH_FD_DURING(driver->range_handle(&made, base, bytes, NIGH_CUDA_RANGE_DMA_BUF, 0)))
        return -ENOTSUP;
    *fd = nigh_os_take(made);
    return *fd < 0 ? -errno : 0;
}

static int map_range(const struct nigh_driver *driver, struct nigh_cuda_window *window)
{
    int fd, rc = open_range(driver, window->base, window->bytes, &fd);
    void *view;

    if (rc)
        return rc;
    view = nigh_os.mmap(NULL, window->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rc = view != MAP_FAILED ? 0 : errno == ENOMEM ? -ENOMEM : -ENOTSUP;
    nigh_os_close(fd);
    if (!rc)
        window->view = view;
    return rc;
}

int nigh_cuda_window_open(const struct nigh_cuda_memory *memory, struct nigh_cuda_window *out)
{
    const struct nigh_cuda_segment *segment = &memory->segment[0];
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), end = memory->at + memory->bytes;
    struct nigh_cuda_window window = {.base = memory->at / page * page};
    int mode, left, rc;

    if (window.base < segment->base)
        window.base = (segment->base + page - 1) / page * page;
    end = (end + page - 1) / page * page;
    if (end > segment->base + segment->bytes)
        end = (segment->base + segment->bytes) / page * page;
    if (memory->kind == NIGH_CUDA_KIND_MANAGED || end <= window.base)
        return -ENOTSUP;
    window.bytes = end - window.base;
    rc = nigh_cuda_enter(memory->context, &mode);
    if (rc)
        return rc;
    rc = map_range(memory->context->driver, &window);
    left = nigh_cuda_leave(memory->context, mode);
    if (!rc && left)
        nigh_cuda_window_close(&window);
    if (!rc && !left)
        *out = window;
    return rc ? rc : left;
}

void nigh_cuda_window_close(struct nigh_cuda_window *window)
{
    if (window->view)
        nigh_os.munmap(window->view, window->bytes);
    window->view = NULL;
    window->bytes = 0;
}

bool nigh_cuda_window_has(const struct nigh_cuda_window *window, uint64_t at, uint64_t bytes)
{
    return window->view && at >= window->base && at - window->base <= window->bytes &&
           bytes <= window->bytes - (at - window->base);
}

/* Whole words in the middle: single bytes cost a transfer each. */
void nigh_cuda_window_write(const struct nigh_cuda_window *window, uint64_t at, const void *from,
                            uint64_t bytes)
{
    char *to = window->view + (at - window->base);
    const char *source = from;
    uint64_t head = -(uintptr_t)to % WORD;

    if (head > bytes)
        head = bytes;
    memcpy(to, source, head);
    for (; bytes - head >= WORD; head += WORD)
        memcpy(to + head, source + head, WORD);
    memcpy(to + head, source + head, bytes - head);
    nigh_flush_combined(); /* else a store may stay in the CPU for long */
}
