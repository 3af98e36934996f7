/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/maps.h - what is mapped of a region's file, and where, as the kernel says. */
#ifndef NIGH_MALLOC_MAPS_H
#define NIGH_MALLOC_MAPS_H

#include "hosts/malloc/region.h"

struct nigh_malloc_mapping {
    uintptr_t begin, end;
    uint64_t offset; /* in the file */
    int rights;
    bool shared;
};

/* Calls `each` with all mappings of the region's file in this process, as long as it returns true. 0, -EINTR where it did
 * not, or another error of reading /proc/self/maps. Takes nothing from the heap. */
int nigh_malloc_maps_each(const struct nigh_malloc_region *region,
                          bool (*each)(void *argument, const struct nigh_malloc_mapping *mapping),
                          void *argument);

#endif
