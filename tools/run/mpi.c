/* SPDX-License-Identifier: BSD-3-Clause */
/* See mpi.h. */
#include "tools/run/mpi.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tools/mpi/able.h"
#include "tools/mpi/home.h"
#include "tools/mpi/linked.h"
#include "tools/mpi/over.h"
#include "tools/run/bind.h"

#define WHY_BYTES 2048

_Noreturn static void give_up(int status, const char *what, const char *why)
{
    fprintf(stderr, "nigh-run: %s: %s\n", what, why);
    exit(status);
}

/* The first MPI of that name that can use nigh. One that cannot would run its program past nigh without a word. */
static void choose(const char *name, const char *providers, struct mpi_place *place)
{
    static struct mpi_place places[MPI_PLACES];
    char why[WHY_BYTES], reason[WHY_BYTES / 4] = "not installed (tests/peers.sh installs it)";
    size_t count = mpi_find_like(name, places, MPI_PLACES), used = 0;

    for (size_t i = 0; i < count; i++) {
        if (mpi_able(&places[i], providers, reason, sizeof reason)) {
            *place = places[i];
            if (i > 0) /* the program may be one of those that were passed over */
                fprintf(stderr, "nigh-run: --mpi %s is %s; not %s\n", name, place->launcher, why);
            return;
        }
        used += (size_t)snprintf(why + used, sizeof why - used, "%s%s: %s", i ? "\n    " : "",
                                 places[i].launcher, reason);
        if (used >= sizeof why)
            break;
    }
    give_up(RUN_FAILED, name, count ? why : reason);
}

/* The file that the launcher will run: below --wdir, or in PATH. False: there is none, which the launcher says. */
static bool find_program(const struct run_program *program, char *path, size_t size)
{
    const char *name = program->argv[0], *directory = program->directory ? program->directory : ".";

    if (!strchr(name, '/') && mpi_in_path(name, path, size))
        return true;
    if (*name != '/' && (size_t)snprintf(path, size, "%s/%s", directory, name) < size &&
        access(path, R_OK) == 0)
        return true;
    return (size_t)snprintf(path, size, "%s", name) < size && access(path, R_OK) == 0;
}

/* Before its ranks run without nigh, or each of them alone, and nobody sees why. */
static void refuse_foreign(const struct run_options *options, const struct mpi_place *place)
{
    char file[MPI_PATH_BYTES], why[WHY_BYTES * 2];

    for (uint32_t i = 0; i < options->program_count; i++) {
        const struct run_program *program = &options->programs[i];

        if (!find_program(program, file, sizeof file) || mpi_linked(place, file, why, sizeof why))
            continue;
        fprintf(stderr, "nigh-run: %s %s\n", program->argv[0], why);
        exit(RUN_FAILED);
    }
}

/* ---- the launcher's words ------------------------------------------------------------------------------ */

struct line {
    const struct run_options *options;
    const struct mpi_place *place;
    struct mpi_words settings, words;
    enum run_bind bind;
    bool crowded; /* more ranks than CPUs */
};

static void add(struct line *line, const char *word)
{
    mpi_words_add(&line->words, word);
}

static void add_number(struct line *line, const char *word, uint64_t number)
{
    char text[32];

    snprintf(text, sizeof text, "%" PRIu64, number);
    add(line, word);
    add(line, text);
}

/* Binding as without --mpi: a core for each rank, and none bound when there are too few. */
static void look(struct line *line)
{
    struct run_binding binding;

    line->bind = line->options->bind == RUN_BIND_CORE ? RUN_BIND_NONE : line->options->bind;
    if (run_binding_open(&binding, RUN_BIND_NONE, line->options->ranks) != 0)
        return;
    if (line->options->bind == RUN_BIND_CORE && !run_binding_oversubscribed(&binding))
        line->bind = RUN_BIND_CORE;
    line->crowded = run_binding_crowded(&binding);
    run_binding_close(&binding);
}

static void openmpi_words(struct line *line)
{
    static const char *const where[] = {"core", "l3cache", "numa", "none"};
    static const char *const maps[] = {"core:OVERSUBSCRIBE", "l3cache:OVERSUBSCRIBE", "numa:OVERSUBSCRIBE",
                                       "slot:OVERSUBSCRIBE"};

    if (geteuid() == 0) /* it refuses root otherwise, and root has asked for it */
        add(line, "--allow-run-as-root");
    add(line, "--map-by");
    add(line, maps[line->bind]);
    add(line, "--bind-to");
    add(line, where[line->bind]);
    if (line->options->label)
        add(line, "--tag-output");
    if (line->options->timeout_ns)
        add_number(line, "--timeout", (line->options->timeout_ns + 999999999) / 1000000000);
}

static void hydra_words(struct line *line)
{
    static const char *const where[] = {"core", "l3", "numa"};
    static const char *const domains[] = {"core", "cache3", "numa", NULL};
    char text[64];

    /* "none" is what MPICH's hydra does by itself, and one that was told anything of it cannot start further programs
     * (MPI_Comm_spawn; 5.0.2: "duplicate setting: binding"). */
    if (line->place->family == MPI_MPICH) {
        if (line->bind != RUN_BIND_NONE) {
            add(line, "-bind-to");
            add(line, where[line->bind]);
        }
    } else if (domains[line->bind]) {
        snprintf(text, sizeof text, "I_MPI_PIN_DOMAIN=%s", domains[line->bind]);
        mpi_words_add(&line->settings, text);
    } else {
        mpi_words_add(&line->settings, "I_MPI_PIN=0");
    }
    if (line->options->label)
        add(line, "-prepend-rank");
    if (line->options->timeout_ns) {
        snprintf(text, sizeof text, "MPIEXEC_TIMEOUT=%" PRIu64,
                 (line->options->timeout_ns + 999999999) / 1000000000);
        mpi_words_add(&line->settings, text);
    }
}

static void variable_words(struct line *line, const char *variable)
{
    const char *equals = strchr(variable, '=');
    char name[256];

    if (line->place->family == MPI_OPENMPI) {
        add(line, "-x");
        add(line, variable);
        return;
    }
    snprintf(name, sizeof name, "%.*s", (int)(equals - variable), variable);
    add(line, "-env");
    add(line, name);
    add(line, equals + 1);
}

static void program_words(struct line *line, const struct run_program *program)
{
    add_number(line, "-n", program->ranks);
    if (program->directory) {
        add(line, "-wdir");
        add(line, program->directory);
    }
    for (uint32_t i = 0; i < program->variable_count; i++)
        variable_words(line, program->variables[i]);
    for (char **word = program->argv; *word; word++)
        add(line, *word);
}

static void give_up_where_short_of_room(const struct mpi_words *words)
{
    char why[256];

    if (!words->overflow)
        return;
    mpi_words_lack(words, why, sizeof why);
    give_up(RUN_FAILED, "--mpi", why);
}

static void build(struct line *line, const char *providers)
{
    mpi_words_init(&line->settings);
    mpi_words_init(&line->words);
    look(line);
    mpi_at_home(line->place, &line->settings);
    mpi_over_nigh(line->place, providers, line->crowded ? line->options->ranks : 0,
                  line->options->program_count, &line->settings);
    add(line, line->place->launcher);
    if (line->place->family == MPI_OPENMPI)
        openmpi_words(line);
    else
        hydra_words(line);
    for (uint32_t i = 0; i < line->options->program_count; i++) {
        if (i > 0)
            add(line, ":");
        program_words(line, &line->options->programs[i]);
    }
    give_up_where_short_of_room(&line->settings);
    give_up_where_short_of_room(&line->words);
}

/* What the launchers have no word for is refused rather than dropped. */
static void refuse(const struct run_options *options)
{
    static const char why[] = "the MPI's own launcher starts and ends the ranks, and knows no such thing";

    if (options->keep_going)
        give_up(RUN_FAILED, "--keep-going cannot be had with --mpi", why);
    if (options->stdin_rank != 0)
        give_up(RUN_FAILED, "--stdin cannot be had with --mpi", why);
    if (options->grace_given)
        give_up(RUN_FAILED, "--kill-grace cannot be had with --mpi", why);
}

void run_mpi(const struct run_options *options)
{
    static struct mpi_place place;
    static struct line line = {.place = &place};
    char providers[MPI_PATH_BYTES], why[WHY_BYTES], shown[8192];

    line.options = options;
    refuse(options);
    if (mpi_providers(providers, sizeof providers, why, sizeof why) != 0)
        give_up(RUN_FAILED, "--mpi", why);
    choose(options->mpi, providers, &place);
    refuse_foreign(options, &place);
    build(&line, providers);
    if (options->verbose) {
        mpi_words_join(&line.settings, shown, sizeof shown);
        fprintf(stderr, "nigh-run: %s ", shown);
        mpi_words_join(&line.words, shown, sizeof shown);
        fprintf(stderr, "%s\n", shown);
    }
    for (size_t i = 0; i < line.settings.count; i++)
        putenv(line.settings.word[i]);
    execv(line.words.word[0], line.words.word);
    give_up(errno == ENOENT ? RUN_NOT_FOUND : RUN_NOT_EXECUTABLE, line.words.word[0], strerror(errno));
}
