/* SPDX-License-Identifier: BSD-3-Clause */
/* The command line of nigh-perf. */
#include "tools/perf/options.h"

#include "tools/perf/beside.h"
#include "tools/perf/cpus.h"
#include "tools/perf/peers.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

const char *argp_program_version = "nigh-perf " PACKAGE_VERSION;

enum {
    KEY_BEHIND_BARRIER = 256,
    KEY_BESIDE,
    KEY_COMPARE,
    KEY_CPUS,
    KEY_CUDA,
    KEY_JSON,
    KEY_LAYER,
    KEY_NB,
    KEY_OPS,
    KEY_PATH,
    KEY_PLOT,
    KEY_STALE,
    KEY_TUNE_FILE
};

static const struct argp_option options[] = {
    {"np", 'n', "N", 0, "Ranks (default 2)", 0},
    {"sizes", 's', "LIST", 0, "Message sizes: 8,4K,1M and ranges 64-4K, which double", 0},
    {"seconds", 't', "S", 0, "Time for each test, shared by its sizes (default 5)", 0},
    {"path", KEY_PATH, "NAME", 0, "Force a path: eager, chunked, heap, cma", 0},
    {"layer", KEY_LAYER, "NAME", 0,
     "lib: through libnigh, too (latency, rate, overlap, collectives); plugin: not (default)", 0},
    {"behind-barrier", KEY_BEHIND_BARRIER, NULL, 0,
     "Of collectives: each call behind a barrier (default: calls in a row)", 0},
    {"nb", KEY_NB, NULL, 0, "Of collectives: begin, compute, wait; percent of the time that was hidden", 0},
    {"ops", KEY_OPS, "LIST", 0, "Of collective: barrier,allreduce,reduce,bcast,...", 0},
    {"stale", KEY_STALE, NULL, 0, "Send the same untouched buffer for ever, as most benchmarks do", 0},
    {"cpus", KEY_CPUS, "LIST", 0, "CPUs of the ranks: 0,2 or 0-3 (default: one per core)", 0},
    {"cuda", KEY_CUDA, "SENDER,RECEIVER", OPTION_ARG_OPTIONAL,
     "Of latency, bandwidth and rma, and all three without a TEST: buffers on CUDA devices, one kind for "
     "both or two of "
     "host, plain, vmm, pool, managed (default: plain), each with :DEVICE (default: 0)",
     0},
    {"beside", KEY_BESIDE, "N", 0, "Run N busy loops beside the tests", 0},
    {"compare", KEY_COMPARE, "LIST", 0, "Measure these peers too, by name, or all", 0},
    {"json", KEY_JSON, "FILE", 0, "Write a JSON object a line (- is stdout, then without the table)", 0},
    {"plot", KEY_PLOT, "FILE.svg", 0, "Draw the rows over the message size", 0},
    {"tune-file", KEY_TUNE_FILE, "FILE", 0, "Where tune writes (default: where nigh looks)", 0},
    {NULL, 0, NULL, 0, NULL, 0},
};

static const struct perf_test *find_test(const char *name)
{
    for (const struct perf_test *t = nigh_perf_tests; t->name; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

static void add_one(struct perf_command *c, const struct perf_test *test)
{
    if (c->tests < sizeof(c->test) / sizeof(c->test[0]))
        c->test[c->tests++] = test;
}

static void add_test(struct perf_command *c, const char *name, struct argp_state *state)
{
    const struct perf_test *one = find_test(name);

    if (strcmp(name, "all") == 0) {
        for (one = nigh_perf_tests; one->run != perf_test_tune; one++)
            if (!c->options.cuda.asked || one->run_cuda)
                add_one(c, one);
    } else if (!one)
        argp_error(state, "there is no test \"%s\"", name);
    else
        add_one(c, one);
}

static void set_sizes(struct perf_options *o, const char *text, struct argp_state *state)
{
    int rc = perf_sizes_parse(text, &o->sizes);

    if (rc == -E2BIG)
        argp_error(state, "--sizes=%s: more than %d sizes", text, PERF_SIZES);
    else if (rc == -ERANGE)
        argp_error(state, "--sizes=%s: a range that ends before it begins, or more than 64G", text);
    else if (rc != 0)
        argp_error(state, "--sizes=%s: not a list such as 8,4K,1M or 64-4K", text);
}

static void set_cpus(struct perf_options *o, const char *text, struct argp_state *state)
{
    int n = perf_cpus_parse(text, o->cpus, PERF_RANKS);

    if (n < 0)
        argp_error(state, "--cpus=%s: not a list such as 0,2 or 0-3", text);
    o->cpu_count = (uint32_t)(n > 0 ? n : 0);
}

static void set_ranks(struct perf_options *o, const char *text, struct argp_state *state)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*end != '\0' || n < 2 || n > PERF_RANKS)
        argp_error(state, "--np=%s: not a number from 2 to %d", text, PERF_RANKS);
    o->ranks = (uint32_t)n;
    o->ranks_given = true;
}

static void set_beside(struct perf_options *o, const char *text, struct argp_state *state)
{
    char *end;
    long n = strtol(text, &end, 10);

    if (*text == '\0' || *end != '\0' || n < 0 || n > PERF_BESIDE)
        argp_error(state, "--beside=%s: not a number from 0 to %d", text, PERF_BESIDE);
    o->beside = (uint32_t)n;
}

static void set_seconds(struct perf_options *o, const char *text, struct argp_state *state)
{
    char *end;

    o->seconds = strtod(text, &end);
    if (*end != '\0' || !(o->seconds >= 0.05 && o->seconds <= 86400))
        argp_error(state, "--seconds=%s: not a number from 0.05 to 86400", text);
}

static void set_layer(struct perf_options *o, const char *name, struct argp_state *state)
{
    o->lib = strcmp(name, "lib") == 0;
    if (!o->lib && strcmp(name, "plugin") != 0)
        argp_error(state, "--layer=%s: neither plugin nor lib", name);
}

/* Another job of a peer has a name of its own, which stays as long as the process does. */
static bool add_variant(struct perf_options *o, const char *name)
{
    char why[PERF_WHY_BYTES];

    if (!perf_peer_variant(name) || perf_peer_installed(name, why, sizeof(why)) == -ENOENT ||
        o->peer_count == PERF_PEERS)
        return false;
    o->peers[o->peer_count] = strdup(name);
    return o->peers[o->peer_count] && ++o->peer_count;
}

static void add_peer(struct perf_options *o, const char *name, struct argp_state *state)
{
    const char *known[PERF_PEERS];
    size_t n = perf_peer_names(known, PERF_PEERS);

    if (add_variant(o, name))
        return;
    for (size_t i = 0; i < n; i++)
        if ((strcmp(name, "all") == 0 || strcmp(name, known[i]) == 0) && o->peer_count < PERF_PEERS)
            o->peers[o->peer_count++] = known[i];
    if (n == 0)
        argp_error(state, "--compare: this nigh-perf knows no peers");
    if (o->peer_count == 0 || (strcmp(name, "all") != 0 && strcmp(o->peers[o->peer_count - 1], name) != 0))
        argp_error(state, "--compare: there is no peer \"%s\"", name);
}

static void set_peers(struct perf_options *o, char *text, struct argp_state *state)
{
    char *rest = strdup(text), *copy = rest, *name;

    while ((name = strsep(&rest, ",")))
        add_peer(o, name, state);
    free(copy);
}

static void add_op(struct perf_options *o, const char *name, struct argp_state *state)
{
    const char *const *known = perf_peer_collectives;
    char list[256] = "";
    size_t used = 0;

    for (; *known && strcmp(*known, name) != 0; known++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, " %s", *known);
    if (!*known)
        argp_error(state, "--ops: there is no collective \"%s\"; there are%s", name, list);
    else if (o->op_count < PERF_OPS)
        o->ops[o->op_count++] = *known;
}

static void set_ops(struct perf_options *o, char *text, struct argp_state *state)
{
    char *rest = strdup(text), *copy = rest, *name;

    while ((name = strsep(&rest, ",")))
        add_op(o, name, state);
    free(copy);
}

/* One call at a time is what either means. */
static void set_how(struct perf_options *o, enum perf_how how, struct argp_state *state)
{
    if (o->how != PERF_HOW_USUAL && o->how != how)
        argp_error(state, "--behind-barrier and --nb are two ways to time a call");
    o->how = how;
}

static void set_cuda(struct perf_options *o, const char *text, struct argp_state *state)
{
    int rc = perf_cuda_sides_parse(text, &o->cuda);

    if (rc == -ENODEV)
        argp_error(state, "--cuda=%s: neither side is on a device", text);
    else if (rc != 0)
        argp_error(state,
                   "--cuda=%s: not one kind or SENDER,RECEIVER of host, plain, vmm, pool, managed, each with "
                   "the number of a device behind a colon or none",
                   text);
}

/* What the command line asks for together. */
static void judge(const struct perf_command *c, struct argp_state *state)
{
    if (!c->options.cuda.asked)
        return;
    for (size_t i = 0; i < c->tests; i++)
        if (!c->test[i]->run_cuda)
            argp_error(state, "--cuda: %s has no buffers on devices; latency, bandwidth and rma have",
                       c->test[i]->name);
    if (c->options.lib)
        argp_error(state, "--cuda: libnigh sends memory of the host; --layer plugin");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct perf_command *c = state->input;
    struct perf_options *o = &c->options;

    switch (key) {
    case 'n':
        set_ranks(o, arg, state);
        return 0;
    case 's':
        set_sizes(o, arg, state);
        return 0;
    case 't':
        set_seconds(o, arg, state);
        return 0;
    case KEY_PATH:
        o->path = arg;
        return 0;
    case KEY_LAYER:
        set_layer(o, arg, state);
        return 0;
    case KEY_BEHIND_BARRIER:
        set_how(o, PERF_HOW_BARRIER, state);
        return 0;
    case KEY_NB:
        set_how(o, PERF_HOW_OVERLAP, state);
        return 0;
    case KEY_OPS:
        set_ops(o, arg, state);
        return 0;
    case KEY_STALE:
        o->stale = true;
        return 0;
    case KEY_CPUS:
        set_cpus(o, arg, state);
        return 0;
    case KEY_CUDA:
        set_cuda(o, arg, state);
        return 0;
    case KEY_BESIDE:
        set_beside(o, arg, state);
        return 0;
    case KEY_COMPARE:
        set_peers(o, arg, state);
        return 0;
    case KEY_JSON:
        o->json = arg;
        return 0;
    case KEY_PLOT:
        o->plot = arg;
        return 0;
    case KEY_TUNE_FILE:
        o->tune_file = arg;
        return 0;
    case ARGP_KEY_ARG:
        add_test(c, arg, state);
        return 0;
    case ARGP_KEY_NO_ARGS:
        if (o->cuda.asked)
            add_test(c, "all", state);
        else
            argp_usage(state);
        return 0;
    case ARGP_KEY_END:
        judge(c, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* The tests at the end of --help, from their table. */
static char *help(int key, const char *text, void *input)
{
    char *out = NULL;
    size_t size = 0;
    FILE *f;

    (void)input;
    if (key != ARGP_KEY_HELP_POST_DOC)
        return (char *)(uintptr_t)text;
    f = open_memstream(&out, &size);
    if (!f)
        return NULL;
    fputs("Tests:\n", f);
    for (const struct perf_test *t = nigh_perf_tests; t->name; t++)
        fprintf(f, "  %-14s %s\n", t->name, t->help);
    fputs(
        "  all            all of them but tune\n\n"
        "nigh-perf starts its ranks itself. Under nigh-run (NIGH_RANK, NIGH_SIZE and NIGH_JOB are set) the "
        "ranks are the processes that nigh-run started, where it has placed them, and rank 0 reports; tests "
        "that need another number of ranks, and --compare, are then refused.\n",
        f);
    fclose(f);
    return out;
}

static const struct argp argp = {
    options, parse, "TEST...", "Measures nigh on this machine.\v", NULL, help, NULL,
};

void perf_options_parse(struct perf_command *command, int argc, char **argv)
{
    argp_parse(&argp, argc, argv, 0, NULL, command);
}
