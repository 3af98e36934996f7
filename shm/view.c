/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/view.c - a peer's arena, mapped. All that comes with the descriptor is taken for hostile: it is checked
 * in an order in which each check makes the next one lasting (a size means nothing before it is sealed). */
#include "shm/arena.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int broken(const char *what)
{
    nigh_log(NIGH_LOG_ERROR, "a peer's shared memory is refused: %s", what);
    return -EPROTO;
}

/* Two values that do not agree: what it says, and what there is or may be. */
static int broken_value(const char *what, uint64_t value, uint64_t other, const char *advice)
{
    nigh_log(NIGH_LOG_ERROR, "a peer's shared memory is refused: %s: %" PRIu64 ", not %" PRIu64 "%s", what,
             value, other, advice);
    return -EPROTO;
}

static int other_version(uint32_t version)
{
    broken_value("its layout is of another version", version, NIGH_LAYOUT_VERSION,
                 "; all processes of a job must load the same nigh");
    return -EPROTONOSUPPORT;
}

static int check_seals(int fd)
{
    static const struct {
        int seal;
        const char *missing;
    } needed[] = {
        {F_SEAL_SHRINK, "it is not sealed against shrinking (F_SEAL_SHRINK)"},
        {F_SEAL_GROW, "it is not sealed against growing (F_SEAL_GROW)"},
        {F_SEAL_FUTURE_WRITE, "it is not sealed against writing (F_SEAL_FUTURE_WRITE)"},
        {F_SEAL_SEAL, "its seals are not final (F_SEAL_SEAL)"},
    };
    int seals = nigh_os.fcntl(fd, F_GET_SEALS, 0);

    if (seals < 0)
        return broken("the descriptor is not a memfd");
    for (size_t i = 0; i < sizeof(needed) / sizeof(needed[0]); i++) {
        if (!(seals & needed[i].seal))
            return broken(needed[i].missing);
    }
    return 0;
}

/* Seals do not tell shmem from hugetlbfs, and there reading a page that has no memory is a SIGBUS. */
static int check_file(int fd, uint64_t *bytes)
{
    struct statfs system;
    struct stat stat;

    if (nigh_os.fstatfs(fd, &system) || nigh_os.fstat(fd, &stat))
        return broken("its size cannot be read");
    if (system.f_type != TMPFS_MAGIC || !S_ISREG(stat.st_mode))
        return broken("the descriptor is not a memfd of ordinary pages");
    if (stat.st_size < (off_t)(3 * NIGH_PAGE) || (uint64_t)stat.st_size > NIGH_ARENA_MAX)
        return broken("its size is out of range");
    *bytes = (uint64_t)stat.st_size;
    return 0;
}

/* Whether [offset, offset + bytes) is whole pages, begins at `from` or later and ends by `to`; sizes are so
 * far below 2^64 that `from` cannot have overflowed. */
static bool area_fits(uint64_t offset, uint64_t bytes, uint64_t from, uint64_t to)
{
    return offset % NIGH_PAGE == 0 && bytes % NIGH_PAGE == 0 && offset >= from && offset <= to &&
           bytes <= to - offset;
}

static int check_areas(const struct nigh_arena_header *header)
{
    uint64_t pairs = header->peers_max * sizeof(struct nigh_pair), end = header->bytes;

    pairs = (pairs + NIGH_PAGE - 1) & ~(uint64_t)(NIGH_PAGE - 1);
    if (!area_fits(header->pairs_off, pairs, 2 * NIGH_PAGE, end))
        return broken("its pairs are not where they can be");
    if (!area_fits(header->pool_off, header->pool_bytes, header->pairs_off + pairs, end))
        return broken("its pool is not where it can be");
    if (!area_fits(header->heap_off, header->heap_bytes, header->pool_off + header->pool_bytes, end))
        return broken("its heap is not where it can be");
    return 0;
}

static int check_header(const struct nigh_arena_header *header, uint64_t bytes, uint64_t incarnation)
{
    if (header->magic != NIGH_ARENA_MAGIC)
        return broken("it is not an arena (wrong magic number)");
    if (header->version != NIGH_LAYOUT_VERSION)
        return other_version(header->version);
    if (header->incarnation != incarnation)
        return broken("it belongs to another context than the one that was greeted");
    if (header->bytes != bytes)
        return broken_value("its size is not the one that its header names", header->bytes, bytes, "");
    if (header->peers_max == 0 || header->peers_max > NIGH_PEERS_MAX)
        return broken_value("its number of peers is out of range (from 1)", header->peers_max, NIGH_PEERS_MAX,
                            " at most");
    if (header->flags & ~NIGH_ARENA_FENCES)
        return broken("reserved flags of its header are not zero");
    if (!nigh_program_is_sound(header))
        return broken("its program's memory is not where it can be");
    return check_areas(header);
}

int nigh_view_map(int fd, uint64_t incarnation, struct nigh_view *out)
{
    struct nigh_arena_header header;
    uint64_t bytes = 0;
    void *base;
    int error = check_seals(fd);

    if (!error)
        error = check_file(fd, &bytes);
    if (error)
        return error;
    /* By pread, not through a mapping: one copy is all that is ever looked at. */
    if (nigh_os.pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
        return broken("its header cannot be read");
    error = check_header(&header, bytes, incarnation);
    if (error)
        return error;
    base = nigh_os.mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
    if (base == MAP_FAILED || nigh_os.madvise(base, bytes, MADV_DONTFORK)) {
        nigh_log(NIGH_LOG_ERROR,
                 "mapping a peer's shared memory of %" PRIu64
                 " bytes failed: %s (raise what stands in the way: ulimit -v, vm.max_map_count)",
                 bytes, strerror(errno));
        if (base != MAP_FAILED)
            nigh_os.munmap(base, bytes);
        return -ENOMEM;
    }
    *out = (struct nigh_view){.base = base, .bytes = bytes, .layout = header};
    return 0;
}

uint64_t nigh_view_stumble(int fd, int error)
{
    struct nigh_arena_header header = {.version = 0};
    struct stat stat = {.st_size = 0};

    if (error == -EPROTONOSUPPORT && nigh_os.pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header))
        return header.version;
    return error == -ENOMEM && nigh_os.fstat(fd, &stat) == 0 ? (uint64_t)stat.st_size : 0;
}

void nigh_view_unmap(struct nigh_view *view)
{
    if (view->base)
        nigh_os.munmap((void *)(uintptr_t)view->base, view->bytes);
    *view = (struct nigh_view){0};
}
