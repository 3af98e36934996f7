/* SPDX-License-Identifier: BSD-3-Clause */
/* A ring wakes whoever sleeps on the bell, in the same process or another one, and none is ever lost: the
 * time-out that would rescue a lost one fails the test. Each scenario that asks for membarrier runs in a child,
 * because a process asks once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/doorbell.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <linux/membarrier.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/time.h>
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

static struct nigh_bell create(uint32_t peers, bool with_eventfd)
{
    struct nigh_bell bell;

    assert_int_equal(nigh_bell_create(peers, with_eventfd, &bell), 0);
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

/* ---- create and map -------------------------------------------------------------------------------------- */

static void sizes_follow_the_peers(void **state)
{
    static const struct {
        uint32_t peers, words;
        uint64_t bytes;
    } sizes[] = {{1, 1, 4096},       {64, 1, 4096},      {65, 2, 4096},
                 {31744, 496, 4096}, {31745, 497, 8192}, {NIGH_PEERS_MAX, 1024, 12288}};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct nigh_bell bell = create(sizes[i].peers, false), peer;
        struct stat stat;

        assert_int_equal(bell.words, sizes[i].words);
        assert_int_equal(bell.bytes, sizes[i].bytes);
        assert_int_equal(bell.eventfd, -1);
        assert_int_equal(fstat(bell.fd, &stat), 0);
        assert_int_equal(stat.st_blocks * 512, sizes[i].bytes); /* all of it backed */
        assert_true(fcntl(bell.fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(nigh_bell_map(bell.fd, -1, &peer), 0);
        assert_true(peer.words >= bell.words);
        nigh_bell_close(&peer);
        nigh_bell_close(&bell);
        assert_null(bell.shared);
        nigh_bell_close(&bell);
    }
}

static void a_peer_rings_and_hints_through_its_own_mapping(void **state)
{
    struct nigh_bell bell = create(128, false), peer;
    uint32_t before = nigh_bell_read(&bell);

    (void)state;
    assert_int_equal(nigh_bell_map(bell.fd, -1, &peer), 0);
    assert_ptr_not_equal(peer.shared, bell.shared);
    nigh_bell_ring(&peer, NIGH_AWAKE);
    assert_int_equal(nigh_bell_read(&bell), before + 1);
    nigh_bell_hint(&peer, 3);
    nigh_bell_hint(&peer, 127);
    assert_int_equal(bell.shared->hints[0], 8);
    assert_int_equal(bell.shared->hints[1], UINT64_C(1) << 63);
    assert_int_equal(bell.shared->summary, 3);
    nigh_bell_close(&peer);
    nigh_bell_close(&bell);
}

/* A nudge is seen by whoever looks at what the hint made it look at. */
static void a_nudge_comes_with_a_hint(void **state)
{
    struct nigh_bell bell = create(128, false);

    (void)state;
    assert_int_equal(nigh_bell_nudges(&bell), 0);
    assert_int_equal(nigh_bell_nudge(&bell, 64), 1);
    assert_int_equal(nigh_bell_nudges(&bell), 1);
    assert_int_equal(bell.shared->summary, 2);
    assert_int_equal(bell.shared->hints[1], 1);
    assert_int_equal(nigh_bell_nudge(&bell, UINT32_MAX), 2);
    assert_int_equal(nigh_bell_nudges(&bell), 2);
    assert_int_equal(nigh_bell_read(&bell), 0);
    nigh_bell_close(&bell);
}

static void hints_out_of_range_are_nothing(void **state)
{
    struct nigh_bell bell = create(64, false);
    uint8_t before[4096];

    (void)state;
    memcpy(before, bell.shared, sizeof(before));
    nigh_bell_hint(&bell, 64);
    nigh_bell_hint(&bell, 100000);
    nigh_bell_hint(&bell, UINT32_MAX);
    assert_memory_equal(bell.shared, before, sizeof(before));
    nigh_bell_close(&bell);
}

static void the_summary_is_shared_by_words_64_apart(void **state)
{
    struct nigh_bell bell = create(NIGH_PEERS_MAX, false);

    (void)state;
    nigh_bell_hint(&bell, 64 * 64 * 3 + 64 * 5);
    assert_int_equal(bell.shared->hints[64 * 3 + 5], 1);
    assert_int_equal(bell.shared->summary, 1 << 5);
    nigh_bell_close(&bell);
}

static void refused(int fd, int eventfd, const char *logged)
{
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
    struct nigh_bell out = {.fd = -7};

    logged_begin();
    assert_int_equal(nigh_bell_map(fd, eventfd, &out), -EPROTO);
    logged_assert_has(logged);
    logged_end();
    assert_int_equal(out.fd, -7);
    assert_int_equal(osfail_open_fds(), fds);
    assert_int_equal(osfail_shared_maps(), maps);
    close(fd);
}

static int memfd_of(off_t bytes, int seals)
{
    int fd = memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static void hostile_descriptors_are_refused(void **state)
{
    const int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    struct nigh_bell bell;
    int ends[2], fd;
    char path[64];

    (void)state;
    refused(memfd_of(4096, seals & ~F_SEAL_SHRINK), -1, "not sealed");
    refused(memfd_of(4096, seals & ~F_SEAL_GROW), -1, "not sealed");
    refused(memfd_of(4096, seals & ~F_SEAL_SEAL), -1, "not sealed");
    refused(memfd_of(4096, seals | F_SEAL_WRITE), -1, "against ringing");
    refused(memfd_of(4096, seals | F_SEAL_FUTURE_WRITE), -1, "against ringing");
    refused(memfd_of(0, seals), -1, "size");
    refused(memfd_of(100, seals), -1, "size");
    refused(memfd_of(4097, seals), -1, "size");
    refused(memfd_of(12288 + 4096, seals), -1, "size");
    refused(memfd_of((off_t)1 << 50, seals), -1, "size");
    refused(open("/", O_RDONLY | O_CLOEXEC), -1, "not a memfd");
    refused(99999, -1, "not a memfd");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    refused(ends[0], -1, "not a memfd");
    close(ends[1]);
    refused(memfd_of(4096, seals), 99999, "eventfd is not open");
    fd = memfd_of(4096, seals);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    refused(open(path, O_RDONLY | O_CLOEXEC), -1, "mapped for writing");
    assert_int_equal(nigh_bell_map(fd, -1, &bell), 0); /* and the sound one is taken */
    nigh_bell_close(&bell);
    close(fd);
}

static void every_failure_of_create_cleans_up(void **state)
{
    static const struct {
        enum osfail_call call;
        int error, result;
    } failures[] = {
        {OSFAIL_memfd_create, EMFILE, -EMFILE}, {OSFAIL_memfd_create, ENFILE, -EMFILE},
        {OSFAIL_memfd_create, ENOSYS, -ENOSYS}, {OSFAIL_memfd_create, EACCES, -EPERM},
        {OSFAIL_ftruncate, ENOMEM, -ENOMEM},    {OSFAIL_fallocate, ENOSPC, -ENOMEM},
        {OSFAIL_fcntl, EPERM, -EPERM},          {OSFAIL_mmap, ENOMEM, -ENOMEM},
        {OSFAIL_madvise, ENOMEM, -ENOMEM},      {OSFAIL_eventfd, EMFILE, -EMFILE},
    };
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();

    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct nigh_bell out = {.fd = -7};

        logged_begin();
        osfail_arm(failures[i].call, 1, failures[i].error);
        assert_int_equal(nigh_bell_create(8, true, &out), failures[i].result);
        assert_true(osfail_hit());
        osfail_remove();
        assert_int_equal(logged_lines(), 1);
        logged_end();
        assert_int_equal(out.fd, -7);
        assert_int_equal(osfail_open_fds(), fds);
        assert_int_equal(osfail_shared_maps(), maps);
    }
}

static void interrupted_and_old_kernels_are_served(void **state)
{
    struct nigh_bell bell;

    (void)state;
    osfail_arm(OSFAIL_fallocate, 1, EINTR);
    bell = create(8, false);
    nigh_bell_close(&bell);
    osfail_arm(OSFAIL_memfd_create, 1, EINVAL);
    bell = create(8, false);
    osfail_remove();
    nigh_bell_close(&bell);
}

static void failures_of_map_clean_up(void **state)
{
    static const enum osfail_call calls[] = {OSFAIL_mmap, OSFAIL_madvise};
    struct nigh_bell bell = create(8, false), out = {.fd = -7};
    unsigned maps = osfail_shared_maps();

    (void)state;
    logged_begin();
    for (size_t i = 0; i < 2; i++) {
        osfail_arm(calls[i], 1, ENOMEM);
        assert_int_equal(nigh_bell_map(bell.fd, -1, &out), -ENOMEM);
        osfail_remove();
        assert_int_equal(out.fd, -7);
        assert_int_equal(osfail_shared_maps(), maps);
    }
    logged_end();
    nigh_bell_close(&bell);
}

static void a_mapped_eventfd_is_taken_over(void **state)
{
    struct nigh_bell bell = create(8, true), peer;
    unsigned fds = osfail_open_fds();

    (void)state;
    assert_true(bell.eventfd >= 0);
    assert_true(fcntl(bell.eventfd, F_GETFL) & O_NONBLOCK);
    assert_int_equal(nigh_bell_map(bell.fd, dup(bell.eventfd), &peer), 0);
    nigh_bell_close(&peer);
    assert_int_equal(osfail_open_fds(), fds);
    nigh_bell_close(&bell);
}

/* ---- ringing --------------------------------------------------------------------------------------------- */

static bool readable(int fd)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};

    return poll(&look, 1, 0) == 1;
}

static void a_ring_makes_only_the_call_that_is_needed(void **state)
{
    struct nigh_bell bell = create(8, true);

    (void)state;
    osfail_install();
    nigh_bell_ring(&bell, NIGH_AWAKE);
    assert_int_equal(osfail_count(OSFAIL_futex) + osfail_count(OSFAIL_write), 0);
    nigh_bell_ring(&bell, NIGH_ASLEEP_FUTEX);
    assert_int_equal(osfail_count(OSFAIL_futex), 1);
    assert_int_equal(osfail_count(OSFAIL_write), 0);
    assert_false(readable(bell.eventfd));
    nigh_bell_ring(&bell, NIGH_ASLEEP_FD);
    assert_int_equal(osfail_count(OSFAIL_futex), 1);
    assert_int_equal(osfail_count(OSFAIL_write), 1);
    assert_true(readable(bell.eventfd));
    nigh_bell_ring(&bell, 12345); /* a peer's garbage */
    assert_int_equal(osfail_count(OSFAIL_futex) + osfail_count(OSFAIL_write), 2);
    assert_int_equal(nigh_bell_read(&bell), 4);
    osfail_remove();
    nigh_bell_close(&bell);
    bell = create(8, false);
    nigh_bell_ring(&bell, NIGH_ASLEEP_FD); /* it has none */
    assert_int_equal(nigh_bell_read(&bell), 1);
    nigh_bell_close(&bell);
}

static void a_full_eventfd_does_not_block_the_ringer(void **state)
{
    struct nigh_bell bell = create(8, true);
    const uint64_t full = UINT64_MAX - 1;

    (void)state;
    assert_int_equal(write(bell.eventfd, &full, sizeof(full)), sizeof(full));
    nigh_bell_ring(&bell, NIGH_ASLEEP_FD);
    assert_true(readable(bell.eventfd));
    nigh_bell_close(&bell);
}

static void an_interrupted_write_is_repeated(void **state)
{
    struct nigh_bell bell = create(8, true);

    (void)state;
    osfail_arm(OSFAIL_write, 1, EINTR);
    nigh_bell_ring(&bell, NIGH_ASLEEP_FD);
    assert_int_equal(osfail_count(OSFAIL_write), 2);
    osfail_remove();
    assert_true(readable(bell.eventfd));
    nigh_bell_close(&bell);
}

static void the_bell_wraps(void **state)
{
    struct nigh_bell bell = create(8, false);

    (void)state;
    bell.shared->bell = UINT32_MAX;
    nigh_bell_ring(&bell, NIGH_AWAKE);
    assert_int_equal(nigh_bell_read(&bell), 0);
    assert_int_equal(nigh_bell_sleep(&bell, UINT32_MAX, UINT64_MAX), 0);
    nigh_bell_close(&bell);
}

/* ---- sleeping -------------------------------------------------------------------------------------------- */

static void timeouts_are_relative_and_kept(void **state)
{
    struct nigh_bell bell = create(8, false);
    uint64_t began;

    (void)state;
    assert_int_equal(nigh_bell_sleep(&bell, 0, 0), -ETIMEDOUT);
    began = now_ns();
    assert_int_equal(nigh_bell_sleep(&bell, 0, 20 * MS), -ETIMEDOUT);
    assert_in_range(now_ns() - began, 20 * MS, 100000 * MS);
    began = now_ns();
    assert_int_equal(nigh_bell_sleep(&bell, 0, 1010 * MS), -ETIMEDOUT); /* the seconds' part */
    assert_in_range(now_ns() - began, 1010 * MS, 100000 * MS);
    nigh_bell_close(&bell);
}

static void a_bell_that_has_rung_does_not_sleep(void **state)
{
    struct nigh_bell bell = create(8, false);
    uint32_t seen = nigh_bell_read(&bell);

    (void)state;
    nigh_bell_ring(&bell, NIGH_AWAKE);
    assert_int_equal(nigh_bell_sleep(&bell, seen, UINT64_MAX), 0);
    assert_int_equal(nigh_bell_sleep(&bell, seen, UINT64_MAX - 1), 0);
    nigh_bell_close(&bell);
}

static void note_alarm(int signal)
{
    (void)signal;
}

static void a_signal_ends_the_sleep(void **state)
{
    struct nigh_bell bell = create(8, false);
    struct sigaction action = {.sa_handler = note_alarm, .sa_flags = SA_RESTART};
    /* It repeats, so that a signal before the sleep begins is not the last one. */
    struct itimerval timer = {.it_interval.tv_usec = 20000, .it_value.tv_usec = 20000}, off = {0};

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &action, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
    assert_int_equal(nigh_bell_sleep(&bell, 0, 10000 * MS), -EINTR);
    assert_int_equal(setitimer(ITIMER_REAL, &off, NULL), 0);
    nigh_bell_close(&bell);
}

static void a_kernel_without_futex_is_told_once_and_counts_as_time(void **state)
{
    struct nigh_bell bell = create(8, false);

    (void)state;
    logged_begin();
    osfail_arm_all(OSFAIL_futex, 1, ENOSYS);
    assert_int_equal(nigh_bell_sleep(&bell, 0, MS), -ETIMEDOUT);
    assert_int_equal(nigh_bell_sleep(&bell, 0, MS), -ETIMEDOUT);
    osfail_remove();
    assert_int_equal(logged_lines(), 1);
    logged_assert_has("futex");
    logged_end();
    nigh_bell_close(&bell);
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

    if (nigh_bell_map(bell_of_sleeper.fd, -1, &bell))
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

        nigh_store_relaxed(&game->asleep, NIGH_ASLEEP_FUTEX);
        nigh_bell_fence();
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

    if (nigh_bell_map(bell_of_sleeper.fd, -1, &bell))
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
    bell_of_sleeper = create(8, false);
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
    nigh_bell_fence();
    nigh_bell_fence();
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
    nigh_bell_fence();
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
    nigh_bell_fence();
    nigh_bell_fence();
    return logged_lines() == 1 && strstr(logged_text(), "membarrier") ? 0 : 2;
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
        cmocka_unit_test(sizes_follow_the_peers),
        cmocka_unit_test(a_peer_rings_and_hints_through_its_own_mapping),
        cmocka_unit_test(a_nudge_comes_with_a_hint),
        cmocka_unit_test(hints_out_of_range_are_nothing),
        cmocka_unit_test(the_summary_is_shared_by_words_64_apart),
        cmocka_unit_test(hostile_descriptors_are_refused),
        cmocka_unit_test(every_failure_of_create_cleans_up),
        cmocka_unit_test(interrupted_and_old_kernels_are_served),
        cmocka_unit_test(failures_of_map_clean_up),
        cmocka_unit_test(a_mapped_eventfd_is_taken_over),
        cmocka_unit_test(a_ring_makes_only_the_call_that_is_needed),
        cmocka_unit_test(a_full_eventfd_does_not_block_the_ringer),
        cmocka_unit_test(an_interrupted_write_is_repeated),
        cmocka_unit_test(the_bell_wraps),
        cmocka_unit_test(timeouts_are_relative_and_kept),
        cmocka_unit_test(a_bell_that_has_rung_does_not_sleep),
        cmocka_unit_test(a_signal_ends_the_sleep),
        cmocka_unit_test(a_kernel_without_futex_is_told_once_and_counts_as_time),
        cmocka_unit_test(no_wake_up_is_lost_with_membarrier),
        cmocka_unit_test_setup_teardown(no_wake_up_is_lost_with_full_fences, keep_membarrier,
                                        restore_membarrier),
        cmocka_unit_test(membarrier_is_registered_once),
        cmocka_unit_test(without_membarrier_fences_are_full),
    };
    return cmocka_run_group_tests_name("doorbell", tests, NULL, NULL);
}
