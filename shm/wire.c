/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/wire.c - sending, receiving and checking the messages of an attach. */
#include "shm/wire.h"
#include "shm/os.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

static_assert(sizeof(struct nigh_wire) == 88, "no padding: every byte that is sent is set");

/* Room for one more than there may be: with whole words an emulator neither cuts the last one off nor keeps it. */
#define ROOM_FDS (NIGH_WIRE_FDS + 1)

#define PEERS_LIMIT 65536u /* of struct nigh_open */

/* A control buffer of CMSG_SPACE() bytes may have room for one more descriptor, which the kernel would use; its
 * length is therefore given as CMSG_LEN(). */
union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(ROOM_FDS * sizeof(int))];
};

void nigh_wire_begin(struct nigh_wire *message, enum nigh_wire_kind kind, const struct nigh_hello *self)
{
    *message = (struct nigh_wire){.magic = NIGH_WIRE_MAGIC, .version = NIGH_WIRE_VERSION, .kind = kind};
    if (!self)
        return;
    message->job = self->self.job;
    message->incarnation = self->self.incarnation;
    message->rank = self->self.rank;
    message->index = self->index;
    message->peers_max = self->peers_max;
    message->ranks = self->ranks;
}

void nigh_wire_hello(const struct nigh_wire *message, struct nigh_hello *out)
{
    *out = (struct nigh_hello){
        .self = {.job = message->job, .incarnation = message->incarnation, .rank = message->rank},
        .index = message->index,
        .peers_max = message->peers_max,
        .ranks = message->ranks,
    };
}

int nigh_wire_send(int fd, const struct nigh_wire *message, const int *fds)
{
    union control control = {0};
    struct iovec bytes = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t sent;

    if (message->fds) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(message->fds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, message->fds * sizeof(int));
        header.msg_control = &control;
        header.msg_controllen = control.header.cmsg_len;
    }
    sent = nigh_os.sendmsg(fd, &header, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent == (ssize_t)sizeof(*message))
        return 0;
    if (sent >= 0)
        return -EPROTO; /* a packet is sent whole or not at all: this is no packet socket */
    /* ETOOMANYREFS: too many descriptors of this user are under way between processes. */
    if (errno == EINTR || errno == ENOMEM || errno == ENOBUFS || errno == ETOOMANYREFS)
        return -EAGAIN;
    return -errno;
}

static void close_all(int fds[NIGH_WIRE_FDS])
{
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++) {
        nigh_os_close(fds[i]);
        fds[i] = -1;
    }
}

/* Collects the descriptors of a message that was received; returns how many came. The kernel has installed no more than
 * there was room for, and dropped the others. *lost: there was no room for one of them above stderr; it is -1. */
static unsigned take_fds(struct msghdr *header, int fds[NIGH_WIRE_FDS], bool *lost)
{
    unsigned count = 0;
    int fd;

    for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at; at = CMSG_NXTHDR(header, at)) {
        unsigned here;

        if (at->cmsg_level != SOL_SOCKET || at->cmsg_type != SCM_RIGHTS)
            continue;
        here = (unsigned)((at->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        for (unsigned i = 0; i < here; i++, count++) {
            memcpy(&fd, CMSG_DATA(at) + i * sizeof(int), sizeof(int));
            fd = nigh_os_take(fd);
            *lost |= fd < 0;
            if (count < NIGH_WIRE_FDS)
                fds[count] = fd;
            else
                nigh_os_close(fd);
        }
    }
    return count;
}

static bool speaker_is_sound(const struct nigh_wire *m)
{
    return m->incarnation != 0 && m->peers_max > 0 && m->peers_max <= PEERS_LIMIT &&
           m->index < m->peers_max && m->ranks > 0 && m->rank < m->ranks && m->fds == NIGH_WIRE_FDS;
}

static bool no_speaker(const struct nigh_wire *m)
{
    return !m->job && !m->incarnation && !m->rank && !m->index && !m->peers_max && !m->ranks && !m->fds;
}

static bool no_target(const struct nigh_wire *m)
{
    return !m->to_job && !m->to_incarnation && !m->to_rank;
}

/* Errors are passed on to the program, so only those that the interface names come through. */
static bool error_is_known(int error)
{
    static const int known[] = {-ECONNREFUSED, -EACCES, -EPROTO, -EPROTONOSUPPORT,
                                -ENOSPC,       -ENOMEM, -EMFILE, -EAGAIN};

    for (unsigned i = 0; i < sizeof(known) / sizeof(*known); i++) {
        if (error == known[i])
            return true;
    }
    return false;
}

int nigh_wire_error(int error)
{
    return !error || error_is_known(error) ? error : -EPROTO;
}

static bool is_sound(const struct nigh_wire *m)
{
    if (m->magic != NIGH_WIRE_MAGIC || m->version != NIGH_WIRE_VERSION)
        return false;
    switch (m->kind) {
    case NIGH_WIRE_HELLO:
        return speaker_is_sound(m) && !m->error && !m->flags && !m->value;
    case NIGH_WIRE_ANSWER:
        return speaker_is_sound(m) && no_target(m) && !m->error && !(m->flags & ~NIGH_WIRE_KEEP) && !m->value;
    case NIGH_WIRE_REFUSE:
        return no_speaker(m) && no_target(m) && error_is_known(m->error) && !m->flags;
    case NIGH_WIRE_DONE:
        return no_speaker(m) && no_target(m) && (m->error ? error_is_known(m->error) : !m->value) &&
               !(m->flags & ~NIGH_WIRE_KEEP);
    case NIGH_WIRE_BYE:
        return no_speaker(m) && no_target(m) && !m->error && !m->flags && !m->value;
    default:
        return false;
    }
}

/* Magic and version stand first in all of them. */
static bool is_other_version(const struct nigh_wire *m, ssize_t bytes)
{
    return bytes >= (ssize_t)(offsetof(struct nigh_wire, version) + sizeof(m->version)) &&
           m->magic == NIGH_WIRE_MAGIC && m->version != NIGH_WIRE_VERSION;
}

/* recvmsg(). A packet socket tells of a reset before it gives what was sent ahead of it, and tells it once. */
static ssize_t receive(int fd, struct msghdr *header)
{
    ssize_t got = nigh_os.recvmsg(fd, header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);

    if (got < 0 && (errno == ECONNRESET || errno == EINTR))
        got = nigh_os.recvmsg(fd, header, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    /* What passes is tried again; all else is as good as a hang-up, or it would come for ever. */
    if (got < 0 &&
        (errno == EINTR || errno == ENOMEM || errno == ENOBUFS || errno == EMFILE || errno == ENFILE))
        errno = EAGAIN;
    return got;
}

int nigh_wire_receive(int fd, struct nigh_wire *out, int fds[NIGH_WIRE_FDS])
{
    union control control;
    struct nigh_wire message = {0};
    struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr header = {.msg_iov = &bytes,
                            .msg_iovlen = 1,
                            .msg_control = &control,
                            .msg_controllen = CMSG_LEN(ROOM_FDS * sizeof(int))};
    ssize_t got = receive(fd, &header);
    unsigned count;
    bool lost = false;
    int error = -EPROTO;

    if (got < 0)
        return errno == EAGAIN ? -EAGAIN : -ECONNRESET;
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++)
        fds[i] = -1;
    count = take_fds(&header, fds, &lost);
    if (got == 0)
        error = -ECONNRESET;
    else if (lost || ((header.msg_flags & MSG_CTRUNC) && count < NIGH_WIRE_FDS))
        error = -EMFILE;
    else if (!(header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) && got == (ssize_t)sizeof(message) &&
             is_sound(&message) && message.fds == count)
        error = 0;
    if (error) {
        close_all(fds);
        if (error == -EPROTO && is_other_version(&message, got)) {
            error = -EPROTONOSUPPORT;
            out->version = message.version;
        }
        return error;
    }
    *out = message;
    return 0;
}

int nigh_wire_peek(int fd, struct nigh_wire *out)
{
    struct nigh_wire message = {0};
    struct iovec bytes = {.iov_base = &message, .iov_len = sizeof(message)};
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t got = nigh_os.recvmsg(fd, &header, MSG_PEEK | MSG_DONTWAIT);

    if (got < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS))
        return -EAGAIN;
    if (got <= 0)
        return -ECONNRESET;
    if (got != (ssize_t)sizeof(message) || message.kind != NIGH_WIRE_HELLO || !is_sound(&message))
        return -EPROTO;
    *out = message;
    return 0;
}
