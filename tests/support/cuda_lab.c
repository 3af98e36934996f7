/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda_lab.c - see cuda_lab.h. */
#include "tests/support/cuda_lab.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct lab lab;

struct pool_properties {
    int type, handle_types;
    struct nigh_cuda_location location;
    void *meta;
    size_t most;
    unsigned short usage;
    unsigned char reserved[54];
};

/* Calls that nigh has no use for. */
static struct {
    int (*alloc)(nigh_cuda_ptr *at, size_t bytes);
    int (*free)(nigh_cuda_ptr at);
    int (*context_create)(void **context, unsigned flags, int device);
    int (*context_destroy)(void *context);
    int (*create)(nigh_cuda_handle *handle, size_t bytes, const struct nigh_cuda_properties *properties,
                  unsigned long long flags);
    int (*pool_create)(void **pool, const struct pool_properties *properties);
    int (*pool_alloc)(nigh_cuda_ptr *at, size_t bytes, void *pool, void *stream);
} more;

void lab_must(bool holds, const char *what, const char *file, int line)
{
    if (holds)
        return;
    fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
    _exit(1);
}

void lab_is(long value, long wanted, const char *what, const char *file, int line)
{
    if (value == wanted)
        return;
    fprintf(stderr, "%s:%d: %s is %ld, not %ld\n", file, line, what, value, wanted);
    _exit(1);
}

/* ---- the driver ---------------------------------------------------------------------------------------- */

static void *symbol(void *object, const char *name)
{
    void *found = dlsym(object, name);

    if (!found)
        fprintf(stderr, "the fake driver has no %s\n", name);
    MUST(found);
    return found;
}

#define TAKE(slot, name)                             \
    do {                                             \
        void *found_ = symbol(object, name);         \
        memcpy(&more.slot, &found_, sizeof(found_)); \
    } while (0)

static void load(void)
{
    const char *build = getenv("NIGH_BUILDDIR"), *why;
    char path[4096];
    void *object;

    snprintf(path, sizeof(path), "%s/tests/support/.libs/libcuda.so.1", build ? build : ".");
    object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!object)
        fprintf(stderr, "cannot load the fake driver: %s\n", dlerror());
    MUST(object);
    lab.test = symbol(object, TEST_CUDA_SYMBOL);
    lab.fake = symbol(object, FAKE_CUDA_SYMBOL);
    TAKE(alloc, "cuMemAlloc_v2");
    TAKE(free, "cuMemFree_v2");
    TAKE(context_create, "cuCtxCreate_v2");
    TAKE(context_destroy, "cuCtxDestroy_v2");
    TAKE(create, "cuMemCreate");
    TAKE(pool_create, "cuMemPoolCreate");
    TAKE(pool_alloc, "cuMemAllocFromPoolAsync");
    lab.driver = nigh_driver_open(&why);
    MUST(lab.driver);
}

void lab_begin(void)
{
    const struct nigh_cuda_options options = {.staging = NULL};
    const char *why;

    if (!lab.test)
        load();
    IS(nigh_cuda_open(&options, &lab.cuda, &why), 0);
}

void lab_end_keeping(void)
{
    nigh_cuda_close(lab.cuda);
    lab.cuda = NULL;
}

void lab_end(void)
{
    const char *leaks;

    lab_end_keeping();
    leaks = lab.test->leaks();
    if (leaks)
        fprintf(stderr, "%s\n", leaks);
    MUST(!leaks);
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static void push(int device)
{
    void *context;

    IS(lab.driver->primary_retain(&context, device), 0);
    IS(lab.driver->push(context), 0);
}

static void pop(int device)
{
    void *context;

    IS(lab.driver->pop(&context), 0);
    IS(lab.driver->primary_release(device), 0);
}

void lab_map_at(uint64_t at, int device, int handle_types)
{
    struct nigh_cuda_properties properties = {.type = NIGH_CUDA_ALLOCATION_PINNED,
                                              .handle_types = handle_types};
    struct nigh_cuda_access access = {.flags = NIGH_CUDA_ACCESS_READ_WRITE};
    nigh_cuda_handle handle;

    properties.location.type = device < 0 ? NIGH_CUDA_LOCATION_HOST : NIGH_CUDA_LOCATION_DEVICE;
    properties.location.id = device < 0 ? 0 : device;
    access.location.type = NIGH_CUDA_LOCATION_DEVICE;
    access.location.id = properties.location.id;
    IS(more.create(&handle, LAB_PIECE, &properties, 0), 0);
    IS(lab.driver->map(at, LAB_PIECE, 0, handle, 0), 0);
    IS(lab.driver->set_access(at, LAB_PIECE, &access, 1), 0);
    IS(lab.driver->release(handle), 0);
}

uint64_t lab_map(const int *devices, unsigned count, int handle_types)
{
    nigh_cuda_ptr at;

    IS(lab.driver->reserve(&at, (size_t)count * LAB_PIECE, 0, 0, 0), 0);
    for (unsigned i = 0; i < count; i++)
        if (devices[i] != -1)
            lab_map_at(at + (uint64_t)i * LAB_PIECE, devices[i], handle_types);
    return at;
}

void lab_unmap(uint64_t at, const int *devices, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (devices[i] != -1)
            IS(lab.driver->unmap(at + (uint64_t)i * LAB_PIECE, LAB_PIECE), 0);
    IS(lab.driver->unreserve(at, (size_t)count * LAB_PIECE), 0);
}

uint64_t lab_alloc(int device, size_t bytes)
{
    nigh_cuda_ptr at;

    push(device);
    IS(more.alloc(&at, bytes), 0);
    pop(device);
    return at;
}

uint64_t lab_alloc_here(size_t bytes)
{
    nigh_cuda_ptr at;

    IS(more.alloc(&at, bytes), 0);
    return at;
}

void *lab_context_create(int device)
{
    void *context, *popped;

    IS(more.context_create(&context, 0, device), 0);
    IS(lab.driver->pop(&popped), 0);
    return context;
}

void lab_context_destroy(void *context)
{
    IS(more.context_destroy(context), 0);
}

void lab_free(uint64_t at)
{
    push(0);
    IS(more.free(at), 0);
    pop(0);
}

void *lab_pool(int device)
{
    struct pool_properties properties = {.type = NIGH_CUDA_ALLOCATION_PINNED,
                                         .handle_types = NIGH_CUDA_HANDLE_POSIX_FD,
                                         .location = {NIGH_CUDA_LOCATION_DEVICE, device}};
    void *pool;

    IS(more.pool_create(&pool, &properties), 0);
    return pool;
}

void lab_pool_end(void *pool)
{
    IS(lab.driver->pool_destroy(pool), 0);
}

uint64_t lab_pool_alloc(void *pool, size_t bytes)
{
    nigh_cuda_ptr at;

    push(0);
    IS(more.pool_alloc(&at, bytes, pool, NULL), 0);
    pop(0);
    return at;
}

static unsigned char byte_of(size_t place, unsigned seed)
{
    return (unsigned char)((place * 31 + (place >> 8) * 7 + (place >> 16)) ^ seed * 101);
}

void lab_fill(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = byte_of(i, seed);
}

bool lab_filled(const void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)memory)[i] != byte_of(i, seed))
            return false;
    return true;
}

/* Not of malloc(), which would take the addresses that device memory has just left. One thread at a time. */
static char scratch[8 << 20];

void lab_put(uint64_t at, size_t bytes, unsigned seed)
{
    MUST(bytes <= sizeof(scratch));
    lab_fill(scratch, bytes, seed);
    lab.test->put((void *)(uintptr_t)at, scratch, bytes);
}

bool lab_has(uint64_t at, size_t bytes, unsigned seed)
{
    MUST(bytes <= sizeof(scratch));
    lab.test->get(scratch, (void *)(uintptr_t)at, bytes);
    return lab_filled(scratch, bytes, seed);
}

/* ---- nigh ---------------------------------------------------------------------------------------------- */

struct nigh_cuda_memory *lab_look(uint64_t at, size_t bytes)
{
    struct nigh_cuda_memory *memory = NULL;

    IS(nigh_cuda_look(lab.cuda, (void *)(uintptr_t)at, bytes, &memory), 0);
    MUST(memory);
    return memory;
}

struct nigh_cuda_export *lab_export(uint64_t at, size_t bytes)
{
    struct nigh_cuda_memory *memory = lab_look(at, bytes);
    struct nigh_cuda_export *export;

    IS(nigh_cuda_export_get(lab.cuda, memory, &export), 0);
    free(memory);
    return export;
}

struct nigh_cuda_context *lab_context(int device)
{
    struct nigh_cuda_context *context;

    IS(nigh_cuda_context_find(lab.cuda, NULL, device, &context), 0);
    return context;
}

int lab_copy(struct nigh_cuda_copy *copy)
{
    int rc = -EAGAIN;

    for (int i = 0; rc == -EAGAIN && i < LAB_STEPS; i++) {
        rc = nigh_cuda_copy_step(copy);
        sched_yield();
    }
    MUST(rc != -EAGAIN);
    return rc;
}

int lab_copy_on_device(struct nigh_cuda_context *context, uint64_t to, uint64_t from, size_t bytes)
{
    struct nigh_cuda_copy copy;

    nigh_cuda_copy_begin(&copy, context, context, NIGH_CUDA_COPY_ON_DEVICE, to, from, bytes, false);
    return lab_copy(&copy);
}

/* ---- two processes ------------------------------------------------------------------------------------- */

static pid_t start(void (*run)(int socket), const int *sockets, int mine)
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child)
        return child;
    alarm(150);
    close(sockets[!mine]);
    run(sockets[mine]);
    fflush(NULL);
    _exit(0);
}

void lab_pair(void (*exporter)(int socket), void (*importer)(int socket))
{
    int sockets[2], status[2];
    pid_t children[2];

    fflush(NULL);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    children[0] = start(exporter, sockets, 0);
    children[1] = start(importer, sockets, 1);
    close(sockets[0]);
    close(sockets[1]);
    for (int i = 0; i < 2; i++)
        assert_int_equal(waitpid(children[i], &status[i], 0), children[i]);
    assert_int_equal(status[0], 0);
    assert_int_equal(status[1], 0);
}

void lab_say(int socket, uint64_t value)
{
    IS(send(socket, &value, sizeof(value), MSG_NOSIGNAL), sizeof(value));
}

uint64_t lab_hear(int socket)
{
    uint64_t value = 0;

    IS(recv(socket, &value, sizeof(value), 0), sizeof(value));
    return value;
}

struct head {
    uint64_t number, offset;
    uint32_t bytes, count;
};

void lab_send(int socket, struct nigh_cuda_export *export, uint64_t at)
{
    uint32_t count = nigh_cuda_record_fds(export->wire);
    struct head head = {export->number, at - export->wire->segment[0].base, (uint32_t) export->bytes, count};
    struct iovec iov[] = {{&head, sizeof(head)}, {export->wire, export->bytes}};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(NIGH_CUDA_SEGMENTS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = iov, .msg_iovlen = 2};
    struct nigh_settling settling = {.until_ns = 0};
    int fds[NIGH_CUDA_SEGMENTS_MAX], rc = -EAGAIN;

    while (rc == -EAGAIN)
        rc = nigh_cuda_settle(export->context, &settling);
    IS(rc, 0);
    IS(nigh_cuda_export_open(export, fds), 0);
    if (count) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
        memset(&control, 0, sizeof(control));
        CMSG_FIRSTHDR(&message)->cmsg_level = SOL_SOCKET;
        CMSG_FIRSTHDR(&message)->cmsg_type = SCM_RIGHTS;
        CMSG_FIRSTHDR(&message)->cmsg_len = CMSG_LEN(count * sizeof(int));
        memcpy(CMSG_DATA(CMSG_FIRSTHDR(&message)), fds, count * sizeof(int));
    }
    IS(sendmsg(socket, &message, MSG_NOSIGNAL), sizeof(head) + export->bytes);
    for (uint32_t i = 0; i < count; i++)
        close(fds[i]);
}

void lab_receive(int socket, struct lab_packet *packet)
{
    struct head head;
    struct iovec iov[] = {{&head, sizeof(head)}, {packet->record, sizeof(packet->record)}};
    union {
        struct cmsghdr align;
        char room[CMSG_SPACE(NIGH_CUDA_SEGMENTS_MAX * sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = iov, .msg_iovlen = 2, .msg_control = &control, .msg_controllen = sizeof(control)};

    MUST(recvmsg(socket, &message, MSG_CMSG_CLOEXEC) > (ssize_t)sizeof(head));
    packet->number = head.number;
    packet->offset = head.offset;
    packet->bytes = head.bytes;
    packet->count = head.count;
    if (head.count)
        memcpy(packet->fds, CMSG_DATA(CMSG_FIRSTHDR(&message)), head.count * sizeof(int));
}

int lab_import(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, struct lab_packet *packet,
               struct nigh_cuda_mapping **mapping, enum nigh_cuda_reason *why)
{
    return nigh_cuda_import(peer, context, packet->number, packet->record, packet->bytes, packet->fds,
                            packet->count, mapping, why);
}

unsigned lab_fds(void)
{
    DIR *open = opendir("/proc/self/fd");
    unsigned count = 0;

    while (readdir(open))
        count++;
    closedir(open);
    return count;
}
