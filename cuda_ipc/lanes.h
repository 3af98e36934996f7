/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_ipc/lanes.h - the streams and events of one CUDA context that copies run on. All are made when the context is first
 * seen, as creating them may wait for the device. The streams wait for none of the host's; an event belongs to one piece
 * of a copy until it has completed, so no copy waits for another's.
 */
#ifndef NIGH_CUDA_IPC_LANES_H
#define NIGH_CUDA_IPC_LANES_H

#include "cuda_ipc/driver.h"

#include <pthread.h>

enum { NIGH_LANE_STREAMS = 4, NIGH_LANE_EVENTS = 64 };

struct nigh_lanes {
    pthread_mutex_t lock;
    void *streams[NIGH_LANE_STREAMS], *events[NIGH_LANE_EVENTS];
    unsigned streams_made, turn, idle; /* events[0] to events[idle - 1] are */
};

void nigh_lanes_begin(struct nigh_lanes *lanes);

/* The context is current. -EIO, -ENOMEM: what was made stays for nigh_lanes_close(). */
int nigh_lanes_open(struct nigh_lanes *lanes, const struct nigh_driver *driver);

/* The context is current, and all events were put back. `driver` NULL: the context took them along. */
void nigh_lanes_close(struct nigh_lanes *lanes, const struct nigh_driver *driver);

/* The next stream in turn. */
void *nigh_lanes_stream(struct nigh_lanes *lanes);

/* NULL: all are in use. */
void *nigh_lanes_take_event(struct nigh_lanes *lanes);
void nigh_lanes_put_event(struct nigh_lanes *lanes, void *event);

#endif
