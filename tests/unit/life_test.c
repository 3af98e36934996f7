/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel marks each life word that a thread holds when the process ends, however that is, and none that it holds no
 * longer; and wakes whoever waits on one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shm/life.h"
#include "shm/os.h"
#include "tests/support/logged.h"
#include "tests/support/osfail.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAIRS = 300, HELD_FIRST = 3, HELD_LAST = 290 };

/* What a peer sees, in memory that outlives the owner. */
static struct nigh_pair *pairs;
static struct nigh_life *life;

static uint32_t word(uint32_t index)
{
    return nigh_load_acquire(&pairs[index].life, LIFE_SEE);
}

static void *hold_for_ever(void *nothing)
{
    (void)nothing;
    nigh_life_enter(life);
    for (;;)
        pause();
    return NULL;
}

static void open_and_hold(void)
{
    pthread_t thread;

    if (nigh_life_open(pairs, PAIRS, &life) || pthread_create(&thread, NULL, hold_for_ever, NULL))
        _exit(9);
    /* In no order, and one of them twice. */
    for (uint32_t i = HELD_LAST; i >= HELD_FIRST; i--)
        nigh_life_hold(life, i);
    nigh_life_hold(life, HELD_LAST);
}

static void is_killed(void)
{
    open_and_hold();
    raise(SIGKILL);
}

static void exits(void)
{
    open_and_hold();
    _exit(3);
}

static void crashes(void)
{
    open_and_hold();
    signal(SIGSEGV, SIG_DFL);
    prctl(PR_SET_DUMPABLE, 0);
    raise(SIGSEGV);
}

static void begins_another(void)
{
    open_and_hold();
    execl("/bin/true", "true", (char *)NULL);
    _exit(9);
}

static void releases(void)
{
    open_and_hold();
    nigh_life_release(life);
    _exit(3);
}

/* Emulators have none to give. (A list of no length is refused where there are any.) */
static bool has_robust_lists(void)
{
    return syscall(SYS_set_robust_list, NULL, 0) == 0 || errno != ENOSYS;
}

static void need_robust_lists(void)
{
    if (has_robust_lists())
        return;
    print_message("SKIP: this kernel, or what emulates it, has no set_robust_list\n");
    skip();
}

static int begin(void **state)
{
    (void)state;
    alarm(60);
    pairs = mmap(NULL, PAIRS * sizeof(*pairs), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(pairs != MAP_FAILED);
    return 0;
}

static int end(void **state)
{
    (void)state;
    munmap(pairs, PAIRS * sizeof(*pairs));
    return 0;
}

static void play(void (*part)(void))
{
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        part();
        _exit(9);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void all_are(bool marked)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        bool held = i >= HELD_FIRST && i <= HELD_LAST;

        assert_int_equal(nigh_life_is_marked(word(i)), held && marked);
        assert_int_equal(nigh_life_is_held(word(i)), held && !marked);
    }
}

static void test_marked(void **state)
{
    need_robust_lists();
    play(*state);
    all_are(true);
}

static void test_released(void **state)
{
    (void)state;
    need_robust_lists();
    play(releases);
    all_are(false);
}

/* ---- who waits ---------------------------------------------------------------------------------------------- */

static void *wait_on(void *index)
{
    uint32_t *at = &pairs[(uintptr_t)index].life;
    struct timespec long_time = {.tv_sec = 30};
    uint32_t value;

    while (!nigh_life_is_held(value = nigh_load_acquire(at, LIFE_SEE)))
        usleep(100);
    while (nigh_load_acquire(at, LIFE_SEE) == value)
        if (nigh_os.futex(at, FUTEX_WAIT, value, &long_time) && errno == ETIMEDOUT)
            return NULL;
    return at;
}

static void holds_until_told(void)
{
    char byte;

    open_and_hold();
    _exit(read(0, &byte, 1) == 0 ? 0 : 1);
}

/* Each word has its own sleeper: all of them are woken, by the kernel alone. */
static void test_all_are_woken(void **state)
{
    pthread_t thread[20];
    int input[2];
    pid_t child;

    (void)state;
    need_robust_lists();
    assert_int_equal(pipe(input), 0);
    fflush(NULL);
    child = fork();
    if (child == 0) {
        dup2(input[0], 0);
        close(input[1]);
        holds_until_told();
    }
    close(input[0]);
    for (uintptr_t i = 0; i < 20; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, wait_on, (void *)(HELD_FIRST + i)), 0);
    usleep(20000);
    close(input[1]);
    for (unsigned i = 0; i < 20; i++) {
        void *woken;

        pthread_join(thread[i], &woken);
        assert_non_null(woken);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* ---- no words ----------------------------------------------------------------------------------------------- */

static void *enter_once(void *nothing)
{
    (void)nothing;
    logged_begin();
    nigh_life_enter(life);
    logged_assert_has("set_robust_list is refused");
    logged_end();
    return NULL;
}

/* A sandbox refuses: peers see that there is none, and nobody waits for a mark. */
static void test_refused(void **state)
{
    pthread_t thread;

    (void)state;
    osfail_install();
    osfail_arm_all(OSFAIL_set_robust_list, 1, EPERM);
    assert_int_equal(nigh_life_open(pairs, PAIRS, &life), 0);
    assert_int_equal(pthread_create(&thread, NULL, enter_once, NULL), 0);
    nigh_life_hold(life, 5);
    pthread_join(thread, NULL);
    assert_int_equal(word(5), 0);
    nigh_life_close(life);
    osfail_remove();
}

static void test_no_memory(void **state)
{
    static const enum osfail_call calls[] = {OSFAIL_calloc, OSFAIL_mmap};

    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        osfail_install();
        osfail_arm(calls[i], 1, ENOMEM);
        logged_begin();
        assert_int_equal(nigh_life_open(pairs, PAIRS, &life), -ENOMEM);
        logged_end();
        osfail_remove();
    }
    nigh_life_close(NULL);
}

#define MARKED(part)                                   \
    {                                                  \
#part, test_marked, begin, end, (void *)(part) \
    }

int main(void)
{
    const struct CMUnitTest tests[] = {
        MARKED(is_killed),
        MARKED(exits),
        MARKED(crashes),
        MARKED(begins_another),
        cmocka_unit_test_setup_teardown(test_released, begin, end),
        cmocka_unit_test_setup_teardown(test_all_are_woken, begin, end),
        cmocka_unit_test_setup_teardown(test_refused, begin, end),
        cmocka_unit_test_setup_teardown(test_no_memory, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
