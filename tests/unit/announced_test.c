/* SPDX-License-Identifier: BSD-3-Clause */
/* Long messages that come before their receives: their memory grows as they come, and whichever way they take they arrive
 * whole, received when all of it is there or in the middle, also where memory is scarce for a while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "tests/support/hosted.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MIB = 1 << 20, TAG = 3, MOST = 64 * MIB };

static const uint32_t sizes[] = {MIB, MIB + 1, 3 * MIB - 1, 5 * MIB, 5 * MIB + 13, 2 * MIB, MOST};
static const uint32_t few[] = {5 * MIB + 13, MIB + 1};

static struct hosted a, b;
static struct nigh_endpoint *to;
static uint8_t out[MOST], in[MOST + 1];
static bool scarce;

void *__real_nigh_early_grow(struct nigh_early *early, void *memory, uint64_t from, uint64_t bytes,
                             uint64_t used);
void *__wrap_nigh_early_grow(struct nigh_early *early, void *memory, uint64_t from, uint64_t bytes,
                             uint64_t used);
void *__wrap_nigh_early_grow(struct nigh_early *early, void *memory, uint64_t from, uint64_t bytes,
                             uint64_t used)
{
    return scarce ? NULL : __real_nigh_early_grow(early, memory, from, bytes, used);
}

static int open_with(const char *path)
{
    alarm(300);
    setenv("NIGH_EAGER", "128M", 1);
    if (path)
        setenv("NIGH_PATH", path, 1);
    to = hosted_open_pair(&a, &b, 0);
    return 0;
}

static int by_choice(void **state)
{
    (void)state;
    return open_with(NULL);
}

static int in_chunks(void **state)
{
    (void)state;
    return open_with("chunked");
}

static int by_reference(void **state)
{
    (void)state;
    return open_with("cma");
}

static int stop(void **state)
{
    (void)state;
    scarce = false;
    hosted_close_pair(&a, &b);
    unsetenv("NIGH_EAGER");
    unsetenv("NIGH_PATH");
    return 0;
}

/* NULL: not here yet. */
static const struct nigh_message *kept(void)
{
    return (const struct nigh_message *)(const void *)nigh_match_find(&b.context->matcher, NIGH_ANY, 0, TAG,
                                                                      0, false);
}

/* Until `least` of it is here, or, where it stays with its sender, it is known. */
static void send_early(uint32_t bytes, uint64_t least)
{
    a.count = b.count = 0;
    assert_int_equal(hosted_send(to, 1, TAG, out, bytes, 0), 0);
    for (unsigned i = 0; !kept() || (kept()->kind == NIGH_MSG_PIECES && kept()->got < least); i++) {
        assert_true(i < 1000000);
        hosted_turns(&a, &b, 1);
    }
}

static void receive(uint32_t bytes)
{
    memset(in, 0, bytes + 1);
    assert_int_equal(hosted_recv(&b, NULL, 2, TAG, in, bytes + 1, 0), 0);
    assert_int_equal(hosted_until(&b, &a, NIGH_OP_RECV, 2)->status, 0);
    assert_int_equal(hosted_find(&b, NIGH_OP_RECV, 2)->bytes, bytes);
    assert_int_equal(hosted_until(&a, &b, NIGH_OP_SEND, 1)->status, 0);
    assert_memory_equal(in, out, bytes);
    assert_int_equal(in[bytes], 0);
}

static void test_all_is_there(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        send_early(sizes[i], sizes[i]);
        receive(sizes[i]);
    }
}

static void test_taken_in_the_middle(void **state)
{
    (void)state;
    for (unsigned i = 0; i < sizeof(few) / sizeof(few[0]); i++)
        for (unsigned part = 1; part < 8; part++) {
            send_early(few[i], (uint64_t)few[i] * part / 8);
            receive(few[i]);
        }
}

/* No more is reserved than twice what is here. */
static void test_memory_follows(void **state)
{
    (void)state;
    for (unsigned part = 1; part < 16; part += 2) {
        send_early(16 * MIB, (uint64_t)MIB * part);
        assert_int_equal(kept()->kind, NIGH_MSG_PIECES);
        assert_true(kept()->kept <= 2 * kept()->got || kept()->kept == NIGH_EARLY_MAX);
        receive(16 * MIB);
    }
}

/* Nothing is lost where there is none: it waits in the ring, for memory or for its receive. */
static void test_scarce_for_a_while(void **state)
{
    uint64_t here;

    (void)state;
    for (unsigned again = 0; again < 2; again++) {
        send_early(5 * MIB, 2 * MIB);
        scarce = true;
        hosted_turns(&a, &b, 1000);
        here = kept()->got;
        assert_true(here < 5 * MIB);
        hosted_turns(&a, &b, 1000);
        assert_int_equal(kept()->got, here);
        scarce = again;
        receive(5 * MIB);
        scarce = false;
    }
}

static int fill(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < MOST; at++)
        out[at] = (uint8_t)(at * 7 + at / 256 * 3 + at / 65536 * 5 + at / MIB);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_all_is_there, by_choice, stop),
        cmocka_unit_test_setup_teardown(test_all_is_there, in_chunks, stop),
        cmocka_unit_test_setup_teardown(test_all_is_there, by_reference, stop),
        cmocka_unit_test_setup_teardown(test_taken_in_the_middle, by_choice, stop),
        cmocka_unit_test_setup_teardown(test_taken_in_the_middle, in_chunks, stop),
        cmocka_unit_test_setup_teardown(test_memory_follows, in_chunks, stop),
        cmocka_unit_test_setup_teardown(test_scarce_for_a_while, in_chunks, stop),
    };

    return cmocka_run_group_tests_name("announced", tests, fill, NULL);
}
