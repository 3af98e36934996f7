/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/gpu/nccl/api.h - what is called of libnccl.so.2 and libcuda.so.1, in declarations of our own: both are loaded at run time,
 * so that this builds where neither is. */
#ifndef NIGH_TESTS_NCCL_API_H
#define NIGH_TESTS_NCCL_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nccl_id {
    char bytes[128];
};

struct nccl {
    int (*version)(int *out);
    const char *(*error)(int result);
    const char *(*last_error)(void *comm); /* may be NULL */
    int (*id)(struct nccl_id *out);
    int (*init)(void **comm, int ranks, struct nccl_id id, int rank);
    int (*destroy)(void *comm);
    int (*abort)(void *comm);
    int (*group_start)(void);
    int (*group_end)(void);
    int (*send)(const void *data, size_t count, int type, int peer, void *comm, void *stream);
    int (*recv)(void *data, size_t count, int type, int peer, void *comm, void *stream);
    int (*allreduce)(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream);
    int (*reduce)(const void *in, void *out, size_t count, int type, int op, int root, void *comm,
                  void *stream);
    int (*broadcast)(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
    int (*allgather)(const void *in, void *out, size_t count, int type, void *comm, void *stream);
    int (*reduce_scatter)(const void *in, void *out, size_t count, int type, int op, void *comm,
                          void *stream);
    /* Since 2.28: may be NULL */
    int (*alltoall)(const void *in, void *out, size_t count, int type, void *comm, void *stream);
    int (*gather)(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
    int (*scatter)(const void *in, void *out, size_t count, int type, int root, void *comm, void *stream);
};

typedef uint64_t cuda_pointer;

struct cuda {
    int (*init)(unsigned flags);
    int (*device_count)(int *out);
    int (*device)(int *out, int number);
    int (*name)(char *out, int room, int device);
    int (*context)(void **out, int device); /* the primary one, retained */
    int (*use)(void *context);
    int (*alloc)(cuda_pointer *out, size_t bytes);
    int (*free)(cuda_pointer memory);
    int (*set)(cuda_pointer memory, unsigned char value, size_t bytes);
    int (*to_device)(cuda_pointer to, const void *from, size_t bytes);
    int (*to_host)(void *to, cuda_pointer from, size_t bytes);
    int (*stream)(void **out, unsigned flags);
    int (*wait)(void *stream);
};

/* False: `why`. */
bool nccl_load(struct nccl *nccl, const char *path, char *why, size_t room);
bool cuda_load(struct cuda *cuda, const char *path, char *why, size_t room);

#endif
