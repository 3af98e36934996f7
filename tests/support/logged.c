/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/logged.c - a sink that keeps the last line of the thread. */
#include "tests/support/logged.h"
#include "shm/log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static __thread char last[2048];
static __thread unsigned lines;

static void keep(void *data, int level, const char *text)
{
    (void)data;
    (void)level;
    lines++;
    snprintf(last, sizeof(last), "%s", text);
}

static const struct nigh_log_sink sink = {.write = keep, .level = NIGH_LOG_INFO};

void logged_begin(void)
{
    lines = 0;
    last[0] = 0;
    nigh_log_use(&sink);
}

unsigned logged_lines(void)
{
    return lines;
}

const char *logged_text(void)
{
    return last;
}

void logged_end(void)
{
    nigh_log_use(NULL);
}

void logged_assert_has(const char *part)
{
    if (!strstr(last, part))
        fail_msg("logged \"%s\", which does not have \"%s\"", last, part);
}
