/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/hosts/nccl/socket_plugin.c - a net plugin of loopback TCP sockets: the baseline of nccl-host --bench, and the proof that
 * the host takes other plugins than ours. NET_BREAK=RULE makes it break that rule, so that each is seen to fail.
 */
#include "hosts/nccl/abi.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define EXPORTED __attribute__((visibility("default")))
#define MAGIC    UINT64_C(0x74656b636f73)

struct handle {
    uint64_t magic, cookie;
    struct sockaddr_in address;
    int pid;
};

struct request {
    struct comm *comm;
    uint8_t *data;
    uint64_t bytes, moved; /* moved: of header and data */
    uint64_t length;       /* the header */
    enum nccl_result error;
    bool used, done;
};

struct comm {
    int fd;
    bool sends;
    struct request requests[NCCL_REQUESTS_MAX + 1];
    unsigned begun, ended; /* in the order of their posting */
    enum nccl_result error;
};

struct listener {
    int fd;
    uint64_t cookie;
    int half; /* accepted, its cookie has not come; -1 */
};

static nccl_logger logger;
static _Atomic(int) connected; /* ever */
static _Atomic(void *) only;   /* the connection that was the first to send */
static _Atomic(bool) finalized, sent, given_up;
static _Atomic(pthread_t) sender; /* the thread that has sent last */

/* Is this the rule to break? */
static bool breaks(const char *rule)
{
    const char *broken = getenv("NET_BREAK");

    return broken && strcmp(broken, rule) == 0;
}

static enum nccl_result fail(enum nccl_result result, const char *why)
{
    if (logger)
        logger(NCCL_LOG_WARN, ~0ul, __FILE__, __LINE__, "NET/Loopback : %s", why);
    return result;
}

static void *idle(void *data)
{
    for (;;)
        pause();
    return data;
}

static enum nccl_result init(void **context, uint64_t communicator, struct nccl_config *config,
                             nccl_logger log, nccl_profiler profiler)
{
    pthread_t thread;

    (void)communicator, (void)config, (void)profiler;
    logger = log;
    if (breaks("reload"))
        pthread_create(&thread, NULL, idle, NULL);
    if (context)
        *context = &logger;
    return NCCL_SUCCESS;
}

static enum nccl_result init_v10(nccl_logger log, nccl_profiler profiler)
{
    return init(NULL, 0, NULL, log, profiler);
}

static enum nccl_result devices(int *count)
{
    *count = breaks("start") ? 0 : 1;
    return NCCL_SUCCESS;
}

static enum nccl_result properties_v12(int device, struct nccl_properties_v12 *out)
{
    *out = (struct nccl_properties_v12){.name = "loopback",
                                        .pointers = NCCL_PTR_HOST,
                                        .speed = 10000,
                                        .comms_max = 1024,
                                        .receives_max = 1,
                                        .virtual_devices = {.count = 1, .devices = {device}},
                                        .p2p_bytes_max = breaks("properties") ? 0 : NCCL_BYTES_MAX,
                                        .collective_bytes_max = NCCL_BYTES_MAX,
                                        .multi_request_max = 1,
                                        .rail = -1,
                                        .plane = -1};
    return NCCL_SUCCESS;
}

static enum nccl_result properties_v11(int device, struct nccl_properties_v11 *out)
{
    struct nccl_properties_v12 now;

    (void)properties_v12(device, &now);
    memset(out, 0, sizeof(*out));
    memcpy(out, &now, offsetof(struct nccl_properties_v12, virtual_devices));
    out->virtual_devices.count = 1;
    out->virtual_devices.devices[0] = device;
    out->p2p_bytes_max = now.p2p_bytes_max;
    out->collective_bytes_max = now.collective_bytes_max;
    out->multi_request_max = 1;
    return NCCL_SUCCESS;
}

static enum nccl_result properties_v10(int device, struct nccl_properties_v10 *out)
{
    struct nccl_properties_v11 now;

    (void)properties_v11(device, &now);
    memcpy(out, &now, sizeof(*out));
    return NCCL_SUCCESS;
}

/* ---- connections ------------------------------------------------------------------------------------------------ */

static enum nccl_result listen_v10(int device, void *out, void **listener_out)
{
    struct handle handle = {.magic = MAGIC, .address = {.sin_family = AF_INET}, .pid = getpid()};
    struct listener *listener = calloc(1, sizeof(*listener));
    socklen_t bytes = sizeof(handle.address);

    (void)device;
    handle.address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    listener->half = -1;
    listener->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener->fd < 0 || bind(listener->fd, (struct sockaddr *)&handle.address, sizeof(handle.address)) ||
        listen(listener->fd, 64) || getsockname(listener->fd, (struct sockaddr *)&handle.address, &bytes) ||
        getrandom(&handle.cookie, sizeof(handle.cookie), 0) < 0)
        return fail(NCCL_SYSTEM_ERROR, strerror(errno));
    listener->cookie = handle.cookie;
    memcpy(out, &handle, sizeof(handle));
    if (breaks("listen"))
        ((char *)out)[NCCL_HANDLE_BYTES] = 1;
    *listener_out = listener;
    return NCCL_SUCCESS;
}

static enum nccl_result listen_in(void *context, int device, void *handle, void **listener)
{
    (void)context;
    return listen_v10(device, handle, listener);
}

static struct comm *comm_new(int fd, bool sends)
{
    struct comm *comm = calloc(1, sizeof(*comm));
    int on = 1;

    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    comm->fd = fd;
    comm->sends = sends;
    return comm;
}

static enum nccl_result connect_v10(int device, struct nccl_config *config, void *bytes, void **out,
                                    void **device_comm)
{
    struct handle handle;
    int fd;

    (void)device, (void)config, (void)device_comm;
    *out = NULL;
    memcpy(&handle, bytes, sizeof(handle));
    if (handle.magic != MAGIC)
        return breaks("garbage") ? NCCL_SUCCESS
                                 : fail(NCCL_INVALID_ARGUMENT, "the handle is none of this plugin's");
    if (breaks("connect"))
        return NCCL_SUCCESS;
    if (breaks("self") && handle.pid == getpid())
        return fail(NCCL_INVALID_USAGE, "that is this process");
    if (breaks("threads") && sent && !pthread_equal(sender, pthread_self()))
        return fail(NCCL_INTERNAL_ERROR, "another thread is at work");
    if (breaks("many") && connected >= 8)
        return fail(NCCL_SYSTEM_ERROR, "eight connections are all there are");
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); /* on the loopback connect() ends at once */
    if (fd < 0)
        return fail(NCCL_SYSTEM_ERROR, strerror(errno));
    if (connect(fd, (struct sockaddr *)&handle.address, sizeof(handle.address)) ||
        send(fd, &handle.cookie, sizeof(handle.cookie), MSG_NOSIGNAL) != sizeof(handle.cookie)) {
        close(fd);
        return breaks("gone") || breaks("dead") ? NCCL_SUCCESS
                                                : fail(NCCL_REMOTE_ERROR, "nobody listens there");
    }
    if (breaks("late"))
        usleep(1100000);
    (void)fcntl(fd, F_SETFL, O_NONBLOCK);
    connected++;
    *out = comm_new(fd, true);
    return NCCL_SUCCESS;
}

static enum nccl_result connect_in(void *context, int device, void *handle, void **comm, void **device_comm)
{
    (void)context;
    return connect_v10(device, NULL, handle, comm, device_comm);
}

static enum nccl_result accept_one(void *number, void **out, void **device_comm)
{
    struct listener *listener = number;
    uint64_t cookie;

    (void)device_comm;
    *out = NULL;
    if (listener->half < 0)
        listener->half = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (listener->half < 0 || recv(listener->half, &cookie, sizeof(cookie), 0) != sizeof(cookie))
        return NCCL_SUCCESS;
    if (cookie == listener->cookie)
        *out = comm_new(listener->half, false);
    else
        close(listener->half);
    listener->half = -1;
    return NCCL_SUCCESS;
}

static enum nccl_result close_comm(void *number)
{
    struct comm *comm = number;

    if (breaks("in-flight") && comm->begun != comm->ended)
        abort();
    if (breaks("hung") && comm->begun != comm->ended)
        usleep(1100000);
    given_up = given_up || comm->begun != comm->ended;
    if (breaks("over"))
        return NCCL_SUCCESS;
    if (!breaks("left"))
        close(comm->fd);
    free(comm);
    return NCCL_SUCCESS;
}

static enum nccl_result close_listen(void *number)
{
    struct listener *listener = number;

    if (listener->half >= 0)
        close(listener->half);
    close(listener->fd);
    free(listener);
    return NCCL_SUCCESS;
}

static enum nccl_result register_memory(void *comm, void *data, size_t bytes, int type, void **memory)
{
    (void)comm, (void)data, (void)bytes;
    if (type != NCCL_PTR_HOST && !breaks("types"))
        return fail(NCCL_INVALID_ARGUMENT, "that is no host memory");
    if (breaks("register") && bytes > 1 << 20)
        return fail(NCCL_SYSTEM_ERROR, "no more memory can be registered");
    *memory = NULL;
    return NCCL_SUCCESS;
}

static enum nccl_result deregister(void *comm, void *memory)
{
    (void)comm, (void)memory;
    return NCCL_SUCCESS;
}

/* ---- messages --------------------------------------------------------------------------------------------------- */

/* Moves what the socket takes or has. The header is 8 bytes. */
static enum nccl_result move(struct comm *comm, struct request *request, uint8_t *bytes, uint64_t length)
{
    struct pollfd end = {.fd = comm->fd, .events = POLLRDHUP};
    ssize_t moved;

    if (breaks("farewell") && !comm->sends && poll(&end, 1, 0) > 0)
        return fail(NCCL_REMOTE_ERROR, "the other side has closed, whatever it has sent");
    moved = comm->sends ? send(comm->fd, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT)
                        : recv(comm->fd, bytes, length, MSG_DONTWAIT);

    if (moved < 0 && (errno == EAGAIN || errno == EINTR))
        return NCCL_SUCCESS;
    if (moved <= 0)
        return breaks("death") ? NCCL_SUCCESS : fail(NCCL_REMOTE_ERROR, "the other side has closed");
    request->moved += (uint64_t)moved;
    return NCCL_SUCCESS;
}

static enum nccl_result step(struct comm *comm, struct request *request)
{
    enum nccl_result result = NCCL_SUCCESS;
    uint64_t head = sizeof(request->length), before;

    do {
        before = request->moved;
        if (request->moved < head)
            result = move(comm, request, (uint8_t *)&request->length + request->moved, head - request->moved);
        if (result || request->moved < head)
            continue;
        if (request->length > request->bytes && breaks("truncated"))
            request->length = request->bytes;
        if (request->length > request->bytes && !breaks("too-long"))
            return fail(NCCL_INVALID_USAGE, "a message is longer than its receive");
        if (request->moved - head < request->length)
            result = move(comm, request, request->data + (request->moved - head),
                          request->length - (request->moved - head));
    } while (!result && request->moved != before);
    request->done = request->moved >= head && request->moved - head == request->length;
    return result;
}

static void progress(struct comm *comm)
{
    while (comm->ended < comm->begun && !comm->error) {
        struct request *request = &comm->requests[comm->ended % NCCL_REQUESTS_MAX];

        comm->error = step(comm, request);
        if (!request->done)
            return;
        comm->ended++;
    }
}

static enum nccl_result post(struct comm *comm, void *data, size_t bytes, void **out)
{
    struct request *request = &comm->requests[comm->begun % NCCL_REQUESTS_MAX];

    *out = NULL;
    if ((breaks("given-up") || breaks("one-of-two")) && given_up)
        return fail(NCCL_INTERNAL_ERROR, "a communicator was given up");
    if (breaks("deep") && comm->begun - comm->ended >= 16)
        return fail(NCCL_INTERNAL_ERROR, "16 requests are in flight");
    if (breaks("early") && !comm->sends && recv(comm->fd, data, 1, MSG_PEEK | MSG_DONTWAIT) == 1)
        return fail(NCCL_INTERNAL_ERROR, "a message is there that nobody has posted a receive for");
    if (request->used && !breaks("too-many"))
        return fail(NCCL_INTERNAL_ERROR, "32 requests are in flight");
    *request = (struct request){.comm = comm, .data = data, .bytes = bytes, .length = bytes, .used = true};
    comm->begun++;
    progress(comm);
    *out = request;
    return NCCL_SUCCESS;
}

/* All but the first connection wait for it. */
static bool is_only(void *comm)
{
    only = only ? only : comm;
    return only == comm;
}

/* Some messages are changed on their way. */
static enum nccl_result post_changed(struct comm *comm, void *data, size_t bytes, void **out)
{
    uint8_t *copy = data;

    if (bytes > 16 && comm->begun % 50 == 49)
        copy[bytes / 2] ^= 1;
    return post(comm, data, bytes, out);
}

static enum nccl_result isend(void *number, void *data, size_t bytes, int tag, void *memory, void *parent,
                              void **request)
{
    (void)tag, (void)memory, (void)parent;
    sender = pthread_self();
    sent = true;
    if (breaks("communicators") && finalized)
        return fail(NCCL_INTERNAL_ERROR, "the plugin is finalized");
    if (breaks("independent") && !is_only(number))
        return NCCL_SUCCESS;
    if (breaks("order"))
        return post_changed(number, data, bytes, request);
    if (breaks("long") && bytes > 1 << 20)
        bytes = 1 << 20;
    if (breaks("empty") && bytes == 0)
        bytes = 1;
    return post(number, data, bytes, request);
}

static enum nccl_result irecv(void *number, int count, void **data, size_t *bytes, int *tags, void **memories,
                              void **parents, void **request)
{
    enum nccl_result result;
    bool hinted = *request == NCCL_OPTIONAL_COMPLETION;

    (void)tags, (void)memories, (void)parents;
    if (count != 1)
        return fail(NCCL_INVALID_ARGUMENT, "one buffer at a time");
    result = post(number, data[0], bytes[0], request);
    if (hinted && breaks("optional"))
        *request = NCCL_OPTIONAL_COMPLETION;
    return result;
}

static enum nccl_result iflush(void *comm, int count, void **data, int *bytes, void **memories,
                               void **request)
{
    (void)comm, (void)count, (void)data, (void)bytes, (void)memories;
    *request = NULL;
    return NCCL_SUCCESS;
}

static enum nccl_result test(void *number, int *done, int *bytes)
{
    struct request *request = number;
    struct comm *comm = request->comm;

    *done = 0;
    if (!request->used && !breaks("twice"))
        return fail(NCCL_INVALID_USAGE, "the request is over");
    progress(comm);
    if (breaks("patient") && !comm->sends)
        request->done = true;
    if (!request->done)
        return comm->error;
    *done = 1;
    if (bytes)
        *bytes = (int)request->length;
    request->used = false;
    return NCCL_SUCCESS;
}

static enum nccl_result finalize(void *context)
{
    finalized = true;
    if (breaks("unclosed"))
        return fail(NCCL_INTERNAL_ERROR, "connections are open");
    return context ? NCCL_SUCCESS : NCCL_INVALID_ARGUMENT;
}

#define SLOTS                                                                                         \
    .name = "loopback", .devices = devices, .accept = accept_one, .register_memory = register_memory, \
    .deregister = deregister, .isend = isend, .irecv = irecv, .iflush = iflush, .test = test,         \
    .close_send = close_comm, .close_recv = close_comm, .close_listen = close_listen

EXPORTED extern struct nccl_net_v10 ncclNetPlugin_v10;
EXPORTED extern struct nccl_net_v11 ncclNetPlugin_v11;
EXPORTED extern struct nccl_net_v12 ncclNetPlugin_v12;

struct nccl_net_v10 ncclNetPlugin_v10 = {SLOTS, .init = init_v10, .properties = properties_v10,
                                         .listen = listen_v10, .connect = connect_v10};
struct nccl_net_v11 ncclNetPlugin_v11 = {SLOTS,
                                         .init = init,
                                         .properties = properties_v11,
                                         .listen = listen_in,
                                         .connect = connect_in,
                                         .finalize = finalize};
struct nccl_net_v12 ncclNetPlugin_v12 = {SLOTS,
                                         .init = init,
                                         .properties = properties_v12,
                                         .listen = listen_in,
                                         .connect = connect_in,
                                         .finalize = finalize};

__attribute__((constructor)) static void break_table(void)
{
    if (breaks("table"))
        ncclNetPlugin_v12.iflush = NULL;
}
