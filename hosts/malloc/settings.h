/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/settings.h - what the environment and the machine say about which blocks lie in shared memory. */
#ifndef NIGH_MALLOC_SETTINGS_H
#define NIGH_MALLOC_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nigh_malloc_settings {
    bool on;
    bool info;      /* NIGH_LOG=info */
    bool huge;      /* the region is to have huge pages */
    size_t from;    /* blocks of so many bytes */
    size_t to;      /* to so many */
    uint64_t bytes; /* of the region */
};

/* Takes nothing from the heap. False: the process has no environment yet. */
bool nigh_malloc_settings_read(struct nigh_malloc_settings *out);

#endif
