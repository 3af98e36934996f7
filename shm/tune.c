/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/tune.c - the text of the tuning file, both ways. It knows no files (tune_file.c does), so every
 * error can be tested from a string. */
#include "shm/tune.h"

#include "shm/cpu.h"
#include "shm/pool.h"
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

enum {
    KIB = 1024,
    MIB = 1024 * KIB,
    SPAN_LEAST = 32 * KIB,
    SPAN_MOST = 64 * MIB,
    SPAN_DEFAULT = 2 * MIB,
    PIECE_DEFAULT = NIGH_CHUNK,
    FROM_MOST = 1024 * MIB,
    FAR_NS_MOST = 100000,
    /* Felt, not L: within an L3 80 to 120 ns on a Zen 3, 60 to 80 on a Zen 4, across two 260 to 320 and 240 to 300. */
    FAR_NS = 160,
    /* Of Intel's, whose cores of a socket have one L3 but lie far apart: a handoff takes 120 to 170 ns, and is felt as
     * 140 to 830 behind stores that are under way. What is right between two sockets was not measured; from 64 KiB on
     * figures decide. */
    FAR_NS_INTEL = 1000,
};

/* One span for all, because the pool is one for all pairs. Flushing is not in the list: it was second everywhere
 * (docs/rationale/copies.md), and every strategy costs trials. A receiver behind another L3 reads in quarters whatever
 * the CPU: 1.07 to 1.11 of a stream. */
void nigh_tune_default(struct nigh_tune *out)
{
    const uint8_t near = (uint8_t)nigh_copy_for_long();
    const struct nigh_strategy list[] = {
        {.sender = near, .receiver = near},
        {.sender = NIGH_COPY_NT, .receiver = NIGH_COPY_QUARTERS},
        {.sender = near, .receiver = NIGH_COPY_NT, .from = 16 * MIB, .tried = 4 * MIB},
        {.sender = NIGH_COPY_NT, .receiver = NIGH_COPY_NT, .from = 4 * MIB},
    };
    const bool intel = nigh_cpu() == NIGH_CPU_INTEL || nigh_cpu() == NIGH_CPU_GOLDEN_COVE;
    struct nigh_tune tune = {.ring_max = 1024, .far_ns = intel ? FAR_NS_INTEL : FAR_NS};

    for (size_t i = 0; i < sizeof(list) / sizeof(list[0]); i++) {
        struct nigh_strategy strategy = list[i];

        strategy.span = SPAN_DEFAULT;
        strategy.piece = PIECE_DEFAULT;
        if (nigh_strategy_check(&strategy, NULL) != 0)
            continue;
        if (i == 1) /* without it there is no better beginning than the first */
            tune.far = tune.count;
        tune.strategy[tune.count++] = strategy;
    }
    *out = tune;
}

/* A line that is being read: what is left of it, and what was wrong with it. */
struct line {
    const char *at, *end;
    char *error; /* of NIGH_TUNE_ERROR bytes */
};

static int is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static void trim(struct line *line)
{
    while (line->at < line->end && is_space(*line->at))
        line->at++;
    while (line->end > line->at && is_space(line->end[-1]))
        line->end--;
}

/* The text up to `stop` or to the next space, or to the end; the line goes on behind it. */
static struct line cut(struct line *line, char stop)
{
    struct line part = *line;
    const char *at = line->at;

    while (at < line->end && *at != stop && (stop != ' ' || !is_space(*at)))
        at++;
    part.end = at;
    line->at = at < line->end ? at + 1 : at;
    trim(&part);
    trim(line);
    return part;
}

static int length(const struct line *line)
{
    return line->end - line->at > 100 ? 100 : (int)(line->end - line->at);
}

static int is(const struct line *line, const char *word)
{
    return (size_t)(line->end - line->at) == strlen(word) && memcmp(line->at, word, strlen(word)) == 0;
}

/* A whole number, K and M allowed. */
static int number(const struct line *line, const char *key, uint32_t least, uint32_t most, uint32_t *out)
{
    uint64_t value = 0;
    const char *at = line->at;

    while (at < line->end && *at >= '0' && *at <= '9' && value <= UINT32_MAX)
        value = value * 10 + (uint64_t)(*at++ - '0');
    if (at > line->at && at + 1 == line->end && (*at == 'K' || *at == 'M'))
        value *= *at++ == 'K' ? KIB : MIB;
    if (line->at == line->end || at != line->end || value < least || value > most) {
        snprintf(line->error, NIGH_TUNE_ERROR, "%s: '%.*s' is not a number from %u to %u", key, length(line),
                 line->at, least, most);
        return -EINVAL;
    }
    *out = (uint32_t)value;
    return 0;
}

static int kernel(const struct line *word, uint8_t *out)
{
    char name[16];
    enum nigh_copy_kernel found;

    snprintf(name, sizeof(name), "%.*s", length(word), word->at);
    if (nigh_copy_parse(name, &found) != 0) {
        snprintf(word->error, NIGH_TUNE_ERROR,
                 "'%.*s' is no copy kernel; there are plain, prefetchw, nt, movsb, flush and quarters",
                 length(word), word->at);
        return -EINVAL;
    }
    *out = (uint8_t)found;
    return 0;
}

static int strategy_option(struct line option, struct nigh_strategy *out)
{
    struct line key = cut(&option, '=');

    if (is(&key, "span"))
        return number(&option, "span", SPAN_LEAST, SPAN_MOST, &out->span);
    if (is(&key, "piece"))
        return number(&option, "piece", NIGH_PAGE, NIGH_CHUNK, &out->piece);
    if (is(&key, "from"))
        return number(&option, "from", 0, FROM_MOST, &out->from);
    if (is(&key, "try"))
        return number(&option, "try", 0, FROM_MOST, &out->tried);
    snprintf(key.error, NIGH_TUNE_ERROR,
             "strategy: '%.*s' is none of span=BYTES, piece=BYTES, from=BYTES and try=BYTES", length(&key),
             key.at);
    return -EINVAL;
}

static int strategy(struct line line, struct nigh_strategy *out)
{
    struct nigh_strategy found = {.span = SPAN_DEFAULT, .piece = PIECE_DEFAULT};
    struct line kernels = cut(&line, ' ');
    struct line sender = cut(&kernels, '>');
    const char *why;
    int error = kernel(&sender, &found.sender);

    if (!error)
        error = kernel(&kernels, &found.receiver);
    while (!error && line.at < line.end)
        error = strategy_option(cut(&line, ' '), &found);
    if (error)
        return error;
    error = nigh_strategy_check(&found, &why);
    if (error) {
        snprintf(line.error, NIGH_TUNE_ERROR, "strategy %s>%s span=%u piece=%u: %s",
                 nigh_copy_name((enum nigh_copy_kernel)found.sender),
                 nigh_copy_name((enum nigh_copy_kernel)found.receiver), found.span, found.piece, why);
        return -EINVAL;
    }
    *out = found;
    return 0;
}

static int add_strategy(struct line value, struct nigh_tune *tune, bool *listed)
{
    struct nigh_strategy found;
    int error = strategy(value, &found);

    if (error)
        return error;
    if (!*listed)
        tune->count = tune->near = tune->far = 0;
    *listed = true;
    if (tune->count == NIGH_PACE_STRATEGIES) {
        snprintf(value.error, NIGH_TUNE_ERROR, "strategy: this is number %u, at most %u can be compared",
                 tune->count + 1, NIGH_PACE_STRATEGIES);
        return -EINVAL;
    }
    tune->strategy[tune->count++] = found;
    return 0;
}

static int one_line(struct line line, struct nigh_tune *tune, bool *listed)
{
    line = cut(&line, '#');
    if (line.at == line.end)
        return 0;

    struct line key = cut(&line, '=');

    if (is(&key, "ring_max"))
        return number(&line, "ring_max", 0, NIGH_TUNE_RING_MAX, &tune->ring_max);
    if (is(&key, "far_ns"))
        return number(&line, "far_ns", 1, FAR_NS_MOST, &tune->far_ns);
    if (is(&key, "near"))
        return number(&line, "near", 0, NIGH_PACE_STRATEGIES - 1, &tune->near);
    if (is(&key, "far"))
        return number(&line, "far", 0, NIGH_PACE_STRATEGIES - 1, &tune->far);
    if (is(&key, "strategy"))
        return add_strategy(line, tune, listed);
    snprintf(key.error, NIGH_TUNE_ERROR,
             "'%.*s' is no setting; there are ring_max, far_ns, strategy, near and far", length(&key),
             key.at);
    return -EINVAL;
}

static int named(char error[NIGH_TUNE_ERROR], const char *name, unsigned line)
{
    char said[NIGH_TUNE_ERROR];

    memcpy(said, error, sizeof(said));
    snprintf(error, NIGH_TUNE_ERROR, "%.200s:%u: %.280s", name, line, said);
    return -EINVAL;
}

int nigh_tune_parse(const char *text, const char *name, struct nigh_tune *tune, char error[NIGH_TUNE_ERROR])
{
    struct nigh_tune found;
    bool listed = false;
    unsigned count = 0;

    nigh_tune_default(&found);
    error[0] = '\0';
    while (*text) {
        const char *end = strchr(text, '\n');
        struct line line = {text, end ? end : text + strlen(text), error};

        count++;
        trim(&line);
        if (one_line(line, &found, &listed) != 0)
            return named(error, name, count);
        text = end ? end + 1 : line.end + strlen(line.end);
    }
    if (found.near >= found.count || found.far >= found.count) {
        snprintf(error, NIGH_TUNE_ERROR,
                 "near = %u and far = %u: there are only %u strategies, the first is 0", found.near,
                 found.far, found.count);
        return named(error, name, count);
    }
    if (found.strategy[found.near].from || found.strategy[found.far].from) {
        snprintf(error, NIGH_TUNE_ERROR,
                 "near = %u and far = %u: both must be for messages of every size (from=0)", found.near,
                 found.far);
        return named(error, name, count);
    }
    *tune = found;
    return 0;
}

static int append(char *text, size_t bytes, int at, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static int append(char *text, size_t bytes, int at, const char *format, ...)
{
    va_list values;

    if (at < 0)
        return at;
    va_start(values, format);
    int more = vsnprintf(text + at, bytes - (size_t)at, format, values);
    va_end(values);
    return more < 0 || (size_t)more >= bytes - (size_t)at ? -ENOSPC : at + more;
}

static int append_comment(char *text, size_t bytes, int at, const char *comment)
{
    while (*comment) {
        size_t line = strcspn(comment, "\n");

        at = append(text, bytes, at, "# %.*s\n", (int)line, comment);
        comment += line + (comment[line] == '\n');
    }
    return at;
}

int nigh_tune_format(const struct nigh_tune *tune, const char *comment, char *text, size_t bytes)
{
    int at = bytes > 0 ? append_comment(text, bytes, 0, comment ? comment : "") : -ENOSPC;

    at = append(text, bytes, at, "ring_max = %u\nfar_ns = %u\n", tune->ring_max, tune->far_ns);
    for (uint32_t i = 0; i < tune->count; i++) {
        const struct nigh_strategy *s = &tune->strategy[i];

        at = append(text, bytes, at, "strategy = %s>%s span=%u piece=%u from=%u try=%u\n",
                    nigh_copy_name((enum nigh_copy_kernel)s->sender),
                    nigh_copy_name((enum nigh_copy_kernel)s->receiver), s->span, s->piece, s->from, s->tried);
    }
    return append(text, bytes, at, "near = %u\nfar = %u\n", tune->near, tune->far);
}
