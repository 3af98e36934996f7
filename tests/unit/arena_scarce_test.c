/* SPDX-License-Identifier: BSD-3-Clause */
/* Arenas where the machine gives less: what is refused says which limit it was and changes nothing, and nothing is left
 * behind when any call of an arena's making fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "shm/doorbell.h"
#include "tests/support/arenas.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef __has_feature /* clang's way of saying it */
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static void refused_commit_is_logged_once_and_changes_nothing(void **state)
{
    struct nigh_arena arena = create(&small);
    uint64_t before = nigh_arena_committed(&arena);

    (void)state;
    logged_begin();
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 3 * MIB), -ENOMEM);
    logged_assert_has("committing 3.0 MiB");
    logged_assert_has("No space left");
    logged_assert_has("RLIMIT_AS");
    logged_assert_has("cgroup memory limit");
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 3 * MIB), -ENOMEM);
    assert_int_equal(logged_lines(), 1);
    assert_int_equal(nigh_arena_committed(&arena), before);
    osfail_remove();
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, 3 * MIB), 0);
    assert_int_equal(memory_of(&arena), before + 3 * MIB);
    logged_end();
    nigh_arena_destroy(&arena);
}

/* Without the check of what can be had the kernel would begin to kill. */
static void more_than_the_machine_has_is_refused_at_once(void **state)
{
    struct nigh_arena_config config = small;
    struct nigh_arena arena;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    (void)state;
    config.heap_bytes = NIGH_ARENA_MAX / 8;
    arena = create(&config);
    if (memory > NIGH_ARENA_MAX / 16) {
        print_message("this machine's memory is larger than a heap can be\n");
        nigh_arena_destroy(&arena);
        skip();
    }
    logged_begin();
    osfail_install();
    assert_int_equal(nigh_arena_commit(&arena, arena.layout.heap_off, NIGH_ARENA_MAX / 8), -ENOMEM);
    assert_int_equal(osfail_count(OSFAIL_fallocate), 0);
    osfail_remove();
    logged_assert_has("committing 2.0 TiB");
    logged_assert_has("available memory");
    logged_end();
    nigh_arena_destroy(&arena);
}

static int beyond_rlimit_fsize(void)
{
    struct rlimit limit = {.rlim_cur = 1 * MIB, .rlim_max = 1 * MIB};
    struct nigh_arena arena;

    logged_begin();
    if (setrlimit(RLIMIT_FSIZE, &limit) || nigh_arena_create(&small, &arena) != -ENOMEM)
        return 1;
    return strstr(logged_text(), "RLIMIT_FSIZE (ulimit -f) 1.0 MiB") ? 0 : 2;
}

static int beyond_rlimit_as(void)
{
    struct rlimit limit = {.rlim_cur = 4 * GIB, .rlim_max = 4 * GIB};
    struct nigh_arena_config config = small;
    struct nigh_arena arena;

    config.heap_bytes = 512 * GIB;
    logged_begin();
    if (setrlimit(RLIMIT_AS, &limit) || nigh_arena_create(&config, &arena) != -ENOMEM)
        return 1;
    return strstr(logged_text(), "RLIMIT_AS (ulimit -v) 4.0 GiB") && strstr(logged_text(), "512.") ? 0 : 2;
}

/* A limit that is lowered later does not reach what was reserved: no SIGXFSZ from a commit. */
static int rlimit_fsize_after_create(void)
{
    struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096};
    struct nigh_arena arena;

    if (nigh_arena_create(&small, &arena) || setrlimit(RLIMIT_FSIZE, &limit))
        return 1;
    if (nigh_arena_commit(&arena, arena.layout.heap_off, 1 * MIB))
        return 2;
    memset(arena.base + arena.layout.heap_off, 1, 1 * MIB);
    return 0;
}

static void a_file_size_limit_is_named(void **state)
{
    (void)state;
    in_child(beyond_rlimit_fsize);
    in_child(rlimit_fsize_after_create);
}

static void an_address_space_limit_is_named(void **state)
{
    (void)state;
#if SANITIZED
    print_message("sanitizers need more address space than this limit leaves\n");
    skip();
#endif
    in_child(beyond_rlimit_as);
}

/* Every call of a creation fails in turn, at each of its places. */
static void every_failure_cleans_up(void **state)
{
    static const struct {
        enum osfail_call call;
        int error, result;
    } failures[] = {
        {OSFAIL_memfd_create, EMFILE, -EMFILE}, {OSFAIL_memfd_create, ENFILE, -EMFILE},
        {OSFAIL_memfd_create, ENOSYS, -ENOSYS}, {OSFAIL_memfd_create, EPERM, -EPERM},
        {OSFAIL_memfd_create, EACCES, -EPERM},  {OSFAIL_memfd_create, ENOMEM, -ENOMEM},
        {OSFAIL_ftruncate, EFBIG, -ENOMEM},     {OSFAIL_ftruncate, EINVAL, -ENOMEM},
        {OSFAIL_mmap, ENOMEM, -ENOMEM},         {OSFAIL_madvise, ENOMEM, -ENOMEM},
        {OSFAIL_fallocate, ENOSPC, -ENOMEM},    {OSFAIL_fallocate, ENOMEM, -ENOMEM},
        {OSFAIL_fcntl, EINVAL, -ENOSYS},        {OSFAIL_fcntl, EPERM, -EPERM},
        {OSFAIL_calloc, ENOMEM, -ENOMEM},
    };
    unsigned fds, maps;

    (void)state;
    (void)nigh_bell_light();
    fds = osfail_open_fds();
    maps = osfail_shared_maps();
    logged_begin();
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct nigh_arena out = {.fd = -7};

        osfail_arm(failures[i].call, 1, failures[i].error);
        logged_begin();
        assert_int_equal(nigh_arena_create(&small, &out), failures[i].result);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(out.fd, -7);
        assert_null(out.base);
        assert_int_equal(logged_lines(), 1);
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
    logged_end();
}

/* No call is made that the table above does not know. */
static void creation_makes_no_other_calls(void **state)
{
    struct nigh_arena arena;
    unsigned total = 0;

    (void)state;
    (void)nigh_bell_light();
    osfail_install();
    assert_int_equal(nigh_arena_create(&small, &arena), 0);
    for (unsigned call = 0; call < OSFAIL_CALLS; call++)
        total += osfail_count((enum osfail_call)call);
    /* Where there are several NUMA nodes; and Linux before 6.3 knows no MFD_NOEXEC_SEAL, so it is asked twice. */
    total -=
        osfail_count(OSFAIL_get_mempolicy) + osfail_count(OSFAIL_sched_getcpu) + osfail_count(OSFAIL_mbind);
    total -= osfail_count(OSFAIL_memfd_create) - 1;
    total -= osfail_count(OSFAIL_membarrier); /* where it is refused peers are not told of it */
    assert_int_equal(osfail_count(OSFAIL_getrlimit), 1);
    /* calloc memfd_create getrlimit ftruncate fstat mmap madvise fstat fallocate fcntl */
    assert_int_equal(total, 10);
    osfail_remove();
    nigh_arena_destroy(&arena);
}

static void old_kernels_without_noexec_are_served(void **state)
{
    struct nigh_arena arena;

    (void)state;
    osfail_arm(OSFAIL_memfd_create, 1, EINVAL);
    assert_int_equal(nigh_arena_create(&small, &arena), 0);
    assert_int_equal(osfail_count(OSFAIL_memfd_create), 2);
    osfail_remove();
    nigh_arena_destroy(&arena);
}

static void failures_of_huge_creation_clean_up(void **state)
{
    struct nigh_arena_config config = small;
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();

    (void)state;
    config.huge = true;
    logged_begin();
    for (unsigned nth = 1; nth <= 2; nth++) {
        struct nigh_arena out = {.fd = -7};

        osfail_arm(OSFAIL_mmap, nth, ENOMEM);
        assert_int_equal(nigh_arena_create(&config, &out), -ENOMEM);
        osfail_remove();
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
    logged_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(refused_commit_is_logged_once_and_changes_nothing),
        cmocka_unit_test(more_than_the_machine_has_is_refused_at_once),
        cmocka_unit_test(a_file_size_limit_is_named),
        cmocka_unit_test(an_address_space_limit_is_named),
        cmocka_unit_test(every_failure_cleans_up),
        cmocka_unit_test(creation_makes_no_other_calls),
        cmocka_unit_test(old_kernels_without_noexec_are_served),
        cmocka_unit_test(failures_of_huge_creation_clean_up),
    };

    return cmocka_run_group_tests_name("arena_scarce", tests, NULL, NULL);
}
