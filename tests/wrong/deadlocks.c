/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that wait for each other: user programs 26 and 27, and what else makes a circle. */
#include "tests/wrong/wrong.h"

#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <unistd.h>

static char big[4 << 20], room[4 << 20];
enum { BIG = sizeof(big) };

static int right_of(int rank, int size)
{
    return (rank + 1) % size;
}

static int left_of(int rank, int size)
{
    return (rank + size - 1) % size;
}

static void both_send_first(int rank, int size)
{
    (void)size;
    TELL(nigh_send(big, BIG, 1 - rank, 7, WORLD));
    (void)nigh_recv(room, BIG, 1 - rank, 7, WORLD, NIGH_STATUS_IGNORE);
}

static void both_ssend_first(int rank, int size)
{
    (void)size;
    TELL(nigh_ssend(big, 8, 1 - rank, 7, WORLD));
}

static void small_sends_strict(int rank, int size)
{
    (void)size;
    TELL(nigh_send(big, 8, 1 - rank, 7, WORLD));
}

static void both_receive_first(int rank, int size)
{
    (void)size;
    TELL(nigh_recv(room, 8, 1 - rank, 5, WORLD, NIGH_STATUS_IGNORE));
}

static void ring_of_receives(int rank, int size)
{
    TELL(nigh_recv(room, 64, left_of(rank, size), 3, WORLD, NIGH_STATUS_IGNORE));
}

static void ring_of_sends(int rank, int size)
{
    TELL(nigh_send(big, BIG, right_of(rank, size), 3, WORLD));
    (void)nigh_recv(room, BIG, left_of(rank, size), 3, WORLD, NIGH_STATUS_IGNORE);
}

static void both_probe_first(int rank, int size)
{
    (void)size;
    TELL(nigh_probe(1 - rank, 4, WORLD, NIGH_STATUS_IGNORE));
}

static void both_mprobe_first(int rank, int size)
{
    nigh_matched message;

    (void)size;
    TELL(nigh_mprobe(1 - rank, NIGH_ANY_TAG, WORLD, &message, NIGH_STATUS_IGNORE));
}

static void wait_before_send(int rank, int size)
{
    nigh_request request;

    (void)size;
    nigh_irecv(room, 8, 1 - rank, 1, WORLD, &request);
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
    nigh_send(big, 8, 1 - rank, 1, WORLD);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void waitall_before_send(int rank, int size)
{
    nigh_request requests[2];

    /* Two of them are a circle already: they look late enough for the third. */
    nigh_barrier(WORLD);
    nigh_irecv(room, 8, left_of(rank, size), 1, WORLD, &requests[0]);
    nigh_irecv(room + 8, 8, right_of(rank, size), 1, WORLD, &requests[1]);
    TELL(nigh_waitall(2, requests, NIGH_STATUSES_IGNORE));
    nigh_send(big, 8, left_of(rank, size), 1, WORLD);
    nigh_send(big, 8, right_of(rank, size), 1, WORLD);
    nigh_waitall(2, requests, NIGH_STATUSES_IGNORE);
}

static void waitany_before_send(int rank, int size)
{
    nigh_request requests[2];
    int index;

    nigh_irecv(room, 8, left_of(rank, size), 1, WORLD, &requests[0]);
    nigh_irecv(room + 8, 8, right_of(rank, size), 1, WORLD, &requests[1]);
    TELL(nigh_waitany(2, requests, &index, NIGH_STATUS_IGNORE));
    nigh_send(big, 8, left_of(rank, size), 1, WORLD);
    nigh_send(big, 8, right_of(rank, size), 1, WORLD);
    nigh_waitall(2, requests, NIGH_STATUSES_IGNORE);
}

/* One that waits for a rank which is not part of the circle, and for one that is, needs both. */
static void waitall_one_of_two(int rank, int size)
{
    nigh_request requests[2];

    (void)size;
    if (rank == 0) {
        nigh_irecv(room, 8, 1, 1, WORLD, &requests[0]);
        nigh_irecv(room + 8, 8, 2, 1, WORLD, &requests[1]);
        TELL(nigh_waitall(2, requests, NIGH_STATUSES_IGNORE));
        nigh_send(big, 8, 1, 2, WORLD);
        nigh_waitall(2, requests, NIGH_STATUSES_IGNORE);
    } else if (rank == 1) {
        TELL(nigh_recv(room, 8, 0, 2, WORLD, NIGH_STATUS_IGNORE));
        nigh_send(big, 8, 0, 1, WORLD);
    } else {
        wrong_nap_until(0, "deadlock: 2 ranks");
        wrong_nap_until(1, "deadlock: 2 ranks");
        nigh_send(big, 8, 0, 1, WORLD);
    }
}

static void all_from_anyone(int rank, int size)
{
    (void)rank;
    (void)size;
    TELL(nigh_recv(room, 8, NIGH_ANY_SOURCE, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void knot(int rank, int size)
{
    (void)size;
    TELL(nigh_recv(room, 8, rank == 0 ? NIGH_ANY_SOURCE : rank == 1 ? 2 : 0, 1, WORLD, NIGH_STATUS_IGNORE));
}

static void in_part(int rank, int size)
{
    struct nigh_comm *half;
    int me;

    (void)size;
    if (nigh_comm_split(WORLD, rank % 2, 0, &half))
        return;
    nigh_comm_set_name(half, rank % 2 ? "odd" : "even");
    nigh_comm_rank(half, &me);
    if (rank % 2)
        TELL(nigh_recv(room, 8, 1 - me, 9, half, NIGH_STATUS_IGNORE));
    nigh_comm_free(&half);
}

static void barrier_against_receive(int rank, int size)
{
    (void)size;
    if (rank == 0) {
        TELL(nigh_recv(room, 8, 1, 2, WORLD, NIGH_STATUS_IGNORE));
        nigh_barrier(WORLD);
    } else {
        TELL(nigh_barrier(WORLD));
        nigh_send(big, 8, 0, 2, WORLD);
    }
}

static void barriers_crossed(int rank, int size)
{
    struct nigh_comm *copy;

    (void)size;
    if (nigh_comm_dup(WORLD, &copy))
        return;
    TELL(nigh_barrier(rank ? copy : WORLD));
    nigh_comm_free(&copy);
}

static void receive_from_oneself(int rank, int size)
{
    TELL(nigh_recv(room, 8, rank, 1, nigh_self(), NIGH_STATUS_IGNORE));
    (void)size;
}

static void ssend_to_oneself(int rank, int size)
{
    (void)size;
    (void)rank;
    TELL(nigh_ssend(big, 8, 0, 1, nigh_self()));
    nigh_recv(room, 8, 0, 1, nigh_self(), NIGH_STATUS_IGNORE);
}

static void sendrecv_of_another_tag(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_sendrecv(big, 8, 1, 1, room, 8, 1, 2, WORLD, NIGH_STATUS_IGNORE));
    else
        TELL(nigh_recv(room, 8, 0, 3, WORLD, NIGH_STATUS_IGNORE));
    if (rank)
        (void)nigh_recv(room, 8, 0, 1, WORLD, NIGH_STATUS_IGNORE);
}

static void send_against_ssend(int rank, int size)
{
    (void)size;
    if (rank == 0)
        TELL(nigh_ssend(big, 16, 1, 1, WORLD));
    else
        TELL(nigh_recv(room, 16, 0, 2, WORLD, NIGH_STATUS_IGNORE));
    if (rank == 0)
        nigh_send(big, 16, 1, 2, WORLD);
    else
        nigh_recv(room, 16, 0, 1, WORLD, NIGH_STATUS_IGNORE);
}

static void lend_and_wait(int rank, int size)
{
    nigh_request request;
    void *memory;

    (void)size;
    if (nigh_alloc_mem(4096, &memory))
        return;
    nigh_ilend(memory, 4096, 1 - rank, 6, WORLD, &request);
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
    nigh_recv(room, 4096, 1 - rank, 6, WORLD, NIGH_STATUS_IGNORE);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_free_mem(memory);
}

/* The receive from anyone is meant for another message, which comes later. */
static void taken_by_a_wildcard(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 1) {
        nigh_send(big, 8, 0, 5, WORLD);
        TELL(nigh_recv(room, 8, 0, 9, WORLD, NIGH_STATUS_IGNORE));
        return;
    }
    nigh_irecv(big, 8, NIGH_ANY_SOURCE, NIGH_ANY_TAG, WORLD, &request);
    TELL(nigh_recv(room, 8, 1, 5, WORLD, NIGH_STATUS_IGNORE));
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void nothing(int number)
{
    (void)number;
}

/* A timer's handler ends each sleep, as a nudge does. */
static void under_a_timer(int rank, int size)
{
    struct sigaction action = {.sa_handler = nothing};
    struct itimerval often = {{0, 2000}, {0, 2000}};

    (void)size;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    TELL(nigh_recv(room, 8, 1 - rank, 5, WORLD, NIGH_STATUS_IGNORE));
}

/* Nobody is accused, and nobody has to wait for an hour to hear of it; rank 2 ends them. */
static void with_an_hour_each(int rank, int size)
{
    pid_t pid = getpid();

    (void)size;
    nigh_barrier(WORLD); /* a message to one that is not met yet is under way */
    nigh_comm_set_timeout(WORLD, 3600);
    if (rank < 2) {
        nigh_send(&pid, sizeof(pid), 2, 1, WORLD);
        TELL(nigh_recv(room, 8, 1 - rank, 5, WORLD, NIGH_STATUS_IGNORE));
        return;
    }
    wrong_nap_until(0, "will end this");
    wrong_nap_until(1, "will end this");
    for (int other = 0; other < 2; other++)
        if (nigh_recv(&pid, sizeof(pid), other, 1, WORLD, NIGH_STATUS_IGNORE) == 0)
            kill(pid, SIGKILL);
}

#define CIRCLE(count) "deadlock: " #count " ranks wait for each other: "

const struct wrong wrong_deadlocks[] = {
    {"both-send-first",
     2,
     both_send_first,
     {CIRCLE(2) "rank 0 waits in nigh_send to rank 1, 4194304 bytes, tag 7, in communicator \"world\" "
                "\\(deadlocks.c:[0-9]+\\); rank 1 waits in nigh_send to rank 0, 4194304 bytes, tag "
                "7.*nigh_isend"},
     NULL,
     0},
    {"both-ssend-first",
     2,
     both_ssend_first,
     {CIRCLE(2) "rank 0 waits in nigh_ssend to rank 1, 8 bytes, tag 7.*rank 1 waits in nigh_ssend to rank 0"},
     NULL,
     0},
    {"small-sends-strict",
     2,
     small_sends_strict,
     {CIRCLE(2) "rank 0 waits in nigh_send to rank 1, 8 bytes, tag 7"},
     "NIGH_STRICT=1",
     0},
    {"both-receive-first",
     2,
     both_receive_first,
     {CIRCLE(
         2) "rank 0 waits in nigh_recv from rank 1, at most 8 bytes, tag 5.*rank 1 waits in nigh_recv from "
            "rank 0.*let one rank send before it receives"},
     NULL,
     0},
    {"both-receive-first, under a timer",
     2,
     under_a_timer,
     {CIRCLE(2) "rank 0 waits in nigh_recv from rank 1.*\nreturned EDEADLK"},
     NULL,
     0},
    {"both-receive-first, with a time-out",
     2,
     both_receive_first,
     {"timed out: receive of at most 8 bytes from rank [01], tag 5.*; rank [01] .*\nreturned ETIMEDOUT"},
     "NIGH_TIMEOUT=1",
     0},
    {"both-receive-first, with an hour each",
     3,
     with_an_hour_each,
     {"nigh_recv at .*: nothing but a time-out will end this: rank 0 waits in nigh_recv from rank 1, .* for "
      "3[0-9.]+ s more at most \\(deadlocks.c:[0-9]+\\); rank 1 waits in nigh_recv from rank 0",
      "nothing but a time-out will end this: rank 0 waits in nigh_recv from rank 1", WHATEVER},
     NULL,
     WRONG_KILLED},
    {"ring-of-3-receives",
     3,
     ring_of_receives,
     {CIRCLE(3) "rank 0 .* from rank 2.*rank 1 .* from rank 0.*rank 2 .* from rank 1"},
     NULL,
     0},
    {"ring-of-4-receives", 4, ring_of_receives, {CIRCLE(4) "rank 0 .* from rank 3"}, NULL, 0},
    {"ring-of-3-sends", 3, ring_of_sends, {CIRCLE(3) "rank 0 .* to rank 1"}, NULL, 0},
    {"ring-of-4-sends", 4, ring_of_sends, {CIRCLE(4) "rank 0 .* to rank 1"}, NULL, 0},
    {"ring-of-8-receives", 8, ring_of_receives, {CIRCLE(8) "rank 0 .* from rank 7"}, NULL, 0},
    {"both-probe-first",
     2,
     both_probe_first,
     {CIRCLE(2) "rank 0 waits in nigh_probe from rank 1, tag 4"},
     NULL,
     0},
    {"both-mprobe-first",
     2,
     both_mprobe_first,
     {CIRCLE(2) "rank 0 waits in nigh_mprobe from rank 1, any tag"},
     NULL,
     0},
    {"wait-before-send",
     2,
     wait_before_send,
     {CIRCLE(2) "rank 0 waits in nigh_wait for its receive from rank 1, at most 8 bytes, tag 1"},
     NULL,
     0},
    {"waitall-before-send",
     3,
     waitall_before_send,
     {"deadlock: [23] ranks wait for each other: rank [01] waits in nigh_waitall for rank.*: 2 requests, the "
      "first has "
      "8 bytes, tag 1"}, /* two of them are a circle, while the third is not there yet */
     "NIGH_STALL=2",
     0},
    {"waitany-before-send",
     3,
     waitany_before_send,
     {CIRCLE(3) "rank 0 waits in nigh_waitany for any of ranks 1, 2: 2 requests"},
     NULL,
     0},
    {"waitall-one-of-two",
     3,
     waitall_one_of_two,
     {CIRCLE(2) "rank 0 waits in nigh_waitall for rank 1: 2 requests.*rank 1 waits in nigh_recv from rank 0",
      CIRCLE(2) "rank 0 waits in nigh_waitall for rank 1: 2 requests.*rank 1 waits in nigh_recv from rank 0",
      ""},
     NULL,
     0},
    {"all-from-anyone",
     4,
     all_from_anyone,
     {CIRCLE(4) "rank 0 waits in nigh_recv from any of ranks 1, 2, 3, at most 8 bytes, tag 1"},
     NULL,
     0},
    {"knot-of-any-source",
     3,
     knot,
     {CIRCLE(
         3) "rank 0 waits in nigh_recv from any of ranks 1, 2.*rank 1 .* from rank 2.*rank 2 .* from rank 0"},
     NULL,
     0},
    {"in-part-of-the-ranks",
     4,
     in_part,
     {"", CIRCLE(2) "rank 1 waits in nigh_recv from rank 3.*in communicator \"odd\"", "",
      CIRCLE(2) "rank 1 waits in nigh_recv from rank 3.*in communicator \"odd\""},
     NULL,
     0},
    {"barrier-against-receive",
     2,
     barrier_against_receive,
     {CIRCLE(2) "rank 0 waits in nigh_recv from rank 1.*rank 1 waits in nigh_barrier for rank 0.*collectives "
                "in the same order"},
     NULL,
     0},
    {"barriers-crossed",
     2,
     barriers_crossed,
     {CIRCLE(2) "rank 0 waits in nigh_barrier for rank 1, in communicator \"world\".*rank 1 waits in "
                "nigh_barrier for rank 0, in communicator [0-9]"},
     NULL,
     0},
    {"receive-from-oneself",
     1,
     receive_from_oneself,
     {"deadlock: this rank waits for itself: rank 0 waits in nigh_recv from itself"},
     NULL,
     0},
    {"ssend-to-oneself",
     1,
     ssend_to_oneself,
     {"deadlock: this rank waits for itself: rank 0 waits in nigh_ssend to itself, 8 bytes.*nigh_irecv"},
     NULL,
     0},
    {"sendrecv-of-another-tag",
     2,
     sendrecv_of_another_tag,
     {CIRCLE(2) "rank 0 waits in nigh_sendrecv for rank 1, 8 bytes, tag 2",
      "not received so far: rank 0 has sent tag 1, 8 bytes"},
     NULL,
     0},
    {"ssend-of-another-tag",
     2,
     send_against_ssend,
     {CIRCLE(2) "rank 0 waits in nigh_ssend to rank 1, 16 bytes, tag 1.*rank 1 waits in nigh_recv from rank "
                "0, at most 16 bytes, tag 2"},
     NULL,
     0},
    {"lend-and-wait",
     2,
     lend_and_wait,
     {CIRCLE(2) "rank 0 waits in nigh_wait for its send to rank 1, 4096 bytes, tag 6"},
     NULL,
     0},
    {"taken-by-a-wildcard",
     2,
     taken_by_a_wildcard,
     {CIRCLE(2) ".*; rank 1 has sent tag 5, 8 bytes, taken by the receive from any rank, any tag, at "
                ".*deadlocks.c:[0-9]+",
      CIRCLE(2) "rank 0 waits in nigh_recv from rank 1, at most 8 bytes, tag 5"},
     NULL,
     0},
    {0},
};
