/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/log.c - the calling thread's sink and the formatting of a line. A thread's, because the host wants the
 * lines of a call on the thread and with the data of the context that it called. */
#include "shm/log.h"
#include "include/common/relay.h"
#include "include/common/standard_error.h"
#include "shm/os.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 1024 /* terminating zero included */

static const struct nigh_log_sink standard = {.level = NIGH_LOG_WARN};
static __thread const struct nigh_log_sink *current;
static struct nigh_standard_error standard_error;
static struct nigh_relay relay;

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
    nigh_relay_begin(&relay);
}

void nigh_log_look(void)
{
    (void)nigh_standard_error_is(&standard_error);
}

const struct nigh_log_sink *nigh_log_use(const struct nigh_log_sink *sink)
{
    const struct nigh_log_sink *before = current;

    current = sink;
    return before;
}

/* One write, so that the lines of several processes on one terminal stay whole. */
static void to_stderr(const char *text)
{
    char line[LINE_BYTES + 8];
    int bytes = snprintf(line, sizeof(line), "nigh: %s\n", text);

    if (nigh_relay_give(&relay, -1, line, (size_t)bytes))
        return;
    if (nigh_standard_error_is(&standard_error) && nigh_os.write(STDERR_FILENO, line, (size_t)bytes) < 0)
        return; /* nobody left to tell */
}

void nigh_log(int level, const char *format, ...)
{
    const struct nigh_log_sink *sink = current ? current : &standard;
    char text[LINE_BYTES];
    int error = errno; /* callers log between a failed call and the use of its errno */
    va_list arguments;
    int bytes;

    if (level > sink->level)
        return;
    va_start(arguments, format);
    bytes = vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (bytes < 0)
        snprintf(text, sizeof(text), "a message that cannot be formatted: %.200s", format);
    else if ((size_t)bytes >= sizeof(text))
        memcpy(text + sizeof(text) - 4, "...", 4);
    if (sink->write)
        sink->write(sink->data, level, text);
    else
        to_stderr(text);
    errno = error;
}
