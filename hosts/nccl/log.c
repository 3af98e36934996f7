/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/nccl/log.c - see log.h. */
#include "hosts/nccl/log.h"
#include "hosts/nccl/table.h"
#include "include/common/standard_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct nigh_standard_error standard_error;
static _Atomic(nccl_logger) current; /* communicators of several threads set it, to the same */

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
}

void nigh_nccl_log_to(nccl_logger logger)
{
    if (logger)
        current = logger;
}

static void __attribute__((format(printf, 2, 0))) say(int level, const char *format, va_list list)
{
    unsigned long flags = level == NCCL_LOG_WARN ? ~0ul : NCCL_SUBSYSTEM_INIT | NCCL_SUBSYSTEM_NET;
    nccl_logger logger = current;
    char text[768], line[sizeof(text) + 48];
    int bytes;

    vsnprintf(text, sizeof(text), format, list);
    if (logger) {
        logger(level, flags, __FILE__, __LINE__, "NET/nigh : %s", text);
    } else if (level == NCCL_LOG_WARN) {
        bytes = snprintf(line, sizeof(line), "nigh: NCCL:%d: %s\n", (int)getpid(), text);
        nigh_standard_error_write(&standard_error, line, (size_t)bytes);
    }
}

void nigh_nccl_warn(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(NCCL_LOG_WARN, format, list);
    va_end(list);
}

void nigh_nccl_info(const char *format, ...)
{
    va_list list;

    va_start(list, format);
    say(NCCL_LOG_INFO, format, list);
    va_end(list);
}

static _Thread_local struct {
    bool on;
    char text[512];
} hearing;

void nigh_nccl_hear(void)
{
    hearing.on = true;
    hearing.text[0] = '\0';
}

const char *nigh_nccl_heard(void)
{
    const char *text = hearing.on ? hearing.text : "";

    hearing.on = false;
    return text;
}

void nigh_nccl_unheard(void)
{
    const char *text = nigh_nccl_heard();

    if (*text)
        nigh_nccl_warn("%s", text);
}

void nigh_nccl_log_nigh(void *data, int level, const char *text)
{
    size_t used = strlen(hearing.text);

    (void)data;
    if (level <= 1 && hearing.on)
        snprintf(hearing.text + used, sizeof(hearing.text) - used, "%s%s", used ? "; " : "", text);
    else if (level <= 1)
        nigh_nccl_warn("%s", text);
    else
        nigh_nccl_info("%s", text);
}

enum nccl_result nigh_nccl_stale(const char *call, const void *number, const char *what,
                                 enum nccl_result result)
{
    if (nigh_nccl_table_inherited(number)) {
        nigh_nccl_warn("%s: %p is of the process that this one was forked from: a forked child makes "
                       "communicators of its own",
                       call, number);
        return nigh_nccl_result(-ECHILD);
    }
    nigh_nccl_warn("%s: %p is no %s", call, number, what);
    return result;
}

enum nccl_result nigh_nccl_result(int error)
{
    switch (error) {
    case 0:
        return NCCL_SUCCESS;
    case -ECONNRESET:
    case -ECONNREFUSED:
    case -EPROTO:
        return NCCL_REMOTE_ERROR;
    case -EMSGSIZE:
    case -EHOSTUNREACH:
    case -ECANCELED:
        return NCCL_INVALID_USAGE;
    case -EINVAL:
    case -EFAULT:
    case -EBADMSG:
    case -EILSEQ:
    case -ERANGE:
        return NCCL_INVALID_ARGUMENT;
    default:
        return NCCL_SYSTEM_ERROR;
    }
}
