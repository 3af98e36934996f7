/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/pair_run.c - sets up both ends of a case in each form, plays it, and says how it went. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/support/data.h"
#include "tests/support/pair_play.h"
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CASE_SECONDS 200u

struct one {
    const struct pair_case *of;
    enum pair_form form;
    char name[96];
};

static const struct nigh_ops *table;

const struct nigh_ops *pair_load(void)
{
    const char *path = getenv("NIGH_PLUGIN");
    nigh_transport_fn entry;
    void *object;

    if (table)
        return table;
    object = dlopen(path ? path : "nigh.so", RTLD_NOW);
    if (!object) {
        fprintf(stderr, "NIGH_PLUGIN does not name the module: %s\n", dlerror());
        exit(1);
    }
    entry = (nigh_transport_fn)dlsym(object, NIGH_SYMBOL);
    table = entry ? entry(NIGH_ABI) : NULL;
    if (!table) {
        fprintf(stderr, "%s: no table of ABI %#x\n", path, NIGH_ABI);
        exit(1);
    }
    return table;
}

static unsigned scale(void)
{
    const char *text = getenv("NIGH_TEST_SCALE");
    int value = text ? atoi(text) : 1;

    return value > 0 ? (unsigned)value : 1;
}

/* ---- one side ------------------------------------------------------------------------------------------------- */

static void begin(struct pair_play *play, const struct one *one, struct pair_shared *shared, uint64_t job,
                  int side)
{
    bool self = one->form == PAIR_SELF;

    memset(play, 0, sizeof(*play));
    play->shared = shared;
    play->name = side < 0 ? "both" : side ? "1" : "0";
    play->deadline = pair_now_ms() + UINT64_C(1000) * CASE_SECONDS * scale();
    play->pair = (struct pair){
        .nigh = pair_load(), .of = one->of, .form = one->form, .job = job, .shared = shared->words};
    for (unsigned i = 0; i < 2; i++) {
        play->ends[i].side = self ? 0 : i;
        play->ends[i].queue = &play->queues[self ? 0 : i];
        if (side < 0 || side == (int)i)
            play->pair.end[i] = &play->ends[i];
    }
}

static void each(struct pair *pair, void (*act)(struct pair_end *end))
{
    for (unsigned i = 0; i < 2; i++)
        if (pair->end[i])
            act(pair->end[i]);
}

static void nothing_left(struct pair_end *end)
{
    struct nigh_query_context facts;

    if (!end->context)
        return;
    if (end->queue->count)
        pair_fail(__FILE__, __LINE__, "%u completions that nobody expected: the first of op %u, context %llu",
                  end->queue->count, end->queue->at[0].op, (unsigned long long)end->queue->at[0].context);
    facts = pair_facts(end);
    CHECK_INT(facts.posted, 0);
    CHECK_INT(facts.unexpected, 0);
}

static void setup(struct pair *pair)
{
    if (pair->of->how & PAIR_MANUAL)
        return;
    each(pair, pair_open);
    each(pair, pair_connect);
}

static void finish(struct pair *pair)
{
    if (!(pair->of->how & PAIR_DEATH))
        pair_meet();
    for (unsigned i = 0; i < 8; i++)
        pair_pump();
    if (!(pair->of->how & PAIR_LOOSE))
        each(pair, nothing_left);
    if (!(pair->of->how & PAIR_DEATH))
        pair_meet();
    each(pair, pair_disconnect);
}

static void play(struct pair_play *play)
{
    pair_now = play;
    if (!sigsetjmp(play->out, 0)) {
        setup(&play->pair);
        play->pair.of->play(&play->pair);
        finish(&play->pair);
    }
    if (!sigsetjmp(play->out, 0))
        each(&play->pair, pair_close);
    if (!sigsetjmp(play->out, 0))
        data_end();
    free(play->queues[0].at);
    free(play->queues[1].at);
    pair_now = NULL;
}

/* ---- forms ---------------------------------------------------------------------------------------------------- */

static void *play_thread(void *argument)
{
    play(argument);
    return NULL;
}

static void in_threads(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    static struct pair_play other, own;
    pthread_t thread;

    begin(&other, one, shared, job, 1);
    begin(&own, one, shared, job, 0);
    if (pthread_create(&thread, NULL, play_thread, &other))
        fail_msg("no thread");
    play(&own);
    pthread_join(thread, NULL);
}

static void in_child(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    static struct pair_play part;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    begin(&part, one, shared, job, 1);
    play(&part);
    fflush(NULL);
    _exit(0);
}

/* The status of the child, which is ended if it does not end by itself. */
static int reap(pid_t child)
{
    uint64_t end = pair_now_ms() + UINT64_C(1000) * (CASE_SECONDS + 5) * scale();
    int status = 0;

    while (waitpid(child, &status, WNOHANG) == 0) {
        if (pair_now_ms() > end) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return status;
        }
        usleep(500);
    }
    return status;
}

static void in_processes(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    static struct pair_play part;
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail_msg("no process");
    if (child == 0)
        in_child(one, shared, job);
    begin(&part, one, shared, job, 0);
    play(&part);
    status = reap(child);
    if (!status || one->of->how & PAIR_DEATH)
        return;
    /* Whatever this side has missed, that one's end is the reason. */
    shared->verdict = PAIR_FAILED;
    snprintf(shared->text, sizeof(shared->text), "the second process ended with status %#x", status);
}

static void alone(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    static struct pair_play both;

    begin(&both, one, shared, job, -1);
    play(&both);
}

static void in_form(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    if (one->form == PAIR_FORK)
        in_processes(one, shared, job);
    else if (one->form == PAIR_THREADS)
        in_threads(one, shared, job);
    else
        alone(one, shared, job);
}

static void fresh(const struct one *one, struct pair_shared *shared, uint64_t job)
{
    pid_t child;
    int status;

    fflush(NULL);
    child = fork();
    if (child < 0)
        fail_msg("no process");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        in_form(one, shared, job);
        fflush(NULL);
        _exit(0);
    }
    status = reap(child);
    if (!status || shared->verdict)
        return;
    shared->verdict = PAIR_FAILED;
    snprintf(shared->text, sizeof(shared->text), "the process of the case ended with status %#x", status);
}

/* ---- cases ---------------------------------------------------------------------------------------------------- */

static uint64_t new_job(void)
{
    static uint32_t count;
    struct timespec time;

    clock_gettime(CLOCK_REALTIME, &time);
    return ((uint64_t)getpid() << 40) ^ ((uint64_t)time.tv_nsec << 12) ^ ++count;
}

static void run_one(void **state)
{
    const struct one *one = *state;
    struct pair_shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    uint64_t job = new_job();
    struct pair_shared result;

    if (shared == MAP_FAILED)
        fail_msg("no shared memory");
    if (one->of->how & PAIR_FRESH)
        fresh(one, shared, job);
    else
        in_form(one, shared, job);
    memcpy(&result, shared, sizeof(result));
    munmap(shared, sizeof(*shared));
    if (result.verdict == PAIR_SKIPPED) {
        printf("# skipped: %s\n", result.text);
        fflush(stdout);
        skip();
    }
    if (result.verdict)
        fail_msg("%s", result.text);
}

/* Where races are what is looked for, one thread or two processes show none. */
#if defined(__SANITIZE_THREAD__)
#define FORMS_HERE (PAIR_TWO | PAIR_THREADS)
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FORMS_HERE (PAIR_TWO | PAIR_THREADS)
#endif
#endif
#ifndef FORMS_HERE
#define FORMS_HERE PAIR_ALL
#endif

static const char *form_name(enum pair_form form)
{
    return form == PAIR_SELF   ? "self"
           : form == PAIR_TWO  ? "two"
           : form == PAIR_FORK ? "processes"
                               : "threads";
}

int pair_run(int argc, char **argv, const struct pair_case *cases, size_t count)
{
    struct CMUnitTest *tests = calloc(count * 4, sizeof(*tests));
    struct one *ones = calloc(count * 4, sizeof(*ones));
    size_t used = 0;
    int failed;

    if (!tests || !ones)
        return 1;
    pair_load();
    for (size_t i = 0; i < count; i++)
        for (unsigned form = PAIR_SELF; form <= PAIR_THREADS; form <<= 1) {
            struct one *one = &ones[used];

            if (!((cases[i].forms ? cases[i].forms : PAIR_ALL) & form & FORMS_HERE))
                continue;
            one->of = &cases[i];
            one->form = (enum pair_form)form;
            snprintf(one->name, sizeof(one->name), "%s, %s", cases[i].name, form_name(one->form));
            tests[used++] = (struct CMUnitTest){one->name, run_one, NULL, NULL, one};
        }
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    if (!used) {
        printf("# skipped: no case of these runs under this sanitizer\n");
        failed = 77;
    } else {
        failed = _cmocka_run_group_tests("conformance", tests, used, NULL, NULL);
    }
    free(tests);
    free(ones);
    return failed;
}
