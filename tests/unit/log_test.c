/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines go to the sink of the thread that logs, at most at its level, cut at 1 KiB, and errno survives. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/log.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

struct kept {
    unsigned lines;
    int level;
    char text[2048];
};

static void keep(void *data, int level, const char *text)
{
    struct kept *kept = data;

    kept->lines++;
    kept->level = level;
    strncpy(kept->text, text, sizeof(kept->text) - 1);
    errno = EIO;
}

static void sink_gets_lines_up_to_its_level(void **state)
{
    struct kept kept = {0};
    struct nigh_log_sink sink = {.write = keep, .data = &kept, .level = NIGH_LOG_WARN};

    (void)state;
    assert_null(nigh_log_use(&sink));
    nigh_log(NIGH_LOG_ERROR, "%d bytes of %s", 7, "heap");
    assert_int_equal(kept.lines, 1);
    assert_int_equal(kept.level, NIGH_LOG_ERROR);
    assert_string_equal(kept.text, "7 bytes of heap");
    nigh_log(NIGH_LOG_WARN, "second");
    assert_int_equal(kept.lines, 2);
    nigh_log(NIGH_LOG_INFO, "third");
    assert_int_equal(kept.lines, 2);
    assert_ptr_equal(nigh_log_use(NULL), &sink);
    assert_null(nigh_log_use(NULL));
}

static void errno_survives(void **state)
{
    struct kept kept = {0};
    struct nigh_log_sink sink = {.write = keep, .data = &kept, .level = NIGH_LOG_INFO};

    (void)state;
    nigh_log_use(&sink);
    errno = EMFILE;
    nigh_log(NIGH_LOG_ERROR, "x");
    assert_int_equal(errno, EMFILE);
    nigh_log_use(NULL);
}

static void long_lines_are_cut_visibly(void **state)
{
    struct kept kept = {0};
    struct nigh_log_sink sink = {.write = keep, .data = &kept, .level = NIGH_LOG_INFO};
    char longest[1024], longer[4096];

    (void)state;
    nigh_log_use(&sink);
    memset(longest, 'a', sizeof(longest));
    longest[1023] = 0;
    nigh_log(NIGH_LOG_ERROR, "%s", longest);
    assert_string_equal(kept.text, longest);
    memset(longer, 'b', sizeof(longer));
    longer[4095] = 0;
    nigh_log(NIGH_LOG_ERROR, "%s", longer);
    assert_int_equal(strlen(kept.text), 1023);
    assert_string_equal(kept.text + 1019, "b...");
    nigh_log_use(NULL);
}

/* Runs with standard error in a pipe and gives what was written there. */
static void capture(int level, const char *line, char *out, size_t room)
{
    int ends[2], saved = dup(STDERR_FILENO);
    ssize_t got;

    assert_true(saved >= 0);
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    assert_true(dup2(ends[1], STDERR_FILENO) >= 0);
    nigh_log(level, "%s", line);
    assert_true(dup2(saved, STDERR_FILENO) >= 0);
    got = read(ends[0], out, room - 1);
    out[got < 0 ? 0 : got] = 0;
    close(ends[0]);
    close(ends[1]);
    close(saved);
}

static void default_is_warnings_on_stderr(void **state)
{
    char out[2048], longer[2000];

    (void)state;
    capture(NIGH_LOG_WARN, "pool is small", out, sizeof(out));
    assert_string_equal(out, "nigh: pool is small\n");
    capture(NIGH_LOG_INFO, "pool is fine", out, sizeof(out));
    assert_string_equal(out, "");
    memset(longer, 'c', sizeof(longer));
    longer[1999] = 0;
    capture(NIGH_LOG_ERROR, longer, out, sizeof(out));
    assert_int_equal(strlen(out), 6 + 1023 + 1);
    assert_string_equal(out + 6 + 1019, "c...\n");
}

static void a_sink_without_function_is_stderr_at_its_level(void **state)
{
    struct nigh_log_sink sink = {.level = NIGH_LOG_INFO};
    char out[256];

    (void)state;
    nigh_log_use(&sink);
    capture(NIGH_LOG_INFO, "told", out, sizeof(out));
    assert_string_equal(out, "nigh: told\n");
    sink.level = NIGH_LOG_ERROR;
    capture(NIGH_LOG_WARN, "not told", out, sizeof(out));
    assert_string_equal(out, "");
    nigh_log_use(NULL);
}

static void failing_stderr_is_survived(void **state)
{
    (void)state;
    osfail_arm(OSFAIL_write, 1, EIO);
    errno = ENOENT;
    nigh_log(NIGH_LOG_ERROR, "nobody reads this");
    assert_int_equal(errno, ENOENT);
    assert_true(osfail_hit());
    osfail_remove();
}

static void *log_elsewhere(void *data)
{
    char out[256];

    capture(NIGH_LOG_ERROR, "from the other thread", out, sizeof(out));
    return data && strcmp(out, "nigh: from the other thread\n") == 0 ? data : NULL;
}

static void sinks_belong_to_threads(void **state)
{
    struct kept kept = {0};
    struct nigh_log_sink sink = {.write = keep, .data = &kept, .level = NIGH_LOG_INFO};
    pthread_t thread;
    void *result = NULL;

    (void)state;
    nigh_log_use(&sink);
    assert_int_equal(pthread_create(&thread, NULL, log_elsewhere, &kept), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &kept);
    assert_int_equal(kept.lines, 0);
    nigh_log_use(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sink_gets_lines_up_to_its_level),
        cmocka_unit_test(errno_survives),
        cmocka_unit_test(long_lines_are_cut_visibly),
        cmocka_unit_test(default_is_warnings_on_stderr),
        cmocka_unit_test(a_sink_without_function_is_stderr_at_its_level),
        cmocka_unit_test(failing_stderr_is_survived),
        cmocka_unit_test(sinks_belong_to_threads),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
