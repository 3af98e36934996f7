/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/name.h - the names that contexts listen under: abstract ones, or sockets in a directory, where a name
 * can outlive its process and somebody has to clear it away. */
#ifndef NIGH_SHM_NAME_H
#define NIGH_SHM_NAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/un.h>

/* A name: `<directory>/<job in hex>-<rank>`, or the abstract `nigh-<uid>-<job in hex>-<rank>`. */
struct nigh_name {
    const char *directory; /* borrowed; NULL: abstract */
    uid_t uid;
    uint64_t job;
    uint32_t rank;
    uint64_t called; /* as which people know the job, 0: as what it is */
};

/* Under which id `job` is known to people who know `own` by its name. */
static inline uint64_t nigh_name_called(const struct nigh_name *own, uint64_t job)
{
    return own->called && job == own->job ? own->called : job;
}

/* A listening socket. In a directory also which file it is, so that only that one is removed. */
struct nigh_listener {
    int fd;
    dev_t device;
    ino_t inode;
};

/* Checks that `directory` is one, is this user's and closed to all others. -ENOTDIR (nothing there included),
 * -EACCES; logged. */
int nigh_name_directory(const char *directory, struct stat *out);

/*
 * Listens under `name`, non-blocking. The socket file of a process that has ended is replaced; a name whose owner listens
 * no more, but whose socket a forked child has yet, is waited for for 0.2 s. -EADDRINUSE somebody has it; -ENAMETOOLONG, -EMFILE, -EACCES, -EPERM, -ENOMEM; logged. In a directory it waits
 * up to a second for others that are opening or clearing away at that moment; the socket file has mode 0600, whatever the
 * umask is; and files of other jobs' processes that have ended are removed.
 */
int nigh_name_listen(const struct nigh_name *name, struct nigh_listener *out);
/* Ends it and removes its file. */
void nigh_name_close(const struct nigh_name *name, struct nigh_listener *listener);

/*
 * A socket connected to whoever listens under `name`; never waits. -ECONNREFUSED nobody does (a file left by
 * a process that has ended is removed); -EAGAIN its queue is full now; -EACCES, -EMFILE, -ENOMEM, -EPROTO
 * (something else has that name), -ENAMETOOLONG.
 */
int nigh_name_connect(const struct nigh_name *name, int *fd);

/* ---- what sweep.c needs, too ---- */
/* Writes the name's socket address. 0 or -ENAMETOOLONG. */
int nigh_name_address(const struct nigh_name *name, struct sockaddr_un *out, socklen_t *bytes);
/* An unconnected, non-blocking socket. -EMFILE, -ENOMEM, others as socket(). */
int nigh_name_socket(int type, int *fd);
/* Is that file, whose facts are in *file then, a socket of this user's? */
bool nigh_name_is_ours(const struct nigh_name *name, const char *path, struct stat *file);
/* Gives its owner the right to connect, which the umask may have taken. */
int nigh_name_open_up(const char *path);

#endif
