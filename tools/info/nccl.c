/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/nccl.c - the facts: settings as NCCL reads them, and what it opens, tried in a child process. */
#include "tools/info/nccl.h"
#include "tools/home.h"
#include "tools/info/child.h"
#include "tools/info/facts.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { TRY_MS = 20000, VALUE_BYTES = 1024, OVERLAY = 0x794c7630 };

/* ---- settings --------------------------------------------------------------------------------------------- */

bool info_nccl_file(const char *path, const char *name, char *value, size_t room)
{
    size_t length = strlen(name), size = 0;
    FILE *file = fopen(path, "re");
    char *line = NULL;
    bool found = false;

    while (file && !found && getline(&line, &size, file) >= 0) {
        line[strcspn(line, "\n")] = '\0';
        found = strncmp(line, name, length) == 0 && line[length] == '=';
        if (found)
            snprintf(value, room, "%s", line + length + 1);
    }
    free(line);
    if (file)
        fclose(file);
    return found;
}

/* The environment, the user's file, the machine's: the first that has it. */
static const char *setting(const char *name, char value[VALUE_BYTES])
{
    const char *set = getenv(name), *named = getenv("NCCL_CONF_FILE");
    const struct passwd *user = getpwuid(getuid());
    char file[PATH_MAX] = "";

    if (set)
        return set;
    if (named && *named)
        snprintf(file, sizeof(file), "%s", named);
    else if (user && user->pw_dir)
        snprintf(file, sizeof(file), "%s/.nccl.conf", user->pw_dir);
    if (info_nccl_file(file, name, value, VALUE_BYTES) ||
        info_nccl_file("/etc/nccl.conf", name, value, VALUE_BYTES))
        return value;
    return NULL;
}

size_t info_nccl_files(const char *entry, char files[2][INFO_NCCL_NAME])
{
    size_t length = strlen(entry);
    bool whole = strchr(entry, '/') ||
                 (strncmp(entry, "lib", 3) == 0 && length > 3 && strcmp(entry + length - 3, ".so") == 0);

    snprintf(files[0], INFO_NCCL_NAME, "%s", entry);
    if (whole)
        return 1;
    snprintf(files[1], INFO_NCCL_NAME, "libnccl-net-%s.so", entry);
    return 2;
}

/* ---- in the child: what NCCL opens ------------------------------------------------------------------------ */

static char said[512]; /* the last warning of a plugin */

static void __attribute__((format(printf, 5, 6)))
hear(int level, unsigned long flags, const char *file, int line, const char *format, ...)
{
    va_list list;

    (void)flags, (void)file, (void)line;
    va_start(list, format);
    if (level == 2) /* NCCL_LOG_WARN */
        vsnprintf(said, sizeof(said), format, list);
    va_end(list);
}

/* The beginning of v10's table, which tries whether a plugin can begin and leaves nothing open. */
struct table {
    const char *name;
    int (*init)(void (*logger)(int, unsigned long, const char *, int, const char *, ...), void *profiler);
};

static void look_at(json_t *plugin, void *object)
{
    json_t *tables = json_array();
    struct table *table;
    struct link_map *map;
    char symbol[32];

    if (dlinfo(object, RTLD_DI_LINKMAP, &map) == 0)
        json_object_set_new(plugin, "file", json_string(map->l_name));
    for (int version = 12; version >= 10; version--) {
        snprintf(symbol, sizeof(symbol), "ncclNetPlugin_v%d", version);
        table = dlsym(object, symbol);
        if (!table)
            continue;
        json_array_append_new(tables, json_integer(version));
        json_object_set_new(plugin, "name", json_string(table->name));
        if (version == 10 && strcmp(table->name, "nigh") == 0 && table->init(hear, NULL))
            json_object_set_new(plugin, "error", json_string(*said ? said : "its init() fails"));
    }
    if (!json_array_size(tables))
        json_object_set_new(plugin, "error", json_string("it has no table of v10, v11 or v12"));
    json_object_set_new(plugin, "tables", tables);
}

static json_t *open_entry(const char *entry)
{
    json_t *plugin = json_pack("{ss sn sn sn s[]}", "entry", entry, "file", "name", "error", "tables");
    char files[2][INFO_NCCL_NAME];
    size_t count = info_nccl_files(entry, files);
    void *object = NULL;

    for (size_t i = 0; i < count && !object; i++) {
        object = dlopen(files[i], RTLD_NOW | RTLD_LOCAL);
        if (!object)
            json_object_set_new(plugin, "error", json_string(dlerror()));
    }
    if (object) {
        json_object_set_new(plugin, "error", json_null());
        look_at(plugin, object);
    }
    return plugin;
}

static json_t *open_all(const char *list)
{
    json_t *opened = json_array();
    char text[VALUE_BYTES], *rest = text, *entry;

    if (list && strcasecmp(list, "none") == 0)
        return opened;
    snprintf(text, sizeof(text), "%s", list && *list ? list : "libnccl-net.so");
    while ((entry = strsep(&rest, ",")) != NULL)
        if (*entry)
            json_array_append_new(opened, open_entry(entry));
    return opened;
}

static int library_version(void)
{
    void *object = dlopen("libnccl.so.2", RTLD_LAZY | RTLD_LOCAL);
    int (*version)(int *out) = NULL, found = 0;

    if (object)
        *(void **)&version = dlsym(object, "ncclGetVersion");
    return version && version(&found) == 0 ? found : 0;
}

struct trial {
    const char *list, *module;
};

static json_t *try_plugins(const void *data)
{
    const struct trial *trial = data;

    setenv("NIGH_PLUGIN", trial->module, 1); /* the module that is looked at */
    return json_pack("{so si}", "plugins", open_all(trial->list), "version", library_version());
}

/* ---- the directory ---------------------------------------------------------------------------------------- */

static bool in_container(void)
{
    struct statfs root;

    return access("/.dockerenv", F_OK) == 0 || access("/run/.containerenv", F_OK) == 0 ||
           (statfs("/", &root) == 0 && root.f_type == OVERLAY);
}

static void look_at_directory(struct info_nccl *facts)
{
    struct stat directory, root;

    facts->directory = getenv("NIGH_DIR");
    if (facts->directory && !*facts->directory)
        facts->directory = NULL;
    if (!facts->directory)
        return;
    if (stat(facts->directory, &directory) || stat("/", &root)) {
        facts->directory_error = errno;
        return;
    }
    facts->directory_error = S_ISDIR(directory.st_mode) ? 0 : ENOTDIR;
    facts->directory_mode = directory.st_mode & 07777;
    facts->directory_foreign = directory.st_uid != geteuid();
    facts->shared = !in_container()                   ? INFO_SHARED_HERE
                    : directory.st_dev == root.st_dev ? INFO_SHARED_PRIVATE
                                                      : INFO_SHARED_MOUNT;
}

/* ---- the section ------------------------------------------------------------------------------------------ */

static void find_ours(char *path, size_t room)
{
    if (!tool_in_build("hosts/nccl/.libs/libnccl-net-nigh.so", path, room))
        snprintf(path, room, "%s/libnccl-net-nigh.so", NIGH_PKGLIBDIR);
}

json_t *info_nccl(const struct info_plugin *plugin)
{
    static const char *const names[] = {"NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_NET_PLUGIN_REF_COUNT",
                                        "NCCL_NET_DISABLE_INTRA", "NCCL_HOSTID"};
    struct nigh_query_machine machine = {.size = sizeof(machine)};
    uint64_t bytes = sizeof(machine);
    struct info_nccl facts = {0};
    const char **values[] = {&facts.net, &facts.plugin, &facts.ref_count, &facts.disable_intra,
                             &facts.host_id};
    char kept[sizeof(names) / sizeof(names[0])][VALUE_BYTES], ours[PATH_MAX];
    json_t *found, *section;

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        *values[i] = setting(names[i], kept[i]);
    find_ours(ours, sizeof(ours));
    facts.ours = ours;
    found = info_in_child(try_plugins, &(struct trial){facts.plugin, plugin->file}, TRY_MS);
    if (!found)
        return json_pack("{ss}", "error",
                         "the process that was to load NCCL's plugins has ended before it said anything");
    facts.opened = json_object_get(found, "plugins");
    facts.version = (int)json_integer_value(json_object_get(found, "version"));
    look_at_directory(&facts);
    if (plugin->ops->query(NULL, NULL, NIGH_QUERY_MACHINE, &machine, &bytes) == 0)
        facts.cma = machine.cma;
    machine.cma_reason[sizeof(machine.cma_reason) - 1] = '\0';
    facts.cma_reason = machine.cma_reason;
    section = info_nccl_judge(&facts);
    json_decref(found);
    return section;
}
