/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/log.c - see log.h. */
#include "hosts/malloc/log.h"
#include "include/common/relay.h"
#include "include/common/standard_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct nigh_standard_error standard_error;
static struct nigh_relay relay;

__attribute__((constructor(101))) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
    nigh_relay_begin(&relay);
}

/* Without the process's number to nigh-run, which names ranks, and makes one line of equal ones. */
void nigh_malloc_log(const char *format, ...)
{
    char text[512], line[sizeof(text) + 48];
    int before = errno, bytes;
    va_list list;

    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    bytes = snprintf(line, sizeof(line), "nigh: malloc: %s\n", text);
    if (!nigh_relay_give(&relay, -1, line, (size_t)bytes)) {
        bytes = snprintf(line, sizeof(line), "nigh: malloc:%d: %s\n", (int)getpid(), text);
        nigh_standard_error_write(&standard_error, line, (size_t)bytes);
    }
    errno = before;
}
