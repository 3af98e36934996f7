# SPDX-License-Identifier: BSD-3-Clause
# NIGH_CHECK_SYSTEM: the kernel interfaces and compiler abilities without which nothing can be built. Each failure
# names what is missing, because "compiler cannot..." helps nobody.
AC_DEFUN([NIGH_CHECK_SYSTEM], [
    AS_CASE([$host_os], [linux*], [],
        [AC_MSG_ERROR([nigh needs Linux (memfd seals, robust futexes, pidfd); this host is $host_os])])

    AC_CACHE_CHECK([for lock-free 64-bit C11 atomics], [nigh_cv_atomics], [
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[
            #include <stdatomic.h>
            #include <stdint.h>
            _Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "not lock-free");
        ]], [[_Atomic uint64_t x = 0; return (int)atomic_load_explicit(&x, memory_order_acquire);]])],
        [nigh_cv_atomics=yes], [nigh_cv_atomics=no])])
    AS_IF([test "$nigh_cv_atomics" = no],
        [AC_MSG_ERROR([$CC has no lock-free 64-bit C11 atomics for $host_cpu; use a 64-bit target and gcc >= 9 or clang >= 9])])

    AC_CHECK_DECLS([memfd_create, F_ADD_SEALS, SYS_pidfd_open], [],
        [AC_MSG_ERROR([the C library lacks a Linux interface that nigh needs: glibc >= 2.27 and kernel headers >= 5.3])],
        [[
            #include <sys/mman.h>
            #include <sys/syscall.h>
            #include <fcntl.h>
        ]])
    AC_SEARCH_LIBS([dlopen], [dl], [],
        [AC_MSG_ERROR([cannot find dlopen, which loads the transport; on Debian: apt-get install libc6-dev])])
])
