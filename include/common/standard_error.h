/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * common/standard_error.h - whether descriptor 2 is the program's standard error, so that a line of nigh's never lands in a
 * file of data that was opened in its place. The rule stands in nigh(7), "Lines on standard error". Not installed.
 */
#ifndef NIGH_COMMON_STANDARD_ERROR_H
#define NIGH_COMMON_STANDARD_ERROR_H

#include "include/common/descriptor.h"

#define NIGH_COPIES_LOOKED_AT 1024

/* One for each object that writes lines. */
struct nigh_standard_error {
    struct nigh_file_id at_load;
    bool open_at_load;
    _Atomic(bool) seen_closed; /* a flag alone, of all threads: it orders nothing */
};

static inline void nigh_standard_error_begin(struct nigh_standard_error *self)
{
    struct stat stat;

    self->open_at_load = fstat(STDERR_FILENO, &stat) == 0;
    self->seen_closed = !self->open_at_load;
    if (self->open_at_load)
        self->at_load = nigh_file_id_of(&stat);
}

/* Whether the program has the file open under another number too, as whoever captures standard error with dup2(2) does. */
static inline bool nigh_standard_error_is_copy(const struct nigh_file_id *id)
{
    struct stat stat;

    for (int fd = STDIN_FILENO; fd < NIGH_COPIES_LOOKED_AT; fd++)
        if (fd != STDERR_FILENO && fstat(fd, &stat) == 0 && nigh_file_id_is(&stat, id))
            return true;
    return false;
}

/* A file that was put there later: by a redirection, or because it was the lowest number free. */
static inline bool nigh_standard_error_came(const struct nigh_standard_error *self, const struct stat *stat,
                                            int flags)
{
    const struct nigh_file_id now = nigh_file_id_of(stat);
    struct stat output;

    if (isatty(STDERR_FILENO) || (fstat(STDOUT_FILENO, &output) == 0 && nigh_file_id_is(&output, &now)))
        return true;
    if (self->seen_closed)
        return false;
    if (!S_ISREG(stat->st_mode))
        return S_ISFIFO(stat->st_mode);
    return (flags & O_APPEND) || (flags & O_ACCMODE) == O_WRONLY || nigh_standard_error_is_copy(&now);
}

/* Whether a line may be written now. Also looks whether it is closed, for later: to be called where the program comes by. */
static inline bool nigh_standard_error_is(struct nigh_standard_error *self)
{
    int kept = fcntl(STDERR_FILENO, F_GETFD), flags = fcntl(STDERR_FILENO, F_GETFL);
    struct stat stat;

    if (kept < 0 || flags < 0 || (flags & O_PATH) || fstat(STDERR_FILENO, &stat)) {
        self->seen_closed = true;
        return false;
    }
    if (self->open_at_load && nigh_file_id_is(&stat, &self->at_load))
        return true;
    return !(kept & FD_CLOEXEC) && nigh_standard_error_came(self, &stat, flags);
}

/* One write, so that the lines of several processes on one terminal stay whole. Keeps errno. */
static inline void nigh_standard_error_write(struct nigh_standard_error *self, const char *line, size_t bytes)
{
    int error = errno;

    if (nigh_standard_error_is(self) && write(STDERR_FILENO, line, bytes) < 0)
        errno = error; /* nobody left to tell */
    errno = error;
}

#endif
