/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives by recv_imm among those of the other slots, with masks of several kinds, and messages of every kind that is
 * short, in any order: each receive gets the message that it must, whether its post takes it, a pass, or it was kept.
 * What is done comes from a seed: NIGH_TEST_SEED, or another one each time, which is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { ROUNDS = 3000, STEPS = 120, LONGEST = 6000, CLASSES = 2 };

static uint64_t seed;

static uint64_t below(uint64_t end)
{
    /* xorshift64* */
    seed ^= seed >> 12;
    seed ^= seed << 25;
    seed ^= seed >> 27;
    return (seed * UINT64_C(2685821657736338717) >> 16) % end;
}

/* What is posted and sent in a round; `taken` by a number of the others. */
static struct receive {
    uint64_t tag, ignore;
    uint32_t tclass, takes;
    unsigned peer;
    bool taken;
    uint8_t room[LONGEST];
} receives[2 * STEPS];
static struct message {
    uint64_t tag;
    uint32_t tclass, bytes;
    unsigned peer;
    bool taken;
    uint8_t payload[LONGEST];
} messages[2 * STEPS];
static uint32_t receive_count, message_count;

static bool fits(const struct receive *receive, const struct message *message)
{
    return !receive->taken && !message->taken && receive->peer == message->peer &&
           receive->tclass == message->tclass && ((receive->tag ^ message->tag) & ~receive->ignore) == 0;
}

static void match(struct receive *receive, struct message *message)
{
    receive->taken = message->taken = true;
    receive->takes = (uint32_t)(message - messages);
}

/* ---- what is done ---------------------------------------------------------------------------------------------- */

static void send_one(unsigned peer, uint32_t tclass, uint64_t tag)
{
    static const uint32_t lengths[] = {0,  1,  7,  8,   8,   8,   8,    9,    39,
                                       40, 41, 64, 104, 105, 300, 1024, 3000, LONGEST};
    struct message *message = &messages[message_count];

    message->peer = peer;
    message->tclass = tclass;
    message->tag = tag;
    message->bytes = lengths[below(sizeof(lengths) / sizeof(lengths[0]))];
    message->taken = false;
    memset(message->payload, (int)message_count, sizeof(message->payload));
    assert_int_equal(hosted_ops->send_imm(peer ? to_other : to, message->payload,
                                          NIGH_SHAPE(message->bytes, tclass), tag, message_count, 0),
                     0);
    for (uint32_t i = 0; i < receive_count && !message->taken; i++)
        if (fits(&receives[i], message))
            match(&receives[i], message);
    message_count++;
}

static void post_by(struct nigh_endpoint *endpoint, struct receive *receive, uint64_t slot)
{
    uint64_t context = (uint64_t)(receive - receives), shape = NIGH_SHAPE(LONGEST, receive->tclass);
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = receive->room,
        .bytes = LONGEST,
        .tag = receive->tag,
        .ignore = receive->ignore,
        .context = context,
        .tclass = receive->tclass,
    };
    int rc;

    if (slot == 0)
        rc = hosted_ops->post_recv(root.context, endpoint, &recv);
    else if (slot == 1 && !receive->ignore)
        rc = hosted_ops->expect(endpoint, receive->room, shape, receive->tag, context, NULL);
    else
        rc = hosted_ops->recv_imm(endpoint, receive->room, shape, receive->tag, receive->ignore, context);
    assert_int_equal(rc, 0);
}

static void post_one(unsigned peer, uint32_t tclass, uint64_t tag, uint64_t ignore)
{
    struct receive *receive = &receives[receive_count++];

    receive->peer = peer;
    receive->tclass = tclass;
    receive->tag = tag;
    receive->ignore = ignore;
    receive->taken = false;
    for (uint32_t i = 0; i < message_count && !receive->taken; i++)
        if (fits(receive, &messages[i]))
            match(receive, &messages[i]);
    post_by(peer ? from_other : from, receive, below(6));
}

static void note(uint32_t state)
{
    struct nigh_note line = {.size = sizeof(line), .state = state, .op = NIGH_NOTE_OP_RECV};

    assert_int_equal(hosted_ops->note(root.context, &line), 0);
}

static void step(uint64_t mask)
{
    unsigned peer = (unsigned)below(2);
    uint32_t tclass = (uint32_t)below(8) == 0;
    uint64_t tag = below(2) | below(3) << 8;

    switch (below(24)) {
    case 0:
        look(1 + (unsigned)below(3));
        break;
    case 1:
        hosted_poll(peer ? &other : &near);
        break;
    case 2:
        note(below(2) ? NIGH_NOTE_BLOCKED : NIGH_NOTE_RUNNING);
        break;
    case 3:
        if (below(20) == 0)
            look(1030); /* a sweep among them, which keeps what it finds */
        break;
    case 4: /* of another shape than most */
        post_one(peer, tclass, tag, below(2) ? 0 : NIGH_IGNORE_ALL);
        break;
    default:
        if (below(2))
            send_one(peer, tclass, tag);
        else
            post_one(peer, tclass, tag, mask);
    }
}

/* ---- what comes of it ------------------------------------------------------------------------------------------ */

/* What is left over gets somebody to take it, and to be taken by. */
static void pair_up(void)
{
    for (uint32_t i = 0, count = message_count; i < count; i++)
        if (!messages[i].taken)
            post_one(messages[i].peer, messages[i].tclass, messages[i].tag, 0);
    for (uint32_t i = 0; i < receive_count; i++)
        if (!receives[i].taken)
            send_one(receives[i].peer, receives[i].tclass, receives[i].tag);
}

static void check(uint64_t round)
{
    static const struct nigh_completion *done[2 * STEPS];

    for (unsigned polls = 0; polls < 100000 && root.count < receive_count; polls++) {
        hosted_turns(&root, &near, 1);
        hosted_poll(&other);
    }
    memset(done, 0, sizeof(done));
    for (unsigned i = 0; i < root.count; i++) {
        assert_true(root.done[i].context < receive_count && !done[root.done[i].context]);
        done[root.done[i].context] = &root.done[i];
    }
    for (uint32_t i = 0; i < receive_count; i++) {
        const struct message *message = &messages[receives[i].takes];

        if (!done[i] || done[i]->imm != receives[i].takes)
            fail_msg("round %llu: receive %u got %lld in place of message %u", (unsigned long long)round, i,
                     done[i] ? (long long)done[i]->imm : -1, receives[i].takes);
        assert_int_equal(done[i]->status, 0);
        assert_int_equal(done[i]->bytes, message->bytes);
        assert_int_equal(done[i]->tag, message->tag);
        assert_int_equal(NIGH_DONE_CLASS(done[i]->flags), message->tclass);
        assert_memory_equal(receives[i].room, message->payload, message->bytes);
    }
}

static void test_any_order(void **state)
{
    static const uint64_t masks[] = {0, 0xff, UINT64_C(0xff00), NIGH_IGNORE_ALL};

    (void)state;
    crowd(&near); /* the other one sends as if it had a CPU */
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint64_t mask = masks[below(4)];

        receive_count = message_count = 0;
        root.count = near.count = other.count = 0;
        for (unsigned i = 0; i < STEPS; i++)
            step(mask);
        pair_up();
        check(round);
    }
}

int main(void)
{
    const char *given = getenv("NIGH_TEST_SEED");
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_any_order, start, stop)};

    seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 20 | (uint64_t)getpid();
    printf("NIGH_TEST_SEED=%#llx\n", (unsigned long long)seed);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
