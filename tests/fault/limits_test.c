/* SPDX-License-Identifier: BSD-3-Clause */
/* Resource limits that are too small, at each value on the way from nothing to enough: what a call is refused for it
 * says, with the limit; what it leaves is nothing; and with the limit out of the way everything works. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

enum { REFUSED = 1 };

static void limit(int what, uint64_t to)
{
    struct rlimit limits = {.rlim_cur = to, .rlim_max = to};

    WANT_INT(setrlimit(what, &limits), 0);
}

/* ---- descriptors
 * -------------------------------------------------------------------------------------------------- */

static int open_with_few(void *data)
{
    unsigned left = *(unsigned *)data;
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;
    int rc;

    limit(RLIMIT_NOFILE, 512);
    fault_fds_eat(left);
    rc = fault_open(0, &context);
    fault_fds_give();
    if (rc == 0) {
        fault_close(context);
        WANT_HELD(before);
        return 0;
    }
    WANT_INT(rc, -EMFILE);
    WANT(context == NULL);
    WANT(fault_lines() >= 1);
    WANT_SAID("Too many open files");
    WANT_HELD(before);
    return REFUSED;
}

static void test_descriptors_at_open(void **state)
{
    unsigned refused = 0;

    (void)state;
    for (unsigned left = 0; left < 20; left++) {
        if (fault_apart(open_with_few, &left) != REFUSED)
            continue;
        if (refused++ != left)
            fail_msg("%u descriptors are enough and %u are not", left - 1, left);
    }
    print_message("open takes %u descriptors\n", refused);
    assert_true(refused >= 5 && refused < 20);
}

/* True: the first `sides` are ready. False: they are not, 200 ms after something has been said, which on
 * a loaded machine may take its time. */
static bool ready_or_refused(struct fault_pair *pair, unsigned sides)
{
    bool ready = false;

    for (unsigned tries = 0; !ready && tries < 300; tries++) {
        unsigned said = fault_lines();

        ready =
            fault_until(pair, 0, NIGH_READY, 200) && (sides == 1 || fault_until(pair, 1, NIGH_READY, 200));
        if (said > 0)
            break;
    }
    return ready;
}

/* While they are short a connection waits or is refused, or cannot be begun; nobody is harmed, and
 * once there are some it is made. */
static int connect_with_few(void *data)
{
    unsigned left = *(unsigned *)data;
    struct fault_held before = fault_held();
    struct fault_pair pair;
    const struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = NIGH_SOURCE_NONE};
    bool begun, ready;
    int rc;

    limit(RLIMIT_NOFILE, 512);
    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_open(1, &pair.context[1]), 0);
    fault_fds_eat(left);
    rc = fault_ops()->connect(pair.context[0], &to, &pair.to[0]);
    WANT(rc == 0 || rc == -EMFILE);
    begun = rc == 0;
    ready = begun && ready_or_refused(&pair, 1);
    if (!ready) {
        WANT(fault_lines() >= 1);
        WANT_SAID("descriptor");
        WANT_SAID("ulimit -n");
    }
    fault_fds_give();
    if (begun && fault_state(pair.context[0], pair.to[0]) > NIGH_READY) {
        WANT_INT(fault_ops()->disconnect(pair.to[0]), 0);
        begun = false;
    }
    if (!begun)
        pair.to[0] = fault_connect(pair.context[0], 1);
    pair.to[1] = fault_connect(pair.context[1], 0);
    WANT(fault_until(&pair, 0, NIGH_READY, 100000));
    WANT(fault_until(&pair, 1, NIGH_READY, 100000));
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return ready ? 0 : REFUSED;
}

static void test_descriptors_at_connect(void **state)
{
    unsigned refused = 0;

    (void)state;
    for (unsigned left = 0; left < 16; left++)
        refused += fault_apart(connect_with_few, &left) == REFUSED;
    print_message("short of descriptors in %u of 16 cases\n", refused);
    assert_true(refused >= 2 && refused < 16);
}

/* ---- address space
 * ------------------------------------------------------------------------------------------------ */

/* A sanitizer's own memory would be refused before nigh's. */
static void skip_under_sanitizers(void)
{
    if (FAULT_SANITIZED) {
        printf("# skipped: the sanitizer needs more address space than any limit leaves\n");
        fflush(stdout);
        skip();
    }
}

static uint64_t address_space(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    WANT(file != NULL && fscanf(file, "%llu", &pages) == 1);
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int open_in_little_space(void *data)
{
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;
    int rc;

    limit(RLIMIT_AS, address_space() + *(uint64_t *)data);
    rc = fault_open(0, &context);
    if (rc == 0) {
        fault_close(context);
        WANT_HELD(before);
        return 0;
    }
    WANT_INT(rc, -ENOMEM);
    WANT(context == NULL);
    WANT(fault_lines() >= 1);
    WANT_HELD(before);
    return REFUSED;
}

static void test_address_space_at_open(void **state)
{
    unsigned refused = 0, opened = 0;

    (void)state;
    skip_under_sanitizers();
    for (uint64_t more = 0; more <= 64 * MIB; more += 1 * MIB + 36 * KIB) {
        if (fault_apart(open_in_little_space, &more) == REFUSED)
            refused++;
        else
            opened++;
    }
    print_message("no address space in %u cases, enough in %u\n", refused, opened);
    assert_true(refused > 5 && opened > 5);
}

static int connect_in_little_space(void *data)
{
    struct fault_held before = fault_held();
    struct fault_pair pair;
    struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY}, little = none;
    bool ready;

    WANT_INT(fault_open(0, &pair.context[0]), 0);
    WANT_INT(fault_open(1, &pair.context[1]), 0);
    little.rlim_cur = address_space() + *(uint64_t *)data;
    WANT_INT(setrlimit(RLIMIT_AS, &little), 0);
    pair.to[0] = fault_connect(pair.context[0], 1);
    pair.to[1] = fault_connect(pair.context[1], 0);
    ready = ready_or_refused(&pair, 2);
    if (!ready) {
        WANT(fault_lines() >= 1);
        WANT_SAID("ulimit -v");
    }
    WANT_INT(setrlimit(RLIMIT_AS, &none), 0);
    for (unsigned side = 0; side < 2; side++)
        if (fault_state(pair.context[side], pair.to[side]) > NIGH_READY) {
            WANT_INT(fault_ops()->disconnect(pair.to[side]), 0);
            pair.to[side] = fault_connect(pair.context[side], 1 - side);
        }
    for (unsigned side = 0; side < 2; side++)
        if (!fault_until(&pair, side, NIGH_READY, 3000)) {
            /* The other has refused meanwhile what we began anew. */
            WANT_INT(fault_ops()->disconnect(pair.to[side]), 0);
            pair.to[side] = fault_connect(pair.context[side], 1 - side);
        }
    WANT(fault_until(&pair, 0, NIGH_READY, 100000));
    WANT(fault_until(&pair, 1, NIGH_READY, 100000));
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return ready ? 0 : REFUSED;
}

static void test_address_space_at_connect(void **state)
{
    static const uint64_t more[] = {1280 * KIB, 2 * MIB, 16 * MIB, 24 * MIB, 40 * MIB, 128 * MIB};
    unsigned refused = 0;

    (void)state;
    skip_under_sanitizers();
    for (unsigned i = 0; i < sizeof(more) / sizeof(more[0]); i++) {
        uint64_t bytes = more[i];

        refused += fault_apart(connect_in_little_space, &bytes) == REFUSED;
    }
    print_message("no address space in %u of 6 cases\n", refused);
    assert_true(refused >= 1 && refused < 6);
}

/* ---- the size of files
 * -------------------------------------------------------------------------------------------- */

static int open_small_files(void *data)
{
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;
    int rc;

    limit(RLIMIT_FSIZE, *(uint64_t *)data);
    rc = fault_open(0, &context);
    if (rc == 0) {
        fault_close(context);
        WANT_HELD(before);
        return 0;
    }
    WANT_INT(rc, -ENOMEM);
    WANT(context == NULL);
    WANT_SAID("RLIMIT_FSIZE");
    WANT_HELD(before);
    return REFUSED;
}

static void test_size_of_files(void **state)
{
    static const uint64_t sizes[] = {0, 1, 4096, 64 * KIB, 1 * MIB, 12 * MIB, 64 * MIB, 1024 * MIB};
    unsigned refused = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = sizes[i];

        refused += fault_apart(open_small_files, &bytes) == REFUSED;
    }
    assert_in_range(refused, 6, 7);
}

/* ---- what does not matter
 * ----------------------------------------------------------------------------------------- */

static int without_locked_memory(void *data)
{
    struct fault_held before = fault_held();
    struct fault_pair pair;

    (void)data;
    limit(RLIMIT_MEMLOCK, 0);
    limit(RLIMIT_CORE, 0);
    fault_pair_open(&pair);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    WANT_INT(fault_lines(), 0);
    WANT_HELD(before);
    return 0;
}

static void test_locked_memory_is_not_needed(void **state)
{
    (void)state;
    fault_apart(without_locked_memory, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_descriptors_at_open),   cmocka_unit_test(test_descriptors_at_connect),
        cmocka_unit_test(test_address_space_at_open), cmocka_unit_test(test_address_space_at_connect),
        cmocka_unit_test(test_size_of_files),         cmocka_unit_test(test_locked_memory_is_not_needed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
