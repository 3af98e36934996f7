/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/request.h - messages: isend, irecv, test; and the memory that they are in. */
#ifndef NIGH_NCCL_REQUEST_H
#define NIGH_NCCL_REQUEST_H

#include "hosts/nccl/comm.h"

/* Kinds of memory that messages may be in, as NCCL_PTR_* bits. */
int nigh_nccl_pointers(void);

enum nccl_result nigh_nccl_register(void *comm, void *data, size_t bytes, int type, void **out);
enum nccl_result nigh_nccl_deregister(void *comm, void *memory);
/* *region is NULL for the host's memory, as where nothing is registered (NULL). False: no such memory is. */
bool nigh_nccl_memory_find(const void *registered, struct nigh_region **region);
enum nccl_result nigh_nccl_isend(void *comm, void *data, size_t bytes, int tag, void *memory, void *parent,
                                 void **request);
enum nccl_result nigh_nccl_irecv(void *comm, int count, void **data, size_t *bytes, int *tags,
                                 void **memories, void **parents, void **request);
enum nccl_result nigh_nccl_iflush(void *comm, int count, void **data, int *bytes, void **memories,
                                  void **request);
enum nccl_result nigh_nccl_test(void *request, int *done, int *bytes);

/* Under the lock: an operation of nigh's has ended. */
void nigh_nccl_request_ended(struct nigh_nccl_request *request, int status, uint64_t bytes);

/* Under the lock, which it lets others have while it waits: takes back what is under way, in one registered memory or (NULL) all,
 * so that nigh touches none of its buffers afterwards. False: it does, as a peer that was stopped in the middle of a copy has not gone on for 5 s. */
bool nigh_nccl_requests_cancel(struct nigh_nccl_comm *comm, const void *memory);

#endif
