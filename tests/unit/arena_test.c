/* SPDX-License-Identifier: BSD-3-Clause */
/* An arena reserves without memory, commits once, and is sealed before anybody can have it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "shm/doorbell.h"
#include "shm/pool.h"
#include "tests/support/arenas.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool all_zero(const void *at, size_t bytes)
{
    const uint8_t *byte = at;

    for (size_t i = 0; i < bytes; i++) {
        if (byte[i])
            return false;
    }
    return true;
}

static void header_says_what_lies_where(void **state)
{
    struct nigh_arena arena = create(&small);
    const struct nigh_arena_header *header = &arena.layout;

    (void)state;
    assert_memory_equal(arena.base, header, sizeof(*header));
    assert_int_equal(header->magic, NIGH_ARENA_MAGIC);
    assert_int_equal(header->version, NIGH_LAYOUT_VERSION);
    assert_int_equal(header->incarnation, small.incarnation);
    assert_int_equal(header->peers_max, 100);
    assert_int_equal(header->pairs_off, 8192);
    assert_true(header->pool_off >= 8192 + 100 * 128);
    assert_int_equal(header->pool_off % (2 * MIB), 0);
    assert_int_equal(header->pool_bytes, 4 * MIB);
    assert_true(header->heap_off >= header->pool_off + header->pool_bytes);
    assert_int_equal(header->heap_bytes, 64 * MIB);
    assert_int_equal(header->bytes, header->heap_off + header->heap_bytes);
    assert_int_equal(arena.bytes, header->bytes);
    assert_int_equal(header->flags, nigh_bell_light() ? NIGH_ARENA_FENCES : 0);
    assert_int_equal(nigh_arena_state(&arena)->asleep, NIGH_AWAKE);
    assert_false(arena.huge);
    nigh_arena_destroy(&arena);
    assert_null(arena.base);
    nigh_arena_destroy(&arena); /* again is harmless */
}

static void sizes_are_rounded_up(void **state)
{
    struct nigh_arena_config config = small;
    struct nigh_arena arena;

    (void)state;
    config.pool_bytes = 1;
    config.heap_bytes = 4097;
    arena = create(&config);
    assert_int_equal(arena.layout.pool_bytes, NIGH_CHUNK);
    assert_int_equal(arena.layout.heap_bytes, 8192);
    nigh_arena_destroy(&arena);
    config.pool_bytes = config.heap_bytes = 0;
    arena = create(&config);
    assert_int_equal(arena.layout.pool_bytes, 0);
    assert_int_equal(arena.layout.heap_bytes, 0);
    nigh_arena_destroy(&arena);
}

static void reservation_takes_no_memory(void **state)
{
    struct nigh_arena_config config = small;
    struct nigh_arena arena;

    (void)state;
    config.peers_max = NIGH_PEERS_MAX;
    config.heap_bytes = 1024 * GIB;
    arena = create(&config);
    assert_true(arena.bytes > 1024 * GIB);
    assert_int_equal(memory_of(&arena), 3 * NIGH_PAGE);
    assert_int_equal(nigh_arena_committed(&arena), 3 * NIGH_PAGE);
    nigh_arena_destroy(&arena);
}

static void bad_configs_are_refused(void **state)
{
    static const struct {
        uint32_t peers;
        uint64_t incarnation, pool, heap;
        int error;
        const char *logged;
    } bad[] = {
        {0, 1, 0, 0, -EINVAL, "for 0 peers"},
        {65537, 1, 0, 0, -EINVAL, "65537 peers"},
        {4, 0, 0, 0, -EINVAL, "cannot be made"},
        {4, 1, UINT64_MAX, 0, -ENOMEM, "neither may exceed 4.0 TiB"},
        {4, 1, 0, UINT64_MAX, -ENOMEM, "heap of none"},
        {4, 1, 0, NIGH_ARENA_MAX / 4 + 1, -ENOMEM, "heap of 4.0 TiB"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct nigh_arena_config config = {.incarnation = bad[i].incarnation,
                                           .peers_max = bad[i].peers,
                                           .pool_bytes = bad[i].pool,
                                           .heap_bytes = bad[i].heap};
        struct nigh_arena out = {.fd = -7};

        logged_begin();
        assert_int_equal(nigh_arena_create(&config, &out), bad[i].error);
        if (bad[i].heap != UINT64_MAX)
            logged_assert_has(bad[i].logged);
        assert_int_equal(logged_lines(), 1);
        assert_int_equal(out.fd, -7);
        logged_end();
    }
}

static void commit_backs_exactly_once(void **state)
{
    struct nigh_arena arena = create(&small);
    uint64_t heap = arena.layout.heap_off, before = memory_of(&arena);

    (void)state;
    osfail_install();
    assert_int_equal(nigh_arena_commit(&arena, heap + 100, 1), 0);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 1);
    assert_int_equal(memory_of(&arena), before + NIGH_PAGE);
    assert_int_equal(nigh_arena_commit(&arena, heap, NIGH_PAGE), 0);
    assert_int_equal(nigh_arena_commit(&arena, heap, 0), 0);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 1);
    /* A hole in the middle: the two runs around what is there already. */
    assert_int_equal(nigh_arena_commit(&arena, heap + 300 * NIGH_PAGE, 70 * NIGH_PAGE), 0);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 2);
    assert_int_equal(nigh_arena_commit(&arena, heap, 1000 * NIGH_PAGE), 0);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 4);
    assert_int_equal(memory_of(&arena), before + 1000 * NIGH_PAGE);
    assert_int_equal(nigh_arena_commit(&arena, heap, 1000 * NIGH_PAGE), 0);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 4);
    osfail_remove();
    memset(arena.base + heap, 1, 1000 * NIGH_PAGE);
    assert_int_equal(memory_of(&arena), before + 1000 * NIGH_PAGE);
    assert_int_equal(nigh_arena_committed(&arena), memory_of(&arena));
    nigh_arena_destroy(&arena);
}

/* Against a plain array of flags. */
static void random_commits_agree_with_a_model(void **state)
{
    struct nigh_arena arena = create(&small);
    enum { PAGES = 2000 };
    bool model[PAGES] = {false};
    uint64_t expected = nigh_arena_committed(&arena);

    (void)state;
    srand(7);
    for (int i = 0; i < 400; i++) {
        unsigned from = (unsigned)rand() % PAGES, pages = (unsigned)rand() % 150;

        if (pages > PAGES - from)
            pages = PAGES - from;
        assert_int_equal(
            nigh_arena_commit(&arena, arena.layout.heap_off + from * NIGH_PAGE, pages * NIGH_PAGE), 0);
        for (unsigned p = from; p < from + pages; p++) {
            expected += model[p] ? 0 : NIGH_PAGE;
            model[p] = true;
        }
        assert_int_equal(nigh_arena_committed(&arena), expected);
    }
    assert_int_equal(memory_of(&arena), expected);
    nigh_arena_destroy(&arena);
}

static void the_last_page_can_be_committed(void **state)
{
    struct nigh_arena arena = create(&small);

    (void)state;
    assert_int_equal(nigh_arena_commit(&arena, arena.bytes - NIGH_PAGE, NIGH_PAGE), 0);
    arena.base[arena.bytes - 1] = 1;
    assert_int_equal(nigh_arena_commit(&arena, arena.bytes, 0), 0);
    nigh_arena_destroy(&arena);
}

static void signals_only_delay_a_commit(void **state)
{
    struct nigh_arena arena = create(&small);

    (void)state;
    osfail_arm(OSFAIL_fallocate, 1, EINTR);
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 8 * MIB), 0);
    assert_true(osfail_hit());
    osfail_remove();
    assert_int_equal(memory_of(&arena), nigh_arena_committed(&arena));
    nigh_arena_destroy(&arena);
}

static void sealed_against_everybody_but_the_owners_mapping(void **state)
{
    struct nigh_arena arena = create(&small);
    char byte = 1;
    void *readable;

    (void)state;
    assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, arena.fd, 0) == MAP_FAILED);
    assert_int_equal(errno, EPERM);
    assert_int_equal(pwrite(arena.fd, &byte, 1, 0), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(arena.fd, 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(ftruncate(arena.fd, (off_t)arena.bytes + 4096), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(fcntl(arena.fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
    assert_int_equal(errno, EPERM);
    readable = mmap(NULL, 4096, PROT_READ, MAP_SHARED, arena.fd, 0);
    assert_true(readable != MAP_FAILED);
    assert_int_equal(mprotect(readable, 4096, PROT_READ | PROT_WRITE), -1);
    assert_int_equal(errno, EACCES);
    munmap(readable, 4096);
    nigh_arena_state(&arena)->asleep = NIGH_ASLEEP; /* the owner still writes */
    assert_true(fcntl(arena.fd, F_GETFD) & FD_CLOEXEC);
    nigh_arena_destroy(&arena);
}

/* Why there is no decommit. If this test ever fails, the kernel has learned what pool and heap could use. */
static void nothing_gives_memory_back_under_the_seal(void **state)
{
    struct nigh_arena arena = create(&small);
    void *heap = arena.base + arena.layout.heap_off;
    uint64_t before;

    (void)state;
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 1 * MIB), 0);
    before = memory_of(&arena);
    assert_int_equal(fallocate(arena.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               (off_t)arena.layout.heap_off, 1 * MIB),
                     -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(madvise(heap, 1 * MIB, MADV_REMOVE), -1);
    assert_int_equal(errno, EPERM);
    assert_int_equal(madvise(heap, 1 * MIB, MADV_DONTNEED), 0); /* drops the mapping, not the memory */
    assert_int_equal(memory_of(&arena), before);
    nigh_arena_destroy(&arena);
}

static struct nigh_arena inherited;

static int cannot_see_the_arena(void)
{
    unsigned char resident;

    return mincore(inherited.base, NIGH_PAGE, &resident) == -1 && errno == ENOMEM ? 0 : 1;
}

static void a_forked_child_has_no_mapping(void **state)
{
    (void)state;
    inherited = create(&small);
    in_child(cannot_see_the_arena);
    nigh_arena_destroy(&inherited);
}

/* ---- huge pages ------------------------------------------------------------------------------------------ */

static const char *policy;
static int (*real_open)(const char *path, int flags, mode_t mode);

static int open_policy(const char *path, int flags, mode_t mode)
{
    int ends[2];

    if (!strstr(path, "shmem_enabled"))
        return real_open(path, flags, mode);
    if (!policy) {
        errno = ENOENT;
        return -1;
    }
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(write(ends[1], policy, strlen(policy)), strlen(policy));
    close(ends[1]);
    return ends[0];
}

static void huge_pages_are_asked_for_where_the_kernel_allows(void **state)
{
    static const struct {
        const char *policy;
        bool huge;
        const char *reason;
    } cases[] = {
        {"always within_size [advise] never deny force\n", true, ""},
        {"[always] within_size advise never deny force\n", true, ""},
        {"always within_size advise [never] deny force\n", false, "shmem_enabled does not allow"},
        {NULL, false, "no transparent huge pages"},
    };
    struct nigh_arena_config config = small;

    (void)state;
    config.huge = true;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
        struct nigh_arena arena;

        policy = cases[i].policy;
        real_open = nigh_os.open;
        nigh_os.open = open_policy;
        logged_begin();
        arena = create(&config);
        nigh_os.open = real_open;
        assert_int_equal(arena.huge, cases[i].huge);
        assert_int_equal(logged_lines(), !cases[i].huge);
        assert_non_null(strstr(arena.huge_reason, cases[i].reason));
        assert_int_equal((uintptr_t)arena.base % (2 * MIB), 0);
        assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off + 3 * MIB, 1), 0);
        assert_int_equal(nigh_arena_committed(&arena), 3 * NIGH_PAGE + (cases[i].huge ? 2 * MIB : NIGH_PAGE));
        assert_int_equal(memory_of(&arena), nigh_arena_committed(&arena));
        assert_int_equal(nigh_arena_commit(&arena, arena.bytes - 1, 1), 0);
        logged_end();
        nigh_arena_destroy(&arena);
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
}

/* ---- pairs ------------------------------------------------------------------------------------------------ */

static void pairs_are_committed_as_they_are_used(void **state)
{
    struct nigh_arena arena = create(&small);
    uint64_t before = nigh_arena_committed(&arena);
    struct nigh_pair *first = nigh_arena_pair(&arena, 0), *last;

    (void)state;
    assert_non_null(first);
    assert_ptr_equal(nigh_arena_pair(&arena, 15), first + 15);
    assert_int_equal(nigh_arena_committed(&arena), before); /* 16 in the first page */
    last = nigh_arena_pair(&arena, 99);
    assert_ptr_equal(last, first + 99);
    assert_int_equal(nigh_arena_committed(&arena), before + NIGH_PAGE);
    assert_true(all_zero(last, sizeof(*last)));
    last->consumed = 5;
    assert_int_equal(nigh_arena_pair(&arena, 99)->consumed, 5);
    assert_null(nigh_arena_pair(&arena, 100));
    assert_null(nigh_arena_pair(&arena, UINT32_MAX));
    logged_begin();
    osfail_arm(OSFAIL_fallocate, 1, ENOMEM);
    assert_null(nigh_arena_pair(&arena, 50));
    osfail_remove();
    logged_end();
    nigh_arena_destroy(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(header_says_what_lies_where),
        cmocka_unit_test(sizes_are_rounded_up),
        cmocka_unit_test(reservation_takes_no_memory),
        cmocka_unit_test(bad_configs_are_refused),
        cmocka_unit_test(commit_backs_exactly_once),
        cmocka_unit_test(random_commits_agree_with_a_model),
        cmocka_unit_test(the_last_page_can_be_committed),
        cmocka_unit_test(signals_only_delay_a_commit),
        cmocka_unit_test(sealed_against_everybody_but_the_owners_mapping),
        cmocka_unit_test(nothing_gives_memory_back_under_the_seal),
        cmocka_unit_test(a_forked_child_has_no_mapping),
        cmocka_unit_test(huge_pages_are_asked_for_where_the_kernel_allows),
        cmocka_unit_test(pairs_are_committed_as_they_are_used),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
