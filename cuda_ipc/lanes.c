/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/lanes.c - see lanes.h. */
#include "cuda_ipc/lanes.h"

void nigh_lanes_begin(struct nigh_lanes *lanes)
{
    *lanes = (struct nigh_lanes){.turn = 0};
    pthread_mutex_init(&lanes->lock, NULL);
}

int nigh_lanes_open(struct nigh_lanes *lanes, const struct nigh_driver *driver)
{
    int rc = 0;

    while (lanes->streams_made < NIGH_LANE_STREAMS && !rc) {
        rc = nigh_driver_check(
            driver, "cuStreamCreate",
            driver->stream_create(&lanes->streams[lanes->streams_made], NIGH_CUDA_STREAM_NON_BLOCKING));
        lanes->streams_made += !rc;
    }
    while (lanes->idle < NIGH_LANE_EVENTS && !rc) {
        rc = nigh_driver_check(
            driver, "cuEventCreate",
            driver->event_create(&lanes->events[lanes->idle], NIGH_CUDA_EVENT_DISABLE_TIMING));
        lanes->idle += !rc;
    }
    return rc;
}

void nigh_lanes_close(struct nigh_lanes *lanes, const struct nigh_driver *driver)
{
    for (unsigned i = 0; driver && i < lanes->idle; i++)
        nigh_driver_check(driver, "cuEventDestroy", driver->event_destroy(lanes->events[i]));
    for (unsigned i = 0; driver && i < lanes->streams_made; i++)
        nigh_driver_check(driver, "cuStreamDestroy", driver->stream_destroy(lanes->streams[i]));
    pthread_mutex_destroy(&lanes->lock);
}

void *nigh_lanes_stream(struct nigh_lanes *lanes)
{
    void *stream;

    pthread_mutex_lock(&lanes->lock);
    stream = lanes->streams[lanes->turn++ % NIGH_LANE_STREAMS];
    pthread_mutex_unlock(&lanes->lock);
    return stream;
}

void *nigh_lanes_take_event(struct nigh_lanes *lanes)
{
    void *event = NULL;

    pthread_mutex_lock(&lanes->lock);
    if (lanes->idle)
        event = lanes->events[--lanes->idle];
    pthread_mutex_unlock(&lanes->lock);
    return event;
}

void nigh_lanes_put_event(struct nigh_lanes *lanes, void *event)
{
    pthread_mutex_lock(&lanes->lock);
    lanes->events[lanes->idle++] = event;
    pthread_mutex_unlock(&lanes->lock);
}
