/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/cuda/object.c - device memory: a memfd, with a page behind the bytes that says what it is. Whoever holds it
 * holds a read lock on an open file description of its own: so its maker knows, also after a death, whether it is free.
 */
#include "tests/support/cuda/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ABOUT_BYTES = 4096 };

#define MAGIC UINT64_C(0x6e69676847505521)

struct about {
    uint64_t magic, bytes, id;
    int32_t kind, device, handle_types;
    struct cu_location location;
};

static struct object *objects;

static number next_id(void)
{
    static number made;

    return (number)getpid() << 32 | ++made;
}

static size_t whole(size_t bytes)
{
    return (bytes + 4095) / 4096 * 4096;
}

/* The driver's room is the machine's: no error is expected here. */
static void must(bool well, const char *what)
{
    if (well)
        return;
    fprintf(stderr, "the fake CUDA driver cannot %s: %s\n", what, strerror(errno));
    abort();
}

static int reopened(int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

static int lock_of(int fd, int command, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    int rc = fcntl(fd, command, &lock);

    return rc || command != F_OFD_GETLK ? rc : lock.l_type != F_UNLCK;
}

static void map_view(struct object *object, int fd)
{
    struct stat status;

    must(fstat(fd, &status) == 0, "look at its memory");
    object->inode = status.st_ino;
    object->view =
        mmap(NULL, whole(object->bytes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    must(object->view != MAP_FAILED, "map its memory");
}

static struct object *added(const struct object *object)
{
    struct object *made = malloc(sizeof(*made));

    must(made, "remember its memory");
    *made = *object;
    made->uses = 1;
    made->next = objects;
    objects = made;
    return made;
}

int fake_object_create(enum object_kind kind, size_t bytes, int device, struct object **out)
{
    struct object object = {.kind = kind, .device = device, .bytes = bytes, .id = next_id()};
    size_t counted = kind == OBJECT_POOL ? 0 : bytes;

    if (!bytes || bytes > fake.memory || fake_object_used(device) + counted > fake.memory)
        return bytes ? CU_OUT_OF_MEMORY : CU_INVALID_VALUE;
    object.fd = memfd_create("fake device", MFD_CLOEXEC);
    must(object.fd >= 0 && ftruncate(object.fd, (off_t)(whole(bytes) + ABOUT_BYTES)) == 0, "make memory");
    map_view(&object, object.fd);
    *out = added(&object);
    return CU_SUCCESS;
}

/* Written when it is first exported: by then all of it is settled. */
static void write_about(const struct object *object)
{
    struct about about;

    memset(&about, 0, sizeof(about));
    about.magic = MAGIC;
    about.bytes = object->bytes;
    about.id = object->id;
    about.kind = object->kind;
    about.device = object->device;
    about.handle_types = object->handle_types;
    about.location = object->location;
    must(pwrite(object->fd, &about, sizeof(about), (off_t)whole(object->bytes)) == sizeof(about),
         "describe its memory");
}

int fake_object_export(struct object *object, int *fd)
{
    int made;

    if (object->fd < 0)
        return CU_NOT_SUPPORTED;
    write_about(object);
    made = reopened(object->fd);
    if (made < 0)
        return CU_OPERATING_SYSTEM;
    must(lock_of(made, F_OFD_SETLK, F_RDLCK) == 0, "lock its memory");
    object->exported = true;
    *fd = made;
    return CU_SUCCESS;
}

static bool read_about(int fd, struct about *about)
{
    struct stat status;
    off_t at;

    if (fstat(fd, &status) || !S_ISREG(status.st_mode) || status.st_size < 2 * ABOUT_BYTES)
        return false;
    at = status.st_size - ABOUT_BYTES;
    return pread(fd, about, sizeof(*about), at) == sizeof(*about) && about->magic == MAGIC &&
           whole(about->bytes) == (size_t)at;
}

/* The mapping keeps the description, and with it the lock, after the descriptor is closed. */
int fake_object_import(enum object_kind kind, int fd, struct object **out)
{
    struct about about;
    int own;

    if (fd < 0 || !read_about(fd, &about) || about.kind != (int)kind)
        return CU_INVALID_VALUE;
    own = reopened(fd);
    if (own < 0)
        return CU_OPERATING_SYSTEM;
    must(lock_of(own, F_OFD_SETLK, F_RDLCK) == 0, "lock its memory");
    struct object object = {.kind = kind,
                            .fd = -1,
                            .device = about.device,
                            .handle_types = about.handle_types,
                            .location = about.location,
                            .bytes = about.bytes,
                            .imported = true,
                            .id = about.id};
    map_view(&object, own);
    if (object.device < 0) /* for the CPU's mapping */
        object.fd = own;
    else
        close(own);
    *out = added(&object);
    return CU_SUCCESS;
}

void fake_object_use(struct object *object)
{
    object->uses++;
}

static void forget(struct object *object)
{
    struct object **at = &objects;

    while (*at != object)
        at = &(*at)->next;
    *at = object->next;
    if (object->fd >= 0)
        close(object->fd);
    free(object);
}

static bool is_held(const struct object *object)
{
    return lock_of(object->fd, F_OFD_GETLK, F_WRLCK) == 1;
}

/* What is still held elsewhere stays on the list: it takes room on the device. Under another number: who knows it by the
 * old one, from a handle, must not find it any more. */
static void retire(struct object *object)
{
    int moved = fcntl(object->fd, F_DUPFD_CLOEXEC, 0);

    must(moved >= 0, "keep its memory");
    close(object->fd);
    object->fd = moved;
}

void fake_object_drop(struct object *object)
{
    if (--object->uses)
        return;
    munmap(object->view, whole(object->bytes));
    object->view = NULL;
    if (object->exported && is_held(object))
        retire(object);
    else
        forget(object);
}

size_t fake_object_used(int device)
{
    struct object *next;
    size_t bytes = device < 0 ? 0 : fake_pool_used(device);

    for (struct object *object = objects; object; object = next) {
        next = object->next;
        if (!object->uses && !is_held(object))
            forget(object);
        else if (object->device == device && !object->imported && object->kind != OBJECT_POOL)
            bytes += object->bytes;
    }
    return bytes;
}
