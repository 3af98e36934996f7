/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/late.c - peers that are dialled in vain: told once each, all that are late together, with what may be the reason;
 * and a look at the places where they may be in its stead. */
#include "shm/exchange.h"
#include "shm/file.h"
#include "shm/log.h"
#include "shm/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMED = 8, /* ranks that a line lists */
    LINES = 8, /* lines of a context */
};

/* The lowest ranks, in order, and how many there are. */
struct ranks {
    uint32_t at[NAMED], count;
};

static void add(struct ranks *ranks, uint32_t rank)
{
    uint32_t last = ranks->count < NAMED ? ranks->count : NAMED - 1, i;

    if (ranks->count++ >= NAMED && rank >= ranks->at[last])
        return;
    for (i = last; i && ranks->at[i - 1] > rank; i--)
        ranks->at[i] = ranks->at[i - 1];
    ranks->at[i] = rank;
}

static void list(const struct ranks *ranks, char *text, size_t room)
{
    uint32_t named = ranks->count < NAMED ? ranks->count : NAMED;
    size_t used = (size_t)snprintf(text, room, ranks->count == 1 ? "rank" : "ranks");

    for (uint32_t i = 0; i < named && used < room; i++)
        used += (size_t)snprintf(text + used, room - used, "%s%" PRIu32,
                                 i == 0                                    ? " "
                                 : i + 1 == named && i + 1 == ranks->count ? " and "
                                                                           : ", ",
                                 ranks->at[i]);
    if (ranks->count > named && used < room)
        snprintf(text + used, room - used, " and %" PRIu32 " more", ranks->count - named);
}

static bool is_late(const struct nigh_exchange *exchange, uint64_t job)
{
    return exchange->state == NIGH_DIALLING && exchange->seen != NIGH_SEEN_REACHED &&
           exchange->seen != NIGH_SEEN_BUSY && exchange->to.job == job && exchange->to.incarnation == 0;
}

/* The name without a directory of a rank whose socket should be in NIGH_DIR. */
static void look_for_abstract(struct nigh_exchange *exchange)
{
    struct nigh_name name = exchange->rendezvous->name;
    int fd;

    name.directory = NULL;
    name.job = exchange->to.job;
    name.rank = exchange->to.rank;
    if (nigh_name_connect(&name, &fd))
        return;
    nigh_os_close(fd);
    exchange->seen = NIGH_SEEN_ABSTRACT;
}

static void note_user(struct nigh_rendezvous *rendezvous, uint64_t job, uint32_t rank, uint32_t uid)
{
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (!is_late(at, job) || at->to.rank != rank || uid == rendezvous->place.uid)
            continue;
        at->seen = NIGH_SEEN_USER;
        at->seen_value = uid;
    }
}

struct search {
    struct nigh_rendezvous *rendezvous;
    uint64_t job;
};

static void note_name(const char *line, void *data)
{
    const char *name = strstr(line, "@nigh-");
    struct search *search = data;
    uint32_t uid, rank;
    uint64_t job;

    if (name && sscanf(name, "@nigh-%" SCNu32 "-%" SCNx64 "-%" SCNu32, &uid, &job, &rank) == 3 &&
        job == search->job)
        note_user(search->rendezvous, job, rank, uid);
}

/* Abstract names are to be seen by all, and the user is a part of them. Where there is no /proc, nothing is known. */
static void look_for_users(struct nigh_rendezvous *rendezvous, uint64_t job)
{
    struct search search = {rendezvous, job};

    (void)nigh_file_each_line("/proc/net/unix", note_name, &search);
}

static void look_elsewhere(struct nigh_rendezvous *rendezvous, uint64_t job)
{
    unsigned tries = 0;

    if (!rendezvous->directory) {
        look_for_users(rendezvous, job);
        return;
    }
    for (struct nigh_exchange *at = rendezvous->exchanges; at && tries < NAMED; at = at->next) {
        if (!is_late(at, job) || at->told_late)
            continue;
        look_for_abstract(at);
        tries++;
    }
}

/* What is known of one of them stands for all. */
static void found(const struct nigh_exchange *exchange, char *text, size_t room)
{
    if (exchange->seen == NIGH_SEEN_USER)
        snprintf(text, room, " In fact user %u has opened rank %" PRIu32 " of that job.",
                 (unsigned)exchange->seen_value, exchange->to.rank);
    else if (exchange->seen == NIGH_SEEN_ABSTRACT)
        snprintf(text, room, " In fact rank %" PRIu32 " listens without NIGH_DIR.", exchange->to.rank);
}

static void tell(const struct nigh_rendezvous *rendezvous, uint64_t job, const struct ranks *late,
                 const char *known)
{
    char ranks[160];

    list(late, ranks, sizeof(ranks));
    nigh_log(NIGH_LOG_WARN,
             "rank %" PRIu32 ": %s of job %016" PRIx64
             " not met for %.1f s, tried on: %s not opened nigh yet, or ended "
             "before; or can never be met: of another user than %u, of another job (NIGH_JOB), %s%s.%s",
             rendezvous->self.self.rank, ranks, nigh_name_called(&rendezvous->name, job),
             (double)rendezvous->late_ns / 1e9, late->count == 1 ? "it has" : "they have",
             (unsigned)rendezvous->place.uid,
             rendezvous->directory
                 ? "or with another NIGH_DIR than "
                 : "in another network namespace (set NIGH_DIR to one directory for all), or with "
                   "NIGH_DIR set",
             rendezvous->directory ? rendezvous->directory : "", known);
}

void nigh_late_look(struct nigh_rendezvous *rendezvous, const struct nigh_exchange *oldest)
{
    uint64_t now = nigh_clock_ns(), job = oldest->to.job;
    struct ranks late = {.count = 0};
    char known[128] = "";

    if (oldest->told_late || !is_late(oldest, job) || now - oldest->begun < rendezvous->late_ns ||
        rendezvous->late_lines == LINES)
        return;
    rendezvous->late_lines++;
    look_elsewhere(rendezvous, job);
    for (struct nigh_exchange *at = rendezvous->exchanges; at; at = at->next) {
        if (at->told_late || !is_late(at, job) || now - at->begun < rendezvous->late_ns / 2)
            continue;
        at->told_late = true;
        add(&late, at->to.rank);
        found(at, known, sizeof(known));
    }
    tell(rendezvous, job, &late, known);
}
