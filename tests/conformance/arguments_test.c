/* SPDX-License-Identifier: BSD-3-Clause */
/* What every slot refuses: handles that are not there, values out of range. Nothing may have changed afterwards. The
 * bytes of structs are in structs_test.c. */
#include "tests/support/pair.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct nigh_ops *nigh;

/* ---- handles and pointers -------------------------------------------------------------------------------------- */

static void nothing_met(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context, *made = NULL;
    struct nigh_open open = {.size = sizeof(open), .ranks = 1};
    struct nigh_connect connect = {.size = sizeof(connect)};
    struct nigh_endpoint *endpoint = NULL;
    struct nigh_address address;

    CHECK_INT(nigh->open(NULL, &made), -EINVAL);
    CHECK_INT(nigh->open(&open, NULL), -EINVAL);
    CHECK_INT(nigh->close(NULL), -EINVAL);
    CHECK_INT(nigh->address(NULL, &address), -EINVAL);
    CHECK_INT(nigh->address(context, NULL), -EINVAL);
    CHECK_INT(nigh->connect(NULL, &connect, &endpoint), -EINVAL);
    CHECK_INT(nigh->connect(context, NULL, &endpoint), -EINVAL);
    CHECK_INT(nigh->connect(context, &connect, NULL), -EINVAL);
    CHECK_INT(nigh->disconnect(NULL), -EINVAL);
    CHECK(!made && !endpoint);
}

static void nothing_posted(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    struct nigh_endpoint *peer = pair->end[0]->peer;
    struct nigh_send send = pair_a_send(NULL, 0, 0, 0);
    struct nigh_recv recv = pair_a_recv(NULL, 0, 0, 0);
    struct nigh_rma rma = {.size = sizeof(rma)};
    struct nigh_atomic atomic = {.size = sizeof(atomic), .op = NIGH_READ, .type = NIGH_U8, .count = 1};
    struct nigh_lend lend = {.size = sizeof(lend)};
    struct nigh_completion done;

    CHECK_INT(nigh->post_send(NULL, &send), -EINVAL);
    CHECK_INT(nigh->post_send(peer, NULL), -EINVAL);
    CHECK_INT(nigh->post_recv(NULL, peer, &recv), -EINVAL);
    CHECK_INT(nigh->post_recv(context, peer, NULL), -EINVAL);
    CHECK_INT(nigh->probe(NULL, peer, 0, 0, 0, &done, NULL), -EINVAL);
    CHECK_INT(nigh->claim(NULL, (struct nigh_message *)(void *)&done, &recv), -EINVAL);
    CHECK_INT(nigh->claim(context, (struct nigh_message *)(void *)&done, &recv), -EINVAL);
    CHECK_INT(nigh->cancel(NULL, 0), -EINVAL);
    CHECK_INT(nigh->cancel_unmatched(NULL, 0), -EINVAL);
    CHECK_INT(nigh->cancel_unmatched(context, 0), -ENOENT);
    CHECK_INT(nigh->cancel(context, 0), -ENOENT);
    CHECK_INT(nigh->post_put(NULL, &rma), -EINVAL);
    CHECK_INT(nigh->post_put(peer, NULL), -EINVAL);
    CHECK_INT(nigh->post_get(NULL, &rma), -EINVAL);
    CHECK_INT(nigh->post_get(peer, NULL), -EINVAL);
    CHECK_INT(nigh->post_atomic(NULL, &atomic), -EINVAL);
    CHECK_INT(nigh->post_atomic(peer, NULL), -EINVAL);
    CHECK_INT(nigh->post_lend(NULL, &lend), -EINVAL);
    CHECK_INT(nigh->post_lend(peer, NULL), -EINVAL);
    CHECK_INT(nigh->release(NULL, &done), -EINVAL);
}

static void nothing_of_memory(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    uint64_t key = 0, word = 0;
    struct nigh_register memory = {.size = sizeof(memory), .flags = 1, .buffer = &word, .bytes = 8};
    struct nigh_region *region = NULL;
    void *place = NULL;

    CHECK_INT(nigh->heap_alloc(NULL, 8, &place), -EINVAL);
    CHECK_INT(nigh->heap_alloc(context, 8, NULL), -EINVAL);
    CHECK_INT(nigh->heap_alloc(context, 0, &place), -EINVAL);
    CHECK_INT(nigh->heap_free(NULL, &word), -EINVAL);
    CHECK_INT(nigh->register_memory(NULL, &memory, &key, &region), -EINVAL);
    CHECK_INT(nigh->register_memory(context, NULL, &key, &region), -EINVAL);
    CHECK_INT(nigh->register_memory(context, &memory, NULL, &region), -EINVAL);
    CHECK_INT(nigh->register_memory(context, &memory, &key, NULL), -EINVAL);
    CHECK_INT(nigh->deregister(NULL, (struct nigh_region *)(void *)&word), -EINVAL);
    CHECK_INT(nigh->deregister(context, NULL), -EINVAL);
    CHECK_INT(nigh->deregister(context, (struct nigh_region *)(void *)&word), -EINVAL);
    CHECK(!region && !place && key == 0);
}

static void nothing_asked(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    struct nigh_endpoint *peer = pair->end[0]->peer;
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_RUNNING};
    struct nigh_completion done;
    uint64_t key = 0, bytes = sizeof(done);
    int fd = -1;

    CHECK_INT(nigh->poll_completions(NULL, &done, 1), -EINVAL);
    CHECK_INT(nigh->poll_completions(context, NULL, 1), -EINVAL);
    CHECK_INT(nigh->poll_completions(context, NULL, 0), 0);
    CHECK_INT(nigh->wait(NULL, 0), -EINVAL);
    CHECK_INT(nigh->wait_fd(NULL, &fd), -EINVAL);
    CHECK_INT(nigh->wait_fd(context, NULL), -ENOTSUP);
    CHECK_INT(nigh->wait_fd(context, &fd), -ENOTSUP);
    CHECK_INT(nigh->note(NULL, &note), -EINVAL);
    CHECK_INT(nigh->note(context, NULL), -EINVAL);
    CHECK_INT(nigh->nudge(NULL, &key), -EINVAL);
    CHECK_INT(nigh->nudge(peer, NULL), -EINVAL);
    CHECK_INT(nigh->query(context, NULL, NIGH_QUERY_CONTEXT, NULL, &bytes), -EINVAL);
    CHECK_INT(nigh->query(context, NULL, NIGH_QUERY_CONTEXT, &done, NULL), -EINVAL);
    CHECK(fd == -1 && key == 0 && bytes == sizeof(done));
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

/* Of a pair that has settled on how to copy, and so takes the shortest way. */
static void long_injects(struct pair *pair)
{
    static uint8_t out[4096], in[4096];
    struct nigh_send send = pair_a_send(out, 2048, 7, 0);

    for (uint64_t i = 1; i <= 400; i++) {
        pair_recv(pair->end[1], in, sizeof(in), 7, i);
        pair_send(pair->end[0], out, 2048, 7, 0, i);
        pair_sent(pair->end[0], i, 2048);
        (void)pair_received(pair->end[1], i, 2048);
    }
    for (uint64_t bytes = NIGH_INJECT_BYTES + 1; bytes <= sizeof(out); bytes += 1021) {
        send.bytes = bytes;
        send.flags = NIGH_INJECT;
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), -EMSGSIZE);
        send.flags |= NIGH_SILENT;
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), -EMSGSIZE);
    }
}

static void messages(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t value = 1;
    struct nigh_send send = pair_a_send(&value, 8, 1, 1);
    struct nigh_recv recv = pair_a_recv(&value, 8, 1, 1);

    send.tclass = NIGH_TCLASSES;
    CHECK_INT(nigh->post_send(end->peer, &send), -EINVAL);
    send.tclass = UINT32_MAX;
    CHECK_INT(nigh->post_send(end->peer, &send), -EINVAL);
    send.tclass = 0;
    send.buffer = NULL;
    CHECK_INT(nigh->post_send(end->peer, &send), -EFAULT);
    send.buffer = &value;
    send.flags = NIGH_INJECT;
    send.bytes = NIGH_INJECT_BYTES + 1;
    CHECK_INT(nigh->post_send(end->peer, &send), -EMSGSIZE);
    recv.tclass = NIGH_TCLASSES;
    CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), -EINVAL);
    recv.tclass = 0;
    recv.buffer = NULL;
    CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), -EFAULT);
    recv.buffer = &value;
    recv.flags = NIGH_MULTI;
    CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), -EINVAL);
    recv.min_free = 9;
    CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), -EINVAL);
    recv.min_free = 1;
    recv.flags = NIGH_MULTI | NIGH_IN_PLACE;
    CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), -EINVAL);
    CHECK_INT(pair_facts(end).posted, 0);
    CHECK_INT(pair_stats(end).sent, 0);
}

static void another_contexts(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    struct nigh_endpoint *others = pair->end[1]->peer;
    struct nigh_recv recv = pair_a_recv(NULL, 0, 0, 0);
    struct nigh_query_endpoint facts;
    struct nigh_completion found;
    uint64_t bytes = sizeof(facts);

    CHECK_INT(nigh->post_recv(context, others, &recv), -EINVAL);
    CHECK_INT(nigh->probe(context, others, 0, 0, 0, &found, NULL), -EINVAL);
    CHECK_INT(nigh->query(context, others, NIGH_QUERY_ENDPOINT, &facts, &bytes), -EINVAL);
}

static void remote(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t value = 1, key = 0;
    struct nigh_register memory = {
        .size = sizeof(memory), .flags = NIGH_REMOTE_READ, .buffer = &value, .bytes = 8};
    struct nigh_rma rma = {.size = sizeof(rma), .bytes = 8};
    struct nigh_atomic atomic = {.size = sizeof(atomic), .op = NIGH_SUM, .type = NIGH_U32, .count = 1};
    struct nigh_lend lend = {.size = sizeof(lend), .bytes = 8};
    struct nigh_region *region;
    void *heap;

    memory.bytes = 0;
    CHECK_INT(nigh->register_memory(end->context, &memory, &key, &region), -EINVAL);
    memory.bytes = 8;
    memory.flags = 0;
    CHECK_INT(nigh->register_memory(end->context, &memory, &key, &region), -EINVAL);
    memory.flags = NIGH_REMOTE_READ;
    memory.buffer = NULL;
    CHECK_INT(nigh->register_memory(end->context, &memory, &key, &region), -EFAULT);
    CHECK_INT(nigh->post_put(end->peer, &rma), -EFAULT);
    CHECK_INT(nigh->post_get(end->peer, &rma), -EFAULT);
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EFAULT);
    atomic.operand = &value;
    atomic.op = NIGH_CSWAP;
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EFAULT);
    atomic.op = NIGH_SUM;
    atomic.type = NIGH_F64 + 1;
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EOPNOTSUPP);
    atomic.type = 0;
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EOPNOTSUPP);
    atomic.type = NIGH_U32;
    atomic.op = NIGH_CSWAP + 1;
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EOPNOTSUPP);
    atomic.op = 0;
    CHECK_INT(nigh->post_atomic(end->peer, &atomic), -EOPNOTSUPP);
    CHECK_INT(nigh->heap_alloc(end->context, 64, &heap), 0);
    lend.buffer = heap;
    lend.tclass = NIGH_TCLASSES;
    CHECK_INT(nigh->post_lend(end->peer, &lend), -EINVAL);
    CHECK_INT(nigh->heap_free(end->context, heap), 0);
    CHECK_INT(pair_stats(end).sent, 0);
}

static void connects(struct pair *pair)
{
    struct nigh_context *context = pair->end[0]->context;
    struct nigh_connect to = {.size = sizeof(to), .rank = 1000000};
    struct nigh_endpoint *endpoint = NULL;
    struct nigh_address address;

    CHECK_INT(nigh->connect(context, &to, &endpoint), -ERANGE);
    to.rank = NIGH_RANK_NONE;
    CHECK_INT(nigh->connect(context, &to, &endpoint), -EINVAL);
    CHECK_INT(nigh->address(context, &address), 0);
    to.address = &address;
    to.rank = 0;
    CHECK_INT(nigh->connect(context, &to, &endpoint), -EINVAL);
    to.rank = NIGH_RANK_NONE;
    CHECK_INT(nigh->connect(context, &to, &endpoint), 0);
    CHECK_INT(nigh->disconnect(endpoint), 0);
    endpoint = NULL;
    memset(&address, 0, sizeof(address));
    CHECK_INT(nigh->connect(context, &to, &endpoint), -EBADMSG);
    memset(&address, 0xff, sizeof(address));
    CHECK_INT(nigh->connect(context, &to, &endpoint), -EBADMSG);
    CHECK(endpoint == NULL);
}

struct told {
    uint32_t lines;
    char last[256];
};

static void quiet(void *data, int level, const char *text)
{
    struct told *told = data;

    (void)level;
    told->lines++;
    snprintf(told->last, sizeof(told->last), "%s", text);
}

/* Each refused value is told of, by the name of its field: no variable was set. */
static void opens(struct pair *pair)
{
    static const char *const fields[] = {"rank",       "rank", "rank",      "ring_slots", "ring_slots",
                                         "ring_slots", "path", "peers_max", "eager_bytes"};
    struct told told = {0};
    struct nigh_open good = {
        .size = sizeof(good), .job = pair->job + 7, .ranks = 1, .log = quiet, .log_data = &told};
    struct nigh_open bad[9];
    struct nigh_context *context = NULL;
    char begins[32];

    for (uint32_t i = 0; i < 9; i++)
        bad[i] = good;
    bad[0].ranks = 0;
    bad[1].rank = 1;
    bad[2].rank = NIGH_RANK_NONE;
    bad[3].ring_slots = 100;
    bad[4].ring_slots = 32;
    bad[5].ring_slots = 1 << 17;
    bad[6].path = "tunnel";
    bad[7].peers_max = 65537;
    bad[8].eager_bytes = 1;
    for (uint32_t i = 0; i < 9; i++) {
        told.lines = 0;
        snprintf(begins, sizeof(begins), "open: %s=\"", fields[i]);
        if (nigh->open(&bad[i], &context) != -EINVAL || told.lines != 1 ||
            strncmp(told.last, begins, strlen(begins)) != 0)
            pair_fail(__FILE__, __LINE__, "open, bad value %u: not -EINVAL, or %u lines told: %s", i,
                      told.lines, told.last);
    }
    CHECK(context == NULL);
}

static void other_major(struct pair *pair)
{
    void *object = dlopen(getenv("NIGH_PLUGIN"), RTLD_NOW);
    nigh_transport_fn entry = (nigh_transport_fn)dlsym(object, NIGH_SYMBOL);

    (void)pair;
    CHECK(entry(NIGH_ABI) == nigh);
    CHECK(entry(NIGH_ABI | 0xffff) == nigh);
    CHECK(entry(0) == NULL);
    CHECK(entry(NIGH_ABI + (1u << 16)) == NULL);
    CHECK(entry(UINT32_MAX) == NULL);
    CHECK_INT(nigh->abi, NIGH_ABI);
    CHECK(strcmp(nigh->name, "nigh") == 0 && strlen(nigh->description) > 10);
    CHECK(strstr(nigh->config_help, "NIGH_RING=") != NULL);
    CHECK(NIGH_HAS(nigh, note) && NIGH_HAS(nigh, nudge));
    CHECK(NIGH_HAS(nigh, query) && nigh->size >= offsetof(struct nigh_ops, query) + sizeof(nigh->query));
    dlclose(object);
}

static const struct pair_case cases[] = {
    {.name = "nothing, to meet", .play = nothing_met, .forms = PAIR_SELF},
    {.name = "nothing, of posts", .play = nothing_posted, .forms = PAIR_SELF},
    {.name = "nothing, of memory", .play = nothing_of_memory, .forms = PAIR_SELF},
    {.name = "nothing, of questions", .play = nothing_asked, .forms = PAIR_SELF},
    {.name = "messages", .play = messages, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "long injects", .play = long_injects, .forms = PAIR_TWO},
    {.name = "another context's endpoint", .play = another_contexts, .forms = PAIR_TWO},
    {.name = "remote memory", .play = remote, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "connects", .play = connects, .forms = PAIR_SELF | PAIR_TWO},
    {.name = "opens", .play = opens, .forms = PAIR_SELF},
    {.name = "another major", .play = other_major, .forms = PAIR_SELF},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
