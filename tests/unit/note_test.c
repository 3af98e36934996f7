/* SPDX-License-Identifier: BSD-3-Clause */
/* The status line: what is written is read, whole or not at all, whatever a line that is no sound one says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/note.h"
#include "shm/shared.h"
#include <errno.h>
#include <pthread.h>
#include <string.h>

static struct nigh_note a_note(void)
{
    return (struct nigh_note){.size = sizeof(struct nigh_note),
                              .state = NIGH_NOTE_BLOCKED,
                              .op = NIGH_NOTE_OP_SSEND,
                              .group = 3,
                              .peer = 4,
                              .requests = 5,
                              .members = 6,
                              .tag = 7,
                              .bytes = 8,
                              .since_ns = 9,
                              .site = "a.c:10",
                              .serial = 1000,
                              .checked = 1000,
                              .until_ns = 11};
}

static void what_is_written_is_read(void **state)
{
    struct nigh_arena_note line = {0};
    struct nigh_note in = a_note(), out;

    (void)state;
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.state, NIGH_NOTE_NONE);
    nigh_note_write(&line, &in);
    memset(&out, 0xa5, sizeof(out));
    assert_int_equal(nigh_note_read(&line, &out), 0);
    in.serial = 1;
    in.checked = 0;
    assert_memory_equal(&out, &in, sizeof(in));
}

/* Both ways to say that a wait has no end are one to the reader. */
static void no_end_is_zero(void **state)
{
    static const uint64_t said[] = {0, 1, UINT64_MAX - 1, UINT64_MAX}, read[] = {0, 1, UINT64_MAX - 1, 0};
    struct nigh_arena_note line = {0};
    struct nigh_note in = a_note(), out;

    (void)state;
    for (unsigned i = 0; i < 4; i++) {
        in.until_ns = said[i];
        nigh_note_write(&line, &in);
        assert_int_equal(nigh_note_read(&line, &out), 0);
        assert_true(out.until_ns == read[i]);
    }
}

static void moves_and_checks_are_counted(void **state)
{
    struct nigh_arena_note line = {0};
    struct nigh_note in = a_note(), out;

    (void)state;
    nigh_note_write(&line, &in);
    nigh_note_checked(&line, 2);
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.serial, 1);
    assert_int_equal(out.checked, 2);
    nigh_note_moved(&line);
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.serial, 2);
    assert_int_equal(out.checked, 2);
    assert_int_equal(out.tag, 7);
    nigh_note_write(&line, &in);
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.serial, 3);
    assert_int_equal(out.checked, 2);
}

/* Its owner was killed, or stopped, in the middle. The next writing makes it sound again. */
static void a_line_that_is_being_written_is_not_read(void **state)
{
    struct nigh_arena_note line = {0};
    struct nigh_note in = a_note(), out = {.tag = 99};

    (void)state;
    nigh_note_write(&line, &in);
    line.sequence++;
    assert_int_equal(nigh_note_read(&line, &out), -EAGAIN);
    assert_int_equal(out.tag, 99);
    nigh_note_write(&line, &in);
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.serial, 2);
}

static void a_line_that_lies_is_refused(void **state)
{
    static const uint64_t bad[] = {UINT64_C(4) << 32, UINT64_MAX, UINT64_C(1) << 63};
    struct nigh_arena_note line = {0};
    struct nigh_note in = a_note(), out = {.tag = 99};

    (void)state;
    nigh_note_write(&line, &in);
    for (unsigned i = 0; i < 3; i++) {
        line.state_op = bad[i];
        assert_int_equal(nigh_note_read(&line, &out), -EPROTO);
        assert_int_equal(out.tag, 99);
    }
    /* All else may be anything: it is data. */
    memset(&line, 0xff, sizeof(line));
    line.sequence = UINT64_MAX - 1;
    line.state_op = (uint64_t)NIGH_NOTE_BLOCKED << 32 | UINT32_MAX;
    assert_int_equal(nigh_note_read(&line, &out), 0);
    assert_int_equal(out.peer, UINT32_MAX);
    assert_int_equal(strlen(out.site), NIGH_NOTE_SITE_BYTES - 1);
    for (unsigned i = 0; i < NIGH_NOTE_SITE_BYTES - 1; i++)
        assert_int_equal(out.site[i], '?');
}

/* ---- threads -------------------------------------------------------------------------------------------------- */

static struct nigh_arena_note shared_line;
static uint32_t stop;

static void *writes(void *unused)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_BLOCKED};

    while (!nigh_load_relaxed(&stop)) {
        note.tag++;
        note.group = note.peer = note.requests = (uint32_t)note.tag;
        note.members = note.bytes = note.since_ns = note.until_ns = note.tag;
        memset(note.site, 'a' + (int)(note.tag % 26), sizeof(note.site));
        nigh_note_write(&shared_line, &note);
        nigh_note_moved(&shared_line);
        nigh_note_checked(&shared_line, note.tag);
    }
    return unused;
}

/* Whatever is read while it is written over and over is of one writing. */
static void a_line_is_read_whole(void **state)
{
    struct nigh_note note;
    pthread_t thread;
    uint64_t last = 0;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, writes, NULL), 0);
    for (unsigned seen = 0; seen < 20000;) {
        int rc = nigh_note_read(&shared_line, &note);

        if (rc == -EAGAIN)
            continue;
        assert_int_equal(rc, 0);
        seen++;
        assert_true(note.tag >= last);
        last = note.tag;
        assert_true(note.members == last && note.bytes == last && note.since_ns == last &&
                    note.until_ns == last);
        assert_true(note.group == last && note.peer == last && note.requests == last);
        /* A note counts once, what moved once more; the check may have come in between. */
        if (last) {
            assert_in_range(note.serial, 2 * last - 1, 2 * last);
            assert_int_equal(note.site[0], 'a' + (int)(last % 26));
            assert_int_equal(note.site[38], 'a' + (int)(last % 26));
            assert_in_range(note.checked, last - 1, last);
        }
    }
    nigh_store_relaxed(&stop, 1);
    pthread_join(thread, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(no_end_is_zero),
        cmocka_unit_test(moves_and_checks_are_counted),
        cmocka_unit_test(a_line_that_is_being_written_is_not_read),
        cmocka_unit_test(a_line_that_lies_is_refused),
        cmocka_unit_test(a_line_is_read_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
