/* SPDX-License-Identifier: BSD-3-Clause */
/* Many short messages in a row, taken into arrays of any length: all of them, in order, whatever stands between them;
 * and no peer whose stream fills the array keeps another one waiting. */
#include "tests/support/pair.h"
#include "tests/support/taken.h"
#include <string.h>

enum { COUNT = 400, ROOM = 64, BODY = 200, ARRAY = 300, TURNS = 24 };

static const struct nigh_ops *nigh;

/* Message i, and the receive that is posted as the i-th. */
struct message {
    uint64_t bytes, room, tag, ignore;
    uint32_t tclass;
    bool anyone;
};

static struct message message_of(uint32_t i, bool mixed)
{
    struct message m = {.bytes = 8, .room = BODY, .tag = i / 50 % 2 ? i : 7, .tclass = i / 100 % 2};

    if (i % 17 == 0)
        m.bytes = i % 41;
    if (i % 29 == 0)
        m.bytes = BODY; /* more than a slot */
    if (i % 37 == 0)
        m.room = m.bytes / 2; /* does not fit */
    if (i % 43 == 0)
        m.tclass = 5;
    if (mixed && i % 19 == 0)
        m.anyone = true;
    if (mixed && i % 31 == 0)
        m.ignore = UINT64_C(1) << 63;
    return m;
}

static uint8_t byte_of(uint32_t i, uint64_t at)
{
    return (uint8_t)(i * 7 + at * 13 + 1);
}

static void post(struct pair_end *rx, uint32_t i, bool mixed, uint8_t *to)
{
    struct message m = message_of(i, mixed);
    struct nigh_recv recv = pair_a_recv(to, m.room, m.tag, i);

    memset(to, 0, BODY);
    recv.ignore = m.ignore;
    recv.tclass = m.tclass;
    CHECK_INT(nigh->post_recv(rx->context, m.anyone ? NULL : rx->peer, &recv), 0);
}

static void send(struct pair_end *tx, uint32_t i, bool mixed)
{
    struct message m = message_of(i, mixed);
    uint8_t bytes[BODY] = {0};
    struct nigh_send send = pair_a_send(bytes, m.bytes, m.tag | m.ignore, i);

    for (uint64_t at = 0; at < m.bytes; at++)
        bytes[at] = byte_of(i, at);
    send.tclass = m.tclass;
    send.imm = ~(uint64_t)i;
    send.flags = NIGH_INJECT | NIGH_SILENT;
    CHECK_INT(nigh->post_send(tx->peer, &send), 0);
}

static void check(const struct pair_end *rx, const struct nigh_completion *done, uint32_t i, bool mixed,
                  const uint8_t *to)
{
    struct message m = message_of(i, mixed);

    CHECK_INT(done->op, NIGH_OP_RECV);
    CHECK_INT(done->context, i);
    CHECK_INT(done->status, m.bytes > m.room ? -EMSGSIZE : 0);
    CHECK_INT(done->bytes, m.bytes);
    CHECK_INT(done->tag, m.tag | m.ignore);
    CHECK_INT(done->imm, ~(uint64_t)i);
    CHECK_INT(NIGH_DONE_CLASS(done->flags), m.tclass);
    CHECK(done->endpoint == rx->peer);
    CHECK_INT((uintptr_t)done->data, done->flags & NIGH_DONE_CUT ? m.room : 0);
    for (uint64_t at = 0; at < BODY; at++) {
        uint8_t wanted = at < m.bytes && at < m.room ? byte_of(i, at) : 0;

        if (to[at] != wanted)
            pair_fail(__FILE__, __LINE__, "message %u of %u bytes: byte %u is %u instead of %u", i,
                      (unsigned)m.bytes, (unsigned)at, to[at], wanted);
    }
}

/* number: how many at a time, and whether where they lie. */
enum { WHERE_THEY_LIE = 1 << 20 };

/* The receives are there before the messages; `late`: posted ROOM at a time, so that some messages come before them. */
static void take(struct pair *pair, bool mixed, bool late)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion done[ARRAY];
    static uint8_t to[COUNT][BODY];
    uint32_t length = pair->of->number % WHERE_THEY_LIE, taken = 0, posted = 0;

    for (; rx && !late && posted < COUNT; posted++)
        post(rx, posted, mixed, to[posted]);
    pair_meet();
    for (uint32_t i = 0; tx && i < COUNT; i++)
        send(tx, i, mixed);
    while (rx && taken < COUNT) {
        int count;

        for (; posted < COUNT && posted < taken + ROOM; posted++)
            post(rx, posted, mixed, to[posted]);
        count = pair->of->number & WHERE_THEY_LIE ? taken_poll(nigh, rx->context, done, length)
                                                  : nigh->poll_completions(rx->context, done, length);
        CHECK(count >= 0 && (uint32_t)count <= length);
        for (int k = 0; k < count; k++, taken++)
            check(rx, &done[k], taken, mixed, to[taken]);
        if (tx && tx->context != rx->context)
            CHECK_INT(nigh->poll_completions(tx->context, NULL, 0), 0);
    }
    pair_meet();
    if (rx)
        CHECK_INT(pair_facts(rx).posted, 0);
}

static void plain(struct pair *pair)
{
    take(pair, false, false);
}

static void plain_late(struct pair *pair)
{
    take(pair, false, true);
}

static void mixed(struct pair *pair)
{
    take(pair, true, false);
}

static void mixed_late(struct pair *pair)
{
    take(pair, true, true);
}

/* TURNS messages of each of two peers, asked for one at a time. How many came in a row from the
 * same one while both had more. */
static uint32_t longest_turn(struct pair_end *tx, struct pair_end *rx, struct nigh_endpoint *itself)
{
    uint64_t values[2 * TURNS] = {0};
    uint32_t heard[2] = {0}, in_a_row = 0, longest = 0, last = 2;

    for (uint32_t i = 0; i < TURNS; i++) {
        struct nigh_send send = pair_a_send(&values[i], 8, 1, 0);
        struct nigh_recv recv = pair_a_recv(&values[TURNS + i], 8, 1, i);

        send.flags = NIGH_INJECT | NIGH_SILENT;
        CHECK_INT(nigh->post_send(tx->peer, &send), 0);
        CHECK_INT(nigh->post_send(itself, &send), 0);
        CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
        CHECK_INT(nigh->post_recv(rx->context, itself, &recv), 0);
    }
    while (heard[0] + heard[1] < 2 * TURNS) {
        struct nigh_completion done;
        uint32_t who;

        CHECK_INT(nigh->poll_completions(tx->context, NULL, 0), 0);
        if (nigh->poll_completions(rx->context, &done, 1) == 0)
            continue;
        CHECK_INT(done.status, 0);
        who = done.endpoint == itself;
        in_a_row = who == last ? in_a_row + 1 : 1;
        last = who;
        heard[who]++;
        if (heard[0] < TURNS && heard[1] < TURNS && in_a_row > longest)
            longest = in_a_row;
    }
    CHECK_INT(heard[0], TURNS);
    CHECK_INT(heard[1], TURNS);
    return longest;
}

/* The receiver hears itself and the other one, and asks for one message at a time: each has its turn. A pass that looks
 * at everything, as some do behind an attach, may take more at once, so it is tried again. */
static void in_turn(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_connect to_itself = {.size = sizeof(to_itself), .rank = rx->side, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *itself;
    uint32_t longest = TURNS;

    pair_state(tx, NIGH_READY);
    pair_state(rx, NIGH_READY);
    CHECK_INT(nigh->connect(rx->context, &to_itself, &itself), 0);
    for (uint32_t i = 0; i < 20 && longest > 2; i++)
        longest = longest_turn(tx, rx, itself);
    CHECK(longest <= 2);
    CHECK_INT(nigh->disconnect(itself), 0);
}

static const struct pair_case cases[] = {
    {.name = "one at a time", .play = plain, .number = 1},
    {.name = "three at a time", .play = plain, .number = 3},
    {.name = "sixteen at a time", .play = plain, .number = 16},
    {.name = "as many as there are", .play = plain, .number = ARRAY},
    {.name = "where they lie, one at a time", .play = plain, .number = WHERE_THEY_LIE | 1},
    {.name = "where they lie, three at a time", .play = plain, .number = WHERE_THEY_LIE | 3},
    {.name = "where they lie, all", .play = plain, .number = WHERE_THEY_LIE | ARRAY},
    {.name = "receives in time and late, where they lie", .play = plain_late, .number = WHERE_THEY_LIE | 5},
    {.name = "receives of all sorts, late, where they lie",
     .play = mixed_late,
     .number = WHERE_THEY_LIE | 40},
    {.name = "receives in time and late, one at a time", .play = plain_late, .number = 1},
    {.name = "receives in time and late, five at a time", .play = plain_late, .number = 5},
    {.name = "receives in time and late, all", .play = plain_late, .number = ARRAY},
    {.name = "receives of all sorts, two at a time", .play = mixed, .number = 2},
    {.name = "receives of all sorts, eight at a time", .play = mixed, .number = 8},
    {.name = "receives of all sorts, all", .play = mixed, .number = ARRAY},
    {.name = "receives of all sorts, late", .play = mixed_late, .number = 8},
    {.name = "two peers in turn", .play = in_turn, .forms = PAIR_TWO},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
