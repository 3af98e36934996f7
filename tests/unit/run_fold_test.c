/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/run/fold.c: what ranks give comes out whole, named and in order, whoever else calls. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "include/common/relay.h"
#include "tools/run/fold.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANKS = 40, LONG = 9000 };

static struct run_fold fold;
static struct nigh_relay relay;
static char shown[1 << 20];

static void keep(void *data, const char *text, size_t bytes)
{
    assert_ptr_equal(data, shown);
    assert_true(strlen(shown) + bytes < sizeof(shown));
    strncat(shown, text, bytes);
}

static int set_up(void **state)
{
    char text[96];

    (void)state;
    shown[0] = '\0';
    assert_int_equal(run_fold_open(&fold, RANKS, (uint64_t)getpid() << 32 | 0xf01d, keep, shown), 0);
    run_fold_variable(&fold, text, sizeof(text));
    setenv("NIGH_LINES", text, 1);
    setenv("NIGH_RANK", "7", 1);
    relay = (struct nigh_relay){0};
    nigh_relay_begin(&relay);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    run_fold_close(&fold);
    unsetenv("NIGH_LINES");
    unsetenv("NIGH_RANK");
    return 0;
}

static void give(long rank, const char *lines)
{
    assert_true(nigh_relay_give(&relay, rank, lines, strlen(lines)));
}

static void all_is(const char *text)
{
    run_fold_step(&fold);
    run_fold_show_all(&fold);
    assert_string_equal(shown, text);
    assert_int_equal(run_fold_wait_ms(&fold), -1);
}

static int caller(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    struct sockaddr_un to;

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, nigh_relay_address(fold.name, &to)), 0);
    return fd;
}

static void test_ranks_are_named(void **state)
{
    (void)state;
    for (long rank = 3; rank < 20; rank++)
        if (rank != 11)
            give(rank, "nigh: no\n");
    give(1, "nigh: rank 1: yes\n");
    give(2, "nigh: alone\n");
    give(39, "nigh: rank 39: yes\n");
    give(-1, "nigh: first\nnigh: second\nand more of it\n");
    run_fold_step(&fold);
    assert_true(run_fold_wait_ms(&fold) >= 0);
    all_is("nigh: ranks 3-10,12-19: no\nnigh: ranks 1,39: yes\nnigh: alone\n"
           "nigh: first\nnigh: second\nand more of it\n");
}

static void test_repeated(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        for (long rank = 0; rank < 2; rank++)
            give(rank, "nigh: again\n");
    all_is("nigh: ranks 0-1: again\nnigh: ranks 0-1: again\nnigh: ranks 0-1: again\n");
    shown[0] = '\0';
    give(5, "nigh: rank 5: again\n");
    run_fold_step(&fold);
    assert_string_equal(shown, "");
    all_is("nigh: rank 5: again\n");
}

static void test_own_lines_stay_behind(void **state)
{
    (void)state;
    assert_false(run_fold_own(&fold, "nigh-run: nothing waits\n"));
    give(0, "nigh: why\n");
    assert_true(run_fold_own(&fold, "nigh-run: it has ended\n"));
    give(1, "nigh: why\n");
    all_is("nigh: ranks 0-1: why\nnigh-run: it has ended\n");
    assert_false(run_fold_own(&fold, "nigh-run: nothing waits\n"));
}

/* Each is shown, though only so many are kept. */
static void test_many(void **state)
{
    char line[64];
    size_t count = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        snprintf(line, sizeof(line), "nigh: number %d\n", i);
        give(i % RANKS, line);
        run_fold_step(&fold);
    }
    run_fold_show_all(&fold);
    for (const char *at = shown; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    assert_int_equal(count, 1000);
    assert_true(fold.count <= 1000 / 2);
}

/* Who connects and says nothing holds up nobody, except from a certain number on, and then until it goes. */
static void test_silent_callers(void **state)
{
    int callers[RUN_FOLD_CALLERS];

    (void)state;
    for (int i = 0; i < RUN_FOLD_CALLERS - 1; i++)
        callers[i] = caller();
    give(0, "nigh: heard\n");
    run_fold_step(&fold);
    assert_int_equal(fold.caller_count, RUN_FOLD_CALLERS - 1);
    callers[RUN_FOLD_CALLERS - 1] = caller();
    give(1, "nigh: heard\n");
    run_fold_step(&fold);
    assert_int_equal(fold.caller_count, RUN_FOLD_CALLERS);
    for (int i = 0; i < RUN_FOLD_CALLERS; i++)
        close(callers[i]);
    run_fold_step(&fold); /* takes their places */
    run_fold_step(&fold);
    assert_int_equal(fold.caller_count, 0);
    all_is("nigh: ranks 0-1: heard\n");
}

static void test_wrong_callers(void **state)
{
    static const char *const wrong[] = {"", "\n", "7", "7\n", "7\nmine\n", "x\nnigh: x\n", "nigh: x\n"};
    char *longest = calloc(1, LONG + 1);

    (void)state;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        int fd = caller();

        send(fd, wrong[i], strlen(wrong[i]), MSG_NOSIGNAL);
        close(fd);
    }
    run_fold_step(&fold);
    give(RANKS, "nigh: rank 40: of another job\n");
    give(1000000, "nigh: of another job\n");
    give(0, "nigh: without an end");
    all_is("nigh: rank 40: of another job\nnigh: of another job\nnigh: without an end\n");
    shown[0] = '\0';
    assert_non_null(longest);
    memset(longest, 'x', LONG);
    memcpy(longest, "nigh: ", 6);
    longest[LONG - 1] = '\n';
    give(0, longest);
    all_is(longest);
    free(longest);
}

/* They keep what is theirs. */
static void test_nobody_there(void **state)
{
    (void)state;
    run_fold_close(&fold);
    assert_false(nigh_relay_give(&relay, 0, "nigh: x\n", 8));
    fold = (struct run_fold){.listener = -1};
    relay.standard_error.inode++;
    assert_false(nigh_relay_give(&relay, 0, "nigh: x\n", 8));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_ranks_are_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_repeated, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_own_lines_stay_behind, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_silent_callers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_wrong_callers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_nobody_there, set_up, tear_down),
    };

    return cmocka_run_group_tests_name("fold", tests, NULL, NULL);
}
