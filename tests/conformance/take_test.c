/* SPDX-License-Identifier: BSD-3-Clause */
/* Completions read where they lie: all of them, of both kinds, in pieces of any length and in turn with polls. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include "tests/support/taken.h"

static const struct nigh_ops *nigh;

static struct nigh_taken take(struct pair_end *end, uint32_t count)
{
    struct nigh_taken taken = {.size = sizeof(taken)};
    int got = nigh->take_completions(end->context, &taken, count);

    CHECK(got >= 0 && (uint32_t)got <= count);
    CHECK_INT(taken.sent_count + taken.done_count, got);
    return taken;
}

static void send_class(struct pair_end *tx, const void *data, uint64_t bytes, uint32_t tclass,
                       uint64_t context)
{
    struct nigh_send send = pair_a_send(data, bytes, 1, context);

    send.tclass = tclass;
    CHECK_INT(nigh->post_send(tx->peer, &send), 0);
}

static void recv_class(struct pair_end *rx, void *data, uint64_t bytes, uint32_t tclass, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(data, bytes, 1, context);

    recv.tclass = tclass;
    CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
}

/* Most sends are over at once, and short; others are whole, as receives are; each field is there. number: of bytes. */
static void fields(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    uint8_t *from[2] = {data_filled(bytes, 5), data_filled(bytes, 6)}, *got = data_room(bytes);
    struct nigh_taken taken = {0};
    uint32_t sent = 0, done = 0, brief = 0;

    pair_state(tx, NIGH_READY);
    for (unsigned i = 0; i < 200; i++, sent = done = 0) {
        recv_class(rx, got, bytes, 6, 1000 + i);
        send_class(tx, from[i % 2], bytes, 6, i);
        while (!sent || !done) {
            taken = take(tx, 4);
            brief += taken.sent_count;
            for (uint32_t k = 0; k < taken.sent_count; k++, sent++) {
                CHECK_INT(taken.sent[k].context, i);
                CHECK_INT(taken.sent[k].bytes, bytes);
                CHECK_INT(taken.sent[k].tclass, 6);
                CHECK_INT(taken.sent[k].source, 0);
                CHECK(taken.sent[k].endpoint == tx->peer);
            }
            for (uint32_t k = 0; k < taken.done_count; k++) {
                bool received = taken.done[k].op == NIGH_OP_RECV;

                *(received ? &done : &sent) += 1;
                CHECK_INT(taken.done[k].context, received ? 1000 + i : i);
                CHECK_INT(taken.done[k].op, received ? NIGH_OP_RECV : NIGH_OP_SEND);
                CHECK_INT(taken.done[k].status, 0);
                CHECK_INT(taken.done[k].bytes, bytes);
                CHECK_INT(taken.done[k].tag, received);
                CHECK_INT(NIGH_DONE_CLASS(taken.done[k].flags), 6);
                CHECK(taken.done[k].endpoint == rx->peer);
            }
        }
        CHECK(sent == 1 && done == 1);
        data_check(got, bytes, 5 + i % 2, 0);
    }
    CHECK(brief > 150);
}

enum { MANY = 3000 };

/* Nobody polls while they are posted, so there is more than lies ahead of the ring, and than the ring had room for.
 * number: how many are taken at a time; every third time they are polled. */
static void many(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_completion *done = (void *)data_room(MANY * sizeof(*done));
    static uint64_t from[MANY], to[MANY];
    static bool told[MANY];
    uint32_t length = (uint32_t)pair->of->number, sent = 0, received = 0, turn = 0;

    if (tx)
        memset(told, 0, sizeof(told));
    for (uint64_t i = 0; rx && i < MANY; i++)
        pair_recv(rx, &to[i], 8, i, i);
    pair_meet();
    for (uint64_t i = 0; tx && i < MANY; i++) {
        from[i] = ~i;
        pair_send(tx, &from[i], 8, i, i % 5 ? 0 : NIGH_SYNC, i);
    }
    for (; (tx && sent < MANY) || (rx && received < MANY); turn++) {
        struct pair_end *end = tx && (!rx || turn % 2) ? tx : rx;
        int got = turn % 3 ? taken_poll(nigh, end->context, done, length)
                           : nigh->poll_completions(end->context, done, length);

        CHECK(got >= 0 && (uint32_t)got <= length);
        for (int k = 0; k < got; k++) {
            uint64_t i = done[k].context;

            CHECK(i < MANY && !done[k].status && done[k].bytes == 8);
            if (done[k].op == NIGH_OP_SEND) {
                CHECK(!told[i]);
                told[i] = true;
                sent++;
                continue;
            }
            CHECK_INT(i, received);
            CHECK(done[k].tag == i && to[i] == ~i);
            received++;
        }
    }
    pair_meet();
    for (uint32_t side = 0; side < 2; side++)
        if (pair->end[side])
            CHECK_INT(take(pair->end[side], 100).done_count, 0);
}

/* What failed is whole, and so is what was too long. */
static void failures(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t word = 1, small = 0;
    struct nigh_taken taken;

    pair_recv(end, &small, 8, 1, 7);
    CHECK_INT(nigh->cancel(end->context, 7), 0);
    taken = take(end, 1);
    CHECK(taken.sent_count == 0 && taken.done_count == 1 && taken.done->context == 7);
    CHECK_INT(taken.done->status, -ECANCELED);
    pair_recv(end, &small, 4, 1, 8);
    pair_send(end, &word, 8, 1, NIGH_SILENT, 0);
    do
        taken = take(end, 1);
    while (taken.done_count == 0);
    CHECK(taken.done->context == 8 && taken.done->flags & NIGH_DONE_CUT);
    CHECK_INT(taken.done->status, -EMSGSIZE);
}

/* For none it is progress, and takes nothing, whether there is something or not. */
static void none(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t word = 1, got = 0;

    for (unsigned i = 0; i < 100; i++, got = 0) {
        struct nigh_taken taken;

        pair_recv(end, &got, 8, 1, i);
        pair_send(end, &word, 8, 1, i % 2 ? NIGH_SILENT : 0, 1000);
        for (unsigned pass = 0; pass < 10 && !got; pass++)
            (void)take(end, 0);
        CHECK_INT(got, 1);
        if (i % 2 == 0) {
            taken = take(end, 1);
            CHECK_INT(taken.sent_count ? taken.sent->context : taken.done->context, 1000);
        }
        taken = take(end, 1);
        CHECK(taken.done_count == 1 && taken.done->context == i);
    }
}

/* Whoever always has something to take, as it sends once for each that it hears of, hears of what comes as well. */
static void busy(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    static uint64_t word = 1;
    uint64_t got = 0;
    unsigned turns = 0, heard = 0;

    pair_state(end, NIGH_READY);
    pair_recv(end, &got, 8, 7, 500);
    pair_send(end, &word, 8, 7, NIGH_SILENT, 0);
    for (; !heard && turns < 500; turns++) {
        struct nigh_taken taken;

        pair_send(end, &word, 8, 1, 0, turns);
        taken = take(end, 1);
        heard = taken.done_count && taken.done->op == NIGH_OP_RECV;
    }
    CHECK(heard);
    while (turns--) {
        pair_recv(end, &got, 8, 1, turns);
        (void)pair_await(end, NIGH_OP_RECV, turns);
    }
    while (take(end, 1).done_count)
        ;
}

static void mistakes(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    struct {
        struct nigh_taken taken;
        uint64_t later;
    } larger = {.taken = {.size = sizeof(larger)}};
    struct nigh_taken taken = {.size = sizeof(taken)};

    CHECK_INT(nigh->take_completions(NULL, &taken, 1), -EINVAL);
    CHECK_INT(nigh->take_completions(context, NULL, 1), -EINVAL);
    CHECK_INT(nigh->take_completions(context, &taken, (uint32_t)INT32_MAX + 1), -EINVAL);
    CHECK_INT(nigh->take_completions(context, &taken, INT32_MAX), 0);
    CHECK_INT(nigh->take_completions(context, &larger.taken, 1), 0);
    larger.later = 1;
    CHECK_INT(nigh->take_completions(context, &larger.taken, 1), -EINVAL);
    taken.size--;
    CHECK_INT(nigh->take_completions(context, &taken, 1), -EINVAL);
}

/* Others' calls would end what one looks at. Completions stay. */
static void threads(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_taken taken = {.size = sizeof(taken)};
    uint64_t word = 1;

    pair_send(end, &word, 8, 1, 0, 3);
    CHECK_INT(nigh->take_completions(end->context, &taken, 1), -ENOTSUP);
    (void)pair_await(end, NIGH_OP_SEND, 3);
    pair_recv(end, &word, 8, 1, 4);
    pair_received(end, 4, 8);
}

static const struct pair_case cases[] = {
    {.name = "fields, a slot", .play = fields, .forms = PAIR_SELF, .number = 8},
    {.name = "fields, a body", .play = fields, .forms = PAIR_SELF, .number = 600},
    {.name = "fields, a chunk", .play = fields, .forms = PAIR_SELF, .number = 8000},
    {.name = "many, one at a time", .play = many, .number = 1},
    {.name = "many, seven at a time", .play = many, .number = 7},
    {.name = "many, thirty-three at a time", .play = many, .number = 33},
    {.name = "many, all", .play = many, .number = MANY},
    {.name = "what failed", .play = failures, .forms = PAIR_SELF},
    {.name = "none", .play = none, .forms = PAIR_SELF},
    {.name = "busy", .play = busy, .forms = PAIR_SELF, .how = PAIR_LOOSE},
    {.name = "mistakes", .play = mistakes, .forms = PAIR_SELF},
    {.name = "threads", .play = threads, .forms = PAIR_SELF, .options = {.flags = NIGH_OPEN_THREADS}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    CHECK(NIGH_HAS(nigh, take_completions));
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
