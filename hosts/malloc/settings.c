/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/settings.c - see settings.h. */
#include "hosts/malloc/settings.h"
#include "hosts/malloc/log.h"
#include "hosts/malloc/pages.h"
#include "include/common/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define HUGE_PAGE    ((uint64_t)2 << 20)
#define REGION_LEAST ((uint64_t)4 << 20)
#define REGION_MOST  ((uint64_t)2 << 40) /* four times that is a sixteenth of the address space */
#define FROM         ((uint64_t)32 << 10)
#define TRANSPARENT  "/sys/kernel/mm/transparent_hugepage/"
#define ANY_BYTES    ((uint64_t)1 << 62)
#define SUFFIXES     "KMGT"

/* ---- the environment ----------------------------------------------------------------------------------- */

/* A number of bytes with K, M, G or T behind it, or nothing. False: it is none, or not from `least` to `most`. */
static bool parse(const char *text, uint64_t least, uint64_t most, uint64_t *out)
{
    const char *suffix;
    unsigned shift = 0;
    uint64_t number;
    char *end;

    if (*text < '0' || *text > '9')
        return false;
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno)
        return false;
    if (*end) {
        suffix = strchr(SUFFIXES, *end & ~0x20); /* in small letters as well */
        if (!suffix || !*suffix || end[1])
            return false;
        shift = 10 * (unsigned)(suffix - SUFFIXES + 1);
    }
    if (number > UINT64_MAX >> shift || number << shift < least || number << shift > most)
        return false;
    *out = number << shift;
    return true;
}

static uint64_t read_limit(const char *variable, uint64_t least, uint64_t most, uint64_t otherwise)
{
    const char *text = getenv(variable);
    uint64_t bytes = otherwise;

    if (text && *text && !parse(text, least, most, &bytes))
        nigh_malloc_log(
            "%s=%.64s is no number of bytes from %llu to %llu (K, M, G or T may follow it), so it stays "
            "at %llu",
            variable, text, (unsigned long long)least, (unsigned long long)most,
            (unsigned long long)otherwise);
    return bytes;
}

static bool read_switch(void)
{
    const char *text = getenv("NIGH_MALLOC");

    if (!text || !*text || strcmp(text, "1") == 0)
        return true;
    if (strcmp(text, "0") == 0)
        return false;
    nigh_malloc_log("NIGH_MALLOC=%.64s is neither 0 nor 1, so it stays at 1", text);
    return true;
}

/* ---- the machine --------------------------------------------------------------------------------------- */

/* Whether one of `words` is what is chosen in a file like "always [madvise] never". */
static bool chosen(const char *path, const char *const *words)
{
    char text[256], word[32];
    int fd = NIGH_FD(open(path, O_RDONLY | O_CLOEXEC));
    ssize_t bytes = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    for (; *words; words++) {
        word[0] = '[';
        strcpy(word + 1, *words);
        strcat(word, "]");
        if (strstr(text, word))
            return true;
    }
    return false;
}

/* Half of the memory: what a program has in large blocks beyond that goes on to the next malloc. */
static uint64_t half_of_memory(void)
{
    struct sysinfo info;
    uint64_t bytes = REGION_LEAST;

    if (sysinfo(&info) == 0)
        bytes = (uint64_t)info.totalram * info.mem_unit / 2;
    return bytes < REGION_LEAST ? REGION_LEAST : bytes > REGION_MOST ? REGION_MOST : bytes;
}

bool nigh_malloc_settings_read(struct nigh_malloc_settings *out)
{
    static const char *const always[] = {"always", NULL};
    static const char *const given[] = {"always", "within_size", "force", "advise", NULL};
    const char *log = getenv("NIGH_LOG");
    bool anywhere, here;

    if (!environ)
        return false;
    anywhere = chosen(TRANSPARENT "enabled", always);
    here = chosen(TRANSPARENT "shmem_enabled", given);
    out->on = read_switch();
    out->info = log && strcmp(log, "info") == 0;
    out->huge = anywhere && here;
    out->from = read_limit("NIGH_MALLOC_FROM", NIGH_MALLOC_PAGE, ANY_BYTES, FROM);
    /* Where other memory has huge pages and files in memory have none, blocks that would have some keep them. */
    out->to = read_limit("NIGH_MALLOC_TO", NIGH_MALLOC_PAGE, ANY_BYTES,
                         anywhere && !here ? HUGE_PAGE - 1 : ANY_BYTES);
    out->bytes = read_limit("NIGH_MALLOC_BYTES", REGION_LEAST, REGION_MOST, half_of_memory());
    out->bytes &= ~(HUGE_PAGE - 1);
    return true;
}
