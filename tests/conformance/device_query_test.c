/* SPDX-License-Identifier: BSD-3-Clause */
/* What a context says of CUDA devices and of the ways between two processes', on the fake driver and without one; and
 * NIGH_CUDA=require, by which nothing is staged. */
#include "tests/support/cuda/control.h"
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include "tests/support/test_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL  (1u << NIGH_DEVICE_VMM | 1u << NIGH_DEVICE_POOL | 1u << NIGH_DEVICE_LEGACY)
#define BOTH (NIGH_REMOTE_READ | NIGH_REMOTE_WRITE)

enum { ROWS = 64, ROOM = 1 << 20 };

static const struct nigh_ops *nigh;
static const struct test_cuda *cuda;
static const struct fake_cuda *fake;
static struct nigh_query_device devices[ROWS];
static struct nigh_query_device_path paths[ROWS];
static char told[1024]; /* the last line of the log */

static void keep(void *data, int level, const char *text)
{
    (void)data, (void)level;
    snprintf(told, sizeof(told), "%s", text);
}

static void load(void)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char path[4096];
    void *object;

    snprintf(path, sizeof(path), "%s/tests/support/.libs/libcuda.so.1", build ? build : ".");
    object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    cuda = object ? dlsym(object, TEST_CUDA_SYMBOL) : NULL;
    fake = object ? dlsym(object, FAKE_CUDA_SYMBOL) : NULL;
    CHECK(cuda && fake);
}

static bool is_loaded(void)
{
    return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD) != NULL;
}

/* How many rows the answer has. */
static uint64_t ask_devices(struct pair_end *end)
{
    uint64_t bytes = sizeof(devices);

    CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICES, devices, &bytes), 0);
    CHECK_INT(bytes % sizeof(devices[0]), 0);
    return bytes / sizeof(devices[0]);
}

static uint64_t ask_paths(struct pair_end *end)
{
    uint64_t bytes = sizeof(paths);

    CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_DEVICE_PATHS, paths, &bytes), 0);
    CHECK_INT(bytes % sizeof(paths[0]), 0);
    return bytes / sizeof(paths[0]);
}

/* ---- without devices ----------------------------------------------------------------------------------- */

static void no_driver(struct pair *pair)
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_state(pair->end[i], NIGH_READY);
            CHECK_INT(ask_devices(pair->end[i]), 0);
            CHECK_INT(ask_paths(pair->end[i]), 0);
            CHECK(!is_loaded());
        }
    pair_meet();
}

/* Nor where the driver is there and is not to be used. */
static void off(struct pair *pair)
{
    struct pair_end *end = pair->end[0];

    setenv("NIGH_CUDA", "off", 1);
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
            pair_state(pair->end[i], NIGH_READY);
        }
    if (end) {
        load();
        CHECK_INT(ask_devices(end), 0);
        CHECK_INT(ask_paths(end), 0);
        CHECK_INT(cuda->calls(NULL), 0);
    }
    pair_meet();
}

/* The thread's lines are nobody's afterwards. */
static void other_context(const struct pair *pair)
{
    struct nigh_open options = {.size = sizeof(options), .job = pair->job + 1, .ranks = 1};
    struct nigh_context *context;

    CHECK_INT(nigh->open(&options, &context), 0);
    CHECK_INT(nigh->close(context), 0);
}

static void broken(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint64_t bytes = sizeof(devices);

    if (end) {
        load();
        pair_state(end, NIGH_READY);
        cuda->set_broken(true);
        CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICES, devices, &bytes), -ENOTSUP);
        CHECK(strstr(told, "NIGH_QUERY_DEVICES: the CUDA driver does not start: CUDA_ERROR_FAKE (700)"));
        CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_DEVICE_PATHS, paths, &bytes), -ENOTSUP);
        CHECK_INT(bytes, sizeof(devices));
        cuda->set_broken(false);
        cuda->set_devices(0);
        CHECK_INT(ask_devices(end), 0);
        cuda->set_devices(-1);
        fake->refuse("cuDeviceGetUuid", 999);
        cuda->fail_once("cuDeviceGetUuid_v2", 0);
        other_context(pair);
        CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICES, devices, &bytes), -EIO);
        CHECK(strstr(told, "cuDeviceGetUuid fails: CUDA_ERROR_UNKNOWN (999)"));
        fake->refuse("cuDeviceGetUuid", 0);
        cuda->fail_once("cuDeviceGetUuid_v2", 0); /* the older call is there for that */
        CHECK_INT(ask_devices(end), 2);
    }
    pair_meet();
}

/* ---- devices ------------------------------------------------------------------------------------------- */

static void each_device(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    uint8_t part[sizeof(devices[0]) + 40];
    uint64_t bytes = sizeof(part);

    if (end) {
        load();
        CHECK_INT(ask_devices(end), 2);
        for (uint32_t i = 0; i < 2; i++) {
            CHECK_INT(devices[i].size, sizeof(devices[i]));
            CHECK_INT(devices[i].number, i);
            CHECK_INT(devices[i].uuid[0], 0x10 + i);
            CHECK_INT(devices[i].uuid[15], 0x10 + 15 * 7);
            CHECK_INT(devices[i].memory_bytes, (uint64_t)16 << 30);
            CHECK(!strcmp(devices[i].bus, i ? "0000:11:00.0" : "0000:10:00.0"));
            CHECK(!strcmp(devices[i].name, "NIGH Fake GPU"));
            CHECK_INT(devices[i].offered, pair->of->number ? ALL & ~(1u << NIGH_DEVICE_VMM) : ALL);
            CHECK_INT(devices[i].worked, 0);
            CHECK_INT(devices[i].flags, pair->of->number ? NIGH_DEVICE_MPS : 0);
            CHECK(!devices[i].reason && !devices[i].text[0]);
        }
        memset(part, 0xa5, sizeof(part));
        CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICES, part, &bytes), 0);
        CHECK_INT(bytes, sizeof(part));
        CHECK(!memcmp(part, devices, sizeof(part)));
        bytes = 3;
        CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICES, part, &bytes), -ENOSPC);
        bytes = sizeof(paths);
        CHECK_INT(nigh->query(end->context, NULL, NIGH_QUERY_DEVICE_PATHS, paths, &bytes), -EINVAL);
        CHECK_INT(cuda->calls("cuDevicePrimaryCtxRetain"), 0); /* contexts cost device memory */
    }
    pair_meet();
}

static void other_attributes(struct pair *pair)
{
    setenv("NIGH_FAKE_CUDA_ATTRIBUTES", "103=0,133=1", 1);
    each_device(pair);
    unsetenv("NIGH_FAKE_CUDA_ATTRIBUTES");
}

/* A driver that lacks the names of devices has devices. */
static void nameless(struct pair *pair)
{
    struct pair_end *end = pair->end[0];

    if (end) {
        load();
        fake->refuse("cuDeviceGetName", 999);
        fake->refuse("cuDeviceGetPCIBusId", 999);
        fake->refuse("cuDeviceTotalMem_v2", 999);
        CHECK_INT(ask_devices(end), 2);
        CHECK(!devices[0].name[0] && !devices[0].bus[0] && !devices[0].memory_bytes);
        CHECK_INT(devices[1].uuid[0], 0x11);
    }
    pair_meet();
}

/* ---- ways ---------------------------------------------------------------------------------------------- */

static const struct nigh_query_device_path *row(uint32_t from, uint32_t to, enum nigh_device_memory memory,
                                                uint64_t count)
{
    for (uint64_t i = 0; i < count; i++)
        if (paths[i].from == from && paths[i].to == to && paths[i].memory == memory)
            return &paths[i];
    pair_fail(__FILE__, __LINE__, "no row from %u to %u of memory %d", from, to, (int)memory);
}

static void staged(const struct nigh_query_device_path *is, enum nigh_device_reason why, const char *text)
{
    CHECK_INT(is->size, sizeof(*is));
    CHECK_INT(is->way, NIGH_DEVICE_STAGED);
    CHECK(!strcmp(is->path, "staged"));
    CHECK_INT(is->reason, why);
    CHECK(strstr(is->text, text));
}

static void direct(const struct nigh_query_device_path *is, enum nigh_device_way way, const char *name)
{
    CHECK_INT(is->way, way);
    CHECK_INT(is->reason, NIGH_DEVICE_WHY_NONE);
    CHECK(!strcmp(is->path, name));
}

/* From nothing known of the peer to both of its devices. The second side sees them the other way round. */
static void each_way(struct pair *pair)
{
    struct pair_end *first = pair->end[0], *second = pair->end[1];
    uint64_t count;

    if (second)
        setenv("CUDA_VISIBLE_DEVICES", "1,0", 1);
    load();
    if (first) {
        pair_state(first, NIGH_READY);
        count = ask_paths(first);
        CHECK_INT(count, 8);
        for (uint32_t from = 0; from < 2; from++) {
            staged(row(from, NIGH_DEVICE_NONE, NIGH_DEVICE_MAPPED, count), NIGH_DEVICE_WHY_PEER_SILENT,
                   "the peer has not used");
            staged(row(from, NIGH_DEVICE_NONE, NIGH_DEVICE_MANAGED, count), NIGH_DEVICE_WHY_MANAGED,
                   "managed");
            CHECK_INT(row(from, NIGH_DEVICE_NONE, NIGH_DEVICE_PLAIN, count)->to_uuid[0], 0);
        }
    }
    pair_meet();
    if (second)
        CHECK_INT(ask_devices(second), 2);
    pair_meet();
    if (first) {
        fake->set_peers(0, 1, false);
        count = ask_paths(first);
        CHECK_INT(count, 16);
        for (enum nigh_device_memory memory = NIGH_DEVICE_PLAIN; memory < NIGH_DEVICE_MANAGED; memory++) {
            CHECK_INT(row(0, 0, memory, count)->to_uuid[0], 0x11); /* as the peer counts */
            CHECK_INT(row(0, 1, memory, count)->to_uuid[0], 0x10);
            staged(row(0, 0, memory, count), NIGH_DEVICE_WHY_NO_PEER_ACCESS, "cannot access each other");
        }
        for (uint32_t from = 0; from < 2; from++) {
            direct(row(from, !from, NIGH_DEVICE_PLAIN, count), NIGH_DEVICE_LEGACY, "cuda-legacy");
            direct(row(from, !from, NIGH_DEVICE_MAPPED, count), NIGH_DEVICE_VMM, "cuda-vmm");
            direct(row(from, !from, NIGH_DEVICE_POOLED, count), NIGH_DEVICE_POOL, "cuda-pool");
        }
        fake->set_peers(0, 1, true);
        count = ask_paths(first);
        direct(row(0, 0, NIGH_DEVICE_PLAIN, count), NIGH_DEVICE_LEGACY, "cuda-legacy");
        staged(row(0, 0, NIGH_DEVICE_MANAGED, count), NIGH_DEVICE_WHY_MANAGED, "managed");
    }
    pair_meet();
    if (second)
        unsetenv("CUDA_VISIBLE_DEVICES");
}

static void instances(struct pair *pair)
{
    struct pair_end *first = pair->end[0], *second = pair->end[1];
    uint64_t count;

    setenv("NIGH_FAKE_CUDA_MIG", "1", 1);
    load();
    if (second)
        CHECK_INT(ask_devices(second), 2);
    pair_meet();
    if (first) {
        CHECK_INT(ask_devices(first), 2);
        pair_state(first, NIGH_READY);
        CHECK(devices[1].flags & NIGH_DEVICE_MIG && devices[1].uuid[0] == 0x11);
        count = ask_paths(first);
        staged(row(0, 1, NIGH_DEVICE_MAPPED, count), NIGH_DEVICE_WHY_MIG, "MIG");
        direct(row(1, 1, NIGH_DEVICE_MAPPED, count), NIGH_DEVICE_VMM, "cuda-vmm");
    }
    pair_meet();
    unsetenv("NIGH_FAKE_CUDA_MIG");
}

/* Memory that the driver's attributes keep to one process. */
static void not_exported(struct pair *pair)
{
    struct pair_end *first = pair->end[0];
    uint64_t count;

    if (first) {
        setenv("NIGH_FAKE_CUDA_ATTRIBUTES", "103=0", 1);
        load();
        pair_state(first, NIGH_READY);
        count = ask_paths(first);
        staged(row(0, NIGH_DEVICE_NONE, NIGH_DEVICE_MAPPED, count), NIGH_DEVICE_WHY_EXPORT_REFUSED,
               "refuses to export");
        staged(row(0, NIGH_DEVICE_NONE, NIGH_DEVICE_POOLED, count), NIGH_DEVICE_WHY_PEER_SILENT, "the peer");
        unsetenv("NIGH_FAKE_CUDA_ATTRIBUTES");
    }
    pair_meet();
}

/* Whoever is asked before the peers have met. */
static void not_yet(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = NIGH_SOURCE_NONE};
    uint64_t bytes = sizeof(paths);

    if (end) {
        load();
        pair_open(end);
        CHECK_INT(nigh->connect(end->context, &to, &end->peer), 0);
        CHECK_INT(nigh->query(end->context, end->peer, NIGH_QUERY_DEVICE_PATHS, paths, &bytes), -EAGAIN);
        pair_close(end);
    }
}

/* ---- NIGH_CUDA=require --------------------------------------------------------------------------------- */

static int move(struct pair *pair, enum nigh_op op, void *local, uint64_t key)
{
    struct pair_end *end = pair->end[0];
    struct nigh_rma rma = {.size = sizeof(rma), .buffer = local, .bytes = 4096, .key = key, .context = 31};

    CHECK_INT(op == NIGH_OP_PUT ? nigh->post_put(end->peer, &rma) : nigh->post_get(end->peer, &rma), 0);
    return pair_await(end, op, 31).status;
}

static int add(struct pair *pair, uint64_t key)
{
    uint64_t operand = 1;
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &operand,
                                 .key = key,
                                 .context = 35};

    CHECK_INT(nigh->post_atomic(pair->end[0]->peer, &atomic), 0);
    return pair_await(pair->end[0], NIGH_OP_ATOMIC, 35).status;
}

/* Posts with a buffer on the device: what would be staged is refused before anything is sent. A receive may be of what is not. */
static void posts(struct pair_end *end, void *memory, struct nigh_region *region)
{
    struct nigh_send send = {.size = sizeof(send), .flags = NIGH_DEVICE, .buffer = memory, .bytes = 4096};
    struct nigh_recv recv = {.size = sizeof(recv),
                             .flags = NIGH_DEVICE,
                             .buffer = memory,
                             .bytes = 4096,
                             .tag = 99,
                             .context = 51};
    struct nigh_rma rma = {.size = sizeof(rma), .flags = NIGH_DEVICE, .buffer = memory, .bytes = 4096};
    uint8_t bytes[8];

    for (int i = 0; i < 2; i++) {
        send.region = recv.region = rma.region = i ? region : NULL;
        told[0] = '\0';
        CHECK_INT(nigh->post_send(end->peer, &send), -ENOTSUP);
        CHECK(strstr(
            told, "post_send: NIGH_CUDA=require: memory of CUDA device 1 is staged through the host for rank "
                  "0: the peer has not used a CUDA device yet"));
        CHECK_INT(nigh->post_recv(end->context, end->peer, &recv), 0);
        CHECK_INT(nigh->cancel(end->context, 51), 0);
        CHECK_INT(pair_await(end, NIGH_OP_RECV, 51).status, -ECANCELED);
        CHECK_INT(nigh->post_put(end->peer, &rma), -ENOTSUP);
        CHECK_INT(nigh->post_get(end->peer, &rma), -ENOTSUP);
        CHECK(strstr(told, "post_get: NIGH_CUDA=require: memory of CUDA device 1 is staged through the host "
                           "for rank 0: the peer has not"));
        CHECK_INT(nigh->copy_device(end->context, i ? region : NULL, memory, bytes, 8, NIGH_COPY_OUT), 0);
    }
    told[0] = '\0';
}

/* Nothing of the region is touched, and nobody is told that it was. The host's own memory is as ever. */
static void required(struct pair *pair)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_register what = {.size = sizeof(what), .bytes = ROOM, .context = 41};
    struct nigh_region *region[2] = {NULL, NULL};
    uint8_t *memory = NULL, *host = owner ? data_room(ROOM) : NULL, seen[64];
    uint64_t key = 0;

    if (owner) {
        setenv("NIGH_CUDA", pair->of->number ? "require" : "auto", 1);
        load();
        memory = cuda->alloc(MEMORY_PLAIN, cuda->device(), ROOM);
        cuda->put(memory, data_filled(ROOM, 1), ROOM);
    }
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i]) {
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
            pair_state(pair->end[i], NIGH_READY);
        }
    if (owner) {
        unsetenv("NIGH_CUDA");
        what.flags = BOTH | NIGH_REGISTER_DEVICE | NIGH_REGISTER_EVENTS;
        what.buffer = memory;
        CHECK_INT(nigh->register_memory(owner->context, &what, &key, &region[0]), 0);
        pair->shared[0] = key;
        what.buffer = host;
        CHECK_INT(nigh->register_memory(owner->context, &what, &key, &region[1]), 0);
        pair->shared[1] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        int expected = pair->of->number ? -ENOTSUP : 0;

        CHECK_INT(move(pair, NIGH_OP_PUT, data_filled(4096, 9), pair->shared[0]), expected);
        CHECK_INT(move(pair, NIGH_OP_GET, data_room(4096), pair->shared[0]), expected);
        CHECK_INT(add(pair, pair->shared[0]), expected);
        CHECK_INT(move(pair, NIGH_OP_PUT, data_filled(4096, 9), pair->shared[1]), 0);
    }
    pair_meet();
    if (owner && pair->of->number) {
        CHECK(strstr(told, "NIGH_CUDA=require: what rank 0 asks of memory of CUDA device 1 is staged"));
        CHECK(strstr(told, "host: puts, gets and atomics are staged where the other side is not on a device; "
                           "NIGH_CUDA=auto"));
        cuda->get(seen, memory, sizeof(seen));
        data_check(seen, sizeof(seen), 1, 0);
        CHECK_INT(pair_await(owner, NIGH_OP_REMOTE_PUT, 41).bytes, 4096); /* the host's memory's */
        pair_pump();
        CHECK_INT(pair_left(owner), 0);
    } else if (owner) {
        CHECK(!told[0]);
    }
    if (owner && pair->of->number)
        posts(owner, memory, region[0]);
    for (unsigned i = 0; owner && i < 2; i++)
        CHECK_INT(nigh->deregister(owner->context, region[i]), 0);
    pair_meet();
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
    if (owner)
        cuda->free(memory);
}

#define FRESH  .forms = PAIR_FORK, .how = PAIR_FRESH
#define LOGGED .options = {.log = keep}
static const struct pair_case cases[] = {
    {.name = "no driver", .play = no_driver, .forms = PAIR_ALL},
    {.name = "NIGH_CUDA=off", .play = off, FRESH | PAIR_MANUAL, LOGGED},
    {.name = "a broken driver", .play = broken, FRESH, LOGGED},
    {.name = "devices", .play = each_device, FRESH},
    {.name = "other devices", .play = other_attributes, FRESH, .number = 1},
    {.name = "without names", .play = nameless, FRESH},
    {.name = "ways", .play = each_way, FRESH},
    {.name = "instances", .play = instances, FRESH},
    {.name = "not exported", .play = not_exported, FRESH},
    {.name = "not yet", .play = not_yet, FRESH | PAIR_MANUAL | PAIR_LOOSE},
    {.name = "NIGH_CUDA=require", .play = required, FRESH | PAIR_MANUAL | PAIR_LOOSE, .number = 1, LOGGED},
    {.name = "NIGH_CUDA=auto", .play = required, FRESH | PAIR_MANUAL | PAIR_LOOSE, LOGGED},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
