/* SPDX-License-Identifier: BSD-3-Clause */
/* shm/watch.c - the table of watches. */
#include "shm/watch.h"
#include "shm/liveness.h"
#include "shm/os.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

int nigh_watches_open(struct nigh_watches *watches, int epoll, uint32_t peers_max)
{
    uint32_t size = 16;

    while (size < peers_max && size < 4096)
        size *= 2;
    *watches = (struct nigh_watches){.epoll = epoll, .mask = size - 1};
    watches->buckets = nigh_os.calloc(size, sizeof(*watches->buckets));
    return watches->buckets ? 0 : -ENOMEM;
}

static struct nigh_watch **bucket_of(const struct nigh_watches *watches, const void *cookie)
{
    return &watches
                ->buckets[((uint64_t)(uintptr_t)cookie * UINT64_C(0x9e3779b97f4a7c15)) >> 40 & watches->mask];
}

bool nigh_watches_holds(int epoll, int op, int fd, struct epoll_event *event)
{
    return nigh_os.epoll_ctl(epoll, op, fd, event) == 0 ||
           (errno != ENOENT && errno != EBADF && errno != EINVAL && errno != EPERM);
}

void nigh_watches_close_member(int epoll, int fd)
{
    if (fd >= 0 && nigh_watches_holds(epoll, EPOLL_CTL_DEL, fd, NULL))
        nigh_os_close(fd);
}

bool nigh_watches_has(const struct nigh_watches *watches, struct nigh_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};

    return nigh_watches_holds(watches->epoll, EPOLL_CTL_MOD, watch->pidfd, &event);
}

void nigh_watches_lose(struct nigh_watches *watches, bool set_is_own)
{
    for (uint32_t i = 0; watches->buckets && i <= watches->mask; i++)
        for (struct nigh_watch *watch = watches->buckets[i]; watch; watch = watch->next) {
            if (set_is_own)
                nigh_watches_close_member(watches->epoll, watch->pidfd);
            watch->pidfd = -1;
        }
    watches->epoll = -1;
}

void nigh_watches_close(struct nigh_watches *watches)
{
    for (uint32_t i = 0; watches->buckets && i <= watches->mask; i++)
        while (watches->buckets[i])
            nigh_watch_destroy(watches, watches->buckets[i]);
    nigh_watches_reap(watches);
    free(watches->buckets);
    watches->buckets = NULL;
}

int nigh_watch_create(struct nigh_watches *watches, int socket, pid_t pid, struct nigh_watch **out)
{
    struct nigh_watch *watch = nigh_os.calloc(1, sizeof(*watch));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = watch};
    int fd = -1, error;

    if (!watch)
        return -ENOMEM;
    *watch = (struct nigh_watch){.source = NIGH_SOURCE_WATCH, .pidfd = -1};
    if (pid == getpid()) {
        *out = watch;
        return 0;
    }
    error = nigh_liveness_pidfd(socket, pid, &fd);
    if (error == -ENOTSUP) {
        watch->hangup = true;
        error = 0;
    } else if (!error && nigh_os.epoll_ctl(watches->epoll, EPOLL_CTL_ADD, fd, &event) < 0) {
        nigh_os_close(fd);
        error = -ENOMEM;
    }
    if (error) {
        free(watch);
        return error;
    }
    watch->pidfd = fd;
    *out = watch;
    return 0;
}

void nigh_watch_destroy(struct nigh_watches *watches, struct nigh_watch *watch)
{
    struct nigh_watch **at;

    if (!watch || watch->ended)
        return;
    for (at = bucket_of(watches, watch->cookie); *at && *at != watch;)
        at = &(*at)->next;
    if (*at)
        *at = watch->next;
    /* Closing alone would not do: a forked child may hold the descriptor, and with it its place in the set. */
    nigh_watches_close_member(watches->epoll, watch->pidfd);
    watch->pidfd = -1;
    watch->ended = true;
    watch->next = watches->ended;
    watches->ended = watch;
}

void nigh_watches_reap(struct nigh_watches *watches)
{
    while (watches->ended) {
        struct nigh_watch *watch = watches->ended;

        watches->ended = watch->next;
        free(watch);
    }
}

void nigh_watch_insert(struct nigh_watches *watches, struct nigh_watch *watch, void *cookie,
                       uint32_t their_index)
{
    struct nigh_watch **bucket = bucket_of(watches, cookie);

    watch->exchange = NULL;
    watch->cookie = cookie;
    watch->their_index = their_index;
    watch->next = *bucket;
    *bucket = watch;
}

struct nigh_watch *nigh_watch_find(const struct nigh_watches *watches, const void *cookie)
{
    struct nigh_watch *watch = *bucket_of(watches, cookie);

    while (watch && watch->cookie != cookie)
        watch = watch->next;
    return watch;
}
