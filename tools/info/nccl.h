/* SPDX-License-Identifier: BSD-3-Clause */
/* tools/info/nccl.h - whether NCCL would find nigh's net plugin here, and use it: the facts, and what follows from them. */
#ifndef NIGH_INFO_NCCL_H
#define NIGH_INFO_NCCL_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

/* Of NIGH_DIR. */
enum info_shared {
    INFO_SHARED_HERE,    /* this process is in no container, as far as can be seen */
    INFO_SHARED_MOUNT,   /* in a container, on a mount of its own: as a shared one is */
    INFO_SHARED_PRIVATE, /* in a container, in that one's own root file system */
};

struct info_nccl {
    /* As NCCL reads them, of the environment or its files; NULL: not set */
    const char *net, *plugin, *ref_count, *disable_intra, *host_id;
    const char *ours; /* the file of nigh's plugin */
    /* What NCCL opens, in its order: entry, file or null with error, name, tables. A name and no error: it can begin. */
    const json_t *opened;
    int version; /* of libnccl.so.2, as 22809; 0: it is not in the library path */
    const char *directory;
    int directory_error; /* errno: it is no directory that can be looked at */
    mode_t directory_mode;
    bool directory_foreign; /* of another user */
    enum info_shared shared;
    bool cma;
    const char *cma_reason;
};

/* The section: "found", "used", "library", "plugins" and "checks", an array of name, value, state and text. Pure. */
json_t *info_nccl_judge(const struct info_nccl *facts);

/* The value that a file of NCCL's settings (NAME=VALUE lines) has for `name`, or false. */
bool info_nccl_file(const char *path, const char *name, char *value, size_t room);

/* The files that NCCL tries for one entry of NCCL_NET_PLUGIN, one after the other. Returns how many: 1 or 2. */
#define INFO_NCCL_NAME 1024
size_t info_nccl_files(const char *entry, char files[2][INFO_NCCL_NAME]);

#endif
