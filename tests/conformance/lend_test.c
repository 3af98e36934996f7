/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory handed over without a copy, messages received where they lie, and giving both back. */
#include "tests/support/data.h"
#include "tests/support/pair.h"

static const struct nigh_ops *nigh;

static void *heap_filled(struct pair_end *tx, uint64_t bytes, uint64_t seed)
{
    void *memory;

    CHECK_INT(nigh->heap_alloc(tx->context, bytes ? bytes : 1, &memory), 0);
    data_fill(memory, bytes, seed);
    return memory;
}

static void lend(struct pair_end *tx, const void *buffer, uint64_t bytes, uint32_t flags, uint64_t context)
{
    struct nigh_lend lend = {
        .size = sizeof(lend),
        .flags = flags,
        .buffer = buffer,
        .bytes = bytes,
        .tag = 5,
        .imm = ~UINT64_C(5),
        .context = context,
    };

    CHECK_INT(nigh->post_lend(tx->peer, &lend), 0);
}

static void recv_in_place(struct pair_end *rx, uint64_t most, uint64_t context)
{
    struct nigh_recv recv = pair_a_recv(NULL, most, 5, context);

    recv.flags = NIGH_IN_PLACE;
    CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
}

/* A completion in place, with the data checked. */
static void *taken(struct pair_end *rx, uint64_t context, uint64_t bytes, uint64_t seed)
{
    struct nigh_completion done = pair_received(rx, context, bytes);

    CHECK_INT(done.flags, NIGH_DONE_LENT);
    CHECK_INT(done.tag, 5);
    CHECK_INT(done.imm, ~UINT64_C(5));
    CHECK(done.data != NULL);
    data_check(done.data, bytes, seed, 0);
    return done.data;
}

/* number: bytes | the receive comes later */
#define LATER (UINT64_C(1) << 62)

static void lend_and_release(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number & ~LATER;
    void *memory = tx ? heap_filled(tx, bytes, 1) : NULL, *data = NULL;
    struct nigh_completion done;

    if (rx && !(pair->of->number & LATER))
        recv_in_place(rx, bytes, 1);
    pair_meet();
    if (tx)
        lend(tx, memory, bytes, 0, 2);
    if (rx) {
        if (pair->of->number & LATER) {
            pair_unexpected(rx, 1);
            recv_in_place(rx, bytes, 1);
        }
        data = taken(rx, 1, bytes, 1);
    }
    pair_meet();
    if (tx) {
        CHECK_INT(nigh->heap_free(tx->context, memory), -EBUSY);
        CHECK(!pair_take(tx, NIGH_OP_LEND, 2, &done));
    }
    pair_meet();
    if (rx) {
        CHECK_INT(nigh->release(rx->context, data), 0);
        CHECK_INT(nigh->release(rx->context, data), -EINVAL);
    }
    if (tx) {
        done = pair_await(tx, NIGH_OP_LEND, 2);
        CHECK_INT(done.status, 0);
        CHECK_INT(done.bytes, bytes);
        CHECK_INT(nigh->heap_free(tx->context, memory), 0);
        CHECK_INT(nigh->heap_free(tx->context, memory), -EINVAL);
    }
}

/* The borrower reads the very memory of the lender: what is written later is seen. */
static void same_memory(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    volatile uint8_t *memory = tx ? heap_filled(tx, 4096, 1) : NULL;
    uint8_t *data = NULL;

    if (rx)
        recv_in_place(rx, 4096, 1);
    if (tx)
        lend(tx, (void *)(uintptr_t)memory, 4096, 0, 2);
    if (rx)
        data = taken(rx, 1, 4096, 1);
    pair_meet();
    if (tx)
        memory[100] = (uint8_t)(memory[100] + 1);
    pair_meet();
    if (rx) {
        uint8_t seen = data[100];

        data_check(data, 100, 1, 0);
        data_check(data + 101, 4096 - 101, 1, 101);
        data_check(&(uint8_t){(uint8_t)(seen - 1)}, 1, 1, 100);
        CHECK_INT(nigh->release(rx->context, data), 0);
    }
    if (tx)
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, 0);
}

/* An ordinary receive, and a multi-receive buffer, get a copy, and the lender its memory. */
static void copied(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number;
    uint8_t *to = rx ? data_room(bytes) : NULL, *room = rx ? data_room(bytes + 8) : NULL;
    struct nigh_recv recv = pair_a_recv(room, bytes + 8, 5, 3);
    struct nigh_completion done;

    recv.flags = NIGH_MULTI;
    recv.min_free = 16;
    if (rx) {
        pair_recv(rx, to, bytes, 5, 1);
        recv.min_free = (uint32_t)(bytes + 8 < 16 ? bytes + 8 : 16);
        CHECK_INT(nigh->post_recv(rx->context, rx->peer, &recv), 0);
    }
    pair_meet();
    if (tx) {
        lend(tx, heap_filled(tx, bytes, 1), bytes, 0, 2);
        lend(tx, heap_filled(tx, bytes, 2), bytes, NIGH_SILENT, 4);
    }
    if (rx) {
        CHECK_INT(pair_received(rx, 1, bytes).flags, 0);
        data_check(to, bytes, 1, 0);
        done = pair_received(rx, 3, bytes);
        CHECK_INT(done.flags, NIGH_DONE_RELEASED);
        data_check(done.data, bytes, 2, 0);
    }
    if (tx)
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, 0);
}

/* In place, but sent in the ordinary way. number: bytes, LATER, and bit 61: out of the heap. */
#define HEAPED (UINT64_C(1) << 61)

static void plain_in_place(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t bytes = pair->of->number & ~(LATER | HEAPED);
    void *data;

    if (rx && !(pair->of->number & LATER))
        recv_in_place(rx, bytes + 5, 1);
    pair_meet();
    if (tx)
        pair_send(tx, pair->of->number & HEAPED ? heap_filled(tx, bytes, 1) : data_filled(bytes, 1), bytes, 5,
                  0, 2);
    if (rx && pair->of->number & LATER) {
        pair_unexpected(rx, 1);
        recv_in_place(rx, bytes, 1);
    }
    if (rx) {
        data = taken(rx, 1, bytes, 1);
        CHECK_INT(nigh->release(rx->context, data), 0);
        CHECK_INT(nigh->release(rx->context, data), -EINVAL);
    }
    if (tx)
        pair_sent(tx, 2, bytes);
}

/* Longer than what is accepted: nothing is held, the lender has its memory back. */
static void too_long(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static const uint64_t sizes[] = {8, 100, 2000, 100000, 3000000};
    struct nigh_completion done;

    for (uint32_t i = 0; i < 10; i++) {
        uint64_t bytes = sizes[i / 2];

        if (rx)
            recv_in_place(rx, bytes - 1, i);
        pair_meet();
        if (tx && i & 1)
            lend(tx, heap_filled(tx, bytes, 1), bytes, 0, 100);
        else if (tx)
            pair_send(tx, data_filled(bytes, 1), bytes, 5, 0, 100);
        if (rx) {
            done = pair_await(rx, NIGH_OP_RECV, i);
            CHECK_INT(done.status, -EMSGSIZE);
            CHECK_INT(done.bytes, bytes);
            CHECK_INT(done.flags, 0);
            CHECK(done.data == NULL);
        }
        if (tx)
            CHECK_INT(pair_await(tx, i & 1 ? NIGH_OP_LEND : NIGH_OP_SEND, 100).status, 0);
    }
}

/* Hundreds of parts of one block are lent, held and given back in another order; the block stays while one is out. */
#define MANY 300u

static void many(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint8_t *block = tx ? heap_filled(tx, MANY * 64, 0) : NULL;
    void *data[MANY];

    for (uint32_t i = 0; tx && i < MANY; i++) {
        data_fill(block + i * 64, 64, i);
        lend(tx, block + i * 64, 64, 0, i);
    }
    for (uint32_t i = 0; rx && i < MANY; i++)
        recv_in_place(rx, 64, 1000 + i);
    for (uint32_t i = 0; rx && i < MANY; i++)
        data[i] = taken(rx, 1000 + i, 64, i);
    for (uint32_t i = 0; rx && i < MANY - 1; i++) {
        CHECK_INT(nigh->release(rx->context, data[i * 7 % MANY]), 0);
        CHECK_INT(nigh->release(rx->context, data[i * 7 % MANY]), -EINVAL);
    }
    for (uint32_t i = 0; tx && i < MANY - 1; i++)
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, i * 7 % MANY).status, 0);
    if (tx)
        CHECK_INT(nigh->heap_free(tx->context, block), -EBUSY);
    pair_meet();
    if (rx)
        CHECK_INT(nigh->release(rx->context, data[(MANY - 1) * 7 % MANY]), 0);
    if (tx) {
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, (MANY - 1) * 7 % MANY).status, 0);
        CHECK_INT(nigh->heap_free(tx->context, block), 0);
    }
}

/* The same block lent twice at one time is given back twice. */
static void twice(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    void *block = tx ? heap_filled(tx, 500, 1) : NULL, *first, *second;

    if (tx) {
        lend(tx, block, 500, 0, 1);
        lend(tx, block, 500, 0, 2);
    }
    if (rx) {
        recv_in_place(rx, 500, 1);
        recv_in_place(rx, 500, 2);
        first = taken(rx, 1, 500, 1);
        second = taken(rx, 2, 500, 1);
        CHECK(first == second);
        CHECK_INT(nigh->release(rx->context, first), 0);
        CHECK_INT(nigh->release(rx->context, second), 0);
        CHECK_INT(nigh->release(rx->context, second), -EINVAL);
    }
    if (tx) {
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 1).status, 0);
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, 0);
        CHECK_INT(nigh->heap_free(tx->context, block), 0);
    }
}

static void refused(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];
        uint8_t local[64], *block;
        struct nigh_lend lend = {.size = sizeof(lend), .buffer = local, .bytes = 64};

        if (!end)
            continue;
        block = heap_filled(end, 128, 1);
        CHECK_INT(nigh->post_lend(end->peer, &lend), -EINVAL);
        lend.buffer = NULL;
        CHECK_INT(nigh->post_lend(end->peer, &lend), -EINVAL);
        lend.buffer = block;
        lend.bytes = 1 << 20;
        CHECK_INT(nigh->post_lend(end->peer, &lend), -EINVAL);
        CHECK_INT(nigh->release(end->context, local), -EINVAL);
        CHECK_INT(nigh->release(end->context, NULL), -EINVAL);
        CHECK_INT(nigh->heap_free(end->context, block + 8), -EINVAL);
        CHECK_INT(nigh->heap_free(end->context, NULL), -EINVAL);
        CHECK_INT(nigh->heap_free(end->context, local), -EINVAL);
        CHECK_INT(nigh->heap_free(end->context, block), 0);
    }
}

/* A block whose message is on its way cannot be freed, one that has arrived can. */
static void busy_while_sent(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    void *block = tx ? heap_filled(tx, 200000, 1) : NULL;
    uint8_t *to = rx ? data_room(200000) : NULL;

    if (tx) {
        pair_send(tx, block, 200000, 5, 0, 1);
        CHECK_INT(nigh->heap_free(tx->context, block), -EBUSY);
    }
    pair_meet();
    if (rx) {
        pair_recv(rx, to, 200000, 5, 1);
        pair_received(rx, 1, 200000);
        data_check(to, 200000, 1, 0);
    }
    if (tx) {
        pair_sent(tx, 1, 200000);
        CHECK_INT(nigh->heap_free(tx->context, block), 0);
    }
}

/* What the borrower holds stays readable after the lender has disconnected, and after it has closed. */
static void lender_leaves(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    void *data = NULL;

    if (rx)
        recv_in_place(rx, 100000, 1);
    if (tx)
        lend(tx, heap_filled(tx, 100000, 1), 100000, 0, 2);
    if (rx)
        data = taken(rx, 1, 100000, 1);
    pair_meet();
    if (tx) {
        pair_disconnect(tx);
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, -ECANCELED);
        pair_close(tx);
    }
    pair_meet();
    if (rx) {
        pair_state(rx, NIGH_PEER_CLOSED);
        data_check(data, 100000, 1, 0);
        pair_disconnect(rx);
        pair_pump_ms(5);
        data_check(data, 100000, 1, 0);
        CHECK_INT(nigh->release(rx->context, data), 0);
        pair_pump_ms(5);
    }
}

/* The borrower leaves without giving back: the lender has its memory, with an error. */
static void borrower_leaves(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    void *block = tx ? heap_filled(tx, 5000, 1) : NULL;

    if (rx)
        recv_in_place(rx, 5000, 1);
    if (tx)
        lend(tx, block, 5000, NIGH_SILENT, 2);
    if (rx) {
        taken(rx, 1, 5000, 1);
        pair_close(rx);
    }
    if (tx) {
        CHECK_INT(pair_await(tx, NIGH_OP_LEND, 2).status, -ECONNRESET);
        CHECK_INT(nigh->heap_free(tx->context, block), 0);
    }
}

#define EACH(title, function, n)                       \
    {                                                  \
        .name = title, .play = function, .number = (n) \
    }

static const struct pair_case cases[] = {
    EACH("lend 0 bytes", lend_and_release, 0),
    EACH("lend 8 bytes", lend_and_release, 8),
    EACH("lend 8 bytes, later", lend_and_release, 8 | LATER),
    EACH("lend 9 MiB", lend_and_release, 9 << 20),
    EACH("lend 9 MiB, later", lend_and_release, 9 << 20 | LATER),
    EACH("the same memory", same_memory, 0),
    EACH("copied, 1 byte", copied, 1),
    EACH("copied, 8 bytes", copied, 8),
    EACH("copied, 3 MiB", copied, 3 << 20),
    EACH("in place, 0 bytes", plain_in_place, 0),
    EACH("in place, 8 bytes", plain_in_place, 8),
    EACH("in place, 8 bytes, later", plain_in_place, 8 | LATER),
    EACH("in place, 1000 bytes", plain_in_place, 1000),
    EACH("in place, 1000 bytes, later", plain_in_place, 1000 | LATER),
    EACH("in place, 5 MiB", plain_in_place, 5 << 20),
    EACH("in place, 5 MiB, later", plain_in_place, 5 << 20 | LATER),
    EACH("in place, heap", plain_in_place, 100000 | HEAPED),
    EACH("in place, heap, later", plain_in_place, 100000 | HEAPED | LATER),
    EACH("too long", too_long, 0),
    EACH("many", many, 0),
    EACH("twice", twice, 0),
    EACH("refused", refused, 0),
    EACH("busy while sent", busy_while_sent, 0),
    {.name = "lender leaves", .play = lender_leaves, .forms = PAIR_APART},
    {.name = "borrower leaves", .play = borrower_leaves, .forms = PAIR_APART},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
