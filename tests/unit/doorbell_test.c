/* SPDX-License-Identifier: BSD-3-Clause */
/* The bell: making and mapping it, refusing what is none, ringing, sleeping until it has rung. */
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
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MS + (uint64_t)now.tv_nsec;
}

static struct nigh_bell create(uint32_t peers)
{
    struct nigh_bell bell;

    assert_int_equal(nigh_bell_create(peers, &bell), 0);
    return bell;
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
        struct nigh_bell bell = create(sizes[i].peers), peer;
        struct stat stat;

        assert_int_equal(bell.words, sizes[i].words);
        assert_int_equal(bell.bytes, sizes[i].bytes);
        assert_int_equal(fstat(bell.fd, &stat), 0);
        assert_int_equal(stat.st_blocks * 512, sizes[i].bytes); /* all of it backed */
        assert_true(fcntl(bell.fd, F_GETFD) & FD_CLOEXEC);
        assert_int_equal(nigh_bell_map(bell.fd, &peer), 0);
        assert_true(peer.words >= bell.words);
        nigh_bell_close(&peer);
        nigh_bell_close(&bell);
        assert_null(bell.shared);
        nigh_bell_close(&bell);
    }
}

static void a_peer_rings_and_hints_through_its_own_mapping(void **state)
{
    struct nigh_bell bell = create(128), peer;
    uint32_t before = nigh_bell_read(&bell);

    (void)state;
    assert_int_equal(nigh_bell_map(bell.fd, &peer), 0);
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
    struct nigh_bell bell = create(128);

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
    struct nigh_bell bell = create(64);
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
    struct nigh_bell bell = create(NIGH_PEERS_MAX);

    (void)state;
    nigh_bell_hint(&bell, 64 * 64 * 3 + 64 * 5);
    assert_int_equal(bell.shared->hints[64 * 3 + 5], 1);
    assert_int_equal(bell.shared->summary, 1 << 5);
    nigh_bell_close(&bell);
}

static void refused(int fd, const char *logged)
{
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();
    struct nigh_bell out = {.fd = -7};

    logged_begin();
    assert_int_equal(nigh_bell_map(fd, &out), -EPROTO);
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
    refused(memfd_of(4096, seals & ~F_SEAL_SHRINK), "not sealed");
    refused(memfd_of(4096, seals & ~F_SEAL_GROW), "not sealed");
    refused(memfd_of(4096, seals & ~F_SEAL_SEAL), "not sealed");
    refused(memfd_of(4096, seals | F_SEAL_WRITE), "against ringing");
    refused(memfd_of(4096, seals | F_SEAL_FUTURE_WRITE), "against ringing");
    refused(memfd_of(0, seals), "size");
    refused(memfd_of(100, seals), "size");
    refused(memfd_of(4097, seals), "size");
    refused(memfd_of(12288 + 4096, seals), "size");
    refused(memfd_of((off_t)1 << 50, seals), "size");
    refused(open("/", O_RDONLY | O_CLOEXEC), "not a memfd");
    refused(99999, "not a memfd");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    refused(ends[0], "not a memfd");
    close(ends[1]);
    fd = memfd_of(4096, seals);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    refused(open(path, O_RDONLY | O_CLOEXEC), "mapped for writing");
    assert_int_equal(nigh_bell_map(fd, &bell), 0); /* and the sound one is taken */
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
        {OSFAIL_madvise, ENOMEM, -ENOMEM},      {OSFAIL_fstat, ENOMEM, -ENOMEM},
    };
    unsigned fds = osfail_open_fds(), maps = osfail_shared_maps();

    (void)state;
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++) {
        struct nigh_bell out = {.fd = -7};

        logged_begin();
        osfail_arm(failures[i].call, 1, failures[i].error);
        assert_int_equal(nigh_bell_create(8, &out), failures[i].result);
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
    bell = create(8);
    nigh_bell_close(&bell);
    osfail_arm(OSFAIL_memfd_create, 1, EINVAL);
    bell = create(8);
    osfail_remove();
    nigh_bell_close(&bell);
}

static void failures_of_map_clean_up(void **state)
{
    static const enum osfail_call calls[] = {OSFAIL_mmap, OSFAIL_madvise};
    struct nigh_bell bell = create(8), out = {.fd = -7};
    unsigned maps = osfail_shared_maps();

    (void)state;
    logged_begin();
    for (size_t i = 0; i < 2; i++) {
        osfail_arm(calls[i], 1, ENOMEM);
        assert_int_equal(nigh_bell_map(bell.fd, &out), -ENOMEM);
        osfail_remove();
        assert_int_equal(out.fd, -7);
        assert_int_equal(osfail_shared_maps(), maps);
    }
    logged_end();
    nigh_bell_close(&bell);
}

/* ---- ringing --------------------------------------------------------------------------------------------- */

static void a_ring_makes_only_the_call_that_is_needed(void **state)
{
    struct nigh_bell bell = create(8);

    (void)state;
    osfail_install();
    nigh_bell_ring(&bell, NIGH_AWAKE);
    assert_int_equal(osfail_count(OSFAIL_futex), 0);
    nigh_bell_ring(&bell, NIGH_ASLEEP);
    assert_int_equal(osfail_count(OSFAIL_futex), 1);
    nigh_bell_ring(&bell, 12345); /* a peer's garbage */
    assert_int_equal(osfail_count(OSFAIL_futex), 1);
    assert_int_equal(osfail_count(OSFAIL_write) + osfail_count(OSFAIL_sendmsg), 0);
    assert_int_equal(nigh_bell_read(&bell), 3);
    osfail_remove();
    nigh_bell_close(&bell);
}

/* A daemon closes all descriptors, and opens others. */
static void a_number_that_is_another_file_is_not_closed(void **state)
{
    struct nigh_bell bell = create(8);
    int fd = bell.fd, other = open("/dev/null", O_RDONLY | O_CLOEXEC);

    (void)state;
    assert_int_equal(dup3(other, fd, O_CLOEXEC), fd);
    close(other);
    nigh_bell_close(&bell);
    assert_true(fcntl(fd, F_GETFD) >= 0);
    close(fd);
}

static void the_bell_wraps(void **state)
{
    struct nigh_bell bell = create(8);

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
    struct nigh_bell bell = create(8);
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
    struct nigh_bell bell = create(8);
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
    struct nigh_bell bell = create(8);
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
    struct nigh_bell bell = create(8);

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
        cmocka_unit_test(a_ring_makes_only_the_call_that_is_needed),
        cmocka_unit_test(a_number_that_is_another_file_is_not_closed),
        cmocka_unit_test(the_bell_wraps),
        cmocka_unit_test(timeouts_are_relative_and_kept),
        cmocka_unit_test(a_bell_that_has_rung_does_not_sleep),
        cmocka_unit_test(a_signal_ends_the_sleep),
        cmocka_unit_test(a_kernel_without_futex_is_told_once_and_counts_as_time),
    };
    return cmocka_run_group_tests_name("doorbell", tests, NULL, NULL);
}
