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

/* Of a put of the victim's. */
static void test_put_granted_twice(void **state)
{
    struct nigh_rma rma = {
        .size = sizeof(rma), .flags = NIGH_DEVICE, .buffer = memory, .bytes = BYTES, .key = 77, .context = 9};
    struct nigh_wire_remote what;
    struct nigh_slot slot;

    (void)state;
    assert_int_equal(hosted_ops->post_put(to_foe, &rma), 0);
    slot = hear(NIGH_K_PUT);
    assert_int_equal(nigh_head_flags(slot.head), NIGH_F_REFERS);
    memcpy(&what, slot.payload, sizeof(what));
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), what.refer.id, NIGH_GRANT_AGAIN, NULL, 0);
    slot = hear(NIGH_K_PUT); /* in pieces */
    assert_int_equal(nigh_head_flags(slot.head) & NIGH_F_REFERS, 0);
    foe_send(&foe, nigh_head_make(NIGH_K_GRANT, 0, 0, 0), what.refer.id, NIGH_GRANT_AGAIN, NULL, 0);
    is_broken();
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
        CASE(test_put_granted_twice),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
