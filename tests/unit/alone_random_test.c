/* SPDX-License-Identifier: BSD-3-Clause */
/* Receives that wait alone among all that a rank in a crowd posts, sends and takes back, drawn by chance: each message
 * goes to the receive that a model of the order rule names. Between one peer's messages and the receives that name it
 * the rule leaves no choice, whenever either comes; what is from anyone is waited for, so that there is none either.
 * What is done comes from a seed: NIGH_TEST_SEED, or another one each time, which is printed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/stays.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 200000, LIMIT = 3, NUMBERS = 64, LONGEST = 40000, TAG_BITS = 8 };

/* A tag's upper bits number the message; no receive compares them. */
static const uint64_t numbers_of = ~UINT64_C(0) << TAG_BITS;

struct wanted {
    uint32_t number; /* of its buffer, and its context */
    uint32_t source; /* 0 and 1, 2: anyone */
    uint64_t tag, ignore;
};

struct sent {
    uint64_t tag;
    uint32_t bytes;
};

static struct wanted posted[3 * LIMIT];
static struct sent arrived[2][LIMIT];
static uint32_t posts, arrivals[2];
static struct sent due[NUMBERS]; /* what a receive is to get; tag 0: nothing yet */
static uint32_t owed;            /* receives that are to get something, and have not yet */
static bool in_use[NUMBERS];
static uint8_t buffers[NUMBERS][LONGEST], payloads[256][LONGEST];
static uint64_t random_state, messages;
static uint64_t alone, filed, cancelled, cut; /* seen; a run that has not is no test */

static uint32_t draw(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(random_state >> 33) % below;
}

static uint32_t room_of(uint32_t number)
{
    static const uint32_t rooms[] = {0, 8, 39, 40, 100, 3000, LONGEST, LONGEST};

    return rooms[number % 8];
}

static void assert_done(const struct nigh_completion *done)
{
    uint32_t number = (uint32_t)done->context, room = room_of(number);
    const struct sent *sent = &due[number];

    assert_int_equal(done->tag, sent->tag);
    assert_int_equal(done->bytes, sent->bytes);
    assert_int_equal(done->status, sent->bytes > room ? -EMSGSIZE : 0);
    cut += sent->bytes > room;
    if (sent->bytes)
        assert_memory_equal(buffers[number], payloads[sent->tag >> TAG_BITS & 255],
                            sent->bytes < room ? sent->bytes : room);
    due[number].tag = 0;
    in_use[number] = false;
    owed--;
}

static void turn(void)
{
    hosted_turns(&root, &near, 1);
    hosted_poll(&other);
    for (unsigned i = 0; i < root.count; i++)
        if (root.done[i].op == NIGH_OP_RECV)
            assert_done(&root.done[i]);
    root.count = near.count = other.count = 0;
}

static void settle(void)
{
    for (uint32_t i = 0; owed; i++) {
        assert_true(i < 1000000);
        turn();
    }
}

static bool fits(const struct wanted *wanted, uint32_t source, uint64_t tag)
{
    return (wanted->source == 2 || wanted->source == source) && !((wanted->tag ^ tag) & ~wanted->ignore);
}

static void give(const struct wanted *wanted, struct sent sent)
{
    due[wanted->number] = sent;
    owed++;
}

static void remove_post(uint32_t at)
{
    posts--;
    memmove(&posted[at], &posted[at + 1], (posts - at) * sizeof(posted[0]));
}

static void step_send(void)
{
    static const uint32_t lengths[] = {0, 8, 8, 8, 30, 40, 41, 2000, LONGEST};
    uint32_t source = draw(2), at = 0;
    struct sent sent = {.tag = ++messages << TAG_BITS | draw(3), .bytes = lengths[draw(9)]};

    while (at < posts && !fits(&posted[at], source, sent.tag))
        at++;
    if (at == posts && arrivals[source] == LIMIT)
        return;
    assert_int_equal(hosted_send(source ? to_other : to, 0, sent.tag, payloads[messages & 255], sent.bytes,
                                 NIGH_SILENT | (draw(4) ? 0 : NIGH_SYNC)),
                     0);
    if (at == posts) {
        arrived[source][arrivals[source]++] = sent;
        return;
    }
    give(&posted[at], sent);
    source = posted[at].source;
    remove_post(at);
    if (source == 2)
        settle();
}

/* The first that has arrived from a source and fits, LIMIT: none. */
static uint32_t first_of(const struct wanted *wanted, uint32_t source)
{
    for (uint32_t i = 0; i < arrivals[source]; i++)
        if (fits(wanted, source, arrived[source][i].tag))
            return i;
    return LIMIT;
}

static void post(const struct wanted *wanted)
{
    struct nigh_endpoint *peers[] = {from, from_other, NULL}, *peer = peers[wanted->source];
    uint32_t number = wanted->number;
    struct nigh_recv recv = {.size = sizeof(recv),
                             .buffer = buffers[number],
                             .bytes = room_of(number),
                             .tag = wanted->tag,
                             .ignore = wanted->ignore,
                             .context = number};

    if (peer && draw(4))
        assert_int_equal(
            hosted_ops->recv_imm(peer, recv.buffer, NIGH_SHAPE(recv.bytes, 0), recv.tag, recv.ignore, number),
            0);
    else
        assert_int_equal(hosted_ops->post_recv(root.context, peer, &recv), 0);
    alone += root.context->matcher.alone != 0;
    filed += root.context->matcher.posted_count && !root.context->matcher.alone;
}

static void post_like(struct wanted wanted)
{
    uint32_t of = wanted.source == 2 ? first_of(&wanted, 0) == LIMIT : wanted.source, at;

    for (wanted.number = draw(NUMBERS); in_use[wanted.number];)
        wanted.number = (wanted.number + 1) % NUMBERS;
    in_use[wanted.number] = true;
    at = first_of(&wanted, of);
    if (at < LIMIT) {
        give(&wanted, arrived[of][at]);
        arrivals[of]--;
        memmove(&arrived[of][at], &arrived[of][at + 1], (arrivals[of] - at) * sizeof(arrived[of][0]));
    } else {
        posted[posts++] = wanted;
    }
    post(&wanted);
    if (wanted.source == 2)
        settle();
}

static void step_post(void)
{
    struct wanted wanted = {
        .source = draw(32) ? draw(2) : 2, .tag = draw(3), .ignore = numbers_of | (draw(6) ? 0 : draw(4))};

    if (owed + posts == NUMBERS)
        settle();
    if (posts < 3 * LIMIT &&
        (wanted.source < 2 || first_of(&wanted, 0) == LIMIT || first_of(&wanted, 1) == LIMIT))
        post_like(wanted);
}

static void step_cancel(void)
{
    uint32_t at, number;

    if (!posts)
        return;
    settle();
    at = draw(posts);
    number = posted[at].number;
    assert_int_equal(hosted_ops->cancel(root.context, number), 0);
    hosted_poll(&root);
    assert_int_equal(root.count, 1);
    assert_int_equal(root.done[0].context, number);
    assert_int_equal(root.done[0].status, -ECANCELED);
    root.count = 0;
    in_use[number] = false;
    remove_post(at);
    cancelled++;
}

/* So that those behind it may wait alone again. */
static void step_empty(void)
{
    settle();
    while (posts)
        step_cancel();
    for (uint32_t i = 0; i < 2; i++)
        while (arrivals[i])
            post_like((struct wanted){.source = i, .ignore = ~UINT64_C(0)});
    settle();
    assert_int_equal(root.context->matcher.waiting, 0);
    assert_int_equal(root.context->matcher.others, 0);
    assert_int_equal(root.context->matcher.alone, 0);
}

static void step_crowd(void)
{
    root.context->crowd.full = draw(8) != 0;
    nigh_context_settle(root.context);
}

static void test_as_the_model_says(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 256; i++)
        memset(payloads[i], (int)i, LONGEST);
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t what = draw(100);

        if (what < 35)
            step_send();
        else if (what < 70)
            step_post();
        else if (what < 95)
            turn();
        else if (what < 96)
            step_cancel();
        else if (what < 99)
            step_empty();
        else
            step_crowd();
        if (!owed)
            assert_int_equal(root.context->matcher.posted_count, posts);
    }
    step_empty();
    print_message("%llu messages, %llu cut; posts: %llu alone, %llu filed; %llu cancelled\n",
                  (unsigned long long)messages, (unsigned long long)cut, (unsigned long long)alone,
                  (unsigned long long)filed, (unsigned long long)cancelled);
    assert_true(messages > STEPS / 8 && cut > 100 && alone > 1000 && filed > 1000 && cancelled > 100);
}

int main(void)
{
    const char *given = getenv("NIGH_TEST_SEED");
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(test_as_the_model_says, start, stop)};

    random_state = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) << 20 | (uint64_t)getpid();
    printf("NIGH_TEST_SEED=%#llx\n", (unsigned long long)random_state);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
