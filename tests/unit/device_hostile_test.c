/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that lies about device memory: what it has brought, what it names, what it asks for twice. It breaks, or hears that it is to
 * send in pieces; nothing waits for it, and nothing stays open. A foe of another process and its pointers: refer_is_sound(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/device_siege.h"
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { FLOOD = 2000, PARCELS = 300, FDS = 4 };

static unsigned descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    assert_non_null(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* ---- what it names ---- */

static void test_never_brought(void **state)
{
    struct nigh_slot slot;

    (void)state;
    refer(7, 0, BYTES);
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, NIGH_GRANT_WAITED | NIGH_GRANT_AGAIN);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_no_number(void **state)
{
    (void)state;
    refer(0, 0, BYTES);
    is_broken();
}

/* A lend of nothing would be at no address. */
static void test_no_bytes(void **state)
{
    (void)state;
    refer(7, 0, 0);
    is_broken();
}

static void test_no_record(void **state)
{
    unsigned before = descriptors();
    uint8_t nonsense[100];

    (void)state;
    memset(nonsense, 0xa5, sizeof(nonsense));
    assert_int_equal(bring(7, nonsense, sizeof(nonsense), (const int[]){0}, 1), 0);
    refer(7, 0, BYTES);
    is_broken();
    hosted_turns(&victim, &good, 100);
    assert_true(descriptors() <= before);
}

static void test_honest(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, 0, BYTES);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 1)->status, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
}

static void test_outside(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, UINT64_MAX - 9, 10); /* the sum is 0 */
    is_broken();
}

static void test_too_long(void **state)
{
    (void)state;
    bring_memory(7);
    refer(7, 0, UINT64_MAX);
    is_broken();
}

/* ---- floods ---- */

static void test_drops(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < FLOOD; i++) {
        foe_send(&foe, nigh_head_make(i % 2 ? NIGH_K_DROPPED : NIGH_K_DROP, 0, 0, 0), i, 0, NULL, 0);
        if (i % 2 == 0)
            assert_int_equal(hear(NIGH_K_DROPPED).tag, i);
    }
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

/* What nobody asks for is bounded, and goes with its peer. */
static void test_parcels(void **state)
{
    const int fds[FDS] = {0, 0, 0, 0};
    unsigned before = descriptors(), most = 0;

    (void)state;
    for (uint64_t i = 1; i <= PARCELS; i++) {
        while (bring(i, out, 100, fds, FDS) == -EAGAIN)
            hosted_turns(&victim, &good, 1);
        hosted_turns(&victim, &good, 1);
        most = descriptors() > most ? descriptors() : most;
    }
    assert_true(most > before + FDS && most <= before + 64 * FDS + 16);
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    nigh_store_relaxed(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1);
    foe_wake(&foe);
    for (unsigned i = 0; descriptors() > before; i++) {
        assert_true(i < 100000);
        hosted_turns(&victim, &good, 10);
    }
}

/* ---- what it answers ---- */

static void test_granted_twice(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, NIGH_GRANT_AGAIN, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, NIGH_GRANT_AGAIN, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

static void test_finished_and_granted(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_FINISH, 0, 0, 0), id, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, 0, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, 0);
}

static void test_finished_in_pieces(void **state)
{
    uint64_t id = sent();

    (void)state;
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), id, 0, NULL, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_FINISH, 0, 0, 0), id, 0, NULL, 0);
    is_broken();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_SEND, 2)->status, -EPROTO);
}

/* ---- puts and gets by reference ---- */

static uint64_t registered(void)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                 .buffer = place,
                                 .bytes = BYTES};
    struct nigh_region *region;
    uint64_t key = 0;

    assert_int_equal(hosted_ops->register_memory(victim.context, &what, &key, &region), 0);
    return key;
}

static void put(uint64_t key, uint64_t number, uint64_t where, uint64_t total)
{
    const struct nigh_wire_remote what = {
        .refer = {.total = total, .where = where, .id = 3, .refer = NIGH_REFER_DEVICE, .number = number}};

    foe_send(&foe, nigh_head_make(NIGH_K_PUT, 0, 0, NIGH_F_REFERS), key, 0, &what, sizeof(what));
}

static void test_put(void **state)
{
    uint64_t key = registered();
    struct nigh_slot slot;

    (void)state;
    put(key, 7, 0, BYTES); /* never brought */
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, NIGH_GRANT_AGAIN);
    put(key + 1, 7, 0, BYTES);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -EACCES);
    put(key, 7, 0, BYTES + 1);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal((int)(int64_t)slot.imm, -ERANGE);
    bring_memory(7);
    put(key, 7, 0, BYTES);
    slot = hear(NIGH_K_FINISH);
    assert_int_equal(slot.tag, 3);
    assert_int_equal(slot.imm, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_put_outside(void **state)
{
    uint64_t key = registered();

    (void)state;
    bring_memory(7);
    put(key, 7, (uint64_t)1 << 40, BYTES);
    is_broken();
}

static void test_put_of_nothing(void **state)
{
    uint64_t key = registered();

    (void)state;
    put(key, 7, 0, 0);
    is_broken();
}

/* A get of the victim's, to `to`: its number. */
static uint32_t asked(void *to, uint32_t flags)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .flags = flags, .buffer = to, .bytes = BYTES, .key = 77, .context = 9};
    struct nigh_wire_get get;
    struct nigh_slot slot;

    assert_int_equal(hosted_ops->post_get(to_foe, &rma), 0);
    slot = hear(NIGH_K_GET);
    memcpy(&get, slot.payload, sizeof(get));
    assert_int_equal(get.flags, flags ? NIGH_GET_REFER : 0);
    return get.id;
}

static void reply(uint64_t id, uint64_t total)
{
    const struct nigh_wire_remote what = {
        .refer = {.total = total, .id = 3, .refer = NIGH_REFER_DEVICE, .number = 7}};

    foe_send(&foe, nigh_head_make(NIGH_K_REPLY, 0, 0, NIGH_F_REFERS), id, 0, &what, sizeof(what));
}

static void test_reply(void **state)
{
    uint64_t id = asked(place, NIGH_DEVICE);
    struct nigh_slot slot;

    (void)state;
    reply(id, BYTES); /* never brought: it is asked for in pieces, and may come by reference again */
    slot = hear(NIGH_K_GRANT);
    assert_int_equal(slot.tag, 3);
    bring_memory(7);
    reply(id, BYTES);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_GET, 9)->status, 0);
    cuda->get(in, place, BYTES);
    assert_memory_equal(in, out, BYTES);
}

static void test_reply_twice(void **state)
{
    uint64_t id = asked(place, NIGH_DEVICE);

    (void)state;
    reply(id, BYTES);
    reply(id, BYTES);
    is_broken();
}

static void test_reply_to_the_host(void **state)
{
    (void)state;
    reply(asked(in, 0), BYTES);
    is_broken();
}

static void test_reply_of_another_length(void **state)
{
    (void)state;
    reply(asked(place, NIGH_DEVICE), BYTES - 1);
    is_broken();
}

/* A reference of the victim's, in a PUT or a REPLY: its number. */
static uint64_t referred(enum nigh_kind kind)
{
    struct nigh_slot slot = hear(kind);
    struct nigh_wire_remote what;

    assert_int_equal(nigh_head_flags(slot.head), NIGH_F_REFERS);
    memcpy(&what, slot.payload, sizeof(what));
    return what.refer.id;
}

static uint64_t put_posted(void)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .flags = NIGH_DEVICE, .buffer = memory, .bytes = BYTES, .key = 77, .context = 9};

    assert_int_equal(hosted_ops->post_put(to_foe, &rma), 0);
    return referred(NIGH_K_PUT);
}

static void answer(enum nigh_kind kind, uint64_t id, uint64_t imm)
{
    foe_send(&foe, nigh_head_make(kind, 0, 0, 0), id, imm, NULL, 0);
}

static int put_status(void)
{
    return hosted_until(&victim, &good, NIGH_OP_PUT, 9)->status;
}

/* What it has lost it is brought again once, and then sent; that is granted by nobody. */
static void test_put_granted(void **state)
{
    uint64_t id = put_posted();
    struct nigh_slot slot;

    (void)state;
    answer(NIGH_K_GRANT, id, NIGH_GRANT_AGAIN);
    id = referred(NIGH_K_PUT);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_AGAIN);
    slot = hear(NIGH_K_PUT); /* in pieces */
    assert_int_equal(nigh_head_flags(slot.head) & NIGH_F_REFERS, 0);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_AGAIN);
    is_broken();
    assert_int_equal(put_status(), -EPROTO);
}

static void test_put_finished_and_granted(void **state)
{
    uint64_t id = put_posted();

    (void)state;
    answer(NIGH_K_FINISH, id, 0);
    answer(NIGH_K_GRANT, id, 0);
    is_broken();
    assert_int_equal(put_status(), 0);
}

static void test_put_granted_and_finished(void **state)
{
    uint64_t id = put_posted();

    (void)state;
    answer(NIGH_K_GRANT, id, 0);
    answer(NIGH_K_FINISH, id, 0);
    is_broken();
    assert_int_equal(put_status(), -EPROTO);
}

/* Its target leaves, and says so before it says goodbye. */
static void test_put_given_up(void **state)
{
    (void)state;
    answer(NIGH_K_FINISH, put_posted(), (uint64_t)(int64_t)-ECANCELED);
    assert_int_equal(put_status(), -ECONNRESET);
}

/* ---- gets of the victim's memory ---- */

static struct nigh_region *shown;

/* A get of it: the number of the victim's reference. What is reserved, or out, is compared later. */
static uint64_t get_referred(void)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REGISTER_DEVICE | NIGH_REGISTER_EVENTS,
                                 .buffer = place,
                                 .bytes = BYTES,
                                 .context = 41};
    const struct nigh_wire_get get = {.total = BYTES, .id = 5, .flags = NIGH_GET_REFER};
    uint64_t key = 0, id;

    assert_int_equal(hosted_ops->register_memory(victim.context, &what, &key, &shown), 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GET, 0, 0, 0), key, 0, &get, sizeof(get));
    id = referred(NIGH_K_REPLY);
    assert_int_equal(hosted_ops->deregister(victim.context, shown), -EBUSY);
    return id;
}

/* What operations hold: of the completion queue, and of the slabs. */
struct held {
    uint64_t promised;
    uint32_t sends, messages;
};

static struct held held(void)
{
    const struct nigh_context *context = victim.context;

    return (struct held){.promised = context->cq.promised - context->cq.tail,
                         .sends = context->send_ops.used,
                         .messages = context->messages.used};
}

/* Nothing more is held, but for `ended` receives, which hold less. */
static void is_as(struct held before, unsigned ended)
{
    struct held now;

    hosted_turns(&victim, &good, 10);
    now = held();
    assert_int_equal(now.promised + ended, before.promised);
    assert_int_equal(now.sends, before.sends);
    assert_int_equal(now.messages, before.messages);
}

static void is_free(void)
{
    assert_int_equal(hosted_ops->deregister(victim.context, shown), 0);
}

static bool is_told(void)
{
    return hosted_find(&victim, NIGH_OP_REMOTE_GET, 41) != NULL;
}

static void test_get_finished_twice(void **state)
{
    struct held before = held();
    uint64_t id = get_referred();

    (void)state;
    answer(NIGH_K_FINISH, id, 0);
    hosted_until(&victim, &good, NIGH_OP_REMOTE_GET, 41);
    is_as(before, 0);
    is_free();
    answer(NIGH_K_FINISH, id, 0);
    is_broken();
}

static void test_get_failed(void **state)
{
    struct held before = held();
    uint64_t id = get_referred();

    (void)state;
    answer(NIGH_K_FINISH, id, (uint64_t)(int64_t)-EIO);
    is_as(before, 0);
    is_free();
    assert_false(is_told());
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_get_granted(void **state)
{
    struct held before = held();
    uint64_t id = get_referred();

    (void)state;
    answer(NIGH_K_GRANT, id, NIGH_GRANT_AGAIN);
    id = referred(NIGH_K_REPLY);
    answer(NIGH_K_GRANT, id, NIGH_GRANT_AGAIN);
    assert_int_equal(nigh_head_flags(hear(NIGH_K_REPLY).head) & NIGH_F_REFERS, 0);
    answer(NIGH_K_GRANT, id, 0); /* pieces are not granted */
    is_broken();
    is_as(before, 1);
    is_free();
    assert_false(is_told());
}

static void test_get_left(void **state)
{
    struct held before = held();

    (void)state;
    get_referred();
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    is_as(before, 1);
    is_free();
    assert_false(is_told());
}

/* ---- in the middle ---- */

/* Until the reference has come, and waits for its memory: the pass that takes it asks for a look at the sockets. */
static void wait_for_memory(void)
{
    for (unsigned i = 0; !to_foe->device_receives; i++) {
        assert_true(i < POLLS);
        hosted_poll(&victim);
    }
}

static void show(void)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE | NIGH_REGISTER_EVENTS,
                                 .buffer = place,
                                 .bytes = BYTES,
                                 .context = 41};
    uint64_t key = 0;

    assert_int_equal(hosted_ops->register_memory(victim.context, &what, &key, &shown), 0);
    put(key, 7, 0, BYTES);
    wait_for_memory();
}

static void test_put_left(void **state)
{
    struct held before = held();

    (void)state;
    show();
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    is_as(before, 1);
    is_free();
    assert_null(hosted_find(&victim, NIGH_OP_REMOTE_PUT, 41));
}

static void test_put_broken(void **state)
{
    struct held before = held();

    (void)state;
    show();
    answer(NIGH_K_FINISH, 12345, 0);
    is_broken();
    is_as(before, 1);
    is_free();
    assert_null(hosted_find(&victim, NIGH_OP_REMOTE_PUT, 41));
}

static void leave(void)
{
    nigh_store_relaxed(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1);
    foe_wake(&foe);
}

static void test_put_deserted(void **state)
{
    struct held before = held();

    (void)state;
    show();
    leave();
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 1)->status, -ECONNRESET);
    is_as(before, 1);
    is_free();
    assert_null(hosted_find(&victim, NIGH_OP_REMOTE_PUT, 41));
}

static int get_status(void)
{
    return hosted_until(&victim, &good, NIGH_OP_GET, 9)->status;
}

static void test_reply_cancelled(void **state)
{
    struct held before = held();
    uint64_t id = asked(place, NIGH_DEVICE);

    (void)state;
    reply(id, BYTES);
    wait_for_memory();
    assert_int_equal(hosted_ops->cancel(victim.context, 9), 0);
    assert_int_equal(get_status(), -ECANCELED);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    is_as(before, 0);
    reply(id, BYTES);
    is_broken();
}

/* Before it is answered, or between two answers. */
static void cancelled_before(bool granted)
{
    struct held before = held();
    uint64_t id = asked(place, NIGH_DEVICE);

    if (granted) {
        reply(id, BYTES);
        assert_int_equal(hear(NIGH_K_GRANT).tag, 3);
    }
    assert_int_equal(hosted_ops->cancel(victim.context, 9), 0);
    assert_int_equal(get_status(), -ECANCELED);
    bring_memory(7);
    reply(id, BYTES);
    assert_int_equal(hear(NIGH_K_FINISH).tag, 3);
    is_as(before, 0);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
}

static void test_get_cancelled(void **state)
{
    (void)state;
    cancelled_before(false);
}

static void test_get_cancelled_between(void **state)
{
    (void)state;
    cancelled_before(true);
}

static void test_reply_left(void **state)
{
    struct held before = held();

    (void)state;
    reply(asked(place, NIGH_DEVICE), BYTES);
    wait_for_memory();
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
    assert_int_equal(get_status(), -ECANCELED);
    is_as(before, 1);
}

static void test_reply_deserted(void **state)
{
    struct held before = held();

    (void)state;
    reply(asked(place, NIGH_DEVICE), BYTES);
    wait_for_memory();
    leave();
    assert_int_equal(get_status(), -ECONNRESET);
    is_as(before, 1);
}

/* ---- closed in the middle: stop() ---- */

static void test_put_closed(void **state)
{
    (void)state;
    show();
}

static void test_reply_closed(void **state)
{
    (void)state;
    reply(asked(place, NIGH_DEVICE), BYTES);
    wait_for_memory();
}

static void test_get_closed(void **state)
{
    (void)state;
    get_referred();
}

static void test_granted_closed(void **state)
{
    (void)state;
    answer(NIGH_K_GRANT, put_posted(), 0);
    hear(NIGH_K_PUT);
    answer(NIGH_K_GRANT, get_referred(), NIGH_GRANT_AGAIN);
    hosted_poll(&victim);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, start, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_never_brought),
        CASE(test_no_number),
        CASE(test_no_bytes),
        CASE(test_no_record),
        CASE(test_honest),
        CASE(test_outside),
        CASE(test_too_long),
        CASE(test_drops),
        CASE(test_parcels),
        CASE(test_granted_twice),
        CASE(test_finished_and_granted),
        CASE(test_finished_in_pieces),
        CASE(test_put),
        CASE(test_put_outside),
        CASE(test_put_of_nothing),
        CASE(test_reply),
        CASE(test_reply_twice),
        CASE(test_reply_to_the_host),
        CASE(test_reply_of_another_length),
        CASE(test_put_granted),
        CASE(test_put_finished_and_granted),
        CASE(test_put_granted_and_finished),
        CASE(test_put_given_up),
        CASE(test_get_finished_twice),
        CASE(test_get_failed),
        CASE(test_get_granted),
        CASE(test_get_left),
        CASE(test_put_left),
        CASE(test_put_broken),
        CASE(test_put_deserted),
        CASE(test_reply_cancelled),
        CASE(test_get_cancelled),
        CASE(test_get_cancelled_between),
        CASE(test_reply_left),
        CASE(test_reply_deserted),
        CASE(test_put_closed),
        CASE(test_reply_closed),
        CASE(test_get_closed),
        CASE(test_granted_closed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
