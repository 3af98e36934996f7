/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/osfail.c - replacements of every call of shm/os.h, made from its list. */
#include "tests/support/osfail.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define NAME(result, failed, name, parameters, arguments) #name,
const char *const osfail_names[OSFAIL_CALLS] = {NIGH_OS_CALLS(NAME)};

static struct nigh_os real;
static int installed;
static unsigned counts[OSFAIL_CALLS];
static enum osfail_call armed = OSFAIL_CALLS;
static unsigned armed_nth;
static int armed_error, armed_for_ever, was_hit;

static int fails(enum osfail_call call)
{
    unsigned n = __atomic_add_fetch(&counts[call], 1, __ATOMIC_RELAXED);

    if (call != armed || (armed_for_ever ? n < armed_nth : n != armed_nth))
        return 0;
    __atomic_store_n(&was_hit, 1, __ATOMIC_RELAXED);
    return 1;
}

#define FAKE(result, failed, name, parameters, arguments) \
    static result fake_##name parameters                  \
    {                                                     \
        if (fails(OSFAIL_##name)) {                       \
            const int error = armed_error;                \
            errno = error;                                \
            return failed;                                \
        }                                                 \
        return real.name arguments;                       \
    }
NIGH_OS_CALLS(FAKE)

#define MEMBER(result, failed, name, parameters, arguments) .name = fake_##name,
static const struct nigh_os fakes = {NIGH_OS_CALLS(MEMBER)};

void osfail_install(void)
{
    if (!installed)
        real = nigh_os;
    installed = 1;
    nigh_os = fakes;
    armed = OSFAIL_CALLS;
    was_hit = 0;
    memset(counts, 0, sizeof(counts));
}

void osfail_remove(void)
{
    if (installed)
        nigh_os = real;
    installed = 0;
}

static void arm(enum osfail_call call, unsigned nth, int error, int for_ever)
{
    osfail_install();
    armed = call;
    armed_nth = nth;
    armed_error = error;
    armed_for_ever = for_ever;
}

void osfail_arm(enum osfail_call call, unsigned nth, int error)
{
    arm(call, nth, error, 0);
}

void osfail_arm_all(enum osfail_call call, unsigned nth, int error)
{
    arm(call, nth, error, 1);
}

static int old_getsockopt(int fd, int level, int option, void *value, socklen_t *bytes)
{
    if (option == SO_PEERCRED)
        return real.getsockopt(fd, level, option, value, bytes);
    errno = ENOPROTOOPT;
    return -1;
}

static int no_pidfd_open(pid_t pid, unsigned flags)
{
    (void)pid, (void)flags;
    errno = ENOSYS;
    return -1;
}

void osfail_take_pidfds(void)
{
    osfail_install();
    nigh_os.getsockopt = old_getsockopt;
    nigh_os.pidfd_open = no_pidfd_open;
}

unsigned osfail_count(enum osfail_call call)
{
    return __atomic_load_n(&counts[call], __ATOMIC_RELAXED);
}

int osfail_hit(void)
{
    return __atomic_load_n(&was_hit, __ATOMIC_RELAXED);
}

unsigned osfail_open_fds(void)
{
    unsigned count = 0;
    DIR *directory = opendir("/proc/self/fd");

    if (!directory)
        abort();
    while (readdir(directory))
        count++;
    closedir(directory);
    return count;
}

unsigned osfail_shared_maps(void)
{
    char line[512];
    unsigned count = 0;
    FILE *maps = fopen("/proc/self/maps", "r");

    if (!maps)
        abort();
    while (fgets(line, sizeof(line), maps))
        count += strstr(line, "/memfd:") != NULL;
    fclose(maps);
    return count;
}
