/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lib/control.h - messages of the library's own between the ranks of a communicator: agreements, leaving, verdicts.
 * They travel in a traffic class that no receive or probe of the program sees.
 */
#ifndef NIGH_LIB_CONTROL_H
#define NIGH_LIB_CONTROL_H

#include "lib/comm.h"
#include "lib/request.h"

/* The tag's upper byte says what a message is for, its lower 24 bits are free. Below 16: this library's core. */
enum nigh_control {
    NIGH_CONTROL_AGREE = 1,
    NIGH_CONTROL_BARRIER = 3,
    NIGH_CONTROL_LEAVE = 4,
    NIGH_CONTROL_VERDICT = 5,
};

static inline int nigh_control_tag(uint32_t control, uint32_t number)
{
    return (int)(control << 24 | (number & 0xffffff));
}

/*
 * Start a message, to be given to nigh_control_wait(). The buffer is nigh's until then. Ended is a send when the buffer
 * may be reused, an issend when it was matched. Errors (said): those of a post; nothing is started then.
 */
int nigh_control_isend(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, const void *buffer,
                       uint64_t bytes, struct nigh_operation **out);
int nigh_control_issend(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, const void *buffer,
                        uint64_t bytes, struct nigh_operation **out);
int nigh_control_irecv(struct nigh_call call, struct nigh_comm *comm, int rank, int tag, void *buffer,
                       uint64_t bytes, struct nigh_operation **out);

/*
 * Waits for one and frees it, also on failure; NULL is done already. *got, if not NULL: bytes received. Errors (said):
 * -ETIMEDOUT, -EDEADLK (it was taken back), -ECONNRESET, -EPROTO, -EMSGSIZE.
 */
int nigh_control_wait(struct nigh_call call, struct nigh_operation *operation, uint64_t *got);

/*
 * Memory for messages of one call, which may have to give them up: a send that has left reads it when the call is over. NULL: there is none. given_back: with
 * the call's result; after a failure the memory stays until the library is closed, by nigh_control_close(),
 * when no operation refers to it any more.
 */
void *nigh_control_memory(uint64_t bytes);
void nigh_control_given_back(void *memory, int rc);
void nigh_control_close(void);

/* Lets go of one that is not wanted any more: taken back or awaited. */
void nigh_control_drop(struct nigh_operation *operation);

/* Both at once, waits: `bytes` each way. A message of another size is -EPROTO. */
int nigh_control_swap(struct nigh_call call, struct nigh_comm *comm, int to, const void *send, int from,
                      void *recv, uint64_t bytes, int tag);

#endif
