/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that cannot meet: no call says of one that was refused that it has left, but why, with what to do. And ranks that
 * change their user between nigh_init and the first message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/lib/ranks.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { OTHER = 1234, LIMIT = 200, LARGE = 3 << 20 };

/* ---- users ----------------------------------------------------------------------------------------------------------- */

static int droppers; /* bits: these ranks */

static void talks(int rank)
{
    static const uint64_t sizes[] = {0, 8, 5000, 200000, LARGE};
    char *out = malloc(LARGE), *in = malloc(LARGE);

    CHECK(out && in);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        ranks_fill(out, sizes[i], i + (unsigned)rank);
        OK(nigh_sendrecv(out, sizes[i], 1 - rank, 1, in, sizes[i], 1 - rank, 1, nigh_world(), NULL));
        CHECK(ranks_is_filled(in, sizes[i], i + 1 - (unsigned)rank));
    }
    free(out);
    free(in);
}

static void drops(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = (uint32_t)rank,
                                 .ranks = (uint32_t)size,
                                 .job = ranks_job() + 1};

    OK(nigh_finalize());
    OK(nigh_init(&config)); /* nobody is met yet */
    OK(nigh_comm_set_timeout(nigh_world(), 60));
    if (droppers >> rank & 1)
        CHECK(setresgid(OTHER, OTHER, OTHER) == 0 && setresuid(OTHER, OTHER, OTHER) == 0);
    talks(rank);
    OK(nigh_finalize());
    CHECK(!strstr(ranks_said(), "refused"));
}

static void test_ranks_drop_privileges(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    for (droppers = 1; droppers < 4; droppers++)
        ranks_run(2, drops, &(struct ranks_how){.loose = true});
}

/* ---- no descriptors --------------------------------------------------------------------------------------------------- */

/* Rank 1 has none when rank 0 looks for it for the first time. */
static void full(int rank, int size)
{
    struct nigh_config config = {.size = sizeof(config),
                                 .set = 1,
                                 .rank = (uint32_t)rank,
                                 .ranks = (uint32_t)size,
                                 .job = ranks_job() + 1};
    struct rlimit limit = {LIMIT, LIMIT};
    int value = 0;

    OK(nigh_finalize());
    OK(nigh_init(&config));
    if (rank == 1) {
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        while (fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3) >= 0)
            continue;
        ranks_tell(0);
        while (!ranks_told(1)) {
            int flag;

            (void)nigh_iprobe(NIGH_ANY_SOURCE, 1, nigh_world(), &flag, NULL);
            ranks_nap(10);
        }
        _exit(0);
    }
    ranks_hear(0);
    CHECK_INT(nigh_recv(&value, sizeof(value), 1, 1, nigh_world(), NULL), -ECONNRESET);
    CHECK_TEXT("rank 1 cannot be reached: it (process ");
    CHECK_TEXT("has no file descriptor left");
    CHECK_TEXT("it may have 200");
    CHECK_TEXT("raise the limit there (ulimit -n)");
    CHECK(!strstr(nigh_error_text(), "has left"));
    CHECK_INT(nigh_send(&value, sizeof(value), 1, 1, nigh_world()), -ECONNRESET);
    CHECK_TEXT("rank 1 cannot be reached: it (process ");
    CHECK_INT(nigh_barrier(nigh_world()), -ECONNRESET);
    CHECK_TEXT("has no file descriptor left");
    ranks_tell(1);
    _exit(0);
}

static void test_a_rank_has_no_descriptors(void **state)
{
    (void)state;
    ranks_run(2, full, &(struct ranks_how){.loose = true});
}

/* ---- never met --------------------------------------------------------------------------------------------------------- */

static char directory[] = "/tmp/nigh-unmet-XXXXXX";

/* Rank 1 is in a directory, rank 0 in none, or the other way round. */
static void elsewhere(int rank, int size)
{
    int value = 0;

    OK(nigh_finalize());
    for (int turn = 0; turn < 2; turn++) {
        struct nigh_config config = {.size = sizeof(config),
                                     .set = 1,
                                     .rank = (uint32_t)rank,
                                     .ranks = (uint32_t)size,
                                     .job = ranks_job() + 1 + (uint64_t)turn};

        if (rank == turn)
            unsetenv("NIGH_DIR");
        else
            setenv("NIGH_DIR", directory, 1);
        OK(nigh_init(&config));
        ranks_tell(4 * (unsigned)turn + (unsigned)rank);
        ranks_hear(4 * (unsigned)turn + 1 - (unsigned)rank);
        OK(nigh_comm_set_timeout(nigh_world(), 0.3));
        CHECK_INT(nigh_recv(&value, sizeof(value), 1 - rank, 1, nigh_world(), NULL), -ETIMEDOUT);
        CHECK_TEXT("has not been met: ");
        CHECK_TEXT("NIGH_JOB");
        CHECK_TEXT(rank == turn ? "NIGH_DIR set" : directory);
        CHECK_INT(nigh_barrier(nigh_world()), -ETIMEDOUT);
        CHECK_TEXT("NIGH_DIR");
        ranks_tell(4 * (unsigned)turn + 2 + (unsigned)rank);
        ranks_hear(4 * (unsigned)turn + 3 - (unsigned)rank);
        (void)nigh_finalize();
    }
}

static void test_ranks_in_different_directories(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(directory));
    ranks_run(2, elsewhere, &(struct ranks_how){.loose = true});
    assert_int_equal(rmdir(directory), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks_drop_privileges),
        cmocka_unit_test(test_a_rank_has_no_descriptors),
        cmocka_unit_test(test_ranks_in_different_directories),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
