/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives, gets and atomics that are cancelled while they are under way, at each step of every path: from their completion on
 * nothing is written to their memory, the sender sees nothing of it, and what comes behind is right. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

/* Of a case's number, beside the bytes. */
enum {
    HEAP = 1 << 0,
    LENT = 1 << 1,
    SYNC = 1 << 2,
    IN_PLACE = 1 << 3,
    CLAIM = 1 << 4,
    LATE = 1 << 5,
    AT_ONCE = 1 << 6
};

#define WITH(kind, bytes) ((uint64_t)(kind) << 48 | (bytes))

enum { STEPS = 64, TAG = 5, NEXT = 6, CANARY = 0x77 };

static uint64_t bytes_of(const struct pair *pair)
{
    return pair->of->number & ((UINT64_C(1) << 48) - 1);
}

static bool is(const struct pair *pair, unsigned kind)
{
    return pair->of->number >> 48 & kind;
}

static bool is_cancelled(const struct nigh_completion *done)
{
    CHECK(done->status == 0 || done->status == -ECANCELED);
    return done->status != 0;
}

/* Has it taken a message along? */
static bool is_lost(const struct nigh_completion *done, uint64_t bytes, uint64_t tag)
{
    if (done->bytes == 0)
        return false;
    CHECK_INT(done->bytes, bytes);
    CHECK_INT(done->tag, tag);
    return true;
}

static void check_canary(const uint8_t *room, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (room[i] != CANARY)
            pair_fail(__FILE__, __LINE__, "byte %llu of %llu was written behind the completion",
                      (unsigned long long)i, (unsigned long long)bytes);
}

/* ---- the sender's -------------------------------------------------------------------------------------- */

static const uint8_t *message_of(struct pair *pair, struct pair_end *tx)
{
    void *heap = NULL;

    if (!tx || !is(pair, HEAP | LENT))
        return tx ? data_filled(bytes_of(pair), 1) : NULL;
    CHECK_INT(nigh->heap_alloc(tx->context, bytes_of(pair), &heap), 0);
    data_fill(heap, bytes_of(pair), 1);
    return heap;
}

static void send_it(struct pair *pair, struct pair_end *tx, const uint8_t *from, uint64_t round)
{
    struct nigh_lend lend = {
        .size = sizeof(lend), .buffer = from, .bytes = bytes_of(pair), .tag = TAG, .context = round};

    if (is(pair, LENT))
        CHECK_INT(nigh->post_lend(tx->peer, &lend), 0);
    else
        pair_send(tx, from, bytes_of(pair), TAG, is(pair, SYNC) ? NIGH_SYNC : 0, round);
}

static void is_sent(struct pair *pair, struct pair_end *tx, uint64_t round)
{
    struct nigh_completion done = pair_await(tx, is(pair, LENT) ? NIGH_OP_LEND : NIGH_OP_SEND, round);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.bytes, bytes_of(pair));
}

/* ---- the receiver's ------------------------------------------------------------------------------------ */

static void claim_it(struct pair_end *rx, const struct nigh_recv *recv)
{
    struct nigh_message *message = NULL;
    struct nigh_completion found;

    while (nigh->probe(rx->context, rx->peer, TAG, 0, 0, &found, &message) != 0)
        pair_pump();
    CHECK_INT(nigh->claim(rx->context, message, recv), 0);
}

static void post_it(struct pair *pair, struct pair_end *rx, uint8_t *room, uint64_t round)
{
    struct nigh_recv recv = pair_a_recv(is(pair, IN_PLACE) ? NULL : room, bytes_of(pair), TAG, round);

    recv.flags = is(pair, IN_PLACE) ? NIGH_IN_PLACE : 0;
    if (is(pair, CLAIM))
        claim_it(rx, &recv);
    else
        CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
}

static void is_right(struct pair *pair, struct pair_end *rx, const struct nigh_completion *done,
                     const uint8_t *room)
{
    CHECK_INT(done->bytes, bytes_of(pair));
    data_check(is(pair, IN_PLACE) ? done->data : room, bytes_of(pair), 1, 0);
    if (done->flags & NIGH_DONE_LENT)
        CHECK_INT(nigh->release(rx->context, done->data), 0);
}

/* The message is still there for others. */
static void receive_again(struct pair *pair, struct pair_end *rx, uint8_t *room, uint64_t round)
{
    struct nigh_completion done;

    post_it(pair, rx, room, round);
    done = pair_await(rx, NIGH_OP_RECV, round);
    CHECK_INT(done.status, 0);
    is_right(pair, rx, &done, room);
}

/* Cancelled at this step. True: a message was lost with it, and `room` may not be written to. */
static bool cancel_at(struct pair *pair, struct pair_end *rx, uint8_t *room, uint64_t step, bool *came)
{
    struct nigh_completion done;
    int rc;

    for (uint64_t i = 0; i < step; i++)
        pair_pump();
    rc = nigh->cancel(rx->context, step);
    if (rc == 0 && pair->form & (PAIR_SELF | PAIR_TWO))
        CHECK_INT(nigh->cancel(rx->context, step), -ENOENT);
    done = pair_await(rx, NIGH_OP_RECV, step);
    if (rc)
        CHECK_INT(rc, -ENOENT);
    *came = !is_cancelled(&done);
    if (*came) {
        is_right(pair, rx, &done, room);
        return false;
    }
    CHECK_INT(rc, 0);
    if (is_lost(&done, bytes_of(pair), TAG))
        return true;
    receive_again(pair, rx, room, step);
    return false;
}

/* ---- a message ----------------------------------------------------------------------------------------- */

/* What is sent behind it has come: all of it has. */
static void next_one(struct pair_end *tx, struct pair_end *rx)
{
    uint64_t value = 9, got = 0;

    if (rx)
        pair_recv(rx, &got, 8, NEXT, 1000);
    pair_meet();
    if (tx)
        pair_send(tx, &value, 8, NEXT, 0, 1001);
    if (rx) {
        pair_received(rx, 1000, 8);
        CHECK_INT(got, 9);
    }
    if (tx)
        pair_sent(tx, 1001, 8);
}

/* True: it came before it was cancelled. */
static bool try_step(struct pair *pair, const uint8_t *from, uint8_t *room, uint64_t step, unsigned *lost)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    bool late = is(pair, LATE | CLAIM), came = false, taken = false;

    if (rx && !late)
        post_it(pair, rx, room, step);
    pair_meet();
    if (tx)
        send_it(pair, tx, from, step);
    if (rx && late) {
        pair_unexpected(rx, 1);
        post_it(pair, rx, room, step);
    }
    if (rx)
        taken = cancel_at(pair, rx, room, step, &came);
    if (taken)
        memset(room, CANARY, bytes_of(pair));
    if (tx)
        is_sent(pair, tx, step);
    pair_meet();
    next_one(tx, rx);
    if (taken)
        check_canary(room, bytes_of(pair));
    *lost += taken;
    return came;
}

/* Both sides go through as many steps. */
static bool is_over(struct pair *pair, uint64_t step, bool came)
{
    if (pair->end[1])
        pair->shared[0] = came;
    pair_meet();
    came = pair->shared[0];
    pair_meet();
    return came && step > 3;
}

static void each_step(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    const uint8_t *from = message_of(pair, tx);
    uint8_t *room = rx ? data_room(bytes_of(pair)) : NULL;
    unsigned lost = 0;
    bool came = false;

    for (uint64_t step = 0; step < STEPS && !is_over(pair, step, came); step++)
        came = try_step(pair, from, room, step, &lost);
    /* Where one thread plays both there is a step in the middle of the message. */
    if (pair->form & (PAIR_SELF | PAIR_TWO) && !is(pair, AT_ONCE))
        CHECK(lost > 0);
    if (tx && is(pair, HEAP | LENT))
        CHECK_INT(nigh->heap_free(tx->context, (void *)(uintptr_t)from), 0);
}

/* ---- what keeps its message ------------------------------------------------------------------------------ */

/* cancel_unmatched() leaves a receive alone that has met its message. */
static void unmatched(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    const uint8_t *from = tx ? data_filled(bytes_of(pair), 1) : NULL;
    uint8_t *room = rx ? data_room(bytes_of(pair)) : NULL;

    if (rx) {
        pair_recv(rx, room, bytes_of(pair), TAG, 1);
        CHECK_INT(nigh->cancel_unmatched(rx->context, 2), -ENOENT);
        CHECK_INT(nigh->cancel_unmatched(rx->context, 1), 0);
        CHECK_INT(pair_await(rx, NIGH_OP_RECV, 1).status, -ECANCELED);
    }
    pair_meet();
    if (tx)
        pair_send(tx, from, bytes_of(pair), TAG, 0, 1);
    if (rx) {
        pair_unexpected(rx, 1);
        pair_recv(rx, room, bytes_of(pair), TAG, 2);
        CHECK_INT(nigh->cancel_unmatched(rx->context, 2), -ENOENT);
        pair_received(rx, 2, bytes_of(pair));
        data_check(room, bytes_of(pair), 1, 0);
    }
    if (tx)
        pair_sent(tx, 1, bytes_of(pair));
}

/* ---- multi-receive buffers ------------------------------------------------------------------------------- */

/* Two messages are arriving in a buffer. number: so often it is cancelled. */
static void multi(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = UINT64_C(4) << 20, times = bytes_of(pair);
    uint8_t *room = rx ? data_room(2 * bytes) : NULL;
    struct nigh_recv recv = pair_a_recv(room, 2 * bytes, TAG, 9);
    struct nigh_completion done;

    recv.flags = NIGH_MULTI;
    recv.min_free = 1;
    for (uint32_t i = 0; tx && i < 2; i++)
        pair_send(tx, data_filled(bytes, i), bytes, TAG, 0, i);
    if (rx) {
        pair_unexpected(rx, 2);
        CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
        for (uint64_t i = 0; i < times; i++)
            CHECK_INT(nigh->cancel(rx->context, 9), 0);
        if (times > 1)
            CHECK_INT(nigh->cancel(rx->context, 9), -ENOENT);
    }
    for (uint32_t i = 0; rx && i < 2; i++) {
        done = pair_await(rx, NIGH_OP_RECV, 9);
        CHECK_INT(done.status, times > 1 ? -ECANCELED : 0);
        CHECK_INT(done.bytes, bytes);
        CHECK_INT(done.flags & NIGH_DONE_RELEASED, 0);
        if (!done.status)
            data_check(done.data, bytes, done.data == room ? 0 : 1, 0);
    }
    if (rx) {
        done = pair_await(rx, NIGH_OP_RECV, 9);
        CHECK_INT(done.status, -ECANCELED);
        CHECK_INT(done.flags & NIGH_DONE_RELEASED, NIGH_DONE_RELEASED);
        memset(room, CANARY, 2 * bytes);
    }
    for (uint32_t i = 0; tx && i < 2; i++)
        pair_sent(tx, i, bytes);
    pair_meet();
    next_one(tx, rx);
    if (rx)
        check_canary(room, 2 * bytes);
}

/* ---- remote memory --------------------------------------------------------------------------------------- */

/* A region of the second side's, in the heap or not. */
static void show(struct pair *pair, struct pair_end *rx, struct nigh_region **region)
{
    struct nigh_register memory = {.size = sizeof(memory), .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE};
    void *base = NULL;
    uint64_t key;

    if (is(pair, HEAP))
        CHECK_INT(nigh->heap_alloc(rx->context, bytes_of(pair), &base), 0);
    else
        base = data_room(bytes_of(pair));
    data_fill(base, bytes_of(pair), 1);
    memory.buffer = base;
    memory.bytes = bytes_of(pair);
    CHECK_INT(nigh->register_memory(rx->context, &memory, &key, region), 0);
    pair->shared[1] = key;
}

/* When what was cancelled has been sent. */
static void hide(struct pair_end *rx, struct nigh_region *region)
{
    int rc = -EBUSY;

    while (rx && (rc = nigh->deregister(rx->context, region)) == -EBUSY)
        pair_pump();
    if (rx)
        CHECK_INT(rc, 0);
}

static void gets(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *room = tx ? data_room(bytes_of(pair)) : NULL;
    struct nigh_region *region = NULL;
    unsigned cancelled = 0;

    if (rx)
        show(pair, rx, &region);
    pair_meet();
    for (uint64_t step = 0; tx && step < STEPS; step++) {
        struct nigh_rma get = {.size = sizeof(get),
                               .buffer = room,
                               .bytes = bytes_of(pair),
                               .key = pair->shared[1],
                               .context = 1};
        struct nigh_completion done;

        memset(room, 0, bytes_of(pair));
        CHECK_INT(nigh->post_get(tx->peer, &get), 0);
        for (uint64_t i = 0; i < step; i++)
            pair_pump();
        if (nigh->cancel(tx->context, 1) == 0)
            CHECK_INT(nigh->cancel(tx->context, 1), -ENOENT);
        done = pair_await(tx, NIGH_OP_GET, 1);
        if (!is_cancelled(&done)) {
            data_check(room, bytes_of(pair), 1, 0);
            break;
        }
        cancelled++;
        memset(room, CANARY, bytes_of(pair));
        pair_pump_ms(0);
        check_canary(room, bytes_of(pair));
    }
    CHECK(!tx || cancelled > 0);
    pair_meet();
    hide(rx, region);
}

/* The result of one that was cancelled is not written, and the next one's is. */
static void atomics(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t one = 1, result[2] = {CANARY, 0};
    struct nigh_region *region = NULL;

    if (rx)
        show(pair, rx, &region);
    pair_meet();
    for (uint64_t i = 0; tx && i < 2; i++) {
        struct nigh_atomic add = {.size = sizeof(add),
                                  .op = NIGH_SUM,
                                  .type = NIGH_U64,
                                  .count = 1,
                                  .operand = &one,
                                  .result = &result[i],
                                  .key = pair->shared[1],
                                  .context = i};

        CHECK_INT(nigh->post_atomic(tx->peer, &add), 0);
    }
    if (tx) {
        CHECK_INT(nigh->cancel(tx->context, 0), 0);
        CHECK_INT(pair_await(tx, NIGH_OP_ATOMIC, 0).status, -ECANCELED);
        CHECK_INT(pair_await(tx, NIGH_OP_ATOMIC, 1).status, 0);
        CHECK_INT(result[0], CANARY);
        CHECK(result[1] != 0);
    }
    pair_meet();
    hide(rx, region);
}

/* ---- who ends meanwhile ------------------------------------------------------------------------------------ */

/* What was dropped goes with its endpoint, whichever side ends it. number: the side. */
static void ends(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = UINT64_C(4) << 20;
    uint8_t *room = data_room(bytes);

    pair_send(tx, data_filled(bytes, 1), bytes, TAG, 0, 1);
    pair_unexpected(rx, 1);
    pair_recv(rx, room, bytes, TAG, 1);
    CHECK_INT(nigh->cancel(rx->context, 1), 0);
    CHECK_INT(pair_await(rx, NIGH_OP_RECV, 1).bytes, bytes);
    memset(room, CANARY, bytes);
    if (bytes_of(pair)) {
        pair_disconnect(rx);
        CHECK_INT(pair_await(tx, NIGH_OP_SEND, 1).status, -ECONNRESET);
    } else {
        pair_disconnect(tx);
        CHECK_INT(pair_await(tx, NIGH_OP_SEND, 1).status, -ECANCELED);
        pair_state(rx, NIGH_PEER_CLOSED);
    }
    pair_pump_ms(0);
    check_canary(room, bytes);
}

#define STEPWISE(title, kind, bytes, p)                                                          \
    {                                                                                            \
        .name = title, .play = each_step, .number = WITH(kind, bytes), .options = {.path = (p) } \
    }

static const struct pair_case cases[] = {
    STEPWISE("inline", AT_ONCE, 24, NULL),
    STEPWISE("a body", AT_ONCE, 700, NULL),
    STEPWISE("a shuttle", AT_ONCE, 200000, NULL),
    STEPWISE("chosen", AT_ONCE, 2 << 20, NULL),
    STEPWISE("chosen, late", LATE | AT_ONCE, 2 << 20, NULL),
    STEPWISE("eager", 0, 2 << 20, "eager"),
    STEPWISE("chunked", 0, 2 << 20, "chunked"),
    STEPWISE("chunked, late", LATE | SYNC, 2 << 20, "chunked"),
    STEPWISE("chunked, claimed", CLAIM, 2 << 20, "chunked"),
    STEPWISE("chunked, in place", IN_PLACE, 2 << 20, "chunked"),
    STEPWISE("heap", HEAP, 2 << 20, "heap"),
    STEPWISE("heap, claimed", HEAP | CLAIM, 2 << 20, "heap"),
    STEPWISE("heap, in place", HEAP | IN_PLACE | LATE, 2 << 20, "heap"),
    STEPWISE("lent", LENT, 2 << 20, NULL),
    STEPWISE("lent, claimed", LENT | CLAIM, 2 << 20, NULL),
    STEPWISE("cma", AT_ONCE, 2 << 20, "cma"),
    STEPWISE("cma, late", AT_ONCE | LATE | SYNC, 2 << 20, "cma"),
    {.name = "unmatched", .play = unmatched, .number = 2 << 20},
    {.name = "multi, cancelled once", .play = multi, .number = 1, .options = {.path = "chunked"}},
    {.name = "multi, cancelled twice", .play = multi, .number = 2, .options = {.path = "chunked"}},
    {.name = "gets in pieces", .play = gets, .number = WITH(0, 2 << 20)},
    {.name = "gets of the heap", .play = gets, .number = WITH(HEAP, 2 << 20)},
    {.name = "atomics", .play = atomics, .number = 8},
    {.name = "the sender ends", .play = ends, .number = 0, .forms = PAIR_TWO, .options = {.path = "chunked"}},
    {.name = "the receiver ends",
     .play = ends,
     .number = 1,
     .forms = PAIR_TWO,
     .options = {.path = "chunked"}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
