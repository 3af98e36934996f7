/* SPDX-License-Identifier: BSD-3-Clause */
/* Reading another process's memory: right where it is allowed, and every refusal is an error that says why. The
 * refusals are the kernel's own: a seccomp filter, another user, an address that is not mapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/cma.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 * 1024 * 1024 + 77 };

static uint8_t *remote; /* private memory, different in the child */
static const uint64_t nonce = UINT64_C(0x123456789abcdef1);
static pid_t child;

static uint8_t pattern(size_t i)
{
    return (uint8_t)(i * 7 + i / 251);
}

/* A child whose copy of `remote` holds the pattern; this process's own stays zero. */
static int start_child(void **state)
{
    int ready[2];
    char byte;

    (void)state;
    remote = mmap(NULL, BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(remote != MAP_FAILED);
    assert_int_equal(pipe(ready), 0);
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (size_t i = 0; i < BYTES; i++)
            remote[i] = pattern(i);
        memcpy(remote + BYTES, &nonce, sizeof(nonce));
        if (write(ready[1], "", 1) == 1)
            pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return 0;
}

static int end_child(void **state)
{
    (void)state;
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    munmap(remote, BYTES + 4096);
    return 0;
}

static void reads_what_the_other_has(void **state)
{
    static const size_t sizes[] = {0, 1, 8, 4095, 4096, 65537, BYTES};
    uint8_t *local = malloc(BYTES + 1);

    (void)state;
    assert_non_null(local);
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        size_t from = BYTES - sizes[i];

        memset(local, 0xee, BYTES + 1);
        assert_int_equal(nigh_cma_read(child, local, (uintptr_t)(remote + from), sizes[i]), 0);
        for (size_t at = 0; at < sizes[i]; at++) {
            if (local[at] != pattern(from + at))
                fail_msg("byte %zu of %zu is %u, not %u", at, sizes[i], local[at], pattern(from + at));
        }
        assert_int_equal(local[sizes[i]], 0xee);
    }
    free(local);
}

static void probe_knows_the_right_process(void **state)
{
    uint64_t at = (uintptr_t)(remote + BYTES);

    (void)state;
    assert_int_equal(nigh_cma_probe(child, at, nonce), 0);
    assert_int_equal(nigh_cma_probe(child, at, nonce + 1), -EPERM);
    /* The same number in another namespace would be another process: here, this one. */
    assert_int_equal(nigh_cma_probe(getpid(), at, nonce), -EPERM);
}

static void nobody_there(void **state)
{
    uint8_t byte;
    pid_t gone = fork();

    (void)state;
    if (gone == 0)
        _exit(0);
    assert_int_equal(waitpid(gone, NULL, 0), gone);
    assert_int_equal(nigh_cma_read(gone, &byte, (uintptr_t)remote, 1), -ESRCH);
    assert_int_equal(nigh_cma_probe(gone, (uintptr_t)remote, nonce), -ESRCH);
    assert_int_equal(nigh_cma_read(0, &byte, (uintptr_t)remote, 1), -ESRCH);
    assert_int_equal(nigh_cma_read(-1, &byte, (uintptr_t)remote, 1), -ESRCH);
}

static void bad_addresses(void **state)
{
    uint8_t *local = malloc(3 * 4096);
    uint8_t *hole = mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    int self = getpid();

    (void)state;
    assert_non_null(local);
    assert_true(hole != MAP_FAILED);
    memset(hole, 1, 3 * 4096);
    assert_int_equal(munmap(hole + 4096, 4096), 0);
    assert_int_equal(nigh_cma_read(self, local, 0, 8), -EFAULT);
    assert_int_equal(nigh_cma_read(self, local, UINT64_MAX - 4, 8), -EFAULT);
    assert_int_equal(nigh_cma_read(self, local, (uintptr_t)hole, 3 * 4096), -EFAULT);
    assert_int_equal(nigh_cma_read(self, local, (uintptr_t)hole, 4096), 0);
    munmap(hole, 4096);
    munmap(hole + 2 * 4096, 4096);
    free(local);
}

/* In a child whose sandbox answers process_vm_readv with `error`: what reading gives. */
static int read_in_sandbox(int error)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof(filter) / sizeof(*filter), .filter = filter};
    int status;
    pid_t sandboxed = fork();

    if (sandboxed == 0) {
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
            prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
            _exit(255);
        _exit(-nigh_cma_probe(child, (uintptr_t)(remote + BYTES), nonce));
    }
    assert_int_equal(waitpid(sandboxed, &status, 0), sandboxed);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void refused_by_a_sandbox(void **state)
{
    (void)state;
    if (read_in_sandbox(EPERM) == 255) {
        print_message("seccomp filters are not allowed here\n");
        skip();
    }
    assert_int_equal(read_in_sandbox(EPERM), EPERM);
    assert_int_equal(read_in_sandbox(ENOSYS), ENOSYS);
}

static void refused_to_another_user(void **state)
{
    int status;
    pid_t other;

    (void)state;
    if (geteuid() != 0) {
        print_message("only root can become another user\n");
        skip();
    }
    other = fork();
    if (other == 0)
        _exit(setgid(65534) || setuid(65534) ? 255
                                             : -nigh_cma_probe(child, (uintptr_t)(remote + BYTES), nonce));
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), EPERM);
}

static ssize_t (*real_read)(pid_t pid, const struct iovec *local, unsigned long locals,
                            const struct iovec *remote, unsigned long remotes, unsigned long flags);

static ssize_t in_small_pieces(pid_t pid, const struct iovec *local, unsigned long locals,
                               const struct iovec *from, unsigned long remotes, unsigned long flags)
{
    struct iovec piece = *local, of = *from;

    piece.iov_len = of.iov_len = local->iov_len > 1000 ? 1000 : local->iov_len;
    assert_int_equal(locals + remotes, 2);
    return real_read(pid, &piece, 1, &of, 1, flags);
}

static ssize_t nothing(pid_t pid, const struct iovec *local, unsigned long locals, const struct iovec *from,
                       unsigned long remotes, unsigned long flags)
{
    (void)pid, (void)local, (void)locals, (void)from, (void)remotes, (void)flags;
    return 0;
}

static void short_reads_go_on(void **state)
{
    static uint8_t local[10001];

    (void)state;
    real_read = nigh_os.process_vm_readv;
    nigh_os.process_vm_readv = in_small_pieces;
    assert_int_equal(nigh_cma_read(child, local, (uintptr_t)remote, sizeof(local)), 0);
    for (size_t i = 0; i < sizeof(local); i++)
        assert_int_equal(local[i], pattern(i));
    nigh_os.process_vm_readv = nothing;
    assert_int_equal(nigh_cma_read(child, local, (uintptr_t)remote, sizeof(local)), -EIO);
    nigh_os.process_vm_readv = real_read;
    osfail_arm(OSFAIL_process_vm_readv, 1, EINTR);
    assert_int_equal(nigh_cma_read(child, local, (uintptr_t)remote, sizeof(local)), 0);
    assert_true(osfail_hit());
    osfail_remove();
}

/* Several places in one call: all of them, or an error. */
static void several_places(void **state)
{
    static uint8_t local[3][5000];
    struct iovec here[3], there[3];
    uint64_t bytes = 0;

    (void)state;
    for (unsigned i = 0; i < 3; i++) {
        here[i] = (struct iovec){local[i], 4000 + 100 * i};
        there[i] = (struct iovec){remote + 20000 - 7001 * i, 4000 + 100 * i};
        bytes += here[i].iov_len;
    }
    assert_int_equal(nigh_cma_read_several(child, here, there, 3, bytes), 0);
    for (unsigned i = 0; i < 3; i++)
        for (size_t k = 0; k < sizeof(local[i]); k++)
            assert_int_equal(local[i][k], k < here[i].iov_len ? pattern(20000 - 7001 * i + k) : 0);
    for (unsigned i = 0; i < 3; i++)
        memset(local[i], 0x40 + (int)i, here[i].iov_len);
    assert_int_equal(nigh_cma_write_several(child, there, here, 3, bytes), 0);
    for (unsigned i = 0; i < 3; i++)
        memset(local[i], 0, here[i].iov_len);
    assert_int_equal(nigh_cma_read_several(child, here, there, 3, bytes), 0);
    for (unsigned i = 0; i < 3; i++)
        for (size_t k = 0; k < here[i].iov_len; k++)
            assert_int_equal(local[i][k], 0x40 + i);
    there[2].iov_base = (void *)4096;
    assert_int_equal(nigh_cma_read_several(child, here, there, 3, bytes), -EIO);
    assert_int_equal(nigh_cma_write_several(child, there, here, 3, bytes), -EIO);
    assert_int_equal(nigh_cma_read_several(0, here, there, 2, bytes), -EIO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_what_the_other_has),
        cmocka_unit_test(probe_knows_the_right_process),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(bad_addresses),
        cmocka_unit_test(refused_by_a_sandbox),
        cmocka_unit_test(refused_to_another_user),
        cmocka_unit_test(short_reads_go_on),
        cmocka_unit_test(several_places),
    };
    return cmocka_run_group_tests_name("cma", tests, start_child, end_child);
}
