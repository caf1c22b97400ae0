#!/usr/bin/env bash
# Runs a command while the servers of a folder run, and stops them when it ends, however it ends.
#
#   with-servers.sh FOLDER [--test] -- COMMAND [ARGUMENT…]
#
# The command sees the variables of FOLDER/stack.env.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$1
shift
options=()
while [[ $1 != -- ]]; do
    options+=("$1")
    shift
done
shift

# A second Ctrl-C while the servers stop would leave one behind.
# shellcheck disable=SC2317 # the trap calls it
stop_servers() {
    trap '' INT TERM HUP
    if [[ " ${options[*]-} " == *" --test "* ]]; then
        # What the tests said is to be the last word; an error still speaks.
        "$here/servers.sh" stop "$folder" >/dev/null
    else
        "$here/servers.sh" stop "$folder"
    fi
}
trap stop_servers EXIT

# Ctrl-C reaches the command by itself, as it reaches every process of the terminal; this shell waits for it to end.
# What is sent to this shell alone is passed on.
child='' interrupted=no
trap 'interrupted=yes' INT
trap '[[ -z $child ]] || kill -TERM "$child" 2>/dev/null || true' TERM HUP

"$here/servers.sh" start "$folder" ${options[@]+"${options[@]}"}
[[ $interrupted == no ]] || exit 130
set -a
# shellcheck source=/dev/null
source "$folder/stack.env"
set +a

# A shell lets its background commands ignore Ctrl-C, unless told otherwise.
(trap - INT QUIT && exec "$@") <&0 &
child=$!
# A trapped signal ends `wait` early, with a status of its own.
while :; do
    status=0
    wait "$child" || status=$?
    kill -0 "$child" 2>/dev/null || break
done
exit "$status"
