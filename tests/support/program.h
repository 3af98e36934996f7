/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/program.h - a test's program memory, in a file that peers may map: what an allocator of it would do and say.
 * Of one program, which is linked with -export-dynamic, so that the plugin finds nigh_memory(). */
#ifndef NIGH_TESTS_PROGRAM_H
#define NIGH_TESTS_PROGRAM_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nigh/memory.h"
#include "shm/program.h"
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGE = 4096, BYTES = 8 * 1024 * 1024, BEHIND = 16 * PAGE, ID = 77 };

static int file = -1;
static uint8_t *base; /* BYTES of the file, and BEHIND of another mapping */
static struct nigh_memory said;
static bool asked;

/* What the plugin asks for, as an allocator would export it. */
__attribute__((visibility("default"))) int nigh_memory(struct nigh_memory *out);
int nigh_memory(struct nigh_memory *out)
{
    asked = true;
    if (file < 0)
        return -ENOENT;
    assert_int_equal(out->size, sizeof(*out));
    *out = said;
    return 0;
}

/* ---- the memory -------------------------------------------------------------------------------------------- */

static inline void take_back(void)
{
    uint32_t yes = 1;

    assert_int_equal(pwrite(file, &yes, sizeof(yes), offsetof(struct nigh_memory_head, taken_back)),
                     sizeof(yes));
}

/* As before a fork: what is written from now on is no longer in the file. */
static inline void make_private(void)
{
    take_back();
    assert_ptr_equal(
        mmap(base + PAGE, BYTES - PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, PAGE),
        base + PAGE);
}

static inline void make_file(int seals)
{
    struct nigh_memory_head head = {.id = ID};

    file = memfd_create("program_test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(file >= 0);
    assert_int_equal(ftruncate(file, BYTES), 0);
    assert_int_equal(pwrite(file, &head, sizeof(head), 0), sizeof(head));
    assert_int_equal(fcntl(file, F_ADD_SEALS, seals), 0);
    base = mmap(NULL, BYTES + BEHIND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(base != MAP_FAILED);
    assert_ptr_equal(mmap(base, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0), base);
    for (unsigned i = PAGE; i < BYTES + BEHIND; i++)
        base[i] = (uint8_t)(i * 11 + i / 4099);
    said = (struct nigh_memory){
        .size = sizeof(said), .fd = file, .base = (uintptr_t)base, .bytes = BYTES, .id = ID};
}

static inline void drop_file(void)
{
    munmap(base, BYTES + BEHIND);
    close(file);
    file = -1;
}

#endif
