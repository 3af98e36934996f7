/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/arena.c - the owner's side of an arena: reserve, commit, seal; pairs in it. Apart from the
 * reader's side (view.c) because this one trusts what it wrote and that one trusts nothing. */
#include "shm/arena.h"
#include "shm/doorbell.h"
#include "shm/file.h"
#include "shm/limits.h"
#include "shm/log.h"
#include "shm/memfd.h"
#include "shm/os.h"
#include "shm/pool.h"
#include "shm/topology.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS     (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)
#define HUGE_PAGE (UINT64_C(2) << 20)
/* What is committed between two looks at the limits. A look takes some 50 us, backing 16 MiB some 4 ms. The nearer the
 * limit the more often we look: others of the cgroup take of what is left at the same time, and up to 64 of them cannot
 * use it up between two looks. */
#define CHECKED_MOST (UINT64_C(16) << 20)
#define CHECKED_PART 64u
/* What a small job takes in all is not worth a look. */
#define UNCHECKED_FIRST (UINT64_C(256) << 10)
/* Left to the process for its stacks, page tables and what it is about to allocate itself. */
#define SPARED_BYTES (UINT64_C(1) << 20)
/* fallocate gives up at a signal and undoes what it did: pieces, so that a profiler's timer cannot keep a
 * large commit from ever ending. */
#define PIECE_BYTES (UINT64_C(64) << 20)

static uint64_t round_up(uint64_t value, uint64_t to)
{
    return (value + to - 1) & ~(to - 1);
}

/* ---- create ---------------------------------------------------------------------------------------------- */

static int check_config(const struct nigh_arena_config *config)
{
    uint64_t most = NIGH_ARENA_MAX / 4;
    char pool[NIGH_BYTES_TEXT], heap[NIGH_BYTES_TEXT], limit[NIGH_BYTES_TEXT];

    if (config->incarnation == 0 || config->peers_max == 0 || config->peers_max > NIGH_PEERS_MAX) {
        nigh_log(NIGH_LOG_ERROR,
                 "shared memory for %u peers cannot be made: peers must be 1 to %u: mend NIGH_PEERS_MAX",
                 config->peers_max, NIGH_PEERS_MAX);
        return -EINVAL;
    }
    if (config->pool_bytes > most || config->heap_bytes > most) {
        nigh_log(NIGH_LOG_ERROR,
                 "a pool of %s and a heap of %s: neither may exceed %s: set NIGH_POOL or NIGH_HEAP lower",
                 nigh_bytes_text(config->pool_bytes, pool), nigh_bytes_text(config->heap_bytes, heap),
                 nigh_bytes_text(most, limit));
        return -ENOMEM;
    }
    return 0;
}

static void lay_out(const struct nigh_arena_config *config, struct nigh_arena_header *out)
{
    *out = (struct nigh_arena_header){
        .magic = NIGH_ARENA_MAGIC,
        .version = NIGH_LAYOUT_VERSION,
        .peers_max = config->peers_max,
        .incarnation = config->incarnation,
        .nonce_address = config->nonce_address,
        .job = config->job,
        .rank = config->rank,
        .ranks = config->ranks,
        .flags = nigh_bell_can_fence() ? NIGH_ARENA_FENCES : 0,
        .memory_fd = config->program.fd,
        .memory_address = config->program.address,
        .memory_bytes = config->program.bytes,
        .memory_id = config->program.id,
    };
    out->pairs_off = 2 * NIGH_PAGE;
    /* Where huge pages may be used areas begin with one; reserved space costs nothing. */
    out->pool_off = round_up(out->pairs_off + config->peers_max * sizeof(struct nigh_pair), HUGE_PAGE);
    out->pool_bytes = round_up(config->pool_bytes, NIGH_CHUNK);
    out->heap_off = round_up(out->pool_off + out->pool_bytes, HUGE_PAGE);
    out->heap_bytes = round_up(config->heap_bytes, NIGH_PAGE);
    out->bytes = out->heap_off + out->heap_bytes + round_up(config->share_bytes, NIGH_PAGE);
}

/* Says what could not be had, with all limits: which one it was the kernel rarely tells. */
static void log_refusal(const char *what, uint64_t bytes, const char *why)
{
    struct nigh_limits limits;
    char text[512], size[NIGH_BYTES_TEXT];

    nigh_limits_read(&limits);
    nigh_limits_describe(&limits, text, sizeof(text));
    nigh_log(NIGH_LOG_ERROR,
             "%s %s of shared memory failed: %s. Limits: %s. Ask for less (NIGH_HEAP, "
             "NIGH_POOL) or raise the limit",
             what, nigh_bytes_text(bytes, size), why, text);
}

static int system_error(const char *call, int error)
{
    nigh_log(NIGH_LOG_ERROR,
             "%s failed: %s; nigh's shared memory needs memfd_create and seals (Linux 5.1): let the sandbox "
             "allow them, or raise the limit of descriptors (ulimit -n)",
             call, strerror(error));
    return nigh_memfd_error(error);
}

static int create_file(uint64_t bytes, int *out, struct nigh_file_id *id)
{
    struct rlimit limit;
    int fd = nigh_memfd_create("nigh-arena");

    if (fd < 0)
        return system_error("memfd_create", errno);
    /* Asked first, because ftruncate beyond RLIMIT_FSIZE sends a signal that ends the process. */
    if (nigh_os.getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < bytes)
        errno = EFBIG;
    else if (nigh_os.ftruncate(fd, (off_t)bytes) == 0 && nigh_os_identify(fd, id) == 0) {
        *out = fd;
        return 0;
    }
    log_refusal("reserving", bytes, strerror(errno));
    nigh_os_close(fd);
    return -ENOMEM;
}

/* Huge pages can be mapped only where address and offset agree modulo their size, so the reservation is made
 * larger and its ends are given back. */
static void *map_aligned(int fd, uint64_t bytes)
{
    uint8_t *wide =
        nigh_os.mmap(NULL, bytes + HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    uint8_t *base, *end;
    int error;

    if (wide == MAP_FAILED)
        return MAP_FAILED;
    base = (uint8_t *)(uintptr_t)round_up((uintptr_t)wide, HUGE_PAGE);
    if (nigh_os.mmap(base, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == MAP_FAILED) {
        error = errno;
        nigh_os.munmap(wide, bytes + HUGE_PAGE);
        errno = error;
        return MAP_FAILED;
    }
    end = base + bytes;
    if (base > wide)
        nigh_os.munmap(wide, (size_t)(base - wide));
    if (wide + bytes + HUGE_PAGE > end)
        nigh_os.munmap(end, (size_t)(wide + bytes + HUGE_PAGE - end));
    return base;
}

static int map_file(struct nigh_arena *arena, bool huge)
{
    uint64_t bytes = arena->bytes;
    void *base = huge ? map_aligned(arena->fd, bytes)
                      : nigh_os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, arena->fd, 0);

    if (base == MAP_FAILED) {
        log_refusal("mapping", bytes, strerror(errno));
        return -ENOMEM;
    }
    arena->base = base;
    /* A forked child must not write where peers believe its parent; one call, because each range that is
     * treated apart counts against vm.max_map_count. */
    if (nigh_os.madvise(base, bytes, MADV_DONTFORK)) {
        log_refusal("keeping from children", bytes, strerror(errno));
        return -ENOMEM;
    }
    return 0;
}

const char *nigh_arena_huge_policy(void)
{
    char text[128];

    if (nigh_file_read("/sys/kernel/mm/transparent_hugepage/shmem_enabled", text, sizeof(text)))
        return "this kernel has no transparent huge pages for shared memory";
    if (strstr(text, "[always]") || strstr(text, "[within_size]") || strstr(text, "[advise]") ||
        strstr(text, "[force]"))
        return "";
    return "/sys/kernel/mm/transparent_hugepage/shmem_enabled does not allow it; write \"advise\" there";
}

static void ask_for_huge(struct nigh_arena *arena)
{
    uint64_t from = arena->layout.pool_off;

    arena->huge_reason = nigh_arena_huge_policy();
    if (arena->huge_reason[0] == 0 && arena->bytes > from &&
        nigh_os.madvise(arena->base + from, arena->bytes - from, MADV_HUGEPAGE))
        arena->huge_reason = "madvise(MADV_HUGEPAGE) was refused";
    arena->huge = arena->huge_reason[0] == 0;
    if (!arena->huge)
        nigh_log(NIGH_LOG_WARN, "no huge pages for shared memory: %s", arena->huge_reason);
}

static int commit_and_seal(struct nigh_arena *arena)
{
    /* Header, state and the first pairs follow one another. */
    int error = nigh_arena_commit(arena, 0, arena->layout.pairs_off + NIGH_PAGE);

    if (error)
        return error;
    memcpy(arena->base, &arena->layout, sizeof(arena->layout));
    if (nigh_os.fcntl(arena->fd, F_ADD_SEALS, SEALS))
        return system_error("sealing a memfd", errno);
    return 0;
}

/* Its owner writes all of it, and most of it is read by peers nearby. Before the first page is committed. */
static void place(const struct nigh_arena *arena)
{
    int rc = nigh_topology_place(arena->base, arena->bytes);

    if (rc)
        nigh_log(NIGH_LOG_INFO, "shared memory is not placed on the local NUMA node: %s", strerror(-rc));
}

int nigh_arena_create(const struct nigh_arena_config *config, struct nigh_arena *out)
{
    struct nigh_arena arena = {.fd = -1, .huge_reason = "not asked for"};
    int error = check_config(config);

    if (error)
        return error;
    lay_out(config, &arena.layout);
    arena.log = config->log;
    arena.bytes = arena.layout.bytes;
    arena.unchecked = UNCHECKED_FIRST;
    arena.backed = nigh_os.calloc(arena.bytes / NIGH_PAGE / 64 + 1, sizeof(*arena.backed));
    if (!arena.backed) {
        log_refusal("book-keeping for", arena.bytes, strerror(ENOMEM));
        return -ENOMEM;
    }
    error = create_file(arena.bytes, &arena.fd, &arena.id);
    if (!error)
        error = map_file(&arena, config->huge);
    if (!error && config->huge)
        ask_for_huge(&arena);
    if (!error)
        place(&arena);
    if (!error)
        error = commit_and_seal(&arena);
    if (error) {
        nigh_arena_destroy(&arena);
        return error;
    }
    *out = arena;
    return 0;
}

void nigh_arena_destroy(struct nigh_arena *arena)
{
    if (!arena->backed)
        return; /* never created; its fd may be a zero that is not ours */
    if (arena->base)
        nigh_os.munmap(arena->base, arena->bytes);
    nigh_os_close_own(arena->fd, &arena->id);
    free(arena->backed);
    *arena = (struct nigh_arena){.fd = -1, .huge_reason = ""};
}

/* ---- commit ---------------------------------------------------------------------------------------------- */

/* The first page in [from, to) whose bit equals `value`, or `to`. */
static uint64_t next_page(const uint64_t *backed, uint64_t from, uint64_t to, bool value)
{
    while (from < to) {
        uint64_t word = value ? backed[from / 64] : ~backed[from / 64];

        word &= ~UINT64_C(0) << from % 64;
        if (word) {
            from = (from & ~UINT64_C(63)) + (uint64_t)__builtin_ctzll(word);
            return from < to ? from : to;
        }
        from = (from | 63) + 1;
    }
    return to;
}

static void mark_backed(struct nigh_arena *arena, uint64_t from, uint64_t to)
{
    for (uint64_t page = from; page < to; page++) {
        if (page % 64 == 0 && to - page >= 64) {
            arena->backed[page / 64] = ~UINT64_C(0);
            page += 63;
        } else {
            arena->backed[page / 64] |= UINT64_C(1) << page % 64;
        }
    }
}

static bool fits(uint64_t bytes, uint64_t left)
{
    return bytes <= left && SPARED_BYTES <= left - bytes;
}

/* What stands in the way of so much, or NULL. Without this the kernel would look for it by killing processes. */
static const char *stands_in_the_way(struct nigh_arena *arena, uint64_t bytes)
{
    struct nigh_limits limits;
    uint64_t least;

    if (bytes <= arena->unchecked) {
        arena->unchecked -= bytes;
        return NULL;
    }
    arena->unchecked = 0;
    nigh_limits_read(&limits);
    if (!fits(bytes, limits.cgroup_left) || arena->committed + bytes > limits.cgroup)
        return "the cgroup memory limit leaves less";
    if (!fits(bytes, limits.available))
        return "the machine has less memory available";
    least = (limits.cgroup_left < limits.available ? limits.cgroup_left : limits.available) - bytes;
    arena->unchecked = least / CHECKED_PART < CHECKED_MOST ? least / CHECKED_PART : CHECKED_MOST;
    return NULL;
}

/* Another file may have the number by now: fallocate would write to the program's. */
static int populate(const struct nigh_backed *file, uint64_t offset, uint64_t bytes)
{
    if (nigh_os.madvise(file->base + offset, bytes, NIGH_MADV_POPULATE_WRITE) == 0)
        return 0;
    return errno == EINVAL ? -EBADF : -ENOMEM;
}

static int allocate(const struct nigh_backed *file, uint64_t offset, uint64_t bytes)
{
    uint64_t piece = PIECE_BYTES;

    if (!nigh_os_is(file->fd, &file->id))
        return populate(file, offset, bytes);

    while (bytes) {
        if (piece > bytes)
            piece = bytes;
        if (nigh_os.fallocate(file->fd, 0, (off_t)offset, (off_t)piece)) {
            if (errno != EINTR)
                return -errno;
            piece = piece > 4 * NIGH_PAGE ? piece / 4 & ~(uint64_t)(NIGH_PAGE - 1) : NIGH_PAGE;
            continue;
        }
        offset += piece;
        bytes -= piece;
    }
    return 0;
}

static const struct nigh_log_sink *begin_log(const struct nigh_arena *arena)
{
    const struct nigh_log_sink *before = nigh_log_use(arena->log);

    if (!arena->log)
        nigh_log_use(before);
    return before;
}

static int refuse(struct nigh_arena *arena, uint64_t bytes, const char *why)
{
    const struct nigh_log_sink *before = begin_log(arena);

    if (!arena->refused)
        log_refusal("committing", bytes, why);
    arena->refused = true;
    nigh_log_use(before);
    return -ENOMEM;
}

/* NULL, or why not. */
static const char *back(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset,
                        uint64_t bytes)
{
    const char *obstacle = stands_in_the_way(arena, bytes);
    int error;

    if (obstacle)
        return obstacle;
    /* fallocate alone gives small pages where the policy is "advise"; a failure here is no harm, because
     * fallocate decides. */
    if (file->base == arena->base && arena->huge && offset >= arena->layout.pool_off)
        (void)nigh_os.madvise(arena->base + offset, bytes, NIGH_MADV_POPULATE_WRITE);
    error = allocate(file, offset, bytes);
    if (error == -EBADF)
        return "the program has closed its descriptor (closefrom?), and this kernel (before 5.14) gives none "
               "without it";
    if (error)
        return strerror(-error);
    arena->committed += bytes;
    return NULL;
}

int nigh_arena_back(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset, uint64_t bytes)
{
    const char *why = back(arena, file, offset, bytes);

    return why ? refuse(arena, bytes, why) : 0;
}

int nigh_arena_back_if(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset,
                       uint64_t bytes)
{
    const char *why = back(arena, file, offset, bytes);
    const struct nigh_log_sink *before;
    char size[NIGH_BYTES_TEXT];

    if (!why)
        return 0;
    before = begin_log(arena);
    nigh_log(NIGH_LOG_INFO, "done without %s of shared memory: %s", nigh_bytes_text(bytes, size), why);
    nigh_log_use(before);
    return -ENOMEM;
}

void nigh_arena_unback(struct nigh_arena *arena, uint64_t bytes)
{
    arena->committed -= bytes;
}

static int commit_by(struct nigh_arena *arena, uint64_t offset, uint64_t bytes,
                     int (*backs)(struct nigh_arena *arena, const struct nigh_backed *file, uint64_t offset,
                                  uint64_t bytes))
{
    const struct nigh_backed file = {.fd = arena->fd, .id = arena->id, .base = arena->base};
    uint64_t page = offset / NIGH_PAGE, end;

    assert(offset <= arena->bytes && bytes <= arena->bytes - offset);
    end = (offset + bytes + NIGH_PAGE - 1) / NIGH_PAGE;
    if (arena->huge && offset >= arena->layout.pool_off) {
        uint64_t pages = HUGE_PAGE / NIGH_PAGE, last = arena->bytes / NIGH_PAGE;

        page &= ~(pages - 1);
        end = round_up(end, pages) < last ? round_up(end, pages) : last;
    }
    while ((page = next_page(arena->backed, page, end, false)) < end) {
        uint64_t stop = next_page(arena->backed, page, end, true);
        int error = backs(arena, &file, page * NIGH_PAGE, (stop - page) * NIGH_PAGE);

        if (error)
            return error;
        mark_backed(arena, page, stop);
        page = stop;
    }
    return 0;
}

int nigh_arena_commit(struct nigh_arena *arena, uint64_t offset, uint64_t bytes)
{
    return commit_by(arena, offset, bytes, nigh_arena_back);
}

int nigh_arena_commit_if(struct nigh_arena *arena, uint64_t offset, uint64_t bytes)
{
    return commit_by(arena, offset, bytes, nigh_arena_back_if);
}

struct nigh_pair *nigh_arena_pair(struct nigh_arena *arena, uint32_t index)
{
    uint64_t offset = arena->layout.pairs_off + (uint64_t)index * sizeof(struct nigh_pair);

    if (index >= arena->layout.peers_max || nigh_arena_commit(arena, offset, sizeof(struct nigh_pair)))
        return NULL;
    return (struct nigh_pair *)(void *)(arena->base + offset);
}

uint64_t nigh_arena_committed(const struct nigh_arena *arena)
{
    return arena->committed;
}
