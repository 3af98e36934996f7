/* SPDX-License-Identifier: BSD-3-Clause */
/* What adapters to other interfaces lean on: classes told apart in completions, keys of the host's own choice, peers
 * named by another job, lives of a job, addresses judged without a connection. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const struct nigh_ops *nigh;

/* Each class' message and each side's completion of it, short and long, early and late. */
static void classes(struct pair *pair)
{
    static const uint64_t sizes[] = {8, 500, 70000, 300000};
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];

    for (uint32_t i = 0; i < 4 * NIGH_TCLASSES; i++) {
        uint64_t bytes = sizes[i % 4];
        struct nigh_send send = pair_a_send(data_filled(bytes, i), bytes, 9, 100 + i);
        struct nigh_recv recv = pair_a_recv(data_room(bytes), bytes, 9, 200 + i);

        send.tclass = recv.tclass = i / 4;
        if (rx && i % 2)
            CHECK_INT(nigh->post_recv(rx->context, NULL, &recv), 0);
        pair_meet();
        if (tx)
            CHECK_INT(nigh->post_send(tx->peer, &send), 0);
        pair_meet();
        if (rx && !(i % 2))
            CHECK_INT(nigh->post_recv(rx->context, NULL, &recv), 0);
        if (tx)
            CHECK_INT(NIGH_DONE_CLASS(pair_await(tx, NIGH_OP_SEND, 100 + i).flags), i / 4);
        if (rx)
            CHECK_INT(NIGH_DONE_CLASS(pair_await(rx, NIGH_OP_RECV, 200 + i).flags), i / 4);
    }
}

static void cancelled_class(struct pair *pair)
{
    struct pair_end *rx = pair->end[1];
    struct nigh_recv recv = pair_a_recv(data_room(8), 8, 9, 7);
    struct nigh_completion done;

    recv.tclass = 5;
    if (!rx)
        return;
    CHECK_INT(nigh->post_recv(rx->context, NULL, &recv), 0);
    CHECK_INT(nigh->cancel(rx->context, 7), 0);
    done = pair_await(rx, NIGH_OP_RECV, 7);
    CHECK_INT(done.status, -ECANCELED);
    CHECK_INT(NIGH_DONE_CLASS(done.flags), 5);
}

/* ---- keys ------------------------------------------------------------------------------------------------------ */

static int choose(struct pair_end *end, void *memory, uint64_t bytes, uint64_t key,
                  struct nigh_region **region)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_KEY,
                                 .buffer = memory,
                                 .bytes = bytes};

    return nigh->register_memory(end->context, &what, &key, region);
}

/* More keys than chains, so that chains have members; each leads to its own memory, and none when it is gone. */
static void chosen_keys(struct pair *pair)
{
    enum { KEYS = 200 };
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    struct nigh_region *regions[KEYS];
    uint64_t *memory = (void *)data_room(KEYS * 8), word = 0;

    for (uint64_t i = 0; rx && i < KEYS; i++) {
        memory[i] = 1000 + i;
        CHECK_INT(choose(rx, &memory[i], 8, NIGH_KEY_CHOSEN | i, &regions[i]), 0);
    }
    if (rx) {
        CHECK_INT(choose(rx, memory, 8, NIGH_KEY_CHOSEN | 3, &regions[3]), -EEXIST);
        CHECK_INT(choose(rx, memory, 8, 3, &regions[3]), -EINVAL);
        CHECK_INT(nigh->deregister(rx->context, regions[17]), 0);
    }
    pair_meet();
    for (uint64_t i = 0; tx && i < KEYS; i++) {
        struct nigh_rma rma = {.size = sizeof(rma), .buffer = &word, .bytes = 8, .key = NIGH_KEY_CHOSEN | i};
        struct nigh_completion done;

        rma.context = i;
        CHECK_INT(nigh->post_get(tx->peer, &rma), 0);
        done = pair_await(tx, NIGH_OP_GET, i);
        CHECK_INT(done.status, i == 17 ? -EACCES : 0);
        if (i != 17)
            CHECK_INT(word, 1000 + i);
    }
    pair_meet();
    for (uint64_t i = 0; rx && i < KEYS; i++)
        if (i != 17)
            CHECK_INT(nigh->deregister(rx->context, regions[i]), 0);
}

/* More atomics than a ring holds, the last of them a read: it sees what the one before it wrote. */
static void ordered_atomics(struct pair *pair)
{
    enum { WRITES = 500 };
    struct pair_end *tx = pair->end[0], *rx = pair->end[1];
    uint64_t *memory = (void *)data_room(8), seen = 0;
    struct nigh_region *region = NULL;

    *memory = 0;
    if (rx)
        CHECK_INT(choose(rx, memory, 8, NIGH_KEY_CHOSEN | 1, &region), 0);
    pair_meet();
    for (uint64_t i = 1; tx && i <= WRITES + 1; i++) {
        bool last = i > WRITES;
        struct nigh_atomic atomic = {.size = sizeof(atomic),
                                     .flags = last ? 0 : NIGH_SILENT,
                                     .op = last ? NIGH_READ : NIGH_WRITE,
                                     .type = NIGH_U64,
                                     .count = 1,
                                     .operand = last ? NULL : &i,
                                     .result = last ? &seen : NULL,
                                     .key = NIGH_KEY_CHOSEN | 1,
                                     .context = i};

        CHECK_INT(nigh->post_atomic(tx->peer, &atomic), 0);
    }
    if (tx) {
        CHECK_INT(pair_await(tx, NIGH_OP_ATOMIC, WRITES + 1).status, 0);
        CHECK_INT(seen, WRITES);
    }
    pair_meet();
    if (rx)
        CHECK_INT(nigh->deregister(rx->context, region), 0);
}

/* ---- names ----------------------------------------------------------------------------------------------------- */

static struct nigh_context *open_in(uint64_t job, uint32_t rank)
{
    struct nigh_open options = {.size = sizeof(options), .job = job, .rank = rank, .ranks = rank + 1};
    struct nigh_context *context = NULL;

    options.heap_bytes = 1 << 20;
    CHECK_INT(nigh->open(&options, &context), 0);
    return context;
}

/* Two jobs; the second is known by its number. It comes when it has been called already. */
static void other_job(struct pair *pair)
{
    uint64_t job = pair->job ^ 0x5eed, word = 77, got = 0;
    struct nigh_context *caller = open_in(pair->job, 0), *service;
    struct nigh_connect to = {.size = sizeof(to), .rank = 3, .source = 9, .job = job};
    struct nigh_send send = pair_a_send(&word, 8, 1, 1);
    struct nigh_recv recv = pair_a_recv(&got, 8, 1, 2);
    struct nigh_endpoint *endpoint;
    struct nigh_completion done;
    int n;

    CHECK_INT(nigh->connect(caller, &to, &endpoint), 0);
    CHECK_INT(nigh->post_send(endpoint, &send), 0);
    service = open_in(job, 3);
    CHECK_INT(nigh->post_recv(service, NULL, &recv), 0);
    do {
        CHECK(nigh->poll_completions(caller, NULL, 0) >= 0);
        n = nigh->poll_completions(service, &done, 1);
    } while (n == 0);
    CHECK_INT(n, 1);
    CHECK_INT(done.status, 0);
    CHECK_INT(got, 77);
    CHECK_INT(nigh->close(service), 0);
    CHECK_INT(nigh->close(caller), 0);
}

static struct nigh_context *open_life(uint64_t job, uint32_t rank, uint64_t life)
{
    struct nigh_open options = {.size = sizeof(options), .job = job, .rank = rank, .ranks = 2, .life = life};
    struct nigh_context *context = NULL;

    options.heap_bytes = 1 << 20;
    CHECK_INT(nigh->open(&options, &context), 0);
    return context;
}

static void keep_line(void *data, int level, const char *text)
{
    (void)level;
    snprintf(data, 300, "%s", text);
}

/* In whichever life a place is taken, the job is called what it was called when it was opened. */
static void taken_in_a_later_life(struct pair *pair)
{
    for (uint64_t life = 0; life < 3; life++) {
        struct nigh_context *first = open_life(pair->job, 0, life), *second = NULL;
        char line[300] = "", wanted[80];
        struct nigh_open options = {.size = sizeof(options), .job = pair->job, .ranks = 2, .life = life};

        options.log = keep_line;
        options.log_data = line;
        CHECK_INT(nigh->open(&options, &second), -EADDRINUSE);
        snprintf(wanted, sizeof(wanted), "rank 0 of job %016llx is already open",
                 (unsigned long long)pair->job);
        if (!strstr(line, wanted))
            pair_fail(__FILE__, __LINE__, "%s", line);
        CHECK_INT(nigh->close(first), 0);
    }
}

/* Rank 0 is in the job's second life already; rank 1 has yet to leave the first, and then comes, too. */
static void lives(struct pair *pair)
{
    uint64_t word = 78, got = 0, bytes = sizeof(struct nigh_query_context);
    struct nigh_context *early = open_life(pair->job, 0, 1), *first = open_life(pair->job, 1, 0), *second;
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .job = pair->job};
    struct nigh_query_context facts = {.size = sizeof(facts)};
    struct nigh_send send = pair_a_send(&word, 8, 1, 1);
    struct nigh_recv recv = pair_a_recv(&got, 8, 1, 2);
    struct nigh_endpoint *endpoint;
    struct nigh_completion done;
    int n;

    CHECK_INT(nigh->connect(early, &to, &endpoint), 0);
    CHECK_INT(nigh->post_send(endpoint, &send), 0);
    CHECK_INT(nigh->post_recv(first, NULL, &recv), 0);
    for (int i = 0; i < 100; i++) {
        CHECK(nigh->poll_completions(early, NULL, 0) >= 0);
        CHECK_INT(nigh->poll_completions(first, &done, 1), 0);
        usleep(1000);
    }
    CHECK_INT(nigh->query(first, NULL, NIGH_QUERY_CONTEXT, &facts, &bytes), 0);
    CHECK_INT(facts.peers, 0);
    second = open_life(pair->job, 1, 1);
    CHECK_INT(nigh->post_recv(second, NULL, &recv), 0);
    do {
        CHECK(nigh->poll_completions(early, NULL, 0) >= 0);
        n = nigh->poll_completions(second, &done, 1);
    } while (n == 0);
    CHECK_INT(done.status, 0);
    CHECK_INT(done.source, 0);
    CHECK_INT(got, 78);
    bytes = sizeof(facts);
    CHECK_INT(nigh->query(second, NULL, NIGH_QUERY_CONTEXT, &facts, &bytes), 0);
    CHECK_INT(facts.job, pair->job);
    CHECK_INT(nigh->close(early), 0);
    CHECK_INT(nigh->close(first), 0);
    CHECK_INT(nigh->close(second), 0);
}

static void both_names(struct pair *pair)
{
    struct nigh_context *context = open_in(pair->job, 0);
    struct nigh_address address;
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = &address, .job = 5};
    struct nigh_endpoint *endpoint;

    CHECK_INT(nigh->address(context, &address), 0);
    CHECK_INT(nigh->connect(context, &to, &endpoint), -EINVAL);
    CHECK_INT(nigh->close(context), 0);
}

static void judged(struct pair *pair)
{
    struct nigh_context *context = open_in(pair->job, 0);
    struct nigh_address address, bad;

    CHECK_INT(nigh->address(context, &address), 0);
    CHECK_INT(nigh->check_address(context, &address), 0);
    for (size_t i = 0; i < sizeof(bad); i++) {
        bad = address;
        bad.bytes[i] ^= 0x10;
        CHECK_INT(nigh->check_address(context, &bad), -EBADMSG);
    }
    memset(&bad, 0, sizeof(bad));
    CHECK_INT(nigh->check_address(context, &bad), -EBADMSG);
    CHECK_INT(nigh->check_address(NULL, &address), -EINVAL);
    CHECK_INT(nigh->check_address(context, NULL), -EINVAL);
    CHECK_INT(nigh->close(context), 0);
}

static const struct pair_case cases[] = {
    {.name = "classes in completions", .play = classes},
    {.name = "class of a cancelled receive", .play = cancelled_class},
    {.name = "chosen keys", .play = chosen_keys},
    {.name = "atomics in their order", .play = ordered_atomics},
    {.name = "peer of another job", .play = other_job, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "taken in a later life", .play = taken_in_a_later_life, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "lives of a job", .play = lives, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "address and job", .play = both_names, .forms = PAIR_TWO, .how = PAIR_MANUAL},
    {.name = "addresses judged", .play = judged, .forms = PAIR_TWO, .how = PAIR_MANUAL},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
