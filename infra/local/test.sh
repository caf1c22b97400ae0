#!/usr/bin/env bash
# All tests, with servers of their own in a fresh folder. The integration tests come last, so that the output ends with
# the test runner's own summary.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=target/test-servers/$$

# A run that was killed could not stop its servers. Its folder is named by its process id.
remove_leftovers() {
    local left
    for left in target/test-servers/*/; do
        if [[ -d $left ]] && ! kill -0 "$(basename "$left")" 2>/dev/null; then
            "$here/servers.sh" stop "$left" >/dev/null
            rm -rf "$left"
        fi
    done
}

# All steps name the whole workspace, so that they share what they build.
run_tests() {
    # Crash tests start the programs as processes of their own.
    cargo build --workspace --locked --bins
    # A second build of our own libraries alone, so that no failpoint gets into the programs above.
    cargo build --package hubferry-chaos --features failpoints --locked
    cargo test --workspace --locked --exclude hubferry-tests
    # What starts whole stacks of processes runs by itself, so that it starves nothing else; the rest comes last.
    cargo test --workspace --locked --test it -- --test-threads=1 stack:: stopped_at_random bootstraps::importing
    cargo test --workspace --locked --test it -- --skip stack:: --skip stopped_at_random --skip bootstraps::importing
}

if [[ ${1:-} == inside ]]; then
    run_tests
else
    cd "$here/../.."
    remove_leftovers
    trap 'rm -rf "$folder"' EXIT
    "$here/with-servers.sh" "$folder" --test -- "${BASH_SOURCE[0]}" inside
fi
