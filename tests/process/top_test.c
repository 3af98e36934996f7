/* SPDX-License-Identifier: BSD-3-Clause */
/* nigh-top as a user meets it: real ranks in known states, jobs that end under its eyes, memory that lies, and
 * that those it looks at do not notice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nigh/transport.h"
#include "shm/layout.h"
#include "tests/support/capture.h"
#include "tests/support/standing.h"
#include <dirent.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static json_t *look(const struct job *job, const char *options)
{
    struct capture run;
    json_error_t error;
    char line[256];
    json_t *root;

    snprintf(line, sizeof(line), TOP " --json --job %s %s", job->id, options);
    capture_run(&run, line);
    if (run.status != 0 || run.err[0])
        fail_msg("%s: status %d\n%s", line, run.status, run.err);
    root = json_loads(run.out, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        fail_msg("%s: line %d: %s\n%s", line, error.line, error.text, run.out);
    capture_free(&run);
    return root;
}

static json_t *rank_of(json_t *root, unsigned rank)
{
    json_t *here = json_object_get(root, "here");

    for (size_t i = 0; i < json_array_size(here); i++)
        if (json_integer_value(json_object_get(json_array_get(here, i), "rank")) == (json_int_t)rank)
            return json_array_get(here, i);
    fail_msg("rank %u is not shown", rank);
    return NULL;
}

static const char *state_of(json_t *root, unsigned rank)
{
    return json_string_value(json_object_get(rank_of(root, rank), "state"));
}

static bool are(json_t *root, unsigned ranks, const char *const *states)
{
    for (unsigned i = 0; i < ranks; i++)
        if (strcmp(state_of(root, i), states[i]) != 0)
            return false;
    return true;
}

static void check_states(json_t *root, unsigned ranks, const char *const *states)
{
    for (unsigned i = 0; i < ranks; i++)
        if (strcmp(state_of(root, i), states[i]) != 0)
            fail_msg("rank %u is shown as %s, not %s", i, state_of(root, i), states[i]);
}

/* Looks until the ranks are seen in these states: on a busy machine one that moves may not have had
 * a CPU in between. */
static json_t *look_for(const struct job *job, const char *options, unsigned ranks, const char *const *states)
{
    json_t *root = look(job, options);

    for (unsigned i = 0; i < 20 && !are(root, ranks, states); i++) {
        json_decref(root);
        root = look(job, options);
    }
    check_states(root, ranks, states);
    return root;
}

static json_int_t number_of(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);

    if (!json_is_number(value))
        fail_msg("no number \"%s\"", name);
    return (json_int_t)json_number_value(value);
}

/* ---- what ranks do ---------------------------------------------------------------------------------------------- */

static void states_are_told_apart(void **state)
{
    static const char *const expected[] = {"blocked", "blocked", "computing", "idle",   "waiting",
                                           "stopped", "blocked", "running",   "running"};
    json_t *root, *note;
    struct job job;

    (void)state;
    start(&job, 9, "recv:7 spin:2 compute idle sleep stop any talk:8 talk:7");
    sleep_ms(1000);
    root = look_for(&job, "-i 1", 9, expected);
    assert_int_equal(number_of(root, "ranks"), 9);
    assert_false(json_is_true(json_object_get(root, "over")));
    note = json_object_get(rank_of(root, 0), "note");
    assert_string_equal(json_string_value(json_object_get(note, "op")), "recv");
    assert_string_equal(json_string_value(json_object_get(note, "site")), "stand.c:77");
    assert_string_equal(json_string_value(json_object_get(note, "tag")), "0000000000000005");
    assert_int_equal(number_of(note, "peer"), 7);
    assert_int_equal(number_of(note, "bytes"), 400);
    assert_true(json_number_value(json_object_get(note, "seconds")) > 1);
    assert_true(json_is_true(json_object_get(rank_of(root, 0), "asleep")));
    assert_false(json_is_true(json_object_get(rank_of(root, 1), "asleep")));
    assert_true(json_is_null(json_object_get(rank_of(root, 2), "note")));
    note = json_object_get(rank_of(root, 6), "note");
    assert_string_equal(json_string_value(json_object_get(note, "members")), "ffffffffffffffff");
    assert_true(number_of(rank_of(root, 7), "received_per_second") > 0);
    note = json_object_get(json_object_get(rank_of(root, 7), "paths"), "inline");
    assert_true(number_of(note, "per_second") > 0);
    assert_int_equal(number_of(note, "bytes"), 8 * number_of(note, "sent"));
    assert_int_equal(json_array_size(json_object_get(root, "circles")), 0);
    json_decref(root);
    end(&job);
}

/* Three messages that nobody receives, and a receive: as of the ranks' last look before they slept. */
static void queues_are_counted(void **state)
{
    struct job job;
    json_t *root;

    (void)state;
    start(&job, 2, "ask:1 sleep");
    for (unsigned i = 0; i < 50; i++) {
        root = look(&job, "-i 0.05");
        if (number_of(rank_of(root, 1), "unexpected") == 3)
            break;
        json_decref(root);
        root = NULL;
    }
    assert_non_null(root);
    assert_int_equal(number_of(rank_of(root, 1), "posted"), 0);
    assert_int_equal(number_of(json_object_get(json_object_get(rank_of(root, 0), "paths"), "inline"), "sent"),
                     3);
    assert_int_equal(
        number_of(json_object_get(json_object_get(rank_of(root, 0), "paths"), "inline"), "bytes"), 24);
    assert_int_equal(number_of(rank_of(root, 1), "rescues"), 0);
    assert_true(number_of(rank_of(root, 1), "sleeps") > 0);
    json_decref(root);
    end(&job);
}

static void a_deadlock_is_drawn(void **state)
{
    char line[128], *text;
    struct job job;
    json_t *root, *circle;

    (void)state;
    start(&job, 5, "recv:1 recv:0 recv:1 barrier:0 compute");
    root = look(&job, "-i 0.1");
    circle = json_array_get(json_object_get(root, "circles"), 0);
    assert_int_equal(json_array_size(json_object_get(circle, "ranks")), 2);
    json_decref(root);
    sleep_ms(1100);
    root = look(&job, "-i 0.1");
    assert_int_equal(json_array_size(json_object_get(root, "circles")), 1);
    circle = json_array_get(json_object_get(root, "circles"), 0);
    assert_true(json_is_true(json_object_get(circle, "deadlock")));
    assert_int_equal(json_integer_value(json_array_get(json_object_get(circle, "ranks"), 0)), 0);
    assert_int_equal(json_integer_value(json_array_get(json_object_get(circle, "ranks"), 1)), 1);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(json_is_true(json_object_get(rank_of(root, i), "stuck")), i < 4);
    json_decref(root);
    snprintf(line, sizeof(line), TOP " --once --job %s", job.id);
    text = printed(line, 0, false);
    if (!strstr(text, "0 -> 1 -> 0: deadlock\n") || !strstr(text, "also stuck: rank 2, 3\n") ||
        !strstr(text, "rank 0: recv from 1 tag 5 400 B for "))
        fail_msg("the circle is not drawn:\n%s", text);
    free(text);
    end(&job);
}

/* The clock frees one of two that wait for each other. */
static void a_wait_with_an_end_is_in_no_circle(void **state)
{
    char line[128], *text;
    struct job job;
    json_t *root, *until;

    (void)state;
    start(&job, 2, "hour:1 recv:0");
    sleep_ms(1100);
    root = look(&job, "-i 0.1");
    assert_int_equal(json_array_size(json_object_get(root, "circles")), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_false(json_is_true(json_object_get(rank_of(root, i), "stuck")));
    until = json_object_get(json_object_get(rank_of(root, 0), "note"), "until");
    assert_true(json_number_value(until) > 3000 && json_number_value(until) < 3600);
    until = json_object_get(json_object_get(rank_of(root, 1), "note"), "until");
    assert_true(json_is_null(until));
    json_decref(root);
    snprintf(line, sizeof(line), TOP " --once --job %s", job.id);
    text = printed(line, 0, false);
    if (strstr(text, "deadlock") || !strstr(text, ", until 60 min from now, stand.c:77\n"))
        fail_msg("the end is not told:\n%s", text);
    free(text);
    end(&job);
}

/* A circle that has just closed is shown as what it is. */
static void a_young_circle_is_not_called_a_deadlock(void **state)
{
    struct job job;
    json_t *root, *circle;

    (void)state;
    start(&job, 2, "recv:1 late:0");
    root = look(&job, "-i 0.05");
    circle = json_array_get(json_object_get(root, "circles"), 0);
    assert_non_null(circle);
    /* A machine that was slow to get here has let it grow old. */
    if (json_number_value(json_object_get(json_object_get(rank_of(root, 1), "note"), "seconds")) < 1)
        assert_false(json_is_true(json_object_get(circle, "deadlock")));
    json_decref(root);
    end(&job);
}

/* Has it looked at a job, and sleeps until it looks again? */
static bool has_looked(pid_t pid)
{
    char path[64], line[512] = "", state = 0, *end;
    bool looks = false;
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    file = fopen(path, "r");
    while (file && fgets(line, sizeof(line), file))
        looks |= strstr(line, "/memfd:nigh-arena") != NULL;
    if (file)
        fclose(file);
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file && fgets(line, sizeof(line), file) && (end = strrchr(line, ')')) != NULL)
        state = end[2];
    if (file)
        fclose(file);
    return looks && state == 'S';
}

/* What `line` prints when the first `ranks` of the job end under its eyes: after its first look. */
static char *printed_while_some_end(const struct job *job, const char *line, unsigned ranks)
{
    struct capture run;
    pid_t pids[4];
    char *text;
    json_t *root = look(job, "-i 0.01");

    for (unsigned i = 0; i < ranks; i++)
        pids[i] = (pid_t)number_of(rank_of(root, i), "pid");
    json_decref(root);
    capture_start(&run, line);
    for (unsigned i = 0; !has_looked(run.pid); i++) {
        assert_in_range(i, 0, 60000);
        sleep_ms(1);
    }
    for (unsigned i = 0; i < ranks; i++)
        kill(pids[i], SIGUSR1);
    capture_wait(&run, 300);
    if (run.status != 0)
        fail_msg("%s: status %d\n%s%s", line, run.status, run.out, run.err);
    text = strdup(run.out);
    capture_free(&run);
    return text;
}

/* The second look is `seconds` behind the first: false where the ranks had not ended by then. */
static bool some_have_ended(unsigned seconds, bool last)
{
    static const char *const expected[] = {"left", "dead", "waiting", "blocked"};
    char line[128], *text;
    struct job job;
    json_t *root;
    bool good;

    start(&job, 4, "left end sleep recv:1");
    snprintf(line, sizeof(line), TOP " --json --job %s -i %u", job.id, seconds);
    text = printed_while_some_end(&job, line, 2);
    root = json_loads(text, 0, NULL);
    assert_non_null(root);
    good = are(root, 4, expected);
    if (last)
        check_states(root, 4, expected);
    assert_false(json_is_true(json_object_get(root, "over")));
    json_decref(root);
    free(text);
    end(&job);
    return good;
}

static bool all_have_ended(unsigned seconds, bool last)
{
    char line[128], *text;
    struct job job;
    bool good;

    start(&job, 2, "end");
    snprintf(line, sizeof(line), TOP " --once -i %u --job %s", seconds, job.id);
    text = printed_while_some_end(&job, line, 2);
    good = strstr(text, "2 ranks, 2 here; it has ended\n");
    if (last && !good)
        fail_msg("the end is not told:\n%s", text);
    free(text);
    capture_wait(&job.run, 300);
    capture_free(&job.run);
    snprintf(line, sizeof(line), TOP " --once --job %s", job.id);
    has(line, 1, true, "no rank of job ");
    return good;
}

static void who_ends_is_told(void **state)
{
    unsigned seconds = 2;

    (void)state;
    while (!some_have_ended(seconds, seconds > 100))
        seconds *= 4;
    seconds = 2;
    while (!all_have_ended(seconds, seconds > 100))
        seconds *= 4;
}

/* ---- which job -------------------------------------------------------------------------------------------------- */

static void jobs_are_chosen(void **state)
{
    struct job one, two;
    char line[128], *text;

    (void)state;
    start(&one, 2, "idle");
    start(&two, 1, "idle");
    text = printed(TOP " --once", 2, false);
    assert_non_null(strstr(text, one.id));
    assert_non_null(strstr(text, two.id));
    free(text);
    has(TOP " --once", 2, true, "choose one by --job");
    has(TOP " --list", 0, false, one.id);
    text = printed(TOP " --json --list", 0, false);
    assert_non_null(strstr(text, "\"jobs\": ["));
    assert_non_null(strstr(text, two.id));
    free(text);
    snprintf(line, sizeof(line), TOP " --once --job %s", one.id);
    text = printed(line, 0, false);
    assert_non_null(strstr(text, ": 2 ranks, 2 here\n"));
    assert_null(strstr(text, two.id));
    free(text);
    end(&one);
    end(&two);
}

static void wrong_usage_is_told(void **state)
{
    (void)state;
    has(TOP " --once --job 123456789abcdef", 1, true, "no rank of job 0123456789abcdef runs here");
    has(TOP " --job 0x12", 64, true, "hexadecimal");
    has(TOP " --job ''", 64, true, "hexadecimal");
    has(TOP " --interval 0", 64, true, "0.01 to 3600");
    has(TOP " --interval soon", 64, true, "0.01 to 3600");
    has(TOP " 17", 64, true, "too much");
}

/* In a namespace of its own there is no job. */
static void no_job_is_told(void **state)
{
    struct capture run;

    (void)state;
    capture_run(&run, "unshare --user --map-root-user --pid --fork --mount-proc " TOP " --once");
    if (run.status == 1 && strstr(run.err, "unshare")) {
        capture_free(&run);
        print_message("skip: this machine lets nobody make a namespace\n");
        skip();
    }
    assert_int_equal(run.status, 1);
    assert_string_equal(run.err, "nigh-top: no process here is in a job of nigh\n");
    assert_string_equal(run.out, "");
    capture_free(&run);
}

/* ---- disturbing nobody, believing nobody ------------------------------------------------------------------------ */

static unsigned long switches_of(pid_t pid)
{
    char path[300], line[128];
    unsigned long sum = 0, count;
    struct dirent *task;
    DIR *folder;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    folder = opendir(path);
    assert_non_null(folder);
    while ((task = readdir(folder))) {
        FILE *status;

        snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, task->d_name);
        status = task->d_name[0] == '.' ? NULL : fopen(path, "r");
        while (status && fgets(line, sizeof(line), status))
            if (sscanf(line, "voluntary_ctxt_switches: %lu", &count) == 1)
                sum += count;
        if (status)
            fclose(status);
    }
    closedir(folder);
    return sum;
}

/* Ranks that sleep wake by the bound of their sleeps some times; if they were woken by being looked at, it would be at
 * each of 30 looks. */
static void nobody_is_disturbed(void **state)
{
    unsigned long before[3];
    pid_t pid[3];
    struct job job;
    json_t *root;

    (void)state;
    start(&job, 3, "recv:1 sleep idle");
    sleep_ms(1500);
    root = look(&job, "-i 0.01");
    for (unsigned i = 0; i < 3; i++) {
        pid[i] = (pid_t)number_of(rank_of(root, i), "pid");
        before[i] = switches_of(pid[i]);
    }
    json_decref(root);
    for (unsigned i = 0; i < 30; i++)
        json_decref(look(&job, "-i 0.01"));
    for (unsigned i = 0; i < 3; i++)
        assert_in_range(switches_of(pid[i]) - before[i], 0, 8);
    end(&job);
}

/* An arena whose every word is hostile, held by this process. */
static void what_lies_is_shown_and_harms_nobody(void **state)
{
    static const uint32_t peers[] = {0, 1, UINT32_MAX, UINT32_MAX - 1};
    struct nigh_arena_header header = {.magic = NIGH_ARENA_MAGIC,
                                       .version = NIGH_LAYOUT_VERSION,
                                       .bytes = 4 * NIGH_PAGE,
                                       .incarnation = 1,
                                       .job = (uint64_t)getpid() << 32 | 0xbad,
                                       .rank = 0,
                                       .ranks = UINT32_MAX};
    int fd = memfd_create("nigh-arena", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct nigh_arena_note *note;
    char line[128], *text;
    uint8_t *base;

    (void)state;
    assert_int_equal(ftruncate(fd, 4 * NIGH_PAGE), 0);
    base = mmap(NULL, 4 * NIGH_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(base, MAP_FAILED);
    assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
    memcpy(base, &header, sizeof(header));
    note = (struct nigh_arena_note *)(void *)(base + NIGH_PAGE + NIGH_NOTE_OFFSET);
    snprintf(line, sizeof(line), TOP " --once -i 0.02 --job %016llx", (unsigned long long)header.job);
    for (unsigned i = 0; i < 16; i++) {
        memset(base + NIGH_PAGE, i & 4 ? 0xff : 0x1b, NIGH_PAGE);
        note->sequence = i & 8 ? UINT64_MAX : UINT64_MAX - 1;
        note->state_op = (uint64_t)(i & 1 ? NIGH_NOTE_BLOCKED : 77) << 32 | UINT32_MAX;
        note->group_peer = peers[i % 4];
        text = printed(line, 0, false);
        assert_non_null(strstr(text, "4294967295 ranks, 1 here"));
        assert_null(strchr(text, '\033'));
        free(text);
    }
    header.rank = UINT32_MAX;
    memcpy(base, &header, sizeof(header));
    has(line, 1, true, "no rank of job");
    header.version++;
    memcpy(base, &header, sizeof(header));
    has(line, 1, true, "another version of nigh");
    munmap(base, 4 * NIGH_PAGE);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_are_told_apart),
        cmocka_unit_test(queues_are_counted),
        cmocka_unit_test(a_deadlock_is_drawn),
        cmocka_unit_test(a_wait_with_an_end_is_in_no_circle),
        cmocka_unit_test(a_young_circle_is_not_called_a_deadlock),
        cmocka_unit_test(who_ends_is_told),
        cmocka_unit_test(jobs_are_chosen),
        cmocka_unit_test(wrong_usage_is_told),
        cmocka_unit_test(no_job_is_told),
        cmocka_unit_test(nobody_is_disturbed),
        cmocka_unit_test(what_lies_is_shown_and_harms_nobody),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
