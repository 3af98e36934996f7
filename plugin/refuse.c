/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/refuse.c - see refuse.h. */
#include "plugin/refuse.h"
#include "plugin/context.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

int nigh_refuse(struct nigh_context *context, int error, const char *format, ...)
{
    uint32_t told = context ? context->refusals : 0;
    const struct nigh_log_sink *before;
    char text[512];
    va_list arguments;

    if (told >= NIGH_REFUSALS_TOLD)
        return error;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (!context) {
        nigh_log(NIGH_LOG_ERROR, "%s", text);
        return error;
    }
    context->refusals++;
    /* Not for longer: another thread may close the context before this one calls again. */
    before = nigh_log_use(&context->log);
    nigh_log(NIGH_LOG_ERROR, "%s%s", text,
             told + 1 == NIGH_REFUSALS_TOLD ? " (no more of these are told)" : "");
    nigh_log_use(before);
    return error;
}

int nigh_refuse_missing(const char *call)
{
    static uint32_t told;
    /* Relaxed, here and below: threads that count at once tell a line more. */
    uint32_t count = nigh_load_relaxed(&told);
    const struct nigh_log_sink *before;

    if (count >= NIGH_REFUSALS_TOLD)
        return -EINVAL;
    nigh_store_relaxed(&told, count + 1);
    before = nigh_log_use(NULL);
    nigh_log(NIGH_LOG_ERROR, "%s: a handle, struct or output is NULL, or the endpoint is another context's%s",
             call, count + 1 == NIGH_REFUSALS_TOLD ? " (no more of these are told)" : "");
    nigh_log_use(before);
    return -EINVAL;
}

int nigh_refuse_child(struct nigh_context *context)
{
    const struct nigh_log_sink *before;

    if (context->refused_child)
        return -ECHILD;
    context->refused_child = true;
    /* Not to the host's log: another thread may have held its lock at the fork. */
    before = nigh_log_use(NULL);
    nigh_log(NIGH_LOG_WARN,
             "rank %u: this process was forked from the one that opened the context and may not use it: "
             "every call says ECHILD; open a context of its own",
             context->config.rank);
    nigh_log_use(before);
    return -ECHILD;
}

int nigh_refuse_flags(struct nigh_context *context, const char *call, uint32_t flags, uint32_t known)
{
    return nigh_refuse(context, -EINVAL, "%s: flags 0x%x: this call knows 0x%x, alone or together", call,
                       flags, known);
}

int nigh_refuse_tclass(struct nigh_context *context, const char *call, uint32_t tclass)
{
    return nigh_refuse(context, -EINVAL, "%s: traffic class %u: 0 to %u", call, tclass, NIGH_TCLASSES - 1);
}

int nigh_refuse_null(struct nigh_context *context, const char *call, uint64_t bytes)
{
    return nigh_refuse(context, -EFAULT, "%s: the buffer of %llu bytes is NULL", call,
                       (unsigned long long)bytes);
}

int nigh_refuse_reserved(struct nigh_context *context, const char *call)
{
    return nigh_refuse(context, -EINVAL,
                       "%s: reserved members must be zero: clear the struct before filling it", call);
}

int nigh_check_struct(struct nigh_context *context, const char *call, const void *given, uint32_t size,
                      uint32_t known)
{
    const uint8_t *bytes = given;

    if (size < known)
        return nigh_refuse(context, -EINVAL, "%s: the struct's size is %u, but it takes %u: set it by sizeof",
                           call, size, known);
    for (uint32_t i = known; i < size; i++)
        if (bytes[i])
            return nigh_refuse(context, -EINVAL,
                               "%s: byte %u of the struct is not zero, and this nigh knows its first %u: ask "
                               "for less, or load a newer nigh.so",
                               call, i, known);
    return 0;
}
