/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/turn.c - counts in a file that many processes write: who is in the job has its rank's locked. */
#include "lib/turn.h"
#include "include/common/descriptor.h"
#include "include/common/proc.h"
#include "lib/error.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
    bool open; /* and locked */
    int fd;
    struct nigh_file_id id;
    uint64_t rank, count;
} turn;

/* The program may have closed it, and opened a file of its own under that number. */
static bool is_ours(void)
{
    return turn.open && nigh_fd_is(turn.fd, &turn.id);
}

static bool number_of(const char *name, int base, uint64_t *out)
{
    const char *text = getenv(name);
    char *end = NULL;

    *out = text ? strtoull(text, &end, base) : 0;
    return text && end != text && !*end;
}

/* The file that counts for this job. Elsewhere its name may be another process' file: then it is not called as it. */
static const char *file_of(uint64_t job)
{
    const char *text = getenv("NIGH_LIVES");
    char wanted[64], *end = NULL, link[sizeof(wanted)] = "";

    if (!text || strtoull(text, &end, 16) != job || *end != ':')
        return NULL;
    snprintf(wanted, sizeof(wanted), "/memfd:nigh-lives-%016" PRIx64 " (deleted)", job);
    if (readlink(end + 1, link, sizeof(link) - 1) >= 0)
        return strcmp(link, wanted) == 0 ? end + 1 : NULL;
    if (errno == ENOENT && !nigh_proc_self()) /* in a chroot or container of the rank's */
        nigh_say(
            NIGH_LOG_WARN,
            "/proc is not mounted here: which of a rank's programs this is cannot be told (%s): mount it, or "
            "start one program a rank",
            end + 1);
    return NULL;
}

/* By process, not by descriptor: a forked child that outlives the rank must not keep the next one out. */
static bool lock(int fd, uint64_t rank)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = (off_t)(rank * sizeof(uint64_t)),
                         .l_len = sizeof(uint64_t)};

    return fcntl(fd, F_SETLK, &lock) == 0;
}

static bool get(void)
{
    return pread(turn.fd, &turn.count, sizeof(turn.count), (off_t)(turn.rank * sizeof(turn.count))) ==
           sizeof(turn.count);
}

static bool set(uint64_t count)
{
    return pwrite(turn.fd, &count, sizeof(count), (off_t)(turn.rank * sizeof(count))) == sizeof(count);
}

bool nigh_turn_begin(const struct nigh_open *options, uint64_t *life)
{
    uint64_t job = options->job, rank = options->rank;
    const char *file;
    struct stat stat;
    bool mine;

    nigh_turn_end();
    if ((options->flags & NIGH_OPEN_DETECT) &&
        (!number_of("NIGH_JOB", 16, &job) || !number_of("NIGH_RANK", 10, &rank)))
        return false;
    file = file_of(job);
    if (!file || (turn.fd = NIGH_FD(open(file, O_RDWR | O_CLOEXEC))) < 0)
        return false;
    if (fstat(turn.fd, &stat)) {
        close(turn.fd);
        return false;
    }
    turn.id = nigh_file_id_of(&stat);
    turn.rank = rank;
    turn.open = true;
    mine = rank < UINT32_MAX && lock(turn.fd, rank);
    if (rank >= UINT32_MAX || !get() || (mine && !set(turn.count + 1))) {
        nigh_turn_end();
        return false;
    }
    *life = mine || !turn.count ? turn.count : turn.count - 1;
    if (!mine)
        nigh_turn_end();
    return true;
}

void nigh_turn_undo(void)
{
    if (is_ours())
        (void)set(turn.count);
    nigh_turn_end();
}

void nigh_turn_end(void)
{
    if (is_ours())
        close(turn.fd);
    turn.open = false;
}
