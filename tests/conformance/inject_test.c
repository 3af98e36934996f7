/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and receives that come in registers: they are the same as those of post_send and post_recv, and what is
 * refused is given back with all that it was. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <stdlib.h>
#include <string.h>

static const struct nigh_ops *nigh;

/* What refused() was called with, and what it answers; sides may be threads. */
static __thread struct {
    struct nigh_endpoint *endpoint;
    const void *buffer;
    uint64_t shape, tag, context;
    int error, calls, answer;
} refusal;

static int refused(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                   uint64_t context, int error)
{
    refusal.endpoint = endpoint;
    refusal.buffer = buffer;
    refusal.shape = shape;
    refusal.tag = tag;
    refusal.context = context;
    refusal.error = error;
    refusal.calls++;
    return refusal.answer;
}

static int unwanted(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                    uint64_t context, int error)
{
    (void)endpoint;
    (void)buffer;
    (void)tag;
    pair_fail(__FILE__, __LINE__, "context %llu of shape %#llx refused: %d", (unsigned long long)context,
              (unsigned long long)shape, error);
}

static void inject(struct pair_end *tx, const void *from, uint64_t bytes, uint32_t tclass, uint64_t tag)
{
    CHECK_INT(nigh->inject(tx->peer, from, NIGH_SHAPE(bytes, tclass), tag, 77, unwanted), 0);
}

static void expect(struct pair_end *rx, void *to, uint64_t bytes, uint32_t tclass, uint64_t tag,
                   uint64_t context)
{
    CHECK_INT(nigh->expect(rx->peer, to, NIGH_SHAPE(bytes, tclass), tag, context, unwanted), 0);
}

static void inject_imm(struct pair_end *tx, const void *from, uint64_t bytes, uint32_t tclass, uint64_t tag,
                       uint64_t imm)
{
    CHECK_INT(nigh->inject_imm(tx->peer, from, NIGH_SHAPE(bytes, tclass), tag, imm), 0);
}

static void send_imm(struct pair_end *tx, const void *from, uint64_t bytes, uint32_t tclass, uint64_t tag,
                     uint64_t imm, uint64_t context)
{
    CHECK_INT(nigh->send_imm(tx->peer, from, NIGH_SHAPE(bytes, tclass), tag, imm, context), 0);
}

/* Bits that it ignores are not those of the message. */
static void recv_imm(struct pair_end *rx, void *to, uint64_t bytes, uint32_t tclass, uint64_t tag,
                     uint64_t ignore, uint64_t context)
{
    CHECK_INT(nigh->recv_imm(rx->peer, to, NIGH_SHAPE(bytes, tclass), tag ^ ignore, ignore, context), 0);
}

/* ---- messages ------------------------------------------------------------------------------------------------- */

/* What a case's number says. */
enum { LATE = 1, WITH_IMM = 2, TOLD = 4, MASKED = 8 };

static void receive(struct pair *pair, uint8_t *to, uint64_t bytes, uint32_t tclass, uint64_t tag,
                    uint64_t context)
{
    static const uint64_t ignored[] = {0, UINT64_C(0xff00000000ff), NIGH_IGNORE_ALL};

    if (pair->of->number & MASKED)
        recv_imm(pair->end[1], to, bytes, tclass, tag, ignored[context % 3], context);
    else
        expect(pair->end[1], to, bytes, tclass, tag, context);
}

static void one(struct pair *pair, uint64_t bytes, uint32_t tclass, uint64_t tag)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *from = data_filled(bytes + 1, bytes), *to = data_room(bytes + 1);
    bool late = pair->of->number & LATE, with_imm = pair->of->number & WITH_IMM,
         told = pair->of->number & TOLD;
    uint64_t imm = with_imm ? ~bytes * UINT64_C(0x100000001) : 0;
    struct nigh_completion done;

    if (rx && !late)
        receive(pair, to, bytes + 1, tclass, tag, bytes);
    if (tx && told)
        send_imm(tx, bytes || late ? from : NULL, bytes, tclass, tag, imm, 10000 + bytes);
    else if (tx && with_imm)
        inject_imm(tx, bytes || late ? from : NULL, bytes, tclass, tag, imm);
    else if (tx)
        inject(tx, bytes || late ? from : NULL, bytes, tclass, tag);
    if (rx && late) {
        pair_unexpected(rx, 1);
        receive(pair, to, bytes + 1, tclass, tag, bytes);
    }
    if (tx && told) {
        done = pair_await(tx, NIGH_OP_SEND, 10000 + bytes);
        CHECK(!done.status && done.bytes == bytes && done.endpoint == tx->peer && !done.data);
        CHECK_INT(NIGH_DONE_CLASS(done.flags), tclass);
    }
    if (!rx)
        return;
    done = pair_received(rx, bytes, bytes);
    CHECK(done.tag == tag && done.imm == imm);
    CHECK_INT(NIGH_DONE_CLASS(done.flags), tclass);
    CHECK(done.endpoint == rx->peer);
    data_check(to, bytes, bytes, 0);
    data_check_rest(to, bytes, bytes + 1);
}

/* Every size there is; what is sent at once may be changed at once. */
static void sizes(struct pair *pair)
{
    for (uint64_t bytes = 0; bytes <= NIGH_INJECT_BYTES; bytes += bytes < 140 ? 1 : 13)
        one(pair, bytes, (uint32_t)bytes % NIGH_TCLASSES, bytes % 3 ? UINT64_MAX - bytes : bytes);
    one(pair, NIGH_INJECT_BYTES, 0, 0);
    for (uint64_t bytes = 5000; pair->of->number & TOLD && bytes < 2000000; bytes *= 19)
        one(pair, bytes, 1, bytes); /* sends need not be short */
    pair_meet();
    for (unsigned side = 0; side < 2; side++)
        if (pair->end[side])
            CHECK_INT(pair_left(pair->end[side]), 0); /* sends complete silently, or were told of once */
}

/* More than are told of in half a line each, and more than fit the ring, with nobody polling: each is told of once. */
static void untold(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    enum { COUNT = 3000 };
    static uint64_t to[COUNT];
    static bool told[COUNT];

    pair_state(tx, NIGH_READY);
    for (uint64_t i = 0; i < COUNT; i++) {
        expect(rx, &to[i], 8, 0, 1, COUNT + i);
        told[i] = false;
    }
    for (uint64_t i = 0; i < COUNT; i++)
        if (i % 10 == 3)
            pair_send(tx, &i, 8, 1, NIGH_INJECT, i);
        else if (i % 10 == 4)
            inject(tx, &i, 8, 0, 1);
        else if (i < 64) /* the buffer of what is queued must stay */
            send_imm(tx, &i, 8, 0, 1, 0, i);
        else
            send_imm(tx, memcpy(data_room(8), &i, 8), 8, 0, 1, 0, i);
    for (uint64_t i = 0; i < COUNT; i++) {
        pair_received(rx, COUNT + i, 8);
        CHECK_INT(to[i], i);
    }
    for (uint64_t i = 0; i < COUNT - COUNT / 10; i++) {
        struct nigh_completion done = pair_next(tx, NIGH_OP_SEND);
        bool silent = done.context % 10 == 4;

        CHECK(done.context < COUNT && !silent && !done.status && !told[done.context]);
        told[done.context] = true;
    }
    CHECK_INT(pair_left(tx), 0);
}

/* In turn with those of the other slots, and receives with a mask and from anyone, all in order. */
static void in_turn(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    enum { COUNT = 2000 };
    static uint64_t to[COUNT];

    for (uint64_t i = 0; rx && i < COUNT; i++) {
        struct nigh_recv recv = pair_a_recv(&to[i], 8, 5, i);

        recv.ignore = i % 5 == 0 ? 0xff : 0;
        if (i % 3 == 1)
            expect(rx, &to[i], 8, 0, 5, i);
        else if (i % 3)
            recv_imm(rx, &to[i], 8, 0, 5, i % 2 ? 0xff : 0, i);
        else
            CHECK_INT(nigh->post_recv(rx->context, i % 2 ? NULL : rx->peer, &recv), 0);
    }
    pair_meet();
    for (uint64_t i = 0; tx && i < COUNT; i++) {
        uint64_t value = i * i;

        if (i % 8 == 1)
            inject_imm(tx, &value, 8, 0, 5, i);
        else if (i % 8 == 2) {
            uint64_t *lasting = memcpy(data_room(8), &value, 8);

            send_imm(tx, lasting, 8, 0, 5, i, i);
        } else if (i % 4)
            inject(tx, &value, 8, 0, 5);
        else
            pair_send(tx, &value, 8, 5, NIGH_INJECT | NIGH_SILENT, 0);
    }
    for (uint64_t i = 0; rx && i < COUNT; i++) {
        pair_received(rx, i, 8);
        CHECK_INT(to[i], i * i);
    }
    for (uint64_t i = 2; tx && i < COUNT; i += 8)
        pair_await(tx, NIGH_OP_SEND, i);
    pair_meet();
}

static void truncated(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *from = data_filled(40, 3), *to = data_room(16);
    struct nigh_completion done;

    if (rx)
        receive(pair, to, 16, 2, 9, 4);
    if (tx)
        inject(tx, from, 40, 2, 9);
    if (!rx)
        return;
    done = pair_await(rx, NIGH_OP_RECV, 4);
    CHECK_INT(done.status, -EMSGSIZE);
    CHECK_INT(done.bytes, 40);
    data_check(to, 16, 3, 0);
}

static void canceled(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t to;

    expect(end, &to, 8, 0, 1, 10);
    CHECK_INT(nigh->cancel(end->context, 10), 0);
    CHECK_INT(pair_await(end, NIGH_OP_RECV, 10).status, -ECANCELED);
    recv_imm(end, &to, 8, 0, 1, 1, 11);
    CHECK_INT(nigh->cancel(end->context, 11), 0);
    CHECK_INT(pair_await(end, NIGH_OP_RECV, 11).status, -ECANCELED);
}

/* Counted like any other, whenever somebody asks. */
static void counted(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t sent = pair_stats(tx).sent, bytes = pair_stats(tx).sent_bytes, value = 1;

    for (uint32_t i = 1; i <= 300; i++) {
        expect(rx, &value, 8, 0, 1, i);
        inject(tx, &i, 4, 0, 1);
        if (i % 7 == 0)
            pair_send(tx, data_filled(100, i), 100, 2, NIGH_INJECT | NIGH_SILENT, 0);
        CHECK_INT(pair_stats(tx).sent, sent + i + i / 7);
        CHECK_INT(pair_stats(tx).sent_bytes, bytes + 4 * i + 100 * (i / 7));
        pair_received(rx, i, 4);
    }
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void check_refusal(const struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, int error)
{
    CHECK_INT(refusal.calls, 1);
    CHECK(refusal.endpoint == endpoint && refusal.buffer == buffer && refusal.shape == shape);
    CHECK(refusal.tag == 11 && refusal.context == 12);
    CHECK_INT(refusal.error, error);
    refusal.calls = 0;
}

/* Either way: with somebody to tell and without. */
static void check_inject(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, int error)
{
    CHECK_INT(nigh->inject(endpoint, buffer, shape, 11, 12, refused), refusal.answer);
    check_refusal(endpoint, buffer, shape, error);
    CHECK_INT(nigh->inject(endpoint, buffer, shape, 11, 12, NULL), error);
    CHECK_INT(nigh->inject_imm(endpoint, buffer, shape, 11, 12), error);
    if (error != -EMSGSIZE) /* which is no limit of sends */
        CHECK_INT(nigh->send_imm(endpoint, buffer, shape, 11, 12, 13), error);
}

static void check_expect(struct nigh_endpoint *endpoint, void *buffer, uint64_t shape, int error)
{
    CHECK_INT(nigh->expect(endpoint, buffer, shape, 11, 12, refused), refusal.answer);
    check_refusal(endpoint, buffer, shape, error);
    CHECK_INT(nigh->expect(endpoint, buffer, shape, 11, 12, NULL), error);
    CHECK_INT(nigh->recv_imm(endpoint, buffer, shape, 11, 0, 12), error);
    CHECK_INT(nigh->recv_imm(endpoint, buffer, shape, 11, 0xff, 12), error);
}

static void arguments(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    char data[2000] = "";

    pair_state(end, NIGH_READY);
    refusal.answer = 4711;
    check_inject(NULL, data, NIGH_SHAPE(8, 0), -EINVAL);
    check_inject(end->peer, data, NIGH_SHAPE(8, NIGH_TCLASSES), -EINVAL);
    check_inject(end->peer, data, NIGH_SHAPE(8, UINT32_MAX), -EINVAL);
    check_inject(end->peer, NULL, NIGH_SHAPE(8, 0), -EFAULT);
    check_inject(end->peer, data, NIGH_SHAPE(NIGH_INJECT_BYTES + 1, 0), -EMSGSIZE);
    check_inject(end->peer, data, NIGH_SHAPE(UINT32_MAX, 0), -EMSGSIZE);
    check_expect(NULL, data, NIGH_SHAPE(8, 0), -EINVAL);
    check_expect(end->peer, data, NIGH_SHAPE(8, NIGH_TCLASSES), -EINVAL);
    check_expect(end->peer, data, NIGH_SHAPE(8, UINT32_MAX), -EINVAL);
    check_expect(end->peer, NULL, NIGH_SHAPE(8, 0), -EFAULT);
    refusal.answer = 0;
    CHECK_INT(nigh->inject(end->peer, NULL, NIGH_SHAPE(8, 0), 11, 12, refused), 0);
    check_refusal(end->peer, NULL, NIGH_SHAPE(8, 0), -EFAULT);
    CHECK_INT(nigh->cancel(end->context, 12), -ENOENT);
}

/* It may call any slot. */
static int refused_and_again(struct nigh_endpoint *endpoint, const void *buffer, uint64_t shape, uint64_t tag,
                             uint64_t context, int error)
{
    CHECK_INT(error, -EINVAL);
    return nigh->inject(endpoint, buffer, NIGH_SHAPE(NIGH_SHAPE_BYTES(shape), 1), tag, context, unwanted);
}

static void again(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t value = 99, to = 0;

    if (tx)
        CHECK_INT(nigh->inject(tx->peer, &value, NIGH_SHAPE(8, 100), 1, 2, refused_and_again), 0);
    if (!rx)
        return;
    expect(rx, &to, 8, 1, 1, 3);
    pair_received(rx, 3, 8);
    CHECK_INT(to, 99);
}

/* A peer that does not read: what does not fit is queued, and at last refused. Nothing is lost. */
static void full(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t to = 0, count = 0;
    int rc;

    pair_state(tx, NIGH_READY);
    while ((rc = nigh->inject(tx->peer, &count, NIGH_SHAPE(8, 0), 1, 2, NULL)) == 0 && count < 100000)
        count++;
    CHECK_INT(rc, -EAGAIN);
    CHECK(count >= 16384);
    for (uint64_t i = 0; i < count; i++) {
        expect(rx, &to, 8, 0, 1, 3);
        pair_received(rx, 3, 8);
        CHECK_INT(to, i);
    }
    inject(tx, &count, 8, 0, 1);
    expect(rx, &to, 8, 0, 1, 3);
    pair_received(rx, 3, 8);
    CHECK_INT(to, count);
}

/* number: 1 connecting, 2 the peer has closed. */
static void states(struct pair *pair)
{
    struct pair_end *end = pair->end[0], *peer = pair->end[1];
    uint64_t value = 5, to;

    refusal.answer = 1;
    if (pair->of->number == 1) {
        pair_open(end);
        pair_connect(end);
        inject(end, &value, 8, 0, 1);
        inject_imm(end, &value, 8, 0, 1, 3);
        send_imm(end, &value, 8, 0, 1, 3, 4);
        expect(end, &to, 8, 0, 1, 2);
        recv_imm(end, &to, 8, 0, 1, 1, 3);
        pair_disconnect(end);
        for (uint64_t i = 2; i < 4; i++)
            CHECK_INT(pair_await(end, NIGH_OP_RECV, i).status, -ECANCELED);
        /* Which is all that is heard of a message without a context. */
        for (unsigned i = 0; i < 2; i++)
            CHECK_INT(pair_await(end, NIGH_OP_SEND, 0).status, -ECANCELED);
        CHECK_INT(pair_await(end, NIGH_OP_SEND, 4).status, -ECANCELED);
        pair_close(end);
        return;
    }
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    pair_meet();
    if (peer)
        pair_close(peer);
    if (end) {
        pair_state(end, NIGH_PEER_CLOSED);
        check_inject(end->peer, &value, NIGH_SHAPE(8, 0), -ECONNRESET);
        check_expect(end->peer, &to, NIGH_SHAPE(8, 0), -ECONNRESET);
    }
    pair_meet();
}

static void has(struct pair *pair)
{
    (void)pair;
    CHECK(NIGH_HAS(nigh, inject) && NIGH_HAS(nigh, expect) && NIGH_HAS(nigh, inject_imm) &&
          NIGH_HAS(nigh, send_imm) && NIGH_HAS(nigh, recv_imm));
}

/* Longer than what the ring holds, where messages go straight out of the sender's memory: not these,
 * which the sender has again at once. */
static void used_again(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t own[500], *from = own, *to = data_room(sizeof(own));
    void *heap;

    setenv("NIGH_BODY", "40", 1);
    setenv("NIGH_HEAP_FROM", "100", 1);
    pair_open(tx);
    pair_open(rx);
    unsetenv("NIGH_BODY");
    unsetenv("NIGH_HEAP_FROM");
    pair_connect(tx);
    pair_connect(rx);
    pair_state(tx, NIGH_READY);
    pair_state(rx, NIGH_READY);
    CHECK_INT(nigh->heap_alloc(tx->context, sizeof(own), &heap), 0);
    for (uint32_t i = 0; i < 4; i++) {
        if (i == 2)
            from = heap;
        memcpy(from, data_filled(sizeof(own), i), sizeof(own));
        pair_send(tx, from, sizeof(own), i, NIGH_INJECT | (i % 2 ? NIGH_SYNC : 0), i);
        memset(from, 0xee, sizeof(own));
        pair_recv(rx, to, sizeof(own), i, i);
        pair_received(rx, i, sizeof(own));
        data_check(to, sizeof(own), i, 0);
        pair_sent(tx, i, sizeof(own));
    }
    CHECK_INT(pair_stats(tx).chunked_sent, 4);
    CHECK_INT(nigh->heap_free(tx->context, heap), 0);
    pair_disconnect(tx);
    pair_disconnect(rx);
    pair_close(tx);
    pair_close(rx);
}

static const struct pair_case cases[] = {
    {.name = "the table has them", .play = has, .forms = PAIR_SELF},
    {.name = "sizes, receives first", .play = sizes},
    {.name = "sizes, receives later", .play = sizes, .number = LATE},
    {.name = "sizes, with immediates", .play = sizes, .number = WITH_IMM},
    {.name = "sizes, with immediates, receives later", .play = sizes, .number = LATE | WITH_IMM},
    {.name = "sizes, told of", .play = sizes, .number = TOLD | WITH_IMM},
    {.name = "sizes, told of, receives later", .play = sizes, .number = TOLD | LATE},
    {.name = "sizes, told of, with threads",
     .play = sizes,
     .number = TOLD,
     .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "sizes, with masks", .play = sizes, .number = MASKED | WITH_IMM},
    {.name = "sizes, with masks, receives later", .play = sizes, .number = MASKED | LATE},
    {.name = "sizes, with masks, with threads",
     .play = sizes,
     .number = MASKED | LATE,
     .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "told of without a poll", .play = untold, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "sizes, with threads", .play = sizes, .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "in turn with the others", .play = in_turn},
    {.name = "truncated", .play = truncated},
    {.name = "truncated, with a mask", .play = truncated, .number = MASKED},
    {.name = "canceled", .play = canceled, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "counted", .play = counted, .forms = PAIR_SELF | PAIR_TWO, .how = PAIR_LOOSE},
    {.name = "arguments", .play = arguments, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "arguments, with threads",
     .play = arguments,
     .forms = PAIR_SELF | PAIR_TWO,
     .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "refused and sent again", .play = again},
    {.name = "refused and sent again, with threads", .play = again, .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "full", .play = full, .forms = PAIR_TWO},
    {.name = "connecting", .play = states, .forms = PAIR_TWO, .how = PAIR_MANUAL, .number = 1},
    {.name = "the peer has closed", .play = states, .forms = PAIR_APART, .how = PAIR_LOOSE, .number = 2},
    {.name = "used again", .play = used_again, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "used again, not read in place",
     .play = used_again,
     .forms = PAIR_TWO,
     .how = PAIR_MANUAL,
     .options = {.path = "cma"}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
