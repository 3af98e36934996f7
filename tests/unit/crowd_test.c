/* SPDX-License-Identifier: BSD-3-Clause */
/* Who is crowded: bound and unbound ranks, quotas, jobs larger than the machine, processes out of sight. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/crowd.h"
#include "tests/support/fakeroot.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Process p may run on the CPUs of masks[p]; p is 0 for oneself. */
static uint64_t masks[8];

static int fake_affinity(pid_t pid, size_t bytes, cpu_set_t *out)
{
    if (pid >= 8) {
        errno = ESRCH;
        return -1;
    }
    memset(out, 0, bytes);
    memcpy(out, &masks[pid], sizeof(masks[pid]));
    return 0;
}

/* A crowd of ranks 0 to count-1, on a machine of 8 CPUs, whose masks are given. */
static struct nigh_crowd crowd_of(uint32_t ranks, const uint64_t *cpus, uint32_t count, uint32_t quota)
{
    struct nigh_os kept = nigh_os;
    struct nigh_crowd crowd;

    memcpy(masks, cpus, count * sizeof(*cpus));
    nigh_os.sched_getaffinity = fake_affinity;
    nigh_crowd_start(&crowd, 1);
    crowd.online = 8; /* whatever this machine has */
    crowd.ranks = ranks;
    crowd.quota = quota;
    for (uint32_t i = 1; i < count; i++)
        nigh_crowd_add(&crowd, (int)i);
    nigh_os = kept;
    return crowd;
}

static void the_rules(void **state)
{
    static const struct {
        const char *what;
        uint32_t ranks, count, quota;
        uint64_t cpus[8];
        bool full;
    } cases[] = {
        {"two on eight", 2, 2, UINT32_MAX, {0xff, 0xff}, false},
        {"two bound to their own", 2, 2, UINT32_MAX, {0x1, 0x2}, false},
        {"two bound to the same", 2, 2, UINT32_MAX, {0x1, 0x1}, true},
        {"three on two", 3, 3, UINT32_MAX, {0x3, 0x3, 0x3}, true},
        {"one to each of four, one roams", 5, 5, UINT32_MAX, {0x1, 0x2, 0x4, 0x8, 0xf}, true},
        {"a job larger than the machine, most not attached yet", 9, 2, UINT32_MAX, {0xff, 0xff}, true},
        {"a job as large as the machine", 8, 2, UINT32_MAX, {0x1, 0x2}, false},
        {"a quota for two", 2, 2, 2000, {0xff, 0xff}, false},
        {"a quota for less than two", 2, 2, 1999, {0xff, 0xff}, true},
        {"a quota that the job exceeds", 4, 2, 3000, {0xff, 0xff}, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct nigh_crowd crowd = crowd_of(cases[i].ranks, cases[i].cpus, cases[i].count, cases[i].quota);

        if (crowd.full != cases[i].full)
            fail_msg("%s: full is %d", cases[i].what, crowd.full);
        assert_int_equal(crowd.members, cases[i].count);
    }
}

static void the_one_who_leaves_makes_room(void **state)
{
    static const uint64_t three[] = {0x3, 0x3, 0x3};
    struct nigh_crowd crowd = crowd_of(2, three, 3, UINT32_MAX);

    (void)state;
    assert_true(crowd.full);
    nigh_crowd_remove(&crowd);
    assert_false(crowd.full);
}

static void one_out_of_sight_may_run_anywhere(void **state)
{
    struct nigh_os kept = nigh_os;
    struct nigh_crowd crowd;

    (void)state;
    masks[0] = 0x1;
    nigh_os.sched_getaffinity = fake_affinity;
    nigh_crowd_start(&crowd, 1);
    crowd.online = 8;
    nigh_crowd_add(&crowd, 0); /* another PID namespace */
    assert_int_equal(crowd.cpus[0], 0xff);
    assert_false(crowd.full);
    nigh_crowd_start(&crowd, 1);
    crowd.online = 8;
    nigh_crowd_add(&crowd, 12); /* gone already */
    assert_int_equal(crowd.cpus[0], 0xff);
    nigh_os = kept;
}

static void it_starts_with_oneself_and_the_quota(void **state)
{
    struct nigh_crowd crowd;

    (void)state;
    nigh_crowd_start(&crowd, 1);
    assert_int_equal(crowd.members, 1);
    assert_int_equal(crowd.online, sysconf(_SC_NPROCESSORS_ONLN));
    fakeroot_install();
    fakeroot_write("/proc/self/cgroup", "0::/\n");
    fakeroot_write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
    nigh_crowd_start(&crowd, 1);
    fakeroot_remove();
    assert_int_equal(crowd.quota, 500);
    assert_true(crowd.full); /* half a CPU is nothing to spin on */
    nigh_crowd_start(&crowd, crowd.online * 2);
    assert_true(crowd.full);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_rules),
        cmocka_unit_test(the_one_who_leaves_makes_room),
        cmocka_unit_test(one_out_of_sight_may_run_anywhere),
        cmocka_unit_test(it_starts_with_oneself_and_the_quota),
    };
    return cmocka_run_group_tests_name("crowd", tests, NULL, NULL);
}
