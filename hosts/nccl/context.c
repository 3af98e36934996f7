/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/context.c - see context.h. */
#include "hosts/nccl/context.h"
#include "hosts/load.h"
#include "hosts/nccl/comm.h"
#include "hosts/nccl/entry.h"
#include "hosts/nccl/log.h"
#include "hosts/nccl/request.h"
#include "hosts/nccl/table.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define BATCH      32u
#define PEERS_MAX  4096u
#define HEAP_BYTES (64u << 10)                  /* the least: NCCL's buffers are its own */
#define MAGIC      UINT64_C(0x31306c63636e6967) /* of control messages */

static const struct nigh_ops *loaded;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* nigh's contexts are the parent's, and a thread of that may have held any lock. */
static void in_child(void)
{
    nigh_nccl_table_forked();
    nigh_nccl_shared_forked();
}

static void load(void)
{
    char why[PATH_MAX + 256] = "no memory to watch for forks";

    loaded = pthread_atfork(NULL, NULL, in_child) ? NULL : nigh_host_load(why, sizeof(why));
    if (!loaded)
        nigh_nccl_warn("not used: %s", why);
}

const struct nigh_ops *nigh_nccl_nigh(void)
{
    pthread_once(&once, load);
    return loaded;
}

/* ---- control messages ---------------------------------------------------------------------------------------- */

void nigh_nccl_name(char *name, size_t room)
{
    char host[20] = "";

    (void)gethostname(host, sizeof(host) - 1); /* the beginning of a long one */
    snprintf(name, room, "%s:%d", host, (int)getpid());
}

int nigh_nccl_control_send(struct nigh_nccl_context *context, struct nigh_endpoint *endpoint,
                           enum nigh_nccl_word word, uint64_t listener, uint64_t connection, uint64_t count)
{
    struct nigh_nccl_control control = {
        .magic = MAGIC,
        .word = word,
        .from = context->id,
        .listener = listener,
        .connection = connection,
        .count = count,
        .address = context->address,
    };
    struct nigh_send send = {
        .size = sizeof(send),
        .flags = NIGH_INJECT | NIGH_SILENT,
        .buffer = &control,
        .bytes = sizeof(control),
        .tclass = NIGH_NCCL_CONTROL,
    };

    nigh_nccl_name(control.name, sizeof(control.name));
    return loaded->post_send(endpoint, &send);
}

static int control_post(struct nigh_nccl_context *context, struct nigh_nccl_control *control)
{
    struct nigh_recv recv = {
        .size = sizeof(recv),
        .buffer = control,
        .bytes = sizeof(*control),
        .ignore = NIGH_IGNORE_ALL,
        .context = (uintptr_t)control,
        .tclass = NIGH_NCCL_CONTROL,
    };

    return loaded->post_recv(context->nigh, NULL, &recv);
}

/* Peers are of the same user; what one of another release says is said to the log. */
static void control_come(struct nigh_nccl_context *context, const struct nigh_completion *done)
{
    struct nigh_nccl_control *slot = (void *)(uintptr_t)done->context, said = *slot;

    if (!done->status && done->bytes == sizeof(said) && said.magic == MAGIC) {
        said.name[sizeof(said.name) - 1] = '\0';
        nigh_nccl_control_take(context, &said, done->endpoint);
    } else if (!done->status || done->status == -EMSGSIZE) {
        nigh_nccl_warn("a process of this user has sent %llu bytes that are no message of this plugin's: use "
                       "one release of it on the whole machine",
                       (unsigned long long)done->bytes);
    }
    if (!context->broken && control_post(context, slot)) {
        context->broken = true;
        nigh_nccl_warn("no memory to hear of other connections: they will not be accepted");
    }
}

/* ---- progress ------------------------------------------------------------------------------------------------- */

static void file(const struct nigh_completion *done)
{
    if (done->context && (done->op == NIGH_OP_SEND || done->op == NIGH_OP_RECV))
        nigh_nccl_request_ended((void *)(uintptr_t)done->context, done->status, done->bytes);
}

/* Control messages are kept, as answers to them would end what was taken. */
static void sort(const struct nigh_completion *done, struct nigh_completion *kept, uint32_t *keeps)
{
    if (NIGH_DONE_CLASS(done->flags) != NIGH_NCCL_CONTROL)
        file(done);
    else if (done->op == NIGH_OP_RECV)
        kept[(*keeps)++] = *done;
}

/* Where NIGH_THREADS=multiple has made the context one of several threads, which cannot hand out its own memory. */
static uint32_t take_copies(struct nigh_nccl_context *context, struct nigh_completion *kept, uint32_t *keeps)
{
    struct nigh_completion done[BATCH];
    int count = loaded->poll_completions(context->nigh, done, BATCH);

    for (int i = 0; i < count; i++)
        sort(&done[i], kept, keeps);
    return count > 0 ? (uint32_t)count : 0;
}

/* Files a batch. */
static uint32_t take(struct nigh_nccl_context *context, struct nigh_completion *kept, uint32_t *keeps)
{
    struct nigh_taken taken = {.size = sizeof(taken)};
    int count = loaded->take_completions(context->nigh, &taken, BATCH);

    if (count == -ENOTSUP)
        return take_copies(context, kept, keeps);
    if (count <= 0)
        return 0;
    for (uint32_t i = 0; i < taken.sent_count; i++)
        if (taken.sent[i].context)
            nigh_nccl_request_ended((void *)(uintptr_t)taken.sent[i].context, 0, taken.sent[i].bytes);
    for (uint32_t i = 0; i < taken.done_count; i++)
        sort(&taken.done[i], kept, keeps);
    return (uint32_t)count;
}

void nigh_nccl_context_poll(struct nigh_nccl_context *context)
{
    struct nigh_completion kept[BATCH];
    uint32_t keeps, count;

    do {
        keeps = 0;
        count = take(context, kept, &keeps);
        for (uint32_t i = 0; i < keeps; i++)
            control_come(context, &kept[i]);
        nigh_nccl_aborts_take(context);
    } while (count == BATCH);
}

/* ---- peers ---------------------------------------------------------------------------------------------------- */

int nigh_nccl_peer_get(struct nigh_nccl_context *context, const struct nigh_address *address, uint64_t id,
                       const char *name, struct nigh_nccl_peer **out)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = NIGH_RANK_NONE, .address = address};
    struct nigh_nccl_peer *peer = context->peers;
    struct nigh_endpoint *endpoint;
    int rc = loaded->connect(context->nigh, &to, &endpoint);

    if (rc)
        return rc;
    while (peer && (peer->endpoint != endpoint || peer->severed))
        peer = peer->next;
    if (!peer) {
        peer = calloc(1, sizeof(*peer));
        if (!peer) {
            (void)loaded->disconnect(endpoint);
            return -ENOMEM;
        }
        peer->endpoint = endpoint;
        peer->id = id;
        snprintf(peer->name, sizeof(peer->name), "%s", name);
        peer->next = context->peers;
        context->peers = peer;
    }
    peer->uses++;
    *out = peer;
    return 0;
}

void nigh_nccl_peer_put(struct nigh_nccl_context *context, struct nigh_nccl_peer *peer)
{
    struct nigh_nccl_peer **at = &context->peers;

    if (!peer->severed)
        (void)loaded->disconnect(peer->endpoint);
    if (--peer->uses)
        return;
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    free(peer);
}

void nigh_nccl_peer_sever(struct nigh_nccl_peer *peer)
{
    if (peer->severed)
        return;
    peer->severed = true;
    for (uint32_t i = 0; i < peer->uses; i++)
        (void)loaded->disconnect(peer->endpoint);
}

int nigh_nccl_peer_state(struct nigh_nccl_context *context, const struct nigh_nccl_peer *peer, char *why,
                         size_t room)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    struct nigh_query_end end = {.size = sizeof(end)};
    uint64_t bytes = sizeof(facts);

    why[0] = '\0';
    if (peer->severed || loaded->query(context->nigh, peer->endpoint, NIGH_QUERY_ENDPOINT, &facts, &bytes))
        return NIGH_PEER_CLOSED;
    bytes = sizeof(end);
    if (facts.state > NIGH_READY &&
        loaded->query(context->nigh, peer->endpoint, NIGH_QUERY_END, &end, &bytes) == 0)
        snprintf(why, room, "%s", end.text);
    return (int)facts.state;
}

/* ---- begin and end -------------------------------------------------------------------------------------------- */

static int join(struct nigh_nccl_context *context)
{
    struct nigh_open options = {
        .size = sizeof(options),
        .ranks = 1, /* peers connect by address: each context is a job of its own */
        .peers_max = PEERS_MAX,
        .heap_bytes = HEAP_BYTES,
        .log = nigh_nccl_log_nigh,
    };
    const char *heard;
    int rc;

    while (!options.job)
        if (getrandom(&options.job, sizeof(options.job), 0) < 0)
            return -errno;
    context->id = options.job;
    nigh_nccl_hear();
    rc = loaded->open(&options, &context->nigh);
    heard = nigh_nccl_heard();
    if (rc)
        nigh_nccl_warn("not used: nigh's open fails: %s%s%s", strerror(-rc), *heard ? ": " : "", heard);
    else if (*heard)
        nigh_nccl_warn("%s", heard);
    return rc;
}

static int begin(struct nigh_nccl_context *context)
{
    int rc = loaded->address(context->nigh, &context->address);

    for (int i = 0; !rc && i < NIGH_NCCL_CONTROLS; i++)
        rc = control_post(context, &context->controls[i]);
    if (!rc) {
        context->number = nigh_nccl_table_add(NIGH_NCCL_CONTEXT, context);
        rc = context->number ? 0 : -ENOMEM;
    }
    if (rc)
        nigh_nccl_warn("not used: %s", strerror(-rc));
    return rc;
}

int nigh_nccl_context_open(struct nigh_nccl_context **out)
{
    struct nigh_nccl_context *context;
    int rc;

    if (!nigh_nccl_nigh())
        return -ENOENT;
    context = calloc(1, sizeof(*context));
    if (!context)
        return -ENOMEM;
    pthread_spin_init(&context->turn, PTHREAD_PROCESS_PRIVATE);
    rc = join(context);
    if (rc)
        goto no_context;
    rc = begin(context);
    if (rc)
        goto not_begun;
    *out = context;
    return 0;
not_begun:
    loaded->close(context->nigh);
no_context:
    pthread_spin_destroy(&context->turn);
    free(context);
    return rc;
}

void nigh_nccl_context_close(struct nigh_nccl_context *context)
{
    nigh_nccl_turn_wait(&context->turn);
    nigh_nccl_table_remove(context->number);
    while (context->listeners)
        nigh_nccl_listener_end(context->listeners);
    while (context->comms)
        nigh_nccl_comm_end(context->comms);
    loaded->close(context->nigh);
    nigh_nccl_turn_give(&context->turn);
    pthread_spin_destroy(&context->turn);
    free(context);
}

enum nccl_result nigh_nccl_context_of(const void *number, const char *call, struct nigh_nccl_context **out)
{
    *out = nigh_nccl_table_find(NIGH_NCCL_CONTEXT, number);
    return *out ? NCCL_SUCCESS
                : nigh_nccl_stale(call, number,
                                  "context that init() has returned and finalize() has not ended",
                                  NCCL_INVALID_ARGUMENT);
}
