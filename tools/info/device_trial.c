/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/device_trial.c - see device_trial.h. */
#include "tools/info/device_trial.h"
#include "cuda_ipc/export.h"
#include "cuda_ipc/import.h"
#include "shm/log.h"
#include "tools/info/device_memory.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { OTHER_SECONDS = 60, ANSWER_MS = 20000, READY_MS = 10000, PATHS_MOST = 1 << 14 };

/* What the other process is asked, with at most one descriptor: to map it on this device and give it up again. */
struct request {
    int32_t device;
    uint32_t bytes; /* of the record */
    uint64_t number;
    unsigned char record[sizeof(struct nigh_cuda_wire) + sizeof(struct nigh_cuda_wire_segment)];
};
struct answer {
    int32_t result; /* 0, or a negative errno */
    uint32_t why;   /* enum nigh_cuda_reason */
};

static const struct nigh_log_sink quiet = {.level = NIGH_LOG_ERROR};
static const enum nigh_device_memory kinds[] = {NIGH_DEVICE_PLAIN, NIGH_DEVICE_MAPPED, NIGH_DEVICE_POOLED};
enum { KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static int64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static int fail(struct info_trial *trial, const char *what, const char *why)
{
    snprintf(trial->problem, sizeof(trial->problem), "%s%s%s", what, *what ? ": " : "", why);
    return -1;
}

/* ---- the module ---------------------------------------------------------------------------------------- */

/* An error of the module's is why the trial fails. */
static void keep(void *data, int level, const char *text)
{
    struct info_trial *trial = data;

    if (level == 0)
        snprintf(trial->problem, sizeof(trial->problem), "%s", text);
}

/* Opens, and asks for devices, so that the other side hears of them. */
static int open_module(struct info_trial *trial, uint32_t rank)
{
    struct nigh_open options = {
        .size = sizeof(options), .job = trial->job, .rank = rank, .ranks = 2, .log = keep, .log_data = trial};
    struct nigh_query_device device;
    uint64_t bytes = sizeof(device);
    int rc = trial->ops->open(&options, &trial->context);

    if (!rc)
        rc = trial->ops->query(trial->context, NULL, NIGH_QUERY_DEVICES, &device, &bytes);
    if (rc && !trial->problem[0])
        fail(trial, "the module", strerror(-rc));
    return rc ? -1 : 0;
}

static uint32_t state_of(const struct info_trial *trial)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    trial->ops->query(trial->context, trial->peer, NIGH_QUERY_ENDPOINT, &facts, &bytes);
    return facts.state;
}

static int connect_module(struct info_trial *trial)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = 1, .source = NIGH_SOURCE_NONE};
    int64_t end = now_ms() + READY_MS;
    int rc = trial->ops->connect(trial->context, &to, &trial->peer);

    while (!rc && state_of(trial) == NIGH_CONNECTING && now_ms() < end) {
        trial->ops->poll_completions(trial->context, NULL, 0);
        trial->ops->wait(trial->context, 1000000);
    }
    return !rc && state_of(trial) == NIGH_READY
               ? 0
               : fail(trial, "the module", "the two processes do not connect");
}

/* ---- the other process --------------------------------------------------------------------------------- */

static int start_driver(struct info_trial *trial)
{
    static const struct nigh_cuda_options options = {.log = &quiet};
    const char *why = "there is no memory";

    nigh_log_use(&quiet);
    trial->none = nigh_cuda_open(&options, &trial->cuda, &why) == -ENOTSUP;
    return trial->cuda ? 0 : fail(trial, "", why);
}

static int receive(int socket, struct request *request, int *fd)
{
    char control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {request, sizeof(*request)};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    const struct cmsghdr *header;

    *fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != sizeof(*request))
        return -1;
    header = CMSG_FIRSTHDR(&message);
    if (header && header->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(header), sizeof(*fd));
    return 0;
}

/* Until older mappings of the same memory are closed, and until this one is. */
static void map(struct nigh_cuda *cuda, struct nigh_cuda_peer *peer, struct request *request, int fd,
                struct answer *answer)
{
    enum nigh_cuda_reason why = NIGH_CUDA_WHY_NONE;
    struct nigh_cuda_mapping *mapping;
    struct nigh_cuda_context *context;
    int64_t end = now_ms() + ANSWER_MS / 2;

    answer->result = nigh_cuda_context_find(cuda, NULL, request->device, &context);
    if (answer->result && fd >= 0)
        close(fd);
    if (!answer->result)
        answer->result = nigh_cuda_import(peer, context, request->number, request->record, request->bytes,
                                          &fd, fd >= 0 ? 1 : 0, &mapping, &why);
    answer->why = why;
    if (answer->result)
        return;
    nigh_cuda_import_put(mapping);
    while (nigh_cuda_import_drop(peer, request->number) == -EBUSY && now_ms() < end)
        usleep(1000);
}

_Noreturn static void be_the_other(struct info_trial *trial, int socket)
{
    struct nigh_cuda_peer *peer = NULL;
    struct answer answer = {.result = 0};
    struct request request;
    int fd;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(OTHER_SECONDS);
    if (start_driver(trial) || open_module(trial, 1) ||
        nigh_cuda_peer_open(trial->cuda, false, NIGH_CUDA_IDLE_MAX, &peer))
        _exit(1);
    while (write(socket, &answer, sizeof(answer)) == sizeof(answer)) {
        struct pollfd ready = {.fd = socket, .events = POLLIN};

        while (poll(&ready, 1, 1) == 0) /* it answers to the first one's greeting meanwhile */
            trial->ops->poll_completions(trial->context, NULL, 0);
        if (receive(socket, &request, &fd))
            break;
        map(trial->cuda, peer, &request, fd, &answer);
    }
    _exit(0);
}

static int hear(const struct info_trial *trial, struct answer *answer)
{
    struct pollfd ready = {.fd = trial->socket, .events = POLLIN};

    return poll(&ready, 1, ANSWER_MS) == 1 && read(trial->socket, answer, sizeof(*answer)) == sizeof(*answer)
               ? 0
               : -1;
}

/* ---- this process -------------------------------------------------------------------------------------- */

int info_trial_open(const struct info_plugin *plugin, struct info_trial *trial)
{
    struct answer ready;
    int ends[2];

    *trial = (struct info_trial){.ops = plugin->ops, .socket = -1};
    if (getrandom(&trial->job, sizeof(trial->job), 0) != sizeof(trial->job) ||
        socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
        return fail(trial, "socketpair", strerror(errno));
    trial->job |= 1;
    trial->other = fork();
    if (trial->other == 0) {
        close(ends[0]);
        be_the_other(trial, ends[1]);
    }
    close(ends[1]);
    trial->socket = ends[0];
    if (trial->other < 0)
        return fail(trial, "fork", strerror(errno));
    if (start_driver(trial) || open_module(trial, 0))
        return -1;
    if (hear(trial, &ready))
        return fail(trial, "", "the second process has ended before it had started the driver");
    return connect_module(trial);
}

void info_trial_end(struct info_trial *trial)
{
    if (trial->other > 0) {
        kill(trial->other, SIGKILL);
        waitpid(trial->other, NULL, 0);
    }
    if (trial->socket >= 0)
        close(trial->socket);
}

struct offer {
    struct info_device_memory memory;
    struct nigh_cuda_export *export;
};

/* Makes such memory and exports it. -1: *why says what failed. */
static int offer(struct info_trial *trial, int device, enum nigh_device_memory kind, struct offer *out,
                 const char **why)
{
    struct nigh_cuda_memory *seen = NULL;

    if (info_device_memory_make(trial->cuda, device, kind, &out->memory, why))
        return -1;
    *why = "the driver fails when it is asked what the memory is";
    if (nigh_cuda_look(trial->cuda, (const void *)(uintptr_t)out->memory.at, out->memory.bytes, &seen) ||
        !seen || nigh_cuda_export_get(trial->cuda, seen, &out->export)) {
        free(seen);
        info_device_memory_free(&out->memory);
        return -1;
    }
    free(seen);
    return 0;
}

static void withdraw(struct offer *offer)
{
    nigh_cuda_export_put(offer->export);
    info_device_memory_free(&offer->memory);
}

json_t *info_trial_handles(struct info_trial *trial, int device)
{
    json_t *handles = json_array();

    for (unsigned i = 0; i < KINDS; i++) {
        const char *name = info_device_memory_name(kinds[i]), *why = NULL;
        struct offer made;
        const struct nigh_cuda_wire *wire;

        if (offer(trial, device, kinds[i], &made, &why)) {
            json_array_append_new(handles, json_pack("{ss sn ss}", "memory", name, "handle", "reason", why));
            continue;
        }
        wire = made.export->wire;
        json_array_append_new(
            handles, json_pack("{ss ss? ss}", "memory", name, "handle",
                               wire->way ? nigh_cuda_way_name((enum nigh_cuda_way)wire->way) : NULL, "reason",
                               wire->way ? "" : nigh_cuda_reason_text((enum nigh_cuda_reason)wire->reason)));
        withdraw(&made);
    }
    return handles;
}

/* Asks the other process to map it. NULL: it does; else why not. */
static const char *hand_over(struct info_trial *trial, struct nigh_cuda_export *export, int device)
{
    struct request request = {.device = device, .bytes = (uint32_t) export->bytes, .number = export->number};
    char control[CMSG_SPACE(sizeof(int))] = {0};
    struct iovec part = {&request, sizeof(request)};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    struct answer answer;
    struct cmsghdr *header;
    int fd = -1;

    if (export->bytes > sizeof(request.record) || nigh_cuda_export_open(export, &fd))
        return "its descriptor cannot be made";
    memcpy(request.record, export->wire, export->bytes);
    if (nigh_cuda_record_fds(export->wire)) {
        message.msg_control = control;
        message.msg_controllen = sizeof(control);
        header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(fd));
        memcpy(CMSG_DATA(header), &fd, sizeof(fd));
    }
    answer.result = sendmsg(trial->socket, &message, MSG_NOSIGNAL) == sizeof(request) ? 0 : -EPIPE;
    if (fd >= 0)
        close(fd);
    if (answer.result || hear(trial, &answer))
        return "the second process has ended when it tried";
    if (answer.result == -ENOTSUP)
        return nigh_cuda_reason_text((enum nigh_cuda_reason)answer.why);
    return answer.result ? "the second process could not map it" : NULL;
}

/* What the module says of its own copies. */
static const struct nigh_query_device_path *said_of(const struct nigh_query_device_path *said, uint64_t count,
                                                    int from, int to, enum nigh_device_memory kind)
{
    for (uint64_t i = 0; i < count; i++)
        if (said[i].from == (uint32_t)from && said[i].to == (uint32_t)to && said[i].memory == kind)
            return &said[i];
    return NULL;
}

static json_t *path(struct info_trial *trial, const struct offer *made, const char *why, int from, int to,
                    const struct nigh_query_device_path *said)
{
    enum nigh_cuda_way way = made ? (enum nigh_cuda_way)made->export->wire->way : NIGH_CUDA_STAGED;

    if (made && !way)
        why = nigh_cuda_reason_text((enum nigh_cuda_reason)made->export->wire->reason);
    else if (made)
        why = hand_over(trial, made->export, to);
    return json_pack("{si si ss? ss ss? ss?}", "from", from, "to", to, "handle",
                     why ? NULL : nigh_cuda_way_name(way), "reason", why ? why : "", "messages",
                     said ? said->path : NULL, "messages_reason",
                     !said          ? NULL
                     : said->reason ? said->text
                                    : "");
}

json_t *info_trial_paths(struct info_trial *trial)
{
    struct nigh_query_device_path *said = calloc(PATHS_MOST, sizeof(*said));
    uint64_t bytes = PATHS_MOST * sizeof(*said), count = 0;
    int devices = trial->cuda->driver->devices;
    json_t *paths = json_array(), *row;

    if (said && trial->ops->query(trial->context, trial->peer, NIGH_QUERY_DEVICE_PATHS, said, &bytes) == 0)
        count = bytes / sizeof(*said);
    for (int from = 0; from < devices; from++)
        for (unsigned i = 0; i < KINDS; i++) {
            const char *why = NULL;
            struct offer made;
            int rc = offer(trial, from, kinds[i], &made, &why);

            for (int to = 0; to < devices; to++) {
                row = path(trial, rc ? NULL : &made, why, from, to, said_of(said, count, from, to, kinds[i]));
                json_object_set_new(row, "memory", json_string(info_device_memory_name(kinds[i])));
                json_array_append_new(paths, row);
            }
            if (!rc)
                withdraw(&made);
        }
    free(said);
    return paths;
}
