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
