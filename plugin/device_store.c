/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_store.c - see device_store.h. */
#include "plugin/device_store.h"
#include "cuda_ipc/settle.h"
#include "cuda_ipc/window.h"
#include "plugin/context.h"
#include "plugin/device_slot.h"
#include "plugin/region.h"

#include <stdlib.h>

/* A store of 16 bytes crosses the bus by itself: beyond so many an engine is faster. */
#define STORED_MOST 8192u

/* What small cards let the CPU map of all their memory, for all processes, is 256 MiB. */
#define WINDOW_BYTES_MOST (UINT64_C(64) << 20)
#define WINDOWS_MOST      64u /* each store looks for its own among them */

struct nigh_device_window {
    struct nigh_device_window *next;
    const struct nigh_region *region;
    struct nigh_cuda_window window;
};

void nigh_device_store_open(struct nigh_context *context, struct nigh_region *region)
{
    struct nigh_devices *devices = &context->devices;
    struct nigh_device_window *window;
    uint32_t count = 0;

    for (window = devices->windows; window; window = window->next)
        count++;
    if (region->bytes > WINDOW_BYTES_MOST || count == WINDOWS_MOST)
        return;
    window = malloc(sizeof(*window));
    if (!window || nigh_cuda_window_open(region->device, &window->window)) {
        free(window);
        return;
    }
    window->region = region;
    window->next = devices->windows;
    devices->windows = window;
    region->stores = true;
}

static void close_first(struct nigh_device_window **link)
{
    struct nigh_device_window *window = *link;

    *link = window->next;
    nigh_cuda_window_close(&window->window);
    free(window);
}

void nigh_device_store_close(struct nigh_context *context, struct nigh_region *region)
{
    struct nigh_device_window **link = &context->devices.windows;

    if (!region->stores)
        return;
    while ((*link)->region != region)
        link = &(*link)->next;
    close_first(link);
    region->stores = false;
}

void nigh_device_stores_close(struct nigh_devices *devices)
{
    while (devices->windows)
        close_first(&devices->windows);
}

bool nigh_device_store(struct nigh_context *context, const struct nigh_device_buffer *buffer, uint64_t offset,
                       const void *from, uint64_t bytes)
{
    const struct nigh_device_window *window = context->devices.windows;
    struct nigh_settling settling = {0};
    uint64_t at = buffer->at + offset;

    if (!buffer->stores || bytes > STORED_MOST)
        return false;
    while (window && !nigh_cuda_window_has(&window->window, at, bytes))
        window = window->next;
    if (!window || nigh_cuda_context_is_gone(buffer->cuda) || nigh_cuda_settle(buffer->cuda, &settling))
        return false;
    nigh_cuda_window_write(&window->window, at, from, bytes);
    return true;
}
