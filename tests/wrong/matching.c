/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and receives that do not meet: user programs 26, 28 and 31, and collectives that not all ranks call. */
#include "tests/wrong/wrong.h"

#include <stdio.h>

static char data[400], room[400];

static void tag_wrong(int rank, int size)
{
    (void)size;
    if (rank == 1)
        nigh_send(data, 400, 0, 6, WORLD);
    else
        TELL(nigh_recv(room, 400, 1, 5, WORLD, NIGH_STATUS_IGNORE));
}

static void source_wrong(int rank, int size)
{
    (void)size;
    if (rank == 1)
        nigh_send(data, 16, 0, 5, WORLD);
    if (rank == 0)
        TELL(nigh_recv(room, 400, 2, 5, WORLD, NIGH_STATUS_IGNORE));
}

static void comm_wrong(int rank, int size)
{
    struct nigh_comm *copy;

    (void)size;
    if (nigh_comm_dup(WORLD, &copy))
        return;
    nigh_comm_set_name(copy, "copy");
    if (rank == 1)
        nigh_send(data, 24, 0, 5, copy);
    else
        TELL(nigh_recv(room, 400, 1, 5, WORLD, NIGH_STATUS_IGNORE));
    nigh_comm_free(&copy);
}

/* Rank 1 goes on to wait for something that comes late: nobody is stuck for ever, and rank 0 is only warned. */
static void tag_wrong_for_a_while(int rank, int size)
{
    (void)size;
    if (rank == 0) {
        nigh_recv(room, 400, 1, 5, WORLD, NIGH_STATUS_IGNORE);
        nigh_recv(room, 400, 1, 6, WORLD, NIGH_STATUS_IGNORE);
    } else if (rank == 1) {
        nigh_send(data, 400, 0, 6, WORLD);
        nigh_recv(room, 1, 2, 1, WORLD, NIGH_STATUS_IGNORE);
        nigh_send(data, 400, 0, 5, WORLD);
    } else {
        wrong_nap_until(0, "has waited");
        nigh_send(data, 1, 1, 1, WORLD);
    }
}

static void probe_of_another_tag(int rank, int size)
{
    (void)size;
    if (rank == 1)
        nigh_send(data, 40, 0, 2, WORLD);
    else
        TELL(nigh_probe(1, 3, WORLD, NIGH_STATUS_IGNORE));
}

static void wait_for_another_tag(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 1) {
        nigh_send(data, 40, 0, 2, WORLD);
        return;
    }
    nigh_irecv(room, 400, 1, 3, WORLD, &request);
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
    nigh_cancel(&request);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void one_of_three_is_never_sent(int rank, int size)
{
    nigh_request requests[3];

    (void)size;
    for (int tag = 0; tag < 3; tag++)
        if (rank == 0)
            nigh_irecv(room + 8 * tag, 8, 1, tag, WORLD, &requests[tag]);
        else if (tag != 1)
            nigh_send(data, 8, 0, tag, WORLD);
    if (rank == 1)
        return;
    TELL(nigh_waitall(3, requests, NIGH_STATUSES_IGNORE));
    nigh_cancel(&requests[1]);
    nigh_waitall(3, requests, NIGH_STATUSES_IGNORE);
}

static void received_twice(int rank, int size)
{
    (void)size;
    if (rank == 1) {
        nigh_send(data, 8, 0, 1, WORLD);
        return;
    }
    nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE);
    TELL(nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void from_anyone_when_all_have_left(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_recv(room, 8, NIGH_ANY_SOURCE, NIGH_ANY_TAG, WORLD, NIGH_STATUS_IGNORE));
}

static void probe_when_all_have_left(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_probe(NIGH_ANY_SOURCE, NIGH_ANY_TAG, WORLD, NIGH_STATUS_IGNORE));
}

static void ssend_to_one_that_leaves(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_ssend(data, 8, 1, 1, WORLD));
}

static void never_received(int rank, int size)
{
    (void)size;
    if (rank == 0)
        nigh_send(data, 123, 1, 77, WORLD);
}

static void isend_on_all_never_received(int rank, int size)
{
    nigh_request request;

    nigh_isend(data, 8, (rank + 1) % size, 4, WORLD, &request);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_barrier(WORLD);
}

static void split_apart(int rank, int size)
{
    struct nigh_comm *half;

    (void)size;
    if (nigh_comm_split(WORLD, rank, 0, &half)) /* meant: rank / 2 */
        return;
    TELL(nigh_send(data, 8, 1, 1, half));
    nigh_comm_free(&half);
}

static void in_none_of_them(int rank, int size)
{
    struct nigh_comm *half;

    (void)size;
    if (nigh_comm_split(WORLD, rank == 0 ? NIGH_UNDEFINED : 1, 0, &half))
        return;
    if (rank == 0)
        TELL(nigh_send(data, 8, 0, 1, half));
    else
        nigh_comm_free(&half);
}

static void barrier_missing(int rank, int size)
{
    (void)size;
    if (rank != 2)
        TELL(nigh_barrier(WORLD));
}

static void small_head_to_head(int rank, int size)
{
    (void)size;
    nigh_send(data, 8, 1 - rank, 1, WORLD);
    nigh_recv(room, 8, 1 - rank, 1, WORLD, NIGH_STATUS_IGNORE);
}

static void pairs_head_to_head(int rank, int size)
{
    int partner = rank ^ 1;

    (void)size;
    for (int i = 0; i < 10; i++) {
        nigh_send(data, 100, partner, i, WORLD);
        nigh_recv(room, 400, partner, i, WORLD, NIGH_STATUS_IGNORE);
    }
}

/* ---- sizes --------------------------------------------------------------------------------------------------- */

/* Rank 0 sends 400 bytes, rank 1 has room for 100. */
static bool sends(int rank)
{
    if (rank == 0)
        nigh_send(data, 400, 1, 1, WORLD);
    memset(room, 'x', sizeof(room));
    return rank == 0;
}

static void tell(int rc)
{
    wrong_told(rc);
    fprintf(stderr, "beyond: %c\n", room[100]);
}

static void truncated_recv(int rank, int size)
{
    (void)size;
    if (!sends(rank))
        tell(nigh_recv(room, 100, 0, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void truncated_irecv(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (sends(rank))
        return;
    nigh_irecv(room, 100, 0, 1, WORLD, &request);
    tell(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

static void truncated_waitall(int rank, int size)
{
    nigh_request request;
    struct nigh_status status;

    (void)size;
    if (sends(rank))
        return;
    nigh_irecv(room, 100, NIGH_ANY_SOURCE, NIGH_ANY_TAG, WORLD, &request);
    tell(nigh_waitall(1, &request, &status));
    fprintf(stderr, "status: %llu of %s\n", (unsigned long long)status.bytes, strerrorname_np(-status.error));
}

static void truncated_test(int rank, int size)
{
    nigh_request request;
    int flag = 0, rc = 0;

    (void)size;
    if (sends(rank))
        return;
    nigh_irecv(room, 100, 0, 1, WORLD, &request);
    while (!flag)
        rc = nigh_test(&request, &flag, NIGH_STATUS_IGNORE);
    tell(rc);
}

static void truncated_sendrecv(int rank, int size)
{
    (void)size;
    if (!sends(rank))
        tell(nigh_sendrecv(data, 8, NIGH_PROC_NULL, 1, room, 100, 0, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void truncated_mrecv(int rank, int size)
{
    nigh_matched message;

    (void)size;
    if (sends(rank))
        return;
    nigh_mprobe(0, 1, WORLD, &message, NIGH_STATUS_IGNORE);
    tell(nigh_mrecv(room, 100, &message, NIGH_STATUS_IGNORE));
}

static void truncated_persistent(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (sends(rank))
        return;
    nigh_recv_init(room, 100, 0, 1, WORLD, &request);
    nigh_start(&request);
    tell(nigh_wait(&request, NIGH_STATUS_IGNORE));
    nigh_request_free(&request);
}

static void truncated_in_place(int rank, int size)
{
    const void *at;

    (void)size;
    if (!sends(rank))
        tell(nigh_recv_in_place(&at, 100, 0, 1, WORLD, NIGH_STATUS_IGNORE));
}

/* ---- time-outs ------------------------------------------------------------------------------------------------- */

static void late_receive(int rank, int size)
{
    (void)size;
    if (rank == 1)
        nigh_send(data, 8, 0, 2, WORLD);
    nigh_barrier(WORLD);
    nigh_comm_set_timeout(WORLD, 0.4);
    if (rank == 0)
        TELL(nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE));
    else
        wrong_nap_until(0, "ETIMEDOUT");
    nigh_comm_set_timeout(WORLD, 10);
    if (rank == 0)
        nigh_recv(room, 8, 1, 2, WORLD, NIGH_STATUS_IGNORE);
}

static void late_anyone(int rank, int size)
{
    (void)size;
    nigh_barrier(WORLD);
    if (rank == 0)
        nigh_comm_set_timeout(WORLD, 2);
    if (rank == 0)
        TELL(nigh_recv(room, 8, NIGH_ANY_SOURCE, 1, WORLD, NIGH_STATUS_IGNORE));
    if (rank == 1)
        wrong_nap_until(0, "ETIMEDOUT");
    nigh_comm_set_timeout(WORLD, 10);
    nigh_barrier(WORLD);
}

#define NEAR "; not received so far: "
#define TRUNCATED \
    "rank 0, tag 1, has 400 bytes, which is longer than the buffer of its receive.* of at most 100 bytes"
#define BOTH "returned EMSGSIZE\nbeyond: x"

const struct wrong wrong_matching[] = {
    {"tag-wrong",
     2,
     tag_wrong,
     {"rank 1 is in nigh_finalize at wrong.c:[0-9]+ and takes part in nothing more, but rank 0 waits in "
      "nigh_recv from "
      "rank 1, at most 400 bytes, tag 5.*" NEAR "rank 1 has sent tag 6, 400 bytes",
      WHATEVER},
     NULL,
     0},
    {"source-wrong",
     3,
     source_wrong,
     {"rank 2 is in nigh_finalize.*rank 0 waits in nigh_recv from rank 2.*" NEAR
      "rank 1 has sent tag 5, 16 bytes",
      WHATEVER, WHATEVER},
     NULL,
     0},
    {"communicator-wrong",
     2,
     comm_wrong,
     {"rank 1 is in nigh_finalize.*" NEAR "rank 1 has sent tag 5, 24 bytes, in communicator \"copy\"",
      WHATEVER},
     NULL,
     0},
    {"tag-wrong-for-a-while",
     3,
     tag_wrong_for_a_while,
     {"nigh_recv at .*matching.c:[0-9]+: has waited [0-9.]+ s for a message from rank 1, tag 5.*rank 1 "
      "waits in "
      "nigh_recv from rank 2.*" NEAR "rank 1 has sent tag 6, 400 bytes",
      WHATEVER, ""},
     "NIGH_STALL=0.02",
     0},
    {"probe-of-another-tag",
     2,
     probe_of_another_tag,
     {"rank 0 waits in nigh_probe from rank 1, tag 3.*" NEAR "rank 1 has sent tag 2, 40 bytes", WHATEVER},
     NULL,
     0},
    {"wait-for-another-tag",
     2,
     wait_for_another_tag,
     {"rank 0 waits in nigh_wait for its receive from rank 1.*tag 3.*" NEAR "rank 1 has sent tag 2, 40 bytes",
      WHATEVER},
     NULL,
     0},
    {"one-of-three-is-never-sent",
     2,
     one_of_three_is_never_sent,
     {"rank 1 is in nigh_finalize.*rank 0 waits in nigh_waitall for rank 1, at most 8 bytes, tag 1|rank 1 is "
      "in "
      "nigh_finalize.*rank 0 waits in nigh_waitall for rank 1, 8 bytes, tag 1",
      ""},
     NULL,
     0},
    {"received-twice",
     2,
     received_twice,
     {"rank 1 is in nigh_finalize.*rank 0 waits in nigh_recv from rank 1, at most 8 bytes, tag 1", ""},
     NULL,
     0},
    {"from-anyone-when-all-have-left",
     3,
     from_anyone_when_all_have_left,
     {"all 2 ranks that could end this have left or are in nigh_finalize, but rank 0 waits in nigh_recv from "
      "any",
      "", ""},
     NULL,
     0},
    {"probe-when-all-have-left",
     3,
     probe_when_all_have_left,
     {"all 2 ranks that could end this have left or are in nigh_finalize, but rank 0 waits in nigh_probe", "",
      ""},
     NULL,
     0},
    {"ssend-to-one-that-leaves",
     2,
     ssend_to_one_that_leaves,
     {"rank 1 is in nigh_finalize.*rank 0 waits in nigh_ssend to rank 1, 8 bytes, tag 1", WHATEVER},
     NULL,
     0},
    {"never-received",
     2,
     never_received,
     {"", "never received: a message of 123 bytes from rank 0, tag 77, in communicator \"world\""},
     NULL,
     0},
    {"isend-on-all-never-received",
     3,
     isend_on_all_never_received,
     {"never received: a message of 8 bytes from rank [0-2], tag 4"},
     NULL,
     0},
    {"split-apart",
     2,
     split_apart,
     {"there is no rank 1 in communicator [0-9]+ .*: its ranks are 0 to 0"},
     NULL,
     0},
    {"in-none-of-them", 2, in_none_of_them, {"the communicator is NULL", ""}, NULL, 0},
    {"barrier-missing-on-one-rank",
     3,
     barrier_missing,
     {"rank 2 is in nigh_finalize.*but rank 0 waits in nigh_barrier for rank 2", "returned ECONNRESET",
      WHATEVER},
     NULL,
     0},
    {"small-head-to-head",
     2,
     small_head_to_head,
     {"nigh_send at .*matching.c:[0-9]+ of 8 bytes to rank 1, tag 1, came back only because the message was "
      "small.*nigh_sendrecv",
      "nigh_send at .*matching.c:[0-9]+ of 8 bytes to rank 0, tag 1, came back only because"},
     NULL,
     0},
    {"pairs-head-to-head",
     4,
     pairs_head_to_head,
     {"of 100 bytes to rank [0-3], tag [0-9], came back only because"},
     NULL,
     0},
    {"truncated-recv", 2, truncated_recv, {"", TRUNCATED}, NULL, 0},
    {"truncated-recv-nothing-beyond", 2, truncated_recv, {"", BOTH}, NULL, 0},
    {"truncated-irecv", 2, truncated_irecv, {"", TRUNCATED}, NULL, 0},
    {"truncated-waitall", 2, truncated_waitall, {"", "status: 400 of EMSGSIZE"}, NULL, 0},
    {"truncated-test", 2, truncated_test, {"", TRUNCATED}, NULL, 0},
    {"truncated-sendrecv", 2, truncated_sendrecv, {"", TRUNCATED}, NULL, 0},
    {"truncated-mrecv", 2, truncated_mrecv, {"", TRUNCATED}, NULL, 0},
    {"truncated-persistent", 2, truncated_persistent, {"", TRUNCATED}, NULL, 0},
    {"truncated-in-place", 2, truncated_in_place, {"", TRUNCATED}, NULL, 0},
    {"late-receive",
     2,
     late_receive,
     {"timed out: receive of at most 8 bytes from rank 1, tag 1, .*rank 1 runs the program.*" NEAR
      "rank 1 has sent tag 2, 8 bytes",
      ""},
     NULL,
     0},
    {"late-from-anyone",
     3,
     late_anyone,
     {"timed out: receive of at most 8 bytes from any rank, tag 1.*rank 1 runs the program.*rank 2 waits in "
      "nigh_barrier",
      "", ""},
     NULL,
     0},
    {0},
};
