/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/log.h - lines for people, through NCCL's logger, and errors as NCCL counts them. */
#ifndef NIGH_NCCL_LOG_H
#define NIGH_NCCL_LOG_H

#include "hosts/nccl/abi.h"

/* NCCL hands it to init(). NULL: lines go to standard error. */
void nigh_nccl_log_to(nccl_logger logger);

/* One line. Any thread. */
void nigh_nccl_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));
void nigh_nccl_info(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For nigh's own lines: struct nigh_open.log. */
void nigh_nccl_log_nigh(void *data, int level, const char *text);

/* An error of NCCL's call is one line. From hear() on nigh's warnings on this thread are kept, for the caller's own line; heard()
 * gives what was kept, good until the next hear(), and ends it; without hear() "". unheard() ends it and warns of what was kept. */
void nigh_nccl_hear(void);
const char *nigh_nccl_heard(void);
void nigh_nccl_unheard(void);

/* A negative errno of nigh's; 0 is success. */
enum nccl_result nigh_nccl_result(int error);
/* A number that NCCL passes to `call` is no `what`: says so. `result`, or a system error if it was one in the process that this
 * one was forked from. */
enum nccl_result nigh_nccl_stale(const char *call, const void *number, const char *what,
                                 enum nccl_result result);

#endif
