/* SPDX-License-Identifier: BSD-3-Clause */
/* A window takes memory only for the rings that were taken in it, is counted by its context's arena, and is mapped by
 * its reader only when it is what it must be; a ring that does not lie inside of it is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/ring.h"
#include "shm/window.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

static struct nigh_arena arena;

static int open_arena(void **state)
{
    static const struct nigh_arena_config config = {.incarnation = 1, .peers_max = 4};

    (void)state;
    return nigh_arena_create(&config, &arena);
}

static int close_arena(void **state)
{
    (void)state;
    nigh_arena_destroy(&arena);
    return 0;
}

static struct nigh_window create(uint32_t slots_max)
{
    struct nigh_window window;

    assert_int_equal(nigh_window_create(slots_max, &window), 0);
    return window;
}

static uint64_t memory_of(int fd)
{
    struct stat stat;

    assert_int_equal(fstat(fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

/* ---- the sender's ---------------------------------------------------------------------------------------- */

static void it_has_room_for_the_first_ring_and_the_largest(void **state)
{
    static const struct {
        uint32_t slots;
        uint64_t bytes;
    } sizes[] = {{64, 4096}, {128, 12288}, {1024, 69632}, {NIGH_RING_SLOTS_MAX, 4096 + (4 << 20)}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct nigh_window window = create(sizes[i].slots), reader;
        uint64_t first, second = 0;

        assert_int_equal(window.bytes, sizes[i].bytes + NIGH_SHUTTLE_BYTES);
        assert_int_equal(memory_of(window.fd), 0);
        assert_true(fcntl(window.fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(fcntl(window.fd, F_GET_SEALS) & SEALS, SEALS);
        assert_int_equal(nigh_window_map(window.fd, &reader), 0);
        assert_int_equal(reader.bytes, window.bytes);
        assert_int_equal(memory_of(window.fd), 0);
        assert_int_equal(nigh_window_take(&window, &arena, 64, &first), 0);
        assert_int_equal(first, 0);
        if (sizes[i].slots > 64) {
            assert_int_equal(nigh_window_take(&window, &arena, sizes[i].slots, &second), 0);
            assert_int_equal(second, 4096);
        }
        assert_int_equal(memory_of(window.fd), sizes[i].bytes);
        assert_int_equal(nigh_window_take(&window, &arena, 64, &first), -ENOMEM);
        nigh_window_unmap(&reader);
        nigh_window_close(&window, &arena);
        assert_null(window.base);
        nigh_window_close(&window, &arena); /* again is harmless */
    }
}

static void its_memory_is_counted_until_it_is_closed(void **state)
{
    uint64_t before = nigh_arena_committed(&arena), offset;
    struct nigh_window window = create(128);

    (void)state;
    assert_int_equal(nigh_arena_committed(&arena), before);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), 0);
    assert_int_equal(nigh_arena_committed(&arena), before + 4096);
    assert_int_equal(memory_of(window.fd), 4096);
    assert_int_equal(nigh_window_take(&window, &arena, 128, &offset), 0);
    assert_int_equal(nigh_arena_committed(&arena), before + 12288);
    nigh_window_close(&window, &arena);
    assert_int_equal(nigh_arena_committed(&arena), before);
}

static void a_ring_without_memory_is_no_ring(void **state)
{
    uint64_t before = nigh_arena_committed(&arena), offset = 7;
    struct nigh_window window = create(128);

    (void)state;
    logged_begin();
    osfail_arm(OSFAIL_fallocate, 1, ENOSPC);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), -ENOMEM);
    osfail_remove();
    logged_assert_has("committing 4.0 KiB of shared memory failed");
    logged_end();
    assert_int_equal(offset, 7);
    assert_int_equal(window.used, 0);
    assert_int_equal(nigh_arena_committed(&arena), before);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset),
                     0); /* what was refused may be had later */
    nigh_window_close(&window, &arena);
    arena.refused = false;
}

/* Behind the rings, the same bytes for both ends, with memory as far as was asked for. */
static void its_shuttle_is_backed_as_it_is_used(void **state)
{
    uint64_t before = nigh_arena_committed(&arena), offset;
    struct nigh_window window = create(128), reader;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    assert_int_equal(nigh_window_back_shuttle(&window, &arena, 65536), 0);
    assert_int_equal(memory_of(window.fd), 65536);
    assert_int_equal(nigh_arena_committed(&arena), before + 65536);
    memset(nigh_window_shuttle(&window), 0x5a, 65536);
    assert_memory_equal(nigh_window_shuttle(&window), nigh_window_shuttle(&reader), 65536);
    assert_int_equal(nigh_window_back_shuttle(&window, &arena, 4096), 0); /* is there */
    assert_int_equal(nigh_arena_committed(&arena), before + 65536);
    assert_int_equal(nigh_window_back_shuttle(&window, &arena, NIGH_SHUTTLE_BYTES), 0);
    assert_int_equal(memory_of(window.fd), NIGH_SHUTTLE_BYTES);
    nigh_window_shuttle(&reader)[NIGH_SHUTTLE_BYTES - 1] = 7;
    assert_int_equal(nigh_window_shuttle(&window)[NIGH_SHUTTLE_BYTES - 1], 7);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), 0); /* and rings have their own room */
    assert_int_equal(nigh_window_take(&window, &arena, 128, &offset), 0);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), -ENOMEM);
    nigh_window_unmap(&reader);
    nigh_window_close(&window, &arena);
    assert_int_equal(nigh_arena_committed(&arena), before);
}

static void a_reader_knows_its_own(void **state)
{
    struct nigh_window window = create(64), other = create(64), reader;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    assert_true(nigh_window_is(&reader, window.fd));
    assert_false(nigh_window_is(&reader, other.fd));
    nigh_window_unmap(&reader);
    nigh_window_close(&window, &arena);
    nigh_window_close(&other, &arena);
}

static void a_shuttle_without_memory_stays_as_it_was(void **state)
{
    uint64_t before = nigh_arena_committed(&arena);
    struct nigh_window window = create(64);

    (void)state;
    logged_begin();
    osfail_arm(OSFAIL_fallocate, 1, ENOSPC);
    assert_int_equal(nigh_window_back_shuttle(&window, &arena, 65536), -ENOMEM);
    osfail_remove();
    logged_assert_has("done without 64.0 KiB of shared memory: No space left on device");
    logged_end();
    assert_int_equal(window.shuttled, 0);
    assert_int_equal(nigh_arena_committed(&arena), before);
    assert_false(arena.refused); /* the next refusal is the first that matters */
    nigh_window_close(&window, &arena);
}

static void a_forked_child_has_no_mapping(void **state)
{
    struct nigh_window window = create(64), reader;
    pid_t child;
    int status;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    child = fork();
    if (child == 0) {
        unsigned char resident;

        /* ENOMEM: not mapped. */
        _exit(mincore(window.base, 4096, &resident) == 0   ? 1
              : mincore(reader.base, 4096, &resident) == 0 ? 2
                                                           : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    nigh_window_unmap(&reader);
    nigh_window_close(&window, &arena);
}

/* What a peer has mapped it can read to the end, whatever has become of the sender's. */
static void a_message_outlives_its_sender(void **state)
{
    struct nigh_window window = create(64), reader;
    struct nigh_ring_tx tx = {0};
    struct nigh_ring_rx rx = {0};
    uint64_t offset, credit = 0;
    const void *memory;
    uint32_t slots = 0;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), 0);
    tx.credit = &credit;
    nigh_ring_tx_use(&tx, window.base + offset, 64, 0);
    nigh_ring_address(nigh_ring_at(&tx), 5, 6);
    nigh_ring_commit(&tx, nigh_head_make(1, 0, 0, 0), 1);
    nigh_window_close(&window, &arena);
    memory = nigh_window_ring(&reader, nigh_window_word(offset, 64), &slots);
    assert_ptr_equal(memory, reader.base);
    assert_int_equal(slots, 64);
    rx.credit = &credit;
    nigh_ring_rx_use(&rx, memory, slots);
    assert_int_equal(nigh_head_kind(nigh_ring_peek(&rx)), 1);
    assert_int_equal(rx.at->tag, 5);
    nigh_window_unmap(&reader);
}

static void every_failure_of_create_cleans_up(void **state)
{
    static const struct {
        enum osfail_call call;
        int error, result;
    } failures[] = {
        {OSFAIL_memfd_create, EMFILE, -EMFILE}, {OSFAIL_memfd_create, ENFILE, -EMFILE},
        {OSFAIL_memfd_create, ENOSYS, -ENOSYS}, {OSFAIL_ftruncate, ENOMEM, -ENOMEM},
        {OSFAIL_fcntl, EPERM, -EPERM},          {OSFAIL_mmap, ENOMEM, -ENOMEM},
        {OSFAIL_madvise, ENOMEM, -ENOMEM},
    };
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();

    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct nigh_window out = {.fd = -7};

        logged_begin();
        osfail_arm(failures[i].call, 1, failures[i].error);
        assert_int_equal(nigh_window_create(128, &out), failures[i].result);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(logged_lines(), 1);
        logged_end();
        assert_int_equal(out.fd, -7);
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
}

/* ---- the reader's ---------------------------------------------------------------------------------------- */

static int memfd_of(off_t bytes, int seals)
{
    int fd = memfd_create("foe", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void refused(int fd, const char *logged)
{
    unsigned maps = osfail_shared_maps();
    struct nigh_window out = {.fd = -7};

    logged_begin();
    assert_int_equal(nigh_window_map(fd, &out), -EPROTO);
    logged_assert_has(logged);
    logged_end();
    assert_int_equal(out.fd, -7);
    assert_int_equal(osfail_shared_maps(), maps);
    close(fd);
}

static void hostile_descriptors_are_refused(void **state)
{
    const off_t most = (off_t)(NIGH_RING_SLOTS_MIN + NIGH_RING_SLOTS_MAX) * NIGH_LINE + NIGH_SHUTTLE_BYTES;
    struct nigh_window window;
    int ends[2], fd;
    char path[64];

    (void)state;
    refused(memfd_of(12288, SEALS & ~F_SEAL_SHRINK), "not sealed");
    refused(memfd_of(12288, SEALS & ~F_SEAL_GROW), "not sealed");
    refused(memfd_of(12288, SEALS & ~F_SEAL_SEAL), "not sealed");
    refused(memfd_of(12288, SEALS | F_SEAL_WRITE), "against writing");
    refused(memfd_of(12288, SEALS | F_SEAL_FUTURE_WRITE), "against writing");
    refused(memfd_of(0, SEALS), "size");
    refused(memfd_of(4097, SEALS), "size");
    refused(memfd_of(NIGH_SHUTTLE_BYTES, SEALS), "size"); /* no room for a ring */
    refused(memfd_of(most + 4096, SEALS), "size");
    refused(memfd_of((off_t)1 << 50, SEALS), "size");
    refused(open("/", O_RDONLY | O_CLOEXEC), "not a memfd");
    refused(99999, "not a memfd");
    refused(fcntl(arena.fd, F_DUPFD_CLOEXEC, 0), "against writing"); /* the arena for the window */
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    refused(ends[0], "not a memfd");
    close(ends[1]);
    fd = memfd_of(12288 + NIGH_SHUTTLE_BYTES, SEALS);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    refused(open(path, O_RDONLY | O_CLOEXEC), "mapped for writing");
    assert_int_equal(nigh_window_map(fd, &window), 0); /* and the sound one is taken */
    nigh_window_unmap(&window);
    close(fd);
}

static void a_machine_that_cannot_map_is_told_from_a_foe(void **state)
{
    static const enum osfail_call calls[] = {OSFAIL_mmap, OSFAIL_madvise};
    struct nigh_window window = create(128);
    unsigned maps = osfail_shared_maps();

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct nigh_window out = {.fd = -7};

        logged_begin();
        osfail_arm(calls[i], 1, ENOMEM);
        assert_int_equal(nigh_window_map(window.fd, &out), -ENOMEM);
        osfail_remove();
        logged_assert_has("ulimit -v");
        logged_end();
        assert_int_equal(out.fd, -7);
        assert_int_equal(osfail_shared_maps(), maps);
    }
    nigh_window_close(&window, &arena);
}

/* 4 KiB for a ring of 64, behind it 8 KiB for one of 128. */
static void a_ring_lies_inside_or_is_none(void **state)
{
    static const struct {
        uint64_t word;
        uint32_t slots; /* 0: none */
    } words[] = {
        {0 << 8 | 6, 64},
        {1 << 8 | 7, 128},
        {2 << 8 | 6, 64},
        {0 << 8 | 7, 128},
        {3 << 8 | 6, 0},                        /* begins where the shuttle does */
        {2 << 8 | 7, 0},                        /* ends in the shuttle */
        {0 << 8 | 8, 0},                        /* longer than all */
        {0 << 8 | 16, 0},                       /* the same */
        {0 << 8 | 5, 0},                        /* too small */
        {0, 0},                                 /* too small */
        {0 << 8 | 17, 0},                       /* more slots than there can be */
        {0 << 8 | 38, 0},                       /* 64 if its shift were taken modulo 32 */
        {0 << 8 | 255, 0},                      /* far more */
        {UINT64_C(0xffffffffffff) << 8 | 6, 0}, /* outside */
        {UINT64_C(1) << 56 | 6, 0},             /* outside, by a bit that no offset has */
        {UINT64_MAX, 0},
    };
    struct nigh_window window = create(128), reader;
    uint64_t offset;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    assert_int_equal(nigh_window_take(&window, &arena, 64, &offset), 0);
    assert_int_equal(nigh_window_take(&window, &arena, 128, &offset), 0);
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        uint32_t slots = 0;
        const void *at = nigh_window_ring(&reader, words[i].word, &slots);

        if (slots != words[i].slots || (at ? 1 : 0) != (slots ? 1 : 0))
            fail_msg("word %#llx: %u slots, not %u", (unsigned long long)words[i].word, slots,
                     words[i].slots);
        if (at)
            assert_ptr_equal(at, reader.base + (words[i].word >> 8) * 4096);
    }
    nigh_window_unmap(&reader);
    nigh_window_close(&window, &arena);
}

/* A kernel before 5.14 cannot be asked to. */
static void a_ring_is_taken_where_pages_cannot_be_mapped_ahead(void **state)
{
    struct nigh_window window = create(128), reader;
    uint32_t slots = 0;

    (void)state;
    assert_int_equal(nigh_window_map(window.fd, &reader), 0);
    osfail_arm(OSFAIL_madvise, 1, EINVAL);
    assert_ptr_equal(nigh_window_ring(&reader, nigh_window_word(4096, 128), &slots), reader.base + 4096);
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(slots, 128);
    nigh_window_unmap(&reader);
    nigh_window_close(&window, &arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_has_room_for_the_first_ring_and_the_largest),
        cmocka_unit_test(its_memory_is_counted_until_it_is_closed),
        cmocka_unit_test(a_ring_without_memory_is_no_ring),
        cmocka_unit_test(its_shuttle_is_backed_as_it_is_used),
        cmocka_unit_test(a_reader_knows_its_own),
        cmocka_unit_test(a_shuttle_without_memory_stays_as_it_was),
        cmocka_unit_test(a_forked_child_has_no_mapping),
        cmocka_unit_test(a_message_outlives_its_sender),
        cmocka_unit_test(every_failure_of_create_cleans_up),
        cmocka_unit_test(hostile_descriptors_are_refused),
        cmocka_unit_test(a_machine_that_cannot_map_is_told_from_a_foe),
        cmocka_unit_test(a_ring_lies_inside_or_is_none),
        cmocka_unit_test(a_ring_is_taken_where_pages_cannot_be_mapped_ahead),
    };
    return cmocka_run_group_tests_name("window", tests, open_arena, close_arena);
}
