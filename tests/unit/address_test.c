/* SPDX-License-Identifier: BSD-3-Clause */
/* An address says who and where, and whatever is not one, or not from here, is told apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/address.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct nigh_identity who = {
    .job = UINT64_C(0xfedcba9876543210), .incarnation = 42, .rank = 65535};
static const struct nigh_place place = {.machine = 11, .names = 22, .uid = 33};

static void round_trip(void **state)
{
    struct nigh_address address;
    struct nigh_identity out = {0};

    (void)state;
    nigh_address_encode(&place, &who, &address);
    assert_int_equal(nigh_address_decode(&place, &address, &out), 0);
    assert_int_equal(out.job, who.job);
    assert_int_equal(out.incarnation, who.incarnation);
    assert_int_equal(out.rank, who.rank);
}

static void every_flipped_bit_is_noticed(void **state)
{
    struct nigh_address good, bad;
    struct nigh_identity out = {.job = 5};

    (void)state;
    nigh_address_encode(&place, &who, &good);
    for (unsigned bit = 0; bit < NIGH_ADDRESS_BYTES * 8; bit++) {
        bad = good;
        bad.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        if (nigh_address_decode(&place, &bad, &out) != -EBADMSG)
            fail_msg("bit %u of byte %u went unnoticed", bit % 8, bit / 8);
    }
    assert_int_equal(out.job, 5); /* outputs on success only */
}

static void garbage(void **state)
{
    struct nigh_address address;
    struct nigh_identity out, nobody = who;

    (void)state;
    memset(&address, 0, sizeof(address));
    assert_int_equal(nigh_address_decode(&place, &address, &out), -EBADMSG);
    memset(&address, 0xff, sizeof(address));
    assert_int_equal(nigh_address_decode(&place, &address, &out), -EBADMSG);
    srandom(1);
    for (unsigned i = 0; i < 10000; i++) {
        for (unsigned at = 0; at < sizeof(address); at++)
            address.bytes[at] = (uint8_t)random();
        assert_int_equal(nigh_address_decode(&place, &address, &out), -EBADMSG);
    }
    nobody.incarnation = 0;
    nigh_address_encode(&place, &nobody, &address);
    assert_int_equal(nigh_address_decode(&place, &address, &out), -EBADMSG);
}

static int from(uint64_t machine, uint64_t names, uint32_t uid)
{
    struct nigh_place there = {.machine = machine, .names = names, .uid = uid};
    struct nigh_address address;
    struct nigh_identity out;

    nigh_address_encode(&there, &who, &address);
    return nigh_address_decode(&place, &address, &out);
}

static void foreign_places(void **state)
{
    (void)state;
    assert_int_equal(from(11, 22, 33), 0);
    assert_int_equal(from(12, 22, 33), -EHOSTUNREACH);
    assert_int_equal(from(11, 23, 33), -EHOSTUNREACH);
    assert_int_equal(from(11, 22, 34), -EACCES);
    assert_int_equal(from(12, 22, 34), -EHOSTUNREACH); /* another machine's users are none of ours */
}

static void this_place_is_the_same_each_time(void **state)
{
    struct nigh_place first, second;

    (void)state;
    nigh_place_find(NULL, &first);
    nigh_place_find(NULL, &second);
    assert_true(first.machine != 0 && first.names != 0);
    assert_int_equal(first.machine, second.machine);
    assert_int_equal(first.names, second.names);
    assert_int_equal(first.uid, geteuid());
}

static void another_network_namespace_is_another_place(void **state)
{
    struct nigh_place here, there;
    int status;
    pid_t child;

    (void)state;
    nigh_place_find(NULL, &here);
    child = fork();
    if (child == 0) {
        if (unshare(CLONE_NEWNET) < 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0)
            _exit(77);
        nigh_place_find(NULL, &there);
        _exit(there.machine == here.machine && there.names != here.names ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
        print_message("network namespaces cannot be made here\n");
        skip();
    }
    assert_int_equal(status, 0);
}

static void directories_are_places(void **state)
{
    struct stat one, same, other;
    struct nigh_place a, b, c;

    (void)state;
    assert_int_equal(stat("/", &one), 0);
    assert_int_equal(stat("/../.", &same), 0);
    assert_int_equal(stat("/proc", &other), 0);
    nigh_place_find(&one, &a);
    nigh_place_find(&same, &b);
    nigh_place_find(&other, &c);
    assert_int_equal(a.names, b.names);
    assert_int_not_equal(a.names, c.names);
}

static void blindness_is_said(void **state)
{
    struct nigh_place blind;

    (void)state;
    for (unsigned nth = 1; nth <= 2; nth++) {
        osfail_arm(OSFAIL_open, nth, EACCES);
        logged_begin();
        nigh_place_find(NULL, &blind);
        logged_assert_has(nth == 1 ? "/proc/sys/kernel/random/boot_id (Permission denied)"
                                   : "/proc/self/ns/net (Permission denied)");
        assert_int_equal(logged_lines(), 1);
        logged_end();
        assert_true(osfail_hit());
        assert_int_equal(nth == 1 ? blind.machine : blind.names, 0);
        osfail_arm(OSFAIL_open, nth, EACCES); /* once in a process, however many contexts it opens */
        logged_begin();
        nigh_place_find(NULL, &blind);
        assert_int_equal(logged_lines(), 0);
        logged_end();
        assert_int_not_equal(nth == 1 ? blind.names : blind.machine, 0);
    }
    osfail_remove();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(every_flipped_bit_is_noticed),
        cmocka_unit_test(garbage),
        cmocka_unit_test(foreign_places),
        cmocka_unit_test(this_place_is_the_same_each_time),
        cmocka_unit_test(another_network_namespace_is_another_place),
        cmocka_unit_test(directories_are_places),
        cmocka_unit_test(blindness_is_said),
    };
    return cmocka_run_group_tests_name("address", tests, NULL, NULL);
}
