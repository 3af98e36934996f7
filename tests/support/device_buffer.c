/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/device_buffer.c - see device_buffer.h. */
#include "tests/support/device_buffer.h"
#include "tests/support/data.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

const struct test_cuda *cuda;

static void load(void)
{
    const char *build = getenv("NIGH_BUILDDIR");
    char path[4096];
    void *object;

    snprintf(path, sizeof(path), "%s/tests/support/.libs/libcuda.so.1", build ? build : ".");
    object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    cuda = object ? dlsym(object, TEST_CUDA_SYMBOL) : NULL;
    CHECK(cuda);
}

void device_load(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, load);
}

struct buffer buffer_make(struct pair *pair, unsigned side, uint64_t bytes)
{
    struct buffer buffer = {.bytes = bytes, .on_device = pair->of->number & side};

    if (!buffer.on_device) {
        buffer.at = data_room(bytes);
        return buffer;
    }
    device_load();
    buffer.at = cuda->alloc((enum cuda_memory)(pair->of->number >> 8), cuda->device(), bytes);
    CHECK(buffer.at);
    return buffer;
}

void buffer_fill(struct buffer *buffer, uint64_t bytes, uint64_t seed)
{
    if (buffer->on_device)
        cuda->put(buffer->at, data_filled(bytes, seed), bytes);
    else
        data_fill(buffer->at, bytes, seed);
}

void buffer_check(const struct buffer *buffer, uint64_t at, uint64_t bytes, uint64_t seed)
{
    uint8_t *seen = buffer->on_device ? data_room(bytes) : buffer->at + at;

    if (buffer->on_device && bytes)
        cuda->get(seen, buffer->at + at, bytes);
    data_check(seen, bytes, seed, at);
}

void buffer_drop(struct buffer *buffer)
{
    if (buffer->on_device)
        cuda->free(buffer->at);
}

void buffer_send(struct pair *pair, struct buffer *buffer, uint64_t bytes, uint64_t tag, uint32_t flags,
                 uint64_t context)
{
    pair_send(pair->end[0], bytes ? buffer->at : NULL, bytes, tag, flags | NIGH_DEVICE, context);
}

void buffer_recv(struct pair *pair, const struct buffer *buffer, uint64_t bytes, uint64_t tag,
                 uint64_t context)
{
    struct pair_end *end = pair->end[1];
    struct nigh_recv recv = pair_a_recv(buffer->at, bytes, tag, context);

    recv.flags |= NIGH_DEVICE;
    CHECK_INT(pair->nigh->post_recv(end->context, end->peer, &recv), 0);
}

void device_ready(struct pair *pair)
{
    for (uint32_t i = 0; i < 2; i++)
        if (pair->end[i])
            pair_state(pair->end[i], NIGH_READY);
    if (pair->of->data)
        setenv("NIGH_FAKE_CUDA_DELAY_US", pair->of->data, 1);
}

void device_say(struct pair *pair, const struct buffer *to)
{
    buffer_recv(pair, to, 64, 99, 99);
    CHECK_INT(pair_load()->cancel(pair->end[1]->context, 99), 0);
    CHECK_INT(pair_await(pair->end[1], NIGH_OP_RECV, 99).status, -ECANCELED);
}

void device_end(struct pair *pair, struct buffer *from, struct buffer *to)
{
    pair_meet();
    if (pair->end[0])
        buffer_drop(from);
    if (pair->end[1])
        buffer_drop(to);
}
