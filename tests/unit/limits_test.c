/* SPDX-License-Identifier: BSD-3-Clause */
/* Limits are read from where each kind of machine keeps them; files are put in place of the system's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/limits.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)

struct file {
    const char *path, *text;
};

static const struct file *files;
static int (*real_open)(const char *path, int flags, mode_t mode);

static int open_fake(const char *path, int flags, mode_t mode)
{
    int ends[2];

    (void)flags;
    (void)mode;
    for (const struct file *file = files; file->path; file++) {
        if (strcmp(file->path, path) != 0)
            continue;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_int_equal(write(ends[1], file->text, strlen(file->text)), strlen(file->text));
        close(ends[1]);
        return ends[0];
    }
    errno = ENOENT;
    return -1;
}

static struct nigh_limits read_with(const struct file *fakes)
{
    struct nigh_limits limits;
    unsigned fds = osfail_open_fds();

    files = fakes;
    real_open = nigh_os.open;
    nigh_os.open = open_fake;
    nigh_limits_read(&limits);
    nigh_os.open = real_open;
    assert_int_equal(osfail_open_fds(), fds);
    return limits;
}

static void cgroup_v2_takes_the_smallest_on_the_way_up(void **state)
{
    static const struct file fakes[] = {
        {"/proc/self/cgroup", "0::/a/b/c\n"},
        {"/sys/fs/cgroup/a/b/c/memory.max", "max\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "104857600\n"},
        {"/sys/fs/cgroup/a/memory.max", "209715200\n"},
        {0},
    };

    (void)state;
    assert_int_equal(read_with(fakes).cgroup, 100 * MIB);
}

static void a_container_has_its_level_at_the_root(void **state)
{
    static const struct file fakes[] = {
        {"/proc/self/cgroup", "0::/docker/0123\n"},
        {"/sys/fs/cgroup/memory.max", "52428800\n"},
        {0},
    };

    (void)state;
    assert_int_equal(read_with(fakes).cgroup, 50 * MIB);
}

static void its_own_namespace_has_the_root_path(void **state)
{
    static const struct file fakes[] = {
        {"/proc/self/cgroup", "0::/\n"},
        {"/sys/fs/cgroup/memory.max", "52428800\n"},
        {0},
    };

    (void)state;
    assert_int_equal(read_with(fakes).cgroup, 50 * MIB);
}

static void cgroup_v1_is_known(void **state)
{
    static const struct file fakes[] = {
        {"/proc/self/cgroup", "5:cpu,cpuacct:/x\n4:memory:/x\n1:name=systemd:/x\n0::/x\n"},
        {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1073741824\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {"/sys/fs/cgroup/cpu/x/memory.max", "1\n"},
        {0},
    };

    (void)state;
    assert_int_equal(read_with(fakes).cgroup, 1024 * MIB);
}

static void no_limit_is_none(void **state)
{
    static const struct file v1[] = {
        {"/proc/self/cgroup", "4:memory:/\n"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"},
        {0},
    };
    static const struct file garbage[] = {{"/proc/self/cgroup", "no colons\n:\n\n"}, {0}};
    static const struct file nothing[] = {{0}};

    (void)state;
    assert_true(read_with(v1).cgroup == UINT64_MAX);
    assert_true(read_with(garbage).cgroup == UINT64_MAX);
    assert_true(read_with(nothing).cgroup == UINT64_MAX);
}

static void without_proc_the_system_is_asked(void **state)
{
    static const struct file container[] = {{"/sys/fs/cgroup/memory.max", "52428800\n"}, {0}};
    static const struct file nothing[] = {{0}};
    struct nigh_limits limits = read_with(nothing);

    (void)state;
    assert_int_equal(limits.memory, (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    assert_true(limits.available >= limits.memory && limits.available < UINT64_MAX);
    assert_int_equal(read_with(container).cgroup, 50 * MIB);
}

static void meminfo_is_read(void **state)
{
    static const struct file fakes[] = {
        {"/proc/meminfo", "MemTotal:  1024 kB\nMemFree: 1 kB\nMemAvailable:   512 kB\nSwapFree:   256 kB\n"},
        {0},
    };
    struct nigh_limits limits;

    (void)state;
    limits = read_with(fakes);
    assert_int_equal(limits.memory, MIB);
    assert_int_equal(limits.available, 768 * 1024);
}

static void this_machine_has_memory(void **state)
{
    struct nigh_limits limits;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    (void)state;
    nigh_limits_read(&limits);
    assert_int_equal(limits.memory, memory);
    assert_true(limits.available > 0 && limits.available < UINT64_MAX);
}

static void what_cannot_be_read_is_none(void **state)
{
    static const struct file nothing[] = {{0}};
    struct nigh_limits limits;

    (void)state;
    osfail_arm_all(OSFAIL_sysinfo, 1, EFAULT);
    nigh_os.open = open_fake;
    files = nothing;
    nigh_limits_read(&limits);
    assert_true(limits.cgroup == UINT64_MAX && limits.memory == UINT64_MAX && limits.available == UINT64_MAX);
    osfail_remove();
    osfail_arm_all(OSFAIL_getrlimit, 1, EPERM);
    nigh_limits_read(&limits);
    assert_true(limits.file == UINT64_MAX && limits.address == UINT64_MAX);
    osfail_remove();
}

static void sizes_are_written_for_people(void **state)
{
    char text[NIGH_BYTES_TEXT];

    (void)state;
    assert_string_equal(nigh_bytes_text(0, text), "0 bytes");
    assert_string_equal(nigh_bytes_text(1023, text), "1023 bytes");
    assert_string_equal(nigh_bytes_text(1024, text), "1.0 KiB");
    assert_string_equal(nigh_bytes_text(3 * MIB / 2, text), "1.5 MiB");
    assert_string_equal(nigh_bytes_text(UINT64_C(5) << 40, text), "5.0 TiB");
    assert_string_equal(nigh_bytes_text(UINT64_MAX - 1, text), "16.0 EiB");
    assert_string_equal(nigh_bytes_text(UINT64_MAX, text), "none");
}

static void limits_are_described(void **state)
{
    const struct nigh_limits limits = {
        .file = MIB, .address = UINT64_MAX, .cgroup = 2 * MIB, .cgroup_left = 1536, .available = 4096};
    const struct nigh_limits none = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    char text[512], cut[12];

    (void)state;
    nigh_limits_describe(&limits, text, sizeof(text));
    assert_string_equal(text,
                        "RLIMIT_FSIZE (ulimit -f) 1.0 MiB, RLIMIT_AS (ulimit -v) none, cgroup memory limit "
                        "2.0 MiB (1.5 KiB left), available memory and swap 4.0 KiB");
    nigh_limits_describe(&none, text, sizeof(text));
    assert_string_equal(text,
                        "RLIMIT_FSIZE (ulimit -f) none, RLIMIT_AS (ulimit -v) none, cgroup memory limit "
                        "none, available memory and swap none");
    nigh_limits_describe(&limits, cut, sizeof(cut));
    assert_string_equal(cut, "RLIMIT_FSIZ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cgroup_v2_takes_the_smallest_on_the_way_up),
        cmocka_unit_test(a_container_has_its_level_at_the_root),
        cmocka_unit_test(its_own_namespace_has_the_root_path),
        cmocka_unit_test(cgroup_v1_is_known),
        cmocka_unit_test(no_limit_is_none),
        cmocka_unit_test(without_proc_the_system_is_asked),
        cmocka_unit_test(meminfo_is_read),
        cmocka_unit_test(this_machine_has_memory),
        cmocka_unit_test(what_cannot_be_read_is_none),
        cmocka_unit_test(sizes_are_written_for_people),
        cmocka_unit_test(limits_are_described),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
