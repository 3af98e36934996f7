/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/fakeroot.c - a replacement of open() that looks for /proc and /sys in a folder of the test. */
#include "tests/support/fakeroot.h"
#include "shm/os.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[] = "/tmp/nigh-fakeroot-XXXXXX";
static int (*real_open)(const char *path, int flags, mode_t mode);

static void must(int good, const char *what)
{
    if (!good) {
        perror(what);
        abort();
    }
}

static void inside(const char *path, char *out, size_t room)
{
    must(snprintf(out, room, "%s%s", folder, path) < (int)room, "fakeroot: path too long");
}

static int fake_open(const char *path, int flags, mode_t mode)
{
    char full[4096 + 256];

    if (strncmp(path, "/proc/", 6) != 0 && strncmp(path, "/sys/", 5) != 0)
        return real_open(path, flags, mode);
    inside(path, full, sizeof(full));
    return real_open(full, flags, mode);
}

void fakeroot_install(void)
{
    strcpy(folder + sizeof(folder) - 7, "XXXXXX");
    must(mkdtemp(folder) != NULL, "fakeroot: mkdtemp");
    real_open = nigh_os.open;
    nigh_os.open = fake_open;
}

void fakeroot_write(const char *path, const char *text)
{
    char full[1024];
    FILE *file;

    inside(path, full, sizeof(full));
    for (char *at = full + strlen(folder) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = 0;
        mkdir(full, 0700);
        *at = '/';
    }
    file = fopen(full, "w");
    must(file != NULL, full);
    must(fputs(text, file) >= 0, full);
    must(fclose(file) == 0, full);
}

static int drop(const char *path, const struct stat *stat, int type, struct FTW *at)
{
    (void)stat, (void)type, (void)at;
    return remove(path);
}

void fakeroot_remove(void)
{
    nigh_os.open = real_open;
    must(nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS) == 0, "fakeroot: cannot remove its folder");
}
