/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/device_path.h - how device memory gets from one process to another, decided by facts of both: the rule alone.
 * device_way.h collects the facts. */
#ifndef NIGH_PLUGIN_DEVICE_PATH_H
#define NIGH_PLUGIN_DEVICE_PATH_H

#include "nigh/transport.h"

#include <stdbool.h>
#include <stdint.h>

/* A device as one process uses it. */
struct nigh_device_end {
    uint8_t uuid[16];
    bool wsl, mig, mps;
    uint32_t
        ways; /* a bit for each kind of handle that its driver and device know: 1 << enum nigh_device_way */
    uint64_t pid_space; /* PID namespace; 0: not known */
};

enum nigh_device_access { NIGH_ACCESS_UNKNOWN, NIGH_ACCESS_YES, NIGH_ACCESS_NO };

struct nigh_device_facts {
    enum nigh_device_memory memory;
    bool same_process;
    struct nigh_device_end owner;
    uint32_t callable; /* as `ways`, for which the owner's driver has the calls */
    bool peer_uses;    /* the peer has said which device it uses */
    struct nigh_device_end peer;
    enum nigh_device_access access; /* of the peer's device to the owner's, as far as the owner sees both */
};

struct nigh_device_path {
    enum nigh_device_way way;
    enum nigh_device_reason reason;
};

/* The first obstacle is the reason. */
struct nigh_device_path nigh_device_path(const struct nigh_device_facts *facts);

/* Strings for ever: "cuda-vmm"; why it is staged. */
const char *nigh_device_way_name(enum nigh_device_way way);
const char *nigh_device_reason_text(enum nigh_device_reason reason);

#endif
