/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring wakes whoever sleeps on the bell in another process, and none is ever lost: the time-out that would rescue a
 * lost one fails the test. Each scenario that asks for membarrier runs in a child, because a process asks once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/doorbell.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <linux/membarrier.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static struct nigh_bell create(void)
{
    struct nigh_bell bell;

    assert_int_equal(nigh_bell_create(8, &bell), 0);
    return bell;
}

static pid_t start(int (*run)(void))
{
    pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0)
        _exit(run());
    return child;
}

static int status_of(pid_t child)
{
    int status;

    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void check_status(int status)
{
    if (WIFSIGNALED(status))
        fail_msg("the child was killed by signal %d", WTERMSIG(status));
    if (WEXITSTATUS(status))
        fail_msg("the child found fault %d", WEXITSTATUS(status));
}

static void finish(pid_t child)
{
    check_status(status_of(child));
}

/* ---- no lost wake-up ------------------------------------------------------------------------------------- */

/*
 * Two processes play ball: one sleeps the way the library does, the other publishes and looks at the flag. A
 * wake-up can be lost only if the flag is raised and the ball is thrown within some ten nanoseconds of each
 * other, so the sleeper aims: it raises its flag later after a round in which it slept, and earlier after one
 * in which the ball was there already.
 */
/* ANSWER: turns of a loop before an answer, longer than membarrier takes. */
enum { ROUNDS = 20000, ANSWER = 60000, AIM = 200 };

struct game {
    uint64_t served __attribute__((aligned(64)));   /* rounds that the sleeper has begun */
    uint64_t returned __attribute__((aligned(64))); /* rounds that the other has answered */
    uint32_t asleep __attribute__((aligned(64)));
    uint64_t sleeps __attribute__((aligned(64))); /* of `rounds` */
    uint64_t rounds;
};
static struct game *game;
static struct nigh_bell bell_of_sleeper;
static bool full_fences;

static void pause_for(unsigned times)
{
    for (; times; times--)
        __asm__ volatile("" ::: "memory"); /* a CPU's pause is too coarse to aim with */
}

/* The publisher's side: spins, so that the time to its answer varies little. */
static int answer(void)
{
    struct nigh_bell bell;

    if (nigh_bell_map(bell_of_sleeper.fd, &bell))
        return 1;
    if (nigh_bell_light() == full_fences)
        return 2;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        uint32_t asleep;

        while (nigh_load_acquire(&game->served, RING_PEEK) < round)
            nigh_pause();
        pause_for(ANSWER);
        nigh_store_release(&game->returned, round, RING_PUBLISH);
        if (full_fences)
            nigh_fence_full(SLEEP_CHECK);
        else
            nigh_fence_light(SLEEP_CHECK);
        asleep = nigh_load_relaxed(&game->asleep);
        if (asleep)
            nigh_bell_ring(&bell, asleep);
    }
    return 0;
}

/* Sleeps until `round` has been answered; whether it slept. -1: only the time-out ended it. */
static int await(uint64_t round, struct nigh_bell *bell)
{
    int slept = 0;

    for (;;) {
        uint32_t seen = nigh_bell_read(bell);
        int error = 0;

        nigh_store_relaxed(&game->asleep, NIGH_ASLEEP);
        nigh_bell_fence(nigh_bell_light());
        if (nigh_load_acquire(&game->returned, RING_PEEK) < round) {
            slept = 1;
            error = nigh_bell_sleep(bell, seen, 60000 * MS);
        }
        nigh_store_relaxed(&game->asleep, NIGH_AWAKE);
        if (error == -ETIMEDOUT)
            return -1; /* fault 3: a wake-up was lost */
        if (nigh_load_acquire(&game->returned, RING_PEEK) >= round)
            return slept;
    }
}

/* What does not test anything yet. */
static bool is_little(void)
{
    return game->rounds < 100 || game->sleeps * 20 < game->rounds;
}

static int sleep_and_wake(void)
{
    struct nigh_bell bell;
    unsigned seed = 1, aim = ANSWER;
    uint64_t end = now_ns() + 3000 * MS; /* where CPUs are scarce fewer rounds must do */

    if (nigh_bell_map(bell_of_sleeper.fd, &bell))
        return 1;
    if (nigh_bell_light() == full_fences)
        return 2;
    for (uint64_t round = 1; round <= ROUNDS && (now_ns() < end || is_little()); round++) {
        int slept;

        nigh_store_release(&game->served, round, RING_PUBLISH);
        pause_for(aim + (unsigned)rand_r(&seed) % AIM);
        slept = await(round, &bell);
        if (slept < 0)
            return 3;
        game->sleeps += (unsigned)slept;
        game->rounds++;
        if (slept)
            aim += AIM;
        else if (aim > AIM)
            aim -= AIM;
    }
    return 0;
}

static int refuse_membarrier(int command, unsigned flags)
{
    (void)command;
    (void)flags;
    errno = EPERM;
    return -1;
}

static void play(bool with_full_fences)
{
    pid_t sleeper, other;
    int status;

    full_fences = with_full_fences;
    game = mmap(NULL, sizeof(*game), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(game != MAP_FAILED);
    bell_of_sleeper = create();
    sleeper = start(sleep_and_wake);
    other = start(answer);
    status = status_of(sleeper);
    nigh_store_release(&game->served, UINT64_MAX, RING_PUBLISH); /* the other ends, whatever happened */
    finish(other);
    check_status(status);
    assert_int_equal(game->returned, ROUNDS);
    print_message("slept in %lu of %lu rounds\n", (unsigned long)game->sleeps, (unsigned long)game->rounds);
    assert_false(is_little());
    nigh_bell_close(&bell_of_sleeper);
    munmap(game, sizeof(*game));
}

static void no_wake_up_is_lost_with_membarrier(void **state)
{
    (void)state;
    if (nigh_os.membarrier(MEMBARRIER_CMD_QUERY, 0) < 0) {
        print_message("this kernel refuses membarrier: %s\n", strerror(errno));
        skip();
    }
    play(false);
}

static void no_wake_up_is_lost_with_full_fences(void **state)
{
    (void)state;
    nigh_os.membarrier = refuse_membarrier;
    play(true);
}

static int (*real_membarrier)(int command, unsigned flags);

static int keep_membarrier(void **state)
{
    (void)state;
    real_membarrier = nigh_os.membarrier;
    return 0;
}

static int restore_membarrier(void **state)
{
    (void)state;
    nigh_os.membarrier = real_membarrier;
    return 0;
}

/* ---- membarrier ------------------------------------------------------------------------------------------ */

static int registers_once_and_fences(void)
{
    const struct nigh_arena_header tells = {.flags = NIGH_ARENA_FENCES}, silent = {0};

    osfail_install();
    if (!nigh_bell_light() || !nigh_bell_light() || osfail_count(OSFAIL_membarrier) != 2)
        return 1;
    nigh_bell_fence(nigh_bell_light());
    nigh_bell_fence(nigh_bell_light());
    if (osfail_count(OSFAIL_membarrier) != 4)
        return 2;
    return nigh_bell_light_to(&tells) && !nigh_bell_light_to(&silent) ? 0 : 3;
}

static int is_refused(void)
{
    const struct nigh_arena_header tells = {.flags = NIGH_ARENA_FENCES};

    logged_begin();
    osfail_arm_all(OSFAIL_membarrier, 1, ENOSYS);
    if (nigh_bell_light() || nigh_bell_light_to(&tells))
        return 1;
    nigh_bell_fence(nigh_bell_light());
    if (osfail_count(OSFAIL_membarrier) != 1) /* not asked again with every sleep */
        return 2;
    return logged_lines() == 1 ? 0 : 3;
}

static int registration_is_refused(void)
{
    osfail_arm(OSFAIL_membarrier, 2, EPERM);
    return nigh_bell_light() ? 1 : 0;
}

static int is_refused_later(void)
{
    logged_begin();
    osfail_arm_all(OSFAIL_membarrier, 3, EPERM);
    if (!nigh_bell_light())
        return 1;
    if (nigh_bell_fence(true) || nigh_bell_fence(true) || nigh_bell_can_fence())
        return 2;
    /* Nobody relies on it: nothing is amiss. */
    if (!nigh_bell_fence(false))
        return 3;
    return logged_lines() == 1 && strstr(logged_text(), "membarrier") ? 0 : 4;
}

static int is_refused_once(void)
{
    osfail_arm(OSFAIL_membarrier, 3, ENOMEM);
    if (!nigh_bell_light() || nigh_bell_fence(true))
        return 1;
    return nigh_bell_fence(true) && nigh_bell_can_fence() ? 0 : 2;
}

static void membarrier_is_registered_once(void **state)
{
    (void)state;
    if (nigh_os.membarrier(MEMBARRIER_CMD_QUERY, 0) < 0) {
        print_message("this kernel refuses membarrier: %s\n", strerror(errno));
        skip();
    }
    finish(start(registers_once_and_fences));
    finish(start(is_refused_later));
    finish(start(is_refused_once));
}

static void without_membarrier_fences_are_full(void **state)
{
    (void)state;
    finish(start(is_refused));
    finish(start(registration_is_refused));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_wake_up_is_lost_with_membarrier),
        cmocka_unit_test_setup_teardown(no_wake_up_is_lost_with_full_fences, keep_membarrier,
                                        restore_membarrier),
        cmocka_unit_test(membarrier_is_registered_once),
        cmocka_unit_test(without_membarrier_fences_are_full),
    };
    return cmocka_run_group_tests_name("wake", tests, NULL, NULL);
}
