/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/support/cuda_lab.h - tests of cuda_ipc/ on the fake driver: device memory of every kind, and pairs of processes
 * that hand it over. A driver belongs to one process for ever, so each process of a pair is a new one: it loads the driver
 * after it was forked, with the environment that it wants, and does not use cmocka.
 */
#ifndef NIGH_TESTS_CUDA_LAB_H
#define NIGH_TESTS_CUDA_LAB_H

#include "cuda_ipc/copy.h"
#include "cuda_ipc/export.h"
#include "cuda_ipc/import.h"
#include "tests/support/cuda/control.h"
#include "tests/support/test_cuda.h"

enum { LAB_PIECE = 2 << 20, LAB_PIECES = 8, LAB_STEPS = 200000 };

struct lab {
    const struct test_cuda *test;
    const struct fake_cuda *fake;
    const struct nigh_driver *driver;
    struct nigh_cuda *cuda;
};
extern struct lab lab;

/* Ends the process with a line, unless it holds. */
void lab_must(bool holds, const char *what, const char *file, int line);
#define MUST(condition)   lab_must(condition, #condition, __FILE__, __LINE__)
#define IS(value, wanted) lab_is((long)(value), (long)(wanted), #value, __FILE__, __LINE__)
void lab_is(long value, long wanted, const char *what, const char *file, int line);

/* Loads the driver and opens a domain. The end: closes it, and nothing may be left open. */
void lab_begin(void);
void lab_end(void);
void lab_end_keeping(void); /* the test's own memory may stay */

/* Memory of cuMemMap(): `count` pieces of LAB_PIECE, with these handle types, on these devices; a device of -1 is a hole, of -2
 * memory of the host. */
uint64_t lab_map(const int *devices, unsigned count, int handle_types);
void lab_map_at(uint64_t at, int device, int handle_types); /* one piece, at reserved addresses */
void lab_unmap(uint64_t at, const int *devices, unsigned count);
uint64_t lab_alloc(int device, size_t bytes); /* cuMemAlloc() */
uint64_t lab_alloc_here(size_t bytes);        /* in the current context */
void lab_free(uint64_t at);
/* A context of the host's own, not current. */
void *lab_context_create(int device);
void lab_context_destroy(void *context);
/* A pool that can be exported, and memory of it. */
void *lab_pool(int device);
void lab_pool_end(void *pool);
uint64_t lab_pool_alloc(void *pool, size_t bytes);

/* Bytes that depend on `seed` and their place. */
void lab_put(uint64_t at, size_t bytes, unsigned seed);
bool lab_has(uint64_t at, size_t bytes, unsigned seed);
void lab_fill(void *memory, size_t bytes, unsigned seed);
bool lab_filled(const void *memory, size_t bytes, unsigned seed);

/* What must go well. */
struct nigh_cuda_memory *lab_look(uint64_t at, size_t bytes);
struct nigh_cuda_export *lab_export(uint64_t at, size_t bytes);
struct nigh_cuda_context *lab_context(int device);
/* Steps until it is over. */
int lab_copy(struct nigh_cuda_copy *copy);
/* Between addresses of devices, in this context. */
int lab_copy_on_device(struct nigh_cuda_context *context, uint64_t to, uint64_t from, size_t bytes);

/* Both run at once, each with its end of a socket; the test fails unless both return. */
void lab_pair(void (*exporter)(int socket), void (*importer)(int socket));

/* One message each. */
void lab_say(int socket, uint64_t value);
uint64_t lab_hear(int socket);

/* An export with its descriptors, and what came of it. */
struct lab_packet {
    uint64_t number, offset;
    uint32_t bytes, count;
    int fds[NIGH_CUDA_SEGMENTS_MAX];
    unsigned char record[NIGH_CUDA_RECORD_MAX];
};
void lab_send(int socket, struct nigh_cuda_export *export, uint64_t at);
void lab_receive(int socket, struct lab_packet *packet);
int lab_import(struct nigh_cuda_peer *peer, struct nigh_cuda_context *context, struct lab_packet *packet,
               struct nigh_cuda_mapping **mapping, enum nigh_cuda_reason *why);
/* How many descriptors are open. */
unsigned lab_fds(void);

#endif
