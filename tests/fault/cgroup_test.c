/* SPDX-License-Identifier: BSD-3-Clause */
/* A control group that limits memory: what does not fit is refused with the limit's name, and nobody is killed for it.
 * Once with a real one, where we may make one, and once with files that say what the kernel would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/support/fakeroot.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)

#define LIMIT   (96 * MIB) /* of the real one: what a sanitizer takes fits too */
#define BALLAST (24 * MIB)

/* ---- a real one
 * ---------------------------------------------------------------------------------------------------- */

static char folder[512]; /* "": none can be made, and `reason` says why */
static char reason[640];
static bool second; /* version 2 */

static int write_in(const char *file, const char *text)
{
    char path[640];
    int fd, error = 0;

    snprintf(path, sizeof(path), "%s/%s", folder, file);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return errno;
    if (write(fd, text, strlen(text)) < 0)
        error = errno;
    close(fd);
    return error;
}

/* Below our own: nobody's limits are left by it. */
static bool find_place(void)
{
    char line[512];
    FILE *file = fopen("/proc/self/cgroup", "re");
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file)) {
        char *path = strstr(line, ":memory:");

        line[strcspn(line, "\n")] = 0;
        if (path)
            snprintf(folder, sizeof(folder), "/sys/fs/cgroup/memory%.400s/nigh-%d", path + 8, (int)getpid());
        second =
            !path && strncmp(line, "0::", 3) == 0 && access("/sys/fs/cgroup/cgroup.controllers", R_OK) == 0;
        if (second)
            snprintf(folder, sizeof(folder), "/sys/fs/cgroup%.400s/nigh-%d", line + 3, (int)getpid());
        found = path || second;
    }
    if (file)
        fclose(file);
    return found;
}

static int make(void **state)
{
    char limit[32];
    int error;

    (void)state;
    snprintf(limit, sizeof(limit), "%llu", (unsigned long long)LIMIT);
    if (!find_place()) {
        snprintf(reason, sizeof(reason), "no memory control group is mounted");
    } else if (mkdir(folder, 0700)) {
        snprintf(reason, sizeof(reason), "%.500s cannot be made: %s", folder, strerror(errno));
        folder[0] = 0;
    } else {
        error = write_in(second ? "memory.max" : "memory.limit_in_bytes", limit);
        if (!error && second)
            (void)write_in("memory.swap.max", "0");
        else if (!error)
            (void)write_in("memory.memsw.limit_in_bytes", limit);
        if (error) {
            snprintf(reason, sizeof(reason), "%.500s takes no limit: %s", folder, strerror(error));
            rmdir(folder);
            folder[0] = 0;
        }
    }
    return 0;
}

/* Those that were in it are gone from it a moment after they have ended. */
static int drop(void **state)
{
    (void)state;
    for (int i = 0; i < 30000 && folder[0] && rmdir(folder) && errno == EBUSY; i++)
        usleep(1000);
    return folder[0] && access(folder, F_OK) == 0;
}

static void enter(void)
{
    char pid[16];
    int error;

    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    error = folder[0] ? write_in("cgroup.procs", pid) : 0;
    if (!folder[0] || error)
        fault_skip("%s", folder[0] ? strerror(error) : reason);
}

static int open_pair(struct fault_pair *pair, uint64_t heap, uint64_t pool)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        struct nigh_open options = fault_options(rank);

        options.heap_bytes = heap;
        options.pool_bytes = pool;
        options.ring_slots = 4096; /* a reader that does not read holds many chunks then */
        WANT_INT(fault_ops()->open(&options, &pair->context[rank]), 0);
    }
    for (uint32_t rank = 0; rank < 2; rank++)
        pair->to[rank] = fault_connect(pair->context[rank], 1 - rank);
    WANT(fault_until(pair, 0, NIGH_READY, 100000));
    WANT(fault_until(pair, 1, NIGH_READY, 100000));
    return 0;
}

/* Memory that the case gives back before it talks: it wants some of its own then. */
static void *ballast(uint64_t bytes)
{
    void *memory =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);

    WANT(memory != MAP_FAILED);
    return memory;
}

/* Blocks of that size until no more come. Returns how many MiB came. */
static int fill_heap(void *data)
{
    uint64_t bytes = *(uint64_t *)data, got = 0;
    struct fault_pair pair;
    void *memory, *spare;
    int rc;

    enter();
    spare = ballast(BALLAST);
    open_pair(&pair, 1024 * MIB, 8 * MIB);
    fault_pair_talk(&pair);
    fault_hush();
    while ((rc = fault_ops()->heap_alloc(pair.context[0], bytes, &memory)) == 0 && got < 2 * LIMIT) {
        memset(memory, 1, bytes);
        got += bytes;
    }
    WANT_INT(rc, -ENOMEM);
    WANT_INT(fault_lines(), 1);
    WANT_SAID("the cgroup memory limit leaves less");
    WANT_SAID("cgroup memory limit 96.0 MiB (");
    WANT_SAID("NIGH_HEAP");
    munmap(spare, BALLAST);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    return (int)(got / MIB);
}

static void test_a_heap_that_fills_a_real_one(void **state)
{
    static const uint64_t sizes[] = {1000, 40 * KIB, 100 * KIB, 3 * MIB, 40 * MIB, 128 * MIB};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = sizes[i];
        int got = fault_apart(fill_heap, &bytes);

        print_message("blocks of %llu bytes: %d of 96 MiB\n", (unsigned long long)bytes, got);
        /* The process' own memory, and more with a sanitizer, is in it too. */
        if (bytes <= 3 * MIB)
            assert_in_range(got, FAULT_SANITIZED ? 1 : 50, 72);
    }
}

struct flow {
    uint64_t bytes;
    unsigned sent, received;
};

static void poll_flow(struct fault_pair *pair, unsigned side, struct flow *flow)
{
    struct nigh_completion done[16];
    int count = fault_ops()->poll_completions(pair->context[side], done, 16);

    for (int i = 0; i < count; i++) {
        WANT_INT(done[i].status, 0);
        *(done[i].op == NIGH_OP_SEND ? &flow->sent : &flow->received) += 1;
    }
}

enum { MESSAGES = 2000 };

/* The receiver does not read for a while: chunk after chunk is taken, as far as the limit lets. */
static int fill_pool(void *data)
{
    static struct flow flow = {.bytes = 64 * KIB};
    struct nigh_send send = {.size = sizeof(send), .bytes = flow.bytes, .tag = 1};
    struct nigh_recv recv = {.size = sizeof(recv), .bytes = flow.bytes, .tag = 1};
    struct fault_pair pair;
    unsigned posted = 0;
    uint8_t *in;
    void *spare;

    (void)data;
    enter();
    spare = ballast(BALLAST);
    ballast(48 * MIB); /* a peer gets no more than 32 MiB of chunks */
    setenv("NIGH_SPAN", "512m", 1);
    open_pair(&pair, 1 * MIB, 512 * MIB);
    send.buffer = memset(malloc(flow.bytes), 0x5a, flow.bytes);
    recv.buffer = in = calloc(1, flow.bytes);
    fault_hush();
    /* No further than that: what waits takes private memory, which nobody looks after. */
    while (fault_lines() == 0) {
        WANT(posted++ < MESSAGES);
        WANT_INT(fault_ops()->post_send(pair.to[0], &send), 0);
        poll_flow(&pair, 0, &flow);
    }
    munmap(spare, BALLAST);
    WANT(flow.sent < posted);
    WANT_SAID("the cgroup memory limit leaves less");
    WANT_SAID("NIGH_POOL");
    for (unsigned i = 0; i < 100; i++, posted++)
        WANT_INT(fault_ops()->post_send(pair.to[0], &send), 0);
    for (unsigned i = 0; i < posted; i++)
        WANT_INT(fault_ops()->post_recv(pair.context[1], pair.to[1], &recv), 0);
    while (flow.sent < posted || flow.received < posted) {
        poll_flow(&pair, 0, &flow);
        poll_flow(&pair, 1, &flow);
    }
    WANT_INT(fault_lines(), 1);
    WANT(memcmp(in, send.buffer, flow.bytes) == 0);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    return 0;
}

static void test_chunks_that_fill_a_real_one(void **state)
{
    (void)state;
    fault_apart(fill_pool, NULL);
}

/* ---- files that say so
 * --------------------------------------------------------------------------------------------- */

static void say(uint64_t limit, uint64_t used)
{
    char text[32];

    fakeroot_write("/proc/self/cgroup", "0::/job\n");
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)limit);
    fakeroot_write("/sys/fs/cgroup/job/memory.max", text);
    snprintf(text, sizeof(text), "%llu\n", (unsigned long long)used);
    fakeroot_write("/sys/fs/cgroup/job/memory.current", text);
    fakeroot_write("/sys/fs/cgroup/job/memory.swap.max", "0\n");
}

static int open_below_a_limit(void *data)
{
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;
    void *memory = NULL;

    (void)data;
    fakeroot_install();
    say(64 * MIB, 63 * MIB);
    WANT_INT(fault_open(0, &context), 0);
    fault_hush(); /* of other files that it does not have */
    WANT_INT(fault_ops()->heap_alloc(context, 2 * MIB, &memory), -ENOMEM);
    WANT(memory == NULL);
    WANT_INT(fault_lines(), 1);
    WANT_SAID("committing 2.0 MiB of shared memory failed: the cgroup memory limit leaves less");
    WANT_SAID("cgroup memory limit 64.0 MiB (1.0 MiB left)");
    /* Others of the group have given theirs back. */
    say(64 * MIB, 32 * MIB);
    WANT_INT(fault_ops()->heap_alloc(context, 2 * MIB, &memory), 0);
    fakeroot_remove();
    fault_close(context);
    WANT_HELD(before);
    return 0;
}

static void test_what_is_left_counts(void **state)
{
    (void)state;
    fault_apart(open_below_a_limit, NULL);
}

/* Small blocks while others of the group take the rest: it is seen before it is all gone. Returns
 * what was got after that, in KiB. */
static int others_take_the_rest(void *data)
{
    struct nigh_context *context = NULL;
    uint64_t got = 0;
    void *memory;

    (void)data;
    fakeroot_install();
    say(64 * MIB, 0);
    WANT_INT(fault_open(0, &context), 0);
    WANT_INT(fault_ops()->heap_alloc(context, 1 * MIB, &memory), 0);
    say(64 * MIB, 64 * MIB);
    while (fault_ops()->heap_alloc(context, 20 * KIB, &memory) == 0)
        got += 20 * KIB;
    WANT_SAID("cgroup memory limit 64.0 MiB (0 bytes left)");
    fakeroot_remove();
    fault_close(context);
    return (int)(got / KIB / 20);
}

static void test_others_take_the_rest(void **state)
{
    (void)state;
    /* A part of 64 of what was left, in blocks of 20 KiB. */
    assert_in_range(fault_apart(others_take_the_rest, NULL), 0, 1024 / 20 + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_heap_that_fills_a_real_one, make, drop),
        cmocka_unit_test_setup_teardown(test_chunks_that_fill_a_real_one, make, drop),
        cmocka_unit_test(test_what_is_left_counts),
        cmocka_unit_test(test_others_take_the_rest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
