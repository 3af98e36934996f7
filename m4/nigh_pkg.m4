# SPDX-License-Identifier: BSD-3-Clause
# Libraries found by pkg-config. What is required stops configure with the Debian package that has it; what is
# optional is noted for the summary, so that nothing is left out silently.

# NIGH_REQUIRE_PKG(VAR, MODULE, DEBIAN-PACKAGE, USED-FOR)
AC_DEFUN([NIGH_REQUIRE_PKG], [
    PKG_CHECK_MODULES([$1], [$2], [nigh_found="$nigh_found [$3]"],
        [AC_MSG_ERROR([cannot find $2, needed for $4; on Debian: apt-get install [$3]])])
])

# NIGH_OPTIONAL_PKG(VAR, MODULE, DEBIAN-PACKAGE, WHAT-IS-LEFT-OUT-WITHOUT-IT): conditional HAVE_VAR
AC_DEFUN([NIGH_OPTIONAL_PKG], [
    PKG_CHECK_MODULES([$1], [$2], [have_$1=yes; nigh_found="$nigh_found [$3]"],
        [have_$1=no
         nigh_left_out="$nigh_left_out
    $4: no $2 (on Debian: apt-get install [$3])"])
    AM_CONDITIONAL([HAVE_$1], [test "$have_$1" = yes])
])
