/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipes in, labelled lines out. One writer, and a queue per stream, are what keeps lines whole. */
#include "tools/run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A line longer than this is cut into several, or a rank that never ends its line would take all memory. */
#define LINE_BYTES_MAX ((size_t)1 << 20)
/* Above this a stream's ranks are not read until somebody reads us. */
#define SINK_BYTES_FULL ((size_t)1 << 20)

static void append(char **data, size_t *length, size_t *room, const char *bytes, size_t count)
{
    if (count == 0)
        return; /* memcpy may not be given NULL even then */
    if (*length + count > *room) {
        size_t wanted = (*length + count) * 2;
        char *grown = realloc(*data, wanted);

        if (grown == NULL) {
            fprintf(stderr, "nigh-run: no memory for %zu bytes of output\n", wanted);
            abort(); /* the front ends all ranks */
        }
        *data = grown;
        *room = wanted;
    }
    memcpy(*data + *length, bytes, count);
    *length += count;
}

static void sink_put(struct run_sink *sink, const char *bytes, size_t count)
{
    if (!sink->broken)
        append(&sink->data, &sink->length, &sink->room, bytes, count);
}

/* Wait at most `ms` (-1: for ever) until the sink takes bytes. */
static bool sink_ready(const struct run_sink *sink, int ms)
{
    struct pollfd entry = {.fd = sink->fd, .events = POLLOUT};

    return poll(&entry, 1, ms) > 0;
}

/* As much as goes. PIPE_BUF at a time: that much never blocks where poll() has said that there is room. */
static void sink_write(struct run_sink *sink)
{
    size_t done = 0;

    while (done < sink->length && sink_ready(sink, 0)) {
        size_t left = sink->length - done;
        ssize_t written = write(sink->fd, sink->data + done, left < PIPE_BUF ? left : PIPE_BUF);

        if (written < 0 && (errno == EINTR || errno == EAGAIN))
            break;
        if (written < 0) {
            sink->broken = true;
            done = sink->length;
            break;
        }
        done += (size_t)written;
    }
    sink->length -= done;
    memmove(sink->data, sink->data + done, sink->length);
}

int run_output_open(struct run_output *output, uint32_t ranks, bool label)
{
    struct stat out, err;

    *output = (struct run_output){.sinks = {{.fd = STDOUT_FILENO}, {.fd = STDERR_FILENO}},
                                  .fold = {.listener = -1}};
    output->sink_of[0] = output->sink_of[1] = &output->sinks[1];
    if (fstat(STDOUT_FILENO, &out) != 0 || fstat(STDERR_FILENO, &err) != 0 || out.st_dev != err.st_dev ||
        out.st_ino != err.st_ino)
        output->sink_of[0] = &output->sinks[0];
    if (!label)
        return 0;
    output->sources = calloc(ranks, 2 * sizeof(struct run_source));
    if (output->sources == NULL)
        return -ENOMEM;
    output->source_count = 2 * ranks;
    for (uint32_t i = 0; i < output->source_count; i++)
        output->sources[i] = (struct run_source){.fd = -1, .rank = i / 2};
    return 0;
}

static void put_folded(void *output, const char *text, size_t bytes)
{
    sink_put(&((struct run_output *)output)->sinks[1], text, bytes);
}

void run_output_fold(struct run_output *output, uint32_t ranks, uint64_t job)
{
    if (output->sources == NULL && ranks > 1)
        (void)run_fold_open(&output->fold, ranks, job, put_folded, output);
}

void run_output_close(struct run_output *output)
{
    run_fold_close(&output->fold);
    for (uint32_t i = 0; i < output->source_count; i++) {
        if (output->sources[i].fd >= 0)
            close(output->sources[i].fd);
        free(output->sources[i].line);
    }
    free(output->sources);
    free(output->sinks[0].data);
    free(output->sinks[1].data);
}

int run_output_connect(struct run_output *output, uint32_t rank, int ends[2])
{
    int pipes[2][2];

    ends[0] = ends[1] = -1;
    if (output->sources == NULL)
        return 0;
    for (int i = 0; i < 2; i++) {
        if (pipe2(pipes[i], O_CLOEXEC) == 0)
            continue;
        if (i == 1) {
            close(pipes[0][0]);
            close(pipes[0][1]);
        }
        return -errno;
    }
    for (int i = 0; i < 2; i++) {
        fcntl(pipes[i][0], F_SETFL, O_NONBLOCK); /* our end only: the rank's is a file of its own */
        output->sources[2 * rank + i].fd = pipes[i][0];
        ends[i] = pipes[i][1];
    }
    return 0;
}

void run_output_say(struct run_output *output, const char *format, ...)
{
    struct run_sink *sink = &output->sinks[1];
    char text[4096] = "nigh-run: ";
    va_list arguments;
    size_t length = strlen(text);

    va_start(arguments, format);
    vsnprintf(text + length, sizeof(text) - length - 2, format, arguments);
    va_end(arguments);
    length = strlen(text);
    text[length++] = '\n';
    text[length] = '\0';
    if (run_fold_own(&output->fold, text))
        return;
    sink_put(sink, text, length);
    if (output->sources == NULL) /* nothing else uses the queue: no reason to wait for the next poll */
        while (sink->length > 0 && sink_ready(sink, -1))
            sink_write(sink);
}

/* ---- lines ---- */

static void put_line(struct run_output *output, struct run_source *source, const char *rest, size_t count)
{
    struct run_sink *sink = output->sink_of[(source - output->sources) % 2];
    char label[16];

    sink_put(sink, label, (size_t)snprintf(label, sizeof(label), "[%u] ", source->rank));
    sink_put(sink, source->line, source->length);
    sink_put(sink, rest, count);
    sink_put(sink, "\n", 1);
    source->length = 0;
}

static void take(struct run_output *output, struct run_source *source, const char *bytes, size_t count)
{
    const char *end = bytes + count;

    while (bytes < end) {
        const char *newline = memchr(bytes, '\n', (size_t)(end - bytes));

        if (newline == NULL) {
            append(&source->line, &source->length, &source->room, bytes, (size_t)(end - bytes));
            if (source->length >= LINE_BYTES_MAX)
                put_line(output, source, "", 0);
            return;
        }
        put_line(output, source, bytes, (size_t)(newline - bytes));
        bytes = newline + 1;
    }
}

static void source_close(struct run_output *output, struct run_source *source)
{
    close(source->fd);
    source->fd = -1;
    if (source->length > 0)
        put_line(output, source, "", 0);
}

/* One read. False when there is nothing more for now. */
static bool source_read(struct run_output *output, struct run_source *source)
{
    char bytes[65536];
    ssize_t count = read(source->fd, bytes, sizeof(bytes));

    if (count < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    if (count <= 0) {
        source_close(output, source);
        return false;
    }
    take(output, source, bytes, (size_t)count);
    return true;
}

/* ---- poll ---- */

size_t run_output_poll_max(const struct run_output *output)
{
    return output->source_count + 2 + RUN_FOLD_CALLERS + 1;
}

static const struct run_sink *sink_for(const struct run_output *output, uint32_t source)
{
    return output->sink_of[source % 2];
}

size_t run_output_poll_fill(const struct run_output *output, struct pollfd *polls)
{
    size_t count = 0;

    for (int i = 0; i < 2; i++)
        if (output->sinks[i].length > 0)
            polls[count++] = (struct pollfd){.fd = output->sinks[i].fd, .events = POLLOUT};
    for (uint32_t i = 0; i < output->source_count; i++)
        if (output->sources[i].fd >= 0 && sink_for(output, i)->length < SINK_BYTES_FULL)
            polls[count++] = (struct pollfd){.fd = output->sources[i].fd, .events = POLLIN};
    return count +
           (output->sinks[1].length < SINK_BYTES_FULL ? run_fold_poll_fill(&output->fold, polls + count) : 0);
}

/* A rank whose output nobody reads any more finds that out as if it had the broken pipe itself. */
static void pass_breakage(struct run_output *output)
{
    for (uint32_t i = 0; i < output->source_count; i++)
        if (output->sources[i].fd >= 0 && sink_for(output, i)->broken)
            source_close(output, &output->sources[i]);
}

void run_output_handle(struct run_output *output, const struct pollfd *polls, size_t count)
{
    uint32_t source = 0; /* entries come in the order in which they were filled in */

    for (size_t i = 0; i < count; i++) {
        if (polls[i].revents == 0)
            continue;
        for (int j = 0; j < 2; j++)
            if (polls[i].events == POLLOUT && output->sinks[j].fd == polls[i].fd)
                sink_write(&output->sinks[j]);
        if (polls[i].events != POLLIN)
            continue;
        while (source < output->source_count && output->sources[source].fd != polls[i].fd)
            source++;
        if (source < output->source_count)
            source_read(output, &output->sources[source]);
    }
    if (output->sinks[0].broken || output->sinks[1].broken)
        pass_breakage(output);
    if (output->sinks[1].length < SINK_BYTES_FULL)
        run_fold_step(&output->fold);
}

int run_output_wait_ms(const struct run_output *output)
{
    return output->sinks[1].length < SINK_BYTES_FULL ? run_fold_wait_ms(&output->fold) : -1;
}

void run_output_end(struct run_output *output)
{
    run_fold_step(&output->fold);
    run_fold_show_all(&output->fold);
    for (uint32_t i = 0; i < output->source_count; i++) {
        struct run_source *source = &output->sources[i];

        if (source->fd < 0)
            continue;
        while (source_read(output, source))
            ;
        if (source->fd >= 0)
            source_close(output, source);
    }
}

bool run_output_pending(const struct run_output *output)
{
    return output->sinks[0].length > 0 || output->sinks[1].length > 0;
}
