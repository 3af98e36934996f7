/* SPDX-License-Identifier: BSD-3-Clause */
/* Many more ranks than CPUs: everybody exchanges with everybody, asleep while there is nothing to do, for no more
 * memory and descriptors than promised, and leaves nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nigh/transport.h"
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { RANKS_MAX = 256, ROOM = 5000, SECONDS = 300, IDLE_PAIR = 256, TAG = 70 };

/* Beside what each peer costs (a pidfd and the window of our ring to it): listener, timer, epoll sets, arena, bell, the
 * service's eventfd, attaches that are closed a moment later. */
enum { PEER_FDS = 2, OWN_FDS = 16 };

struct figures {
    uint64_t connected_ms, exchanged_ms, told_ms;
    uint64_t opened, idle, talked; /* bytes of shared memory */
    uint32_t fds_before, fds_connected, fds_after;
};

struct scene {
    uint32_t ranks, failed;
    uint32_t arrived[8]; /* at each barrier */
    char why[256];
    pid_t pids[RANKS_MAX];
    struct figures of[RANKS_MAX];
};

static struct scene *scene;
static const struct nigh_ops *ops;

/* ---- a rank ------------------------------------------------------------------------------------------------ */

struct rank {
    uint32_t rank;
    uint64_t job, begun;
    struct nigh_context *context;
    struct nigh_endpoint *peer[RANKS_MAX];
    uint32_t sent, received;
    uint32_t times[RANKS_MAX]; /* that a message came of each */
    uint64_t bytes;            /* of the messages of this round */
    uint8_t (*in)[ROOM], (*out)[ROOM];
};

static void die(const struct rank *me, const char *what, long long got, long long wanted)
{
    if (!__atomic_exchange_n(&scene->failed, 1, __ATOMIC_ACQ_REL))
        snprintf(scene->why, sizeof(scene->why), "rank %u: %s: %lld, not %lld", me->rank, what, got, wanted);
    _exit(1);
}

#define WANT(got, wanted)                                      \
    do {                                                       \
        long long got_ = (long long)(got), wanted_ = (wanted); \
        if (got_ != wanted_)                                   \
            die(me, #got, got_, wanted_);                      \
    } while (0)
#define WANT_AT_MOST(got, most)                            \
    do {                                                   \
        long long got_ = (long long)(got), most_ = (most); \
        if (got_ > most_)                                  \
            die(me, #got " at most", got_, most_);         \
    } while (0)

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static uint32_t descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    uint32_t count = 0;

    while (folder && readdir(folder))
        count++;
    if (folder)
        closedir(folder);
    return count;
}

/* What the kernel has given to the shared memory that this process holds open, its own: each file once, however many
 * descriptors it has. */
static uint64_t memory_of_files(void)
{
    static ino_t seen[2 * RANKS_MAX];
    DIR *folder = opendir("/proc/self/fd");
    struct dirent *entry;
    uint64_t bytes = 0;
    unsigned files = 0, i;

    while (folder && (entry = readdir(folder))) {
        char name[300], target[64] = "";
        struct stat file;

        snprintf(name, sizeof(name), "/proc/self/fd/%s", entry->d_name);
        if (readlink(name, target, sizeof(target) - 1) <= 0 || strncmp(target, "/memfd:", 7) ||
            stat(name, &file))
            continue;
        for (i = 0; i < files && seen[i] != file.st_ino; i++)
            continue;
        if (i == files && files < sizeof(seen) / sizeof(seen[0])) {
            seen[files++] = file.st_ino;
            bytes += (uint64_t)file.st_blocks * 512;
        }
    }
    if (folder)
        closedir(folder);
    return bytes;
}

/* How many mappings of files of that name this process could write through. */
static uint32_t writable(const char *name)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[512], rights[8];
    uint32_t count = 0;

    while (maps && fgets(line, sizeof(line), maps))
        count += strstr(line, name) && sscanf(line, "%*x-%*x %7s", rights) == 1 && rights[1] == 'w';
    if (maps)
        fclose(maps);
    return count;
}

/* Does the kernel know a socket of this job? */
static bool has_names(uint64_t job)
{
    FILE *file = fopen("/proc/net/unix", "r");
    char line[512], wanted[24];
    bool found = false;

    snprintf(wanted, sizeof(wanted), "%016llx", (unsigned long long)job);
    while (file && fgets(line, sizeof(line), file))
        found = found || strstr(line, wanted);
    if (file)
        fclose(file);
    return found;
}

static uint64_t committed(const struct rank *me)
{
    struct nigh_query_context facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    WANT(ops->query(me->context, NULL, NIGH_QUERY_CONTEXT, &facts, &bytes), 0);
    return facts.shared_committed;
}

static uint8_t byte_of(uint32_t from, uint32_t to, uint64_t bytes, uint64_t at)
{
    return (uint8_t)(from * 131 + to * 31 + bytes * 7 + at * (1 + from % 5));
}

static void fill(uint8_t *out, uint32_t from, uint32_t to, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at++)
        out[at] = byte_of(from, to, bytes, at);
}

static void take(struct rank *me, const struct nigh_completion *done)
{
    WANT(done->status, 0);
    if (done->op == NIGH_OP_SEND) {
        me->sent++;
        return;
    }
    WANT(done->op, NIGH_OP_RECV);
    WANT(done->bytes, (long long)me->bytes);
    WANT(done->imm, (long long)(done->source << 32 | me->rank));
    WANT_AT_MOST(done->source, scene->ranks - 1);
    WANT(me->times[done->source]++, 0);
    me->received++;
    for (uint64_t at = 0; at < done->bytes; at++)
        WANT(me->in[done->context][at], byte_of((uint32_t)done->source, me->rank, done->bytes, at));
}

static void poll_all(struct rank *me)
{
    struct nigh_completion done[64];
    int count;

    if (__atomic_load_n(&scene->failed, __ATOMIC_ACQUIRE))
        _exit(2);
    while ((count = ops->poll_completions(me->context, done, 64)) > 0)
        for (int i = 0; i < count; i++)
            take(me, &done[i]);
    WANT(count, 0);
}

/* Sleeps until there is something: more ranks than CPUs would only take the CPU from each other. */
static void turn(struct rank *me, uint64_t ns)
{
    int rc = ops->wait(me->context, ns);

    if (rc != 0 && rc != -ETIMEDOUT)
        WANT(rc, 0);
    poll_all(me);
    WANT_AT_MOST(now_ms() - me->begun, SECONDS * 1000);
}

static void meet_some(struct rank *me, unsigned which, uint32_t ranks)
{
    uint32_t *arrived = &scene->arrived[which];

    __atomic_add_fetch(arrived, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(arrived, __ATOMIC_ACQUIRE) < ranks)
        turn(me, 2000000);
}

static void meet(struct rank *me, unsigned which)
{
    meet_some(me, which, scene->ranks);
}

static void open_rank(struct rank *me)
{
    struct nigh_open options = {.size = sizeof(options),
                                .job = me->job,
                                .rank = me->rank,
                                .ranks = scene->ranks,
                                .heap_bytes = 1 << 20,
                                .pool_bytes = 1 << 22};

    WANT(ops->open(&options, &me->context), 0);
}

static bool is_ready(struct rank *me, uint32_t rank)
{
    struct nigh_query_endpoint facts = {.size = sizeof(facts)};
    uint64_t bytes = sizeof(facts);

    WANT(ops->query(me->context, me->peer[rank], NIGH_QUERY_ENDPOINT, &facts, &bytes), 0);
    WANT_AT_MOST(facts.state, NIGH_READY);
    return facts.state == NIGH_READY;
}

static void dial(struct rank *me, uint32_t rank)
{
    struct nigh_connect to = {.size = sizeof(to), .rank = rank, .source = NIGH_SOURCE_NONE};

    WANT(ops->connect(me->context, &to, &me->peer[rank]), 0);
}

static void await_ready(struct rank *me)
{
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        while (me->peer[rank] && !is_ready(me, rank))
            turn(me, 2000000);
}

static void post_send(struct rank *me, uint32_t to, uint64_t bytes)
{
    struct nigh_send send = {.size = sizeof(send),
                             .buffer = me->out[to],
                             .bytes = bytes,
                             .tag = TAG,
                             .imm = (uint64_t)me->rank << 32 | to,
                             .context = to};
    int rc;

    fill(me->out[to], me->rank, to, bytes);
    while ((rc = ops->post_send(me->peer[to], &send)) == -EAGAIN)
        turn(me, 1000000);
    WANT(rc, 0);
}

static void post_recv(struct rank *me, struct nigh_endpoint *from, uint32_t at, uint64_t bytes)
{
    struct nigh_recv recv = {
        .size = sizeof(recv), .buffer = me->in[at], .bytes = bytes, .tag = TAG, .context = at};

    memset(me->in[at], 0, bytes);
    WANT(ops->post_recv(me->context, from, &recv), 0);
}

static void post_recvs(struct rank *me, uint64_t bytes, bool anyone)
{
    for (uint32_t rank = 0; rank < scene->ranks; rank++)
        if (me->peer[rank])
            post_recv(me, anyone ? NULL : me->peer[rank], rank, bytes);
}

/* Every other rank's receives come after the messages. */
static void exchange(struct rank *me, uint64_t bytes, bool anyone)
{
    bool early = (me->rank + (unsigned)anyone) & 1;
    uint32_t peers = 0;

    me->bytes = bytes;
    me->sent = me->received = 0;
    memset(me->times, 0, sizeof(me->times));
    if (early)
        post_recvs(me, bytes, anyone);
    for (uint32_t i = 1; i < scene->ranks; i++) {
        uint32_t to = (me->rank + i) % scene->ranks;

        if (!me->peer[to])
            continue;
        peers++;
        post_send(me, to, bytes);
    }
    if (!early)
        post_recvs(me, bytes, anyone);
    while (me->sent < peers || me->received < peers)
        turn(me, 1000000000);
}

/* ---- 128 ranks, everybody with everybody --------------------------------------------------------------------- */

static void connect_all(struct rank *me, struct figures *out)
{
    uint32_t most;

    out->opened = committed(me);
    for (uint32_t i = 1; i < scene->ranks; i++)
        dial(me, (me->rank + i) % scene->ranks);
    await_ready(me);
    out->connected_ms = now_ms() - me->begun;
    meet(me, 0);
    out->idle = committed(me);
    WANT_AT_MOST(out->idle - out->opened, (long long)(IDLE_PAIR * (scene->ranks - 1)));
    WANT(has_names(me->job), true); /* else their absence in the end says nothing */
    /* Of the others' memory a rank can write the bells, and the windows of the rings to it: of each
     * pair, besides its own. */
    WANT(writable("/memfd:nigh-arena"), 1);
    WANT(writable("/memfd:nigh-ring"), 2 * (scene->ranks - 1));
    /* The sockets of attaches that this rank took part in last may still be open; turn() ends what takes for ever. */
    most = out->fds_before + PEER_FDS * (scene->ranks - 1) + OWN_FDS;
    while ((out->fds_connected = descriptors()) > most)
        turn(me, 1000000);
}

static void check_end(struct rank *me, struct figures *out)
{
    struct nigh_query_stats stats = {.size = sizeof(stats)};
    uint64_t bytes = sizeof(stats);

    out->talked = committed(me);
    WANT(memory_of_files(), (long long)out->talked);
    WANT(ops->query(me->context, NULL, NIGH_QUERY_STATS, &stats, &bytes), 0);
    WANT(stats.rescues, 0);
    WANT(stats.peers_lost, 0);
    WANT(stats.peers_broken, 0);
    WANT(ops->close(me->context), 0);
    out->fds_after = descriptors();
    WANT(out->fds_after, out->fds_before);
    WANT(memory_of_files(), 0);
}

static void everybody(struct rank *me)
{
    static const uint64_t sizes[] = {8, 600, 5000};
    struct figures *out = &scene->of[me->rank];

    out->fds_before = descriptors();
    open_rank(me);
    connect_all(me, out);
    for (unsigned i = 0; i < 6; i++) {
        exchange(me, sizes[i / 2], i & 1);
        meet(me, i + 1);
    }
    out->exchanged_ms = now_ms() - me->begun;
    check_end(me, out);
}

/* ---- 256 ranks, everybody with everybody, with 1024 descriptors each ------------------------------------------ */

/* They need 510 for good. Attached all at once they would need more than there are. */
static void few_descriptors(struct rank *me)
{
    struct figures *out = &scene->of[me->rank];
    struct rlimit limit;

    WANT(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_max > 1024)
        limit.rlim_cur = limit.rlim_max = 1024;
    WANT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    out->fds_before = descriptors();
    open_rank(me);
    connect_all(me, out);
    exchange(me, 600, true);
    meet(me, 1);
    out->exchanged_ms = now_ms() - me->begun;
    check_end(me, out);
}

/* ---- 34 that are stopped, of 36, and 200 descriptors ----------------------------------------------------------- */

enum { DIALLER = 0, READY = 35, STOPPED = 34, REACHED = 2, GONE_ON = 3 };

static uint32_t arrived(unsigned which)
{
    return __atomic_load_n(&scene->arrived[which], __ATOMIC_ACQUIRE);
}

static bool is_over(void)
{
    return arrived(REACHED) || __atomic_load_n(&scene->failed, __ATOMIC_ACQUIRE);
}

static void stop_until_over(void)
{
    while (!is_over())
        raise(SIGSTOP);
    __atomic_add_fetch(&scene->arrived[GONE_ON], 1, __ATOMIC_ACQ_REL);
}

static bool is_stopped(pid_t pid)
{
    char name[64], state = 0;
    FILE *file;

    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    file = fopen(name, "r");
    if (!file || fscanf(file, "%*d %*s %c", &state) != 1)
        state = 0;
    if (file)
        fclose(file);
    return state == 'T';
}

static void dial_all(struct rank *me)
{
    struct rlimit limit = {200, 200};

    WANT(setrlimit(RLIMIT_NOFILE, &limit), 0);
    for (uint32_t rank = 1; rank <= STOPPED; rank++) {
        while (!is_stopped(scene->pids[rank]))
            turn(me, 1000000);
        dial(me, rank);
    }
    dial(me, READY);
    while (!is_ready(me, READY))
        turn(me, 2000000);
    __atomic_store_n(&scene->arrived[REACHED], 1, __ATOMIC_RELEASE);
}

/* Whatever becomes of the dialler, nobody stays stopped. */
static void answer_and_wake(struct rank *me)
{
    struct nigh_completion done;

    while (!is_over()) {
        (void)ops->wait(me->context, 2000000);
        (void)ops->poll_completions(me->context, &done, 1);
    }
    while (arrived(GONE_ON) < STOPPED) {
        for (uint32_t rank = 1; rank <= STOPPED; rank++)
            kill(scene->pids[rank], SIGCONT);
        usleep(1000);
    }
}

/* Who answers is reached, though more dials than may be under way wait for those who do not. */
static void most_are_stopped(struct rank *me)
{
    scene->pids[me->rank] = getpid();
    open_rank(me);
    meet(me, 0);
    if (me->rank == DIALLER)
        dial_all(me);
    else if (me->rank == READY)
        answer_and_wake(me);
    else
        stop_until_over();
    ops->close(me->context);
}

/* ---- 128 ranks, one of which is killed ------------------------------------------------------------------------ */

enum { VICTIM = 77 };

static void all_but_one(struct rank *me)
{
    struct figures *out = &scene->of[me->rank];
    struct nigh_recv recv = {
        .size = sizeof(recv), .buffer = me->in[0], .bytes = ROOM, .tag = TAG + 1, .context = VICTIM};
    struct nigh_completion done = {0};
    struct nigh_query_stats stats = {.size = sizeof(stats)};
    uint64_t bytes = sizeof(stats), begun;
    int rc;

    out->fds_before = descriptors();
    open_rank(me);
    connect_all(me, out);
    exchange(me, 600, true);
    meet(me, 1);
    if (me->rank == VICTIM)
        kill(getpid(), SIGKILL);
    begun = now_ms();
    rc = ops->post_recv(me->context, me->peer[VICTIM], &recv);
    if (rc) {
        WANT(rc, -ECONNRESET); /* known already */
    } else {
        while (ops->poll_completions(me->context, &done, 1) == 0) {
            WANT_AT_MOST(now_ms() - me->begun, SECONDS * 1000);
            (void)ops->wait(me->context, 1000000000);
        }
        WANT(done.context, VICTIM);
        WANT(done.status, -ECONNRESET);
    }
    out->told_ms = now_ms() - begun;
    me->peer[VICTIM] = NULL;
    exchange(me, 5000, false);
    meet_some(me, 2, scene->ranks - 1);
    WANT(ops->query(me->context, NULL, NIGH_QUERY_STATS, &stats, &bytes), 0);
    WANT(stats.peers_lost, 1);
    WANT(ops->close(me->context), 0);
    WANT(descriptors(), out->fds_before);
    WANT(memory_of_files(), 0);
}

/* ---- 256 ranks, each with its neighbours ---------------------------------------------------------------------- */

static void neighbours(struct rank *me)
{
    static const uint32_t far[] = {1, 2, 64};
    struct figures *out = &scene->of[me->rank];

    out->fds_before = descriptors();
    open_rank(me);
    out->opened = committed(me);
    for (unsigned i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
        dial(me, (me->rank + far[i]) % scene->ranks);
        dial(me, (me->rank + scene->ranks - far[i]) % scene->ranks);
    }
    await_ready(me);
    out->connected_ms = now_ms() - me->begun;
    meet(me, 0);
    out->idle = committed(me);
    out->fds_connected = descriptors();
    for (unsigned i = 0; i < 6; i++) {
        exchange(me, i & 1 ? 5000 : 8, i & 2);
        meet(me, i + 1);
    }
    out->exchanged_ms = now_ms() - me->begun;
    check_end(me, out);
}

/* ---- all of them ---------------------------------------------------------------------------------------------- */

static _Noreturn void live(uint32_t rank, uint64_t job, void (*play)(struct rank *me))
{
    static struct rank me;
    void *memory;

    alarm(SECONDS + 5);
    me = (struct rank){.rank = rank, .job = job, .begun = now_ms()};
    memory = malloc((size_t)2 * RANKS_MAX * ROOM);
    if (!memory)
        die(&me, "no memory", 0, 0);
    me.in = memory;
    me.out = me.in + RANKS_MAX;
    play(&me);
    free(memory);
    _exit(0);
}

static void reap(uint32_t count)
{
    int status;

    for (uint32_t i = 0; i < count; i++) {
        assert_true(wait(&status) > 0);
        if (!WIFSIGNALED(status) || WTERMSIG(status) == SIGKILL ||
            __atomic_exchange_n(&scene->failed, 1, __ATOMIC_ACQ_REL))
            continue;
        snprintf(scene->why, sizeof(scene->why), "a rank ended by signal %d", WTERMSIG(status));
    }
}

static void report(uint64_t ms)
{
    struct figures most = {0};

    for (uint32_t i = 0; i < scene->ranks; i++) {
        const struct figures *of = &scene->of[i];

        most.connected_ms = of->connected_ms > most.connected_ms ? of->connected_ms : most.connected_ms;
        most.idle = of->idle > most.idle ? of->idle : most.idle;
        most.talked = of->talked > most.talked ? of->talked : most.talked;
        if (of->fds_connected - of->fds_before > most.fds_connected)
            most.fds_connected = of->fds_connected - of->fds_before;
    }
    print_message("%u ranks: connected after %llu ms, over after %llu ms; a rank's shared memory %llu KiB "
                  "idle, %llu KiB "
                  "in the end; %u descriptors\n",
                  scene->ranks, (unsigned long long)most.connected_ms, (unsigned long long)ms,
                  (unsigned long long)most.idle >> 10, (unsigned long long)most.talked >> 10,
                  most.fds_connected);
}

static void run(uint32_t ranks, void (*play)(struct rank *me))
{
    static uint32_t jobs;
    uint64_t job = (uint64_t)getpid() << 32 | ++jobs, begun = now_ms();
    uint32_t files = descriptors(), started = 0;

    memset(scene, 0, sizeof(*scene));
    scene->ranks = ranks;
    fflush(NULL);
    for (; started < ranks; started++) {
        pid_t pid = fork();

        if (pid == 0)
            live(started, job, play);
        if (pid < 0 && errno == EAGAIN) {
            scene->failed = 1;
            reap(started);
            printf("# skipped: only %u of %u processes can be started here (ulimit -u, pids.max)\n", started,
                   ranks);
            fflush(stdout);
            skip();
        }
        if (pid < 0) {
            snprintf(scene->why, sizeof(scene->why), "fork of rank %u: %s", started, strerror(errno));
            scene->failed = 1;
            break;
        }
    }
    reap(started);
    if (scene->failed)
        fail_msg("%s", scene->why);
    report(now_ms() - begun);
    assert_int_equal(descriptors(), files);
    assert_false(has_names(job));
}

static void test_everybody_with_everybody(void **state)
{
    (void)state;
    run(128, everybody);
}

static void test_few_descriptors(void **state)
{
    (void)state;
    run(256, few_descriptors);
}

static void test_most_are_stopped(void **state)
{
    (void)state;
    run(READY + 1, most_are_stopped);
}

static void test_one_of_many_dies(void **state)
{
    uint64_t most = 0;

    (void)state;
    run(128, all_but_one);
    for (uint32_t i = 0; i < scene->ranks; i++)
        most = scene->of[i].told_ms > most ? scene->of[i].told_ms : most;
    print_message("the death was told to all others within %llu ms\n", (unsigned long long)most);
}

static void test_neighbours(void **state)
{
    (void)state;
    run(256, neighbours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_everybody_with_everybody),
        cmocka_unit_test(test_few_descriptors),
        cmocka_unit_test(test_most_are_stopped),
        cmocka_unit_test(test_one_of_many_dies),
        cmocka_unit_test(test_neighbours),
    };

    ops = nigh_transport(NIGH_ABI);
    scene = mmap(NULL, sizeof(*scene), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!ops || scene == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
