/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * hosts/libfabric/provider.h - the objects of the provider and how they hang together. libfabric's own handles are
 * their first members. One nigh context stands behind each endpoint that is enabled.
 *
 *     fabric <- domain <- av, mr, cq, cntr <- endpoint (context, peers by fi_addr)
 */
#ifndef NIGH_LIBFABRIC_PROVIDER_H
#define NIGH_LIBFABRIC_PROVIDER_H

#include "hosts/libfabric/idle.h"
#include "hosts/libfabric/wakeup.h"
#include "nigh/transport.h"

#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#define NIGH_FI_NAME "nigh" /* of provider, fabric and domain */
/* Above every API that a host may ask for: a provider that declares less than is asked is passed over. */
#define NIGH_FI_API     FI_VERSION(2, 99)
#define NIGH_FI_VERSION FI_VERSION(1, 0)
#define NIGH_FI_FORMAT  (FI_PROV_SPECIFIC | 0x6e69)
#define NIGH_FI_IOV     4u /* iov_limit */
/* Completions taken from nigh at a time: who is given fewer knows that there are no more. */
#define NIGH_FI_BATCH NIGH_TAKEN_FULL

/* nigh's traffic classes: what must never match each other */
enum { NIGH_FI_MSG = 0, NIGH_FI_TAGGED = 1 };

/* What travels as the immediate of a message: data for the completion queue, and that there is some. */
#define NIGH_FI_DATA      UINT64_C(0xffffffff)
#define NIGH_FI_WITH_DATA (UINT64_C(1) << 32)

#define NIGH_FI_LIKELY(x)   __builtin_expect(!!(x), 1)
#define NIGH_FI_UNLIKELY(x) __builtin_expect(!!(x), 0)

struct nigh_fi_cuda;
struct nigh_fi_op;

struct nigh_fi_fabric {
    struct fid_fabric fid;
    uint32_t refs; /* under `lock` */
    pthread_mutex_t lock;
};

/* Records of operations that nigh's completion alone cannot describe: op.h. */
struct nigh_fi_ops {
    char *base;
    size_t span; /* bytes of address space */
    size_t used; /* of which handed out once */
    size_t live; /* records */
    struct nigh_fi_op *free;
};

struct nigh_fi_domain {
    struct fid_domain fid;
    struct nigh_fi_fabric *fabric;
    const struct nigh_ops *nigh;
    bool locked; /* any threading but FI_THREAD_DOMAIN: calls take `lock` */
    /* What is to do behind a call: 1 to unlock, and 1 for each waiter on which a thread may sleep just now. The look
     * costs nothing: 8 bytes within a process, posts and reads of both sides, take 63.0 ns with and without. */
    uint32_t pending;
    pthread_mutex_t lock;
    uint32_t refs;                  /* objects opened from it; under the fabric's lock */
    struct nigh_fi_waiter *waiters; /* of its queues and counters, where one may sleep at all */
    struct nigh_fi_ep *eps;         /* enabled */
    struct nigh_fi_mr *mrs;
    struct nigh_fi_ops ops;
    struct nigh_fi_eq *eq;
    bool mr_events;                  /* registrations report there when they are done */
    const struct nigh_fi_cuda *cuda; /* NULL: opened without FI_HMEM */
    bool detects;                    /* no FI_MR_HMEM: device memory may come without a descriptor */
};

enum nigh_fi_counted {
    NIGH_FI_SENDS,
    NIGH_FI_RECVS,
    NIGH_FI_READS,
    NIGH_FI_WRITES,
    NIGH_FI_REMOTE_READS,
    NIGH_FI_REMOTE_WRITES,
    NIGH_FI_COUNTED
};

enum { NIGH_FI_ODD = 1, NIGH_FI_ODD_BY_DESC = 2 /* if it has a descriptor */ };

struct nigh_fi_ep {
    struct fid_ep fid;
    const struct nigh_ops *nigh;
    struct nigh_context *context; /* NULL until it is enabled */
    struct nigh_endpoint **peers; /* by fi_addr; NULL: not talked to yet, or `ended` */
    size_t peer_count;
    uint8_t *ended;       /* by fi_addr: what talking to it gives since its peer has ended; 0: it has not */
    fi_addr_t *connected; /* all that `peers` has */
    size_t connected_count, look_at; /* with so many it is looked at which of them have ended */
    struct nigh_fi_domain *domain;
    struct nigh_fi_cq *tx_cq, *rx_cq;
    uint32_t send_flags; /* NIGH_*, of calls that carry no flags */
    bool directed;       /* FI_DIRECTED_RECV: receives name their source */
    bool posted;         /* a message, since a queue last gave something */
    bool takes;          /* nigh shows its completions where they are */
    bool tx_selective, rx_selective;
    bool tx_record, rx_record; /* calls without flags need a record: a completion to count but not to show */
    bool tx_by_desc, rx_by_desc; /* of these only such with a descriptor: others are of the host's memory */
    bool tx_counted;             /* a counter of sends is bound */
    bool inject_record;          /* calls that inject need a look, too */
    uint32_t tx_odd, inject_odd,
        rx_odd;  /* NIGH_FI_ODD*, 0: nothing keeps calls without flags from the short way: post.h */
    bool hmem;   /* FI_HMEM: buffers may lie on devices */
    int p2p;     /* FI_OPT_FI_HMEM_P2P */
    bool counts; /* some counter is bound */
    struct nigh_fi_cntr *cntr[NIGH_FI_COUNTED];
    struct nigh_fi_claimed *claimed;
    struct nigh_fi_av *av;
    struct nigh_fi_eq *eq;
    uint64_t caps, tx_op_flags, rx_op_flags;
    size_t min_multi;
    struct nigh_fi_ep *next;    /* of the domain's */
    struct nigh_fi_ep *next_av; /* of the address vector's */
    uint64_t named;             /* the job that the name stands for, 0: none */
    int wait_fd;                /* the context's; -1: nobody has wanted to sleep yet */
};

/* One address of a vector. */
struct nigh_fi_address {
    struct nigh_address address;
    bool used;
};

struct nigh_fi_av {
    struct fid_av fid;
    struct nigh_fi_domain *domain;
    enum fi_av_type type;
    uint64_t flags;
    struct nigh_fi_address *entries; /* one piece: hosts index it */
    size_t count, room, used;
    uint32_t refs;          /* endpoints bound */
    struct nigh_fi_ep *eps; /* enabled ones */
    struct nigh_fi_eq *eq;
};

/* A queue or counter as something to sleep on. */
struct nigh_fi_waiter {
    enum fi_wait_obj object; /* FI_WAIT_NONE: nobody may sleep */
    struct nigh_fi_ep **eps; /* enabled */
    uint32_t ep_count;
    uint32_t sleepers;          /* threads in sread or cntr_wait */
    bool watched;               /* a thread of the host's may sleep on the set */
    bool rung;                  /* the end for news is readable */
    bool told;                  /* and was when a thread of the host's slept there, which may not know yet */
    uint64_t stamp;             /* changes with what is there */
    struct nigh_fi_look *looks; /* of a counter: which threads have seen it, look.h */
    uint32_t look_count;
    struct nigh_fi_waiter *next;
    struct nigh_fi_wakeup wakeup; /* last: nobody who polls looks there */
};

/* A completion that waits to be read. */
struct nigh_fi_staged {
    struct fi_cq_tagged_entry entry;
    fi_addr_t source;
    int err; /* 0: a success */
    int prov_errno;
    union {
        size_t olen;
        char *
            why; /* FI_ECONNRESET, EPROTO: the peer's end in words, which goes with the entry; NULL: not known */
    };
};

struct nigh_fi_cq {
    struct fid_cq fid;
    struct nigh_fi_domain *domain;
    struct nigh_fi_ep *solo; /* the only endpoint, if all its completions come here */
    bool lone;               /* there is one, and its domain has no lock */
    bool takes;              /* its completions are read where nigh has them */
    enum fi_cq_format format;
    size_t entry_bytes;
    struct nigh_fi_staged *staged; /* a ring */
    uint64_t mask, head, tail;
    uint32_t refs; /* endpoints bound, enabled or not */
    struct nigh_fi_idle idle;
    struct nigh_fi_waiter waiter;
    char why[NIGH_END_BYTES]; /* of the error that was read last: err_data */
};

struct nigh_fi_cntr {
    struct fid_cntr fid;
    struct nigh_fi_domain *domain;
    uint64_t value, errors;
    bool of_memory; /* registrations count there: any endpoint may have news */
    uint32_t refs;
    struct nigh_fi_waiter waiter;
};

struct nigh_fi_event {
    struct nigh_fi_event *next;
    uint32_t event;
    int err; /* 0, or this is an error */
    size_t bytes;
    struct fi_eq_err_entry error;
    uint8_t data[];
};

struct nigh_fi_eq {
    struct fid_eq fid;
    struct nigh_fi_fabric *fabric;
    pthread_mutex_t lock;
    struct nigh_fi_event *head, **tail;
    bool writable;
    enum fi_wait_obj wait_obj;
    uint32_t refs;
    struct nigh_fi_pair
        pair; /* its first end is readable while there is something; none where nobody may sleep */
};

static inline void nigh_fi_lock(struct nigh_fi_domain *domain)
{
    if (NIGH_FI_UNLIKELY(domain->locked))
        pthread_mutex_lock(&domain->lock);
}

/* May a thread sleep on some waiter just now? The lock is held. */
static inline bool nigh_fi_is_awaited(const struct nigh_fi_domain *domain)
{
    return domain->pending > domain->locked;
}

/* Puts what nigh has where somebody sleeps for it; the lock is held. */
void nigh_fi_spread(struct nigh_fi_domain *domain);

/* After a post: what it completed at once is news to whoever sleeps. Also where the host calls one at a time: a thread
 * that sleeps on a descriptor is in no call. */
static inline void nigh_fi_unlock(struct nigh_fi_domain *domain)
{
    if (NIGH_FI_LIKELY(!domain->pending))
        return;
    if (nigh_fi_is_awaited(domain))
        nigh_fi_spread(domain);
    if (domain->locked)
        pthread_mutex_unlock(&domain->lock);
}

/* Opening and closing of objects counts even where the host promises one thread. */
void nigh_fi_hold(struct nigh_fi_domain *domain);
void nigh_fi_let_go(struct nigh_fi_domain *domain);

/* Is one of the domain's objects in use, whose count this is? Another thread may be closing what uses it. */
bool nigh_fi_is_held(struct nigh_fi_domain *domain, const uint32_t *refs);

/* A message is sent or awaited. It is read first, so that a window of sends stores it once. */
static inline void nigh_fi_posted(struct nigh_fi_ep *ep)
{
    if (!ep->posted)
        ep->posted = true;
}

#define NIGH_FI_EP(ep_fid) ((struct nigh_fi_ep *)(void *)(ep_fid))

int nigh_fi_getinfo(uint32_t version, const char *node, const char *service, uint64_t flags,
                    const struct fi_info *hints, struct fi_info **info);
int nigh_fi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
int nigh_fi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **domain,
                        void *context);
int nigh_fi_av_open(struct fid_domain *domain, struct fi_av_attr *attr, struct fid_av **av, void *context);
int nigh_fi_cq_open(struct fid_domain *domain, struct fi_cq_attr *attr, struct fid_cq **cq, void *context);
int nigh_fi_cntr_open(struct fid_domain *domain, struct fi_cntr_attr *attr, struct fid_cntr **cntr,
                      void *context);
int nigh_fi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **eq, void *context);
int nigh_fi_ep_open(struct fid_domain *domain, struct fi_info *info, struct fid_ep **ep, void *context);
int nigh_fi_query_atomic(struct fid_domain *domain, enum fi_datatype type, enum fi_op op,
                         struct fi_atomic_attr *attr, uint64_t flags);

#endif
