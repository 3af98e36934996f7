/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/export.c - see export.h. */
#include "cuda_ipc/export.h"
#include "shm/log.h"
#include "shm/os.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- descriptors --------------------------------------------------------------------------------------- */

/* A descriptor that the driver made, above stderr. -EMFILE. */
static int take_fd(int fd)
{
    int high = nigh_os_take(fd);

    return high < 0 ? -errno : high;
}

/* The CUresult of the refusal in *refused, and -EIO. */
static int open_segment(const struct nigh_driver *driver, uint64_t base, int *fd, int *refused)
{
    nigh_cuda_handle handle;
    int made = -1;

    *refused = driver->retain(&handle, (void *)(uintptr_t)base);
    if (*refused)
        return -EIO;
    *refused = NIGH_FD_DURING(driver->export_handle(&made, handle, NIGH_CUDA_HANDLE_POSIX_FD, 0));
    driver->release(handle);
    if (*refused)
        return -EIO;
    *fd = take_fd(made);
    return *fd < 0 ? *fd : 0;
}

static int open_pool(const struct nigh_driver *driver, void *pool, int *fd, int *refused)
{
    int made = -1;

    *refused = NIGH_FD_DURING(driver->pool_export(&made, pool, NIGH_CUDA_HANDLE_POSIX_FD, 0));
    if (*refused)
        return -EIO;
    *fd = take_fd(made);
    return *fd < 0 ? *fd : 0;
}

static void close_fds(int *fds, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        nigh_os_close(fds[i]);
        fds[i] = -1;
    }
}

/* All that go with it, or none. */
static int open_all(const struct nigh_cuda_export *export, int *fds, int *refused)
{
    const struct nigh_driver *driver = export->cuda->driver;
    uint32_t count = nigh_cuda_record_fds(export->wire), made = 0;
    int rc = 0;

    while (made < count && !rc) {
        if (export->wire->way == NIGH_CUDA_POOL)
            rc = open_pool(driver, export->pool, &fds[made], refused);
        else
            rc = open_segment(driver, export->wire->segment[made].base, &fds[made], refused);
        made += !rc;
    }
    if (rc)
        close_fds(fds, made);
    return rc;
}

/* ---- which way ----------------------------------------------------------------------------------------- */

static enum nigh_cuda_reason refusal(const struct nigh_cuda *cuda, enum nigh_cuda_reason other)
{
    return cuda->wsl ? NIGH_CUDA_WHY_WSL : other;
}

/* By doing, not by attributes, which promise what some drivers refuse. */
static int try_segments(struct nigh_cuda_export *export, bool may, enum nigh_cuda_reason *why)
{
    int fds[NIGH_CUDA_SEGMENTS_MAX], refused = 0, rc;

    export->wire->way = NIGH_CUDA_VMM;
    rc = open_all(export, fds, &refused);
    if (rc == -EIO)
        *why = refusal(export->cuda, may ? NIGH_CUDA_WHY_EXPORT_REFUSED : NIGH_CUDA_WHY_NO_HANDLE_TYPE);
    if (!rc)
        close_fds(fds, nigh_cuda_record_fds(export->wire));
    return rc;
}

static int export_mapped(struct nigh_cuda_export *export, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = export->cuda->driver;
    struct nigh_cuda_properties properties = {.type = 0};
    nigh_cuda_handle handle;

    if (driver->retain(&handle, (void *)(uintptr_t) export->wire->segment[0].base)) {
        *why = refusal(export->cuda, NIGH_CUDA_WHY_EXPORT_REFUSED);
        return -EIO;
    }
    driver->properties(&properties, handle);
    driver->release(handle);
    return try_segments(export, properties.handle_types & NIGH_CUDA_HANDLE_POSIX_FD, why);
}

static int export_pool(struct nigh_cuda_export *export, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = export->cuda->driver;
    int fd = -1, refused = 0, rc;

    if (!driver->pool_export) {
        *why = NIGH_CUDA_WHY_OLD_DRIVER;
        return -EIO;
    }
    rc = open_pool(driver, export->pool, &fd, &refused);
    nigh_os_close(fd);
    if (!rc && driver->pool_export_pointer((struct nigh_cuda_pool_pointer *)export->wire->handle,
                                           export->wire->segment[0].base))
        rc = -EIO;
    if (rc == -EIO)
        *why = refusal(export->cuda, NIGH_CUDA_WHY_POOL_PRIVATE);
    if (!rc)
        export->wire->way = NIGH_CUDA_POOL;
    return rc;
}

/* The base's handle: an offset pointer gives the same one by luck. */
static int export_legacy(struct nigh_cuda_export *export, enum nigh_cuda_reason *why)
{
    const struct nigh_driver *driver = export->cuda->driver;

    if (!driver->ipc_get ||
        driver->ipc_get((struct nigh_cuda_ipc_handle *)export->wire->handle, export->wire->segment[0].base)) {
        *why =
            driver->ipc_get ? refusal(export->cuda, NIGH_CUDA_WHY_EXPORT_REFUSED) : NIGH_CUDA_WHY_OLD_DRIVER;
        return -EIO;
    }
    export->wire->way = NIGH_CUDA_LEGACY;
    return 0;
}

/* -EIO: staged. Others are errors. */
static int try_ways(struct nigh_cuda_export *export, enum nigh_cuda_kind kind, bool many,
                    enum nigh_cuda_reason *why)
{
    switch (kind) {
    case NIGH_CUDA_KIND_MAPPED:
        if (!many)
            return export_mapped(export, why);
        *why = NIGH_CUDA_WHY_MANY_SEGMENTS;
        return -EIO;
    case NIGH_CUDA_KIND_POOL:
        return export_pool(export, why);
    case NIGH_CUDA_KIND_PLAIN:
        return export_legacy(export, why);
    default:
        *why = NIGH_CUDA_WHY_MANAGED;
        return -EIO;
    }
}

/* Once for each device and reason in turn, not for each buffer. */
static void log_staged(struct nigh_cuda *cuda, int ordinal, enum nigh_cuda_reason why)
{
    bool known;

    pthread_mutex_lock(&cuda->lock);
    known = cuda->devices[ordinal].why == why;
    cuda->devices[ordinal].why = why;
    pthread_mutex_unlock(&cuda->lock);
    if (!known)
        nigh_log(NIGH_LOG_WARN, "memory of CUDA device %d is staged through the host: %s", ordinal,
                 nigh_cuda_reason_text(why));
}

enum nigh_cuda_way nigh_cuda_export_way(enum nigh_cuda_kind kind)
{
    static const enum nigh_cuda_way ways[] = {
        [NIGH_CUDA_KIND_PLAIN] = NIGH_CUDA_LEGACY,
        [NIGH_CUDA_KIND_MAPPED] = NIGH_CUDA_VMM,
        [NIGH_CUDA_KIND_POOL] = NIGH_CUDA_POOL,
        [NIGH_CUDA_KIND_MANAGED] = NIGH_CUDA_STAGED,
    };

    return ways[kind];
}

/* What the driver refuses of one piece of memory it refuses of others; what stood in the way of a buffer alone says nothing. */
static void note_way(struct nigh_cuda_export *export, const struct nigh_cuda_memory *memory)
{
    struct nigh_cuda_device *device = &export->cuda->devices[memory->ordinal];

    pthread_mutex_lock(&export->cuda->lock);
    device->worked |= 1u << export->wire->way;
    if (export->wire->way)
        device->refused &= ~(1u << export->wire->way);
    else if (export->wire->reason == NIGH_CUDA_WHY_EXPORT_REFUSED)
        device->refused |= 1u << nigh_cuda_export_way(memory->kind);
    pthread_mutex_unlock(&export->cuda->lock);
}

static int choose(struct nigh_cuda_export *export, const struct nigh_cuda_memory *memory)
{
    bool many = memory->segments > NIGH_CUDA_SEGMENTS_MAX;
    enum nigh_cuda_reason why = NIGH_CUDA_WHY_NONE;
    int mode, left, rc = nigh_cuda_enter(memory->context, &mode);

    if (rc)
        return rc;
    rc = try_ways(export, memory->kind, many, &why);
    left = nigh_cuda_leave(memory->context, mode);
    if (rc == -EIO) {
        memset(export->wire->handle, 0, sizeof(export->wire->handle));
        export->wire->way = NIGH_CUDA_STAGED;
        export->wire->reason = why;
        log_staged(export->cuda, memory->ordinal, why);
        rc = 0;
    }
    if (!rc)
        note_way(export, memory);
    return rc ? rc : left;
}

/* ---- exports ------------------------------------------------------------------------------------------- */

static void free_export(struct nigh_cuda_export *export)
{
    free(export->wire);
    free(export);
}

static int make(struct nigh_cuda *cuda, const struct nigh_cuda_memory *memory, struct nigh_cuda_export **out)
{
    struct nigh_cuda_export *export = nigh_os.calloc(1, sizeof(*export));
    uint32_t segments = memory->segments > NIGH_CUDA_SEGMENTS_MAX ? 1 : memory->segments;
    int rc;

    if (!export)
        return -ENOMEM;
    export->cuda = cuda;
    export->context = memory->context;
    export->pool = memory->pool;
    export->uses = 1;
    export->bytes = nigh_cuda_record_bytes(segments);
    export->wire = nigh_os.calloc(1, export->bytes);
    if (!export->wire) {
        free(export);
        return -ENOMEM;
    }
    export->wire->version = NIGH_CUDA_RECORD_VERSION;
    export->wire->segments = segments;
    export->wire->pid_space = cuda->pid_space;
    export->wire->uuid = cuda->devices[memory->ordinal].uuid;
    for (uint32_t i = 0; i < segments; i++)
        export->wire->segment[i] = (struct nigh_cuda_wire_segment){
            memory->segment[i].base, memory->segment[i].bytes, memory->segment[i].buffer_id};
    if (segments != memory->segments) /* too many for a record: it is staged, as one */
        export->wire->segment[0].bytes = memory->at + memory->bytes - memory->segment[0].base;
    rc = choose(export, memory);
    if (rc)
        free_export(export);
    else
        *out = export;
    return rc;
}

/* The same memory, the same bytes. The lock is held. */
static struct nigh_cuda_export *find(struct nigh_cuda *cuda, const struct nigh_cuda_export *like)
{
    struct nigh_cuda_export *export = cuda->exports;

    while (export && (export->bytes != like->bytes || memcmp(export->wire, like->wire, like->bytes) != 0))
        export = export->next;
    return export;
}

int nigh_cuda_export_get(struct nigh_cuda *cuda, const struct nigh_cuda_memory *memory,
                         struct nigh_cuda_export **out)
{
    struct nigh_cuda_export *made, *known;
    int rc = make(cuda, memory, &made);

    if (rc)
        return rc;
    pthread_mutex_lock(&cuda->lock);
    known = find(cuda, made);
    if (known) {
        known->uses++;
    } else {
        made->number = ++cuda->exports_made;
        made->next = cuda->exports;
        cuda->exports = made;
    }
    pthread_mutex_unlock(&cuda->lock);
    if (known)
        free_export(made);
    else
        nigh_cuda_count(cuda, &cuda->counts.exported);
    *out = known ? known : made;
    return 0;
}

void nigh_cuda_export_use(struct nigh_cuda_export *export)
{
    pthread_mutex_lock(&export->cuda->lock);
    export->uses++;
    pthread_mutex_unlock(&export->cuda->lock);
}

bool nigh_cuda_export_is_shared(struct nigh_cuda_export *export)
{
    bool shared;

    pthread_mutex_lock(&export->cuda->lock);
    shared = export->uses > 1;
    pthread_mutex_unlock(&export->cuda->lock);
    return shared;
}

void nigh_cuda_export_put(struct nigh_cuda_export *export)
{
    struct nigh_cuda *cuda = export->cuda;
    struct nigh_cuda_export **link;
    bool last;

    pthread_mutex_lock(&cuda->lock);
    last = --export->uses == 0;
    for (link = &cuda->exports; last && *link != export; link = &(*link)->next)
        ;
    if (last)
        *link = export->next;
    pthread_mutex_unlock(&cuda->lock);
    if (last)
        free_export(export);
}

bool nigh_cuda_export_is_current(const struct nigh_cuda_export *export)
{
    const struct nigh_cuda *cuda = export->cuda;
    unsigned long long id;

    for (uint32_t i = 0; i < export->wire->segments; i++) {
        const struct nigh_cuda_wire_segment *segment = &export->wire->segment[i];

        id = 0;
        if (nigh_driver_is_forked() ||
            cuda->driver->pointer_attribute(&id, NIGH_CUDA_POINTER_BUFFER_ID, segment->base) ||
            id != segment->buffer_id)
            return false;
    }
    return true;
}

int nigh_cuda_export_open(struct nigh_cuda_export *export, int *fds)
{
    int mode, left, refused = 0, rc;

    if (!nigh_driver_is_forked() && !nigh_cuda_export_is_current(export)) {
        nigh_log(NIGH_LOG_WARN,
                 "device memory at 0x%" PRIx64
                 " was freed while it was registered: deregister it before it is freed",
                 export->wire->segment[0].base);
        return -ESTALE;
    }
    rc = nigh_cuda_enter(export->context, &mode);
    if (rc)
        return rc;
    rc = open_all(export, fds, &refused);
    if (refused)
        nigh_driver_check(export->cuda->driver, "the export of a descriptor", refused);
    left = nigh_cuda_leave(export->context, mode);
    if (!rc && left)
        close_fds(fds, nigh_cuda_record_fds(export->wire));
    return rc ? rc : left;
}
