/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/settings.c - reads the library's own variables; those of the plugin are its own business.
 * Nothing wrong is ignored. */
#include "lib/settings.h"
#include "lib/error.h"
#include "lib/thread.h"

#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STALL_SECONDS 0.3

struct reader {
    struct nigh_call call;
    int rc;
};

/* Variables are written alike in every locale: numbers with a point, words in ASCII. glibc's and musl's "C" is static. */
static locale_t plain(void)
{
    return newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

static const char *get(const char *name)
{
    const char *text = getenv(name);

    return text && *text ? text : NULL;
}

static void complain(struct reader *reader, const char *name, const char *text, const char *expected)
{
    reader->rc =
        nigh_fail(reader->call, -EINVAL, "%s=\"%s\" is not valid: expected %s", name, text, expected);
}

/* Seconds as nanoseconds; 0 = never, which is also what more than 30 years are. */
static uint64_t seconds(struct reader *reader, const char *name, double given, double standard)
{
    const char *text = given != 0 ? NULL : get(name);
    double value = given != 0 ? given : standard;
    char *end = NULL;

    if (text) {
        value = strtod_l(text, &end, plain());
        if (end == text || *end)
            value = -1;
    }
    if (!(value >= 0)) {
        complain(reader, name, text ? text : "nigh_config.timeout", "a number of seconds, 0 = never");
        return 0;
    }
    return value > 0 && value < 1e9 ? (uint64_t)(value * 1e9) + 1 : 0;
}

/* Which of two words: 0, 1, or 0 when the variable is not set. */
static bool choice(struct reader *reader, const char *name, const char *no, const char *yes)
{
    const char *text = get(name);
    char expected[64];

    if (!text || strcasecmp_l(text, no, plain()) == 0)
        return false;
    if (strcasecmp_l(text, yes, plain()) == 0)
        return true;
    strcpy(expected, no);
    strcat(strcat(expected, " or "), yes);
    complain(reader, name, text, expected);
    return false;
}

static int level(struct reader *reader)
{
    static const char *const words[] = {"error", "warn", "info"};
    const char *text = get("NIGH_LOG");

    for (int i = 0; text && i < 3; i++)
        if (strcasecmp_l(text, words[i], plain()) == 0)
            return i;
    if (text)
        complain(reader, "NIGH_LOG", text, "error, warn or info");
    return NIGH_LOG_WARN;
}

static int check_config(struct nigh_call call, const struct nigh_config *config)
{
    if (config->size != sizeof(*config))
        return nigh_fail(call, -EINVAL, "nigh_config.size is %u: set it to sizeof(struct nigh_config), %zu",
                         config->size, sizeof(*config));
    for (size_t i = 0; i < sizeof(config->reserved) / sizeof(config->reserved[0]); i++)
        if (config->reserved[i])
            return nigh_fail(call, -EINVAL,
                             "nigh_config.reserved must be zero: clear the struct before filling it");
    if (config->set > 1 || config->threads > 1 || config->progress > 1)
        return nigh_fail(call, -EINVAL, "nigh_config: set=%u, threads=%u and progress=%u are 0 or 1",
                         config->set, config->threads, config->progress);
    if (config->set &&
        (config->ranks == 0 || config->ranks > NIGH_MAX_RANKS || config->rank >= config->ranks))
        return nigh_fail(call, -EINVAL,
                         "nigh_config: rank %u of %u: ranks are 1 to %u, rank is less than that",
                         config->rank, config->ranks, NIGH_MAX_RANKS);
    return 0;
}

int nigh_settings_read(struct nigh_call call, const struct nigh_config *config)
{
    static const struct nigh_config nothing;
    struct reader reader = {.call = call};
    int rc = config ? check_config(call, config) : 0;

    if (rc)
        return rc;
    if (!config)
        config = &nothing;
    nigh_core.log_level = level(&reader);
    nigh_core.timeout_ns = seconds(&reader, "NIGH_TIMEOUT", config->timeout, 0);
    nigh_core.stall_ns = seconds(&reader, "NIGH_STALL", 0, STALL_SECONDS);
    nigh_core.strict = choice(&reader, "NIGH_STRICT", "0", "1");
    nigh_core.debug = choice(&reader, "NIGH_DEBUG", "0", "1");
    nigh_core.progress = choice(&reader, "NIGH_PROGRESS", "none", "thread") || config->progress;
    nigh_core.threads =
        choice(&reader, "NIGH_THREADS", "single", "multiple") || config->threads || nigh_core.progress;
    if (nigh_thread_cpus(get("NIGH_PROGRESS_CPUS")) != 0)
        complain(&reader, "NIGH_PROGRESS_CPUS", get("NIGH_PROGRESS_CPUS"), "a list of CPUs such as 0-3,7");
    return reader.rc;
}
