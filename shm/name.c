/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/name.c - listening and connecting by name, and clearing away what dead processes left. */
#include "shm/name.h"
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/un.h>
#include <unistd.h>

/* As many dialers as a large job has can knock before the first poll; the system cuts it to somaxconn. */
#define BACKLOG    4096
#define LOCK_TRIES 1000 /* a millisecond each; the lock is held for a few system calls */
/* A millisecond each, for a name that was left: a child that was forked at that moment has the socket yet. */
#define LEFT_TRIES 200

int nigh_name_address(const struct nigh_name *name, struct sockaddr_un *out, socklen_t *bytes)
{
    const size_t room = sizeof(out->sun_path);
    int length;

    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (name->directory)
        length = snprintf(out->sun_path, room, "%s/%016" PRIx64 "-%" PRIu32, name->directory, name->job,
                          name->rank);
    else
        length = snprintf(out->sun_path + 1, room - 1, "nigh-%u-%016" PRIx64 "-%" PRIu32, (unsigned)name->uid,
                          name->job, name->rank);
    if (length < 0 || (size_t)length >= room)
        return -ENAMETOOLONG;
    /* A file's name ends with its zero; an abstract one begins with it and ends where the length says. */
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + (size_t)length + 1);
    return 0;
}

int nigh_name_socket(int type, int *fd)
{
    *fd = nigh_os.socket(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (*fd >= 0)
        return 0;
    return errno == ENFILE ? -EMFILE : errno == ENOBUFS ? -ENOMEM : -errno;
}

static int to_address(int fd, const struct sockaddr_un *address, socklen_t bytes)
{
    if (nigh_os.connect(fd, (const struct sockaddr *)address, bytes) == 0)
        return 0;
    switch (errno) {
    case ENOENT:
    case ENOTDIR:
        return -ECONNREFUSED;
    case EINTR:
    case EINPROGRESS:
        return -EAGAIN;
    case EPERM:
        return -EACCES;
    case EPROTOTYPE:
        return -EPROTO;
    case ENOBUFS:
        return -ENOMEM;
    default:
        return -errno;
    }
}

/* The lock of a directory is on the directory itself, so that it leaves nothing; the kernel drops it with its
 * holder. */
static int try_lock(const char *directory, int *fd)
{
    int error;

    *fd = nigh_os.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (*fd < 0)
        return errno == ENFILE ? -EMFILE : -errno;
    if (nigh_os.flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    error = errno == EWOULDBLOCK || errno == EINTR ? -EAGAIN : -errno;
    nigh_os_close(*fd);
    return error;
}

static int lock(const char *directory, int *fd)
{
    int error = -EAGAIN;

    for (unsigned i = 0; i < LOCK_TRIES && error == -EAGAIN; i++) {
        error = try_lock(directory, fd);
        if (error == -EAGAIN)
            nigh_os.poll(NULL, 0, 1);
    }
    return error;
}

/* Closing alone would not do: a child may have been forked meanwhile. */
static void unlock(int fd)
{
    if (fd < 0)
        return;
    nigh_os.flock(fd, LOCK_UN);
    nigh_os_close(fd);
}

static bool is_socket_of(const struct nigh_name *name, const struct stat *file)
{
    return S_ISSOCK(file->st_mode) && file->st_uid == name->uid;
}

bool nigh_name_is_ours(const struct nigh_name *name, const char *path, struct stat *file)
{
    return nigh_os.lstat(path, file) == 0 && is_socket_of(name, file);
}

/* The umask may have taken from the owner the right to connect, and whoever made the socket has not given it back yet, or
 * ended before. */
static bool is_shut(const struct nigh_name *name, const char *path)
{
    struct stat file;

    return nigh_name_is_ours(name, path, &file) && !(file.st_mode & S_IWUSR);
}

int nigh_name_open_up(const char *path)
{
    return nigh_os.chmod(path, S_IRUSR | S_IWUSR) < 0 ? -errno : 0;
}

/*
 * Removes the file of `address` if it is this user's socket and nobody listens on it; the lock is held. Whoever
 * listens in a directory has bound and begun to listen under the lock, so a refusal now proves that the owner has
 * ended: it is not somebody between the two.
 */
static int remove_stale(const struct nigh_name *name, const struct sockaddr_un *address, socklen_t bytes)
{
    struct stat file;
    int fd, error = 0;

    if (nigh_os.lstat(address->sun_path, &file) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!is_socket_of(name, &file))
        return -EEXIST;
    if (!(file.st_mode & S_IWUSR))
        error = nigh_name_open_up(address->sun_path);
    if (!error)
        error = nigh_name_socket(SOCK_SEQPACKET, &fd);
    if (error)
        return error;
    error = to_address(fd, address, bytes);
    nigh_os_close(fd);
    if (error != -ECONNREFUSED)
        return error && error != -EAGAIN ? error : -EADDRINUSE;
    return nigh_os.unlink(address->sun_path) < 0 && errno != ENOENT ? -errno : 0;
}

static void clear_away(const struct nigh_name *name, const struct sockaddr_un *address, socklen_t bytes)
{
    int fd;

    if (try_lock(name->directory, &fd) < 0)
        return; /* somebody is at it, or it is left for the next */
    remove_stale(name, address, bytes);
    unlock(fd);
}

static int do_connect(const struct sockaddr_un *address, socklen_t bytes, int *fd)
{
    int error = nigh_name_socket(SOCK_SEQPACKET, fd);

    if (error)
        return error;
    error = to_address(*fd, address, bytes);
    if (error)
        nigh_os_close(*fd);
    return error;
}

int nigh_name_connect(const struct nigh_name *name, int *fd)
{
    struct sockaddr_un address;
    struct stat file;
    socklen_t bytes;
    int error = nigh_name_address(name, &address, &bytes);

    if (error)
        return error;
    error = do_connect(&address, bytes, fd);
    if (!name->directory)
        return error;
    if (error == -EACCES && is_shut(name, address.sun_path)) {
        clear_away(name, &address, bytes);
        return -EAGAIN;
    }
    if (error == -ECONNREFUSED && nigh_os.lstat(address.sun_path, &file) == 0)
        clear_away(name, &address, bytes);
    return error;
}

int nigh_name_directory(const char *directory, struct stat *out)
{
    struct stat stat;
    int fd = nigh_os.open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    int error = fd < 0 ? errno : 0;

    if (!error && nigh_os.fstat(fd, &stat) < 0)
        error = errno;
    nigh_os_close(fd);
    if (error) {
        nigh_log(NIGH_LOG_ERROR,
                 "cannot use %s for sockets (%s): give a directory of your own with mode 0700", directory,
                 strerror(error));
        return error == ENOENT || error == ENOTDIR  ? -ENOTDIR
               : error == EMFILE || error == ENFILE ? -EMFILE
               : error == ENAMETOOLONG              ? -ENAMETOOLONG
               : error == ENOMEM                    ? -ENOMEM
                                                    : -EACCES;
    }
    if (stat.st_uid != geteuid() || (stat.st_mode & 077)) {
        nigh_log(
            NIGH_LOG_ERROR,
            "cannot use %s for sockets: it belongs to user %u and has mode %04o, but must belong to user %u "
            "and be closed to others: chmod 0700",
            directory, (unsigned)stat.st_uid, (unsigned)(stat.st_mode & 07777), (unsigned)geteuid());
        return -EACCES;
    }
    *out = stat;
    return 0;
}

/* Binds; in a directory the lock is held. */
static int bind_name(const struct nigh_name *name, const struct sockaddr_un *address, socklen_t bytes, int fd)
{
    int error;

    if (nigh_os.bind(fd, (const struct sockaddr *)address, bytes) == 0)
        return 0;
    if (errno != EADDRINUSE || !name->directory)
        return -errno;
    error = remove_stale(name, address, bytes);
    if (error)
        return error;
    return nigh_os.bind(fd, (const struct sockaddr *)address, bytes) < 0 ? -errno : 0;
}

static int start(const struct nigh_name *name, const struct sockaddr_un *address, socklen_t bytes,
                 struct nigh_listener *out)
{
    struct stat file = {0};
    int error = bind_name(name, address, bytes, out->fd);

    if (error)
        return error;
    if ((name->directory &&
         (nigh_name_open_up(address->sun_path) || nigh_os.lstat(address->sun_path, &file) < 0)) ||
        nigh_os.listen(out->fd, BACKLOG) < 0) {
        error = -errno;
        if (name->directory)
            nigh_os.unlink(address->sun_path);
        return error;
    }
    out->device = file.st_dev;
    out->inode = file.st_ino;
    return 0;
}

static int listen_locked(const struct nigh_name *name, const struct sockaddr_un *address, socklen_t bytes,
                         struct nigh_listener *out)
{
    int directory = -1, error = 0;

    if (name->directory)
        error = lock(name->directory, &directory);
    if (error)
        return error;
    error = nigh_name_socket(SOCK_SEQPACKET, &out->fd);
    if (!error) {
        error = start(name, address, bytes, out);
        if (error)
            nigh_os_close(out->fd);
    }
    if (!error && name->directory)
        nigh_sweep(name, directory);
    unlock(directory);
    return error;
}

/* Does somebody have the name who listens no more? */
static bool is_left(const struct sockaddr_un *address, socklen_t bytes)
{
    int fd, error = do_connect(address, bytes, &fd);

    if (!error)
        nigh_os_close(fd);
    return error == -ECONNREFUSED;
}

/* Says who has the name, as far as the kernel tells. */
static void log_in_use(const struct nigh_name *name)
{
    struct nigh_credentials owner = {0};
    struct sockaddr_un address;
    socklen_t bytes;
    int fd, error = nigh_name_address(name, &address, &bytes);

    if (!error && do_connect(&address, bytes, &fd) == 0) {
        error = nigh_liveness_credentials(fd, &owner);
        nigh_os_close(fd);
    }
    nigh_log(NIGH_LOG_ERROR,
             "rank %" PRIu32 " of job %016" PRIx64 " is already open on this machine, in process %d (0: not "
             "visible): give each process its own rank and each job its own id",
             name->rank, nigh_name_called(name, name->job), (int)owner.pid);
}

static void log_failure(const struct nigh_name *name, int error)
{
    const char *where = name->directory ? name->directory : "the abstract namespace";

    if (error == -EADDRINUSE)
        log_in_use(name);
    else if (error == -ENAMETOOLONG)
        nigh_log(NIGH_LOG_ERROR,
                 "the directory %s is too long for socket names: %zu bytes, at most 79: name a shorter one "
                 "(NIGH_DIR)",
                 where, strlen(where));
    else if (error == -EEXIST)
        nigh_log(NIGH_LOG_ERROR,
                 "%s/%016" PRIx64 "-%" PRIu32
                 " exists and is not a socket of this user: remove it, or set NIGH_DIR to another directory",
                 where, name->job, name->rank);
    else if (error == -EAGAIN)
        nigh_log(NIGH_LOG_ERROR,
                 "%s has been locked by another process for a second: end the process that keeps it (fuser), "
                 "or set NIGH_DIR to another directory",
                 where);
    else if (error == -EMFILE)
        nigh_log(NIGH_LOG_ERROR, "no file descriptor is left for a socket: raise the limit (ulimit -n)");
    else
        nigh_log(NIGH_LOG_ERROR,
                 "cannot listen in %s: %s; NIGH_DIR may name a directory that can hold sockets", where,
                 strerror(-error));
}

/* The errors of open() are few. */
static int known(int error)
{
    switch (error) {
    case -EAGAIN:
    case -EEXIST:
        return -EADDRINUSE;
    case -EROFS:
    case -ENOSPC:
    case -EDQUOT:
    case -ENOENT:
    case -EAFNOSUPPORT:
    case -EPROTONOSUPPORT:
        return -EACCES;
    default:
        return error;
    }
}

int nigh_name_listen(const struct nigh_name *name, struct nigh_listener *out)
{
    struct nigh_listener listener = {.fd = -1};
    struct sockaddr_un address;
    socklen_t bytes;
    int error = nigh_name_address(name, &address, &bytes);

    if (!error)
        error = listen_locked(name, &address, bytes, &listener);
    for (unsigned i = 0; i < LEFT_TRIES && error == -EADDRINUSE && is_left(&address, bytes); i++) {
        nigh_os.poll(NULL, 0, 1);
        error = listen_locked(name, &address, bytes, &listener);
    }
    if (error) {
        log_failure(name, error);
        return known(error);
    }
    *out = listener;
    return 0;
}

void nigh_name_close(const struct nigh_name *name, struct nigh_listener *listener)
{
    struct sockaddr_un address;
    struct stat file;
    socklen_t bytes;

    /* While this socket listens nobody replaces its file, so file first. */
    if (name->directory && nigh_name_address(name, &address, &bytes) == 0 &&
        nigh_os.lstat(address.sun_path, &file) == 0 && file.st_dev == listener->device &&
        file.st_ino == listener->inode)
        nigh_os.unlink(address.sun_path);
    /* A forked child may have it: who dials, or looks whose the name is, hears that nobody listens. */
    nigh_os.shutdown(listener->fd, SHUT_RDWR);
    nigh_os_close(listener->fd);
    listener->fd = -1;
}
