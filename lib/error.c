/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/error.c - one sentence per error and thread. Formatting lives here so that no call formats on its short way. */
#include "lib/error.h"
#include "include/common/relay.h"
#include "include/common/standard_error.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Kinds beyond those that are counted are written without a bound: no program has so many. */
enum {
    TEXT_BYTES = 2048, /* eight ranks of a deadlock, each with what it waits for */
    KINDS = 256,       /* of lines, that are counted */
    OF_A_KIND = 16,    /* lines that are written */
};

/* Lines of one format from one place of the program. */
static struct {
    const char *format; /* NULL: unused */
    const char *site;
    uint32_t lines;
} kinds[KINDS];
static pthread_mutex_t counting = PTHREAD_MUTEX_INITIALIZER;

struct texts {
    char error[TEXT_BYTES], logged[TEXT_BYTES];
};

/* Not thread-local variables: those of a library with one that programs reach directly, as nigh_site, lie all in one
 * block, of which dlopen() has some 500 bytes left. The key's destructor outlives a dlclose(). */
static pthread_key_t key;
static bool has_key;
static struct texts of_all; /* where memory is so short that a thread gets none of its own */

static void make_key(void)
{
    has_key = pthread_key_create(&key, free) == 0;
}

/* This thread's; NULL: it has had no error yet. */
static struct texts *texts(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_key);
    return has_key ? pthread_getspecific(key) : &of_all;
}

static struct texts *texts_to_write(void)
{
    struct texts *mine = texts();

    if (mine)
        return mine;
    mine = calloc(1, sizeof(*mine));
    if (mine && pthread_setspecific(key, mine) == 0)
        return mine;
    free(mine);
    return &of_all;
}

static struct nigh_standard_error standard_error;
static struct nigh_relay relay;

__attribute__((constructor)) static void look_first(void)
{
    nigh_standard_error_begin(&standard_error);
    nigh_relay_begin(&relay);
}

static void write_of(long rank, const char *lines, size_t bytes)
{
    if (!nigh_relay_give(&relay, rank, lines, bytes))
        nigh_standard_error_write(&standard_error, lines, bytes);
}

void nigh_error_write(const char *lines, size_t bytes)
{
    write_of(-1, lines, bytes);
}

void nigh_error_look(void)
{
    (void)nigh_standard_error_is(&standard_error);
}

/* One write, so that the lines of several ranks on one terminal stay whole. */
static void to_stderr(const char *text)
{
    char line[TEXT_BYTES + 48];
    int bytes;

    if (nigh_core.ranks > 1)
        bytes = snprintf(line, sizeof(line), "nigh: rank %d: %s\n", nigh_core.rank, text);
    else
        bytes = snprintf(line, sizeof(line), "nigh: %s\n", text);
    write_of(nigh_core.ranks > 1 ? nigh_core.rank : -1, line, (size_t)bytes);
}

/* How many of its kind there have been, with this one; 0: not counted. Never waits: a child of fork() may find the lock
 * taken by a thread that it does not have. */
static uint32_t count_line(const char *format, const char *site)
{
    uint32_t at = 0, lines = 0;

    if (pthread_mutex_trylock(&counting))
        return 0;
    while (at < KINDS && kinds[at].format && (kinds[at].format != format || kinds[at].site != site))
        at++;
    if (at < KINDS) {
        kinds[at].format = format;
        kinds[at].site = site;
        lines = ++kinds[at].lines;
    }
    pthread_mutex_unlock(&counting);
    return lines;
}

/* To stderr, as long as there are not too many of its kind. */
static void log_line(const char *format, const char *site, const char *text)
{
    uint32_t lines = count_line(format, site);
    char last[TEXT_BYTES];

    if (lines > OF_A_KIND)
        return;
    if (lines == OF_A_KIND) {
        snprintf(last, sizeof(last), "%.1900s (the %uth line of this kind: more of them are not written)",
                 text, lines);
        text = last;
    }
    to_stderr(text);
}

__attribute__((format(printf, 2, 0))) static void format_text(char *text, const char *format,
                                                              va_list arguments)
{
    int bytes = vsnprintf(text, TEXT_BYTES, format, arguments);

    if (bytes >= TEXT_BYTES)
        memcpy(text + TEXT_BYTES - 4, "...", 4);
}

__attribute__((format(printf, 2, 0))) static struct texts *keep(struct nigh_call call, const char *format,
                                                                va_list arguments)
{
    struct texts *to = texts_to_write();
    char text[TEXT_BYTES];

    format_text(text, format, arguments);
    snprintf(to->error, sizeof(to->error), "%.64s%.95s: %.1800s", call.name, nigh_where(call.site).text,
             text);
    return to;
}

int nigh_fail(struct nigh_call call, int error, const char *format, ...)
{
    struct texts *kept;
    va_list arguments;

    va_start(arguments, format);
    kept = keep(call, format, arguments);
    va_end(arguments);
    if (strcmp(kept->error, kept->logged) != 0) {
        memcpy(kept->logged, kept->error, sizeof(kept->logged));
        log_line(format, call.site, kept->error);
    }
    return error;
}

int nigh_fail_quietly(struct nigh_call call, int error, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)keep(call, format, arguments);
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
    log_line(format, NULL, text);
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
    const struct texts *mine = texts();

    return mine ? mine->error : of_all.error;
}
