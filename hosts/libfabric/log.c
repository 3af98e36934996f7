/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/libfabric/log.c - see log.h. */
#include "hosts/libfabric/log.h"
#include "include/common/standard_error.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const char *const names[] = {"warn", "trace", "info", "debug"};

static struct nigh_standard_error standard_error;

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
}

/* Read each time: hosts set it late, and no line is on a fast path. Warnings come without being asked: what
 * this provider warns of ends a job. */
static enum nigh_fi_level limit(void)
{
    const char *value = getenv("FI_LOG_LEVEL");
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in glibc and musl */

    for (int i = 0; value && i < 4; i++)
        if (strcasecmp_l(value, names[i], plain) == 0)
            return (enum nigh_fi_level)i;
    return NIGH_FI_WARN;
}

void nigh_fi_log(enum nigh_fi_level level, const char *format, ...)
{
    char text[512], line[sizeof(text) + 64];
    va_list list;
    int bytes;

    if (level > limit())
        return;
    va_start(list, format);
    vsnprintf(text, sizeof(text), format, list);
    va_end(list);
    bytes = snprintf(line, sizeof(line), "libfabric:%d:nigh:<%s> %s\n", (int)getpid(), names[level], text);
    nigh_standard_error_write(&standard_error, line, (size_t)bytes);
}

const char *nigh_fi_strerror(int prov_errno, const char *err_data, char *buf, size_t len)
{
    const char *words = err_data && *err_data ? err_data : strerror(prov_errno);

    if (buf && len)
        snprintf(buf, len, "%s", words);
    return words;
}

void nigh_fi_log_nigh(void *data, int level, const char *text)
{
    (void)data;
    nigh_fi_log(level <= 1 ? NIGH_FI_WARN : NIGH_FI_INFO, "%s", text);
}
