/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/refuse.c: so many lines and no more, and none of a context's sinks stays with the thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "plugin/context.h"
#include "plugin/refuse.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static struct nigh_context context;
static char last[256];

static void count(void *lines, int level, const char *text)
{
    assert_int_equal(level, NIGH_LOG_ERROR);
    ++*(unsigned *)lines;
    strncpy(last, text, sizeof(last) - 1);
}

/* Lines that `call` writes to standard error in a hundred calls. */
static unsigned lines_on_stderr(int (*call)(void), int expected)
{
    int kept = dup(STDERR_FILENO), said[2];
    unsigned lines = 0;
    char text[512];
    ssize_t bytes;

    assert_int_equal(pipe2(said, O_NONBLOCK), 0);
    assert_true(kept >= 0 && dup2(said[1], STDERR_FILENO) >= 0);
    for (int i = 0; i < 100; i++) {
        int rc = call();

        if (rc != expected)
            break;
    }
    assert_true(dup2(kept, STDERR_FILENO) >= 0);
    while ((bytes = read(said[0], text, sizeof(text))) > 0)
        for (ssize_t i = 0; i < bytes; i++)
            lines += text[i] == '\n';
    close(kept);
    close(said[0]);
    close(said[1]);
    return lines;
}

static int missing(void)
{
    return nigh_refuse_missing("poll_completions");
}

static int child(void)
{
    return nigh_refuse_child(&context);
}

static void test_told_so_often(void **state)
{
    unsigned mine = 0, other = 0;
    struct nigh_log_sink sink = {.write = count, .data = &other};

    (void)state;
    context.log = (struct nigh_log_sink){.write = count, .data = &mine};
    nigh_log_use(&sink);
    for (unsigned i = 1; i < 100; i++) {
        assert_int_equal(nigh_refuse(&context, -ERANGE, "call: %u", i), -ERANGE);
        assert_int_equal(mine, i < NIGH_REFUSALS_TOLD ? i : NIGH_REFUSALS_TOLD);
        assert_ptr_equal(nigh_log_use(&sink), &sink);
    }
    assert_string_equal(last, "call: 64 (no more of these are told)");
    assert_int_equal(other, 0);
    nigh_log_use(NULL);
}

static void test_on_standard_error(void **state)
{
    unsigned other = 0;
    struct nigh_log_sink sink = {.write = count, .data = &other};

    (void)state;
    context.log = sink;
    nigh_log_use(&sink);
    assert_int_equal(lines_on_stderr(missing, -EINVAL), NIGH_REFUSALS_TOLD);
    assert_int_equal(lines_on_stderr(child, -ECHILD), 1);
    assert_ptr_equal(nigh_log_use(NULL), &sink);
    assert_int_equal(other, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_told_so_often),
        cmocka_unit_test(test_on_standard_error),
    };

    return cmocka_run_group_tests_name("refuse", tests, NULL, NULL);
}
