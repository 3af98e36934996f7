/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/call_case.c - see call_case.h. Values are small whole numbers, which all types hold exactly, so that the order of
 * a sum does not matter but to the host's function, which is the composition of maps x -> a x + b. */
#include "tests/support/call_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 64 };
#define MARK 0xa5

/* ---- elements ------------------------------------------------------------------------------------------ */

static uint32_t width_of(uint16_t type)
{
    static const uint8_t widths[] = {
        [NIGH_I8] = 1,      [NIGH_U8] = 1,      [NIGH_I16] = 2,      [NIGH_U16] = 2,     [NIGH_I32] = 4,
        [NIGH_U32] = 4,     [NIGH_I64] = 8,     [NIGH_U64] = 8,      [NIGH_F32] = 4,     [NIGH_F64] = 8,
        [NIGH_BOOL] = 1,    [NIGH_F16] = 2,     [NIGH_BF16] = 2,     [NIGH_CF32] = 8,    [NIGH_CF64] = 16,
        [NIGH_I16_I32] = 8, [NIGH_I32_I32] = 8, [NIGH_I64_I32] = 16, [NIGH_F32_I32] = 8, [NIGH_F64_I32] = 16,
        [NIGH_OPAQUE] = 8};

    return widths[type];
}

static uint64_t hash(uint64_t seed, uint64_t a, uint64_t b)
{
    uint64_t x = seed * UINT64_C(0x9e3779b97f4a7c15) ^ a * UINT64_C(0xbf58476d1ce4e5b9) ^
                 b * UINT64_C(0x94d049bb133111eb);

    x ^= x >> 31;
    x *= UINT64_C(0xd6e8feb86659fd93);
    return x ^ x >> 32;
}

static void store_whole(uint8_t *at, uint32_t bytes, int64_t value)
{
    memcpy(at, &value, bytes);
}

/* Of a small whole number. */
static uint16_t half_of(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, 4);
    if (!(bits & 0x7fffffff))
        return (uint16_t)(bits >> 16);
    return (uint16_t)((bits >> 16 & 0x8000) | (((bits >> 23 & 0xff) - 112) << 10) | (bits >> 13 & 0x3ff));
}

static void store_f32(uint8_t *at, double value)
{
    float single = (float)value;

    memcpy(at, &single, 4);
}

static void store(uint16_t type, uint8_t *at, double value, int32_t index)
{
    uint16_t half;
    float single = (float)value;

    memset(at, 0, width_of(type));
    switch (type) {
    case NIGH_F32:
    case NIGH_CF32:
        store_f32(at, value);
        return;
    case NIGH_F64:
    case NIGH_CF64:
        memcpy(at, &value, 8);
        return;
    case NIGH_F16:
        half = half_of(single);
        memcpy(at, &half, 2);
        return;
    case NIGH_BF16:
        memcpy(at, (const uint8_t *)&single + 2, 2);
        return;
    case NIGH_F32_I32:
        store_f32(at, value);
        memcpy(at + 4, &index, 4);
        return;
    case NIGH_F64_I32:
        memcpy(at, &value, 8);
        memcpy(at + 8, &index, 4);
        return;
    case NIGH_I16_I32:
        store_whole(at, 2, (int64_t)value);
        memcpy(at + 4, &index, 4);
        return;
    case NIGH_I32_I32:
        store_whole(at, 4, (int64_t)value);
        memcpy(at + 4, &index, 4);
        return;
    case NIGH_I64_I32:
        store_whole(at, 8, (int64_t)value);
        memcpy(at + 8, &index, 4);
        return;
    case NIGH_BOOL:
        *at = value != 0;
        return;
    default:
        store_whole(at, width_of(type), (int64_t)value);
    }
}

static int64_t number(const struct call_case *of, uint32_t member, uint64_t i)
{
    uint64_t h = hash(of->seed, member, i);

    if (of->reduction == NIGH_PROD || of->type == NIGH_BOOL)
        return (int64_t)(h % 2 + (of->reduction == NIGH_PROD));
    return (int64_t)(h % 8);
}

struct map {
    uint32_t a, b;
};

static struct map map_of(const struct call_case *of, uint32_t member, uint64_t i)
{
    uint64_t h = hash(of->seed, member, i);

    return (struct map){.a = (uint32_t)h | 1, .b = (uint32_t)(h >> 32)};
}

static void compose(void *arg, const void *in, void *inout, uint64_t count)
{
    const struct map *left = in;
    struct map *right = inout;

    (void)arg;
    for (uint64_t i = 0; i < count; i++)
        right[i] = (struct map){.a = left[i].a * right[i].a, .b = left[i].a * right[i].b + left[i].b};
}

/* Element i that `member` gives. */
static void put_element(const struct call_case *of, uint32_t member, uint64_t i, uint8_t *at)
{
    struct map map;

    if (of->reduction == NIGH_FUNCTION) {
        map = map_of(of, member, i);
        memcpy(at, &map, sizeof(map));
    } else if (of->reduction) {
        store(of->type, at, (double)number(of, member, i), (int32_t)member);
    } else {
        uint64_t words[2] = {hash(of->seed, member, i), 0};

        words[1] = ~words[0];
        memcpy(at, words, width_of(of->type));
    }
}

static double apply(uint16_t reduction, double a, double b)
{
    int64_t x = (int64_t)a, y = (int64_t)b;

    switch (reduction) {
    case NIGH_PROD:
        return a * b;
    case NIGH_MIN:
    case NIGH_MINLOC:
        return b < a ? b : a;
    case NIGH_MAX:
    case NIGH_MAXLOC:
        return b > a ? b : a;
    case NIGH_LAND:
        return x && y;
    case NIGH_LOR:
        return x || y;
    case NIGH_LXOR:
        return !x != !y;
    case NIGH_BAND:
        return (double)(x & y);
    case NIGH_BOR:
        return (double)(x | y);
    case NIGH_BXOR:
        return (double)(x ^ y);
    default:
        return a + b;
    }
}

static double clipped(const struct call_case *of, double value)
{
    if (of->type == NIGH_BOOL)
        return of->reduction == NIGH_SUM ? value != 0 : value;
    return value;
}

/* Element i of members [0, count). */
static void put_reduced(const struct call_case *of, uint32_t count, uint64_t i, uint8_t *at)
{
    struct map map = map_of(of, 0, i), next;
    double sum = (double)number(of, 0, i);
    int32_t index = 0;

    if (of->reduction == NIGH_FUNCTION) {
        for (uint32_t m = 1; m < count; m++) {
            next = map_of(of, m, i);
            map = (struct map){.a = map.a * next.a, .b = map.a * next.b + map.b};
        }
        memcpy(at, &map, sizeof(map));
        return;
    }
    for (uint32_t m = 1; m < count; m++) {
        double value = (double)number(of, m, i) * (of->reduction == NIGH_PREMUL ? m + 1 : 1), before = sum;

        sum = clipped(of, apply(of->reduction, sum, value));
        if (sum != before)
            index = (int32_t)m;
    }
    if (count == 1 && of->reduction >= NIGH_LAND && of->reduction <= NIGH_LXOR && of->members > 1)
        sum = (double)number(of, 0, i); /* one source is copied */
    if (of->reduction == NIGH_AVG)
        sum = of->type > NIGH_U64 ? sum / of->members : (double)((int64_t)sum / of->members);
    store(of->type, at, sum, index);
}

/* ---- blocks -------------------------------------------------------------------------------------------- */

/* Of the block of `from` for `to`, in elements: of calls that have a block for one side only, the other is 0. */
static uint64_t block_count(const struct call_case *of, uint32_t from, uint32_t to)
{
    if (of->blocks == CALL_EVEN)
        return of->count;
    if (of->in_place && of->op == NIGH_ALLTOALL) /* the same both ways */
        return hash(of->seed, from + to, from * to) % 4 * of->count / 2;
    return hash(of->seed, from, to) % 4 * of->count / 2;
}

static uint64_t own_count(const struct call_case *of, uint32_t member)
{
    return of->op == NIGH_SCATTER ? block_count(of, 0, member) : block_count(of, member, 0);
}

static uint64_t gap(const struct call_case *of)
{
    return of->blocks == CALL_GAPPED ? 3 : 0;
}

typedef uint64_t (*count_fn)(const struct call_case *of, uint32_t me, uint32_t at);

static uint64_t counts_in(const struct call_case *of, uint32_t me, uint32_t at)
{
    switch (of->op) {
    case NIGH_ALLTOALL:
        return block_count(of, at, me);
    case NIGH_REDUCE_SCATTER:
        return of->blocks == CALL_EVEN ? of->count : hash(of->seed, at, 5) % 4 * of->count / 2;
    default:
        return own_count(of, at);
    }
}

static uint64_t counts_out(const struct call_case *of, uint32_t me, uint32_t at)
{
    return of->op == NIGH_ALLTOALL ? block_count(of, me, at) : own_count(of, at);
}

/* Where block `at` begins, in elements. */
static uint64_t offset_of(const struct call_case *of, uint32_t me, uint32_t at, count_fn counts)
{
    uint64_t offset = gap(of);

    if (of->blocks != CALL_GAPPED) {
        for (uint32_t i = 0; i < at; i++)
            offset += counts(of, me, i);
        return offset;
    }
    for (uint32_t i = of->members - 1; i > at; i--)
        offset += counts(of, me, i) + gap(of);
    return offset;
}

static uint64_t extent_of(const struct call_case *of, uint32_t me, count_fn counts)
{
    uint64_t end = 0;

    for (uint32_t i = 0; i < of->members; i++) {
        uint64_t last = offset_of(of, me, i, counts) + counts(of, me, i);

        end = last > end ? last : end;
    }
    return end;
}

/* ---- rooms --------------------------------------------------------------------------------------------- */

static uint8_t *take(const struct call_case *of, uint64_t bytes)
{
    uint8_t *memory = of->take ? of->take(of->arg, bytes + 2 * EDGE) : malloc(bytes + 2 * EDGE);

    if (!memory)
        abort();
    memset(memory, MARK, bytes + 2 * EDGE);
    return memory + EDGE;
}

static uint8_t *copy_of(const uint8_t *from, uint64_t bytes)
{
    uint8_t *memory = malloc(bytes + 1);

    if (!memory)
        abort();
    memcpy(memory, from, bytes);
    return memory;
}

static void put_elements(const struct call_case *of, uint32_t member, uint64_t first, uint64_t count,
                         uint8_t *at)
{
    for (uint64_t i = 0; i < count; i++)
        put_element(of, member, first + i, at + i * width_of(of->type));
}

/* Elements that `from` has for `to` are numbered from here. */
static uint64_t first_of(const struct call_case *of, uint32_t to)
{
    return of->op == NIGH_ALLTOALL || of->op == NIGH_SCATTER ? (uint64_t)to << 32 : 0;
}

static bool reduces(const struct call_case *of)
{
    return of->reduction != 0;
}

static bool is_root(const struct call_case *of, uint32_t me)
{
    return me == of->root;
}

static uint64_t vector_of(const struct call_case *of)
{
    uint64_t sum = 0;

    if (of->op != NIGH_REDUCE_SCATTER)
        return of->count;
    for (uint32_t i = 0; i < of->members; i++)
        sum += counts_in(of, 0, i);
    return sum;
}

static void make_blocks(const struct call_case *of, uint32_t me, count_fn counts, uint8_t *room, bool sends)
{
    for (uint32_t i = 0; i < of->members; i++) {
        uint8_t *at = room + offset_of(of, me, i, counts) * width_of(of->type);

        if (sends)
            put_elements(of, me, first_of(of, i), counts(of, me, i), at);
        else
            put_elements(of, i, first_of(of, me), counts(of, me, i), at);
    }
}

static void make_arrays(const struct call_case *of, uint32_t me, struct call_room *room, count_fn counts,
                        bool sends)
{
    uint64_t *at = room->arrays + (sends ? 2 * of->members : 0);

    if (of->blocks == CALL_EVEN)
        return;
    for (uint32_t i = 0; i < of->members; i++) {
        at[i] = counts(of, me, i);
        at[of->members + i] = offset_of(of, me, i, counts);
    }
    if (sends) {
        room->call.send_counts = at;
        room->call.send_offsets = of->blocks == CALL_GAPPED ? at + of->members : NULL;
    } else {
        room->call.recv_counts = at;
        if (of->op != NIGH_REDUCE_SCATTER)
            room->call.recv_offsets = of->blocks == CALL_GAPPED ? at + of->members : NULL;
    }
}

static void take_send(const struct call_case *of, struct call_room *room, uint64_t elements)
{
    room->send_bytes = elements * width_of(of->type);
    room->send = take(of, room->send_bytes);
}

static void take_recv(const struct call_case *of, struct call_room *room, uint64_t elements)
{
    room->recv_bytes = elements * width_of(of->type);
    room->recv = take(of, room->recv_bytes);
    room->wanted = copy_of(room->recv, room->recv_bytes);
}

static void make_reduction(const struct call_case *of, uint32_t me, struct call_room *room)
{
    uint32_t width = width_of(of->type), upto = of->op == NIGH_SCAN     ? me + 1
                                                : of->op == NIGH_EXSCAN ? me
                                                                        : of->members;
    uint64_t vector = vector_of(of), first = 0, count = of->count;
    bool keeps = of->op != NIGH_REDUCE || is_root(of, me), in_place = of->in_place && keeps;

    if (of->op == NIGH_REDUCE_SCATTER) {
        make_arrays(of, me, room, counts_in, false);
        count = counts_in(of, me, me);
        for (uint32_t i = 0; i < me; i++)
            first += counts_in(of, me, i);
    }
    if (keeps)
        take_recv(of, room, in_place ? vector : count);
    if (!in_place)
        take_send(of, room, vector);
    put_elements(of, me, 0, vector, in_place ? room->recv : room->send);
    if (!keeps)
        return;
    memcpy(room->wanted, room->recv, room->recv_bytes);
    for (uint64_t i = 0; i < count && upto; i++)
        put_reduced(of, upto, first + i, room->wanted + i * width);
}

static void make_move(const struct call_case *of, uint32_t me, struct call_room *room)
{
    uint32_t width = width_of(of->type);
    bool root = is_root(of, me);

    switch (of->op) {
    case NIGH_BROADCAST:
        if (root && !of->in_place) {
            take_send(of, room, of->count);
            put_elements(of, me, 0, of->count, room->send);
            return;
        }
        take_recv(of, room, of->count);
        put_elements(of, of->root, 0, of->count, root ? room->recv : room->wanted);
        put_elements(of, of->root, 0, of->count, room->wanted);
        return;
    case NIGH_GATHER:
    case NIGH_ALLGATHER:
        room->call.count = own_count(of, me);
        if (root || of->op == NIGH_ALLGATHER) {
            make_arrays(of, me, room, counts_in, false);
            take_recv(of, room, extent_of(of, me, counts_in));
            make_blocks(of, me, counts_in, room->wanted, false);
        }
        if (of->in_place && room->recv) {
            put_elements(of, me, 0, own_count(of, me), room->recv + offset_of(of, me, me, counts_in) * width);
            return;
        }
        take_send(of, room, own_count(of, me));
        put_elements(of, me, 0, own_count(of, me), room->send);
        return;
    case NIGH_SCATTER:
        room->call.count = own_count(of, me);
        if (root) {
            make_arrays(of, me, room, counts_out, true);
            take_send(of, room, extent_of(of, me, counts_out));
            make_blocks(of, me, counts_out, room->send, true);
        }
        if (root && of->in_place)
            return;
        take_recv(of, room, own_count(of, me));
        put_elements(of, of->root, first_of(of, me), own_count(of, me), room->wanted);
        return;
    default:
        make_arrays(of, me, room, counts_in, false);
        take_recv(of, room, extent_of(of, me, counts_in));
        make_blocks(of, me, counts_in, room->wanted, false);
        if (of->in_place) {
            make_blocks(of, me, counts_in, room->recv, true);
            return;
        }
        make_arrays(of, me, room, counts_out, true);
        take_send(of, room, extent_of(of, me, counts_out));
        make_blocks(of, me, counts_out, room->send, true);
    }
}

void call_case_make(const struct call_case *of, uint32_t me, struct call_room *out)
{
    static uint8_t factors[NIGH_GROUP_MAX][16];

    memset(out, 0, sizeof(*out));
    out->taken = of->take != NULL;
    out->call = (struct nigh_collective){
        .size = sizeof(out->call),
        .flags = of->in_place ? NIGH_COLLECTIVE_IN_PLACE : 0,
        .op = of->op,
        .type = of->op == NIGH_BARRIER ? 0 : of->type,
        .reduction = of->reduction,
        .root = of->root,
        .width = of->type == NIGH_OPAQUE && of->op != NIGH_BARRIER ? width_of(of->type) : 0,
        .count = of->count,
        .function = of->reduction == NIGH_FUNCTION ? compose : NULL,
    };
    if (of->op == NIGH_BARRIER)
        return;
    out->arrays = calloc(4 * of->members, sizeof(uint64_t));
    if (!out->arrays)
        abort();
    if (of->reduction == NIGH_PREMUL) {
        store(of->type, factors[me], me + 1, 0);
        out->call.factor = factors[me];
    }
    if (reduces(of))
        make_reduction(of, me, out);
    else
        make_move(of, me, out);
    out->call.send = out->send;
    out->call.recv = out->recv;
    if (out->send)
        out->send_before = copy_of(out->send, out->send_bytes);
}

static bool is_edge_whole(const uint8_t *at)
{
    for (int i = 0; i < EDGE; i++)
        if (at[i] != MARK)
            return false;
    return true;
}

const char *call_case_check(const struct call_room *room)
{
    static char text[128];

    if (room->send && memcmp(room->send, room->send_before, room->send_bytes) != 0)
        return "send was written to";
    if (!room->recv)
        return NULL;
    if (!is_edge_whole(room->recv - EDGE) || !is_edge_whole(room->recv + room->recv_bytes))
        return "memory beyond recv was written to";
    for (uint64_t i = 0; i < room->recv_bytes; i++) {
        if (room->recv[i] == room->wanted[i])
            continue;
        snprintf(text, sizeof(text), "byte %llu of %llu of recv is %02x, not %02x", (unsigned long long)i,
                 (unsigned long long)room->recv_bytes, room->recv[i], room->wanted[i]);
        return text;
    }
    return NULL;
}

void call_case_free(struct call_room *room)
{
    if (!room->taken) {
        free(room->send ? room->send - EDGE : NULL);
        free(room->recv ? room->recv - EDGE : NULL);
    }
    free(room->send_before);
    free(room->wanted);
    free(room->arrays);
}

const char *call_case_text(const struct call_case *of, uint32_t me)
{
    static const char *const ops[] = {"?",         "barrier",        "broadcast", "reduce",
                                      "allreduce", "gather",         "scatter",   "allgather",
                                      "alltoall",  "reduce_scatter", "scan",      "exscan"};
    static char text[200];

    snprintf(text, sizeof(text),
             "%s type %u reduction %u, member %u of %u, root %u, %llu elements%s%s, seed %llu", ops[of->op],
             of->type, of->reduction, me, of->members, of->root, (unsigned long long)of->count,
             of->in_place ? ", in place" : "",
             of->blocks == CALL_EVEN     ? ""
             : of->blocks == CALL_VARIED ? ", varied"
                                         : ", gapped",
             (unsigned long long)of->seed);
    return text;
}
