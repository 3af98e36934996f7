/* SPDX-License-Identifier: BSD-3-Clause */
/* The call x state table of an endpoint, every cell: what each call says in each state, and how what was
 * under way when a state ended completes. */
#include "shm/layout.h"
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

enum call { SEND, RECV, MULTI, PROBE, PUT, GET, ATOMIC, LEND, CALLS };

static const char *const names[] = {"send", "recv", "multi", "probe", "put", "get", "atomic", "lend"};
static const enum nigh_op ops[] = {NIGH_OP_SEND, NIGH_OP_RECV, NIGH_OP_RECV,   0,
                                   NIGH_OP_PUT,  NIGH_OP_GET,  NIGH_OP_ATOMIC, NIGH_OP_LEND};

static uint64_t cell[2]; /* what calls point at */

static int call(struct pair_end *end, enum call what, void *heap, uint64_t context)
{
    struct nigh_send send = pair_a_send(cell, 8, 1, context);
    struct nigh_recv recv = pair_a_recv(cell, 8, 99, context);
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = cell, .bytes = 8, .key = 5, .context = context};
    struct nigh_atomic atomic = {
        .size = sizeof(atomic), .op = NIGH_READ, .type = NIGH_U64, .count = 1, .key = 5, .context = context};
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = heap, .bytes = 8, .tag = 1, .context = context};
    struct nigh_completion found;

    switch (what) {
    case SEND:
        return nigh->post_send(end->peer, &send);
    case MULTI:
        recv.flags = NIGH_MULTI;
        recv.min_free = 1;
        return nigh->post_recv(end->context, end->peer, &recv);
    case RECV:
        return nigh->post_recv(end->context, end->peer, &recv);
    case PROBE:
        return nigh->probe(end->context, end->peer, 99, 0, 0, &found, NULL);
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

/* Every call in the state that the endpoint is in: `expected`, 0 for what goes on (a probe finds nothing). */
static void row(struct pair_end *end, enum nigh_state state, int expected, void *heap, uint64_t context)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        int rc = call(end, (enum call)i, heap, context + i);
        int right = expected == 0 && i == PROBE ? -ENOMSG : expected;

        if (rc != right)
            pair_fail(__FILE__, __LINE__, "%s in state %d: %d, not %d", names[i], (int)state, rc, right);
        if (expected)
            CHECK_INT(nigh->cancel(end->context, context + i), -ENOENT);
    }
    CHECK_INT(pair_state_now(end), state);
}

/* What a row has begun ends with this status. */
static void row_ends(struct pair_end *end, int status, uint64_t context)
{
    for (uint32_t i = 0; i < CALLS; i++) {
        struct nigh_completion done;

        if (i == PROBE)
            continue;
        done = pair_await(end, ops[i], context + i);
        if (done.status != status)
            pair_fail(__FILE__, __LINE__, "%s ended with %d, not %d", names[i], done.status, status);
    }
}

static void *heap_of(struct pair_end *end)
{
    void *heap;

    CHECK_INT(nigh->heap_alloc(end->context, 64, &heap), 0);
    return heap;
}

/* The same peer again is the same endpoint while it lives, and another one after it has ended. */
static void connect_again(struct pair_end *end, bool alive)
{
    struct nigh_endpoint *first = end->peer, *second = NULL;
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = 55};

    CHECK_INT(nigh->connect(end->context, &to, &second), 0);
    CHECK((second == first) == alive);
    CHECK_INT(nigh->disconnect(second), 0);
    if (alive)
        CHECK_INT(pair_peer_facts(end).source, 1);
}

static void connecting(struct pair *pair)
{
    struct pair_end *end = pair->end[0];

    pair_open(end);
    pair_connect(end);
    row(end, NIGH_CONNECTING, 0, heap_of(end), 100);
    connect_again(end, true);
    CHECK_INT(pair_peer_facts(end).queued, 5);
    CHECK_INT(pair_peer_facts(end).pid, 0);
    pair_disconnect(end);
    row_ends(end, -ECANCELED, 100);
}

static void ready(struct pair *pair)
{
    struct pair_end *end = pair->end[0], *peer = pair->end[1];
    uint64_t got;

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    if (end) {
        row(end, NIGH_READY, 0, heap_of(end), 100);
        connect_again(end, true);
        pair_sent(end, 100 + SEND, 8);
        CHECK_INT(pair_await(end, NIGH_OP_PUT, 100 + PUT).status, -EACCES);
        CHECK_INT(pair_await(end, NIGH_OP_GET, 100 + GET).status, -EACCES);
        CHECK_INT(pair_await(end, NIGH_OP_ATOMIC, 100 + ATOMIC).status, -EACCES);
        CHECK_INT(nigh->cancel(end->context, 100 + RECV), 0);
        CHECK_INT(nigh->cancel(end->context, 100 + MULTI), 0);
        CHECK_INT(pair_await(end, NIGH_OP_RECV, 100 + RECV).status, -ECANCELED);
        CHECK_INT(pair_await(end, NIGH_OP_RECV, 100 + MULTI).status, -ECANCELED);
    }
    for (uint32_t i = 0; peer && i < 2; i++) {
        pair_recv(peer, &got, 8, 1, 1);
        pair_received(peer, 1, 8);
    }
    if (end)
        CHECK_INT(pair_await(end, NIGH_OP_LEND, 100 + LEND).status, 0);
}

/* Under way when the peer ends: operations that it has seen and will never answer. */
static void begin(struct pair_end *end, void *heap)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = heap, .bytes = 8, .tag = 1, .context = 204};

    pair_recv(end, cell, 8, 98, 201);
    pair_send(end, NULL, 0, 1, NIGH_SYNC, 202);
    pair_send(end, data_filled(1 << 20, 1), 1 << 20, 1, NIGH_SILENT, 203);
    CHECK_INT(nigh->post_lend(end->peer, &lend), 0);
}

static void begun_ends(struct pair_end *end, int status)
{
    CHECK_INT(pair_await(end, NIGH_OP_RECV, 201).status, status);
    CHECK_INT(pair_await(end, NIGH_OP_SEND, 202).status, status);
    CHECK_INT(pair_await(end, NIGH_OP_SEND, 203).status, status);
    CHECK_INT(pair_await(end, NIGH_OP_LEND, 204).status, status);
}

static void ended(struct pair_end *end, enum nigh_state state, int status)
{
    void *heap = heap_of(end);

    begin(end, heap);
    pair_state(end, state);
    begun_ends(end, status);
    CHECK_INT(nigh->heap_free(end->context, heap), 0);
    row(end, state, status, heap_of(end), 100);
    connect_again(end, false);
    pair_disconnect(end);
}

static void peer_closed(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    pair_meet();
    if (pair->end[1])
        pair_close(pair->end[1]);
    pair_meet();
    if (!pair->end[0])
        return;
    /* One thread plays both: what is begun towards a peer that has gone already is refused, or ends like the rest. */
    if (pair_state_now(pair->end[0]) == NIGH_READY)
        ended(pair->end[0], NIGH_PEER_CLOSED, -ECONNRESET);
    else
        row(pair->end[0], NIGH_PEER_CLOSED, -ECONNRESET, heap_of(pair->end[0]), 100);
}

/* Everything is begun first, then the peer closes. number: it disconnects only. */
static void peer_closes(struct pair *pair)
{
    void *heap = NULL;

    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    if (pair->end[0]) {
        heap = heap_of(pair->end[0]);
        begin(pair->end[0], heap);
    }
    if (pair->end[1])
        pair_unexpected(pair->end[1], 3);
    pair_meet();
    if (pair->end[1] && pair->of->number)
        pair_disconnect(pair->end[1]);
    else if (pair->end[1])
        pair_close(pair->end[1]);
    if (pair->end[0]) {
        pair_state(pair->end[0], NIGH_PEER_CLOSED);
        begun_ends(pair->end[0], -ECONNRESET);
        row(pair->end[0], NIGH_PEER_CLOSED, -ECONNRESET, heap, 100);
        connect_again(pair->end[0], false);
        CHECK_INT(nigh->heap_free(pair->end[0]->context, heap), 0);
    }
}

/* A receive from anyone hears of a death once, and the next one goes on waiting. */
static void peer_dead(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_recv anyone = pair_a_recv(cell, 8, 1, 300);

    if (pair->end[1]) {
        pair_state(pair->end[1], NIGH_READY);
        pair_unexpected(pair->end[1], 3);
        kill(getpid(), SIGKILL);
    }
    pair_state(end, NIGH_READY);
    CHECK_INT(nigh->post_recv(end->context, NULL, &anyone), 0);
    anyone.context = 301;
    CHECK_INT(nigh->post_recv(end->context, NULL, &anyone), 0);
    ended(end, NIGH_PEER_DEAD, -ECONNRESET);
    CHECK_INT(pair_await(end, NIGH_OP_RECV, 300).status, -ECONNRESET);
    pair_pump_ms(5);
    CHECK_INT(nigh->cancel(end->context, 301), 0);
    CHECK_INT(pair_await(end, NIGH_OP_RECV, 301).status, -ECANCELED);
    CHECK_INT(pair_stats(end).peers_lost, 1);
}

/* This process's own arena, written where it may be and where no sound process would. */
static void write_nonsense(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    unsigned long start = 0;
    char line[512], rights[8];

    CHECK(maps != NULL);
    while (fgets(line, sizeof(line), maps))
        if (strstr(line, "nigh-arena") && sscanf(line, "%lx-%*x %7s", &start, rights) == 2 &&
            rights[1] == 'w')
            break;
        else
            start = 0;
    fclose(maps);
    CHECK(start != 0);
    for (uint32_t i = 0; i < 4; i++) {
        struct nigh_arena_header *header = (struct nigh_arena_header *)start;
        struct nigh_pair *pairs = (struct nigh_pair *)(start + header->pairs_off);

        __atomic_store_n(&pairs[i].ring, UINT64_C(0xdeadbeefdead), __ATOMIC_RELEASE);
    }
}

static void broken(struct pair *pair)
{
    struct pair_end *end = pair->end[0];

    if (pair->end[1]) {
        pair_state(pair->end[1], NIGH_READY);
        pair_unexpected(pair->end[1], 3);
        pair_meet();
        write_nonsense();
        pair_meet();
        return;
    }
    pair_state(end, NIGH_READY);
    begin(end, heap_of(end));
    pair_meet();
    pair_state(end, NIGH_BROKEN);
    begun_ends(end, -EPROTO);
    row(end, NIGH_BROKEN, -EPROTO, heap_of(end), 100);
    CHECK_INT(pair_stats(end).peers_broken, 1);
    pair_disconnect(end);
    pair_meet();
}

/* A message that was published before its sender went is there for a receive in every ended state. */
static void last_words(struct pair *pair)
{
    struct pair_end *end = pair->end[0], *peer = pair->end[1];
    struct nigh_recv multi = pair_a_recv(data_room(64), 64, 3, 3);
    struct nigh_completion done;
    uint8_t *body = data_room(700);

    if (peer) {
        pair_send(peer, &(uint64_t){77}, 8, 1, NIGH_INJECT, 1);
        pair_send(peer, data_filled(700, 2), 700, 2, 0, 2);
        pair_send(peer, &(uint64_t){78}, 8, 3, NIGH_INJECT, 3);
        pair_sent(peer, 1, 8);
        pair_sent(peer, 2, 700);
        pair_sent(peer, 3, 8);
        if (pair->of->number == 2)
            kill(getpid(), SIGKILL);
        if (pair->of->number == 1)
            pair_disconnect(peer);
        else
            pair_close(peer);
    }
    if (end) {
        pair_state(end, pair->of->number == 2 ? NIGH_PEER_DEAD : NIGH_PEER_CLOSED);
        CHECK_INT(pair_facts(end).unexpected, 3);
        pair_recv(end, body, 700, 2, 2);
        data_check(body, pair_received(end, 2, 700).bytes, 2, 0);
        pair_recv(end, cell, 8, 1, 1);
        done = pair_received(end, 1, 8);
        CHECK_INT(cell[0], 77);
        CHECK_INT(done.source, 1);
        multi.flags = NIGH_MULTI;
        multi.min_free = 8;
        CHECK_INT(nigh->post_recv(end->context, end->peer, &multi), 0);
        CHECK_INT(pair_received(end, 3, 8).flags, 0);
        done = pair_await(end, NIGH_OP_RECV, 3);
        CHECK_INT(done.status, -ECONNRESET);
        CHECK_INT(done.flags, NIGH_DONE_RELEASED);
        CHECK_INT(nigh->post_recv(end->context, end->peer, &multi), -ECONNRESET);
    }
}

/* Who has heard of an end from another asks before it polls. number: 1 it disconnects, else it is killed. */
static void asked(struct pair *pair)
{
    struct pair_end *end = pair->end[0], *peer = pair->end[1];
    struct nigh_query_end is = {.size = sizeof(is)};
    uint64_t bytes = sizeof(is);

    pair_state(end ? end : peer, NIGH_READY);
    if (end) {
        CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_END, &is, &bytes), 0);
        CHECK_INT(is.reason, NIGH_REASON_NONE);
        CHECK_INT(strlen(is.text), 0);
    }
    pair_meet();
    if (peer)
        usleep(50000); /* to meet polls */
    if (peer && pair->of->number == 1)
        pair_disconnect(peer);
    else if (peer)
        kill(getpid(), SIGKILL);
    while (end && is.reason == NIGH_REASON_NONE)
        CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_END, &is, &bytes), 0);
    if (!end)
        return;
    CHECK_INT(is.reason, pair->of->number == 1 ? NIGH_REASON_LEFT : NIGH_REASON_DIED);
    CHECK(strstr(is.text, pair->of->number == 1 ? "disconnected" : "has ended"));
    pair_state(end, pair->of->number == 1 ? NIGH_PEER_CLOSED : NIGH_PEER_DEAD);
}

static const struct pair_case cases[] = {
    {.name = "connecting", .play = connecting, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "ready", .play = ready, .forms = PAIR_APART},
    {.name = "peer closed before", .play = peer_closed, .forms = PAIR_APART},
    {.name = "peer closes", .play = peer_closes, .forms = PAIR_APART},
    {.name = "peer disconnects", .play = peer_closes, .forms = PAIR_APART, .number = 1},
    {.name = "peer dead", .play = peer_dead, .forms = PAIR_FORK, .how = PAIR_DEATH},
    {.name = "asked before a poll, dead", .play = asked, .forms = PAIR_FORK, .how = PAIR_DEATH},
    {.name = "asked before a poll, left", .play = asked, .forms = PAIR_FORK, .number = 1},
    {.name = "broken", .play = broken, .forms = PAIR_FORK, .how = PAIR_LOOSE},
    {.name = "last words, closed", .play = last_words, .forms = PAIR_APART},
    {.name = "last words, disconnected", .play = last_words, .forms = PAIR_APART, .number = 1},
    {.name = "last words, dead", .play = last_words, .forms = PAIR_FORK, .how = PAIR_DEATH, .number = 2},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
