/* SPDX-License-Identifier: BSD-3-Clause */
/* hosts/malloc/system.c - see system.h. */
#include "hosts/malloc/system.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

/* ---- the kernel's -------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
static long enter(long number, const long a[6])
{
    register long r10 __asm__("r10") = a[3], r8 __asm__("r8") = a[4], r9 __asm__("r9") = a[5];
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
#elif defined(__aarch64__)
static long enter(long number, const long a[6])
{
    register long x8 __asm__("x8") = number, x0 __asm__("x0") = a[0], x1 __asm__("x1") = a[1];
    register long x2 __asm__("x2") = a[2], x3 __asm__("x3") = a[3], x4 __asm__("x4") = a[4];
    register long x5 __asm__("x5") = a[5];

    __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
    return x0;
}
#else
#error "libnigh-malloc.so knows how x86-64 and aarch64 enter the kernel"
#endif

long nigh_malloc_system_call(long number, const long arguments[6])
{
    long result = enter(number, arguments);

    if ((unsigned long)result <= -4096ul)
        return result;
    errno = (int)-result;
    return -1;
}

#define CALL(...) nigh_malloc_system_call((const long[7]){__VA_ARGS__}[0], (const long[7]){__VA_ARGS__} + 1)

static void *kernel_mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    return (void *)CALL(SYS_mmap, (long)at, (long)bytes, rights, flags, fd, offset);
}

static int kernel_munmap(void *at, size_t bytes)
{
    return (int)CALL(SYS_munmap, (long)at, (long)bytes);
}

static void *kernel_mremap(void *at, size_t before, size_t after, int flags, ...)
{
    void *to = NULL;
    va_list list;

    va_start(list, flags);
    if (flags & MREMAP_FIXED)
        to = va_arg(list, void *);
    va_end(list);
    return (void *)CALL(SYS_mremap, (long)at, (long)before, (long)after, flags, (long)to);
}

static int kernel_madvise(void *at, size_t bytes, int advice)
{
    return (int)CALL(SYS_madvise, (long)at, (long)bytes, advice);
}

static void *kernel_shmat(int id, const void *at, int flags)
{
    return (void *)CALL(SYS_shmat, id, (long)at, flags);
}

static int kernel_remap_file_pages(void *at, size_t bytes, int rights, size_t page, int flags)
{
    return (int)CALL(SYS_remap_file_pages, (long)at, (long)bytes, rights, (long)page, flags);
}

static int kernel_prlimit(pid_t pid, int resource, const struct rlimit *limit, struct rlimit *before)
{
    return (int)CALL(SYS_prlimit64, pid, resource, (long)limit, (long)before);
}

static int kernel_setrlimit(int resource, const struct rlimit *limit)
{
    return kernel_prlimit(0, resource, limit, NULL);
}

struct nigh_malloc_system nigh_malloc_system = {.mmap = kernel_mmap,
                                                .munmap = kernel_munmap,
                                                .mremap = kernel_mremap,
                                                .madvise = kernel_madvise,
                                                .shmat = kernel_shmat,
                                                .remap_file_pages = kernel_remap_file_pages,
                                                .setrlimit = kernel_setrlimit,
                                                .prlimit = kernel_prlimit};

/* ---- the C library's ----------------------------------------------------------------------------------- */

#define FIND(name)                                      \
    do {                                                \
        void *found = dlsym(RTLD_NEXT, #name);          \
        if (found)                                      \
            *(void **)&nigh_malloc_system.name = found; \
    } while (0)

void nigh_malloc_system_find(void)
{
    FIND(mmap);
    FIND(munmap);
    FIND(mremap);
    FIND(madvise);
    FIND(shmat);
    FIND(remap_file_pages);
    FIND(setrlimit);
    FIND(prlimit);
}

/* ---- on our own behalf --------------------------------------------------------------------------------- */

static _Thread_local int depth __attribute__((tls_model("initial-exec")));

bool nigh_malloc_system_is_ours(void)
{
    return depth > 0;
}

void *nigh_malloc_system_mmap(void *at, size_t bytes, int rights, int flags, int fd, off_t offset)
{
    void *memory;

    depth++;
    memory = nigh_malloc_system.mmap(at, bytes, rights, flags, fd, offset);
    depth--;
    return memory;
}

int nigh_malloc_system_munmap(void *at, size_t bytes)
{
    int rc;

    depth++;
    rc = nigh_malloc_system.munmap(at, bytes);
    depth--;
    return rc;
}

int nigh_malloc_system_madvise(void *at, size_t bytes, int advice)
{
    int rc;

    depth++;
    rc = nigh_malloc_system.madvise(at, bytes, advice);
    depth--;
    return rc;
}

bool nigh_malloc_system_move(void *at, size_t bytes, void *to)
{
    void *memory;

    depth++;
    memory = nigh_malloc_system.mremap(at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to);
    depth--;
    return memory != MAP_FAILED;
}
