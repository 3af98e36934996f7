# SPDX-License-Identifier: BSD-3-Clause
# What the searches of Spin models share: each is a case of TAP that says whether the model holds. They are four programs and
# not one, so that each has the driver's time for itself. Exit 77 where spin is missing.
set -u
models=$(cd "$(dirname "$0")" && pwd)
for tool in spin cc; do
    command -v "$tool" > /dev/null || { echo "1..0 # SKIP $tool is not installed: the model was not checked"; exit 77; }
done
work=$(mktemp -d "${TMPDIR:-/tmp}/nigh_model.XXXXXX")
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
number=0 failed=0

# search MODEL NAME WANTED DEFINE...: WANTED is "holds", or what the mutation must be caught by.
search() {
    local model=$1 name=$2 wanted=$3 report found optimize=-O0
    shift 3
    # What fails does so after a fifth of a second, which an optimizer needs four for; what holds is searched to its end.
    [ "$wanted" != holds ] || optimize=-O2
    number=$((number + 1))
    report=$({ spin -a "$@" "$models/$model.pml" && cc $optimize -DSAFETY -DCOLLAPSE -o pan pan.c && timeout 300 ./pan -m1000000; } 2>&1)
    case $report in
    *"errors: 0"*) found=holds ;;
    *"pan:1: invalid end state"*) found=stuck ;;
    *"pan:1: assertion violated"*) found=wrong ;;
    *) found=unfinished ;;
    esac
    if [[ $report == *"max search depth too small"* ]]; then
        found=unfinished
    fi
    if [ "$found" = "$wanted" ]; then
        echo "ok $number - $name: $found ($(grep -o '[0-9]* states, stored' <<< "$report" | head -1))"
    else
        failed=1
        echo "not ok $number - $name: $found, should be $wanted"
        sed 's/^/# /' <<< "$report" | tail -20
    fi
}
