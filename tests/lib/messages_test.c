/* SPDX-License-Identifier: BSD-3-Clause */
/* Blocking messages: every size, self and others, any source and any tag, nobody, too long, in order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t sizes[] = {0,    1,     8,     40,     41,      1024,    1025,   4096,
                                 8192, 65536, 65537, 262144, 1 << 20, 3000001, 4 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), LARGEST = 4 << 20 };

/* A ring: everybody sends to the right and receives from the left, in both forms. */
static void around(int rank, int size)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    uint8_t *out = malloc(LARGEST), *in = malloc(LARGEST);
    struct nigh_status status;

    for (int i = 0; i < SIZES; i++) {
        uint64_t bytes = sizes[i];

        ranks_fill(out, bytes, (uint64_t)(rank * 100 + i));
        OK(nigh_sendrecv(bytes ? out : NULL, bytes, right, i, bytes ? in : NULL, bytes, left, i, nigh_world(),
                         &status));
        CHECK_INT(status.source, left);
        CHECK_INT(status.tag, i);
        CHECK_INT(status.error, 0);
        CHECK_INT(status.bytes, bytes);
        CHECK(status.data == NULL);
        CHECK(ranks_is_filled(in, bytes, (uint64_t)(left * 100 + i)));
    }
    free(out);
    free(in);
}

static void test_ring(void **state)
{
    (void)state;
    ranks_run_all(around, NULL);
}

/* Rank 0 sends to each in turn, who sends back. */
static void there_and_back(int rank, int size)
{
    uint8_t *buffer = malloc(LARGEST);

    for (int i = 0; i < SIZES; i++)
        for (int peer = 1; peer < size; peer++) {
            if (rank == 0) {
                ranks_fill(buffer, sizes[i], (uint64_t)peer);
                OK(nigh_send(buffer, sizes[i], peer, 5, nigh_world()));
                memset(buffer, 0, sizes[i]);
                OK(nigh_recv(buffer, LARGEST, peer, 6, nigh_world(), NIGH_STATUS_IGNORE));
                CHECK(ranks_is_filled(buffer, sizes[i], (uint64_t)peer));
            } else if (rank == peer) {
                struct nigh_status status;

                OK(nigh_recv(buffer, LARGEST, 0, 5, nigh_world(), &status));
                CHECK_INT(status.bytes, sizes[i]);
                CHECK(ranks_is_filled(buffer, sizes[i], (uint64_t)peer));
                OK(nigh_ssend(buffer, sizes[i], 0, 6, nigh_world()));
            }
        }
    free(buffer);
}

static void test_there_and_back(void **state)
{
    (void)state;
    ranks_run(2, there_and_back, NULL);
    ranks_run(4, there_and_back, NULL);
}

static void anyone(int rank, int size)
{
    struct nigh_status status;
    int seen[16] = {0}, value = rank * 10;

    if (rank > 0) {
        OK(nigh_send(&value, sizeof(value), 0, rank + 100, nigh_world()));
        return;
    }
    for (int i = 1; i < size; i++) {
        OK(nigh_recv(&value, sizeof(value), NIGH_ANY_SOURCE, NIGH_ANY_TAG, nigh_world(), &status));
        CHECK(status.source > 0 && status.source < size);
        CHECK_INT(status.tag, status.source + 100);
        CHECK_INT(value, status.source * 10);
        CHECK_INT(seen[status.source]++, 0);
    }
}

static void test_anyone(void **state)
{
    (void)state;
    ranks_run(4, anyone, NULL);
    ranks_run(8, anyone, NULL);
}

/* Tags are told apart to their last bit, the greatest one included; messages that nobody wants yet wait. */
static void tags(int rank, int size)
{
    static const int all[] = {0, 1, NIGH_TAG_MAX, 65536, NIGH_TAG_MAX - 1};
    int value;

    (void)size;
    if (rank == 0) {
        for (int i = 0; i < 5; i++)
            OK(nigh_send(&all[i], sizeof(int), 1, all[i], nigh_world()));
        return;
    }
    for (int i = 4; i >= 0; i--) {
        struct nigh_status status;

        OK(nigh_recv(&value, sizeof(value), i % 2 ? 0 : NIGH_ANY_SOURCE, all[i], nigh_world(), &status));
        CHECK_INT(value, all[i]);
        CHECK_INT(status.tag, all[i]);
    }
}

static void test_tags(void **state)
{
    (void)state;
    ranks_run(2, tags, NULL);
}

enum { ROW = 20000 };

static void in_order(int rank, int size)
{
    (void)size;
    for (uint32_t i = 0; i < ROW; i++) {
        uint32_t value = i, words[300];

        if (rank == 0 && i % 97 == 0) {
            words[0] = i;
            OK(nigh_send(words, sizeof(words), 1, 3, nigh_world()));
        } else if (rank == 0) {
            OK(nigh_send(&value, sizeof(value), 1, 3, nigh_world()));
        } else {
            struct nigh_status status;

            OK(nigh_recv(words, sizeof(words), 0, i % 3 ? 3 : NIGH_ANY_TAG, nigh_world(), &status));
            CHECK_INT(words[0], i);
            CHECK_INT(status.bytes, i % 97 == 0 ? sizeof(words) : sizeof(value));
        }
    }
}

static void test_order(void **state)
{
    (void)state;
    ranks_run(2, in_order, NULL);
}

/* The plugin says -EAGAIN after 16384 sends that nobody takes; the program must not notice. */
static void many(int rank, int size)
{
    enum { COUNT = 40000 };
    uint64_t value;

    (void)size;
    if (rank == 1)
        ranks_nap(300);
    for (uint64_t i = 0; i < COUNT; i++) {
        if (rank == 0)
            OK(nigh_send(&i, sizeof(i), 1, 1, nigh_world()));
        else
            OK(nigh_recv(&value, sizeof(value), 0, 1, nigh_world(), NULL));
        if (rank == 1)
            CHECK_INT(value, i);
    }
}

static void test_many(void **state)
{
    (void)state;
    ranks_run(2, many, NULL);
}

static void nobody(int rank, int size)
{
    struct nigh_status status;
    char text[8] = "same";

    (void)rank;
    (void)size;
    OK(nigh_send(text, 5, NIGH_PROC_NULL, 1, nigh_world()));
    OK(nigh_ssend(text, 5, NIGH_PROC_NULL, 1, nigh_world()));
    OK(nigh_recv(text, 5, NIGH_PROC_NULL, NIGH_ANY_TAG, nigh_world(), &status));
    CHECK_INT(status.source, NIGH_PROC_NULL);
    CHECK_INT(status.tag, NIGH_ANY_TAG);
    CHECK_INT(status.bytes, 0);
    OK(nigh_sendrecv(text, 5, NIGH_PROC_NULL, 1, text, 5, NIGH_PROC_NULL, 1, nigh_world(), &status));
    CHECK_INT(status.source, NIGH_PROC_NULL);
    CHECK(strcmp(text, "same") == 0);
}

static void test_nobody(void **state)
{
    (void)state;
    ranks_run(1, nobody, NULL);
    ranks_run(2, nobody, NULL);
}

/* Too long: the beginning, both sizes, nothing beyond. */
static void too_long(int rank, int size)
{
    static const uint64_t longer[] = {100, 5000, 300000};

    (void)size;
    for (int i = 0; i < 3; i++) {
        uint64_t bytes = longer[i], room = bytes / 2;
        uint8_t *buffer = malloc(bytes);
        struct nigh_status status;
        char number[32];

        if (rank == 0) {
            ranks_fill(buffer, bytes, 9);
            OK(nigh_send(buffer, bytes, 1, 2, nigh_world()));
        } else {
            memset(buffer, 0x77, bytes);
            CHECK_INT(nigh_recv(buffer, room, 0, 2, nigh_world(), &status), -EMSGSIZE);
            CHECK_INT(status.error, -EMSGSIZE);
            CHECK_INT(status.bytes, bytes);
            CHECK_INT(status.source, 0);
            CHECK_INT(status.tag, 2);
            CHECK(ranks_is_filled(buffer, room, 9));
            for (uint64_t at = room; at < bytes; at++)
                CHECK_INT(buffer[at], 0x77);
            CHECK_TEXT("nigh_recv at ");
            snprintf(number, sizeof(number), " %llu bytes", (unsigned long long)bytes);
            CHECK_TEXT(number);
            snprintf(number, sizeof(number), " %llu bytes", (unsigned long long)room);
            CHECK_TEXT(number);
        }
        free(buffer);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    ranks_run(2, too_long, NULL);
}

/* A synchronous send does not end before its receive. */
static void synchronous(int rank, int size)
{
    int value = 1;

    (void)size;
    if (rank == 0) {
        OK(nigh_ssend(&value, sizeof(value), 1, 1, nigh_world()));
        CHECK(ranks_told(0));
    } else {
        ranks_nap(150);
        ranks_tell(0);
        OK(nigh_recv(&value, sizeof(value), 0, 1, nigh_world(), NULL));
    }
}

static void strictly(int rank, int size)
{
    int value = 1;

    (void)size;
    if (rank == 0) {
        OK(nigh_send(&value, sizeof(value), 1, 1, nigh_world()));
        CHECK(ranks_told(0));
    } else {
        ranks_nap(150);
        ranks_tell(0);
        OK(nigh_recv(&value, sizeof(value), 0, 1, nigh_world(), NULL));
    }
}

static void test_synchronous(void **state)
{
    (void)state;
    ranks_run(2, synchronous, NULL);
    ranks_run(2, strictly, &(struct ranks_how){.environment = "NIGH_STRICT=1"});
    ranks_run(4, around, &(struct ranks_how){.environment = "NIGH_STRICT=1"});
    ranks_run(4, around, &(struct ranks_how){.environment = "NIGH_DEBUG=1"});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring),        cmocka_unit_test(test_there_and_back),
        cmocka_unit_test(test_anyone),      cmocka_unit_test(test_tags),
        cmocka_unit_test(test_order),       cmocka_unit_test(test_many),
        cmocka_unit_test(test_nobody),      cmocka_unit_test(test_too_long),
        cmocka_unit_test(test_synchronous),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
