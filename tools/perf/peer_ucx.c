/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank of UCX (UCP, tag matching, its shared-memory transports) that nigh-perf compares itself with. UCX has no
 * launcher: this program forks its ranks, which exchange addresses through a shared mapping. Compiled when the
 * comparison is asked for. By hand:
 *     cc -O2 -I. -D_GNU_SOURCE tools/perf/{peer_{ucx,rank,hand,launch,device},cuda,cuda_sides}.c -lucp -lucs && ./a.out --cpus 0,1 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include "tools/perf/peer_rank.h"

#define OP_COLLECTIVES 0
#define OP_WINDOW_MAX  256
#define ADDRESS_BYTES  2048

/* Shared by the forked ranks until they are connected. `ready` counts the ranks at each meeting. */
struct meeting {
    _Atomic int ready;
    unsigned char address[PEER_RANKS_MAX][ADDRESS_BYTES];
};

static ucp_worker_h worker;
static ucp_ep_h endpoints[PEER_RANKS_MAX];
static void *requests[OP_WINDOW_MAX];

/* The low 32 bits are the program's tag, the high ones the sender: a receive names both, as it does in MPI. */
static inline ucp_tag_t tag_of(int sender, int tag)
{
    return (uint64_t)(unsigned)sender << 32 | (uint32_t)tag;
}

static void failed(const char *what, ucs_status_t status)
{
    fprintf(stderr, "peer: ucx: %s: %s\n", what, ucs_status_string(status));
    _exit(1);
}

static inline void finish(void *request)
{
    ucs_status_t status;

    if (!request)
        return;
    if (UCS_PTR_IS_ERR(request))
        failed("message", UCS_PTR_STATUS(request));
    while ((status = ucp_request_check_status(request)) == UCS_INPROGRESS)
        ucp_worker_progress(worker);
    if (status != UCS_OK)
        failed("message", status);
    ucp_request_free(request);
}

static inline void *begin_send(int self, const void *buffer, size_t bytes, int to, int tag)
{
    static const ucp_request_param_t param;
    return ucp_tag_send_nbx(endpoints[to], buffer, bytes, tag_of(self, tag), &param);
}

static inline void *begin_recv(void *buffer, size_t bytes, int from, int tag)
{
    static const ucp_request_param_t param;
    return ucp_tag_recv_nbx(worker, buffer, bytes, tag_of(from, tag), ~(ucp_tag_t)0, &param);
}

static inline void op_send(struct peer_rank *self, const void *buffer, size_t bytes, int to, int tag)
{
    finish(begin_send(self->rank, buffer, bytes, to, tag));
}

static inline void op_recv(struct peer_rank *self, void *buffer, size_t bytes, int from, int tag)
{
    (void)self;
    finish(begin_recv(buffer, bytes, from, tag));
}

static inline void op_isend(struct peer_rank *self, uint32_t slot, const void *buffer, size_t bytes, int to,
                            int tag)
{
    requests[slot] = begin_send(self->rank, buffer, bytes, to, tag);
}

static inline void op_irecv(struct peer_rank *self, uint32_t slot, void *buffer, size_t bytes, int from,
                            int tag)
{
    (void)self;
    requests[slot] = begin_recv(buffer, bytes, from, tag);
}

static inline void op_waitall(struct peer_rank *self, uint32_t count)
{
    (void)self;
    for (uint32_t i = 0; i < count; i++)
        finish(requests[i]);
}

#include "tools/perf/peer_patterns.h"

static void meet(struct meeting *m, int target)
{
    atomic_fetch_add(&m->ready, 1);
    while (atomic_load(&m->ready) < target) {
        ucp_worker_progress(worker);
        sched_yield();
    }
}

static void share(struct peer_rank *self, void *bytes, size_t size)
{
    for (int r = 1; self->rank == 0 && r < self->ranks; r++)
        op_send(self, bytes, size, r, TAG_READY);
    if (self->rank)
        op_recv(self, bytes, size, 0, TAG_READY);
}

/* Versions before 1.10 cannot say it. */
static int takes_devices(ucp_context_h context)
{
#if UCP_API_VERSION >= UCP_VERSION(1, 10)
    ucp_context_attr_t attributes = {.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES};

    return ucp_context_query(context, &attributes) == UCS_OK &&
           attributes.memory_types >> UCS_MEMORY_TYPE_CUDA & 1;
#else
    (void)context;
    return 0;
#endif
}

static ucp_context_h open_worker(struct meeting *m, int rank)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES, .features = UCP_FEATURE_TAG};
    ucp_worker_params_t how = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                               .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_context_h context;
    ucp_address_t *address;
    size_t length;
    ucs_status_t status = ucp_init(&params, NULL, &context);

    if (status != UCS_OK)
        failed("ucp_init", status);
    if ((status = ucp_worker_create(context, &how, &worker)) != UCS_OK)
        failed("ucp_worker_create", status);
    if ((status = ucp_worker_get_address(worker, &address, &length)) != UCS_OK)
        failed("ucp_worker_get_address", status);
    if (length > ADDRESS_BYTES)
        failed("address too long", UCS_ERR_BUFFER_TOO_SMALL);
    memcpy(m->address[rank], address, length);
    ucp_worker_release_address(worker, address);
    return context;
}

static void connect_all(struct meeting *m, const struct peer_rank *self)
{
    meet(m, self->ranks);
    for (int r = 0; r < self->ranks; r++) {
        ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                  .address = (const ucp_address_t *)m->address[r]};
        ucs_status_t status = ucp_ep_create(worker, &params, &endpoints[r]);
        if (status != UCS_OK)
            failed("ucp_ep_create", status);
    }
    meet(m, 2 * self->ranks);
}

static void disconnect_all(struct meeting *m, const struct peer_rank *self)
{
    static const ucp_request_param_t param;

    meet(m, 3 * self->ranks); /* nobody closes while somebody still talks */
    for (int r = 0; r < self->ranks; r++) {
        void *request = ucp_ep_close_nbx(endpoints[r], &param);
        if (request && !UCS_PTR_IS_ERR(request))
            finish(request);
    }
    meet(m, 4 * self->ranks);
}

static int run_rank(struct meeting *m, int rank, int shared, const struct peer_options *options)
{
    struct peer_rank self = {.rank = rank, .ranks = options->ranks, .run = run_pattern, .share = share};
    char version[64];

    if (peer_pin(options, rank))
        return 2;
    snprintf(version, sizeof version, "UCX %s", ucp_get_version_string());
    self.version = version;
    self.name = options->name ? options->name : "ucx";
    self.shared = peer_shared_map(shared, self.ranks);
    if (!self.shared)
        return 2;
    const char *why = options->cuda ? peer_device_open(options->cuda) : NULL;
    if (why)
        return peer_cannot(options, why);
    ucp_context_h context = open_worker(m, rank);
    if (options->cuda && !takes_devices(context))
        return peer_cannot(options,
                           "it takes no buffers on CUDA devices: ucp_context_query() does not name them");
    connect_all(m, &self);
    int status = peer_rank_main(&self, options);
    if (status)
        return status;
    disconnect_all(m, &self);
    ucp_worker_destroy(worker);
    ucp_cleanup(context);
    return 0;
}

/* One rank that fails ends the others: they wait for it. */
static int wait_ranks(const pid_t *pids, int ranks)
{
    int worst = 0, status;

    for (int left = ranks; left > 0; left--) {
        if (wait(&status) < 0)
            return 1;
        if (status && !worst) {
            worst = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            for (int r = 0; r < ranks; r++)
                kill(pids[r], SIGTERM);
        }
    }
    return worst;
}

int main(int argc, char **argv)
{
    struct peer_options options;
    pid_t pids[PEER_RANKS_MAX];

    if (argc > 2 && !strcmp(argv[1], "--launch"))
        return peer_launch(argv + 2);
    if (peer_options_read(&options, argc, argv))
        return 2;
    struct meeting *m = mmap(NULL, sizeof *m, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int shared = peer_shared_create(options.ranks);
    if (m == MAP_FAILED || shared < 0)
        return 2;
    for (int r = 0; r < options.ranks; r++) {
        pids[r] = fork();
        if (pids[r] < 0) {
            perror("peer: fork");
            return 2; /* the ranks that exist end with their parent */
        }
        if (pids[r] == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            exit(run_rank(m, r, shared, &options));
        }
    }
    return wait_ranks(pids, options.ranks);
}
