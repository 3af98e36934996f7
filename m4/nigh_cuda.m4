# SPDX-License-Identifier: BSD-3-Clause
# NIGH_CHECK_CUDA: where the toolkit's cuda.h is. nigh is built the same with and without it; one test compares what
# cuda_ipc/abi.h declares with it. CUDA_H is the file's path in quotes; HAVE_CUDA_H the conditional.
AC_DEFUN([NIGH_CHECK_CUDA], [
    AC_ARG_WITH([cuda],
        [AS_HELP_STRING([--with-cuda=DIR], [the CUDA toolkit whose cuda.h tests/abi/cuda_test compares with; `no': none])],
        [], [with_cuda=search])
    AC_MSG_CHECKING([for cuda.h])
    nigh_cuda_h=
    AS_CASE([$with_cuda],
        [no], [],
        [search|yes], [
            # nvcc may be a script that hands over to the toolkit's own: a dry run prints the folder.
            nigh_cuda_top=`nvcc --dryrun x.cu 2>&1 | sed -n 's/^#\$ TOP=//p' | sed 1q`
            nigh_cuda_python=`python3 -c 'import glob, os, sysconfig
print(" ".join(sorted(glob.glob(os.path.join(sysconfig.get_paths()@<:@"purelib"@:>@, "nvidia", "*", "include")))))' 2> /dev/null`
            for nigh_dir in ${CUDA_HOME:+"$CUDA_HOME/include"} ${CUDA_PATH:+"$CUDA_PATH/include"} \
                ${nigh_cuda_top:+"$nigh_cuda_top/include"} /usr/local/cuda/include /opt/cuda/include /usr/include \
                $nigh_cuda_python; do
                AS_IF([test -z "$nigh_cuda_h" && test -r "$nigh_dir/cuda.h"], [nigh_cuda_h=$nigh_dir/cuda.h])
            done],
        [for nigh_dir in "$with_cuda/include" "$with_cuda"; do
             AS_IF([test -z "$nigh_cuda_h" && test -r "$nigh_dir/cuda.h"], [nigh_cuda_h=$nigh_dir/cuda.h])
         done
         AS_IF([test -z "$nigh_cuda_h"],
             [AC_MSG_ERROR([--with-cuda=$with_cuda: there is neither $with_cuda/include/cuda.h nor $with_cuda/cuda.h])])])
    AS_IF([test -n "$nigh_cuda_h"],
        [AC_MSG_RESULT([$nigh_cuda_h])
         nigh_found="$nigh_found cuda.h"],
        [AC_MSG_RESULT([no])
         nigh_left_out="$nigh_left_out
    the comparison of CUDA's numbers with the toolkit's (tests/abi/cuda_test): no cuda.h"])
    AC_SUBST([CUDA_H], [$nigh_cuda_h])
    AM_CONDITIONAL([HAVE_CUDA_H], [test -n "$nigh_cuda_h"])
])
