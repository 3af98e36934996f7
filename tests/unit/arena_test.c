/* SPDX-License-Identifier: BSD-3-Clause */
/* An arena reserves without memory, commits once, is sealed before anybody can have it, and leaves nothing
 * behind when any call of its making fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include "shm/doorbell.h"
#include "shm/pool.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

#ifdef __has_feature /* clang's way of saying it */
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

static const struct nigh_arena_config small = {
    .incarnation = 0x1234567890abcdef,
    .peers_max = 100,
    .pool_bytes = 4 * MIB,
    .heap_bytes = 64 * MIB,
};

static struct nigh_arena create(const struct nigh_arena_config *config)
{
    struct nigh_arena arena;

    assert_int_equal(nigh_arena_create(config, &arena), 0);
    return arena;
}

static uint64_t memory_of(const struct nigh_arena *arena)
{
    struct stat stat;

    assert_int_equal(fstat(arena->fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

static bool all_zero(const void *at, size_t bytes)
{
    const uint8_t *byte = at;

    for (size_t i = 0; i < bytes; i++) {
        if (byte[i])
            return false;
    }
    return true;
}

/* Runs `run` in a child; its result is the child's exit status. */
static void in_child(int (*run)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the child was killed by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
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
    nigh_arena_state(&arena)->asleep = NIGH_ASLEEP_FD; /* the owner still writes */
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
    assert_int_equal(osfail_count(OSFAIL_getrlimit), 1);
    assert_int_equal(total, 8); /* calloc memfd_create getrlimit ftruncate mmap madvise fallocate fcntl */
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

/* ---- pairs ------------------------------------------------------------------------------------------------ */

static void pairs_are_committed_as_they_are_used(void **state)
{
    struct nigh_arena arena = create(&small);
    uint64_t before = nigh_arena_committed(&arena);
    struct nigh_pair *first = nigh_arena_pair(&arena, 0), *last;

    (void)state;
    assert_non_null(first);
    assert_ptr_equal(nigh_arena_pair(&arena, 31), first + 31);
    assert_int_equal(nigh_arena_committed(&arena), before); /* 32 in the first page */
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
        cmocka_unit_test(refused_commit_is_logged_once_and_changes_nothing),
        cmocka_unit_test(more_than_the_machine_has_is_refused_at_once),
        cmocka_unit_test(a_file_size_limit_is_named),
        cmocka_unit_test(an_address_space_limit_is_named),
        cmocka_unit_test(sealed_against_everybody_but_the_owners_mapping),
        cmocka_unit_test(nothing_gives_memory_back_under_the_seal),
        cmocka_unit_test(a_forked_child_has_no_mapping),
        cmocka_unit_test(every_failure_cleans_up),
        cmocka_unit_test(creation_makes_no_other_calls),
        cmocka_unit_test(old_kernels_without_noexec_are_served),
        cmocka_unit_test(huge_pages_are_asked_for_where_the_kernel_allows),
        cmocka_unit_test(failures_of_huge_creation_clean_up),
        cmocka_unit_test(pairs_are_committed_as_they_are_used),
    };
    return cmocka_run_group_tests_name("arena", tests, NULL, NULL);
}
