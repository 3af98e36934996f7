/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/parcel.c - what attached peers hand over beside their messages: a record and descriptors, one packet on a socket of its
 * own. docs/architecture.md, "Connecting". */
#include "shm/exchange.h"
#include "shm/liveness.h"
#include "shm/log.h"
#include "shm/os.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

/* More than there may be, in whole words: see wire.c. */
#define ROOM_FDS (NIGH_PARCEL_FDS + 2)

static_assert(ROOM_FDS <= 253, "SCM_MAX_FD: what the kernel sends in one packet");
static_assert(ROOM_FDS % 2 == 0, "whole words");

union control {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(ROOM_FDS * sizeof(int))];
};

/* ---- the sender ------------------------------------------------------------------------------------------ */

static int send_parcel(int fd, const struct nigh_wire *message, const struct nigh_parcel *parcel)
{
    union control control = {0};
    struct iovec bytes[2] = {{.iov_base = (void *)(uintptr_t)message, .iov_len = sizeof(*message)},
                             {.iov_base = (void *)(uintptr_t)parcel->record, .iov_len = parcel->bytes}};
    struct msghdr header = {.msg_iov = bytes, .msg_iovlen = parcel->bytes ? 2 : 1};

    if (parcel->count) {
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(parcel->count * sizeof(int));
        memcpy(CMSG_DATA(&control.header), parcel->fds, parcel->count * sizeof(int));
        header.msg_control = &control;
        header.msg_controllen = control.header.cmsg_len;
    }
    return nigh_wire_send_packet(fd, &header, sizeof(*message) + parcel->bytes);
}

/* The peer has closed the connection before there was anything on it to hear. Whether for good it may have said; if nobody
 * listens any more, the next try hears it. */
static int turned_away(int fd)
{
    struct nigh_wire message;
    int fds[NIGH_WIRE_FDS];

    if (nigh_wire_receive(fd, &message, fds))
        return -EAGAIN;
    nigh_exchange_close_fds(fds);
    return message.kind == NIGH_WIRE_REFUSE && message.error == -EACCES ? -EACCES : -EAGAIN;
}

/* Over a socket that is connected to the name. */
static int bring(const struct nigh_rendezvous *rendezvous, int fd, const struct nigh_identity *to,
                 const struct nigh_parcel *parcel)
{
    struct nigh_credentials listener;
    struct nigh_wire message;
    int error = nigh_liveness_credentials(fd, &listener);

    if (error || listener.uid != rendezvous->place.uid)
        return -EACCES;
    nigh_wire_begin(&message, NIGH_WIRE_PARCEL, NULL);
    message.job = rendezvous->self.self.job;
    message.incarnation = rendezvous->self.self.incarnation;
    message.rank = rendezvous->self.self.rank;
    message.to_job = to->job;
    message.to_incarnation = to->incarnation;
    message.to_rank = to->rank;
    message.value = parcel->number;
    message.fds = parcel->count;
    error = send_parcel(fd, &message, parcel);
    switch (error) {
    case -EPIPE:
    case -ECONNRESET:
    case -ECONNREFUSED: /* kernels differ in what they call a listener that is closed at this moment */
    case -ENOTCONN:
        return turned_away(fd);
    default:
        return error;
    }
}

/* The peer knows us by our answer, which is not sent yet. */
static bool is_unanswered(const struct nigh_rendezvous *rendezvous, const struct nigh_identity *who)
{
    for (const struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->state == NIGH_ANSWERING && at->to.job == who->job && at->to.rank == who->rank &&
            at->to.incarnation == who->incarnation)
            return true;
    }
    return false;
}

int nigh_rendezvous_bring(struct nigh_rendezvous *rendezvous, const struct nigh_identity *to,
                          const struct nigh_parcel *parcel)
{
    struct nigh_name name = rendezvous->name;
    int fd, error;

    if (parcel->bytes > NIGH_PARCEL_BYTES || parcel->count > NIGH_PARCEL_FDS)
        return -EMSGSIZE;
    if (!nigh_rendezvous_is_sound(rendezvous))
        return -EBADF;
    if (is_unanswered(rendezvous, to))
        return -EAGAIN;
    name.job = to->job;
    name.rank = to->rank;
    error = nigh_name_connect(&name, &fd);
    if (error)
        return error == -ENOMEM ? -EAGAIN : error;
    error = bring(rendezvous, fd, to, parcel);
    nigh_os_close(fd);
    return error;
}

/* ---- the receiver ---------------------------------------------------------------------------------------- */

struct packet {
    struct nigh_wire message;
    uint8_t record[NIGH_PARCEL_BYTES]; /* behind what ends at a multiple of 8 */
    int fds[ROOM_FDS];
    unsigned count; /* of them that came */
    size_t bytes;   /* of the record */
};

static void close_fds(const int *fds, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        nigh_os_close(fds[i]);
}

/* As nigh_wire_receive(). -EMFILE: out->message is right. */
static int receive_parcel(int fd, struct packet *out)
{
    union control control;
    struct iovec bytes[2] = {{.iov_base = &out->message, .iov_len = sizeof(out->message)},
                             {.iov_base = out->record, .iov_len = sizeof(out->record)}};
    struct msghdr header = {.msg_iov = bytes,
                            .msg_iovlen = 2,
                            .msg_control = &control,
                            .msg_controllen = CMSG_LEN(ROOM_FDS * sizeof(int))};
    const struct nigh_wire *message = &out->message;
    bool lost = false;
    ssize_t got;
    int error = -EPROTO;

    out->message = (struct nigh_wire){0};
    got = nigh_wire_receive_packet(fd, &header);
    if (got < 0)
        return (int)got;
    out->count = nigh_wire_take_fds(&header, out->fds, ROOM_FDS, &lost);
    if (got == 0)
        error = -ECONNRESET;
    else if (nigh_wire_is_sound(message, got) && message->kind == NIGH_WIRE_PARCEL &&
             !(header.msg_flags & MSG_TRUNC)) {
        if (lost || ((header.msg_flags & MSG_CTRUNC) && out->count < message->fds))
            error = -EMFILE;
        else if (!(header.msg_flags & MSG_CTRUNC) && message->fds == out->count)
            error = 0;
    }
    if (error) {
        close_fds(out->fds, out->count);
        return error;
    }
    out->bytes = (size_t)got - sizeof(*message);
    return 0;
}

static void log_no_room(struct nigh_rendezvous *rendezvous, int pid, const struct nigh_wire *message)
{
    struct rlimit limit = {0};

    if (rendezvous->parcels_logged)
        return;
    rendezvous->parcels_logged = true;
    nigh_os.getrlimit(RLIMIT_NOFILE, &limit);
    nigh_log(
        NIGH_LOG_ERROR,
        "process %d hands over %u file descriptors of its memory, for which this process has no room: it may "
        "have %llu: raise the limit (ulimit -n, or fs.file-max of the machine)",
        pid, message->fds, (unsigned long long)limit.rlim_cur);
}

static void log_form(int pid)
{
    nigh_log(
        NIGH_LOG_WARN,
        "process %d sent something that is no parcel of version %u: dropped; all processes of a job must "
        "load the same nigh",
        pid, NIGH_WIRE_VERSION);
}

static void hand_over(struct nigh_rendezvous *rendezvous, int pid, const struct packet *packet)
{
    const struct nigh_wire *message = &packet->message;
    struct nigh_identity from = {
        .job = message->job, .incarnation = message->incarnation, .rank = message->rank};
    struct nigh_parcel parcel = {.number = message->value,
                                 .record = packet->record,
                                 .bytes = packet->bytes,
                                 .fds = packet->fds,
                                 .count = packet->count};

    if (rendezvous->events->brought)
        rendezvous->events->brought(rendezvous->user, &from, pid, &parcel);
    else
        close_fds(packet->fds, packet->count);
}

void nigh_parcel_take(struct nigh_exchange *exchange)
{
    struct nigh_rendezvous *rendezvous = exchange->rendezvous;
    int pid = (int)exchange->pid;
    struct packet packet;
    int error = receive_parcel(exchange->fd, &packet);

    static_assert(offsetof(struct packet, record) % 8 == 0, "a record is read in place");
    if (error == -EAGAIN)
        return;
    nigh_exchange_drop(exchange); /* the callee may do anything */
    if (error == -EMFILE)
        log_no_room(rendezvous, pid, &packet.message);
    else if (error == -EPROTO)
        log_form(pid);
    if (error)
        return;
    if (nigh_greet_check_target(rendezvous, &packet.message)) {
        close_fds(packet.fds, packet.count);
        return;
    }
    /* It may be by an answer of that peer that we are attached: it was sent before. */
    nigh_greet_take_answer(rendezvous, &packet.message);
    hand_over(rendezvous, pid, &packet);
}
