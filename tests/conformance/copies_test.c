/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that the CPU may not touch: their bytes move by the host's copies and no other way, whole, once, in both
 * directions and in atomics; a copy that fails fails the peer's operation and nothing else. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define BOTH  (NIGH_REMOTE_READ | NIGH_REMOTE_WRITE)
#define ROOM  ((8u << 20) + 4096u)
#define EVENT 41

static const struct nigh_ops *nigh;

/* Nothing may be read or written at `at`; what lies there is `bytes`. */
static struct far_memory {
    uint8_t *at, *bytes;
    int fails, behind; /* the next so many copies, behind so many that do not */
    uint32_t reads, writes;
} memory;

static int inside(struct far_memory *of, uint64_t offset, uint64_t bytes)
{
    CHECK(of == &memory);
    CHECK(bytes > 0 && offset <= ROOM && bytes <= ROOM - offset);
    if (of->behind > 0) {
        of->behind--;
        return 0;
    }
    return of->fails > 0 && of->fails-- ? -EIO : 0;
}

static int read_it(void *arg, void *to, uint64_t offset, uint64_t bytes)
{
    struct far_memory *of = arg;
    int rc = inside(of, offset, bytes);

    of->reads++;
    if (!rc)
        memcpy(to, of->bytes + offset, bytes);
    return rc;
}

static int write_it(void *arg, const void *from, uint64_t offset, uint64_t bytes)
{
    struct far_memory *of = arg;
    int rc = inside(of, offset, bytes);

    of->writes++;
    if (!rc)
        memcpy(of->bytes + offset, from, bytes);
    return rc;
}

/* The second side's; `shared` has the key. */
static struct nigh_region *offer(struct pair *pair, uint32_t flags)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_copies copies = {.size = sizeof(copies), .arg = &memory, .read = read_it, .write = write_it};
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    if (owner) {
        struct nigh_register what = {.size = sizeof(what),
                                     .flags = flags | NIGH_REGISTER_COPIES,
                                     .bytes = ROOM,
                                     .context = flags & NIGH_REGISTER_EVENTS ? EVENT : 0,
                                     .copies = &copies};

        memory = (struct far_memory){.bytes = data_filled(ROOM, 1)};
        memory.at = mmap(NULL, ROOM, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        CHECK(memory.at != MAP_FAILED);
        what.buffer = memory.at;
        CHECK_INT(nigh->register_memory(owner->context, &what, &key, &region), 0);
        memset(&copies, 0, sizeof(copies)); /* they were taken over */
        pair->shared[0] = key;
    }
    pair_meet();
    return region;
}

static void withdraw(struct pair *pair, struct nigh_region *region)
{
    pair_meet();
    if (!pair->end[1])
        return;
    CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    munmap(memory.at, ROOM);
}

static int move(struct pair *pair, enum nigh_op op, uint64_t offset, void *local, uint64_t bytes)
{
    struct pair_end *end = pair->end[0];
    struct nigh_rma rma = {.size = sizeof(rma),
                           .buffer = bytes ? local : NULL,
                           .bytes = bytes,
                           .offset = offset,
                           .key = pair->shared[0],
                           .context = 31};

    if (op == NIGH_OP_PUT)
        CHECK_INT(nigh->post_put(end->peer, &rma), 0);
    else
        CHECK_INT(nigh->post_get(end->peer, &rma), 0);
    return pair_await(end, op, 31).status;
}

static int add(struct pair *pair, uint16_t op, uint64_t operand, uint64_t *before)
{
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = op,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = op == NIGH_READ ? NULL : &operand,
                                 .result = before,
                                 .key = pair->shared[0],
                                 .offset = 64,
                                 .context = 35};

    CHECK_INT(nigh->post_atomic(pair->end[0]->peer, &atomic), 0);
    return pair_await(pair->end[0], NIGH_OP_ATOMIC, 35).status;
}

static const uint64_t sizes[] = {0, 1, 8, 63, 1000, 4097, 65537, 1 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* One copy for each operation with bytes, none for one without. */
static void there_and_back(struct pair *pair)
{
    struct nigh_region *region = offer(pair, BOTH);

    for (uint32_t i = 0; pair->end[0] && i < SIZES; i++) {
        uint8_t *to = data_room(sizes[i]);

        CHECK_INT(move(pair, NIGH_OP_GET, 5 * i, to, sizes[i]), 0);
        data_check(to, sizes[i], 1, 5 * i);
        CHECK_INT(move(pair, NIGH_OP_PUT, ROOM - sizes[i], data_filled(sizes[i], i), sizes[i]), 0);
        CHECK_INT(move(pair, NIGH_OP_GET, ROOM - sizes[i], to, sizes[i]), 0);
        data_check(to, sizes[i], i, 0);
        /* As it was, for the next. */
        data_fill(to, sizes[i], 1);
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, to, sizes[i]), 0);
        to = data_room(ROOM);
        data_fill(to, ROOM, 1);
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, to, ROOM), 0);
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(memory.reads, 2 * (SIZES - 1));
        CHECK_INT(memory.writes, 2 * (SIZES - 1) + SIZES);
    }
    withdraw(pair, region);
}

static void ends_and_rights(struct pair *pair)
{
    struct nigh_region *region = offer(pair, NIGH_REMOTE_READ);
    uint8_t *local = data_room(64);

    if (pair->end[0]) {
        CHECK_INT(move(pair, NIGH_OP_GET, ROOM - 63, local, 64), -ERANGE);
        CHECK_INT(move(pair, NIGH_OP_GET, UINT64_MAX, local, 64), -ERANGE);
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, local, 64), -EACCES);
        CHECK_INT(add(pair, NIGH_SUM, 1, NULL), -EACCES);
    }
    pair_meet();
    if (pair->end[1])
        CHECK_INT(memory.reads + memory.writes, 0);
    withdraw(pair, region);
}

static void atomics(struct pair *pair)
{
    struct nigh_region *region = offer(pair, BOTH);
    uint64_t before = 0, first = 0;

    if (pair->end[0]) {
        CHECK_INT(move(pair, NIGH_OP_GET, 64, &first, sizeof(first)), 0);
        CHECK_INT(add(pair, NIGH_SUM, 5, &before), 0);
        CHECK_INT(before, first);
        CHECK_INT(add(pair, NIGH_SUM, 5, NULL), 0);
        CHECK_INT(add(pair, NIGH_READ, 0, &before), 0);
        CHECK_INT(before, first + 10);
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(memory.reads, 4);
        CHECK_INT(memory.writes, 2);
    }
    withdraw(pair, region);
}

/* Nothing is told to the owner of what has failed. */
static void copies_fail(struct pair *pair)
{
    struct nigh_region *region = offer(pair, BOTH | NIGH_REGISTER_EVENTS);
    struct pair_end *end = pair->end[0], *owner = pair->end[1];
    uint8_t *local = data_filled(70000, 3);
    struct nigh_completion done;

    for (uint32_t i = 0; i < 6; i++) {
        pair_meet();
        if (owner) {
            memory.fails = 1;
            memory.behind = i / 2 == 2; /* what an atomic has made of it is written */
        }
        pair_meet();
        if (end && i < 2)
            CHECK_INT(move(pair, i ? NIGH_OP_GET : NIGH_OP_PUT, 0, local, 70000), -EIO);
        else if (end)
            CHECK_INT(add(pair, NIGH_SUM, 1, i % 2 ? &(uint64_t){0} : NULL), -EIO);
        pair_meet();
    }
    if (end)
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, data_filled(70000, 9), 70000), 0);
    pair_meet();
    if (owner) {
        done = pair_await(owner, NIGH_OP_REMOTE_PUT, EVENT);
        CHECK_INT(done.bytes, 70000);
        CHECK_INT(nigh->poll_completions(owner->context, &done, 1), 0);
        data_check(memory.bytes, 70000, 9, 0);
    }
    withdraw(pair, region);
}

/* A region cannot be withdrawn while a put to it comes together, nor while an answer to a get goes. */
static void in_use(struct pair *pair)
{
    struct nigh_region *region = offer(pair, BOTH);
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_rma rma = {.size = sizeof(rma),
                           .buffer = data_filled(ROOM, 7),
                           .bytes = ROOM,
                           .key = pair->shared[0],
                           .context = 31};
    uint32_t busy = 0, writes;

    /* Who has just been heard of is looked at in each pass: so behind one some of it has come. */
    CHECK_INT(move(pair, NIGH_OP_PUT, 0, data_filled(1, 7), 1), 0);
    writes = memory.writes;
    CHECK_INT(nigh->post_put(tx->peer, &rma), 0);
    pair_pump();
    while (memory.writes == writes) {
        CHECK_INT(nigh->deregister(rx->context, region), -EBUSY);
        busy++;
        pair_pump();
    }
    CHECK(busy > 0);
    CHECK_INT(pair_await(tx, NIGH_OP_PUT, 31).status, 0);
    data_check(memory.bytes, ROOM, 7, 0);
    rma.context = 32;
    rma.buffer = data_room(ROOM);
    CHECK_INT(nigh->post_get(tx->peer, &rma), 0);
    while (memory.reads == 0)
        pair_pump();
    CHECK_INT(nigh->deregister(rx->context, region), -EBUSY);
    CHECK_INT(pair_await(tx, NIGH_OP_GET, 32).status, 0);
    data_check(rma.buffer, ROOM, 7, 0);
    withdraw(pair, region);
}

/* What gets ask for is not all read at once: memory would not hold it. */
static void many_gets(struct pair *pair)
{
    enum { GETS = 60, BYTES = 1 << 20 };
    struct nigh_region *region = offer(pair, BOTH);
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion done;
    uint8_t *to = data_room(ROOM);

    for (uint32_t i = 0; i < GETS; i++) {
        struct nigh_rma rma = {.size = sizeof(rma),
                               .buffer = to,
                               .bytes = BYTES,
                               .offset = i,
                               .key = pair->shared[0],
                               .context = 100 + i};

        CHECK_INT(nigh->post_get(tx->peer, &rma), 0);
    }
    while (memory.reads == 0)
        pair_pump();
    /* Now the owner alone makes progress. */
    for (uint32_t i = 0; i < 2000; i++)
        CHECK_INT(nigh->poll_completions(rx->context, &done, 1), 0);
    CHECK(memory.reads < GETS);
    for (uint32_t i = 0; i < GETS; i++)
        CHECK_INT(pair_await(tx, NIGH_OP_GET, 100 + i).status, 0);
    CHECK_INT(memory.reads, GETS);
    data_check(to, BYTES, 1, GETS - 1);
    withdraw(pair, region);
}

static void refused(struct pair *pair)
{
    struct nigh_copies copies = {.size = sizeof(copies), .read = read_it, .write = write_it};
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = BOTH | NIGH_REGISTER_COPIES,
                                 .buffer = data_room(64),
                                 .bytes = 64,
                                 .copies = &copies};
    struct nigh_context *context = pair->end[0]->context;
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    copies.reserved = 1;
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    copies = (struct nigh_copies){.size = 8, .read = read_it, .write = write_it};
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    copies = (struct nigh_copies){.size = sizeof(copies), .read = read_it};
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    copies = (struct nigh_copies){.size = sizeof(copies), .write = write_it};
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    copies.read = read_it;
    what.buffer = NULL;
    what.bytes = UINT64_MAX;
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    what.copies = NULL;
    what.buffer = data_room(64);
    what.bytes = 64;
    CHECK_INT(nigh->register_memory(context, &what, &key, &region), -EINVAL);
    CHECK(!region);
}

static const struct pair_case cases[] = {
    {.name = "there and back", .play = there_and_back},
    {.name = "ends and rights", .play = ends_and_rights},
    {.name = "atomics", .play = atomics},
    {.name = "copies fail", .play = copies_fail},
    {.name = "in use", .play = in_use, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "many gets", .play = many_gets, .forms = PAIR_TWO},
    {.name = "refused", .play = refused, .forms = PAIR_SELF},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
