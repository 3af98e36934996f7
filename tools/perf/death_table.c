/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/perf/death_table.c - a death as a host of the transport's table, and as a program of libnigh's, hears of it. */
#include "tools/perf/death.h"

#include "nigh/nigh.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { TAG = 51 };

/* ---- the table --------------------------------------------------------------------------------------------- */

struct side {
    struct perf_rank *me;
    const struct nigh_ops *ops;
    struct nigh_context *context;
    struct nigh_endpoint *peer;
    uint64_t word;
};

static void must(const struct side *side, const char *call, int rc)
{
    if (rc != 0)
        perf_fail(side->me, "death: %s: %s", call, strerror(-rc));
}

static void open_side(struct side *side, struct perf_rank *me, const struct perf_death *death, uint32_t rank)
{
    struct nigh_open options = {.size = sizeof(options),
                                .flags = rank == 0 ? NIGH_OPEN_WAIT_FD : 0,
                                .job = death->job,
                                .rank = rank,
                                .ranks = 2};
    struct nigh_connect to = {.size = sizeof(to), .rank = 1 - rank};

    *side = (struct side){.me = me, .ops = death->ops};
    must(side, "open", side->ops->open(&options, &side->context));
    must(side, "connect", side->ops->connect(side->context, &to, &side->peer));
}

/* The status of the next completion, or 1: there is none yet. */
static int next(const struct side *side)
{
    struct nigh_completion done;
    int n = side->ops->poll_completions(side->context, &done, 1);

    return n == 1 ? done.status : 1;
}

static void must_be_sent(struct side *side)
{
    int status;

    while ((status = next(side)) == 1)
        continue;
    must(side, "a message", status);
}

static void table_lives(struct perf_rank *me, struct perf_death *death)
{
    static struct side side;
    struct nigh_send send = {.size = sizeof(send),
                             .flags = NIGH_SYNC,
                             .buffer = &side.word,
                             .bytes = sizeof(side.word),
                             .tag = TAG};

    open_side(&side, me, death, 1);
    must(&side, "post_send", side.ops->post_send(side.peer, &send));
    must_be_sent(&side);
}

static void by_descriptor(const struct side *side)
{
    struct pollfd ready = {.events = POLLIN};

    if (side->ops->wait_fd(side->context, &ready.fd) == 0)
        (void)poll(&ready, 1, -1);
    (void)side->ops->wait_fd(side->context, NULL);
}

static void table_survives(struct perf_rank *me, struct perf_death *death, enum perf_death_wait how)
{
    static struct side side;
    struct nigh_recv recv = {
        .size = sizeof(recv), .buffer = &side.word, .bytes = sizeof(side.word), .tag = TAG};
    int status;

    open_side(&side, me, death, 0);
    for (unsigned i = 0; i < 2; i++) {
        must(&side, "post_recv", side.ops->post_recv(side.context, side.peer, &recv));
        if (i == 0)
            must_be_sent(&side);
    }
    perf_death_begin(death);
    while ((status = next(&side)) == 1) {
        if (how == PERF_DEATH_BLOCKED)
            (void)side.ops->wait(side.context, UINT64_MAX);
        else if (how == PERF_DEATH_ASLEEP)
            by_descriptor(&side);
    }
    if (status != -ECONNRESET)
        must(&side, "the receive from the dead", status ? status : -EPROTO);
}

const struct perf_death_layer perf_death_table = {"table", table_lives, table_survives, {true, true, true}};

/* ---- libnigh ----------------------------------------------------------------------------------------------- */

static void must_lib(const struct perf_rank *me, int rc)
{
    if (rc != 0)
        perf_fail(me, "death: libnigh: %s", nigh_error_text());
}

static void join_world(struct perf_rank *me, const struct perf_death *death, uint32_t rank)
{
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = rank,
                                 .ranks = 2,
                                 .job = death->job,
                                 .plugin = death->plugin};

    must_lib(me, nigh_init(&config));
    must_lib(me, nigh_barrier(nigh_world()));
}

static void lib_lives(struct perf_rank *me, struct perf_death *death)
{
    join_world(me, death, 1);
}

/* libnigh says each error on stderr, and this one is no news. Returns what stderr was. */
static int hush(const struct perf_rank *me)
{
    int before = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3), nothing = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (before < 0 || nothing < 0 || dup2(nothing, STDERR_FILENO) < 0)
        perf_fail(me, "death: /dev/null: %s", strerror(errno));
    close(nothing);
    return before;
}

static void lib_survives(struct perf_rank *me, struct perf_death *death, enum perf_death_wait how)
{
    nigh_request request;
    uint64_t word;
    int rc, over = 0, stderr_before;

    join_world(me, death, 0);
    stderr_before = hush(me);
    must_lib(me, nigh_irecv(&word, sizeof(word), 1, TAG, nigh_world(), &request));
    perf_death_begin(death);
    if (how == PERF_DEATH_BLOCKED)
        rc = nigh_wait(&request, NIGH_STATUS_IGNORE);
    else
        while ((rc = nigh_test(&request, &over, NIGH_STATUS_IGNORE)) == 0 && !over)
            continue;
    dup2(stderr_before, STDERR_FILENO);
    if (rc != -ECONNRESET)
        must_lib(me, rc ? rc : -EPROTO);
}

const struct perf_death_layer perf_death_lib = {"libnigh", lib_lives, lib_survives, {true, true, false}};
