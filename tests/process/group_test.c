/* SPDX-License-Identifier: BSD-3-Clause */
/* Groups of real processes: calls that are polled, waited for and slept through; a member that dies in each operation, leaves,
 * or calls something else. Nobody hangs, and whoever fails names the member that it is about. */
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/call_case.h"
#include "tests/support/pair.h"

enum { MOST = 9, LIMIT_S = 120 };

static const struct nigh_ops *nigh;
static struct nigh_context *context;
static struct nigh_endpoint *to[MOST];
static struct nigh_group *group;
static uint32_t me, ranks;
/* Where the ranks of the next jobs are told that they run; NULL: they are not told. */
static const char *const *places;
static struct {
    uint32_t said; /* ranks that say so */
    uint64_t death_ns;
    uint64_t told_ns[MOST];
} * shared;

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void must(bool good, const char *what, int value)
{
    if (good)
        return;
    fprintf(stderr, "rank %u: %s: %d\n", me, what, value);
    _exit(1);
}

/* ---- a rank -------------------------------------------------------------------------------------------- */

static char heard[512]; /* what this rank was told last */

static void hears(void *data, int level, const char *text)
{
    (void)data;
    (void)level;
    snprintf(heard, sizeof(heard), "%s", text);
}

static void open_rank(uint64_t job, const char *path, bool silent)
{
    struct nigh_open options = {.size = sizeof(options),
                                .job = job,
                                .rank = me,
                                .ranks = ranks,
                                .heap_bytes = 64 << 20,
                                .path = path,
                                .log = silent ? hears : NULL};
    struct nigh_group_options of = {.size = sizeof(of), .count = ranks, .members = to};

    must(nigh->open(&options, &context) == 0, "open", 0);
    for (uint32_t i = 0; i < ranks; i++) {
        struct nigh_connect at = {.size = sizeof(at), .rank = i, .source = NIGH_SOURCE_NONE};

        must(nigh->connect(context, &at, &to[i]) == 0, "connect", (int)i);
    }
    must(nigh->group_create(context, &of, &group) == 0, "group_create", 0);
}

enum { POLLS, WAITS };

static struct nigh_completion await(int how)
{
    struct nigh_completion done = {.status = 0};

    for (;;) {
        int polled = nigh->poll_completions(context, &done, 1);

        must(polled >= 0, "poll", polled);
        if (polled)
            return done;
        if (how == WAITS)
            (void)nigh->wait(context, UINT64_MAX);
    }
}

static int call(const struct call_case *of, int how, struct nigh_completion *done)
{
    struct call_room room;
    const char *wrong = NULL;
    int rc;

    call_case_make(of, me, &room);
    rc = nigh->post_collective(group, &room.call);
    if (!rc) {
        *done = await(how);
        rc = done->status;
        wrong = rc ? NULL : call_case_check(&room);
    }
    if (wrong)
        fprintf(stderr, "rank %u: %s: %s\n", me, call_case_text(of, me), wrong);
    must(!wrong, "wrong result", 0);
    call_case_free(&room);
    return rc;
}

/* Runs `play` in so many processes; each that returns exits with 0. `dies` is killed when it says so. */
static void job_of(uint32_t count, void (*play)(uint64_t job, int form), int form, uint32_t dies)
{
    static uint32_t jobs;
    uint64_t job = (uint64_t)getpid() << 32 | ++jobs;
    pid_t pids[MOST];
    int status;

    memset(shared, 0, sizeof(*shared));
    ranks = count;
    for (uint32_t i = 0; i < count; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        me = i;
        alarm(LIMIT_S);
        if (places) {
            setenv("NIGH_DOMAINS", "l3", 1);
            setenv("NIGH_PLACE", places[i], 1);
        }
        play(job, form);
        _exit(0);
    }
    if (dies < count) {
        while (__atomic_load_n(&shared->said, __ATOMIC_ACQUIRE) < 1)
            usleep(100);
        usleep(2000u + (unsigned)form * 300u);
        shared->death_ns = now_ns();
        kill(pids[dies], SIGKILL);
    }
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (i == dies)
            continue;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail_msg("rank %u of %u, form %d: status %#x", i, count, form, (unsigned)status);
    }
}

/* ---- all well ------------------------------------------------------------------------------------------ */

static bool reduces(uint16_t op)
{
    return op == NIGH_REDUCE || op == NIGH_ALLREDUCE || op >= NIGH_REDUCE_SCATTER;
}

static struct call_case case_of(uint16_t op, uint64_t count, uint64_t seed)
{
    bool rooted = op == NIGH_BROADCAST || op == NIGH_REDUCE || op == NIGH_GATHER || op == NIGH_SCATTER;

    return (struct call_case){.op = op,
                              .type = NIGH_I64,
                              .reduction = reduces(op) ? NIGH_SUM : 0,
                              .members = ranks,
                              .root = rooted ? (uint32_t)(seed % ranks) : 0,
                              .count = count,
                              .seed = seed,
                              .in_place = op != NIGH_BARRIER && seed % 2};
}

enum { CALLS = 150 };

static void play_calls(uint64_t job, int form)
{
    static const uint64_t counts[] = {1, 5, 300, 1500, 5000, 40000};
    struct nigh_completion done = {.status = 0};

    open_rank(job, form & 2 ? "chunked" : NULL, false);
    for (uint64_t i = 0; i < CALLS; i++) {
        struct call_case of = case_of((uint16_t)(NIGH_BARRIER + i % NIGH_EXSCAN), counts[i * 7 / 11 % 6], i);
        int rc = call(&of, form & 1, &done);

        must(rc == 0, call_case_text(&of, me), rc);
        if (form & 1 && i % 40 == me)
            usleep(3000); /* the others sleep */
    }
    must(nigh->group_free(group) == 0, "group_free", 0);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_calls(void **state)
{
    (void)state;
    for (int form = 0; form < 4; form++) {
        job_of(2, play_calls, form, UINT32_MAX);
        job_of(5, play_calls, form, UINT32_MAX);
    }
    job_of(MOST, play_calls, WAITS, UINT32_MAX);
}

/* Who has what it needs leaves, though the others have not come for it: what it gave is still theirs. */
static void play_leave_early(uint64_t job, int form)
{
    struct nigh_completion done = {.status = 0};
    struct call_case of;

    open_rank(job, NULL, false);
    of = case_of(NIGH_BARRIER, 0, 0);
    must(call(&of, WAITS, &done) == 0, "barrier", done.status);
    of = case_of(NIGH_BROADCAST, 4, 0);
    if (me)
        usleep(30000);
    must(call(&of, form, &done) == 0, "broadcast", done.status);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_leave_early(void **state)
{
    (void)state;
    job_of(3, play_leave_early, POLLS, UINT32_MAX);
    job_of(3, play_leave_early, WAITS, UINT32_MAX);
}

/* ---- death --------------------------------------------------------------------------------------------- */

enum { VICTIM = 1, DEATH_LIMIT_MS = 10000 };

/* The same call until one fails: the victim is killed somewhere. */
static void play_until_death(uint64_t job, int form)
{
    uint16_t op = (uint16_t)(NIGH_BARRIER + form % NIGH_EXSCAN);
    uint64_t count = form / NIGH_EXSCAN % 2 ? 30000 : 5;
    struct nigh_completion done = {.status = 0};
    int rc = 0, how = form / NIGH_EXSCAN / 2 ? WAITS : POLLS;

    open_rank(job, NULL, true);
    for (uint64_t i = 0; !rc; i++) {
        /* A root that runs ahead must see it, too. */
        struct call_case of = case_of(i % 4 == 3 ? NIGH_ALLREDUCE : op, count, 2 * i);

        if (i == 20 && me == VICTIM)
            __atomic_fetch_add(&shared->said, 1, __ATOMIC_RELEASE);
        rc = call(&of, how, &done);
    }
    must(rc == -ECONNRESET, "status of the call that could not end", rc);
    shared->told_ns[me] = now_ns();
    must(done.status == 0 || done.source == VICTIM, "named as dead", (int)done.source);
    /* And so do all others, until it is left. */
    {
        struct call_case of = case_of(NIGH_BARRIER, 0, 0);

        must(call(&of, how, &done) == -ECONNRESET, "a call behind it", 0);
    }
    must(nigh->group_free(group) == 0, "group_free", 0);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_death(void **state)
{
    (void)state;
    for (int form = 0; form < 4 * NIGH_EXSCAN; form++) {
        job_of(3, play_until_death, form, VICTIM);
        for (uint32_t i = 0; i < 3; i += 2)
            assert_true(shared->told_ns[i] - shared->death_ns < UINT64_C(1000000) * DEATH_LIMIT_MS);
    }
}

/* By domains: the victim goes between its domain and the others, or is one of those for whom another one goes. */
static const char *const leads[] = {"0/0/0", "1/0/0", "1/0/0", "0/0/0", "1/0/0"};
static const char *const follows[] = {"0/0/0", "0/0/0", "1/0/0", "1/0/0", "0/0/0"};

/* Do the calls of play_until_death() go by domains? */
static bool goes_by_domains(int form)
{
    int op = NIGH_BARRIER + form % NIGH_EXSCAN;

    if (form / NIGH_EXSCAN % 2)
        return op == NIGH_BROADCAST || op == NIGH_ALLGATHER;
    return op <= NIGH_ALLREDUCE;
}

static void test_death_in_domains(void **state)
{
    (void)state;
    for (int form = 0; form < 8 * NIGH_EXSCAN; form++) {
        if (!goes_by_domains(form))
            continue;
        places = form < 4 * NIGH_EXSCAN ? leads : follows;
        job_of(5, play_until_death, form % (4 * NIGH_EXSCAN), VICTIM);
        for (uint32_t i = 0; i < 5; i++)
            if (i != VICTIM)
                assert_true(shared->told_ns[i] - shared->death_ns < UINT64_C(1000000) * DEATH_LIMIT_MS);
    }
    places = NULL;
}

/* ---- mistakes ------------------------------------------------------------------------------------------ */

/* Rank 1 calls something else; all members' calls fail, sooner or later, and say so. */
static void play_mismatch(uint64_t job, int form)
{
    struct nigh_completion done = {.status = 0};
    struct call_case of;
    int rc;

    open_rank(job, NULL, true);
    of = case_of(NIGH_BARRIER, 0, 0);
    rc = call(&of, WAITS, &done);
    if (places &&
        rc == -EPROTO) { /* the others differ before its representative has shown it the end of this */
        must(nigh->close(context) == 0, "close", 0);
        return;
    }
    must(rc == 0, "barrier", rc);
    of = case_of(NIGH_ALLREDUCE, 100, 0);
    if (me == 1) {
        of.op = form == 0 ? NIGH_ALLGATHER : NIGH_ALLREDUCE;
        of.reduction = form == 0 ? 0 : form == 1 ? NIGH_MAX : NIGH_SUM;
        of.type = form == 2 ? NIGH_F64 : NIGH_I64;
        of.count = form == 3 ? 101 : 100;
    }
    if (form == 4) {
        of = case_of(NIGH_REDUCE, 100, 0);
        of.root = me == 1 ? 2 : 0;
    }
    rc = call(&of, WAITS, &done);
    if (form == 4) /* who is not the root may be over before anybody knows */
        for (int i = 0; i < 20 && !rc; i++) {
            of = case_of(NIGH_BARRIER, 0, 0);
            rc = call(&of, WAITS, &done);
        }
    must(rc == -EPROTO, "status of calls that differ", rc);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_mismatch(void **state)
{
    (void)state;
    for (int form = 0; form < 5; form++)
        job_of(3, play_mismatch, form, UINT32_MAX);
}

/* Where the two calls stand: a text that is a page's last bytes, one with a page's end in the path, one with a long path. */
static const char *place_of(int form)
{
    long page = sysconf(_SC_PAGESIZE);
    char text[512] = "/", *pages;
    size_t bytes;

    memset(text + 1, 'f', form == 2 ? 400 : 60);
    strcat(text, form == 2 ? "/deep/far.c:77" : "/far.c:77");
    bytes = strlen(text) + 1;
    pages = mmap(NULL, 3 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    must(pages != MAP_FAILED && mprotect(pages + 2 * page, (size_t)page, PROT_NONE) == 0, "map", 0);
    pages += form == 1 ? page - 8 : 2 * page - (long)bytes;
    return memcpy(pages, text, bytes);
}

static void play_place(uint64_t job, int form)
{
    struct call_case of = case_of(me ? NIGH_ALLREDUCE : NIGH_ALLGATHER, 100, 0);
    struct call_room room;
    const char *first;

    open_rank(job, NULL, true);
    call_case_make(&of, me, &room);
    room.call.place = place_of(form);
    must(nigh->post_collective(group, &room.call) == 0, "post", 0);
    must(await(WAITS).status == -EPROTO, "status", 0);
    first = strstr(heard, " at far.c:77");
    must(first && strstr(first + 1, " at far.c:77"), heard, form);
    __atomic_fetch_add(&shared->said, 1, __ATOMIC_RELEASE); /* its memory is read until both are told */
    while (__atomic_load_n(&shared->said, __ATOMIC_ACQUIRE) < ranks)
        sched_yield();
    must(nigh->close(context) == 0, "close", 0);
    call_case_free(&room);
}

static void test_place(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++)
        job_of(2, play_place, form, UINT32_MAX);
}

static void test_mismatch_in_domains(void **state)
{
    (void)state;
    for (int form = 0; form < 10; form++) {
        places = form % 2 ? leads : follows;
        job_of(5, play_mismatch, form / 2, UINT32_MAX);
    }
    places = NULL;
}

static void test_calls_in_domains(void **state)
{
    (void)state;
    places = leads;
    job_of(5, play_calls, POLLS, UINT32_MAX);
    job_of(5, play_calls, WAITS, UINT32_MAX);
    places = NULL;
}

/* A block of another length than its receiver expects. */
static void play_wrong_block(uint64_t job, int form)
{
    struct nigh_completion done = {.status = 0};
    struct call_case of;
    int rc;

    open_rank(job, NULL, true);
    of = case_of(form, 50, 0);
    of.count = me == 1 ? 60 : 50;
    rc = call(&of, WAITS, &done);
    for (int i = 0; i < 20 && !rc; i++) {
        of = case_of(NIGH_BARRIER, 0, 0);
        rc = call(&of, WAITS, &done);
    }
    must(rc == -EPROTO, "status of blocks that differ", rc);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_wrong_block(void **state)
{
    (void)state;
    job_of(3, play_wrong_block, NIGH_GATHER, UINT32_MAX);
    job_of(3, play_wrong_block, NIGH_SCATTER, UINT32_MAX);
    job_of(3, play_wrong_block, NIGH_ALLGATHER, UINT32_MAX);
    job_of(3, play_wrong_block, NIGH_ALLTOALL, UINT32_MAX);
}

/* Of an allgather by domains: at one member the blocks of two others have other lengths, of the same sum. */
static void play_wrong_relayed_block(uint64_t job, int form)
{
    uint64_t counts[] = {30000, 30000, 30000, 30000, 30000};
    struct nigh_completion done = {.status = 0};
    struct nigh_collective of = {.size = sizeof(of),
                                 .op = NIGH_ALLGATHER,
                                 .type = NIGH_I8,
                                 .count = 30000,
                                 .recv_counts = counts,
                                 .send = calloc(1, 30000),
                                 .recv = malloc(150000)};
    struct call_case behind;
    int rc;

    open_rank(job, NULL, true);
    if (me == (uint32_t)form) {
        counts[form == 4 ? 0 : 3] += 1;
        counts[form == 4 ? 3 : 1] -= 1;
    }
    must(nigh->post_collective(group, &of) == 0, "post", 0);
    done = await(WAITS);
    rc = done.status;
    behind = case_of(NIGH_BARRIER, 0, 0);
    if (!rc)
        rc = call(&behind, WAITS, &done);
    must(rc == -EPROTO, "status of blocks that differ", rc);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_wrong_relayed_block(void **state)
{
    (void)state;
    places = leads;
    job_of(5, play_wrong_relayed_block, 2, UINT32_MAX);
    job_of(5, play_wrong_relayed_block, 4, UINT32_MAX);
    places = follows;
    job_of(5, play_wrong_relayed_block, 2, UINT32_MAX);
    job_of(5, play_wrong_relayed_block, 4, UINT32_MAX);
    places = NULL;
}

/* A member leaves where the others go on. */
static void play_left(uint64_t job, int form)
{
    struct nigh_completion done = {.status = 0};
    struct call_case of;

    open_rank(job, NULL, true);
    of = case_of(NIGH_ALLREDUCE, 10, 0);
    must(call(&of, form, &done) == 0, "allreduce", done.status);
    if (me == 1) {
        must(nigh->group_free(group) == 0, "group_free", 0);
        for (int i = 0; i < 200; i++) {
            (void)nigh->wait(context, 1000000);
            (void)nigh->poll_completions(context, &done, 1);
        }
    } else {
        must(call(&of, form, &done) == -ECONNRESET, "allreduce with one that has left", done.status);
        must(done.status == 0 || done.source == 1, "named", (int)done.source);
    }
    must(nigh->close(context) == 0, "close", 0);
}

static void test_left(void **state)
{
    (void)state;
    job_of(3, play_left, POLLS, UINT32_MAX);
    job_of(3, play_left, WAITS, UINT32_MAX);
}

/* A host ends the group: in the middle of a call of all (0), before the others have come to the group (1), when they are in no
 * call (2). All get its error and its text, and later calls of all fail. */
static void play_end(uint64_t job, int form)
{
    struct nigh_query_group is = {.size = sizeof(is)};
    struct nigh_completion done = {.status = 0};
    struct call_case of;
    struct call_room room;

    if (form == 1 && me)
        while (!__atomic_load_n(&shared->said, __ATOMIC_ACQUIRE))
            usleep(100);
    open_rank(job, NULL, true);
    of = case_of(NIGH_ALLREDUCE, 200000, 0); /* more than a stream has room for */
    if (form != 1)
        must(call(&of, WAITS, &done) == 0, "allreduce", done.status);
    if (me == 0) {
        call_case_make(&of, me, &room);
        must(nigh->group_end(group, 5, "no error") == -EINVAL, "group_end", 0);
        must(nigh->post_collective(group, &room.call) == 0, "post", 0);
        if (form == 0)
            usleep(20000);
        must(nigh->group_end(group, -ECANCELED, "enough of it") == 0, "group_end", 0);
        call_case_free(&room);
        must(nigh->poll_completions(context, &done, 1) == 1 && done.status == -ECANCELED, "at once", 0);
        __atomic_fetch_add(&shared->said, 1, __ATOMIC_RELEASE);
        must(nigh->group_end(group, -EIO, "again") == 0, "group_end", 0);
    } else if (form == 2) {
        while (nigh->query_group(group, &is) == 0 && !is.status)
            usleep(100);
    } else if (form == 0 && me == 1) {
        must(nigh->wait(context, 40000000) == -ETIMEDOUT, "wait", 0);
    }
    must(call(&of, WAITS, &done) == -ECANCELED, "a call of a group that was ended", done.status);
    must(nigh->query_group(group, &is) == 0 && is.status == -ECANCELED, "query_group", is.status);
    must(is.by_host == 1 && is.about == 0 && strcmp(is.text, "enough of it") == 0, is.text, (int)is.about);
    must(is.ended_in == (form == 1 ? 0 : 1), "ended in", (int)is.ended_in);
    must(nigh->group_free(group) == 0, "group_free", 0);
    __atomic_fetch_add(&shared->said, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(&shared->said, __ATOMIC_ACQUIRE) <= ranks)
        (void)nigh->poll_completions(context, &done, 1);
    must(nigh->close(context) == 0, "close", 0);
}

static void test_end(void **state)
{
    (void)state;
    for (int form = 0; form < 3; form++) {
        job_of(2, play_end, form, UINT32_MAX);
        job_of(5, play_end, form, UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls),
        cmocka_unit_test(test_leave_early),
        cmocka_unit_test(test_death),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_place),
        cmocka_unit_test(test_wrong_block),
        cmocka_unit_test(test_left),
        cmocka_unit_test(test_end),
        cmocka_unit_test(test_calls_in_domains),
        cmocka_unit_test(test_death_in_domains),
        cmocka_unit_test(test_mismatch_in_domains),
        cmocka_unit_test(test_wrong_relayed_block),
    };

    nigh = pair_load();
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return shared == MAP_FAILED ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
