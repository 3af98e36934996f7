/* SPDX-License-Identifier: BSD-3-Clause */
/* The table. All cells are made first, so that each column is as wide as its widest cell. */
#include "tools/perf/report.h"

#include "tools/perf/sizes.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The longest cell is a peer's name, by which its column is found again. */
enum { FIXED = 10, COLUMNS = FIXED + PERF_PEERS, CELL = PERF_PEER_BYTES };

struct table {
    size_t lines; /* the heading included */
    size_t columns;
    char (*cell)[COLUMNS][CELL];
};

struct scale {
    const char *unit;
    double from;   /* used from this value on */
    double factor; /* value * factor is shown */
    const char *shown;
};

static const struct scale scales[] = {
    {"ns", 1e7, 1e-6, "ms"},
    {"ns", 1e4, 1e-3, "us"},
    {"bytes", 10 * 1048576.0, 1 / 1048576.0, "MiB"},
    {"bytes", 10 * 1024.0, 1 / 1024.0, "KiB"},
};

const char *perf_figure_text(double value, const char *unit, char room[PERF_FIGURE_BYTES])
{
    int decimals;

    if (!isfinite(value)) {
        snprintf(room, PERF_FIGURE_BYTES, "-");
        return room;
    }
    for (size_t i = 0; i < sizeof(scales) / sizeof(scales[0]); i++)
        if (strcmp(unit, scales[i].unit) == 0 && fabs(value) >= scales[i].from) {
            value *= scales[i].factor;
            unit = scales[i].shown;
            break;
        }
    decimals = fabs(value) >= 1000 ? 0 : fabs(value) >= 100 ? 1 : fabs(value) >= 1 ? 2 : 3;
    if (strcmp(unit, "bytes") == 0)
        decimals = 0;
    snprintf(room, PERF_FIGURE_BYTES, "%.*f %s", decimals, value, unit);
    return room;
}

static void figure(char cell[CELL], double value, const char *unit)
{
    char room[PERF_FIGURE_BYTES];

    snprintf(cell, CELL, "%s", perf_figure_text(value, unit, room));
}

static void heading(struct table *t)
{
    static const char *const names[FIXED] = {"test", "bytes", "ranks", "path",  "value",
                                             "95 %", "p99",   "floor", "ratio", "L"};

    for (size_t i = 0; i < FIXED; i++)
        snprintf(t->cell[0][i], CELL, "%s", names[i]);
    t->columns = FIXED;
}

static void interval(char cell[CELL], const struct perf_result *row)
{
    if (isfinite(row->low) && isfinite(row->high) && row->value > 0)
        snprintf(cell, CELL, "%+.1f%+.1f%%", 100 * (row->low / row->value - 1),
                 100 * (row->high / row->value - 1));
    else
        snprintf(cell, CELL, "-");
}

static void body(struct table *t, size_t line, const struct perf_result *row)
{
    char(*cell)[CELL] = t->cell[line];
    char size[24];

    snprintf(cell[0], CELL, "%s", row->test);
    snprintf(cell[1], CELL, "%s", row->bytes ? perf_size_text(row->bytes, size, sizeof(size)) : "-");
    snprintf(cell[2], CELL, "%" PRIu32, row->ranks);
    snprintf(cell[3], CELL, "%s", *row->path ? row->path : "-");
    figure(cell[4], row->value, row->unit);
    interval(cell[5], row);
    figure(cell[6], row->p99, row->unit);
    figure(cell[7], row->floor, row->unit);
    if (isfinite(row->ratio))
        snprintf(cell[8], CELL, "%.2f", row->ratio);
    else
        snprintf(cell[8], CELL, "-");
    figure(cell[9], row->handoff_ns, "ns");
}

/* The column of a peer, made when it is first met; 0 when there is no room (more than PERF_PEERS peers). */
static size_t peer_column(struct table *t, const char *name)
{
    for (size_t c = FIXED; c < t->columns; c++)
        if (strcmp(t->cell[0][c], name) == 0)
            return c;
    if (t->columns == COLUMNS)
        return 0;
    snprintf(t->cell[0][t->columns], CELL, "%s", name);
    for (size_t line = 1; line < t->lines; line++)
        snprintf(t->cell[line][t->columns], CELL, "-");
    return t->columns++;
}

/* "12.3 us (0.64)": the row's value is 0.64 of it. */
static void peer_figure(char cell[CELL], const struct perf_peer_value *peer, const char *unit)
{
    char room[PERF_FIGURE_BYTES];

    if (isfinite(peer->ratio))
        snprintf(cell, CELL, "%s (%.2f)", perf_figure_text(peer->value, unit, room), peer->ratio);
    else
        figure(cell, peer->value, unit);
}

static void peers(struct table *t, size_t line, const struct perf_result *row)
{
    for (uint32_t i = 0; i < row->peer_count; i++) {
        size_t c = peer_column(t, row->peers[i].name);

        if (c != 0)
            peer_figure(t->cell[line][c], &row->peers[i], row->unit);
    }
}

static int is_text_column(size_t c)
{
    return c == 0 || c == 3;
}

static void print(FILE *out, const struct table *t)
{
    for (size_t line = 0; line < t->lines; line++) {
        for (size_t c = 0; c < t->columns; c++) {
            int width = 0, last = c + 1 == t->columns;

            for (size_t l = 0; l < t->lines; l++)
                if ((int)strlen(t->cell[l][c]) > width)
                    width = (int)strlen(t->cell[l][c]);
            fprintf(out, "%*s%s", is_text_column(c) ? -width : width, t->cell[line][c], last ? "\n" : "  ");
        }
    }
}

static bool is_of_one_note(const struct perf_result *a, const struct perf_result *b)
{
    return !strcmp(a->test, b->test) && !strcmp(a->path, b->path) && !strcmp(a->note, b->note);
}

/* Row `first` has a note: told once for all sizes that share it, "lend 8, 4K: ...", and where the first of them is. */
static void footnote(FILE *out, const struct perf_result *rows, size_t count, size_t first)
{
    const struct perf_result *row = &rows[first];
    const char *before = " ";
    char size[24];

    for (size_t i = 0; i < first; i++)
        if (is_of_one_note(&rows[i], row))
            return;
    fprintf(out, "  %s", row->test);
    if (*row->path && strcmp(row->path, row->test) != 0)
        fprintf(out, " %s", row->path);
    for (size_t i = first; i < count; i++)
        if (rows[i].bytes && is_of_one_note(&rows[i], row)) {
            fprintf(out, "%s%s", before, perf_size_text(rows[i].bytes, size, sizeof(size)));
            before = ", ";
        }
    fprintf(out, ": %s\n", row->note);
}

static void footnotes(FILE *out, const struct perf_result *rows, size_t count)
{
    uint32_t dropped = 0, rounds = 0;

    for (size_t i = 0; i < count; i++) {
        rounds += rows[i].rounds;
        dropped += rows[i].dropped;
        if (*rows[i].note)
            footnote(out, rows, count, i);
    }
    fprintf(out, "  %" PRIu32 " rounds; %" PRIu32 " dropped because L moved\n", rounds, dropped);
}

void perf_report_write(FILE *out, const struct perf_result *rows, size_t count)
{
    struct table t = {.lines = count + 1};

    t.cell = calloc(t.lines, sizeof(*t.cell));
    if (!t.cell) {
        fprintf(out, "nigh-perf: no memory for a table of %zu rows\n", count);
        return;
    }
    heading(&t);
    for (size_t i = 0; i < count; i++)
        body(&t, i + 1, &rows[i]);
    for (size_t i = 0; i < count; i++)
        peers(&t, i + 1, &rows[i]);
    print(out, &t);
    footnotes(out, rows, count);
    free(t.cell);
}
