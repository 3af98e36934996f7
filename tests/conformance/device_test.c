/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions in a CUDA device's memory, of every kind: peers put, get and add to it, though no CPU may touch it; what may not be
 * registered, and what a driver's failure fails. The owner is a process of its own, with the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOTH  (NIGH_REMOTE_READ | NIGH_REMOTE_WRITE)
#define EVENT 41

enum { ROOM = (6 << 20) + 4096, KINDS = MEMORY_HOST + 1 };

static const struct nigh_ops *nigh;
static uint8_t *memory;
static char told[1024]; /* the last line of the log */

static void keep(void *data, int level, const char *text)
{
    (void)data, (void)level;
    snprintf(told, sizeof(told), "%s", text);
}

static int enter(struct pair_end *owner, void *buffer, uint64_t bytes, uint32_t flags, uint64_t *key,
                 struct nigh_region **region)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = flags | NIGH_REGISTER_DEVICE,
                                 .buffer = buffer,
                                 .bytes = bytes,
                                 .context = flags & NIGH_REGISTER_EVENTS ? EVENT : 0};

    return nigh->register_memory(owner->context, &what, key, region);
}

/* The second side's, filled; `shared` has the key. */
static struct nigh_region *offer(struct pair *pair, enum cuda_memory kind, uint32_t flags)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    if (owner) {
        device_load();
        memory = cuda->alloc(kind, cuda->device(), ROOM);
        CHECK(memory);
        cuda->put(memory, data_filled(ROOM, 1), ROOM);
        CHECK_INT(enter(owner, memory, ROOM, flags, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    return region;
}

static void withdraw(struct pair *pair, struct nigh_region *region)
{
    pair_meet();
    if (!pair->end[1])
        return;
    CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    cuda->free(memory);
}

static int move(struct pair *pair, enum nigh_op op, uint64_t offset, void *local, uint64_t bytes)
{
    struct pair_end *end = pair->end[0];
    struct nigh_rma rma = {.size = sizeof(rma),
                           .buffer = local,
                           .bytes = bytes,
                           .offset = offset,
                           .key = pair->shared[0],
                           .context = 31};

    CHECK_INT(op == NIGH_OP_PUT ? nigh->post_put(end->peer, &rma) : nigh->post_get(end->peer, &rma), 0);
    return pair_await(end, op, 31).status;
}

static int add(struct pair *pair, uint64_t operand, uint64_t *before)
{
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &operand,
                                 .result = before,
                                 .key = pair->shared[0],
                                 .offset = 64,
                                 .context = 35};

    CHECK_INT(nigh->post_atomic(pair->end[0]->peer, &atomic), 0);
    return pair_await(pair->end[0], NIGH_OP_ATOMIC, 35).status;
}

static void there_and_back(struct pair *pair, enum cuda_memory kind)
{
    static const uint64_t sizes[] = {1, 8, 1000, 4097, 65537, 1 << 20, 5 << 20};
    struct nigh_region *region = offer(pair, kind, BOTH);
    uint64_t before = 0, first = 0;

    for (uint32_t i = 0; pair->end[0] && i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint8_t *to = data_room(sizes[i]);

        CHECK_INT(move(pair, NIGH_OP_GET, 5, to, sizes[i]), 0);
        data_check(to, sizes[i], 1, 5);
        CHECK_INT(move(pair, NIGH_OP_PUT, ROOM - sizes[i], data_filled(sizes[i], i + 2), sizes[i]), 0);
        CHECK_INT(move(pair, NIGH_OP_GET, ROOM - sizes[i], to, sizes[i]), 0);
        data_check(to, sizes[i], i + 2, 0);
        to = data_room(ROOM);
        data_fill(to, ROOM, 1);
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, to, ROOM), 0);
    }
    if (pair->end[0]) {
        CHECK_INT(move(pair, NIGH_OP_GET, 64, &first, sizeof(first)), 0);
        CHECK_INT(add(pair, 7, &before), 0);
        CHECK_INT(before, first);
        CHECK_INT(move(pair, NIGH_OP_GET, 64, &before, sizeof(before)), 0);
        CHECK_INT(before, first + 7);
        CHECK_INT(move(pair, NIGH_OP_GET, ROOM - 63, data_room(64), 64), -ERANGE);
    }
    pair_meet();
    if (pair->end[1]) { /* the owner's own look, by its driver */
        uint64_t now = 0;

        cuda->get(&now, memory + 64, sizeof(now));
        cuda->get(&first, memory + 8, sizeof(first));
        CHECK(!memcmp(&first, data_filled(16, 1) + 8, 8));
        memcpy(&first, data_filled(72, 1) + 64, 8);
        CHECK_INT(now, first + 7);
    }
    withdraw(pair, region);
}

static void kind_of(struct pair *pair)
{
    there_and_back(pair, (enum cuda_memory)pair->of->number);
}

/* The thread's lines are nobody's until it says so: another context was closed last. */
static void lines_are_nobodys(struct pair *pair)
{
    struct nigh_open options = {.size = sizeof(options), .job = pair->job + 1, .ranks = 1};
    struct nigh_context *context;

    CHECK_INT(nigh->open(&options, &context), 0);
    CHECK_INT(nigh->close(context), 0);
}

/* A copy of the driver's that fails fails the peer's operation, and is told to the log of the region's context; the next one goes
 * well. */
static void driver_fails(struct pair *pair)
{
    struct nigh_region *region = offer(pair, MEMORY_PLAIN, BOTH | NIGH_REGISTER_EVENTS);
    uint8_t *local = data_filled(1 << 20, 3);

    for (int get = 0; get < 2; get++) {
        pair_meet();
        if (pair->end[1])
            cuda->fail_once(get ? "cuMemcpyDtoHAsync_v2" : "cuMemcpyHtoDAsync_v2", 0);
        pair_meet();
        if (pair->end[0]) {
            CHECK_INT(move(pair, get ? NIGH_OP_GET : NIGH_OP_PUT, 0, local, 1 << 20), -EIO);
            pair->shared[1]++;
        } else {
            lines_are_nobodys(pair);
            while (pair->shared[1] <= (uint64_t)get) /* wait() would say whose they are */
                CHECK_INT(nigh->poll_completions(pair->end[1]->context, NULL, 0), 0);
        }
        pair_meet();
        if (pair->end[1]) {
            CHECK(strstr(told, get ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync") &&
                  strstr(told, "CUDA_ERROR_FAKE"));
            told[0] = '\0';
        }
    }
    if (pair->end[0])
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, data_filled(1 << 20, 9), 1 << 20), 0);
    if (pair->end[1])
        CHECK_INT(pair_await(pair->end[1], NIGH_OP_REMOTE_PUT, EVENT).bytes, 1 << 20);
    withdraw(pair, region);
}

/* Until the other side has said so. This one moves nothing meanwhile. */
static void await(struct pair *pair, unsigned word, uint64_t value)
{
    for (unsigned i = 0; pair->shared[word] < value; i++) {
        CHECK(i < 100000);
        usleep(100);
    }
}

static unsigned copies(int get)
{
    return cuda->calls(get ? "cuMemcpyDtoHAsync_v2" : "cuMemcpyHtoDAsync_v2");
}

/* A region cannot be withdrawn while a put to it comes together, nor while an answer to a get goes. The peer posts and then stands
 * still until the owner has looked, so neither ends before. */
static void in_use(struct pair *pair)
{
    struct nigh_region *region = offer(pair, MEMORY_PLAIN, BOTH);
    struct pair_end *owner = pair->end[1], *peer = pair->end[0];
    uint8_t *local = data_filled(ROOM, 7), *to = data_room(ROOM);

    pair_state(peer ? peer : owner,
               NIGH_READY); /* else what is posted goes not before the peer looks again */
    pair_meet();
    for (uint64_t get = 0; get < 2; get++) {
        struct nigh_rma rma = {.size = sizeof(rma),
                               .buffer = get ? to : local,
                               .bytes = ROOM,
                               .key = pair->shared[0],
                               .context = 31};

        if (peer) {
            CHECK_INT(get ? nigh->post_get(peer->peer, &rma) : nigh->post_put(peer->peer, &rma), 0);
            pair->shared[1] = get + 1;
            await(pair, 2, get + 1);
            CHECK_INT(pair_await(peer, get ? NIGH_OP_GET : NIGH_OP_PUT, 31).status, 0);
        } else {
            unsigned before = copies((int)get);

            await(pair, 1, get + 1);
            for (unsigned i = 0; i < 200 && copies((int)get) == before; i++)
                pair_pump_ms(1);
            CHECK_INT(nigh->deregister(owner->context, region), -EBUSY);
            pair->shared[2] = get + 1;
        }
        pair_meet();
    }
    if (peer)
        data_check(to, ROOM, 7, 0);
    withdraw(pair, region);
}

/* A context that the host destroys takes its memory with it. */
static void context_gone(struct pair *pair)
{
    struct nigh_region *region = offer(pair, MEMORY_PLAIN, BOTH);

    if (pair->end[1])
        cuda->destroy_context(cuda->device());
    pair_meet();
    if (pair->end[0])
        CHECK_INT(move(pair, NIGH_OP_GET, 0, data_room(4096), 4096), -EIO);
    pair_meet();
    if (pair->end[1])
        cuda->create_context(cuda->device());
    withdraw(pair, region);
}

static void refused(struct pair *pair)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_copies copies = {.size = sizeof(copies)};
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = BOTH | NIGH_REGISTER_DEVICE | NIGH_REGISTER_COPIES,
                                 .buffer = data_room(64),
                                 .bytes = 64,
                                 .copies = &copies};
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    if (owner) {
        device_load();
        memory = cuda->alloc(MEMORY_PLAIN, cuda->device(), ROOM);
        CHECK_INT(enter(owner, memory, (uint64_t)1 << 40, BOTH, &key, &region), -EFAULT); /* past its end */
        CHECK_INT(nigh->register_memory(owner->context, &what, &key, &region), -EINVAL);
        CHECK_INT(enter(owner, NULL, UINT64_MAX, BOTH, &key, &region), -EINVAL);
        CHECK(!region && !key);
        cuda->free(memory);
    }
    pair_meet();
}

/* A driver that is there and does not start may have made device memory before; one without devices has not. */
static void broken(struct pair *pair)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    if (owner) {
        device_load();
        cuda->set_broken(true);
        CHECK_INT(enter(owner, data_room(64), 64, BOTH, &key, &region), -ENOTSUP);
        CHECK(!region);
        cuda->set_broken(false);
        cuda->set_devices(0);
        CHECK_INT(enter(owner, data_room(64), 64, BOTH, &key, &region), 0);
        CHECK_INT(nigh->deregister(owner->context, region), 0);
        cuda->set_devices(-1);
        memory = cuda->alloc(MEMORY_PLAIN, cuda->device(), ROOM);
        CHECK_INT(enter(owner, memory, ROOM, BOTH, &key, &region), 0); /* it was looked at again */
        CHECK_INT(nigh->deregister(owner->context, region), 0);
        cuda->free(memory);
    }
    pair_meet();
}

/* A key that is registered already, and two regions that are left to close(). */
static void kept(struct pair *pair)
{
    struct pair_end *owner = pair->end[1];
    struct nigh_region *region = offer(pair, MEMORY_MAPPED, BOTH), *second = NULL;

    if (owner) {
        uint64_t key = NIGH_KEY_CHOSEN | 7;

        CHECK_INT(enter(owner, memory, 4096, BOTH | NIGH_REGISTER_KEY, &key, &second), 0);
        CHECK_INT(enter(owner, memory, 4096, BOTH | NIGH_REGISTER_KEY, &key, &region), -EEXIST);
    }
    if (pair->end[0])
        CHECK_INT(move(pair, NIGH_OP_PUT, 0, data_filled(100, 2), 100), 0);
    pair_meet();
}

static void off(struct pair *pair)
{
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    setenv("NIGH_CUDA", "off", 1);
    pair_open(pair->end[0]);
    unsetenv("NIGH_CUDA");
    CHECK_INT(enter(pair->end[0], data_room(64), 64, BOTH, &key, &region), -ENOTSUP);
    pair_close(pair->end[0]);
}

/* Where no driver is, all memory is the host's. */
static void no_driver(struct pair *pair)
{
    struct nigh_region *region = NULL;
    uint64_t key = 0;
    uint8_t *room = data_filled(64, 5), *to = data_room(64);

    CHECK_INT(enter(pair->end[1], room, 64, BOTH, &key, &region), 0);
    pair->shared[0] = key;
    CHECK_INT(move(pair, NIGH_OP_GET, 0, to, 64), 0);
    data_check(to, 64, 5, 0);
    CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
}

static const struct pair_case cases[] = {
    {.name = "cuMemAlloc", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_PLAIN},
    {.name = "cuMemMap", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_MAPPED},
    {.name = "pieces", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_PIECES},
    {.name = "a pool", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_POOL},
    {.name = "managed", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_MANAGED},
    {.name = "the host's", .play = kind_of, .forms = PAIR_FORK, .number = MEMORY_HOST},
    {.name = "the driver fails", .play = driver_fails, .forms = PAIR_FORK, .options = {.log = keep}},
    {.name = "in use", .play = in_use, .forms = PAIR_FORK},
    {.name = "its context is gone", .play = context_gone, .forms = PAIR_FORK},
    {.name = "refused", .play = refused, .forms = PAIR_FORK},
    {.name = "a broken driver", .play = broken, .forms = PAIR_FORK},
    {.name = "kept", .play = kept, .forms = PAIR_FORK},
    {.name = "no driver", .play = no_driver, .forms = PAIR_SELF},
    {.name = "NIGH_CUDA=off", .play = off, .forms = PAIR_SELF, .how = PAIR_MANUAL},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
