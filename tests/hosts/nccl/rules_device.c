/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_device.c - what a plugin owes NCCL for device memory. Run with --cuda alone, which names a driver that tests
 * can look into (tests/support/test_cuda.h). */
#include "tests/hosts/nccl/host.h"
#include "tests/support/test_cuda.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

static const struct test_cuda *cuda;

bool device_load(const char *path, char *why)
{
    void *object = dlopen(path, RTLD_NOW | RTLD_GLOBAL);

    cuda = object ? dlsym(object, TEST_CUDA_SYMBOL) : NULL;
    if (!cuda)
        snprintf(why, WHY_BYTES, "--cuda %s is no driver for tests", path);
    return cuda != NULL;
}

/* One message each way; `on` says which of the two buffers lie on a device: 1 what is sent, 2 what is received. */
static bool carry(struct rank *rank, const struct wire *wire, enum cuda_memory kind, unsigned on,
                  size_t bytes)
{
    const struct net *net = &rank->net;
    uint8_t *seen = malloc(bytes), *out = on & 1 ? cuda->alloc(kind, cuda->device(), bytes) : malloc(bytes);
    uint8_t *in = on & 2 ? cuda->alloc(kind, cuda->device(), bytes) : malloc(bytes);
    void *out_memory, *in_memory, *sent, *received;
    int got = -1;
    bool well;

    fill(seen, bytes, on, bytes + (unsigned)rank->number);
    if (on & 1)
        cuda->put(out, seen, bytes);
    else
        fill(out, bytes, on, bytes + (unsigned)rank->number);
    if (!went_well(
            rank,
            net_register(net, wire->send, out, bytes, on & 1 ? NCCL_PTR_CUDA : NCCL_PTR_HOST, &out_memory),
            "regMr") ||
        !went_well(
            rank,
            net_register(net, wire->recv, in, bytes, on & 2 ? NCCL_PTR_CUDA : NCCL_PTR_HOST, &in_memory),
            "regMr") ||
        !recv_one(rank, wire->recv, in, bytes, in_memory, &received) ||
        !send_one(rank, wire->send, out, bytes, out_memory, &sent) || !finish(rank, received, &got) ||
        !finish(rank, sent, NULL))
        return false;
    if (on & 2)
        cuda->get(seen, in, bytes);
    well = (size_t)got == bytes && is_filled(on & 2 ? seen : in, bytes, on, bytes + (unsigned)!rank->number);
    if (!well)
        return broken(rank, "a message of %zu bytes %s a device %s a device holds other bytes than were sent",
                      bytes, on & 1 ? "from" : "not from", on & 2 ? "to" : "not to");
    if (!went_well(rank, net_deregister(net, wire->send, out_memory), "deregMr") ||
        !went_well(rank, net_deregister(net, wire->recv, in_memory), "deregMr"))
        return false;
    on & 1 ? cuda->free(out) : free(out);
    on & 2 ? cuda->free(in) : free(in);
    free(seen);
    return true;
}

static bool device(struct rank *rank)
{
    static const size_t sizes[] = {1, 8, 1000, 65537, 524288, 3 << 20};
    static const enum cuda_memory kinds[] = {MEMORY_PLAIN, MEMORY_MAPPED, MEMORY_POOL};
    struct nccl_properties_v12 properties;
    struct wire wire;
    void *context;

    if (!went_well(rank, net_init(&rank->net, &context), "init") ||
        !went_well(rank, net_properties(&rank->net, 0, &properties), "getProperties"))
        return false;
    if (!(properties.pointers & NCCL_PTR_CUDA))
        return broken(rank, "ptrSupport %#x lacks device memory, and a driver is loaded",
                      (unsigned)properties.pointers);
    if (!wire_open(rank, context, &wire))
        return false;
    for (unsigned kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++)
        for (unsigned on = 1; on < 4; on++)
            for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
                if (!carry(rank, &wire, kinds[kind], on, sizes[i]))
                    return false;
    return meet(rank) && wire_close(rank, &wire) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

const struct rule rules_device[] = {
    {.name = "device",
     .sentence = "device memory is carried, to and from a device and the host",
     .run = device,
     .cuda = true},
    {0},
};
