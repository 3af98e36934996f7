/* SPDX-License-Identifier: BSD-3-Clause */
/* Puts and gets between device buffers of two processes, which the side that has the place copies: where NIGH_CUDA=require refuses
 * them and where it does not, when either side goes in the middle, and when a region may be deregistered. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* of a case's number: the initiator, the target has NIGH_CUDA=require */
#define INITIATOR_REQUIRES 16u
#define TARGET_REQUIRES    32u
/* the initiator's device is at work when it first posts */
#define HELD 64u

enum { ROOM = 1 << 20, PART = 70000, REGIONS = 80, ROUNDS = 4, BEHIND = 100, FEW = 8 };

static const struct nigh_ops *nigh;
static char told[8192];

static void keep(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    strncat(told, line, sizeof(told) - strlen(told) - 1);
}

static bool requires(const struct pair *pair, unsigned side)
{
    return pair->of->number & (side ? TARGET_REQUIRES : INITIATOR_REQUIRES);
}

/* Says which devices it uses. */
static void use_device(struct pair *pair, unsigned side)
{
    struct buffer any = buffer_make(pair, SENDER, 64);

    CHECK_INT(nigh->copy_device(pair->end[side]->context, NULL, any.at, data_room(8), 8, NIGH_COPY_OUT), 0);
    buffer_drop(&any);
}

/* Connected, and both have said which devices they use, but for the initiator where the case holds its device. */
static void begin(struct pair *pair)
{
    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i]) {
            if (pair->of->how & PAIR_MANUAL) {
                setenv("NIGH_CUDA", requires(pair, i) ? "require" : "auto", 1);
                pair_open(pair->end[i]);
                pair_connect(pair->end[i]);
            }
            pair_state(pair->end[i], NIGH_READY);
            if (pair->of->data && pair->form == PAIR_FORK) /* not beside another thread */
                setenv("NIGH_FAKE_CUDA_DELAY_US", pair->of->data, 1);
            if (i || !(pair->of->number & HELD))
                use_device(pair, i);
        }
    pair_meet();
}

static void end(struct pair *pair)
{
    pair_meet();
    for (uint32_t i = 0; i < 2 && pair->of->how & PAIR_MANUAL; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
}

static struct nigh_region *region_of(struct pair *pair, unsigned side, const struct buffer *buffer,
                                     uint64_t *key)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                 .buffer = buffer->at,
                                 .bytes = buffer->bytes};
    struct nigh_region *region;

    CHECK_INT(nigh->register_memory(pair->end[side]->context, &what, key, &region), 0);
    return region;
}

static int post(struct pair *pair, enum nigh_op op, const struct buffer *local, uint64_t bytes, uint64_t key,
                uint64_t context)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .flags = NIGH_DEVICE,
                           .buffer = local->at,
                           .bytes = bytes,
                           .key = key,
                           .context = context};
    struct nigh_endpoint *peer = pair->end[0]->peer;

    return op == NIGH_OP_PUT ? nigh->post_put(peer, &rma) : nigh->post_get(peer, &rma);
}

static int reach(struct pair *pair, enum nigh_op op, const struct buffer *local, uint64_t bytes, uint64_t key)
{
    CHECK_INT(post(pair, op, local, bytes, key, 31), 0);
    return pair_await(pair->end[0], op, 31).status;
}

/* ---- NIGH_CUDA=require --------------------------------------------------------------------------------- */

/* The local buffer cannot be exported, though its kind can: a put would be staged. A get has its place there alone. */
static void not_exported(struct pair *pair)
{
    struct pair_case mapped = *pair->of;
    struct pair there = *pair;
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    mapped.number = RECEIVER | KIND(MEMORY_MAPPED);
    there.of = &mapped;
    if (pair->end[1]) {
        remote = buffer_make(&there, RECEIVER, ROOM);
        buffer_fill(&remote, ROOM, 5);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        for (uint64_t bytes = 8; bytes <= ROOM; bytes *= ROOM / 8) {
            CHECK_INT(post(pair, NIGH_OP_PUT, &local, bytes, pair->shared[0], 1), -ENOTSUP);
            CHECK(strstr(told, "post_put: NIGH_CUDA=require: memory of CUDA device 1 is staged"));
            CHECK_INT(reach(pair, NIGH_OP_GET, &local, bytes, pair->shared[0]), 0);
            buffer_check(&local, 0, bytes, 5);
        }
        CHECK_INT(pair_left(pair->end[0]), 0);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        buffer_check(&remote, 0, ROOM, 5);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    end(pair);
}

/* The region is the host's: nothing of it goes to the device, or comes from there. Nothing at all is no byte too many. */
static void host_region(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        buffer_fill(&remote, ROOM, 5);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        int expected = requires(pair, 0) ? -ENOTSUP : 0;

        local = buffer_make(pair, SENDER, ROOM);
        for (uint64_t bytes = 8; bytes <= ROOM; bytes *= ROOM / 8) {
            buffer_fill(&local, ROOM, 9);
            CHECK_INT(reach(pair, NIGH_OP_GET, &local, bytes, pair->shared[0]), expected);
            buffer_check(&local, 0, bytes, expected ? 9 : 5);
            buffer_fill(&local, ROOM, 5);
            CHECK_INT(reach(pair, NIGH_OP_PUT, &local, bytes, pair->shared[0]), expected);
        }
        CHECK(!expected || strstr(told, "NIGH_CUDA=require"));
        CHECK_INT(reach(pair, NIGH_OP_GET, &local, 0, pair->shared[0]), 0);
        CHECK_INT(reach(pair, NIGH_OP_PUT, &local, 0, pair->shared[0]), 0);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        buffer_check(&remote, 0, ROOM, 5);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
    }
    end(pair);
}

/* Of any length, where either side has it. */
static void short_ones(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;
    unsigned down = 0;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        buffer_fill(&remote, ROOM, 5);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
        down = cuda->calls("cuMemcpyDtoHAsync_v2");
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        for (uint64_t bytes = 0; bytes <= ROOM; bytes = bytes ? bytes * (ROOM / 8) : 8) {
            CHECK_INT(reach(pair, NIGH_OP_GET, &local, bytes, pair->shared[0]), 0);
            buffer_check(&local, 0, bytes, 5);
        }
        CHECK_INT(reach(pair, NIGH_OP_PUT, &local, 0, pair->shared[0]), 0);
        CHECK(!told[0]);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(cuda->calls("cuMemcpyDtoHAsync_v2"), down);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    end(pair);
}

/* From and to more memory than a peer keeps mapped: what it has given up is brought again. */
static void many_regions(struct pair *pair)
{
    struct nigh_region *region[REGIONS];
    struct buffer at[REGIONS], place;
    uint64_t key;
    unsigned down;

    begin(pair);
    for (uint32_t i = 0; i < REGIONS; i++) {
        unsigned side = pair->end[0] ? 0 : 1;

        at[i] = buffer_make(pair, SENDER, PART);
        region[i] = region_of(pair, side, &at[i], &key);
        buffer_fill(&at[i], PART, 100 * side + i);
        if (side)
            pair->shared[1 + i % 8] = key; /* some will do to be read from, all to be written to */
        if (side && i == 0)
            pair->shared[0] = key;
    }
    down = cuda->calls("cuMemcpyDtoHAsync_v2");
    pair_meet();
    for (uint32_t round = 0; pair->end[0] && round < 2; round++)
        for (uint32_t i = 0; i < REGIONS; i++) {
            struct nigh_rma put = {.size = sizeof(put),
                                   .flags = NIGH_DEVICE,
                                   .buffer = at[i].at,
                                   .bytes = PART,
                                   .key = pair->shared[0],
                                   .context = 3,
                                   .region = region[i]};

            CHECK_INT(nigh->post_put(pair->end[0]->peer, &put), 0);
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, 3).status, 0);
        }
    if (pair->end[0]) {
        place = buffer_make(pair, SENDER, PART);
        CHECK_INT(reach(pair, NIGH_OP_GET, &place, PART, pair->shared[0]), 0);
        buffer_check(&place, 0, PART, REGIONS - 1);
        buffer_drop(&place);
    }
    pair_meet();
    CHECK_INT(cuda->calls("cuMemcpyDtoHAsync_v2"), down);
    for (uint32_t i = 0; i < REGIONS; i++) {
        CHECK_INT(nigh->deregister(pair->end[pair->end[0] ? 0 : 1]->context, region[i]), 0);
        buffer_drop(&at[i]);
    }
    end(pair);
}

/* ---- what completions promise -------------------------------------------------------------------------- */

static uint64_t add(struct pair *pair, uint64_t key)
{
    uint64_t operand = 1, before = 0;
    struct nigh_atomic atomic = {.size = sizeof(atomic),
                                 .op = NIGH_SUM,
                                 .type = NIGH_U64,
                                 .count = 1,
                                 .operand = &operand,
                                 .result = &before,
                                 .key = key,
                                 .context = 35};

    CHECK_INT(nigh->post_atomic(pair->end[0]->peer, &atomic), 0);
    CHECK_INT(pair_await(pair->end[0], NIGH_OP_ATOMIC, 35).status, 0);
    return before;
}

/* The bytes of a put are there when the target hears of it, and when the initiator does: whatever comes behind that finds them. */
static void in_order(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key, word, first;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    if (pair->end[0])
        local = buffer_make(pair, SENDER, ROOM);
    pair_meet();
    for (uint64_t i = 0; i < ROUNDS; i++) {
        memcpy(&first, data_filled(8, i), sizeof(first));
        if (pair->end[1])
            pair_recv(pair->end[1], &word, 8, i, 7);
        if (pair->end[0]) {
            struct nigh_rma put = {.size = sizeof(put),
                                   .flags = NIGH_DEVICE | NIGH_NOTIFY,
                                   .buffer = local.at,
                                   .bytes = ROOM,
                                   .key = pair->shared[0],
                                   .imm = i,
                                   .context = 3};

            buffer_fill(&local, ROOM, i);
            CHECK_INT(nigh->post_put(pair->end[0]->peer, &put), 0);
        }
        if (pair->end[1]) {
            struct nigh_completion done = pair_next(pair->end[1], NIGH_OP_REMOTE_PUT);

            CHECK_INT(done.imm, i);
            CHECK_INT(done.bytes, ROOM);
            buffer_check(&remote, 0, ROOM, i);
            buffer_fill(&remote, ROOM, 99);
        }
        pair_meet();
        if (pair->end[0]) {
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, 3).status, 0);
            CHECK_INT(reach(pair, NIGH_OP_PUT, &local, ROOM, pair->shared[0]), 0);
            pair_send(pair->end[0], &first, 8, i, 0, 4);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 7, 8);
            buffer_check(&remote, 0, ROOM, i);
        }
        pair_meet();
        if (pair->end[0]) {
            CHECK(add(pair, pair->shared[0]) == first);
            CHECK_INT(reach(pair, NIGH_OP_GET, &local, ROOM, pair->shared[0]), 0);
            cuda->get(&word, local.at, sizeof(word));
            CHECK(word == first + 1);
            buffer_check(&local, 8, ROOM - 8, i);
        }
        pair_meet();
    }
    if (pair->end[1]) {
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    if (pair->end[0])
        buffer_drop(&local);
    end(pair);
}

/* The copy of the side that has the place fails: both hear of it, the region is free, and the next one is as ever. */
static void copy_fails(struct pair *pair)
{
    struct nigh_register what = {.size = sizeof(what),
                                 .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE |
                                          NIGH_REGISTER_EVENTS,
                                 .bytes = ROOM,
                                 .context = 41};
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        what.buffer = remote.at;
        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
        cuda->fail_once("cuMemcpyDtoDAsync_v2", 0);
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&local, ROOM, 5);
        CHECK_INT(reach(pair, NIGH_OP_PUT, &local, ROOM, pair->shared[0]), -EIO);
        CHECK_INT(reach(pair, NIGH_OP_PUT, &local, ROOM, pair->shared[0]), 0);
        buffer_fill(&local, ROOM, 9);
        cuda->fail_once("cuMemcpyDtoDAsync_v2", 0);
        CHECK_INT(reach(pair, NIGH_OP_GET, &local, ROOM, pair->shared[0]), -EIO);
        CHECK_INT(reach(pair, NIGH_OP_GET, &local, ROOM, pair->shared[0]), 0);
        buffer_check(&local, 0, ROOM, 5);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        struct nigh_completion done;

        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        pair_next(pair->end[1], NIGH_OP_REMOTE_PUT);
        pair_next(pair->end[1], NIGH_OP_REMOTE_GET);
        CHECK(!pair_take(pair->end[1], NIGH_OP_REMOTE_PUT, 41, &done));
        CHECK(!pair_take(pair->end[1], NIGH_OP_REMOTE_GET, 41, &done));
        buffer_drop(&remote);
    }
    end(pair);
}

/* ---- waiting ------------------------------------------------------------------------------------------- */

/* A put waits for the host's copies, and then cannot be handed over: nothing is to wake whoever sleeps, so it goes at once. */
static void handed_over_in_vain(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    struct pollfd sleeper = {.events = POLLIN};
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&local, ROOM, 5);
        cuda->hold(cuda->device(), true);
        CHECK_INT(post(pair, NIGH_OP_PUT, &local, ROOM, pair->shared[0], 1), 0);
        cuda->fail_once("cuMemExportToShareableHandle", 0);
        while (nigh->wait_fd(pair->end[0]->context, &sleeper.fd))
            ;
        CHECK_INT(poll(&sleeper, 1, 10000), 1);
        cuda->hold(cuda->device(), false);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_PUT, 1).status, 0);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        buffer_check(&remote, 0, ROOM, 5);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    end(pair);
}

/* ---- in the middle ------------------------------------------------------------------------------------- */

static void free_region(struct pair_end *end, struct nigh_region *region)
{
    int rc;

    while ((rc = nigh->deregister(end->context, region)) == -EBUSY)
        pair_pump();
    CHECK_INT(rc, 0);
}

/* One side leaves in the middle of copies. What is the host's again nobody writes to. */
static void leaves(struct pair *pair, unsigned who, enum nigh_op op)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, FEW * PART);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, FEW * PART);
        for (uint64_t i = 0; i < FEW; i++) {
            struct buffer part = {.at = local.at + i * PART};

            CHECK_INT(post(pair, op, &part, PART, pair->shared[0], i), 0);
        }
    }
    pair_meet();
    for (uint32_t i = 0; i < 50; i++) /* the copies begin, and take longer */
        pair_pump();
    if (pair->end[who])
        pair_disconnect(pair->end[who]);
    for (uint64_t i = 0; pair->end[0] && i < FEW; i++) {
        int status = pair_await(pair->end[0], op, i).status;

        if (status)
            CHECK_INT(status, who ? -ECONNRESET : -ECANCELED);
    }
    if (pair->end[1]) {
        free_region(pair->end[1], region);
        buffer_fill(&remote, FEW * PART, 9);
        usleep(30000);
        buffer_check(&remote, 0, FEW * PART, 9);
        buffer_drop(&remote);
    }
    if (pair->end[0]) {
        buffer_fill(&local, FEW * PART, 9);
        usleep(30000);
        buffer_check(&local, 0, FEW * PART, 9);
        buffer_drop(&local);
    }
    end(pair);
}

static void put_left_by_target(struct pair *pair)
{
    leaves(pair, 1, NIGH_OP_PUT);
}

static void put_left_by_initiator(struct pair *pair)
{
    leaves(pair, 0, NIGH_OP_PUT);
}

static void get_left_by_target(struct pair *pair)
{
    leaves(pair, 1, NIGH_OP_GET);
}

static void get_left_by_initiator(struct pair *pair)
{
    leaves(pair, 0, NIGH_OP_GET);
}

/* The second process ends in the middle of copies. */
static void dies(struct pair *pair, bool initiates, enum nigh_op op)
{
    struct pair roles = *pair;
    struct nigh_region *region = NULL;
    struct buffer own;
    uint64_t key;

    if (initiates) {
        roles.end[0] = pair->end[1];
        roles.end[1] = pair->end[0];
    }
    begin(pair);
    own = buffer_make(pair, SENDER, FEW * PART);
    if (roles.end[1]) {
        region = region_of(&roles, 1, &own, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    for (uint64_t i = 0; roles.end[0] && i < FEW; i++) {
        struct buffer part = {.at = own.at + i * PART};

        CHECK_INT(post(&roles, op, &part, PART, pair->shared[0], i), 0);
    }
    pair_meet();
    for (uint32_t i = 0; i < 50; i++)
        pair_pump();
    if (pair->end[1])
        kill(getpid(), SIGKILL);
    for (uint64_t i = 0; roles.end[0] && i < FEW; i++) {
        int status = pair_await(roles.end[0], op, i).status;

        CHECK(!status || status == -ECONNRESET);
    }
    if (roles.end[1])
        pair_state(roles.end[1], NIGH_PEER_DEAD);
    if (roles.end[1])
        free_region(roles.end[1], region);
    buffer_fill(&own, FEW * PART, 9);
    usleep(30000);
    buffer_check(&own, 0, FEW * PART, 9);
    buffer_drop(&own);
}

static void put_target_dies(struct pair *pair)
{
    dies(pair, false, NIGH_OP_PUT);
}

static void put_initiator_dies(struct pair *pair)
{
    dies(pair, true, NIGH_OP_PUT);
}

static void get_target_dies(struct pair *pair)
{
    dies(pair, false, NIGH_OP_GET);
}

static void get_initiator_dies(struct pair *pair)
{
    dies(pair, true, NIGH_OP_GET);
}

/* The initiator has its bytes and says so by other ways: the region is free then, however much lies in the ring before its answer. */
static void answered_late(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer local, remote;
    uint64_t key;

    begin(pair);
    if (pair->end[1]) {
        remote = buffer_make(pair, RECEIVER, ROOM);
        buffer_fill(&remote, ROOM, 5);
        region = region_of(pair, 1, &remote, &key);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        CHECK_INT(post(pair, NIGH_OP_GET, &local, ROOM, pair->shared[0], 1), 0);
        pair->shared[1] = 1;
        while (!pair->shared[2])
            usleep(100);
        for (uint64_t i = 0; i < BEHIND; i++)
            pair_send(pair->end[0], data_filled(8, i), 8, i, NIGH_INJECT | NIGH_SILENT, 2);
        CHECK_INT(pair_await(pair->end[0], NIGH_OP_GET, 1).status, 0);
        pair->shared[3] = 1;
    }
    if (pair->end[1]) {
        while (!pair->shared[1])
            usleep(100);
        for (uint32_t i = 0; i < 100; i++) /* it answers the get */
            pair_pump();
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), -EBUSY);
        pair->shared[2] = 1;
        while (!pair->shared[3])
            usleep(100);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_drop(&remote);
    }
    if (pair->end[0]) {
        buffer_check(&local, 0, ROOM, 5);
        buffer_drop(&local);
    }
    end(pair);
}

#define FRESH    .forms = PAIR_FORK, .how = PAIR_FRESH | PAIR_MANUAL | PAIR_LOOSE, .options = {.log = keep}
#define DYING    .forms = PAIR_FORK, .how = PAIR_FRESH | PAIR_DEATH | PAIR_LOOSE
#define MAPPED   (SENDER | RECEIVER | KIND(MEMORY_MAPPED))
#define DELAYED  .data = "20000"
#define REQUIRED (INITIATOR_REQUIRES | TARGET_REQUIRES)
static const struct pair_case cases[] = {
    {.name = "not exported",
     .play = not_exported,
     FRESH,
     .number = SENDER | KIND(MEMORY_POOL) | INITIATOR_REQUIRES},
    {.name = "not exported, managed",
     .play = not_exported,
     FRESH,
     .number = SENDER | KIND(MEMORY_MANAGED) | INITIATOR_REQUIRES},
    {.name = "the host's region",
     .play = host_region,
     FRESH,
     .number = SENDER | KIND(MEMORY_MAPPED) | INITIATOR_REQUIRES},
    {.name = "the host's region, auto", .play = host_region, FRESH, .number = SENDER | KIND(MEMORY_MAPPED)},
    {.name = "short, the initiator requires",
     .play = short_ones,
     FRESH,
     .number = MAPPED | INITIATOR_REQUIRES},
    {.name = "short, the target requires", .play = short_ones, FRESH, .number = MAPPED | TARGET_REQUIRES},
    {.name = "many regions", .play = many_regions, FRESH, .number = MAPPED | REQUIRED},
    {.name = "in order, cuMemMap",
     .play = in_order,
     .forms = PAIR_ALL,
     .how = PAIR_FRESH | PAIR_LOOSE,
     .number = MAPPED,
     .data = "2000"},
    {.name = "in order, cuMemAlloc",
     .play = in_order,
     .forms = PAIR_ALL,
     .how = PAIR_FRESH | PAIR_LOOSE,
     .number = SENDER | RECEIVER | KIND(MEMORY_PLAIN),
     .data = "2000"},
    {.name = "a copy fails", .play = copy_fails, FRESH, .number = MAPPED},
    {.name = "handed over in vain",
     .play = handed_over_in_vain,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH | PAIR_MANUAL | PAIR_LOOSE,
     .number = MAPPED | HELD,
     .options = {.flags = NIGH_OPEN_WAIT_FD, .log = keep}},
    {.name = "the target leaves a put", .play = put_left_by_target, FRESH, .number = MAPPED, DELAYED},
    {.name = "the initiator leaves a put", .play = put_left_by_initiator, FRESH, .number = MAPPED, DELAYED},
    {.name = "the target leaves a get", .play = get_left_by_target, FRESH, .number = MAPPED, DELAYED},
    {.name = "the initiator leaves a get", .play = get_left_by_initiator, FRESH, .number = MAPPED, DELAYED},
    {.name = "the target of a put dies", .play = put_target_dies, DYING, .number = MAPPED, DELAYED},
    {.name = "the initiator of a put dies", .play = put_initiator_dies, DYING, .number = MAPPED, DELAYED},
    {.name = "the target of a get dies", .play = get_target_dies, DYING, .number = MAPPED, DELAYED},
    {.name = "the initiator of a get dies", .play = get_initiator_dies, DYING, .number = MAPPED, DELAYED},
    {.name = "answered late", .play = answered_late, FRESH, .number = MAPPED},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
