/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that lies about lends of device memory, or is slow, or leaves: what it asks for again, what it lends and has not brought. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/export.h"
#include "plugin/context.h"
#include "plugin/device_peer.h"
#include "shm/clock.h"
#include "tests/support/device_siege.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <string.h>
#include <unistd.h>

/* ---- lent by the victim ---- */

/* The foe says that it uses the same device, and is taken for another process until lent() has posted to it: its id, and the
 * number of the memory. */
static uint64_t lent(uint64_t *number)
{
    const struct nigh_lend post = {
        .size = sizeof(post), .flags = NIGH_DEVICE, .buffer = memory, .bytes = BYTES, .tag = 2, .context = 2};
    const struct nigh_arena_devices *known = nigh_arena_devices(&victim.context->arena);
    int pid = to_foe->pid;
    struct nigh_wire_refer what;
    struct nigh_slot slot;

    memcpy(nigh_arena_devices(&foe.arena), known, sizeof(*known));
    to_foe->pid = getppid();
    assert_int_equal(hosted_ops->post_lend(to_foe, &post), 0);
    slot = hear(NIGH_K_REFER);
    to_foe->pid = pid;
    assert_int_equal(nigh_head_flags(slot.head), NIGH_F_LENT);
    memcpy(&what, slot.payload, sizeof(what));
    assert_int_equal(what.refer, NIGH_REFER_DEVICE);
    assert_true(nigh_device_peer_has(to_foe, what.number));
    *number = what.number;
    return what.id;
}

static void answer(enum nigh_kind kind, uint64_t id, uint64_t imm)
{
    foe_send(&foe, nigh_head_make(kind, 0, 0, 0), id, imm, NULL, 0);
    for (unsigned i = 0; i < 10; i++) {
        hosted_turns(&victim, &good, 1);
        foe_progress(&foe);
    }
}

static void is_brought(uint64_t number)
{
    for (unsigned i = 0; !nigh_device_peer_has(to_foe, number); i++) {
        assert_true(i < POLLS * 1000);
        foe_progress(&foe);
        hosted_turns(&victim, &good, 1);
    }
}

static void lend_ends(int status)
{
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_LEND, 2)->status, status);
    assert_false(victim.context->devices.scarce);
    assert_null(to_foe->device_sends);
}

/* As often as it likes, and FINISH ends it once. */
static void test_brought_again(void **state)
{
    uint64_t number, id = lent(&number);

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        is_brought(number);
    }
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    answer(NIGH_K_FINISH, id, 0);
    is_broken();
}

/* Given up for other memory that is sent, and brought again: it is given up there once more when that lend is over. */
static void test_brought_and_given_up(void **state)
{
    static const enum nigh_kind ends[] = {NIGH_K_FINISH, NIGH_K_GRANT};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t number, id = lent(&number);
        struct nigh_cuda_export *export = nigh_cuda_seen_take(&victim.context->devices.seen);

        assert_int_equal(export->number, number);
        nigh_device_peers_drop(victim.context, number, false);
        nigh_cuda_export_put(export);
        assert_int_equal(hear(NIGH_K_DROP).tag, number);
        answer(NIGH_K_DROPPED, number, 0);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        is_brought(number);
        answer(ends[i], id, 0);
        assert_int_equal(hear(NIGH_K_DROP).tag, number);
        assert_false(nigh_device_peer_has(to_foe, number));
        lend_ends(0);
        victim.count = 0;
    }
}

/* What cannot go now goes a little later, and not in each pass; who waits meanwhile does not sleep. */
static void test_brought_later(void **state)
{
    static const int passing[] = {EAGAIN, EMFILE};
    uint64_t number, id = lent(&number);

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        osfail_install();
        osfail_arm_all(i ? OSFAIL_socket : OSFAIL_connect, 1, passing[i]);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        hosted_turns(&victim, &good, 20000);
        assert_true(osfail_count(i ? OSFAIL_socket : OSFAIL_connect) > 1);
        assert_true(osfail_count(i ? OSFAIL_socket : OSFAIL_connect) < 5000);
        assert_false(nigh_device_peer_has(to_foe, number));
        assert_true(victim.context->devices.scarce);
        osfail_remove();
        is_brought(number);
        hosted_turns(&victim, &good, 1);
        assert_false(victim.context->devices.scarce);
    }
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
}

/* Not for ever: its receiver does not wait so long. */
static void test_brought_never(void **state)
{
    uint64_t number, id = lent(&number), until = nigh_clock_ns() + 3 * NIGH_DEVICE_BRING_NS;

    (void)state;
    osfail_install();
    osfail_arm_all(OSFAIL_connect, 1, EAGAIN);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    while (victim.context->devices.scarce) {
        assert_true(nigh_clock_ns() < until);
        hosted_turns(&victim, &good, 100);
    }
    osfail_remove();
    answer(NIGH_K_FINISH, id, (uint64_t)(int64_t)-EOPNOTSUPP);
    lend_ends(-EOPNOTSUPP);
}

/* In the middle of that its receiver takes a copy, is done with it, or is left. */
static void test_brought_no_more(void **state)
{
    uint64_t number, id;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        victim.count = 0;
        id = lent(&number);
        osfail_install();
        osfail_arm_all(OSFAIL_connect, 1, EAGAIN);
        answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
        assert_true(victim.context->devices.scarce);
        if (i == 0) {
            answer(NIGH_K_GRANT, id, 0);
            lend_ends(0);
        } else if (i == 1) {
            answer(NIGH_K_FINISH, id, 0);
            lend_ends(0);
        } else {
            assert_int_equal(hosted_ops->disconnect(to_foe), 0);
            lend_ends(-ECANCELED);
        }
        osfail_remove();
        for (struct nigh_slot slot; i == 0 && foe_receive(&foe, &slot);)
            assert_true(nigh_head_kind(slot.head) == NIGH_K_FIRST ||
                        nigh_head_kind(slot.head) == NIGH_K_PIECE);
    }
}

/* A message is no lend. */
static void test_bring_a_message(void **state)
{
    uint64_t id = sent();

    (void)state;
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

static void test_bring_what_is_over(void **state)
{
    uint64_t number, id = lent(&number);

    (void)state;
    answer(NIGH_K_FINISH, id, 0);
    lend_ends(0);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_BRING);
    is_broken();
}

/* ---- lent by the foe ---- */

/* The victim wants one in place, as it would be at `place`. */
static void want_lent(void)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_IN_PLACE | NIGH_DEVICE,
                             .buffer = place,
                             .bytes = BYTES,
                             .tag = 5,
                             .context = 5};

    assert_int_equal(hosted_ops->post_recv(victim.context, to_foe, &recv), 0);
}

static void refer_lent(uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_refer what = {
        .total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number};

    foe_send(&foe, nigh_head_make(NIGH_K_REFER, 0, 0, NIGH_F_LENT), 5, 0, &what, sizeof(what));
}

static const struct nigh_completion *lent_comes(void)
{
    const struct nigh_completion *done = hosted_until(&victim, &good, NIGH_OP_RECV, 5);

    assert_int_equal(done->flags & NIGH_DONE_LENT, done->status ? 0 : NIGH_DONE_LENT);
    return done;
}

/* It is asked for, ever more seldom, and not waited for without end. */
static void test_lent_and_never_brought(void **state)
{
    struct nigh_slot slot;
    unsigned asked = 0;

    (void)state;
    want_lent();
    refer_lent(7, 0, BYTES);
    assert_int_equal(lent_comes()->status, -EOPNOTSUPP);
    while (foe_receive(&foe, &slot) && nigh_head_kind(slot.head) == NIGH_K_GRANT) {
        assert_int_equal(slot.tag, 3);
        assert_int_equal(slot.imm, NIGH_GRANT_BRING);
        asked++;
    }
    assert_true(asked > 1 && asked < 10);
    assert_int_equal(nigh_head_kind(slot.head), NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -EOPNOTSUPP);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* What is lost on its way comes behind the next time that it is asked for. */
static void test_lent_and_lost(void **state)
{
    (void)state;
    want_lent();
    refer_lent(7, 0, BYTES);
    hear(NIGH_K_GRANT);
    for (struct nigh_slot slot; !foe_receive(&foe, &slot);)
        hosted_poll(&victim);
    bring_memory(7);
    assert_int_equal(hosted_ops->release(victim.context, lent_comes()->data), 0);
}

static void test_lent_outside(void **state)
{
    (void)state;
    bring_memory(7);
    want_lent();
    refer_lent(7, UINT64_MAX - 9, 10);
    is_broken();
    assert_int_equal(lent_comes()->status, -EPROTO);
}

/* It is the lender's again as soon as nobody wants it; what is brought behind that is of no use, and no harm. */
static void test_lent_and_cancelled(void **state)
{
    struct nigh_slot slot;

    (void)state;
    want_lent();
    refer_lent(7, 0, BYTES);
    hear(NIGH_K_GRANT);
    assert_int_equal(hosted_ops->cancel(victim.context, 5), 0);
    assert_int_equal(hosted_ops->cancel(victim.context, 5), -ENOENT);
    assert_int_equal(lent_comes()->status, -ECANCELED);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, 0);
    hosted_turns(&victim, &good, 10);
    assert_false(victim.context->devices.scarce);
    bring_memory(7);
    victim.count = 0;
    want_lent();
    refer_lent(7, 0, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, lent_comes()->data), 0);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
}

/* Probed for, and then its lender is gone, or not. */
static void test_lent_and_claimed(void **state)
{
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_IN_PLACE | NIGH_DEVICE,
                             .buffer = place,
                             .bytes = BYTES,
                             .context = 5};
    struct nigh_completion found;
    struct nigh_message *message[2];

    (void)state;
    bring_memory(7);
    for (unsigned i = 0; i < 2; i++) {
        refer_lent(7, 0, BYTES);
        for (unsigned turns = 0;
             hosted_ops->probe(victim.context, to_foe, 5, 0, 0, &found, &message[i]) == -ENOMSG; turns++) {
            assert_true(turns < POLLS * 1000);
            hosted_poll(&victim);
        }
        assert_int_equal(found.bytes, BYTES);
    }
    assert_int_equal(hosted_ops->claim(victim.context, message[0], &recv), 0);
    assert_int_equal(hosted_ops->release(victim.context, lent_comes()->data), 0);
    refer(0, 0, BYTES); /* which no message can be */
    is_broken();
    victim.count = 0;
    assert_int_equal(hosted_ops->claim(victim.context, message[1], &recv), 0);
    assert_int_equal(lent_comes()->status, -ECONNRESET);
}

/* Given up while it is held, and its endpoint ends: it stays as long, and goes then. */
static void test_lent_and_given_up(void **state)
{
    void *held;

    (void)state;
    bring_memory(7);
    want_lent();
    want_lent();
    refer_lent(7, 0, BYTES);
    held = lent_comes()->data;
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    hosted_turns(&victim, &good, 100);
    assert_false(victim.context->devices.scarce);
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, held), 0);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    assert_int_equal(hear(NIGH_K_DROPPED).tag, 7);
    assert_int_equal(hear(NIGH_K_DROPPED).tag, 7);
    bring_memory(7);
    victim.count = 0;
    refer_lent(7, 0, BYTES);
    held = lent_comes()->data;
    foe_send(&foe, nigh_head_make(NIGH_K_DROP, 0, 0, 0), 7, 0, NULL, 0);
    refer(0, 0, BYTES); /* which no message can be */
    is_broken();
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    hosted_turns(&victim, &good, 5000);
    cuda->get(in, held, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_ops->release(victim.context, held), 0);
    assert_int_equal(hosted_ops->release(victim.context, held), -EINVAL);
    hosted_turns(&victim, &good, 5000);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_brought_again),      CASE(test_brought_and_given_up),   CASE(test_brought_later),
        CASE(test_brought_never),      CASE(test_brought_no_more),        CASE(test_bring_a_message),
        CASE(test_bring_what_is_over), CASE(test_lent_and_never_brought), CASE(test_lent_and_lost),
        CASE(test_lent_outside),       CASE(test_lent_and_cancelled),     CASE(test_lent_and_claimed),
        CASE(test_lent_and_given_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
