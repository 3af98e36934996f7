/* SPDX-License-Identifier: BSD-3-Clause */
/* What query says is what has been done; answers are cut, or followed by zeros, and ask for what they need. */
#include "tests/support/cpus.h"
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

static void context_facts(struct pair *pair)
{
    struct nigh_query_context first, second;
    void *memory;

    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];

        if (!end)
            continue;
        pair_state(end, NIGH_READY);
        first = pair_facts(end);
        CHECK_INT(first.size, sizeof(first));
        CHECK_INT(first.rank, end->side);
        CHECK_INT(first.ranks, pair->form == PAIR_SELF ? 1 : 2);
        CHECK_INT(first.job, pair->job);
        CHECK_INT(first.heap_bytes, 64 << 20);
        CHECK_INT(first.inject_bytes, NIGH_INJECT_BYTES);
        CHECK_INT(first.atomic_bytes, NIGH_ATOMIC_BYTES);
        CHECK_INT(first.peers, 1);
        CHECK(first.incarnation != 0 && first.eager_bytes >= 4096);
        CHECK(first.shared_reserved >= first.heap_bytes && first.shared_committed <= first.shared_reserved);
        CHECK_INT(nigh->heap_alloc(end->context, 1 << 20, &memory), 0);
        second = pair_facts(end);
        CHECK_INT(second.heap_used - first.heap_used, 1 << 20);
        CHECK(second.shared_committed >= first.shared_committed + (1 << 20));
        CHECK_INT(nigh->heap_free(end->context, memory), 0);
        CHECK_INT(pair_facts(end).heap_used, first.heap_used);
        if (pair->form == PAIR_SELF)
            break;
    }
    pair_meet();
}

static void endpoint_facts(struct pair *pair)
{
    struct nigh_query_endpoint facts;

    if (pair->form == PAIR_FORK) {
        if (pair->end[1])
            pair->shared[0] = (uint64_t)getpid();
        pair_meet();
    }
    for (unsigned i = 0; i < 2; i++) {
        struct pair_end *end = pair->end[i];

        if (!end)
            continue;
        pair_state(end, NIGH_READY);
        pair_send(end, &(uint64_t){1}, 8, 1, NIGH_INJECT | NIGH_SILENT, 0);
        facts = pair_peer_facts(end);
        CHECK_INT(facts.size, sizeof(facts));
        CHECK_INT(facts.rank, pair->form == PAIR_SELF ? 0 : 1 - end->side);
        CHECK_INT(facts.source, facts.rank);
        CHECK_INT(facts.queued, 0);
        CHECK(facts.ring_slots >= 64);
        if (pair->form != PAIR_FORK)
            CHECK_INT(facts.pid, getpid());
        else if (i == 0)
            CHECK_INT(facts.pid, pair->shared[0]);
    }
    pair_meet();
}

/* Each message is counted once, under the path that it took. */
static void stats(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    static const uint64_t sizes[] = {0, 40, 41, 1000, 100000, 20000};
    struct nigh_query_stats facts;
    uint8_t *to = rx ? data_room(100000) : NULL;
    void *heap = NULL;
    uint64_t total = 0;

    if (tx) {
        CHECK_INT(nigh->heap_alloc(tx->context, 100000, &heap), 0);
        for (uint32_t i = 0; i < 6; i++) {
            pair_send(tx, i == 5 ? heap : data_filled(sizes[i], i), sizes[i], i, 0, i);
            total += sizes[i];
        }
    }
    for (uint32_t i = 0; rx && i < 6; i++) {
        pair_recv(rx, to, 30000, i, i);
        CHECK_INT(pair_await(rx, NIGH_OP_RECV, i).status, i == 4 ? -EMSGSIZE : 0);
    }
    for (uint32_t i = 0; tx && i < 6; i++)
        pair_sent(tx, i, sizes[i]);
    if (tx) {
        facts = pair_stats(tx);
        CHECK_INT(facts.size, sizeof(facts));
        CHECK_INT(facts.sent, 6);
        CHECK_INT(facts.sent_bytes, total);
        CHECK_INT(facts.inline_sent, 2);
        CHECK_INT(facts.eager_sent, 2);
        CHECK_INT(facts.chunked_sent, 1);
        CHECK_INT(facts.heap_sent, 1);
        CHECK_INT(facts.lend_sent + facts.cma_sent, 0);
    }
    if (rx) {
        facts = pair_stats(rx);
        CHECK_INT(facts.received, 6);
        CHECK_INT(facts.truncated, 1);
        CHECK_INT(facts.received_bytes, 40 + 41 + 1000 + 100000 + 20000);
        CHECK_INT(facts.rescues, 0);
    }
}

/* What the path report says of messages of so many bytes. */
static void says(struct pair_end *end, uint64_t size, const char *path)
{
    struct nigh_query_path rows[64];
    uint64_t bytes = sizeof(rows), seen = 0;

    CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_PATHS, rows, &bytes), 0);
    for (uint64_t i = 0; i < bytes / sizeof(rows[0]) && strcmp(rows[i].path, "heap") != 0; i++)
        seen += rows[i].bytes_from == size && strcmp(rows[i].path, path) == 0;
    CHECK_INT(seen, 1);
}

/* From how many bytes on the path report has messages read where they lie; UINT64_MAX: none. */
static uint64_t in_place_from(struct pair_end *end)
{
    struct nigh_query_path rows[64];
    uint64_t bytes = sizeof(rows), from = UINT64_MAX;

    CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_PATHS, rows, &bytes), 0);
    for (uint64_t i = 0; i < bytes / sizeof(rows[0]); i++)
        if (strcmp(rows[i].path, "cma") == 0 && rows[i].bytes_from < from)
            from = rows[i].bytes_from;
    return from;
}

/* Two ranks that share a CPU: long messages are copied once where the receiver may read its peer, but not those that
 * the host wants to be done with before they are matched. */
static void crowded(struct pair *pair)
{
    static const uint64_t sizes[] = {100000, 256 << 10, 300000, 600000, 1 << 20};
    enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
    uint64_t eager = pair->of->options.eager_bytes, from = UINT64_MAX;
    /* Of those that are not to be matched first what fits the chunks in rotation is done with before it is read. */
    uint64_t unread = eager < 512 << 10 ? eager : 512 << 10;
    struct pair_end *tx = pair->end[0], *rx = pair->end[1], *end = tx ? tx : rx;
    struct nigh_query_machine machine;
    struct nigh_query_stats facts;
    uint64_t bytes = sizeof(machine), in_place = 0, copied = 0;
    cpu_set_t allowed;

    CHECK_INT(nigh->query(NULL, NULL, NIGH_QUERY_MACHINE, &machine, &bytes), 0);
    CHECK_INT(cpus_one(&allowed), 0);
    pair_meet();
    pair_open(end);
    pair_connect(end);
    pair_state(end, NIGH_READY);
    CHECK_INT(pair_facts(end).crowded, 1);
    if (tx)
        from = in_place_from(tx);
    /* Which of the two goes by the CPU. */
    if (tx && machine.cma)
        CHECK(from == eager + 1 || (eager < from && (from == 256 << 10 || from == (512 << 10) + 1)));
    for (uint32_t i = 0; i < SIZES; i++) {
        in_place += machine.cma && sizes[i] >= from;
        /* Nobody answers, so the first has taken the only shuttle. */
        copied += i && sizes[i] > eager && !(machine.cma && sizes[i] >= from);
        if (tx)
            pair_send(tx, data_filled(sizes[i], i), sizes[i], i, 0, i);
        if (tx && sizes[i] <= unread)
            pair_sent(tx, i, sizes[i]);
        pair_meet();
        if (tx && sizes[i] > unread)
            pair_sent(tx, i, sizes[i]);
        if (rx) {
            uint8_t *to = data_room(sizes[i]);

            pair_recv(rx, to, sizes[i], i, i);
            CHECK_INT(pair_await(rx, NIGH_OP_RECV, i).status, 0);
            data_check(to, sizes[i], i, 0);
        }
    }
    if (tx) {
        facts = pair_stats(tx);
        CHECK_INT(facts.cma_sent, in_place);
        CHECK_INT(facts.heap_sent, copied);
        CHECK_INT(facts.chunked_sent, SIZES - in_place - copied);
        says(tx, 131072, "chunked");
        says(tx, 524288, in_place && from <= 524288 ? "cma" : "chunked");
        says(tx, 1048576, in_place ? "cma" : "chunked");
        if (in_place)
            says(tx, from, "cma");
    }
    pair_meet();
    pair_disconnect(end);
    pair_close(end);
    CHECK_INT(cpus_all(&allowed), 0);
}

/* Every class has a path and a reason; the classes rise. */
static void paths(struct pair *pair)
{
    struct nigh_query_path rows[64];
    uint64_t bytes, count, last;

    for (unsigned i = 0; i < 2; i++) {
        if (!pair->end[i])
            continue;
        pair_state(pair->end[i], NIGH_READY);
        bytes = sizeof(rows);
        last = 0;
        CHECK_INT(nigh->query(pair->end[i]->context, pair->end[i]->peer, NIGH_QUERY_PATHS, rows, &bytes), 0);
        count = bytes / sizeof(rows[0]);
        CHECK_INT(bytes % sizeof(rows[0]), 0);
        CHECK(count >= 4 && count < 64);
        CHECK(strcmp(rows[0].path, "inline") == 0 && rows[0].bytes_from == 0);
        for (uint64_t row = 0; row < count; row++) {
            CHECK_INT(rows[row].size, sizeof(rows[0]));
            CHECK(memchr(rows[row].path, 0, sizeof(rows[row].path)) != NULL && rows[row].path[0]);
            CHECK(memchr(rows[row].reason, 0, sizeof(rows[row].reason)) != NULL &&
                  strlen(rows[row].reason) > 5);
            if (strcmp(rows[row].path, "chunked") == 0) {
                CHECK(rows[row].bytes_from >= last);
                last = rows[row].bytes_from;
            }
        }
    }
    pair_meet();
}

static void machine(struct pair *pair)
{
    struct nigh_query_machine facts;
    uint64_t bytes = sizeof(facts);
    cpu_set_t allowed;

    (void)pair;
    CHECK_INT(nigh->query(NULL, NULL, NIGH_QUERY_MACHINE, &facts, &bytes), 0);
    CHECK_INT(bytes, sizeof(facts));
    CHECK_INT(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
    CHECK_INT(facts.cpus, CPU_COUNT(&allowed));
    CHECK_INT(facts.page_bytes, sysconf(_SC_PAGESIZE));
    CHECK(facts.memory_bytes > 1 << 20);
    CHECK(facts.l3_domains >= 1 && facts.numa_nodes >= 1 && facts.packages >= 1);
    CHECK(facts.cpus_runnable >= 1 && facts.cpus_runnable <= facts.cpus);
}

/* Room for less is filled as far as it goes, room for more with zeros behind. */
static void rooms(struct pair *pair)
{
    static const uint32_t kinds[] = {NIGH_QUERY_CONTEXT, NIGH_QUERY_ENDPOINT, NIGH_QUERY_PATHS,
                                     NIGH_QUERY_STATS, NIGH_QUERY_MACHINE};
    struct pair_end *end = pair->end[0];
    uint8_t full[16384], part[16384];
    uint64_t bytes, all;
    uint32_t size;

    pair_state(end, NIGH_READY);
    for (uint32_t i = 0; i < 5; i++) {
        all = sizeof(full);
        memset(full, 0xa5, sizeof(full));
        CHECK_INT(nigh->query(end->context, end->peer, kinds[i], full, &all), 0);
        CHECK(all < sizeof(full));
        memcpy(&size, full, 4);
        CHECK(size >= 64 && size <= all);
        for (uint64_t at = all; at < sizeof(full); at++)
            CHECK(full[at] == 0);
        for (uint64_t room = 4; room < all; room += 37) {
            memset(part, 0xa5, sizeof(part));
            bytes = room;
            CHECK_INT(nigh->query(end->context, end->peer, kinds[i], part, &bytes), 0);
            CHECK_INT(bytes, room);
            CHECK(part[room] == 0xa5);
            memcpy(&size, part, 4);
            CHECK(size >= 64);
        }
        for (bytes = 0; bytes < 4; bytes++)
            CHECK_INT(nigh->query(end->context, end->peer, kinds[i], part, &bytes), -ENOSPC);
    }
    bytes = sizeof(part);
    CHECK_INT(nigh->query(end->context, NULL, 0, part, &bytes), -EINVAL);
    CHECK_INT(nigh->query(end->context, NULL, 9, part, &bytes), -EINVAL);
    CHECK_INT(nigh->query(end->context, NULL, UINT32_MAX, part, &bytes), -EINVAL);
    CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_ENDPOINT, part, &bytes), -EINVAL);
    CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_PATHS, part, &bytes), -EINVAL);
    CHECK_INT(nigh->query(NULL, NULL, NIGH_QUERY_CONTEXT, part, &bytes), -EINVAL);
    CHECK_INT(bytes, sizeof(part));
}

/* What waits is counted while it waits. */
static void waiting(struct pair *pair)
{
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t got[5];

    for (uint64_t i = 0; tx && i < 5; i++)
        pair_send(tx, &i, 8, 50 + i, NIGH_INJECT | NIGH_SILENT, 0);
    if (rx) {
        pair_unexpected(rx, 5);
        CHECK_INT(pair_facts(rx).posted, 0);
        for (uint32_t i = 0; i < 5; i++)
            pair_recv(rx, &got[i], 8, 60 + i, i);
        CHECK_INT(pair_facts(rx).posted, 5);
        CHECK_INT(pair_facts(rx).unexpected, 5);
        CHECK_INT(pair_stats(rx).unexpected, 5);
        for (uint32_t i = 0; i < 5; i++) {
            CHECK_INT(nigh->cancel(rx->context, i), 0);
            CHECK_INT(pair_await(rx, NIGH_OP_RECV, i).status, -ECANCELED);
            pair_recv(rx, &got[i], 8, 50 + i, i);
            pair_received(rx, i, 8);
        }
    }
}

static const struct pair_case cases[] = {
    {.name = "context", .play = context_facts},
    {.name = "endpoint", .play = endpoint_facts, .how = PAIR_LOOSE},
    {.name = "statistics", .play = stats},
    {.name = "paths", .play = paths},
    {.name = "crowded", .play = crowded, .forms = PAIR_FORK, .how = PAIR_MANUAL},
    {.name = "crowded, and eager",
     .play = crowded,
     .forms = PAIR_FORK,
     .how = PAIR_MANUAL,
     .options = {.eager_bytes = 600000}},
    {.name = "machine", .play = machine, .forms = PAIR_SELF},
    {.name = "rooms", .play = rooms, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "waiting", .play = waiting},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
