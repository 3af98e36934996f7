/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/connect.c - the life of an endpoint from connect, or from a peer's greeting, to its memory's end. */
#include "plugin/arrive.h"
#include "plugin/context.h"
#include "plugin/count.h"
#include "plugin/large.h"
#include "plugin/progress.h"
#include "plugin/shuttle.h"
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- indices ------------------------------------------------------------------------------------------- */

static int take_index(struct nigh_context *context, uint32_t *index)
{
    if (context->index_free_count) {
        *index = context->index_free[--context->index_free_count];
        return 0;
    }
    if (context->index_next == context->config.peers_max) {
        nigh_log(NIGH_LOG_ERROR,
                 "no endpoint left: all %u of peers_max (NIGH_PEERS_MAX) are in use: disconnect some, or set "
                 "it higher (65536 at most)",
                 context->config.peers_max);
        return -ENOSPC;
    }
    *index = context->index_next++;
    return 0;
}

static void give_index(struct nigh_context *context, uint32_t index)
{
    context->by_index[index] = NULL;
    context->index_free[context->index_free_count++] = index;
}

/* ---- memory -------------------------------------------------------------------------------------------- */

/* The pair's lines may hold what the index' last peer left there. */
static void reset_pair(struct nigh_context *context, struct nigh_pair *pair, bool cold)
{
    /* Relaxed: nobody has been told of this index yet; the greeting is a system call. */
    nigh_store_relaxed(&pair->consumed, 0);
    for (unsigned i = 0; i < sizeof(pair->read_cost) / sizeof(pair->read_cost[0]); i++)
        nigh_store_relaxed(&pair->read_cost[i], 0);
    nigh_store_relaxed(&pair->ring, 0);
    nigh_store_relaxed(&pair->reading, 0);
    nigh_store_relaxed(&pair->offered, 0);
    nigh_store_relaxed(&pair->claimed, 0);
    nigh_store_relaxed(&pair->written, 0);
    nigh_store_relaxed(&pair->closed, (nigh_load_relaxed(&pair->closed) + 1) & ~1u);
    nigh_store_relaxed(&pair->cold, cold);
    if (cold)
        nigh_store_relaxed(&nigh_arena_state(&context->arena)->cold, 1);
}

static int create(struct nigh_context *context, const struct nigh_identity *who, struct nigh_endpoint **out)
{
    struct nigh_endpoint *endpoint =
        aligned_alloc(NIGH_LINE, (sizeof(*endpoint) + NIGH_LINE - 1) / NIGH_LINE * NIGH_LINE);
    int rc = -ENOMEM;

    if (!endpoint)
        return rc;
    memset(endpoint, 0, sizeof(*endpoint));
    rc = take_index(context, &endpoint->index);
    if (rc)
        goto free_memory;
    endpoint->pair = nigh_arena_pair(&context->arena, endpoint->index);
    if (!endpoint->pair) {
        rc = -ENOMEM;
        goto free_index;
    }
    rc = nigh_window_create(context->config.ring_slots, &endpoint->window);
    if (rc) {
        rc = rc == -EMFILE ? rc : -ENOMEM; /* memfd and seals were to be had when the context was opened */
        goto free_index;
    }
    reset_pair(context, endpoint->pair, context->hot_count == NIGH_HOT_MAX);
    endpoint->context = context;
    endpoint->state = NIGH_CONNECTING;
    endpoint->job = who->job;
    endpoint->rank = who->rank;
    endpoint->incarnation = who->incarnation;
    endpoint->source = who->job == context->config.meeting ? who->rank : NIGH_SOURCE_NONE;
    endpoint->queue.tail = &endpoint->queue.head;
    endpoint->flow.tail = &endpoint->flow.head;
    endpoint->waiting.tail = &endpoint->waiting.head;
    endpoint->rx.credit = &endpoint->pair->consumed;
    nigh_plan_open(endpoint);
    context->by_index[endpoint->index] = endpoint;
    endpoint->next_all = context->all;
    endpoint->link_all = &context->all;
    if (context->all)
        context->all->link_all = &endpoint->next_all;
    context->all = endpoint;
    nigh_peers_insert(&context->peers, endpoint);
    context->endpoint_count++;
    *out = endpoint;
    return 0;

free_index:
    give_index(context, endpoint->index);
free_memory:
    free(endpoint);
    return rc;
}

int nigh_endpoint_hold(struct nigh_endpoint *endpoint)
{
    if (!endpoint->held)
        endpoint->held = calloc(NIGH_CHUNKS_HELD_MAX, sizeof(*endpoint->held));
    return endpoint->held ? 0 : -ENOMEM;
}

void nigh_endpoint_free(struct nigh_endpoint *endpoint)
{
    struct nigh_context *context = endpoint->context;

    nigh_rendezvous_forget(context->rendezvous, endpoint);
    nigh_progress_forget(endpoint);
    nigh_large_reclaim(endpoint, true);
    nigh_share_reclaim(endpoint);
    *endpoint->link_all = endpoint->next_all;
    if (endpoint->next_all)
        endpoint->next_all->link_all = endpoint->link_all;
    nigh_peers_remove(endpoint);
    context->endpoint_count--;
    nigh_shuttle_close(endpoint);
    nigh_window_close(&endpoint->window, &context->arena); /* the peer may go on reading what it has mapped */
    nigh_count_tally(endpoint);
    free(endpoint->met);
    nigh_ids_destroy(&endpoint->out);
    nigh_ids_destroy(&endpoint->in);
    free(endpoint->held);
    if (endpoint->attached && !endpoint->self) {
        nigh_crowd_remove(&context->crowd);
        nigh_context_crowd(context);
        nigh_window_unmap(&endpoint->theirs);
        nigh_bell_close(&endpoint->bell);
        nigh_view_unmap(&endpoint->view);
    }
    give_index(context, endpoint->index);
    free(endpoint);
}

/* ---- attaching ----------------------------------------------------------------------------------------- */

static void link_words(struct nigh_endpoint *endpoint)
{
    const struct nigh_view *view = &endpoint->view;
    const struct nigh_arena_state *state = (const void *)(view->base + NIGH_PAGE);
    const struct nigh_pair *theirs = (const void *)(view->base + view->layout.pairs_off +
                                                    endpoint->their_index * sizeof(struct nigh_pair));

    endpoint->peer_asleep = &state->asleep;
    endpoint->peer_cold = &theirs->cold;
    endpoint->peer_closed = &theirs->closed;
    endpoint->peer_reading = &theirs->reading;
    endpoint->peer_offered = &theirs->offered;
    endpoint->peer_claimed = &theirs->claimed;
    endpoint->peer_written = &theirs->written;
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

static void attach_self(struct nigh_endpoint *endpoint)
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

static void close_attach(const struct nigh_attach *attach)
{
    close(attach->arena_fd);
    close(attach->doorbell_fd);
    close(attach->window_fd);
    if (attach->event_fd >= 0)
        close(attach->event_fd);
}

static int attach_peer(struct nigh_endpoint *endpoint, const struct nigh_attach *attach)
{
    int rc;

    endpoint->pid = attach->pid; /* first: who is refused is named */
    rc = nigh_view_map(attach->arena_fd, attach->hello.self.incarnation, &endpoint->view);
    if (rc)
        return rc;
    if (attach->hello.index >= endpoint->view.layout.peers_max) {
        rc = -EPROTO;
        goto unmap;
    }
    rc = nigh_window_map(attach->window_fd, &endpoint->theirs);
    if (rc)
        goto unmap;
    rc = nigh_bell_map(attach->doorbell_fd, attach->event_fd, &endpoint->bell);
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
    return 0;

unmap_window:
    nigh_window_unmap(&endpoint->theirs);
unmap:
    nigh_view_unmap(&endpoint->view);
    return rc;
}

/* ---- events of the rendezvous -------------------------------------------------------------------------- */

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
        nigh_arrive_rest(endpoint);
        nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
        endpoint = NULL;
    }
    if (!endpoint) {
        rc = create(context, &hello->self, &endpoint);
        if (rc)
            return rc;
    }
    *index = endpoint->index;
    *window_fd = endpoint->window.fd;
    *cookie = endpoint;
    return 0;
}

static int attached(void *user, void *cookie, const struct nigh_attach *attach)
{
    struct nigh_endpoint *endpoint = cookie;
    int rc = 0;

    (void)user;
    /* The second exchange of a pair that both sides have begun. That we have left meanwhile the peer sees in our flag,
     * after what we had sent: a refusal would end its endpoint before it has read that. */
    if (endpoint->attached) {
        close_attach(attach);
        return 0;
    }
    if (endpoint->gone || endpoint->state >= NIGH_PEER_CLOSED) {
        close_attach(attach);
        return -ECANCELED;
    }
    rc = attach_peer(endpoint, attach);
    close(attach->arena_fd);
    close(attach->doorbell_fd);
    close(attach->window_fd);
    if (!rc)
        return 0;
    if (attach->event_fd >= 0)
        close(attach->event_fd);
    if (rc == -EPROTO) {
        nigh_endpoint_fail(endpoint, NIGH_BROKEN, rc, "its shared memory is not sound");
    } else {
        /* Ours is the fault, not the peer's: what was refused and by which limit has been logged. */
        nigh_log(NIGH_LOG_WARN,
                 "rank %u: not connected to rank %d: its shared memory cannot be mapped (%s): raise the "
                 "limit that is named above, then connect again",
                 endpoint->context->config.rank, (int)endpoint->rank, strerror(-rc));
        nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
    }
    return rc;
}

static const char *advice(int error)
{
    switch (error) {
    case -ECONNREFUSED:
        return "the context that was addressed is closed: ask for its new address";
    case -EACCES:
        return "the processes of a job must be of one user";
    case -EMFILE:
        return "here or there no file descriptor is left: raise the limit (ulimit -n)";
    case -ENOMEM:
        return "here or there no memory is left";
    case -ENOSPC:
        return "it has as many peers as it may: set NIGH_PEERS_MAX higher there";
    default:
        return "all processes of a job must load the same nigh";
    }
}

static void failed(void *user, void *cookie, int error)
{
    struct nigh_endpoint *endpoint = cookie;
    struct nigh_context *context = user;

    nigh_log(NIGH_LOG_WARN, "rank %u: cannot connect to rank %d of job %llx: %s: %s", context->config.rank,
             (int)endpoint->rank, (unsigned long long)endpoint->job, strerror(-error), advice(error));
    endpoint->dead = true;
    nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
}

static void died(void *user, void *cookie)
{
    struct nigh_endpoint *endpoint = cookie;

    (void)user;
    endpoint->dead = true;
    if (endpoint->attached && !endpoint->gone)
        nigh_arrive_rest(endpoint);
    /* It said goodbye before it ended, and we had not looked yet: no death that anybody waits to hear of. */
    if (endpoint->attached && nigh_endpoint_left(endpoint))
        nigh_endpoint_fail(endpoint, NIGH_PEER_CLOSED, -ECONNRESET, NULL);
    if (endpoint->gone || endpoint->state == NIGH_PEER_CLOSED)
        endpoint->state = NIGH_PEER_DEAD;
    else
        nigh_endpoint_fail(endpoint, NIGH_PEER_DEAD, -ECONNRESET, NULL);
}

const struct nigh_rendezvous_events nigh_endpoint_events = {greeted, attached, failed, died};

/* ---- the host's calls ---------------------------------------------------------------------------------- */

int nigh_endpoint_check(const struct nigh_endpoint *endpoint)
{
    switch (endpoint->state) {
    case NIGH_CONNECTING:
    case NIGH_READY:
        return 0;
    case NIGH_BROKEN:
        return -EPROTO;
    default:
        return -ECONNRESET;
    }
}

static int refuse_address(struct nigh_context *context, int rc)
{
    const char *why =
        rc == -EBADMSG ? "these are no address of nigh's, or one of another version: all processes "
                         "load the same nigh.so and hand on what address() gives, all of it"
        : rc == -EACCES
            ? "it is of another user's process: a job has one user"
            : "it is of another machine or another boot of it, or (without NIGH_DIR) another network "
              "namespace: nigh connects the processes of one machine";

    return nigh_refuse(context, rc, "connect: the %u bytes of the address: %s", NIGH_ADDRESS_BYTES, why);
}

static int target_of(struct nigh_context *context, const struct nigh_connect *to, struct nigh_identity *who)
{
    int rc = nigh_check_struct(context, "connect", to, to->size, sizeof(*to));

    if (rc)
        return rc;
    if (to->reserved)
        return nigh_refuse_reserved(context, "connect");
    if ((to->rank == NIGH_RANK_NONE) == (to->address == NULL) || (to->address && to->job))
        return nigh_refuse(
            context, -EINVAL,
            "connect: rank %d, job %llx and an address %s: name the peer by its rank (and job), or "
            "by its address with rank NIGH_RANK_NONE and job 0",
            (int)to->rank, (unsigned long long)to->job, to->address ? "given" : "of NULL");
    if (to->address) {
        rc = nigh_rendezvous_parse(context->rendezvous, to->address, who);
        return rc ? refuse_address(context, rc) : 0;
    }
    *who = (struct nigh_identity){.job = to->job, .rank = to->rank};
    if (to->job == 0 || to->job == context->config.job)
        who->job = context->config.meeting;
    /* How many ranks another job has is not known here. */
    if (who->job == context->config.meeting && who->rank >= context->config.ranks)
        return nigh_refuse(context, -ERANGE, "connect: rank %u: this job has ranks 0 to %u", to->rank,
                           context->config.ranks - 1);
    return 0;
}

static int begin(struct nigh_context *context, const struct nigh_identity *who, struct nigh_endpoint **out)
{
    struct nigh_identity self = {.job = context->config.meeting, .rank = context->config.rank};
    struct nigh_endpoint *endpoint;
    int rc = create(context, who, &endpoint);

    if (rc)
        return rc;
    self.incarnation = context->incarnation;
    endpoint->incarnation = who->incarnation;
    if (who->incarnation ? who->incarnation == self.incarnation
                         : who->job == self.job && who->rank == self.rank) {
        endpoint->incarnation = self.incarnation;
        attach_self(endpoint);
    } else {
        rc = nigh_rendezvous_dial(context->rendezvous, who, endpoint->index, endpoint->window.fd, endpoint);
        if (rc) {
            nigh_endpoint_free(endpoint);
            return rc;
        }
    }
    *out = endpoint;
    return 0;
}

int nigh_endpoint_connect(struct nigh_context *context, const struct nigh_connect *to,
                          struct nigh_endpoint **out)
{
    struct nigh_identity who;
    struct nigh_endpoint *endpoint;
    int rc;

    nigh_log_use(&context->log);
    rc = target_of(context, to, &who);
    if (rc)
        return rc;
    endpoint = nigh_peers_find(&context->peers, &who);
    if (!endpoint) {
        rc = begin(context, &who, &endpoint);
        if (rc)
            return rc;
    }
    if (endpoint->refs++ == 0 && to->source != NIGH_SOURCE_NONE)
        endpoint->source = to->source;
    *out = endpoint;
    return 0;
}

/* The peer learns of it by the flag; the hint makes it look, the bell wakes it. */
void nigh_endpoint_farewell(struct nigh_endpoint *endpoint)
{
    nigh_store_release(&endpoint->pair->closed, nigh_load_relaxed(&endpoint->pair->closed) | 1, GOODBYE_SAY);
    nigh_fence_full(LEAVE_SAY);
    if (!endpoint->attached || endpoint->self)
        return;
    nigh_fence_full(SLEEP_CHECK);
    nigh_bell_hint(&endpoint->bell, endpoint->their_index);
    nigh_bell_ring(&endpoint->bell, nigh_load_relaxed(endpoint->peer_asleep));
}

void nigh_endpoint_retire(struct nigh_endpoint *endpoint)
{
    nigh_endpoint_abandon(endpoint);
    endpoint->gone = true;
    endpoint->refs = 0;
    nigh_endpoint_farewell(endpoint);
    if (!endpoint->attached)
        nigh_rendezvous_forget(endpoint->context->rendezvous, endpoint);
}

int nigh_endpoint_disconnect(struct nigh_endpoint *endpoint)
{
    nigh_log_use(&endpoint->context->log);
    if (endpoint->gone || !endpoint->refs)
        return nigh_refuse(endpoint->context, -EINVAL,
                           "disconnect: rank %d is not connected by this host, or no longer",
                           (int)endpoint->rank);
    if (--endpoint->refs == 0)
        nigh_endpoint_retire(endpoint);
    return 0;
}
