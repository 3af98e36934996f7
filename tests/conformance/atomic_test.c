/* SPDX-License-Identifier: BSD-3-Clause */
/* post_atomic: every operation on every type against arithmetic done here, what is not defined, and counters that many
 * increments from both sides must not lose. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <math.h>
#include <string.h>

#define HEAP  1u
#define COUNT 13u

static const struct nigh_ops *nigh;

static uint32_t width_of(uint32_t type)
{
    static const uint8_t widths[] = {0, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};

    return widths[type];
}

static bool is_float(uint32_t type)
{
    return type >= NIGH_F32;
}

static bool is_signed(uint32_t type)
{
    return type % 2 == 1;
}

/* An integer of the type, widened. */
static uint64_t load(uint32_t type, const uint8_t *at)
{
    uint32_t bits = 8 * width_of(type);
    uint64_t word = 0;

    memcpy(&word, at, width_of(type));
    if (is_signed(type) && bits < 64 && word >> (bits - 1))
        word |= ~UINT64_C(0) << bits;
    return word;
}

static bool less(uint32_t type, uint64_t a, uint64_t b)
{
    return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t integer(uint32_t op, uint32_t type, uint64_t a, uint64_t b, uint64_t c)
{
    switch (op) {
    case NIGH_SUM:
        return a + b;
    case NIGH_PROD:
        return a * b;
    case NIGH_MIN:
        return less(type, b, a) ? b : a;
    case NIGH_MAX:
        return less(type, a, b) ? b : a;
    case NIGH_LAND:
        return a != 0 && b != 0;
    case NIGH_LOR:
        return a != 0 || b != 0;
    case NIGH_LXOR:
        return (a != 0) != (b != 0);
    case NIGH_BAND:
        return a & b;
    case NIGH_BOR:
        return a | b;
    case NIGH_BXOR:
        return a ^ b;
    case NIGH_WRITE:
        return b;
    case NIGH_CSWAP:
        return a == c ? b : a;
    default:
        return a;
    }
}

static double real(uint32_t op, double a, double b, double c)
{
    switch (op) {
    case NIGH_SUM:
        return a + b;
    case NIGH_PROD:
        return a * b;
    case NIGH_MIN:
        return b < a ? b : a;
    case NIGH_MAX:
        return b > a ? b : a;
    case NIGH_WRITE:
        return b;
    case NIGH_CSWAP:
        return a == c ? b : a;
    default:
        return a;
    }
}

/* One element by arithmetic of our own. */
static void expected(uint32_t op, uint32_t type, uint8_t *a, const uint8_t *b, const uint8_t *c)
{
    if (type == NIGH_F64) {
        double value[3];

        memcpy(&value[0], a, 8);
        memcpy(&value[1], b, 8);
        memcpy(&value[2], c, 8);
        value[0] = real(op, value[0], value[1], value[2]);
        memcpy(a, &value[0], 8);
    } else if (type == NIGH_F32) {
        float value[3];

        memcpy(&value[0], a, 4);
        memcpy(&value[1], b, 4);
        memcpy(&value[2], c, 4);
        value[0] = (float)real(op, value[0], value[1], value[2]);
        memcpy(a, &value[0], 4);
    } else {
        uint64_t word = integer(op, type, load(type, a), load(type, b), load(type, c));

        memcpy(a, &word, width_of(type));
    }
}

/* Values that are zero, negative, equal to each other and at the edges now and then. */
static void values(uint32_t type, uint8_t *at, uint64_t seed)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t mix = (seed * 131 + i) * UINT64_C(0x9e3779b97f4a7c15);
        uint64_t word = i == 0 ? 0 : i == 1 ? 5 : i == 2 ? ~UINT64_C(0) : i == 3 ? mix % 3 : mix ^ mix >> 31;
        double d = (double)(int64_t)(mix >> 40) - 5000000.0;
        float f = (float)d / 8;

        if (i < 2)
            d = f = (float)(i * 5);
        if (type == NIGH_F64)
            memcpy(at + 8 * i, &d, 8);
        else if (type == NIGH_F32)
            memcpy(at + 4 * i, &f, 4);
        else
            memcpy(at + width_of(type) * i, &word, width_of(type));
    }
}

static struct nigh_atomic atomic_of(uint32_t op, uint32_t type, uint64_t key, uint64_t offset)
{
    return (struct nigh_atomic){
        .size = sizeof(struct nigh_atomic),
        .op = (uint16_t)op,
        .type = (uint16_t)type,
        .count = COUNT,
        .offset = offset,
        .key = key,
        .context = 31,
    };
}

static struct nigh_region *offer(struct pair *pair, uint8_t **memory, uint64_t bytes, uint32_t flags)
{
    struct nigh_register what = {.size = sizeof(what), .flags = flags, .bytes = bytes};
    struct nigh_region *region = NULL;
    uint64_t key;
    void *heap;

    if (pair->end[1]) {
        *memory = data_room(bytes);
        if (pair->of->number & HEAP) {
            CHECK_INT(nigh->heap_alloc(pair->end[1]->context, bytes, &heap), 0);
            *memory = heap;
        }
        memset(*memory, 0, bytes);
        what.buffer = *memory;
        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    return region;
}

static int done(struct pair_end *end, uint64_t bytes)
{
    struct nigh_completion got = pair_await(end, NIGH_OP_ATOMIC, 31);

    if (!got.status)
        CHECK_INT(got.bytes, bytes);
    return got.status;
}

/* What stands behind NIGH_F64 and NIGH_CSWAP is for collectives. */
static bool is_defined(uint32_t op, uint32_t type)
{
    return type <= NIGH_F64 && op <= NIGH_CSWAP && (!is_float(type) || op < NIGH_LAND || op > NIGH_BXOR);
}

/* The initiator's part of one operation: sets the values, applies, and reads them back. */
static void one(struct pair_end *end, uint32_t op, uint32_t type, uint64_t key)
{
    uint32_t bytes = COUNT * width_of(type);
    uint8_t a[8 * COUNT], b[8 * COUNT], c[8 * COUNT], before[8 * COUNT], after[8 * COUNT];
    struct nigh_atomic write = atomic_of(NIGH_WRITE, type, key, 64), act = atomic_of(op, type, key, 64),
                       read = atomic_of(NIGH_READ, type, key, 64);

    values(type, a, op);
    values(type, b, op + 100);
    values(type, c, op % 2 ? op : op + 200);
    write.operand = a;
    act.operand = op == NIGH_READ ? NULL : b;
    act.compare = op == NIGH_CSWAP ? c : NULL;
    act.result = before;
    read.result = after;
    CHECK_INT(nigh->post_atomic(end->peer, &write), 0);
    CHECK_INT(done(end, bytes), 0);
    CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
    CHECK_INT(done(end, bytes), 0);
    CHECK_INT(nigh->post_atomic(end->peer, &read), 0);
    CHECK_INT(done(end, bytes), 0);
    if (memcmp(before, a, bytes) != 0)
        pair_fail(__FILE__, __LINE__, "op %u type %u: the values before are wrong", op, type);
    for (uint32_t i = 0; i < COUNT; i++)
        expected(op, type, a + i * width_of(type), b + i * width_of(type), c + i * width_of(type));
    for (uint32_t i = 0; i < bytes; i++)
        if (after[i] != a[i])
            pair_fail(__FILE__, __LINE__, "op %u type %u: element %u: byte %u is %02x, not %02x", op, type,
                      i / width_of(type), i % width_of(type), after[i], a[i]);
}

static void all(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint8_t *memory = NULL;
    struct nigh_region *region = offer(pair, &memory, 4096, NIGH_REMOTE_WRITE);

    for (uint32_t type = NIGH_I8; end && type <= NIGH_OPAQUE; type++)
        for (uint32_t op = NIGH_SUM; op <= NIGH_FUNCTION; op++) {
            struct nigh_atomic act = atomic_of(op, type, pair->shared[0], 64);
            uint8_t operand[16 * COUNT] = {0};

            act.operand = act.compare = operand;
            if (is_defined(op, type))
                one(end, op, type, pair->shared[0]);
            else
                CHECK_INT(nigh->post_atomic(end->peer, &act), -EOPNOTSUPP);
        }
    pair_meet();
    if (pair->end[1]) {
        for (uint32_t i = 0; i < 64; i++)
            CHECK(memory[i] == 0);
        for (uint32_t i = 64 + 8 * COUNT; i < 4096; i++)
            CHECK(memory[i] == 0);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    }
}

static void largest(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint8_t *memory = NULL, *operand = data_filled(1024, 1), *compare = data_room(1024),
            *result = data_room(1024);
    struct nigh_region *region = offer(pair, &memory, 4096, NIGH_REMOTE_WRITE);
    struct nigh_atomic act = atomic_of(NIGH_CSWAP, NIGH_U64, pair->shared[0], 0);

    memset(compare, 0, 1024);
    act.operand = operand;
    act.compare = compare;
    act.result = result;
    act.count = 128;
    for (uint32_t i = 0; end && i < 2; i++) {
        CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
        CHECK_INT(done(end, 1024), 0);
        data_check(i ? result : operand, 1024, 1, 0);
    }
    if (end) {
        act.count = 129;
        CHECK_INT(nigh->post_atomic(end->peer, &act), -EMSGSIZE);
        act.count = 0;
        CHECK_INT(nigh->post_atomic(end->peer, &act), -EINVAL);
        act.count = 1;
        act.offset = 4;
        CHECK_INT(nigh->post_atomic(end->peer, &act), -EINVAL);
    }
    pair_meet();
    if (pair->end[1]) {
        data_check(memory, 1024, 1, 0);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    }
}

static void refused(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint8_t *memory = NULL, *result = data_room(8 * COUNT);
    struct nigh_region *region =
        offer(pair, &memory, 64, pair->of->number & 2 ? NIGH_REMOTE_READ : NIGH_REMOTE_WRITE);
    struct nigh_atomic act = atomic_of(NIGH_SUM, NIGH_U64, pair->shared[0], 0);
    uint64_t ones[COUNT];

    for (uint32_t i = 0; i < COUNT; i++)
        ones[i] = 1;
    act.operand = ones;
    act.result = result;
    if (end) {
        CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
        CHECK_INT(done(end, 0), pair->of->number & 2 ? -EACCES : -ERANGE);
        act.key ^= 2;
        CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
        CHECK_INT(done(end, 0), -EACCES);
        act.key ^= 2;
        act.offset = UINT64_MAX - 7;
        act.flags = NIGH_SILENT;
        CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
        CHECK_INT(done(end, 0), pair->of->number & 2 ? -EACCES : -ERANGE);
        data_check_rest(result, 0, 8 * COUNT);
    }
    pair_meet();
    for (uint32_t i = 0; pair->end[1] && i < 64; i++)
        CHECK(memory[i] == 0);
    if (pair->end[1])
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
}

/* Both sides add to one counter of the second side's at once; no increment is lost, no value before seen twice. */
#define ADDS 2000u

static void add_one(struct pair_end *end, uint64_t key, uint64_t *before, uint64_t context)
{
    static const uint64_t one = 1;
    struct nigh_atomic act = atomic_of(NIGH_SUM, NIGH_U64, key, 0);

    act.count = 1;
    act.operand = &one;
    act.result = before;
    act.context = context;
    CHECK_INT(nigh->post_atomic(end->peer, &act), 0);
}

static void counter(struct pair *pair)
{
    struct nigh_connect to_self = {.size = sizeof(to_self), .rank = pair->form != PAIR_SELF, .source = 7};
    uint64_t *before = (uint64_t *)(void *)data_room(2 * ADDS * 8), last;
    struct pair_end near = {0};
    uint8_t *memory = NULL;
    struct nigh_region *region = offer(pair, &memory, 64, NIGH_REMOTE_WRITE);

    if (pair->end[1]) {
        near = *pair->end[1];
        CHECK_INT(nigh->connect(near.context, &to_self, &near.peer), 0);
    }
    for (uint32_t i = 0; i < ADDS; i++) {
        if (pair->end[0])
            add_one(pair->end[0], pair->shared[0], &before[i], i);
        if (pair->end[1])
            add_one(&near, pair->shared[0], &before[ADDS + i], ADDS + i);
        if (i % 64 == 0)
            pair_pump();
    }
    for (unsigned side = 0; side < 2; side++) {
        last = 0;
        for (uint32_t i = side * ADDS; pair->end[side] && i < (side + 1) * ADDS; i++) {
            CHECK_INT(pair_await(pair->end[side], NIGH_OP_ATOMIC, i).status, 0);
            CHECK(i == side * ADDS || before[i] > last);
            last = before[i];
        }
    }
    pair_meet();
    if (pair->end[1]) {
        memcpy(&last, memory, 8);
        CHECK_INT(last, 2 * ADDS);
        CHECK_INT(nigh->disconnect(near.peer), 0);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    }
}

static const struct pair_case cases[] = {
    {.name = "all operations on all types", .play = all},
    {.name = "all operations on all types, heap", .play = all, .number = HEAP},
    {.name = "largest", .play = largest},
    {.name = "refused, range", .play = refused},
    {.name = "refused, rights", .play = refused, .number = 2},
    {.name = "refused, rights, heap", .play = refused, .number = 2 | HEAP},
    {.name = "a counter of both", .play = counter},
    {.name = "a counter of both, heap", .play = counter, .number = HEAP},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
