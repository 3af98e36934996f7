/* SPDX-License-Identifier: BSD-3-Clause */
/* Probe and claim: what is told of a message, who gets it, and what becomes of a claimed one. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

#include <string.h>

static const struct nigh_ops *nigh;

static int look(struct pair_end *rx, uint64_t tag, uint64_t ignore, struct nigh_completion *found,
                struct nigh_message **out)
{
    return nigh->probe(rx->context, rx->peer, tag, ignore, 0, found, out);
}

static struct nigh_message *claimed(struct pair_end *rx, uint64_t tag, uint64_t bytes)
{
    struct nigh_message *message = NULL;
    struct nigh_completion found;

    CHECK_INT(look(rx, tag, 0, &found, &message), 0);
    CHECK_INT(found.bytes, bytes);
    CHECK_INT(found.tag, tag);
    CHECK_INT(found.imm, ~tag);
    CHECK_INT(found.source, 0);
    CHECK(found.endpoint == rx->peer);
    CHECK(message != NULL);
    return message;
}

static void receive_claimed(struct pair_end *rx, struct nigh_message *message, uint8_t *to, uint64_t bytes,
                            uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(to, bytes, 12345, context); /* a tag that is not looked at */

    recv.tclass = 3;
    CHECK_INT(nigh->claim(rx->context, message, &recv), 0);
}

static void nothing_there(struct pair *pair)
{
    struct nigh_message *message = (struct nigh_message *)(void *)pair;
    struct nigh_completion found = {.bytes = 77};

    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];

        if (!end)
            continue;
        CHECK_INT(look(end, 0, UINT64_MAX, &found, NULL), -ENOMSG);
        CHECK_INT(look(end, 0, UINT64_MAX, &found, &message), -ENOMSG);
        CHECK_INT(nigh->probe(end->context, NULL, 0, 0, 7, &found, NULL), -ENOMSG);
        CHECK_INT(nigh->probe(end->context, NULL, 0, 0, 8, &found, NULL), -EINVAL);
        CHECK_INT(nigh->probe(end->context, NULL, 0, 0, 0, NULL, NULL), -EINVAL);
    }
    CHECK_INT(found.bytes, 77);
    CHECK(message == (struct nigh_message *)(void *)pair);
}

/* Looked at twice, and still there; claimed, and there for nobody else. */
static void look_and_claim(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    struct nigh_completion found;
    struct nigh_message *message, *none = NULL;
    uint8_t *to;

    if (tx)
        pair_send(tx, data_filled(bytes, 1), bytes, 5, 0, 1);
    if (rx) {
        pair_unexpected(rx, 1);
        for (uint32_t i = 0; i < 3; i++) {
            CHECK_INT(look(rx, 5, 0, &found, NULL), 0);
            CHECK_INT(found.bytes, bytes);
        }
        CHECK_INT(look(rx, 6, 0, &found, NULL), -ENOMSG);
        CHECK_INT(look(rx, 6, 3, &found, NULL), 0);
        message = claimed(rx, 5, bytes);
        CHECK_INT(look(rx, 5, 0, &found, NULL), -ENOMSG);
        CHECK_INT(look(rx, 5, 0, &found, &none), -ENOMSG);
        CHECK_INT(pair_facts(rx).unexpected, 0);
        to = data_room(bytes);
        receive_claimed(rx, message, to, bytes, 9);
        pair_received(rx, 9, bytes);
        data_check(to, bytes, 1, 0);
    }
    if (tx)
        pair_sent(tx, 1, bytes);
}

/* A posted receive passes a claimed message by and takes the one behind it. */
static void passed_by(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    struct nigh_message *message;
    uint8_t *first, *second;

    for (uint32_t i = 0; tx && i < 2; i++)
        pair_send(tx, data_filled(bytes, i), bytes, 5, 0, i);
    if (rx) {
        pair_unexpected(rx, 2);
        first = data_room(bytes);
        second = data_room(bytes);
        message = claimed(rx, 5, bytes);
        pair_recv(rx, second, bytes, 5, 2);
        pair_received(rx, 2, bytes);
        receive_claimed(rx, message, first, bytes, 1);
        pair_received(rx, 1, bytes);
        data_check(first, bytes, 0, 0);
        data_check(second, bytes, 1, 0);
    }
    for (uint32_t i = 0; tx && i < 2; i++)
        pair_sent(tx, i, bytes);
}

/* Claimed as soon as its first slot is there; the rest comes before, during and after the claim. */
static void still_arriving(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 6 << 20;
    struct nigh_message *message;
    struct nigh_completion found;
    uint8_t *to;

    if (tx)
        pair_send(tx, data_filled(bytes, 1), bytes, 5, 0, 1);
    if (rx) {
        while (look(rx, 5, 0, &found, NULL) == -ENOMSG)
            pair_pump();
        message = claimed(rx, 5, bytes);
        for (uint64_t i = 0; i < pair->of->number; i++)
            pair_pump();
        to = data_room(bytes);
        receive_claimed(rx, message, to, bytes, 9);
        pair_received(rx, 9, bytes);
        data_check(to, bytes, 1, 0);
    }
    if (tx)
        pair_sent(tx, 1, bytes);
}

/* What claim refuses leaves the message claimed; what was claimed once cannot be claimed again. */
static void refused(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_message *message;
    struct nigh_recv recv;
    uint64_t got = 0, value = 99;

    if (tx)
        pair_send(tx, &value, 8, 5, NIGH_INJECT, 1);
    if (rx) {
        pair_unexpected(rx, 1);
        message = claimed(rx, 5, 8);
        recv = pair_a_recv(&got, 8, 0, 9);
        recv.flags = NIGH_MULTI;
        recv.min_free = 1;
        CHECK_INT(nigh->claim(rx->context, message, &recv), -EINVAL);
        recv.flags = 0;
        recv.size--;
        CHECK_INT(nigh->claim(rx->context, message, &recv), -EINVAL);
        recv.size++;
        recv.buffer = NULL;
        CHECK_INT(nigh->claim(rx->context, message, &recv), -EFAULT);
        recv.buffer = &got;
        CHECK_INT(nigh->claim(rx->context, NULL, &recv), -EINVAL);
        CHECK_INT(nigh->claim(rx->context, message, &recv), 0);
        CHECK_INT(nigh->claim(rx->context, message, &recv), -EINVAL);
        pair_received(rx, 9, 8);
        CHECK_INT(got, 99);
    }
    if (tx)
        pair_sent(tx, 1, 8);
}

/* Claimed in place: the data pointer is the message. number: bytes. */
static void in_place(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    struct nigh_completion done;
    struct nigh_recv recv;

    if (tx)
        pair_send(tx, data_filled(bytes, 1), bytes, 5, 0, 1);
    if (rx) {
        pair_unexpected(rx, 1);
        recv = pair_a_recv(NULL, bytes, 0, 9);
        recv.flags = NIGH_IN_PLACE;
        CHECK_INT(nigh->claim(rx->context, claimed(rx, 5, bytes), &recv), 0);
        done = pair_received(rx, 9, bytes);
        CHECK_INT(done.flags, NIGH_DONE_LENT);
        data_check(done.data, bytes, 1, 0);
        CHECK_INT(nigh->release(rx->context, done.data), 0);
    }
    if (tx)
        pair_sent(tx, 1, bytes);
}

/* Many are claimed and received in another order. */
static void any_order(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_message *messages[40];
    uint8_t *to[40];

    for (uint32_t i = 0; tx && i < 40; i++)
        pair_send(tx, data_filled(500 * i, i), 500 * i, i, 0, i);
    for (uint32_t i = 0; rx && i < 40; i++) {
        struct nigh_completion found;

        while (look(rx, i, 0, &found, NULL) == -ENOMSG)
            pair_pump();
        messages[i] = claimed(rx, i, 500 * i);
    }
    for (uint32_t n = 0; rx && n < 40; n++) {
        uint32_t i = n * 17 % 40;

        to[i] = data_room(500 * i);
        receive_claimed(rx, messages[i], to[i], 500 * i, 100 + i);
    }
    for (uint32_t i = 0; rx && i < 40; i++) {
        pair_received(rx, 100 + i, 500 * i);
        data_check(to[i], 500 * i, i, 0);
    }
    for (uint32_t i = 0; tx && i < 40; i++)
        pair_sent(tx, i, 500 * i);
}

/* The context is closed with messages claimed and never received. */
static void left_claimed(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static const uint64_t sizes[] = {8, 3000, 300000, 8 << 20};
    struct nigh_completion found;

    for (uint32_t i = 0; tx && i < 4; i++)
        pair_send(tx, data_filled(sizes[i], i), sizes[i], i, 0, i);
    for (uint32_t i = 0; rx && i < 4; i++) {
        while (look(rx, i, 0, &found, NULL) == -ENOMSG)
            pair_pump();
        claimed(rx, i, sizes[i]);
    }
    pair_meet();
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
}

/* Its peer is disconnected; a whole message can still be received. One that lay with the sender cannot: the sender was
 * told that it was not received and has its memory back, so what lies there now may be anything. */
static void after_disconnect(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    struct nigh_message *message = NULL;
    struct nigh_completion found, done;
    uint8_t *to;
    void *heap;

    if (tx) {
        CHECK_INT(nigh->heap_alloc(tx->context, bytes, &heap), 0);
        data_fill(heap, bytes, 1);
        pair_send(tx, heap, bytes, 5, 0, 1);
    }
    if (rx) {
        while (look(rx, 5, 0, &found, NULL) == -ENOMSG)
            pair_pump();
        message = claimed(rx, 5, bytes);
        pair_disconnect(rx);
    }
    if (tx && bytes > 1024)
        CHECK_INT(pair_await(tx, NIGH_OP_SEND, 1).status, pair->form == PAIR_SELF ? -ECANCELED : -ECONNRESET);
    else if (tx)
        CHECK_INT(pair_await(tx, NIGH_OP_SEND, 1).status, 0);
    pair_meet();
    if (tx)
        pair_disconnect(tx);
    pair_meet();
    pair_pump_ms(5);
    if (rx) {
        to = data_room(bytes);
        receive_claimed(rx, message, to, bytes, 9);
        done = pair_await(rx, NIGH_OP_RECV, 9);
        CHECK(done.endpoint == NULL);
        CHECK_INT(done.status, bytes > 1024 ? -ECONNRESET : 0);
        if (!done.status)
            data_check(to, bytes, 1, 0);
    }
    pair_meet();
}

/* A message that was waited for: the passes behind it may leave others in the ring. */
static void something_comes(struct pair *pair)
{
    uint8_t to[8];

    pair_recv(pair->end[1], to, 8, 1, 1);
    pair_send(pair->end[0], data_filled(8, 1), 8, 1, 0, 2);
    pair_received(pair->end[1], 1, 8);
    pair_sent(pair->end[0], 2, 8);
}

/* What comes unexpected stays in its ring for a moment: then its receive finds it there, a probe finds it at once, and
 * what waits behind it does not wait for it. */
static void left_in_the_ring(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion found;
    uint32_t tries = 0;
    uint64_t before;
    uint8_t to[8];

    /* Now and then a pass looks at everything for a reason of its own, and keeps what it finds. */
    do {
        CHECK(tries++ < 1000);
        something_comes(pair);
        before = pair_stats(rx).unexpected;
        pair_send(tx, data_filled(8, 2), 8, 5, 0, 3);
        pair_pump();
        pair_recv(rx, to, 8, 5, 4);
        pair_received(rx, 4, 8);
        pair_sent(tx, 3, 8);
        CHECK(memcmp(to, data_filled(8, 2), 8) == 0);
    } while (pair_stats(rx).unexpected != before);

    something_comes(pair);
    pair_send(tx, data_filled(8, 3), 8, 6, 0, 5);
    CHECK_INT(look(rx, 6, 0, &found, NULL), 0);

    something_comes(pair);
    pair_send(tx, data_filled(8, 4), 8, 7, 0, 6);
    pair_send(tx, data_filled(8, 5), 8, 8, 0, 7);
    pair_recv(rx, to, 8, 8, 8);
    /* Where both share a CPU the first pass only finds what is in the way. */
    for (unsigned i = 0; i < 2; i++)
        pair_pump();
    CHECK(pair_take(rx, NIGH_OP_RECV, 8, &found));

    pair_recv(rx, to, 8, 6, 9);
    pair_recv(rx, to, 8, 7, 10);
    pair_received(rx, 9, 8);
    pair_received(rx, 10, 8);
    /* Without end it does not stay. */
    something_comes(pair);
    pair_send(tx, data_filled(8, 6), 8, 9, 0, 11);
    pair_unexpected(rx, 1);
    pair_recv(rx, to, 8, 9, 12);
    pair_received(rx, 12, 8);
    for (uint64_t context = 5; context <= 7; context++)
        pair_sent(tx, context, 8);
    pair_sent(tx, 11, 8);
}

static const struct pair_case cases[] = {
    {.name = "nothing there", .play = nothing_there},
    {.name = "look and claim, 0 bytes", .play = look_and_claim, .number = 0},
    {.name = "look and claim, 8 bytes", .play = look_and_claim, .number = 8},
    {.name = "look and claim, 700 bytes", .play = look_and_claim, .number = 700},
    {.name = "look and claim, 65536 bytes", .play = look_and_claim, .number = 65536},
    {.name = "look and claim, 1000000 bytes", .play = look_and_claim, .number = 1000000},
    {.name = "passed by, 8 bytes", .play = passed_by, .number = 8},
    {.name = "passed by, 4000 bytes", .play = passed_by, .number = 4000},
    {.name = "passed by, 200000 bytes", .play = passed_by, .number = 200000},
    {.name = "still arriving", .play = still_arriving},
    {.name = "still arriving, eager",
     .play = still_arriving,
     .number = 3,
     .options = {.eager_bytes = 16 << 20}},
    {.name = "arrived by then", .play = still_arriving, .number = 200, .options = {.eager_bytes = 16 << 20}},
    {.name = "refused", .play = refused},
    {.name = "in place, 8 bytes", .play = in_place, .number = 8},
    {.name = "in place, 100000 bytes", .play = in_place, .number = 100000},
    {.name = "any order", .play = any_order},
    {.name = "left claimed", .play = left_claimed, .how = PAIR_LOOSE},
    {.name = "after disconnect, 1000 bytes", .play = after_disconnect, .forms = PAIR_APART, .number = 1000},
    {.name = "after disconnect, 4 MiB of heap",
     .play = after_disconnect,
     .forms = PAIR_APART,
     .number = 4 << 20},
    {.name = "left in the ring", .play = left_in_the_ring, .forms = PAIR_TWO},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
