/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages from device memory that the receiver's device copies by itself: which kinds go so, what is brought once and what again,
 * what happens where it cannot be, and when either side takes it back. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 1 << 20, BEHIND = 4096, ROUNDS = 60 };

static const struct nigh_ops *nigh;
static char told[4096];

static void keep(void *user, int level, const char *line)
{
    (void)user;
    (void)level;
    strncat(told, line, sizeof(told) - strlen(told) - 1);
}

/* The receiver says which devices it uses when it first posts there. */
static void begin(struct pair *pair, struct buffer *from, struct buffer *to)
{
    struct buffer any;

    for (uint32_t i = 0; i < 2 && pair->of->how & PAIR_MANUAL; i++)
        if (pair->end[i]) {
            setenv("NIGH_CUDA", "require", 1);
            pair_open(pair->end[i]);
            pair_connect(pair->end[i]);
        }
    device_ready(pair);
    if (pair->end[1]) {
        *to = buffer_make(pair, RECEIVER, ROOM + BEHIND);
        any = buffer_make(pair, RECEIVER, 64);
        device_say(pair, &any);
        buffer_drop(&any);
    }
    if (pair->end[0])
        *from = buffer_make(pair, SENDER, ROOM);
    pair_meet();
}

static void end(struct pair *pair, struct buffer *from, struct buffer *to)
{
    device_end(pair, from, to);
    for (uint32_t i = 0; i < 2 && pair->of->how & PAIR_MANUAL; i++)
        if (pair->end[i])
            pair_close(pair->end[i]);
}

/* One message of seed `seed`, expected. */
static void one(struct pair *pair, struct buffer *from, struct buffer *to, uint64_t bytes, uint64_t seed)
{
    if (pair->end[1]) {
        buffer_fill(to, bytes + BEHIND, 77);
        buffer_recv(pair, to, bytes, seed, 2);
    }
    pair_meet();
    if (pair->end[0]) {
        buffer_fill(from, bytes, seed);
        buffer_send(pair, from, bytes, seed, 0, 1);
    }
    if (pair->end[1]) {
        pair_received(pair->end[1], 2, bytes);
        buffer_check(to, 0, bytes, seed);
        buffer_check(to, bytes, BEHIND, 77);
    }
    if (pair->end[0])
        pair_sent(pair->end[0], 1, bytes);
}

static bool is_managed(const struct pair *pair)
{
    return pair->of->number >> 8 == MEMORY_MANAGED;
}

/* The pool that the driver begins with is not to be exported. */
static bool is_direct(const struct pair *pair)
{
    return !is_managed(pair) && pair->of->number >> 8 != MEMORY_POOL;
}

/* All lengths beyond those that are sent before they are matched. */
static void goes(struct pair *pair)
{
    static const uint64_t lengths[] = {8, 65536, 65537, 300001, ROOM};
    uint64_t before = 0, direct = 0;
    struct buffer from, to;

    begin(pair, &from, &to);
    if (pair->end[0])
        before = pair_stats(pair->end[0]).device_sent;
    for (uint32_t i = 0; i < 5; i++) {
        one(pair, &from, &to, lengths[i], 10 + i);
        direct += lengths[i] > 65536 && is_direct(pair);
    }
    if (pair->end[0])
        CHECK_INT(pair_stats(pair->end[0]).device_sent - before, direct);
    end(pair, &from, &to);
}

/* What the peer has been brought is found there. */
static void brought_once(struct pair *pair)
{
    unsigned calls = 0;
    struct buffer from, to;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 4; i++) {
        one(pair, &from, &to, ROOM, 10 + i);
        if (pair->end[0] && i == 0)
            calls = cuda->calls("cuMemExportToShareableHandle");
    }
    if (pair->end[0])
        CHECK_INT(cuda->calls("cuMemExportToShareableHandle"), calls);
    if (pair->end[1])
        CHECK_INT(cuda->calls("cuMemImportFromShareableHandle"),
                  pair->of->number >> 8 == MEMORY_MAPPED ? 1 : 0);
    end(pair, &from, &to);
}

static unsigned descriptors(void)
{
    DIR *directory = opendir("/proc/self/fd");
    unsigned count = 0;

    CHECK(directory);
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

/* Memory that is freed and allocated anew, mostly at the same address, is never read as it was, and nothing grows. */
static void anew(struct pair *pair)
{
    unsigned before = 0;
    struct buffer from, to;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < ROUNDS; i++) {
        one(pair, &from, &to, 100000, 1000 + i);
        pair_meet();
        if (pair->end[0]) {
            buffer_drop(&from);
            from = buffer_make(pair, SENDER, ROOM);
        }
        if (i == ROUNDS / 2)
            before = descriptors();
    }
    pair_meet();
    CHECK(descriptors() <= before + 40); /* what is kept is bounded: 64 mappings */
    /* Of cuMemAlloc()'s some wait for the close of what was mapped before, and are staged meanwhile. */
    if (pair->end[0])
        CHECK(pair_stats(pair->end[0]).device_sent > ROUNDS / 2);
    end(pair, &from, &to);
}

/* Its place is in the host's memory: the sender is asked for it. */
static void to_the_host(struct pair *pair)
{
    struct buffer from, to, room;

    begin(pair, &from, &to);
    if (pair->end[1])
        room = (struct buffer){.at = data_room(ROOM + BEHIND), .bytes = ROOM + BEHIND};
    for (uint32_t i = 0; i < 3; i++)
        one(pair, &from, i == 1 ? &to : &room, ROOM, 20 + i);
    if (pair->end[0]) {
        CHECK_INT(pair_stats(pair->end[0]).device_sent, 1);
        CHECK_INT(pair_stats(pair->end[0]).chunked_sent, 2);
    }
    end(pair, &from, &to);
}

/* It waits with its sender until it is received, whether that was probed for or not. */
static void late(struct pair *pair)
{
    struct nigh_completion found;
    struct nigh_message *message = NULL;
    struct buffer from, to;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 3; i++) {
        if (pair->end[0]) {
            buffer_fill(&from, ROOM, 30 + i);
            buffer_send(pair, &from, ROOM, 30 + i, 0, 1);
        }
        if (pair->end[1])
            pair_unexpected(pair->end[1], 1);
        pair_meet();
        if (pair->end[0])
            CHECK_INT(pair_left(pair->end[0]), 0);
        pair_meet();
        if (pair->end[1] && i == 1) {
            struct nigh_recv recv = pair_a_recv(to.at, ROOM, 31, 2);

            recv.flags = NIGH_DEVICE;
            CHECK_INT(nigh->probe(pair->end[1]->context, NULL, 31, 0, 0, &found, &message), 0);
            CHECK_INT(found.bytes, ROOM);
            CHECK_INT(nigh->claim(pair->end[1]->context, message, &recv), 0);
        } else if (pair->end[1]) {
            buffer_recv(pair, &to, ROOM, 30 + i, 2);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 2, ROOM);
            buffer_check(&to, 0, ROOM, 30 + i);
        }
        if (pair->end[0])
            pair_sent(pair->end[0], 1, ROOM);
    }
    end(pair, &from, &to);
}

static void cut(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    if (pair->end[1]) {
        buffer_fill(&to, ROOM + BEHIND, 77);
        buffer_recv(pair, &to, 70000, 1, 2);
    }
    pair_meet();
    if (pair->end[0]) {
        buffer_fill(&from, ROOM, 3);
        buffer_send(pair, &from, ROOM, 1, 0, 1);
    }
    if (pair->end[1]) {
        struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 2);

        CHECK_INT(done.status, -EMSGSIZE);
        CHECK_INT(done.bytes, ROOM);
        buffer_check(&to, 0, 70000, 3);
        buffer_check(&to, 70000, BEHIND, 77);
    }
    if (pair->end[0])
        pair_sent(pair->end[0], 1, ROOM);
    end(pair, &from, &to);
}

/* A receive that is cancelled is written to no more, and its sender goes on. */
static void cancelled(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    for (uint32_t i = 1; i < 8; i++) {
        if (pair->end[1])
            buffer_recv(pair, &to, ROOM, i, 2);
        pair_meet();
        if (pair->end[0]) {
            buffer_fill(&from, ROOM, i);
            buffer_send(pair, &from, ROOM, i, 0, 1);
            pair_pump_ms(10);
        }
        pair_meet();
        if (pair->end[1]) {
            int rc, status;

            pair_pump_ms(2 * i);
            rc = nigh->cancel(pair->end[1]->context, 2);
            status = pair_await(pair->end[1], NIGH_OP_RECV, 2).status;
            CHECK(!status || (!rc && status == -ECANCELED));
            buffer_fill(&to, ROOM, 9);
            pair_pump_ms(15);
            buffer_check(&to, 0, ROOM, 9);
            buffer_recv(pair, &to, ROOM, 100 + i, 3);
        }
        pair_meet();
        if (pair->end[0]) {
            pair_sent(pair->end[0], 1, ROOM);
            buffer_send(pair, &from, ROOM, 100 + i, 0, 4);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 3, ROOM);
            buffer_check(&to, 0, ROOM, i);
        }
        if (pair->end[0])
            pair_sent(pair->end[0], 4, ROOM);
        pair_meet();
    }
    end(pair, &from, &to);
}

/* The sender ends in the middle of copies: they end, and the device is as usable as before. */
static void sender_dies(struct pair *pair)
{
    struct pair_end *sender = pair->end[1];

    setenv("NIGH_FAKE_CUDA_DELAY_US", "4000", 1);
    pair_state(pair->end[0] ? pair->end[0] : sender, NIGH_READY);
    if (pair->end[0]) {
        struct buffer to = buffer_make(pair, RECEIVER, ROOM);
        struct nigh_recv recv = pair_a_recv(to.at, ROOM, 0, 0);

        recv.flags = NIGH_DEVICE;
        for (uint64_t i = 0; i < 8; i++) {
            recv.tag = recv.context = i;
            CHECK_INT(nigh->post_recv(pair->end[0]->context, pair->end[0]->peer, &recv), 0);
        }
        pair_meet();
        for (uint64_t i = 0; i < 8; i++) {
            int status = pair_await(pair->end[0], NIGH_OP_RECV, i).status;

            CHECK(status == -ECONNRESET || !status);
        }
        buffer_fill(&to, ROOM, 3);
        buffer_check(&to, 0, ROOM, 3);
        buffer_drop(&to);
    }
    if (sender) {
        struct buffer from;
        struct nigh_send send;

        device_load();
        from = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&from, ROOM, 1);
        pair_meet();
        send = pair_a_send(from.at, ROOM, 0, 0);
        send.flags = NIGH_DEVICE;
        for (uint64_t i = 0; i < 8; i++) {
            send.tag = send.context = i;
            CHECK_INT(nigh->post_send(sender->peer, &send), 0);
        }
        for (uint32_t i = 0; i < 40; i++)
            pair_pump();
        kill(getpid(), SIGKILL);
    }
}

/* A region's memory is closed by the peer before deregister() returns, where the driver wants that. */
static void deregistered(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from, to;
    uint64_t key = 0;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 3; i++) {
        if (pair->end[0]) {
            struct nigh_register what = {
                .size = sizeof(what), .flags = NIGH_REGISTER_DEVICE, .buffer = from.at, .bytes = ROOM};

            CHECK_INT(nigh->register_memory(pair->end[0]->context, &what, &key, &region), 0);
            buffer_fill(&from, ROOM, i);
        }
        if (pair->end[1])
            buffer_recv(pair, &to, ROOM, i, 2);
        pair_meet();
        if (pair->end[0]) {
            struct nigh_send send = pair_a_send(from.at, ROOM, i, 1);

            send.flags = NIGH_DEVICE;
            send.region = region;
            CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), 0);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 2, ROOM);
            buffer_check(&to, 0, ROOM, i);
            while (cuda->calls("cuIpcCloseMemHandle") == i)
                pair_pump();
            pair->shared[0] = i + 1;
        }
        if (pair->end[0]) {
            pair_sent(pair->end[0], 1, ROOM);
            CHECK_INT(nigh->deregister(pair->end[0]->context, region), 0);
            CHECK(pair->shared[0] >= i); /* the last one's is behind its answer */
        }
        pair_meet();
    }
    if (pair->end[0]) {
        CHECK_INT(pair_stats(pair->end[0]).device_sent, 3);
        CHECK(!told[0]);
    }
    end(pair, &from, &to);
}

/* A peer that makes no progress is waited for a second, and no longer. */
static void deregistered_in_vain(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from, to;
    uint64_t key = 0;

    begin(pair, &from, &to);
    if (pair->end[0]) {
        struct nigh_register what = {
            .size = sizeof(what), .flags = NIGH_REGISTER_DEVICE, .buffer = from.at, .bytes = ROOM};

        CHECK_INT(nigh->register_memory(pair->end[0]->context, &what, &key, &region), 0);
        buffer_fill(&from, ROOM, 1);
    }
    if (pair->end[1])
        buffer_recv(pair, &to, ROOM, 1, 2);
    pair_meet();
    if (pair->end[0]) {
        struct nigh_send send = pair_a_send(from.at, ROOM, 1, 1);

        send.flags = NIGH_DEVICE;
        send.region = region;
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), 0);
    }
    if (pair->end[1])
        pair_received(pair->end[1], 2, ROOM);
    if (pair->end[0]) {
        pair_sent(pair->end[0], 1, ROOM);
        CHECK_INT(nigh->deregister(pair->end[0]->context, region), 0);
        CHECK(strstr(told, "has not closed device memory of ours that is deregistered"));
        pair->shared[0] = 1;
    }
    while (pair->end[1] && !pair->shared[0])
        usleep(1000);
    end(pair, &from, &to);
}

static int reach(struct pair *pair, enum nigh_op op, const struct buffer *local, uint64_t bytes, uint64_t key)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .flags = NIGH_DEVICE,
                           .buffer = local->at,
                           .bytes = bytes,
                           .key = key,
                           .context = 31};
    const struct pair_end *end = pair->end[0];

    CHECK_INT(op == NIGH_OP_PUT ? nigh->post_put(end->peer, &rma) : nigh->post_get(end->peer, &rma), 0);
    return pair_await(pair->end[0], op, 31).status;
}

/* Puts and gets from device to device: no byte of long ones passes the host. A key that is none, and a range, are refused as ever. */
static void remote(struct pair *pair)
{
    struct nigh_region *region = NULL;
    struct buffer from, to;
    uint64_t key = 0;
    unsigned down;

    begin(pair, &from, &to);
    if (pair->end[1]) {
        struct nigh_register what = {.size = sizeof(what),
                                     .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE |
                                              NIGH_REGISTER_EVENTS,
                                     .buffer = to.at,
                                     .bytes = ROOM,
                                     .context = 41};

        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    down = cuda->calls("cuMemcpyDtoHAsync_v2");
    if (pair->end[0] && pair->of->how & PAIR_MANUAL) { /* NIGH_CUDA=require: short ones, too */
        buffer_fill(&from, 8, 5);
        CHECK_INT(reach(pair, NIGH_OP_PUT, &from, 8, pair->shared[0]), 0);
        buffer_fill(&from, 8, 99);
        CHECK_INT(reach(pair, NIGH_OP_GET, &from, 8, pair->shared[0]), 0);
        buffer_check(&from, 0, 8, 5);
    }
    if (pair->end[0]) {
        for (uint64_t i = 0; i < 3; i++) {
            buffer_fill(&from, ROOM, 10 + i);
            CHECK_INT(reach(pair, NIGH_OP_PUT, &from, ROOM, pair->shared[0]), 0);
            buffer_fill(&from, ROOM, 99);
            CHECK_INT(reach(pair, NIGH_OP_GET, &from, ROOM, pair->shared[0]), 0);
            buffer_check(&from, 0, ROOM, 10 + i);
        }
        CHECK_INT(reach(pair, NIGH_OP_PUT, &from, ROOM, 12345), -EACCES);
        CHECK_INT(reach(pair, NIGH_OP_GET, &from, ROOM, 12345), -EACCES);
        CHECK_INT(cuda->calls("cuMemcpyDtoHAsync_v2"), down);
    }
    for (uint32_t i = 0; i < 3 && pair->end[1]; i++) {
        while (pair_next(pair->end[1], NIGH_OP_REMOTE_PUT).bytes == 8)
            ;
        while (pair_next(pair->end[1], NIGH_OP_REMOTE_GET).bytes == 8)
            ;
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(cuda->calls("cuMemcpyDtoHAsync_v2"), down);
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_check(&to, 0, ROOM, 12);
    }
    end(pair, &from, &to);
}

/* The receiver's driver does not map it: that is staged, now and later. */
static void not_mapped(struct pair *pair)
{
    struct buffer from, to;

    begin(pair, &from, &to);
    for (uint32_t i = 0; i < 3; i++) {
        if (pair->end[1] && i == 0)
            cuda->fail_once(pair->of->number >> 8 == MEMORY_MAPPED ? "cuMemImportFromShareableHandle"
                                                                   : "cuIpcOpenMemHandle_v2",
                            0);
        one(pair, &from, &to, ROOM, 40 + i);
    }
    if (pair->end[0])
        CHECK(pair_stats(pair->end[0]).chunked_sent > 0);
    end(pair, &from, &to);
}

/* Nothing is staged, or it is refused, with the reason. */
static void required(struct pair *pair)
{
    struct buffer from, to;
    struct nigh_send send;

    begin(pair, &from, &to);
    if (pair->end[0] && is_managed(pair)) {
        send = pair_a_send(from.at, ROOM, 1, 1);
        send.flags = NIGH_DEVICE;
        CHECK_INT(nigh->post_send(pair->end[0]->peer, &send), -ENOTSUP);
        CHECK(strstr(told, "post_send: NIGH_CUDA=require: memory of CUDA device 1 is staged"));
        CHECK(strstr(told, "managed memory"));
    }
    if (!is_managed(pair)) {
        one(pair, &from, &to, 8, 1);
        one(pair, &from, &to, ROOM, 2);
    }
    end(pair, &from, &to);
}

#define FRESH    .forms = PAIR_FORK, .how = PAIR_FRESH
#define OF(kind) .number = SENDER | RECEIVER | KIND(kind)
#define LOGGED   .options = {.log = keep}
#define DELAYED  .data = "4000"
static const struct pair_case cases[] = {
    {.name = "cuMemAlloc", .play = goes, .forms = PAIR_APART, .how = PAIR_FRESH, OF(MEMORY_PLAIN)},
    {.name = "cuMemMap", .play = goes, FRESH, OF(MEMORY_MAPPED)},
    {.name = "pieces", .play = goes, FRESH, OF(MEMORY_PIECES)},
    {.name = "a pool", .play = goes, FRESH, OF(MEMORY_POOL)},
    {.name = "managed", .play = goes, FRESH, OF(MEMORY_MANAGED)},
    {.name = "brought once, cuMemMap", .play = brought_once, FRESH, OF(MEMORY_MAPPED)},
    {.name = "brought once, cuMemAlloc", .play = brought_once, FRESH, OF(MEMORY_PLAIN)},
    {.name = "anew, cuMemMap", .play = anew, FRESH, OF(MEMORY_MAPPED)},
    {.name = "anew, cuMemAlloc", .play = anew, FRESH, OF(MEMORY_PLAIN)},
    {.name = "to the host", .play = to_the_host, FRESH, OF(MEMORY_MAPPED)},
    {.name = "late", .play = late, .forms = PAIR_APART, .how = PAIR_FRESH, OF(MEMORY_MAPPED)},
    {.name = "cut", .play = cut, FRESH, OF(MEMORY_MAPPED)},
    {.name = "cancelled", .play = cancelled, FRESH | PAIR_LOOSE, OF(MEMORY_MAPPED), DELAYED},
    {.name = "the sender dies", .play = sender_dies, FRESH | PAIR_DEATH | PAIR_LOOSE, OF(MEMORY_MAPPED)},
    {.name = "deregistered", .play = deregistered, FRESH, OF(MEMORY_PLAIN), LOGGED},
    {.name = "deregistered in vain", .play = deregistered_in_vain, FRESH, OF(MEMORY_PLAIN), LOGGED},
    {.name = "put and get, cuMemMap", .play = remote, FRESH, OF(MEMORY_MAPPED)},
    {.name = "put and get, cuMemAlloc", .play = remote, FRESH, OF(MEMORY_PLAIN)},
    {.name = "put and get, NIGH_CUDA=require",
     .play = remote,
     FRESH | PAIR_MANUAL | PAIR_LOOSE,
     OF(MEMORY_MAPPED),
     LOGGED},
    {.name = "not mapped, cuMemMap", .play = not_mapped, FRESH, OF(MEMORY_MAPPED)},
    {.name = "not mapped, cuMemAlloc", .play = not_mapped, FRESH, OF(MEMORY_PLAIN)},
    {.name = "NIGH_CUDA=require, cuMemMap", .play = required, FRESH | PAIR_MANUAL, OF(MEMORY_MAPPED), LOGGED},
    {.name = "NIGH_CUDA=require, managed", .play = required, FRESH | PAIR_MANUAL, OF(MEMORY_MANAGED), LOGGED},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
