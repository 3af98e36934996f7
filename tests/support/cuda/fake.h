/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/cuda/fake.h - the inside of the fake CUDA driver. One lock guards all of it: a call takes the lock when it
 * enters, and functions named here expect it to be held. docs: tests/support/cuda/README.md.
 */
#ifndef NIGH_TESTS_CUDA_FAKE_H
#define NIGH_TESTS_CUDA_FAKE_H

#include "tests/support/cuda/calls.h"
#include "tests/support/test_cuda.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEVICES_MOST = 8, GRANULARITY = 2 << 20, LATE_US = 1000, STUCK_S = 60 };

typedef unsigned long long number;

/* ---- configuration, read from the environment once (config.c) -------------------------------------------- */

struct fake_config {
    int devices, visible[DEVICES_MOST], shown; /* ordinal -> number of the device in the machine */
    bool peers[DEVICES_MOST][DEVICES_MOST];
    bool mps, mig, mmap;
    int version, worker; /* worker: 0 never, 1 when something needs it, 2 always */
    size_t memory;       /* bytes of each device */
    long delay_us;       /* work starts no earlier than this after it was asked for */
    uint64_t random;
    const char *fails, *delays, *lacks, *attributes; /* lists for fake_listed() */
};

extern struct fake_config fake;

void fake_configure(void);
uint64_t fake_random(void);
/* `list` is "name=value[@after],..." or NULL; the value of `name`, or -1. */
long fake_listed(const char *list, const char *name, long *after);

/* ---- a call begins (enter.c) ------------------------------------------------------------------------------ */

/* Takes the lock. The error that the call gives, or 0. */
int fake_enter(const char *call);
void fake_leave(const int *entered);
void fake_lock(void);
void fake_unlock(void);
void fake_refuse(const char *call, int result);
/* Lets other threads and processes go on for a moment; the lock is released meanwhile. */
void fake_pause(void);
long fake_now_us(void);
void fake_started(bool started);
/* Ends the program: it did what is undefined or deadlocks with the real driver. */
__attribute__((noreturn)) void fake_wrong(const char *call, const char *what);
/* `call` waits for the host's kernels: in the thread that holds them it is wrong. The lock may be released meanwhile, so
 * this comes before what the call looks up. */
void fake_waits_for_host(const char *call);

#define FAKE_CALL                                                                            \
    __attribute__((cleanup(fake_leave), unused)) const int injected_ = fake_enter(__func__); \
    if (injected_)                                                                           \
    return injected_

/* Of a call that lets go of something: what fails is reported after it was let go of. */
#define FAKE_LETS_GO __attribute__((cleanup(fake_leave), unused)) const int injected = fake_enter(__func__)

/* ---- contexts (context.c) --------------------------------------------------------------------------------- */

struct context {
    struct context *next;
    int device, retained;         /* device: its ordinal */
    unsigned lives, flags, peers; /* peers: bit per ordinal */
    bool primary, dead;
    number id;
};

struct context *fake_current(void);
struct context *fake_primary(int device);
const char *fake_context_leaks(void);
void fake_destroy_context(struct context *context);
void fake_create_context(struct context *context);
int fake_capture_mode(void);

/* ---- device memory (object.c) ------------------------------------------------------------------------------ */

enum object_kind { OBJECT_LINEAR = 1, OBJECT_VIRTUAL, OBJECT_POOL };

/* The bytes, in a memfd. The fake reads and writes them at `view`; the program has no mapping that it may touch. */
struct object {
    struct object *next;
    enum object_kind kind;
    int fd, device; /* device: its number in the machine, -1: host memory */
    int handle_types;
    struct cu_location location;
    size_t bytes;
    char *view;
    unsigned uses; /* ranges and handles */
    bool imported, exported;
    number id, inode;
};

int fake_object_create(enum object_kind kind, size_t bytes, int device, struct object **out);
/* From another process, or from this one; `fd` stays the caller's. CU_INVALID_VALUE: not of that kind. */
int fake_object_import(enum object_kind kind, int fd, struct object **out);
/* A descriptor that keeps the memory alive. */
int fake_object_export(struct object *object, int *fd);
void fake_object_use(struct object *object);
void fake_object_drop(struct object *object);
/* What the memory of this process takes on a device, with what it has freed and another process still holds. */
size_t fake_object_used(int device);

/* ---- addresses (range.c) ------------------------------------------------------------------------------------ */

enum range_kind { RANGE_LINEAR = 1, RANGE_MAPPED, RANGE_POOL, RANGE_MANAGED, RANGE_HOST, RANGE_OPENED };

struct reservation {
    struct reservation *next;
    cu_address at;
    size_t bytes;
    bool of_test;
};

struct range {
    cu_address at;
    size_t bytes, offset; /* of the object */
    enum range_kind kind;
    struct object *object;
    struct context *context; /* NULL: of none */
    struct reservation *reservation;
    void *pool;
    bool finishes, releasing;
    number id, block;
    unsigned readable, writable; /* bit per ordinal */
    /* RANGE_OPENED */
    unsigned opened;
    int exporter;
    cu_address there;
    number source;
};

struct range *fake_range_at(cu_address at);
/* The next range from `at` on, or NULL. */
struct range *fake_range_from(cu_address at);
struct range *fake_range_add(const struct range *range);
/* Forgets the addresses and gives up the object. */
void fake_range_remove(struct range *range);
void fake_ranges_of_context_gone(const struct context *context);
/* Addresses that fault, aligned to GRANULARITY; 0: none. */
cu_address fake_address_take(size_t bytes, cu_address wish);
void fake_address_give(cu_address at, size_t bytes);
struct reservation *fake_reserve(size_t bytes, size_t alignment, cu_address wish);
struct reservation *fake_reservation_of(cu_address at, size_t bytes);
int fake_unreserve(cu_address at, size_t bytes);
size_t fake_reserved(void);
const char *fake_range_leaks(void);
/* The bytes at a device's address; *span: how many of them lie in one piece. NULL: not the driver's memory. */
char *fake_bytes_at(cu_address at, size_t *span);
bool fake_is_device(cu_address at, size_t bytes);

/* ---- memory (linear.c, virtual.c, pool.c, pin.c) ------------------------------------------------------------ */

int fake_linear_alloc(enum range_kind kind, struct context *context, size_t bytes, cu_address *at);
int fake_create(size_t bytes, const struct cu_allocation *properties, struct object **out);
int fake_map(cu_address at, size_t bytes, struct object *object);
int fake_unmap(cu_address at, size_t bytes);
int fake_set_access(cu_address at, size_t bytes, const struct cu_access *access);
const char *fake_virtual_leaks(void);
/* In the device's pool. */
int fake_pool_alloc(int device, size_t bytes, cu_address *at);
/* A range of the pool went. */
void fake_pool_freed(void *pool);
bool fake_pool_reaches(const void *pool, int ordinal); /* copies of that device may use its memory */
size_t fake_pool_used(int device);
const char *fake_pool_leaks(void);
/* What names a descriptor of this process to another one: it opens it by /proc, as nothing else may be needed. */
struct ipc {
    uint64_t magic, namespace_, inode, id, at, bytes;
    int32_t pid, fd, device;
};

void fake_ipc_name(int fd, struct ipc *ipc);
int fake_ipc_open(const struct ipc *ipc, int *fd);
bool fake_is_pinned(const void *at, size_t bytes);
size_t fake_pinned(void);
void fake_pins_of_context_gone(const struct context *context);

/* ---- work (stream.c, work.c, event.c) ----------------------------------------------------------------------- */

/* What a recorded event is: its memory is shared where other processes may open it. */
struct cell {
    number magic;
    _Atomic(number) recorded, done;
    _Atomic(uint32_t) gone;
};

struct event {
    struct event *next;
    struct context *context;
    struct cell *cell;
    unsigned flags, uses; /* uses: work that names it */
    int fd;
    bool opened, destroyed;
    number inode;
    long at_us; /* when it was last reached */
};

enum work_kind {
    WORK_COPY,
    WORK_FILL,
    WORK_RECORD,
    WORK_AWAIT,
    WORK_HOST,
    WORK_FREE,
    WORK_WRITE,
    WORK_WATCH,
    WORK_SPIN
};

struct work {
    struct work *next;
    enum work_kind kind;
    number order; /* among all work of the process */
    long from_us;
    cu_address to, from;
    bool to_device, from_device;
    size_t width, height, to_pitch, from_pitch;
    unsigned fill, fill_bytes, flags;
    number value;
    struct event *event;
    void (*function)(void *);
    void *argument, *owned; /* owned: the source's bytes, freed with the work */
};

struct stream {
    struct stream *next;
    struct context *context; /* NULL: destroyed */
    struct context *of;
    unsigned flags;
    number id;
    bool legacy, busy; /* busy: a host function of it runs */
    struct work *first, **last;
};

enum { STREAM_NON_BLOCKING = 1 };

/* The stream that a handle names, or NULL. */
struct stream *fake_stream(void *handle);
struct stream *fake_stream_create(struct context *context, unsigned flags);
/* Takes a copy of the work. */
int fake_submit(struct stream *stream, const struct work *work);
/* Until all that the stream has been given is done. */
void fake_finish(struct stream *stream, const char *call);
void fake_finish_context(const struct context *context, const char *call);
/* Some work may be done: called by whoever asks whether it is. */
void fake_progress(void);
bool fake_step(long older_than_us);
void fake_streams_of_context_gone(const struct context *context);
/* A kernel that waits is in some stream. */
bool fake_spins(void);
/* Copies under way from or to these addresses would fault. */
bool fake_in_use(cu_address at, size_t bytes);
const char *fake_stream_leaks(void);
void fake_need_worker(void);
number fake_last_order(void);

/* work.c: WORK_HOST releases the lock meanwhile. */
bool fake_work_ready(const struct work *work);
void fake_work_do(struct stream *stream, struct work *work);
void fake_copy_now(const struct work *work);
/* A copy to `to` of `from`: a plane of `height` rows. */
int fake_copy(struct stream *stream, const struct work *copy);

bool fake_event_reached(const struct event *event, number value);
void fake_event_record(struct event *event, number value);
void fake_event_unuse(struct event *event);
void fake_events_of_context_gone(const struct context *context);
const char *fake_event_leaks(void);

/* ---- the host's own work (host.c) --------------------------------------------------------------------------- */

bool fake_held(void);
/* By a kernel that this thread has said to run. */
bool fake_held_here(void);
number fake_held_since(void);
void fake_hold(bool hold);
/* What the host's copies from pageable memory have left to come. */
bool fake_come_all(void);
void fake_come_in_time(void);
void fake_put(cu_address to, const void *from, size_t bytes);
bool fake_capture(bool capture);
/* The thread's mode makes the driver refuse what it asks for; and the graph is void. */
bool fake_spoils(void);
bool fake_capturing(void);
void fake_spoil(void);

#endif
