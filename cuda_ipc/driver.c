/* SPDX-License-Identifier: BSD-3-Clause */
/* cuda_ipc/driver.c - see driver.h. */
#include "cuda_ipc/driver.h"
#include "include/common/descriptor.h"
#include "shm/log.h"
#include "shm/shared.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>

struct symbol {
    const char *name;
    size_t slot;
    enum nigh_driver_group group;
};

static const struct symbol symbols[] = {
#define TAKE(group, member, symbol)                    {#symbol, offsetof(struct nigh_driver, member), group},
#define CORE_SYMBOL(slot, symbol, parameters)          TAKE(NIGH_DRIVER_HAS_NEEDED, slot, symbol)
#define CONTEXT_ID_SYMBOL(slot, symbol, parameters)    TAKE(NIGH_DRIVER_HAS_CONTEXT_ID, slot, symbol)
#define CONTEXT_FLAGS_SYMBOL(slot, symbol, parameters) TAKE(NIGH_DRIVER_HAS_CONTEXT_FLAGS, slot, symbol)
#define UUID_SYMBOL(slot, symbol, parameters)          TAKE(NIGH_DRIVER_HAS_UUID, slot, symbol)
#define MIG_UUID_SYMBOL(slot, symbol, parameters)      TAKE(NIGH_DRIVER_HAS_MIG_UUID, slot, symbol)
#define VMM_SYMBOL(slot, symbol, parameters)           TAKE(NIGH_DRIVER_HAS_VMM, slot, symbol)
#define POOLS_SYMBOL(slot, symbol, parameters)         TAKE(NIGH_DRIVER_HAS_POOLS, slot, symbol)
#define NAMES_SYMBOL(slot, symbol, parameters)         TAKE(NIGH_DRIVER_HAS_NAMES, slot, symbol)
#define RANGES_SYMBOL(slot, symbol, parameters)        TAKE(NIGH_DRIVER_HAS_RANGES, slot, symbol)
#define LEGACY_SYMBOL(slot, symbol, parameters)        TAKE(NIGH_DRIVER_HAS_LEGACY, slot, symbol)
    NIGH_DRIVER_CORE(CORE_SYMBOL) NIGH_DRIVER_CONTEXT_ID(CONTEXT_ID_SYMBOL)
        NIGH_DRIVER_CONTEXT_FLAGS(CONTEXT_FLAGS_SYMBOL) NIGH_DRIVER_UUID(UUID_SYMBOL)
            NIGH_DRIVER_MIG_UUID(MIG_UUID_SYMBOL) NIGH_DRIVER_VMM(VMM_SYMBOL) NIGH_DRIVER_POOLS(POOLS_SYMBOL)
                NIGH_DRIVER_LEGACY(LEGACY_SYMBOL) NIGH_DRIVER_NAMES(NAMES_SYMBOL)
                    NIGH_DRIVER_RANGES(RANGES_SYMBOL)};

static const char *const since[] = {
#define SINCE(name, list, version) version,
    NIGH_DRIVER_ALL(SINCE)
#undef SINCE
};

#define SYMBOLS (sizeof(symbols) / sizeof(symbols[0]))

static struct nigh_driver table;
static bool usable, watched;
static bool started, forked, empty; /* flags alone: the table is handed over by `lock` */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void set_slot(const struct symbol *symbol, void *found)
{
    memcpy((char *)&table + symbol->slot, &found, sizeof(found));
}

static void take_symbols(void *object)
{
    for (size_t i = 0; i < SYMBOLS; i++) {
        enum nigh_driver_group group = symbols[i].group;
        void *found = dlsym(object, symbols[i].name);

        set_slot(&symbols[i], found);
        if (found || table.missing[group])
            continue;
        snprintf(table.missing_text[group], sizeof(table.missing_text[group]),
                 "libcuda.so.1 has no %s: it is older than %s", symbols[i].name, since[group]);
        table.missing[group] = table.missing_text[group];
    }
    for (size_t i = 0; i < SYMBOLS; i++)
        if (table.missing[symbols[i].group])
            set_slot(&symbols[i], NULL);
}

/* NULL, or what is wrong. The library stays loaded: its threads and handlers outlive any user of the table. */
static const char *load(void)
{
    void *object = NIGH_FD_DURING(dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE));

    if (!object)
        return "there is no libcuda.so.1: no CUDA driver is installed";
    memset(&table, 0, sizeof(table));
    take_symbols(object);
    return table.missing[NIGH_DRIVER_HAS_NEEDED];
}

static void in_child(void)
{
    if (nigh_load_relaxed(&started))
        nigh_store_relaxed(&forked, true);
}

static const char *start(void)
{
    static char failed[96];
    int result;

    if (!watched && pthread_atfork(NULL, NULL, in_child))
        return "there is no memory to watch forks";
    watched = true;
    nigh_store_relaxed(&started, true);
    result = NIGH_FD_DURING(table.init(0));
    if (!result)
        result = table.device_count(&table.devices);
    if (!result)
        result = table.version(&table.cuda_version);
    nigh_store_relaxed(&empty, result == NIGH_CUDA_NO_DEVICE || (!result && table.devices == 0));
    if (result) {
        snprintf(failed, sizeof(failed), "the CUDA driver does not start: %s (%d)",
                 nigh_driver_error_name(&table, result), result);
        return failed;
    }
    return table.devices > 0 ? NULL : "the CUDA driver has no device";
}

const struct nigh_driver *nigh_driver_open(const char **why)
{
    const char *wrong = NULL;

    if (nigh_driver_is_forked()) {
        *why = "this process was forked from one that uses CUDA";
        return NULL;
    }
    pthread_mutex_lock(&lock);
    if (!usable) {
        wrong = load();
        if (!wrong)
            wrong = start();
        usable = !wrong;
    }
    pthread_mutex_unlock(&lock);
    *why = wrong;
    return wrong ? NULL : &table;
}

bool nigh_driver_is_empty(void)
{
    return nigh_load_relaxed(&empty);
}

bool nigh_driver_is_forked(void)
{
    return nigh_load_relaxed(&forked);
}

int nigh_driver_errno(int result)
{
    switch (result) {
    case 0:
        return 0;
    case NIGH_CUDA_INVALID_VALUE:
    case NIGH_CUDA_INVALID_HANDLE:
    case NIGH_CUDA_NOT_FOUND:
        return -EINVAL;
    case NIGH_CUDA_OUT_OF_MEMORY:
        return -ENOMEM;
    case NIGH_CUDA_NOT_READY:
        return -EAGAIN;
    case NIGH_CUDA_NOT_SUPPORTED:
    case NIGH_CUDA_NOT_PERMITTED:
    case NIGH_CUDA_PEER_ACCESS_UNSUPPORTED:
    case NIGH_CUDA_TOO_MANY_PEERS:
        return -ENOTSUP;
    case NIGH_CUDA_NO_DEVICE:
    case NIGH_CUDA_INVALID_DEVICE:
        return -ENODEV;
    default:
        return -EIO;
    }
}

const char *nigh_driver_error_name(const struct nigh_driver *driver, int result)
{
    const char *name = NULL;

    return driver->error_name(result, &name) == 0 && name ? name : "unknown";
}

int nigh_driver_check(const struct nigh_driver *driver, const char *call, int result)
{
    if (result)
        nigh_log(NIGH_LOG_WARN, "CUDA: %s fails: %s (%d)", call, nigh_driver_error_name(driver, result),
                 result);
    return nigh_driver_errno(result);
}
