# SPDX-License-Identifier: BSD-3-Clause
# NIGH_CHECK_WARNINGS: WARN_CFLAGS holds the warnings that this compiler knows. They never go into CFLAGS, which is
# the user's, and -Werror is for ./check: a newer compiler's new warning must not stop somebody's build.
AC_DEFUN([NIGH_PROBE_CFLAG], [
    AS_VAR_PUSHDEF([cache], [nigh_cv_cflag_$1])
    AC_CACHE_CHECK([whether $CC takes $1], [cache], [
        nigh_saved_CFLAGS=$CFLAGS
        CFLAGS="$CFLAGS -Werror $1"
        AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AS_VAR_SET([cache], [yes])], [AS_VAR_SET([cache], [no])])
        CFLAGS=$nigh_saved_CFLAGS])
    AS_VAR_IF([cache], [yes], [WARN_CFLAGS="$WARN_CFLAGS $1"])
    AS_VAR_POPDEF([cache])
])

AC_DEFUN([NIGH_CHECK_WARNINGS], [
    WARN_CFLAGS=
    m4_foreach_w([flag], [-Wall -Wextra -Wstrict-prototypes -Wmissing-prototypes -Wold-style-definition -Wvla
                          -Wpointer-arith -Wwrite-strings -Wundef -Wformat=2],
                 [NIGH_PROBE_CFLAG(flag)])
    AC_ARG_ENABLE([werror],
        [AS_HELP_STRING([--enable-werror], [treat warnings as errors (used by ./check)])], [], [enable_werror=no])
    AS_IF([test "$enable_werror" = yes], [WARN_CFLAGS="$WARN_CFLAGS -Werror"])
    AC_SUBST([WARN_CFLAGS])
])
