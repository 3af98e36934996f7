/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/fi.h - the libfabric provider as a program meets it: found by libfabric in FI_PROVIDER_PATH, opened,
 * two endpoints of one process that know each other. Everything that fails here ends the cmocka case.
 */
#ifndef NIGH_TESTS_FI_H
#define NIGH_TESTS_FI_H

#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <stdbool.h>
#include <stdint.h>

/* Sets where libfabric looks, before the first of its calls. Ends the program with 77 where NIGH_BUILDDIR has no
 * provider. */
void fi_find(void);

/* What a case wants, all zero: everything, two endpoints with a queue of their own each, format TAGGED, no waiting. */
struct fi_wish {
    uint64_t caps;
    enum fi_cq_format format;
    enum fi_wait_obj wait;
    enum fi_threading threading;
    uint64_t selective; /* FI_SELECTIVE_COMPLETION */
    uint64_t tx_op_flags, rx_op_flags;
    int mr_mode;
    bool apart;    /* sends and receives have a queue each */
    bool shared;   /* both endpoints have the same queue */
    bool counters; /* one for each kind */
};

enum { FI_SENDS, FI_RECVS, FI_READS, FI_WRITES, FI_REMOTE_READS, FI_REMOTE_WRITES, FI_COUNTERS };

struct fi_side {
    struct fid_ep *ep;
    struct fid_cq *tx, *rx; /* mostly one and the same */
    struct fid_cntr *cntr[FI_COUNTERS];
    struct fid_av *av;
    fi_addr_t peer, self;
    char name[64];
};

struct fi_lab {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fi_side side[2];
};

void fi_lab_open(struct fi_lab *lab, const struct fi_wish *wish);
void fi_lab_close(struct fi_lab *lab);

/* One side more, in the same domain. It knows nobody yet. */
void fi_side_open(struct fi_lab *lab, const struct fi_wish *wish, struct fi_side *side);
void fi_side_close(struct fi_side *side);
fi_addr_t fi_side_insert(struct fi_side *side, const void *name);

/* The next completion of `cq`, polling both sides meanwhile. */
struct fi_cq_tagged_entry fi_await(struct fi_lab *lab, struct fid_cq *cq);
/* The next must be an error. */
struct fi_cq_err_entry fi_await_error(struct fi_lab *lab, struct fid_cq *cq);
/* Nothing is there, now and for some polls. */
void fi_quiet(struct fi_lab *lab, struct fid_cq *cq);
/* Polls both sides without taking anything. */
void fi_pump(struct fi_lab *lab);

/* Of queues and counters with a descriptor: may one sleep on it (fi_trywait), then at last, and is it readable? */
int fi_try(struct fi_lab *lab, struct fid *fid);
void fi_watch(struct fi_lab *lab, struct fid *fid);
bool fi_is_readable(struct fid *fid);
/* By what another domain does: a thread of nigh's passes that on. */
bool fi_gets_readable(struct fid *fid);

#define FI_OK(call)              fi_check((call), 0, #call, __FILE__, __LINE__)
#define FI_GIVES(call, expected) fi_check((call), (expected), #call, __FILE__, __LINE__)
void fi_check(long got, long expected, const char *what, const char *file, int line);

#endif
