/* SPDX-License-Identifier: BSD-3-Clause */
/* libnigh in a program that is not linked with it, as interpreters load it: it needs next to none of the little
 * thread-local memory that is left by then, and each thread still has an error of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define NIGH_NO_SITES
#include "nigh/nigh.h"
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct {
    __typeof__(&nigh_init) init;
    __typeof__(&nigh_finalize) finalize;
    __typeof__(&nigh_world) world;
    __typeof__(&nigh_sendrecv) sendrecv;
    __typeof__(&nigh_error_text) error_text;
} lib;

static void *symbol(void *object, const char *name)
{
    void *found = dlsym(object, name);

    if (!found)
        fail_msg("%s", dlerror());
    return found;
}

static void load(void)
{
    const char *folder = getenv("NIGH_BUILDDIR");
    char file[600];
    void *object;

    snprintf(file, sizeof(file), "%s/lib/.libs/libnigh.so", folder ? folder : ".");
    object = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        fail_msg("%s", dlerror());
    *(void **)&lib.init = symbol(object, "nigh_init");
    *(void **)&lib.finalize = symbol(object, "nigh_finalize");
    *(void **)&lib.world = symbol(object, "nigh_world");
    *(void **)&lib.sendrecv = symbol(object, "nigh_sendrecv");
    *(void **)&lib.error_text = symbol(object, "nigh_error_text");
}

static void *err_elsewhere(void *unused)
{
    struct nigh_config config = {.size = 1};

    (void)unused;
    assert_string_equal(lib.error_text(), "");
    assert_int_equal(lib.init(&config), -EINVAL);
    assert_non_null(strstr(lib.error_text(), "nigh_config.size is 1"));
    return NULL;
}

static void test_loaded(void **state)
{
    struct nigh_config none = {.size = 8};
    int out = 5, in = 0;
    pthread_t thread;

    (void)state;
    load();
    assert_string_equal(lib.error_text(), "");
    assert_int_equal(lib.init(&none), -EINVAL);
    assert_int_equal(pthread_create(&thread, NULL, err_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(strstr(lib.error_text(), "nigh_config.size is 8"));
    assert_int_equal(lib.init(NULL), 0);
    assert_int_equal(lib.sendrecv(&out, 4, 0, 1, &in, 4, 0, 1, lib.world(), NULL), 0);
    assert_int_equal(in, 5);
    assert_int_equal(lib.finalize(), 0);
}

/* A host that unloads the object with a context open: its thread, forks and further calls find the code. */
static void test_unloaded_while_open(void **state)
{
    const char *plugin = getenv("NIGH_PLUGIN");
    struct nigh_open options = {.size = sizeof(options), .job = (uint64_t)getpid(), .ranks = 2};
    struct nigh_connect peer = {.size = sizeof(peer), .rank = 1, .source = NIGH_SOURCE_NONE};
    struct nigh_endpoint *endpoint;
    struct nigh_context *context;
    const struct nigh_ops *ops;
    nigh_transport_fn entry;
    void *object;
    pid_t child;
    int status;

    (void)state;
    assert_non_null(plugin);
    object = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        fail_msg("%s", dlerror());
    *(void **)&entry = symbol(object, NIGH_SYMBOL);
    ops = entry(NIGH_ABI);
    assert_non_null(ops);
    assert_int_equal(ops->open(&options, &context), 0);
    assert_int_equal(ops->connect(context, &peer, &endpoint), 0); /* nobody is there: redials go on */
    assert_int_equal(dlclose(object), 0);
    assert_int_equal(ops->wait(context, 20000000), -ETIMEDOUT);
    child = fork();
    if (child == 0)
        _exit(ops->disconnect(endpoint) == -ECHILD ? 0 : 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    ops->close(context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_loaded),
                                       cmocka_unit_test(test_unloaded_while_open)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
