/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/hosts/nccl/rules_end.c - ends: of connections with requests in flight, of peers, of the plugin. */
#include "tests/hosts/nccl/host.h"

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

static bool begin(struct rank *rank, void **context, struct wire *wire)
{
    return went_well(rank, net_init(&rank->net, context), "init") && wire_open(rank, *context, wire);
}

static size_t some(unsigned number)
{
    return number % 7 * 1000;
}

static bool carries(struct rank *rank, const struct wire *wire)
{
    struct traffic traffic = {
        .rank = rank, .wire = *wire, .channel = 1, .count = 30, .depth = DEPTH, .room = 8192, .bytes = some};

    return traffic_run(&traffic);
}

/* An error, sooner or later, in the place of an answer that never comes. */
static bool fails(struct rank *rank, void *request, double since, const char *what)
{

    for (;;) {
        int done = 0;

        if (net_test(&rank->net, request, &done, NULL))
            break;
        if (done)
            return broken(rank, "%s is done, and well", what);
        if (host_now() - since > rank->patience)
            return broken(rank, "%s is neither done nor an error after %.0f s", what, rank->patience);
        sched_yield();
    }
    rank->seen->death_ns = (uint64_t)((host_now() - since) * 1e9);
    return true;
}

/* ---- peers ------------------------------------------------------------------------------------------------------ */

static bool death(struct rank *rank)
{
    static uint8_t in[65536];
    void *context, *receive;
    double now, killed;
    struct wire wire;

    if (!begin(rank, &context, &wire) || !carries(rank, &wire) ||
        !recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive))
        return false;
    now = host_now();
    if (!swap(rank, &now, &killed, sizeof(now)))
        return false;
    if (rank->number == 0)
        raise(SIGKILL);
    if (!fails(rank, receive, killed > now ? killed : now, "a receive from a rank that was killed"))
        return false;
    return went_well(rank, net_close_send(&rank->net, wire.send), "closeSend") &&
           went_well(rank, net_close_recv(&rank->net, wire.recv), "closeRecv") &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* Rank 1 connects to a listener of a process that has ended. */
static bool gone(struct rank *rank)
{
    uint8_t mine[NCCL_HANDLE_BYTES] = {0}, theirs[NCCL_HANDLE_BYTES];
    void *context, *listener, *comm = NULL, *request;
    static uint8_t data[256];
    enum nccl_result result = NCCL_SUCCESS;
    double end;
    char byte;

    if (!went_well(rank, net_init(&rank->net, &context), "init") ||
        !went_well(rank, net_listen(&rank->net, context, mine, &listener), "listen") ||
        !swap(rank, mine, theirs, sizeof(mine)))
        return false;
    if (rank->number == 0)
        raise(SIGKILL);
    if (read(rank->other, &byte, 1) != 0)
        return broken(rank, "rank 0 lives on");
    for (end = host_now() + rank->patience; !result && !comm && host_now() < end; sched_yield())
        result = net_connect(&rank->net, context, theirs, &comm);
    /* A plugin that connects before it knows says so when it sends. */
    for (; !result && comm && host_now() < end; sched_yield()) {
        int done = 0;

        result = net_isend(&rank->net, comm, data, sizeof(data), NULL, &request);
        while (!result && request && !done && host_now() < end)
            result = net_test(&rank->net, request, &done, NULL);
    }
    if (!result)
        return broken(rank,
                      "neither connect() nor isend() to a process that has ended is an error after %.0f s",
                      rank->patience);
    return went_well(rank, net_close_listen(&rank->net, listener), "closeListen") &&
           (!comm || went_well(rank, net_close_send(&rank->net, comm), "closeSend")) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* ---- in flight -------------------------------------------------------------------------------------------------- */

enum { POSTED = 8, BYTES = 1 << 20 };

/* As ncclCommAbort() does: the memory goes before the connections, and the other rank finds an error or nothing. */
static bool give_up(struct rank *rank, struct wire *wire)
{
    size_t all = (size_t)POSTED * BYTES;
    uint8_t *in = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *out = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *requests[POSTED], *receives[POSTED], *in_memory, *out_memory;

    if (!went_well(rank, net_register(&rank->net, wire->recv, in, all, NCCL_PTR_HOST, &in_memory), "regMr") ||
        !went_well(rank, net_register(&rank->net, wire->send, out, all, NCCL_PTR_HOST, &out_memory), "regMr"))
        return false;
    for (int i = 0; i < POSTED; i++) {
        receives[i] = NULL;
        /* Rank 0 receives nothing, so what rank 1 sends stays where it is; the ways back are only begun. */
        if (!send_one(rank, wire->send, out + (size_t)i * BYTES, BYTES, out_memory, &requests[i]) ||
            (rank->number == 1 &&
             !recv_one(rank, wire->recv, in + (size_t)i * BYTES, BYTES, in_memory, &receives[i])))
            return false;
    }
    if (!meet(rank) || !went_well(rank, net_deregister(&rank->net, wire->recv, in_memory), "deregMr") ||
        !went_well(rank, net_deregister(&rank->net, wire->send, out_memory), "deregMr") ||
        !wire_close(rank, wire))
        return false;
    munmap(in, all);
    munmap(out, all);
    return true;
}

static bool abort_one(struct rank *rank)
{
    struct wire wire;
    void *context;

    return begin(rank, &context, &wire) && give_up(rank, &wire) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

static bool in_flight(struct rank *rank)
{
    struct wire wire;
    void *context;

    return abort_one(rank) && begin(rank, &context, &wire) && carries(rank, &wire) && meet(rank) &&
           wire_close(rank, &wire) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, context), "finalize");
}

static size_t long_and_short(unsigned number)
{
    return number % 4 == 0 ? 200000 : number % 4 * 100;
}

/* As meet(), by a rank whose other connections are alive: NCCL polls them. */
static bool meet_alive(struct rank *rank, void *context)
{
    uint8_t handle[NCCL_HANDLE_BYTES] = {0};
    double end = host_now() + rank->patience;
    void *listener, *nobody = NULL;
    char byte = 'm';
    ssize_t got = -1;

    if (!went_well(rank, net_listen(&rank->net, context, handle, &listener), "listen") ||
        send(rank->other, &byte, 1, MSG_NOSIGNAL) != 1)
        return broken(rank, "the other rank has ended");
    while (got < 0 && host_now() < end) {
        if (!went_well(rank, net_accept(&rank->net, listener, &nobody), "accept"))
            return false;
        got = recv(rank->other, &byte, 1, MSG_DONTWAIT);
        sched_yield();
    }
    if (got != 1)
        return broken(rank, "the other rank has ended, or does not come");
    return went_well(rank, net_close_listen(&rank->net, listener), "closeListen");
}

/* Messages on one connection are under way while another one, of a context that may be the same, is given up; it carries more
 * afterwards. */
static bool beside(struct rank *rank, struct wire *given_up, void *context, const struct wire *kept)
{
    struct traffic going = {.rank = rank,
                            .wire = *kept,
                            .channel = 2,
                            .count = 150,
                            .depth = DEPTH,
                            .room = 262144,
                            .bytes = long_and_short};
    pthread_t thread;

    return traffic_start(&going, &thread) && give_up(rank, given_up) && meet_alive(rank, context) &&
           traffic_join(&going, thread) && carries(rank, kept);
}

static bool given_up(struct rank *rank)
{
    void *contexts[2];
    struct wire wires[2];

    return went_well(rank, net_init(&rank->net, &contexts[0]), "init") &&
           went_well(rank, net_init(&rank->net, &contexts[1]), "init") &&
           wire_open(rank, contexts[0], &wires[0]) && wire_open(rank, contexts[1], &wires[1]) &&
           beside(rank, &wires[0], contexts[1], &wires[1]) &&
           went_well(rank, net_finalize(&rank->net, contexts[0]), "finalize") && meet(rank) &&
           carries(rank, &wires[1]) && meet(rank) && wire_close(rank, &wires[1]) && meet(rank) &&
           went_well(rank, net_finalize(&rank->net, contexts[1]), "finalize");
}

/* The same between two connections of one communicator. */
static bool one_of_two(struct rank *rank)
{
    struct wire wires[2];
    void *context;

    return begin(rank, &context, &wires[0]) && wire_open(rank, context, &wires[1]) &&
           beside(rank, &wires[0], context, &wires[1]) && meet(rank) && wire_close(rank, &wires[1]) &&
           meet(rank) && went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* Rank 1 calls nothing any more. Rank 0 gives up what it sends to several of its communicators, one after the other, as
 * ncclCommAbort() does: they wait for rank 1 together, not each for itself. */
static bool hung(struct rank *rank)
{
    enum { COUNT = 4 };
    const double most = 4;
    static uint8_t out[POSTED * BYTES]; /* more than a socket takes */
    struct wire wires[COUNT];
    void *contexts[COUNT], *request;
    double begun;

    for (int i = 0; i < COUNT; i++) {
        if (i > 0)
            contexts[i] = contexts[0];
        if (((i == 0 || rank->number == 1) && !went_well(rank, net_init(&rank->net, &contexts[i]), "init")) ||
            !wire_open(rank, contexts[i], &wires[i]) || !carries(rank, &wires[i]) ||
            (rank->number == 0 && !send_one(rank, wires[i].send, out, sizeof(out), NULL, &request)))
            return false;
    }
    begun = host_now();
    for (int i = 0; i < COUNT && rank->number == 0; i++)
        if (!wire_close(rank, &wires[i]))
            return false;
    if (host_now() - begun > most)
        return broken(rank, "%d connections to a rank that hangs take %.1f s to close, %.0f are allowed",
                      COUNT, host_now() - begun, most);
    if (!meet(rank))
        return false;
    for (int i = 0; i < COUNT; i++)
        if ((rank->number == 1 && !wire_close(rank, &wires[i])) ||
            ((i == 0 || rank->number == 1) &&
             !went_well(rank, net_finalize(&rank->net, contexts[i]), "finalize")))
            return false;
    return true;
}

/* The other side closes while this one waits. */
static bool left(struct rank *rank)
{
    static uint8_t in[4096];
    void *context, *receive = NULL;
    struct wire wire;

    if (!begin(rank, &context, &wire) || !carries(rank, &wire))
        return false;
    if (rank->number == 1 && !recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive))
        return false;
    if (!meet(rank))
        return false;
    if (rank->number == 0 && !wire_close(rank, &wire))
        return false;
    if (rank->number == 1 &&
        (!fails(rank, receive, host_now(), "a receive whose sender has closed the connection") ||
         !wire_close(rank, &wire)))
        return false;
    return meet(rank) && went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* What was sent before the sender closed comes. */
static bool farewell(struct rank *rank)
{
    static uint8_t in[3000], out[3000];
    void *context, *request, *receive;
    struct wire wire;
    int bytes = -1;

    /* No connect() may be under way any more where a side closes. */
    if (!begin(rank, &context, &wire) || !meet(rank))
        return false;
    fill(out, sizeof(out), 3, 3);
    if (rank->number == 0 && (!send_one(rank, wire.send, out, sizeof(out), NULL, &request) ||
                              !finish(rank, request, NULL) || !wire_close(rank, &wire)))
        return false;
    if (!meet(rank))
        return false;
    if (rank->number == 1) {
        if (!recv_one(rank, wire.recv, in, sizeof(in), NULL, &receive) || !finish(rank, receive, &bytes))
            return false;
        if (bytes != (int)sizeof(in) || !is_filled(in, sizeof(in), 3, 3))
            return broken(rank, "a message that was sent before its sender closed comes with other bytes");
        if (!wire_close(rank, &wire))
            return false;
    }
    return meet(rank) && went_well(rank, net_finalize(&rank->net, context), "finalize");
}

/* ---- the plugin ------------------------------------------------------------------------------------------------- */

static int count_in(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

static void *nothing(void *unused)
{
    return unused;
}

/* With the first thread of a process comes the thread sanitizer's own, which stays. */
static int threads_before(void)
{
    pthread_t first;

    if (pthread_create(&first, NULL, nothing, NULL) == 0)
        pthread_join(first, NULL);
    return count_in("/proc/self/task");
}

static bool reload(struct rank *rank)
{
    int threads = threads_before(), files = 0;
    char why[WHY_BYTES];

    for (int turn = 0; turn < 3; turn++) {
        struct wire wire;
        void *context;
        double end = host_now() + 1;

        if (!begin(rank, &context, &wire) || !carries(rank, &wire) || !meet(rank) ||
            !wire_close(rank, &wire) || !meet(rank) ||
            !went_well(rank, net_finalize(&rank->net, context), "finalize"))
            return false;
        while (count_in("/proc/self/task") > threads && host_now() < end)
            sched_yield(); /* a thread that was joined may still be listed */
        if (count_in("/proc/self/task") > threads)
            return broken(rank, "%d threads of the plugin run on when NCCL unloads it",
                          count_in("/proc/self/task") - threads);
        net_unload(&rank->net);
        if (turn == 0)
            files = count_in("/proc/self/fd");
        else if (count_in("/proc/self/fd") > files)
            return broken(rank, "%d descriptors were left by turn %d", count_in("/proc/self/fd") - files,
                          turn + 1);
        if (!net_load(&rank->net, rank->net.path, rank->net.version, why))
            return broken(rank, "%s", why);
    }
    return true;
}

const struct rule rules_end[] = {
    {.name = "farewell", .sentence = "what was sent before the sender closes still comes", .run = farewell},
    {.name = "left", .sentence = "a receive whose sender has closed is an error", .run = left},
    {.name = "in-flight",
     .sentence = "connections close with requests in flight, and buffers are free then",
     .run = in_flight},
    {.name = "given-up",
     .sentence = "one communicator is given up with requests in flight while another goes on",
     .run = given_up},
    {.name = "one-of-two",
     .sentence = "a connection closes with requests in flight while another one of its communicator goes on",
     .run = one_of_two},
    {.name = "hung",
     .sentence = "connections with requests in flight to a rank that hangs close in a time that does not "
                 "grow with them",
     .run = hung,
     .since = 12},
    {.name = "death", .sentence = "a rank that dies is an error at the other", .run = death, .one = true},
    {.name = "gone",
     .sentence = "a handle of a process that has ended is an error",
     .run = gone,
     .one = true},
    {.name = "reload",
     .sentence = "finalize leaves no thread and no descriptor; the plugin is loaded again",
     .run = reload},
    {.name = NULL},
};
