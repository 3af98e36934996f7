/* SPDX-License-Identifier: BSD-3-Clause */
/* Slabs: distinct aligned objects, the last given is the next taken, growth, and failure of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/slab.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <string.h>

enum { COUNT = 3000 };

static void objects_are_aligned_and_do_not_overlap(void **state)
{
    static const size_t sizes[] = {1, 64, 65, 192, 1000};

    (void)state;
    for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
        static unsigned char *objects[COUNT];
        struct nigh_slab slab;

        assert_int_equal(nigh_slab_create(&slab, sizes[s], 16), 0);
        for (int i = 0; i < COUNT; i++) {
            objects[i] = nigh_slab_take(&slab);
            assert_non_null(objects[i]);
            assert_int_equal((uintptr_t)objects[i] % 64, 0);
            memset(objects[i], i % 251, sizes[s]);
        }
        assert_int_equal(slab.used, COUNT);
        for (int i = 0; i < COUNT; i++) {
            for (size_t k = 0; k < sizes[s]; k++) {
                if (objects[i][k] != i % 251)
                    fail_msg("size %zu: byte %zu of object %d was overwritten", sizes[s], k, i);
            }
        }
        for (int i = 0; i < COUNT; i++)
            nigh_slab_give(&slab, objects[i]);
        assert_int_equal(slab.used, 0);
        nigh_slab_destroy(&slab);
    }
}

static void the_last_given_is_the_next_taken(void **state)
{
    struct nigh_slab slab;
    void *a, *b;

    (void)state;
    assert_int_equal(nigh_slab_create(&slab, 100, 16), 0);
    a = nigh_slab_take(&slab);
    b = nigh_slab_take(&slab);
    assert_ptr_not_equal(a, b);
    nigh_slab_give(&slab, a);
    nigh_slab_give(&slab, b);
    assert_ptr_equal(nigh_slab_take(&slab), b);
    assert_ptr_equal(nigh_slab_take(&slab), a);
    nigh_slab_destroy(&slab);
}

static void several_are_given_back_at_once(void **state)
{
    struct nigh_slab_free *first;
    struct nigh_slab slab;
    void *objects[5];

    (void)state;
    assert_int_equal(nigh_slab_create(&slab, 100, 16), 0);
    for (int i = 0; i < 5; i++)
        objects[i] = nigh_slab_take(&slab);
    first = slab.free;
    for (int i = 0; i < 5; i++)
        first = nigh_slab_link(&slab, objects[i], first);
    nigh_slab_give_linked(&slab, first, 5);
    assert_int_equal(slab.used, 0);
    for (int i = 4; i >= 0; i--)
        assert_ptr_equal(nigh_slab_take(&slab), objects[i]);
    assert_int_equal(slab.used, 5);
    assert_non_null(nigh_slab_take(&slab));
    nigh_slab_destroy(&slab);
}

static void the_steady_state_allocates_nothing(void **state)
{
    struct nigh_slab slab;
    void *objects[100];

    (void)state;
    osfail_install();
    assert_int_equal(nigh_slab_create(&slab, 100, 100), 0);
    for (int round = 0; round < 1000; round++) {
        for (int i = 0; i < 100; i++)
            objects[i] = nigh_slab_take(&slab);
        for (int i = 0; i < 100; i++)
            nigh_slab_give(&slab, objects[i]);
    }
    assert_int_equal(osfail_count(OSFAIL_calloc), 1);
    osfail_remove();
    nigh_slab_destroy(&slab);
}

static void without_memory_a_take_fails_and_nothing_else(void **state)
{
    struct nigh_slab slab;
    void *last = NULL;

    (void)state;
    assert_int_equal(nigh_slab_create(&slab, 100, 64), 0);
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    for (int i = 0; i < 64; i++) {
        last = nigh_slab_take(&slab);
        assert_non_null(last);
    }
    assert_null(nigh_slab_take(&slab));
    assert_int_equal(osfail_count(OSFAIL_calloc), 3); /* 64, 32, 16 objects */
    assert_int_equal(slab.used, 64);
    nigh_slab_give(&slab, last);
    assert_ptr_equal(nigh_slab_take(&slab), last);
    osfail_remove();
    assert_non_null(nigh_slab_take(&slab));
    assert_int_equal(slab.total, 128);
    nigh_slab_destroy(&slab);
}

static void where_memory_is_short_fewer_are_added(void **state)
{
    struct nigh_slab slab;

    (void)state;
    assert_int_equal(nigh_slab_create(&slab, 100, 64), 0);
    for (int i = 0; i < 64; i++)
        assert_non_null(nigh_slab_take(&slab));
    osfail_install();
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_non_null(nigh_slab_take(&slab));
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(slab.total, 96);
    nigh_slab_destroy(&slab);
}

static void reserved_objects_can_be_taken(void **state)
{
    struct nigh_slab slab;

    (void)state;
    assert_int_equal(nigh_slab_create(&slab, 100, 16), 0);
    assert_non_null(nigh_slab_take(&slab));
    assert_int_equal(nigh_slab_reserve(&slab, 15), 0);
    assert_int_equal(slab.total, 16);
    assert_int_equal(nigh_slab_reserve(&slab, 200), 0);
    osfail_install();
    osfail_arm_all(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_slab_reserve(&slab, 201), -ENOMEM);
    for (int i = 0; i < 200; i++)
        assert_non_null(nigh_slab_take(&slab));
    assert_null(nigh_slab_take(&slab));
    osfail_remove();
    nigh_slab_destroy(&slab);
}

static void create_fails_cleanly(void **state)
{
    struct nigh_slab slab;

    (void)state;
    osfail_install();
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_slab_create(&slab, 64, 64), -ENOMEM);
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(nigh_slab_create(&slab, SIZE_MAX / 8, 64), -ENOMEM);
    assert_int_equal(nigh_slab_create(&slab, SIZE_MAX, 1), -ENOMEM);
}

/* Only the address sanitizer can tell a touch of an object that was given back. */
static void objects_that_are_not_out_are_poisoned(void **state)
{
    (void)state;
#ifdef NIGH_SLAB_POISONS
    struct nigh_slab slab;
    char *object;

    assert_int_equal(nigh_slab_create(&slab, 100, 16), 0);
    object = nigh_slab_take(&slab);
    assert_null(__asan_region_is_poisoned(object, 128));
    assert_non_null(__asan_region_is_poisoned(object + 128, 64));
    nigh_slab_give(&slab, object);
    assert_non_null(__asan_region_is_poisoned(object, 1));
    assert_true(__asan_address_is_poisoned(object + 127));
    nigh_slab_destroy(&slab);
#else
    print_message("poisoning needs a build with --enable-sanitizer=address\n");
    skip();
#endif
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_are_aligned_and_do_not_overlap),
        cmocka_unit_test(the_last_given_is_the_next_taken),
        cmocka_unit_test(several_are_given_back_at_once),
        cmocka_unit_test(the_steady_state_allocates_nothing),
        cmocka_unit_test(without_memory_a_take_fails_and_nothing_else),
        cmocka_unit_test(where_memory_is_short_fewer_are_added),
        cmocka_unit_test(reserved_objects_can_be_taken),
        cmocka_unit_test(create_fails_cleanly),
        cmocka_unit_test(objects_that_are_not_out_are_poisoned),
    };
    return cmocka_run_group_tests_name("slab", tests, NULL, NULL);
}
