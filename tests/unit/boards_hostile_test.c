/* SPDX-License-Identifier: BSD-3-Clause */
/* A member of a group lies on its board, in the slots of its calls and in its counters: calls of that group fail or end,
 * nothing is written beyond recv, and the victim's other group goes on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coll/board.h"
#include "coll/tree.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Each member gives COUNT elements of four bytes, more than the four units of a stream of two members. */
enum { COUNT = 100000, BYTES = 4 * COUNT, UNIT = 65536, EDGE = 1 << 20, MARK = 0xa5 };
/* Where the foe's things lie, from the beginning of its heap. */
enum { AT_SLOTS = 16384, AT_PARTS = 32768, AT_DATA = 65536 };

static struct hosted victim, good;
static struct foe foe;
/* Members beside the foe in groups of four, in which reductions are shared out: these say nothing wrong. */
static struct foe aides[2];
static struct nigh_endpoint *to_foe, *to_good, *to_self[2], *to_aides[2], *back;
static uint32_t members;
static struct nigh_group *besieged, *sound[2];

/* The foe's, as it begins each case. */
static uint64_t heap;
static struct nigh_boards *boards;
static struct nigh_call_slot *slots;
static struct nigh_part *parts;
/* The victim's. */
static uint64_t key, posted, heap_used;
static const struct nigh_call_slot *theirs;

static uint32_t in[COUNT], plain_in[2], plain_out[2];
static void *heap_in, *heap_out; /* the victim's */
static uint8_t room[2 * BYTES + 2 * EDGE];
static uint8_t *const out = room + EDGE;

/* ---- the foe's board ----------------------------------------------------------------------------------- */

static void set(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

static struct nigh_arena_state *foes_state(void)
{
    return nigh_arena_state(&foe.arena);
}

/* The victim's board of a key that it has not shown before. */
static bool has_shown(void)
{
    static uint64_t known[512];
    static unsigned count;
    const struct nigh_arena_state *state = (const void *)(foe.view.base + NIGH_PAGE);
    uint64_t at = nigh_load_acquire(&state->boards, BOARD_FIND);

    while (at) {
        const struct nigh_boards *list = (const void *)(foe.view.base + at);

        for (uint32_t i = 0; i < NIGH_BOARDS; i++) {
            uint64_t shown = nigh_load_acquire(&list->keys[i], BOARD_FIND);
            bool is_known = shown >> 63 == 0;

            for (unsigned k = 0; k < count; k++)
                is_known |= known[k] == shown;
            if (is_known)
                continue;
            assert_true(count < 512);
            known[count++] = key = shown;
            theirs = (const void *)(foe.view.base + list->at[i].slots);
            return true;
        }
        at = nigh_load_acquire(&list->next, BOARD_FIND);
    }
    return false;
}

static void turns(unsigned count)
{
    hosted_turns(&victim, &good, count);
}

static struct nigh_group *group_of(struct hosted *hosted, struct nigh_endpoint *const *to, uint32_t count)
{
    struct nigh_group_options options = {.size = sizeof(options), .count = count, .members = to};
    struct nigh_group *group;

    assert_int_equal(hosted_ops->group_create(hosted->context, &options, &group), 0);
    return group;
}

static struct nigh_group *besieged_of(uint32_t count)
{
    struct nigh_endpoint *const to[] = {to_self[0], to_foe, to_aides[0], to_aides[1]};

    return group_of(&victim, to, count);
}

static struct nigh_boards *boards_of(struct foe *of)
{
    return (void *)(of->arena.base + foe_heap(of));
}

static struct nigh_call_slot *slots_of(struct foe *of)
{
    return (void *)(of->arena.base + foe_heap(of) + AT_SLOTS);
}

static void clear_board(struct foe *of)
{
    memset(boards_of(of), 0, sizeof(struct nigh_boards));
    memset(slots_of(of), 0, NIGH_CALL_SLOTS * sizeof(struct nigh_call_slot));
    for (uint32_t i = 0; i < NIGH_CALL_SLOTS; i++)
        slots_of(of)[i].head = UINT64_MAX;
    boards_of(of)->at[0].slots = foe_heap(of) + AT_SLOTS;
    set(&nigh_arena_state(&of->arena)->boards, foe_heap(of));
}

static struct nigh_query_group facts(void)
{
    struct nigh_query_group answer = {.size = sizeof(answer)};

    assert_int_equal(hosted_ops->query_group(besieged, &answer), 0);
    return answer;
}

static int begin_with(uint32_t count)
{
    members = count;
    posted = 0;
    victim.count = good.count = 0;
    clear_board(&foe);
    heap_used = hosted_facts(&victim).heap_used;
    besieged = besieged_of(count);
    while (!has_shown())
        turns(1);
    for (unsigned i = 0; i < 2; i++) {
        clear_board(&aides[i]);
        set(&boards_of(&aides[i])->at[0].done, UINT64_MAX);
        set(&boards_of(&aides[i])->keys[0], key);
    }
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_with(2);
}

static int begin_four(void **state)
{
    (void)state;
    return begin_with(4);
}

static void form(void)
{
    set(&boards->keys[0], key);
    for (unsigned i = 0; !facts().formed; i++) {
        assert_true(i < 1000);
        turns(1);
    }
}

/* The victim and the good one still have their group. */
static void sound_goes_on(void)
{
    struct nigh_collective call = {.size = sizeof(call),
                                   .op = NIGH_ALLREDUCE,
                                   .type = NIGH_U32,
                                   .reduction = NIGH_SUM,
                                   .count = 1,
                                   .context = 77};

    plain_in[0] = 3;
    plain_in[1] = 4;
    for (unsigned i = 0; i < 2; i++) {
        call.send = &plain_in[i];
        call.recv = &plain_out[i];
        assert_int_equal(hosted_ops->post_collective(sound[i], &call), 0);
    }
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_COLLECTIVE, 77)->status, 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_COLLECTIVE, 77)->status, 0);
    assert_int_equal(plain_out[0], 7);
    assert_int_equal(plain_out[1], 7);
}

static int finish(void **state)
{
    bool formed;

    (void)state;
    sound_goes_on();
    formed = facts().formed;
    set(&boards->at[0].left, 1);
    for (unsigned i = 0; i < 2; i++)
        set(&boards_of(&aides[i])->at[0].left, 1);
    for (unsigned i = 0; facts().under_way; i++) {
        assert_true(i < 1000);
        turns(10);
    }
    assert_int_equal(hosted_ops->group_free(besieged), 0);
    /* All its memory comes back, once the foe is seen to have left. */
    for (unsigned i = 0; formed && hosted_facts(&victim).heap_used > heap_used; i++) {
        assert_true(i < 10000);
        turns(10);
    }
    return 0;
}

static void again(void **state)
{
    finish(state);
    begin_with(members);
}

/* ---- calls --------------------------------------------------------------------------------------------- */

static void post(uint16_t op)
{
    bool reduces = op == NIGH_ALLREDUCE || op == NIGH_REDUCE_SCATTER;
    struct nigh_collective call = {.size = sizeof(call),
                                   .op = op,
                                   .type = NIGH_U32,
                                   .reduction = reduces ? NIGH_SUM : 0,
                                   .count =
                                       op == NIGH_ALLTOALL || op == NIGH_REDUCE_SCATTER ? COUNT / 2 : COUNT,
                                   .send = in,
                                   .recv = out,
                                   .context = posted};

    if (op == NIGH_BARRIER)
        call.type = 0;
    if (members > 2) {
        call.send = heap_in;
        call.recv = heap_out;
    }
    memset(room, MARK, sizeof(room));
    assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    posted++;
}

static struct nigh_call_slot *slot_of(uint64_t number)
{
    return &slots[number % NIGH_CALL_SLOTS];
}

/* The foe makes call `number`, as the victim has: what it gives lies `lies` at `where`. */
static struct nigh_call_slot *gives(uint64_t number, uint64_t bytes, uint64_t lies, uint64_t where)
{
    struct nigh_call_slot *slot = slot_of(number);

    slot->bytes = bytes << 8 | lies;
    slot->where = where;
    slot->out_lies = NIGH_LIES_STREAM;
    slot->out_where = heap + AT_DATA + NIGH_STREAM_UNITS * UNIT;
    return slot;
}

static void comes(uint64_t number)
{
    const struct nigh_call_slot *slot = &theirs[number % NIGH_CALL_SLOTS];
    uint64_t head;

    for (unsigned i = 0; (head = nigh_load_acquire(&slot->head, CALL_PEEK)) >> 32 != number; i++) {
        assert_true(i < 1000);
        turns(1);
    }
    for (unsigned i = 0; i < members - 2; i++) {
        uint64_t at = foe_heap(&aides[i]) + AT_DATA;

        slots_of(&aides[i])[number % NIGH_CALL_SLOTS] =
            (struct nigh_call_slot){.head = head,
                                    .bytes = (uint64_t)BYTES << 8 | NIGH_LIES_HEAP,
                                    .where = at,
                                    .out_lies = NIGH_LIES_HEAP,
                                    .out_where = at,
                                    .reduced = UINT64_MAX,
                                    .taken = UINT64_MAX,
                                    .taken_out = UINT64_MAX};
    }
    set(&slot_of(number)->head, head);
}

static void edges_are_whole(uint64_t bytes)
{
    for (unsigned i = 0; i < EDGE; i++)
        if (room[i] != MARK || out[bytes + i] != MARK)
            fail_msg("memory beyond recv was written to");
}

static void ends(uint64_t number, int status)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_COLLECTIVE, number)->status, status);
    edges_are_whole(2 * BYTES);
}

/* Where the foe's arena ends. */
static uint64_t last(void)
{
    return foe.arena.bytes - NIGH_LINE;
}

static uint64_t data(void)
{
    return heap + AT_DATA;
}

/* ---- boards -------------------------------------------------------------------------------------------- */

static void refused(void)
{
    for (unsigned i = 0; !facts().status; i++) {
        assert_true(i < 1000);
        turns(1);
    }
    assert_int_equal(facts().status, -EIO);
    assert_int_equal(facts().about, 1);
    assert_true(facts().text[0] != 0);
}

static void list_at(uint64_t where)
{
    set(&foes_state()->boards, where);
    refused();
}

static void test_list_before_heap(void **state)
{
    (void)state;
    list_at(NIGH_PAGE);
}

static void test_list_behind_memory(void **state)
{
    (void)state;
    list_at(last());
}

static void test_list_nowhere(void **state)
{
    (void)state;
    list_at(UINT64_MAX - NIGH_LINE + 1);
}

static void test_list_between_lines(void **state)
{
    (void)state;
    list_at(heap + 8);
}

static void test_list_is_a_circle(void **state)
{
    (void)state;
    set(&boards->next, heap);
    refused();
}

static void slots_at(uint64_t where)
{
    set(&boards->at[0].slots, where);
    set(&boards->keys[0], key);
    refused();
}

static void test_slots_before_heap(void **state)
{
    (void)state;
    slots_at(NIGH_PAGE);
}

static void test_slots_behind_memory(void **state)
{
    (void)state;
    slots_at(last());
}

static void test_slots_between_lines(void **state)
{
    (void)state;
    slots_at(heap + AT_SLOTS + 8);
}

/* What it says of the group's end: word, and what calls fail with. */
static void test_revoked(void **state)
{
    static const struct {
        uint32_t why, about;
        int status;
    } words[] = {{NIGH_REVOKED_LOST, 0, -ECONNRESET},
                 {NIGH_REVOKED_MISMATCH, 65535, -EPROTO},
                 {NIGH_REVOKED_MISMATCH, 1, -EPROTO},
                 {NIGH_REVOKED_FAILED, 2, -EIO},
                 {NIGH_REVOKED_LEFT, 7, -ECONNRESET},
                 {0, 1, -EIO},
                 {200, 65535, -EIO}};

    for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        form();
        post(NIGH_ALLGATHER);
        turns(1);
        set(&boards->at[0].revoked, NIGH_REVOKED(words[i].why, 0xffffffff, words[i].about));
        ends(0, words[i].status);
        assert_int_equal(facts().about, 1);
        again(state);
    }
}

static void test_board_of_another_group(void **state)
{
    (void)state;
    form();
    post(NIGH_ALLGATHER);
    set(&boards->keys[0], key + 1);
    ends(0, -ECONNRESET);
}

/* ---- slots --------------------------------------------------------------------------------------------- */

static void gather_of(uint64_t bytes, uint64_t lies, uint64_t where, int status)
{
    form();
    post(NIGH_ALLGATHER);
    gives(0, bytes, lies, where);
    comes(0);
    ends(0, status);
    assert_int_equal(facts().status, status);
    assert_int_equal(facts().about, 1);
}

static void test_input(void **state)
{
    const struct {
        uint64_t bytes, lies, where;
        int status;
    } lies[] = {
        {BYTES, 77, data(), -EIO},
        {BYTES, NIGH_LIES_NOWHERE, data(), -EIO},
        {BYTES, NIGH_LIES_INLINE, 0, -EIO},
        {BYTES, NIGH_LIES_WHOLE, NIGH_PAGE, -EIO},
        {BYTES, NIGH_LIES_WHOLE, last(), -EIO},
        {BYTES, NIGH_LIES_HEAP, UINT64_MAX - BYTES + 1, -EIO},
        {BYTES, NIGH_LIES_STREAM, NIGH_PAGE, -EIO},
        {BYTES, NIGH_LIES_STREAM, last(), -EIO},
        {BYTES, NIGH_LIES_STREAM, UINT64_MAX - NIGH_LINE + 1, -EIO},
        {BYTES, NIGH_LIES_PROCESS, 64, -EIO},
        {BYTES, NIGH_LIES_PROCESS, UINT64_MAX - 64, -EIO},
        {BYTES - 1, NIGH_LIES_WHOLE, data(), -EPROTO},
        {UINT64_MAX >> 8, NIGH_LIES_WHOLE, data(), -EPROTO},
        {0, NIGH_LIES_NOWHERE, 0, -EPROTO},
    };

    for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        gather_of(lies[i].bytes, lies[i].lies, lies[i].where, lies[i].status);
        again(state);
    }
}

static void test_fingerprint(void **state)
{
    (void)state;
    form();
    post(NIGH_ALLGATHER);
    gives(0, BYTES, NIGH_LIES_WHOLE, data());
    slot_of(0)->call = slot_of(0)->count = UINT64_MAX;
    set(&slot_of(0)->head, 0);
    ends(0, -EPROTO);
}

/* A number that cannot be: it has not come, until it ends. */
static void test_number(void **state)
{
    (void)state;
    form();
    post(NIGH_ALLGATHER);
    set(&slot_of(0)->head, UINT64_C(1) << 35);
    turns(200);
    assert_int_equal(facts().waits_for[0], 2);
    sound_goes_on();
    set(&boards->at[0].left, 1);
    ends(0, -ECONNRESET);
}

static void test_parts(void **state)
{
    enum { HALF = BYTES / 2 };
    const struct {
        uint64_t parts, offset, bytes;
        int status;
    } lies[] = {
        {NIGH_PAGE, 0, HALF, -EIO},
        {last() + NIGH_LINE - 8, 0, HALF, -EIO},
        {heap + AT_PARTS + 4, 0, HALF, -EIO},
        {UINT64_MAX, 0, HALF, -EIO},
        {heap + AT_PARTS, UINT64_MAX - 8, HALF, -EIO},
        {heap + AT_PARTS, last(), HALF, -EIO},
        {heap + AT_PARTS, 0, BYTES + 1, -EIO},
        {heap + AT_PARTS, 0, UINT64_MAX, -EIO},
        {heap + AT_PARTS, 0, HALF - 4, -EPROTO},
    };

    for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        form();
        post(NIGH_ALLTOALL);
        gives(0, BYTES, NIGH_LIES_HEAP, data())->parts = lies[i].parts;
        parts[0] = (struct nigh_part){.offset = lies[i].offset, .bytes = lies[i].bytes};
        comes(0);
        ends(0, lies[i].status);
        again(state);
    }
}

static void test_result(void **state)
{
    const struct {
        uint64_t lies, where;
    } lies[] = {
        {77, data()},
        {NIGH_LIES_NOWHERE, data()},
        {NIGH_LIES_INLINE, 0},
        {NIGH_LIES_WHOLE, data()},
        {NIGH_LIES_STREAM, NIGH_PAGE},
        {NIGH_LIES_STREAM, last()},
        {NIGH_LIES_HEAP, last()},
        {NIGH_LIES_HEAP, UINT64_MAX - 64},
        {NIGH_LIES_PROCESS, 64},
    };

    for (unsigned i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
        struct nigh_call_slot *slot;

        form();
        post(NIGH_ALLREDUCE);
        slot = gives(0, BYTES, NIGH_LIES_HEAP, data());
        slot->out_lies = lies[i].lies;
        slot->out_where = lies[i].where;
        comes(0);
        set(&slot->reduced, 1);
        ends(0, -EIO);
        again(state);
    }
}

/* ---- counters ------------------------------------------------------------------------------------------ */

/* Three units are there, then one, then all. */
static void stream_falls(uint16_t op)
{
    struct nigh_call_slot *slot;

    form();
    post(op);
    slot = gives(0, BYTES, NIGH_LIES_STREAM, data());
    comes(0);
    set(&slot->staged, 3);
    turns(20);
    set(&slot->staged, 1);
    turns(20);
    edges_are_whole(2 * BYTES);
    assert_int_equal(facts().under_way, 1);
    set(&slot->staged, UINT64_MAX);
    set(&slot->reduced, UINT64_MAX);
    set(&slot->taken, UINT64_MAX);
    set(&slot->taken_out, UINT64_MAX);
    set(&boards->at[0].done, 1);
    ends(0, 0);
}

static void test_staged_falls(void **state)
{
    (void)state;
    stream_falls(NIGH_ALLGATHER);
}

static void test_staged_falls_reduced(void **state)
{
    (void)state;
    stream_falls(NIGH_ALLREDUCE);
}

static void test_reduced_falls(void **state)
{
    struct nigh_call_slot *slot;

    (void)state;
    form();
    post(NIGH_ALLREDUCE);
    slot = gives(0, BYTES, NIGH_LIES_HEAP, data());
    comes(0);
    set(&slot->reduced, 3);
    turns(20);
    set(&slot->reduced, 1);
    turns(20);
    set(&slot->reduced, UINT64_MAX);
    set(&slot->taken, UINT64_MAX - 1);
    set(&slot->taken_out, UINT64_MAX - 1);
    set(&boards->at[0].done, 1);
    ends(0, 0);
}

/* Its calls are done before they have begun, and then are not. */
static void test_done(void **state)
{
    (void)state;
    form();
    set(&boards->at[0].done, UINT64_MAX);
    for (uint64_t i = 0; i < NIGH_CALL_SLOTS + 20; i++) {
        post(NIGH_ALLGATHER);
        gives(i, BYTES, NIGH_LIES_HEAP, data());
        comes(i);
        if (i % 3 == 1)
            set(&boards->at[0].done, 0);
        if (i % 3 == 2)
            set(&boards->at[0].done, UINT64_MAX - i);
        ends(i, 0);
    }
}

/* A taker is done before all of the stream was copied, as one that has ended is: nothing of it is copied any more, as its
 * memory is a later call's by now. */
static void test_done_early(void **state)
{
    static uint8_t large[5 * UNIT], small[8000];
    struct nigh_collective call = {.size = sizeof(call),
                                   .op = NIGH_BROADCAST,
                                   .type = NIGH_U8,
                                   .count = sizeof(large),
                                   .send = large,
                                   .context = 1000};

    (void)state;
    memset(large, 0x22, sizeof(large));
    memset(small, 0x11, sizeof(small));
    form();
    /* Each takes a block of four units, of which the group's memory has four. */
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    call.count = sizeof(small);
    call.send = small;
    assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    turns(10);
    assert_true(nigh_load_acquire(&theirs[4].head, CALL_PEEK) == UINT64_MAX);
    set(&boards->at[0].done, 1);
    turns(10);
    assert_true(nigh_load_acquire(&theirs[4].head, CALL_PEEK) >> 32 == 4);
    assert_memory_equal(foe.view.base + nigh_load_relaxed(&theirs[4].where), small, sizeof(small));
}

/* ---- what others may still read ------------------------------------------------------------------------ */

/* It ends the group before its call can be over: what was read where it lies may be its host's again, a copy may not. */
static void test_revoked_in_place(void **state)
{
    static const struct {
        uint64_t lies;
        int status;
    } ways[] = {{NIGH_LIES_HEAP, -ECONNRESET}, {NIGH_LIES_WHOLE, 0}};

    for (unsigned i = 0; i < 2; i++) {
        form();
        post(NIGH_ALLGATHER);
        gives(0, BYTES, ways[i].lies, data())->taken = UINT64_MAX;
        set(&boards->at[0].revoked, NIGH_REVOKED(NIGH_REVOKED_LOST, 0, 0));
        comes(0);
        ends(0, ways[i].status);
        again(state);
    }
}

static void stays_under_way(uint64_t number)
{
    turns(100);
    assert_true(facts().under_way > 0);
    assert_int_equal(facts().oldest, number);
}

/* A buffer that is read where it lies is its host's when all are done; a slot is used again then. */
static void test_not_done(void **state)
{
    struct nigh_collective call = {
        .size = sizeof(call), .op = NIGH_BROADCAST, .type = NIGH_U8, .count = BYTES, .context = 0};
    void *memory;

    (void)state;
    assert_int_equal(hosted_ops->heap_alloc(victim.context, BYTES, &memory), 0);
    call.send = memory;
    form();
    assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    stays_under_way(0);
    set(&boards->at[0].done, 1);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_COLLECTIVE, 0)->status, 0);
    call.count = 8;
    for (call.context = 1; call.context < NIGH_CALL_SLOTS + 2; call.context++)
        assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    turns(100);
    assert_true(nigh_load_acquire(&theirs[1].head, CALL_PEEK) >> 32 == 1);
    set(&boards->at[0].done, 2);
    turns(100);
    assert_true(nigh_load_acquire(&theirs[1].head, CALL_PEEK) >> 32 == NIGH_CALL_SLOTS + 1);
    set(&boards->at[0].done, NIGH_CALL_SLOTS + 2);
    turns(100);
    assert_int_equal(facts().under_way, 0);
    assert_int_equal(hosted_ops->heap_free(victim.context, memory), 0);
}

static void test_result_not_done(void **state)
{
    struct nigh_call_slot *slot;

    (void)state;
    form();
    post(NIGH_ALLREDUCE);
    slot = gives(0, BYTES, NIGH_LIES_HEAP, data());
    comes(0);
    set(&slot->reduced, UINT64_MAX);
    stays_under_way(0);
    set(&boards->at[0].done, 1);
    ends(0, 0);
}

/* Units of a stream are copied as far as there is room, and no further. */
static void test_not_taken(void **state)
{
    (void)state;
    form();
    post(NIGH_ALLGATHER);
    gives(0, BYTES, NIGH_LIES_HEAP, data());
    comes(0);
    turns(100);
    assert_int_equal(nigh_load_acquire(&theirs->staged, STEP_GET), NIGH_STREAM_UNITS);
    set(&slots[0].taken, 1);
    turns(100);
    assert_int_equal(nigh_load_acquire(&theirs->staged, STEP_GET), NIGH_STREAM_UNITS + 1);
    set(&slots[0].taken, UINT64_MAX);
    ends(0, 0);
}

/* ---- whom it wakes ------------------------------------------------------------------------------------- */

static uint32_t heard;

static void falls_asleep(void)
{
    turns(50);
    __atomic_store_n(&foes_state()->asleep, NIGH_ASLEEP, __ATOMIC_SEQ_CST);
    heard = nigh_bell_read(&foe.bell);
}

static void is_woken(void)
{
    for (unsigned i = 0; nigh_bell_read(&foe.bell) == heard; i++) {
        if (i == 1000)
            fail_msg("a member that sleeps is not woken");
        turns(1);
    }
    __atomic_store_n(&foes_state()->asleep, NIGH_AWAKE, __ATOMIC_SEQ_CST);
}

static void post_scattered(const uint64_t counts[2])
{
    struct nigh_collective call = {.size = sizeof(call),
                                   .op = NIGH_REDUCE_SCATTER,
                                   .type = NIGH_U32,
                                   .reduction = NIGH_SUM,
                                   .send = in,
                                   .recv = out,
                                   .recv_counts = counts,
                                   .context = posted};

    assert_int_equal(hosted_ops->post_collective(besieged, &call), 0);
    gives(posted++, BYTES, NIGH_LIES_STREAM, data());
}

/* Each step of a call that another member may wait for. */
static void test_wakes(void **state)
{
    static const uint64_t halves[] = {COUNT / 2, COUNT / 2};

    (void)state;
    form();
    falls_asleep();
    post(NIGH_BARRIER);
    is_woken();
    falls_asleep();
    gives(0, 0, NIGH_LIES_NOWHERE, 0);
    comes(0);
    is_woken(); /* done */

    post(NIGH_ALLGATHER);
    gives(1, BYTES, NIGH_LIES_STREAM, data());
    comes(1);
    falls_asleep();
    set(&slots[1].staged, 1);
    is_woken(); /* taken */
    falls_asleep();
    set(&slots[1].taken, 1);
    is_woken(); /* staged */
    set(&slots[1].taken, UINT64_MAX);
    set(&slots[1].staged, UINT64_MAX);
    ends(1, 0);

    post_scattered(halves);
    comes(2);
    falls_asleep();
    set(&slots[2].staged, 1);
    is_woken(); /* taken */

    falls_asleep();
    post(NIGH_BARRIER);
    is_woken();
    falls_asleep();
    set(&slots[3].head, UINT64_C(3) << 32);
    ends(3, -EPROTO);
    is_woken(); /* revoked */
    falls_asleep();
    assert_int_equal(hosted_ops->group_free(besieged), 0);
    is_woken(); /* left */
    besieged = besieged_of(members);
    is_woken();
    while (!has_shown())
        turns(1);
}

static void test_wakes_shared_out(void **state)
{
    (void)state;
    form();
    post(NIGH_ALLREDUCE);
    gives(0, BYTES, NIGH_LIES_STREAM, data());
    comes(0);
    falls_asleep();
    set(&slots[0].staged, 1);
    is_woken(); /* reduced, taken */
    falls_asleep();
    set(&slots[0].reduced, 1);
    is_woken(); /* taken_out */
    set(&slots[0].staged, UINT64_MAX);
    set(&slots[0].reduced, UINT64_MAX);
    set(&boards->at[0].done, 1);
    ends(0, 0);
}

/* A stream of which the victim needs the beginning alone: who fills it hears that no more is wanted, though an older call is
 * still under way. */
static void test_wakes_out_of_order(void **state)
{
    static const uint64_t counts[] = {4, COUNT - 4};

    (void)state;
    form();
    post(NIGH_BARRIER);
    post_scattered(counts);
    comes(1);
    falls_asleep();
    set(&slots[1].staged, 1);
    is_woken();
    assert_true(nigh_load_acquire(&theirs[1].taken, STEP_GET) == NIGH_CALL_ALL);
}

/* ---- all ----------------------------------------------------------------------------------------------- */

static void open_aides(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        foe_open(&aides[i], foe.job, 3 + i, 0);
        to_aides[i] = hosted_connect(&victim, 3 + i);
        for (unsigned k = 0; !aides[i].attached || hosted_state(&victim, to_aides[i]) != NIGH_READY; k++) {
            assert_true(k < 100000);
            foe_progress(&aides[i]);
            hosted_turns(&victim, &good, 10);
            usleep(100);
        }
    }
}

#include "tests/unit/boards_hostile_domains.h"

static int open_all(void **state)
{
    (void)state;
    alarm(300);
    hosted_quiet = true;
    setenv("NIGH_DOMAINS", "l3", 1);
    setenv("NIGH_PLACE", "0/0/0", 1);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    unsetenv("NIGH_DOMAINS");
    unsetenv("NIGH_PLACE");
    back = hosted_connect(&good, 0);
    to_self[0] = hosted_connect(&victim, 0);
    to_self[1] = hosted_connect(&good, 2);
    sound[0] = group_of(&victim, (struct nigh_endpoint *[]){to_self[0], to_good}, 2);
    sound[1] = group_of(&good, (struct nigh_endpoint *[]){back, to_self[1]}, 2);
    open_aides();
    assert_int_equal(hosted_ops->heap_alloc(victim.context, BYTES, &heap_in), 0);
    assert_int_equal(hosted_ops->heap_alloc(victim.context, BYTES, &heap_out), 0);
    sound_goes_on();
    heap = foe_heap(&foe);
    boards = boards_of(&foe);
    slots = slots_of(&foe);
    parts = (void *)(foe.arena.base + heap + AT_PARTS);
    assert_true(has_shown()); /* the sound group's */
    return 0;
}

static int close_all(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 2; i++)
        foe_close(&aides[i]);
    siege_close(&victim, &foe, &good);
    return 0;
}

#define CASE(name)      cmocka_unit_test_setup_teardown(name, begin, finish)
#define CASE_FOUR(name) cmocka_unit_test_setup_teardown(name, begin_four, finish)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_list_before_heap),
        CASE(test_list_behind_memory),
        CASE(test_list_nowhere),
        CASE(test_list_between_lines),
        CASE(test_list_is_a_circle),
        CASE(test_slots_before_heap),
        CASE(test_slots_behind_memory),
        CASE(test_slots_between_lines),
        CASE(test_revoked),
        CASE(test_board_of_another_group),
        CASE(test_input),
        CASE(test_fingerprint),
        CASE(test_number),
        CASE(test_parts),
        CASE_FOUR(test_result),
        CASE(test_staged_falls),
        CASE_FOUR(test_staged_falls_reduced),
        CASE_FOUR(test_reduced_falls),
        CASE(test_done),
        CASE(test_done_early),
        CASE(test_revoked_in_place),
        CASE(test_not_done),
        CASE_FOUR(test_result_not_done),
        CASE(test_not_taken),
        CASE(test_wakes),
        CASE_FOUR(test_wakes_shared_out),
        CASE(test_wakes_out_of_order),
        CASE(test_place_that_cannot_be),
        CASE(test_place_that_changes),
        CASE(test_other_domains),
        CASE(test_domain_slots),
        CASE(test_domain_data),
    };

    return cmocka_run_group_tests_name("boards hostile", tests, open_all, close_all);
}
