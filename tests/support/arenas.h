/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/arenas.h - a small arena, what memory it has taken, and a child that has it, too. */
#ifndef NIGH_TESTS_ARENAS_H
#define NIGH_TESTS_ARENAS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/arena.h"
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

static const struct nigh_arena_config small = {
    .incarnation = 0x1234567890abcdef,
    .peers_max = 100,
    .pool_bytes = 4 * MIB,
    .heap_bytes = 64 * MIB,
};

static inline struct nigh_arena create(const struct nigh_arena_config *config)
{
    struct nigh_arena arena;

    assert_int_equal(nigh_arena_create(config, &arena), 0);
    return arena;
}

static inline uint64_t memory_of(const struct nigh_arena *arena)
{
    struct stat stat;

    assert_int_equal(fstat(arena->fd, &stat), 0);
    return (uint64_t)stat.st_blocks * 512;
}

/* Runs `run` in a child; its result is the child's exit status. */
static inline void in_child(int (*run)(void))
{
    pid_t child = fork();
    int status;

    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the child was killed by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

#endif
