/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/footprint.h - what this process has of the system's: descriptors, mappings, memory. */
#ifndef NIGH_TESTS_FOOTPRINT_H
#define NIGH_TESTS_FOOTPRINT_H

#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Sanitizers map and keep memory as they like. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FOOTPRINT_OF_A_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOOTPRINT_OF_A_SANITIZER 1
#endif
#endif
#ifndef FOOTPRINT_OF_A_SANITIZER
#define FOOTPRINT_OF_A_SANITIZER 0
#endif

struct footprint {
    unsigned descriptors, mappings;
    uint64_t kib; /* resident */
};

static inline unsigned footprint_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    unsigned count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

static inline struct footprint footprint_now(void)
{
    struct footprint now = {.descriptors = footprint_descriptors()};
    FILE *file = fopen("/proc/self/smaps", "r");
    unsigned long from, to, kib;
    char line[512];

    while (file && fgets(line, sizeof(line), file)) {
        now.mappings += sscanf(line, "%lx-%lx ", &from, &to) == 2;
        if (sscanf(line, "Rss: %lu kB", &kib) == 1)
            now.kib += kib;
    }
    if (file)
        fclose(file);
    return now;
}

/* Behind `peers` peers that have ended, of each of which `kib_each` may have stayed: is there no more than `before`?
 * A little room for what malloc keeps. */
static inline bool footprint_is_as(const struct footprint *before, unsigned peers, unsigned kib_each)
{
    struct footprint now = footprint_now();
    bool same = now.descriptors == before->descriptors;

    if (!FOOTPRINT_OF_A_SANITIZER)
        same = same && now.mappings <= before->mappings + 4 &&
               now.kib <= before->kib + 512 + (uint64_t)peers * kib_each;
    if (!same)
        printf("# behind %u peers more: %u descriptors, %u mappings, %llu KiB; before %u, %u, %llu\n", peers,
               now.descriptors, now.mappings, (unsigned long long)now.kib, before->descriptors,
               before->mappings, (unsigned long long)before->kib);
    return same;
}

#endif
