/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/gpu/nccl/fake.c - the calls of NCCL and CUDA that nccl-ranks makes, over the host's memory and a file that all ranks map: what
 * nccl-ranks does is tried with it where there is no GPU. FAKE_BREAK=KIND makes one thing go wrong.
 */
#include "tests/gpu/nccl/call.h"

#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))

enum { RANKS = 4, SLOT = 4 << 20, POSTS = 2 * RANKS, UNHANDLED = 1, INVALID = 4 };

struct board {
    _Atomic(int) arrived;
    _Alignas(
        64) uint8_t slots[RANKS][RANKS][SLOT]; /* of a rank, for another one (a collective: for itself) */
};

struct comm {
    struct board *board;
    int ranks, rank, meetings;
};

struct post {
    struct comm *comm;
    const void *in;
    void *out;
    size_t bytes;
    int peer;
};

struct id {
    char path[128];
};

static struct post posts[POSTS];
static int posted, grouped;

static bool breaks(const char *kind)
{
    const char *broken = getenv("FAKE_BREAK");

    return broken && strcmp(broken, kind) == 0;
}

/* As NCCL_DEBUG=INFO has it: in NCCL_DEBUG_FILE, with the process's number in the place of %p. */
static void __attribute__((format(printf, 1, 2))) say(const char *format, ...)
{
    const char *name = getenv("NCCL_DEBUG_FILE");
    char path[512] = "";
    const char *number = name ? strstr(name, "%p") : NULL;
    va_list list;
    FILE *file;

    if (!number)
        return;
    snprintf(path, sizeof(path), "%.*s%d%s", (int)(number - name), name, (int)getpid(), number + 2);
    file = fopen(path, "a");
    if (!file)
        return;
    fprintf(file, "host:%d:%d [0] NCCL INFO ", (int)getpid(), (int)getpid());
    va_start(list, format);
    vfprintf(file, format, list);
    va_end(list);
    fputc('\n', file);
    fclose(file);
}

static void meet(struct comm *comm)
{
    int all = ++comm->meetings * comm->ranks;

    comm->board->arrived++;
    while (comm->board->arrived < all)
        sched_yield();
}

/* ---- NCCL ---------------------------------------------------------------------------------------------------- */

EXPORTED int ncclGetVersion(int *out);
EXPORTED const char *ncclGetErrorString(int result);
EXPORTED int ncclGetUniqueId(struct id *out);
EXPORTED int ncclCommInitRank(void **out, int ranks, struct id id, int rank);
EXPORTED int ncclCommDestroy(void *comm);
EXPORTED int ncclCommAbort(void *comm);
EXPORTED int ncclGroupStart(void);
EXPORTED int ncclGroupEnd(void);
EXPORTED int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream);
EXPORTED int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream);
EXPORTED int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm,
                           void *stream);
EXPORTED int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *comm,
                        void *stream);
EXPORTED int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *comm,
                           void *stream);
EXPORTED int ncclAllGather(const void *in, void *out, size_t count, int type, void *comm, void *stream);
EXPORTED int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *comm,
                               void *stream);

int ncclGetVersion(int *out)
{
    *out = 23099;
    return 0;
}

const char *ncclGetErrorString(int result)
{
    return result ? "an error of the fake" : "no error";
}

int ncclGetUniqueId(struct id *out)
{
    int fd;

    memset(out, 0, sizeof(*out));
    snprintf(out->path, sizeof(out->path), "%.90s/nccl-fake.XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    fd = mkstemp(out->path);
    if (fd < 0 || ftruncate(fd, sizeof(struct board)))
        return UNHANDLED;
    close(fd);
    return 0;
}

int ncclCommInitRank(void **out, int ranks, struct id id, int rank)
{
    static int life;
    struct comm *comm = calloc(1, sizeof(*comm));
    int fd = open(id.path, O_RDWR | O_CLOEXEC);
    const char *net = getenv("NCCL_NET");

    if (!comm || fd < 0 || ranks > RANKS)
        return UNHANDLED;
    comm->board = mmap(NULL, sizeof(struct board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (comm->board == MAP_FAILED)
        return UNHANDLED;
    comm->ranks = ranks;
    comm->rank = rank;
    meet(comm);
    if (rank == 0)
        unlink(id.path);
    meet(comm);
    if (rank == 0 && breaks("init"))
        return UNHANDLED;
    /* What NCCL 2.28 and 2.29 do when they have lost their plugin. */
    net = !net || (breaks("reload") && life++) ? "Socket" : net;
    say("Using network %s", net);
    say("Channel 00/0 : %d[0] -> %d[0] [send] via NET/%s/0", rank, (rank + 1) % ranks,
        breaks("path") ? "Other" : net);
    if (breaks("shared"))
        say("Channel 01/0 : %d[0] -> %d[0] via SHM/direct/direct", rank, (rank + 1) % ranks);
    *out = comm;
    return 0;
}

int ncclCommDestroy(void *number)
{
    struct comm *comm = number;

    meet(comm);
    munmap(comm->board, sizeof(struct board));
    free(comm);
    return 0;
}

int ncclCommAbort(void *comm)
{
    return ncclCommDestroy(comm);
}

int ncclGroupStart(void)
{
    grouped = 1;
    posted = 0;
    return 0;
}

static int post(struct comm *comm, const void *in, void *out, size_t bytes, int peer)
{
    if (!grouped || posted == POSTS || bytes > SLOT)
        return INVALID;
    posts[posted++] = (struct post){comm, in, out, bytes, peer};
    return 0;
}

int ncclSend(const void *data, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)stream;
    return post(comm, data, NULL, count * type_bytes((enum type)type), peer);
}

int ncclRecv(void *data, size_t count, int type, int peer, void *comm, void *stream)
{
    (void)stream;
    return post(comm, NULL, data, count * type_bytes((enum type)type), peer);
}

int ncclGroupEnd(void)
{
    struct comm *comm = posted ? posts[0].comm : NULL;

    grouped = 0;
    if (!comm)
        return INVALID;
    for (int i = 0; i < posted; i++)
        if (posts[i].in)
            memcpy(comm->board->slots[comm->rank][posts[i].peer], posts[i].in, posts[i].bytes);
    meet(comm);
    for (int i = 0; i < posted; i++)
        if (posts[i].out)
            memcpy(posts[i].out, comm->board->slots[posts[i].peer][comm->rank], posts[i].bytes);
    meet(comm);
    return 0;
}

/* Every rank's input is in its slot; the output is what call.c expects of such inputs: it is made out of them element by element. */
static double element(const struct comm *comm, int rank, int type, size_t i)
{
    const uint8_t *slot = comm->board->slots[rank][rank];

    return type == UINT8     ? slot[i]
           : type == INT32   ? ((const int32_t *)slot)[i]
           : type == INT64   ? (double)((const int64_t *)slot)[i]
           : type == FLOAT32 ? ((const float *)slot)[i]
                             : ((const double *)slot)[i];
}

static void put(void *out, int type, size_t i, double value)
{
    if (type == UINT8)
        ((uint8_t *)out)[i] = (uint8_t)(uint64_t)value;
    else if (type == INT32)
        ((int32_t *)out)[i] = (int32_t)value;
    else if (type == INT64)
        ((int64_t *)out)[i] = (int64_t)value;
    else if (type == FLOAT32)
        ((float *)out)[i] = (float)value;
    else
        ((double *)out)[i] = value;
}

static double fold(const struct comm *comm, int type, int op, size_t i)
{
    double value = element(comm, 0, type, i);

    for (int rank = 1; rank < comm->ranks; rank++) {
        double more = element(comm, rank, type, i);

        if (op == PROD)
            value *= more;
        else if (op == MAX || op == MIN)
            value = (op == MAX) == (more > value) ? more : value;
        else
            value += more;
    }
    return op == AVG ? value / comm->ranks : value;
}

static int show(struct comm *comm, const void *in, size_t bytes)
{
    if (grouped || bytes > SLOT)
        return INVALID;
    memcpy(comm->board->slots[comm->rank][comm->rank], in, bytes);
    meet(comm);
    return 0;
}

/* Elements `from` and on, reduced. */
static int reduce(struct comm *comm, const void *in, void *out, size_t sends, size_t from, size_t count,
                  int type, int op)
{
    int rc = show(comm, in, sends * type_bytes((enum type)type));

    for (size_t i = 0; !rc && i < count; i++)
        put(out, type, i, fold(comm, type, op, from + i));
    if (!rc && count && breaks("value"))
        put(out, type, count - 1, 77);
    if (!rc && count && breaks("behind"))
        ((uint8_t *)out)[count * type_bytes((enum type)type)] = 0;
    if (!rc)
        meet(comm);
    return rc;
}

int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, void *comm, void *stream)
{
    (void)stream;
    if (breaks("crash"))
        abort();
    return reduce(comm, in, out, count, 0, count, type, op);
}

int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, void *number,
               void *stream)
{
    struct comm *comm = number;

    (void)stream;
    return reduce(comm, in, out, count, 0, comm->rank == root ? count : 0, type, op);
}

int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, void *number, void *stream)
{
    struct comm *comm = number;

    (void)stream;
    return reduce(comm, in, out, count * (size_t)comm->ranks, count * (size_t)comm->rank, count, type, op);
}

int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, void *number, void *stream)
{
    size_t bytes = count * type_bytes((enum type)type);
    struct comm *comm = number;
    int rc = show(comm, in, bytes);

    (void)stream;
    if (!rc) {
        memcpy(out, comm->board->slots[root][root], bytes);
        meet(comm);
    }
    return rc;
}

int ncclAllGather(const void *in, void *out, size_t count, int type, void *number, void *stream)
{
    size_t bytes = count * type_bytes((enum type)type);
    struct comm *comm = number;
    int rc = show(comm, in, bytes);

    (void)stream;
    for (int rank = 0; !rc && rank < comm->ranks; rank++)
        memcpy((uint8_t *)out + bytes * (size_t)rank, comm->board->slots[rank][rank], bytes);
    if (!rc)
        meet(comm);
    return rc;
}

/* ---- CUDA ---------------------------------------------------------------------------------------------------- */

EXPORTED int cuInit(unsigned flags);
EXPORTED int cuDeviceGetCount(int *out);
EXPORTED int cuDeviceGet(int *out, int number);
EXPORTED int cuDeviceGetName(char *out, int room, int device);
EXPORTED int cuDevicePrimaryCtxRetain(void **out, int device);
EXPORTED int cuCtxSetCurrent(void *context);
EXPORTED int cuMemAlloc_v2(uint64_t *out, size_t bytes);
EXPORTED int cuMemFree_v2(uint64_t memory);
EXPORTED int cuMemsetD8_v2(uint64_t memory, unsigned char value, size_t bytes);
EXPORTED int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes);
EXPORTED int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes);
EXPORTED int cuStreamCreate(void **out, unsigned flags);
EXPORTED int cuStreamSynchronize(void *stream);

int cuInit(unsigned flags)
{
    return flags ? INVALID : 0;
}

int cuDeviceGetCount(int *out)
{
    *out = breaks("devices") ? 0 : 1;
    return 0;
}

int cuDeviceGet(int *out, int number)
{
    *out = number;
    return 0;
}

int cuDeviceGetName(char *out, int room, int device)
{
    (void)device;
    snprintf(out, (size_t)room, "fake");
    return 0;
}

int cuDevicePrimaryCtxRetain(void **out, int device)
{
    (void)device;
    *out = posts;
    return 0;
}

int cuCtxSetCurrent(void *context)
{
    return context ? 0 : INVALID;
}

int cuMemAlloc_v2(uint64_t *out, size_t bytes)
{
    *out = (uint64_t)(uintptr_t)malloc(bytes);
    return *out ? 0 : 2;
}

int cuMemFree_v2(uint64_t memory)
{
    free((void *)(uintptr_t)memory);
    return 0;
}

int cuMemsetD8_v2(uint64_t memory, unsigned char value, size_t bytes)
{
    memset((void *)(uintptr_t)memory, value, bytes);
    return 0;
}

int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}

int cuStreamCreate(void **out, unsigned flags)
{
    *out = posts;
    return flags == 1 ? 0 : INVALID;
}

int cuStreamSynchronize(void *stream)
{
    (void)stream;
    return 0;
}
