# SPDX-License-Identifier: BSD-3-Clause
# NIGH_CHECK_SANITIZER: --enable-sanitizer=LIST builds everything with the named sanitizers of the compiler. A list
# that the compiler cannot link is an error, never a build that silently has none.
AC_DEFUN([NIGH_CHECK_SANITIZER], [
    SANITIZER_CFLAGS=
    AC_ARG_ENABLE([sanitizer],
        [AS_HELP_STRING([--enable-sanitizer=LIST], [build with `address,undefined' or `thread'])],
        [], [enable_sanitizer=no])
    AS_CASE([$enable_sanitizer],
        [no], [],
        [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list: address,undefined or thread])],
        [*address*thread*|*thread*address*],
            [AC_MSG_ERROR([--enable-sanitizer=$enable_sanitizer: address and thread cannot be combined])],
        [SANITIZER_CFLAGS="-fsanitize=$enable_sanitizer -fno-omit-frame-pointer -fno-sanitize-recover=all"
         AC_MSG_CHECKING([whether $CC links with $SANITIZER_CFLAGS])
         nigh_saved_CFLAGS=$CFLAGS
         CFLAGS="$CFLAGS $SANITIZER_CFLAGS"
         AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
             [AC_MSG_RESULT([no])
              AC_MSG_ERROR([$CC cannot link with -fsanitize=$enable_sanitizer; install its runtime (on Debian: libasan8, libtsan2, libubsan1 or libclang-rt-dev)])])
         CFLAGS=$nigh_saved_CFLAGS])
    dnl The thread sanitizer follows acquire and release but not fences, and gcc says so at each one. Data are handed
    dnl over by acquire and release alone; the fences order flags, which are atomic themselves.
    AS_CASE([$enable_sanitizer], [*thread*], [NIGH_PROBE_CFLAG([-Wno-tsan])])
    AC_SUBST([SANITIZER_CFLAGS])
    dnl A symbol that tests are linked with there, and with it what defines it: see tests/support/calm.c.
    CALM_FORKS=
    AS_CASE([$enable_sanitizer], [*address*], [CALM_FORKS=-Wl,-u,nigh_calm_forks])
    AC_SUBST([CALM_FORKS])
    AM_CONDITIONAL([SANITIZED], [test -n "$SANITIZER_CFLAGS"])
])
