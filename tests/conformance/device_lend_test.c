/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory that is lent: seen in place by the receiver's device, copied by whoever wants a copy, refused where it cannot be
 * mapped. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 300000, FEW = 3 };

static const struct nigh_ops *nigh;
static char told[4096];

static void keep(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    strncat(told, line, sizeof(told) - strlen(told) - 1);
}

/* Both know each other, and the receiver's device. `to` is memory there. */
static void begin(struct pair *pair, struct buffer *from, struct buffer *to)
{
    device_ready(pair);
    if (pair->end[1]) {
        *to = buffer_make(pair, RECEIVER, ROOM);
        device_say(pair, to);
    }
    if (pair->end[0]) {
        *from = buffer_make(pair, SENDER, ROOM);
        buffer_fill(from, ROOM, 5);
    }
    pair_meet();
}

static int lend(struct pair *pair, const struct buffer *from, uint64_t at, uint64_t bytes, uint64_t tag)
{
    struct nigh_lend post = {.size = sizeof(post),
                             .flags = NIGH_DEVICE,
                             .buffer = from->at + at,
                             .bytes = bytes,
                             .tag = tag,
                             .imm = tag + 1,
                             .context = tag};

    return nigh->post_lend(pair->end[0]->peer, &post);
}

static void want(struct pair *pair, const struct buffer *to, uint64_t bytes, uint64_t tag)
{
    struct nigh_recv recv = pair_a_recv(to->at, bytes, tag, 200 + tag);

    recv.flags = NIGH_IN_PLACE | NIGH_DEVICE;
    CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &recv), 0);
}

/* The one that has come, with the lender's bytes from `at` on. */
static void *comes(struct pair *pair, uint64_t at, uint64_t bytes, uint64_t tag)
{
    struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 200 + tag);
    uint8_t *seen = data_room(bytes);

    CHECK_INT(done.status, 0);
    CHECK_INT(done.flags & NIGH_DONE_LENT, NIGH_DONE_LENT);
    CHECK_INT(done.bytes, bytes);
    CHECK_INT(done.tag, tag);
    CHECK_INT(done.imm, tag + 1);
    cuda->get(seen, done.data, bytes);
    data_check(seen, bytes, 5, at);
    return done.data;
}

/* Expected and not, short and long, several of the same memory at once. */
static void seen_in_place(struct pair *pair)
{
    static const uint64_t lengths[FEW] = {8, 70000, ROOM - 100};
    struct buffer from, to;
    void *held[FEW];

    begin(pair, &from, &to);
    for (uint32_t turn = 0; turn < 2; turn++) {
        for (uint32_t i = 0; i < FEW && pair->end[1] && !turn; i++)
            want(pair, &to, ROOM, i);
        pair_meet();
        for (uint32_t i = 0; i < FEW && pair->end[0]; i++)
            CHECK_INT(lend(pair, &from, 100, lengths[i], i), 0);
        if (pair->end[1] && turn)
            pair_unexpected(pair->end[1], FEW);
        for (uint32_t i = 0; i < FEW && pair->end[1]; i++) {
            if (turn)
                want(pair, &to, ROOM, i);
            held[i] = comes(pair, 100, lengths[i], i);
        }
        pair_meet();
        if (pair->end[0])
            CHECK_INT(pair_left(pair->end[0]), 0);
        pair_meet();
        for (uint32_t i = 0; i < FEW && pair->end[1]; i++)
            CHECK_INT(nigh->release(pair->end[1]->context, held[i]), 0);
        for (uint32_t i = 0; i < FEW && pair->end[0]; i++)
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, i).status, 0);
    }
    if (pair->end[0])
        CHECK_INT(pair_stats(pair->end[0]).lend_sent, 2 * FEW);
    if (pair->end[1])
        CHECK_INT(nigh->release(pair->end[1]->context, held[0]), -EINVAL);
    device_end(pair, &from, &to);
}

/* Whoever wants a copy gets one, on a device or in the host's memory. */
static void copied(struct pair *pair)
{
    struct buffer from, to;
    uint8_t *room = data_room(ROOM);

    begin(pair, &from, &to);
    if (pair->end[1]) {
        buffer_recv(pair, &to, ROOM, 1, 11);
        pair_recv(pair->end[1], room, ROOM, 2, 12);
    }
    pair_meet();
    for (uint32_t i = 1; i <= 2 && pair->end[0]; i++)
        CHECK_INT(lend(pair, &from, 0, ROOM, i), 0);
    if (pair->end[1]) {
        pair_received(pair->end[1], 11, ROOM);
        pair_received(pair->end[1], 12, ROOM);
        buffer_check(&to, 0, ROOM, 5);
        data_check(room, ROOM, 5, 0);
    }
    for (uint32_t i = 1; i <= 2 && pair->end[0]; i++)
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, i).status, 0);
    device_end(pair, &from, &to);
}

/* In place on a device only what was lent of one: all else is spent. */
static void something_else(struct pair *pair)
{
    struct nigh_lend post = {.size = sizeof(post), .bytes = 64, .tag = 3, .context = 3};
    struct buffer from, to;
    void *block = NULL;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 6 && pair->end[1]; i++)
        want(pair, &to, i == 5 ? 100 : ROOM, i);
    pair_meet();
    if (pair->end[0]) {
        pair_send(pair->end[0], data_filled(8, 1), 8, 0, 0, 100);
        pair_send(pair->end[0], data_filled(ROOM, 1), ROOM, 1, 0, 101);
        buffer_send(pair, &from, ROOM, 2, 0, 102);
        CHECK_INT(nigh->heap_alloc(pair->end[0]->context, 64, &block), 0);
        post.buffer = block;
        CHECK_INT(nigh->post_lend(pair->end[0]->peer, &post), 0);
        buffer_send(pair, &from, 64, 4, 0, 104);
        CHECK_INT(lend(pair, &from, 0, 200, 5), 0);
    }
    for (uint32_t i = 0; i < 6 && pair->end[1]; i++) {
        struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 200 + i);

        CHECK_INT(done.status, i == 5 ? -EMSGSIZE : -EOPNOTSUPP);
        CHECK(!done.data);
    }
    if (pair->end[0]) {
        pair_sent(pair->end[0], 100, 8);
        pair_sent(pair->end[0], 101, ROOM);
        pair_sent(pair->end[0], 102, ROOM);
        pair_sent(pair->end[0], 104, 64);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 3).status, 0);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 5).status, 0);
        CHECK_INT(nigh->heap_free(pair->end[0]->context, block), 0);
    }
    device_end(pair, &from, &to);
}

/* Memory that no peer can map, or this one cannot. */
static void not_mapped(struct pair *pair)
{
    struct buffer from, to;
    const char *why = pair->of->data;
    bool refused = why != NULL;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 2 && pair->end[0] && refused; i++) {
        told[0] = 0;
        CHECK_INT(lend(pair, &from, 0, ROOM, 1), -ENOTSUP);
        CHECK(strstr(told, "post_lend: memory of CUDA device 1 cannot be mapped by rank 1: "));
        CHECK(strstr(told, why));
    }
    if (pair->end[1] && !refused) {
        cuda->fail_once("cuMemImportFromShareableHandle", 0);
        want(pair, &to, ROOM, 1);
    }
    pair_meet();
    if (pair->end[0] && !refused)
        CHECK_INT(lend(pair, &from, 0, ROOM, 1), 0);
    if (pair->end[1] && !refused) {
        struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 201);

        CHECK_INT(done.status, -EOPNOTSUPP);
        CHECK(!done.data);
        want(pair, &to, ROOM, 2);
    }
    if (pair->end[0] && !refused)
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, -EOPNOTSUPP);
    pair_meet();
    if (pair->end[0] && !refused)
        CHECK_INT(lend(pair, &from, 0, ROOM, 2), 0);
    if (pair->end[1] && !refused) /* it was lost by that, and is brought again */
        CHECK_INT(nigh->release(pair->end[1]->context, comes(pair, 0, ROOM, 2)), 0);
    if (pair->end[0] && !refused)
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 2).status, 0);
    device_end(pair, &from, &to);
}

/* What is held when its receiver disconnects, closes or dies is the lender's again. */
static void receiver_goes(struct pair *pair)
{
    struct buffer from, to;
    void *held = NULL;

    begin(pair, &from, &to);
    if (pair->end[1])
        want(pair, &to, ROOM, 1);
    pair_meet();
    if (pair->end[0])
        CHECK_INT(lend(pair, &from, 0, ROOM, 1), 0);
    if (pair->end[1]) {
        held = comes(pair, 0, ROOM, 1);
        if (pair->of->how & PAIR_DEATH)
            kill(getpid(), SIGKILL);
        pair_disconnect(pair->end[1]);
        CHECK_INT(nigh->release(pair->end[1]->context, held), 0);
    }
    if (pair->end[0]) {
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, -ECONNRESET);
        buffer_check(&from, 0, ROOM, 5);
        buffer_fill(&from, ROOM, 6);
        buffer_drop(&from);
    }
    if (pair->end[1])
        buffer_drop(&to);
}

/* What is still held when the receiver closes. */
static void held_at_the_end(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    if (pair->end[1])
        want(pair, &to, ROOM, 1);
    pair_meet();
    if (pair->end[0])
        CHECK_INT(lend(pair, &from, 0, ROOM, 1), 0);
    if (pair->end[1]) {
        comes(pair, 0, ROOM, 1);
        pair_close(pair->end[1]);
        buffer_drop(&to);
        CHECK(!cuda->leaks());
    }
    if (pair->end[0])
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_LEND, 1).status, -ECONNRESET);
    pair_meet();
    if (pair->end[0]) {
        buffer_drop(&from);
        pair_close(pair->end[0]);
    }
}

static void opened(struct pair *pair)
{
    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
        }
    held_at_the_end(pair);
}

static void connecting(struct pair *pair)
{
    struct pair_end *lender = pair->end[0];
    struct buffer from;

    if (!lender)
        return;
    pair_open(lender);
    from = buffer_make(pair, SENDER, ROOM);
    pair_connect(lender);
    CHECK_INT(lend(pair, &from, 0, ROOM, 1), -EAGAIN);
    pair_close(lender);
    buffer_drop(&from);
}

#define FRESH    .forms = PAIR_FORK, .how = PAIR_FRESH
#define OF(kind) .number = SENDER | RECEIVER | KIND(kind)
static const struct pair_case cases[] = {
    {.name = "cuMemMap", .play = seen_in_place, FRESH, OF(MEMORY_MAPPED)},
    {.name = "pieces", .play = seen_in_place, FRESH, OF(MEMORY_PIECES)},
    {.name = "cuMemAlloc", .play = seen_in_place, .how = PAIR_FRESH, OF(MEMORY_PLAIN)},
    {.name = "copied", .play = copied, .forms = PAIR_APART, .how = PAIR_FRESH, OF(MEMORY_MAPPED)},
    {.name = "something else", .play = something_else, FRESH, OF(MEMORY_MAPPED)},
    {.name = "managed",
     .play = not_mapped,
     FRESH,
     OF(MEMORY_MANAGED),
     .data = "rank 1: managed memory",
     .options = {.log = keep}},
    {.name = "a pool",
     .play = not_mapped,
     FRESH,
     OF(MEMORY_POOL),
     .data = "rank 1: its memory pool was not created with POSIX descriptors",
     .options = {.log = keep}},
    {.name = "not mapped", .play = not_mapped, FRESH, OF(MEMORY_MAPPED)},
    {.name = "the receiver leaves", .play = receiver_goes, FRESH | PAIR_LOOSE, OF(MEMORY_MAPPED)},
    {.name = "the receiver dies", .play = receiver_goes, FRESH | PAIR_DEATH | PAIR_LOOSE, OF(MEMORY_MAPPED)},
    {.name = "held at the end", .play = opened, FRESH | PAIR_MANUAL | PAIR_LOOSE, OF(MEMORY_MAPPED)},
    {.name = "held at the end, cuMemAlloc",
     .play = opened,
     FRESH | PAIR_MANUAL | PAIR_LOOSE,
     OF(MEMORY_PLAIN)},
    {.name = "connecting", .play = connecting, FRESH | PAIR_MANUAL | PAIR_LOOSE, OF(MEMORY_MAPPED)},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
