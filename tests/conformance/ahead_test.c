/* SPDX-License-Identifier: BSD-3-Clause */
/* What is done with when it was posted is read by a peer that has just met its sender, though that never polls again: a
 * program may compute for long behind its first message, or wait for the receiver by other ways. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <sched.h>
#include <string.h>
#include <time.h>

static const struct nigh_ops *nigh;

/* SMALL: contexts are opened by the hundred, and an emulator keeps a table of all that was ever mapped. */
enum { PATIENCE_MS = 10000, SILENT = NIGH_INJECT | NIGH_SILENT, SMALL = 1 << 20 };

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* A receive from anyone, as the receiver has not connected. */
static void expect(struct pair_end *rx, void *to, uint64_t bytes, uint64_t tag, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(to, bytes, tag, context);

    CHECK_INT(nigh->post_recv(rx->context, NULL, &recv), 0);
}

/* The next receive that ends, while nobody but the receiver polls. False: none does. */
static bool ends(struct pair_end *rx, struct nigh_completion *done, unsigned ms)
{
    uint64_t until = now_ms() + ms;

    do {
        if (nigh->poll_completions(rx->context, done, 1) == 1)
            return true;
        sched_yield();
    } while (now_ms() < until);
    return false;
}

static void ends_with(struct pair_end *rx, uint64_t context, uint64_t bytes)
{
    struct nigh_completion done;

    CHECK(ends(rx, &done, PATIENCE_MS));
    CHECK_INT(done.op, NIGH_OP_RECV);
    CHECK_INT(done.status, 0);
    CHECK_INT(done.context, context);
    CHECK_INT(done.bytes, bytes);
}

/* The receiver is there and has not connected; the sender connects, and was never polled. */
static void meet(struct pair *pair)
{
    pair_open(pair->end[1]);
    pair_open(pair->end[0]);
    pair_connect(pair->end[0]);
    CHECK_INT(pair_state_now(pair->end[0]), NIGH_CONNECTING);
}

static void nobody_polls_for_the_sender(struct pair *pair)
{
    static const uint64_t sizes[] = {8, 0, 40, 41, NIGH_INJECT_BYTES};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *to[6];

    meet(pair);
    for (uint32_t i = 0; i < 5; i++) {
        to[i] = data_room(sizes[i]);
        expect(rx, to[i], sizes[i], 1, i);
        pair_send(tx, data_filled(sizes[i], i), sizes[i], 1, SILENT, 0);
    }
    CHECK_INT(pair_state_now(tx), NIGH_CONNECTING);
    for (uint32_t i = 0; i < 5; i++) {
        ends_with(rx, i, sizes[i]);
        data_check(to[i], sizes[i], i, 0);
    }
    /* By now there is an answer, which the next post finds. */
    to[5] = data_room(8);
    expect(rx, to[5], 8, 1, 5);
    pair_send(tx, data_filled(8, 5), 8, 1, SILENT, 0);
    CHECK_INT(pair_state_now(tx), NIGH_READY);
    ends_with(rx, 5, 8);
    data_check(to[5], 8, 5, 0);
    CHECK_INT(pair_stats(tx).sent, 6);
    CHECK_INT(pair_left(tx), 0);
}

/* Nothing goes ahead of what it was posted behind, and of what is told of nothing goes ahead: it may be refused yet. */
static void the_order_is_kept(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t got[5] = {0};
    struct nigh_completion done;

    meet(pair);
    for (uint64_t i = 0; i < 5; i++)
        expect(rx, &got[i], 8, 1, i);
    for (uint64_t i = 0; i < 5; i++)
        pair_send(tx, data_filled(8, i), 8, 1, i == 2 ? 0 : SILENT, i);
    /* The last posts may have found the receiver's answer, had it polled. */
    CHECK_INT(pair_state_now(tx), NIGH_CONNECTING);
    ends_with(rx, 0, 8);
    ends_with(rx, 1, 8);
    CHECK(!ends(rx, &done, 50));
    pair_sent(tx, 2, 8);
    for (uint64_t i = 2; i < 5; i++)
        pair_received(rx, i, 8);
    for (uint64_t i = 0; i < 5; i++)
        data_check(&got[i], 8, i, 0);
}

/* More than a first ring holds: what it does at once, the rest when the sender polls. */
static void more_than_a_ring(struct pair *pair)
{
    enum { COUNT = 500, LEAST = 40 };
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static uint64_t got[COUNT];

    meet(pair);
    for (uint64_t i = 0; i < COUNT; i++) {
        expect(rx, &got[i], 8, 1, i);
        pair_send(tx, &i, 8, 1, SILENT, 0);
    }
    for (uint64_t i = 0; i < LEAST; i++)
        ends_with(rx, i, 8);
    for (uint64_t i = LEAST; i < COUNT; i++)
        pair_received(rx, i, 8);
    for (uint64_t i = 0; i < COUNT; i++)
        CHECK_INT(got[i], i);
}

/* Another context that the sender connects to, by address. */
static void one_more(struct pair *pair, struct nigh_context **context, struct nigh_endpoint **out,
                     uint64_t job)
{
    struct nigh_open options = {.size = sizeof(options),
                                .job = pair->job + job,
                                .ranks = 1,
                                .heap_bytes = SMALL,
                                .pool_bytes = SMALL};
    struct nigh_address address;
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = &address};

    CHECK_INT(nigh->open(&options, context), 0);
    CHECK_INT(nigh->address(*context, &address), 0);
    CHECK_INT(nigh->connect(pair->end[0]->context, &to, out), 0);
}

static void silently(struct nigh_endpoint *to, uint64_t value)
{
    struct nigh_send send = pair_a_send(&value, 8, 1, 0);

    send.flags = SILENT;
    CHECK_INT(nigh->post_send(to, &send), 0);
}

/* The look behind a message to one peer finds the answer of another one: what follows goes to that at once, too. */
static void an_answer_that_another_look_finds(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_endpoint *other;
    struct nigh_context *context;
    uint64_t got[2] = {0};

    meet(pair);
    expect(rx, &got[0], 8, 1, 0);
    expect(rx, &got[1], 8, 1, 1);
    silently(tx->peer, 5);
    ends_with(rx, 0, 8);
    CHECK_INT(pair_state_now(tx), NIGH_CONNECTING);
    one_more(pair, &context, &other, 1);
    silently(other, 6);
    CHECK_INT(pair_state_now(tx), NIGH_READY);
    silently(tx->peer, 7);
    ends_with(rx, 1, 8);
    CHECK(got[0] == 5 && got[1] == 7);
    CHECK_INT(nigh->disconnect(other), 0);
    CHECK_INT(pair_await(tx, NIGH_OP_SEND, 0).status, -ECANCELED);
    CHECK_INT(nigh->close(context), 0);
}

/* More answers than are heard at a time. */
static void the_answer_behind_many(struct pair *pair)
{
    enum { MANY = 80 };
    struct pair_end *tx = pair->end[0];
    struct nigh_context *context[MANY];
    struct nigh_endpoint *to[MANY];
    struct nigh_completion done;

    meet(pair);
    for (uint64_t i = 0; i < MANY; i++)
        one_more(pair, &context[i], &to[i], 1 + i);
    for (uint64_t i = 0; i < MANY; i++)
        for (unsigned tries = 0; tries < 100; tries++) {
            CHECK_INT(nigh->poll_completions(context[i], &done, 1), 0);
            sched_yield();
        }
    tx->peer = to[MANY - 1];
    silently(tx->peer, 1);
    CHECK_INT(pair_state_now(tx), NIGH_READY);
    for (uint64_t i = 0; i < MANY; i++)
        CHECK_INT(nigh->close(context[i]), 0);
}

/* Whoever has it is not told of as one that it did not reach. */
static void a_receiver_that_reads_and_leaves(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t got = 0;

    meet(pair);
    expect(rx, &got, 8, 1, 1);
    pair_send(tx, data_filled(8, 3), 8, 1, SILENT, 4);
    ends_with(rx, 1, 8);
    pair_close(rx);
    pair_state(tx, NIGH_PEER_CLOSED);
    CHECK_INT(pair_left(tx), 0);
}

static struct nigh_address address_of(struct pair_end *end)
{
    struct nigh_address address;

    CHECK_INT(nigh->address(end->context, &address), 0);
    return address;
}

static void connect_to(struct pair_end *end, const struct nigh_address *address)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = address};

    CHECK_INT(nigh->connect(end->context, &to, &end->peer), 0);
}

/* Who is connected to by address when it has left already, and what it had sent has come: its message is received from it. */
static void from_one_that_has_left(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_address address;
    struct nigh_recv recv;
    uint64_t got = 0;

    meet(pair);
    address = address_of(tx);
    pair_send(tx, data_filled(8, 3), 8, 1, SILENT, 4);
    pair_unexpected(rx, 1);
    pair_close(tx);
    if (!pair->of->number) /* else it has said so, and nobody has looked */
        pair_pump_ms(30);
    connect_to(rx, &address);
    recv = pair_a_recv(&got, 8, 1, 1);
    CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
    pair_received(rx, 1, 8);
    data_check(&got, 8, 3, 0);
    pair_state(rx, NIGH_PEER_CLOSED);
}

/* One that has only disconnected is there to be met again, though something of it was not received. */
static void from_one_that_has_disconnected(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_address address;
    struct nigh_recv recv;
    uint64_t got = 0;

    meet(pair);
    address = address_of(tx);
    pair_send(tx, data_filled(8, 3), 8, 1, SILENT, 4);
    pair_unexpected(rx, 1);
    pair_state(tx, NIGH_READY);
    pair_disconnect(tx);
    if (pair->of->number)
        pair_pump_ms(30);
    connect_to(rx, &address);
    recv = pair_a_recv(&got, 8, 2, 2);
    CHECK_INT(nigh->post_recv(tx->context, NULL, &recv), 0);
    pair_send(rx, data_filled(8, 5), 8, 2, SILENT, 0);
    pair_received(tx, 2, 8);
    data_check(&got, 8, 5, 0);
    pair_state(rx, NIGH_READY);
}

/* It cannot be taken back: its receiver may have it. */
static void it_cannot_be_cancelled(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t got = 0;

    meet(pair);
    expect(rx, &got, 8, 1, 1);
    pair_send(tx, data_filled(8, 3), 8, 1, SILENT, 9);
    CHECK_INT(nigh->cancel(tx->context, 9), -ENOENT);
    ends_with(rx, 1, 8);
    data_check(&got, 8, 3, 0);
}

/* Whoever never meets its peer is told. */
static void what_nobody_reads_is_told(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_address address;

    pair_open(rx);
    address = address_of(rx);
    pair_open(tx);
    connect_to(tx, &address);
    pair_send(tx, &address, 8, 1, SILENT, 4);
    pair_send(tx, &address, 8, 1, SILENT, 5);
    pair_close(rx);
    CHECK_INT(pair_await(tx, NIGH_OP_SEND, 4).status, -ECONNRESET);
    CHECK_INT(pair_await(tx, NIGH_OP_SEND, 5).status, -ECONNRESET);
}

static void leaving_tells_of_it(struct pair *pair)
{
    struct pair_end *tx = pair->end[0];

    meet(pair);
    pair_send(tx, &tx, 8, 1, SILENT, 4);
    pair_disconnect(tx);
    CHECK_INT(pair_await(tx, NIGH_OP_SEND, 4).status, -ECANCELED);
}

/*
 * The receiver may have attached and gone to sleep before the message is published: its sender then finds the answer
 * behind the message, and wakes it. Shared words: 0 the receiver is there, 1 what has come, by rounds.
 */
static void sleepers_are_woken(struct pair *pair)
{
    enum { ROUNDS = 200, STEP_NS = 2000, ASLEEP_NS = 20000000 };
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];

    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint64_t got = 0;

        if (rx) {
            struct nigh_completion done;

            pair_open(rx);
            expect(rx, &got, 8, round, 1);
            __atomic_store_n(&pair->shared[0], round, __ATOMIC_RELEASE);
            CHECK_INT(nigh->wait(rx->context, PATIENCE_MS * UINT64_C(1000000)), 0);
            CHECK_INT(nigh->poll_completions(rx->context, &done, 1), 1);
            CHECK(done.op == NIGH_OP_RECV && !done.status && got == round * round);
            CHECK_INT(pair_stats(rx).rescues, 0);
            __atomic_store_n(&pair->shared[1], round, __ATOMIC_RELEASE);
        } else {
            struct timespec pause = {.tv_nsec = round % 20 ? (long)(round % 100) * STEP_NS : ASLEEP_NS};
            uint64_t value = round * round;

            while (__atomic_load_n(&pair->shared[0], __ATOMIC_ACQUIRE) < round)
                sched_yield();
            pair_open(tx);
            pair_connect(tx);
            nanosleep(&pause, NULL);
            pair_send(tx, &value, 8, round, SILENT, 0);
            while (__atomic_load_n(&pair->shared[1], __ATOMIC_ACQUIRE) < round)
                sched_yield();
        }
        pair_meet();
        pair_close(rx ? rx : tx);
        pair_meet();
    }
}

/* Whoever closes behind its last word waits until that is heard: here by one that looks late, and of more than a ring has
 * room for. */
static void the_last_word(struct pair *pair)
{
    enum { COUNT = 300, LATE_NS = 100000000 };
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static uint64_t got[COUNT];

    if (rx)
        pair_open(rx);
    pair_meet();
    if (tx) {
        pair_open(tx);
        pair_connect(tx);
        for (uint64_t i = 0; i < COUNT; i++)
            pair_send(tx, &i, 8, 1, SILENT, 0);
        pair_close(tx);
    } else {
        nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
        for (uint64_t i = 0; i < COUNT; i++)
            expect(rx, &got[i], 8, 1, i);
        for (uint64_t i = 0; i < COUNT; i++)
            ends_with(rx, i, 8);
        for (uint64_t i = 0; i < COUNT; i++)
            CHECK_INT(got[i], i);
    }
    pair_meet();
}

int main(int argc, char **argv)
{
#define NUMBERED(name_, what_, forms_, how_, number_)                                      \
    {                                                                                      \
        .name = #name_ what_, .play = name_, .forms = forms_, .how = PAIR_MANUAL | (how_), \
        .number = number_, .options = {.heap_bytes = SMALL, .pool_bytes = SMALL},          \
    }
#define CASE(name_, forms_, how_) NUMBERED(name_, "", forms_, how_, 0)
    static const struct pair_case cases[] = {
        CASE(nobody_polls_for_the_sender, PAIR_TWO, 0),
        CASE(the_order_is_kept, PAIR_TWO, 0),
        CASE(more_than_a_ring, PAIR_TWO, 0),
        CASE(an_answer_that_another_look_finds, PAIR_TWO, PAIR_LOOSE),
        CASE(the_answer_behind_many, PAIR_TWO, PAIR_LOOSE),
        CASE(a_receiver_that_reads_and_leaves, PAIR_TWO, 0),
        CASE(from_one_that_has_left, PAIR_TWO, 0),
        CASE(from_one_that_has_disconnected, PAIR_TWO, PAIR_LOOSE),
        NUMBERED(from_one_that_has_disconnected, ", which was seen", PAIR_TWO, PAIR_LOOSE, 1),
        NUMBERED(from_one_that_has_left, ", which was not seen", PAIR_TWO, 0, 1),
        CASE(it_cannot_be_cancelled, PAIR_TWO, 0),
        CASE(what_nobody_reads_is_told, PAIR_TWO, PAIR_LOOSE),
        CASE(leaving_tells_of_it, PAIR_TWO, PAIR_LOOSE),
        CASE(sleepers_are_woken, PAIR_FORK | PAIR_THREADS, 0),
        CASE(the_last_word, PAIR_FORK | PAIR_THREADS, 0),
    };

    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
