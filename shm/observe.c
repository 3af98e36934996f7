/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/observe.c - an observer's side of an arena. Everything that it reads may have been written by
 * somebody hostile. */
#include "shm/observe.h"
#include "shm/note.h"
#include "shm/os.h"
#include "shm/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>

/* The size must be sealed, or the mapping could be cut off under our eyes; that it is sealed against writing an
 * observer need not care. Seals do not tell shmem from hugetlbfs, where a page without memory is a SIGBUS. */
static int check_file(int fd, struct nigh_observed *out)
{
    int seals = nigh_os.fcntl(fd, F_GET_SEALS, 0);
    struct statfs system;
    struct stat stat;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || nigh_os.fstatfs(fd, &system) || nigh_os.fstat(fd, &stat) ||
        system.f_type != TMPFS_MAGIC || !S_ISREG(stat.st_mode) || stat.st_size < (off_t)(3 * NIGH_PAGE) ||
        (uint64_t)stat.st_size > NIGH_ARENA_MAX)
        return -EPROTO;
    out->bytes = (uint64_t)stat.st_size;
    out->file = stat.st_ino;
    out->allocated = (uint64_t)stat.st_blocks * 512;
    return 0;
}

static int check_header(int fd, struct nigh_observed *out)
{
    struct nigh_arena_header header;

    if (nigh_os.pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header) ||
        header.magic != NIGH_ARENA_MAGIC)
        return -EPROTO;
    if (header.version != NIGH_LAYOUT_VERSION)
        return -ENOTSUP;
    if (header.bytes != out->bytes || !header.incarnation || header.rank >= header.ranks)
        return -EPROTO;
    out->job = header.job;
    out->incarnation = header.incarnation;
    out->rank = header.rank;
    out->ranks = header.ranks;
    return 0;
}

int nigh_observe_open(int fd, struct nigh_observed *out)
{
    struct nigh_observed observed = {0};
    void *page;
    int rc = check_file(fd, &observed);

    if (!rc)
        rc = check_header(fd, &observed);
    if (rc)
        return rc;
    page = nigh_os.mmap(NULL, NIGH_PAGE, PROT_READ, MAP_SHARED, fd, NIGH_PAGE);
    if (page == MAP_FAILED)
        return -ENOMEM;
    observed.page = page;
    *out = observed;
    return 0;
}

void nigh_observe_close(struct nigh_observed *observed)
{
    if (observed->page)
        nigh_os.munmap((void *)(uintptr_t)observed->page, NIGH_PAGE);
    *observed = (struct nigh_observed){0};
}

int nigh_observe_note(const struct nigh_observed *observed, struct nigh_note *out)
{
    return nigh_note_read((const void *)(observed->page + NIGH_NOTE_OFFSET), out);
}

void nigh_observe_counters(const struct nigh_observed *observed, struct nigh_arena_counters *out)
{
    const uint64_t *from = (const void *)(observed->page + NIGH_COUNTERS_OFFSET);
    uint64_t *to = (uint64_t *)out;

    /* Relaxed: figures for people. */
    for (unsigned i = 0; i < sizeof(*out) / sizeof(*to); i++)
        to[i] = nigh_load_relaxed(&from[i]);
}

bool nigh_observe_sleeps(const struct nigh_observed *observed)
{
    const struct nigh_arena_state *state = (const void *)observed->page;

    return nigh_load_relaxed(&state->asleep) != NIGH_AWAKE;
}
