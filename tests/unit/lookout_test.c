/* SPDX-License-Identifier: BSD-3-Clause */
/* Lookouts raise the service's flag when a word is marked, whichever of hundreds it is; look at no word that was forgotten;
 * and cost little, whatever the words' owners write there and however often they wake us. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/life.h"
#include "shm/lookout.h"
#include "shm/os.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { WORDS = 2100, OWNER = 4711 | FUTEX_WAITERS };

static struct nigh_service *service;
static struct nigh_lookouts *lookouts;
static struct nigh_bell bell;
static struct nigh_arena_state state;
static uint32_t *words;
static int source;
static uint32_t heard; /* of the bell */

static int begin(void **test)
{
    (void)test;
    alarm(60);
    osfail_install(); /* before the threads: they read the table */
    words = mmap(NULL, WORDS * sizeof(*words), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(words != MAP_FAILED);
    for (unsigned i = 0; i < WORDS; i++)
        words[i] = OWNER;
    source = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_int_equal(nigh_bell_create(4, &bell), 0);
    heard = nigh_bell_read(&bell);
    state.asleep = NIGH_ASLEEP;
    assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
    return 0;
}

static int end(void **test)
{
    (void)test;
    nigh_lookouts_close(lookouts);
    lookouts = NULL;
    nigh_service_stop(service);
    nigh_bell_close(&bell);
    close(source);
    munmap(words, WORDS * sizeof(*words));
    osfail_remove();
    return 0;
}

static void open_them(void)
{
    assert_int_equal(nigh_lookouts_open(service, &lookouts), 0);
    if (!lookouts) {
        print_message("SKIP: this kernel has no futex_waitv\n");
        skip();
    }
}

static void pause_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000}, NULL);
}

static void change(unsigned i, uint32_t value)
{
    __atomic_store_n(&words[i], value, __ATOMIC_RELEASE);
    nigh_os.futex(&words[i], FUTEX_WAKE, 1, NULL);
}

static void mark(unsigned i)
{
    change(i, FUTEX_OWNER_DIED | FUTEX_WAITERS);
}

static bool is_raised(void)
{
    return nigh_load_acquire(nigh_service_flag(service), FLAG_SEE) != 0;
}

/* And the bell of who sleeps was rung. */
static void await_raised(void)
{
    for (unsigned i = 0; i < 30000 && !is_raised(); i++)
        pause_ms(1);
    assert_true(is_raised());
    for (unsigned i = 0; i < 30000 && nigh_bell_read(&bell) == heard; i++)
        pause_ms(1);
    assert_true(nigh_bell_read(&bell) != heard);
    heard = nigh_bell_read(&bell);
    nigh_service_taken(service);
}

/* All that was to be watched is: nothing has been looked at anew for a while, in which this process had a CPU. */
static void await_sleep(void)
{
    unsigned before = osfail_count(OSFAIL_futex_waitv);

    for (unsigned same = 0, i = 0; same < 50 && i < 30000; i++) {
        unsigned now = osfail_count(OSFAIL_futex_waitv);

        pause_ms(1);
        same = now == before ? same + 1 : 0;
        before = now;
    }
}

static void is_quiet(void)
{
    pause_ms(20);
    assert_false(is_raised());
}

/* ---- marks -------------------------------------------------------------------------------------------------- */

/* The first, one of the second thread and the last; each is told once. */
static void test_each_is_told(void **test)
{
    static const unsigned which[] = {0, 126, 127, 299};

    (void)test;
    open_them();
    for (unsigned i = 0; i < 300; i++)
        nigh_lookouts_watch(lookouts, &words[i]);
    is_quiet();
    for (unsigned i = 0; i < sizeof(which) / sizeof(which[0]); i++) {
        mark(which[i]);
        await_raised();
        is_quiet();
    }
}

/* Before it is watched, while nobody sleeps on it yet, and without anybody woken. */
static void test_marked_early(void **test)
{
    (void)test;
    open_them();
    mark(0);
    nigh_lookouts_watch(lookouts, &words[0]);
    await_raised();
    nigh_lookouts_watch(lookouts, &words[1]);
    mark(1);
    await_raised();
    is_quiet();
}

static void test_forgotten(void **test)
{
    uint32_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    (void)test;
    open_them();
    assert_true(gone != MAP_FAILED);
    for (unsigned i = 0; i < 200; i++) {
        *gone = OWNER;
        nigh_lookouts_watch(lookouts, &words[i]);
        nigh_lookouts_watch(lookouts, gone);
        if (i % 16 == 0)
            pause_ms(2); /* it may be waited on */
        nigh_lookouts_forget(lookouts, gone);
        munmap(gone, 4096);
        assert_ptr_equal(
            mmap(gone, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0), gone);
        *gone = FUTEX_OWNER_DIED; /* what lies there now is something else */
    }
    munmap(gone, 4096);
    nigh_lookouts_forget(lookouts, &words[0]);
    nigh_lookouts_forget(lookouts, &words[0]);
    mark(0);
    is_quiet();
    mark(199);
    await_raised();
}

/* ---- hostile owners ----------------------------------------------------------------------------------------- */

/* What nobody holds is not waited on, and what becomes something else no longer: the others are. */
static void test_values(void **test)
{
    static const uint32_t values[] = {0, 4711, FUTEX_WAITERS, 1, FUTEX_TID_MASK};
    const unsigned count = sizeof(values) / sizeof(values[0]);
    unsigned before;

    (void)test;
    open_them();
    for (unsigned i = 0; i < count; i++) {
        words[i] = values[i];
        nigh_lookouts_watch(lookouts, &words[i]);
        nigh_lookouts_watch(lookouts, &words[count + i]);
    }
    await_sleep();
    for (unsigned i = 0; i < count; i++)
        change(count + i, values[i]);
    is_quiet();
    await_sleep();
    before = osfail_count(OSFAIL_futex_waitv);
    for (unsigned i = 0; i < 2 * count; i++)
        change(i, 0x1234u + i);
    pause_ms(20);
    assert_int_equal(osfail_count(OSFAIL_futex_waitv), before); /* nobody sleeps on these */
    nigh_lookouts_watch(lookouts, &words[50]);
    mark(50);
    await_raised();
}

/* Woken for nothing as fast as its owner can, for 50 ms: a look a millisecond, and the next mark is heard. */
static void test_storm(void **test)
{
    unsigned before, wakes = 0;
    uint64_t until;
    struct timespec now;

    (void)test;
    open_them();
    nigh_lookouts_watch(lookouts, &words[0]);
    nigh_lookouts_watch(lookouts, &words[1]);
    pause_ms(5);
    before = osfail_count(OSFAIL_futex_waitv);
    clock_gettime(CLOCK_MONOTONIC, &now);
    until = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec + 50000000;
    do {
        wakes++;
        nigh_os.futex(&words[0], FUTEX_WAKE, 1, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec < until);
    /* On a loaded machine the 50 ms may be many, and so may be the looks, but not as many as the wakes. */
    if (wakes > 1000)
        assert_in_range(osfail_count(OSFAIL_futex_waitv) - before, 0, wakes / 4);
    assert_false(is_raised());
    mark(1);
    await_raised();
}

/* ---- what is refused ---------------------------------------------------------------------------------------- */

/* While no thread reads the table. Starting the service again is one call of each. */
static void arm_all(enum osfail_call call, unsigned nth, int error)
{
    nigh_service_stop(service);
    osfail_arm_all(call, nth, error);
    assert_int_equal(nigh_service_start(source, &bell, &state, NULL, &service), 0);
}

static void test_old_kernel(void **test)
{
    (void)test;
    arm_all(OSFAIL_futex_waitv, 1, ENOSYS);
    lookouts = (void *)&words;
    assert_int_equal(nigh_lookouts_open(service, &lookouts), 0);
    assert_null(lookouts);
    nigh_lookouts_watch(NULL, &words[0]);
    nigh_lookouts_forget(NULL, &words[0]);
}

static void test_no_thread(void **test)
{
    (void)test;
    open_them(); /* skips where there are none */
    nigh_lookouts_close(lookouts);
    lookouts = NULL;
    for (unsigned i = 0; i < 2; i++) {
        arm_all(i ? OSFAIL_calloc : OSFAIL_pthread_create, 2, i ? ENOMEM : EAGAIN);
        logged_begin();
        assert_int_equal(nigh_lookouts_open(service, &lookouts), -ENOMEM);
        logged_end();
        assert_null(lookouts);
    }
}

/* Of a second thread that cannot be had its peers die as they did without: that is said, and nothing else fails. */
static void test_no_second_thread(void **test)
{
    (void)test;
    arm_all(OSFAIL_pthread_create, 3, EAGAIN);
    open_them();
    logged_begin();
    for (unsigned i = 0; i < 140; i++)
        nigh_lookouts_watch(lookouts, &words[i]);
    logged_assert_has("no thread watches more than 127 peers");
    assert_int_equal(logged_lines(), 1);
    logged_end();
    mark(126);
    await_raised();
}

/* More than the kernel marks of one process. */
static void test_full(void **test)
{
    (void)test;
    open_them();
    logged_begin();
    for (unsigned i = 0; i < WORDS; i++)
        nigh_lookouts_watch(lookouts, &words[i]);
    logged_assert_has("no thread watches more than 2032 peers");
    logged_end();
    nigh_lookouts_forget(lookouts, &words[7]);
    nigh_lookouts_watch(lookouts, &words[WORDS - 1]);
    mark(WORDS - 1);
    await_raised();
}

/* A sandbox that closes later ends the thread, and close does not wait for it. */
static void test_refused_later(void **test)
{
    (void)test;
    arm_all(OSFAIL_futex_waitv, 3, EPERM); /* behind the question whether it is there, and the first sleep */
    open_them();
    pause_ms(5);
    nigh_lookouts_watch(lookouts, &words[0]);
    for (unsigned i = 0; i < 30000 && osfail_count(OSFAIL_futex_waitv) < 3; i++)
        pause_ms(1);
    pause_ms(5);
    nigh_lookouts_watch(lookouts, &words[1]);
    pause_ms(5);
    assert_int_equal(osfail_count(OSFAIL_futex_waitv), 3);
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(test_each_is_told), CASE(test_marked_early),  CASE(test_forgotten), CASE(test_values),
        CASE(test_storm),        CASE(test_old_kernel),    CASE(test_no_thread), CASE(test_no_second_thread),
        CASE(test_full),         CASE(test_refused_later),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
