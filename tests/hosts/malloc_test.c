/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libnigh-malloc.so in a program, which this is: it starts itself anew with the object preloaded. What a fork or the
 * environment decides is tried in programs of their own (malloc_program), for a fork changes the rest of a process.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <nigh/memory.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/malloced.h"

#define LARGE ((size_t)1 << 20)

/* So that the compiler does not reason about blocks of which it knows that they are new, or free. */
static void *(*volatile resize)(void *memory, size_t bytes) = realloc;
static void *(*volatile resize_array)(void *memory, size_t count, size_t bytes) = reallocarray;

static void *same(void *memory)
{
    void *volatile seen = memory;

    return seen;
}

static void fill(void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        ((unsigned char *)memory)[i] = (unsigned char)(i * 7 + i / 251 + seed);
}

static bool is_filled(const void *memory, size_t bytes, unsigned seed)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const unsigned char *)memory)[i] != (unsigned char)(i * 7 + i / 251 + seed))
            return false;
    return true;
}

static bool is_zero(const void *memory, size_t bytes)
{
    const char *text = memory;

    return !bytes || (!text[0] && memcmp(text, text + 1, bytes - 1) == 0);
}

/* ---- where blocks lie ---------------------------------------------------------------------------------- */

static void large_ones_lie_in_the_region(void **state)
{
    static const size_t inside[] = {32768, 32769, 1 << 20, 100 << 20}, outside[] = {0, 1, 4096, 32767};

    (void)state;
    for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
        void *memory = same(malloc(inside[i]));

        assert_true(malloced_has(memory));
        assert_int_equal((uintptr_t)memory % 4096, 0);
        free(memory);
    }
    for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++) {
        void *memory = same(malloc(outside[i]));

        assert_non_null(memory);
        assert_false(malloced_has(memory));
        free(memory);
    }
}

static void file_is_as_promised(void **state)
{
    struct nigh_memory memory = malloced_memory(), other = {.size = 8};
    struct nigh_memory_head head, *mapped = (void *)(uintptr_t)memory.base;
    struct stat stat;
    int seals;

    (void)state;
    assert_true(memory.base && memory.base % 4096 == 0 && memory.bytes % 4096 == 0 && memory.id);
    assert_int_equal(fstat(memory.fd, &stat), 0);
    assert_int_equal(stat.st_size, memory.bytes);
    seals = fcntl(memory.fd, F_GET_SEALS);
    assert_int_equal(seals & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE),
                     F_SEAL_SHRINK | F_SEAL_GROW);
    assert_int_equal(fcntl(memory.fd, F_GETFD), FD_CLOEXEC);
    assert_int_equal(pread(memory.fd, &head, sizeof(head), 0), sizeof(head));
    assert_int_equal(head.id, memory.id);
    assert_int_equal(head.taken_back, 0);
    assert_true(is_zero(head.reserved, sizeof(head.reserved)));
    assert_memory_equal(mapped, &head, sizeof(head));
    /* The program cannot write to it. */
    assert_int_equal(read(memory.fd, mapped, sizeof(head)), -1);
    assert_int_equal(errno, EFAULT);
    assert_int_equal(malloced_ask(&other), -ENOENT);
    assert_int_equal(other.bytes, 0);
}

static void alignments(void **state)
{
    (void)state;
    for (size_t align = 1; align <= 4u << 20; align *= 2)
        for (size_t bytes = 100; bytes <= 3u << 20; bytes = bytes * 17 + 1) {
            void *memory = same(memalign(align, bytes)), *second = NULL,
                 *third = same(aligned_alloc(align, bytes));

            assert_non_null(memory);
            assert_non_null(third);
            assert_int_equal((uintptr_t)memory % align, 0);
            assert_int_equal((uintptr_t)third % align, 0);
            assert_true(malloced_has(memory) == (bytes >= 32768) && malloced_has(third) == (bytes >= 32768));
            if (align >= sizeof(void *)) {
                assert_int_equal(posix_memalign(&second, align, bytes), 0);
                assert_int_equal((uintptr_t)second % align, 0);
                assert_true(malloced_has(second) == (bytes >= 32768));
                memset(second, 2, bytes);
            }
            memset(memory, 1, bytes);
            memset(third, 3, bytes);
            assert_true(((char *)memory)[bytes - 1] == 1 && ((char *)third)[0] == 3);
            free(memory);
            free(second);
            free(third);
        }
}

static void whole_pages(void **state)
{
    void *memory = same(valloc(LARGE)), *other = same(pvalloc(LARGE - 1)), *small = same(valloc(1));

    (void)state;
    assert_true(malloced_has(memory) && malloced_has(other) && !malloced_has(small));
    assert_int_equal((uintptr_t)small % 4096, 0);
    assert_int_equal(malloc_usable_size(other), LARGE);
    free(memory);
    free(other);
    free(small);
}

static void usable_sizes(void **state)
{
    (void)state;
    assert_int_equal(malloc_usable_size(NULL), 0);
    for (size_t bytes = 1; bytes < 10 << 20; bytes = bytes * 3 + 1) {
        char *memory = same(malloc(bytes));
        size_t room = malloc_usable_size(memory);

        assert_true(room >= bytes && room < bytes + 4096 + 64);
        memset(memory, 5, room);
        free(memory);
    }
}

/* ---- what is in them ----------------------------------------------------------------------------------- */

static void calloc_after_use(void **state)
{
    static const size_t wanted[] = {LARGE, LARGE - 4095, LARGE / 2 + 1, LARGE + 50000};

    (void)state;
    for (size_t i = 0; i < sizeof(wanted) / sizeof(*wanted); i++) {
        char *memory = same(malloc(LARGE)), *again;

        memset(memory, 0x5a, LARGE);
        free(memory);
        again = same(calloc(1, wanted[i]));
        assert_true(malloced_has(again));
        assert_true(wanted[i] != LARGE || again == memory); /* else nothing is shown */
        assert_true(is_zero(again, wanted[i]));
        free(again);
    }
}

/* Part of it was used before, part never: in a region whose rest is fresh. */
static void calloc_over_the_border(void **state)
{
    char *memory = same(malloc(200 << 20)), *again;

    (void)state;
    memset(memory, 0x5a, LARGE);
    memset(memory + (199 << 20), 0x5a, LARGE);
    free(memory); /* beyond what is kept: given back, so it reads as zeros */
    again = same(calloc(210, 1 << 20));
    assert_true(malloced_has(again) && is_zero(again, 210 << 20));
    free(again);
}

static void realloc_keeps_contents(void **state)
{
    static const size_t sizes[] = {100,   20000,  32768,    40000,   33000, 1 << 20, 5 << 20, 3 << 20,
                                   70000, 200000, 31 << 10, 8 << 20, 10,    1 << 20, 31 << 10};
    char *memory = NULL;
    size_t before = 0;

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        memory = same(i % 2 ? resize(memory, sizes[i]) : resize_array(memory, sizes[i] / 2, 2));
        assert_non_null(memory);
        assert_true(malloced_has(memory) == (sizes[i] >= 32768));
        assert_true(i == 0 || is_filled(memory, before < sizes[i] ? before : sizes[i], i - 1));
        before = sizes[i] & ~(size_t)1;
        fill(memory, before, i);
    }
    free(memory);
}

static void realloc_in_place(void **state)
{
    char *memory = same(malloc(32768)), *moved;

    (void)state;
    fill(memory, 32768, 1);
    moved = same(resize(memory, 40000)); /* where it can grow */
    assert_true(is_filled(moved, 32768, 1));
    fill(moved, 40000, 2);
    assert_ptr_equal(same(resize(moved, 64 << 20)), moved);
    assert_true(is_filled(moved, 40000, 2));
    fill(moved, LARGE, 3);
    assert_ptr_equal(same(resize(moved, LARGE)), moved);
    assert_true(is_filled(moved, LARGE, 3));
    free(moved);
}

/* ---- errors -------------------------------------------------------------------------------------------- */

static volatile size_t half = SIZE_MAX / 2 + 1, nearly = SIZE_MAX - 100; /* the compiler is not to know */

static void refusals(void **state)
{
    char *memory = same(malloc(LARGE));
    void *out = state;

    (void)state;
    fill(memory, LARGE, 3);
#define FAILS(call, error)              \
    do {                                \
        errno = 0;                      \
        assert_null(same(call));        \
        assert_int_equal(errno, error); \
    } while (0)
    FAILS(malloc(half), ENOMEM);
    FAILS(malloc(nearly), ENOMEM);
    FAILS(calloc(half, 2), ENOMEM);
    FAILS(calloc(nearly, 1), ENOMEM);
    FAILS(resize_array(memory, half, 2), ENOMEM);
    FAILS(resize(memory, nearly), ENOMEM);
    FAILS(memalign(4096, nearly), ENOMEM);
    FAILS(valloc(nearly), ENOMEM);
    FAILS(pvalloc(nearly + 99), ENOMEM);
#undef FAILS
    assert_true(is_filled(memory, LARGE, 3));
    errno = 77;
    assert_int_equal(posix_memalign(&out, 24, LARGE), EINVAL);
    assert_int_equal(posix_memalign(&out, 4, LARGE), EINVAL);
    assert_int_equal(posix_memalign(&out, 0, LARGE), EINVAL);
    assert_int_equal(posix_memalign(&out, 4096, half), ENOMEM);
    assert_ptr_equal(out, state);
    assert_null(same(resize(memory, 0))); /* it is free now */
    assert_ptr_equal(same(malloc(LARGE)), memory);
    free(memory);
    free(NULL);
}

static void free_keeps_errno(void **state)
{
    char *memory = same(malloc(200 << 20));

    (void)state;
    memory[0] = 1;
    errno = 77;
    free(memory);
    assert_int_equal(errno, 77);
}

/* ---- memory goes back ---------------------------------------------------------------------------------- */

static uint64_t held(void)
{
    struct stat stat;

    assert_int_equal(fstat(malloced_memory().fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

static void given_back(void **state)
{
    enum { BLOCKS = 64, BYTES = 4 << 20 };
    char *blocks[BLOCKS];

    (void)state;
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = same(malloc(BYTES));
        memset(blocks[i], 1, BYTES);
    }
    assert_true(held() >= (uint64_t)BLOCKS * BYTES);
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
    assert_true(held() <= (64 << 20) + (4 << 20)); /* what is kept, and some that somebody may have */
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = same(calloc(1, BYTES));
        assert_true(malloced_has(blocks[i]) && is_zero(blocks[i], BYTES));
    }
    for (int i = 0; i < BLOCKS; i++)
        free(blocks[i]);
}

/* A block that is cut, and what is cut off is more than is kept. */
static void given_back_by_realloc(void **state)
{
    char *memory = same(malloc(256 << 20));

    (void)state;
    memset(memory, 1, 256 << 20);
    assert_ptr_equal(same(resize(memory, LARGE)), memory);
    assert_true(held() <= 80 << 20);
    free(memory);
}

/* ---- threads ------------------------------------------------------------------------------------------- */

#define THREADS 4
#define SLOTS   24

struct slot {
    unsigned char *memory;
    size_t bytes;
    unsigned char mark;
};

/* The first, the last and one in the middle of each page of it; all of it would take the test's time. */
static bool mark(struct slot *slot, bool look)
{
    for (size_t i = 0; i < slot->bytes;
         i += i + 2048 < slot->bytes || i == slot->bytes - 1 ? 2048 : slot->bytes - 1 - i) {
        if (look && slot->memory[i] != slot->mark)
            return false;
        slot->memory[i] = slot->mark;
    }
    return true;
}

static bool play(struct slot *slot, unsigned *seed)
{
    size_t bytes =
        rand_r(seed) % 64 ? 1 + (size_t)rand_r(seed) % 200000 : 1 + (size_t)rand_r(seed) % (8 << 20);
    unsigned char *zeros;

    if (slot->memory && !mark(slot, true))
        return false;
    if (!slot->memory || rand_r(seed) % 3 == 0) {
        free(slot->memory);
        zeros = rand_r(seed) % 2 ? calloc(1, bytes) : NULL;
        if (zeros && !is_zero(zeros, bytes))
            return false;
        slot->memory = zeros ? zeros : malloc(bytes);
    } else {
        slot->memory = realloc(slot->memory, bytes);
        slot->bytes = slot->bytes < bytes ? slot->bytes : bytes;
        if (slot->bytes > 2048 && slot->memory[2048] != slot->mark)
            return false;
    }
    slot->bytes = bytes;
    slot->mark = (unsigned char)rand_r(seed);
    return slot->memory && mark(slot, false);
}

static double now(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static void *play_on(void *argument)
{
    struct slot slots[SLOTS] = {0};
    unsigned seed = (unsigned)(uintptr_t)argument;
    bool good = true;

    for (double end = now() + 1; good && now() < end;)
        for (int i = 0; good && i < SLOTS; i++)
            good = play(&slots[i], &seed);
    for (int i = 0; i < SLOTS; i++)
        free(slots[i].memory);
    return (void *)(uintptr_t)good;
}

static void threads(void **state)
{
    pthread_t thread[THREADS];
    void *good;

    (void)state;
    for (uintptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, play_on, (void *)(i + 1)), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(thread[i], &good), 0);
        assert_non_null(good);
    }
}

/* ---- programs of their own ----------------------------------------------------------------------------- */

/* Runs a line of the shell, with $PROGRAM and $OBJECT; its status, or 128 and its signal. `said`: what came on standard
 * error and output. Not by fork(): this program's memory is to stay shared. */
static int run(const char *line, char *said, size_t room)
{
    char shell[] = "sh", option[] = "-c", text[1024], *const argv[] = {shell, option, text, NULL};
    int fd = memfd_create("said", MFD_CLOEXEC), status;
    posix_spawn_file_actions_t actions;
    ssize_t bytes;
    pid_t pid;

    assert_true(fd >= 0 && strlen(line) < sizeof(text));
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0); /* several processes write at once */
    strcpy(text, line);
    assert_int_equal(posix_spawn_file_actions_init(&actions), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, fd, STDOUT_FILENO), 0);
    assert_int_equal(posix_spawn_file_actions_adddup2(&actions, fd, STDERR_FILENO), 0);
    assert_int_equal(posix_spawn(&pid, "/bin/sh", &actions, NULL, argv, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    bytes = pread(fd, said, room - 1, 0);
    said[bytes > 0 ? bytes : 0] = '\0';
    close(fd);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

static char said[1 << 16];

static void passes(const char *line)
{
    int status = run(line, said, sizeof(said));

    if (status || *said)
        print_error("%s: %d: %s\n", line, status, said);
    assert_int_equal(status, 0);
    assert_string_equal(said, "");
}

/* It ends so, and says so in one line. */
static void says(const char *line, int wanted, const char *text)
{
    int status = run(line, said, sizeof(said));

    if (status != wanted || !strstr(said, text))
        print_error("%s: %d: %s\n", line, status, said);
    assert_int_equal(status, wanted);
    assert_non_null(strstr(said, text));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1);
}

#define PROGRAM "exec \"$NIGH_TEST_MALLOC\" "
#define CHANGED "exec \"$NIGH_TEST_CHANGED\" "

static void peers_see_it(void **state)
{
    (void)state;
    passes(PROGRAM "peer");
}

static void fork_before_the_first(void **state)
{
    (void)state;
    passes(PROGRAM "fork_before");
}

static void fork_makes_it_private(void **state)
{
    (void)state;
    passes(PROGRAM "fork_parts");
    passes("NIGH_MALLOC_BYTES=1G; export NIGH_MALLOC_BYTES; " PROGRAM "fork_calloc");
}

static void changed_mappings(void **state)
{
    (void)state;
    passes(CHANGED "mapped_over");
    passes(CHANGED "mapped_over_small");
    passes(CHANGED "mapped_by_number");
    passes(CHANGED "moved_over");
    passes(CHANGED "segment_over");
    passes(CHANGED "freed_under");
    passes(CHANGED "moved_away");
    passes(CHANGED "unmapped");
    passes(CHANGED "protected");
    passes(CHANGED "forgotten");
}

static void back_after_fork(void **state)
{
    (void)state;
    passes(CHANGED "back_after_fork");
}

static void fork_of_locked_memory(void **state)
{
    (void)state;
    passes(CHANGED "locked");
}

static void limits_of_the_program(void **state)
{
    (void)state;
    passes(CHANGED "limited_space");
    passes(CHANGED "limited_from_outside");
    passes(CHANGED "limited_data");
}

static void costs(void **state)
{
    (void)state;
    passes(CHANGED "growth");
    passes(CHANGED "repeated");
}

static void fork_loses_no_write(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        passes(PROGRAM "fork_writes");
}

static void fork_while_others_allocate(void **state)
{
    (void)state;
    passes(PROGRAM "fork_threads");
}

static void closed_descriptor(void **state)
{
    (void)state;
    passes(PROGRAM "closed");
}

static void switched_off(void **state)
{
    (void)state;
    passes("NIGH_MALLOC=0 " PROGRAM "none");
    passes("NIGH_MALLOC= " PROGRAM "some");
    says("NIGH_MALLOC=yes " PROGRAM "some", 0, "NIGH_MALLOC=yes is neither 0 nor 1");
}

static void limits_of_the_system(void **state)
{
    (void)state;
    passes("ulimit -f 1000; " PROGRAM "none");
    says("ulimit -f 1000; NIGH_LOG=info " PROGRAM "none", 0, "ulimit -f");
    passes("ulimit -v 200000; NIGH_MALLOC_BYTES=1T " PROGRAM "some");
    says("ulimit -d 4000000; NIGH_LOG=info " PROGRAM "none", 0, "ulimit -d");
    passes("ulimit -n 100; " PROGRAM "some");
    says("NIGH_LOG=info " PROGRAM "no_descriptors", 0, "Too many open files");
}

static void bounds(void **state)
{
    (void)state;
    passes("NIGH_MALLOC_FROM=256k NIGH_MALLOC_TO=512K NIGH_MALLOC_BYTES=16M " PROGRAM "bounds");
    says("NIGH_MALLOC_BYTES=lots " PROGRAM "some", 0,
         "NIGH_MALLOC_BYTES=lots is no number of bytes from 4194304 to");
    says("NIGH_MALLOC_BYTES=1 " PROGRAM "some", 0, "NIGH_MALLOC_BYTES=1 is no");
    says("NIGH_MALLOC_BYTES=1X " PROGRAM "some", 0, "NIGH_MALLOC_BYTES=1X is no");
    says("NIGH_MALLOC_BYTES=-1 " PROGRAM "some", 0, "NIGH_MALLOC_BYTES=-1 is no");
    says("NIGH_MALLOC_BYTES=99999999999T " PROGRAM "some", 0, "T is no number");
    says("NIGH_MALLOC_FROM=4095 " PROGRAM "some", 0, "NIGH_MALLOC_FROM=4095 is no");
    says("NIGH_MALLOC_TO=0 " PROGRAM "some", 0, "NIGH_MALLOC_TO=0 is no");
}

/* The machine's choice, as this process is to see it. */
#define HUGE(enabled, shmem_enabled)                                                            \
    "unset NIGH_MALLOC_TO; exec unshare -rm sh -c 'd=$(mktemp -d) && mount -t tmpfs none $d &&" \
    " echo \"" enabled "\" > $d/enabled && echo \"" shmem_enabled "\" > $d/shmem_enabled &&"    \
    " mount --bind $d /sys/kernel/mm/transparent_hugepage && umount -l $d && rmdir $d && "

static void huge_pages(void **state)
{
    (void)state;
    if (run("[ -d /sys/kernel/mm/transparent_hugepage ] && " HUGE("", "") "true'", said, sizeof(said))) {
        print_message("skip: no user namespaces, or no huge pages in this kernel\n");
        skip();
    }
    passes(HUGE("[always] madvise never", "always within_size advise [never] deny force") PROGRAM
           "huge_elsewhere'");
    passes(HUGE("[always] madvise never", "always within_size [advise] never deny force") PROGRAM
           "huge_here'");
    passes(HUGE("always [madvise] never", "always within_size advise [never] deny force") PROGRAM
           "huge_nowhere'");
}

static void wrong_pointers(void **state)
{
    (void)state;
    says(PROGRAM "free_twice", 128 + SIGABRT, "free(0x");
    assert_non_null(strstr(said, "it is free already"));
    says(PROGRAM "free_middle", 128 + SIGABRT, "into the middle of one");
    says(PROGRAM "free_page", 128 + SIGABRT, "into the middle of one");
    says(PROGRAM "realloc_freed", 128 + SIGABRT, "realloc(0x");
}

static void early_blocks(void **state)
{
    (void)state;
    passes("exec \"$NIGH_TEST_EARLY\"");
}

/* What programs print is what they print without it, also where all but the smallest blocks are large. */
static void other_programs(void **state)
{
    static const char *const lines[] = {
        "ls -l /usr/bin",
        "bash -c 'x=$(seq 1 20000 | sort -n | tail -n 1); echo $x; (echo sub) | cat'",
        "! command -v python3 > /dev/null || python3 -c 'print(sum(len(bytes(i)) for i in range(99999)))'",
        "awk 'BEGIN { for (i = 0; i < 20000; i++) a[i] = i \"text\"; print length(a) }'",
    };
    static char plain[sizeof(said)], line[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++) {
        snprintf(line, sizeof(line), "unset LD_PRELOAD; %s", lines[i]);
        assert_int_equal(run(line, plain, sizeof(plain)), 0);
        for (int small = 0; small < 2; small++) {
            snprintf(line, sizeof(line), "%s%s", small ? "export NIGH_MALLOC_FROM=4096; " : "", lines[i]);
            assert_int_equal(run(line, said, sizeof(said)), 0);
            assert_string_equal(said, plain);
        }
    }
}

/* ---- the start ----------------------------------------------------------------------------------------- */

/* Anew, with the object; huge pages of this machine are not to decide which blocks are large. */
static void start(char **argv)
{
    const char *build = getenv("NIGH_BUILDDIR");
    static char object[4096], program[4096], early[4096], changed[4096];

    build = realpath(build ? build : ".", NULL);
    snprintf(object, sizeof(object), "%s/hosts/malloc/.libs/libnigh-malloc.so", build);
    snprintf(program, sizeof(program), "%s/tests/hosts/malloc_program", build);
    snprintf(early, sizeof(early), "%s/tests/hosts/malloc_early", build);
    snprintf(changed, sizeof(changed), "%s/tests/hosts/malloc_changed", build);
    setenv("LD_PRELOAD", object, 1);
    setenv("NIGH_TEST_MALLOC", program, 1);
    setenv("NIGH_TEST_EARLY", early, 1);
    setenv("NIGH_TEST_CHANGED", changed, 1);
    setenv("NIGH_MALLOC_TO", "1T", 1);
    unsetenv("NIGH_MALLOC_FROM");
    unsetenv("NIGH_MALLOC_BYTES");
    unsetenv("NIGH_MALLOC");
    unsetenv("NIGH_LOG");
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(large_ones_lie_in_the_region),
        cmocka_unit_test(file_is_as_promised),
        cmocka_unit_test(alignments),
        cmocka_unit_test(whole_pages),
        cmocka_unit_test(usable_sizes),
        cmocka_unit_test(calloc_after_use),
        cmocka_unit_test(calloc_over_the_border),
        cmocka_unit_test(realloc_keeps_contents),
        cmocka_unit_test(realloc_in_place),
        cmocka_unit_test(refusals),
        cmocka_unit_test(free_keeps_errno),
        cmocka_unit_test(given_back),
        cmocka_unit_test(given_back_by_realloc),
        cmocka_unit_test(threads),
        cmocka_unit_test(peers_see_it),
        cmocka_unit_test(fork_before_the_first),
        cmocka_unit_test(fork_makes_it_private),
        cmocka_unit_test(changed_mappings),
        cmocka_unit_test(back_after_fork),
        cmocka_unit_test(fork_of_locked_memory),
        cmocka_unit_test(limits_of_the_program),
        cmocka_unit_test(costs),
        cmocka_unit_test(fork_loses_no_write),
        cmocka_unit_test(fork_while_others_allocate),
        cmocka_unit_test(closed_descriptor),
        cmocka_unit_test(switched_off),
        cmocka_unit_test(limits_of_the_system),
        cmocka_unit_test(bounds),
        cmocka_unit_test(huge_pages),
        cmocka_unit_test(wrong_pointers),
        cmocka_unit_test(early_blocks),
        cmocka_unit_test(other_programs),
    };

    (void)argc;
    if (getenv("NIGH_SANITIZED")) {
        printf("1..0 # SKIP what is sanitized has a malloc of its own\n");
        return 77;
    }
    if (!getenv("NIGH_TEST_MALLOC"))
        start(argv);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
