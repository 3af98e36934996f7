/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/region.c - see region.h. */
#include "hosts/malloc/region.h"
#include "hosts/malloc/log.h"
#include "hosts/malloc/pages.h"

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

#define HUGE_PAGE ((uint64_t)2 << 20)
/* Reached so much at a time: a system call for each 64 MiB of new memory costs nothing beside its pages. */
#define REACH     ((uint64_t)64 << 20)
#define OWN_LEAST ((uint64_t)1 << 20)
/* The descriptor's number: above those that programs count on, such as shells' and those of select(). */
#define FD_FROM 512

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
    int fd = open("/proc/sys/vm/overcommit_memory", O_RDONLY | O_CLOEXEC);

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
    if (limited(RLIMIT_AS, 2 * bytes))
        return "more than half of its address space (ulimit -v): raise it, or set NIGH_MALLOC_BYTES to less";
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
    int fd = memfd_create("nigh-malloc", flags | MFD_NOEXEC_SEAL), high;

    if (fd < 0 && errno == EINVAL) /* a kernel before 6.3 */
        fd = memfd_create("nigh-malloc", flags);
    if (fd < 0)
        return -1;
    high = fcntl(fd, F_DUPFD_CLOEXEC, FD_FROM);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static uint64_t any_id(const void *own)
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
    struct nigh_memory_head head = {.id = any_id(region)};
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

static bool map(struct nigh_malloc_region *region, bool huge)
{
    const uint64_t room = region->bytes + HUGE_PAGE;
    char *all = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0), *base;
    size_t before;

    if (all == MAP_FAILED)
        return false;
    before = -(uintptr_t)all & (HUGE_PAGE - 1);
    base = all + before;
    if (mmap(base, region->bytes, PROT_NONE, MAP_SHARED | MAP_FIXED | MAP_NORESERVE, region->fd, 0) ==
            MAP_FAILED ||
        mprotect(base, NIGH_MALLOC_PAGE, PROT_READ)) {
        munmap(all, room);
        return false;
    }
    if (before)
        munmap(all, before);
    munmap(base + region->bytes, HUGE_PAGE - before);
    madvise(base, region->bytes, MADV_DONTDUMP);
    if (huge)
        madvise(base, region->bytes, MADV_HUGEPAGE);
    region->base = (uintptr_t)base;
    region->reached = NIGH_MALLOC_PAGE;
    return true;
}

/* Emulators of this system take the call and do nothing: then nothing is given back, and all of it may be dirty. */
static bool gives_back(struct nigh_malloc_region *region)
{
    char *memory = (char *)region->base + NIGH_MALLOC_PAGE, there = 1;

    if (!nigh_malloc_region_reach(region, 2 * NIGH_MALLOC_PAGE))
        return false;
    memory[0] = 1;
    if (madvise(memory, NIGH_MALLOC_PAGE, MADV_REMOVE) || pread(region->fd, &there, 1, NIGH_MALLOC_PAGE) != 1)
        there = 1;
    memory[0] = 0;
    return !there;
}

bool nigh_malloc_region_open(struct nigh_malloc_region *region, uint64_t bytes, bool huge, bool tell)
{
    const char *why = forbids(bytes);

    *region = (struct nigh_malloc_region){.bytes = bytes, .fd = -1};
    if (!why) {
        region->fd = create();
        if (region->fd >= 0 && form(region) && map(region, huge)) {
            region->gives = gives_back(region);
            return true;
        }
        why = strerrordesc_np(errno);
        if (region->fd >= 0)
            close(region->fd);
    }
    if (tell)
        nigh_malloc_log("no memory that peers may map, so all of it is the next malloc's: a file in memory "
                        "of %llu MiB: %s",
                        (unsigned long long)(bytes >> 20), why ? why : "refused");
    return false;
}

bool nigh_malloc_region_held(const struct nigh_malloc_region *region)
{
    struct stat stat;

    return fstat(region->fd, &stat) == 0 && stat.st_dev == region->device && stat.st_ino == region->number;
}

void nigh_malloc_region_close(struct nigh_malloc_region *region)
{
    munmap((void *)region->base, region->bytes);
    if (nigh_malloc_region_held(region))
        close(region->fd);
}

bool nigh_malloc_region_reach(struct nigh_malloc_region *region, uint64_t end)
{
    char *from = (char *)region->base + region->reached;
    uint64_t to = (end + REACH - 1) & ~(REACH - 1);

    if (end <= region->reached)
        return true;
    if (to > region->bytes)
        to = region->bytes;
    if (mprotect(from, to - region->reached, PROT_READ | PROT_WRITE))
        return false;
    madvise(from, to - region->reached, MADV_DODUMP);
    region->reached = to;
    return true;
}

/* Memory of no file in the place of the file's, which reads as zeros. */
static bool map_nothing(char *memory, uint64_t bytes, int rights)
{
    const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE;

    return !bytes || mmap(memory, bytes, rights, flags, -1, 0) != MAP_FAILED;
}

bool nigh_malloc_region_empty(const struct nigh_malloc_region *region, uint64_t from, uint64_t bytes)
{
    char *memory = (char *)region->base + from;

    /* Through the mapping, not by the descriptor: that may be another file's by now. The kernel refuses it where the
     * mapping has become the process's own meanwhile. */
    if (!region->own)
        return region->gives && madvise(memory, bytes, MADV_REMOVE) == 0;
    /* What is then written takes a page; through the file's mapping it would take one of the file's, too. Each is a mapping,
     * of which a process has 65530, so short ones are kept. */
    return bytes >= OWN_LEAST && map_nothing(memory, bytes, PROT_READ | PROT_WRITE);
}

/* ---- a mapping of the process's own --------------------------------------------------------------------- */

static bool map_own(const struct nigh_malloc_region *region)
{
    char *memory = (char *)region->base + NIGH_MALLOC_PAGE;
    uint64_t bytes = region->reached - NIGH_MALLOC_PAGE;

    return !bytes || mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE,
                          region->fd, NIGH_MALLOC_PAGE) != MAP_FAILED;
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

bool nigh_malloc_region_leave(struct nigh_malloc_region *region)
{
    char *rest = (char *)region->base + region->reached;

    if (!map_nothing(rest, region->bytes - region->reached, PROT_NONE))
        return false;
    madvise(rest, region->bytes - region->reached, MADV_DONTDUMP);
    region->own = true;
    return true;
}

bool nigh_malloc_region_own(struct nigh_malloc_region *region)
{
    /* The kernel holds other threads' accesses up while it changes the mapping: each is before it, in the file, or
     * behind it, in a copy of the file's page. */
    return nigh_malloc_region_held(region) && nigh_malloc_region_tell(region) && map_own(region) &&
           nigh_malloc_region_leave(region);
}
