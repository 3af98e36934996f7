/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/hosts/nccl/host.h - a host for net plugins of NCCL's: it loads one as NCCL does and calls it as NCCL does, in two processes
 * of two threads each, with no GPU and nothing of NCCL. Each rule is one sentence that a plugin keeps or breaks. README.md.
 */
#ifndef NIGH_TESTS_NCCL_HOST_H
#define NIGH_TESTS_NCCL_HOST_H

#include "hosts/nccl/abi.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

enum { DEPTH = 8, WHY_BYTES = 400 };

/* ---- a plugin -------------------------------------------------------------------------------------------------- */

struct net {
    const char *path;
    int version;
    void *object;
    const struct nccl_net_v10 *v10;
    const struct nccl_net_v11 *v11;
    const struct nccl_net_v12 *v12;
    const char *name;
};

/* Loads as NCCL does; false: `why`. */
bool net_load(struct net *net, const char *path, int version, char *why);
void net_unload(struct net *net);

/* v10's have no context: NULL. */
enum nccl_result net_init(const struct net *net, void **context);
enum nccl_result net_finalize(const struct net *net, void *context); /* v10: success */
enum nccl_result net_devices(const struct net *net, int *count);
/* As v12's; what a version lacks is as NCCL takes it. */
enum nccl_result net_properties(const struct net *net, int device, struct nccl_properties_v12 *out);
enum nccl_result net_listen(const struct net *net, void *context, void *handle, void **listener);
enum nccl_result net_connect(const struct net *net, void *context, void *handle, void **comm);
enum nccl_result net_accept(const struct net *net, void *listener, void **comm);
enum nccl_result net_close_listen(const struct net *net, void *listener);
enum nccl_result net_close_send(const struct net *net, void *comm);
enum nccl_result net_close_recv(const struct net *net, void *comm);
enum nccl_result net_register(const struct net *net, void *comm, void *data, size_t bytes, int type,
                              void **memory);
enum nccl_result net_deregister(const struct net *net, void *comm, void *memory);
enum nccl_result net_isend(const struct net *net, void *comm, void *data, size_t bytes, void *memory,
                           void **request);
enum nccl_result net_irecv(const struct net *net, void *comm, void *data, size_t bytes, void *memory,
                           void **request);
enum nccl_result net_test(const struct net *net, void *request, int *done, int *bytes);
/* A slot that NCCL calls without a look is NULL: its name; else NULL. */
const char *net_missing(const struct net *net);

/* ---- a rank ---------------------------------------------------------------------------------------------------- */

/* Seen by the parent, which says where a rank was when it has not come back. */
struct seen {
    _Atomic(const char *) call;
    _Atomic(uint64_t) longest_ns; /* of a call */
    _Atomic(const char *) longest_call;
    _Atomic(uint64_t) broken_ns; /* when the rule was */
    _Atomic(uint64_t) death_ns;  /* from the other's end to the error */
};

struct rank {
    struct net net;
    int number, other; /* a socket to the other rank: what NCCL's bootstrap is */
    double patience;   /* seconds for what takes a plugin microseconds */
    struct seen *seen;
    char *why;
};

extern struct seen *host_seen;
/* Warnings of the plugin's through NCCL's logger. */
extern _Atomic(int) host_warnings;

double host_now(void);
/* Says why the rule is broken and returns false. The first to say so is heard. */
bool broken(struct rank *rank, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool went_well(struct rank *rank, enum nccl_result result, const char *call);

/* Bytes to and from the other rank; false: it has ended. */
bool swap(struct rank *rank, const void *mine, void *theirs, size_t bytes);
bool meet(struct rank *rank); /* both have come here */
void pause_for(double seconds);

/* ---- where a rank is -------------------------------------------------------------------------------------------- */

enum { APART_NONE = 77 }; /* exit status: the kernel gives no namespaces */

/* Goes on in a container of its own, with user, PID, IPC, network, host name and mount namespaces, as a process that is not its
 * first. The one that was called ends as that does. */
void apart_enter(int number);
/* Goes on as if the machine had been booted anew. */
void apart_boot(int number);

/* ---- connections ------------------------------------------------------------------------------------------------ */

struct wire {
    void *send, *recv;
};

/* listen, exchange handles, connect and accept in turn, closeListen: as NCCL's service thread does. */
bool wire_open(struct rank *rank, void *context, struct wire *wire);
bool wire_open_self(struct rank *rank, void *context, struct wire *wire);
bool wire_close(struct rank *rank, struct wire *wire);
bool poll_connect(struct rank *rank, void *context, void *handle, void *listener, struct wire *wire);

/* The bytes of message `number` on channel `channel`. */
void fill(uint8_t *data, size_t bytes, unsigned channel, uint64_t number);
bool is_filled(const uint8_t *data, size_t bytes, unsigned channel, uint64_t number);

/* Posts; NULL requests are tried again, as NCCL does. */
bool send_one(struct rank *rank, void *comm, void *data, size_t bytes, void *memory, void **request);
bool recv_one(struct rank *rank, void *comm, void *data, size_t bytes, void *memory, void **request);
bool finish(struct rank *rank, void *request, int *bytes);

struct traffic {
    struct rank *rank;
    struct wire wire;
    unsigned channel, count, depth;
    size_t room;                      /* of each receive */
    size_t (*bytes)(unsigned number); /* of each message, at most `room` */
    _Atomic unsigned received;        /* messages so far; another thread may read it */
    _Atomic bool failed;
};

/* Both ways at once, `depth` requests each, every byte looked at. */
bool traffic_run(struct traffic *traffic);
/* The same in a thread of its own, as NCCL's progress thread. */
bool traffic_start(struct traffic *traffic, pthread_t *thread);
/* Waits until `count` messages have been received. */
bool traffic_reach(struct traffic *traffic, unsigned count);
bool traffic_join(struct traffic *traffic, pthread_t thread);

/* ---- rules ------------------------------------------------------------------------------------------------------ */

struct rule {
    const char *name, *sentence;
    bool (*run)(struct rank *rank); /* in both ranks */
    bool careful;                   /* NCCL never does it: asked for by --careful */
    bool boots; /* each rank is of another boot; run by name alone: not for plugins between machines */
    bool cuda;  /* there is a driver: with --cuda alone */
    bool one;   /* rank 1 alone says how it ended: rank 0 dies */
    int since;  /* 0, or the first version that has it */
};

extern const struct rule rules_set_up[], rules_data[], rules_device[], rules_end[], rules_careful[];

/* Loads the driver, before the plugin, as NCCL does; false: `why`. */
bool device_load(const char *path, char *why);

#endif
