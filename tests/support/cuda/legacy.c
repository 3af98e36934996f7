/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda/legacy.c - handles of memory as of cuIpcGetMemHandle(), and what names a descriptor to other processes. */
#include "tests/support/cuda/fake.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x6e69676847504949)

_Static_assert(sizeof(struct ipc) <= sizeof(struct cu_ipc), "a handle holds it");

static uint64_t inode_of(const char *path)
{
    struct stat status;

    return stat(path, &status) ? 0 : status.st_ino;
}

void fake_ipc_name(int fd, struct ipc *ipc)
{
    struct stat status = {0};

    fstat(fd, &status);
    ipc->magic = MAGIC;
    ipc->namespace_ = inode_of("/proc/self/ns/pid");
    ipc->pid = getpid();
    ipc->fd = fd;
    ipc->inode = status.st_ino;
}

/* Not in the process that made it, and not between PID namespaces. What its maker has let go of is not found. */
int fake_ipc_open(const struct ipc *ipc, int *fd)
{
    struct stat status;
    char path[64];
    int got;

    if (ipc->magic != MAGIC)
        return CU_INVALID_VALUE;
    if (ipc->namespace_ != inode_of("/proc/self/ns/pid") || ipc->pid == getpid())
        return CU_INVALID_CONTEXT;
    snprintf(path, sizeof(path), "/proc/%d/fd/%d", ipc->pid, ipc->fd);
    if (stat(path, &status) || status.st_ino != ipc->inode)
        return CU_INVALID_HANDLE;
    got = open(path, O_RDWR | O_CLOEXEC);
    if (got < 0)
        return CU_INVALID_HANDLE;
    if (fstat(got, &status) || status.st_ino != ipc->inode) {
        close(got);
        return CU_INVALID_HANDLE;
    }
    *fd = got;
    return CU_SUCCESS;
}

/* Of the whole allocation, whatever address of it is asked for. */
int cuIpcGetMemHandle(struct cu_ipc *handle, cu_address at)
{
    const struct range *range;
    struct ipc ipc;
    int kept;

    FAKE_CALL;
    range = fake_range_at(at);
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    if (!range || range->kind != RANGE_LINEAR)
        return CU_INVALID_VALUE;
    /* So that the memory is described, and is counted while another process has it. */
    if (fake_object_export(range->object, &kept))
        return CU_OPERATING_SYSTEM;
    close(kept);
    memset(&ipc, 0, sizeof(ipc));
    fake_ipc_name(range->object->fd, &ipc);
    ipc.id = range->object->id;
    ipc.at = range->at;
    ipc.bytes = range->bytes;
    ipc.device = range->object->device;
    memset(handle, 0, sizeof(*handle));
    memcpy(handle, &ipc, sizeof(ipc));
    return CU_SUCCESS;
}

/* One context of a device may have it. A newer allocation at the exporter's address is refused while the older is open. */
static int already_open(const struct ipc *ipc, struct range **out)
{
    *out = NULL;
    for (struct range *range = fake_range_from(0); range; range = fake_range_from(range->at + range->bytes)) {
        if (range->kind != RANGE_OPENED || range->exporter != ipc->pid)
            continue;
        if (range->source == ipc->id) {
            *out = range;
            return range->context == fake_current() ? CU_SUCCESS : CU_INVALID_CONTEXT;
        }
        if (range->there < ipc->at + ipc->bytes && ipc->at < range->there + range->bytes)
            return CU_ALREADY_MAPPED;
    }
    return CU_SUCCESS;
}

static int open_object(const struct ipc *ipc, struct object **out)
{
    int fd, here = fake.visible[fake_current()->device], rc = fake_ipc_open(ipc, &fd);

    if (rc)
        return rc;
    rc = fake_object_import(OBJECT_LINEAR, fd, out);
    close(fd);
    if (rc)
        return CU_INVALID_HANDLE;
    if ((*out)->device == here || fake.peers[here][(*out)->device])
        return CU_SUCCESS;
    fake_object_drop(*out);
    return CU_NO_PEER_ACCESS;
}

static int open_handle(const struct ipc *ipc, cu_address *at)
{
    struct object *object;
    struct range *range;
    int rc = already_open(ipc, &range);

    if (rc)
        return rc;
    if (range) {
        range->opened++;
        *at = range->at;
        return CU_SUCCESS;
    }
    rc = open_object(ipc, &object);
    if (rc)
        return rc;
    *at = fake_address_take(object->bytes, 0);
    fake_range_add(&(struct range){.at = *at,
                                   .bytes = object->bytes,
                                   .kind = RANGE_OPENED,
                                   .object = object,
                                   .context = fake_current(),
                                   .block = object->id,
                                   .opened = 1,
                                   .exporter = ipc->pid,
                                   .there = ipc->at,
                                   .source = ipc->id});
    return CU_SUCCESS;
}

int cuIpcOpenMemHandle_v2(cu_address *at, struct cu_ipc handle, unsigned flags)
{
    struct ipc ipc;

    FAKE_CALL;
    if (!fake_current())
        return CU_INVALID_CONTEXT;
    memcpy(&ipc, &handle, sizeof(ipc));
    if (flags != 1 || ipc.magic != MAGIC)
        return CU_INVALID_VALUE;
    return open_handle(&ipc, at);
}

/* Closing waits for the device, the host's kernels included. */
int cuIpcCloseMemHandle(cu_address at)
{
    struct range *range;

    FAKE_CALL;
    fake_waits_for_host(__func__);
    range = fake_range_at(at);
    if (!range || range->at != at || range->kind != RANGE_OPENED)
        return CU_INVALID_VALUE;
    fake_finish_context(NULL, __func__);
    if (--range->opened == 0)
        fake_range_remove(range);
    return CU_SUCCESS;
}
