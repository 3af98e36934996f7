/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Tests of --cuda: messages, lends, puts and gets between ranks 0 and 1 whose buffers lie on CUDA devices. Beside each, in the same
 * rounds of the same two processes: the same through slots of pinned shared memory without a protocol (the floor), rank 0's own copy
 * on the device, and the same of the host's memory. All data is put by the driver, and read back and compared.
 */
#ifndef NIGH_PERF_DEVICE_H
#define NIGH_PERF_DEVICE_H

#include "tools/perf/cuda.h"
#include "tools/perf/node.h"
#include "tools/perf/pipe.h"
#include "tools/perf/rounds.h"
#include "tools/perf/run.h"

/* What one repetition is. */
enum perf_device_shape {
    PERF_DEVICE_ONEWAY, /* there and back, half of it: ns */
    PERF_DEVICE_STREAM, /* a window of messages: GB/s */
    PERF_DEVICE_PUT,    /* to its completion: ns */
    PERF_DEVICE_GET,
    PERF_DEVICE_LEND, /* there and back, half of it: ns */
    PERF_DEVICE_SHAPES
};

/* Memory of one rank: messages of a window, one `stride` behind another. */
struct perf_device_memory {
    uint8_t *at;
    struct perf_cuda_buffer cuda; /* its device is NULL: memory of the host */
    struct nigh_region *region;   /* NULL: not registered */
};

/* What a message leaves from and what it goes to. */
struct perf_device_lane {
    struct perf_device_memory out, in;
    uint64_t key; /* rank 0's: of the memory of rank 1 that it puts to, or gets from */
};

struct perf_device;
struct perf_device_test {
    const char *name, *unit, *sizes;
    enum perf_device_shape shape;
    /* One repetition, in ranks 0 and 1; rank 0's figure counts. The messages of it are numbered from `number` on. */
    double (*once)(struct perf_device *d, const struct perf_device_lane *lane, uint64_t number);
};

/* One rank's state while one size is measured. */
struct perf_device {
    struct perf_rank *me;
    struct perf_node node;
    struct perf_cuda cuda;
    const struct perf_device_test *test;
    size_t bytes, stride;
    uint32_t window; /* messages in one repetition */
    bool stale;
    struct perf_pipe_load host[2];        /* private memory of the lanes */
    struct perf_device_lane device, both; /* `both`: both sides are the host's */
    struct perf_device_memory own_from, own_to;
    uint8_t *mirror;    /* pinned: what goes to and comes from a device, for looking at it */
    uint64_t number;    /* of the next message */
    uint64_t pieces[2]; /* that have gone through slots, from rank 0 and from rank 1 */
    uint64_t asked;     /* gets through slots */
};

/* Repetitions of a test through nigh, by one of the lanes. */
struct perf_device_work {
    struct perf_device *of;
    struct perf_device_lane *lane;
};

/* How a message goes through slots. */
struct perf_device_slots {
    const char *name;
    uint32_t count; /* up to PERF_CUDA_MARKS */
    size_t bytes;   /* of one */
};

#define PERF_DEVICE_SLOTS_KINDS 3u
#define PERF_DEVICE_SLOTS_BYTES (UINT64_C(2) << 20) /* of scratch memory */

struct perf_device_floor {
    struct perf_device *of;
    struct perf_device_slots slots;
};

/* The kinds of slots that are worth a try for messages of this size and shape. Returns how many. */
uint32_t perf_device_slots(size_t bytes, enum perf_device_shape shape,
                           struct perf_device_slots out[PERF_DEVICE_SLOTS_KINDS]);

/* Pieces; the argument is a floor, or the state. */
double perf_device_slots_run(struct perf_rank *me, void *floor, uint32_t count);
double perf_device_own_run(struct perf_rank *me, void *device, uint32_t count);

static inline bool perf_device_has(const struct perf_device_memory *memory)
{
    return memory->cuda.device != NULL;
}

/* Ends the rank unless a call of the driver's went well. */
void perf_device_must(struct perf_device *d, int rc);

/* Writes the first `messages` as numbers from `number` on (not when stale: then they are as they were when opened). */
void perf_device_fill(struct perf_device *d, const struct perf_device_memory *memory, uint32_t messages,
                      uint64_t number);

/* Ends the rank unless they are what `rank` wrote as such; `what` is whose work it was. */
void perf_device_check(struct perf_device *d, const struct perf_device_memory *memory, uint32_t messages,
                       uint32_t rank, uint64_t number, const char *what);

/* All sizes of one test. 0, or a negative errno that has been said. */
int perf_device_run(struct perf_run *run, const struct perf_device_test *test);

/* The tests of the same name with buffers on devices. */
int perf_device_latency(struct perf_run *run);
int perf_device_bandwidth(struct perf_run *run);
int perf_device_lend(struct perf_run *run);
int perf_device_rma(struct perf_run *run);

#endif
