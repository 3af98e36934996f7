/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/fault/fault.c - see fault.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { FDS = 4096, FAILED = 101, SKIPPED = 102, SECONDS = 300 };

static struct verdict {
    bool played; /* to the end: no sanitizer, and nobody else, has ended the process */
    char text[4096];
} * verdict; /* shared with the parent */
static char said[8192];
static unsigned lines;
static int maps_fd = -1, status_fd = -1;
static int eaten[FDS];
static unsigned eaten_count;

/* ---- the process ------------------------------------------------------------------------------------------------- */

static int result_of(int status)
{
    if (WIFSIGNALED(status))
        fail_msg("ended by signal %d: %s", WTERMSIG(status), verdict->text);
    if (WEXITSTATUS(status) == FAILED)
        fail_msg("%s", verdict->text);
    if (WEXITSTATUS(status) == SKIPPED) {
        printf("# skipped: %s\n", verdict->text);
        fflush(stdout);
        skip();
    }
    if (!verdict->played)
        fail_msg("ended with status %d before its time", WEXITSTATUS(status));
    return WEXITSTATUS(status);
}

int fault_apart(int (*play)(void *data), void *data)
{
    int status;
    pid_t pid;

    if (!verdict)
        verdict = mmap(NULL, sizeof(*verdict), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(verdict != MAP_FAILED);
    memset(verdict, 0, sizeof(*verdict));
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(SECONDS);
        fault_count_begin();
        status = play(data);
        verdict->played = true;
        _exit(status);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return result_of(status);
}

void fault_skip(const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(verdict->text, sizeof(verdict->text), format, arguments);
    va_end(arguments);
    _exit(SKIPPED);
}

void fault_fail(const char *file, int line, const char *format, ...)
{
    int used = snprintf(verdict->text, sizeof(verdict->text), "%s:%d: ", file, line);
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(verdict->text + used, sizeof(verdict->text) - (size_t)used, format, arguments);
    va_end(arguments);
    _exit(FAILED);
}

static void keep(void *data, int level, const char *text)
{
    size_t used = strlen(said);

    (void)data;
    (void)level;
    lines++;
    snprintf(said + used, sizeof(said) - used, "%s\n", text);
}

const char *fault_said(void)
{
    return said;
}

unsigned fault_lines(void)
{
    return lines;
}

void fault_hush(void)
{
    lines = 0;
    said[0] = 0;
}

void fault_want_said(const char *file, int line, const char *part)
{
    if (!strstr(said, part))
        fault_fail(file, line, "said \"%s\", which has no \"%s\"", said, part);
}

/* ---- what a process holds
 * ----------------------------------------------------------------------------------------- */

void fault_count_begin(void)
{
    maps_fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    status_fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    if (maps_fd < 0 || status_fd < 0)
        fault_fail(__FILE__, __LINE__, "no /proc: %s", strerror(errno));
}

static unsigned long counted_in(int fd, const char *what)
{
    static char text[1 << 20];
    size_t used = 0;
    ssize_t got;
    unsigned long count = 0;

    lseek(fd, 0, SEEK_SET);
    while ((got = read(fd, text + used, sizeof(text) - 1 - used)) > 0)
        used += (size_t)got;
    text[used] = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        count++;
    if (fd == status_fd)
        return strtoul(strstr(text, what) + strlen(what), NULL, 10);
    return count;
}

struct fault_held fault_held(void)
{
    struct fault_held held = {.maps = (unsigned)counted_in(maps_fd, "/memfd:"),
                              .threads = counted_in(status_fd, "Threads:")};

    for (int fd = 0; fd < FDS; fd++)
        held.fds += fcntl(fd, F_GETFD) >= 0;
    return held;
}

void fault_want_held(const char *file, int line, struct fault_held before)
{
    struct fault_held now = fault_held();

    /* A thread that was joined stands in the list a moment longer. */
    for (int i = 0; i < 60000 && now.threads != before.threads; i++) {
        usleep(1000);
        now = fault_held();
    }
    if (now.fds != before.fds || now.maps != before.maps || now.threads != before.threads)
        fault_fail(file, line, "left %d descriptors, %d mappings, %d threads; said: \"%s\"",
                   (int)(now.fds - before.fds), (int)(now.maps - before.maps),
                   (int)(now.threads - before.threads), said);
}

void fault_fds_eat(unsigned left)
{
    int fd;

    while (eaten_count < FDS && (fd = fcntl(maps_fd, F_DUPFD_CLOEXEC, 3)) >= 0)
        eaten[eaten_count++] = fd;
    for (; left && eaten_count; left--)
        close(eaten[--eaten_count]);
}

void fault_fds_give(void)
{
    while (eaten_count)
        close(eaten[--eaten_count]);
}

/* ---- two contexts
 * ------------------------------------------------------------------------------------------------- */

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

const struct nigh_ops *fault_ops(void)
{
    return nigh_transport(NIGH_ABI);
}

struct nigh_open fault_options(uint32_t rank)
{
    return (struct nigh_open){.size = sizeof(struct nigh_open),
                              .job = (uint64_t)getpid() << 32 | 0xfa,
                              .rank = rank,
                              .ranks = 2,
                              .heap_bytes = 4 << 20,
                              .pool_bytes = 8 << 20,
                              .log = keep};
}

int fault_open(uint32_t rank, struct nigh_context **out)
{
    struct nigh_open options = fault_options(rank);

    return fault_ops()->open(&options, out);
}

void fault_close(struct nigh_context *context)
{
    WANT_INT(fault_ops()->close(context), 0);
}

struct nigh_endpoint *fault_connect(struct nigh_context *context, uint32_t rank)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *endpoint;

    WANT_INT(fault_ops()->connect(context, &to, &endpoint), 0);
    return endpoint;
}

uint32_t fault_state(struct nigh_context *context, struct nigh_endpoint *endpoint)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    WANT_INT(fault_ops()->query(context, endpoint, NIGH_QUERY_ENDPOINT, &facts, &bytes), 0);
    return facts.state;
}

/* Completions are only counted where a test did not ask for them. */
static void poll_both(struct fault_pair *pair)
{
    struct nigh_completion done[8];

    for (unsigned side = 0; side < 2; side++)
        if (pair->context[side])
            (void)fault_ops()->poll_completions(pair->context[side], done, 8);
}

bool fault_until(struct fault_pair *pair, unsigned side, uint32_t state, unsigned ms)
{
    uint64_t end = now_ms() + ms;

    while (fault_state(pair->context[side], pair->to[side]) != state) {
        if (now_ms() >= end)
            return false;
        poll_both(pair);
        usleep(200);
    }
    return true;
}

void fault_pair_open(struct fault_pair *pair)
{
    WANT_INT(fault_open(0, &pair->context[0]), 0);
    WANT_INT(fault_open(1, &pair->context[1]), 0);
    pair->to[0] = fault_connect(pair->context[0], 1);
    pair->to[1] = fault_connect(pair->context[1], 0);
    WANT(fault_until(pair, 0, NIGH_READY, 100000));
    WANT(fault_until(pair, 1, NIGH_READY, 100000));
}

void fault_pair_close(struct fault_pair *pair)
{
    fault_close(pair->context[0]);
    fault_close(pair->context[1]);
}

static uint8_t *message(uint64_t bytes, unsigned side)
{
    uint8_t *memory = malloc(bytes + 1);

    WANT(memory != NULL);
    for (uint64_t at = 0; at < bytes; at++)
        memory[at] = (uint8_t)(at * 7 + at / 251 + side + bytes);
    return memory;
}

static bool take(struct fault_pair *pair, unsigned side, int *status)
{
    struct nigh_completion done;
    int count = fault_ops()->poll_completions(pair->context[side], &done, 1);

    WANT(count >= 0);
    if (count)
        *status = done.status;
    return count == 1;
}

/* Statuses: what the posts said, else the completions'; 1: not completed. */
static bool move(struct fault_pair *pair, unsigned from, uint8_t *out, uint8_t *in, uint64_t bytes,
                 int status[2])
{
    struct nigh_send send = {.size = sizeof(send), .buffer = out, .bytes = bytes, .tag = bytes};
    struct nigh_recv recv = {.size = sizeof(recv), .buffer = in, .bytes = bytes, .tag = bytes};
    bool done[2] = {false, false};
    uint64_t end = now_ms() + 100000;
    int rc;

    status[0] = status[1] = 1;
    WANT_INT(fault_ops()->post_recv(pair->context[1 - from], pair->to[1 - from], &recv), 0);
    rc = fault_ops()->post_send(pair->to[from], &send);
    if (rc) {
        status[0] = rc;
        WANT_INT(fault_ops()->cancel(pair->context[1 - from], 0), 0);
        done[0] = true;
    }
    while (!(done[0] && done[1]) && now_ms() < end) {
        done[0] = done[0] || take(pair, from, &status[0]);
        done[1] = done[1] || take(pair, 1 - from, &status[1]);
    }
    return done[0] && done[1];
}

void fault_pair_talk(struct fault_pair *pair)
{
    static const uint64_t sizes[] = {0, 8, 600, 5000, 200000, 3 << 20};

    for (unsigned i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = sizes[i / 2];
        uint8_t *out = message(bytes, i & 1), *in = calloc(1, bytes + 1);
        int status[2];

        WANT(in != NULL);
        WANT(move(pair, i & 1, out, in, bytes, status));
        WANT_INT(status[0], 0);
        WANT_INT(status[1], 0);
        WANT(memcmp(out, in, bytes) == 0);
        free(out);
        free(in);
    }
}

bool fault_pair_send(struct fault_pair *pair, uint64_t bytes, int *sent, int *received)
{
    uint8_t *out = message(bytes, 0), *in = calloc(1, bytes + 1);
    int status[2];
    bool both;

    WANT(in != NULL);
    both = move(pair, 0, out, in, bytes, status);
    if (both && status[1] == 0)
        WANT(memcmp(out, in, bytes) == 0);
    *sent = status[0];
    *received = status[1];
    /* What has not completed is still nigh's. */
    if (both) {
        free(out);
        free(in);
    }
    return both;
}
