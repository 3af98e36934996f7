/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/data.c - see data.h. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <stdlib.h>
#include <string.h>

#define MARK_BYTES 64u
#define EMPTY      0xa5

struct room {
    struct room *next;
    uint64_t bytes;
    uint8_t at[] __attribute__((aligned(64)));
};

static _Thread_local struct room *rooms;

uint8_t *data_room(uint64_t bytes)
{
    struct room *room = aligned_alloc(64, (sizeof(*room) + bytes + MARK_BYTES + 63) / 64 * 64);

    if (!room)
        pair_fail(__FILE__, __LINE__, "no memory for a room of %llu bytes", (unsigned long long)bytes);
    room->bytes = bytes;
    room->next = rooms;
    rooms = room;
    memset(room->at, EMPTY, bytes + MARK_BYTES);
    return room->at;
}

static uint64_t word_at(uint64_t seed, uint64_t index)
{
    uint64_t word = (index + 1) * UINT64_C(0x9e3779b97f4a7c15) + seed * UINT64_C(0xd1b54a32d192ed03);

    return word ^ word >> 29;
}

void data_fill(void *at, uint64_t bytes, uint64_t seed)
{
    uint8_t *to = at;
    uint64_t word;

    for (uint64_t i = 0; i < bytes / 8; i++) {
        word = word_at(seed, i);
        memcpy(to + i * 8, &word, 8);
    }
    word = word_at(seed, bytes / 8);
    if (bytes % 8)
        memcpy(to + bytes / 8 * 8, &word, bytes % 8);
}

uint8_t *data_filled(uint64_t bytes, uint64_t seed)
{
    uint8_t *at = data_room(bytes);

    data_fill(at, bytes, seed);
    return at;
}

static uint8_t byte_at(uint64_t seed, uint64_t place)
{
    return (uint8_t)(word_at(seed, place / 8) >> place % 8 * 8);
}

void data_check(const void *at, uint64_t bytes, uint64_t seed, uint64_t from)
{
    const uint8_t *got = at;
    uint64_t i = 0;

    if (from % 8 == 0) {
        for (; i + 8 <= bytes; i += 8) {
            uint64_t expected = word_at(seed, (from + i) / 8);

            if (memcmp(got + i, &expected, 8) != 0)
                break;
        }
    }
    for (; i < bytes; i++)
        if (got[i] != byte_at(seed, from + i))
            pair_fail(__FILE__, __LINE__, "byte %llu of %llu (seed %llu) is 0x%02x, not 0x%02x",
                      (unsigned long long)i, (unsigned long long)bytes, (unsigned long long)seed, got[i],
                      byte_at(seed, from + i));
}

void data_check_rest(const uint8_t *room, uint64_t written, uint64_t bytes)
{
    for (uint64_t i = written; i < bytes + MARK_BYTES; i++)
        if (room[i] != EMPTY)
            pair_fail(__FILE__, __LINE__, "byte %llu was written, only %llu of %llu may be",
                      (unsigned long long)i, (unsigned long long)written, (unsigned long long)bytes);
}

void data_end(void)
{
    bool damaged = false;
    struct room *room;
    uint64_t bytes = 0;

    while ((room = rooms) != NULL) {
        rooms = room->next;
        for (uint32_t i = 0; i < MARK_BYTES; i++)
            if (room->at[room->bytes + i] != EMPTY) {
                damaged = true;
                bytes = room->bytes;
            }
        free(room);
    }
    if (damaged)
        pair_fail(__FILE__, __LINE__, "a buffer of %llu bytes was written beyond its end",
                  (unsigned long long)bytes);
}
