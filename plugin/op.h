/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/op.h - what is under way: a send operation is anything this side has begun towards a peer, a receive operation
 * a posted buffer, a message something that a peer has begun and that is not complete here. All private memory.
 */
#ifndef NIGH_PLUGIN_OP_H
#define NIGH_PLUGIN_OP_H

#include "nigh/transport.h"
#include "plugin/ids.h"
#include "plugin/match.h"
#include <assert.h>
#include <stdbool.h>

struct nigh_context;
struct nigh_cuda_context;
struct nigh_device_receive;
struct nigh_device_send;
struct nigh_endpoint;
struct nigh_share;

/* How the bytes travel: the rows of the path report and of the statistics. */
enum nigh_path {
    NIGH_PATH_INLINE,
    NIGH_PATH_EAGER,
    NIGH_PATH_CHUNKED,
    NIGH_PATH_HEAP,
    NIGH_PATH_CMA,
    NIGH_PATH_LEND,
    NIGH_PATH_DEVICE, /* copied by a device of the receiver's */
    NIGH_PATHS,
};

/* What a send operation sends first; its kind on the wire follows from it. */
enum nigh_send_kind {
    NIGH_SEND_BODY,    /* MESSAGE */
    NIGH_SEND_CHUNKED, /* FIRST, PIECE... */
    NIGH_SEND_REFER,   /* REFER */
    NIGH_SEND_PUT,
    NIGH_SEND_GET,
    NIGH_SEND_REPLY,
    NIGH_SEND_ATOMIC,
    NIGH_SEND_CONTROL, /* GRANT, FINISH, RESULT: an answer that found no room */
};

struct nigh_send_op {
    struct nigh_send_op *next; /* in the endpoint's queue, flow or waiting */
    const uint8_t *buffer;
    uint64_t bytes;
    uint64_t sent;    /* of bytes, into chunks */
    uint64_t allowed; /* of bytes, may be sent without a GRANT */
    uint64_t tag, imm, context;
    uint64_t key, offset; /* remote memory; REFER: key = where */
    uint8_t *result;      /* GET: where it goes; ATOMIC: values before, or NULL */
    uint8_t *owned;       /* memory to free at the end: inject copies, atomics' operands */
    const void *held;     /* heap block to unhold at the end */
    struct nigh_share
        *share; /* whose buffer this is, among those that are sent to several; NULL: none of them */
    struct nigh_device_send *device; /* its bytes lie on a device: `buffer` is an address there; else NULL */
    struct nigh_cuda_context *cuda;  /* GET: `result` is one of its device, else NULL */
    int32_t failed;                  /* the device could not be read: how it ends with its GRANT or FINISH */
    uint32_t head;                   /* CONTROL: kind << 16 | flags, as in word 0 */
    uint32_t id;                     /* NIGH_NO_ID: none yet */
    uint16_t op;                     /* enum nigh_op of its completion; 0 = none is due */
    uint8_t kind;                    /* enum nigh_send_kind */
    uint8_t path;                    /* enum nigh_path */
    uint8_t tclass;
    uint8_t refer;    /* enum nigh_refer */
    uint8_t strategy; /* of the pace; what follows from it: */
    uint16_t piece_flags;
    uint64_t paced;   /* the bytes that it is paced as: it may be one of many */
    uint64_t copy_ns; /* of a timed message: our copies of `timed` bytes of it */
    uint64_t timed;
    uint64_t begun; /* REFER: when it was posted, ns */
    uint32_t piece; /* bytes of the largest piece */
    void (*copy)(void *to, const void *from, size_t bytes);
    uint8_t *shuttle; /* where its bytes go; NULL: to chunks */
    bool silent, sync, notify;
    bool counted;   /* in the context's `referred` */
    bool helped;    /* the receiver has asked for help with it: help.h */
    bool early;     /* REFER: the receiver fetches it if need be: fetch.h */
    bool spread;    /* in its and the endpoint's `spread` */
    bool granted;   /* matched at the peer; PUT, REPLY by reference: asked for anew */
    bool asks;      /* `device`: nothing of it is read before that */
    bool flowing;   /* in the endpoint's flow list */
    bool waiting;   /* in its list of those that are announced */
    bool ahead;     /* all of it may go before it is matched */
    bool published; /* its slot is, before the peer has attached: what is left is to complete */
    bool pinned;    /* REPLY: the region `key` is */
    bool copied;    /* REPLY: the host copies what is in its region, to `owned`, when it begins */
    bool tells;     /* REPLY: its host hears of it; there is room for that completion */
};

/* An operation with undefined contents and its room in the completion queue, to be cleared before
 * anything looks at it. NULL: no memory. */
struct nigh_send_op *nigh_send_claim(struct nigh_context *context);
/* Zero but for its kind, what it completes as and NIGH_NO_ID. */
void nigh_send_clear(struct nigh_send_op *op, enum nigh_send_kind kind, enum nigh_op what);
/* An operation with its room in the completion queue, zero but for its kind, what it completes as and NIGH_NO_ID.
 * nigh_send_begin() takes it. NULL: no memory. */
struct nigh_send_op *nigh_send_create(struct nigh_context *context, enum nigh_send_kind kind,
                                      enum nigh_op what);

/* What a plain receive needs lies in two lines, in one while it waits alone; the rest is set for multi-receive only. */
struct nigh_recv_op {
    uint8_t *buffer;
    uint64_t bytes;
    uint64_t context;
    uint32_t flags;    /* NIGH_DEVICE: `buffer` is an address of `cuda`'s device */
    uint32_t min_free; /* NIGH_MULTI only, as what follows */
    struct nigh_posted posted;
    uint64_t used;                  /* filled or promised */
    struct nigh_endpoint *from;     /* NULL: anyone */
    uint32_t busy;                  /* messages still arriving */
    int ended;                      /* the error that it ends with once busy is 0; 0 = full */
    bool retired;                   /* takes no more; given back when busy is 0 */
    uintptr_t poster;               /* NIGH_GUARD_THREADS: the thread that has posted it */
    struct nigh_cuda_context *cuda; /* NIGH_DEVICE only */
    bool stores;                    /* NIGH_DEVICE only: its region says so */
};

static_assert(offsetof(struct nigh_recv_op, posted.node) == 64, "what lies before it is one line");

/* NULL of NULL. */
static inline struct nigh_recv_op *nigh_recv_op_of(const struct nigh_posted *posted)
{
    return posted ? (struct nigh_recv_op *)(void *)((uintptr_t)posted - offsetof(struct nigh_recv_op, posted))
                  : NULL;
}

enum nigh_message_kind {
    NIGH_MSG_BODY,    /* whole, unexpected, in `buffer` or `small` */
    NIGH_MSG_PIECES,  /* comes in pieces */
    NIGH_MSG_REFER,   /* lies with the sender */
    NIGH_MSG_PUT,     /* pieces into a region */
    NIGH_MSG_REPLY,   /* pieces into a GET's buffer */
    NIGH_MSG_DROPPED, /* pieces that nobody wants: their receive was cancelled */
};

/* What must stay as long as the message is there. */
enum nigh_message_pins {
    NIGH_PINS_NOTHING,
    NIGH_PINS_REGION, /* PUT: `key`'s */
    NIGH_PINS_PEER,   /* unmatched, of a peer that has ended: it lies in that peer's memory */
};

struct nigh_message {
    struct nigh_arrived arrived; /* first */
    struct nigh_endpoint *endpoint;
    struct nigh_recv_op *recv;          /* NULL: not matched yet */
    struct nigh_send_op *get;           /* REPLY, and REFER of a get */
    uint8_t *to;                        /* where the bytes go; NULL: dropped, or to `device` */
    struct nigh_device_receive *device; /* its place is on a device; else NULL */
    uint64_t room;                      /* bytes that fit there */
    uint64_t total, got, eager;
    uint64_t tag, imm;
    uint64_t where;  /* REFER */
    uint64_t wanted; /* REFER: of the bytes; `got` of them are copied, or taken by a thread that copies */
    /* REFER: when the thread that has posted the receive was last at it, ns; while it has none: when it came */
    uint64_t touched;
    uint64_t key;    /* PUT, REFER of a get; REFER to a device: the memory's number */
    uint8_t *buffer; /* private memory of an unexpected message; NULL: none */
    uint64_t kept;   /* its bytes */
    uint8_t *
        staged; /* PUT into a region that the host copies to: where the bytes come together, `room` of them */
    uint64_t offset; /* the same: where in the region */
    const uint8_t
        *lies; /* PIECES, unexpected: the shuttle that they lie in until they are matched; NULL: none */
    struct nigh_message *next,
        *before; /* in the context's pulls, or copying; `next` in all claimed ones, too */
    struct nigh_message *fetch_next, *fetch_before; /* in the context's fetches */
    int32_t status;
    int32_t failed;   /* REFER: a copy of a slice has, with this */
    int32_t ended;    /* REFER: by nigh_pull_fail(), with this, while slices were being copied */
    uint32_t copiers; /* REFER: slices that are being copied now */
    uint32_t id;
    uint32_t shuttle; /* the flags that name it and its kernel, of what lies in one */
    uint32_t cpu;     /* REFER: where its sender ran, as in the slot */
    uint32_t offer;   /* REFER: its sender is asked to help, by this number: help.h; 0: it is not */
    uint32_t slice;   /* REFER: the bytes of a slice of what it is asked for */
    uint8_t kind;     /* enum nigh_message_kind */
    uint8_t refer, tclass;
    bool sync;          /* wants a GRANT when matched */
    bool claimed;       /* by a probe */
    bool fetched_later; /* it is in the context's fetches */
    bool notify;
    uint8_t passed; /* REFER: so often another one was copied first */
    bool late;      /* it was there before its receive */
    bool lent;      /* REFER to a device: it may be had in place */
    bool again;     /* REFER to a device: that memory is to be brought again */
    bool cancelled; /* REFER: its receive, or its get; the sender does not see that */
    bool lost;      /* its endpoint has ended before it was complete */
    bool in_place;
    bool taken_over; /* REFER: by another thread than the receive's */
    uint8_t pins;    /* enum nigh_message_pins */
    uint8_t small[40];
};

#endif
