/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank has no memory for a call that all ranks make together: it gets -ENOMEM, the others hear of it, and the next calls work. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <stdio.h>
#include <stdlib.h>

#if defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

#if SANITIZED
/* A sanitizer has a malloc of its own. */
int main(void)
{
    printf("skipped: a sanitizer has a malloc of its own\n");
    return 77;
}
#else

enum { RANKS = 3, ODD = 1 };

/* malloc() or calloc() of so many bytes fails, once; 0: none does. */
static size_t scarce;

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);

static bool is_scarce(size_t bytes)
{
    if (!scarce || bytes != scarce)
        return false;
    scarce = 0;
    errno = ENOMEM;
    return true;
}

__attribute__((visibility("default"))) void *malloc(size_t bytes)
{
    return is_scarce(bytes) ? NULL : __libc_malloc(bytes);
}

__attribute__((visibility("default"))) void *calloc(size_t count, size_t bytes)
{
    return is_scarce(count * bytes) ? NULL : __libc_calloc(count, bytes);
}

/* Bytes of lib/meet.c's and lib/split.c's for each rank: a card, what a rank says of its call, a colour. */
enum { CARD = 40, REASON = 352, CHOICE = 12 };

static void check(int rank, int rc, const char *others)
{
    CHECK_INT(rc, -ENOMEM);
    CHECK_TEXT("no memory for ");
    if (rank != ODD) {
        CHECK_TEXT("rank 1 calls nigh_comm_");
        CHECK_TEXT(others);
    } else {
        CHECK_INT(scarce, 0);
    }
    OK(nigh_barrier(nigh_world()));
}

static void cards(int rank, int size)
{
    struct nigh_comm *comm;

    scarce = rank == ODD ? CARD * (size_t)size : 0;
    check(rank, nigh_comm_dup(nigh_world(), &comm), "nigh_comm_dup(");
    OK(nigh_comm_dup(nigh_world(), &comm));
    OK(nigh_barrier(comm));
    OK(nigh_comm_free(&comm));
}

static void colours(int rank, int size)
{
    struct nigh_comm *comm;

    scarce = rank == ODD ? CHOICE * (size_t)size : 0;
    check(rank, nigh_comm_split(nigh_world(), 0, 0, &comm), "nigh_comm_split(");
    OK(nigh_comm_split(nigh_world(), 0, 0, &comm));
    OK(nigh_barrier(comm));
    OK(nigh_comm_free(&comm));
}

/* The ranks call different things, and tell each other. */
static void reasons(int rank, int size)
{
    struct nigh_comm *comm;

    scarce = rank == ODD ? REASON * (size_t)size : 0;
    check(rank, rank == 0 ? nigh_comm_dup(nigh_world(), &comm) : nigh_comm_split(nigh_world(), 0, 0, &comm),
          "nigh_comm_split(");
}

static void test_cards(void **state)
{
    (void)state;
    ranks_run(RANKS, cards, NULL);
}

static void test_colours(void **state)
{
    (void)state;
    ranks_run(RANKS, colours, NULL);
}

static void test_reasons(void **state)
{
    (void)state;
    ranks_run(RANKS, reasons, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cards),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_reasons),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
