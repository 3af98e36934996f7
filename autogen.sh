#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Makes ./configure out of a fresh checkout. Release tarballs carry it already.
set -eu
cd "$(dirname "$0")"

need() {
    command -v "$1" >/dev/null 2>&1 && return
    echo "autogen.sh: cannot find $1; on Debian: apt-get install $2" >&2
    exit 1
}

need autoreconf autoconf
need automake automake
need libtoolize libtool
need pkg-config pkg-config

exec autoreconf --install --force
