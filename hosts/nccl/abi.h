/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/nccl/abi.h - NCCL's net plugin tables v10, v11 and v12, in declarations of our own: no header of NCCL is needed to
 * build. NCCL never changes a table once it is released. The assertions hold each size and offset.
 */
#ifndef NIGH_NCCL_ABI_H
#define NIGH_NCCL_ABI_H

#include <stddef.h>
#include <stdint.h>

/* ncclResult_t */
enum nccl_result {
    NCCL_SUCCESS = 0,
    NCCL_CUDA_ERROR = 1,
    NCCL_SYSTEM_ERROR = 2,
    NCCL_INTERNAL_ERROR = 3,
    NCCL_INVALID_ARGUMENT = 4,
    NCCL_INVALID_USAGE = 5,
    NCCL_REMOTE_ERROR = 6,
};

/* ncclDebugLogLevel, and the subsystems of its flags */
enum { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
enum { NCCL_SUBSYSTEM_INIT = 1, NCCL_SUBSYSTEM_NET = 16 };

typedef void (*nccl_logger)(int level, unsigned long flags, const char *file, int line, const char *format,
                            ...) __attribute__((format(printf, 5, 6)));
typedef enum nccl_result (*nccl_profiler)(void **event, int type, void *parent, int64_t plugin, void *data);

enum { NCCL_PTR_HOST = 1, NCCL_PTR_CUDA = 2, NCCL_PTR_DMABUF = 4 };
enum { NCCL_HANDLE_BYTES = 128, NCCL_REQUESTS_MAX = 32 };
#define NCCL_BYTES_MAX (UINT64_C(1) << 40)
/* What *request holds when NCCL calls irecv() and does not need the completion: the GPU reads flags in the data. */
#define NCCL_OPTIONAL_COMPLETION ((void *)1)

struct nccl_devices_v10 {
    int count;
    int devices[4];
};

struct nccl_devices_v12 {
    int count;
    int devices[8];
};

/* The first members of every version. */
#define NCCL_PROPERTIES_HEAD \
    const char *name;        \
    const char *pci_path;    \
    uint64_t guid;           \
    int pointers;            \
    int registered_globally; \
    int force_flush;         \
    int speed;               \
    int port;                \
    float latency;           \
    int comms_max;           \
    int receives_max;        \
    int device_type;         \
    int device_version

struct nccl_properties_v10 {
    NCCL_PROPERTIES_HEAD;
    struct nccl_devices_v10 virtual_devices;
    size_t p2p_bytes_max, collective_bytes_max;
};

struct nccl_properties_v11 {
    NCCL_PROPERTIES_HEAD;
    struct nccl_devices_v10 virtual_devices;
    size_t p2p_bytes_max, collective_bytes_max;
    int multi_request_max;
};

struct nccl_properties_v12 {
    NCCL_PROPERTIES_HEAD;
    struct nccl_devices_v12 virtual_devices;
    size_t p2p_bytes_max, collective_bytes_max;
    int multi_request_max;
    int16_t rail, plane;
};

struct nccl_config {
    int traffic_class;
};

/* Slots that are the same in every version, in their order. */
#define NCCL_NET_MEMORY                                                                                      \
    enum nccl_result (*accept)(void *listener, void **comm, void **device);                                  \
    enum nccl_result (*register_memory)(void *comm, void *data, size_t bytes, int type, void **memory);      \
    enum nccl_result (*register_dmabuf)(void *comm, void *data, size_t bytes, int type, uint64_t offset,     \
                                        int fd, void **memory);                                              \
    enum nccl_result (*deregister)(void *comm, void *memory);                                                \
    enum nccl_result (*isend)(void *comm, void *data, size_t bytes, int tag, void *memory, void *parent,     \
                              void **request);                                                               \
    enum nccl_result (*irecv)(void *comm, int count, void **data, size_t *bytes, int *tags, void **memories, \
                              void **parents, void **request);                                               \
    enum nccl_result (*iflush)(void *comm, int count, void **data, int *bytes, void **memories,              \
                               void **request);                                                              \
    enum nccl_result (*test)(void *request, int *done, int *bytes);                                          \
    enum nccl_result (*close_send)(void *comm);                                                              \
    enum nccl_result (*close_recv)(void *comm);                                                              \
    enum nccl_result (*close_listen)(void *listener);                                                        \
    enum nccl_result (*device_memory)(void *comm, void *memory, void **device);                              \
    enum nccl_result (*consumed)(void *comm, int count, void *request);                                      \
    enum nccl_result (*make_virtual)(int *device, void *devices)

struct nccl_net_v10 {
    const char *name;
    enum nccl_result (*init)(nccl_logger logger, nccl_profiler profiler);
    enum nccl_result (*devices)(int *count);
    enum nccl_result (*properties)(int device, struct nccl_properties_v10 *out);
    enum nccl_result (*listen)(int device, void *handle, void **listener);
    enum nccl_result (*connect)(int device, struct nccl_config *config, void *handle, void **comm,
                                void **device_comm);
    NCCL_NET_MEMORY;
};

/* v11 and v12 differ in the properties alone. */
#define NCCL_NET_SINCE_V11(version)                                                                        \
    const char *name;                                                                                      \
    enum nccl_result (*init)(void **context, uint64_t communicator, struct nccl_config *config,            \
                             nccl_logger logger, nccl_profiler profiler);                                  \
    enum nccl_result (*devices)(int *count);                                                               \
    enum nccl_result (*properties)(int device, struct nccl_properties_##version *out);                     \
    enum nccl_result (*listen)(void *context, int device, void *handle, void **listener);                  \
    enum nccl_result (*connect)(void *context, int device, void *handle, void **comm, void **device_comm); \
    NCCL_NET_MEMORY;                                                                                       \
    enum nccl_result (*finalize)(void *context);                                                           \
    enum nccl_result (*attributes)(void *context, void *attributes)

struct nccl_net_v11 {
    NCCL_NET_SINCE_V11(v11);
};

struct nccl_net_v12 {
    NCCL_NET_SINCE_V11(v12);
};

#define NCCL_GOLDEN(type, member, at) \
    _Static_assert(offsetof(struct type, member) == (at), #type "." #member " lies elsewhere in NCCL")
#define NCCL_GOLDEN_SIZE(type, bytes) \
    _Static_assert(sizeof(struct type) == (bytes), #type " has another size in NCCL")

NCCL_GOLDEN_SIZE(nccl_net_v10, 160);
NCCL_GOLDEN(nccl_net_v10, accept, 48);
NCCL_GOLDEN(nccl_net_v10, make_virtual, 152);
NCCL_GOLDEN_SIZE(nccl_net_v11, 176);
NCCL_GOLDEN(nccl_net_v11, finalize, 160);
NCCL_GOLDEN_SIZE(nccl_net_v12, 176);
NCCL_GOLDEN(nccl_net_v12, test, 104);
NCCL_GOLDEN(nccl_net_v12, attributes, 168);
NCCL_GOLDEN_SIZE(nccl_properties_v10, 104);
NCCL_GOLDEN(nccl_properties_v10, virtual_devices, 64);
NCCL_GOLDEN(nccl_properties_v10, p2p_bytes_max, 88);
NCCL_GOLDEN_SIZE(nccl_properties_v11, 112);
NCCL_GOLDEN(nccl_properties_v11, multi_request_max, 104);
NCCL_GOLDEN_SIZE(nccl_properties_v12, 128);
NCCL_GOLDEN(nccl_properties_v12, p2p_bytes_max, 104);
NCCL_GOLDEN(nccl_properties_v12, multi_request_max, 120);
NCCL_GOLDEN(nccl_properties_v12, rail, 124);
NCCL_GOLDEN(nccl_properties_v12, plane, 126);

#endif
