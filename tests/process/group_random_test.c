/* SPDX-License-Identifier: BSD-3-Clause */
/* Random calls of groups that overlap, in real processes whose timing is random, too: members far ahead, asleep, in several
 * calls at a time, groups that are made and left in between, and one that ends anywhere. NIGH_TEST_SEED replays a run. */
#include <errno.h>
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
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/call_case.h"
#include "tests/support/pair.h"

enum { RANKS = 4, GROUPS = 3, MOST = 160, AHEAD = 90, LIMIT_S = 120 };
enum { DIES, CLOSES, LEAVES, STAYS };

struct play {
    uint64_t seed;
    const char *path;
    bool domains; /* ranks are told that they run on up to three L3 caches */
    uint32_t calls;
    int end;         /* what `victim` does */
    uint32_t victim; /* at call `at` of the script */
    uint32_t at;
};

static const struct nigh_ops *nigh;
static struct nigh_context *context;
static struct nigh_endpoint *to[RANKS];
static struct nigh_group *groups[GROUPS];
static uint32_t me;
static const struct play *play;

static struct flight {
    struct call_case of;
    struct call_room room;
    uint32_t group;
    bool open;
} flights[MOST];
static uint32_t open_calls;
static uint32_t *met; /* ranks that have met all others: shared */

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (*state >> 33) % below;
}

static void must(bool good, const char *what, int value)
{
    if (good)
        return;
    fprintf(stderr, "NIGH_TEST_SEED=%llu, rank %u: %s: %d\n", (unsigned long long)play->seed, me, what,
            value);
    _exit(1);
}

/* ---- the script, the same in all ranks ------------------------------------------------------------------ */

/* All; all but one; two. */
static uint32_t members_of(uint32_t group, uint32_t who[RANKS])
{
    static const uint32_t lists[GROUPS][RANKS] = {{2, 0, 3, 1}, {1, 2, 0}, {3, 1}};
    static const uint32_t counts[GROUPS] = {4, 3, 2};

    memcpy(who, lists[group], sizeof(lists[group]));
    return counts[group];
}

static uint32_t place_in(uint32_t group, uint32_t rank)
{
    uint32_t who[RANKS], count = members_of(group, who);

    for (uint32_t i = 0; i < count; i++)
        if (who[i] == rank)
            return i;
    return UINT32_MAX;
}

static void script(uint64_t *state, struct call_case *of, uint32_t *group)
{
    static const uint64_t most[] = {13, 700, 3000, 40000, 150000};
    uint32_t who[RANKS];
    bool reduces, rooted, blocks;

    *group = (uint32_t)draw(state, GROUPS);
    *of = (struct call_case){.op = (uint16_t)(NIGH_BARRIER + draw(state, NIGH_EXSCAN)),
                             .type = NIGH_U16,
                             .members = members_of(*group, who)};
    reduces = of->op == NIGH_REDUCE || of->op == NIGH_ALLREDUCE || of->op >= NIGH_REDUCE_SCATTER;
    rooted =
        of->op == NIGH_BROADCAST || of->op == NIGH_REDUCE || of->op == NIGH_GATHER || of->op == NIGH_SCATTER;
    blocks = of->op == NIGH_REDUCE_SCATTER || (!reduces && of->op >= NIGH_GATHER);
    of->reduction = reduces ? NIGH_SUM : 0;
    of->root = rooted ? (uint32_t)draw(state, of->members) : 0;
    of->count = draw(state, most[draw(state, 5)]);
    of->in_place = of->op != NIGH_BARRIER && draw(state, 2);
    of->blocks = blocks ? (enum call_blocks)draw(state, 3) : CALL_EVEN;
    of->seed = draw(state, 1u << 30);
}

/* ---- a rank -------------------------------------------------------------------------------------------- */

static bool may_fail(uint32_t group)
{
    return play->end != STAYS && place_in(group, play->victim) != UINT32_MAX;
}

static void quiet(void *data, int level, const char *text)
{
    (void)data;
    (void)level;
    (void)text;
}

static void place_rank(void)
{
    uint64_t state = play->seed + 1000;
    char place[16];

    if (!play->domains)
        return;
    for (uint32_t i = 0; i <= me; i++)
        snprintf(place, sizeof(place), "%u/0/0", (unsigned)draw(&state, 3));
    setenv("NIGH_DOMAINS", "l3", 1);
    setenv("NIGH_PLACE", place, 1);
}

static void open_rank(uint64_t job)
{
    struct nigh_open options = {.size = sizeof(options),
                                .job = job,
                                .rank = me,
                                .ranks = RANKS,
                                .heap_bytes = 128 << 20,
                                .path = play->path,
                                .log = play->end == STAYS ? NULL : quiet};

    place_rank();
    must(nigh->open(&options, &context) == 0, "open", 0);
    for (uint32_t i = 0; i < RANKS; i++) {
        struct nigh_connect at = {.size = sizeof(at), .rank = i, .source = NIGH_SOURCE_NONE};

        must(nigh->connect(context, &at, &to[i]) == 0, "connect", (int)i);
    }
}

static void poll_once(void);

/* One that nobody has met yet cannot be seen to end. */
static void meet_all(void)
{
    uint32_t ready = 0;

    while (ready < RANKS) {
        struct nigh_query_endpoint facts;
        uint64_t bytes = sizeof(facts);

        poll_once();
        must(nigh->query(context, to[ready], NIGH_QUERY_ENDPOINT, &facts, &bytes) == 0, "query", (int)ready);
        ready += facts.state == NIGH_READY;
    }
    __atomic_fetch_add(met, 1, __ATOMIC_RELEASE);
    while (__atomic_load_n(met, __ATOMIC_ACQUIRE) < RANKS)
        poll_once();
}

static void make(uint32_t group)
{
    uint32_t who[RANKS];
    struct nigh_endpoint *members[RANKS];
    struct nigh_group_options options = {
        .size = sizeof(options), .count = members_of(group, who), .members = members};
    int rc;

    if (place_in(group, me) == UINT32_MAX)
        return;
    for (uint32_t i = 0; i < options.count; i++)
        members[i] = to[who[i]];
    rc = nigh->group_create(context, &options, &groups[group]);
    must(rc == 0 || (may_fail(group) && rc == -ECONNRESET), "group_create", rc);
    if (rc)
        groups[group] = NULL;
}

static void take(const struct nigh_completion *done)
{
    struct flight *flight = &flights[done->context];
    const char *wrong;

    must(done->status == 0 || (may_fail(flight->group) && done->status == -ECONNRESET),
         call_case_text(&flight->of, place_in(flight->group, me)), done->status);
    wrong = done->status ? NULL : call_case_check(&flight->room);
    if (wrong)
        fprintf(stderr, "rank %u, call %u: %s: %s\n", me, (unsigned)done->context,
                call_case_text(&flight->of, place_in(flight->group, me)), wrong);
    must(!wrong, "wrong result", 0);
    call_case_free(&flight->room);
    flight->open = false;
    open_calls--;
}

static void poll_once(void)
{
    struct nigh_completion done[8];
    int polled = nigh->poll_completions(context, done, 8);

    must(polled >= 0, "poll_completions", polled);
    for (int i = 0; i < polled; i++)
        take(&done[i]);
}

static void await_all_but(uint32_t most, uint64_t *timing)
{
    while (open_calls > most) {
        if (draw(timing, 3) == 0)
            (void)nigh->wait(context, UINT64_MAX);
        poll_once();
    }
}

static void dawdle(uint64_t *timing)
{
    switch (draw(timing, 12)) {
    case 0:
        usleep((useconds_t)draw(timing, 1500));
        break;
    case 1:
        await_all_but(0, timing);
        break;
    case 2:
    case 3:
    case 4:
        for (uint64_t i = draw(timing, 30); i; i--)
            poll_once();
        break;
    default:
        break;
    }
}

static void end_here(void)
{
    if (play->end == DIES)
        raise(SIGKILL);
    if (play->end == CLOSES)
        must(nigh->close(context) == 0, "close", 0);
    _exit(0);
}

/* Its calls fail or end, by the others' leave; then it leaves itself. */
static void leave_group(uint32_t group, uint64_t *timing)
{
    int rc;

    if (!groups[group])
        return;
    while ((rc = nigh->group_free(groups[group])) == -EBUSY) {
        poll_once();
        if (draw(timing, 4) == 0)
            (void)nigh->wait(context, 1000000);
    }
    must(rc == 0, "group_free", rc);
    groups[group] = NULL;
}

static void one_call(uint32_t i, const struct call_case *of, uint32_t group)
{
    struct flight *flight = &flights[i];
    int rc;

    flight->of = *of;
    flight->group = group;
    call_case_make(of, place_in(group, me), &flight->room);
    flight->room.call.context = i;
    rc = groups[group] ? nigh->post_collective(groups[group], &flight->room.call) : -ECONNRESET;
    must(rc == 0 || (may_fail(group) && rc == -ECONNRESET), call_case_text(of, place_in(group, me)), rc);
    if (rc) {
        call_case_free(&flight->room);
        return;
    }
    flight->open = true;
    open_calls++;
}

static void run_rank(uint64_t job)
{
    uint64_t state = play->seed, timing = play->seed * 31 + me + 1;
    struct nigh_query_stats stats;
    uint64_t bytes = sizeof(stats);

    open_rank(job);
    meet_all();
    for (uint32_t g = 0; g < GROUPS; g++)
        make((g + me) % GROUPS);
    for (uint32_t i = 0; i < play->calls; i++) {
        struct call_case of;
        uint32_t group;
        bool again = draw(&state, 20) == 0;

        script(&state, &of, &group);
        if (play->end != STAYS && me == play->victim && i == play->at) {
            if (play->end != LEAVES)
                end_here();
            for (uint32_t g = 0; g < GROUPS; g++)
                leave_group(g, &timing);
            break;
        }
        if (place_in(group, me) == UINT32_MAX)
            continue;
        if (again && play->end == STAYS) { /* the next one of the same members */
            leave_group(group, &timing);
            make(group);
        }
        one_call(i, &of, group);
        await_all_but((uint32_t)draw(&timing, AHEAD) + 1, &timing);
        dawdle(&timing);
    }
    await_all_but(0, &timing);
    for (uint32_t g = 0; g < GROUPS; g++)
        leave_group(g, &timing);
    must(nigh->query(context, NULL, NIGH_QUERY_STATS, &stats, &bytes) == 0, "query", 0);
    must(stats.rescues == 0, "sleeps that nobody ended", (int)stats.rescues);
    must(nigh->close(context) == 0, "close", 0);
}

static void run_job(const struct play *of)
{
    static uint32_t jobs;
    uint64_t job = (uint64_t)getpid() << 32 | ++jobs;
    pid_t pids[RANKS];
    int status;

    play = of;
    *met = 0;
    for (uint32_t i = 0; i < RANKS; i++) {
        pids[i] = fork();
        if (pids[i])
            continue;
        me = i;
        alarm(LIMIT_S);
        run_rank(job);
        _exit(0);
    }
    for (uint32_t i = 0; i < RANKS; i++) {
        bool killed = of->end == DIES && i == of->victim;

        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        if (killed ? !WIFSIGNALED(status) : (!WIFEXITED(status) || WEXITSTATUS(status) != 0))
            fail_msg("NIGH_TEST_SEED=%llu: rank %u, end %d of rank %u at call %u, path %s%s: status %#x",
                     (unsigned long long)of->seed, i, of->end, of->victim, of->at,
                     of->path ? of->path : "any", of->domains ? ", domains" : "", (unsigned)status);
    }
}

static const char *const paths[] = {NULL, "chunked", "heap"};

static uint64_t first_seed(void)
{
    const char *given = getenv("NIGH_TEST_SEED");

    return given ? strtoull(given, NULL, 0) : 1;
}

static void test_all_stay(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 5; i++) {
        struct play of = {
            .seed = first_seed() + i, .path = paths[i % 3], .domains = i >= 3, .calls = MOST, .end = STAYS};

        run_job(&of);
    }
}

static void test_one_ends(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 24; i++) {
        uint64_t seed = first_seed() + i, drawn = seed;
        struct play of = {
            .seed = seed, .path = paths[i % 2], .domains = i >= 12, .calls = 30, .end = (int)(i % 3)};

        of.victim = (uint32_t)draw(&drawn, RANKS);
        of.at = (uint32_t)draw(&drawn, 25);
        run_job(&of);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_all_stay), cmocka_unit_test(test_one_ends)};

    nigh = pair_load();
    met = mmap(NULL, sizeof(*met), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (met == MAP_FAILED)
        return 1;
    return cmocka_run_group_tests_name("random groups", tests, NULL, NULL);
}
