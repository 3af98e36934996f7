/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/import.h - a peer's device memory, mapped here and kept for the next message. One cache for each incarnation of a
 * peer. A mapping is found by the exporter's number, which it never uses again, so memory that was freed and allocated
 * anew at the same address is another mapping. Mappings that nobody uses are bounded in number, the least recently used
 * goes first; one in use is never given up. Whatever waits for the device happens on the closer's thread.
 */
#ifndef NIGH_CUDA_IPC_IMPORT_H
#define NIGH_CUDA_IPC_IMPORT_H

#include "cuda_ipc/mapping.h"

#define NIGH_CUDA_IDLE_MAX 64u

struct nigh_cuda_peer;

/* `self`: the peer is this process, whose pointers are used as they are. `idle_max`: mappings kept without a user. -ENOMEM. */
int nigh_cuda_peer_open(struct nigh_cuda *cuda, bool self, uint32_t idle_max, struct nigh_cuda_peer **out);

/* The peer has left or died: its mappings go, those in use when they are put. The handle is invalid afterwards. */
void nigh_cuda_peer_close(struct nigh_cuda_peer *peer);

/* The mapping under `number` on this context's device, which the caller uses until it puts it: copies run in the mapping's own
 * context. -ENOENT: nigh_cuda_import() it. */
int nigh_cuda_import_find(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                          struct nigh_cuda_mapping **out);

/*
 * Finds or makes it. All of fds[] are closed, whatever comes out; `record` is what the peer sent, and is checked.
 *   -EPROTO   the record, its descriptors or its handle are wrong: logged; the peer is broken
 *   -ENOTSUP  it can only be staged, *why says why: for the path report
 *   -EAGAIN   older mappings of the same memory must be closed first, which is under way: import again, with new fds
 *   -ENOMEM   no memory, or no addresses; -EIO: the driver fails, or the context is gone, logged; -ECHILD
 * May take milliseconds: a peer's first message from a buffer.
 */
int nigh_cuda_import(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, uint64_t number,
                     const void *record, size_t bytes, int *fds, uint32_t count,
                     struct nigh_cuda_mapping **out, enum nigh_cuda_reason *why);

/* After every copy that used it has completed: nothing waits for the device here. */
void nigh_cuda_import_put(struct nigh_cuda_mapping *mapping);

/* The exporter has deregistered `number`. 0: nothing of it is mapped any more, the exporter may free its memory.
 * -EBUSY: a copy still uses it, or it is being closed: ask by dropped(). It is not found meanwhile. */
int nigh_cuda_import_drop(struct nigh_cuda_peer *peer, uint64_t number);
/* The same answer, later. What was imported under `number` since stays. */
int nigh_cuda_import_dropped(struct nigh_cuda_peer *peer, uint64_t number);
/* Has it a user? Else what is not dropped yet is being closed. */
bool nigh_cuda_import_is_used(struct nigh_cuda_peer *peer, uint64_t number);

/* The address of `bytes` at `offset` from the first segment. -EPROTO: they do not lie in it. */
int nigh_cuda_import_at(const struct nigh_cuda_mapping *mapping, uint64_t offset, uint64_t bytes,
                        nigh_cuda_ptr *out);

#endif
