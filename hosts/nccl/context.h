/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/context.h - a communicator's presence in nigh: one context, the peers that it is connected to, and the listeners
 * and connections that NCCL has made in it. NCCL's service thread and its progress thread take turns by the lock; all that is
 * in here belongs to who holds it.
 */
#ifndef NIGH_NCCL_CONTEXT_H
#define NIGH_NCCL_CONTEXT_H

#include "hosts/nccl/abi.h"
#include "hosts/nccl/turn.h"
#include "nigh/transport.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    NIGH_NCCL_DATA = 0,    /* traffic class of messages */
    NIGH_NCCL_CONTROL = 1, /* and of what connections say to each other */
    NIGH_NCCL_NAME_BYTES = 40,
    NIGH_NCCL_CONTROLS = 16, /* receives for control messages that are posted at a time */
};

/* Another communicator's context, of this process or of another one. */
struct nigh_nccl_peer {
    struct nigh_nccl_peer *next;
    struct nigh_endpoint *endpoint;
    uint64_t id;   /* of its context */
    uint32_t uses; /* connects to be undone */
    bool severed;  /* they have been */
    uint64_t moved,
        quiet_ns; /* messages with it when it was last looked at; since when it has been so: cancel.c */
    char name[NIGH_NCCL_NAME_BYTES];
};

enum nigh_nccl_word {
    NIGH_NCCL_HELLO = 1,         /* "I connect to your listener" */
    NIGH_NCCL_REFUSED = 2,       /* "that listener is closed" */
    NIGH_NCCL_SENDER_LEFT = 3,   /* "this connection is closed, `count` messages were sent" */
    NIGH_NCCL_RECEIVER_LEFT = 4, /* "... were received" */
    NIGH_NCCL_SENDER_ABORTS = 5, /* "drop what you have not received on this connection: it is closed" */
};

/* A control message. */
struct nigh_nccl_control {
    uint64_t magic;
    uint32_t word; /* enum nigh_nccl_word */
    uint32_t reserved;
    uint64_t from;               /* id of the sending context */
    uint64_t listener;           /* HELLO */
    uint64_t connection;         /* number of the connection at the side that sends on it */
    uint64_t count;              /* LEFT */
    struct nigh_address address; /* HELLO: of the sending context */
    char name[NIGH_NCCL_NAME_BYTES];
};

struct nigh_nccl_comm;
struct nigh_nccl_listener;

struct nigh_nccl_context {
    pthread_spinlock_t turn;
    struct nigh_context *nigh;
    void *number; /* in the table */
    uint64_t id;  /* random */
    uint64_t connections, listeners_made;
    struct nigh_address address;
    struct nigh_nccl_peer *peers;
    struct nigh_nccl_comm *comms;
    struct nigh_nccl_listener *listeners;
    /* v10: those of one group have one context, which ends with the last connection; 0 in later versions. entry.c */
    uint64_t group;
    uint32_t users;
    struct nigh_nccl_context *next;
    bool broken;        /* poll failed: said once */
    uint64_t looked_ns; /* when its peers were last looked at: cancel.c */
    /* Connections whose senders have aborted, until their messages are dropped; what finds no place is asked for again. */
    struct {
        uint64_t from, connection;
    } aborts[NIGH_NCCL_CONTROLS];
    uint32_t abort_count;
    struct nigh_nccl_control controls[NIGH_NCCL_CONTROLS];
};

/* "host:17", for lines: numbers of processes mean little without the container's name. */
void nigh_nccl_name(char *name, size_t room);

/* nigh's table; NULL: it cannot be loaded, which was said. */
const struct nigh_ops *nigh_nccl_nigh(void);

/* 0, or a negative errno that was said. */
int nigh_nccl_context_open(struct nigh_nccl_context **out);
/* Closes what NCCL has left open, too. Not under the lock. */
void nigh_nccl_context_close(struct nigh_nccl_context *context);

/* The context of a number, for v11 and later; an error: it is none, which was said. */
enum nccl_result nigh_nccl_context_of(const void *number, const char *call, struct nigh_nccl_context **out);

/* Makes progress and files what has come. */
void nigh_nccl_context_poll(struct nigh_nccl_context *context);

/* The peer at an address, once more. 0, or connect()'s errors, -ENOMEM. */
int nigh_nccl_peer_get(struct nigh_nccl_context *context, const struct nigh_address *address, uint64_t id,
                       const char *name, struct nigh_nccl_peer **out);
void nigh_nccl_peer_put(struct nigh_nccl_context *context, struct nigh_nccl_peer *peer);
/* Ends the connection to a peer for all: nigh gives back every buffer that it has for it. */
void nigh_nccl_peer_sever(struct nigh_nccl_peer *peer);
/* Its state, and if it has ended why, as "rank 3 cannot be reached: ..." goes on. */
int nigh_nccl_peer_state(struct nigh_nccl_context *context, const struct nigh_nccl_peer *peer, char *why,
                         size_t room);

/* A control message to a peer. Not heard of any more: what fails shows in the connection. */
int nigh_nccl_control_send(struct nigh_nccl_context *context, struct nigh_endpoint *endpoint,
                           enum nigh_nccl_word word, uint64_t listener, uint64_t connection, uint64_t count);

#endif
