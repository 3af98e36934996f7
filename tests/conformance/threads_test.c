/* SPDX-License-Identifier: BSD-3-Clause */
/* Any thread at any time: four threads post, poll, wait, probe, cancel and query on one context at once. */
#include "tests/support/data.h"
#include "tests/support/pair.h"
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#define THREADS 4u
#define EACH    400u
#define LARGEST 6000u

static const struct nigh_ops *nigh;

/* Shared by the threads of one case. A check that fails counts here: only the case's own thread may end the case. */
struct scene {
    struct nigh_context *polled[2];
    struct nigh_endpoint *to;
    struct nigh_context *receiver;
    uint32_t received, sent, wrong, cancelled, next;
    uint8_t *buffers; /* THREADS * EACH of LARGEST */
    const uint8_t *from;
};

static void wrong(struct scene *scene, bool is_wrong)
{
    if (is_wrong)
        __atomic_add_fetch(&scene->wrong, 1, __ATOMIC_RELAXED);
}

static uint64_t size_of(uint64_t i)
{
    static const uint64_t sizes[] = {8, 700, 0, 5000, 40, LARGEST};

    return sizes[i % 6];
}

static void note(struct scene *scene, const struct nigh_completion *done)
{
    if (done->op == NIGH_OP_SEND) {
        wrong(scene, done->status != 0);
        __atomic_add_fetch(&scene->sent, 1, __ATOMIC_RELAXED);
    } else if (done->context >= 1000000) {
        wrong(scene, done->status != -ECANCELED);
        __atomic_add_fetch(&scene->cancelled, 1, __ATOMIC_RELAXED);
    } else {
        wrong(scene, done->status || done->bytes != size_of(done->context) || done->imm != ~done->context);
        wrong(scene, memcmp(scene->buffers + done->context * LARGEST, scene->from, done->bytes) != 0);
        __atomic_add_fetch(&scene->received, 1, __ATOMIC_RELAXED);
    }
}

static void poll_some(struct scene *scene)
{
    struct nigh_completion done[4];

    for (unsigned i = 0; i < 2; i++) {
        int count = nigh->poll_completions(scene->polled[i], done, 4);

        wrong(scene, count < 0);
        for (int at = 0; at < count; at++)
            note(scene, &done[at]);
    }
}

static void exchange(struct scene *scene, uint64_t id)
{
    struct nigh_send send = pair_a_send(scene->from, size_of(id), id, id);
    struct nigh_recv recv = pair_a_recv(scene->buffers + id * LARGEST, LARGEST, id, id);
    struct nigh_recv extra = pair_a_recv(NULL, 0, 5000000 + id, 1000000 + id);
    struct nigh_query_stats stats;
    struct nigh_completion found;
    uint64_t bytes = sizeof(stats);
    int rc;

    if (id % 2)
        wrong(scene, nigh->post_recv(scene->receiver, NULL, &recv));
    send.flags = id % 7 ? 0 : NIGH_SYNC;
    while ((rc = nigh->post_send(scene->to, &send)) == -EAGAIN)
        poll_some(scene);
    wrong(scene, rc);
    if (id % 2 == 0)
        wrong(scene, nigh->post_recv(scene->receiver, NULL, &recv));
    wrong(scene, nigh->post_recv(scene->receiver, NULL, &extra));
    poll_some(scene);
    wrong(scene, nigh->cancel(scene->receiver, 1000000 + id));
    wrong(scene, nigh->query(scene->receiver, NULL, NIGH_QUERY_STATS, &stats, &bytes));
    wrong(scene, nigh->probe(scene->receiver, NULL, 9999999, 0, 0, &found, NULL) != -ENOMSG);
}

static bool all_done(struct scene *scene)
{
    return __atomic_load_n(&scene->received, __ATOMIC_RELAXED) == THREADS * EACH &&
           __atomic_load_n(&scene->sent, __ATOMIC_RELAXED) == THREADS * EACH &&
           __atomic_load_n(&scene->cancelled, __ATOMIC_RELAXED) == THREADS * EACH;
}

static void *hammer(void *argument)
{
    struct scene *scene = argument;
    uint64_t base = (uint64_t)__atomic_fetch_add(&scene->next, 1, __ATOMIC_RELAXED) * EACH;

    for (uint64_t i = 0; i < EACH; i++)
        exchange(scene, base + i);
    while (!all_done(scene)) {
        if (base % (2 * EACH))
            nigh->wait(scene->polled[0], 2000000);
        poll_some(scene);
    }
    return NULL;
}

static void run(struct scene *scene)
{
    pthread_t threads[THREADS];

    for (uint32_t i = 0; i < THREADS; i++)
        CHECK_INT(pthread_create(&threads[i], NULL, hammer, scene), 0);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    CHECK_INT(scene->wrong, 0);
    CHECK_INT(scene->received, THREADS * EACH);
    CHECK_INT(scene->sent, THREADS * EACH);
    CHECK_INT(scene->cancelled, THREADS * EACH);
}

static void hammering(struct pair *pair)
{
    struct scene scene = {
        .polled = {pair->end[0]->context, pair->end[1]->context},
        .to = pair->end[0]->peer,
        .receiver = pair->end[1]->context,
        .buffers = data_room(THREADS * EACH * LARGEST),
        .from = data_filled(LARGEST, 1),
    };

    run(&scene);
}

/* ---- sleeping while others work
 * ----------------------------------------------------------------------------------- */

struct sleeper {
    struct nigh_context *context;
    int rc;
    uint32_t before;
};

static void *sleeping(void *argument)
{
    struct sleeper *sleeper = argument;

    __atomic_store_n(&sleeper->before, 1, __ATOMIC_RELEASE);
    sleeper->rc = nigh->wait(sleeper->context, UINT64_C(20000000000));
    return NULL;
}

/* All sleep; one thread's post makes something to poll: all of them return, long before their time-out. */
static void woken(struct pair *pair)
{
    struct pair_end *end = pair->end[0];
    struct timespec moment = {.tv_nsec = 20000000};
    struct sleeper sleepers[THREADS];
    pthread_t threads[THREADS];
    uint64_t value = 6, got = 0;

    pair_state(end, NIGH_READY);
    for (uint32_t i = 0; i < THREADS; i++) {
        sleepers[i] = (struct sleeper){.context = end->context, .rc = 1};
        CHECK_INT(pthread_create(&threads[i], NULL, sleeping, &sleepers[i]), 0);
    }
    for (uint32_t i = 0; i < THREADS; i++)
        while (!__atomic_load_n(&sleepers[i].before, __ATOMIC_ACQUIRE))
            sched_yield();
    nanosleep(&moment, NULL);
    pair_send(end, &value, 8, 1, 0, 2);
    for (uint32_t i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        CHECK_INT(sleepers[i].rc, 0);
    }
    pair_sent(end, 2, 8);
    pair_recv(pair->end[1], &got, 8, 1, 1);
    pair_received(pair->end[1], 1, 8);
    CHECK_INT(got, 6);
}

static const struct pair_case cases[] = {
    {.name = "four threads on one context",
     .play = hammering,
     .forms = PAIR_SELF | PAIR_TWO,
     .options = {.flags = NIGH_OPEN_THREADS}},
    {.name = "all sleepers wake",
     .play = woken,
     .forms = PAIR_SELF | PAIR_TWO,
     .options = {.flags = NIGH_OPEN_THREADS, .spin_ns = 1}},
};

int main(int argc, char **argv)
{
    nigh = pair_load();
    return pair_run(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
