/* SPDX-License-Identifier: BSD-3-Clause */
/* Golden numbers of what processes share: every constant of shared memory and of greetings, every size,
 * offset and width of their structs, as literals. A change here is a change of the layout: bump
 * NIGH_LAYOUT_VERSION or NIGH_WIRE_VERSION. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/board.h"
#include "plugin/wire.h"
#include "shm/layout.h"
#include "shm/wire.h"
#include "tests/abi/golden.h"

static const struct constant layout_constants[] = {
    CONSTANT(NIGH_ARENA_MAGIC, UINT64_C(0x31616e6572612d6e)),
    CONSTANT(NIGH_LAYOUT_VERSION, 30),
    CONSTANT(NIGH_LINE, 64),
    CONSTANT(NIGH_PAGE, 4096),
    CONSTANT(NIGH_PEERS_MAX, 65536),
    CONSTANT(NIGH_RING_SLOTS_MIN, 64),
    CONSTANT(NIGH_RING_SLOTS_MAX, 65536),
    CONSTANT(NIGH_SHUTTLE_BYTES, 524288),
    CONSTANT(NIGH_SHUTTLE_COUNT, 65472),
    CONSTANT(NIGH_PROGRAM_TAKEN_BACK, 8),
    CONSTANT(NIGH_ARENA_MAX, UINT64_C(0x100000000000)),
    CONSTANT(NIGH_ARENA_FENCES, 1),
    CONSTANT(NIGH_AWAKE, 0),
    CONSTANT(NIGH_ASLEEP, 1),
    CONSTANT(NIGH_NOTE_OFFSET, 128),
    CONSTANT(NIGH_NOTE_SITE_BYTES, 40),
    CONSTANT(NIGH_COUNTERS_OFFSET, 256),
    CONSTANT(NIGH_COUNTED_PATHS, 7),
    CONSTANT(NIGH_DEVICES_OFFSET, 1024),
    CONSTANT(NIGH_DEVICES_MAX, 64),
    CONSTANT(NIGH_DEVICES_WSL, 1),
    CONSTANT(NIGH_TOLD_MIG, 1),
    CONSTANT(NIGH_TOLD_MPS, 2),
    CONSTANT(NIGH_SLOT_PAYLOAD, 40),
};

static const struct place layout_places[] = {
    STRUCT(nigh_arena_header, 128),
    FIELD(nigh_arena_header, magic, 0, 8),
    FIELD(nigh_arena_header, version, 8, 4),
    FIELD(nigh_arena_header, peers_max, 12, 4),
    FIELD(nigh_arena_header, bytes, 16, 8),
    FIELD(nigh_arena_header, incarnation, 24, 8),
    FIELD(nigh_arena_header, pairs_off, 32, 8),
    FIELD(nigh_arena_header, pool_off, 40, 8),
    FIELD(nigh_arena_header, pool_bytes, 48, 8),
    FIELD(nigh_arena_header, heap_off, 56, 8),
    FIELD(nigh_arena_header, heap_bytes, 64, 8),
    FIELD(nigh_arena_header, flags, 72, 4),
    FIELD(nigh_arena_header, memory_fd, 76, 4),
    FIELD(nigh_arena_header, nonce_address, 80, 8),
    FIELD(nigh_arena_header, job, 88, 8),
    FIELD(nigh_arena_header, rank, 96, 4),
    FIELD(nigh_arena_header, ranks, 100, 4),
    FIELD(nigh_arena_header, memory_address, 104, 8),
    FIELD(nigh_arena_header, memory_bytes, 112, 8),
    FIELD(nigh_arena_header, memory_id, 120, 8),

    STRUCT(nigh_arena_state, 64),
    FIELD(nigh_arena_state, asleep, 0, 4),
    FIELD(nigh_arena_state, cold, 4, 4),
    FIELD(nigh_arena_state, regions, 8, 8),
    FIELD(nigh_arena_state, reserved0, 16, 8),
    FIELD(nigh_arena_state, boards, 24, 8),
    FIELD(nigh_arena_state, reserved, 32, 32),

    STRUCT(nigh_arena_note, 128),
    FIELD(nigh_arena_note, sequence, 0, 8),
    FIELD(nigh_arena_note, checked, 8, 8),
    FIELD(nigh_arena_note, state_op, 16, 8),
    FIELD(nigh_arena_note, group_peer, 24, 8),
    FIELD(nigh_arena_note, members, 32, 8),
    FIELD(nigh_arena_note, tag, 40, 8),
    FIELD(nigh_arena_note, bytes, 48, 8),
    FIELD(nigh_arena_note, requests, 56, 8),
    FIELD(nigh_arena_note, since_ns, 64, 8),
    FIELD(nigh_arena_note, site, 72, 40),
    FIELD(nigh_arena_note, until_ns, 112, 8),
    FIELD(nigh_arena_note, reserved, 120, 8),

    STRUCT(nigh_arena_counters, 288),
    FIELD(nigh_arena_counters, sent, 0, 56),
    FIELD(nigh_arena_counters, sent_bytes, 56, 56),
    FIELD(nigh_arena_counters, received, 112, 8),
    FIELD(nigh_arena_counters, received_bytes, 120, 8),
    FIELD(nigh_arena_counters, put, 128, 8),
    FIELD(nigh_arena_counters, get, 136, 8),
    FIELD(nigh_arena_counters, atomic, 144, 8),
    FIELD(nigh_arena_counters, unexpected, 152, 8),
    FIELD(nigh_arena_counters, truncated, 160, 8),
    FIELD(nigh_arena_counters, lost, 168, 8),
    FIELD(nigh_arena_counters, broken, 176, 8),
    FIELD(nigh_arena_counters, sleeps, 184, 8),
    FIELD(nigh_arena_counters, wakes, 192, 8),
    FIELD(nigh_arena_counters, rescues, 200, 8),
    FIELD(nigh_arena_counters, ring_full, 208, 8),
    FIELD(nigh_arena_counters, ring_grown, 216, 8),
    FIELD(nigh_arena_counters, path_changes, 224, 8),
    FIELD(nigh_arena_counters, posted, 232, 8),
    FIELD(nigh_arena_counters, arrived, 240, 8),
    FIELD(nigh_arena_counters, queued, 248, 8),
    FIELD(nigh_arena_counters, peers, 256, 8),
    FIELD(nigh_arena_counters, reserved, 264, 24),

    STRUCT(nigh_arena_device, 32),
    FIELD(nigh_arena_device, uuid, 0, 16),
    FIELD(nigh_arena_device, number, 16, 4),
    FIELD(nigh_arena_device, flags, 20, 4),
    FIELD(nigh_arena_device, ways, 24, 4),
    FIELD(nigh_arena_device, reserved, 28, 4),

    STRUCT(nigh_arena_devices, 2112),
    FIELD(nigh_arena_devices, count, 0, 4),
    FIELD(nigh_arena_devices, flags, 4, 4),
    FIELD(nigh_arena_devices, pid_space, 8, 8),
    FIELD(nigh_arena_devices, reserved, 16, 48),
    FIELD(nigh_arena_devices, at, 64, 2048),

    STRUCT(nigh_region_entry, 32),
    FIELD(nigh_region_entry, key, 0, 8),
    FIELD(nigh_region_entry, offset, 8, 8),
    FIELD(nigh_region_entry, bytes, 16, 8),
    FIELD(nigh_region_entry, reserved, 24, 8),

    STRUCT(nigh_region_table, 64),
    FIELD(nigh_region_table, count, 0, 8),
    FIELD(nigh_region_table, reserved, 8, 56),
    TAIL(nigh_region_table, at, 64),

    STRUCT(nigh_pair, 256),
    FIELD(nigh_pair, consumed, 0, 8),
    FIELD(nigh_pair, cold, 8, 4),
    FIELD(nigh_pair, reserved0, 12, 4),
    FIELD(nigh_pair, read_cost, 16, 48),
    FIELD(nigh_pair, ring, 64, 8),
    FIELD(nigh_pair, closed, 72, 4),
    FIELD(nigh_pair, reading, 76, 4),
    FIELD(nigh_pair, crammed, 80, 4),
    FIELD(nigh_pair, asks, 84, 4),
    FIELD(nigh_pair, maps, 88, 4),
    FIELD(nigh_pair, life, 92, 4),
    FIELD(nigh_pair, ended, 96, 4),
    FIELD(nigh_pair, reserved2, 100, 4),
    FIELD(nigh_pair, reserved1, 104, 24),
    FIELD(nigh_pair, offered, 128, 64),
    FIELD(nigh_pair, helped, 192, 64),

    STRUCT(nigh_slot, 64),
    FIELD(nigh_slot, head, 0, 8),
    FIELD(nigh_slot, tag, 8, 8),
    FIELD(nigh_slot, imm, 16, 8),
    FIELD(nigh_slot, payload, 24, 40),

    STRUCT(nigh_doorbell, 128),
    FIELD(nigh_doorbell, bell, 0, 4),
    FIELD(nigh_doorbell, reserved0, 4, 60),
    FIELD(nigh_doorbell, summary, 64, 8),
    FIELD(nigh_doorbell, nudges, 72, 8),
    FIELD(nigh_doorbell, reserved1, 80, 48),
    TAIL(nigh_doorbell, hints, 128),
};

/* What slots say: part of the layout, since both ends must agree on it. */
static const struct constant slot_constants[] = {
    CONSTANT(NIGH_K_MESSAGE, 1),       CONSTANT(NIGH_K_FIRST, 2),       CONSTANT(NIGH_K_PIECE, 3),
    CONSTANT(NIGH_K_REFER, 4),         CONSTANT(NIGH_K_GRANT, 5),       CONSTANT(NIGH_K_FINISH, 6),
    CONSTANT(NIGH_K_PUT, 7),           CONSTANT(NIGH_K_GET, 8),         CONSTANT(NIGH_K_REPLY, 9),
    CONSTANT(NIGH_K_ATOMIC, 10),       CONSTANT(NIGH_K_RESULT, 11),     CONSTANT(NIGH_K_MOVE, 12),
    CONSTANT(NIGH_K_WHOLE, 13),        CONSTANT(NIGH_K_HELP, 14),       CONSTANT(NIGH_K_END, 17),
    CONSTANT(NIGH_F_SYNC, 1),          CONSTANT(NIGH_F_NOTIFY, 2),      CONSTANT(NIGH_F_KERNEL_SHIFT, 4),
    CONSTANT(NIGH_F_KERNEL_MASK, 7),   CONSTANT(NIGH_F_TIMED, 128),     CONSTANT(NIGH_F_STRATEGY_SHIFT, 8),
    CONSTANT(NIGH_F_STRATEGY_MASK, 7), CONSTANT(NIGH_F_SHUTTLE, 2048),  CONSTANT(NIGH_F_RETURNS, 4096),
    CONSTANT(NIGH_REFER_HEAP, 1),      CONSTANT(NIGH_REFER_CMA, 2),     CONSTANT(NIGH_REFER_LEND, 3),
    CONSTANT(NIGH_REFER_COPY, 4),      CONSTANT(NIGH_LAP_SHIFT, 48),    CONSTANT(NIGH_F_COUNTED, 8192),
    CONSTANT(NIGH_F_ONE, 1),           CONSTANT(NIGH_F_FAILED, 4),      CONSTANT(NIGH_F_EARLY, 16384),
    CONSTANT(NIGH_FINISH_MORE, 10),    CONSTANT(NIGH_K_DROP, 15),       CONSTANT(NIGH_K_DROPPED, 16),
    CONSTANT(NIGH_REFER_DEVICE, 5),    CONSTANT(NIGH_REFER_POINTER, 6), CONSTANT(NIGH_GRANT_WAITED, 1),
    CONSTANT(NIGH_GRANT_AGAIN, 2),     CONSTANT(NIGH_F_REFERS, 1),      CONSTANT(NIGH_GET_REFER, 1),
    CONSTANT(NIGH_GET_SHORT, 2),
};

#define HEAD UINT64_C(0x203010004) /* of kind 1, 2 bytes, class 3, flags 4 */

static const struct place slot_places[] = {
    STRUCT(nigh_wire_first, 32),
    FIELD(nigh_wire_first, total, 0, 8),
    FIELD(nigh_wire_first, imm, 8, 8),
    FIELD(nigh_wire_first, eager, 16, 4),
    FIELD(nigh_wire_first, id, 20, 4),
    FIELD(nigh_wire_first, line, 24, 4),
    FIELD(nigh_wire_first, bytes, 28, 4),

    STRUCT(nigh_wire_piece, 8),
    FIELD(nigh_wire_piece, line, 0, 4),
    FIELD(nigh_wire_piece, bytes, 4, 4),

    STRUCT(nigh_wire_refer, 32),
    FIELD(nigh_wire_refer, total, 0, 8),
    FIELD(nigh_wire_refer, where, 8, 8),
    FIELD(nigh_wire_refer, id, 16, 4),
    FIELD(nigh_wire_refer, refer, 20, 4),
    FIELD(nigh_wire_refer, cpu, 24, 4),
    FIELD(nigh_wire_refer, reserved, 28, 4),
    /* `number` lies where these two do. */

    STRUCT(nigh_wire_remote, 40),
    FIELD(nigh_wire_remote, refer, 0, 32),
    FIELD(nigh_wire_remote, imm, 32, 8),

    STRUCT(nigh_wire_finish, 40),
    FIELD(nigh_wire_finish, ids, 0, 40),

    STRUCT(nigh_wire_help, 16),
    FIELD(nigh_wire_help, to, 0, 8),
    FIELD(nigh_wire_help, bytes, 8, 8),

    STRUCT(nigh_wire_get, 16),
    FIELD(nigh_wire_get, total, 0, 8),
    FIELD(nigh_wire_get, id, 8, 4),
    FIELD(nigh_wire_get, flags, 12, 4),

    STRUCT(nigh_wire_atomic, 16),
    FIELD(nigh_wire_atomic, op, 0, 2),
    FIELD(nigh_wire_atomic, type, 2, 2),
    FIELD(nigh_wire_atomic, count, 4, 4),
    FIELD(nigh_wire_atomic, id, 8, 4),
    FIELD(nigh_wire_atomic, fetches, 12, 4),
};

/* What an attach says. */
static const struct constant greeting_constants[] = {
    CONSTANT(NIGH_WIRE_MAGIC, UINT64_C(0x31747461682d6e67)),
    CONSTANT(NIGH_WIRE_HELLO, 1),
    CONSTANT(NIGH_WIRE_ANSWER, 2),
    CONSTANT(NIGH_WIRE_REFUSE, 3),
    CONSTANT(NIGH_WIRE_DONE, 4),
    CONSTANT(NIGH_WIRE_BYE, 5),
    CONSTANT(NIGH_WIRE_PARCEL, 6),
    CONSTANT(NIGH_WIRE_KEEP, 1),
    CONSTANT(NIGH_WIRE_FDS, 3),
    CONSTANT(NIGH_PARCEL_BYTES, 8192),
    CONSTANT(NIGH_PARCEL_FDS, 240),
};

static const struct place greeting_places[] = {
    STRUCT(nigh_wire, 88),
    FIELD(nigh_wire, magic, 0, 8),
    FIELD(nigh_wire, version, 8, 4),
    FIELD(nigh_wire, kind, 12, 4),
    FIELD(nigh_wire, job, 16, 8),
    FIELD(nigh_wire, incarnation, 24, 8),
    FIELD(nigh_wire, rank, 32, 4),
    FIELD(nigh_wire, index, 36, 4),
    FIELD(nigh_wire, peers_max, 40, 4),
    FIELD(nigh_wire, ranks, 44, 4),
    FIELD(nigh_wire, to_job, 48, 8),
    FIELD(nigh_wire, to_incarnation, 56, 8),
    FIELD(nigh_wire, to_rank, 64, 4),
    FIELD(nigh_wire, error, 68, 4),
    FIELD(nigh_wire, flags, 72, 4),
    FIELD(nigh_wire, fds, 76, 4),
    FIELD(nigh_wire, value, 80, 8),
};

static const struct golden layout = GOLDEN("shm/layout.h", layout_constants, layout_places);
static const struct constant board_constants[] = {
    CONSTANT(NIGH_BOARDS, 32),           CONSTANT(NIGH_CALL_SLOTS, 64),
    CONSTANT(NIGH_CALL_INLINE, 288),     CONSTANT(NIGH_STREAM_UNITS, 4),
    CONSTANT(NIGH_CALL_ALL, UINT64_MAX), CONSTANT(NIGH_FACTOR_BYTES, 16),
    CONSTANT(NIGH_REVOKED_NOT, 0),       CONSTANT(NIGH_REVOKED_LEFT, 1),
    CONSTANT(NIGH_REVOKED_LOST, 2),      CONSTANT(NIGH_REVOKED_MISMATCH, 3),
    CONSTANT(NIGH_REVOKED_FAILED, 4),    CONSTANT(NIGH_REVOKED_ENDED, 5),
    CONSTANT(NIGH_REVOKED_BETWEEN, 6),   CONSTANT(NIGH_ENDED_WORDS, 32),
    CONSTANT(NIGH_SLOTS_BYTES, 28928),   CONSTANT(NIGH_LIES_NOWHERE, 0),
    CONSTANT(NIGH_LIES_INLINE, 1),       CONSTANT(NIGH_LIES_WHOLE, 2),
    CONSTANT(NIGH_LIES_STREAM, 3),       CONSTANT(NIGH_LIES_HEAP, 4),
    CONSTANT(NIGH_LIES_PROCESS, 5),      CONSTANT(NIGH_UP_INLINE, 240),
    CONSTANT(NIGH_DOWN_INLINE, 48),      CONSTANT(NIGH_TREE_SHOWN, UINT64_C(1) << 32),
};

static const struct place board_places[] = {
    STRUCT(nigh_board, 128),
    FIELD(nigh_board, revoked, 0, 8),
    FIELD(nigh_board, left, 8, 8),
    FIELD(nigh_board, slots, 16, 8),
    FIELD(nigh_board, where, 24, 8),
    FIELD(nigh_board, domain_slots, 32, 8),
    FIELD(nigh_board, tree, 40, 8),
    FIELD(nigh_board, reserved0, 48, 16),
    FIELD(nigh_board, done, 64, 8),
    FIELD(nigh_board, reserved1, 72, 56),

    STRUCT(nigh_boards, 4416),
    FIELD(nigh_boards, next, 0, 8),
    FIELD(nigh_boards, reserved, 8, 56),
    FIELD(nigh_boards, keys, 64, 256),
    FIELD(nigh_boards, at, 320, 4096),

    STRUCT(nigh_call_slot, 448),
    FIELD(nigh_call_slot, head, 0, 8),
    FIELD(nigh_call_slot, bytes, 8, 8),
    FIELD(nigh_call_slot, where, 16, 8),
    FIELD(nigh_call_slot, parts, 24, 8),
    FIELD(nigh_call_slot, payload, 32, 288),
    FIELD(nigh_call_slot, call, 320, 8),
    FIELD(nigh_call_slot, count, 328, 8),
    FIELD(nigh_call_slot, place, 336, 8),
    FIELD(nigh_call_slot, staged, 344, 8),
    FIELD(nigh_call_slot, reduced, 352, 8),
    FIELD(nigh_call_slot, taken, 360, 8),
    FIELD(nigh_call_slot, taken_out, 368, 8),
    FIELD(nigh_call_slot, blocks, 376, 8),
    FIELD(nigh_call_slot, out_where, 384, 8),
    FIELD(nigh_call_slot, out_lies, 392, 8),
    FIELD(nigh_call_slot, factor, 400, 16),
    FIELD(nigh_call_slot, reserved, 416, 32),

    STRUCT(nigh_domain_slot, 320),
    FIELD(nigh_domain_slot, up, 0, 8),
    FIELD(nigh_domain_slot, up_where, 8, 8),
    FIELD(nigh_domain_slot, up_payload, 16, 240),
    FIELD(nigh_domain_slot, down, 256, 8),
    FIELD(nigh_domain_slot, down_where, 264, 8),
    FIELD(nigh_domain_slot, down_payload, 272, 48),

    STRUCT(nigh_part, 16),
    FIELD(nigh_part, offset, 0, 8),
    FIELD(nigh_part, bytes, 8, 8),
};

static const struct golden slots = GOLDEN("plugin/wire.h", slot_constants, slot_places);
static const struct golden boards = GOLDEN("coll/board.h", board_constants, board_places);
static const struct golden greeting = GOLDEN("shm/wire.h", greeting_constants, greeting_places);

/*
 * What each version looked like: a number over all of the above, as it is compiled. A line is added with each version
 * and none is ever changed, so whoever changes what lies in shared memory, and the golden numbers with it, cannot
 * forget the version. Two builds that are both of it would read each other wrongly.
 */
struct look {
    uint32_t version;
    uint64_t is;
};
static const struct look layout_looks[] = {
    {1, UINT64_C(0xe52b4a879d5e7577)},  {2, UINT64_C(0x1db76b6598367b0b)},
    {3, UINT64_C(0xa72b58a7f0b09d55)},  {4, UINT64_C(0x02e1cb6891305b23)},
    {5, UINT64_C(0x66f245bdfbefae93)},  {6, UINT64_C(0x9c5f48f334a6c672)},
    {7, UINT64_C(0x57c34a20d5c537a9)},  {8, UINT64_C(0xe85f7a97a38cee19)},
    {9, UINT64_C(0xc3d38a539bf4847d)},  {10, UINT64_C(0x98f32d069a55b967)},
    {11, UINT64_C(0x1244a762bd2e6755)}, {12, UINT64_C(0x1244a762bd2e6755)},
    {13, UINT64_C(0x1244a762bd2e6755)}, {14, UINT64_C(0x4de1091227881755)},
    {15, UINT64_C(0x52d26aeae58080e0)}, {16, UINT64_C(0xe7a31ad395056c81)},
    {17, UINT64_C(0x253952c96695348d)}, {18, UINT64_C(0x08a29141f7e8805b)},
    {19, UINT64_C(0x7ba81413350572b8)}, {20, UINT64_C(0xc4d85507ae2c0077)},
    {21, UINT64_C(0x6f1efbc15c47bd23)}, {22, UINT64_C(0xe774cc02da0f151f)},
    {23, UINT64_C(0x27e0369df9d75370)}, {24, UINT64_C(0x4d99fec83e28b58e)},
    {25, UINT64_C(0x43c5c8ce0d1a2447)}, {26, UINT64_C(0xa5a227b033417ca9)},
    {27, UINT64_C(0x7db539fb93a0b5dd)}, {28, UINT64_C(0x43f325180551b6f7)},
    {29, UINT64_C(0x28efd271a5a1ca3f)}, {30, UINT64_C(0xa89ae68d8aa52fde)}};
static const struct look greeting_looks[] = {{1, UINT64_C(0xb2ac7a01926d8468)},
                                             {2, UINT64_C(0x8b87eb40def88b4f)},
                                             {3, UINT64_C(0xbc20698f7d74e9ec)},
                                             {4, UINT64_C(0x9d25a28672859fcb)},
                                             {5, UINT64_C(0x8a09bbe3f337a5bd)}};

#define FIRST_LOOK UINT64_C(0xcbf29ce484222325)

static uint64_t mixed(uint64_t value, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ ((const uint8_t *)data)[i]) * UINT64_C(0x100000001b3);
    return value;
}

static uint64_t look_of(uint64_t value, const struct golden *all)
{
    for (size_t i = 0; i < all->place_count; i++) {
        const struct place *place = &all->places[i];
        uint64_t numbers[] = {place->offset, place->bytes};

        value = mixed(value, place->of, strlen(place->of));
        if (place->field) /* the places of two may have been exchanged */
            value = mixed(value, place->field, strlen(place->field));
        value = mixed(value, numbers, sizeof(numbers));
    }
    for (size_t i = 0; i < all->constant_count; i++)
        if (!strstr(all->constants[i].name, "VERSION"))
            value = mixed(value, &all->constants[i].is, sizeof(all->constants[i].is));
    return value;
}

static void check_look(const char *what, const char *version_name, uint32_t version, uint64_t is,
                       const struct look *looks, size_t count)
{
    if (looks[count - 1].version != version)
        fail_msg("%s is %u: add {%u, 0x%llx} to its looks", version_name, version, version,
                 (unsigned long long)is);
    if (looks[count - 1].is != is)
        fail_msg("%s is another one (0x%llx) than that of version %u: bump %s and add a line to its looks",
                 what, (unsigned long long)is, version, version_name);
    for (size_t i = 1; i < count; i++)
        assert_int_equal(looks[i].version, looks[i - 1].version + 1);
}

static void heads_are_golden(void **state)
{
    (void)state;
    assert_int_equal(nigh_head_make(1, 2, 3, 4), HEAD);
}

static void a_new_layout_has_a_new_version(void **state)
{
    uint64_t is = look_of(look_of(look_of(FIRST_LOOK, &layout), &slots), &boards);

    (void)state;
    is ^= nigh_head_make(1, 2, 3, 4);
    check_look("the layout of shared memory", "NIGH_LAYOUT_VERSION", NIGH_LAYOUT_VERSION, is, layout_looks,
               COUNT(layout_looks));
}

static void a_new_greeting_has_a_new_version(void **state)
{
    (void)state;
    check_look("the greeting", "NIGH_WIRE_VERSION", NIGH_WIRE_VERSION, look_of(FIRST_LOOK, &greeting),
               greeting_looks, COUNT(greeting_looks));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        GOLDEN_CASES(layout),
        GOLDEN_CASES(slots),
        GOLDEN_CASES(boards),
        cmocka_unit_test(heads_are_golden),
        GOLDEN_CASES(greeting),
        cmocka_unit_test(a_new_layout_has_a_new_version),
        cmocka_unit_test(a_new_greeting_has_a_new_version),
    };

    if (sizeof(void *) != 8) {
        printf("skip: the golden numbers are those of 64-bit machines\n");
        return 77;
    }
    return cmocka_run_group_tests_name("layout", tests, NULL, NULL);
}
