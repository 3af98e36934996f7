/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of an MPI that nigh-perf compares itself with. Compiled by that MPI's own mpicc when the
 * comparison is asked for, so that one source serves all of them and nigh links none. By hand:
 *     mpicc -O2 -I. -D_GNU_SOURCE tools/perf/{peer_{mpi,rank,hand,launch,device},cuda,cuda_sides}.c && mpirun -n 2 ./a.out --cpus 0,1 */
#include <dlfcn.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>

#include "tools/perf/peer_rank.h"

#define OP_COLLECTIVES 1
#define OP_WINDOW_MAX  256

static MPI_Request requests[OP_WINDOW_MAX];

static inline void op_send(struct peer_rank *self, const void *buffer, size_t bytes, int to, int tag)
{
    (void)self;
    MPI_Send(buffer, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD);
}

static inline void op_recv(struct peer_rank *self, void *buffer, size_t bytes, int from, int tag)
{
    (void)self;
    MPI_Recv(buffer, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

static inline void op_isend(struct peer_rank *self, uint32_t slot, const void *buffer, size_t bytes, int to,
                            int tag)
{
    (void)self;
    MPI_Isend(buffer, (int)bytes, MPI_BYTE, to, tag, MPI_COMM_WORLD, &requests[slot]);
}

static inline void op_irecv(struct peer_rank *self, uint32_t slot, void *buffer, size_t bytes, int from,
                            int tag)
{
    (void)self;
    MPI_Irecv(buffer, (int)bytes, MPI_BYTE, from, tag, MPI_COMM_WORLD, &requests[slot]);
}

static inline void op_waitall(struct peer_rank *self, uint32_t count)
{
    (void)self;
    MPI_Waitall((int)count, requests, MPI_STATUSES_IGNORE);
}

static inline void op_barrier(struct peer_rank *self)
{
    (void)self;
    MPI_Barrier(MPI_COMM_WORLD);
}

/* `bytes` of a block; a broadcast's root sends from `in`. */
static inline void op_call(struct peer_rank *self, enum perf_operation_kind kind, void *in, void *out,
                           size_t bytes)
{
    int n = (int)bytes, floats = n / (int)sizeof(float);
    MPI_Comm world = MPI_COMM_WORLD;

    switch (kind) {
    case PERF_OP_BARRIER:
        MPI_Barrier(world);
        break;
    case PERF_OP_BROADCAST:
        MPI_Bcast(self->rank ? out : in, n, MPI_BYTE, 0, world);
        break;
    case PERF_OP_REDUCE:
        MPI_Reduce(in, out, floats, MPI_FLOAT, MPI_SUM, 0, world);
        break;
    case PERF_OP_ALLREDUCE:
        MPI_Allreduce(in, out, floats, MPI_FLOAT, MPI_SUM, world);
        break;
    case PERF_OP_GATHER:
        MPI_Gather(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world);
        break;
    case PERF_OP_SCATTER:
        MPI_Scatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world);
        break;
    case PERF_OP_ALLGATHER:
        MPI_Allgather(in, n, MPI_BYTE, out, n, MPI_BYTE, world);
        break;
    case PERF_OP_ALLTOALL:
        MPI_Alltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, world);
        break;
    case PERF_OP_REDUCE_SCATTER:
        MPI_Reduce_scatter_block(in, out, floats, MPI_FLOAT, MPI_SUM, world);
        break;
    case PERF_OP_SCAN:
        MPI_Scan(in, out, floats, MPI_FLOAT, MPI_SUM, world);
        break;
    case PERF_OP_EXSCAN:
        MPI_Exscan(in, out, floats, MPI_FLOAT, MPI_SUM, world);
        break;
    case PERF_OPERATIONS:
        break;
    }
}

/* The same, until op_waitall(self, 1). */
static inline void op_begin(struct peer_rank *self, enum perf_operation_kind kind, void *in, void *out,
                            size_t bytes)
{
    int n = (int)bytes, floats = n / (int)sizeof(float);
    MPI_Request *r = requests;
    MPI_Comm world = MPI_COMM_WORLD;

    switch (kind) {
    case PERF_OP_BARRIER:
        MPI_Ibarrier(world, r);
        break;
    case PERF_OP_BROADCAST:
        MPI_Ibcast(self->rank ? out : in, n, MPI_BYTE, 0, world, r);
        break;
    case PERF_OP_REDUCE:
        MPI_Ireduce(in, out, floats, MPI_FLOAT, MPI_SUM, 0, world, r);
        break;
    case PERF_OP_ALLREDUCE:
        MPI_Iallreduce(in, out, floats, MPI_FLOAT, MPI_SUM, world, r);
        break;
    case PERF_OP_GATHER:
        MPI_Igather(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world, r);
        break;
    case PERF_OP_SCATTER:
        MPI_Iscatter(in, n, MPI_BYTE, out, n, MPI_BYTE, 0, world, r);
        break;
    case PERF_OP_ALLGATHER:
        MPI_Iallgather(in, n, MPI_BYTE, out, n, MPI_BYTE, world, r);
        break;
    case PERF_OP_ALLTOALL:
        MPI_Ialltoall(in, n, MPI_BYTE, out, n, MPI_BYTE, world, r);
        break;
    case PERF_OP_REDUCE_SCATTER:
        MPI_Ireduce_scatter_block(in, out, floats, MPI_FLOAT, MPI_SUM, world, r);
        break;
    case PERF_OP_SCAN:
        MPI_Iscan(in, out, floats, MPI_FLOAT, MPI_SUM, world, r);
        break;
    case PERF_OP_EXSCAN:
        MPI_Iexscan(in, out, floats, MPI_FLOAT, MPI_SUM, world, r);
        break;
    case PERF_OPERATIONS:
        break;
    }
}

#include "tools/perf/peer_patterns.h"

static void share(struct peer_rank *self, void *bytes, size_t size)
{
    (void)self;
    MPI_Bcast(bytes, (int)size, MPI_BYTE, 0, MPI_COMM_WORLD);
}

/* A memfd of rank 0, opened by the others through /proc: no name that could be left behind, and the same
 * under every launcher (some close inherited descriptors). */
static struct peer_shared *map_shared(int rank, int ranks)
{
    int where[2] = {getpid(), -1}, fd = -1;
    char path[64];

    if (rank == 0)
        where[1] = fd = peer_shared_create(ranks);
    MPI_Bcast(where, 2, MPI_INT, 0, MPI_COMM_WORLD);
    if (rank != 0 && where[1] >= 0) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", where[0], where[1]);
        fd = open(path, O_RDWR | O_CLOEXEC);
        if (fd < 0)
            perror(path);
    }
    struct peer_shared *shared = fd < 0 ? NULL : peer_shared_map(fd, ranks);
    MPI_Barrier(MPI_COMM_WORLD);
    if (fd >= 0)
        close(fd);
    return shared;
}

/* Open MPI, MPICH and those made of them have this call where they were built with CUDA, most also where not. */
static int takes_devices(void)
{
    int (*query)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "MPIX_Query_cuda_support");

    return query && query();
}

int main(int argc, char **argv)
{
    struct peer_options options;
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length, early;

    if (argc > 2 && !strcmp(argv[1], "--launch"))
        return peer_launch(argv + 2);
    if (peer_options_read(&options, argc, argv))
        return 2;
    early = peer_rank_from_environment();
    if (early >= 0 && peer_pin(&options, early))
        return 2;
    const char *why = options.cuda ? peer_device_open(options.cuda) : NULL;
    if (why)
        return peer_cannot(&options, why);
    MPI_Init(&argc, &argv);

    struct peer_rank self = {.name = options.name ? options.name : "mpi", .run = run_pattern, .share = share};
    MPI_Comm_rank(MPI_COMM_WORLD, &self.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &self.ranks);
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n")] = 0;
    self.version = version;
    if (early != self.rank && peer_pin(&options, self.rank))
        MPI_Abort(MPI_COMM_WORLD, 2);
    if (options.cuda && !takes_devices()) {
        int status = peer_cannot(
            &options, "it takes no buffers on CUDA devices: MPIX_Query_cuda_support() says so or is missing");
        MPI_Finalize();
        return status;
    }
    self.shared = map_shared(self.rank, self.ranks);
    if (!self.shared)
        MPI_Abort(MPI_COMM_WORLD, 2);
    int status = peer_rank_main(&self, &options);
    if (status)
        MPI_Abort(MPI_COMM_WORLD, status);
    MPI_Finalize();
    return 0;
}
