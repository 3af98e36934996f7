/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/attach.c - an endpoint meets its peer: what the rendezvous tells of greetings, attaches and
 * ends, and mapping what the peer shares. */
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/device_peer.h"
#include "plugin/progress.h"
#include "plugin/send.h"
#include "plugin/shuttle.h"
#include "shm/clock.h"
#include "shm/rendezvous.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- mapping ------------------------------------------------------------------------------------------- */

static void link_words(struct nigh_endpoint *endpoint)
{
    const struct nigh_view *view = &endpoint->view;
    const struct nigh_arena_state *state = (const void *)(view->base + NIGH_PAGE);
    const struct nigh_pair *theirs = (const void *)(view->base + view->layout.pairs_off +
                                                    endpoint->their_index * sizeof(struct nigh_pair));

    endpoint->peer_asleep = &state->asleep;
    endpoint->peer_cold = &theirs->cold;
    endpoint->peer_crammed = &theirs->crammed;
    endpoint->peer_closed = &theirs->closed;
    endpoint->peer_life = &theirs->life;
    endpoint->peer_ended = &theirs->ended;
    endpoint->peer_reading = &theirs->reading;
    endpoint->peer_asks = &theirs->asks;
    endpoint->peer_maps = &theirs->maps;
    endpoint->peer_offered = theirs->offered;
    endpoint->peer_helped = theirs->helped;
    endpoint->peer_read_cost = theirs->read_cost;
    endpoint->peer_open = nigh_load_relaxed(&theirs->closed) & ~1u;
    endpoint->ring_word = &theirs->ring;
    endpoint->tx.credit = &theirs->consumed;
    endpoint->light = nigh_bell_light_to(&view->layout);
    endpoint->attached = true;
    endpoint->state = NIGH_READY;
    nigh_endpoint_settle(endpoint);
    nigh_progress_admit(endpoint);
    if (endpoint->queue.head)
        nigh_progress_busy(endpoint);
}

void nigh_endpoint_attach_self(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    endpoint->self = true;
    endpoint->their_index = endpoint->index;
    endpoint->pid = getpid();
    endpoint->view.base = context->arena.base;
    endpoint->view.bytes = context->arena.bytes;
    endpoint->view.layout = context->arena.layout;
    endpoint->bell = context->bell;
    endpoint->bell.fd = -1;
    endpoint->theirs = endpoint->window;
    endpoint->theirs.fd = -1;
    link_words(endpoint);
    nigh_plan_probe(endpoint);
}

/* Between two times that all processes are asked for. */
#define ASK_NS UINT64_C(100000000)

static void close_attach(const struct nigh_attach *attach)
{
    close(attach->arena_fd);
    close(attach->doorbell_fd);
    close(attach->window_fd);
}

/* Of an address space of 47 bits, for all peers, as all heaps have another one: each program's may be half of memory. */
#define ADDRESSES (UINT64_C(1) << 45)

/* Where its private memory may be read, its program's is, if it can be mapped, without asking the kernel. Without that nothing
 * is lost but speed. */
static void map_program(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;
    int rc;

    if (nigh_load_relaxed(&endpoint->pair->reading) != 1)
        return;
    rc = nigh_program_map(endpoint->pid, &endpoint->view.layout, ADDRESSES / context->config.ranks,
                          &endpoint->program);
    /* Relaxed, as `reading`. */
    nigh_store_relaxed(&endpoint->pair->maps, endpoint->program.base != NULL);
    if (!rc)
        return;
    nigh_log_use(&context->log);
    nigh_log(NIGH_LOG_INFO,
             "rank %u: the program's memory of rank %d is read by process_vm_readv, for mapping it fails: %s",
             context->config.rank, (int)endpoint->rank, strerror(-rc));
}

static int attach_peer(struct nigh_endpoint *endpoint, const struct nigh_attach *attach, uint64_t *stumble)
{
    int rc;

    endpoint->pid = attach->pid; /* first: who is refused is named */
    rc = nigh_view_map(attach->arena_fd, attach->hello.self.incarnation, &endpoint->view);
    if (rc) {
        *stumble = nigh_view_stumble(attach->arena_fd, rc);
        return rc;
    }
    if (attach->hello.index >= endpoint->view.layout.peers_max) {
        rc = -EPROTO;
        goto unmap;
    }
    rc = nigh_window_map(attach->window_fd, &endpoint->theirs);
    if (rc)
        goto unmap;
    rc = nigh_bell_map(attach->doorbell_fd, &endpoint->bell);
    if (rc)
        goto unmap_window;
    endpoint->their_index = attach->hello.index;
    endpoint->incarnation = attach->hello.self.incarnation;
    nigh_crowd_add(&endpoint->context->crowd, endpoint->pid);
    nigh_context_crowd(endpoint->context);
    nigh_shuttle_open(endpoint);
    /* Without it nothing is lost but speed. */
    endpoint->met = calloc(endpoint->view.layout.pool_bytes / NIGH_CHUNK / 64 + 1, sizeof(*endpoint->met));
    link_words(endpoint);
    nigh_plan_probe(endpoint);
    map_program(endpoint);
    nigh_lookouts_watch(endpoint->context->lookouts, endpoint->peer_life);
    return 0;

unmap_window:
    nigh_window_unmap(&endpoint->theirs);
unmap:
    nigh_view_unmap(&endpoint->view);
    return rc;
}

/* ---- events of the rendezvous -------------------------------------------------------------------------- */

/* What it sent before is received yet. */
static void peer_left(struct nigh_endpoint *endpoint)
{
    nigh_arrive_rest(endpoint);
    nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
}

static int greeted(void *user, const struct nigh_hello *hello, uint32_t *index, int *window_fd, void **cookie)
{
    struct nigh_context *context = user;
    struct nigh_endpoint *endpoint;
    int rc;

    if (hello->self.incarnation == context->incarnation)
        return -EPROTO;
    endpoint = nigh_peers_find(&context->peers, &hello->self);
    /* The peer has a new number for us: what we have is a connection that it has left. */
    if (endpoint && endpoint->attached && (endpoint->their_index != hello->index || endpoint->self)) {
        peer_left(endpoint);
        endpoint = NULL;
    }
    /* The program has closed it: what has its number now is not for others. */
    if (endpoint && !nigh_window_is(&endpoint->window, endpoint->window.fd))
        return -ECONNREFUSED;
    if (!endpoint) {
        rc = nigh_endpoint_create(context, &hello->self, &endpoint);
        if (rc)
            return rc;
    }
    *index = endpoint->index;
    *window_fd = endpoint->window.fd;
    *cookie = endpoint;
    return 0;
}

/*
 * The second exchange of a pair that both sides have begun. That we have left meanwhile the peer sees in our flag, after what
 * we had sent: a refusal would end its endpoint before it has read that. With another window, though, the peer has left and
 * come again under the same number before we had looked, and what we have is what it left. Rare, as a greeting of one that
 * has hung up is not heard: it hung up between that look and ours at its memory.
 */
static int attached_already(struct nigh_endpoint *endpoint, const struct nigh_attach *attach)
{
    bool same = nigh_window_is(&endpoint->theirs, attach->window_fd);

    close_attach(attach);
    if (same || endpoint->gone || endpoint->state >= NIGH_PEER_CLOSED)
        return 0;
    peer_left(endpoint);
    return -EAGAIN;
}

/* No connection comes of it. Told where it is decided: here. */
static void refused(const struct nigh_context *context, struct nigh_endpoint *endpoint,
                    const struct nigh_end *end)
{
    uint64_t job = endpoint->job == context->config.meeting ? context->config.job : endpoint->job;
    char text[NIGH_END_BYTES];

    if (endpoint->state >= NIGH_PEER_CLOSED)
        return;
    nigh_end_set(endpoint, end);
    nigh_end_text(endpoint, text);
    nigh_log(NIGH_LOG_WARN, "rank %u: cannot connect to rank %d of job %llx: %s", context->config.rank,
             (int)endpoint->rank, (unsigned long long)job, text);
}

/* Ours is the fault, or nobody's, unless its memory is not sound. */
static int attach_failed(struct nigh_endpoint *endpoint, const struct nigh_attach *attach, int rc,
                         uint64_t stumble)
{
    struct nigh_end end = {.error = rc, .pid = attach->pid, .value = stumble};

    if (rc == -EPROTONOSUPPORT) {
        end.reason = NIGH_REASON_LAYOUT;
        nigh_end_set(endpoint, &end);
        nigh_endpoint_fail(endpoint, NIGH_BROKEN, -EPROTO, "its shared memory is of another version");
        return rc;
    }
    if (rc == -EPROTO) {
        nigh_endpoint_fail(endpoint, NIGH_BROKEN, rc, "its shared memory is not sound");
        return rc;
    }
    end.reason = rc == -EMFILE ? NIGH_REASON_DESCRIPTORS : NIGH_REASON_MEMORY;
    refused(endpoint->context, endpoint, &end);
    nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
    return rc;
}

static int attached(void *user, void *cookie, const struct nigh_attach *attach)
{
    const struct nigh_context *context = user;
    struct nigh_endpoint *endpoint = cookie;
    uint64_t stumble = 0;
    int rc = 0;

    if (endpoint->attached)
        return attached_already(endpoint, attach);
    if (endpoint->gone || endpoint->state >= NIGH_PEER_CLOSED) {
        close_attach(attach);
        return -ECANCELED;
    }
    /* One of the two has left since: what lies there was read, and would be once more. */
    if (nigh_peers_reads(&context->peers, &attach->hello.self, attach->window_fd)) {
        close_attach(attach);
        /* An old greeting, of which a dial of this endpoint's own knows nothing. */
        if (!nigh_rendezvous_dials(context->rendezvous, endpoint))
            nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
        return -ECONNREFUSED;
    }
    rc = attach_peer(endpoint, attach, &stumble);
    close_attach(attach);
    if (!rc) {
        /* Now, whoever has looked: what was published before is done with, also where the peer has read it and left, and
         * what is posted next goes straight to the ring. */
        nigh_send_progress(endpoint);
        return 0;
    }
    return attach_failed(endpoint, attach, rc, stumble);
}

static void failed(void *user, void *cookie, const struct nigh_refusal *why)
{
    struct nigh_endpoint *endpoint = cookie;
    struct nigh_context *context = user;
    struct nigh_end end = nigh_end_of(why);

    if (!endpoint->attached || why->cause != NIGH_CAUSE_GONE)
        refused(context, endpoint, &end);
    /* One that was attached has left: no more than what a goodbye tells. */
    endpoint->dead = true;
    nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
}

void nigh_endpoint_lost(struct nigh_endpoint *endpoint)
{
    if (endpoint->attached && !endpoint->gone)
        nigh_arrive_rest(endpoint);
    /* It said goodbye before it ended, and we had not looked yet: no death that anybody waits to hear of. */
    if (endpoint->attached && nigh_endpoint_left(endpoint))
        nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
    else if (!endpoint->gone)
        nigh_endpoint_fail(endpoint, NIGH_PEER_DEAD, -ECONNRESET, NULL);
}

/* The kernel has given back all that the process had: it reads and writes nothing any more. */
static void died(void *user, void *cookie)
{
    struct nigh_endpoint *endpoint = cookie;

    (void)user;
    endpoint->dead = true;
    nigh_endpoint_lost(endpoint);
    if (endpoint->gone || endpoint->state == NIGH_PEER_CLOSED)
        endpoint->state = NIGH_PEER_DEAD;
    nigh_endpoint_reclaim(endpoint);
    if (!endpoint->gone)
        nigh_progress_busy(endpoint);
}

static void brought(void *user, const struct nigh_identity *from, int pid, const struct nigh_parcel *parcel)
{
    nigh_device_peer_brought(user, from, pid, parcel);
}

bool nigh_endpoint_ask_all(struct nigh_context *context)
{
    uint64_t now = nigh_clock_ns();
    bool moved = false;

    if (now - context->asked_ns < ASK_NS)
        return false;
    context->asked_ns = now;
    for (struct nigh_endpoint *endpoint = context->all; endpoint; endpoint = endpoint->next_all) {
        if (!endpoint->attached || endpoint->self || endpoint->dead || !nigh_endpoint_ended(endpoint))
            continue;
        died(context, endpoint);
        moved = true;
    }
    return moved;
}

const struct nigh_rendezvous_events nigh_endpoint_events = {greeted, attached, failed, died, brought};
