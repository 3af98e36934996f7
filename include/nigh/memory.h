/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nigh/memory.h - memory of a program that its peers may map: what it mallocs lies in a file in memory, and who is sent
 * some of it copies it straight from there, as out of nigh's heap, where it would otherwise ask the kernel to
 * (process_vm_readv), which takes twice as long. libnigh-malloc.so makes the large blocks of any program so
 * (LD_PRELOAD); a program with an allocator of its own may do it instead.
 */
#ifndef NIGH_MEMORY_H
#define NIGH_MEMORY_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The file: a memfd of ordinary pages, sealed at least SHRINK and GROW. Its first page is always mapped, shared. The rest
 * is mapped shared and writable where the program has memory of it, at `base` + its offset in the file and nowhere else:
 *
 *   0       struct nigh_memory_head    written once; `taken_back` when the memory is no longer shared
 *   4 KiB   the program's
 *
 * Peers map it read-only, and hold it until they have disconnected, or ended: the pages of a process that has died are
 * theirs until then.
 */
struct nigh_memory_head {
    uint64_t id; /* random, not 0: two files of two programs differ in it */
    /* Not 0: the owner's memory may differ from the file's from now on, as it does when its mapping becomes
     * private (before a fork: else both processes would write to one memory), or when the program maps something else
     * at any address of it. Peers look at it before they copy. nigh sets it, too, where the kernel tells it of that.
     * Written by pwrite(), or through the mapping, before that changes; never 0 again. What is being sent meanwhile stays in the
     * file as it is, for its sender does not change it before it is over. */
    uint32_t taken_back;
    uint32_t reserved[13]; /* zero */
};

struct nigh_memory {
    uint32_t size;  /* sizeof(struct nigh_memory), set by who asks */
    int32_t fd;     /* stays open under this number as long as the process lives */
    uint64_t base;  /* where the file's beginning is mapped, in whole pages of 4 KiB */
    uint64_t bytes; /* of the file, in whole pages, at most 16 TiB */
    uint64_t id;    /* as in its head */
};

/*
 * Exported by whoever has such memory; each context asks for it when it is opened, and tells its peers. It is used
 * by those that may read this process anyhow (process_vm_readv), and that get at the descriptor by pidfd_getfd(),
 * which asks for the same rights. Any thread. 0 and *out, or -ENOENT: there is none (any more), and *out is not
 * written.
 */
int nigh_memory(struct nigh_memory *out);
typedef int nigh_memory_fn(struct nigh_memory *out);

#ifdef __cplusplus
}
#endif

#endif
