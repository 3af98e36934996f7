/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Each collective as a program calls it, which hosts/mpi answers, against the MPI's own by the profiling interface: blocking and as
 * requests, of all types and operations, on several communicators, with roots, in place, and of types with gaps. Rank 0 says how
 * many calls differ. What a seed chooses is the same in all ranks.
 *     compared ROUNDS [SEED]
 */
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define RANKS_MOST 64
#define BLOCK_MOST 20000 /* bytes */
#define BYTES      ((size_t)BLOCK_MOST * RANKS_MOST)
#define COMMS      4

static MPI_Comm comm;
static int me, ranks;
static unsigned long long state;

/* Alike in all ranks. */
static unsigned any(unsigned below)
{
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(state >> 33) % below;
}

/* ---- types and operations ------------------------------------------------------------------------------ */

struct type {
    const char *name;
    MPI_Datatype type;
    int bytes; /* of an element in memory */
    enum { INTEGER, FLOATING, COMPLEX, TRUTH, BITS, PAIR, MOVED } kind;
};
static struct type types[40];
static int type_count;

static void add(const char *name, MPI_Datatype type, int bytes, int kind)
{
    types[type_count++] = (struct type){name, type, bytes, kind};
}
#define ADD(type, c, kind) add(#type, type, (int)sizeof(c), kind)

static void make_types(void)
{
    MPI_Datatype type;

    ADD(MPI_INT, int, INTEGER);
    ADD(MPI_DOUBLE, double, FLOATING);
    ADD(MPI_FLOAT, float, FLOATING);
    ADD(MPI_LONG, long, INTEGER);
    ADD(MPI_SHORT, short, INTEGER);
    ADD(MPI_UNSIGNED_SHORT, short, INTEGER);
    ADD(MPI_SIGNED_CHAR, char, INTEGER);
    ADD(MPI_UNSIGNED_CHAR, char, INTEGER);
    ADD(MPI_UNSIGNED, int, INTEGER);
    ADD(MPI_UNSIGNED_LONG, long, INTEGER);
    ADD(MPI_UINT64_T, long, INTEGER);
    ADD(MPI_INT8_T, char, INTEGER);
    ADD(MPI_UINT16_T, short, INTEGER);
    ADD(MPI_AINT, MPI_Aint, INTEGER);
    ADD(MPI_COUNT, MPI_Count, INTEGER);
    ADD(MPI_LONG_DOUBLE, long double, FLOATING);
    ADD(MPI_C_FLOAT_COMPLEX, float[2], COMPLEX);
    ADD(MPI_C_DOUBLE_COMPLEX, double[2], COMPLEX);
    ADD(MPI_C_BOOL, char, TRUTH);
    ADD(MPI_BYTE, char, BITS);
    ADD(MPI_2INT, int[2], PAIR);
    ADD(MPI_DOUBLE_INT, double[2], PAIR);
    ADD(MPI_FLOAT_INT, int[2], PAIR);
    ADD(MPI_LONG_INT, long[2], PAIR);
    ADD(MPI_SHORT_INT, int[2], PAIR);
    ADD(MPI_CHAR, char, MOVED);
    MPI_Type_contiguous(3, MPI_INT, &type);
    MPI_Type_commit(&type);
    add("three integers", type, 12, MOVED);
    MPI_Type_vector(2, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    add("two integers with a gap", type, 12, MOVED);
    MPI_Type_create_resized(MPI_DOUBLE, 0, 24, &type);
    MPI_Type_commit(&type);
    add("doubles apart", type, 24, MOVED);
}

static MPI_Op program_op;

/* Maps x -> mx + c of 16 bits each, one behind the other: that does not commute. */
static void behind(void *in, void *inout, int *length, MPI_Datatype *type)
{
    unsigned *a = in, *b = inout;

    (void)type;
    for (int i = 0; i < *length; i++) {
        unsigned m = b[i] >> 16, c = b[i] & 0xffff;

        b[i] = ((a[i] >> 16) * m & 0xffff) << 16 | (((a[i] & 0xffff) * m + c) & 0xffff);
    }
}

static MPI_Op op_for(struct type *type)
{
    MPI_Op of[] = {MPI_SUM, MPI_MAX,  MPI_MIN,  MPI_PROD, MPI_LAND,
                   MPI_LOR, MPI_LXOR, MPI_BAND, MPI_BOR,  MPI_BXOR};

    switch (type->kind) {
    case INTEGER:
        return type->type == MPI_INT && any(6) == 0 ? program_op : of[any(10)];
    case FLOATING:
        return of[any(4)];
    case COMPLEX:
        return of[any(2) * 3];
    case TRUTH:
        return of[4 + any(3)];
    case BITS:
        return of[7 + any(3)];
    default:
        return any(2) ? MPI_MINLOC : MPI_MAXLOC;
    }
}

/* ---- buffers ------------------------------------------------------------------------------------------- */

/* Values whose sums and products are exact, and pairs with equal values. */
static void fill(void *to, struct type *type, size_t elements, unsigned seed)
{
    char *bytes = to;

    memset(to, 0, elements * (size_t)type->bytes);
    for (size_t i = 0; i < elements; i++) {
        unsigned value = (unsigned)(i * 7 + seed * 13 + (unsigned)me * 5) % 11;
        char *at = bytes + i * (size_t)type->bytes;

        if (type->type == MPI_DOUBLE || type->type == MPI_C_DOUBLE_COMPLEX || type->type == MPI_DOUBLE_INT)
            *(double *)(void *)at = value % 3;
        else if (type->type == MPI_FLOAT || type->type == MPI_C_FLOAT_COMPLEX || type->type == MPI_FLOAT_INT)
            *(float *)(void *)at = (float)(value % 3);
        else if (type->type == MPI_LONG_DOUBLE)
            *(long double *)(void *)at = value % 3;
        else if (type->kind == TRUTH)
            *at = value % 2;
        else if (type->type == MPI_INT)
            *(unsigned *)(void *)at = (2 * value + 1) << 16 | (value + 3);
        else
            *at = (char)value;
        if (type->kind == PAIR)
            *(int *)(void *)(at + type->bytes - (type->bytes == 16 ? 8 : 4)) = me;
        if (type->type == MPI_C_DOUBLE_COMPLEX)
            ((double *)(void *)at)[1] = value % 2;
        if (type->kind == MOVED)
            memset(at, (int)(value + 1), (size_t)type->bytes);
    }
}

static char *sent, *mine, *theirs;
static int counts[RANKS_MOST], offsets[RANKS_MOST], sends[RANKS_MOST], from[RANKS_MOST];
static long wrong, made;

static struct call {
    int kind, count, root, in_place, is_request, seed;
    struct type *type;
    MPI_Op op;
} call;

enum {
    BARRIER,
    BCAST,
    REDUCE,
    ALLREDUCE,
    GATHER,
    GATHERV,
    SCATTER,
    SCATTERV,
    ALLGATHER,
    ALLGATHERV,
    ALLTOALL,
    ALLTOALLV,
    REDUCE_SCATTER,
    REDUCE_SCATTER_BLOCK,
    SCAN,
    EXSCAN,
    KINDS
};

/* Does X or PX, and waits if it is a request. */
#define MAKE(P, name, Iname, ...)                  \
    do {                                           \
        if (call.is_request)                       \
            P##MPI_##Iname(__VA_ARGS__, &request); \
        else                                       \
            P##MPI_##name(__VA_ARGS__);            \
    } while (0)
#define EITHER(name, Iname, ...)               \
    do {                                       \
        if (own)                               \
            MAKE(P, name, Iname, __VA_ARGS__); \
        else                                   \
            MAKE(, name, Iname, __VA_ARGS__);  \
    } while (0)

/* The call that is described, into `recv`. */
static void make(int own, const void *send, void *recv, MPI_Request *out)
{
    MPI_Datatype t = call.type->type;
    int n = call.count, is_root = call.root == me, placed = call.in_place;
    const void *s = placed ? MPI_IN_PLACE : send;
    const void *at_root = placed && is_root ? MPI_IN_PLACE : send;
    MPI_Request request = MPI_REQUEST_NULL;

    switch (call.kind) {
    case BARRIER:
        EITHER(Barrier, Ibarrier, comm);
        break;
    case BCAST:
        EITHER(Bcast, Ibcast, recv, n, t, call.root, comm);
        break;
    case REDUCE:
        EITHER(Reduce, Ireduce, at_root, recv, n, t, call.op, call.root, comm);
        break;
    case ALLREDUCE:
        EITHER(Allreduce, Iallreduce, s, recv, n, t, call.op, comm);
        break;
    case GATHER:
        EITHER(Gather, Igather, at_root, n, t, recv, n, t, call.root, comm);
        break;
    case GATHERV:
        EITHER(Gatherv, Igatherv, at_root, counts[me], t, recv, counts, offsets, t, call.root, comm);
        break;
    case SCATTER:
        EITHER(Scatter, Iscatter, send, n, t, placed && is_root ? MPI_IN_PLACE : recv, n, t, call.root, comm);
        break;
    case SCATTERV:
        EITHER(Scatterv, Iscatterv, send, counts, offsets, t, placed && is_root ? MPI_IN_PLACE : recv,
               counts[me], t, call.root, comm);
        break;
    case ALLGATHER:
        EITHER(Allgather, Iallgather, s, n, t, recv, n, t, comm);
        break;
    case ALLGATHERV:
        EITHER(Allgatherv, Iallgatherv, s, counts[me], t, recv, counts, offsets, t, comm);
        break;
    case ALLTOALL:
        EITHER(Alltoall, Ialltoall, s, n, t, recv, n, t, comm);
        break;
    case ALLTOALLV:
        EITHER(Alltoallv, Ialltoallv, s, sends, from, t, recv, counts, offsets, t, comm);
        break;
    case REDUCE_SCATTER:
        EITHER(Reduce_scatter, Ireduce_scatter, s, recv, counts, t, call.op, comm);
        break;
    case REDUCE_SCATTER_BLOCK:
        EITHER(Reduce_scatter_block, Ireduce_scatter_block, s, recv, n, t, call.op, comm);
        break;
    case SCAN:
        EITHER(Scan, Iscan, s, recv, n, t, call.op, comm);
        break;
    case EXSCAN:
        EITHER(Exscan, Iexscan, s, recv, n, t, call.op, comm);
        break;
    }
    *out = request;
}

/* Counts a rank, some of them none, and where the blocks lie: in order, or the last first, with gaps. */
static void choose_counts(int most)
{
    int at = 0, backwards = (int)any(2);

    for (int i = 0; i < ranks; i++) {
        int r = backwards ? ranks - 1 - i : i;

        counts[r] = most ? (int)any((unsigned)most + 1) : 0;
        offsets[r] = at;
        at += counts[r] + (int)any(2) * (most < 10);
    }
    memcpy(sends, counts, sizeof counts);
    memcpy(from, offsets, sizeof offsets);
    if (call.kind != ALLTOALLV)
        return;
    /* the same between two ranks: what each sends to the other */
    at = 0;
    for (int r = 0; r < ranks; r++) {
        counts[r] = sends[r] = most ? (me + r + call.seed) % (most + 1) : 0;
        offsets[r] = from[r] = at;
        at += counts[r];
    }
}

static void choose(void)
{
    static const int bytes[] = {0, 8, 40, 200, 3000, BLOCK_MOST};
    int most;

    call = (struct call){.kind = (int)any(KINDS),
                         .root = (int)any((unsigned)ranks),
                         .in_place = any(4) == 0,
                         .is_request = any(2) == 0,
                         .seed = (int)any(1000)};
    do
        call.type = &types[any((unsigned)type_count)];
    while (call.type->kind == MOVED &&
           (call.kind == REDUCE || call.kind == ALLREDUCE || call.kind >= REDUCE_SCATTER));
    call.op = op_for(call.type);
    most = bytes[any(any(8) ? 5 : 6)] / call.type->bytes;
    call.count = most ? (int)any((unsigned)most) + 1 : 0;
    choose_counts(call.count);
}

static size_t elements(void)
{
    return (size_t)(call.count + 1) * (size_t)ranks;
}

static void prepare(char *recv)
{
    fill(recv, call.type, elements(), (unsigned)call.seed + 1);
}

/* Products of complex numbers in another order may have another sign of zero. */
static bool differ_as_numbers(void)
{
    size_t count = 2 * elements();

    for (size_t i = 0; i < count; i++)
        if (call.type->type == MPI_C_DOUBLE_COMPLEX ? ((const double *)mine)[i] != ((const double *)theirs)[i]
                                                    : ((const float *)mine)[i] != ((const float *)theirs)[i])
            return true;
    return false;
}

static void judge(const char *where)
{
    int length = memcmp(mine, theirs, elements() * (size_t)call.type->bytes), padded = call.type->bytes == 16;

    made++;
    /* of pairs with gaps the gaps may differ */
    if (length && call.type->kind == PAIR && (padded || call.type->type == MPI_SHORT_INT)) {
        length = 0;
        for (size_t i = 0; i < elements(); i++) {
            const char *a = mine + i * (size_t)call.type->bytes, *b = theirs + i * (size_t)call.type->bytes;

            length |= padded ? memcmp(a, b, 12) : memcmp(a, b, 2) | memcmp(a + 4, b + 4, 4);
        }
    }
    if (length && call.type->kind == COMPLEX)
        length = differ_as_numbers();
    /* the first rank's result of an exscan is nothing */
    if (!length || (call.kind == EXSCAN && me == 0))
        return;
    /* of scatters in place, and reductions where this is no root, nothing is received */
    if (wrong++ < 5)
        printf("rank %d: %s: kind %d of %d %s, root %d%s%s differs\n", me, where, call.kind, call.count,
               call.type->name, call.root, call.in_place ? ", in place" : "",
               call.is_request ? ", as a request" : "");
}

/* One after the other: ours, then the MPI's. */
static void one(void)
{
    MPI_Request request;

    choose();
    fill(sent, call.type, elements(), (unsigned)call.seed);
    prepare(mine);
    prepare(theirs);
    make(0, sent, mine, &request);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    make(1, sent, theirs, &request);
    PMPI_Wait(&request, MPI_STATUS_IGNORE);
    judge("alone");
}

/* ---- several under way ------------------------------------------------------------------------------- */

#define SOME 6

/* Waits for all in one of the ways that MPI has. */
static void wait_for(int count, MPI_Request *requests, int how)
{
    int flag = 0, index, done, indices[3 * SOME];

    if (how == 0) {
        MPI_Waitall(count, requests, MPI_STATUSES_IGNORE);
    } else if (how == 1) {
        while (!flag)
            MPI_Testall(count, requests, &flag, MPI_STATUSES_IGNORE);
    } else if (how == 2) {
        for (int i = 0; i < count; i++)
            MPI_Waitany(count, requests, &index, MPI_STATUS_IGNORE);
    } else if (how == 3) {
        for (done = 0; done != MPI_UNDEFINED;)
            MPI_Waitsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
    } else if (how == 4) {
        for (int i = count - 1; i >= 0; i--)
            for (flag = 0; !flag;)
                MPI_Test(&requests[i], &flag, MPI_STATUS_IGNORE);
    } else if (how == 5) {
        for (index = 0; !flag || index != MPI_UNDEFINED;)
            MPI_Testany(count, requests, &index, &flag, MPI_STATUS_IGNORE);
    } else {
        for (int i = 0; i < count; i++)
            for (flag = 0; !flag;)
                MPI_Request_get_status(requests[i], &flag, MPI_STATUS_IGNORE);
        for (done = 0; done != MPI_UNDEFINED;)
            MPI_Testsome(count, requests, &done, indices, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < count; i++)
        wrong += requests[i] != MPI_REQUEST_NULL;
}

/* Requests of collectives, of messages to and from the next rank, and a blocking collective among them. */
static void several(void)
{
    static int values[2 * SOME], sums[SOME], got[SOME], all;
    MPI_Request requests[3 * SOME];
    int used = 0, next = (me + 1) % ranks, last = (me + ranks - 1) % ranks, round = (int)any(1000),
        how = (int)any(7);

    for (int i = 0; i < SOME; i++) {
        values[i] = me + i + round;
        sums[i] = got[i] = -1;
        MPI_Iallreduce(&values[i], &sums[i], 1, MPI_INT, MPI_SUM, comm, &requests[used++]);
        if (any(2)) {
            MPI_Irecv(&got[i], 1, MPI_INT, last, i, comm, &requests[used++]);
            MPI_Isend(&values[i], 1, MPI_INT, next, i, comm, &requests[used++]);
        } else {
            got[i] = last + i + round;
        }
        if (any(4) == 0) {
            MPI_Allreduce(&values[i], &all, 1, MPI_INT, MPI_MAX, comm);
            wrong += all != ranks - 1 + i + round;
        }
    }
    wait_for(used, requests, how);
    for (int i = 0; i < SOME; i++) {
        made++;
        wrong += sums[i] != ranks * (i + round) + ranks * (ranks - 1) / 2;
        wrong += got[i] != last + i + round;
    }
}

/* A request that only goes on while this rank is in MPI_Recv: rank 1 has its sum, and then sends what rank 0 waits for. */
static void crossed(void)
{
    enum { MANY = 100000 };
    static int in[MANY], out[MANY];
    MPI_Request request;
    int token = 7;

    for (int i = 0; i < MANY; i++)
        in[i] = me + i;
    MPI_Iallreduce(in, out, MANY, MPI_INT, MPI_SUM, comm, &request);
    if (me == 0)
        MPI_Recv(&token, 1, MPI_INT, 1, 99, comm, MPI_STATUS_IGNORE);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    if (me == 1)
        MPI_Send(&token, 1, MPI_INT, 0, 99, comm);
    for (int i = 0; i < MANY; i++)
        wrong += out[i] != ranks * i + ranks * (ranks - 1) / 2;
    made++;
}

/* The type, and the communicator, are freed while the request is under way. */
static void freed(void)
{
    MPI_Datatype type;
    MPI_Request request;
    MPI_Comm other;
    int in[20], out[20], sum = 0;

    MPI_Comm_dup(comm, &other);
    for (int i = 0; i < 20; i++)
        MPI_Allreduce(&me, &sum, 1, MPI_INT, MPI_SUM, other);
    for (int i = 0; i < 20; i++) {
        in[i] = i;
        out[i] = -1;
    }
    MPI_Type_vector(10, 1, 2, MPI_INT, &type);
    MPI_Type_commit(&type);
    MPI_Ibcast(me == 0 ? in : out, 1, type, 0, other, &request);
    MPI_Type_free(&type);
    MPI_Comm_free(&other);
    MPI_Wait(&request, MPI_STATUS_IGNORE);
    for (int i = 0; i < 20 && me; i++)
        wrong += out[i] != (i % 2 ? -1 : i);
    made++;
}

/* ---- communicators ------------------------------------------------------------------------------------- */

static void make_comms(MPI_Comm *comms)
{
    int rank, size;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_dup(MPI_COMM_WORLD, &comms[0]);
    MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &comms[1]);                       /* reversed */
    MPI_Comm_split(MPI_COMM_WORLD, size >= 4 ? rank % 2 : 0, rank, &comms[2]); /* two halves */
    MPI_Comm_split(MPI_COMM_WORLD, 0, (rank * 7 + 3) % size, &comms[3]);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, rank;
    MPI_Comm comms[COMMS];
    long sums[2], all[2];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    alarm(240); /* a job that does not end must not stay */
    sent = malloc(BYTES);
    mine = malloc(BYTES);
    theirs = malloc(BYTES);
    MPI_Op_create(behind, 0, &program_op);
    make_types();
    make_comms(comms);
    for (int c = 0; c < COMMS; c++) {
        comm = comms[c];
        MPI_Comm_rank(comm, &me);
        MPI_Comm_size(comm, &ranks);
        state = (argc > 2 ? strtoull(argv[2], NULL, 10) : 1) * 977 + (unsigned)c;
        for (int i = 0; i < 20; i++) /* so that it forms */
            MPI_Barrier(comm);
        for (int i = 0; i < rounds; i++) {
            one();
            if (i % 8 == 0)
                several();
        }
        crossed();
        freed();
    }
    sums[0] = wrong;
    sums[1] = made;
    MPI_Allreduce(sums, all, 2, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0)
        printf("# %ld calls\n%ld wrong\n", all[1], all[0]);
    for (int c = 0; c < COMMS; c++)
        MPI_Comm_free(&comms[c]);
    MPI_Finalize();
    return 0;
}
