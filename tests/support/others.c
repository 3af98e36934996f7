/* SPDX-License-Identifier: BSD-3-Clause */
/* tests/support/others.c - see others.h. */
#include "tests/support/others.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/* All numbers that are closed: the second half of a pair of sockets, and what is ready, lie above the last. */
enum { END = 512, PARTNER = 128, READY = 256 };
enum kind { FILE_IN_MEMORY, TIMER, EVENT, SET, PACKETS, STREAM };

static unsigned kind_of[OTHERS_LAST + 1];
static bool is_open[OTHERS_LAST + 1];

static void need(bool condition, const char *what)
{
    if (condition)
        return;
    perror(what);
    abort();
}

static void move(int from, int to)
{
    need(dup3(from, to, O_CLOEXEC) == to, "dup3");
    close(from);
}

static int new_set(void)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = 0xdead};
    int set = epoll_create1(EPOLL_CLOEXEC), ready;

    if (fcntl(READY, F_GETFD) < 0) {
        ready = eventfd(1, EFD_CLOEXEC);
        need(ready >= 0, "eventfd");
        move(ready, READY);
    }
    need(epoll_ctl(set, EPOLL_CTL_ADD, READY, &event) == 0, "epoll_ctl");
    return set;
}

/* One that has run out, and will again in an hour. */
static int new_timer(void)
{
    struct itimerspec hour = {.it_value = {.tv_nsec = 1}, .it_interval = {.tv_sec = 3600}};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    need(timerfd_settime(timer, 0, &hour, NULL) == 0, "timerfd_settime");
    return timer;
}

/* There is something to read in it. */
static int new_socket(int type, int partner)
{
    int pair[2];

    need(socketpair(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0, "socketpair");
    need(write(pair[1], "packet", 6) == 6, "write");
    move(pair[1], partner);
    return pair[0];
}

static int new_file(void)
{
    int fd = memfd_create("program", MFD_CLOEXEC);

    need(write(fd, "content", 7) == 7 && lseek(fd, 0, SEEK_SET) == 0, "memfd");
    return fd;
}

void others_open(int fd, unsigned kind)
{
    int made = -1;

    switch ((enum kind)kind) {
    case FILE_IN_MEMORY:
        made = new_file();
        break;
    case TIMER:
        made = new_timer();
        break;
    case EVENT:
        made = eventfd(3, EFD_CLOEXEC | EFD_NONBLOCK);
        break;
    case SET:
        made = new_set();
        break;
    case PACKETS:
    case STREAM:
        made = new_socket(kind == STREAM ? SOCK_STREAM : SOCK_SEQPACKET, fd + PARTNER);
    }
    need(made >= 0, "open");
    if (made != fd)
        move(made, fd);
    kind_of[fd] = kind;
    is_open[fd] = true;
}

void others_open_all(unsigned shift)
{
    for (int fd = OTHERS_FIRST; fd < END; fd++)
        close(fd);
    for (int fd = OTHERS_FIRST; fd <= OTHERS_LAST; fd++)
        others_open(fd, ((unsigned)fd + shift) % OTHERS_KINDS);
}

static bool is_file(int fd)
{
    char bytes[16];

    return lseek(fd, 0, SEEK_CUR) == 0 && lseek(fd, 0, SEEK_END) == 7 &&
           pread(fd, bytes, sizeof(bytes), 0) == 7 && memcmp(bytes, "content", 7) == 0;
}

static bool is_timer(int fd)
{
    struct itimerspec left;
    uint64_t count;

    return timerfd_gettime(fd, &left) == 0 && left.it_interval.tv_sec == 3600 &&
           left.it_value.tv_sec > 3000 && read(fd, &count, sizeof(count)) == sizeof(count) && count == 1;
}

static bool is_event(int fd)
{
    uint64_t count;

    return read(fd, &count, sizeof(count)) == sizeof(count) && count == 3;
}

/* With one member, where the kernel tells its members. */
static bool is_set(int fd)
{
    char path[64], line[256];
    struct epoll_event event;
    unsigned members = 0;
    FILE *info;

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    info = fopen(path, "re");
    while (info && fgets(line, sizeof(line), info))
        members += strncmp(line, "tfd:", 4) == 0;
    if (info)
        fclose(info);
    return members <= 1 && epoll_wait(fd, &event, 1, 0) == 1 && event.data.u64 == 0xdead;
}

/* Neither read from nor written to. */
static bool is_socket(int fd)
{
    char bytes[16];

    return read(fd, bytes, sizeof(bytes)) == 6 && memcmp(bytes, "packet", 6) == 0 &&
           read(fd, bytes, sizeof(bytes)) == -1 && read(fd + PARTNER, bytes, sizeof(bytes)) == -1;
}

static bool is_as_opened(int fd)
{
    static bool (*const checks[OTHERS_KINDS])(int) = {
        [FILE_IN_MEMORY] = is_file, [TIMER] = is_timer,  [EVENT] = is_event, [SET] = is_set,
        [PACKETS] = is_socket,      [STREAM] = is_socket};

    return checks[kind_of[fd]](fd);
}

int others_touched(void)
{
    int touched = -1;

    for (int fd = OTHERS_FIRST; fd <= OTHERS_LAST; fd++) {
        if (!is_open[fd])
            continue;
        if (!is_as_opened(fd)) {
            printf("# descriptor %d, the program's own of kind %u, is %s\n", fd, kind_of[fd],
                   fcntl(fd, F_GETFD) < 0 ? "closed" : "not as it was opened");
            fflush(stdout);
            touched = fd;
        }
        close(fd);
        close(fd + PARTNER);
        is_open[fd] = false;
    }
    close(READY);
    return touched;
}
