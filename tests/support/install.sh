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

# unpack ARCHITECTURE FOLDER PACKAGE...: the files of packages for another architecture, in a folder. What is installed on
# the machine, and what apt knows of it, stay as they are; no right is needed. Prints why not and returns 1.
unpack() {
    local architecture=$1 folder=$2 apt package
    shift 2
    [ ! -e "$folder/complete" ] || return 0
    command -v apt-get > /dev/null && command -v dpkg-deb > /dev/null || { echo 'not a Debian machine'; return 1; }
    rm -rf "$folder"
    mkdir -p "$folder/apt/lists/partial" "$folder/apt/archives/partial"
    : > "$folder/apt/status"
    apt=(apt-get -qq -o "Dir::State=$folder/apt" -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt"
        -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture" -o APT::Sandbox::User=root)
    if ! { "${apt[@]}" update && cd "$folder/apt" && "${apt[@]}" download "$@"; } > "$folder/apt/log" 2>&1; then
        echo "$(tail -n 1 "$folder/apt/log") (apt-get download $*, for $architecture)"
        return 1
    fi
    for package in *.deb; do
        dpkg-deb -x "$package" "$folder" || return 1
    done
    : > "$folder/complete"
}
