#!/usr/bin/env bash
# HubSpot's client library for Node in a folder of its own, where Node and npm are installed: tests compare signatures with
# it. Where they are not, or nothing can be downloaded, this says so, and those tests say that they are left out.
#
#   node-client.sh DIR PACKAGE@VERSION
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source-path=SCRIPTDIR
source "$here/machine.sh"

# Debian 12 has 18, and the library asks for no more.
readonly NODE_LEAST_VERSION=18

main() {
    local folder=$1 package=$2
    rm -rf "$folder"
    if ! have_node; then
        say "Node $NODE_LEAST_VERSION or later with npm is not here: the tests against HubSpot's client for Node are left out"
        return 0
    fi
    say "installing $package in $folder"
    mkdir -p "$folder"
    printf '{"private": true}\n' >"$folder/package.json"
    # No package runs scripts of its own here, and nothing is written outside the folder.
    if (cd "$folder" && npm install --silent --no-audit --no-fund --no-package-lock --ignore-scripts "$package"); then
        touch "$folder/ready"
    else
        rm -rf "$folder"
        say "npm could not install $package: the tests against HubSpot's client for Node are left out"
    fi
}

have_node() {
    local version
    command -v npm >/dev/null || return 1
    version=$(node --version 2>/dev/null) || return 1
    version=${version#v}
    ((${version%%.*} >= NODE_LEAST_VERSION))
}

main "$@"
