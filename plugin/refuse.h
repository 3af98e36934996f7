/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/refuse.h - what a host is told that asks for what cannot be: which call, which value, what it may be. Apart
 * from errors that a sound program meets (a peer's end, no room), which it hears of by their numbers alone. */
#ifndef NIGH_PLUGIN_REFUSE_H
#define NIGH_PLUGIN_REFUSE_H

#include <stdint.h>

struct nigh_context;

/* A host in a loop would fill its log. */
#define NIGH_REFUSALS_TOLD 64u

/* Tells "CALL: ..." to the context's log, the first NIGH_REFUSALS_TOLD of a context; NULL: to the
 * thread's. Returns `error`. */
int nigh_refuse(struct nigh_context *context, int error, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* -EINVAL: a handle or an output is NULL, or of another context. There may be no context to tell: standard error, the
 * first NIGH_REFUSALS_TOLD of the process. */
int nigh_refuse_missing(const char *call) __attribute__((cold));

/* -ECHILD: the process was forked from the one that opened the context, which is told once, on standard error. */
int nigh_refuse_child(struct nigh_context *context) __attribute__((cold));

/* -EINVAL: bits of flags that the call does not know, classes that there are not, reserved members. */
int nigh_refuse_flags(struct nigh_context *context, const char *call, uint32_t flags, uint32_t known)
    __attribute__((cold));
int nigh_refuse_tclass(struct nigh_context *context, const char *call, uint32_t tclass) __attribute__((cold));
/* -EFAULT: no buffer for so many bytes. */
int nigh_refuse_null(struct nigh_context *context, const char *call, uint64_t bytes) __attribute__((cold));
int nigh_refuse_reserved(struct nigh_context *context, const char *call) __attribute__((cold));

/* Is a public struct sound in size, and its tail beyond what we know zero? 0, or -EINVAL, told. */
int nigh_check_struct(struct nigh_context *context, const char *call, const void *given, uint32_t size,
                      uint32_t known);

#endif
