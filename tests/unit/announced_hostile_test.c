/* SPDX-License-Identifier: BSD-3-Clause */
/* What a peer announces and never sends reserves next to nothing: neither unexpected messages nor puts into memory that the
 * host copies to. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/footprint.h"
#include "tests/support/siege.h"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* More of them, of 4 GiB each, than an address space of 47 bits has. */
enum { COUNT = 33000, AT_ONCE = 256, TAG = 77, PIECE = 64, TOTAL = 3 * (1 << 20) + 777 };
#define ANNOUNCED UINT32_MAX
#define BOUND     (UINT64_C(1) << 30)

static struct hosted victim, good;
static struct foe foe;
static struct nigh_endpoint *to_foe, *to_good;
static uint8_t in[TOTAL];
static unsigned copies;

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

static uint64_t address_space(void)
{
    unsigned long long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%llu", &pages), 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void announce(uint64_t head, uint64_t tag, uint32_t id, uint32_t eager)
{
    struct nigh_wire_first first = {
        .total = ANNOUNCED, .eager = eager, .id = id, .line = foe_pool_line(&foe), .bytes = PIECE};

    foe_send(&foe, head, tag, 0, &first, sizeof(first));
    if (id % AT_ONCE == AT_ONCE - 1)
        hosted_turns(&victim, &good, 10);
}

/* Everybody else is served, also with what needs memory. */
static void assert_serves(void)
{
    static uint8_t text[TOTAL], got[TOTAL];

    hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_state(&victim, to_foe), NIGH_READY);
    memset(text, 0x5a, sizeof(text));
    assert_int_equal(hosted_send(to_good, 901, 900, text, sizeof(text), 0), 0);
    hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_recv(&good, NULL, 900, 900, got, sizeof(got), 0), 0);
    assert_int_equal(hosted_until(&good, &victim, NIGH_OP_RECV, 900)->status, 0);
    assert_memory_equal(got, text, sizeof(got));
}

static void assert_grew_little(uint64_t before)
{
    if (!FOOTPRINT_OF_A_SANITIZER)
        assert_true(address_space() - before < BOUND);
    assert_serves();
}

static void test_messages(void **state)
{
    uint64_t before = address_space();

    (void)state;
    for (uint32_t id = 0; id < COUNT; id++)
        announce(nigh_head_make(NIGH_K_FIRST, 0, 0, 0), TAG, id, ANNOUNCED);
    hosted_turns(&victim, &good, 100);
    assert_int_equal(hosted_stats(&victim).unexpected, COUNT);
    assert_grew_little(before);
}

/* Of a length that comes at once from honest senders. */
static void test_messages_of_a_mib(void **state)
{
    uint64_t before = address_space();

    (void)state;
    for (uint32_t id = 0; id < COUNT; id++)
        announce(nigh_head_make(NIGH_K_FIRST, 0, 0, 0), TAG, id, NIGH_EARLY_MAX);
    assert_grew_little(before);
}

static int copy(void *arg, const void *from, uint64_t offset, uint64_t bytes)
{
    (void)arg, (void)from, (void)offset, (void)bytes;
    copies++;
    return 0;
}

static int copy_back(void *arg, void *to, uint64_t offset, uint64_t bytes)
{
    (void)arg, (void)to, (void)offset, (void)bytes;
    copies++;
    return 0;
}

static uint64_t offer(struct nigh_region **region)
{
    struct nigh_copies how = {.size = sizeof(how), .read = copy_back, .write = copy};
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_WRITE | NIGH_REGISTER_COPIES,
                                 .bytes = ANNOUNCED,
                                 .buffer = &how,
                                 .copies = &how};
    uint64_t key;

    assert_int_equal(hosted_ops->register_memory(victim.context, &what, &key, region), 0);
    return key;
}

static void test_puts(void **state)
{
    struct nigh_region *region;
    uint64_t before, key = offer(&region);

    (void)state;
    before = address_space();
    for (uint32_t id = 0; id < COUNT; id++)
        announce(nigh_head_make(NIGH_K_PUT, 0, 0, 0), key, id, 0);
    hosted_turns(&victim, &good, 100);
    assert_grew_little(before);
    assert_int_equal(copies, 0);
}

/* One that is sound comes whole among those that are not. */
static void test_one_is_sound(void **state)
{
    enum { STEP = 1 << 16, ID = 900000, OTHER = 78 };
    uint8_t *pool = foe.arena.base + foe.arena.layout.pool_off;
    struct nigh_wire_first first = {.total = TOTAL, .eager = TOTAL, .id = ID};
    struct nigh_wire_piece piece = {.line = foe_pool_line(&foe)};

    (void)state;
    for (uint32_t id = 0; id < AT_ONCE; id++)
        announce(nigh_head_make(NIGH_K_FIRST, 0, 0, 0), TAG, id, ANNOUNCED);
    foe_send(&foe, nigh_head_make(NIGH_K_FIRST, 0, 0, 0), OTHER, 0, &first, sizeof(first));
    for (uint32_t at = 0; at < TOTAL; at += STEP) {
        piece.bytes = TOTAL - at < STEP ? TOTAL - at : STEP;
        memset(pool, (int)(at / STEP + 1), piece.bytes);
        foe_send(&foe, nigh_head_make(NIGH_K_PIECE, 0, 0, 0), ID, 0, &piece, sizeof(piece));
        hosted_turns(&victim, &good, 10);
    }
    assert_int_equal(hosted_recv(&victim, NULL, 10, OTHER, in, sizeof(in), 0), 0);
    assert_int_equal(hosted_until(&victim, &good, NIGH_OP_RECV, 10)->status, 0);
    for (uint32_t at = 0; at < TOTAL; at++)
        if (in[at] != (uint8_t)(at / STEP + 1))
            fail_msg("byte %u is %u", at, in[at]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_messages, start, stop),
        cmocka_unit_test_setup_teardown(test_messages_of_a_mib, start, stop),
        cmocka_unit_test_setup_teardown(test_puts, start, stop),
        cmocka_unit_test_setup_teardown(test_one_is_sound, start, stop),
    };

    hosted_quiet = true;
    return cmocka_run_group_tests_name("announced_hostile", tests, NULL, NULL);
}
