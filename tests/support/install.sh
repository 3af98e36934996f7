# SPDX-License-Identifier: BSD-3-Clause
# Sourced by ./check and ./demo: puts what a fresh Debian machine lacks on it, and says so only when it does.

# need PACKAGE...: installs those that are missing; returns 1 when it cannot.
need() {
    local package missing=() as_root=()
    if ! command -v dpkg-query > /dev/null || ! command -v apt-get > /dev/null; then
        echo "not a Debian machine: install by hand what the next steps miss ($*)"
        return 0
    fi
    for package in "$@"; do
        [ "$(dpkg-query -W -f='${db:Status-Status}' "$package" 2> /dev/null)" = installed ] || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ "$(id -u)" != 0 ]; then
        if ! sudo -n true 2> /dev/null; then
            echo "missing: ${missing[*]}"
            echo "and no right to install them: run as root: apt-get install ${missing[*]}"
            return 1
        fi
        as_root=(sudo -n)
    fi
    echo "installing: ${missing[*]}"
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq update > /dev/null 2>&1
    if ! "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends -y \
        "${missing[@]}" > /dev/null; then
        echo "apt-get could not install: ${missing[*]}"
        return 1
    fi
}
