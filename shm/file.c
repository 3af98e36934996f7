/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/file.c - small files that the kernel writes, read whole and as numbers. */
#include "shm/file.h"
#include "shm/os.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

int nigh_file_read(const char *path, char *text, size_t room)
{
    int fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);
    size_t used = 0;
    ssize_t got;

    if (fd < 0)
        return -errno;
    do {
        got = nigh_os.read(fd, text + used, room - 1 - used);
        if (got > 0)
            used += (size_t)got;
    } while (used < room - 1 && (got > 0 || (got < 0 && errno == EINTR)));
    nigh_os_close(fd);
    if (got < 0)
        return -errno;
    text[used] = 0;
    return 0;
}

char *nigh_file_load(const char *path, size_t room)
{
    char *text = nigh_os.calloc(1, room);

    if (text && nigh_file_read(path, text, room) != 0) {
        free(text);
        text = NULL;
    }
    return text;
}

/* Where lines are put together. */
struct lines {
    char text[NIGH_FILE_LINE + 1];
    uint32_t used;
    void (*each)(const char *line, void *data);
    void *data;
};

static void end_line(struct lines *lines)
{
    lines->text[lines->used] = 0;
    lines->used = 0;
    lines->each(lines->text, lines->data);
}

static void add_bytes(struct lines *lines, const char *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (bytes[i] == '\n')
            end_line(lines);
        else if (lines->used < NIGH_FILE_LINE)
            lines->text[lines->used++] = bytes[i];
    }
}

int nigh_file_each_line(const char *path, void (*each)(const char *line, void *data), void *data)
{
    enum { ROOM = 4096 }; /* what the kernel gives of a table at a time */
    struct lines *lines = nigh_os.calloc(1, sizeof(*lines) + ROOM);
    char *bytes = (char *)(lines + 1);
    int fd, rc = -ENOMEM;
    ssize_t got;

    if (!lines)
        return rc;
    lines->each = each;
    lines->data = data;
    fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);
    rc = fd < 0 ? -errno : 0;
    if (rc)
        goto free_lines;
    do {
        got = nigh_os.read(fd, bytes, ROOM);
        if (got > 0)
            add_bytes(lines, bytes, (size_t)got);
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0)
        rc = -errno;
    else if (lines->used)
        end_line(lines);
    nigh_os_close(fd);
free_lines:
    free(lines);
    return rc;
}

int nigh_file_read_number(const char *path, uint64_t *out)
{
    char text[64], *end;
    uint64_t number;
    int rc = nigh_file_read(path, text, sizeof(text));

    if (rc != 0)
        return rc;
    number = strtoull(text, &end, 10);
    if (end == text)
        return -EBADMSG;
    *out = number;
    return 0;
}

/* One number of at most nine digits; NULL when there is none. */
static const char *parse_number(const char *text, uint32_t *out)
{
    uint32_t number = 0, digits = 0;

    for (; *text >= '0' && *text <= '9' && digits < 9; text++, digits++)
        number = number * 10 + (uint32_t)(*text - '0');
    *out = number;
    return digits == 0 ? NULL : text;
}

int nigh_file_each_of_list(const char *text, uint32_t limit, void (*each)(uint32_t number, void *data),
                           void *data)
{
    int count = 0;

    while (*text != 0 && *text != '\n') {
        uint32_t first, last;

        text = parse_number(text, &first);
        if (text == NULL)
            return -EBADMSG;
        last = first;
        if (*text == '-')
            text = parse_number(text + 1, &last);
        if (text == NULL || last < first)
            return -EBADMSG;
        for (uint32_t i = first; i <= last && i < limit; i++, count++)
            each(i, data);
        if (*text == ',')
            text++;
        else if (*text != 0 && *text != '\n')
            return -EBADMSG;
    }
    return count;
}
