/* SPDX-License-Identifier: BSD-3-Clause */
/* A program whose dlsym() allocates, as some do, and knows no malloc_usable_size: for malloc_test, under
 * libnigh-malloc.so. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void __libc_free(void *memory);
extern void *__libc_memalign(size_t align, size_t bytes);

static char *early[6];

static int aligned(void **out, size_t align, size_t bytes)
{
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : ENOMEM;
}

static void allocate(void)
{
    void *memory = NULL;

    early[0] = malloc(100);
    strcpy(early[0], "early");
    early[1] = calloc(10, 10);
    early[2] = realloc(NULL, 50);
    early[3] = aligned_alloc(256, 300);
    early[4] = posix_memalign(&memory, 1024, 10) ? NULL : memory;
    early[5] = malloc(20000); /* more than there is */
    free(early[2]);
}

__attribute__((visibility("default"))) void *dlsym(void *handle, const char *name);
void *dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        void *function;
    } found[] = {{"malloc", (void *)__libc_malloc},          {"calloc", (void *)__libc_calloc},
                 {"realloc", (void *)__libc_realloc},        {"free", (void *)__libc_free},
                 {"aligned_alloc", (void *)__libc_memalign}, {"memalign", (void *)__libc_memalign},
                 {"posix_memalign", (void *)aligned}};

    (void)handle;
    if (!early[0])
        allocate();
    for (size_t i = 0; i < sizeof(found) / sizeof(*found); i++)
        if (strcmp(found[i].name, name) == 0)
            return found[i].function;
    return NULL;
}

static int wrong(const char *what)
{
    fprintf(stderr, "%s\n", what);
    return 1;
}

int main(void)
{
    char *moved, *large;

    for (int i = 0; i < 5; i++)
        if (!early[i])
            return wrong("nothing was allocated while functions were looked for");
    if ((uintptr_t)early[3] % 256 || (uintptr_t)early[4] % 1024)
        return wrong("not aligned");
    if (early[1] < early[0] + 100 || early[2] < early[1] + 100)
        return wrong("blocks overlap");
    for (int i = 0; i < 100; i++)
        if (early[1][i])
            return wrong("calloc() is not of zeros");
    if (early[5])
        return wrong("more than there is");
    moved = realloc(early[0], 200);
    if (!moved || moved == early[0] || strcmp(moved, "early") != 0)
        return wrong("realloc() did not copy");
    large = realloc(early[1], 1 << 20);
    if (!large)
        return wrong("realloc() to a large block");
    free(moved);
    free(large);
    for (int i = 0; i < 5; i++)
        free(early[i]);                    /* does nothing */
    large = realloc(malloc(100), 1 << 20); /* of which nobody says how large it was */
    if (!large)
        return wrong("realloc() of what is not said the size of");
    free(large);
    return 0;
}
