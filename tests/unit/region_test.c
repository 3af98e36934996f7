/* SPDX-License-Identifier: BSD-3-Clause */
/* Registered memory and a peer that stops in the middle, or an owner that deregisters in the middle:
 * what is half done is written by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/region.h"
#include "tests/support/siege.h"
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t big[1 << 20];

static int start(void **state)
{
    (void)state;
    alarm(300);
    siege_open(&victim, &foe, &good, &to_foe, &to_good);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    siege_close(&victim, &foe, &good);
    return 0;
}

/* The victim still talks to its other peer. */
static void assert_good_is_served(void)
{
    uint8_t out[256], in[256] = {0};

    memset(out, 0x5a, sizeof(out));
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_send(to_good, 901, 900, out, sizeof(out), 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
    assert_memory_equal(in, out, sizeof(in));
}

static uint64_t head(uint32_t kind, uint32_t flags)
{
    return nigh_head_make(kind, 0, 0, flags);
}

static struct nigh_region *region;
static uint64_t key;

static void offer(void *memory, uint64_t bytes)
{
    struct nigh_register it = {
        .size = sizeof(it), .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE, .buffer = memory, .bytes = bytes};

    assert_int_equal(hosted_ops->register_memory(victim.context, &it, &key, &region), 0);
}

/* A put that stops after its first piece, in the victim's memory. */
static void put_half(struct foe *from)
{
    struct nigh_wire_first first = {.total = 128, .id = 3, .line = foe_pool_line(from), .bytes = 64};

    memset(from->arena.base + from->arena.layout.pool_off, 0x77, 64);
    foe_send(from, head(NIGH_K_PUT, 0), key, 0, &first, sizeof(first));
}

/* A get whose answer is never read. */
static void get_unread(struct foe *from)
{
    struct nigh_wire_get get = {.total = 64 << 20, .id = 3};

    foe_send(from, head(NIGH_K_GET, 0), key, 0, &get, sizeof(get));
}

static void assert_busy(void)
{
    for (unsigned i = 0; i < 100; i++) {
        hosted_turns(&victim, &good, 20);
        if (hosted_ops->deregister(victim.context, region) != -EBUSY)
            fail_msg("it is not busy, or is no more, after %u looks", i);
    }
}

static void assert_free_again(void)
{
    int rc = -EBUSY;

    for (unsigned i = 0; i < 300000 && rc == -EBUSY; i++) {
        hosted_turns(&victim, &good, 20);
        usleep(100);
        rc = hosted_ops->deregister(victim.context, region);
    }
    assert_int_equal(rc, 0);
    assert_int_equal(hosted_ops->deregister(victim.context, region), -EINVAL);
    assert_good_is_served();
}

static void break_it(void)
{
    foe_publish(&foe, head(NIGH_K_END, 0), 0, 0, NULL, 1);
}

static void say_goodbye(void)
{
    nigh_store_release(&foe.pair->closed, nigh_load_relaxed(&foe.pair->closed) | 1, GOODBYE_SAY);
    foe_wake(&foe);
}

static void be_disconnected(void)
{
    assert_int_equal(hosted_ops->disconnect(to_foe), 0);
}

/* Half of a peer's operation keeps a region busy until that peer ends, in whatever way. */
static void half_done(void (*begin)(struct foe *from), void (*end)(void))
{
    void *memory = calloc(1, 64 << 20);

    assert_non_null(memory);
    offer(memory, 64 << 20);
    begin(&foe);
    while (begin == put_half && *(volatile uint8_t *)memory != 0x77)
        hosted_turns(&victim, &good, 20);
    hosted_turns(&victim, &good, 2000);
    assert_busy();
    end();
    assert_free_again();
    free(memory);
}

static void test_half_a_put_and_a_lie(void **state)
{
    (void)state;
    half_done(put_half, break_it);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_BROKEN);
}

static void test_half_a_put_and_a_goodbye(void **state)
{
    (void)state;
    half_done(put_half, say_goodbye);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_PEER_CLOSED);
}

static void test_half_a_put_and_a_disconnect(void **state)
{
    (void)state;
    half_done(put_half, be_disconnected);
}

static void test_an_unread_answer_and_a_lie(void **state)
{
    (void)state;
    half_done(get_unread, break_it);
}

static void test_an_unread_answer_and_a_disconnect(void **state)
{
    (void)state;
    half_done(get_unread, be_disconnected);
}

/* In a process of its own, until it is killed. */
static void put_half_and_stop(uint64_t job)
{
    static struct foe other;

    alarm(300);
    foe_open(&other, job, 5, 0);
    foe_dial(&other, 0);
    while (!other.attached) {
        foe_progress(&other);
        usleep(100);
    }
    foe_ring(&other, 64);
    put_half(&other);
    for (;;) {
        foe_progress(&other);
        usleep(100);
    }
}

static void test_half_a_put_and_a_death(void **state)
{
    uint64_t job = foe.job;
    uint8_t *memory = calloc(1, 4096);
    pid_t child;

    (void)state;
    offer(memory, 4096);
    fflush(NULL);
    child = fork();
    if (child == 0)
        put_half_and_stop(job);
    while (*(volatile uint8_t *)memory != 0x77)
        hosted_turns(&victim, &good, 20);
    assert_busy();
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_free_again();
    free(memory);
}

/* The liar's own table of regions: one, of 768 KiB behind it, which is more than one pass copies. */
enum { SHOWN = 768 << 10 };

static struct nigh_region_entry *show(uint64_t of_key)
{
    struct nigh_region_table *table = (void *)(foe.arena.base + foe_heap(&foe));

    table->count = 1;
    table->at[0] = (struct nigh_region_entry){.key = of_key, .offset = foe_heap(&foe) + 4096, .bytes = SHOWN};
    memset(foe.arena.base + foe_heap(&foe) + 4096, 0x31, SHOWN);
    nigh_store_release(&nigh_arena_state(&foe.arena)->regions, foe_heap(&foe), REGION_SET);
    return &table->at[0];
}

/* Deregistered by its owner while it is copied from, and in other use by then: what came is not given out. */
static int get_while(uint64_t becomes)
{
    uint64_t of_key = UINT64_C(1) << NIGH_KEY_SLOT_SHIFT | 4711;
    struct nigh_region_entry *entry = show(of_key);
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = big, .bytes = SHOWN, .key = of_key, .context = 9};

    victim.count = 0;
    memset(big, 0, SHOWN);
    assert_int_equal(hosted_ops->post_get(to_foe, &rma), 0);
    assert_int_equal(big[0], 0x31);
    assert_int_equal(big[SHOWN - 1], 0);
    nigh_store_release(&entry->key, becomes ? becomes : of_key, REGION_SET);
    return hosted_until(&victim, &good, NIGH_OP_GET, 9)->status;
}

static void test_get_of_what_is_deregistered_meanwhile(void **state)
{
    (void)state;
    assert_int_equal(get_while(0), 0);
    assert_int_equal(big[SHOWN - 1], 0x31);
    assert_int_equal(get_while(UINT64_C(1) << NIGH_KEY_SLOT_SHIFT | 4712), -EACCES);
    assert_int_equal(get_while(UINT64_MAX), -EACCES);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    assert_good_is_served();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_half_a_put_and_a_lie, start, stop),
        cmocka_unit_test_setup_teardown(test_half_a_put_and_a_goodbye, start, stop),
        cmocka_unit_test_setup_teardown(test_half_a_put_and_a_disconnect, start, stop),
        cmocka_unit_test_setup_teardown(test_half_a_put_and_a_death, start, stop),
        cmocka_unit_test_setup_teardown(test_an_unread_answer_and_a_lie, start, stop),
        cmocka_unit_test_setup_teardown(test_an_unread_answer_and_a_disconnect, start, stop),
        cmocka_unit_test_setup_teardown(test_get_of_what_is_deregistered_meanwhile, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
