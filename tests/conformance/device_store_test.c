/* SPDX-License-Identifier: BSD-3-Clause */
/* Short messages and puts to the memory of a registered region, which the CPU stores there where the driver maps it: what goes so and what
 * does not, and that no copy of the host's is overtaken. On the fake driver, whose work begins some milliseconds after it was asked for. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <stdlib.h>

#define DELAY_US "3000"

enum { ROOM = 100000, MOST = 8192, LARGE = 66 << 20 };

static const struct nigh_ops *nigh;

/* The receiver's: memory on its device, and its region. */
struct place {
    struct buffer memory;
    struct nigh_region *region;
};

static struct nigh_region *registered(struct pair *pair, const struct buffer *memory)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                 .buffer = memory->at,
                                 .bytes = memory->bytes};
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
    pair->shared[0] = key;
    return region;
}

static struct place begin(struct pair *pair, uint64_t bytes)
{
    struct place place = {.region = NULL};

    if (pair->end[1]) {
        place.memory = buffer_make(pair, RECEIVER, bytes);
        place.region = registered(pair, &place.memory);
    }
    pair_meet();
    return place;
}

static void end(struct pair *pair, struct place *place)
{
    pair_meet();
    if (!pair->end[1])
        return;
    if (place->region)
        CHECK_INT(nigh->deregister(pair->end[1]->context, place->region), 0);
    buffer_drop(&place->memory);
}

/* Copies to the device that the driver was asked for. */
static unsigned copies(void)
{
    return cuda->calls("cuMemcpyHtoDAsync_v2") + cuda->calls("cuMemcpy2DAsync_v2");
}

static void want(struct pair *pair, const struct place *place, struct nigh_region *region, uint64_t at,
                 uint64_t bytes)
{
    struct nigh_recv recv = pair_a_recv(place->memory.at + at, bytes, 1, 1);

    recv.flags = NIGH_DEVICE;
    recv.region = region;
    CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &recv), 0);
}

/* A message to `at` of the place, whose bytes are checked. How often the driver was asked for a copy. */
static unsigned copied(struct pair *pair, const struct place *place, struct nigh_region *region, uint64_t at,
                       uint64_t bytes)
{
    uint8_t *seen = data_room(bytes);
    unsigned before = 0, now = 0;

    if (pair->end[1]) {
        want(pair, place, region, at, bytes);
        before = copies();
    }
    pair_meet();
    if (pair->end[0]) {
        pair_send(pair->end[0], data_filled(bytes, bytes + at), bytes, 1, 0, 2);
        pair_sent(pair->end[0], 2, bytes);
    }
    if (pair->end[1]) {
        pair_received(pair->end[1], 1, bytes);
        now = copies();
        cuda->get(seen, place->memory.at + at, bytes);
        data_check(seen, bytes, bytes + at, 0);
    }
    pair_meet();
    return now - before;
}

static void each_length(struct pair *pair)
{
    static const uint64_t lengths[] = {1, 8, 15, 100, 3000, MOST};
    struct place place = begin(pair, ROOM);

    for (uint64_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
        unsigned times = copied(pair, &place, place.region, i * 1001, lengths[i / 2]);

        if (pair->end[1])
            CHECK_INT(times, 0);
    }
    if (pair->end[1])
        CHECK(copied(pair, &place, place.region, 3, MOST + 1) > 0);
    else
        copied(pair, &place, NULL, 3, MOST + 1);
    end(pair, &place);
}

/* Whoever names no region, or one that is given up meanwhile, has said nothing of what lies there. */
static void without_region(struct pair *pair)
{
    struct place place = begin(pair, ROOM);
    unsigned times = copied(pair, &place, NULL, 8, 100);

    if (pair->end[1]) {
        CHECK(times > 0);
        want(pair, &place, place.region, 16, 64);
        CHECK_INT(nigh->deregister(pair->end[1]->context, place.region), 0);
        place.region = NULL;
        times = copies();
    }
    pair_meet();
    if (pair->end[0]) {
        pair_send(pair->end[0], data_filled(64, 16), 64, 1, 0, 2);
        pair_sent(pair->end[0], 2, 64);
    }
    if (pair->end[1]) {
        pair_received(pair->end[1], 1, 64);
        CHECK(copies() > times);
    }
    end(pair, &place);
}

/* More than a small card lets all processes map together. */
static void large_region(struct pair *pair)
{
    struct place place = begin(pair, LARGE);
    unsigned times = copied(pair, &place, place.region, LARGE - 200, 100);

    if (pair->end[1]) {
        CHECK(times > 0);
        CHECK_INT(cuda->calls("cuMemGetHandleForAddressRange"), 0);
    }
    end(pair, &place);
}

static void short_puts(struct pair *pair)
{
    enum { COUNT = 30, STEP = 701 };
    struct place place = begin(pair, ROOM);
    struct nigh_rma rma = {.size = sizeof(rma), .key = pair->shared[0]};
    unsigned before = pair->end[1] ? copies() : 0;

    for (uint64_t i = 0; i < COUNT && pair->end[0]; i++) {
        rma.buffer = data_filled(i * STEP % MOST + 1, i);
        rma.bytes = i * STEP % MOST + 1;
        rma.offset = i * 3000;
        rma.context = i;
        CHECK_INT(nigh->post_put(pair->end[0]->peer, &rma), 0);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, i).status, 0);
    }
    pair_meet();
    if (pair->end[1])
        CHECK_INT(copies() - before, 0);
    for (uint64_t i = 0; i < COUNT && pair->end[1]; i++) {
        uint64_t bytes = i * STEP % MOST + 1, whole = bytes < 3000 ? bytes : 3000;
        uint8_t *seen = data_room(whole);

        cuda->get(seen, place.memory.at + i * 3000, whole);
        data_check(seen, whole, i, 0);
    }
    end(pair, &place);
}

/* The host has put something there whose last bytes may be on their way, into new memory and into known: messages come behind them. */
static void no_copy_of_the_hosts_is_overtaken(struct pair *pair)
{
    for (uint64_t turn = 0; turn < 5; turn++) {
        struct place place = {.region = NULL};

        if (pair->end[1]) {
            place.memory = buffer_make(pair, RECEIVER, ROOM);
            buffer_fill(&place.memory, ROOM, 7);
            place.region = registered(pair, &place.memory);
        }
        copied(pair, &place, place.region, 0, 4000);
        if (pair->end[1])
            buffer_fill(&place.memory, ROOM, 8);
        copied(pair, &place, place.region, 0, 5000);
        end(pair, &place);
    }
}

static const struct pair_case cases[] = {
    {.name = "each length", .play = each_length, .forms = PAIR_FORK, .number = RECEIVER},
    {.name = "each length, mapped",
     .play = each_length,
     .forms = PAIR_FORK,
     .number = RECEIVER | KIND(MEMORY_MAPPED)},
    {.name = "without a region", .play = without_region, .forms = PAIR_FORK, .number = RECEIVER},
    {.name = "a large region", .play = large_region, .forms = PAIR_FORK, .number = RECEIVER},
    {.name = "no copy of the host's is overtaken",
     .play = no_copy_of_the_hosts_is_overtaken,
     .forms = PAIR_FORK,
     .number = RECEIVER | KIND(MEMORY_MAPPED)},
    {.name = "puts", .play = short_puts, .forms = PAIR_FORK | PAIR_THREADS, .number = RECEIVER},
};

int main(int argc, char **argv)
{
    setenv("NIGH_FAKE_CUDA_MMAP", "1", 1);
    setenv("NIGH_FAKE_CUDA_DELAY_US", DELAY_US, 1);
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
