/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin/options.c - options: what the host set, else the environment, else the default. Nothing wrong is ignored. */
#include "plugin/options.h"
#include "plugin/beside.h"
#include "plugin/context.h"
#include "plugin/fetch.h"
#include "plugin/launcher.h"
#include "plugin/op.h"
#include "plugin/refuse.h"
#include "shm/log.h"
#include <errno.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

const char nigh_config_help[] =
    "NIGH_RANK, NIGH_SIZE, NIGH_JOB  this process's place, where the launcher is not known\n"
    "NIGH_THREADS=single|multiple    one thread at a time on a context, or any (default single)\n"
    "NIGH_WAIT_FD=0|1                make the descriptor for epoll (default 0)\n"
    "NIGH_HUGE=0|1                   ask for huge pages (default 0)\n"
    "NIGH_HEAP=BYTES                 space for heap memory, 64K..4T (default half of memory; K, M, G, T)\n"
    "NIGH_POOL=BYTES                 space for chunks of large messages, 256K..128G (default 256M)\n"
    "NIGH_SPAN=BYTES                 chunks in rotation, 128K..128G (default 2M, or NIGH_TUNE)\n"
    "NIGH_RING=SLOTS                 64-byte slots of a busy pair's ring, 64..65536 (default by load)\n"
    "NIGH_EAGER=BYTES                sends up to this complete before matched, 4K..1G (default 64K)\n"
    "NIGH_BODY=BYTES                 messages up to this travel inside the ring, 40..2088 (default 1024)\n"
    "NIGH_HEAP_FROM=BYTES            heap sends from this size are read in place (default 16K)\n"
    "NIGH_SPIN=NS                    how long wait() spins before it sleeps (default by load)\n"
    "NIGH_PEERS_MAX=N                endpoints at one time, at most 65536 (default ranks + 64, at least "
    "128)\n"
    "NIGH_DIR=PATH                   sockets in this 0700 directory instead of abstract names\n"
    "NIGH_TUNE=FILE                  what nigh-perf tune measured (default tune-HOST.conf in the user's nigh "
    "folder)\n"
    "NIGH_PATH=eager|chunked|heap|cma  force a path where it is possible (default: by measurement)\n"
    "NIGH_DOMAINS=auto|none|l3|node|package  how collectives group ranks (default auto: by a model)\n"
    "NIGH_PLACE=L3/NODE/PACKAGE      where this rank runs, three numbers or - (default: from its affinity)\n"
    "NIGH_CUDA=auto|off|require      memory of CUDA devices: where there is a driver, never, or never "
    "through the host (default auto)\n"
    "NIGH_LOG=error|warn|info        what is told (default warn)";

struct reader {
    const struct nigh_environment *environment;
    int error;
};

static const char *from_process(void *data, const char *name)
{
    (void)data;
    return getenv(name);
}

static const char *get(struct reader *reader, const char *name)
{
    const char *text = reader->environment->get(reader->environment->data, name);

    return text && *text ? text : NULL;
}

/* `field`: the host itself has set it, and nobody is to look for a variable; NULL: the variable `name` says so. */
static void complain(struct reader *reader, const char *name, const char *field, const char *text,
                     const char *expected)
{
    if (field)
        nigh_log(NIGH_LOG_ERROR, "open: %s=\"%s\" is not valid: expected %s", field, text, expected);
    else
        nigh_log(NIGH_LOG_ERROR, "%s=\"%s\" is not valid: expected %s", name, text, expected);
    reader->error = -EINVAL;
}

static bool parse_number(const char *text, uint64_t *out)
{
    static const char suffixes[] = "KMGT";
    char *end;
    uint64_t value;
    const char *at;
    unsigned shift = 0;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    value = strtoull(text, &end, 0);
    if (errno)
        return false;
    if (*end && *end != ' ' && (at = strchr(suffixes, *end & ~0x20)) != NULL) {
        shift = 10 * (unsigned)(at - suffixes + 1);
        end++;
    }
    if (*end || value > UINT64_MAX >> shift)
        return false;
    *out = value << shift;
    return true;
}

/* `given` if the host set it, in `field`, else the variable, else `standard`; all held to the limits. */
static uint64_t number(struct reader *reader, const char *name, const char *field, uint64_t given,
                       uint64_t standard, uint64_t least, uint64_t most)
{
    const char *text = given ? NULL : get(reader, name);
    uint64_t value = given ? given : standard;
    char expected[96], shown[32];

    snprintf(expected, sizeof(expected), "a number from %llu to %llu", (unsigned long long)least,
             (unsigned long long)most);
    if (text && !parse_number(text, &value)) {
        complain(reader, name, NULL, text, expected);
        return standard;
    }
    if (value >= least && value <= most)
        return value;
    snprintf(shown, sizeof(shown), "%llu", (unsigned long long)value);
    complain(reader, name, given ? field : NULL, text ? text : shown, expected);
    return standard;
}

/* One of `words`, separated by '|': its place, or -1 if neither `given`, the host's path, nor the variable is set. */
static int word(struct reader *reader, const char *name, const char *given, const char *words)
{
    const char *text = given ? given : get(reader, name), *at = words;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* static in glibc and musl */

    if (!text)
        return -1;
    for (int place = 0;; place++) {
        size_t length = strcspn(at, "|");

        if (strlen(text) == length && strncasecmp_l(text, at, length, plain) == 0)
            return place;
        if (!at[length])
            break;
        at += length + 1;
    }
    complain(reader, name, given ? "path" : NULL, text, words);
    return -1;
}

/* Half of memory, but so that the heaps of all ranks together fit a quarter of a 47-bit address space: each process
 * maps every peer's. */
static uint64_t default_heap(uint32_t ranks)
{
    uint64_t half = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    uint64_t share = (UINT64_C(1) << 45) / ranks / NIGH_PAGE * NIGH_PAGE;
    uint64_t most = UINT64_C(1) << 42;

    half = half < share ? half : share;
    return half < most ? half : most;
}

static bool power_of_two(uint64_t value)
{
    return (value & (value - 1)) == 0;
}

/* Every life of a job is a job of its own for those who look for its ranks. */
static uint64_t meeting_of(uint64_t job, uint64_t life)
{
    uint64_t mixed = (job ^ life * UINT64_C(0x9e3779b97f4a7c15)) * UINT64_C(0xbf58476d1ce4e5b9);

    return life ? mixed ^ mixed >> 29 : job;
}

static void read_place(struct reader *reader, const struct nigh_open *options, struct nigh_config *out)
{
    struct nigh_launch launch;
    char shown[48];

    out->job = options->job;
    out->rank = options->rank;
    out->ranks = options->ranks;
    if (options->flags & NIGH_OPEN_DETECT) {
        int rc = nigh_launcher_detect(&launch);

        if (rc == -EINVAL)
            nigh_log(NIGH_LOG_ERROR, "%s", launch.error);
        else if (rc)
            nigh_log(NIGH_LOG_ERROR,
                     "no launcher found: start with nigh-run, mpirun, srun or torchrun, or set NIGH_RANK, "
                     "NIGH_SIZE and NIGH_JOB");
        reader->error = rc;
        if (rc)
            return;
        out->job = launch.job;
        out->rank = launch.rank;
        out->ranks = launch.size;
    }
    out->meeting = meeting_of(out->job, options->life);
    if (out->ranks && out->rank < out->ranks)
        return;
    snprintf(shown, sizeof(shown), "%u of %u", out->rank, out->ranks);
    complain(reader, "NIGH_RANK", "rank", shown, "a rank below the number of ranks, and at least one rank");
}

/* What was measured on this machine. A broken file that the user named is an error; one that lies about is reported. */
static void read_tune(struct reader *reader, struct nigh_config *out)
{
    char path[NIGH_TUNE_PATH], error[NIGH_TUNE_ERROR];
    int rc = nigh_tune_load(&out->tune, path, error);

    if (rc >= 0)
        return;
    nigh_log(NIGH_LOG_ERROR, "tuning file refused: %s; %s", error,
             get(reader, "NIGH_TUNE") ? "mend it or unset NIGH_TUNE" : "going on with the defaults");
    if (get(reader, "NIGH_TUNE"))
        reader->error = -EINVAL;
}

#define SPAN_LEAST (1u << 17)

static uint64_t body_default(const struct nigh_config *config)
{
    uint32_t most = config->tune.ring_max;

    return most < NIGH_SLOT_PAYLOAD ? NIGH_SLOT_PAYLOAD : most > NIGH_BODY_MAX ? NIGH_BODY_MAX : most;
}

/* One pool for all peers and sizes: the span of what pairs begin with. */
static uint64_t span_default(const struct nigh_config *config)
{
    uint32_t span = config->tune.strategy[config->tune.near].span;

    return span > SPAN_LEAST ? span : SPAN_LEAST;
}

static void read_sizes(struct reader *reader, const struct nigh_open *options, struct nigh_config *out)
{
    uint64_t peers = (uint64_t)(out->ranks > 64 ? out->ranks : 64) + 64;
    char shown[16];

    out->heap_bytes = number(reader, "NIGH_HEAP", "heap_bytes", options->heap_bytes, default_heap(out->ranks),
                             1 << 16, UINT64_C(1) << 42);
    out->pool_bytes =
        number(reader, "NIGH_POOL", "pool_bytes", options->pool_bytes, 256 << 20, 1 << 18, UINT64_C(1) << 37);
    out->span_bytes = number(reader, "NIGH_SPAN", NULL, 0, span_default(out), SPAN_LEAST, UINT64_C(1) << 37);
    out->span_by_load = !get(reader, "NIGH_SPAN");
    out->ring_slots =
        (uint32_t)number(reader, "NIGH_RING", "ring_slots", options->ring_slots, 128, 64, 65536);
    out->ring_by_load = !options->ring_slots && !get(reader, "NIGH_RING");
    if (!power_of_two(out->ring_slots)) {
        snprintf(shown, sizeof(shown), "%u", out->ring_slots);
        complain(reader, "NIGH_RING", options->ring_slots ? "ring_slots" : NULL, shown,
                 "a power of two from 64 to 65536");
    }
    out->eager_bytes =
        (uint32_t)number(reader, "NIGH_EAGER", "eager_bytes", options->eager_bytes, 65536, 4096, 1 << 30);
    out->body_bytes =
        (uint32_t)number(reader, "NIGH_BODY", NULL, 0, body_default(out), NIGH_SLOT_PAYLOAD, NIGH_BODY_MAX);
    out->heap_from = number(reader, "NIGH_HEAP_FROM", NULL, 0, 16384, 1, UINT64_MAX);
    out->place_from = nigh_plan_crowded_from(nigh_cpu());
    out->beside_from = nigh_beside_from();
    out->beside_row_from = nigh_beside_row_from();
    out->away_ns = NIGH_BESIDE_AWAY_NS;
    out->fetch_ns = NIGH_FETCH_NS;
    out->spin_ns = number(reader, "NIGH_SPIN", "spin_ns", options->spin_ns, 20000, 0, UINT32_MAX);
    out->spin_by_load = !options->spin_ns && !get(reader, "NIGH_SPIN");
    out->peers_max = (uint32_t)number(reader, "NIGH_PEERS_MAX", "peers_max", options->peers_max,
                                      peers < 65536 ? peers : 65536, 1, 65536);
}

static void read_words(struct reader *reader, const struct nigh_open *options, struct nigh_config *out)
{
    static const int paths[] = {NIGH_PATH_EAGER, NIGH_PATH_CHUNKED, NIGH_PATH_HEAP, NIGH_PATH_CMA};
    static const int levels[] = {NIGH_LOG_ERROR, NIGH_LOG_WARN, NIGH_LOG_INFO};
    int path = word(reader, "NIGH_PATH", options->path, "eager|chunked|heap|cma");
    int level = word(reader, "NIGH_LOG", NULL, "error|warn|info");
    int cuda = word(reader, "NIGH_CUDA", NULL, "auto|off|require");

    out->path = path < 0 ? -1 : paths[path];
    out->log_level = level < 0 ? NIGH_LOG_WARN : levels[level];
    out->threads =
        options->flags & NIGH_OPEN_THREADS || word(reader, "NIGH_THREADS", NULL, "single|multiple") == 1;
    out->wait_fd = options->flags & NIGH_OPEN_WAIT_FD || word(reader, "NIGH_WAIT_FD", NULL, "0|1") == 1;
    out->cuda = cuda != 1;
    out->cuda_required = cuda == 2;
    out->huge = options->flags & NIGH_OPEN_HUGE || word(reader, "NIGH_HUGE", NULL, "0|1") == 1;
}

/* What collectives group ranks by. */
static void read_domains(struct reader *reader, struct nigh_config *out)
{
    const char *place = get(reader, "NIGH_PLACE");
    int level = word(reader, "NIGH_DOMAINS", NULL, "auto|none|l3|node|package");

    out->domains = level < 0 ? NIGH_LEVEL_AUTO : (enum nigh_level)level;
    out->is_placed = place != NULL;
    if (place && !nigh_where_parse(place, &out->where))
        complain(reader, "NIGH_PLACE", NULL, place,
                 "L3/NODE/PACKAGE, each a number up to 65534 or -, as 3/1/0");
}

static void read_directory(struct reader *reader, const struct nigh_open *options, struct nigh_config *out)
{
    const char *directory = options->directory ? options->directory : get(reader, "NIGH_DIR");

    out->directory[0] = '\0';
    if (!directory)
        return;
    if (strlen(directory) >= sizeof(out->directory)) {
        nigh_log(NIGH_LOG_ERROR,
                 "%s\"%s\" is %zu bytes long: a socket's path holds at most %zu: name a shorter directory",
                 options->directory ? "open: directory " : "NIGH_DIR=", directory, strlen(directory),
                 sizeof(out->directory) - 1);
        reader->error = -ENAMETOOLONG;
        return;
    }
    strcpy(out->directory, directory);
}

int nigh_config_read(const struct nigh_open *options, const struct nigh_environment *environment,
                     struct nigh_config *out)
{
    static const struct nigh_environment process = {.get = from_process};
    struct reader reader = {.environment = environment ? environment : &process};
    struct nigh_config config = {0};

    const uint32_t known = NIGH_OPEN_THREADS | NIGH_OPEN_WAIT_FD | NIGH_OPEN_HUGE | NIGH_OPEN_DETECT;

    if (nigh_check_struct(NULL, "open", options, options->size, sizeof(*options)))
        return -EINVAL;
    if (options->flags & ~known)
        return nigh_refuse_flags(NULL, "open", options->flags, known);
    for (unsigned i = 0; i < sizeof(options->reserved) / sizeof(options->reserved[0]); i++)
        if (options->reserved[i])
            return nigh_refuse_reserved(NULL, "open");
    read_place(&reader, options, &config);
    if (!reader.error)
        read_tune(&reader, &config);
    if (!reader.error)
        read_sizes(&reader, options, &config);
    if (!reader.error)
        read_words(&reader, options, &config);
    if (!reader.error)
        read_domains(&reader, &config);
    if (!reader.error)
        read_directory(&reader, options, &config);
    if (!reader.error)
        *out = config;
    return reader.error;
}
