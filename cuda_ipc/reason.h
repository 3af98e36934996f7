/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/reason.h - how a device buffer reaches a peer, and why not by a better way: what path reports show. */
#ifndef NIGH_CUDA_IPC_REASON_H
#define NIGH_CUDA_IPC_REASON_H

/* In the order in which exports try them. The numbers go over the wire. */
enum nigh_cuda_way {
    NIGH_CUDA_STAGED = 0, /* through memory of the host */
    NIGH_CUDA_VMM = 1,    /* a descriptor for each segment */
    NIGH_CUDA_POOL = 2,   /* a descriptor for the pool, and a pointer in it */
    NIGH_CUDA_LEGACY = 3, /* cuIpcGetMemHandle() of the allocation */
    NIGH_CUDA_WAYS = 4,
};

/* Why memory is staged. The numbers go over the wire. */
#define NIGH_CUDA_REASONS(REASON)                                                                            \
    REASON(NONE, "it is not staged")                                                                         \
    REASON(MANAGED, "managed memory has no handle; allocate it with cudaMalloc")                             \
    REASON(NO_HANDLE_TYPE, "it was mapped by cuMemCreate without POSIX descriptors in requestedHandleTypes") \
    REASON(POOL_PRIVATE, "its memory pool was not created with POSIX descriptors in handleTypes")            \
    REASON(MANY_SEGMENTS, "it consists of more than 240 physical segments")                                  \
    REASON(OLD_DRIVER, "the CUDA driver is too old to hand it to other processes")                           \
    REASON(WSL, "the CUDA driver of WSL exports no memory")                                                  \
    REASON(EXPORT_REFUSED, "the CUDA driver refuses to export it")                                           \
    REASON(PID_NAMESPACE, "the peer is in another PID namespace, where legacy handles do not work")          \
    REASON(NO_PEER_ACCESS, "the two devices cannot access each other's memory")                              \
    REASON(IMPORT_REFUSED, "the CUDA driver refuses to import it")                                           \
    REASON(CLASH, "its handle is open already by other means")                                               \
    REASON(MIG, "instances of a divided device (MIG) cannot access each other's memory")                     \
    REASON(MPS, "one of the two processes uses its device through MPS, the other one does not")              \
    REASON(PEER_SILENT, "the peer has not used a CUDA device yet")                                           \
    REASON(NOT_JOINED, "puts, gets and atomics are staged where the other side is not on a device")

enum nigh_cuda_reason {
#define NIGH_CUDA_REASON_NAME(name, text) NIGH_CUDA_WHY_##name,
    NIGH_CUDA_REASONS(NIGH_CUDA_REASON_NAME)
#undef NIGH_CUDA_REASON_NAME
        NIGH_CUDA_REASONS_COUNT
};

/* Strings for ever. The name of a way is that of path reports: "cuda-vmm". */
const char *nigh_cuda_reason_text(enum nigh_cuda_reason reason);
const char *nigh_cuda_way_name(enum nigh_cuda_way way);

#endif
