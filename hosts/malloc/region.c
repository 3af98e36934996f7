/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/region.c - see region.h. */
#include "hosts/malloc/region.h"
#include "hosts/malloc/log.h"
#include "hosts/malloc/pages.h"
#include "hosts/malloc/system.h"
#include "include/common/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <nigh/memory.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008u
#endif
#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define HUGE_PAGE ((uint64_t)2 << 20)
/* The descriptor's number: above those that programs count on, such as shells' and those of select(). */
#define FD_FROM 512
/* Where it is put, and how often another place is tried: above all executables and heaps, below where the kernel puts
 * mappings, with a stack of any size. */
#define PLACE_FROM  ((uint64_t)18 << 40)
#define PLACE_BYTES ((uint64_t)12 << 40)
#define PLACES      16

/* ---- what forbids it ----------------------------------------------------------------------------------- */

static bool limited(int resource, uint64_t bytes)
{
    struct rlimit limit;

    return getrlimit(resource, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < bytes;
}

/* All mappings count in full, whatever the kernel is told (MAP_NORESERVE). */
static bool counted_in_full(void)
{
    char mode = '0';
    int fd = NIGH_FD(open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC));

    if (fd < 0)
        return false;
    if (read(fd, &mode, 1) != 1)
        mode = '0';
    close(fd);
    return mode == '2';
}

/* What would end the program, or take from it what it may need; NULL: nothing. */
static const char *forbids(uint64_t bytes)
{
    if (sysconf(_SC_PAGESIZE) != NIGH_MALLOC_PAGE)
        return "and this system's pages are not of 4 KiB, as what peers are promised is";
    if (limited(RLIMIT_FSIZE, bytes)) /* the kernel would send SIGXFSZ */
        return "more than files may have (ulimit -f): raise it, or set NIGH_MALLOC_BYTES to less";
    if (limited(RLIMIT_DATA, UINT64_MAX)) /* after a fork it would count */
        return "and data is limited (ulimit -d): lift that";
    if (counted_in_full())
        return "and vm.overcommit_memory is 2, which has all of it counted: set it to 0 or 1";
    return NULL;
}

/* ---- the file ------------------------------------------------------------------------------------------ */

static int create(void)
{
    const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
    int fd = NIGH_FD(memfd_create("nigh-malloc", flags | MFD_NOEXEC_SEAL)), high;

    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = NIGH_FD(memfd_create("nigh-malloc", flags));
    if (fd < 0)
        return -1;
    high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FROM);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static uint64_t any_number(const void *own)
{
    struct timespec now;
    uint64_t id = 0;

    if (getrandom(&id, sizeof(id), GRND_NONBLOCK) == (ssize_t)sizeof(id) && id)
        return id;
    clock_gettime(
        CLOCK_REALTIME,
        &now); /* a machine that has just started: alike in no two processes, if not hard to guess */
    return ((uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uint64_t)getpid() << 40 ^ (uintptr_t)own) |
           1;
}

static bool form(struct nigh_malloc_region *region)
{
    struct nigh_memory_head head = {.id = any_number(region)};
    struct stat stat;

    region->id = head.id;
    if (ftruncate(region->fd, (off_t)region->bytes) || fstat(region->fd, &stat))
        return false;
    region->device = stat.st_dev;
    region->number = stat.st_ino;
    if (fcntl(region->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
        return false;
    return pwrite(region->fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head);
}

/* ---- the mapping --------------------------------------------------------------------------------------- */

/* A kernel before 4.17 takes the address for a hint. */
static int map_at(uint64_t at, uint64_t bytes, int rights, int flags, int fd, uint64_t offset)
{
    void *want = (void *)(uintptr_t)at, *memory;

    memory = nigh_malloc_system_mmap(want, bytes, rights, flags | MAP_NORESERVE | MAP_FIXED_NOREPLACE, fd,
                                     (off_t)offset);
    if (memory == MAP_FAILED)
        return -errno;
    if (memory == want)
        return 0;
    nigh_malloc_system_munmap(memory, bytes);
    return -EEXIST;
}

/* Whether nobody has anything there now. What the address space is limited to may be less: then it cannot be tried. */
static bool is_empty(uint64_t at, uint64_t bytes)
{
    int rc = map_at(at, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (rc == 0)
        nigh_malloc_system_munmap((void *)(uintptr_t)at, bytes);
    return rc == 0 || rc == -ENOMEM;
}

static bool find_place(struct nigh_malloc_region *region)
{
    for (int i = 0; i < PLACES; i++) {
        uint64_t at = PLACE_FROM + any_number(region) % PLACE_BYTES / HUGE_PAGE * HUGE_PAGE;

        if (!is_empty(at, region->bytes))
            continue;
        if (map_at(at, NIGH_MALLOC_PAGE, PROT_READ, MAP_SHARED, region->fd, 0) == 0) {
            region->base = at;
            return true;
        }
    }
    return false;
}

/* Emulators of this system take the call and do nothing: then nothing is given back, and all of it may be kept. */
static bool gives_back(const struct nigh_malloc_region *region)
{
    char *memory = (char *)region->base + NIGH_MALLOC_PAGE, there = 1;

    if (nigh_malloc_region_map(region, NIGH_MALLOC_PAGE, NIGH_MALLOC_PAGE))
        return false;
    memory[0] = 1;
    if (nigh_malloc_system_madvise(memory, NIGH_MALLOC_PAGE, MADV_REMOVE) ||
        pread(region->fd, &there, 1, NIGH_MALLOC_PAGE) != 1)
        there = 1;
    memory[0] = 0;
    nigh_malloc_system_munmap(memory, NIGH_MALLOC_PAGE);
    return !there;
}

bool nigh_malloc_region_open(struct nigh_malloc_region *region, uint64_t bytes, uint64_t used, bool huge,
                             bool tell)
{
    const char *why = forbids(bytes);

    *region = (struct nigh_malloc_region){.bytes = bytes, .fd = -1, .huge = huge};
    if (!why) {
        region->fd = create();
        if (region->fd >= 0 && form(region) && find_place(region)) {
            region->gives = gives_back(region);
            return true;
        }
        why = strerrordesc_np(errno);
        if (region->fd >= 0)
            close(region->fd);
    }
    if (tell)
        nigh_malloc_log("no memory that peers may map, so all of it is the next malloc's: a file in memory "
                        "of %llu MiB, for %llu MiB of blocks: %s",
                        (unsigned long long)(bytes >> 20), (unsigned long long)(used >> 20),
                        why ? why : "refused");
    return false;
}

bool nigh_malloc_region_held(const struct nigh_malloc_region *region)
{
    struct stat stat;

    return fstat(region->fd, &stat) == 0 && stat.st_dev == region->device && stat.st_ino == region->number;
}

void nigh_malloc_region_close(struct nigh_malloc_region *region)
{
    nigh_malloc_system_munmap((void *)region->base, NIGH_MALLOC_PAGE);
    if (nigh_malloc_region_held(region))
        close(region->fd);
}

int nigh_malloc_region_map(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes)
{
    int rc = nigh_malloc_region_held(region) ? 0 : -EBADF;

    if (rc == 0)
        rc = map_at(region->base + from, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, region->fd, from);
    if (rc == 0 && region->huge)
        nigh_malloc_system_madvise((char *)region->base + from, bytes, MADV_HUGEPAGE);
    return rc;
}

bool nigh_malloc_region_unmap(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes)
{
    return nigh_malloc_system_munmap((char *)region->base + from, bytes) == 0;
}

bool nigh_malloc_region_empty(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes)
{
    /* Through the mapping, not by the descriptor: that may be another file's by now. The kernel refuses it where the
     * mapping has become the process's own meanwhile. */
    return region->gives && nigh_malloc_system_madvise((char *)region->base + from, bytes, MADV_REMOVE) == 0;
}

bool nigh_malloc_region_tell(const struct nigh_malloc_region *region)
{
    volatile struct nigh_memory_head *head = (struct nigh_memory_head *)region->base;

    if (mprotect((void *)region->base, NIGH_MALLOC_PAGE, PROT_READ | PROT_WRITE))
        return false;
    head->taken_back = 1; /* ahead of what follows, as that is a system call */
    mprotect((void *)region->base, NIGH_MALLOC_PAGE, PROT_READ);
    return true;
}
