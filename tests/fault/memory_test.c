/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and files that cannot be had: the machine's shared memory is used up, the file system of NIGH_DIR is full or
 * cannot be written. What was posted meanwhile is refused, or arrives once there is memory again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/fault/fault.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- no more shared memory
 * ---------------------------------------------------------------------------------------- */

static const int no_memory[] = {ENOSPC, ENOMEM};

static int open_without_memory(void *data)
{
    struct fault_held before = fault_held();
    unsigned nth = 0;

    (void)data;
    for (unsigned error = 0; error < 2; error++)
        for (nth = 1;; nth++) {
            struct nigh_context *context = NULL;
            int rc;

            fault_hush();
            osfail_arm(OSFAIL_fallocate, nth, no_memory[error]);
            rc = fault_open(0, &context);
            osfail_remove();
            if (rc == 0) {
                WANT(!osfail_hit());
                fault_close(context);
                WANT_HELD(before);
                break;
            }
            WANT_INT(rc, -ENOMEM);
            WANT(context == NULL);
            WANT_INT(fault_lines(), 1);
            WANT_SAID("imit");
            WANT_HELD(before);
        }
    return (int)nth - 1;
}

static void test_memory_at_open(void **state)
{
    (void)state;
    assert_in_range(fault_apart(open_without_memory, NULL), 2, 20);
}

struct posted {
    int sent, received; /* 1: not yet */
};

static void pump(struct fault_pair *pair, struct posted *posted, unsigned ms)
{
    for (unsigned i = 0; i < ms * 5 && (posted->sent > 0 || posted->received > 0); i++) {
        for (unsigned side = 0; side < 2; side++) {
            struct nigh_completion done;

            if (fault_ops()->poll_completions(pair->context[side], &done, 1) != 1)
                continue;
            if (done.op == NIGH_OP_SEND)
                posted->sent = done.status;
            else
                posted->received = done.status;
        }
        usleep(200);
    }
}

static int talk_without_memory(void *data)
{
    uint64_t bytes = *(uint64_t *)data;
    struct fault_held before = fault_held();
    struct nigh_send send = {.size = sizeof(send), .bytes = bytes, .tag = 5};
    struct nigh_recv recv = {.size = sizeof(recv), .bytes = bytes, .tag = 5};
    struct posted posted = {1, 1};
    struct fault_pair pair;
    int refused;

    fault_pair_open(&pair);
    send.buffer = memset(malloc(bytes), 7, bytes);
    recv.buffer = calloc(1, bytes);
    WANT_INT(fault_ops()->post_recv(pair.context[1], pair.to[1], &recv), 0);
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    refused = fault_ops()->post_send(pair.to[0], &send);
    if (refused) {
        WANT_INT(refused, -ENOMEM);
        posted.sent = 0;
    }
    pump(&pair, &posted, 50);
    WANT(osfail_hit());
    WANT(posted.received == 1); /* there was nothing to send it with */
    WANT(fault_lines() >= 1 && fault_lines() <= 2);
    WANT_SAID("No space left");
    WANT_SAID("available memory");
    osfail_remove();
    if (refused)
        WANT_INT(fault_ops()->post_send(pair.to[0], &send), 0);
    posted.sent = 1;
    pump(&pair, &posted, 5000);
    WANT_INT(posted.sent, 0);
    WANT_INT(posted.received, 0);
    WANT(memcmp(send.buffer, recv.buffer, bytes) == 0);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    WANT_HELD(before);
    return refused != 0;
}

static void test_memory_while_talking(void **state)
{
    static const uint64_t sizes[] = {8, 600, 5000, 200000, 3 << 20};

    (void)state;
    for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        uint64_t bytes = sizes[i];

        print_message("%llu bytes: %s\n", (unsigned long long)bytes,
                      fault_apart(talk_without_memory, &bytes) ? "refused" : "sent later");
    }
}

/* What has another way says nothing, and leaves the line to what has none: not the longest, which may be read
 * out of its sender's own memory. */
static int shuttle_without_memory(void *data)
{
    struct fault_pair pair;
    int sent, received;

    (void)data;
    fault_pair_open(&pair);
    for (unsigned i = 0; i < 2; i++) { /* who talks in turn has a shuttle */
        struct nigh_send send = {.size = sizeof(send), .flags = NIGH_INJECT, .tag = 9};
        struct nigh_recv recv = {.size = sizeof(recv), .tag = 9};
        struct posted posted = {1, 1};

        WANT_INT(fault_ops()->post_recv(pair.context[1 - i], pair.to[1 - i], &recv), 0);
        WANT_INT(fault_ops()->post_send(pair.to[i], &send), 0);
        pump(&pair, &posted, 100000);
        WANT_INT(posted.received, 0);
    }
    osfail_arm(OSFAIL_fallocate, 1, ENOSPC);
    WANT(fault_pair_send(&pair, 20000, &sent, &received));
    WANT(sent == 0 && received == 0 && osfail_hit());
    WANT_INT(fault_lines(), 0);
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    (void)fault_pair_send(&pair, 80000, &sent, &received);
    WANT(fault_lines() > 0);
    WANT_SAID("committing");
    osfail_remove();
    return 0;
}

static void test_memory_of_a_shuttle(void **state)
{
    (void)state;
    fault_apart(shuttle_without_memory, NULL);
}

static void count(void *data, int level, const char *text)
{
    (void)text;
    *(unsigned *)data += level == 0;
}

/* The line goes to the context that was refused, whichever the thread has had to do with last. */
static int whose_memory(void *data)
{
    struct nigh_open options[2] = {fault_options(0), fault_options(1)};
    uint8_t *bytes = calloc(1, 1 << 20);
    struct nigh_send send = {.size = sizeof(send), .bytes = 1 << 20, .buffer = bytes};
    unsigned lines[2] = {0, 0};
    struct fault_pair pair;

    (void)data;
    for (unsigned i = 0; i < 2; i++) {
        options[i].log = count;
        options[i].log_data = &lines[i];
        WANT_INT(fault_ops()->open(&options[i], &pair.context[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++)
        pair.to[i] = fault_connect(pair.context[i], 1 - i);
    WANT(fault_until(&pair, 0, NIGH_READY, 100000) && fault_until(&pair, 1, NIGH_READY, 100000));
    WANT_INT(fault_ops()->disconnect(fault_connect(pair.context[1], 1)), 0);
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    (void)fault_ops()->post_send(pair.to[0], &send);
    WANT(osfail_hit());
    WANT_INT(lines[0], 1);
    WANT_INT(lines[1], 0);
    osfail_remove();
    fault_pair_close(&pair);
    free(bytes);
    return 0;
}

static void test_memory_of_one_of_two(void **state)
{
    (void)state;
    fault_apart(whose_memory, NULL);
}

static int heap_without_memory(void *data)
{
    struct fault_pair pair;
    void *first = NULL, *memory = NULL;

    (void)data;
    fault_pair_open(&pair);
    WANT_INT(fault_ops()->heap_alloc(pair.context[0], 100000, &first), 0);
    osfail_arm_all(OSFAIL_fallocate, 1, ENOSPC);
    for (unsigned i = 0; i < 3; i++)
        WANT_INT(fault_ops()->heap_alloc(pair.context[0], 3 << 20, &memory), -ENOMEM);
    WANT(memory == NULL);
    WANT_INT(fault_lines(), 1);
    WANT_SAID("available memory");
    osfail_remove();
    WANT_INT(fault_ops()->heap_alloc(pair.context[0], 3 << 20, &memory), 0);
    memset(memory, 1, 3 << 20);
    WANT_INT(fault_ops()->heap_free(pair.context[0], memory), 0);
    WANT_INT(fault_ops()->heap_free(pair.context[0], first), 0);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    return 0;
}

static void test_memory_of_the_heap(void **state)
{
    (void)state;
    fault_apart(heap_without_memory, NULL);
}

/* ---- the file system of NIGH_DIR
 * ----------------------------------------------------------------------------------- */

static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/nigh-fault-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    return rmdir(folder);
}

struct mounted {
    const char *options;
    unsigned long flags;
    int error;
    const char *said;
};

/* In a mount namespace of its own, which goes with the process. */
static int open_in(void *data)
{
    const struct mounted *mounted = data;
    struct fault_held before = fault_held();
    struct nigh_context *context = NULL;

    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", folder, "tmpfs", 0, mounted->options))
        fault_skip("a file system cannot be mounted here: %s", strerror(errno));
    if (mounted->flags && mount(NULL, folder, NULL, MS_REMOUNT | mounted->flags, NULL))
        fault_skip("it cannot be mounted anew: %s", strerror(errno));
    setenv("NIGH_DIR", folder, 1);
    WANT_INT(fault_open(0, &context), mounted->error);
    if (mounted->error == 0) {
        fault_close(context);
        WANT_INT(fault_lines(), 0);
    } else {
        WANT(context == NULL);
        WANT_INT(fault_lines(), 1);
        WANT_SAID(folder);
        WANT_SAID(mounted->said);
        WANT_SAID("NIGH_DIR");
    }
    WANT_HELD(before);
    return 0;
}

static void test_a_good_file_system(void **state)
{
    struct mounted good = {"mode=0700", 0, 0, ""};

    (void)state;
    fault_apart(open_in, &good);
}

static void test_a_full_file_system(void **state)
{
    struct mounted full = {"mode=0700,nr_inodes=1", 0, -EACCES, "No space left"};

    (void)state;
    fault_apart(open_in, &full);
}

static void test_a_file_system_for_reading(void **state)
{
    struct mounted locked = {"mode=0700", MS_RDONLY, -EACCES, "Read-only file system"};

    (void)state;
    fault_apart(open_in, &locked);
}

/* Containers have 64 MiB there, and others' leftovers: nothing of nigh lies in it. */
static int talk_with_a_full_dev_shm(void *data)
{
    struct fault_held before = fault_held();
    struct fault_pair pair;
    char page[4096] = "full";
    int fd;

    (void)data;
    if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/dev/shm", "tmpfs", 0, "size=4096"))
        fault_skip("a file system cannot be mounted here: %s", strerror(errno));
    fd = open("/dev/shm/full", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    WANT_INT(write(fd, page, sizeof(page)), sizeof(page));
    WANT(write(fd, page, 1) < 0 && errno == ENOSPC);
    close(fd);
    fault_pair_open(&pair);
    fault_pair_talk(&pair);
    fault_pair_close(&pair);
    WANT_INT(fault_lines(), 0);
    WANT_HELD(before);
    return 0;
}

static void test_a_full_dev_shm(void **state)
{
    (void)state;
    fault_apart(talk_with_a_full_dev_shm, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memory_at_open),
        cmocka_unit_test(test_memory_while_talking),
        cmocka_unit_test(test_memory_of_a_shuttle),
        cmocka_unit_test(test_memory_of_one_of_two),
        cmocka_unit_test(test_memory_of_the_heap),
        cmocka_unit_test(test_a_full_dev_shm),
        cmocka_unit_test_setup_teardown(test_a_good_file_system, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_full_file_system, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_a_file_system_for_reading, make_folder, remove_folder),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
