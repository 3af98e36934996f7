/* SPDX-License-Identifier: BSD-3-Clause */
/* An observer takes a sound arena and no other, and writes nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "shm/note.h"
#include "shm/observe.h"
#include "shm/shared.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct nigh_arena_config config = {
    .incarnation = 77, .job = 0xabc, .rank = 3, .ranks = 5, .peers_max = 4};

/* As nigh-top comes to it: the kernel opens it anew, for reading. */
static int reopened(int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDONLY | O_CLOEXEC);
}

static void what_the_owner_writes_is_seen(void **state)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_BLOCKED, .tag = 9}, seen;
    struct nigh_arena_counters counters;
    struct nigh_observed observed;
    struct nigh_arena arena;
    char link[64] = "", path[64];
    int fd;

    (void)state;
    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", arena.fd);
    assert_true(readlink(path, link, sizeof(link) - 1) > 0);
    assert_string_equal(link, NIGH_ARENA_LINK);
    fd = reopened(arena.fd);
    assert_true(fd >= 0);
    assert_int_equal(nigh_observe_open(fd, &observed), 0);
    close(fd);
    assert_true(observed.job == 0xabc && observed.rank == 3 && observed.ranks == 5);
    assert_true(observed.incarnation == 77 && observed.bytes == arena.bytes);
    assert_true(observed.allocated > 0 && observed.allocated < 1 << 20);
    nigh_note_write(nigh_arena_note(&arena), &note);
    nigh_arena_counters(&arena)->sleeps = 12;
    nigh_arena_counters(&arena)->sent[5] = 13;
    nigh_arena_state(&arena)->asleep = NIGH_ASLEEP;
    assert_int_equal(nigh_observe_note(&observed, &seen), 0);
    assert_int_equal(seen.tag, 9);
    nigh_observe_counters(&observed, &counters);
    assert_int_equal(counters.sleeps, 12);
    assert_int_equal(counters.sent[5], 13);
    assert_true(nigh_observe_sleeps(&observed));
    nigh_arena_state(&arena)->asleep = NIGH_AWAKE;
    assert_false(nigh_observe_sleeps(&observed));
    /* It stays readable when its owner is gone. */
    nigh_arena_destroy(&arena);
    assert_int_equal(nigh_observe_note(&observed, &seen), 0);
    nigh_observe_close(&observed);
    assert_null(observed.page);
    nigh_observe_close(&observed);
}

/* ---- what is no arena ----------------------------------------------------------------------------------------- */

static int memfd_of(const struct nigh_arena_header *header, off_t bytes, int seals)
{
    int fd = memfd_create("nigh-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    if (header)
        assert_int_equal(pwrite(fd, header, sizeof(*header), 0), sizeof(*header));
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void refused(const char *what, int fd, int error)
{
    struct nigh_observed out = {.rank = 99};
    int rc = nigh_observe_open(fd, &out);

    if (rc != error || out.rank != 99)
        fail_msg("%s: %d, not %d", what, rc, error);
    close(fd);
}

static void what_is_no_arena_is_refused(void **state)
{
    struct nigh_arena_header sound = {.magic = NIGH_ARENA_MAGIC,
                                      .version = NIGH_LAYOUT_VERSION,
                                      .bytes = 4 * NIGH_PAGE,
                                      .incarnation = 1,
                                      .rank = 0,
                                      .ranks = 1};
    struct nigh_arena_header header = sound;
    struct nigh_observed out;
    int fd = memfd_of(&sound, 4 * NIGH_PAGE, F_SEAL_SHRINK);

    (void)state;
    assert_int_equal(nigh_observe_open(fd, &out), 0);
    nigh_observe_close(&out);
    close(fd);
    refused("it can be cut off", memfd_of(&sound, 4 * NIGH_PAGE, 0), -EPROTO);
    refused("it is too short", memfd_of(&sound, 2 * NIGH_PAGE, F_SEAL_SHRINK), -EPROTO);
    refused("it is shorter than it says", memfd_of(&sound, 3 * NIGH_PAGE, F_SEAL_SHRINK), -EPROTO);
    refused("nothing in it", memfd_of(NULL, 4 * NIGH_PAGE, F_SEAL_SHRINK), -EPROTO);
    refused("a device", open("/dev/zero", O_RDONLY | O_CLOEXEC), -EPROTO);
    refused("no descriptor", -1, -EPROTO);
    header.version++;
    refused("another version", memfd_of(&header, 4 * NIGH_PAGE, F_SEAL_SHRINK), -ENOTSUP);
    header = sound;
    header.incarnation = 0;
    refused("no incarnation", memfd_of(&header, 4 * NIGH_PAGE, F_SEAL_SHRINK), -EPROTO);
    header = sound;
    header.rank = 1;
    refused("a rank outside of the job", memfd_of(&header, 4 * NIGH_PAGE, F_SEAL_SHRINK), -EPROTO);
}

static void a_page_that_cannot_be_mapped(void **state)
{
    struct nigh_observed out;
    struct nigh_arena arena;

    (void)state;
    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    osfail_install();
    osfail_arm(OSFAIL_mmap, 1, ENOMEM);
    assert_int_equal(nigh_observe_open(arena.fd, &out), -ENOMEM);
    assert_true(osfail_hit());
    osfail_remove();
    nigh_arena_destroy(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_the_owner_writes_is_seen),
        cmocka_unit_test(what_is_no_arena_is_refused),
        cmocka_unit_test(a_page_that_cannot_be_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
