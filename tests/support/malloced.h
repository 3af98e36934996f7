/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/malloced.h - what a program under libnigh-malloc.so knows of the memory that its peers may map. */
#ifndef NIGH_TESTS_MALLOCED_H
#define NIGH_TESTS_MALLOCED_H

#include <dlfcn.h>
#include <errno.h>
#include <nigh/memory.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* nigh_memory(), as the plugin finds it. */
static inline int malloced_ask(struct nigh_memory *out)
{
    nigh_memory_fn *ask;

    *(void **)&ask = dlsym(RTLD_DEFAULT, "nigh_memory");
    if (!ask) {
        fprintf(stderr, "libnigh-malloc.so is not in this process\n");
        exit(2);
    }
    return ask(out);
}

/* All zeros: there is none. */
static inline struct nigh_memory malloced_memory(void)
{
    struct nigh_memory memory = {.size = sizeof(memory)};

    if (malloced_ask(&memory) != 0)
        memory = (struct nigh_memory){0};
    return memory;
}

static inline bool malloced_has(const void *block)
{
    struct nigh_memory memory = malloced_memory();

    return memory.bytes && (uintptr_t)block >= memory.base + 4096 &&
           (uintptr_t)block < memory.base + memory.bytes;
}

#endif
