/* SPDX-License-Identifier: BSD-3-Clause */
/* See elf.h. Offsets come from the file, so each read is checked by pread: a short one ends the search. */
#include "tools/mpi/elf.h"

#include <elf.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DYNAMIC_MAX 4096 /* entries; programs have about 40 */

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST_ORDER ELFDATA2LSB
#else
#define HOST_ORDER ELFDATA2MSB
#endif

struct image {
    int fd;
    Elf64_Ehdr head;
    Elf64_Dyn *dynamic;
    size_t entries;
    uint64_t strings; /* where the names lie in the file */
};

static bool read_at(const struct image *image, uint64_t at, void *bytes, size_t size)
{
    return at <= INT64_MAX && pread(image->fd, bytes, size, (off_t)at) == (ssize_t)size;
}

/* The segment of that type, or the loaded one that holds an address. */
static bool find_segment(const struct image *image, uint32_t type, uint64_t address, Elf64_Phdr *found)
{
    for (uint64_t i = 0; i < image->head.e_phnum; i++) {
        if (!read_at(image, image->head.e_phoff + i * sizeof *found, found, sizeof *found))
            return false;
        if (found->p_type == type &&
            (type != PT_LOAD || (address >= found->p_vaddr && address - found->p_vaddr < found->p_filesz)))
            return true;
    }
    return false;
}

static bool read_head(struct image *image)
{
    return read_at(image, 0, &image->head, sizeof image->head) &&
           memcmp(image->head.e_ident, ELFMAG, SELFMAG) == 0 && image->head.e_ident[EI_CLASS] == ELFCLASS64 &&
           image->head.e_ident[EI_DATA] == HOST_ORDER && image->head.e_phentsize == sizeof(Elf64_Phdr);
}

static bool read_dynamic(struct image *image)
{
    Elf64_Phdr segment;

    if (!find_segment(image, PT_DYNAMIC, 0, &segment))
        return false;
    image->entries = segment.p_filesz / sizeof *image->dynamic;
    if (image->entries == 0 || image->entries > DYNAMIC_MAX)
        return false;
    image->dynamic = malloc(image->entries * sizeof *image->dynamic);
    return image->dynamic &&
           read_at(image, segment.p_offset, image->dynamic, image->entries * sizeof *image->dynamic);
}

/* The dynamic section gives their address, not their place in the file. */
static bool find_strings(struct image *image)
{
    Elf64_Phdr segment;

    for (size_t i = 0; i < image->entries && image->dynamic[i].d_tag != DT_NULL; i++) {
        if (image->dynamic[i].d_tag != DT_STRTAB)
            continue;
        if (!find_segment(image, PT_LOAD, image->dynamic[i].d_un.d_ptr, &segment))
            return false;
        image->strings = segment.p_offset + (image->dynamic[i].d_un.d_ptr - segment.p_vaddr);
        return true;
    }
    return false;
}

/* False: it does not end within `size`. */
static bool read_name(const struct image *image, uint64_t at, char *name, size_t size)
{
    uint64_t from = image->strings + at;
    ssize_t got;

    if (from > INT64_MAX || (got = pread(image->fd, name, size, (off_t)from)) <= 0)
        return false;
    return memchr(name, 0, (size_t)got) != NULL;
}

static bool look(struct image *image, int64_t tag, bool (*take)(const char *name, void *context),
                 void *context)
{
    char name[MPI_ELF_NAME];

    if (!read_head(image) || !read_dynamic(image) || !find_strings(image))
        return false;
    for (size_t i = 0; i < image->entries && image->dynamic[i].d_tag != DT_NULL; i++)
        if (image->dynamic[i].d_tag == tag &&
            read_name(image, image->dynamic[i].d_un.d_val, name, sizeof name) && take(name, context))
            return true;
    return false;
}

bool mpi_elf_any(const char *file, int64_t tag, bool (*take)(const char *name, void *context), void *context)
{
    struct image image = {.fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
    bool taken;

    if (image.fd < 0)
        return false;
    taken = look(&image, tag, take, context);
    free(image.dynamic);
    close(image.fd);
    return taken;
}
