/* SPDX-License-Identifier: BSD-3-Clause */
/* Buffers: changed too early (user program 29), read too early, NULL, lent, not given back. */
#include "tests/wrong/wrong.h"

#include <stdio.h>
#include <stdlib.h>

static char data[1 << 20], room[1 << 20];
enum { BIG = sizeof(data) };

static void change_of(uint64_t bytes, uint64_t at, int rank)
{
    nigh_request request;

    if (rank == 0) {
        nigh_isend(data, bytes, 1, 1, WORLD, &request);
        data[at] ^= 0x55;
        nigh_wait(&request, NIGH_STATUS_IGNORE);
    } else {
        nigh_recv(room, bytes, 0, 1, WORLD, NIGH_STATUS_IGNORE);
    }
}

static void small_changed(int rank, int size)
{
    (void)size;
    change_of(64, 17, rank);
}

static void large_changed(int rank, int size)
{
    (void)size;
    change_of(BIG, 12345, rank);
}

static void persistent_changed(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 1) {
        nigh_recv(room, 100, 0, 1, WORLD, NIGH_STATUS_IGNORE);
        return;
    }
    nigh_send_init(data, 100, 1, 1, WORLD, &request);
    nigh_start(&request);
    data[99] = 1;
    nigh_waitall(1, &request, NIGH_STATUSES_IGNORE);
    nigh_request_free(&request);
}

static void lent_changed(int rank, int size)
{
    nigh_request request;
    const void *at;
    void *memory;

    (void)size;
    if (rank == 1) {
        nigh_recv(room, 8, 0, 2, WORLD, NIGH_STATUS_IGNORE);
        if (nigh_recv_in_place(&at, 4096, 0, 1, WORLD, NIGH_STATUS_IGNORE) == 0)
            nigh_release(at);
        return;
    }
    if (nigh_alloc_mem(4096, &memory))
        return;
    nigh_ilend(memory, 4096, 1, 1, WORLD, &request);
    ((char *)memory)[7] = 9;
    nigh_send(data, 8, 1, 2, WORLD);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_free_mem(memory);
}

static void read_too_early(int rank, int size)
{
    nigh_request request;

    (void)size;
    nigh_barrier(WORLD);
    if (rank == 1) {
        wrong_nap_until(0, "read too early");
        nigh_send(data, 8, 0, 1, WORLD);
        return;
    }
    nigh_irecv(room, 8, 1, 1, WORLD, &request);
    fprintf(stderr, "read too early: 0x%02x\n", (unsigned char)room[3]);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    fprintf(stderr, "then: 0x%02x\n", (unsigned char)room[3]);
}

static void written_too_early(int rank, int size)
{
    nigh_request request;

    (void)size;
    if (rank == 1) {
        nigh_send(data, 8, 0, 1, WORLD);
        return;
    }
    nigh_irecv(room, 64, 1, 1, WORLD, &request);
    room[40] = 1;
    nigh_wait(&request, NIGH_STATUS_IGNORE);
}

static void send_of_null(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_send(NULL, 8, 0, 1, nigh_self()));
}

static void receive_into_null(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_recv(NULL, 100, 0, 1, nigh_self(), NIGH_STATUS_IGNORE));
}

static void lend_of_the_stack(int rank, int size)
{
    nigh_request request;
    char here[64];

    (void)rank, (void)size;
    TELL(nigh_ilend(here, 64, 0, 1, nigh_self(), &request));
}

static void lend_beyond_its_block(int rank, int size)
{
    nigh_request request;
    void *memory;

    (void)rank, (void)size;
    if (nigh_alloc_mem(4096, &memory))
        return;
    TELL(nigh_ilend(memory, 1 << 20, 0, 1, nigh_self(), &request));
    nigh_free_mem(memory);
}

static void freed_while_lent(int rank, int size)
{
    nigh_request request;
    const void *at;
    void *memory;

    (void)size;
    if (rank == 1) {
        nigh_barrier(WORLD);
        if (nigh_recv_in_place(&at, 4096, 0, 1, WORLD, NIGH_STATUS_IGNORE) == 0)
            nigh_release(at);
        return;
    }
    if (nigh_alloc_mem(4096, &memory))
        return;
    nigh_ilend(memory, 4096, 1, 1, WORLD, &request);
    TELL(nigh_free_mem(memory));
    nigh_barrier(WORLD);
    nigh_wait(&request, NIGH_STATUS_IGNORE);
    nigh_free_mem(memory);
}

static void free_of_other_memory(int rank, int size)
{
    void *memory = malloc(64);

    (void)rank, (void)size;
    TELL(nigh_free_mem(memory));
    free(memory);
}

static void memory_freed_twice(int rank, int size)
{
    void *memory;

    (void)rank, (void)size;
    if (nigh_alloc_mem(4096, &memory))
        return;
    nigh_free_mem(memory);
    TELL(nigh_free_mem(memory));
}

static void too_much_memory(int rank, int size)
{
    void *memory;

    (void)rank, (void)size;
    TELL(nigh_alloc_mem(UINT64_C(1) << 50, &memory));
}

static void no_memory_at_all(int rank, int size)
{
    void *memory;

    (void)rank, (void)size;
    TELL(nigh_alloc_mem(0, &memory));
}

/* Receives a message of 4096 bytes in place. */
static const void *held(int rank)
{
    const void *at = NULL;

    if (rank == 0)
        nigh_send(data, 4096, 1, 5, WORLD);
    else
        nigh_recv_in_place(&at, 4096, 0, 5, WORLD, NIGH_STATUS_IGNORE);
    return at;
}

static void never_released(int rank, int size)
{
    (void)size;
    (void)held(rank);
}

static void released_twice(int rank, int size)
{
    const void *at = held(rank);

    (void)size;
    if (rank == 0)
        return;
    nigh_release(at);
    TELL(nigh_release(at));
}

static void released_something_else(int rank, int size)
{
    (void)rank, (void)size;
    TELL(nigh_release(data));
}

static void lend_never_released(int rank, int size)
{
    nigh_request request;
    const void *at;
    void *memory;

    (void)size;
    if (rank == 1) {
        nigh_recv_in_place(&at, 4096, 0, 1, WORLD, NIGH_STATUS_IGNORE);
        return;
    }
    if (nigh_alloc_mem(4096, &memory))
        return;
    nigh_ilend(memory, 4096, 1, 1, WORLD, &request);
    TELL(nigh_wait(&request, NIGH_STATUS_IGNORE));
}

#define CHANGED(where) "the buffer was changed before the request had ended, first at byte " where " "

const struct wrong wrong_memory[] = {
    {"small-send-changed",
     2,
     small_changed,
     {"nigh_wait at .*memory.c:[0-9]+: " CHANGED(
          "17") "\\(it was 0x00 and is 0x55\\): send of 64 bytes to rank 1, tag 1, .*posted at .*memory.c",
      ""},
     "NIGH_DEBUG=1",
     0},
    {"large-send-changed",
     2,
     large_changed,
     {CHANGED("12345") ".*send of 1048576 bytes to rank 1", ""},
     "NIGH_DEBUG=1",
     0},
    {"persistent-send-changed",
     2,
     persistent_changed,
     {"nigh_waitall at .*" CHANGED("99"), ""},
     "NIGH_DEBUG=1",
     0},
    {"lent-memory-changed",
     2,
     lent_changed,
     {CHANGED("7") ".*lend of 4096 bytes to rank 1", ""},
     "NIGH_DEBUG=1",
     0},
    {"receive-read-too-early",
     2,
     read_too_early,
     {"read too early: 0xa5\nthen: 0x00", ""},
     "NIGH_DEBUG=1",
     0},
    {"receive-written-too-early",
     2,
     written_too_early,
     {"the buffer was written before its receive had ended, at byte 40: receive of at most 64 bytes from "
      "rank 1",
      ""},
     "NIGH_DEBUG=1",
     0},
    {"send-of-NULL", 1, send_of_null, {"the buffer is NULL, but 8 bytes are to be sent"}, NULL, 0},
    {"receive-into-NULL",
     1,
     receive_into_null,
     {"the buffer is NULL, but 100 bytes are to be received"},
     NULL,
     0},
    {"lend-of-the-stack", 1, lend_of_the_stack, {"only memory from nigh_alloc_mem can be lent"}, NULL, 0},
    {"lend-beyond-its-block",
     1,
     lend_beyond_its_block,
     {"only memory from nigh_alloc_mem can be lent: .* does not lie within one such block"},
     NULL,
     0},
    {"freed-while-lent",
     2,
     freed_while_lent,
     {"is lent or being sent: wait for these requests first", ""},
     NULL,
     0},
    {"free-of-other-memory",
     1,
     free_of_other_memory,
     {"is not memory from nigh_alloc_mem, or was freed before"},
     NULL,
     0},
    {"memory-freed-twice",
     1,
     memory_freed_twice,
     {"is not memory from nigh_alloc_mem, or was freed before"},
     NULL,
     0},
    {"too-much-memory", 1, too_much_memory, {"no 1125899906842624 bytes of shared heap: NIGH_HEAP"}, NULL, 0},
    {"no-memory-at-all", 1, no_memory_at_all, {"0 bytes cannot be allocated"}, NULL, 0},
    {"never-released",
     2,
     never_released,
     {"", "never released: the message of 4096 bytes from rank 0, tag 5, received in place at .*memory.c"},
     NULL,
     0},
    {"released-twice", 2, released_twice, {"", "it was released before, or never was one"}, NULL, 0},
    {"released-something-else",
     1,
     released_something_else,
     {"no message received in place lies at"},
     NULL,
     0},
    {"lend-never-released",
     2,
     lend_never_released,
     {"rank 1 is in nigh_finalize.*rank 0 waits in nigh_wait for its send to rank 1, 4096 bytes, tag 1",
      "never released: the message of 4096 bytes from rank 0, tag 1"},
     NULL,
     0},
    {0},
};
