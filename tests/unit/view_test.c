/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer's arena is mapped read-only, and only if everything about it is right: a case for each thing that can
 * be wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#define INCARNATION UINT64_C(0xfeedface12345678)
#define ALL_SEALS   (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

static const struct nigh_arena_config config = {
    .incarnation = INCARNATION,
    .peers_max = 40,
    .pool_bytes = 65536,
    .heap_bytes = 1 << 20,
    .program = {.address = 1 << 30, .bytes = 1 << 20, .id = 5, .fd = 8},
};

/* The header of a sound arena, to be spoilt. */
static struct nigh_arena_header sound(void)
{
    struct nigh_arena arena;
    struct nigh_arena_header header;

    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    header = arena.layout;
    nigh_arena_destroy(&arena);
    return header;
}

static int memfd_with(const struct nigh_arena_header *header, uint64_t bytes, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, header, sizeof(*header), 0), sizeof(*header));
    assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

/* Maps `fd`, which must be refused with `error` and a line that has `logged`, leaving nothing. Closes fd. */
static void refused(int fd, int error, const char *logged)
{
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
    struct nigh_view view = {.bytes = 7};

    logged_begin();
    assert_int_equal(nigh_view_map(fd, INCARNATION, &view), error);
    assert_int_equal(logged_lines(), 1);
    logged_assert_has(logged);
    logged_end();
    assert_int_equal(view.bytes, 7);
    assert_null(view.base);
    assert_int_equal(osfail_open_fds(), fds);
    assert_int_equal(osfail_shared_maps(), maps);
    close(fd);
}

static void a_sound_arena_is_seen(void **state)
{
    struct nigh_arena arena;
    struct nigh_view view;

    (void)state;
    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    assert_int_equal(nigh_view_map(arena.fd, INCARNATION, &view), 0);
    assert_int_equal(view.bytes, arena.bytes);
    assert_memory_equal(&view.layout, &arena.layout, sizeof(view.layout));
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 4096), 0);
    memcpy(arena.base + arena.layout.heap_off, "written", 8);
    assert_string_equal((const char *)nigh_view_at(&view, view.layout.heap_off, 8), "written");
    assert_int_equal(mprotect((void *)(uintptr_t)view.base, 4096, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(errno, EACCES);
    nigh_view_unmap(&view);
    assert_null(view.base);
    nigh_view_unmap(&view);
    nigh_arena_destroy(&arena);
}

static void offsets_become_pointers_only_inside(void **state)
{
    const uint8_t memory[64] = {0};
    const struct nigh_view view = {.base = memory, .bytes = 64};

    (void)state;
    assert_ptr_equal(nigh_view_at(&view, 0, 64), memory);
    assert_ptr_equal(nigh_view_at(&view, 60, 4), memory + 60);
    assert_ptr_equal(nigh_view_at(&view, 64, 0), memory + 64);
    assert_null(nigh_view_at(&view, 0, 65));
    assert_null(nigh_view_at(&view, 61, 4));
    assert_null(nigh_view_at(&view, 65, 0));
    assert_null(nigh_view_at(&view, UINT64_MAX, 2));
    assert_null(nigh_view_at(&view, 2, UINT64_MAX));
    assert_null(nigh_view_at(&view, UINT64_MAX, UINT64_MAX));
}

/* ---- the descriptor -------------------------------------------------------------------------------------- */

static void without_seal(int seal, const char *logged)
{
    struct nigh_arena_header header = sound();

    refused(memfd_with(&header, header.bytes, ALL_SEALS & ~seal), -EPROTO, logged);
}

static void without_seal_shrink(void **state)
{
    (void)state;
    without_seal(F_SEAL_SHRINK, "F_SEAL_SHRINK");
}

static void without_seal_grow(void **state)
{
    (void)state;
    without_seal(F_SEAL_GROW, "F_SEAL_GROW");
}

static void without_seal_future_write(void **state)
{
    (void)state;
    without_seal(F_SEAL_FUTURE_WRITE, "F_SEAL_FUTURE_WRITE");
}

static void without_seal_seal(void **state)
{
    (void)state;
    without_seal(F_SEAL_SEAL, "F_SEAL_SEAL");
}

static void a_pipe(void **state)
{
    int ends[2];

    (void)state;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    refused(ends[0], -EPROTO, "not a memfd");
    close(ends[1]);
}

static void a_directory(void **state)
{
    (void)state;
    refused(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC), -EPROTO, "not a memfd");
}

static void an_eventfd(void **state)
{
    (void)state;
    refused(eventfd(0, EFD_CLOEXEC), -EPROTO, "not a memfd");
}

static void a_closed_descriptor(void **state)
{
    (void)state;
    refused(54321, -EPROTO, "not a memfd");
}

/* A file of a tmpfs has seals too: at least the one that says there will be no more of them. */
static void a_named_file_of_a_tmpfs(void **state)
{
    int fd = open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

    (void)state;
    if (fd < 0) {
        print_message("no file can be made in /dev/shm: %s\n", strerror(errno));
        skip();
    }
    refused(fd, -EPROTO, "F_SEAL_SHRINK");
}

static void a_memfd_of_huge_pages(void **state)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);

    (void)state;
    if (fd < 0) {
        print_message("this kernel has no hugetlbfs memfd: %s\n", strerror(errno));
        skip();
    }
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, ALL_SEALS), 0);
    refused(fd, -EPROTO, "ordinary pages");
}

static void a_descriptor_that_cannot_be_read(void **state)
{
    struct nigh_arena_header header = sound();
    int fd = memfd_with(&header, header.bytes, ALL_SEALS), write_only;
    char path[64];

    (void)state;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    write_only = open(path, O_WRONLY | O_CLOEXEC);
    assert_true(write_only >= 0);
    refused(write_only, -EPROTO, "header cannot be read");
    close(fd);
}

/* ---- the size -------------------------------------------------------------------------------------------- */

static void sized(uint64_t bytes, const char *logged)
{
    struct nigh_arena_header header = sound();

    refused(memfd_with(&header, bytes, ALL_SEALS), -EPROTO, logged);
}

static void an_empty_file(void **state)
{
    (void)state;
    sized(0, "size is out of range");
}

static void a_file_of_one_page(void **state)
{
    (void)state;
    sized(4096, "size is out of range");
}

static void a_file_shorter_than_its_header_says(void **state)
{
    (void)state;
    sized(sound().bytes - 4096, "not the one that its header names");
}

static void a_file_longer_than_its_header_says(void **state)
{
    (void)state;
    sized(sound().bytes + 4096, "not the one that its header names");
}

static void a_file_larger_than_any_arena(void **state)
{
    (void)state;
    sized(NIGH_ARENA_MAX + 4096, "size is out of range");
}

/* ---- the header ------------------------------------------------------------------------------------------ */

/* A change of one field of a sound header, and what is to be said of it. */
struct spoilt {
    const char *name;
    size_t offset;
    unsigned width;
    uint64_t value;
    const char *logged;
};

#define FIELD(field) \
    offsetof(struct nigh_arena_header, field), sizeof(((struct nigh_arena_header *)NULL)->field)
#define HUGE_OFFSET UINT64_C(0xfffffffffffff000)

static struct spoilt spoilt[] = {
    {"magic", FIELD(magic), 1, "magic"},
    {"magic_zero", FIELD(magic), 0, "magic"},
    {"version_newer", FIELD(version), NIGH_LAYOUT_VERSION + 1,
     "; all processes of a job must load the same nigh"},
    {"version_zero", FIELD(version), 0, "of another version: 0, not "},
    {"incarnation_of_another", FIELD(incarnation), INCARNATION + 1, "another context"},
    {"incarnation_zero", FIELD(incarnation), 0, "another context"},
    {"peers_none", FIELD(peers_max), 0, "number of peers"},
    {"peers_too_many", FIELD(peers_max), NIGH_PEERS_MAX + 1, "number of peers"},
    {"peers_all_ones", FIELD(peers_max), UINT32_MAX, "number of peers"},
    {"peers_reach_into_pool", FIELD(peers_max), NIGH_PEERS_MAX, "its "},
    {"bytes_all_ones", FIELD(bytes), UINT64_MAX, "not the one"},
    {"flags_unknown", FIELD(flags), 2, "reserved"},
    {"memory_without_a_descriptor", FIELD(memory_fd), 0, "memory"},
    {"memory_descriptor_negative", FIELD(memory_fd), UINT32_MAX, "memory"},
    {"memory_without_a_place", FIELD(memory_address), 0, "memory"},
    {"memory_misaligned", FIELD(memory_address), (1 << 30) + 64, "memory"},
    {"memory_overflow", FIELD(memory_address), HUGE_OFFSET, "memory"},
    {"memory_none", FIELD(memory_bytes), 0, "memory"},
    {"memory_of_its_head", FIELD(memory_bytes), 4096, "memory"},
    {"memory_part_page", FIELD(memory_bytes), (1 << 20) + 1, "memory"},
    {"memory_too_large", FIELD(memory_bytes), 2 * NIGH_ARENA_MAX, "memory"},
    {"memory_without_an_id", FIELD(memory_id), 0, "memory"},
    {"pairs_on_header", FIELD(pairs_off), 0, "pairs"},
    {"pairs_on_state", FIELD(pairs_off), 4096, "pairs"},
    {"pairs_misaligned", FIELD(pairs_off), 8192 + 64, "pairs"},
    {"pairs_outside", FIELD(pairs_off), HUGE_OFFSET, "pairs"},
    {"pool_on_pairs", FIELD(pool_off), 8192, "pool"},
    {"pool_misaligned", FIELD(pool_off), (2 << 20) + 1, "pool"},
    {"pool_outside", FIELD(pool_off), HUGE_OFFSET, "pool"},
    {"pool_overflow", FIELD(pool_bytes), HUGE_OFFSET, "pool"},
    {"pool_part_page", FIELD(pool_bytes), 65535, "pool"},
    {"pool_reaches_into_heap", FIELD(pool_bytes), (2 << 20) + 4096, "heap"},
    {"heap_on_header", FIELD(heap_off), 0, "heap"},
    {"heap_on_pool", FIELD(heap_off), 2 << 20, "heap"},
    {"heap_misaligned", FIELD(heap_off), (4 << 20) + 64, "heap"},
    {"heap_outside", FIELD(heap_off), HUGE_OFFSET, "heap"},
    {"heap_longer_than_the_file", FIELD(heap_bytes), (1 << 20) + 4096, "heap"},
    {"heap_overflow", FIELD(heap_bytes), HUGE_OFFSET, "heap"},
    {"heap_part_page", FIELD(heap_bytes), 4095, "heap"},
};

static void spoilt_header(void **state)
{
    const struct spoilt *one = *state;
    struct nigh_arena_header header = sound();

    memcpy((uint8_t *)&header + one->offset, &one->value, one->width);
    refused(memfd_with(&header, sound().bytes, ALL_SEALS),
            one->offset == offsetof(struct nigh_arena_header, version) ? -EPROTONOSUPPORT : -EPROTO,
            one->logged);
}

static void what_was_in_the_way_is_known(void **state)
{
    struct nigh_arena_header header = sound();
    int fd;

    (void)state;
    header.version = 7;
    fd = memfd_with(&header, header.bytes, ALL_SEALS);
    assert_int_equal(nigh_view_stumble(fd, -EPROTONOSUPPORT), 7);
    assert_int_equal(nigh_view_stumble(fd, -ENOMEM), header.bytes);
    assert_int_equal(nigh_view_stumble(fd, -EPROTO), 0);
    assert_int_equal(nigh_view_stumble(-1, -ENOMEM), 0);
    close(fd);
}

/* The table above is about a layout that would pass as it is. */
static void the_unspoilt_header_passes(void **state)
{
    struct nigh_arena_header header = sound();
    int fd = memfd_with(&header, header.bytes, ALL_SEALS);
    struct nigh_view view;

    (void)state;
    assert_int_equal(header.pool_off, 2 << 20);
    assert_int_equal(header.heap_off, 4 << 20);
    assert_int_equal(nigh_view_map(fd, INCARNATION, &view), 0);
    nigh_view_unmap(&view);
    close(fd);
}

/* What was checked stays so, whatever the owner writes later. */
static void the_header_is_read_once(void **state)
{
    struct nigh_arena arena;
    struct nigh_view view;

    (void)state;
    assert_int_equal(nigh_arena_create(&config, &arena), 0);
    assert_int_equal(nigh_view_map(arena.fd, INCARNATION, &view), 0);
    memset(arena.base, 0xff, sizeof(struct nigh_arena_header));
    assert_int_equal(view.layout.magic, NIGH_ARENA_MAGIC);
    assert_int_equal(view.layout.heap_off, arena.layout.heap_off);
    assert_null(nigh_view_at(&view, arena.bytes, 1));
    nigh_view_unmap(&view);
    nigh_arena_destroy(&arena);
}

/* ---- failing calls --------------------------------------------------------------------------------------- */

static void every_failure_cleans_up(void **state)
{
    static const struct {
        enum osfail_call call;
        int error, result;
        const char *logged;
    } failures[] = {
        {OSFAIL_fcntl, EINVAL, -EPROTO, "not a memfd"},
        {OSFAIL_fstatfs, EIO, -EPROTO, "size cannot be read"},
        {OSFAIL_fstat, EIO, -EPROTO, "size cannot be read"},
        {OSFAIL_pread, EIO, -EPROTO, "header cannot be read"},
        {OSFAIL_mmap, ENOMEM, -ENOMEM, "ulimit -v"},
        {OSFAIL_madvise, ENOMEM, -ENOMEM, "Cannot allocate"},
    };
    struct nigh_arena_header header = sound();

    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        int fd = memfd_with(&header, header.bytes, ALL_SEALS);

        osfail_arm(failures[i].call, 1, failures[i].error);
        refused(fd, failures[i].result, failures[i].logged);
        assert_true(osfail_hit());
        osfail_remove();
    }
}

int main(void)
{
    enum { FIXED = 21, SPOILT = sizeof(spoilt) / sizeof(spoilt[0]) };
    struct CMUnitTest tests[FIXED + SPOILT] = {
        cmocka_unit_test(a_sound_arena_is_seen),
        cmocka_unit_test(offsets_become_pointers_only_inside),
        cmocka_unit_test(without_seal_shrink),
        cmocka_unit_test(without_seal_grow),
        cmocka_unit_test(without_seal_future_write),
        cmocka_unit_test(without_seal_seal),
        cmocka_unit_test(a_pipe),
        cmocka_unit_test(a_directory),
        cmocka_unit_test(an_eventfd),
        cmocka_unit_test(a_closed_descriptor),
        cmocka_unit_test(a_named_file_of_a_tmpfs),
        cmocka_unit_test(a_memfd_of_huge_pages),
        cmocka_unit_test(a_descriptor_that_cannot_be_read),
        cmocka_unit_test(an_empty_file),
        cmocka_unit_test(a_file_of_one_page),
        cmocka_unit_test(a_file_shorter_than_its_header_says),
        cmocka_unit_test(a_file_longer_than_its_header_says),
        cmocka_unit_test(a_file_larger_than_any_arena),
        cmocka_unit_test(the_unspoilt_header_passes),
        cmocka_unit_test(what_was_in_the_way_is_known),
        cmocka_unit_test(the_header_is_read_once),
        cmocka_unit_test(every_failure_cleans_up),
    };

    for (unsigned i = 0; i < SPOILT; i++) {
        tests[FIXED + i] = (struct CMUnitTest){
            .name = spoilt[i].name,
            .test_func = spoilt_header,
            .initial_state = &spoilt[i],
        };
    }
    return cmocka_run_group_tests_name("view", tests, NULL, NULL);
}
