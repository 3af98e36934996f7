/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/export.h - device memory made ready for peers: a record of bytes, and descriptors that go with it by SCM_RIGHTS.
 * Tried in this order: a descriptor for each segment mapped by cuMemMap(), an exportable pool, the legacy handle of the
 * allocation; what cannot be exported is staged, and the record says why.
 */
#ifndef NIGH_CUDA_IPC_EXPORT_H
#define NIGH_CUDA_IPC_EXPORT_H

#include "cuda_ipc/pointer.h"
#include "cuda_ipc/record.h"

struct nigh_cuda_export {
    struct nigh_cuda_export *next;
    struct nigh_cuda *cuda;
    struct nigh_cuda_context *context;
    uint64_t number; /* under which peers know it; never used again by this domain */
    uint64_t sent;   /* for the caller: guarded by its own lock */
    uint32_t uses;   /* guarded by the domain's lock */
    void *pool;
    size_t bytes; /* of the record */
    struct nigh_cuda_wire *wire;
};

/* By which memory of this kind is exported; NIGH_CUDA_STAGED: by none. */
enum nigh_cuda_way nigh_cuda_export_way(enum nigh_cuda_kind kind);

/*
 * The export of the allocations that a buffer lies in. Buffers of the same allocations share one: same number, same bytes.
 * Memory that the driver does not export gets a staged one, and its first reason is logged. Given back with
 * nigh_cuda_export_put(). -EIO: the driver fails, logged. -ENOMEM, -ECHILD.
 */
int nigh_cuda_export_get(struct nigh_cuda *cuda, const struct nigh_cuda_memory *memory,
                         struct nigh_cuda_export **out);
void nigh_cuda_export_use(struct nigh_cuda_export *export); /* once more */
void nigh_cuda_export_put(struct nigh_cuda_export *export);
/* Has it more than one user? */
bool nigh_cuda_export_is_shared(struct nigh_cuda_export *export);

/*
 * The descriptors of a message to a peer, which the caller closes: fds[] has room for nigh_cuda_record_fds(). They are made
 * when they are needed, so that an export holds none. -ESTALE: the memory was freed, or is another's now, logged. -EMFILE,
 * -EIO, -ECHILD: none is open then.
 */
int nigh_cuda_export_open(struct nigh_cuda_export *export, int *fds);

/* Whether its memory is still what was exported; a cached export is used only then. Asks the driver once a segment. */
bool nigh_cuda_export_is_current(const struct nigh_cuda_export *export);

#endif
