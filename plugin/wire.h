/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/wire.h - what the slots between two contexts say. A slot's words `tag` and `imm` mean what the kind says; the
 * structs below lie in the payload. Everything here was written by a peer: copied once, checked, then used.
 *
 *   kind      tag      imm      payload          meaning
 *   MESSAGE   tag      imm      body             a whole message
 *   WHOLE     tag      imm      wire_piece       a whole message in one piece
 *   FIRST     tag      imm      wire_first       a longer message begins; its first piece, if any, lies in a chunk;
 *                                                if counted, it has no PIECE: all of it is there before the next slot
 *   PIECE     id       -        wire_piece       the next piece of the sender's message `id`
 *   REFER     tag      imm      wire_refer       a message that the receiver reads where it lies: heap, cma, lend, copy,
 *                                                or copies by its device
 *   GRANT     id       late     -                to the sender of `id`: it is matched, send the rest; `late`: NIGH_GRANT_*;
 *                                                of a REFER to cma or a device: it cannot be read, send all of it as
 *                                                PIECEs; no FINISH follows
 *   FINISH    id       status   wire_finish      to whoever began `id`, and those in the payload, as many as it is
 *                                                long: the other side is done with them
 *   HELP      id       number   wire_help        to the sender of a REFER to cma: it may copy, too: plugin/help.h
 *   DROP      number   -        -                device memory of that number is given up: plugin/device_peer.h
 *   DROPPED   number   -        -                the answer: nothing of it is mapped any more
 *   PUT       key      offset   wire_first       remote write; pieces follow, or (wire_remote) none; answered by FINISH
 *   GET       key      offset   wire_get         remote read; answered by REPLY
 *   REPLY     id       status   wire_first       the answer to GET `id`; pieces follow, or (wire_remote) none: then FINISH answers it
 *   ATOMIC    key      offset   wire_atomic...   operands behind it, then comparands; answered by RESULT
 *   RESULT    id       status   body             the values before
 *   MOVE      ring     -        -                the rest of this ring's messages come through that one
 *
 * An id is the sender's number for a transfer that it has under way on this endpoint (plugin/ids.h). It is free again
 * after the last PIECE (GRANT seen where one was needed), FINISH, or RESULT; that of a message that was one slice
 * (NIGH_F_ONE) when its sender has written it: no FINISH follows.
 */
#ifndef NIGH_PLUGIN_WIRE_H
#define NIGH_PLUGIN_WIRE_H

#include "shm/ring.h"

enum nigh_kind {
    NIGH_K_MESSAGE = 1,
    NIGH_K_FIRST,
    NIGH_K_PIECE,
    NIGH_K_REFER,
    NIGH_K_GRANT,
    NIGH_K_FINISH,
    NIGH_K_PUT,
    NIGH_K_GET,
    NIGH_K_REPLY,
    NIGH_K_ATOMIC,
    NIGH_K_RESULT,
    NIGH_K_MOVE,
    NIGH_K_WHOLE,
    NIGH_K_HELP,
    NIGH_K_DROP,
    NIGH_K_DROPPED,
    NIGH_K_END, /* one past the last */
};

/* flags in word 0 */
#define NIGH_F_SYNC   1u /* FIRST: the sender waits for GRANT even if it needs none to send */
#define NIGH_F_NOTIFY 2u /* PUT: tell the target's program */
/* PIECE without bytes: its sender cannot read the rest of the message, which fails with -EIO */
#define NIGH_F_FAILED 4u
/* WHOLE, FIRST, PIECE, PUT, REPLY: the enum nigh_copy_kernel that the reader should copy with */
#define NIGH_F_KERNEL_SHIFT   4
#define NIGH_F_KERNEL_MASK    7u
#define NIGH_F_TIMED          128u /* the reader should add what the copy costs to read_cost[strategy] */
#define NIGH_F_STRATEGY_SHIFT 8
#define NIGH_F_STRATEGY_MASK  7u
/* WHOLE, FIRST, PIECE: it lies in a shuttle, that of its sender's window, or (RETURNS) of its receiver's */
#define NIGH_F_SHUTTLE 2048u
#define NIGH_F_RETURNS 4096u
/* FIRST in a shuttle: no PIECE follows, the shuttle's count says how much is there */
#define NIGH_F_COUNTED 8192u
/* HELP: all of it is one slice */
#define NIGH_F_ONE 1u
/* REFER to a device: its receiver may have it in place */
#define NIGH_F_LENT 1u
/* PUT, REPLY: its bytes lie on a device, and no PIECE follows: the payload is a wire_remote */
#define NIGH_F_REFERS 1u
/* REFER to cma: its receiver fetches it if it has no receive for long */
#define NIGH_F_EARLY 16384u

/* Where a piece lies is given in lines from the arena's start: 256 GiB in 32 bits, and the pool lies
 * first. In a shuttle: from its beginning. */
struct nigh_wire_first {
    uint64_t total;
    uint64_t imm;   /* PUT: for the target's program */
    uint32_t eager; /* bytes that come without a GRANT, at most total; in a shuttle: total */
    uint32_t id;
    uint32_t line;  /* of the first piece */
    uint32_t bytes; /* of the first piece; 0 = none yet */
};

struct nigh_wire_piece {
    uint32_t line, bytes;
};

/* COPY: the sender's own, of a send that is complete. It stays as it is until FINISH or the receiver's
 * goodbye, whatever the sender does. */
enum nigh_refer {
    NIGH_REFER_HEAP = 1,
    NIGH_REFER_CMA = 2,
    NIGH_REFER_LEND = 3,
    NIGH_REFER_COPY = 4,
    NIGH_REFER_DEVICE = 5,  /* on a device, in memory that was brought: device_peer.h */
    NIGH_REFER_POINTER = 6, /* on a device, the receiver is in the same process */
};

struct nigh_wire_refer {
    uint64_t total;
    uint64_t
        where; /* arena offset; CMA, POINTER: an address of the sender's process; DEVICE: offset in that memory */
    uint32_t id;
    uint32_t refer; /* enum nigh_refer */
    union {
        uint64_t number; /* DEVICE: of the memory; POINTER: 0, or a device + 1 and NIGH_POINTER_* */
        struct {
            uint32_t cpu; /* CMA: where the sender ran, + 1; 0: not told. A hint */
            uint32_t reserved;
        };
    };
};

/* A POINTER is reached by all devices, or by one: copies of others reach it, too, but not what runs there. */
#define NIGH_POINTER_COPIES (UINT64_C(1) << 32)

/* of a GRANT's `late` */
#define NIGH_GRANT_WAITED 1u /* the message waited for its receive */
#define NIGH_GRANT_AGAIN  2u /* bring the memory again, before you refer to it again */
#define NIGH_GRANT_BRING  4u /* of a device's lend: bring it again, and send nothing */

/* Answered by FINISH, or by GRANT: then PUT or REPLY comes anew, in pieces, or, asked to bring the memory again, once more so. */
struct nigh_wire_remote {
    struct nigh_wire_refer refer;
    uint64_t imm; /* PUT: for the target's program */
};

#define NIGH_FINISH_MORE 10u

struct nigh_wire_finish {
    uint32_t ids[NIGH_FINISH_MORE];
};

struct nigh_wire_help {
    uint64_t to; /* an address in the receiver's process */
    uint64_t bytes;
};

#define NIGH_GET_REFER 1u /* the bytes go to a device, which may copy them by itself */
#define NIGH_GET_SHORT 2u /* and is to, however few they are */

struct nigh_wire_get {
    uint64_t total;
    uint32_t id;
    uint32_t flags; /* NIGH_GET_* */
};

struct nigh_wire_atomic {
    uint16_t op, type;
    uint32_t count;
    uint32_t id;
    uint32_t fetches; /* not 0: the initiator wants what was there before */
};

static_assert(sizeof(struct nigh_wire_first) <= NIGH_SLOT_PAYLOAD, "first fits a slot");
static_assert(sizeof(struct nigh_wire_remote) <= NIGH_SLOT_PAYLOAD, "remote fits a slot");
static_assert(sizeof(struct nigh_wire_finish) <= NIGH_SLOT_PAYLOAD, "finish fits a slot");
static_assert(sizeof(struct nigh_wire_atomic) + 2 * 1024 <= NIGH_BODY_MAX, "an atomic fits a body");

#endif
