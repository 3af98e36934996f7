/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/log.c - see log.h. */
#include "hosts/malloc/log.h"
#include "include/common/standard_error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static struct nigh_standard_error standard_error;

__attribute__((constructor(101))) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
}

void nigh_malloc_log(const char *format, ...)
{
    char text[512];
    int before = errno, used = snprintf(text, sizeof(text), "nigh: malloc:%d: ", (int)getpid());
    va_list list;

    va_start(list, format);
    vsnprintf(text + used, sizeof(text) - (size_t)used - 1, format,
              list); /* a byte less, for the line's end */
    va_end(list);
    strcat(text, "\n");
    nigh_standard_error_write(&standard_error, text, strlen(text));
    errno = before;
}
