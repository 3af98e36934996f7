/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages, puts and gets whose buffers lie on a CUDA device, on either side or on both: every kind of memory, every length, matched
 * early and late; what is refused; what a driver's failure, a cancel and a death leave behind. On the fake driver. */
#include "tests/support/data.h"
#include "tests/support/device_buffer.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

enum { ROOM = (6 << 20) + 4096, BEHIND = 4096, MANY = 24 };

static const struct nigh_ops *nigh;

/* An emulator does all of it in minutes: there every third length. */
static bool is_skipped(uint32_t i)
{
    return i % 3 && getenv("NIGH_TEST_BRIEF");
}

static const uint64_t sizes[] = {0, 1, 8, 63, 1000, 4097, 16384, 65537, 524288, 524289, 1 << 20, 5 << 20};

enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };

/* `late`: the receive comes behind the message. */
static void carry(struct pair *pair, bool late, uint32_t flags)
{
    struct buffer from = {0}, to = {0};

    if (pair->end[0])
        from = buffer_make(pair, SENDER, ROOM);
    if (pair->end[1])
        to = buffer_make(pair, RECEIVER, ROOM);
    for (uint32_t i = 0; i < SIZES; i++) {
        uint64_t bytes = sizes[i];

        if (is_skipped(i))
            continue;

        if (flags & NIGH_INJECT && bytes > NIGH_INJECT_BYTES)
            break;
        if (pair->end[1]) {
            buffer_fill(&to, bytes + BEHIND, 77);
            if (!late)
                buffer_recv(pair, &to, bytes ? bytes : 1, i, 2);
        }
        pair_meet();
        if (pair->end[0]) {
            buffer_fill(&from, bytes ? bytes : 1, i + 3);
            buffer_send(pair, &from, bytes, i, flags, 1);
            if (flags & NIGH_INJECT)
                buffer_fill(&from, NIGH_INJECT_BYTES, 99);
        }
        if (pair->end[1] && late) {
            pair_unexpected(pair->end[1], 1);
            buffer_recv(pair, &to, bytes ? bytes : 1, i, 2);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 2, bytes);
            buffer_check(&to, 0, bytes, i + 3);
            buffer_check(&to, bytes, BEHIND, 77);
        }
        if (pair->end[0])
            pair_sent(pair->end[0], 1, bytes);
        pair_meet();
    }
    if (pair->end[0])
        buffer_drop(&from);
    if (pair->end[1])
        buffer_drop(&to);
}

static void expected(struct pair *pair)
{
    carry(pair, false, 0);
}

static void unexpected(struct pair *pair)
{
    carry(pair, true, 0);
}

static void synchronous(struct pair *pair)
{
    carry(pair, true, NIGH_SYNC);
}

static void injected(struct pair *pair)
{
    carry(pair, false, NIGH_INJECT);
}

/* More at once than there are blocks, of which none is matched but the last, and so on: none waits for another. */
static void many(struct pair *pair)
{
    struct buffer from[MANY] = {0}, to[MANY] = {0};

    for (uint32_t i = 0; i < MANY; i++) {
        uint64_t bytes = sizes[SIZES - 1 - i % 5];

        if (pair->end[0]) {
            from[i] = buffer_make(pair, SENDER, bytes);
            buffer_fill(&from[i], bytes, i);
            buffer_send(pair, &from[i], bytes, i, 0, i);
        }
    }
    for (uint32_t i = MANY; i-- > 0;) {
        uint64_t bytes = sizes[SIZES - 1 - i % 5];

        if (!pair->end[1])
            continue;
        to[i] = buffer_make(pair, RECEIVER, bytes);
        buffer_recv(pair, &to[i], bytes, i, 100 + i);
        pair_received(pair->end[1], 100 + i, bytes);
        buffer_check(&to[i], 0, bytes, i);
        buffer_drop(&to[i]);
    }
    for (uint32_t i = 0; i < MANY && pair->end[0]; i++) {
        pair_sent(pair->end[0], i, sizes[SIZES - 1 - i % 5]);
        buffer_drop(&from[i]);
    }
}

/* Messages of the host's between those of the device: one tag, so the order shows. */
static void in_order(struct pair *pair)
{
    struct buffer from = {0}, to = {0};

    if (pair->end[0]) {
        from = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&from, ROOM, 5);
    }
    if (pair->end[1])
        to = buffer_make(pair, RECEIVER, ROOM);
    for (uint32_t i = 0; i < 60; i++) {
        uint64_t bytes = sizes[1 + i * 7 % (SIZES - 3)];

        if (pair->end[0] && i % 3)
            pair_send(pair->end[0], data_filled(bytes, i), bytes, 9, 0, i);
        else if (pair->end[0])
            buffer_send(pair, &from, bytes, 9, 0, i);
    }
    for (uint32_t i = 0; i < 60; i++) {
        uint64_t bytes = sizes[1 + i * 7 % (SIZES - 3)];
        uint8_t *room = data_room(bytes);

        if (pair->end[1] && i % 3) {
            pair_recv(pair->end[1], room, bytes, 9, 100 + i);
            pair_received(pair->end[1], 100 + i, bytes);
            data_check(room, bytes, i, 0);
        } else if (pair->end[1]) {
            buffer_recv(pair, &to, bytes, 9, 100 + i);
            pair_received(pair->end[1], 100 + i, bytes);
            buffer_check(&to, 0, bytes, 5);
        }
    }
    for (uint32_t i = 0; i < 60 && pair->end[0]; i++)
        pair_sent(pair->end[0], i, sizes[1 + i * 7 % (SIZES - 3)]);
    if (pair->end[0])
        buffer_drop(&from);
    if (pair->end[1])
        buffer_drop(&to);
}

/* Too long: what fits has been written, nothing beyond. */
static void cut(struct pair *pair)
{
    static const uint64_t lengths[] = {100, 5000, 70000, 3 << 20};
    struct buffer from = {0}, to = {0};

    for (uint32_t i = 0; i < 4; i++) {
        uint64_t bytes = lengths[i];

        if (pair->end[1]) {
            to = buffer_make(pair, RECEIVER, ROOM);
            buffer_fill(&to, ROOM, 77);
            buffer_recv(pair, &to, bytes / 2, 1, 2);
        }
        pair_meet();
        if (pair->end[0]) {
            from = buffer_make(pair, SENDER, bytes);
            buffer_fill(&from, bytes, 3);
            buffer_send(pair, &from, bytes, 1, 0, 1);
        }
        if (pair->end[1]) {
            struct nigh_completion done = pair_await(pair->end[1], NIGH_OP_RECV, 2);

            CHECK_INT(done.status, -EMSGSIZE);
            CHECK_INT(done.bytes, bytes);
            CHECK(done.flags & NIGH_DONE_CUT && (uintptr_t)done.data == bytes / 2);
            buffer_check(&to, 0, bytes / 2, 3);
            buffer_check(&to, bytes / 2, ROOM - bytes / 2, 77);
            buffer_drop(&to);
        }
        if (pair->end[0]) {
            pair_sent(pair->end[0], 1, bytes);
            buffer_drop(&from);
        }
        pair_meet();
    }
}

/* The memory of the other side's lends, heap blocks and private pages, for a device. */
static void from_heap(struct pair *pair)
{
    static const uint64_t lengths[] = {5000, 200000, 3 << 20};
    struct buffer to = {0};
    void *block = NULL;

    for (uint32_t i = 0; i < 6; i++) {
        uint64_t bytes = lengths[i / 2];

        if (pair->end[1]) {
            to = buffer_make(pair, RECEIVER, ROOM);
            buffer_recv(pair, &to, bytes, 1, 2);
        }
        pair_meet();
        if (pair->end[0]) {
            struct nigh_lend lend = {.size = sizeof(lend), .bytes = bytes, .tag = 1, .context = 1};

            CHECK_INT(nigh->heap_alloc(pair->end[0]->context, bytes, &block), 0);
            data_fill(block, bytes, 4);
            lend.buffer = block;
            if (i % 2)
                CHECK_INT(nigh->post_lend(pair->end[0]->peer, &lend), 0);
            else
                pair_send(pair->end[0], block, bytes, 1, 0, 1);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 2, bytes);
            buffer_check(&to, 0, bytes, 4);
            buffer_drop(&to);
        }
        if (pair->end[0]) {
            CHECK_INT(pair_await(pair->end[0], i % 2 ? NIGH_OP_LEND : NIGH_OP_SEND, 1).status, 0);
            CHECK_INT(nigh->heap_free(pair->end[0]->context, block), 0);
        }
        pair_meet();
    }
}

static int move(struct pair *pair, enum nigh_op op, uint8_t *local, uint64_t offset, uint64_t bytes,
                uint64_t context)
{
    struct nigh_rma rma = {.size = sizeof(rma),
                           .flags = NIGH_DEVICE,
                           .buffer = local,
                           .bytes = bytes,
                           .offset = offset,
                           .key = pair->shared[0],
                           .context = context};
    struct pair_end *end = pair->end[0];

    return op == NIGH_OP_GET ? nigh->post_get(end->peer, &rma) : nigh->post_put(end->peer, &rma);
}

static void move_all(struct pair *pair, enum nigh_op op, const struct buffer *local, uint64_t bytes)
{
    CHECK_INT(move(pair, op, local->at, 0, bytes, 7), 0);
    CHECK_INT(pair_await(pair->end[0], op, 7).status, 0);
}

/* Many at once, more than there are blocks. */
static void move_many(struct pair *pair, enum nigh_op op, const struct buffer *local)
{
    uint64_t some = ROOM / MANY / 64 * 64;

    for (uint64_t i = 0; i < MANY; i++)
        CHECK_INT(move(pair, op, local->at + i * some, i * some, some, i), 0);
    for (uint64_t i = 0; i < MANY; i++)
        CHECK_INT(pair_await(pair->end[0], op, i).status, 0);
}

static void put_and_get(struct pair *pair, struct buffer *local)
{
    for (uint32_t i = 1; i < SIZES; i++) {
        if (is_skipped(i))
            continue;
        buffer_fill(local, sizes[i] + BEHIND, 77);
        move_all(pair, NIGH_OP_GET, local, sizes[i]);
        buffer_check(local, 0, sizes[i], 1);
        buffer_check(local, sizes[i], BEHIND, 77);
        buffer_fill(local, sizes[i], i + 2);
        move_all(pair, NIGH_OP_PUT, local, sizes[i]);
        buffer_fill(local, sizes[i], 88);
        move_all(pair, NIGH_OP_GET, local, sizes[i]);
        buffer_check(local, 0, sizes[i], i + 2);
        buffer_fill(local, ROOM, 1);
        move_all(pair, NIGH_OP_PUT, local, ROOM);
    }
    buffer_fill(local, ROOM, 66);
    move_many(pair, NIGH_OP_PUT, local);
    buffer_fill(local, ROOM, 55);
    move_many(pair, NIGH_OP_GET, local);
    buffer_check(local, 0, ROOM / MANY / 64 * 64 * MANY, 66);
}

/* The buffer of the side that puts and gets, and the region of the other one. */
static void remote(struct pair *pair)
{
    struct buffer local = {0}, far = {0};
    struct nigh_region *region = NULL;

    if (pair->end[1]) {
        struct nigh_register what = {.size = sizeof(what),
                                     .flags = NIGH_REMOTE_READ | NIGH_REMOTE_WRITE | NIGH_REGISTER_DEVICE,
                                     .bytes = ROOM};
        uint64_t key = 0;

        far = buffer_make(pair, RECEIVER, ROOM);
        buffer_fill(&far, ROOM, 1);
        what.buffer = far.at;
        CHECK_INT(nigh->register_memory(pair->end[1]->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[0]) {
        local = buffer_make(pair, SENDER, ROOM);
        put_and_get(pair, &local);
        buffer_drop(&local);
    }
    pair_meet();
    if (pair->end[1]) {
        CHECK_INT(nigh->deregister(pair->end[1]->context, region), 0);
        buffer_check(&far, 0, ROOM / MANY / 64 * 64 * MANY, 66);
        buffer_drop(&far);
    }
}

/* A region says whose memory it is, and where it ends. */
static void by_region(struct pair *pair)
{
    struct buffer from = {0}, to = {0};
    struct nigh_region *region = NULL;
    uint64_t key = 0;

    for (uint32_t side = 0; side < 2; side++) {
        struct pair_end *end = pair->end[side];
        struct buffer *buffer = side ? &to : &from;
        struct nigh_register what = {
            .size = sizeof(what), .flags = NIGH_REMOTE_READ | NIGH_REGISTER_DEVICE, .bytes = ROOM};
        unsigned asked;

        if (!end)
            continue;
        *buffer = buffer_make(pair, side ? RECEIVER : SENDER, ROOM);
        what.buffer = buffer->at;
        CHECK_INT(nigh->register_memory(end->context, &what, &key, &region), 0);
        asked = cuda->calls("cuPointerGetAttributes");
        if (side) {
            struct nigh_recv post = pair_a_recv(to.at + 4096, ROOM - 4096, 1, 2);

            post.flags = NIGH_DEVICE;
            post.region = region;
            CHECK_INT(nigh->post_recv(end->context, end->peer, &post), 0);
            post.bytes++;
            CHECK_INT(nigh->post_recv(end->context, end->peer, &post), -ERANGE);
        } else {
            struct nigh_send post = pair_a_send(from.at, 5 << 20, 1, 1);

            buffer_fill(&from, ROOM, 6);
            asked = cuda->calls("cuPointerGetAttributes");
            post.flags = NIGH_DEVICE;
            post.region = region;
            CHECK_INT(nigh->post_send(end->peer, &post), 0);
            post.buffer = from.at - 1;
            CHECK_INT(nigh->post_send(end->peer, &post), -ERANGE);
        }
        CHECK_INT(cuda->calls("cuPointerGetAttributes"), asked); /* looked up once */
    }
    if (pair->end[1]) {
        struct buffer inside = {.at = to.at + 4096, .on_device = true};

        pair_received(pair->end[1], 2, 5 << 20);
        buffer_check(&inside, 0, 5 << 20, 6);
    }
    if (pair->end[0])
        pair_sent(pair->end[0], 1, 5 << 20);
    pair_meet();
    for (uint32_t side = 0; side < 2; side++)
        if (pair->end[side]) {
            CHECK_INT(nigh->deregister(pair->end[side]->context, region), 0);
            buffer_drop(side ? &to : &from);
        }
}

/* Copies in the call, of a region that no peer may use and of memory that is looked up. */
static void copied(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_register what = {.size = sizeof(what), .flags = NIGH_REGISTER_DEVICE, .bytes = ROOM};
    struct buffer there;
    struct nigh_region *region;
    uint8_t *host = data_room(ROOM);
    uint64_t key = 0;

    if (end) {
        there = buffer_make(pair, SENDER, ROOM);
        what.buffer = there.at;
        CHECK_INT(nigh->register_memory(end->context, &what, &key, &region), 0);
        pair->shared[0] = key;
    }
    pair_meet();
    if (pair->end[1]) {
        struct nigh_rma rma = {
            .size = sizeof(rma), .buffer = host, .bytes = 8, .key = pair->shared[0], .context = 3};

        CHECK_INT(nigh->post_get(pair->end[1]->peer, &rma), 0);
        CHECK_INT(pair_await(pair->end[1], NIGH_OP_GET, 3).status, -EACCES);
    }
    pair_meet();
    for (uint32_t i = 0; end && i < 2 * SIZES; i++) {
        const struct nigh_region *by = i % 2 ? region : NULL;
        uint64_t bytes = sizes[i / 2], at = ROOM - bytes - i;

        buffer_fill(&there, ROOM, 40);
        data_fill(host, bytes, i);
        CHECK_INT(nigh->copy_device(end->context, by, there.at + at, host, bytes, NIGH_COPY_IN), 0);
        buffer_check(&there, 0, bytes ? at : ROOM, 40);
        buffer_check(&(struct buffer){.at = there.at + at, .on_device = there.on_device}, 0, bytes, i);
        buffer_fill(&there, ROOM, i + 1);
        CHECK_INT(nigh->copy_device(end->context, by, there.at, host, bytes, NIGH_COPY_OUT), 0);
        data_check(host, bytes, i + 1, 0);
    }
    if (end) {
        uint8_t *last = there.at + ROOM - 8;

        CHECK_INT(nigh->copy_device(end->context, region, last, host, 9, NIGH_COPY_IN), -ERANGE);
        if (there.on_device && pair->of->number >> 8 == MEMORY_PLAIN) {
            CHECK_INT(nigh->copy_device(end->context, NULL, last, host, 16 << 20, NIGH_COPY_OUT), -EFAULT);
            cuda->fail_once("cuMemcpyDtoHAsync_v2", 0);
            CHECK_INT(nigh->copy_device(end->context, region, there.at, host, 8, NIGH_COPY_OUT), -EIO);
            CHECK_INT(nigh->copy_device(end->context, region, there.at, host, 8, NIGH_COPY_OUT), 0);
        }
        CHECK_INT(nigh->deregister(end->context, region), 0);
        buffer_drop(&there);
    }
    pair_meet();
}

/* The driver fails on one side: both are told, the next message goes well. */
static void driver_fails(struct pair *pair)
{
    struct buffer from = {0}, to = {0};

    if (pair->end[0])
        from = buffer_make(pair, SENDER, ROOM);
    if (pair->end[1])
        to = buffer_make(pair, RECEIVER, ROOM);
    for (uint32_t i = 0; i < 2 * SIZES; i++) {
        uint64_t bytes = sizes[i / 2];
        bool late = i % 2, fails = bytes && (pair->of->number & SENDER || pair->of->number & RECEIVER);
        bool sender = pair->of->number & SENDER;

        if (is_skipped(i))
            continue;

        if (pair->end[1] && !sender)
            cuda->fail_once("cuEventRecord", 0);
        if (pair->end[1] && !late)
            buffer_recv(pair, &to, ROOM, i, 2);
        pair_meet();
        if (pair->end[0]) {
            buffer_fill(&from, i ? bytes : ROOM, 3);
            if (sender)
                cuda->fail_once("cuMemcpyDtoHAsync_v2", bytes > 1 << 20 ? 3 : 0);
            buffer_send(pair, &from, bytes, i, bytes & 1 ? NIGH_SYNC : 0, 1);
        }
        if (pair->end[1] && late) {
            pair_unexpected(pair->end[1], 1);
            buffer_recv(pair, &to, ROOM, i, 2);
        }
        if (pair->end[1])
            CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 2).status, fails ? -EIO : 0);
        if (pair->end[0])
            CHECK_INT(pair_await(pair->end[0], NIGH_OP_SEND, 1).status, fails && sender ? -EIO : 0);
        pair_meet();
        if (pair->end[1] && !sender)
            cuda->fail_once("cuEventRecord", 1u << 30);
        if (pair->end[0] && sender)
            cuda->fail_once("cuMemcpyDtoHAsync_v2", 1u << 30);
        if (pair->end[1])
            buffer_recv(pair, &to, ROOM, i, 2);
        pair_meet();
        if (pair->end[0]) {
            buffer_send(pair, &from, 2 << 20, i, 0, 1);
            pair_sent(pair->end[0], 1, 2 << 20);
        }
        if (pair->end[1]) {
            pair_received(pair->end[1], 2, 2 << 20);
            buffer_check(&to, 0, 2 << 20, 3);
        }
        pair_meet();
    }
    if (pair->end[0])
        buffer_drop(&from);
    if (pair->end[1])
        buffer_drop(&to);
}

/* A receive that is cancelled at some time: nothing is written behind its completion, and what comes next comes whole. */
static void cancelled(struct pair *pair)
{
    struct buffer from = {0}, to = {0}, second = {0};

    if (pair->end[0])
        from = buffer_make(pair, SENDER, ROOM);
    if (pair->end[1]) {
        to = buffer_make(pair, RECEIVER, ROOM);
        second = buffer_make(pair, RECEIVER, ROOM);
    }
    for (uint32_t i = 0; i < 16; i++) {
        if (is_skipped(i))
            continue;
        if (pair->end[1]) {
            buffer_fill(&to, ROOM, 8);
            buffer_recv(pair, &to, ROOM, 1, 2);
        }
        pair_meet();
        if (pair->end[0]) {
            buffer_fill(&from, ROOM, 3);
            buffer_send(pair, &from, ROOM, 1, 0, 1);
            buffer_send(pair, &from, 64, 1, 0, 2);
        }
        if (pair->end[1]) {
            struct nigh_completion done;
            int rc;

            pair_pump_ms(2 * i);
            rc = nigh->cancel(pair->end[1]->context, 2);
            done = pair_await(pair->end[1], NIGH_OP_RECV, 2);
            CHECK(!done.status || (!rc && done.status == -ECANCELED));
            if (!done.status)
                buffer_check(&to, 0, ROOM, 3);
            buffer_fill(&to, ROOM, 9);
            do {
                buffer_recv(pair, &second, ROOM, 1, 4);
                done = pair_await(pair->end[1], NIGH_OP_RECV, 4);
                CHECK_INT(done.status, 0);
                buffer_check(&second, 0, done.bytes, 3);
            } while (done.bytes > 64);
            buffer_check(&to, 0, ROOM, 9);
        }
        if (pair->end[0]) {
            pair_sent(pair->end[0], 1, ROOM);
            pair_sent(pair->end[0], 2, 64);
        }
        pair_meet();
    }
    if (pair->end[1]) {
        buffer_drop(&to);
        buffer_drop(&second);
    }
    if (pair->end[0])
        buffer_drop(&from);
}

/* A peer that dies in the middle: what was posted ends, and the device is as usable as before. */
static void death(struct pair *pair)
{
    struct buffer buffer = {0};

    pair_state(pair->end[0] ? pair->end[0] : pair->end[1], NIGH_READY);
    if (pair->end[1]) {
        struct nigh_recv post;

        if (pair->of->number & RECEIVER)
            device_load();
        buffer = buffer_make(pair, RECEIVER, ROOM);
        post = pair_a_recv(buffer.at, ROOM, 1, 2);
        post.flags = NIGH_DEVICE;
        CHECK_INT(nigh->post_recv(pair->end[1]->context, pair->end[1]->peer, &post), 0);
        pair_meet();
        for (uint32_t i = 0; i < 20; i++)
            pair_pump();
        kill(getpid(), SIGKILL);
    }
    if (pair->end[0]) {
        buffer = buffer_make(pair, SENDER, ROOM);
        buffer_fill(&buffer, ROOM, 3);
        for (uint64_t i = 0; i < 8; i++)
            buffer_send(pair, &buffer, ROOM, 1 + i, 0, i);
        pair_meet();
        for (uint64_t i = 0; i < 8; i++) {
            int status = pair_await(pair->end[0], NIGH_OP_SEND, i).status;

            CHECK(status == -ECONNRESET || (!status && !i));
        }
        buffer_check(&buffer, 0, ROOM, 3);
        buffer_drop(&buffer);
    }
}

/* Who sleeps in wait() hears of the end of a copy. */
static void waited(struct pair *pair)
{
    struct buffer from = {0}, to = {0};

    for (uint32_t i = 0; i < 20; i++) {
        uint64_t bytes = sizes[1 + i % (SIZES - 1)];
        struct nigh_completion done;

        if (pair->end[0] && !from.at)
            from = buffer_make(pair, SENDER, ROOM);
        if (pair->end[1] && !to.at)
            to = buffer_make(pair, RECEIVER, ROOM);
        if (pair->end[1])
            buffer_recv(pair, &to, ROOM, 1, 2);
        if (pair->end[0]) {
            buffer_fill(&from, ROOM, i);
            buffer_send(pair, &from, bytes, 1, NIGH_SYNC, 1);
        }
        for (uint32_t side = 0; side < 2; side++)
            while (pair->end[side] && nigh->poll_completions(pair->end[side]->context, &done, 1) == 0)
                CHECK_INT(nigh->wait(pair->end[side]->context, 20000000000), 0);
        if (pair->end[1])
            buffer_check(&to, 0, bytes, i);
        pair_meet();
    }
    if (pair->end[0])
        buffer_drop(&from);
    if (pair->end[1])
        buffer_drop(&to);
}

static void refused(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct nigh_send post = pair_a_send(NULL, 64, 1, 1);
    struct nigh_recv recv = pair_a_recv(NULL, 64, 1, 1);
    struct nigh_lend lend = {.size = sizeof(lend), .flags = NIGH_DEVICE, .bytes = 64};
    struct nigh_rma rma = {.size = sizeof(rma), .flags = NIGH_DEVICE, .bytes = 64, .key = 1};
    uint8_t *memory;

    if (!end)
        return;
    device_load();
    memory = cuda->alloc(MEMORY_PLAIN, cuda->device(), 4096);
    post.flags = NIGH_DEVICE;
    post.buffer = memory;
    post.bytes = (uint64_t)1 << 40;
    CHECK_INT(nigh->post_send(end->peer, &post), -EFAULT);
    rma.buffer = recv.buffer = memory;
    recv.bytes = rma.bytes = post.bytes;
    recv.flags = NIGH_DEVICE;
    CHECK_INT(nigh->post_recv(end->context, NULL, &recv), -EFAULT);
    CHECK_INT(nigh->post_put(end->peer, &rma), -EFAULT);
    CHECK_INT(nigh->post_get(end->peer, &rma), -EFAULT);
    recv.flags = NIGH_DEVICE | NIGH_MULTI;
    recv.min_free = 1;
    recv.bytes = 4096;
    CHECK_INT(nigh->post_recv(end->context, NULL, &recv), -EINVAL);
    recv.flags = NIGH_DEVICE | NIGH_IN_PLACE; /* in the host's memory */
    recv.buffer = data_room(64);
    CHECK_INT(nigh->post_recv(end->context, NULL, &recv), -EINVAL);
    lend.buffer = data_room(64);
    CHECK_INT(nigh->post_lend(end->peer, &lend), -EINVAL);
    lend.buffer = memory;
    lend.bytes = (uint64_t)1 << 40;
    CHECK_INT(nigh->post_lend(end->peer, &lend), -EFAULT);
    post.bytes = NIGH_INJECT_BYTES + 1;
    post.flags = NIGH_DEVICE | NIGH_INJECT;
    CHECK_INT(nigh->post_send(end->peer, &post), -EMSGSIZE);
    cuda->free(memory);
}

/* Where no driver is all memory is the host's, whatever a host says of it. */
static void no_driver(struct pair *pair)
{
    carry(pair, false, 0);
}

static const struct pair_case cases[] = {
    {.name = "both", .play = expected, .forms = PAIR_ALL, .how = PAIR_FRESH, .number = SENDER | RECEIVER},
    {.name = "sender", .play = expected, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = SENDER},
    {.name = "receiver", .play = expected, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = RECEIVER},
    {.name = "cuMemMap",
     .play = expected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER | KIND(MEMORY_MAPPED)},
    {.name = "pieces",
     .play = expected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER | KIND(MEMORY_PIECES)},
    {.name = "a pool",
     .play = expected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER | KIND(MEMORY_POOL)},
    {.name = "managed",
     .play = expected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER | KIND(MEMORY_MANAGED)},
    {.name = "the host's",
     .play = expected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER | KIND(MEMORY_HOST)},
    {.name = "late, both",
     .play = unexpected,
     .forms = PAIR_ALL,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "late, sender", .play = unexpected, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = SENDER},
    {.name = "late, receiver", .play = unexpected, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = RECEIVER},
    {.name = "synchronous",
     .play = synchronous,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "injected",
     .play = injected,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "many, both", .play = many, .forms = PAIR_ALL, .how = PAIR_FRESH, .number = SENDER | RECEIVER},
    {.name = "many, receiver", .play = many, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = RECEIVER},
    {.name = "in order",
     .play = in_order,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "cut, both", .play = cut, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = SENDER | RECEIVER},
    {.name = "cut, receiver", .play = cut, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = RECEIVER},
    {.name = "from the heap", .play = from_heap, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = RECEIVER},
    {.name = "put and get", .play = remote, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = SENDER},
    {.name = "put and get, cuMemMap",
     .play = remote,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | KIND(MEMORY_MAPPED)},
    {.name = "put and get, a region there",
     .play = remote,
     .forms = PAIR_FORK | PAIR_THREADS,
     .how = PAIR_FRESH,
     .number = RECEIVER},
    {.name = "put and get, both",
     .play = remote,
     .forms = PAIR_FORK | PAIR_SELF,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "by region",
     .play = by_region,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "copied", .play = copied, .forms = PAIR_FORK, .how = PAIR_FRESH, .number = SENDER},
    {.name = "copied, pieces",
     .play = copied,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | KIND(MEMORY_PIECES)},
    {.name = "copied, the host's", .play = copied, .forms = PAIR_FORK, .how = PAIR_FRESH},
    {.name = "the sender's driver fails",
     .play = driver_fails,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER},
    {.name = "the receiver's driver fails",
     .play = driver_fails,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = RECEIVER},
    {.name = "cancelled, both",
     .play = cancelled,
     .forms = PAIR_FORK | PAIR_THREADS,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "cancelled, receiver",
     .play = cancelled,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = RECEIVER},
    {.name = "death",
     .play = death,
     .forms = PAIR_FORK,
     .how = PAIR_DEATH | PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "waited for",
     .play = waited,
     .forms = PAIR_FORK,
     .how = PAIR_FRESH,
     .number = SENDER | RECEIVER},
    {.name = "refused", .play = refused, .forms = PAIR_FORK, .how = PAIR_FRESH},
    {.name = "no driver", .play = no_driver, .forms = PAIR_FORK, .how = PAIR_FRESH},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
