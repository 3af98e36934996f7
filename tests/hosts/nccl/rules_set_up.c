/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_set_up.c - the table, the properties, and how connections come about. */
#include "tests/hosts/nccl/host.h"

#include <stdlib.h>
#include <string.h>

enum { CANARY = 64, CANARY_BYTE = 0x5a, CHANNELS = 16 };

static size_t small(unsigned number)
{
    return number % 5 * 100;
}

/* Some messages both ways, which show that a connection is one. */
static bool carries(struct rank *rank, const struct wire *wire, unsigned channel)
{
    struct traffic traffic = {.rank = rank,
                              .wire = *wire,
                              .channel = channel,
                              .count = 20,
                              .depth = DEPTH,
                              .room = 4096,
                              .bytes = small};

    return traffic_run(&traffic);
}

static bool begin(struct rank *rank, void **context)
{
    return went_well(rank, net_init(&rank->net, context), "init");
}

static bool end(struct rank *rank, void *context)
{
    return meet(rank) && went_well(rank, net_finalize(&rank->net, context), "finalize");
}

static bool table(struct rank *rank)
{
    const char *missing = net_missing(&rank->net);

    return !missing || broken(rank, "%s is NULL", missing);
}

/* ---- before connections ------------------------------------------------------------------------------------------ */

static bool starts(struct rank *rank)
{
    int count = 0;
    void *context;

    for (int turn = 0; turn < 2; turn++) {
        if (!begin(rank, &context) || !went_well(rank, net_devices(&rank->net, &count), "devices"))
            return false;
        if (count < 1)
            return broken(rank, "devices() says %d after init() went well", count);
        if (!went_well(rank, net_finalize(&rank->net, context), "finalize"))
            return false;
    }
    return true;
}

#define HOLDS(condition, format, ...)                                       \
    do {                                                                    \
        if (!(condition))                                                   \
            return broken(rank, "device %d: " format, device, __VA_ARGS__); \
    } while (0)

static bool property(struct rank *rank, int device, const struct nccl_properties_v12 *p)
{
    HOLDS(p->name && *p->name, "%s", "name is empty: the topology is keyed on it");
    HOLDS(p->pointers & NCCL_PTR_HOST, "ptrSupport %#x lacks host memory", (unsigned)p->pointers);
    HOLDS(!(p->pointers & ~7), "ptrSupport %#x has unknown bits", (unsigned)p->pointers);
    HOLDS(p->speed > 0, "speed %d Mbps: the search for channels divides by it", p->speed);
    HOLDS(p->comms_max > 0, "maxComms %d", p->comms_max);
    HOLDS(p->receives_max >= 1, "maxRecvs %d", p->receives_max);
    HOLDS(p->latency >= 0, "latency %f", (double)p->latency);
    HOLDS(p->device_type == 0 || p->device_type == 1, "netDeviceType %d", p->device_type);
    HOLDS(p->virtual_devices.count >= 1 && p->virtual_devices.count <= (rank->net.version == 12 ? 8 : 4),
          "vProps.ndevs %d", p->virtual_devices.count);
    HOLDS(p->virtual_devices.count > 1 || p->virtual_devices.devices[0] == device, "vProps.devs[0] is %d",
          p->virtual_devices.devices[0]);
    HOLDS(p->p2p_bytes_max > 0 && p->p2p_bytes_max <= NCCL_BYTES_MAX, "maxP2pBytes %zu: 1 to 2^40",
          p->p2p_bytes_max);
    HOLDS(p->collective_bytes_max > 0 && p->collective_bytes_max <= NCCL_BYTES_MAX,
          "maxCollBytes %zu: 1 to 2^40", p->collective_bytes_max);
    HOLDS(p->multi_request_max >= 1, "maxMultiRequestSize %d", p->multi_request_max);
    HOLDS(p->rail >= -1 && p->plane >= -1, "railId %d, planeId %d", p->rail, p->plane);
    return true;
}

static bool properties(struct rank *rank)
{
    struct nccl_properties_v12 all[16];
    void *context;
    int count = 0;

    if (!begin(rank, &context) || !went_well(rank, net_devices(&rank->net, &count), "devices"))
        return false;
    for (int device = 0; device < count && device < 16; device++) {
        if (!went_well(rank, net_properties(&rank->net, device, &all[device]), "getProperties") ||
            !property(rank, device, &all[device]))
            return false;
        for (int other = 0; other < device; other++)
            HOLDS(strcmp(all[other].name, all[device].name) != 0, "has the name of device %d", other);
    }
    return end(rank, context);
}

static bool listens(struct rank *rank)
{
    uint8_t handle[NCCL_HANDLE_BYTES + CANARY];
    void *context, *listener;

    memset(handle, 0, NCCL_HANDLE_BYTES);
    memset(handle + NCCL_HANDLE_BYTES, CANARY_BYTE, CANARY);
    if (!begin(rank, &context) ||
        !went_well(rank, net_listen(&rank->net, context, handle, &listener), "listen"))
        return false;
    if (!listener)
        return broken(rank, "listen() returns success and no listener");
    for (int i = 0; i < CANARY; i++)
        if (handle[NCCL_HANDLE_BYTES + i] != CANARY_BYTE)
            return broken(rank, "listen() writes byte %d of a handle of %d", NCCL_HANDLE_BYTES + i,
                          NCCL_HANDLE_BYTES);
    return went_well(rank, net_close_listen(&rank->net, listener), "closeListen") && end(rank, context);
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static bool connects(struct rank *rank)
{
    struct wire wire;
    void *context;

    return begin(rank, &context) && wire_open(rank, context, &wire) && carries(rank, &wire, 1) &&
           meet(rank) && wire_close(rank, &wire) && end(rank, context);
}

/* Rank 1 accepts late: rank 0's connect() returns all the while. */
static bool late(struct rank *rank)
{
    uint8_t mine[NCCL_HANDLE_BYTES] = {0}, theirs[NCCL_HANDLE_BYTES];
    void *context, *listener, *early = NULL;
    double until = host_now() + 0.15;
    struct wire wire;

    if (!begin(rank, &context) ||
        !went_well(rank, net_listen(&rank->net, context, mine, &listener), "listen") ||
        !swap(rank, mine, theirs, sizeof(mine)))
        return false;
    if (rank->number == 1)
        pause_for(0.15);
    while (rank->number == 0 && !early && host_now() < until)
        if (!went_well(rank, net_connect(&rank->net, context, theirs, &early), "connect"))
            return false;
    if (early) {
        wire.send = early;
        for (double end = host_now() + rank->patience;;) {
            wire.recv = NULL;
            if (!went_well(rank, net_accept(&rank->net, listener, &wire.recv), "accept"))
                return false;
            if (wire.recv)
                break;
            if (host_now() > end)
                return broken(rank, "accept() gives no connection in %.0f s", rank->patience);
        }
    } else if (!poll_connect(rank, context, theirs, listener, &wire)) {
        return false;
    }
    if (rank->seen->longest_ns > 1000000000)
        return broken(rank, "%s() took %.1f s: it waits for the other side",
                      (const char *)rank->seen->longest_call, (double)rank->seen->longest_ns * 1e-9);
    return went_well(rank, net_close_listen(&rank->net, listener), "closeListen") &&
           carries(rank, &wire, 2) && meet(rank) && wire_close(rank, &wire) && end(rank, context);
}

static bool self(struct rank *rank)
{
    struct wire wire;
    void *context;

    return begin(rank, &context) && wire_open_self(rank, context, &wire) && carries(rank, &wire, 3) &&
           wire_close(rank, &wire) && end(rank, context);
}

/* One of NCCL's communicators has as many connections as channels times peers. */
static bool many(struct rank *rank)
{
    struct wire wires[CHANNELS];
    void *context;

    if (!begin(rank, &context))
        return false;
    for (int i = 0; i < CHANNELS; i++)
        if (!wire_open(rank, context, &wires[i]))
            return false;
    for (unsigned i = CHANNELS; i-- > 0;)
        if (!carries(rank, &wires[i], i) || !meet(rank) || !wire_close(rank, &wires[i]))
            return false;
    return end(rank, context);
}

static bool memory(struct rank *rank)
{
    enum { BUFFERS = 3 };
    static const size_t sizes[BUFFERS] = {256 << 10, 640 << 10, 4 << 20}; /* LL, LL128, Simple */
    void *context, *registered[2][BUFFERS], *data[BUFFERS];
    struct wire wire;

    if (!begin(rank, &context) || !wire_open(rank, context, &wire))
        return false;
    for (int i = 0; i < BUFFERS; i++) {
        data[i] = calloc(1, sizes[i]);
        for (int way = 0; way < 2; way++)
            if (!went_well(rank,
                           net_register(&rank->net, way ? wire.send : wire.recv, data[i], sizes[i],
                                        NCCL_PTR_HOST, &registered[way][i]),
                           "regMr"))
                return false;
    }
    if (!carries(rank, &wire, 5))
        return false;
    for (int i = 0; i < BUFFERS; i++) {
        for (int way = 0; way < 2; way++)
            if (!went_well(rank, net_deregister(&rank->net, way ? wire.send : wire.recv, registered[way][i]),
                           "deregMr"))
                return false;
        free(data[i]);
    }
    return meet(rank) && wire_close(rank, &wire) && end(rank, context);
}

const struct rule rules_set_up[] = {
    {.name = "table", .sentence = "what NCCL calls without a look is there", .run = table},
    {.name = "start",
     .sentence = "init, devices and finalize go in this order, more than once",
     .run = starts},
    {.name = "properties", .sentence = "each property is one that NCCL can use", .run = properties},
    {.name = "listen",
     .sentence = "listen gives a listener at once, and a handle of 128 bytes",
     .run = listens},
    {.name = "connect",
     .sentence = "connect and accept get through when one thread polls them in turn",
     .run = connects},
    {.name = "late", .sentence = "neither connect nor accept waits for the other side", .run = late},
    {.name = "self", .sentence = "a rank connects to itself", .run = self},
    {.name = "many", .sentence = "sixteen connections stay apart", .run = many},
    {.name = "register", .sentence = "host memory is registered, three buffers a connection", .run = memory},
    {.name = NULL},
};
