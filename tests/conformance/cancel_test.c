/* SPDX-License-Identifier: BSD-3-Clause */
/* Taking back what was posted: receives of every kind, sends of which nothing has left, and what
 * cannot be taken back. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

static const struct nigh_ops *nigh;

static void cancelled(struct pair_end *end, enum nigh_op op, uint64_t context)
{
    struct nigh_completion done;

    CHECK_INT(nigh->cancel(end->context, context), 0);
    done = pair_await(end, op, context);
    CHECK_INT(done.status, -ECANCELED);
    CHECK_INT(nigh->cancel(end->context, context), -ENOENT);
}

/* Receives: exact, any source, any tag, masked, in place, multi. */
static void receives(struct pair *pair)
{
    struct pair_end *rx = pair->end[1];
    uint8_t *room = data_room(64);
    struct nigh_recv recv = pair_a_recv(room, 64, 1, 0);

    for (uint32_t i = 0; rx && i < 12; i++) {
        recv.context = i;
        recv.ignore = i % 3 == 0 ? 0 : i % 3 == 1 ? UINT64_MAX : 0xff;
        recv.flags = i % 5 == 3 ? NIGH_IN_PLACE : i % 5 == 4 ? NIGH_MULTI : 0;
        recv.min_free = 1;
        recv.tclass = i % 2;
        CHECK_INT(nigh->post_recv(rx->context, i % 2 ? rx->peer : NULL, &recv), 0);
    }
    for (uint32_t i = 0; rx && i < 12; i++) {
        CHECK_INT(pair_facts(rx).posted, 12 - i);
        cancelled(rx, NIGH_OP_RECV, i * 5 % 12);
    }
}

/* Of receives with one context the oldest goes first; a message finds the one that is left. */
static void oldest_first(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t to[3] = {0, 0, 0}, value = 5;

    for (uint32_t i = 0; rx && i < 3; i++)
        pair_recv(rx, &to[i], 8, 1, 9);
    if (rx) {
        CHECK_INT(nigh->cancel(rx->context, 9), 0);
        CHECK_INT(pair_await(rx, NIGH_OP_RECV, 9).status, -ECANCELED);
        CHECK_INT(nigh->cancel(rx->context, 9), 0);
        CHECK_INT(pair_await(rx, NIGH_OP_RECV, 9).status, -ECANCELED);
    }
    pair_meet();
    if (tx) {
        pair_send(tx, &value, 8, 1, 0, 1);
        pair_sent(tx, 1, 8);
    }
    if (rx) {
        pair_received(rx, 9, 8);
        CHECK(to[0] == 0 && to[1] == 0 && to[2] == 5);
        CHECK_INT(nigh->cancel(rx->context, 9), -ENOENT);
    }
}

/* Sends that wait because the peer has not come yet. */
static void queued_sends(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static const uint64_t sizes[] = {8, 500, 5000, 500000};
    uint8_t *to;

    if (tx) {
        pair_open(tx);
        pair_connect(tx);
        CHECK_INT(pair_state_now(tx), NIGH_CONNECTING);
        for (uint32_t i = 0; i < 16; i++)
            pair_send(tx, data_filled(sizes[i % 4], i), sizes[i % 4], i, i % 3 == 2 ? NIGH_SYNC : 0, i);
        CHECK_INT(pair_peer_facts(tx).queued, 16);
        for (uint32_t i = 0; i < 16; i += 2)
            cancelled(tx, NIGH_OP_SEND, i * 7 % 16);
        CHECK_INT(pair_peer_facts(tx).queued, 8);
    }
    pair_meet();
    if (rx) {
        pair_open(rx);
        pair_connect(rx);
    }
    for (uint32_t i = 1; rx && i < 16; i += 2) {
        to = data_room(sizes[i % 4]);
        pair_recv(rx, to, sizes[i % 4], i, i);
        pair_received(rx, i, sizes[i % 4]);
        data_check(to, sizes[i % 4], i, 0);
    }
    for (uint32_t i = 1; tx && i < 16; i += 2)
        pair_sent(tx, i, sizes[i % 4]);
    pair_meet();
}

/* A send that the peer knows of cannot be taken back. */
static void under_way(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = 1 << 20;
    uint8_t *to = rx ? data_room(bytes) : NULL;

    if (tx) {
        pair_send(tx, data_filled(bytes, 1), bytes, 1, 0, 1);
        pair_send(tx, NULL, 0, 2, NIGH_SYNC, 2);
    }
    if (rx)
        pair_unexpected(rx, 2);
    pair_meet();
    if (tx) {
        CHECK_INT(nigh->cancel(tx->context, 1), -ENOENT);
        CHECK_INT(nigh->cancel(tx->context, 2), -ENOENT);
        CHECK_INT(nigh->cancel(tx->context, 3), -ENOENT);
    }
    pair_meet();
    if (rx) {
        pair_recv(rx, to, bytes, 1, 1);
        pair_recv(rx, NULL, 0, 2, 2);
        pair_received(rx, 1, bytes);
        pair_received(rx, 2, 0);
        data_check(to, bytes, 1, 0);
    }
    if (tx) {
        pair_sent(tx, 1, bytes);
        pair_sent(tx, 2, 0);
    }
}

/* What can be posted on an endpoint, in the order of `ops`. */
enum post { SEND, PUT, GET, ATOMIC, LEND, POSTS };

static const enum nigh_op ops[] = {NIGH_OP_SEND, NIGH_OP_PUT, NIGH_OP_GET, NIGH_OP_ATOMIC, NIGH_OP_LEND};

static int post(struct pair_end *end, enum post what, void *heap)
{
    struct nigh_send send = pair_a_send(heap, 8, 1, 1);
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = heap, .bytes = 8, .key = 5, .context = 1};
    struct nigh_atomic atomic = {
        .size = sizeof(atomic), .op = NIGH_READ, .type = NIGH_U64, .count = 1, .key = 5, .context = 1};
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = heap, .bytes = 8, .tag = 1, .context = 1};

    switch (what) {
    case SEND:
        return nigh->post_send(end->peer, &send);
    case PUT:
        return nigh->post_put(end->peer, &rma);
    case GET:
        return nigh->post_get(end->peer, &rma);
    case ATOMIC:
        return nigh->post_atomic(end->peer, &atomic);
    default:
        return nigh->post_lend(end->peer, &lend);
    }
}

/* As many as one endpoint queues, of any kind, then -EAGAIN to each kind and nothing has changed; all are taken back
 * and there is room again. number: the kind that fills it. */
#define QUEUED 16384u

static void to_the_limit(struct pair *pair)
{
    struct pair_end *tx = pair->end[0];
    enum post what = (enum post)pair->of->number;
    uint32_t count = 0;
    void *heap, *other;

    if (!tx)
        return;
    pair_open(tx);
    pair_connect(tx);
    CHECK_INT(nigh->heap_alloc(tx->context, 64, &heap), 0);
    CHECK_INT(nigh->heap_alloc(tx->context, 64, &other), 0);
    while (count <= QUEUED && post(tx, what, heap) == 0)
        count++;
    CHECK_INT(count, QUEUED);
    for (uint32_t i = 0; i < POSTS; i++)
        CHECK_INT(post(tx, (enum post)i, other), -EAGAIN);
    CHECK_INT(pair_peer_facts(tx).queued, QUEUED);
    /* A lend that was refused holds nothing. */
    CHECK_INT(nigh->heap_free(tx->context, other), 0);
    CHECK_INT(nigh->heap_free(tx->context, heap), what == LEND ? -EBUSY : 0);
    for (uint32_t i = 0; i < count; i++)
        CHECK_INT(nigh->cancel(tx->context, 1), 0);
    CHECK_INT(nigh->cancel(tx->context, 1), -ENOENT);
    for (uint32_t i = 0; i < count; i++)
        CHECK_INT(pair_next(tx, ops[what]).status, -ECANCELED);
    CHECK_INT(pair_left(tx), 0);
    if (what == LEND)
        CHECK_INT(nigh->heap_free(tx->context, heap), 0);
    pair_send(tx, NULL, 0, 1, 0, 2);
    CHECK_INT(nigh->cancel(tx->context, 2), 0);
    CHECK_INT(pair_await(tx, NIGH_OP_SEND, 2).status, -ECANCELED);
}

static const struct pair_case cases[] = {
    {.name = "receives", .play = receives},
    {.name = "oldest first", .play = oldest_first},
    {.name = "queued sends", .play = queued_sends, .forms = PAIR_APART, .how = PAIR_MANUAL},
    {.name = "under way", .play = under_way},
    {.name = "sends to the limit",
     .play = to_the_limit,
     .forms = PAIR_TWO,
     .how = PAIR_MANUAL,
     .number = SEND},
    {.name = "puts to the limit", .play = to_the_limit, .forms = PAIR_TWO, .how = PAIR_MANUAL, .number = PUT},
    {.name = "gets to the limit", .play = to_the_limit, .forms = PAIR_TWO, .how = PAIR_MANUAL, .number = GET},
    {.name = "atomics to the limit",
     .play = to_the_limit,
     .forms = PAIR_TWO,
     .how = PAIR_MANUAL,
     .number = ATOMIC},
    {.name = "lends to the limit",
     .play = to_the_limit,
     .forms = PAIR_TWO,
     .how = PAIR_MANUAL,
     .number = LEND},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
