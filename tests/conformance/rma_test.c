/* SPDX-License-Identifier: BSD-3-Clause */
/* put and get on heap and on private memory: the bytes, the neighbours of the bytes, rights, ranges, keys that are not
 * (or no longer) good, notifications, and memory that is still in use. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

#define HEAP  1u
#define EVENT 41 /* the context of a region's events */
#define BOTH  (NIGH_REMOTE_READ | NIGH_REMOTE_WRITE)

static const struct nigh_ops *nigh;

/* What the target has registered; its key goes to the other side in a shared word. */
struct target {
    uint8_t *memory;
    uint64_t bytes, key;
    struct nigh_region *region;
};

static struct nigh_region *registered(struct pair_end *end, void *memory, uint64_t bytes, uint32_t flags,
                                      uint64_t *key)
{
    struct nigh_register what = {.size = sizeof(what), .flags = flags, .buffer = memory, .bytes = bytes};

    what.context = flags & NIGH_REGISTER_EVENTS ? EVENT : 0;
    struct nigh_region *region = NULL;

    CHECK_INT(nigh->register_memory(end->context, &what, key, &region), 0);
    return region;
}

static uint8_t *memory_of(struct pair *pair, struct pair_end *end, uint64_t bytes)
{
    void *memory;

    if (!(pair->of->number & HEAP))
        return data_room(bytes);
    CHECK_INT(nigh->heap_alloc(end->context, bytes, &memory), 0);
    return memory;
}

/* The second side registers; both know the key afterwards. */
static void offer(struct pair *pair, struct target *target, uint64_t bytes, uint32_t flags)
{
    target->bytes = bytes;
    if (pair->end[1]) {
        target->memory = memory_of(pair, pair->end[1], bytes);
        data_fill(target->memory, bytes, 1);
        target->region = registered(pair->end[1], target->memory, bytes, flags, &target->key);
        pair->shared[0] = target->key;
    }
    pair_meet();
    target->key = pair->shared[0];
}

static void withdraw(struct pair *pair, struct target *target)
{
    pair_meet();
    if (pair->end[1])
        CHECK_INT(nigh->deregister(pair->end[1]->context, target->region), 0);
}

static struct nigh_rma rma_of(const struct target *target, uint64_t offset, void *local, uint64_t bytes,
                              uint64_t context)
{
    return (struct nigh_rma){
        .size = sizeof(struct nigh_rma),
        .buffer = local,
        .bytes = bytes,
        .offset = offset,
        .key = target->key,
        .imm = 4711,
        .context = context,
    };
}

static int moved(struct pair_end *end, enum nigh_op op, uint64_t context, uint64_t bytes)
{
    struct nigh_completion done = pair_await(end, op, context);

    if (!done.status)
        CHECK_INT(done.bytes, bytes);
    CHECK(done.endpoint == end->peer);
    return done.status;
}

static int put(struct pair_end *end, const struct target *target, uint64_t offset, void *from, uint64_t bytes)
{
    struct nigh_rma rma = rma_of(target, offset, from, bytes, 31);

    CHECK_INT(nigh->post_put(end->peer, &rma), 0);
    return moved(end, NIGH_OP_PUT, 31, bytes);
}

static int get(struct pair_end *end, const struct target *target, uint64_t offset, void *to, uint64_t bytes)
{
    struct nigh_rma rma = rma_of(target, offset, to, bytes, 32);

    CHECK_INT(nigh->post_get(end->peer, &rma), 0);
    return moved(end, NIGH_OP_GET, 32, bytes);
}

/* ---- data ----------------------------------------------------------------------------------------------------- */

static const uint64_t sizes[] = {0, 1, 8, 63, 64, 1000, 4096, 65537, 1 << 20, (3 << 20) + 5};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))
#define ROOM  ((3u << 20) + 4096)

static void gets(struct pair *pair)
{
    struct target target;

    offer(pair, &target, ROOM, NIGH_REMOTE_READ);
    for (uint32_t i = 0; pair->end[0] && i < SIZES; i++) {
        uint64_t offset = i % 3 * 1024 + i % 2 * 8;
        uint8_t *to = data_room(sizes[i]);

        CHECK_INT(get(pair->end[0], &target, offset, sizes[i] ? to : NULL, sizes[i]), 0);
        data_check(to, sizes[i], 1, offset);
    }
    withdraw(pair, &target);
}

/* Odd offsets too: checked by bytes. */
static void odd_offsets(struct pair *pair)
{
    struct target target;

    offer(pair, &target, 4096, BOTH);
    for (uint32_t i = 0; pair->end[0] && i < 40; i++) {
        uint8_t *to = data_room(100 + i);

        CHECK_INT(get(pair->end[0], &target, 7 * i + 1, to, 100 + i), 0);
        data_check(to, 100 + i, 1, 7 * i + 1);
        CHECK_INT(put(pair->end[0], &target, 7 * i + 1, to, 100 + i), 0);
    }
    pair_meet();
    if (pair->end[1])
        data_check(target.memory, 4096, 1, 0);
    withdraw(pair, &target);
}

/* Each put is seen whole, and nothing beside it was written. */
static void puts_(struct pair *pair)
{
    struct target target;

    offer(pair, &target, ROOM, NIGH_REMOTE_WRITE);
    for (uint32_t i = 0; i < SIZES; i++) {
        uint64_t offset = 1024 + i;

        if (pair->end[0])
            CHECK_INT(put(pair->end[0], &target, offset, data_filled(sizes[i], 50 + i), sizes[i]), 0);
        pair_meet();
        if (pair->end[1]) {
            data_check(target.memory + offset, sizes[i], 50 + i, 0);
            data_check(target.memory, offset, 1, 0);
            for (uint64_t at = offset + sizes[i]; at < ROOM && at < offset + sizes[i] + 100; at++)
                data_check(target.memory + at, 1, 1, at);
            data_fill(target.memory, ROOM, 1);
        }
        pair_meet();
    }
    withdraw(pair, &target);
}

static void many_at_once(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct target target;
    uint8_t *to[100];

    offer(pair, &target, 100 * 4096, BOTH);
    for (uint32_t i = 0; end && i < 100; i++) {
        struct nigh_rma rma = rma_of(&target, i * 4096, data_filled(4096, 100 + i), 4096, i);

        rma.flags = i % 3 ? 0 : NIGH_SILENT;
        CHECK_INT(nigh->post_put(end->peer, &rma), 0);
    }
    for (uint32_t i = 0; end && i < 100; i++)
        if (i % 3)
            CHECK_INT(moved(end, NIGH_OP_PUT, i, 4096), 0);
    /* The silent ones are done when something that was asked for behind them is: here, when they can be read. */
    for (uint32_t i = 0; end && i < 100; i++)
        for (;;) {
            to[i] = data_room(8);
            CHECK_INT(get(end, &target, i * 4096, to[i], 8), 0);
            if (memcmp(to[i], data_filled(8, 100 + i), 8) == 0)
                break;
            pair_pump();
        }
    pair_meet();
    for (uint32_t i = 0; pair->end[1] && i < 100; i++)
        data_check(target.memory + i * 4096, 4096, 100 + i, 0);
    withdraw(pair, &target);
}

/* Each to a place of its own: the next one may be there before the target has looked at this one. */
static void notified(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct target target;
    struct nigh_completion done;

    offer(pair, &target, 2 << 20, NIGH_REMOTE_WRITE);
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t bytes = i == 5 ? 1 << 20 : i == 0 ? 0 : 100 << i;
        uint64_t place = i == 5 ? 1 << 20 : 4096 * i;

        if (end) {
            struct nigh_rma rma = rma_of(&target, place, data_filled(bytes, i), bytes, 31);

            rma.flags = NIGH_NOTIFY;
            rma.imm = 900 + i;
            CHECK_INT(nigh->post_put(end->peer, &rma), 0);
        }
        if (pair->end[1]) {
            done = pair_next(pair->end[1], NIGH_OP_REMOTE_PUT);
            CHECK_INT(done.status, 0);
            CHECK_INT(done.imm, 900 + i);
            CHECK_INT(done.bytes, bytes);
            CHECK_INT(done.source, 0);
            data_check(target.memory + place, bytes, i, 0);
        }
        if (end)
            CHECK_INT(moved(end, NIGH_OP_PUT, 31, bytes), 0);
    }
    withdraw(pair, &target);
}

static void told(struct pair_end *end, enum nigh_op op, uint64_t bytes, uint64_t imm)
{
    struct nigh_completion done = pair_next(end, op);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.context, EVENT);
    CHECK_INT(done.bytes, bytes);
    CHECK_INT(done.imm, imm);
    CHECK_INT(done.source, 0);
}

static void add_one(struct pair_end *end, const struct target *target, uint64_t *before)
{
    uint64_t one = 1;
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &one,
                                 .result = before,
                                 .key = target->key,
                                 .context = 35};

    CHECK_INT(nigh->post_atomic(end->peer, &atomic), 0);
    CHECK_INT(moved(end, NIGH_OP_ATOMIC, 35, 8), 0);
}

/* Whatever peers do to a region with events its owner hears of once, in the end; of what fails it hears nothing. */
static void events(struct pair *pair)
{
    static const uint64_t sizes[] = {0, 8, 5000, 1 << 20};
    struct pair_end *end = pair->end[0], *owner = pair->end[1];
    struct target target;
    uint64_t before;

    offer(pair, &target, 1 << 20, NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_EVENTS);
    for (uint32_t i = 0; i < 8; i++) {
        uint64_t bytes = sizes[i / 2];

        if (end) {
            struct nigh_rma rma = rma_of(&target, 0, data_filled(bytes, i), bytes, 31);

            rma.flags = i % 2 ? NIGH_NOTIFY : 0;
            rma.imm = 7;
            CHECK_INT(nigh->post_put(end->peer, &rma), 0);
        }
        if (owner)
            told(owner, NIGH_OP_REMOTE_PUT, bytes, i % 2 ? 7 : 0);
        if (end) {
            struct nigh_rma rma = rma_of(&target, 0, data_room(bytes), bytes, 32);

            CHECK_INT(moved(end, NIGH_OP_PUT, 31, bytes), 0);
            CHECK_INT(nigh->post_get(end->peer, &rma), 0);
        }
        if (owner)
            told(owner, NIGH_OP_REMOTE_GET, bytes, 0);
        if (end)
            CHECK_INT(moved(end, NIGH_OP_GET, 32, bytes), 0);
    }
    if (end) {
        struct nigh_rma outside = rma_of(&target, 1 << 20, data_room(8), 8, 33);

        CHECK_INT(nigh->post_get(end->peer, &outside), 0);
        CHECK_INT(moved(end, NIGH_OP_GET, 33, 0), -ERANGE);
        outside.context = 34;
        CHECK_INT(nigh->post_put(end->peer, &outside), 0);
        CHECK_INT(moved(end, NIGH_OP_PUT, 34, 0), -ERANGE);
        add_one(end, &target, NULL);
    }
    if (owner)
        told(owner, NIGH_OP_REMOTE_PUT, 8, 0);
    if (end)
        add_one(end, &target, &before);
    if (owner)
        told(owner, NIGH_OP_REMOTE_GET, 8, 0);
    withdraw(pair, &target);
}

/* ---- no ------------------------------------------------------------------------------------------------------- */

static void rights(struct pair *pair)
{
    struct target readable, writable;
    uint8_t *local = data_filled(64, 3);

    offer(pair, &readable, 64, NIGH_REMOTE_READ);
    pair_meet();
    offer(pair, &writable, 64, NIGH_REMOTE_WRITE);
    if (pair->end[0]) {
        CHECK_INT(put(pair->end[0], &readable, 0, local, 64), -EACCES);
        CHECK_INT(get(pair->end[0], &writable, 0, local, 64), -EACCES);
        data_check(local, 64, 3, 0);
    }
    pair_meet();
    if (pair->end[1])
        data_check(readable.memory, 64, 1, 0);
    withdraw(pair, &readable);
    withdraw(pair, &writable);
}

static void ranges(struct pair *pair)
{
    static const uint64_t bad[][2] = {
        {0, 65},   {64, 1}, {1, 64}, {65, 0}, {UINT64_MAX, 1}, {UINT64_MAX, 64}, {UINT64_MAX - 7, 64},
        {4096, 64}};
    struct target target;
    uint8_t *local = data_filled(128, 3);

    offer(pair, &target, 64, BOTH);
    for (uint32_t i = 0; pair->end[0] && i < 8; i++) {
        CHECK_INT(put(pair->end[0], &target, bad[i][0], local, bad[i][1]), -ERANGE);
        CHECK_INT(get(pair->end[0], &target, bad[i][0], local, bad[i][1]), -ERANGE);
    }
    if (pair->end[0]) {
        data_check(local, 128, 3, 0);
        CHECK_INT(put(pair->end[0], &target, 64, NULL, 0), 0);
        CHECK_INT(get(pair->end[0], &target, 64, NULL, 0), 0);
    }
    pair_meet();
    if (pair->end[1])
        data_check(target.memory, 64, 1, 0);
    withdraw(pair, &target);
}

/* Keys that nobody gave, and one that was good until its memory was withdrawn. */
static void bad_keys(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct target target;
    uint8_t *local = data_filled(64, 3);
    uint64_t good;

    offer(pair, &target, 4096, BOTH);
    good = target.key;
    for (uint32_t bit = 0; end && bit < 64; bit++) {
        target.key = good ^ UINT64_C(1) << bit;
        CHECK_INT(put(end, &target, 0, local, 64), -EACCES);
        CHECK_INT(get(end, &target, 0, local, 64), -EACCES);
    }
    target.key = good;
    withdraw(pair, &target);
    pair_meet();
    if (end) {
        CHECK_INT(put(end, &target, 0, local, 64), -EACCES);
        CHECK_INT(get(end, &target, 0, local, 64), -EACCES);
        data_check(local, 64, 3, 0);
    }
    pair_meet();
    if (pair->end[1]) {
        data_check(target.memory, 4096, 1, 0);
        CHECK_INT(nigh->deregister(pair->end[1]->context, target.region), -EINVAL);
        target.region = registered(pair->end[1], target.memory, 4096, BOTH, &target.key);
        CHECK(target.key != good);
        CHECK_INT(nigh->deregister(pair->end[1]->context, target.region), 0);
    }
}

/* Memory that a peer's operation is using cannot be withdrawn until that is over. */
static void in_use(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct target target;
    uint64_t bytes = 24 << 20;
    uint8_t *local = data_filled(bytes, 7);
    struct nigh_rma rma;
    uint32_t pumps = 0;

    offer(pair, &target, bytes, BOTH);
    pair_meet();
    rma = rma_of(&target, 0, local, bytes, 31);
    CHECK_INT(nigh->post_put(tx->peer, &rma), 0);
    while (pair_stats(tx).put == 0 || memcmp(target.memory, local, 64) != 0) {
        pair_pump();
        CHECK(++pumps < 100000);
    }
    CHECK_INT(nigh->deregister(rx->context, target.region), -EBUSY);
    CHECK_INT(moved(tx, NIGH_OP_PUT, 31, bytes), 0);
    data_check(target.memory, bytes, 7, 0);
    CHECK_INT(nigh->deregister(rx->context, target.region), 0);
}

/* A get that reads the heap by itself does not keep its owner: what is withdrawn and overwritten in
 * the middle of it is not given out. */
static void withdrawn(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 3 << 20;
    struct target target;
    struct nigh_rma rma;

    offer(pair, &target, bytes, BOTH);
    rma = rma_of(&target, 0, data_room(bytes), bytes, 31);
    CHECK_INT(nigh->post_get(tx->peer, &rma), 0);
    CHECK_INT(nigh->deregister(rx->context, target.region), 0);
    memset(target.memory, 0, bytes);
    CHECK_INT(nigh->heap_free(rx->context, target.memory), 0);
    CHECK_INT(moved(tx, NIGH_OP_GET, 31, bytes), -EACCES);
}

/* Many regions at one time: their table grows, and each key stays good. */
static void many_regions(struct pair *pair)
{
    static struct nigh_region *regions[300];
    uint64_t *keys = (uint64_t *)(void *)data_room(300 * 8), word = 0;
    uint8_t *memory = pair->end[1] ? memory_of(pair, pair->end[1], 300 * 64) : NULL;
    struct target list = {.bytes = sizeof(keys[0]) * 300};
    struct nigh_region *region = NULL;

    for (uint32_t i = 0; pair->end[1] && i < 300; i++) {
        memcpy(memory + i * 64, &(uint64_t){i}, 8);
        regions[i] = registered(pair->end[1], memory + i * 64, 64, BOTH, &keys[i]);
    }
    if (pair->end[1]) {
        region = registered(pair->end[1], keys, list.bytes, NIGH_REMOTE_READ, &list.key);
        pair->shared[0] = list.key;
    }
    pair_meet();
    list.key = pair->shared[0];
    if (pair->end[0]) {
        uint64_t *copy = (uint64_t *)(void *)data_room(list.bytes);

        CHECK_INT(get(pair->end[0], &list, 0, copy, list.bytes), 0);
        for (uint32_t i = 0; i < 300; i++) {
            struct target one = {.key = copy[i], .bytes = 64};

            CHECK_INT(get(pair->end[0], &one, 0, &word, 8), 0);
            CHECK_INT(word, i);
        }
    }
    pair_meet();
    for (uint32_t i = 0; pair->end[1] && i < 300; i++)
        CHECK_INT(nigh->deregister(pair->end[1]->context, regions[i]), 0);
    if (pair->end[1])
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
}

/* In between large messages, in both directions. */
static void with_messages(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 500000;
    uint8_t *to = data_room(bytes), *got = data_room(bytes);
    struct target target;
    struct nigh_rma rma;

    offer(pair, &target, bytes, BOTH);
    if (rx)
        pair_recv(rx, to, bytes, 1, 1);
    if (tx) {
        rma = rma_of(&target, 0, got, bytes, 1);
        CHECK_INT(nigh->post_get(tx->peer, &rma), 0);
        pair_send(tx, data_filled(bytes, 9), bytes, 1, 0, 1);
        CHECK_INT(moved(tx, NIGH_OP_GET, 1, bytes), 0);
        data_check(got, bytes, 1, 0);
        rma = rma_of(&target, 0, data_filled(bytes, 5), bytes, 2);
        CHECK_INT(nigh->post_put(tx->peer, &rma), 0);
    }
    if (rx) {
        pair_received(rx, 1, bytes);
        data_check(to, bytes, 9, 0);
    }
    if (tx) {
        pair_sent(tx, 1, bytes);
        CHECK_INT(moved(tx, NIGH_OP_PUT, 2, bytes), 0);
    }
    pair_meet();
    if (rx)
        data_check(target.memory, bytes, 5, 0);
    withdraw(pair, &target);
}

/* All of the process' memory: offsets are its addresses. Of all sizes, so by all paths. */
static void everything(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct target target;
    struct nigh_region *part;

    offer(pair, &target, ROOM, BOTH);
    part = target.region;
    if (rx) {
        target.region = registered(rx, NULL, UINT64_MAX, BOTH, &target.key);
        pair->shared[1] = target.key;
        pair->shared[2] = (uintptr_t)target.memory;
    }
    pair_meet();
    target.key = pair->shared[1];
    for (uint32_t i = 0; tx && i < SIZES; i++) {
        uint8_t *to = data_room(sizes[i]);

        CHECK_INT(get(tx, &target, pair->shared[2] + 8, to, sizes[i]), 0);
        data_check(to, sizes[i], 1, 8);
        CHECK_INT(put(tx, &target, pair->shared[2] + 8, to, sizes[i]), 0);
    }
    withdraw(pair, &target);
    if (rx) {
        data_check(target.memory, ROOM, 1, 0);
        CHECK_INT(nigh->deregister(rx->context, part), 0);
    }
}

#define BOTH_MEMORIES(title, function)                            \
    {.name = title, .play = function},                            \
    {                                                             \
        .name = title ", heap", .play = function, .number = HEAP, \
    }

static const struct pair_case cases[] = {
    BOTH_MEMORIES("gets", gets),
    BOTH_MEMORIES("puts", puts_),
    BOTH_MEMORIES("odd offsets", odd_offsets),
    BOTH_MEMORIES("many at once", many_at_once),
    BOTH_MEMORIES("notified", notified),
    BOTH_MEMORIES("rights", rights),
    BOTH_MEMORIES("ranges", ranges),
    BOTH_MEMORIES("bad keys", bad_keys),
    {.name = "events", .play = events},
    {.name = "events, heap", .play = events, .number = HEAP},
    {.name = "in use", .play = in_use, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "in use, heap", .play = in_use, .forms = PAIR_SELF | PAIR_TWO, .number = HEAP},
    {.name = "withdrawn", .play = withdrawn, .forms = PAIR_SELF | PAIR_TWO, .number = HEAP},
    BOTH_MEMORIES("many regions", many_regions),
    BOTH_MEMORIES("everything", everything),
    BOTH_MEMORIES("with messages", with_messages),
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
