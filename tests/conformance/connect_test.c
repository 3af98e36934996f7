/* SPDX-License-Identifier: BSD-3-Clause */
/* How endpoints begin and end: in any order of the two sides, twice, by address, by themselves, again and
 * again, and with traffic in flight. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

static void open_all(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_open(pair->end[i]);
    pair_meet();
}

static void connect_all(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_connect(pair->end[i]);
}

static void disconnect_all(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_disconnect(pair->end[i]);
}

/* A word each way. */
static void talk(struct pair *pair, uint64_t value)
{
    uint64_t got[2] = {0, 0};

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_recv(pair->end[i], &got[i], 8, 10 + i, 1);
            pair_send(pair->end[i], &value, 8, 11 - i, NIGH_INJECT, 2);
        }
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_received(pair->end[i], 1, 8);
            pair_sent(pair->end[i], 2, 8);
            CHECK_INT(got[i], value);
        }
}

/* The peer comes when everything has been posted to it. */
static void late(struct pair *pair)
{
    static const uint64_t sizes[] = {8, 2000, 0, 70000, 3000000};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *to;

    if (tx) {
        pair_open(tx);
        pair_connect(tx);
        for (uint32_t i = 0; i < 5; i++)
            pair_send(tx, data_filled(sizes[i], i), sizes[i], i, i % 2 ? NIGH_SYNC : 0, i);
        pair_pump_ms(30);
        CHECK_INT(pair_state_now(tx), NIGH_CONNECTING);
    }
    pair_meet();
    if (rx) {
        pair_open(rx);
        pair_connect(rx);
    }
    for (uint32_t i = 0; rx && i < 5; i++) {
        to = data_room(sizes[i]);
        pair_recv(rx, to, sizes[i], i, i);
        pair_received(rx, i, sizes[i]);
        data_check(to, sizes[i], i, 0);
    }
    for (uint32_t i = 0; tx && i < 5; i++)
        pair_sent(tx, i, sizes[i]);
}

/* The second side never connects: it answers by the endpoint of the completion. */
static void one_sided(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_recv recv = pair_a_recv(NULL, 0, 7, 1);
    struct nigh_completion done;
    uint64_t got = 0, value = 5;

    open_all(pair);
    if (tx) {
        pair_connect(tx);
        pair_send(tx, &value, 8, 7, 0, 1);
    }
    if (rx) {
        recv.buffer = &got;
        recv.bytes = 8;
        CHECK_INT(nigh->post_recv(rx->context, NULL, &recv), 0);
        done = pair_received(rx, 1, 8);
        CHECK_INT(got, 5);
        CHECK_INT(done.source, 0);
        CHECK(done.endpoint != NULL);
        CHECK_INT(nigh->disconnect(done.endpoint), -EINVAL);
        rx->peer = done.endpoint;
        pair_send(rx, data_filled(100000, 1), 100000, 8, 0, 2);
    }
    if (tx) {
        uint8_t *to = data_room(100000);

        pair_recv(tx, to, 100000, 8, 2);
        pair_received(tx, 2, 100000);
        data_check(to, 100000, 1, 0);
        pair_sent(tx, 1, 8);
    }
    if (rx) {
        pair_sent(rx, 2, 100000);
        rx->peer = NULL;
    }
    pair_meet();
}

static void again(struct pair *pair)
{
    struct nigh_endpoint *first, *second;

    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];

        if (!end)
            continue;
        first = end->peer;
        end->peer = NULL;
        pair_connect(end);
        second = end->peer;
        CHECK(first == second);
        if (pair->form == PAIR_SELF)
            break;
    }
    talk(pair, 1);
    for (unsigned i = 0; i < 2; i++) {
        struct nigh_endpoint *peer = pair->end[i] ? pair->end[i]->peer : NULL;

        if (!peer)
            continue;
        CHECK_INT(nigh->disconnect(peer), 0);
        CHECK_INT(pair_state_now(pair->end[i]), NIGH_READY);
        if (pair->form == PAIR_SELF)
            break;
    }
    talk(pair, 2);
}

/* By address, and that the address and the rank are one peer. */
static void by_address(struct pair *pair)
{
    struct nigh_address address;
    uint8_t *place = (uint8_t *)(uintptr_t)pair->shared;

    open_all(pair);
    if (pair->end[1]) {
        CHECK_INT(nigh->address(pair->end[1]->context, &address), 0);
        memcpy(place, &address, sizeof(address));
    }
    pair_meet();
    if (pair->end[0]) {
        struct nigh_connect to = {
            .size = sizeof(to), .rank = NIGH_RANK_NONE, .source = 31, .address = &address};

        memcpy(&address, place, sizeof(address));
        CHECK_INT(nigh->connect(pair->end[0]->context, &to, &pair->end[0]->peer), 0);
        if (pair->form == PAIR_SELF)
            pair->end[1]->peer = pair->end[0]->peer;
    }
    if (pair->end[1])
        pair_connect(pair->end[1]);
    if (pair->end[0])
        pair_state(pair->end[0], NIGH_READY);
    if (pair->end[0] && pair->form != PAIR_SELF) {
        struct nigh_connect to = {.size = sizeof(to), .rank = 1};
        struct nigh_endpoint *same = NULL;

        CHECK_INT(nigh->connect(pair->end[0]->context, &to, &same), 0);
        CHECK(same == pair->end[0]->peer);
        CHECK_INT(nigh->disconnect(same), 0);
        CHECK_INT(pair_peer_facts(pair->end[0]).source, 31);
        CHECK_INT(pair_peer_facts(pair->end[0]).rank, 1);
    }
    talk(pair, 9);
    pair_meet();
}

/* An address whose context has closed, and one of a rank that was opened anew. */
static void closed_address(struct pair *pair)
{
    struct pair_end *one = pair->end[0], *two = pair->end[1];
    struct nigh_address address;
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = &address};
    struct nigh_endpoint *endpoint = NULL;
    int rc;

    open_all(pair);
    CHECK_INT(nigh->address(two->context, &address), 0);
    pair_close(two);
    rc = nigh->connect(one->context, &to, &endpoint);
    if (rc == 0) { /* known only when it was tried */
        one->peer = endpoint;
        pair_state(one, NIGH_PEER_CLOSED);
        pair_disconnect(one);
    } else {
        CHECK_INT(rc, -ECONNREFUSED);
    }
    pair_open(two);
    connect_all(pair);
    talk(pair, 4);
}

/* Both leave each other and find each other anew. */
static void rounds(struct pair *pair)
{
    for (uint32_t round = 0; round < 30; round++) {
        connect_all(pair);
        talk(pair, round);
        pair_meet();
        disconnect_all(pair);
        pair_meet();
    }
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            CHECK(pair_facts(pair->end[i]).peers <= 30);
    /* An attach of the last round may still be under way at the other side. */
    for (unsigned i = 0; i < 2; i++)
        for (unsigned ms = 0; pair->end[i] && pair_facts(pair->end[i]).peers > 1; ms += 5) {
            CHECK(ms < 100000);
            pair_pump_ms(5);
        }
}

/* One side leaves and comes again; the other one stays and hears of both. */
static void comes_again(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_recv anyone = pair_a_recv(NULL, 8, 7, 1);
    struct nigh_completion done;
    uint64_t got, value;

    for (value = 1; value <= 5; value++) {
        if (tx) {
            pair_connect(tx);
            pair_send(tx, &value, 8, 7, 0, 1);
            pair_sent(tx, 1, 8);
            pair_disconnect(tx);
        }
        if (rx) {
            anyone.buffer = &got;
            CHECK_INT(nigh->post_recv(rx->context, NULL, &anyone), 0);
            done = pair_received(rx, 1, 8);
            CHECK_INT(got, value);
            CHECK_INT(done.source, 0);
        }
        pair_meet();
    }
    if (rx) {
        pair_state(rx, NIGH_PEER_CLOSED);
        pair_disconnect(rx);
    }
    pair_meet();
    connect_all(pair);
    talk(pair, 6);
}

/* The context goes and another one of the same rank comes. */
static void opened_again(struct pair *pair)
{
    struct pair_end *stays = pair->end[0], *goes = pair->end[1];

    for (uint32_t round = 0; round < 5; round++) {
        if (goes)
            pair_open(goes);
        connect_all(pair);
        talk(pair, round);
        pair_meet();
        if (goes)
            pair_close(goes);
        if (stays) {
            pair_state(stays, NIGH_PEER_CLOSED);
            pair_disconnect(stays);
        }
        pair_meet();
    }
}

static void same_rank(struct pair *pair)
{
    struct nigh_open options = {.size = sizeof(options), .job = pair->job, .ranks = 1, .heap_bytes = 1 << 20};
    struct nigh_context *other = NULL;

    CHECK_INT(nigh->open(&options, &other), -EADDRINUSE);
    CHECK(other == NULL);
    options.job++;
    CHECK_INT(nigh->open(&options, &other), 0);
    CHECK_INT(nigh->close(other), 0);
}

/* No more endpoints than were asked for. */
static void peers_max(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_open options = {
        .size = sizeof(options), .job = pair->job + 1, .ranks = 10, .peers_max = 3, .heap_bytes = 1 << 20};
    struct nigh_connect to = {.size = sizeof(to)};
    struct nigh_endpoint *peers[3], *more = NULL;

    CHECK_INT(nigh->open(&options, &end->context), 0);
    for (to.rank = 0; to.rank < 3; to.rank++)
        CHECK_INT(nigh->connect(end->context, &to, &peers[to.rank]), 0);
    CHECK_INT(nigh->connect(end->context, &to, &more), -ENOSPC);
    CHECK(more == NULL);
    to.rank = 2;
    CHECK_INT(nigh->connect(end->context, &to, &more), 0);
    CHECK(more == peers[2]);
    CHECK_INT(nigh->disconnect(more), 0);
    CHECK_INT(nigh->disconnect(peers[2]), 0);
    pair_pump_ms(5);
    to.rank = 5;
    CHECK_INT(nigh->connect(end->context, &to, &more), 0);
    CHECK_INT(nigh->close(end->context), 0);
    end->context = NULL;
}

/* ---- the end with traffic in flight ----------------------------------------------------------------------------- */

static const uint64_t sizes[] = {8, 100000, 700, 2000000, 40, 5000, 0, 300000};

static void load(struct pair_end *end, uint8_t *const *from, uint8_t *const *to, void *heap)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = heap, .bytes = 4096, .tag = 90, .context = 900};
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = heap, .bytes = 4096, .key = 1, .context = 901};

    for (uint32_t i = 0; i < 64; i++) {
        pair_recv(end, to[i % 8], sizes[i % 8], i, 100 + i);
        pair_send(end, from[i % 8], sizes[i % 8], i, i % 3 ? 0 : NIGH_SYNC, 200 + i);
    }
    pair_send(end, heap, 100000, 91, 0, 300);
    CHECK_INT(nigh->post_lend(end->peer, &lend), 0);
    CHECK_INT(nigh->post_get(end->peer, &rma), 0);
}

/* Every operation ends, once, well or with what the end of the peer means. */
static void unload(struct pair_end *end, int status)
{
    struct nigh_completion done;

    for (uint32_t i = 0; i < 64; i++) {
        done = pair_await(end, NIGH_OP_RECV, 100 + i);
        CHECK(done.status == 0 || done.status == status);
        done = pair_await(end, NIGH_OP_SEND, 200 + i);
        CHECK(done.status == 0 || done.status == status);
    }
    done = pair_await(end, NIGH_OP_SEND, 300);
    CHECK(done.status == status || done.status == -ECANCELED);
    done = pair_await(end, NIGH_OP_LEND, 900);
    CHECK(done.status == status || done.status == -ECANCELED);
    done = pair_await(end, NIGH_OP_GET, 901);
    CHECK(done.status == status || done.status == -EACCES);
}

/* number: polls before the end; above 1000 the second side disconnects instead of closing. */
static void in_flight(struct pair *pair)
{
    uint8_t *from[8], *to[2][8];
    void *heap;

    for (uint32_t i = 0; i < 8; i++) {
        from[i] = data_filled(sizes[i], i);
        to[0][i] = data_room(sizes[i]);
        to[1][i] = data_room(sizes[i]);
    }
    /* Who leaves before anybody has met him was never there: the other side would wait for him, as it should. */
    if (pair->end[1])
        pair_state(pair->end[1], NIGH_READY);
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            CHECK_INT(nigh->heap_alloc(pair->end[i]->context, 100000, &heap), 0);
            load(pair->end[i], from, to[i], heap);
        }
    for (uint64_t i = 0; i < pair->of->number % 1000; i++)
        pair_pump();
    if (pair->end[1] && pair->of->number >= 1000) {
        pair_disconnect(pair->end[1]);
        unload(pair->end[1], -ECANCELED);
    } else if (pair->end[1]) {
        pair_close(pair->end[1]);
    }
    if (pair->end[0]) {
        unload(pair->end[0], -ECONNRESET);
        pair_state(pair->end[0], NIGH_PEER_CLOSED);
    }
}

/* number as above. With itself both ends are one. */
static void self_in_flight(struct pair *pair)
{
    uint8_t *from[8], *to[8];
    void *heap;

    for (uint32_t i = 0; i < 8; i++) {
        from[i] = data_filled(sizes[i], i);
        to[i] = data_room(sizes[i]);
    }
    CHECK_INT(nigh->heap_alloc(pair->end[0]->context, 100000, &heap), 0);
    load(pair->end[0], from, to, heap);
    for (uint64_t i = 0; i < pair->of->number % 1000; i++)
        pair_pump();
    if (pair->of->number < 1000) {
        pair_close(pair->end[0]);
        return;
    }
    pair_disconnect(pair->end[0]);
    unload(pair->end[0], -ECANCELED);
    pair_connect(pair->end[0]);
    talk(pair, 3);
}

static const struct pair_case cases[] = {
    {.name = "late", .play = late, .forms = PAIR_APART, .how = PAIR_MANUAL},
    {.name = "one-sided", .play = one_sided, .forms = PAIR_APART, .how = PAIR_MANUAL},
    {.name = "again", .play = again},
    {.name = "by address", .play = by_address, .how = PAIR_MANUAL},
    {.name = "closed address", .play = closed_address, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "rounds", .play = rounds},
    {.name = "comes again", .play = comes_again, .forms = PAIR_APART},
    {.name = "opened again", .play = opened_again, .forms = PAIR_APART},
    {.name = "same rank", .play = same_rank, .forms = PAIR_SELF},
    {.name = "peers_max", .play = peers_max, .forms = PAIR_SELF, .how = PAIR_MANUAL},
    {.name = "close in flight, 0 polls", .play = in_flight, .forms = PAIR_APART, .how = PAIR_LOOSE},
    {.name = "close in flight, 3 polls",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 3},
    {.name = "close in flight, 40 polls",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 40},
    {.name = "disconnect in flight, 0 polls",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 1000},
    {.name = "disconnect in flight, 7 polls",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 1007},
    {.name = "disconnect in flight, 40 polls",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 1040},
    {.name = "close in flight, read in place",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 3,
     .options = {.path = "cma"}},
    {.name = "disconnect in flight, read in place",
     .play = in_flight,
     .forms = PAIR_APART,
     .how = PAIR_LOOSE,
     .number = 1007,
     .options = {.path = "cma"}},
    {.name = "close in flight, itself", .play = self_in_flight, .forms = PAIR_SELF, .number = 5},
    {.name = "disconnect in flight, itself", .play = self_in_flight, .forms = PAIR_SELF, .number = 1005},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
