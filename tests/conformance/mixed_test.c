/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages of every length in bursts and with answers, so that those in one line, in the ring, counted ones in a
 * shuttle, in chunks and with a grant follow each other in any order: each receive gets the one that it must, with the
 * bytes that were sent. What is sent comes from a seed: NIGH_TEST_SEED, or another one each time, which is printed.
 */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

enum { BURSTS = 60, MOST = 8, LONGEST = 256 << 10 };

static uint64_t seed;

/* ---- what is sent, and who gets it: both sides make the same of a seed
 * ----------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    /* xorshift64* */
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717) >> 16;
}

static uint64_t below(uint64_t *state, uint64_t end)
{
    return draw(state) % end;
}

struct message {
    uint64_t bytes, tag;
    uint32_t tclass, flags;
    bool taken;
};

struct receive {
    uint64_t tag, ignore;
    uint32_t tclass, takes; /* the message that it is to get */
    bool anyone;
};

struct burst {
    uint32_t count, before; /* so many receives are posted before the first is sent */
    struct message messages[MOST];
    struct receive receives[MOST];
    uint64_t answer; /* bytes; the peer's */
};

/* Each way that a message may go is as likely as the others. */
static uint64_t length(uint64_t *state)
{
    static const uint64_t ends[] = {1, 41, 1025, 4097, 32769, 65537, LONGEST + 1};
    uint64_t at = below(state, sizeof(ends) / sizeof(ends[0]) - 1);

    return ends[at] + below(state, ends[at + 1] - ends[at]);
}

static bool fits(const struct receive *receive, const struct message *message)
{
    return !message->taken && message->tclass == receive->tclass &&
           ((message->tag ^ receive->tag) & ~receive->ignore) == 0;
}

/* A receive that some message fits, of those that are left. It takes the first of them: what is sent and posted
 * earliest finds each other whenever either comes. */
static void choose(struct burst *burst, uint32_t at, uint64_t *state)
{
    struct receive *receive = &burst->receives[at];
    uint32_t for_whom = (uint32_t)below(state, burst->count), first = 0;

    while (burst->messages[for_whom].taken)
        for_whom = (for_whom + 1) % burst->count;
    *receive = (struct receive){.tag = burst->messages[for_whom].tag,
                                .tclass = burst->messages[for_whom].tclass,
                                .ignore = below(state, 3) ? 0 : UINT64_MAX,
                                .anyone = below(state, 2)};
    while (!fits(receive, &burst->messages[first]))
        first++;
    receive->takes = first;
    burst->messages[first].taken = true;
}

static struct burst make_burst(uint64_t *state)
{
    struct burst burst = {.count = 1 + (uint32_t)below(state, MOST)};

    burst.before = (uint32_t)below(state, burst.count + 1);
    for (uint32_t i = 0; i < burst.count; i++)
        burst.messages[i] = (struct message){.bytes = length(state),
                                             .tag = 1 + below(state, 2),
                                             .tclass = below(state, 2) ? 3 : 0,
                                             .flags = below(state, 8) ? 0 : NIGH_SYNC};
    for (uint32_t i = 0; i < burst.count; i++)
        choose(&burst, i, state);
    burst.answer = length(state);
    return burst;
}

/* ---- the two sides
 * ------------------------------------------------------------------------------------------------------ */

static void post(struct pair_end *rx, const struct burst *burst, uint32_t from, uint32_t end, uint8_t **rooms)
{
    for (uint32_t i = from; rx && i < end; i++) {
        const struct receive *receive = &burst->receives[i];
        struct nigh_recv recv = pair_a_recv(rooms[i], LONGEST, receive->tag, i);

        recv.ignore = receive->ignore;
        recv.tclass = receive->tclass;
        CHECK_INT(nigh->post_recv(rx->context, receive->anyone ? NULL : rx->peer, &recv), 0);
    }
}

static void send_all(struct pair_end *tx, const struct burst *burst, uint64_t number, uint8_t **rooms)
{
    for (uint32_t i = 0; tx && i < burst->count; i++) {
        const struct message *message = &burst->messages[i];
        struct nigh_send send = pair_a_send(rooms[i], message->bytes, message->tag, i);

        data_fill(rooms[i], message->bytes, number * MOST + i);
        send.tclass = message->tclass;
        send.flags = message->flags;
        send.imm = number * MOST + i;
        CHECK_INT(nigh->post_send(tx->peer, &send), 0);
    }
}

static void take_all(struct pair_end *rx, const struct burst *burst, uint64_t number, uint8_t **rooms)
{
    for (uint32_t i = 0; rx && i < burst->count; i++) {
        uint32_t takes = burst->receives[i].takes;
        struct nigh_completion done = pair_received(rx, i, burst->messages[takes].bytes);

        CHECK_INT(done.imm, number * MOST + takes);
        CHECK_INT(done.tag, burst->messages[takes].tag);
        data_check(rooms[i], done.bytes, number * MOST + takes, 0);
    }
}

static void answer(struct pair_end *tx, struct pair_end *rx, const struct burst *burst, uint8_t *from,
                   uint8_t *to)
{
    if (tx)
        pair_recv(tx, to, burst->answer, 9, MOST);
    if (rx) {
        data_fill(from, burst->answer, burst->answer);
        pair_send(rx, from, burst->answer, 9, 0, MOST);
    }
    if (tx) {
        pair_received(tx, MOST, burst->answer);
        data_check(to, burst->answer, burst->answer, 0);
    }
    if (rx)
        pair_sent(rx, MOST, burst->answer);
}

static void mixed(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t state = seed + pair->of->number;
    uint8_t *from[MOST], *to[MOST];

    for (unsigned i = 0; i < MOST; i++) {
        from[i] = data_room(LONGEST);
        to[i] = data_room(LONGEST);
    }
    for (uint64_t number = 0; number < BURSTS; number++) {
        struct burst burst = make_burst(&state);

        post(rx, &burst, 0, burst.before, to);
        pair_meet();
        send_all(tx, &burst, number, from);
        post(rx, &burst, burst.before, burst.count, to);
        take_all(rx, &burst, number, to);
        for (uint32_t i = 0; tx && i < burst.count; i++)
            pair_sent(tx, i, burst.messages[i].bytes);
        answer(tx, rx, &burst, from[0], to[0]);
    }
}

static const struct pair_case cases[] = {
    {.name = "lengths, tags and classes", .play = mixed, .number = 0},
    {.name = "lengths, tags and classes, once more", .play = mixed, .number = 1000},
    {.name = "lengths, tags and classes, with threads",
     .play = mixed,
     .number = 2000,
     .options = {.flags = NIGH_OPEN_THREADS}},
};

int main(int argc, char **argv)
{
    const char *chosen = getenv("NIGH_TEST_SEED");

    seed = chosen ? strtoull(chosen, NULL, 0) : ((uint64_t)time(NULL) << 16 ^ (uint64_t)getpid());
    seed |= 1; /* 0 is drawn from for ever */
    printf("# NIGH_TEST_SEED=%llu\n", (unsigned long long)seed);
    fflush(stdout);
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
