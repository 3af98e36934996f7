/* SPDX-License-Identifier: BSD-3-Clause */
/* Every struct that a slot takes: each size that is not its own, each byte that is reserved and each flag that is
 * none are refused. */
#include "tests/support/pair.h"
#include <string.h>

static const struct nigh_ops *nigh;

struct scene {
    struct pair_end *end;
    uint64_t job;
    void *heap;
    uint64_t value;
};

static void fill_open(struct scene *scene, void *at)
{
    struct nigh_open open = {.size = sizeof(open), .job = ++scene->job, .ranks = 1, .heap_bytes = 1 << 20};

    memcpy(at, &open, sizeof(open));
}

static int call_open(struct scene *scene, const void *at)
{
    struct nigh_context *context = NULL;
    int rc = nigh->open(at, &context);

    (void)scene;
    CHECK((rc == 0) == (context != NULL));
    return rc ? rc : nigh->close(context);
}

static void fill_connect(struct scene *scene, void *at)
{
    struct nigh_connect connect = {.size = sizeof(connect), .rank = 0, .source = 1};

    (void)scene;
    memcpy(at, &connect, sizeof(connect));
}

static int call_connect(struct scene *scene, const void *at)
{
    struct nigh_endpoint *endpoint = NULL;
    int rc = nigh->connect(scene->end->context, at, &endpoint);

    CHECK((rc == 0) == (endpoint != NULL));
    return rc ? rc : nigh->disconnect(endpoint);
}

static void fill_send(struct scene *scene, void *at)
{
    struct nigh_send send = pair_a_send(&scene->value, 8, 1, 1);

    memcpy(at, &send, sizeof(send));
}

static int call_send(struct scene *scene, const void *at)
{
    return nigh->post_send(scene->end->peer, at);
}

static void fill_recv(struct scene *scene, void *at)
{
    struct nigh_recv recv = pair_a_recv(&scene->value, 8, UINT64_C(1) << 40, 1);

    memcpy(at, &recv, sizeof(recv));
}

static int call_recv(struct scene *scene, const void *at)
{
    int rc = nigh->post_recv(scene->end->context, scene->end->peer, at);

    return rc ? rc : nigh->cancel(scene->end->context, 1);
}

static void fill_register(struct scene *scene, void *at)
{
    struct nigh_register memory = {
        .size = sizeof(memory), .flags = NIGH_REMOTE_READ, .buffer = &scene->value, .bytes = 8};

    memcpy(at, &memory, sizeof(memory));
}

static int call_register(struct scene *scene, const void *at)
{
    struct nigh_region *region = NULL;
    uint64_t key = 1234;
    int rc = nigh->register_memory(scene->end->context, at, &key, &region);

    CHECK((rc == 0) == (region != NULL) && (rc == 0) == (key != 1234));
    return rc ? rc : nigh->deregister(scene->end->context, region);
}

static void fill_rma(struct scene *scene, void *at)
{
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = &scene->value, .bytes = 8, .key = 7};

    memcpy(at, &rma, sizeof(rma));
}

static int call_put(struct scene *scene, const void *at)
{
    return nigh->post_put(scene->end->peer, at);
}

static int call_get(struct scene *scene, const void *at)
{
    return nigh->post_get(scene->end->peer, at);
}

static void fill_atomic(struct scene *scene, void *at)
{
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &scene->value,
                                 .key = 7};

    memcpy(at, &atomic, sizeof(atomic));
}

static int call_atomic(struct scene *scene, const void *at)
{
    return nigh->post_atomic(scene->end->peer, at);
}

static void fill_lend(struct scene *scene, void *at)
{
    struct nigh_lend lend = {.size = sizeof(lend), .buffer = scene->heap, .bytes = 8, .tag = 3};

    memcpy(at, &lend, sizeof(lend));
}

static int call_lend(struct scene *scene, const void *at)
{
    return nigh->post_lend(scene->end->peer, at);
}

static void fill_note(struct scene *scene, void *at)
{
    struct nigh_note note = {.size = sizeof(note), .state = NIGH_NOTE_RUNNING};

    (void)scene;
    memcpy(at, &note, sizeof(note));
}

static int call_note(struct scene *scene, const void *at)
{
    return nigh->note(scene->end->context, at);
}

struct reserved {
    size_t at, bytes;
};
#define RESERVED(type, member)                                               \
    {                                                                        \
        offsetof(struct type, member), sizeof(((struct type *)NULL)->member) \
    }

static const struct slot {
    const char *name;
    size_t size;
    uint32_t flags; /* that mean something */
    void (*fill)(struct scene *scene, void *at);
    int (*call)(struct scene *scene, const void *at);
    struct reserved reserved[2];
} slots[] = {
    {"open", sizeof(struct nigh_open), 15, fill_open, call_open, {RESERVED(nigh_open, reserved)}},
    {"connect",
     sizeof(struct nigh_connect),
     0,
     fill_connect,
     call_connect,
     {RESERVED(nigh_connect, reserved)}},
    {"post_send", sizeof(struct nigh_send), 31, fill_send, call_send, {RESERVED(nigh_send, reserved0)}},
    {"post_recv", sizeof(struct nigh_recv), 19, fill_recv, call_recv, {{0, 0}}},
    {"register_memory",
     sizeof(struct nigh_register),
     3 | NIGH_REGISTER_DEVICE,
     fill_register,
     call_register,
     {RESERVED(nigh_register, copies), RESERVED(nigh_register, context)}},
    {"post_put", sizeof(struct nigh_rma), 28, fill_rma, call_put, {RESERVED(nigh_rma, region)}},
    {"post_get", sizeof(struct nigh_rma), 20, fill_rma, call_get, {RESERVED(nigh_rma, region)}},
    {"post_atomic",
     sizeof(struct nigh_atomic),
     4,
     fill_atomic,
     call_atomic,
     {RESERVED(nigh_atomic, reserved)}},
    {"post_lend",
     sizeof(struct nigh_lend),
     20,
     fill_lend,
     call_lend,
     {RESERVED(nigh_lend, reserved0), RESERVED(nigh_lend, region)}},
    /* Its state lies where others have flags: 1 to 3. */
    {"note", sizeof(struct nigh_note), 3, fill_note, call_note, {RESERVED(nigh_note, reserved)}},
};
#define SLOTS (sizeof(slots) / sizeof(slots[0]))
#define TAIL  64u

static void expect(const struct slot *slot, const char *what, size_t where, int rc, int expected)
{
    if (rc != expected)
        pair_fail(__FILE__, __LINE__, "%s, %s %zu: %d, not %d", slot->name, what, where, rc, expected);
}

static void set_size(uint8_t *at, size_t size)
{
    uint32_t word = (uint32_t)size;

    memcpy(at, &word, sizeof(word));
}

static void sizes_of(const struct slot *slot, struct scene *scene, uint8_t *at)
{
    static const uint32_t wrong[] = {0, 1, 3, 4, 8};

    for (uint32_t i = 0; i < 5; i++) {
        slot->fill(scene, at);
        set_size(at, wrong[i]);
        expect(slot, "size", wrong[i], slot->call(scene, at), -EINVAL);
        set_size(at, slot->size - 1 - i);
        expect(slot, "too small by", i + 1, slot->call(scene, at), -EINVAL);
    }
    for (uint32_t more = 1; more <= TAIL; more *= 4) {
        slot->fill(scene, at);
        set_size(at, slot->size + more);
        expect(slot, "larger, a tail of zeros", more, slot->call(scene, at), 0);
        slot->fill(scene, at);
        set_size(at, slot->size + more);
        at[slot->size + more - 1] = 1;
        expect(slot, "larger, the last byte set", more, slot->call(scene, at), -EINVAL);
        at[slot->size + more - 1] = 0;
    }
}

static void bytes_of(const struct slot *slot, struct scene *scene, uint8_t *at)
{
    for (uint32_t i = 0; i < 2; i++)
        for (size_t byte = 0; byte < slot->reserved[i].bytes; byte++) {
            slot->fill(scene, at);
            at[slot->reserved[i].at + byte] = 0x80;
            expect(slot, "reserved byte", slot->reserved[i].at + byte, slot->call(scene, at), -EINVAL);
        }
    for (uint32_t bit = 0; strcmp(slot->name, "connect") != 0 && bit < 32; bit++) {
        uint32_t flags = UINT32_C(1) << bit;

        if (slot->flags & flags)
            continue;
        slot->fill(scene, at);
        memcpy(at + 4, &flags, 4);
        expect(slot, "flag bit", bit, slot->call(scene, at), -EINVAL);
    }
}

static void structs(struct pair *pair)
{
    struct scene scene = {.end = pair->end[0], .job = pair->job + 100, .value = 5};
    struct nigh_query_stats before;
    uint8_t at[512];

    CHECK_INT(nigh->heap_alloc(scene.end->context, 4096, &scene.heap), 0);
    for (uint32_t i = 0; i < SLOTS; i++) {
        memset(at, 0, sizeof(at));
        sizes_of(&slots[i], &scene, at);
        before = pair_stats(scene.end);
        bytes_of(&slots[i], &scene, at);
        CHECK_INT(pair_stats(scene.end).sent, before.sent);
        CHECK_INT(pair_stats(scene.end).put + pair_stats(scene.end).get + pair_stats(scene.end).atomic,
                  before.put + before.get + before.atomic);
    }
}

static const struct pair_case cases[] = {
    {.name = "structs", .play = structs, .forms = PAIR_SELF, .how = PAIR_LOOSE},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
