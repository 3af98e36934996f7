/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/doorbell.c - the page that peers may write, sleeping on it and ringing it. */
#include "shm/doorbell.h"
#include "shm/log.h"
#include "shm/memfd.h"
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static uint64_t bytes_for(uint32_t peers_max)
{
    uint64_t bytes = sizeof(struct nigh_doorbell) + (uint64_t)(peers_max + 63) / 64 * sizeof(uint64_t);

    return (bytes + NIGH_PAGE - 1) & ~(uint64_t)(NIGH_PAGE - 1);
}

/* ---- create and map -------------------------------------------------------------------------------------- */

static int failed(const char *call)
{
    int error = errno;

    nigh_log(NIGH_LOG_ERROR,
             "making or mapping a doorbell failed: %s: %s (raise what stands in the way: ulimit -n, ulimit "
             "-v, vm.max_map_count, the memory of the machine or of the cgroup)",
             call, strerror(error));
    return nigh_memfd_error(error);
}

static int broken(const char *what)
{
    nigh_log(NIGH_LOG_ERROR, "a peer's doorbell is refused: %s", what);
    return -EPROTO;
}

static int back_with_memory(int fd, uint64_t bytes)
{
    int result;

    do
        result = nigh_os.fallocate(fd, 0, 0, (off_t)bytes);
    while (result && errno == EINTR); /* three pages at most: done between two signals */
    return result;
}

static int map(int fd, uint64_t bytes, struct nigh_bell *bell)
{
    void *base = nigh_os.mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (base == MAP_FAILED)
        return failed("mmap");
    bell->shared = base;
    bell->bytes = bytes;
    if (nigh_os.madvise(base, bytes, MADV_DONTFORK))
        return failed("madvise(MADV_DONTFORK)");
    return 0;
}

static int create_file(uint64_t bytes, struct nigh_bell *bell)
{
    bell->fd = nigh_memfd_create("nigh-doorbell");
    if (bell->fd < 0)
        return failed("memfd_create");
    if (nigh_os.ftruncate(bell->fd, (off_t)bytes))
        return failed("ftruncate");
    if (nigh_os_identify(bell->fd, &bell->id))
        return failed("fstat");
    if (back_with_memory(bell->fd, bytes))
        return failed("fallocate");
    if (nigh_os.fcntl(bell->fd, F_ADD_SEALS, SEALS))
        return failed("fcntl(F_ADD_SEALS)");
    return 0;
}

int nigh_bell_create(uint32_t peers_max, struct nigh_bell *out)
{
    struct nigh_bell bell = {.words = (peers_max + 63) / 64, .fd = -1};
    uint64_t bytes = bytes_for(peers_max);
    int error;

    assert(peers_max > 0 && peers_max <= NIGH_PEERS_MAX);
    error = create_file(bytes, &bell);
    if (!error)
        error = map(bell.fd, bytes, &bell);
    if (error) {
        if (bell.shared)
            nigh_os.munmap(bell.shared, bell.bytes);
        nigh_os_close(bell.fd);
        return error;
    }
    *out = bell;
    return 0;
}

int nigh_bell_map(int fd, struct nigh_bell *out)
{
    struct nigh_bell bell = {.fd = -1};
    struct statfs system;
    struct stat stat;
    int seals = nigh_os.fcntl(fd, F_GET_SEALS, 0), error;

    if (seals < 0)
        return broken("the descriptor is not a memfd");
    if ((seals & SEALS) != SEALS)
        return broken("its size is not sealed (F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL)");
    if (nigh_os.fstatfs(fd, &system) || nigh_os.fstat(fd, &stat) || system.f_type != TMPFS_MAGIC)
        return broken("the descriptor is not a memfd of ordinary pages");
    if (stat.st_size <= 0 || stat.st_size % NIGH_PAGE || (uint64_t)stat.st_size > bytes_for(NIGH_PEERS_MAX))
        return broken("its size is out of range");
    if (seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE))
        return broken("it is sealed against ringing");
    error = map(fd, (uint64_t)stat.st_size, &bell);
    if (error) {
        if (bell.shared)
            nigh_os.munmap(bell.shared, bell.bytes);
        return error == -ENOMEM ? -ENOMEM : broken("it cannot be mapped for writing");
    }
    bell.words = (uint32_t)((bell.bytes - sizeof(struct nigh_doorbell)) / sizeof(uint64_t));
    *out = bell;
    return 0;
}

void nigh_bell_close(struct nigh_bell *bell)
{
    if (!bell->shared)
        return;
    nigh_os.munmap(bell->shared, bell->bytes);
    nigh_os_close_own(bell->fd, &bell->id);
    *bell = (struct nigh_bell){.fd = -1};
}

/* ---- fences ---------------------------------------------------------------------------------------------- */

static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool registered;

static void register_once(void)
{
    const int needed = MEMBARRIER_CMD_GLOBAL_EXPEDITED | MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
    int offered = nigh_os.membarrier(MEMBARRIER_CMD_QUERY, 0);

    registered = offered >= 0 && (offered & needed) == needed &&
                 nigh_os.membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0) == 0;
    if (!registered)
        nigh_log(
            NIGH_LOG_INFO,
            "membarrier is refused here: every message pays a fence of its own; let the sandbox allow it");
}

bool nigh_bell_light(void)
{
    pthread_once(&once, register_once);
    return registered;
}

bool nigh_bell_can_fence(void)
{
    return nigh_bell_light() && nigh_os.membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) == 0;
}

bool nigh_bell_fence(bool rely)
{
    static uint32_t told; /* two threads at once may both tell: harmless */

    nigh_fence_full(SLEEP_ENTER);
    /* Asked each time: a filter may be one thread's alone, and a lack of memory passes. */
    if (!rely || nigh_os.membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0) == 0)
        return true;
    if (!nigh_load_relaxed(&told))
        nigh_log(
            NIGH_LOG_WARN,
            "membarrier worked when it was asked for and is refused now (%s): wake-ups may come late, so no "
            "sleep is longer than %u ms; let nigh call membarrier",
            strerror(errno), (unsigned)(NIGH_UNFENCED_NS / 1000000));
    nigh_store_relaxed(&told, 1);
    return false;
}

/* ---- ring and sleep -------------------------------------------------------------------------------------- */

void nigh_bell_ring(struct nigh_bell *bell, uint32_t asleep)
{
    (void)nigh_fetch_add_release(&bell->shared->bell, 1, BELL_RING);
    if (asleep != NIGH_ASLEEP)
        return;
    /* Not PRIVATE: the sleeper is another process. All, because a process may sleep with several threads. */
    (void)nigh_os.futex(&bell->shared->bell, FUTEX_WAKE, INT_MAX, NULL);
}

void nigh_bell_hint(struct nigh_bell *bell, uint32_t index)
{
    uint32_t word = index / 64;

    if (word >= bell->words)
        return;
    /* The word before the summary: whoever takes the summary's bit finds the word's. */
    (void)nigh_fetch_or_release(&bell->shared->hints[word], UINT64_C(1) << index % 64, HINT_SET);
    (void)nigh_fetch_or_release(&bell->shared->summary, UINT64_C(1) << word % 64, HINT_SET);
}

uint64_t nigh_bell_nudge(struct nigh_bell *bell, uint32_t index)
{
    uint64_t number = nigh_fetch_add_release(&bell->shared->nudges, 1, NUDGE_SET) + 1;

    nigh_bell_hint(bell, index); /* behind it: whoever takes the hint finds the nudge */
    return number;
}

int nigh_bell_sleep(struct nigh_bell *bell, uint32_t seen, uint64_t timeout_ns)
{
    static uint32_t told; /* two threads at once may both tell: harmless */
    const uint64_t second = UINT64_C(1000000000);
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_ns / second),
        .tv_nsec = (long)(timeout_ns % second),
    };

    /* FUTEX_WAIT's time is relative and on the monotonic clock, so a changed wall clock wakes nobody. */
    if (nigh_os.futex(&bell->shared->bell, FUTEX_WAIT, seen, timeout_ns == UINT64_MAX ? NULL : &timeout) == 0)
        return 0;
    switch (errno) {
    case EAGAIN: /* the bell differs already */
        return 0;
    case ETIMEDOUT:
    case EINTR:
        return -errno;
    default:
        if (!nigh_load_relaxed(&told))
            nigh_log(NIGH_LOG_ERROR, "sleeping on the doorbell failed: futex: %s; waiting costs CPU time now",
                     strerror(errno));
        nigh_store_relaxed(&told, 1);
        return -ETIMEDOUT; /* the caller looks and comes again */
    }
}
