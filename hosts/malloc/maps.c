/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/maps.c - see maps.h. */
#include "hosts/malloc/maps.h"
#include "include/common/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define MAPS "/proc/self/maps"

/* A number in base 16 or 10 and what follows it. */
static uint64_t number(const char **text, int base)
{
    char *end;
    uint64_t value = strtoull(*text, &end, base);

    *text = *end ? end + 1 : end;
    return value;
}

/* "begin-end rwxs offset major:minor number path": whether it is of the region's file. */
static bool parse(const struct nigh_malloc_region *region, const char *line, struct nigh_malloc_mapping *out)
{
    unsigned major_of, minor_of;

    out->begin = number(&line, 16);
    out->end = number(&line, 16);
    if (strlen(line) < 5)
        return false;
    out->rights = (line[0] == 'r' ? PROT_READ : 0) | (line[1] == 'w' ? PROT_WRITE : 0) |
                  (line[2] == 'x' ? PROT_EXEC : 0);
    out->shared = line[3] == 's';
    line += 5;
    out->offset = number(&line, 16);
    major_of = (unsigned)number(&line, 16);
    minor_of = (unsigned)number(&line, 16);
    return number(&line, 10) == region->number && makedev(major_of, minor_of) == region->device;
}

int nigh_malloc_maps_each(const struct nigh_malloc_region *region,
                          bool (*each)(void *argument, const struct nigh_malloc_mapping *mapping),
                          void *argument)
{
    static char text[8192]; /* with the lock */
    int fd = NIGH_FD(open(MAPS, O_RDONLY | O_CLOEXEC)), rc = 0;
    struct nigh_malloc_mapping mapping;
    size_t used = 0;
    ssize_t bytes;

    if (fd < 0)
        return -errno;
    while (rc == 0 && (bytes = read(fd, text + used, sizeof(text) - 1 - used)) > 0) {
        char *line = text, *end;

        used += (size_t)bytes;
        text[used] = '\0';
        for (; rc == 0 && (end = strchr(line, '\n')); line = end + 1) {
            *end = '\0';
            if (parse(region, line, &mapping) && !each(argument, &mapping))
                rc = -EINTR;
        }
        used = (size_t)(text + used - line);
        memmove(text, line, used);
        if (used == sizeof(text) - 1) /* a line is at most a page and its path */
            rc = -EPROTO;
    }
    if (rc == 0 && bytes < 0)
        rc = -errno;
    close(fd);
    return rc;
}
