/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * plugin/run.h - several short messages of one sender's, copied in one call: of 32 KiB the way into the kernel and to
 * the other process' memory is a tenth.
 */
#ifndef NIGH_PLUGIN_RUN_H
#define NIGH_PLUGIN_RUN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

struct nigh_context;
struct nigh_message;

#define NIGH_RUN_MESSAGES 8u
/* In a call, so that both sides are at work to the end. Windows of 64 messages of 32, 48 and 64 KiB over Open MPI, of its
 * own: 128 KiB 2.12, 1.75 and 1.83, this 2.12, 1.83 and 1.86, 256 KiB 1.99, 1.81 and 1.86. */
#define NIGH_RUN_BYTES (192u * 1024)

/* The places of several messages' bytes, here and in another process. */
struct nigh_run {
    struct iovec here[NIGH_RUN_MESSAGES], there[NIGH_RUN_MESSAGES];
    uint64_t bytes;
    uint32_t count;
};

/* False: it has no room for so many more. The first always has. */
bool nigh_run_add(struct nigh_run *run, const void *here, uint64_t there, uint64_t bytes);

/* Takes the oldest ones that wait to be copied, and reads them, if that is done so. Their bytes; 0: it is not. */
uint64_t nigh_run_read(struct nigh_context *context);

#endif
