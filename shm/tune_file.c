/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/tune_file.c - where the tuning file lies, and how it is read and replaced. */
#include "shm/tune.h"

#include "shm/os.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/utsname.h>

static const char *set(const char *name)
{
    const char *value = getenv(name);

    return value && value[0] ? value : NULL;
}

int nigh_tune_path(char path[NIGH_TUNE_PATH])
{
    const char *named = set("NIGH_TUNE"), *config = set("XDG_CONFIG_HOME"), *home = set("HOME");
    struct utsname host;
    int length;

    if (named)
        length = snprintf(path, NIGH_TUNE_PATH, "%s", named);
    else if ((!config && !home) || uname(&host) != 0)
        return -ENOENT;
    else
        length = snprintf(path, NIGH_TUNE_PATH, "%s%s/nigh/tune-%s.conf", config ? config : home,
                          config ? "" : "/.config", host.nodename);
    if (length >= NIGH_TUNE_PATH)
        return -ENAMETOOLONG;
    return named != NULL;
}

static int failed(char error[NIGH_TUNE_ERROR], const char *verb, const char *path, int code)
{
    snprintf(error, NIGH_TUNE_ERROR, "cannot %s the tuning file %.200s: %s", verb, path, strerror(code));
    return -code;
}

static int read_all(int fd, char *text, size_t room)
{
    size_t have = 0;

    while (have < room) {
        ssize_t got = nigh_os.read(fd, text + have, room - have);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -errno;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    if (have == room)
        return -EFBIG;
    text[have] = '\0';
    return strlen(text) == have ? 0 : -EILSEQ;
}

static int load_from(const char *path, bool must_exist, struct nigh_tune *out, char error[NIGH_TUNE_ERROR])
{
    char text[NIGH_TUNE_TEXT + 1];
    int fd = nigh_os.open(path, O_RDONLY | O_CLOEXEC, 0);

    if (fd < 0 && errno == ENOENT && !must_exist)
        return 0;
    if (fd < 0)
        return failed(error, "open", path, errno);

    int code = read_all(fd, text, sizeof(text));

    nigh_os_close(fd);
    if (code == -EFBIG) {
        snprintf(error, NIGH_TUNE_ERROR, "the tuning file %.200s is longer than %d bytes", path,
                 NIGH_TUNE_TEXT);
        return -EFBIG;
    }
    if (code < 0)
        return failed(error, "read", path, -code);
    code = nigh_tune_parse(text, path, out, error);
    return code < 0 ? code : 1;
}

int nigh_tune_load(struct nigh_tune *out, char path[NIGH_TUNE_PATH], char error[NIGH_TUNE_ERROR])
{
    nigh_tune_default(out);
    error[0] = path[0] = '\0';

    int named = nigh_tune_path(path);

    if (named == -ENOENT)
        return 0;
    if (named < 0) {
        snprintf(error, NIGH_TUNE_ERROR, "the name of the tuning file is longer than %d bytes",
                 NIGH_TUNE_PATH - 1);
        path[0] = '\0';
        return named;
    }

    int code = load_from(path, named, out, error);

    if (code == 0)
        path[0] = '\0';
    return code;
}

static int write_all(int fd, const char *text, size_t bytes)
{
    while (bytes > 0) {
        ssize_t put = nigh_os.write(fd, text, bytes);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return -errno;
        text += put;
        bytes -= (size_t)put;
    }
    return 0;
}

int nigh_tune_save(const char *path, const struct nigh_tune *tune, const char *comment,
                   char error[NIGH_TUNE_ERROR])
{
    char text[NIGH_TUNE_TEXT], beside[NIGH_TUNE_PATH + 8];
    int length = nigh_tune_format(tune, comment, text, sizeof(text));

    if (length < 0) {
        snprintf(error, NIGH_TUNE_ERROR, "a tuning file may have %d bytes, with its comment this has more",
                 NIGH_TUNE_TEXT);
        return length;
    }
    if ((size_t)snprintf(beside, sizeof(beside), "%s.new", path) >= sizeof(beside))
        return failed(error, "write", path, ENAMETOOLONG);

    int fd = nigh_os.open(beside, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

    if (fd < 0)
        return failed(error, "write", beside, errno);

    int code = write_all(fd, text, (size_t)length);

    nigh_os_close(fd);
    if (code == 0 && nigh_os.rename(beside, path) != 0)
        code = -errno;
    if (code == 0)
        return 0;
    nigh_os.unlink(beside);
    return failed(error, "write", path, -code);
}
