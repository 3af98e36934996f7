# SPDX-License-Identifier: BSD-3-Clause
# NIGH_SUMMARY: the last thing configure says: what will be built, with what, and what is left out and why.
AC_DEFUN([NIGH_SUMMARY], [
    AS_ECHO(["
nigh $PACKAGE_VERSION for $host
  compiler     $CC $CFLAGS
  warnings    $WARN_CFLAGS
  sanitizer    $enable_sanitizer
  found       $nigh_found
  prefix       $prefix
  left out     ${nigh_left_out:-nothing}
"])
])
