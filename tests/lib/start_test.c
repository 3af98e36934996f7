/* SPDX-License-Identifier: BSD-3-Clause */
/* Starting: alone, from a launcher's variables, with what is wrong refused by name; and ending all at once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nigh/nigh.h"
#include "tests/support/capture.h"
#include <errno.h>
#include <linux/sched.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void clear(void)
{
    static const char *const names[] = {"NIGH_RANK",   "NIGH_SIZE",  "NIGH_JOB",          "NIGH_TIMEOUT",
                                        "NIGH_STRICT", "NIGH_DEBUG", "NIGH_PROGRESS",     "NIGH_THREADS",
                                        "NIGH_STALL",  "NIGH_LOG",   "NIGH_PROGRESS_CPUS"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        unsetenv(names[i]);
}

static void test_alone(void **state)
{
    int rank = -1, size = -1, out = 5, in = 0;

    (void)state;
    clear();
    assert_int_equal(nigh_init(NULL), 0);
    assert_int_equal(nigh_comm_rank(nigh_world(), &rank), 0);
    assert_int_equal(nigh_comm_size(nigh_world(), &size), 0);
    assert_int_equal(rank, 0);
    assert_int_equal(size, 1);
    assert_int_equal(nigh_sendrecv(&out, 4, 0, 1, &in, 4, 0, 1, nigh_world(), NULL), 0);
    assert_int_equal(in, 5);
    assert_non_null(nigh_plugin());
    assert_non_null(nigh_plugin_context());
    assert_string_equal(nigh_plugin()->name, "nigh");
    assert_int_equal(nigh_finalize(), 0);
    assert_string_equal(nigh_error_text(), "");
}

static void test_from_the_environment(void **state)
{
    int rank = -1, size = -1;

    (void)state;
    clear();
    setenv("NIGH_RANK", "0", 1);
    setenv("NIGH_SIZE", "1", 1);
    setenv("NIGH_JOB", "77aa", 1);
    assert_int_equal(nigh_init(NULL), 0);
    assert_int_equal(nigh_comm_rank(nigh_world(), &rank), 0);
    assert_int_equal(nigh_comm_size(nigh_world(), &size), 0);
    assert_int_equal(rank, 0);
    assert_int_equal(size, 1);
    assert_int_equal(nigh_finalize(), 0);
    clear();
}

/* Makes a locale in which numbers have a decimal comma and an I has a small letter without a dot, and uses it. False: it
 * cannot be made here. */
static bool use_turkish(char *folder)
{
    char command[200];

    if (!mkdtemp(folder))
        return false;
    snprintf(command, sizeof(command), "localedef -i tr_TR -f ISO-8859-9 %s/tr_TR > /dev/null 2>&1", folder);
    return system(command) == 0 && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_ALL, "tr_TR") &&
           *localeconv()->decimal_point == ',';
}

static void leave_turkish(const char *folder)
{
    char command[200];

    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof(command), "rm -rf %s", folder);
    assert_int_equal(system(command), 0);
}

static void test_in_any_locale(void **state)
{
    char folder[] = "/tmp/nigh-locale.XXXXXX";
    bool made = use_turkish(folder);

    (void)state;
    if (!made) {
        leave_turkish(folder);
        print_message("no locale with a decimal comma can be made (package locales)\n");
        skip();
    }
    clear();
    setenv("NIGH_STALL", "0.3", 1);
    setenv("NIGH_TIMEOUT", "1.5", 1);
    setenv("NIGH_THREADS", "MULTIPLE", 1);
    setenv("NIGH_LOG", "INFO", 1);
    setenv("NIGH_PATH", "CHUNKED", 1);
    assert_int_equal(nigh_init(NULL), 0);
    assert_int_equal(nigh_finalize(), 0);
    unsetenv("NIGH_PATH");
    leave_turkish(folder);
    clear();
}

static void refused(struct nigh_config *config, int error, const char *part)
{
    assert_int_equal(nigh_init(config), error);
    if (!strstr(nigh_error_text(), part))
        fail_msg("\"%s\" does not say \"%s\"", nigh_error_text(), part);
    assert_int_equal(nigh_initialized(), 0);
}

static void test_refused(void **state)
{
    struct nigh_config config = {.size = 8};

    (void)state;
    clear();
    refused(&config, -EINVAL, "nigh_config.size is 8");
    config = (struct nigh_config){.size = sizeof(config), .reserved = {0, 1}};
    refused(&config, -EINVAL, "reserved");
    config = (struct nigh_config){.size = sizeof(config), .set = 1, .rank = 3, .ranks = 3};
    refused(&config, -EINVAL, "rank 3 of 3");
    config = (struct nigh_config){.size = sizeof(config), .set = 1};
    refused(&config, -EINVAL, "rank 0 of 0");
    config = (struct nigh_config){.size = sizeof(config), .timeout = -1};
    refused(&config, -EINVAL, "timeout");
    config = (struct nigh_config){.size = sizeof(config), .plugin = "/nowhere/at/all.so"};
    refused(&config, -ENOENT, "/nowhere/at/all.so");
    config = (struct nigh_config){.size = sizeof(config), .plugin = "libc.so.6"};
    refused(&config, -EPROTO, "no symbol nigh_transport");
}

static void test_older_plugin(void **state)
{
    const char *real = getenv("NIGH_PLUGIN"), *folder = getenv("NIGH_BUILDDIR");
    struct nigh_config config = {.size = sizeof(config)};
    char file[600];

    (void)state;
    clear();
    snprintf(file, sizeof(file), "%s/tests/support/.libs/scarceplugin.so", folder ? folder : ".");
    config.plugin = file;
    refused(&config, -EPROTO, "refuses ABI 1.");
    assert_non_null(real);
    setenv("NIGH_REAL_PLUGIN", real, 1);
    setenv("NIGH_SCARCE_SLOTS", "1", 1);
    refused(&config, -EPROTO, "lacks slots");
    unsetenv("NIGH_SCARCE_SLOTS");
    assert_int_equal(nigh_init(&config), 0);
    assert_int_equal(nigh_finalize(), 0);
    unsetenv("NIGH_REAL_PLUGIN");
}

static void refused_variable(const char *name, const char *value)
{
    clear();
    setenv(name, value, 1);
    refused(NULL, -EINVAL, name);
    clear();
}

static void test_variables(void **state)
{
    (void)state;
    refused_variable("NIGH_TIMEOUT", "soon");
    refused_variable("NIGH_TIMEOUT", "-3");
    refused_variable("NIGH_STALL", "0.3s");
    refused_variable("NIGH_STRICT", "perhaps");
    refused_variable("NIGH_DEBUG", "2");
    refused_variable("NIGH_PROGRESS", "maybe");
    refused_variable("NIGH_PROGRESS_CPUS", "near");
    refused_variable("NIGH_PROGRESS_CPUS", "1-");
    refused_variable("NIGH_PROGRESS_CPUS", "3-2");
    refused_variable("NIGH_PROGRESS_CPUS", "0,4096");
    refused_variable("NIGH_PROGRESS_CPUS", "0;1");
    refused_variable("NIGH_LOG", "loud");
}

/* The table is there for what the library lacks: its completions and the library's do not get in each other's way. */
static void test_beside(void **state)
{
    struct nigh_completion done[4];
    struct nigh_connect to = {.size = sizeof(to), .source = NIGH_SOURCE_NONE};
    struct nigh_recv recv = {.size = sizeof(recv), .tag = 3, .context = 77};
    struct nigh_send send = {.size = sizeof(send), .tag = 3, .context = 78};
    struct nigh_endpoint *self;
    nigh_request request;
    int out = 5, in = 0, flag = 0, mine = 0;

    (void)state;
    clear();
    assert_int_equal(nigh_init(NULL), 0);
    assert_int_equal(nigh_plugin()->connect(nigh_plugin_context(), &to, &self), 0);
    assert_int_equal(nigh_plugin()->post_recv(nigh_plugin_context(), NULL, &recv), 0);
    assert_int_equal(nigh_plugin()->post_send(self, &send), 0);
    assert_int_equal(nigh_irecv(&in, 4, 0, 1, nigh_world(), &request), 0);
    assert_int_equal(nigh_send(&out, 4, 0, 1, nigh_world()), 0);
    assert_int_equal(nigh_wait(&request, NULL), 0);
    assert_int_equal(in, 5);
    assert_int_equal(nigh_iprobe(0, NIGH_ANY_TAG, nigh_world(), &flag, NULL), 0);
    assert_int_equal(flag, 0);
    while (mine < 2) {
        int more = nigh_plugin_poll(done + mine, 1);

        assert_in_range(more, 0, 1);
        mine += more;
    }
    assert_int_equal(done[0].context + done[1].context, 77 + 78);
    assert_int_equal(nigh_plugin_poll(done, 4), 0);
    assert_int_equal(nigh_plugin_poll(NULL, 4), -EINVAL);
    assert_int_equal(nigh_plugin()->disconnect(self), 0);
    assert_int_equal(nigh_finalize(), 0);
}

/* The variable of the plugin decides; and a rank that is there twice is refused. */
static void test_twice(void **state)
{
    struct nigh_config config = {.size = sizeof(config), .set = 1, .ranks = 1, .job = 0x1234567};
    struct nigh_open options = {.size = sizeof(options), .ranks = 1, .job = 0x1234567};
    const struct nigh_ops *ops;
    struct nigh_context *context;

    (void)state;
    clear();
    assert_int_equal(nigh_init(NULL), 0);
    ops = nigh_plugin();
    assert_int_equal(ops->open(&options, &context), 0);
    assert_int_equal(nigh_finalize(), 0);
    refused(&config, -EADDRINUSE, "cannot be joined");
    assert_int_equal(ops->close(context), 0);
    assert_int_equal(nigh_init(&config), 0);
    assert_int_equal(nigh_finalize(), 0);
}

/* Under the launcher, and all ended by one. */
static void test_launched(void **state)
{
    struct capture run;

    (void)state;
    capture_run(&run, "$RUN -n 3 $BIN/ring");
    if (run.status != 0 || !strstr(run.out, "0 1 2"))
        fail_msg("status %d: %s%s", run.status, run.out, run.err);
    capture_free(&run);
    capture_run(&run, "$RUN -n 3 $BIN/ring abort");
    if (run.status != 7)
        fail_msg("status %d: %s%s", run.status, run.out, run.err);
    assert_true(run.seconds < 200);
    capture_free(&run);
}

/* ---- a rank that aborts, and what gets the process number of its victim ---- */

static void join(uint32_t rank, uint64_t job)
{
    struct nigh_config config = {.size = sizeof(config), .set = 1, .rank = rank, .ranks = 2, .job = job};
    int value = 0;

    alarm(300);
    if (nigh_init(&config) || nigh_send(&value, sizeof(value), (int)(1 - rank), 1, nigh_world()) ||
        nigh_recv(&value, sizeof(value), (int)(1 - rank), 1, nigh_world(), NIGH_STATUS_IGNORE))
        _exit(1);
    if (rank == 0)
        nigh_abort(3);
    for (;;)
        pause();
}

static pid_t start_rank(uint32_t rank, uint64_t job)
{
    pid_t pid = fork();

    if (pid == 0)
        join(rank, job);
    assert_true(pid > 0);
    return pid;
}

/* A process of this number; -errno where that is not allowed. */
static pid_t fork_as(pid_t pid)
{
    pid_t numbers[1] = {pid};
    struct clone_args arguments = {.exit_signal = SIGCHLD, .set_tid = (uintptr_t)numbers, .set_tid_size = 1};
    long child = syscall(SYS_clone3, &arguments, sizeof(arguments));

    return child < 0 ? -errno : (pid_t)child;
}

static void test_number_of_another(void **state)
{
    uint64_t job = (uint64_t)getpid() << 32 | 999;
    pid_t victim = start_rank(1, job), aborts = start_rank(0, job), other;
    struct timespec nap = {.tv_sec = 4};
    int status;

    (void)state;
    assert_int_equal(waitpid(aborts, &status, 0), aborts);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    assert_int_equal(waitpid(victim, &status, 0), victim);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
    other = fork_as(victim);
    if (other == 0) {
        nanosleep(&nap, NULL);
        _exit(0);
    }
    if (other == -EPERM || other == -ENOSYS || other == -EINVAL) {
        print_message("skip: a process may not be given a number of choice here\n");
        skip();
    }
    assert_int_equal(other, victim);
    assert_int_equal(waitpid(other, &status, 0), other);
    if (!WIFEXITED(status))
        fail_msg("the process that got the number %d was ended by signal %d", other, WTERMSIG(status));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_alone),     cmocka_unit_test(test_from_the_environment),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_older_plugin),
        cmocka_unit_test(test_variables), cmocka_unit_test(test_in_any_locale),
        cmocka_unit_test(test_twice),     cmocka_unit_test(test_beside),
        cmocka_unit_test(test_launched),  cmocka_unit_test(test_number_of_another),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
