/* SPDX-License-Identifier: BSD-3-Clause */
/* FI_THREAD_SAFE as the thread sanitizer sees it: two threads post on the same endpoints while others read their
 * queues, with queues of every arrangement. */
#include "tests/support/fi.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct fi_lab lab;

#define TX (&lab.side[0])
#define RX (&lab.side[1])

enum { THREADS = 2, POSTS = 200, ROOM = 300000, PARTS = 4 };

/* Of several paths: one slot, a ring, chunks, more than is under way at once. */
static const size_t sizes[PARTS] = {8, 3000, 100000, ROOM};

struct poster {
    pthread_t thread;
    uint64_t tag;
    char *out, *in[PARTS];
    long refused; /* what a call has said that was neither 0 nor -FI_EAGAIN */
};

/* What a queue has given of each; nothing of a thread may end a case, so errors are counted, too. */
static _Atomic unsigned ended[THREADS], wrong;

static void *post_many(void *data)
{
    struct poster *poster = data;
    ssize_t rc;

    for (int i = 0; i < POSTS && !poster->refused; i++) {
        size_t bytes = sizes[i % PARTS];

        while ((rc = fi_trecv(RX->ep, poster->in[i % PARTS], bytes, NULL, RX->peer, poster->tag, 0,
                              poster)) == -FI_EAGAIN &&
               !wrong)
            ;
        poster->refused += rc;
        while ((rc = fi_tsend(TX->ep, poster->out, bytes, NULL, TX->peer, poster->tag, poster)) ==
                   -FI_EAGAIN &&
               !wrong)
            ;
        poster->refused += rc;
    }
    return NULL;
}

static void take(struct fid_cq *cq, bool sleeps)
{
    struct fi_cq_tagged_entry entries[4];
    ssize_t n = sleeps ? fi_cq_sread(cq, entries, 4, NULL, 1) : fi_cq_read(cq, entries, 4);

    if (n < 0 && n != -FI_EAGAIN)
        wrong++;
    for (ssize_t i = 0; i < n; i++)
        ended[((struct poster *)entries[i].op_context)->tag]++;
}

/* Until both ends of all messages are over. */
static void *read_all(void *data)
{
    const struct fi_wish *wish = data;

    while (!wrong && ended[0] + ended[1] < 2 * THREADS * POSTS) {
        take(TX->tx, wish->wait == FI_WAIT_FD);
        take(RX->rx, false);
        if (wish->apart) { /* those of nothing, that move what there is all the same */
            take(TX->rx, false);
            take(RX->tx, false);
        }
    }
    return NULL;
}

static void begin(struct poster *poster, uint64_t tag)
{
    *poster = (struct poster){.tag = tag, .out = malloc(ROOM)};
    assert_non_null(poster->out);
    memset(poster->out, 'a' + (int)tag, ROOM);
    for (int i = 0; i < PARTS; i++) {
        poster->in[i] = calloc(1, ROOM);
        assert_non_null(poster->in[i]);
    }
    ended[tag] = 0;
}

static void end(struct poster *poster)
{
    pthread_join(poster->thread, NULL);
    assert_int_equal(poster->refused, 0);
    assert_int_equal(ended[poster->tag], 2 * POSTS);
    for (int i = 0; i < PARTS; i++) {
        assert_memory_equal(poster->in[i], poster->out, sizes[i]);
        free(poster->in[i]);
    }
    free(poster->out);
}

static void post_and_read(struct fi_wish *wish, int readers)
{
    struct poster posters[THREADS];
    pthread_t reader[2];

    wish->threading = FI_THREAD_SAFE;
    fi_lab_open(&lab, wish);
    wrong = 0;
    for (uint64_t i = 0; i < THREADS; i++)
        begin(&posters[i], i);
    for (int i = 0; i < readers; i++)
        assert_int_equal(pthread_create(&reader[i], NULL, read_all, wish), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    for (int i = 0; i < readers; i++)
        pthread_join(reader[i], NULL);
    assert_int_equal(wrong, 0);
    for (int i = 0; i < THREADS; i++)
        end(&posters[i]);
    fi_lab_close(&lab);
}

static void one_reads(void **state)
{
    (void)state;
    post_and_read(&(struct fi_wish){0}, 1);
}

static void two_read(void **state)
{
    (void)state;
    post_and_read(&(struct fi_wish){0}, 2);
}

static void one_queue_for_both(void **state)
{
    (void)state;
    post_and_read(&(struct fi_wish){.shared = true}, 1);
}

static void a_queue_for_each_kind(void **state)
{
    (void)state;
    post_and_read(&(struct fi_wish){.apart = true}, 2);
}

static void one_sleeps(void **state)
{
    (void)state;
    post_and_read(&(struct fi_wish){.wait = FI_WAIT_FD}, 1);
}

static void *look_up(void *data)
{
    char name[64];
    size_t bytes;

    (void)data;
    while (!ended[0]) {
        bytes = sizeof(name);
        wrong += fi_av_lookup(TX->av, TX->peer, name, &bytes) != 0 || memcmp(name, RX->name, sizeof(name));
    }
    return NULL;
}

/* A vector moves when it grows, under the eyes of who reads it. */
static void vector_grows(void **state)
{
    pthread_t reader;

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.threading = FI_THREAD_SAFE});
    wrong = ended[0] = 0;
    assert_int_equal(pthread_create(&reader, NULL, look_up, NULL), 0);
    for (int i = 0; i < 5000; i++)
        fi_side_insert(TX, RX->name);
    ended[0] = 1;
    pthread_join(reader, NULL);
    assert_int_equal(wrong, 0);
    fi_lab_close(&lab);
}

/* ---- closing ------------------------------------------------------------------------------------------- */

/* Objects that use what the others try to close. */
static void *come_and_go(void *data)
{
    struct fi_wish wish = {0};
    struct fid_domain *domain;
    char name[64];
    size_t bytes;

    (void)data;
    for (int i = 0; i < 30; i++) {
        struct fi_side side = {.tx = RX->rx};

        fi_side_open(&lab, &wish, &side);
        bytes = sizeof(name);
        wrong += fi_getname(&side.ep->fid, name, &bytes) != 0;
        side.tx = side.rx = NULL;
        fi_side_close(&side);
        wrong += fi_domain(lab.fabric, lab.info, &domain, NULL) != 0 || fi_close(&domain->fid) != 0;
    }
    ended[0] = 1;
    return NULL;
}

static void not_closed_in_use(void **state)
{
    struct fi_eq_attr attr = {0};
    pthread_t thread;
    struct fid_eq *eq;
    struct fid_av *av;

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){.threading = FI_THREAD_SAFE});
    wrong = ended[0] = 0;
    FI_OK(fi_eq_open(lab.fabric, &attr, &eq, NULL));
    FI_OK(fi_av_open(lab.domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &av, NULL));
    FI_OK(fi_av_bind(av, &eq->fid, 0));
    assert_int_equal(pthread_create(&thread, NULL, come_and_go, NULL), 0);
    while (!ended[0]) {
        FI_GIVES(fi_close(&lab.fabric->fid), -FI_EBUSY);
        FI_GIVES(fi_close(&lab.domain->fid), -FI_EBUSY);
        FI_GIVES(fi_close(&RX->rx->fid), -FI_EBUSY);
        FI_GIVES(fi_close(&eq->fid), -FI_EBUSY);
    }
    pthread_join(thread, NULL);
    assert_int_equal(wrong, 0);
    FI_OK(fi_close(&av->fid));
    FI_OK(fi_close(&eq->fid));
    fi_lab_close(&lab);
}

/* ---- event queues -------------------------------------------------------------------------------------- */

static _Atomic int heard;

static void *await_event(void *eq)
{
    struct fi_eq_entry entry;
    uint32_t event;
    ssize_t rc = fi_eq_sread(eq, &event, &entry, sizeof(entry), -1, 0);

    heard++;
    return (void *)rc;
}

/* Two wake for one event: who finds nothing sleeps on. */
static void two_await_events(void **state)
{
    struct fi_eq_attr attr = {.flags = FI_WRITE, .wait_obj = FI_WAIT_FD};
    struct fi_eq_entry entry = {0};
    struct fid_eq *eq;
    pthread_t threads[2];
    void *rc;

    (void)state;
    fi_lab_open(&lab, &(struct fi_wish){0});
    FI_OK(fi_eq_open(lab.fabric, &attr, &eq, NULL));
    for (int i = 0; i < 50; i++) {
        heard = 0;
        for (int j = 0; j < 2; j++)
            assert_int_equal(pthread_create(&threads[j], NULL, await_event, eq), 0);
        usleep(1000);
        FI_GIVES(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
        while (!heard)
            sched_yield();
        usleep(1000);
        FI_GIVES(fi_eq_write(eq, FI_NOTIFY, &entry, sizeof(entry), 0), sizeof(entry));
        for (int j = 0; j < 2; j++) {
            pthread_join(threads[j], &rc);
            assert_int_equal((intptr_t)rc, sizeof(entry));
        }
    }
    FI_OK(fi_close(&eq->fid));
    fi_lab_close(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_reads),          cmocka_unit_test(two_read),
        cmocka_unit_test(one_queue_for_both), cmocka_unit_test(a_queue_for_each_kind),
        cmocka_unit_test(one_sleeps),         cmocka_unit_test(vector_grows),
        cmocka_unit_test(not_closed_in_use),  cmocka_unit_test(two_await_events),
    };

    fi_find();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
