/* SPDX-License-Identifier: BSD-3-Clause */
/* What malloc_test has a program do under libnigh-malloc.so: `malloc_program CASE`. Says nothing if all is as it should be. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <nigh/memory.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/malloced.h"

#define LARGE ((size_t)1 << 20)
#define CHECK(what)                                                                \
    do {                                                                           \
        if (!(what)) {                                                             \
            fprintf(stderr, "malloc_program.c:%d: not so: %s\n", __LINE__, #what); \
            _exit(1);                                                              \
        }                                                                          \
    } while (0)

/* So that the compiler does not reason about blocks of which it knows that they are new, or free. */
static void *(*volatile resize)(void *memory, size_t bytes) = realloc;
static void (*volatile give)(void *memory) = free;

static void *same(void *memory)
{
    void *volatile seen = memory;

    return seen;
}

static bool is_all(const char *memory, size_t bytes, char value)
{
    return memory[0] == value && memcmp(memory, memory + 1, bytes - 1) == 0;
}

static char *full(size_t bytes, char value)
{
    char *memory = same(malloc(bytes));

    CHECK(memory);
    memset(memory, value, bytes);
    return memory;
}

/* ---- pipes: one side waits until the other has got as far ----------------------------------------------- */

static int up[2], down[2];

/* A child whose parent ends, or the other way round, is told so: each has its own ends alone. */
static pid_t fork_with_pipes(void)
{
    pid_t child;

    CHECK(pipe(up) == 0 && pipe(down) == 0);
    child = fork();
    CHECK(child >= 0);
    close(child ? up[1] : up[0]);
    close(child ? down[0] : down[1]);
    return child;
}

static void tell(int *pipe, const void *what, size_t bytes)
{
    CHECK(write(pipe[1], what, bytes) == (ssize_t)bytes);
}

static void hear(int *pipe, void *what, size_t bytes)
{
    CHECK(read(pipe[0], what, bytes) == (ssize_t)bytes);
}

static void ends_well(pid_t child)
{
    int status;

    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- what a peer sees ---------------------------------------------------------------------------------- */

/* The file of process `pid`, read-only. */
static const char *map_of(pid_t pid, const struct nigh_memory *memory)
{
    char path[64];
    void *mapped;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, memory->fd);
    fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    mapped = mmap(NULL, memory->bytes, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
    CHECK(mapped != MAP_FAILED);
    close(fd);
    return mapped;
}

struct told {
    struct nigh_memory memory;
    const char *block;
};

/* The child: what its parent wrote, then what it wrote anew, without being told where it lies a second time. */
static void look_at_parent(void)
{
    struct told told;
    const char *there;

    hear(down, &told, sizeof(told));
    there = map_of(getppid(), &told.memory);
    CHECK(((const struct nigh_memory_head *)there)->id == told.memory.id);
    there += (uintptr_t)told.block - told.memory.base;
    CHECK(is_all(there, LARGE, 'a'));
    tell(up, "a", 1);
    hear(down, &told, 1);
    CHECK(is_all(there, LARGE, 'b'));
    _exit(0);
}

static void peer(void)
{
    char answer, *block;
    struct told told;
    pid_t child;

    child = fork_with_pipes();
    if (!child)
        look_at_parent();
    block = full(LARGE, 'a');
    told = (struct told){malloced_memory(), block};
    CHECK(told.memory.bytes && malloced_has(block));
    tell(down, &told, sizeof(told));
    hear(up, &answer, 1);
    memset(block, 'b', LARGE);
    tell(down, "b", 1);
    ends_well(child);
    CHECK(malloced_memory().id == told.memory.id); /* shared still: nobody had a block before the fork */
}

/* ---- forks --------------------------------------------------------------------------------------------- */

/* A region that nobody has had a block of: the parent's it stays, and the child has one of its own. */
static void fork_before(void)
{
    struct nigh_memory before = malloced_memory(), memory;
    struct nigh_memory_head head;
    char *block;
    pid_t child;

    CHECK(before.bytes);
    child = fork();
    if (!child) {
        block = full(LARGE, 'c');
        memory = malloced_memory();
        CHECK(malloced_has(block) && memory.id != before.id);
        give(block);
        _exit(0);
    }
    ends_well(child);
    block = full(LARGE, 'p');
    memory = malloced_memory();
    CHECK(memory.id == before.id && memory.base == before.base && malloced_has(block));
    CHECK(pread(memory.fd, &head, sizeof(head), 0) == (ssize_t)sizeof(head) && head.taken_back == 0);
    CHECK(is_all(map_of(getpid(), &memory) + ((uintptr_t)block - memory.base), LARGE, 'p'));
}

static struct nigh_memory region; /* as it was while it was shared */

static bool lies_there(const char *block)
{
    return (uintptr_t)block >= region.base && (uintptr_t)block < region.base + region.bytes;
}

/* In either process, behind the fork: what lies in the region is its own, and what comes then is the next malloc's. */
static void live_on(char *block, char mine)
{
    struct nigh_memory memory = {.size = sizeof(memory)};
    char *other;

    CHECK(malloced_ask(&memory) == -ENOENT && memory.bytes == 0);
    CHECK(((const volatile struct nigh_memory_head *)(uintptr_t)region.base)->taken_back == 1);
    CHECK(is_all(block, LARGE, 'x'));
    memset(block, mine, LARGE);
    other = same(calloc(1, 2 * LARGE));
    CHECK(!lies_there(other) && is_all(other, 2 * LARGE, 0));
    memset(other, mine, 2 * LARGE);
    block = same(resize(block, 3 * LARGE));
    CHECK(is_all(block, LARGE, mine));
    give(block);
    give(other);
}

static void fork_parts(void)
{
    char *block = full(LARGE, 'x'), *freed = full(LARGE, 'y'), *kept = full(LARGE, 'k'), answer;
    const char *file;
    pid_t child;

    region = malloced_memory();
    CHECK(lies_there(block) && lies_there(freed));
    file = map_of(getpid(), &region);
    give(freed);
    child = fork_with_pipes();
    if (!child) {
        live_on(block, 'c');
        memset(kept, 'c', LARGE);
        tell(up, "c", 1);
        hear(down, &answer, 1); /* the parent has written */
        CHECK(is_all(kept, LARGE, 'c'));
        _exit(0);
    }
    hear(up, &answer, 1); /* the child has written */
    CHECK(is_all(kept, LARGE, 'k') && is_all(block, LARGE, 'x'));
    memset(kept, 'p', LARGE);
    live_on(block, 'p');
    tell(down, "p", 1);
    ends_well(child);
    CHECK(is_all(kept, LARGE, 'p'));
    /* What a peer copies from is as it was. */
    CHECK(is_all(file + ((uintptr_t)kept - region.base), LARGE, 'k'));
    child = fork(); /* once more */
    if (!child) {
        memset(kept, 'd', LARGE);
        _exit(0);
    }
    ends_well(child);
    CHECK(is_all(kept, LARGE, 'p'));
}

static void fork_calloc(void)
{
    const size_t bytes = 100 * LARGE;
    char *block = full(bytes, 'x'), *other = full(bytes, 'o');
    pid_t child;

    give(other); /* a hole in the file */
    child = fork();
    give(block);
    other = same(calloc(1, bytes));
    CHECK(is_all(other, bytes, 0));
    memset(other, child ? 'p' : 'c', bytes);
    if (!child)
        _exit(0);
    ends_well(child);
    CHECK(is_all(other, bytes, 'p'));
}

/* ---- forks among threads ------------------------------------------------------------------------------- */

#define WRITERS 2
static volatile bool over;

struct writer {
    pthread_t thread;
    volatile uint64_t *counts; /* in a large block */
    uint64_t written;
};

#define COUNTS (LARGE / sizeof(uint64_t))

/* Each place has the number of the last write to it, wherever it stands when the mapping changes. */
static void *write_on(void *argument)
{
    struct writer *writer = argument;
    uint64_t i;

    for (i = 0; !over || i < 4 * COUNTS; i++)
        writer->counts[i * 513 % COUNTS] = i + 1;
    writer->written = i;
    return NULL;
}

static void fork_writes(void)
{
    struct writer writers[WRITERS];
    pid_t child;

    for (int i = 0; i < WRITERS; i++) {
        writers[i].counts = same(calloc(COUNTS, sizeof(uint64_t)));
        CHECK(malloced_has((void *)writers[i].counts));
        CHECK(pthread_create(&writers[i].thread, NULL, write_on, &writers[i]) == 0);
    }
    while (!writers[WRITERS - 1].counts[COUNTS / 2]) /* all of them are under way */
        ;
    child = fork();
    if (!child)
        _exit(0);
    ends_well(child);
    CHECK(!malloced_memory().bytes);
    over = true;
    for (int i = 0; i < WRITERS; i++) {
        CHECK(pthread_join(writers[i].thread, NULL) == 0);
        for (uint64_t n = writers[i].written - COUNTS; n < writers[i].written; n++)
            CHECK(writers[i].counts[n * 513 % COUNTS] == n + 1);
    }
}

static void *allocate_on(void *argument)
{
    unsigned seed = (unsigned)(uintptr_t)argument;

    while (!over)
        give(full(32768 + (size_t)rand_r(&seed) % 100000, 't'));
    return NULL;
}

/* The lock is nobody's in a child. */
static void fork_threads(void)
{
    pthread_t threads[WRITERS];

    for (uintptr_t i = 0; i < WRITERS; i++)
        CHECK(pthread_create(&threads[i], NULL, allocate_on, (void *)(i + 1)) == 0);
    for (int i = 0; i < 50; i++) {
        pid_t child = fork();

        if (!child) {
            for (int j = 0; j < 20; j++)
                give(full(LARGE, 'c'));
            _exit(0);
        }
        ends_well(child);
    }
    over = true;
    for (int i = 0; i < WRITERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

/* ---- other ways of a program ---------------------------------------------------------------------------- */

/* All descriptors are closed, and the number is another file's: that one is left alone. */
static void closed(void)
{
    char *block = full(LARGE, 'x'), *much = full(100 * LARGE, 'm');
    static char before[4096], now[4096];
    off_t there;
    struct nigh_memory memory = malloced_memory();
    pid_t child;
    int fd;

    CHECK(memory.bytes);
    close(memory.fd);
    CHECK(!malloced_memory().bytes);
    fd = memfd_create("other", 0);
    CHECK(fd >= 0 && dup2(fd, memory.fd) == memory.fd);
    memset(before, 'o', sizeof(before));
    there = (off_t)((uintptr_t)much - memory.base);
    CHECK(pwrite(fd, before, sizeof(before), 0) == (ssize_t)sizeof(before));
    CHECK(pwrite(fd, before, sizeof(before), there) == (ssize_t)sizeof(before));
    CHECK(!malloced_memory().bytes);
    give(much);
    child = fork();
    CHECK(is_all(block, LARGE, 'x'));
    memset(block, child ? 'p' : 'c', LARGE);
    much = same(calloc(1, 100 * LARGE));
    CHECK(is_all(much, 100 * LARGE, 0));
    give(much);
    if (!child)
        _exit(0);
    ends_well(child);
    CHECK(is_all(block, LARGE, 'p'));
    CHECK(pread(fd, now, sizeof(now), 0) == (ssize_t)sizeof(now) && memcmp(now, before, sizeof(now)) == 0);
    CHECK(pread(fd, now, sizeof(now), there) == (ssize_t)sizeof(now) &&
          memcmp(now, before, sizeof(now)) == 0);
}

static void none(void)
{
    char *block = full(LARGE, 'n');

    CHECK(!malloced_memory().bytes);
    block = same(resize(block, 5 * LARGE));
    CHECK(block && is_all(block, LARGE, 'n'));
    give(block);
}

static void no_descriptors(void)
{
    CHECK(setrlimit(RLIMIT_NOFILE, &(struct rlimit){3, 3}) == 0);
    none();
}

static void some(void)
{
    char *block = full(LARGE, 's');

    CHECK(malloced_has(block));
    give(block);
}

/* From 256 KiB to 512, of 16 MiB in all. */
static void bounds(void)
{
    char *blocks[100], *block;
    int there = 0;

    CHECK(malloced_memory().bytes == 4 * 16 * LARGE); /* so that blocks can grow */
    CHECK(!malloced_has(same(malloc(LARGE / 4 - 1))) && !malloced_has(same(malloc(LARGE / 2 + 1))));
    CHECK(malloced_has(same(malloc(LARGE / 4))) && malloced_has(same(malloc(LARGE / 2))));
    block = full(LARGE / 2, 'b');
    block = same(resize(block, LARGE)); /* out of it, and back */
    CHECK(!malloced_has(block) && is_all(block, LARGE / 2, 'b'));
    block = same(resize(block, LARGE / 2));
    CHECK(malloced_has(block) && is_all(block, LARGE / 2, 'b'));
    for (int i = 0; i < 100; i++) { /* more than there is */
        blocks[i] = full(LARGE / 2, (char)i);
        there += malloced_has(blocks[i]);
    }
    CHECK(there > 20 && there < 32);
    for (int i = 0; i < 100; i++) {
        CHECK(is_all(blocks[i], LARGE / 2, (char)i));
        give(blocks[i]);
    }
}

/* Other memory has huge pages, files in memory have none: what would have one is not of the region. */
static void huge_elsewhere(void)
{
    CHECK(malloced_has(same(malloc(2 * LARGE - 1))) && !malloced_has(same(malloc(2 * LARGE))));
}

static void huge_nowhere(void)
{
    CHECK(malloced_has(same(malloc(2 * LARGE))));
}

/* Both have, files where they are asked for. */
static void huge_here(void)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    uintptr_t begin, last = 0;
    bool asked = false;
    char line[512];

    CHECK(maps && malloced_has(same(malloc(2 * LARGE))));
    while (fgets(line, sizeof(line), maps)) {
        if (sscanf(line, "%" SCNxPTR "-", &begin) == 1 && strstr(line, "memfd:nigh-malloc"))
            last = begin;
        else if (last && strncmp(line, "VmFlags:", 8) == 0) {
            asked |= strstr(line, " hg") != NULL;
            last = 0;
        }
    }
    fclose(maps);
    CHECK(asked);
}

static void free_twice(void)
{
    char *block = full(LARGE, 'f');

    give(block);
    give(same(block));
}

static void free_middle(void)
{
    give(same(full(LARGE, 'f') + 16));
}

static void free_page(void)
{
    give(same(full(LARGE, 'f') + 4096));
}

static void realloc_freed(void)
{
    char *block = full(LARGE, 'f');

    give(block);
    give(resize(same(block), 100));
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } cases[] = {{"peer", peer},
                 {"fork_before", fork_before},
                 {"fork_parts", fork_parts},
                 {"fork_calloc", fork_calloc},
                 {"fork_writes", fork_writes},
                 {"fork_threads", fork_threads},
                 {"closed", closed},
                 {"none", none},
                 {"no_descriptors", no_descriptors},
                 {"some", some},
                 {"bounds", bounds},
                 {"huge_elsewhere", huge_elsewhere},
                 {"huge_nowhere", huge_nowhere},
                 {"huge_here", huge_here},
                 {"free_twice", free_twice},
                 {"free_middle", free_middle},
                 {"free_page", free_page},
                 {"realloc_freed", realloc_freed}};

    for (size_t i = 0; argc == 2 && i < sizeof(cases) / sizeof(*cases); i++)
        if (strcmp(cases[i].name, argv[1]) == 0) {
            cases[i].run();
            return 0;
        }
    fprintf(stderr, "malloc_program: no such case\n");
    return 2;
}
