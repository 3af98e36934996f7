/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/device_trial.h - two processes that try to hand device memory over: this one makes and exports it, the other one maps it
 * on each device. What works is what messages can use where they copy by handles. */
#ifndef NIGH_INFO_DEVICE_TRIAL_H
#define NIGH_INFO_DEVICE_TRIAL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "tools/info/plugin.h"

struct nigh_cuda;

struct info_trial {
    const struct nigh_ops *ops;
    uint64_t job;
    int socket; /* to the other process */
    pid_t other;
    struct nigh_cuda *cuda; /* this process' */
    struct nigh_context *context;
    struct nigh_endpoint *peer;
    bool none;         /* there is no device, or no driver */
    char problem[512]; /* why there is nothing to try */
};

/* Forks the other process, then starts the driver and the module on both sides. Of a process that has not loaded the driver.
 * 0, or -1 and trial->problem. */
int info_trial_open(const struct info_plugin *plugin, struct info_trial *trial);
/* Arrays: a member of the devices' "handles" for a device; "paths". */
json_t *info_trial_handles(struct info_trial *trial, int device);
json_t *info_trial_paths(struct info_trial *trial);
/* Ends the other process. What this one has opened ends with it. */
void info_trial_end(struct info_trial *trial);

#endif
