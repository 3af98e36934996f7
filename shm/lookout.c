/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/lookout.c - see lookout.h. Words are loaded under a lookout's lock, under which they are also forgotten, so none is
 * loaded that is no longer mapped. The kernel may be handed one: then the word that counts changes differs, too. */
#include "shm/lookout.h"
#include "shm/life.h"
#include "shm/log.h"
#include "shm/os.h"
#include "shm/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WORDS_MAX (NIGH_FUTEX_WAITS_MAX - 1) /* and one that says that the others have changed */
/* As many words as the kernel marks of one process (its ROBUST_LIST_LIMIT). */
#define THREADS_MAX 16u
/* Peers come and go by the hundred, and a hostile one wakes us as often as it likes: at most so often is looked again. */
#define PAUSE_NS 1000000L

struct post {
    const uint32_t *word;
    uint32_t value; /* as it was when it was found held */
};

struct lookout {
    struct nigh_service *service;
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, down to `at` */
    uint32_t changed;     /* counts changes: a futex of this process */
    bool asleep;          /* whoever changes something wakes the thread */
    bool ended;
    uint32_t count;
    struct post at[WORDS_MAX];
    /* The thread's. */
    uint32_t stop; /* also the futex word of its pauses; 1: ended */
    bool marked;
    uint32_t waits_count;
    struct nigh_futex_wait waits[NIGH_FUTEX_WAITS_MAX];
};

struct nigh_lookouts {
    struct nigh_service *service;
    struct lookout *at[THREADS_MAX];
    uint32_t count;
    bool full_logged;
};

/* ---- the thread -------------------------------------------------------------------------------------------- */

/* Is it still to be waited on? Each is told once; one whose owner writes something else there has the other ways. */
static bool stands(const struct post *post, bool *marked)
{
    uint32_t value = nigh_load_acquire(post->word, LIFE_SEE);

    *marked |= nigh_life_is_marked(value);
    return value == post->value;
}

static void add_wait(struct lookout *lookout, const uint32_t *word, uint32_t value, uint32_t flags)
{
    lookout->waits[lookout->waits_count++] =
        (struct nigh_futex_wait){.value = value, .address = (uintptr_t)word, .flags = NIGH_FUTEX_32 | flags};
}

/* Looks at all words, and writes down what to wait for. False: ended. */
static bool look(struct lookout *lookout)
{
    bool goes_on;

    pthread_mutex_lock(&lookout->lock);
    lookout->marked = false;
    lookout->waits_count = 0;
    add_wait(lookout, &lookout->changed, lookout->changed, FUTEX_PRIVATE_FLAG);
    for (uint32_t i = 0; i < lookout->count;) {
        const struct post *post = &lookout->at[i];

        if (stands(post, &lookout->marked)) {
            add_wait(lookout, post->word, post->value, 0);
            i++;
        } else {
            lookout->at[i] = lookout->at[--lookout->count];
        }
    }
    goes_on = !lookout->ended;
    lookout->asleep = goes_on;
    pthread_mutex_unlock(&lookout->lock);
    return goes_on;
}

/* False: the kernel refuses, as it did not when it was asked first. */
static bool sleep_until_changed(struct lookout *lookout)
{
    int rc = nigh_os.futex_waitv(lookout->waits, lookout->waits_count, 0, NULL, CLOCK_MONOTONIC);

    if (rc >= 0 || errno == EAGAIN || errno == EINTR || errno == ENOMEM)
        return true;
    /* A word that was forgotten, and unmapped, since. */
    if (errno == EFAULT && nigh_load_relaxed(&lookout->changed) != (uint32_t)lookout->waits[0].value)
        return true;
    nigh_log(NIGH_LOG_WARN,
             "futex_waitv worked when it was asked for and is refused now (%s): deaths of peers with much "
             "memory are "
             "told late; let nigh call it",
             strerror(errno));
    return false;
}

static void pause_for_more(struct lookout *lookout)
{
    struct timespec pause = {.tv_nsec = PAUSE_NS};

    nigh_os.futex(&lookout->stop, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, &pause);
}

static void *run(void *argument)
{
    struct lookout *lookout = argument;
    bool goes_on = look(lookout);

    pthread_setname_np(pthread_self(), "nigh-lookout");
    while (goes_on) {
        if (lookout->marked)
            nigh_service_raise(lookout->service);
        if (!sleep_until_changed(lookout))
            break;
        goes_on = look(lookout);
        if (goes_on && !lookout->marked) {
            pause_for_more(lookout);
            goes_on = look(lookout);
        }
    }
    return NULL;
}

/* ---- its owner --------------------------------------------------------------------------------------------- */

/* Behind a change, with the lock, which it gives up. */
static void tell(struct lookout *lookout)
{
    bool wakes = lookout->asleep;

    nigh_store_relaxed(&lookout->changed, lookout->changed + 1); /* the kernel loads it behind its own lock */
    lookout->asleep = false;
    pthread_mutex_unlock(&lookout->lock);
    if (wakes)
        nigh_os.futex(&lookout->changed, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL);
}

static int start(struct nigh_lookouts *lookouts)
{
    struct lookout *lookout = nigh_os.calloc(1, sizeof(*lookout));
    int error;

    if (!lookout)
        return -ENOMEM;
    lookout->service = lookouts->service;
    pthread_mutex_init(&lookout->lock, NULL);
    error = nigh_thread_spawn(&lookout->thread, run, lookout);
    if (error) {
        pthread_mutex_destroy(&lookout->lock);
        free(lookout);
        return error;
    }
    lookouts->at[lookouts->count++] = lookout;
    return 0;
}

static void stop(struct lookout *lookout)
{
    pthread_mutex_lock(&lookout->lock);
    lookout->ended = true;
    nigh_store_relaxed(&lookout->stop, 1); /* the kernel compares it behind its own lock */
    tell(lookout);
    nigh_os.futex(&lookout->stop, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL);
    pthread_join(lookout->thread, NULL);
    pthread_mutex_destroy(&lookout->lock);
    free(lookout);
}

/* Of no futex at all it says EINVAL, if it is there. */
static bool kernel_can(void)
{
    if (nigh_os.futex_waitv(NULL, 0, 0, NULL, CLOCK_MONOTONIC) >= 0 || errno == EINVAL)
        return true;
    nigh_log(NIGH_LOG_INFO,
             "futex_waitv (Linux 5.16) is not to be had (%s): the death of a peer with much memory is told "
             "to a rank "
             "that sleeps only when that memory was given back",
             strerror(errno));
    return false;
}

int nigh_lookouts_open(struct nigh_service *service, struct nigh_lookouts **out)
{
    struct nigh_lookouts *lookouts;
    int error;

    if (!kernel_can()) {
        *out = NULL;
        return 0;
    }
    lookouts = nigh_os.calloc(1, sizeof(*lookouts));
    if (!lookouts)
        return -ENOMEM;
    lookouts->service = service;
    error = start(lookouts);
    if (error) {
        nigh_log(NIGH_LOG_ERROR,
                 "cannot start the thread that watches peers: %s (raise what stands in the way: ulimit -u, "
                 "ulimit -v)",
                 strerror(-error));
        free(lookouts);
        return -ENOMEM;
    }
    *out = lookouts;
    return 0;
}

void nigh_lookouts_close(struct nigh_lookouts *lookouts)
{
    if (!lookouts)
        return;
    for (uint32_t i = 0; i < lookouts->count; i++)
        stop(lookouts->at[i]);
    free(lookouts);
}

static bool add_word(struct lookout *lookout, const uint32_t *word, uint32_t value)
{
    pthread_mutex_lock(&lookout->lock);
    if (lookout->count == WORDS_MAX) {
        pthread_mutex_unlock(&lookout->lock);
        return false;
    }
    lookout->at[lookout->count++] = (struct post){word, value};
    tell(lookout);
    return true;
}

void nigh_lookouts_watch(struct nigh_lookouts *lookouts, const uint32_t *word)
{
    uint32_t value = nigh_load_acquire(word, LIFE_SEE);

    if (!lookouts)
        return;
    if (nigh_life_is_marked(value))
        nigh_service_raise(lookouts->service);
    if (!nigh_life_is_held(value))
        return;
    for (uint32_t i = 0; i < lookouts->count; i++)
        if (add_word(lookouts->at[i], word, value))
            return;
    if (lookouts->count < THREADS_MAX && !start(lookouts) &&
        add_word(lookouts->at[lookouts->count - 1], word, value))
        return;
    if (!lookouts->full_logged)
        nigh_log(NIGH_LOG_WARN,
                 "no thread watches more than %u peers (at most %u threads, or ulimit -u): deaths of others "
                 "with much "
                 "memory are told late",
                 lookouts->count * WORDS_MAX, THREADS_MAX);
    lookouts->full_logged = true;
}

static bool take_out(struct lookout *lookout, const uint32_t *word)
{
    bool found = false;

    pthread_mutex_lock(&lookout->lock);
    for (uint32_t i = 0; i < lookout->count && !found; i++) {
        found = lookout->at[i].word == word;
        if (found)
            lookout->at[i] = lookout->at[--lookout->count];
    }
    if (found)
        tell(lookout);
    else
        pthread_mutex_unlock(&lookout->lock);
    return found;
}

void nigh_lookouts_forget(struct nigh_lookouts *lookouts, const uint32_t *word)
{
    for (uint32_t i = 0; lookouts && i < lookouts->count; i++)
        if (take_out(lookouts->at[i], word))
            return;
}
