/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs that are right and look wrong: they must be told nothing. */
#include "tests/wrong/wrong.h"

#include <stdlib.h>

static char data[1 << 20], room[1 << 20];
enum { BIG = sizeof(data) };

static void ping_pong(int rank, int size)
{
    (void)size;
    for (int i = 0; i < 50; i++) {
        if (rank == 0)
            nigh_send(data, 8, 1, i, WORLD);
        nigh_recv(room, 8, 1 - rank, i, WORLD, NIGH_STATUS_IGNORE);
        if (rank == 1)
            nigh_send(data, 8, 0, i, WORLD);
    }
}

/* Messages come in an order that the receiver does not want, while their sender computes. */
static void out_of_order(int rank, int size)
{
    (void)size;
    if (rank == 1) {
        nigh_send(data, 8, 0, 2, WORLD);
        wrong_nap(700);
        nigh_send(data, 8, 0, 1, WORLD);
        return;
    }
    nigh_recv(room, 8, 1, 1, WORLD, NIGH_STATUS_IGNORE);
    nigh_recv(room, 8, 1, 2, WORLD, NIGH_STATUS_IGNORE);
}

/* Rank 0 hands out work that takes long; the others wait for it most of the time. */
static void master(int rank, int size)
{
    struct nigh_status status;

    for (int i = 0; rank == 0 && i < 2 * (size - 1); i++) {
        nigh_recv(room, 8, NIGH_ANY_SOURCE, NIGH_ANY_TAG, WORLD, &status);
        wrong_nap(100);
        nigh_send(data, 8, status.source, 1, WORLD);
    }
    for (int i = 0; rank != 0 && i < 2; i++) {
        nigh_send(data, 8, 0, 3, WORLD);
        nigh_recv(room, 8, 0, 1, WORLD, NIGH_STATUS_IGNORE);
        wrong_nap(350);
    }
}

static void laggard_in_a_barrier(int rank, int size)
{
    if (rank == size - 1)
        wrong_nap(900);
    nigh_barrier(WORLD);
}

static void chain_behind_a_slow_one(int rank, int size)
{
    if (rank == 0)
        wrong_nap(900);
    else
        nigh_recv(room, 8, rank - 1, 1, WORLD, NIGH_STATUS_IGNORE);
    if (rank < size - 1)
        nigh_send(data, 8, rank + 1, 1, WORLD);
}

static void large_exchange(int rank, int size)
{
    nigh_request requests[2];

    nigh_irecv(room, BIG, (rank + size - 1) % size, 1, WORLD, &requests[0]);
    nigh_isend(data, BIG, (rank + 1) % size, 1, WORLD, &requests[1]);
    nigh_waitall(2, requests, NIGH_STATUSES_IGNORE);
}

static void posted_in_time(int rank, int size)
{
    nigh_request request;

    (void)size;
    nigh_irecv(room, 8, 1 - rank, 1, WORLD, &request);
    nigh_send(data, 8, 1 - rank, 1, WORLD);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void with_sendrecv(int rank, int size)
{
    for (int i = 0; i < 20; i++)
        nigh_sendrecv(data, BIG, (rank + 1) % size, i, room, BIG, (rank + size - 1) % size, i, WORLD,
                      NIGH_STATUS_IGNORE);
}

/* Two wait for each other in circles that a third can open. */
static void circle_with_a_way_out(int rank, int size)
{
    (void)size;
    if (rank == 2) {
        wrong_nap(900);
        nigh_send(data, 8, 0, 1, WORLD);
    } else if (rank == 0) {
        nigh_recv(room, 8, NIGH_ANY_SOURCE, 1, WORLD, NIGH_STATUS_IGNORE);
        nigh_send(data, 8, 1, 1, WORLD);
    } else {
        nigh_recv(room, 8, 0, 1, WORLD, NIGH_STATUS_IGNORE);
    }
}

static void started_late(int rank, int size)
{
    if (rank == size - 1)
        wrong_nap(800);
    if (nigh_init(NULL))
        exit(1);
    nigh_sendrecv(data, 8, (rank + 1) % size, 1, room, 8, (rank + size - 1) % size, 1, WORLD,
                  NIGH_STATUS_IGNORE);
    nigh_finalize();
}

/* The receiver's buffer is longer than the message: what is behind it stays, whatever a debug mode does meanwhile. */
static void tail_kept(int rank, int size)
{
    (void)size;
    memset(room, 'k', 64);
    if (rank == 0)
        nigh_send(data, 8, 1, 1, WORLD);
    else
        nigh_recv(room, 64, 0, 1, WORLD, NIGH_STATUS_IGNORE);
    if (rank == 1 && (room[7] != 0 || room[8] != 'k' || room[63] != 'k'))
        wrong_told(-EILSEQ);
}

const struct wrong wrong_right[] = {
    {"right: ping-pong", 2, ping_pong, {""}, NULL, 0},
    {"right: ping-pong, strict", 2, ping_pong, {""}, "NIGH_STRICT=1", 0},
    {"right: out-of-order", 2, out_of_order, {""}, NULL, 0},
    {"right: master", 4, master, {""}, NULL, 0},
    {"right: laggard-in-a-barrier", 4, laggard_in_a_barrier, {""}, NULL, 0},
    {"right: chain-behind-a-slow-one", 5, chain_behind_a_slow_one, {""}, NULL, 0},
    {"right: large-exchange", 4, large_exchange, {""}, NULL, 0},
    {"right: posted-in-time", 2, posted_in_time, {""}, NULL, 0},
    {"right: posted-in-time, strict", 2, posted_in_time, {""}, "NIGH_STRICT=1", 0},
    {"right: sendrecv", 4, with_sendrecv, {""}, "NIGH_STALL=0.001", 0},
    {"right: circle-with-a-way-out", 3, circle_with_a_way_out, {""}, NULL, 0},
    {"right: started-late", 3, started_late, {""}, NULL, WRONG_LOOSE},
    {"right: tail-kept, debug", 2, tail_kept, {""}, "NIGH_DEBUG=1", 0},
    {0},
};
