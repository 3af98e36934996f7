/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/comm.h - listeners and connections, as NCCL's "comms". A connection carries messages one way. Its messages are those
 * of one tag: nigh matches messages of one tag in the order of their posting.
 */
#ifndef NIGH_NCCL_COMM_H
#define NIGH_NCCL_COMM_H

#include "hosts/nccl/context.h"

enum nigh_nccl_state { NIGH_NCCL_FREE = 0, NIGH_NCCL_PENDING, NIGH_NCCL_DONE };

/* A request. Its address is the context of nigh's operation. */
struct nigh_nccl_request {
    struct nigh_nccl_comm *comm;
    void *memory; /* its number, or NULL */
    uint64_t bytes, room;
    uint64_t number; /* of the message on this connection */
    int32_t status;
    uint32_t serial;
    uint8_t state; /* enum nigh_nccl_state */
};

struct nigh_nccl_comm {
    struct nigh_nccl_context *context;
    struct nigh_nccl_peer *peer;
    struct nigh_nccl_comm *next;
    void *number;
    uint64_t id;       /* of the connection: the tag of its messages */
    uint64_t listener; /* senders: that it connects to */
    uint64_t posted;   /* messages, ever */
    uint64_t moved;    /* of these have completed well */
    uint64_t limit;    /* so many messages there are: the peer has said so; UINT64_MAX */
    uint32_t place;    /* of the last request */
    uint32_t pending;
    int failure; /* a negative errno; what is not complete then fails with it */
    bool sends, ready, told;
    struct nigh_nccl_request requests[NCCL_REQUESTS_MAX];
};

/* A connection that was asked for and is not accepted. */
struct nigh_nccl_pending {
    struct nigh_nccl_pending *next;
    struct nigh_nccl_peer *peer;
    uint64_t connection, limit;
};

struct nigh_nccl_listener {
    struct nigh_nccl_context *context;
    struct nigh_nccl_listener *next;
    struct nigh_nccl_pending *first;
    void *number;
    uint64_t id;
    int error; /* a connection could not be taken: a negative errno, for the next accept() */
};

/* The context of the connection that connect() is making for a handle; NULL: of none yet. */
struct nigh_nccl_context *nigh_nccl_connecting(const void *handle);
enum nccl_result nigh_nccl_listen(struct nigh_nccl_context *context, int device, void *handle, void **out);
enum nccl_result nigh_nccl_connect(struct nigh_nccl_context *context, int device, void *handle, void **out);
enum nccl_result nigh_nccl_accept(void *listener, void **out, void **device);
enum nccl_result nigh_nccl_close_send(void *comm);
enum nccl_result nigh_nccl_close_recv(void *comm);
enum nccl_result nigh_nccl_close_listen(void *listener);

/* Under the lock: ends one; the memory is gone. */
void nigh_nccl_comm_end(struct nigh_nccl_comm *comm);
void nigh_nccl_listener_end(struct nigh_nccl_listener *listener);

/* Says once why a connection has failed. */
void nigh_nccl_comm_tell(struct nigh_nccl_comm *comm, int error, uint64_t bytes, uint64_t room);

/* Under the lock, when no completion is looked at any more, as it makes progress: drops messages of connections whose senders have
 * aborted. */
void nigh_nccl_aborts_take(struct nigh_nccl_context *context);
/* Under the lock: a control message has come. */
void nigh_nccl_control_take(struct nigh_nccl_context *context, const struct nigh_nccl_control *said,
                            struct nigh_endpoint *endpoint);

#endif
