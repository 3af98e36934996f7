/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/program.c - see program.h. */
#include "shm/program.h"
#include "nigh/memory.h"
#include "shm/log.h"
#include "shm/os.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

static_assert(sizeof(struct nigh_memory_head) == NIGH_LINE, "its head is a line");
static_assert(offsetof(struct nigh_memory_head, taken_back) == NIGH_PROGRAM_TAKEN_BACK, "what peers look at");

/* ---- our own ------------------------------------------------------------------------------------------- */

static bool is_range(uint64_t address, uint64_t bytes)
{
    return address && bytes > NIGH_PAGE && bytes <= NIGH_ARENA_MAX && address % NIGH_PAGE == 0 &&
           bytes % NIGH_PAGE == 0 && address <= UINTPTR_MAX - bytes;
}

/* Whoever has such memory is in the process before us, preloaded or the program itself. */
void nigh_program_ask(struct nigh_program_told *out)
{
    nigh_memory_fn *ask;
    struct nigh_memory memory = {.size = sizeof(memory)};

    *out = (struct nigh_program_told){0};
    *(void **)&ask = dlsym(RTLD_DEFAULT, "nigh_memory");
    if (!ask || ask(&memory))
        return;
    if (!is_range(memory.base, memory.bytes) || memory.fd < 0 || !memory.id) {
        nigh_log(
            NIGH_LOG_WARN,
            "nigh_memory() tells of %llu bytes at 0x%llx in descriptor %d, id %llu: they must be whole "
            "pages, "
            "more than one, at most 16 TiB, with a descriptor and an id that is not 0. Peers are not told of "
            "them: mend the allocator, or do without it",
            (unsigned long long)memory.bytes, (unsigned long long)memory.base, (int)memory.fd,
            (unsigned long long)memory.id);
        return;
    }
    *out = (struct nigh_program_told){
        .address = memory.base, .bytes = memory.bytes, .id = memory.id, .fd = (uint32_t)memory.fd + 1};
}

/* ---- what is mapped there ------------------------------------------------------------------------------ */

/* struct procmap_query of <linux/fs.h> and its call, which older headers do not have. */
struct query {
    uint64_t size, flags, address;
    uint64_t begin, end, rights, page, offset, number;
    uint32_t major_of, minor_of, name_bytes, build_id_bytes;
    uint64_t name, build_id;
};
static_assert(sizeof(struct query) == 104, "the kernel's");
#define QUERY        _IOWR('f', 17, struct query)
#define QUERY_SHARED 8u

/* The mapping that has `address`. */
static int ask_kernel(int maps, uint64_t address, struct query *out)
{
    *out = (struct query){.size = sizeof(*out), .address = address};
    return nigh_os.ioctl(maps, QUERY, out) ? -errno : 0;
}

void nigh_program_watch_open(const struct nigh_program_told *told, struct nigh_program_watch *out)
{
    struct nigh_file_id id;
    struct query query;
    int maps;

    *out = (struct nigh_program_watch){.maps = -1};
    if (!told->fd)
        return;
    maps = nigh_os.open("/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
    /* Its head is the file's, whatever the program has done with the rest. */
    if (maps < 0 || nigh_os_identify(maps, &id) || ask_kernel(maps, told->address, &query)) {
        nigh_os_close(maps);
        return;
    }
    *out = (struct nigh_program_watch){.maps = maps,
                                       .id = id,
                                       .major_of = query.major_of,
                                       .minor_of = query.minor_of,
                                       .number = query.number};
}

void nigh_program_watch_close(struct nigh_program_watch *watch)
{
    nigh_os_close_own(watch->maps, &watch->id);
    watch->maps = -1;
}

bool nigh_program_is_there(const struct nigh_program_watch *watch, const struct nigh_arena_header *own,
                           const void *memory, uint64_t bytes)
{
    uint64_t at = (uintptr_t)memory, end = at + bytes, last = own->memory_address + own->memory_bytes;
    struct query query;

    if (watch->maps < 0 || !nigh_program_holds(own, (const void *)(uintptr_t)own->memory_address, NIGH_PAGE))
        return true;
    if (!nigh_os_is(watch->maps,
                    &watch->id)) /* the program has closed it, as daemons do: it is read by the kernel then */
        return false;
    at = at < own->memory_address ? own->memory_address : at;
    end = end > last ? last : end;
    for (; at < end; at = query.end)
        if (ask_kernel(watch->maps, at, &query) || query.number != watch->number ||
            query.major_of != watch->major_of || query.minor_of != watch->minor_of ||
            !(query.rights & QUERY_SHARED) || query.begin - query.offset != own->memory_address)
            return false;
    return true;
}

int nigh_program_take_back(const struct nigh_arena_header *own)
{
    const uint32_t yes = 1;
    struct nigh_memory_head head;
    int fd = (int)own->memory_fd - 1;

    if (nigh_os.pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head) || head.id != own->memory_id)
        return -EBADF;
    return nigh_os.pwrite(fd, &yes, sizeof(yes), NIGH_PROGRAM_TAKEN_BACK) == (ssize_t)sizeof(yes) ? 0
                                                                                                  : -EBADF;
}

/* ---- a peer's ------------------------------------------------------------------------------------------ */

bool nigh_program_is_sound(const struct nigh_arena_header *header)
{
    if (!header->memory_fd)
        return !header->memory_address && !header->memory_bytes && !header->memory_id;
    return header->memory_fd <= INT32_MAX && header->memory_id &&
           is_range(header->memory_address, header->memory_bytes);
}

/* The number is as old as the arena: the program may have closed it, and opened something else there. */
static int check(int fd, const struct nigh_arena_header *header)
{
    struct nigh_memory_head head;
    struct statfs system;
    struct stat stat;
    int seals = nigh_os.fcntl(fd, F_GET_SEALS, 0);

    if (seals < 0 || (seals & (F_SEAL_SHRINK | F_SEAL_GROW)) != (F_SEAL_SHRINK | F_SEAL_GROW))
        return -EPROTO;
    if (nigh_os.fstatfs(fd, &system) || system.f_type != TMPFS_MAGIC || nigh_os.fstat(fd, &stat) ||
        (uint64_t)stat.st_size != header->memory_bytes)
        return -EPROTO;
    if (nigh_os.pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
        return -EPROTO;
    return head.id == header->memory_id && !head.taken_back ? 0 : -EPROTO;
}

/* The program would miss what peers take of it. */
static bool is_limited(void)
{
    struct rlimit limit;

    return nigh_os.getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur != RLIM_INFINITY;
}

/* Who locks all its memory, or leaves a core behind, is not to fill what the peer has not used. */
static int tame(void *base, uint64_t bytes)
{
    return nigh_os.madvise(base, bytes, MADV_DONTFORK) || nigh_os.madvise(base, bytes, MADV_DONTDUMP) ||
           nigh_os.munlock(base, bytes) || nigh_os.mprotect(base, bytes, PROT_READ);
}

static int map(int fd, const struct nigh_arena_header *header, uint64_t most, struct nigh_program *out)
{
    uint64_t bytes = header->memory_bytes < most ? header->memory_bytes : most & ~(uint64_t)(NIGH_PAGE - 1);
    int rc = check(fd, header);
    void *base;

    if (rc)
        return rc;
    if (bytes < 2 * NIGH_PAGE || is_limited())
        return -ENOMEM;
    base = nigh_os.mmap(NULL, bytes, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (base == MAP_FAILED)
        return -ENOMEM;
    if (tame(base, bytes)) {
        nigh_os.munmap(base, bytes);
        return -ENOMEM;
    }
    *out = (struct nigh_program){.base = base, .address = header->memory_address, .bytes = bytes};
    return 0;
}

int nigh_program_map(int pid, const struct nigh_arena_header *header, uint64_t most, struct nigh_program *out)
{
    int process, fd, rc;

    *out = (struct nigh_program){0};
    if (!header->memory_fd)
        return 0;
    process = pid > 0 ? nigh_os.pidfd_open(pid, 0) : -1;
    if (process < 0)
        return pid > 0 ? -errno : -ESRCH;
    fd = nigh_os.pidfd_getfd(process, (int)header->memory_fd - 1, 0);
    rc = fd < 0 ? -errno : map(fd, header, most, out);
    nigh_os_close(fd);
    nigh_os_close(process);
    return rc;
}

void nigh_program_unmap(struct nigh_program *program)
{
    if (program->base)
        nigh_os.munmap((void *)(uintptr_t)program->base, program->bytes);
    *program = (struct nigh_program){0};
}
