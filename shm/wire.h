/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/wire.h - the messages of an attach, as they cross the socket: one fixed struct and up to three
 * descriptors. A parcel (parcel.c) begins with the same struct. What is read here is hostile: only messages that are right in
 * form come out. */
#ifndef NIGH_SHM_WIRE_H
#define NIGH_SHM_WIRE_H

#include "shm/rendezvous.h"
#include <stdbool.h>
#include <sys/socket.h>

/*
 *   dialler                                     listener
 *      | HELLO  who I am, whom I want, 3 fds ->  |  greeted(), attached()
 *      |   <- ANSWER  who I am, 3 fds            |  or <- REFUSE  why
 *      |  attached()                               |
 *      | DONE  0, or why not ->                    |
 *     (closed, or kept while one side has no other way to see the other die; BYE then ends it in peace)
 *
 *   sender, of two that are attached            receiver
 *      | PARCEL  who I am, whom I mean, a number,
 *      |         a record behind it, 0 to 240 fds -> |  brought()
 *     (closed: nothing is answered)
 */
enum nigh_wire_kind {
    NIGH_WIRE_HELLO = 1,
    NIGH_WIRE_ANSWER = 2,
    NIGH_WIRE_REFUSE = 3,
    NIGH_WIRE_DONE = 4,
    NIGH_WIRE_BYE = 5,
    NIGH_WIRE_PARCEL = 6, /* alone on a socket of its own */
};

#define NIGH_WIRE_MAGIC   UINT64_C(0x31747461682d6e67)
#define NIGH_WIRE_VERSION 5u
#define NIGH_WIRE_KEEP    (1u << 0) /* ANSWER, DONE: keep this socket, its hang-up is how I see you die */
#define NIGH_WIRE_FDS     3u        /* arena, doorbell, window */

struct nigh_wire {
    uint64_t magic;
    uint32_t version;
    uint32_t kind; /* enum nigh_wire_kind */
    uint64_t job;  /* the speaker: HELLO, ANSWER and PARCEL, else 0, and so down to rank */
    uint64_t incarnation;
    uint32_t rank;
    uint32_t index; /* HELLO and ANSWER, else 0, and so down to ranks */
    uint32_t peers_max;
    uint32_t ranks;
    uint64_t to_job; /* whom the speaker means: HELLO and PARCEL, else 0 */
    uint64_t to_incarnation;
    uint32_t to_rank;
    int32_t error; /* REFUSE, DONE: 0 or negative errno, one of a known few */
    uint32_t flags;
    uint32_t fds;   /* how many come with it */
    uint64_t value; /* REFUSE, DONE: what struct nigh_refusal says of the error; PARCEL: its number; else 0 */
};

/* Fills in who speaks (`self` may be NULL) and the constants. */
void nigh_wire_begin(struct nigh_wire *message, enum nigh_wire_kind kind, const struct nigh_hello *self);

/* Sends it with its message->fds descriptors; never raises SIGPIPE. 0; -EPIPE or -ECONNRESET: nobody reads;
 * -EAGAIN: the system has no room for it now (memory, descriptors in flight): again later; others as
 * sendmsg(). */
int nigh_wire_send(int fd, const struct nigh_wire *message, const int *fds);

/*
 * Receives one message. Returns 0 and the message with exactly out->fds descriptors in `fds` (the rest -1),
 * which are the caller's. -EAGAIN: nothing there; -ECONNRESET: the other side is gone; -EPROTO: the form is
 * wrong (length, magic, kind, numbers out of range, too few or too many descriptors); -EPROTONOSUPPORT: another
 * version, which is in out->version; -EMFILE: the descriptors that came with it did not fit into this process. No
 * descriptor is left open on failure. A parcel is of a wrong form here.
 */
int nigh_wire_receive(int fd, struct nigh_wire *out, int fds[NIGH_WIRE_FDS]);

/* Looks at the HELLO or PARCEL that is there to be received, and takes neither it nor its descriptors. -EAGAIN: nothing is
 * there yet; -ECONNRESET: the other side is gone; -EPROTO: something else is there. */
int nigh_wire_peek(int fd, struct nigh_wire *out);
/* Looks only of which kind it says to be, whatever its form is; 0 in *kind: it does not say so. -EAGAIN, -ECONNRESET. */
int nigh_wire_next(int fd, uint32_t *kind);

/* The error to send for one that occurred here: itself if the other side may be told it, else -EPROTO. */
int nigh_wire_error(int error);

/* What HELLO and ANSWER say of the speaker. */
void nigh_wire_hello(const struct nigh_wire *message, struct nigh_hello *out);

/* ---- what parcel.c needs, too ---- */
/* sendmsg() of a packet of `bytes`, with the errors of nigh_wire_send(). */
int nigh_wire_send_packet(int fd, const struct msghdr *header, size_t bytes);
/* recvmsg(). Bytes, 0: the other side is gone; -EAGAIN; -ECONNRESET. */
ssize_t nigh_wire_receive_packet(int fd, struct msghdr *header);
/* Collects the descriptors of a packet that was received in fds[0..room) and closes those beyond; returns how many came.
 * *lost: there was no room for one of them above stderr; it is -1. */
unsigned nigh_wire_take_fds(struct msghdr *header, int *fds, unsigned room, bool *lost);
/* Is it right in form? `bytes` of it were read. */
bool nigh_wire_is_sound(const struct nigh_wire *message, ssize_t bytes);
/* Is it of another version, as far as it was read? */
bool nigh_wire_is_other_version(const struct nigh_wire *message, ssize_t bytes);

#endif
