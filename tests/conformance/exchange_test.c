/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages that answer each other, one at a time, both ways at once, and as long or as short as it comes: the right
 * bytes, in order, whether the receive is there or not; and of two that only talk in turn the pools are not needed. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

enum { TURNS = 40, LONGEST = 600000 };

static const uint64_t sizes[] = {1025,   4095,   4096,   4097,    8192,   12289,  32768,
                                 65535,  65536,  65537,  100001,  131072, 200000, 262144,
                                 524287, 524288, 524289, LONGEST, 5000,   40000};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* What `side` sends in a turn. */
static uint64_t size_of(const struct pair *pair, unsigned turn, unsigned side)
{
    uint64_t fixed = pair->of->number;

    return fixed ? fixed : sizes[(turn * 7 + side * 3 + turn / SIZES) % SIZES];
}

static uint64_t id_of(unsigned turn, unsigned side)
{
    return 1000 + turn * 2 + side;
}

struct hand {
    uint8_t *from, *to;
};

static struct hand hand_open(void)
{
    return (struct hand){data_room(LONGEST), data_room(LONGEST)};
}

static void say(const struct pair *pair, unsigned turn, unsigned side, struct hand *hand)
{
    struct pair_end *end = pair->end[side];
    uint64_t bytes = size_of(pair, turn, side), id = id_of(turn, side);

    if (!end)
        return;
    data_fill(hand->from, bytes, id);
    pair_send(end, hand->from, bytes, id, 0, id);
}

static void listen(const struct pair *pair, unsigned turn, unsigned side, struct hand *hand)
{
    struct pair_end *end = pair->end[side];
    uint64_t id = id_of(turn, 1 - side);

    if (end)
        pair_recv(end, hand->to, size_of(pair, turn, 1 - side), id, id);
}

static void hear(const struct pair *pair, unsigned turn, unsigned side, const struct hand *hand)
{
    struct pair_end *end = pair->end[side];
    uint64_t bytes = size_of(pair, turn, 1 - side), id = id_of(turn, 1 - side);

    if (!end)
        return;
    pair_received(end, id, bytes);
    data_check(hand->to, bytes, id, 0);
}

static void said(const struct pair *pair, unsigned turn, unsigned side)
{
    if (pair->end[side])
        pair_sent(pair->end[side], id_of(turn, side), size_of(pair, turn, side));
}

/* To and fro. `late`: no receive is there yet when the message comes. */
static void in_turn(const struct pair *pair, struct hand hands[2], bool late)
{
    for (unsigned turn = 0; turn < TURNS; turn++) {
        for (unsigned side = 0; side < 2; side++) {
            if (!late)
                listen(pair, turn, 1 - side, &hands[1 - side]);
            pair_meet();
            say(pair, turn, side, &hands[side]);
            if (late && pair->end[1 - side]) {
                pair_unexpected(pair->end[1 - side], 1);
                listen(pair, turn, 1 - side, &hands[1 - side]);
            }
            hear(pair, turn, 1 - side, &hands[1 - side]);
            said(pair, turn, side);
        }
    }
}

static void with_hands(struct pair *pair, void (*talk)(const struct pair *, struct hand[2], bool), bool late)
{
    struct hand hands[2] = {hand_open(), hand_open()};

    talk(pair, hands, late);
}

static void expected(struct pair *pair)
{
    with_hands(pair, in_turn, false);
}

static void unexpected(struct pair *pair)
{
    with_hands(pair, in_turn, true);
}

/* Both begin, as neighbours do that exchange their edges. */
static void both(const struct pair *pair, struct hand hands[2], bool late)
{
    (void)late;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        listen(pair, turn, 0, &hands[0]);
        listen(pair, turn, 1, &hands[1]);
        pair_meet();
        say(pair, turn, 0, &hands[0]);
        say(pair, turn, 1, &hands[1]);
        hear(pair, turn, 0, &hands[0]);
        hear(pair, turn, 1, &hands[1]);
        said(pair, turn, 0);
        said(pair, turn, 1);
    }
}

static void at_once(struct pair *pair)
{
    with_hands(pair, both, false);
}

/* One asks with what is long, the other answers with three messages, of which one at most lies
 * where the question did. */
static void several(const struct pair *pair, struct hand hands[2], bool late)
{
    static uint8_t answers[3][40000];

    (void)late;
    for (unsigned turn = 0; turn < TURNS; turn++) {
        listen(pair, turn, 1, &hands[1]);
        for (unsigned i = 0; pair->end[0] && i < 3; i++)
            pair_recv(pair->end[0], answers[i], 40000, 9, 50 + i);
        pair_meet();
        say(pair, turn, 0, &hands[0]);
        hear(pair, turn, 1, &hands[1]);
        for (unsigned i = 0; pair->end[1] && i < 3; i++) {
            data_fill(hands[1].from, 40000 - i * 9000, 60 + i);
            pair_send(pair->end[1], hands[1].from, 40000 - i * 9000, 9, 0, 60 + i);
            pair_sent(pair->end[1], 60 + i, 40000 - i * 9000);
        }
        for (unsigned i = 0; pair->end[0] && i < 3; i++) {
            pair_received(pair->end[0], 50 + i, 40000 - i * 9000);
            data_check(answers[i], 40000 - i * 9000, 60 + i, 0);
        }
        said(pair, turn, 0);
    }
}

static void one_and_three(struct pair *pair)
{
    with_hands(pair, several, false);
}

/* What is rewritten is what the other one has just read, so the memory of one message is enough: the pool would have
 * rotated through its span. */
static void without_a_pool(struct pair *pair)
{
    uint64_t before[2] = {0};

    for (unsigned side = 0; side < 2; side++) {
        if (pair->end[side])
            before[side] = pair_facts(pair->end[side]).shared_committed;
    }
    with_hands(pair, in_turn, false);
    for (unsigned side = 0; side < 2; side++) {
        if (pair->end[side])
            CHECK(pair_facts(pair->end[side]).shared_committed - before[side] <= 65536 + 65536);
    }
}

static const struct pair_case cases[] = {
    {.name = "in turn", .play = expected},
    {.name = "in turn, unexpected", .play = unexpected},
    {.name = "in turn, of 4 KiB", .play = expected, .number = 4096},
    {.name = "in turn, of 32 KiB, unexpected", .play = unexpected, .number = 32768},
    {.name = "in turn, few bytes without asking", .play = expected, .options = {.eager_bytes = 5000}},
    {.name = "in turn, many bytes without asking", .play = expected, .options = {.eager_bytes = 1 << 20}},
    {.name = "both at once", .play = at_once},
    {.name = "both at once, of 64 KiB", .play = at_once, .number = 65536},
    {.name = "one and three", .play = one_and_three},
    {.name = "without a pool", .play = without_a_pool, .forms = PAIR_APART, .number = 32768},
};

int main(int argc, char **argv)
{
    pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
