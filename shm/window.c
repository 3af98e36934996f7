/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/window.c - the memory of one ring: its sender's side, which makes and backs it, and its reader's, which trusts
 * nothing about it. */
#include "shm/window.h"
#include "shm/log.h"
#include "shm/memfd.h"
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* The largest ring, and the smallest one, which it has replaced. */
#define BYTES_MAX ((uint64_t)(NIGH_RING_SLOTS_MIN + NIGH_RING_SLOTS_MAX) * NIGH_LINE + NIGH_SHUTTLE_BYTES)

static_assert(NIGH_SHUTTLE_BYTES % NIGH_PAGE == 0, "the shuttle is whole pages");
static_assert(NIGH_RING_SLOTS_MIN * NIGH_LINE % NIGH_PAGE == 0, "rings are whole pages");

static int failed(const char *call)
{
    int error = errno;

    nigh_log(NIGH_LOG_ERROR,
             "making or mapping the memory of a ring failed: %s: %s (raise what stands in the way: file "
             "descriptors (ulimit -n, fs.file-max), ulimit -v, vm.max_map_count)",
             call, strerror(error));
    return nigh_memfd_error(error);
}

static int broken(const char *what)
{
    nigh_log(NIGH_LOG_ERROR, "the memory of a peer's ring is refused: %s", what);
    return -EPROTO;
}

/* 0 or errno: what to say of it is the caller's. */
static int map(int fd, uint64_t bytes, struct nigh_window *window)
{
    void *base = nigh_os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return errno;
    window->base = base;
    window->bytes = bytes;
    if (nigh_os.madvise(base, bytes, MADV_DONTFORK))
        return errno;
    return 0;
}

/* ---- the sender's ---------------------------------------------------------------------------------------- */

static int create_file(uint64_t bytes, struct nigh_window *window)
{
    window->fd = nigh_memfd_create("nigh-ring");
    if (window->fd < 0)
        return failed("memfd_create");
    if (nigh_os.ftruncate(window->fd, (off_t)bytes))
        return failed("ftruncate");
    if (nigh_os_identify(window->fd, &window->id))
        return failed("fstat");
    if (nigh_os.fcntl(window->fd, F_ADD_SEALS, SEALS))
        return failed("fcntl(F_ADD_SEALS)");
    return 0;
}

int nigh_window_create(uint32_t slots_max, struct nigh_window *out)
{
    struct nigh_window window = {.fd = -1};
    uint64_t slots = NIGH_RING_SLOTS_MIN, bytes;
    int error;

    assert(slots_max >= NIGH_RING_SLOTS_MIN && slots_max <= NIGH_RING_SLOTS_MAX);
    if (slots_max > NIGH_RING_SLOTS_MIN)
        slots += slots_max;
    bytes = slots * NIGH_LINE + NIGH_SHUTTLE_BYTES;
    error = create_file(bytes, &window);
    if (!error && map(window.fd, bytes, &window) != 0)
        error = failed("mmap or madvise");
    if (error) {
        nigh_os_close(window.fd);
        nigh_window_unmap(&window);
        return error;
    }
    *out = window;
    return 0;
}

static struct nigh_backed backed(const struct nigh_window *window)
{
    return (struct nigh_backed){.fd = window->fd, .id = window->id, .base = window->base};
}

int nigh_window_take(struct nigh_window *window, struct nigh_arena *arena, uint32_t slots, uint64_t *offset)
{
    const struct nigh_backed file = backed(window);
    uint64_t bytes = (uint64_t)slots * NIGH_LINE;
    int error;

    assert((slots & (slots - 1)) == 0 && slots >= NIGH_RING_SLOTS_MIN);
    if (bytes > window->bytes - NIGH_SHUTTLE_BYTES - window->used)
        return -ENOMEM;
    error = nigh_arena_back(arena, &file, window->used, bytes);
    if (error)
        return error;
    *offset = window->used;
    window->used += bytes;
    return 0;
}

int nigh_window_back_shuttle(struct nigh_window *window, struct nigh_arena *arena, uint64_t bytes)
{
    const struct nigh_backed file = backed(window);
    uint64_t from = window->bytes - NIGH_SHUTTLE_BYTES + window->shuttled, more;
    int error;

    assert(bytes <= NIGH_SHUTTLE_BYTES && bytes % NIGH_PAGE == 0);
    if (bytes <= window->shuttled)
        return 0;
    more = bytes - window->shuttled;
    error = nigh_arena_back_if(arena, &file, from, more);
    if (error)
        return error;
    /* A kernel before 5.14 refuses, and the faults come one by one. */
    (void)nigh_os.madvise(window->base + from, more, NIGH_MADV_POPULATE_WRITE);
    window->shuttled = bytes;
    return 0;
}

void nigh_window_close(struct nigh_window *window, struct nigh_arena *arena)
{
    if (!window->base)
        return;
    nigh_arena_unback(arena, window->used + window->shuttled);
    nigh_os_close_own(window->fd, &window->id);
    nigh_window_unmap(window);
}

/* ---- the reader's ---------------------------------------------------------------------------------------- */

/* In this order: a size means nothing before it is sealed. Seals do not tell shmem from hugetlbfs, where a page without
 * memory is a SIGBUS. */
static int check(int fd, struct nigh_window *window)
{
    int seals = nigh_os.fcntl(fd, F_GET_SEALS, 0);
    struct statfs system;
    struct stat stat;

    if (seals < 0)
        return broken("the descriptor is not a memfd");
    if ((seals & SEALS) != SEALS)
        return broken("its size is not sealed (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL)");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return broken("it is sealed against writing, so it cannot be mapped as fast memory");
    if (nigh_os.fstatfs(fd, &system) || nigh_os.fstat(fd, &stat) || system.f_type != TMPFS_MAGIC ||
        !S_ISREG(stat.st_mode))
        return broken("the descriptor is not a memfd of ordinary pages");
    if (stat.st_size <= NIGH_SHUTTLE_BYTES || stat.st_size % NIGH_PAGE || (uint64_t)stat.st_size > BYTES_MAX)
        return broken("its size is out of range");
    window->bytes = (uint64_t)stat.st_size;
    window->id = nigh_file_id_of(&stat);
    return 0;
}

int nigh_window_map(int fd, struct nigh_window *out)
{
    struct nigh_window window = {.fd = -1};
    int error = check(fd, &window);

    if (error)
        return error;
    error = map(fd, window.bytes, &window);
    if (error) {
        error = error == EACCES || error == EPERM ? broken("it cannot be mapped for writing")
                                                  : failed("mmap or madvise");
        nigh_window_unmap(&window);
        return error;
    }
    *out = window;
    return 0;
}

bool nigh_window_is(const struct nigh_window *window, int fd)
{
    return nigh_os_is(fd, &window->id);
}

void nigh_window_unmap(struct nigh_window *window)
{
    if (window->base)
        nigh_os.munmap(window->base, window->bytes);
    *window = (struct nigh_window){.fd = -1};
}

const void *nigh_window_ring(const struct nigh_window *window, uint64_t word, uint32_t *slots)
{
    uint64_t offset = (word >> 8) * NIGH_PAGE, bytes;
    uint32_t shift = word & 0xff;

    if (word >> 56 || shift > 16 || 1u << shift < NIGH_RING_SLOTS_MIN)
        return NULL;
    bytes = (uint64_t)NIGH_LINE << shift;
    if (offset > window->bytes - NIGH_SHUTTLE_BYTES || bytes > window->bytes - NIGH_SHUTTLE_BYTES - offset)
        return NULL;
    /* Else the first lap takes a fault a page. A kernel before 5.14 refuses, and it does. */
    (void)nigh_os.madvise(window->base + offset, bytes, NIGH_MADV_POPULATE_WRITE);
    *slots = 1u << shift;
    return window->base + offset;
}
