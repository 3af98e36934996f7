/* SPDX-License-Identifier: BSD-3-Clause */
/* The socket, and a list of lines: of each text the ranks that have said it since it was last shown. */
#include "tools/run/fold.h"
#include "include/common/relay.h"
#include "shm/clock.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tools/run/report.h"

#define HOLD_NS    UINT64_C(200000000) /* how long the first of a text waits for others */
#define HOLDS_MOST 16                  /* times as long, doubled whenever it was shown */
#define LINES_MOST 256                 /* of the list; then all is shown, and forgotten */
#define GIVEN_MOST 65536               /* bytes that come at a time; libnigh's longest line is 2 KiB */

struct run_fold_line {
    char *text;
    uint8_t *said; /* by whom, since it was last shown; NULL: it is nigh-run's own */
    uint32_t said_by, shown;
    bool named; /* the rank is a part of it also where one alone says it */
    uint64_t due_ns;
};

static bool waits(const struct run_fold_line *line)
{
    return line->said == NULL || line->said_by > 0;
}

static bool has_said(const void *said, uint32_t rank)
{
    return (((const uint8_t *)said)[rank / 8] >> rank % 8 & 1) != 0;
}

/* ---- showing ---- */

static void free_line(struct run_fold_line *line)
{
    free(line->text);
    free(line->said);
}

static void put(struct run_fold *fold, const char *text)
{
    fold->put(fold->data, text, strlen(text));
}

static void show(struct run_fold *fold, struct run_fold_line *line)
{
    char ranks[512];

    if (line->said != NULL) {
        run_report_set(has_said, line->said, fold->ranks, ranks, sizeof(ranks));
        put(fold, "nigh: ");
        if (line->named || line->said_by > 1) {
            put(fold, ranks);
            put(fold, ": ");
        }
        memset(line->said, 0, fold->ranks / 8 + 1);
    }
    put(fold, line->text);
    line->said_by = 0;
    line->shown++;
}

/* Takes out nigh-run's own that are shown, and when `all` all. */
static void forget(struct run_fold *fold, bool all)
{
    size_t kept = 0;

    for (size_t i = 0; i < fold->count; i++) {
        if (all || (fold->lines[i].said == NULL && fold->lines[i].shown > 0))
            free_line(&fold->lines[i]);
        else
            fold->lines[kept++] = fold->lines[i];
    }
    fold->count = kept;
}

static void show_until(struct run_fold *fold, uint64_t now)
{
    for (size_t i = 0; i < fold->count; i++)
        if (waits(&fold->lines[i]) && fold->lines[i].due_ns <= now)
            show(fold, &fold->lines[i]);
    forget(fold, false);
}

void run_fold_show_all(struct run_fold *fold)
{
    show_until(fold, UINT64_MAX);
}

/* ---- the list ---- */

/* A new one at the end; NULL: no memory, and nothing has changed. */
static struct run_fold_line *append_line(struct run_fold *fold, const char *text, bool own)
{
    struct run_fold_line line = {.text = strdup(text)};

    if (fold->count == fold->room) {
        size_t room = fold->room * 2 + 16;
        struct run_fold_line *lines = reallocarray(fold->lines, room, sizeof(*lines));

        if (lines == NULL) {
            free(line.text);
            return NULL;
        }
        fold->lines = lines;
        fold->room = room;
    }
    if (!own)
        line.said = calloc(1, fold->ranks / 8 + 1);
    if (line.text == NULL || (!own && line.said == NULL)) {
        free_line(&line);
        return NULL;
    }
    fold->lines[fold->count] = line;
    return &fold->lines[fold->count++];
}

/* What was shown before waits in its new place. */
static struct run_fold_line *move_to_end(struct run_fold *fold, size_t at)
{
    struct run_fold_line line = fold->lines[at];

    memmove(&fold->lines[at], &fold->lines[at + 1], (fold->count - at - 1) * sizeof(line));
    fold->lines[fold->count - 1] = line;
    return &fold->lines[fold->count - 1];
}

/* The line of this text that the rank has not said yet. */
static struct run_fold_line *line_for(struct run_fold *fold, uint32_t rank, const char *text)
{
    for (size_t i = 0; i < fold->count; i++) {
        struct run_fold_line *line = &fold->lines[i];

        if (line->said == NULL || has_said(line->said, rank) || strcmp(line->text, text) != 0)
            continue;
        return line->said_by > 0 ? line : move_to_end(fold, i);
    }
    if (fold->count >= LINES_MOST) {
        run_fold_show_all(fold);
        forget(fold, true);
    }
    return append_line(fold, text, false);
}

static void add(struct run_fold *fold, uint32_t rank, bool named, const char *text)
{
    struct run_fold_line *line = rank < fold->ranks ? line_for(fold, rank, text) : NULL;
    char name[32];

    if (line == NULL) { /* no memory, or a rank of another job */
        snprintf(name, sizeof(name), "nigh: rank %" PRIu32 ": ", rank);
        run_fold_show_all(fold);
        put(fold, named ? name : "nigh: ");
        put(fold, text);
        return;
    }
    if (line->said_by == 0)
        line->due_ns =
            nigh_clock_ns() + HOLD_NS * (line->shown < 4 ? UINT64_C(1) << line->shown : HOLDS_MOST);
    line->named = named;
    line->said[rank / 8] |= (uint8_t)(1u << rank % 8);
    line->said_by++;
}

bool run_fold_own(struct run_fold *fold, const char *text)
{
    uint64_t due_ns = 0;
    struct run_fold_line *line;

    run_fold_step(fold);
    for (size_t i = 0; i < fold->count; i++)
        if (waits(&fold->lines[i]) && fold->lines[i].shown == 0)
            due_ns = fold->lines[i].due_ns;
    if (due_ns == 0)
        return false;
    line = append_line(fold, text, true);
    if (line == NULL) {
        run_fold_show_all(fold);
        return false;
    }
    line->due_ns = due_ns;
    return true;
}

/* ---- what ranks give ---- */

/* "RANK\n", and lines that begin with "nigh: "; others belong to the one before. */
static void read_given(struct run_fold *fold, char *given)
{
    char *end, *at, *next, name[32];
    unsigned long rank = strtoul(given, &end, 10);
    int length = snprintf(name, sizeof(name), "rank %lu: ", rank);

    if (end == given || *end != '\n' || strncmp(end, "\nnigh: ", 7) != 0)
        return;
    for (at = end + 7; at != NULL; at = next) {
        bool named = strncmp(at, name, (size_t)length) == 0;
        char begins = 0;

        next = strstr(at, "\nnigh: ");
        if (next != NULL) {
            begins = next[1];
            next[1] = '\0';
        }
        add(fold, (uint32_t)rank, named, named ? at + length : at);
        if (next != NULL) {
            next[1] = begins;
            next += 7;
        }
    }
}

/* True when the caller is done with. */
static bool hear(struct run_fold *fold, int fd)
{
    static char given[GIVEN_MOST + 2];
    ssize_t bytes = recv(fd, given, GIVEN_MOST, MSG_DONTWAIT);

    if (bytes < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (bytes > 0 && nigh_relay_is_ours(fd)) {
        if (given[bytes - 1] != '\n')
            given[bytes++] = '\n';
        given[bytes] = '\0';
        read_given(fold, given);
    }
    return true;
}

static void hear_all(struct run_fold *fold)
{
    uint32_t left = 0;

    for (uint32_t i = 0; i < fold->caller_count; i++) {
        if (hear(fold, fold->callers[i]))
            close(fold->callers[i]);
        else
            fold->callers[left++] = fold->callers[i];
    }
    fold->caller_count = left;
}

void run_fold_step(struct run_fold *fold)
{
    bool more = fold->listener >= 0;

    hear_all(fold);
    while (more && fold->caller_count < RUN_FOLD_CALLERS) {
        int fd = accept4(fold->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

        more = fd >= 0;
        if (more)
            fold->callers[fold->caller_count++] = fd;
        hear_all(fold);
    }
    show_until(fold, nigh_clock_ns());
}

size_t run_fold_poll_fill(const struct run_fold *fold, struct pollfd *polls)
{
    size_t count = 0;

    if (fold->listener >= 0 && fold->caller_count < RUN_FOLD_CALLERS)
        polls[count++] = (struct pollfd){.fd = fold->listener, .events = POLLIN};
    for (uint32_t i = 0; i < fold->caller_count; i++)
        polls[count++] = (struct pollfd){.fd = fold->callers[i], .events = POLLIN};
    return count;
}

int run_fold_wait_ms(const struct run_fold *fold)
{
    uint64_t due_ns = UINT64_MAX, now = nigh_clock_ns();

    for (size_t i = 0; i < fold->count; i++)
        if (waits(&fold->lines[i]) && fold->lines[i].due_ns < due_ns)
            due_ns = fold->lines[i].due_ns;
    if (due_ns == UINT64_MAX)
        return -1;
    return due_ns <= now ? 0 : (int)((due_ns - now + 999999) / 1000000);
}

/* ---- begin and end ---- */

int run_fold_open(struct run_fold *fold, uint32_t ranks, uint64_t job,
                  void (*put_text)(void *data, const char *text, size_t bytes), void *data)
{
    struct sockaddr_un address;
    int fd, rc = 0;

    *fold = (struct run_fold){.listener = -1, .ranks = ranks, .put = put_text, .data = data};
    snprintf(fold->name, sizeof(fold->name), "nigh-run-%016" PRIx64, job);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&address, nigh_relay_address(fold->name, &address)) != 0 ||
        listen(fd, SOMAXCONN) != 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    fold->listener = fd;
    return 0;
}

void run_fold_close(struct run_fold *fold)
{
    for (uint32_t i = 0; i < fold->caller_count; i++)
        close(fold->callers[i]);
    if (fold->listener >= 0)
        close(fold->listener);
    forget(fold, true);
    free(fold->lines);
}

void run_fold_variable(const struct run_fold *fold, char *text, size_t room)
{
    struct stat stat;

    text[0] = '\0';
    if (fold->listener >= 0 && fstat(STDERR_FILENO, &stat) == 0)
        snprintf(text, room, "%" PRIu64 ":%" PRIu64 ":%s", (uint64_t)stat.st_dev, (uint64_t)stat.st_ino,
                 fold->name);
}
