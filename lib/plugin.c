/* SPDX-License-Identifier: BSD-3-Clause */
/* lib/plugin.c - the transport is an object of its own, so that a program linked with this library runs with the one
 * that is installed later, or with another one. */
#include "lib/plugin.h"
#include "include/common/descriptor.h"
#include "lib/error.h"
#include "lib/lives.h"
#include "lib/turn.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, LINES_BYTES = 2048, LINE_BYTES = 1100 };

/* What the plugin says while a context is opened for the first time: shown unless it only says that
 * there is no launcher. */
static char lines[LINES_BYTES];

/* Seen from the folder of this library: as installed, or of an installation that was moved; and from its libtool folder in
 * a build folder. */
static const char *const places[] = {"nigh/nigh.so", "../../plugin/.libs/nigh.so"};

/* The nigh.so that lies where this library does. False: there is none; `path` is the first place then. */
static bool beside(char *path)
{
    Dl_info info;
    const char *slash;
    int folder;

    if (!dladdr((const void *)&nigh_core, &info) || !info.dli_fname)
        return false;
    slash = strrchr(info.dli_fname, '/');
    if (!slash || slash - info.dli_fname > PATH_BYTES - 64)
        return false;
    folder = (int)(slash - info.dli_fname);
    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        snprintf(path, PATH_BYTES, "%.*s/%s", folder, info.dli_fname, places[i]);
        if (access(path, F_OK) == 0)
            return true;
    }
    snprintf(path, PATH_BYTES, "%.*s/%s", folder, info.dli_fname, places[0]);
    return false;
}

static void *open_object(struct nigh_call call, const struct nigh_config *config)
{
    const char *named = config && config->plugin ? config->plugin : getenv("NIGH_PLUGIN");
    char path[PATH_BYTES] = "";
    void *object;

    if (named && *named) {
        object = NIGH_FD_DURING(dlopen(named, RTLD_NOW | RTLD_LOCAL));
        if (!object)
            nigh_fail(call, -ENOENT, "the plugin that %s names cannot be loaded: %s",
                      config && config->plugin ? "nigh_config.plugin" : "NIGH_PLUGIN", dlerror());
        return object;
    }
    object = NIGH_FD_DURING(dlopen(beside(path) ? path : NIGH_PKGLIBDIR "/nigh.so", RTLD_NOW | RTLD_LOCAL));
    if (!object)
        nigh_fail(
            call, -ENOENT,
            "no plugin: NIGH_PLUGIN is not set, and neither %s (beside this library) nor " NIGH_PKGLIBDIR
            "/nigh.so can be loaded: %s",
            path, dlerror());
    return object;
}

int nigh_plugin_load(struct nigh_call call, const struct nigh_config *config)
{
    void *object = open_object(call, config);
    nigh_transport_fn entry = NULL;
    const struct nigh_ops *ops;

    if (!object)
        return -ENOENT;
    *(void **)&entry = dlsym(object, NIGH_SYMBOL);
    if (!entry)
        return nigh_fail(call, -EPROTO, "the plugin has no symbol %s: it is something else", NIGH_SYMBOL);
    ops = entry(NIGH_ABI);
    if (!ops)
        return nigh_fail(
            call, -EPROTO,
            "the plugin refuses ABI %u.%u, which this library was built for: load the nigh.so of its "
            "own release (NIGH_PLUGIN)",
            NIGH_ABI_MAJOR, NIGH_ABI_MINOR);
    if (!NIGH_HAS(ops, group_end)) /* the last of those that it uses, so all */
        return nigh_fail(call, -EPROTO, "the plugin \"%s\" %s lacks slots that this library needs", ops->name,
                         ops->version);
    /* It is never unloaded: it has handlers of fork, and a next nigh_init takes it again. */
    nigh_core.ops = ops;
    nigh_core.inject = ops->inject;
    nigh_core.expect = ops->expect;
    return 0;
}

static void keep_line(void *data, int level, const char *text)
{
    size_t used = strlen(lines);

    (void)data;
    (void)level;
    snprintf(lines + used, sizeof(lines) - used, "nigh: %s\n", text);
}

static void show_lines(void)
{
    size_t bytes = strlen(lines);

    if (bytes)
        nigh_error_write(lines, bytes);
    lines[0] = '\0';
}

static void show_line(void *data, int level, const char *text)
{
    char line[LINE_BYTES];
    int bytes = snprintf(line, sizeof(line), "nigh: %s\n", text);

    (void)data;
    (void)level;
    nigh_error_write(line, (size_t)bytes);
}

/* A job that nobody else has. */
static uint64_t lone_job(void)
{
    uint64_t job = nigh_now_ns() * 0x9e3779b97f4a7c15u ^ (uint64_t)getpid() << 32;

    return job ? job : 1;
}

static int open_context(struct nigh_open *options)
{
    int rc = nigh_core.ops->open(options, &nigh_core.context);

    if (rc == 0 || rc != -ENOENT || !(options->flags & NIGH_OPEN_DETECT)) {
        show_lines();
        return rc;
    }
    options->flags &= ~NIGH_OPEN_DETECT;
    options->log = show_line;
    options->life = 0;
    options->rank = 0;
    options->ranks = 1;
    options->job = lone_job();
    return nigh_core.ops->open(options, &nigh_core.context);
}

__thread const char *nigh_plugin_hushed;

static void log_line(void *data, int level, const char *text)
{
    if (nigh_plugin_hushed && strncmp(text, nigh_plugin_hushed, strlen(nigh_plugin_hushed)) == 0)
        return;
    /* Why a group has ended lib/group.c tells, with the call and the communicator. */
    if (strstr(text, " of a group of "))
        return;
    if (nigh_core.context == NULL)
        keep_line(data, level, text);
    else
        show_line(data, level, text);
}

static void close_context(void)
{
    nigh_core.ops->close(nigh_core.context);
    nigh_core.context = NULL;
}

/* It was joined, and cannot be used. */
static void leave_again(void)
{
    close_context();
    nigh_turn_undo();
}

static int open_and_look(struct nigh_open *options, struct nigh_query_context *me)
{
    uint64_t bytes = sizeof(*me);
    int rc = open_context(options);

    if (rc)
        return rc;
    rc = nigh_core.ops->query(nigh_core.context, NULL, NIGH_QUERY_CONTEXT, me, &bytes);
    if (rc)
        close_context();
    return rc;
}

/* Which job the launcher's is only an open context tells. That is the one of last time, unless the environment has
 * changed: then it is opened once more. Nobody connects to it in between. */
static int open_in_life(struct nigh_open *options, struct nigh_query_context *me)
{
    static uint64_t last;
    int rc;

    if (nigh_turn_begin(options, &options->life)) {
        rc = open_and_look(options, me);
        if (rc)
            nigh_turn_undo();
        return rc;
    }
    options->life = nigh_lives_of(options->flags & NIGH_OPEN_DETECT ? last : options->job);
    rc = open_and_look(options, me);
    if (!rc && nigh_lives_of(me->job) != options->life) {
        close_context();
        options->life = nigh_lives_of(me->job);
        rc = open_and_look(options, me);
    }
    if (!rc)
        last = me->job;
    return rc;
}

int nigh_plugin_open(struct nigh_call call, const struct nigh_config *config)
{
    struct nigh_open options = {.size = sizeof(options), .flags = NIGH_OPEN_DETECT, .log = log_line};
    struct nigh_query_context me = {.size = sizeof(me)};
    int rc;

    lines[0] = '\0';
    nigh_core.context = NULL;
    if (config && config->set) {
        options.flags = 0;
        options.rank = config->rank;
        options.ranks = config->ranks;
        options.job = config->job;
    }
    if (config)
        options.heap_bytes = config->heap_bytes;
    if (nigh_core.threads)
        options.flags |= NIGH_OPEN_THREADS;
    rc = open_in_life(&options, &me);
    if (rc)
        return nigh_fail(call, rc, "the job cannot be joined: %s", strerror(-rc));
    if (me.ranks > NIGH_MAX_RANKS) {
        leave_again();
        return nigh_fail(call, -ERANGE, "a job of %u ranks: at most %u are possible", me.ranks,
                         NIGH_MAX_RANKS);
    }
    /* Who is alone meets nobody, and often has a new job each time. */
    if (me.ranks > 1 && nigh_lives_begin(me.job)) {
        leave_again();
        return nigh_fail(call, -ENOMEM, "no memory to count how often this job is joined");
    }
    nigh_core.rank = (int32_t)me.rank;
    nigh_core.ranks = (int32_t)me.ranks;
    nigh_core.job = me.job;
    return 0;
}
