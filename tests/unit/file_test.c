/* SPDX-License-Identifier: BSD-3-Clause */
/* Small files of the kernel: whole, as a number, as a list; missing, cut, garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/file.h"
#include "tests/support/fakeroot.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void a_file_is_read_and_ended(void **state)
{
    char text[8];

    (void)state;
    fakeroot_install();
    fakeroot_write("/sys/a", "1234567890");
    fakeroot_write("/sys/empty", "");
    assert_int_equal(nigh_file_read("/sys/a", text, sizeof(text)), 0);
    assert_string_equal(text, "1234567");
    assert_int_equal(nigh_file_read("/sys/empty", text, sizeof(text)), 0);
    assert_string_equal(text, "");
    assert_int_equal(nigh_file_read("/sys/none", text, sizeof(text)), -ENOENT);
    fakeroot_remove();
}

static void a_failing_read_is_told_and_closes(void **state)
{
    char text[8];
    unsigned fds = osfail_open_fds();

    (void)state;
    fakeroot_install();
    fakeroot_write("/sys/a", "12");
    osfail_install();
    osfail_arm(OSFAIL_read, 1, EIO);
    assert_int_equal(nigh_file_read("/sys/a", text, sizeof(text)), -EIO);
    osfail_arm(OSFAIL_read, 1, EINTR);
    assert_int_equal(nigh_file_read("/sys/a", text, sizeof(text)), 0);
    assert_string_equal(text, "12");
    osfail_remove();
    fakeroot_remove();
    assert_int_equal(osfail_open_fds(), fds);
}

static void numbers(void **state)
{
    uint64_t number = 77;

    (void)state;
    fakeroot_install();
    fakeroot_write("/sys/number", "18446744073709551614\n");
    fakeroot_write("/sys/max", "max\n");
    assert_int_equal(nigh_file_read_number("/sys/max", &number), -EBADMSG);
    assert_int_equal(nigh_file_read_number("/sys/none", &number), -ENOENT);
    assert_int_equal(number, 77);
    assert_int_equal(nigh_file_read_number("/sys/number", &number), 0);
    assert_true(number == UINT64_MAX - 1);
    fakeroot_remove();
}

struct seen {
    unsigned lines, longest, last;
};

static void see(const char *line, void *data)
{
    struct seen *seen = data;

    seen->lines++;
    if (strlen(line) > seen->longest)
        seen->longest = (unsigned)strlen(line);
    sscanf(line, "line %u", &seen->last);
}

/* Longer than anything that is read at a time, and a last line without an end. */
static void lines_are_whole(void **state)
{
    enum { LINES = 5000 };
    char *text = calloc(LINES, 64);
    struct seen seen = {0};
    size_t used = 0;

    (void)state;
    assert_non_null(text);
    for (int i = 1; i < LINES; i++)
        used += (size_t)sprintf(text + used, "line %d%*s\n", i, i % 40, "");
    sprintf(text + used, "line 77777");
    fakeroot_install();
    fakeroot_write("/proc/lines", text);
    assert_int_equal(nigh_file_each_line("/proc/lines", see, &seen), 0);
    assert_int_equal(seen.lines, LINES);
    assert_int_equal(seen.last, 77777);
    assert_int_equal(seen.longest, strlen("line 4999") + 39);
    memset(text, 'x', 3000);
    strcpy(text + 3000, "\n\nend");
    fakeroot_write("/proc/long", text);
    seen = (struct seen){0};
    assert_int_equal(nigh_file_each_line("/proc/long", see, &seen), 0);
    assert_int_equal(seen.lines, 3);
    assert_int_equal(seen.longest, NIGH_FILE_LINE);
    assert_int_equal(nigh_file_each_line("/proc/none", see, &seen), -ENOENT);
    osfail_install();
    osfail_arm(OSFAIL_read, 2, EIO);
    assert_int_equal(nigh_file_each_line("/proc/lines", see, &seen), -EIO);
    osfail_arm(OSFAIL_calloc, 1, ENOMEM);
    assert_int_equal(nigh_file_each_line("/proc/lines", see, &seen), -ENOMEM);
    osfail_remove();
    fakeroot_remove();
    free(text);
}

static void add(uint32_t number, void *data)
{
    char *text = data;

    sprintf(text + strlen(text), "%u ", number);
}

static void lists(void **state)
{
    static const struct {
        const char *text;
        int count; /* or an error */
        const char *numbers;
    } cases[] = {{"", 0, ""},
                 {"\n", 0, ""},
                 {"3", 1, "3 "},
                 {"0-2\n", 3, "0 1 2 "},
                 {"0,2-3,7\n", 4, "0 2 3 7 "},
                 {"5-900000000", 5, "5 6 7 8 9 "},
                 {"12", 0, ""},
                 {"x", -EBADMSG, ""},
                 {"1-", -EBADMSG, ""},
                 {"3-1", -EBADMSG, ""},
                 {"1;2", -EBADMSG, "1 "},
                 {"-1", -EBADMSG, ""},
                 {"9999999999", -EBADMSG, ""}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char seen[64] = "";
        int count = nigh_file_each_of_list(cases[i].text, 10, add, seen);

        if (count != cases[i].count || strcmp(seen, cases[i].numbers) != 0)
            fail_msg("\"%s\": %d, \"%s\" instead of %d, \"%s\"", cases[i].text, count, seen, cases[i].count,
                     cases[i].numbers);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_and_ended),
        cmocka_unit_test(a_failing_read_is_told_and_closes),
        cmocka_unit_test(numbers),
        cmocka_unit_test(lines_are_whole),
        cmocka_unit_test(lists),
    };
    return cmocka_run_group_tests_name("file", tests, NULL, NULL);
}
