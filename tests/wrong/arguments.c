/* SPDX-License-Identifier: BSD-3-Clause */
/* Arguments that cannot be: refused at once, with what would be right. */
#include "tests/wrong/wrong.h"

#include <math.h>

static char data[64];

static void rank_too_high(int rank, int size)
{
    (void)rank;
    TELL(nigh_send(data, 8, size, 1, WORLD));
}

static void rank_negative(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_recv(data, 8, -7, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void send_to_anyone(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_send(data, 8, NIGH_ANY_SOURCE, 1, WORLD));
}

static void tag_negative(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_send(data, 8, 0, -5, WORLD));
}

static void send_any_tag(int rank, int size)
{
    nigh_request request;

    (void)rank, (void)size;
    TELL(nigh_isend(data, 8, 0, NIGH_ANY_TAG, WORLD, &request));
}

static void comm_null(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_send(data, 8, 0, 1, NULL));
}

static void comm_garbage(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_barrier((struct nigh_comm *)(uintptr_t)0x7777));
}

static void comm_after_free(int rank, int size)
{
    struct nigh_comm *copy, *kept;

    (void)rank, (void)size;
    nigh_comm_dup(WORLD, &copy);
    kept = copy;
    nigh_comm_free(&copy);
    TELL(nigh_send(data, 8, 0, 1, kept));
}

static void comm_freed_twice(int rank, int size)
{
    struct nigh_comm *copy, *kept;

    (void)rank, (void)size;
    nigh_comm_dup(WORLD, &copy);
    kept = copy;
    nigh_comm_free(&copy);
    TELL(nigh_comm_free(&kept));
}

static void world_freed(int rank, int size)
{
    struct nigh_comm *world = WORLD;

    (void)rank, (void)size;
    TELL(nigh_comm_free(&world));
}

static void rank_listed_twice(int rank, int size)
{
    struct nigh_comm *some;

    (void)rank, (void)size;
    TELL(nigh_comm_create(WORLD, (int[]){0, 0}, 2, &some));
}

static void not_listed(int rank, int size)
{
    struct nigh_comm *some;

    (void)size;
    TELL(nigh_comm_create(WORLD, (int[]){1 - rank}, 1, &some));
}

/* A rank of the world where one of the half is meant. */
static void rank_of_the_world(int rank, int size)
{
    struct nigh_comm *half;
    char byte = 0;

    (void)size;
    if (nigh_comm_split(WORLD, rank % 2, rank, &half))
        return;
    if (rank == 0)
        TELL(nigh_send(&byte, 1, 2, 1, half));
    nigh_comm_free(&half);
}

static void color_negative(int rank, int size)
{
    struct nigh_comm *some;

    (void)rank, (void)size;
    TELL(nigh_comm_split(WORLD, -9, 0, &some));
}

static void timeout_nan(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_comm_set_timeout(WORLD, NAN));
}

static void rank_has_no_place(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_comm_rank(WORLD, NULL));
}

static void world_rank_of_nobody(int rank, int size)
{
    int world;

    (void)rank;
    TELL(nigh_comm_world_rank(WORLD, size + 3, &world));
}

static void probe_of_nobody(int rank, int size)
{
    int flag;

    (void)rank, (void)size;
    TELL(nigh_iprobe(44, 1, WORLD, &flag, NIGH_STATUS_IGNORE));
}

const struct wrong wrong_arguments[] = {
    {"rank-too-high",
     2,
     rank_too_high,
     {"nigh_send at .*arguments.c:[0-9]+: there is no rank 2 in communicator \"world\": its ranks are 0 to "
      "1"},
     NULL,
     0},
    {"rank-negative", 2, rank_negative, {"there is no rank -7 in communicator \"world\""}, NULL, 0},
    {"send-to-anyone", 1, send_to_anyone, {"NIGH_ANY_SOURCE is for receives and probes"}, NULL, 0},
    {"tag-negative", 1, tag_negative, {"tag -5 is not valid: tags are 0 to 2147483647"}, NULL, 0},
    {"send-with-any-tag", 1, send_any_tag, {"NIGH_ANY_TAG is for receives and probes"}, NULL, 0},
    {"communicator-is-NULL", 1, comm_null, {"the communicator is NULL"}, NULL, 0},
    {"communicator-is-garbage", 1, comm_garbage, {"0x7777 is no communicator"}, NULL, 0},
    {"communicator-after-free",
     1,
     comm_after_free,
     {"communicator 3 .*was freed by nigh_comm_free before"},
     NULL,
     0},
    {"communicator-freed-twice",
     1,
     comm_freed_twice,
     {"nigh_comm_free at .*was freed by nigh_comm_free before"},
     NULL,
     0},
    {"world-freed", 1, world_freed, {"communicator \"world\" lives until nigh_finalize"}, NULL, 0},
    {"rank-listed-twice", 1, rank_listed_twice, {"rank 0 is listed twice"}, NULL, 0},
    {"rank-of-the-world",
     4,
     rank_of_the_world,
     {"nigh_send at .*: there is no rank 2 in communicator 3 .*: its ranks are 0 to 1", "", "", ""},
     NULL,
     0},
    {"not-listed", 2, not_listed, {"this rank, [01], is not in the list"}, NULL, 0},
    {"colour-negative", 1, color_negative, {"colour -9: colours are 0 or more, or NIGH_UNDEFINED"}, NULL, 0},
    {"time-out-is-no-number", 1, timeout_nan, {"nan is no number of seconds"}, NULL, 0},
    {"rank-has-no-place", 1, rank_has_no_place, {"the result has no place: NULL"}, NULL, 0},
    {"world-rank-of-nobody",
     1,
     world_rank_of_nobody,
     {"there is no rank 4 in communicator \"world\""},
     NULL,
     0},
    {"probe-of-nobody", 1, probe_of_nobody, {"nigh_iprobe at .*there is no rank 44"}, NULL, 0},
    {0},
};
