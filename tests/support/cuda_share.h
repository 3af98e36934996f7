/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/cuda_share.h - what the tests of device memory between processes share: cuda_share_test.c, cuda_anew_test.c,
 * cuda_ends_test.c. Each process begins with begin(). */
#ifndef NIGH_TESTS_CUDA_SHARE_H
#define NIGH_TESTS_CUDA_SHARE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/os.h"
#include "tests/support/cuda_lab.h"
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROOM = 3 << 20, FD = NIGH_CUDA_HANDLE_POSIX_FD };

static const int three[] __attribute__((unused)) = {0, 0, 0};

/* No descriptor is ever taken out of another process: sandboxes forbid it. */
static inline int no_pidfd_getfd(int process, int fd, unsigned flags)
{
    (void)process, (void)fd, (void)flags;
    abort();
}

static inline void begin(void)
{
    nigh_os.pidfd_getfd = no_pidfd_getfd;
    lab_begin();
}

static inline struct nigh_cuda_peer *open_peer(uint32_t idle)
{
    struct nigh_cuda_peer *peer;

    IS(nigh_cuda_peer_open(lab.cuda, false, idle, &peer), 0);
    return peer;
}

static inline void import(struct nigh_cuda_peer *peer, struct lab_packet *packet,
                          struct nigh_cuda_mapping **mapping)
{
    enum nigh_cuda_reason why;

    IS(lab_import(peer, lab_context(0), packet, mapping, &why), 0);
    IS(why, NIGH_CUDA_WHY_NONE);
}

static inline enum nigh_cuda_way way_of(const struct lab_packet *packet)
{
    return (enum nigh_cuda_way)((const struct nigh_cuda_wire *)packet->record)->way;
}

/* The bytes at an offset of the mapping, by a copy on the device. */
static inline bool mapping_has(const struct nigh_cuda_mapping *mapping, uint64_t offset, size_t bytes,
                               unsigned seed)
{
    uint64_t here = lab_alloc(0, bytes);
    nigh_cuda_ptr there;
    bool has;

    free(lab_look(here, bytes));
    IS(nigh_cuda_import_at(mapping, offset, bytes, &there), 0);
    IS(lab_copy_on_device(mapping->context, here, there, bytes), 0);
    has = lab_has(here, bytes, seed);
    lab_free(here);
    return has;
}

static inline void dropped(struct nigh_cuda_peer *peer, uint64_t number)
{
    int rc = -EBUSY;

    for (int i = 0; rc == -EBUSY && i < LAB_STEPS; i++) {
        rc = nigh_cuda_import_drop(peer, number);
        sched_yield();
    }
    IS(rc, 0);
}

static inline void offer_once(int socket)
{
    struct nigh_cuda_export *export;
    uint64_t at;

    begin();
    at = lab_alloc(0, ROOM);
    export = lab_export(at, ROOM);
    lab_put(at, ROOM, 3);
    lab_send(socket, export, at);
    lab_hear(socket);
    nigh_cuda_export_put(export);
    lab_free(at);
    lab_end();
}

#endif
