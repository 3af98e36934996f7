/* SPDX-License-Identifier: BSD-3-Clause */
/* The tuning file: what is understood, what is refused and with which words, where it lies, and that a file that
 * was written is read back to the same values. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "shm/tune.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

enum { KIB = 1024, MIB = 1024 * 1024 };

struct home {
    char folder[64];
    char file[128];
};

static int make_home(void **state)
{
    struct home *home = calloc(1, sizeof(*home));

    assert_non_null(home);
    strcpy(home->folder, "/tmp/nigh-tune-test-XXXXXX");
    assert_non_null(mkdtemp(home->folder));
    snprintf(home->file, sizeof(home->file), "%s/tune.conf", home->folder);
    unsetenv("NIGH_TUNE");
    unsetenv("XDG_CONFIG_HOME");
    unsetenv("HOME");
    *state = home;
    return 0;
}

static int remove_home(void **state)
{
    struct home *home = *state;

    unlink(home->file);
    assert_int_equal(rmdir(home->folder), 0); /* fails when a test left something behind */
    free(home);
    return 0;
}

static void put(const char *path, const char *text, size_t bytes)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, bytes), (ssize_t)bytes);
    close(fd);
}

static void expect_same(const struct nigh_tune *a, const struct nigh_tune *b)
{
    assert_int_equal(a->ring_max, b->ring_max);
    assert_int_equal(a->far_ns, b->far_ns);
    assert_int_equal(a->near, b->near);
    assert_int_equal(a->far, b->far);
    assert_int_equal(a->count, b->count);
    for (uint32_t i = 0; i < a->count; i++) {
        assert_int_equal(a->strategy[i].sender, b->strategy[i].sender);
        assert_int_equal(a->strategy[i].receiver, b->strategy[i].receiver);
        assert_int_equal(a->strategy[i].span, b->strategy[i].span);
        assert_int_equal(a->strategy[i].piece, b->strategy[i].piece);
        assert_int_equal(a->strategy[i].from, b->strategy[i].from);
        assert_int_equal(a->strategy[i].tried, b->strategy[i].tried);
    }
}

static void refused(const char *text, const char *said)
{
    struct nigh_tune before, tune;
    char error[NIGH_TUNE_ERROR];

    nigh_tune_default(&before);
    before.ring_max = 77;
    tune = before;
    assert_int_equal(nigh_tune_parse(text, "f", &tune, error), -EINVAL);
    assert_string_equal(error, said);
    expect_same(&tune, &before);
}

static void defaults_can_be_used(void **state)
{
    struct nigh_tune tune;
    struct nigh_pace pace;

    (void)state;
    nigh_tune_default(&tune);
    assert_in_range(tune.count, 1, NIGH_PACE_STRATEGIES);
    assert_in_range(tune.ring_max, 64, NIGH_TUNE_RING_MAX);
    assert_int_equal(nigh_pace_open(&pace, tune.strategy, tune.count, tune.near, tune.far, tune.far_ns), 0);
    assert_int_equal(tune.strategy[tune.near].sender, nigh_copy_for_long());
    assert_int_equal(tune.strategy[tune.near].receiver, nigh_copy_for_long());
}

static void a_text_is_read(void **state)
{
    struct nigh_tune tune;
    char error[NIGH_TUNE_ERROR];

    (void)state;
    assert_int_equal(nigh_tune_parse("# a comment\n\n  ring_max = 512   # and one behind\r\n"
                                     "strategy=prefetchw > plain\tspan=512K  piece = 8K\n"
                                     "strategy = plain>plain\nfar=1\nfar_ns=200",
                                     "f", &tune, error),
                     -EINVAL);
    assert_string_equal(
        error, "f:4: '' is no copy kernel; there are plain, prefetchw, nt, movsb, flush and quarters");
    assert_int_equal(nigh_tune_parse("# a comment\n\n  ring_max = 512   # and one behind\r\n"
                                     "strategy=prefetchw>plain\tspan=512K  piece=8K\n"
                                     "strategy = plain>plain\nfar=1\nfar_ns=200",
                                     "f", &tune, error),
                     0);
    assert_int_equal(tune.ring_max, 512);
    assert_int_equal(tune.far_ns, 200);
    assert_int_equal(tune.count, 2);
    assert_int_equal(tune.near, 0);
    assert_int_equal(tune.far, 1);
    assert_int_equal(tune.strategy[0].sender, NIGH_COPY_PREFETCHW);
    assert_int_equal(tune.strategy[0].receiver, NIGH_COPY_PLAIN);
    assert_int_equal(tune.strategy[0].span, 512 * KIB);
    assert_int_equal(tune.strategy[0].piece, 8 * KIB);
    assert_int_equal(tune.strategy[1].span, 2 * MIB);
    assert_int_equal(tune.strategy[1].piece, 64 * KIB);
}

static void absent_keys_keep_their_defaults(void **state)
{
    struct nigh_tune tune, defaults;
    char error[NIGH_TUNE_ERROR];

    (void)state;
    nigh_tune_default(&defaults);
    assert_int_equal(nigh_tune_parse("", "f", &tune, error), 0);
    expect_same(&tune, &defaults);
    assert_int_equal(nigh_tune_parse("far_ns = 90\n", "f", &tune, error), 0);
    defaults.far_ns = 90;
    expect_same(&tune, &defaults);
}

static void bad_values_are_named_with_their_line(void **state)
{
    (void)state;
    refused("ring_max = 5000\n", "f:1: ring_max: '5000' is not a number from 0 to 4096");
    refused("\n\nring_max = -1\n", "f:3: ring_max: '-1' is not a number from 0 to 4096");
    refused("ring_max =\n", "f:1: ring_max: '' is not a number from 0 to 4096");
    refused("ring_max = 1 2\n", "f:1: ring_max: '1 2' is not a number from 0 to 4096");
    refused("ring_max = 99999999999999999999999\n",
            "f:1: ring_max: '99999999999999999999999' is not a number from 0 to 4096");
    refused("far_ns = 0\n", "f:1: far_ns: '0' is not a number from 1 to 100000");
    refused("speed = 11\n", "f:1: 'speed' is no setting; there are ring_max, far_ns, strategy, near and far");
    refused("ring_max\n", "f:1: ring_max: '' is not a number from 0 to 4096");
    refused("strategy = fast>plain\n",
            "f:1: 'fast' is no copy kernel; there are plain, prefetchw, nt, movsb, flush and quarters");
    refused("strategy = plain\n",
            "f:1: '' is no copy kernel; there are plain, prefetchw, nt, movsb, flush and quarters");
    refused("strategy = plain>plain span=1K\n", "f:1: span: '1K' is not a number from 32768 to 67108864");
    refused("strategy = plain>plain span=5G\n", "f:1: span: '5G' is not a number from 32768 to 67108864");
    refused("strategy = plain>plain piece=128K\n", "f:1: piece: '128K' is not a number from 4096 to 65536");
    refused("strategy = plain>plain speed=1\n",
            "f:1: strategy: 'speed' is none of span=BYTES, piece=BYTES, from=BYTES and try=BYTES");
    refused("strategy = plain>plain span=64K piece=64K\n",
            "f:1: strategy plain>plain span=65536 piece=65536: the piece must be at most half of the span");
    refused("strategy = plain>plain piece=5000\n",
            "f:1: strategy plain>plain span=2097152 piece=5000: the piece "
            "must be a multiple of 4096 bytes and not 0");
    refused("strategy = plain>plain\nfar = 1\n",
            "f:2: near = 0 and far = 1: there are only 1 strategies, the first is 0");
    refused("strategy = plain>plain from=1M\n",
            "f:1: near = 0 and far = 0: both must be for messages of every size (from=0)");
    refused("strategy = plain>nt span=2M piece=64K from=1M try=2M\n",
            "f:1: strategy plain>nt span=2097152 piece=65536: it is tried before it is taken: try must be at "
            "most from");
    refused("near = 9\n", "f:1: near: '9' is not a number from 0 to 5");
}

static void too_many_strategies_are_refused(void **state)
{
    char text[1024] = "";

    (void)state;
    for (int i = 0; i < NIGH_PACE_STRATEGIES + 1; i++)
        strcat(text, "strategy = plain>plain\n");
    refused(text, "f:7: strategy: this is number 7, at most 6 can be compared");
}

static void any_cut_or_changed_text_is_read_or_refused(void **state)
{
    const char *good = "ring_max = 512\nstrategy = plain>plain span=512K piece=8K\nnear = 0\nfar = 0\n";
    char text[128], error[NIGH_TUNE_ERROR];
    struct nigh_tune tune;
    unsigned refusals = 0;

    (void)state;
    for (size_t i = 0; i < strlen(good); i++) {
        for (int c = 1; c < 256; c += 5) {
            strcpy(text, good);
            text[i] = (char)c;
            int code = nigh_tune_parse(text, "f", &tune, error);

            assert_true(code == 0 || (code == -EINVAL && error[0]));
            refusals += code != 0;
        }
        strcpy(text, good);
        text[i] = '\0';
        nigh_tune_parse(text, "f", &tune, error);
    }
    assert_in_range(refusals, 1000, 100000);
}

static void what_is_written_is_read_back(void **state)
{
    struct home *home = *state;
    struct nigh_tune tune, back;
    char error[NIGH_TUNE_ERROR], path[NIGH_TUNE_PATH];

    nigh_tune_default(&tune);
    tune.ring_max = 448;
    tune.far_ns = 99;
    tune.strategy[0].span = 384 * KIB;
    setenv("NIGH_TUNE", home->file, 1);
    assert_int_equal(nigh_tune_save(home->file, &tune, "one line\nanother", error), 0);
    assert_int_equal(nigh_tune_load(&back, path, error), 1);
    assert_string_equal(path, home->file);
    expect_same(&tune, &back);
}

static void a_text_that_does_not_fit_is_an_error(void **state)
{
    struct nigh_tune tune;
    char text[64];

    (void)state;
    nigh_tune_default(&tune);
    assert_int_equal(nigh_tune_format(&tune, NULL, text, sizeof(text)), -ENOSPC);
    assert_int_equal(nigh_tune_format(&tune, NULL, text, 0), -ENOSPC);
}

static void no_file_means_defaults(void **state)
{
    struct home *home = *state;
    struct nigh_tune tune, defaults;
    char error[NIGH_TUNE_ERROR], path[NIGH_TUNE_PATH];

    nigh_tune_default(&defaults);
    assert_int_equal(nigh_tune_path(path), -ENOENT);
    assert_int_equal(nigh_tune_load(&tune, path, error), 0);
    setenv("HOME", home->folder, 1);
    assert_int_equal(nigh_tune_load(&tune, path, error), 0);
    assert_string_equal(path, "");
    assert_string_equal(error, "");
    expect_same(&tune, &defaults);
}

static void the_file_lies_where_the_environment_says(void **state)
{
    struct home *home = *state;
    char path[NIGH_TUNE_PATH], want[NIGH_TUNE_PATH], *longest = malloc(NIGH_TUNE_PATH + 1);
    struct utsname host;

    assert_non_null(longest);
    assert_int_equal(uname(&host), 0);
    setenv("HOME", home->folder, 1);
    assert_int_equal(nigh_tune_path(path), 0);
    snprintf(want, sizeof(want), "%s/.config/nigh/tune-%s.conf", home->folder, host.nodename);
    assert_string_equal(path, want);
    setenv("XDG_CONFIG_HOME", "/etc/xdg", 1);
    assert_int_equal(nigh_tune_path(path), 0);
    snprintf(want, sizeof(want), "/etc/xdg/nigh/tune-%s.conf", host.nodename);
    assert_string_equal(path, want);
    setenv("NIGH_TUNE", "here.conf", 1);
    assert_int_equal(nigh_tune_path(path), 1);
    assert_string_equal(path, "here.conf");
    memset(longest, 'x', NIGH_TUNE_PATH);
    longest[NIGH_TUNE_PATH] = '\0';
    setenv("NIGH_TUNE", longest, 1);
    assert_int_equal(nigh_tune_path(path), -ENAMETOOLONG);
    free(longest);
}

static void a_named_file_must_be_there_and_be_sound(void **state)
{
    struct home *home = *state;
    struct nigh_tune tune, defaults;
    char error[NIGH_TUNE_ERROR], path[NIGH_TUNE_PATH], want[NIGH_TUNE_ERROR],
        *big = malloc(NIGH_TUNE_TEXT + 1);

    assert_non_null(big);
    nigh_tune_default(&defaults);
    setenv("NIGH_TUNE", home->file, 1);
    assert_int_equal(nigh_tune_load(&tune, path, error), -ENOENT);
    snprintf(want, sizeof(want), "cannot open the tuning file %s: No such file or directory", home->file);
    assert_string_equal(error, want);
    put(home->file, "far_ns = 5\nfar_ns = x\n", 22);
    assert_int_equal(nigh_tune_load(&tune, path, error), -EINVAL);
    snprintf(want, sizeof(want), "%s:2: far_ns: 'x' is not a number from 1 to 100000", home->file);
    assert_string_equal(error, want);
    put(home->file, "far_ns\0= 5\n", 11);
    assert_int_equal(nigh_tune_load(&tune, path, error), -EILSEQ);
    memset(big, '\n', NIGH_TUNE_TEXT + 1);
    put(home->file, big, NIGH_TUNE_TEXT);
    assert_int_equal(nigh_tune_load(&tune, path, error), 1);
    put(home->file, big, NIGH_TUNE_TEXT + 1);
    assert_int_equal(nigh_tune_load(&tune, path, error), -EFBIG);
    expect_same(&tune, &defaults);
    free(big);
}

static int rename_fails(const char *from, const char *to)
{
    (void)from;
    (void)to;
    errno = EACCES;
    return -1;
}

static ssize_t write_fails(int fd, const void *from, size_t bytes)
{
    (void)fd;
    (void)from;
    (void)bytes;
    errno = ENOSPC;
    return -1;
}

static void a_failed_save_leaves_nothing(void **state)
{
    struct home *home = *state;
    struct nigh_os real = nigh_os;
    struct nigh_tune tune;
    char error[NIGH_TUNE_ERROR];

    nigh_tune_default(&tune);
    assert_int_equal(nigh_tune_save("/nowhere/at/all", &tune, NULL, error), -ENOENT);
    nigh_os.rename = rename_fails;
    assert_int_equal(nigh_tune_save(home->file, &tune, NULL, error), -EACCES);
    nigh_os = real;
    nigh_os.write = write_fails;
    assert_int_equal(nigh_tune_save(home->file, &tune, NULL, error), -ENOSPC);
    nigh_os = real;
    assert_non_null(strstr(error, "No space left on device"));
    assert_int_equal(access(home->file, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_can_be_used),
        cmocka_unit_test(a_text_is_read),
        cmocka_unit_test(absent_keys_keep_their_defaults),
        cmocka_unit_test(bad_values_are_named_with_their_line),
        cmocka_unit_test(too_many_strategies_are_refused),
        cmocka_unit_test(any_cut_or_changed_text_is_read_or_refused),
        cmocka_unit_test_setup_teardown(what_is_written_is_read_back, make_home, remove_home),
        cmocka_unit_test(a_text_that_does_not_fit_is_an_error),
        cmocka_unit_test_setup_teardown(no_file_means_defaults, make_home, remove_home),
        cmocka_unit_test_setup_teardown(the_file_lies_where_the_environment_says, make_home, remove_home),
        cmocka_unit_test_setup_teardown(a_named_file_must_be_there_and_be_sound, make_home, remove_home),
        cmocka_unit_test_setup_teardown(a_failed_save_leaves_nothing, make_home, remove_home),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
