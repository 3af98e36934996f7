/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that do not call the same collective: user program 32; and windows that are used wrongly. */
#include "tests/wrong/wrong.h"

static float vector[100], sum[800];

static void bcast_and_allreduce(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_bcast(vector, 100, NIGH_F32, 0, WORLD));
    else
        TELL(nigh_allreduce(vector, sum, 100, NIGH_F32, NIGH_SUM, WORLD));
}

static void other_count(int rank, int size)
{
    TELL(nigh_allgather(vector, sum, rank == size - 1 ? 99 : 100, NIGH_F32, WORLD));
}

static void other_type(int rank, int size)
{
    TELL(nigh_allreduce(vector, sum, 10, rank == size - 1 ? NIGH_I32 : NIGH_F32, NIGH_SUM, WORLD));
}

static void other_operation(int rank, int size)
{
    TELL(nigh_reduce(vector, sum, 10, NIGH_F32, rank == size - 1 ? NIGH_MAX : NIGH_SUM, 0, WORLD));
}

/* Each of the two sends, and needs nothing: the next collective finds it. */
static void other_root(int rank, int size)
{
    (void)size;
    TELL(nigh_bcast(vector, 10, NIGH_F32, rank, WORLD));
    TELL(nigh_barrier(WORLD));
}

/* One more on one rank: the next one of the others does not fit. */
static void one_too_many(int rank, int size)
{
    TELL(nigh_barrier(WORLD));
    if (rank == size - 1) {
        TELL(nigh_barrier(WORLD));
        nigh_comm_set_timeout(WORLD, 0.5); /* nobody is left for its gather */
    }
    TELL(nigh_gather(vector, sum, 1, NIGH_F32, 0, WORLD));
}

static void barrier_and_dup(int rank, int size)
{
    struct nigh_comm *copy;

    (void)size;
    if (rank == 0)
        TELL(nigh_barrier(WORLD));
    else
        TELL(nigh_comm_dup(WORLD, &copy));
}

static void no_such_root(int rank, int size)
{
    TELL(nigh_bcast(vector, 10, NIGH_F32, rank == 0 ? size : 0, WORLD));
}

static void bits_of_floats(int rank, int size)
{
    (void)rank;
    (void)size;
    TELL(nigh_allreduce(vector, sum, 10, NIGH_F32, NIGH_BAND, WORLD));
}

static void collective_and_receive(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_barrier(WORLD));
    else
        TELL(nigh_recv(vector, 4, 0, 9, WORLD, NIGH_STATUS_IGNORE));
}

static void beyond_the_window(int rank, int size)
{
    struct nigh_win *win;
    void *base;

    (void)size;
    if (nigh_win_allocate(rank == 0 ? 40 : 8, WORLD, &base, &win))
        return;
    TELL(nigh_put(vector, 40, 1, 0, win));
    (void)nigh_win_free(&win);
}

static void two_windows(int rank, int size)
{
    struct nigh_win *one, *two;
    void *base;

    (void)size;
    if (nigh_win_allocate(8, WORLD, &base, &one) || nigh_win_allocate(8, WORLD, &base, &two))
        return;
    TELL(nigh_win_fence(rank == 0 ? one : two));
    (void)nigh_win_free(&one);
    (void)nigh_win_free(&two);
}

static void fence_against_barrier(int rank, int size)
{
    struct nigh_win *win;
    void *base;

    (void)size;
    if (nigh_win_allocate(8, WORLD, &base, &win))
        return;
    TELL(rank == 0 ? nigh_win_fence(win) : nigh_barrier(WORLD));
    (void)nigh_win_free(&win);
}

static void between_elements(int rank, int size)
{
    struct nigh_win *win;
    void *base;
    double one = 1;

    (void)rank, (void)size;
    if (nigh_win_allocate(64, WORLD, &base, &win))
        return;
    TELL(nigh_accumulate(&one, 1, NIGH_F64, 0, 3, NIGH_SUM, win));
    (void)nigh_win_free(&win);
}

static void window_after_free(int rank, int size)
{
    struct nigh_win *win, *copy;
    void *base;

    (void)rank, (void)size;
    if (nigh_win_allocate(8, WORLD, &base, &win))
        return;
    copy = win;
    (void)nigh_win_free(&win);
    TELL(nigh_put(vector, 4, 0, 0, copy));
}

#define DIFFER "the ranks of communicator \"world\" do not call the same: "

const struct wrong wrong_collectives[] = {
    {"bcast-and-allreduce",
     2,
     bcast_and_allreduce,
     {DIFFER "rank 0 calls broadcast of 100 f32, root 0 at collectives.c:[0-9]+; rank 1 calls "
             "allreduce of 100 f32 \\(sum\\) at collectives.c:[0-9]+"},
     NULL,
     0},
    {"another-count",
     4,
     other_count,
     {DIFFER "allgather of (100|99) f32: rank [0-3] gives (396|400) bytes; rank [0-3] expects (396|400)"},
     NULL,
     0},
    {"another-type",
     3,
     other_type,
     {DIFFER "rank [01] calls allreduce of 10 f32 \\(sum\\) at .*; rank 2 calls allreduce of 10 i32 "
             "\\(sum\\) at "},
     NULL,
     0},
    {"another-operation",
     2,
     other_operation,
     {DIFFER
      "rank 0 calls reduce of 10 f32 \\(sum, root 0\\) at .*; rank 1 calls reduce of 10 f32 \\(max, root "
      "0\\) at "},
     NULL,
     0},
    {"another-root",
     2,
     other_root,
     {DIFFER "rank 0 calls broadcast of 10 f32, root 0 at .*; rank 1 calls broadcast of 10 f32, root 1 at "},
     NULL,
     0},
    {"one-collective-too-many",
     3,
     one_too_many,
     {DIFFER "rank [01] calls gather of 1 f32, root 0 at .*; rank 2 calls barrier at "},
     "NIGH_STALL=0",
     0},
    {"barrier-and-dup",
     2,
     barrier_and_dup,
     {DIFFER "rank 0 calls barrier at collectives.c:[0-9]+; rank 1 calls one of nigh_comm_dup, .* at "
             "collectives.c:[0-9]+"},
     NULL,
     0},
    {"no-such-root",
     2,
     no_such_root,
     {"there is no rank 2 in communicator \"world\": its ranks are 0 to 1",
      "rank 0 calls nigh_bcast\\(count 10, NIGH_F32, root 2\\).*refused there: there is no rank 2"},
     NULL,
     0},
    {"bits-of-floats", 2, bits_of_floats, {"NIGH_BAND is not defined for NIGH_F32"}, NULL, 0},
    {"collective-and-receive",
     2,
     collective_and_receive,
     {"deadlock: 2 ranks wait for each other: rank 0 waits in nigh_barrier for rank 1.*rank 1 waits in "
      "nigh_recv "
      "from rank 0"},
     NULL,
     0},
    {"beyond-the-window",
     2,
     beyond_the_window,
     {"40 bytes at offset 0 are beyond the memory of rank 1, which shows 8 bytes in window 1"},
     NULL,
     0},
    {"two-windows",
     2,
     two_windows,
     {DIFFER
      "rank 0 calls nigh_win_fence\\(window 1\\) at .*; rank 1 calls nigh_win_fence\\(window 2\\) at "},
     NULL,
     0},
    {"fence-against-barrier",
     2,
     fence_against_barrier,
     {DIFFER "rank 0 calls one of .* and nigh_win_\\* at .*; rank 1 calls barrier at "},
     NULL,
     0},
    {"between-elements",
     1,
     between_elements,
     {"nigh_accumulate at .*: offset 3 is not a multiple of the 8 bytes of NIGH_F64"},
     NULL,
     0},
    {"window-after-free",
     1,
     window_after_free,
     {"nigh_put at .*: window 1 at .*collectives.c:[0-9]+ was freed by nigh_win_free before"},
     NULL,
     0},
    {0},
};
