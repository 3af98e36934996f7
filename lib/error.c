/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/error.c - one sentence per error and thread. Formatting lives here so that no call formats on its short way. */
#include "lib/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_BYTES = 2048 }; /* eight ranks of a deadlock, each with what it waits for */

static __thread char last_error[TEXT_BYTES];
static __thread char last_logged[TEXT_BYTES];

/* One write, so that the lines of several ranks on one terminal stay whole. */
static void to_stderr(const char *text)
{
    char line[TEXT_BYTES + 48];
    int error = errno, bytes;

    if (nigh_core.ranks > 1)
        bytes = snprintf(line, sizeof(line), "nigh: rank %d: %s\n", nigh_core.rank, text);
    else
        bytes = snprintf(line, sizeof(line), "nigh: %s\n", text);
    if (write(STDERR_FILENO, line, (size_t)bytes) < 0)
        errno = error; /* nobody left to tell */
    errno = error;
}

__attribute__((format(printf, 2, 0))) static void format_text(char *text, const char *format,
                                                              va_list arguments)
{
    int bytes = vsnprintf(text, TEXT_BYTES, format, arguments);

    if (bytes >= TEXT_BYTES)
        memcpy(text + TEXT_BYTES - 4, "...", 4);
}

__attribute__((format(printf, 2, 0))) static void keep(struct nigh_call call, const char *format,
                                                       va_list arguments)
{
    char text[TEXT_BYTES];

    format_text(text, format, arguments);
    snprintf(last_error, sizeof(last_error), "%.64s%.95s: %.1800s", call.name, nigh_where(call.site).text,
             text);
}

int nigh_fail(struct nigh_call call, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    keep(call, format, arguments);
    va_end(arguments);
    if (strcmp(last_error, last_logged) != 0) {
        memcpy(last_logged, last_error, sizeof(last_logged));
        to_stderr(last_error);
    }
    return error;
}

int nigh_fail_quietly(struct nigh_call call, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    keep(call, format, arguments);
    va_end(arguments);
    return error;
}

void nigh_say(int level, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list arguments;

    if (level > nigh_core.log_level)
        return;
    va_start(arguments, format);
    format_text(text, format, arguments);
    va_end(arguments);
    to_stderr(text);
}

struct nigh_where nigh_where(const char *site)
{
    struct nigh_where where = {""};

    if (site)
        snprintf(where.text, sizeof(where.text), " at %.90s", site);
    return where;
}

NIGH_PUBLIC const char *nigh_error_text(void)
{
    return last_error;
}
