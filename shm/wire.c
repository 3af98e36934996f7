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

int nigh_wire_send_packet(int fd, const struct msghdr *header, size_t bytes)
{
    ssize_t sent = nigh_os.sendmsg(fd, header, MSG_NOSIGNAL | MSG_DONTWAIT);

    if (sent == (ssize_t)bytes)
        return 0;
    if (sent >= 0)
        return -EPROTO; /* a packet is sent whole or not at all: this is no packet socket */
    /* ETOOMANYREFS: too many descriptors of this user are under way between processes. */
    if (errno == EINTR || errno == ENOMEM || errno == ENOBUFS || errno == ETOOMANYREFS)
        return -EAGAIN;
    return -errno;
}

int nigh_wire_send(int fd, const struct nigh_wire *message, const int *fds)
{
    union control control = {0};
    struct iovec bytes = {.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)};
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};

    if (message->fds) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(message->fds * sizeof(int));
        memcpy(CMSG_DATA(&control.header), fds, message->fds * sizeof(int));
        header.msg_control = &control;
        header.msg_controllen = control.header.cmsg_len;
    }
    return nigh_wire_send_packet(fd, &header, sizeof(*message));
}

static void close_all(int fds[NIGH_WIRE_FDS])
{
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++) {
        nigh_os_close(fds[i]);
        fds[i] = -1;
    }
}

/* The kernel has installed no more than there was room for, and dropped the others. */
unsigned nigh_wire_take_fds(struct msghdr *header, int *fds, unsigned room, bool *lost)
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
            if (count < room)
                fds[count] = fd;
            else
                nigh_os_close(fd);
        }
    }
    return count;
}

static bool parcel_is_sound(const struct nigh_wire *m)
{
    return m->incarnation && !m->index && !m->peers_max && !m->ranks && m->to_incarnation && !m->error &&
           !m->flags && m->fds <= NIGH_PARCEL_FDS;
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

bool nigh_wire_is_sound(const struct nigh_wire *m, ssize_t bytes)
{
    if (bytes < (ssize_t)sizeof(*m) || m->magic != NIGH_WIRE_MAGIC || m->version != NIGH_WIRE_VERSION)
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
    case NIGH_WIRE_PARCEL:
        return parcel_is_sound(m);
    default:
        return false;
    }
}

/* Magic and version stand first in all of them. */
bool nigh_wire_is_other_version(const struct nigh_wire *m, ssize_t bytes)
{
    return bytes >= (ssize_t)(offsetof(struct nigh_wire, version) + sizeof(m->version)) &&
           m->magic == NIGH_WIRE_MAGIC && m->version != NIGH_WIRE_VERSION;
}

/* A packet socket tells of a reset before it gives what was sent ahead of it, and tells it once. */
static ssize_t receive(int fd, struct msghdr *header, int flags)
{
    ssize_t got = nigh_os.recvmsg(fd, header, flags | MSG_DONTWAIT);

    if (got < 0 && (errno == ECONNRESET || errno == EINTR))
        got = nigh_os.recvmsg(fd, header, flags | MSG_DONTWAIT);
    if (got >= 0)
        return got;
    /* What passes is tried again; all else is as good as a hang-up, or it would come for ever. */
    if (errno == EAGAIN || errno == EINTR || errno == ENOMEM || errno == ENOBUFS || errno == EMFILE ||
        errno == ENFILE)
        return -EAGAIN;
    return -ECONNRESET;
}

ssize_t nigh_wire_receive_packet(int fd, struct msghdr *header)
{
    return receive(fd, header, MSG_CMSG_CLOEXEC);
}

/* Bytes of the packet that are in *out. -EAGAIN, -ECONNRESET. */
static ssize_t peek(int fd, struct nigh_wire *out)
{
    struct iovec bytes = {.iov_base = out, .iov_len = sizeof(*out)};
    struct msghdr header = {.msg_iov = &bytes, .msg_iovlen = 1};
    ssize_t got = receive(fd, &header, MSG_PEEK);

    return got == 0 ? -ECONNRESET : got;
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
    ssize_t got = nigh_wire_receive_packet(fd, &header);
    unsigned count;
    bool lost = false;
    int error = -EPROTO;

    if (got < 0)
        return (int)got;
    for (unsigned i = 0; i < NIGH_WIRE_FDS; i++)
        fds[i] = -1;
    count = nigh_wire_take_fds(&header, fds, NIGH_WIRE_FDS, &lost);
    if (got == 0)
        error = -ECONNRESET;
    else if (lost || ((header.msg_flags & MSG_CTRUNC) && count < NIGH_WIRE_FDS))
        error = -EMFILE;
    else if (!(header.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) && nigh_wire_is_sound(&message, got) &&
             message.kind != NIGH_WIRE_PARCEL && message.fds == count)
        error = 0;
    if (error) {
        close_all(fds);
        if (error == -EPROTO && nigh_wire_is_other_version(&message, got)) {
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
    ssize_t got = peek(fd, &message);

    if (got < 0)
        return (int)got;
    if ((message.kind != NIGH_WIRE_HELLO && message.kind != NIGH_WIRE_PARCEL) ||
        !nigh_wire_is_sound(&message, got))
        return -EPROTO;
    *out = message;
    return 0;
}

int nigh_wire_next(int fd, uint32_t *kind)
{
    struct nigh_wire message = {0};
    ssize_t got = peek(fd, &message);

    if (got < 0)
        return (int)got;
    *kind = message.magic == NIGH_WIRE_MAGIC && message.version == NIGH_WIRE_VERSION ? message.kind : 0;
    return 0;
}
