/* SPDX-License-Identifier: BSD-3-Clause */
/* Two sides that connect and leave in any order, looked at or not: whoever connects when it is told that its peer has left
 * gets through in the end, and what was said to one that stayed comes once. */
#include "tests/support/pair.h"
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const struct nigh_ops *nigh;

/* SMALL: contexts are opened by the hundred, and an emulator keeps a table of all that was ever mapped. */
enum { PATIENCE_MS = 20000, SMALL = 1 << 20, STEPS = 12, TAG = 42, HEARD = 77, WORDS = 4, TIMES = 8 };

/* Words of a script: how many were said (by threads as well, where none is received), what came of each, and where they are
 * received. */
static uint64_t said, word[2][WORDS];
static unsigned came[WORDS];

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* True: the message of this round has come. */
static bool look(struct pair_end *end)
{
    struct nigh_completion done;
    bool heard = false;

    while (nigh->poll_completions(end->context, &done, 1) == 1) {
        if (done.op != NIGH_OP_RECV || done.status)
            continue;
        heard = heard || done.context == HEARD;
        if (done.context < WORDS)
            came[word[end->side][done.context]]++;
    }
    return heard;
}

/* Done with when it is posted, so it may go ahead of the attach. An endpoint that has ended refuses it. */
static int say(struct pair_end *end, uint64_t tag, uint64_t value)
{
    struct nigh_send send = pair_a_send(&value, sizeof(value), tag, 0);

    send.flags = NIGH_INJECT | NIGH_SILENT;
    return nigh->post_send(end->peer, &send);
}

static void act(struct pair_end *end, char what)
{
    uint64_t until = now_ms() + 3;

    if (what == '+')
        pair_connect(end);
    else if (what == '-')
        pair_disconnect(end);
    else if (what == '!' && end->peer)
        (void)say(end, 1, __atomic_fetch_add(&said, 1, __ATOMIC_RELAXED) % WORDS);
    else if (what == '.')
        do
            (void)look(end);
        while (now_ms() < until);
    else
        (void)look(end);
}

/* ---- getting through -------------------------------------------------------------------------------------------- */

struct talker {
    struct pair_end *end;
    bool posted, heard;
    unsigned again;
    uint64_t got;
};

static void begin(struct talker *talker, struct pair_end *end)
{
    struct nigh_recv recv = pair_a_recv(&talker->got, sizeof(talker->got), TAG, HEARD);

    *talker = (struct talker){.end = end};
    if (end)
        CHECK_INT(nigh->post_recv(end->context, NULL, &recv), 0);
}

/* What a host does that has something to say: again where the peer has left. */
static void step(struct talker *talker, volatile uint64_t *heard, uint64_t round)
{
    struct pair_end *end = talker->end;

    if (!end)
        return;
    if (look(end)) {
        CHECK_INT(talker->got, 5);
        __atomic_store_n(&heard[end->side], round, __ATOMIC_RELEASE);
    }
    if (end->peer && pair_state_now(end) >= NIGH_PEER_CLOSED) {
        pair_disconnect(end);
        talker->posted = false;
        talker->again++;
    }
    pair_connect(end);
    if (!talker->posted)
        talker->posted = say(end, TAG, 5) == 0;
}

static bool through(const volatile uint64_t *heard, uint64_t round)
{
    return __atomic_load_n(&heard[0], __ATOMIC_ACQUIRE) == round &&
           __atomic_load_n(&heard[1], __ATOMIC_ACQUIRE) == round;
}

/* Shared words: 0, 1 the last round that this side has heard of. Returns how often a side had to connect once more. */
static unsigned talk(struct pair *pair, uint64_t round)
{
    struct talker talkers[2];
    uint64_t until = now_ms() + PATIENCE_MS;

    begin(&talkers[0], pair->end[0]);
    begin(&talkers[1], pair->end[1]);
    while (!through(pair->shared, round)) {
        step(&talkers[0], pair->shared, round);
        step(&talkers[1], pair->shared, round);
        sched_yield();
        if (now_ms() > until)
            pair_fail(__FILE__, __LINE__, "round %llu: nothing comes", (unsigned long long)round);
    }
    return talkers[0].again + talkers[1].again;
}

static void each(struct pair *pair, void (*does)(struct pair_end *end))
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            does(pair->end[i]);
}

/* ---- cases ---------------------------------------------------------------------------------------------------- */

/* In each of these both are there in the end, so nobody has to connect once more. */
static void in_this_order(struct pair *pair)
{
    const char *script = pair->of->data;

    each(pair, pair_open);
    for (; *script; script += 2)
        act(pair->end[script[0] - '0'], script[1]);
    CHECK_INT(talk(pair, 1), 0);
}

static void receive_words(struct pair_end *end)
{
    for (uint64_t i = 0; i < WORDS; i++) {
        struct nigh_recv recv = pair_a_recv(&word[end->side][i], sizeof(word[0][i]), 1, i);

        CHECK_INT(nigh->post_recv(end->context, NULL, &recv), 0);
    }
}

/*
 * What the pair's number names, bit by bit, was said to one that did not leave, and comes; nothing comes twice. Which of a
 * greeting and an answer is heard first is the kernel's choice, hence several times.
 */
static void no_word_comes_twice(struct pair *pair)
{
    for (uint64_t round = 1; round <= TIMES; round++) {
        said = 0;
        memset(came, 0, sizeof(came));
        each(pair, pair_open);
        each(pair, receive_words);
        for (const char *script = pair->of->data; *script; script += 2)
            act(pair->end[script[0] - '0'], script[1]);
        (void)talk(pair, round);
        for (unsigned i = 0; i < WORDS; i++)
            CHECK_INT(came[i], pair->of->number >> i & 1 || came[i] == 1);
        each(pair, pair_close);
    }
}

/* Whatever the order. */
static void in_any_order(struct pair *pair)
{
    for (uint64_t round = 1; round <= pair->of->number; round++) {
        unsigned seed[2] = {(unsigned)round * 2, (unsigned)round * 2 + 1};

        each(pair, pair_open);
        pair_meet();
        for (unsigned i = 0; i < STEPS; i++) {
            unsigned first = (unsigned)rand_r(&seed[0]) % 2;

            for (unsigned k = 0; k < 2; k++) {
                unsigned side = (first + k) % 2;

                if (pair->end[side])
                    act(pair->end[side], "+++--!?."[rand_r(&seed[side]) % 8]);
            }
        }
        (void)talk(pair, round);
        pair_meet();
        each(pair, pair_close);
        pair_meet();
    }
}

int main(int argc, char **argv)
{
#define CASE(name_, play_, forms_, number_, data_)                                              \
    {                                                                                           \
        .name = name_, .play = play_, .forms = forms_, .number = number_, .data = data_,        \
        .how = PAIR_MANUAL | PAIR_LOOSE, .options = {.heap_bytes = SMALL, .pool_bytes = SMALL}, \
    }
#define ORDER(what_, script_)        CASE(what_, in_this_order, PAIR_TWO, 0, script_)
#define ONCE(what_, comes_, script_) CASE(what_, no_word_comes_twice, PAIR_TWO, comes_, script_)
    static const struct pair_case cases[] = {
        ORDER("it comes back unseen", "0+0-0.0+1.0."),
        ORDER("it comes back unseen, with words", "0+0!0-0.0+0!1.0."),
        ORDER("it comes back, and the other dials", "0+0-0.0+1+1.0."),
        ORDER("it comes back, and has looked first", "0+0-0.0+1+0.1."),
        ORDER("it has left, and the other dials", "0+0-0.1+0.1."),
        ORDER("it has left, and nobody has looked", "0+0-1+1.0."),
        ONCE("it reads, leaves and comes back", 0, "0+0-1+1!0?0+0-"),
        ONCE("it answers, speaks and leaves", 2, "0+0-1+1!0?0+0!0-"),
        ONCE("both dial, one speaks and leaves", 1, "0+1+0-0?0?0+0!0-"),
        CASE("any order", in_any_order, PAIR_APART, 60, NULL),
    };

    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
