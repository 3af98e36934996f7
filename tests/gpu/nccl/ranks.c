/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tests/gpu/nccl/ranks.c - nccl-ranks: several ranks on one GPU, each with a NCCL_HOSTID of its own, so that NCCL takes them for
 * machines and sends all between them through its net plugin.
 */
#include "tests/gpu/nccl/ranks.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static struct settings settings = {.nccl = "libnccl.so.2",
                                   .cuda = "libcuda.so.1",
                                   .ranks = 2,
                                   .lives = 2,
                                   .timeout_s = 120,
                                   .most = 1 << 20,
                                   .largest = 64 << 20};

/* ---- a rank ------------------------------------------------------------------------------------------------- */

void rank_fail(const struct rank *rank, const char *format, ...)
{
    char why[WHY_BYTES];
    va_list list;

    va_start(list, format);
    vsnprintf(why, sizeof(why), format, list);
    va_end(list);
    printf("rank %d: %s\n", rank->number, why);
    fflush(stdout);
    _exit(1); /* other threads of NCCL's may be at work */
}

void rank_nccl(const struct rank *rank, int result, const char *call)
{
    if (result)
        rank_fail(rank, "%s: %s (%s)", call, rank->nccl.error(result),
                  rank->nccl.last_error ? rank->nccl.last_error(NULL) : "no more is known");
}

void rank_cuda(const struct rank *rank, int result, const char *call)
{
    if (result)
        rank_fail(rank, "%s: CUDA error %d", call, result);
}

void rank_meet(struct rank *rank)
{
    int all = ++rank->meetings * rank->settings->ranks;

    rank->shared->arrived++;
    while (rank->shared->arrived < all)
        usleep(50);
}

_Noreturn static void no_device(const char *why)
{
    printf("no device: %s\n", why);
    fflush(stdout);
    _exit(NO_DEVICE);
}

/* Before NCCL is loaded. What the caller has set stays. */
static void recipe(int number)
{
    char host[32];

    snprintf(host, sizeof(host), "nigh-rank-%d", number);
    setenv("NCCL_HOSTID", host, 1);
    setenv("NCCL_MNNVL_ENABLE", "0", 0); /* a fabric domain would let ranks of several hosts use P2P */
    setenv("NCCL_NVLS_ENABLE", "0", 0);
    setenv("NCCL_MAX_CTAS", "4", 0); /* all ranks' kernels have to fit the one GPU */
    setenv("NCCL_SOCKET_IFNAME", "lo", 0);
}

static void take_device(struct rank *rank)
{
    char why[WHY_BYTES], name[128] = "";
    const struct settings *wanted = rank->settings;
    int count = 0, device, result;
    void *context;

    if (!cuda_load(&rank->cuda, wanted->cuda, why, sizeof(why)))
        no_device(why);
    result = rank->cuda.init(0);
    if (!result)
        result = rank->cuda.device_count(&count);
    if (result || count <= wanted->device) {
        snprintf(why, sizeof(why), "CUDA error %d, %d devices", result, count);
        no_device(why);
    }
    rank_cuda(rank, rank->cuda.device(&device, wanted->device), "cuDeviceGet");
    rank_cuda(rank, rank->cuda.name(name, sizeof(name), device), "cuDeviceGetName");
    rank_cuda(rank, rank->cuda.context(&context, device), "cuDevicePrimaryCtxRetain");
    rank_cuda(rank, rank->cuda.use(context), "cuCtxSetCurrent");
    rank_cuda(rank, rank->cuda.stream(&rank->stream, 1), "cuStreamCreate"); /* not blocking */
    if (rank->number == 0)
        printf("device %s\n", name);
}

void rank_begin(struct rank *rank)
{
    const struct settings *wanted = rank->settings;
    size_t bench = wanted->bench ? wanted->largest : 0, check = wanted->most * 4 * (size_t)wanted->ranks;
    char why[WHY_BYTES];
    int version = 0;

    recipe(rank->number);
    if (!nccl_load(&rank->nccl, wanted->nccl, why, sizeof(why)))
        rank_fail(rank, "NCCL cannot be loaded: %s", why);
    take_device(rank);
    /* 65536 elements of 8 bytes are the largest of the wide types */
    check = check > 65536 * 8 * (size_t)wanted->ranks ? check : 65536 * 8 * (size_t)wanted->ranks;
    rank->room = (check > bench ? check : bench) + CANARY;
    rank->host = malloc(rank->room);
    if (!rank->host)
        rank_fail(rank, "no memory");
    rank_cuda(rank, rank->cuda.alloc(&rank->in, rank->room), "cuMemAlloc");
    rank_cuda(rank, rank->cuda.alloc(&rank->out, rank->room), "cuMemAlloc");
    rank_nccl(rank, rank->nccl.version(&version), "ncclGetVersion");
    if (rank->number == 0)
        printf("NCCL %d.%d.%d\n", version / 10000, version / 100 % 100, version % 100);
}

void rank_join(struct rank *rank, int life)
{
    if (rank->number == 0) {
        rank_nccl(rank, rank->nccl.id(&rank->shared->ids[life]), "ncclGetUniqueId");
        rank->shared->ready = life + 1;
    }
    while (rank->shared->ready <= life)
        usleep(100);
    rank_nccl(rank,
              rank->nccl.init(&rank->comm, rank->settings->ranks, rank->shared->ids[life], rank->number),
              "ncclCommInitRank");
}

_Noreturn static void be_rank(int number, struct shared *shared)
{
    static struct rank rank;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm((unsigned)settings.timeout_s);
    rank = (struct rank){.settings = &settings, .shared = shared, .number = number};
    rank_begin(&rank);
    for (int life = 0; life < settings.lives; life++) {
        unsigned calls;

        rank_join(&rank, life);
        calls = rank_check(&rank);
        if (settings.bench && life == 0)
            rank_bench(&rank);
        rank_meet(&rank);
        rank_nccl(&rank, rank.nccl.destroy(rank.comm), "ncclCommDestroy");
        rank_meet(&rank);
        if (number == 0)
            printf("life %d: %u calls are right\n", life + 1, calls);
        fflush(stdout);
    }
    rank_cuda(&rank, rank.cuda.free(rank.in), "cuMemFree");
    rank_cuda(&rank, rank.cuda.free(rank.out), "cuMemFree");
    free(rank.host);
    fflush(stdout);
    _exit(0);
}

/* ---- the program -------------------------------------------------------------------------------------------- */

/* What can be seen without a GPU: that the library is NCCL, and which. */
static int probe(void)
{
    struct nccl nccl;
    char why[WHY_BYTES];
    int version = 0, result;

    if (!nccl_load(&nccl, settings.nccl, why, sizeof(why))) {
        printf("NCCL cannot be loaded: %s\n", why);
        return 1;
    }
    result = nccl.version(&version);
    printf("NCCL %d.%d.%d%s\n", version / 10000, version / 100 % 100, version % 100,
           nccl.alltoall ? "" : ", without ncclAlltoAll()");
    return result ? 1 : 0;
}

static void end_all(const pid_t *pids, pid_t but)
{
    for (int i = 0; i < settings.ranks; i++)
        if (pids[i] > 0 && pids[i] != but)
            kill(pids[i], SIGKILL);
}

/* Waits for all; the first that fails ends the others, and its status is returned. */
static int await(pid_t *pids)
{
    int status, first = 0;
    pid_t ended;

    while ((ended = wait(&status)) > 0 || errno == EINTR) {
        for (int i = 0; i < settings.ranks; i++) {
            if (pids[i] != ended)
                continue;
            pids[i] = 0;
            if (WIFSIGNALED(status) && !first)
                printf("rank %d: ended by %s\n", i, strsignal(WTERMSIG(status)));
        }
        if (status && !first) {
            first = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
            end_all(pids, ended);
        }
    }
    return first;
}

static int run(void)
{
    struct shared *shared =
        mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pids[RANKS_MAX] = {0};

    if (shared == MAP_FAILED)
        return 1;
    fflush(NULL);
    for (int i = 0; i < settings.ranks; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            be_rank(i, shared);
        if (pids[i] < 0) {
            end_all(pids, 0);
            break;
        }
    }
    return pids[settings.ranks - 1] < 0 ? (await(pids), 1) : await(pids);
}

static int usage(int status)
{
    fputs("usage: nccl-ranks [--ranks N] [--lives N] [--most ELEMENTS] [--bench [--largest BYTES]] [--device "
          "N] [--timeout "
          "SECONDS]\n"
          "                  [--nccl FILE] [--cuda FILE]\n"
          "       nccl-ranks --probe [--nccl FILE]\n"
          "Exit status: 0 all is right; 1 something is wrong; 64 wrong usage; 77 there is no device.\n",
          status ? stderr : stdout);
    return status;
}

static bool number_of(const char *text, long least, long most, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);

    *out = (int)value;
    return *text && !*end && value >= least && value <= most;
}

static bool take(int key, const char *value)
{
    int most = 0;

    switch (key) {
    case 'r':
        return number_of(value, 2, RANKS_MAX, &settings.ranks);
    case 'l':
        return number_of(value, 1, LIVES_MAX, &settings.lives);
    case 'd':
        return number_of(value, 0, 1023, &settings.device);
    case 't':
        return number_of(value, 1, 3600, &settings.timeout_s);
    case 'm':
        if (!number_of(value, 1, 1 << 24, &most))
            return false;
        settings.most = (size_t)most;
        return true;
    case 'g':
        if (!number_of(value, 8, 1 << 30, &most))
            return false;
        settings.largest = (size_t)most;
        return true;
    case 'n':
        settings.nccl = value;
        return true;
    case 'c':
        settings.cuda = value;
        return true;
    case 'b':
        return settings.bench = true;
    case 'p':
        return settings.probe = true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"ranks", required_argument, NULL, 'r'},   {"lives", required_argument, NULL, 'l'},
        {"most", required_argument, NULL, 'm'},    {"device", required_argument, NULL, 'd'},
        {"timeout", required_argument, NULL, 't'}, {"nccl", required_argument, NULL, 'n'},
        {"cuda", required_argument, NULL, 'c'},    {"bench", no_argument, NULL, 'b'},
        {"largest", required_argument, NULL, 'g'}, {"probe", no_argument, NULL, 'p'},
        {"help", no_argument, NULL, 'h'},          {NULL, 0, NULL, 0}};
    int key;

    while ((key = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (key == 'h')
            return usage(0);
        if (!take(key, optarg))
            return usage(64);
    }
    if (optind < argc)
        return usage(64);
    return settings.probe ? probe() : run();
}
