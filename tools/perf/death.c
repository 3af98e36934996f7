/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/perf/death.c - a kill, timed in three ways at once: by whoever waits for the process through nigh, by a thread that
 * waits on a robust futex of it, and by one that waits for its pidfd. */
#include "tools/perf/death.h"

#include "tools/perf/clock.h"

#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* For the survivor to fall asleep, and for what was touched to be over. */
#define REST_US 10000

static long futex(uint32_t *word, int op, uint32_t value)
{
    return syscall(SYS_futex, word, op, value, NULL, NULL, 0);
}

static void await(struct perf_rank *me, const uint32_t *flag, pid_t child)
{
    int status;

    while (!perf_take(flag)) {
        if (child && waitpid(child, &status, WNOHANG) == child)
            perf_fail(me, "death: a process has ended before it was to be killed");
        usleep(200);
    }
}

/* ---- the victim -------------------------------------------------------------------------------------------- */

struct held {
    struct robust_list node;
    struct robust_list_head head;
    struct perf_death *death;
};

/* Holds the bare word as long as it lives. */
static void *hold(void *argument)
{
    struct held *held = argument;

    held->head = (struct robust_list_head){
        .list = {&held->node},
        .futex_offset = (long)((uintptr_t)&held->death->word - (uintptr_t)&held->node),
    };
    held->node.next = &held->head.list;
    perf_give(&held->death->word, (uint32_t)syscall(SYS_gettid) | FUTEX_WAITERS);
    perf_give(&held->death->held, syscall(SYS_set_robust_list, &held->head, sizeof(held->head)) ? 2u : 1u);
    for (;;)
        pause();
    return NULL;
}

/* 4 KiB pages, as most programs have: they take the kernel longest to give back. */
static void touch(struct perf_rank *me, uint64_t bytes)
{
    uint8_t *memory;

    if (!bytes)
        return;
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        perf_fail(me, "death: no %llu bytes of memory: %s", (unsigned long long)bytes, strerror(errno));
    (void)madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (uint64_t at = 0; at < bytes; at += 4096)
        memory[at] = 1;
}

static void be_victim(struct perf_rank *me, struct perf_death *death, const struct perf_death_layer *layer)
{
    static struct held held;
    pthread_t holder;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    touch(me, death->bytes);
    held.death = death;
    if (pthread_create(&holder, NULL, hold, &held))
        perf_fail(me, "death: no thread for the bare futex");
    layer->live(me, death);
    perf_give(&death->victim_ready, 1);
    for (;;)
        pause();
}

/* ---- the survivor ------------------------------------------------------------------------------------------ */

void perf_death_begin(struct perf_death *death)
{
    perf_give(&death->survivor_ready, 1);
}

static void be_survivor(struct perf_rank *me, struct perf_death *death, const struct perf_death_layer *layer,
                        enum perf_death_wait how)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    layer->survive(me, death, how);
    perf_give(&death->told_ns, perf_clock_system());
    _exit(0);
}

/* ---- the parent -------------------------------------------------------------------------------------------- */

static void *wait_on_word(void *argument)
{
    struct perf_death *death = argument;
    uint32_t value;

    while (!((value = perf_take(&death->word)) & FUTEX_OWNER_DIED))
        futex(&death->word, FUTEX_WAIT, value);
    death->word_ns = perf_clock_system();
    return NULL;
}

static pid_t start(struct perf_rank *me, struct perf_death *death, const struct perf_death_layer *layer,
                   int how)
{
    pid_t child = fork();

    if (child < 0)
        perf_fail(me, "death: no process: %s", strerror(errno));
    if (child > 0)
        return child;
    if (how < 0)
        be_victim(me, death, layer);
    be_survivor(me, death, layer, (enum perf_death_wait)how);
    return 0;
}

static void kill_and_time(struct perf_rank *me, struct perf_death *death, pid_t victim)
{
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, victim, 0), .events = POLLIN};

    if (end.fd < 0)
        perf_fail(me, "death: no pidfd: %s", strerror(errno));
    usleep(REST_US);
    death->killed = perf_clock_system();
    kill(victim, SIGKILL);
    while (poll(&end, 1, -1) < 0 && errno == EINTR)
        continue;
    death->pidfd_ns = perf_clock_system();
    close(end.fd);
}

void perf_death_once(struct perf_rank *me, struct perf_death *death, const struct perf_death_layer *layer,
                     enum perf_death_wait how)
{
    pid_t victim, survivor;
    pthread_t watcher;
    int status;

    memset(death, 0, offsetof(struct perf_death, job));
    death->job++;
    victim = start(me, death, layer, -1);
    survivor = start(me, death, layer, (int)how);
    await(me, &death->held, victim);
    if (perf_take(&death->held) != 1)
        perf_fail(me, "death: set_robust_list is refused here");
    if (pthread_create(&watcher, NULL, wait_on_word, death))
        perf_fail(me, "death: no thread to wait on the bare futex");
    await(me, &death->victim_ready, victim);
    await(me, &death->survivor_ready, survivor);
    kill_and_time(me, death, victim);
    pthread_join(watcher, NULL);
    waitpid(victim, NULL, 0);
    if (waitpid(survivor, &status, 0) != survivor || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
        perf_fail(me, "death: the survivor of a kill has failed");
}
