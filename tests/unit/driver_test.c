/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of the CUDA driver's calls: what lacks is named, a group is whole or empty, a driver that does not start is no
 * error for ever, and a forked child gets none. The loader's calls are replaced: there is no driver. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_ipc/driver.h"
#include "shm/log.h"
#include "tests/support/logged.h"
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STUBBORN = 802 };

static const char *lacking; /* the symbol that the library has not */
static bool absent;
static int flags_seen, init_result, devices = 1;
static char library;

static int stub_init(unsigned flags)
{
    return flags ? NIGH_CUDA_INVALID_VALUE : init_result;
}

static int stub_count(int *count)
{
    *count = devices;
    return 0;
}

static int stub_version(int *version)
{
    *version = 13000;
    return 0;
}

static int stub_name(int error, const char **name)
{
    *name = error == STUBBORN ? "CUDA_ERROR_SYSTEM_NOT_READY" : NULL;
    return *name ? 0 : NIGH_CUDA_INVALID_VALUE;
}

static int stub_any(void)
{
    return 0;
}

#define GIVE(symbol, function)     \
    if (strcmp(name, symbol) == 0) \
    return (void *)(uintptr_t)(function)

void *__wrap_dlopen(const char *name, int flags);
void *__real_dlopen(const char *name, int flags);
void *__wrap_dlsym(void *object, const char *name);
void *__real_dlsym(void *object, const char *name);

void *__wrap_dlopen(const char *name, int flags)
{
    if (strcmp(name, "libcuda.so.1") != 0)
        return __real_dlopen(name, flags);
    flags_seen = flags;
    return absent ? NULL : &library;
}

void *__wrap_dlsym(void *object, const char *name)
{
    if (object != &library)
        return __real_dlsym(object, name);
    if (lacking && strcmp(name, lacking) == 0)
        return NULL;
    GIVE("cuInit", stub_init);
    GIVE("cuDeviceGetCount", stub_count);
    GIVE("cuDriverGetVersion", stub_version);
    GIVE("cuGetErrorName", stub_name);
    return (void *)(uintptr_t)stub_any;
}

/* The table is opened once a process, so each case has one. */
static void alone(void (*run)(void))
{
    int status;
    pid_t child = fork();

    assert_true(child >= 0);
    if (!child) {
        run();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* In such a process, where cmocka cannot go on after a failure. */
static void must(bool holds, int line)
{
    if (holds)
        return;
    dprintf(STDOUT_FILENO, "%s:%d does not hold\n", __FILE__, line);
    _exit(1);
}
#define MUST(condition) must(condition, __LINE__)

static const struct nigh_driver *opens(void)
{
    const char *why = "";
    const struct nigh_driver *driver = nigh_driver_open(&why);

    MUST(driver && !why);
    return driver;
}

static void refused_with(const char *text)
{
    const char *why = NULL;

    MUST(!nigh_driver_open(&why));
    MUST(why && strstr(why, text));
}

static void is_absent(void)
{
    absent = true;
    refused_with("there is no libcuda.so.1");
    absent = false;
    opens();
}

static void is_whole(void)
{
    const struct nigh_driver *driver = opens();

    MUST(driver->devices == 1 && driver->cuda_version == 13000);
    MUST(flags_seen == (RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));
    for (int i = 0; i < NIGH_DRIVER_GROUPS; i++)
        MUST(!driver->missing[i]);
#define WHOLE(slot, symbol, parameters) MUST(driver->slot);
#define WHOLE_LIST(name, list, since)   list(WHOLE)
    NIGH_DRIVER_ALL(WHOLE_LIST)
    MUST(driver == opens());
}

static void does_not_start(void)
{
    init_result = STUBBORN;
    refused_with("does not start: CUDA_ERROR_SYSTEM_NOT_READY (802)");
    init_result = 1;
    refused_with("does not start: unknown (1)");
    init_result = 0;
    devices = 0;
    refused_with("has no device");
    devices = 2;
    MUST(opens()->devices == 2);
}

static void no_use_in_children(void)
{
    int status;
    pid_t child;

    MUST(!nigh_driver_is_forked());
    opens();
    child = fork();
    if (!child) {
        refused_with("forked");
        MUST(nigh_driver_is_forked());
        _exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
    MUST(!nigh_driver_is_forked());
    opens();
}

static void before_the_start_children_may(void)
{
    int status;
    pid_t child = fork();

    if (!child) {
        opens();
        _exit(0);
    }
    MUST(waitpid(child, &status, 0) == child && status == 0);
}

/* All symbols in turn are lacking. */
static enum nigh_driver_group group_of_lacking;

static void lacks_one(void)
{
    const struct nigh_driver *driver;

    if (group_of_lacking == NIGH_DRIVER_HAS_NEEDED) {
        refused_with(lacking);
        refused_with("older than CUDA 11");
        return;
    }
    driver = opens();
    MUST(strstr(driver->missing[group_of_lacking], lacking));
    MUST(strstr(driver->missing[group_of_lacking], "older than CUDA 1"));
#define EMPTY(slot, symbol, parameters) \
    empty = empty && !driver->slot;     \
    whole = whole && driver->slot;
#define EMPTY_LIST(name, list, since)                                            \
    {                                                                            \
        bool empty = true, whole = true;                                         \
        list(EMPTY) if (group_of_lacking == NIGH_DRIVER_HAS_##name) MUST(empty); \
        else MUST(whole && !driver->missing[NIGH_DRIVER_HAS_##name]);            \
    }
    NIGH_DRIVER_ALL(EMPTY_LIST)
}

static void library_is_absent(void **state)
{
    (void)state;
    alone(is_absent);
}

static void all_calls_are_found(void **state)
{
    (void)state;
    alone(is_whole);
}

static void each_call_may_lack(void **state)
{
    (void)state;
#define LACK(slot, symbol, parameters) \
    lacking = #symbol;                 \
    alone(lacks_one);
#define LACK_LIST(name, list, since)           \
    group_of_lacking = NIGH_DRIVER_HAS_##name; \
    list(LACK)
    NIGH_DRIVER_ALL(LACK_LIST)
    lacking = NULL;
}

static void driver_does_not_start(void **state)
{
    (void)state;
    alone(does_not_start);
}

static void forked_children_get_none(void **state)
{
    (void)state;
    alone(no_use_in_children);
    alone(before_the_start_children_may);
}

static void errors_have_numbers_and_names(void **state)
{
    struct nigh_driver driver = {.error_name = stub_name};

    (void)state;
    assert_int_equal(nigh_driver_errno(0), 0);
    assert_int_equal(nigh_driver_errno(NIGH_CUDA_OUT_OF_MEMORY), -ENOMEM);
    assert_int_equal(nigh_driver_errno(NIGH_CUDA_NOT_READY), -EAGAIN);
    assert_int_equal(nigh_driver_errno(NIGH_CUDA_NOT_SUPPORTED), -ENOTSUP);
    assert_int_equal(nigh_driver_errno(NIGH_CUDA_INVALID_DEVICE), -ENODEV);
    assert_int_equal(nigh_driver_errno(NIGH_CUDA_INVALID_VALUE), -EINVAL);
    assert_int_equal(nigh_driver_errno(719), -EIO);
    logged_begin();
    assert_int_equal(nigh_driver_check(&driver, "cuThing", STUBBORN), -EIO);
    logged_assert_has("cuThing fails: CUDA_ERROR_SYSTEM_NOT_READY (802)");
    assert_int_equal(nigh_driver_check(&driver, "cuThing", 0), 0);
    logged_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(library_is_absent),        cmocka_unit_test(all_calls_are_found),
        cmocka_unit_test(each_call_may_lack),       cmocka_unit_test(driver_does_not_start),
        cmocka_unit_test(forked_children_get_none), cmocka_unit_test(errors_have_numbers_and_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
