/* SPDX-License-Identifier: BSD-3-Clause */
/* What malloc_test has a program do to its mappings and limits under libnigh-malloc.so: `malloc_changed CASE`. Says nothing if
 * all is as it should be. */
#include <errno.h>
#include <fcntl.h>
#include <nigh/memory.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/malloced.h"

#define LARGE ((size_t)1 << 20)
#define PART  ((size_t)64 << 10)
#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            fprintf(stderr, "malloc_changed.c:%d: not so: %s\n", __LINE__, #what); \
            _exit(1);                                                              \
        }                                                                          \
    } while (0)

/* So that the compiler does not reason about blocks of which it knows that they are new, or free. */
static void *(*volatile take)(size_t bytes) = malloc;
static void *(*volatile resize)(void *memory, size_t bytes) = realloc;
static void (*volatile give)(void *memory) = free;

static bool is_all(const char *memory, size_t bytes, char value)
{
    return memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0;
}

static char *full(size_t bytes, char value)
{
    char *memory = take(bytes);

    CHECK(memory);
    memset(memory, value, bytes);
    return memory;
}

static void in_child(void (*run)(char *memory), char *memory)
{
    pid_t child = fork();
    int status;

    CHECK(child >= 0);
    if (!child) {
        run(memory);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static long pages_of(int field)
{
    long values[2] = {0};
    FILE *file = fopen("/proc/self/statm", "r");

    CHECK(file && fscanf(file, "%ld %ld", &values[0], &values[1]) == 2);
    fclose(file);
    return values[field];
}

static long space(void)
{
    return pages_of(0) * 4096;
}

static long resident(void)
{
    return pages_of(1) * 4096;
}

static int mappings(void)
{
    FILE *file = fopen("/proc/self/maps", "r");
    int lines = 0, c;

    CHECK(file);
    while ((c = fgetc(file)) != EOF)
        lines += c == '\n';
    fclose(file);
    return lines;
}

/* ---- other memory where a block is ---------------------------------------------------------------------- */

static struct nigh_memory region;
static int users_file;

static char *fixed(char *at)
{
    users_file = memfd_create("user", 0);
    CHECK(users_file >= 0 && ftruncate(users_file, PART) == 0);
    return mmap(at, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, users_file, 0);
}

static char *by_number(char *at)
{
    return (char *)syscall(SYS_mmap, at, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED,
                           -1, 0L);
}

static char *moved_there(char *at)
{
    char *other = mmap(NULL, PART, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    return mremap(other, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

static char *segment(char *at)
{
    int id = shmget(IPC_PRIVATE, PART, IPC_CREAT | 0600);
    char *memory = shmat(id, at, SHM_REMAP);

    shmctl(id, IPC_RMID, NULL);
    return memory;
}

static void writes(char *memory)
{
    memset(memory, 'c', PART);
}

/* Peers are told, other blocks and the user's mapping stay what they are, also behind a fork and the block's end. */
static void over(char *(*change)(char *at), size_t bytes)
{
    char *block = full(bytes, 'b'), *other = full(bytes, 'o'), *later;
    const volatile struct nigh_memory_head *head;

    region = malloced_memory();
    CHECK(malloced_has(block) && malloced_has(other));
    head = mmap(NULL, 4096, PROT_READ, MAP_SHARED, region.fd, 0);
    CHECK(head != MAP_FAILED && !head->taken_back);
    CHECK(change(block + PART) == block + PART);
    CHECK(head->taken_back && !malloced_memory().bytes);
    memset(block + PART, 'u', PART);
    CHECK(is_all(block, PART, 'b') && is_all(other, bytes, 'o'));
    later = full(bytes, 'l');
    CHECK((uintptr_t)later < region.base || (uintptr_t)later >= region.base + region.bytes);
    in_child(writes, block + PART);
    CHECK(is_all(block + PART, PART, 'c')); /* which is shared */
    in_child(writes, other);
    CHECK(is_all(other, bytes, 'o'));
    give(block);
    give(later);
    CHECK(is_all(other, bytes, 'o'));
    give(other);
}

static void mapped_over(void)
{
    char text[PART];

    over(fixed, LARGE);
    CHECK(pread(users_file, text, PART, 0) == (ssize_t)PART && is_all(text, PART, 'c'));
}

static void mapped_over_small(void)
{
    char text[PART];

    over(fixed, 4 * PART);
    CHECK(pread(users_file, text, PART, 0) == (ssize_t)PART && is_all(text, PART, 'c'));
}

static void mapped_by_number(void)
{
    over(by_number, LARGE);
}

static void moved_over(void)
{
    over(moved_there, LARGE);
}

static void segment_over(void)
{
    over(segment, LARGE);
}

/* Without a fork: what is free is not given back out of the user's file. */
static void freed_under(void)
{
    char *block = full(100 * LARGE, 'b'), text[PART];

    CHECK(fixed(block + PART) == block + PART);
    memset(block + PART, 'u', PART);
    give(block);
    CHECK(pread(users_file, text, PART, 0) == (ssize_t)PART && is_all(text, PART, 'u'));
}

/* Part of a block is elsewhere: parent and child have each its own of that, too. */
static void moved_away(void)
{
    char *block = full(LARGE, 'b'),
         *there = mremap(block + PART, PART, PART, MREMAP_MAYMOVE | MREMAP_FIXED,
                         mmap(NULL, PART, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));

    CHECK(there != MAP_FAILED && !malloced_memory().bytes && is_all(there, PART, 'b'));
    in_child(writes, there);
    CHECK(is_all(there, PART, 'b') && is_all(block, PART, 'b'));
}

static void unmapped(void)
{
    char *block = full(LARGE, 'b'), *other = full(LARGE, 'o');

    CHECK(munmap(block + PART, PART) == 0 && !malloced_memory().bytes);
    in_child(writes, other);
    CHECK(is_all(block, PART, 'b') && is_all(block + 2 * PART, PART, 'b') && is_all(other, LARGE, 'o'));
    give(block);
    give(other);
}

/* What a program may do to its blocks: all goes on being shared, and its rights outlast a fork. */
static void protected(void)
{
    char *block = full(LARGE, 'b');
    int ends[2];

    CHECK(mprotect(block, 4096, PROT_READ) == 0 && malloced_memory().bytes && pipe(ends) == 0);
    in_child(writes, block + 4096);
    CHECK(is_all(block, LARGE, 'b'));
    CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], block, 1) == -1 && errno == EFAULT);
    CHECK(mprotect(block, 4096, PROT_READ | PROT_WRITE) == 0);
    give(block);
}

static void forgotten(void)
{
    char *block = full(LARGE, 'b');

    CHECK(madvise(block + PART, PART, MADV_FREE) == 0);
    CHECK(madvise(block + PART, PART, MADV_DONTNEED) == 0 && malloced_memory().bytes);
    CHECK(is_all(block, PART, 'b') && is_all(block + PART, PART, 0) && is_all(block + 2 * PART, PART, 'b'));
    in_child(writes, block);
    CHECK(madvise(block, PART, MADV_FREE) == 0);
    CHECK(madvise(block + 2 * PART, PART, MADV_DONTNEED) == 0);
    CHECK(is_all(block, PART, 'b') && is_all(block + PART, 2 * PART, 0) &&
          is_all(block + 3 * PART, PART, 'b'));
    give(block);
}

/* ---- forks ---------------------------------------------------------------------------------------------- */

static void nothing(char *memory)
{
    (void)memory;
}

/* Small blocks that a fork made the process's own, and such as were taken behind it. */
static void back_after_fork(void)
{
    enum { COUNT = 4096 };
    static char *blocks[2][COUNT];
    long before = resident();
    int lines = 0;

    for (int turn = 0; turn < 2; turn++) {
        for (int i = 0; i < COUNT; i++)
            blocks[turn][i] = full(PART - 4096, 'b');
        if (turn == 0) {
            lines = mappings();
            in_child(nothing, NULL);
            for (int i = 0; i < COUNT; i++)
                memset(blocks[0][i], 'p', PART - 4096);
        }
    }
    for (int i = 0; i < COUNT; i += 2) /* so that what is free is in 2048 pieces */
        give(blocks[0][i]);
    CHECK(mappings() < lines + 50);
    for (int i = 1; i < COUNT; i += 2)
        give(blocks[0][i]);
    for (int i = 0; i < COUNT; i++)
        give(blocks[1][i]);
    CHECK(resident() < before + 8 * (long)LARGE && mappings() < lines + 50);
}

static void locked(void)
{
    char *block = full(LARGE, 'b');

    if (mlockall(MCL_CURRENT | MCL_FUTURE)) {
        CHECK(errno == EPERM || errno == ENOMEM);
        return;
    }
    in_child(writes, block);
    CHECK(is_all(block, LARGE, 'b'));
}

/* ---- limits --------------------------------------------------------------------------------------------- */

static void *thread(void *argument)
{
    return argument;
}

/* 150 MiB have been used and are free: a limit leaves the program all the rest, for small blocks, large ones and stacks. */
static void limited_space(void)
{
    char *blocks[3], *many[30], *small;
    long before = space();
    pthread_t created;

    for (int i = 0; i < 3; i++)
        blocks[i] = full(50 * LARGE, 'b');
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    for (int i = 0; i < 3; i++)
        blocks[i] = full(LARGE / 2, 'b');
    CHECK(space() < before + 160 * (long)LARGE);
    for (int i = 0; i < 3; i++)
        give(blocks[i]);
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)before + 40 * LARGE, RLIM_INFINITY}) == 0);
    CHECK(space() < before + 10 * (long)LARGE);
    small = full(20 * LARGE, 's');
    CHECK(pthread_create(&created, NULL, thread, NULL) == 0 && pthread_join(created, NULL) == 0);
    CHECK(!take(60 * LARGE) && errno == ENOMEM);
    CHECK(is_all(small, 20 * LARGE, 's'));
    give(small);
    for (int i = 0; i < 30; i++)
        many[i] = full(LARGE / 2, 'm');
    for (int i = 0; i < 30; i++)
        give(many[i]);
    CHECK(space() < before + 20 * (long)LARGE); /* no more than a thread keeps */
    CHECK(setrlimit(RLIMIT_AS, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
    small = full(60 * LARGE, 's');
    CHECK(malloced_has(small));
}

/* One that another process sets: what is free is given back when it is missing. */
static void limited_from_outside(void)
{
    struct rlimit limit = {(rlim_t)space() + 40 * LARGE, RLIM_INFINITY};
    char *block = full(30 * LARGE, 'b');
    int status;
    pid_t child;

    give(block);
    child = vfork(); /* shares all, but is another process to the kernel */
    if (!child)
        _exit(prlimit(getppid(), RLIMIT_AS, &limit, NULL) ? 1 : 0);
    CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
    block = take(35 * LARGE);
    CHECK(block);
}

/* Blocks become the process's own, which counts, while nothing is limited yet. */
static void limited_data(void)
{
    char *block = full(20 * LARGE, 'b');

    CHECK(setrlimit(RLIMIT_DATA, &(struct rlimit){4 * LARGE, 4 * LARGE}) == 0);
    in_child(writes, block);
    CHECK(is_all(block, 20 * LARGE, 'b') && !malloced_memory().bytes);
}

/* ---- what it costs ------------------------------------------------------------------------------------- */

/* Arrays that grow by turns, each in the other's way: none of them moves but once. */
static void growth(void)
{
    char *arrays[2] = {NULL}, *before;
    int moves = 0;

    for (size_t bytes = PART; bytes <= 64 * LARGE; bytes += bytes < LARGE ? PART : LARGE)
        for (int i = 0; i < 2; i++) {
            before = arrays[i];
            arrays[i] = resize(before, bytes);
            CHECK(arrays[i] && malloced_has(arrays[i]));
            moves += arrays[i] != before;
            arrays[i][bytes - 1] = (char)i;
        }
    CHECK(moves <= 4); /* two of which are the first blocks */
    give(arrays[0]);
    give(arrays[1]);
}

static struct rusage used(void)
{
    struct rusage usage;

    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage;
}

/* A thread that has had a block of that length takes no new pages for the next one, nor waits for other threads. */
static void *repeat(void *argument)
{
    const size_t bytes = LARGE + LARGE / 2;
    struct rusage before;

    give(full(bytes, 'a'));
    before = used();
    for (int i = 0; i < 200; i++) {
        char *block = take(bytes);

        for (size_t at = 0; at < bytes; at += 4096)
            block[at] = 'b';
        give(block);
    }
    for (int i = 0; i < 100000; i++)
        give(take(bytes));
    CHECK(used().ru_minflt - before.ru_minflt < 100);
    CHECK(used().ru_nvcsw - before.ru_nvcsw < 5);
    return argument;
}

static void repeated(void)
{
    pthread_t threads[4];

    for (int i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, repeat, NULL) == 0);
    for (int i = 0; i < 4; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"mapped_over", mapped_over},
                 {"mapped_over_small", mapped_over_small},
                 {"mapped_by_number", mapped_by_number},
                 {"moved_over", moved_over},
                 {"segment_over", segment_over},
                 {"freed_under", freed_under},
                 {"moved_away", moved_away},
                 {"unmapped", unmapped},
                 {"protected", protected},
                 {"forgotten", forgotten},
                 {"back_after_fork", back_after_fork},
                 {"locked", locked},
                 {"limited_space", limited_space},
                 {"limited_from_outside", limited_from_outside},
                 {"limited_data", limited_data},
                 {"growth", growth},
                 {"repeated", repeated}};

    for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
        if (strcmp(argv[1], cases[i].name) == 0) {
            cases[i].run();
            return 0;
        }
    return 2;
}
