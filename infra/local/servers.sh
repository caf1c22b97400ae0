#!/usr/bin/env bash
# A PostgreSQL and a Redis of this folder's own: on free ports of 127.0.0.1, with random passwords.
# They share nothing with servers that the machine runs for somebody else.
#
#   servers.sh install [--test]        install what is missing (with --test also what `make test` needs)
#   servers.sh start  [DIR] [--test]   start both, or reuse what runs; writes DIR/stack.env
#   servers.sh stop   [DIR]            stop both; the data stays
#   servers.sh status [DIR]            say what runs; exit status 1 unless both do
#
# DIR is `.local` unless given. DIR/stack.env holds HUBFERRY_DATABASE_URL and HUBFERRY_REDIS_URL. A variable of that name
# which is already set names a running server: it goes into stack.env as it is, and no server of that sort is started.
# With --test the names are HUBFERRY_TEST_DATABASE_URL and HUBFERRY_TEST_REDIS_URL, so that tests never meet a database
# that somebody works with, and PostgreSQL trades durability for speed. HUBFERRY_TEST_PGBENCH then names the program pgbench.
# shellcheck source-path=SCRIPTDIR
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
source "$here/machine.sh"
source "$here/install.sh"
source "$here/postgres.sh"
source "$here/redis.sh"

# Another start of the same folder holds the lock for as long as servers take to start.
readonly LOCK_WAIT_SECONDS=120

main() {
    local command=${1:-} mode=run folder=.local argument
    for argument in "${@:2}"; do
        case $argument in
        --test) mode="test" ;;
        -*) fail "unknown option $argument of servers.sh" ;;
        *) folder=$argument ;;
        esac
    done
    case $command in
    install) install_missing "$mode" ;;
    start) start_all "$folder" "$mode" ;;
    stop) stop_all "$folder" ;;
    status) status_all "$folder" ;;
    *) fail "servers.sh knows install, start, stop and status, not '$command'" ;;
    esac
}

start_all() {
    mkdir -p "$1" || fail "cannot make the folder $1"
    local folder prefix=HUBFERRY
    folder=$(cd "$1" && pwd)
    [[ $2 == test ]] && prefix=HUBFERRY_TEST
    local database_variable=${prefix}_DATABASE_URL redis_variable=${prefix}_REDIS_URL
    local database_url=${!database_variable:-} redis_url=${!redis_variable:-}

    lock_folder "$folder"
    read_state "$folder"
    # Before a server is made with these passwords, so that an interrupted start can be repeated.
    write_state "$folder"
    if [[ -n $database_url ]]; then
        say "PostgreSQL: the one that $database_variable names"
    else
        postgres_start "$folder" "$2"
        database_url=$(postgres_url)
    fi
    if [[ -n $redis_url ]]; then
        say "Redis: the one that $redis_variable names"
    else
        redis_start "$folder" "$2"
        redis_url=$(redis_url)
    fi
    local variables=("$database_variable" "$database_url" "$redis_variable" "$redis_url")
    if [[ $2 == test && -n $(pgbench_find) ]]; then variables+=(HUBFERRY_TEST_PGBENCH "$(pgbench_find)"); fi
    write_private "$folder/stack.env" "$(printf '%s=%q\n' "${variables[@]}")"
}

stop_all() {
    [[ -f $1/servers.env ]] || { say "no servers were started in $1"; return; }
    local folder
    folder=$(cd "$1" && pwd)
    lock_folder "$folder"
    read_state "$folder"
    postgres_stop "$folder"
    redis_stop "$folder"
}

status_all() {
    [[ -f $1/servers.env ]] || { say "no servers were started in $1"; return 1; }
    local folder ended=0
    folder=$(cd "$1" && pwd)
    read_state "$folder"
    status_of PostgreSQL postgres_is_ours "$folder" "$postgres_port" || ended=1
    status_of Redis redis_is_ours "$folder" "$redis_port" || ended=1
    return "$ended"
}

status_of() {
    local name=$1 is_ours=$2 folder=$3 port=$4
    if "$is_ours" "$folder"; then
        say "$name: running on 127.0.0.1:$port"
    else
        say "$name: not running"
        return 1
    fi
}

# Passwords and ports outlive a restart, so that what remembers a URL still connects.
read_state() {
    postgres_port='' postgres_password='' hubferry_password='' redis_port='' redis_password=''
    if [[ -f $1/servers.env ]]; then
        # shellcheck source=/dev/null
        source "$1/servers.env" || fail "cannot read $1/servers.env; does it belong to another user?"
    fi
    : "${postgres_password:=$(random_hex)}" "${hubferry_password:=$(random_hex)}" "${redis_password:=$(random_hex)}"
}

write_state() {
    local name
    write_private "$1/servers.env" "$(for name in postgres_port postgres_password hubferry_password redis_port redis_password; do
        printf '%s=%q\n' "$name" "${!name}"
    done)"
}

# Descriptor 9 is closed for the servers, which would otherwise hold the lock for as long as they run. A Mac has no
# flock; there, two starts at once are the reader's own risk.
lock_folder() {
    command -v flock >/dev/null || return 0
    exec 9>"$1/lock" || fail "cannot write in $1; does it belong to another user?"
    flock -w "$LOCK_WAIT_SECONDS" 9 || fail "another start or stop of $1 has been running for $LOCK_WAIT_SECONDS s"
}

# Ctrl-C ends this quietly; without it, the first step that it hits would report a failure.
trap 'exit 130' INT
main "$@"
