# shellcheck shell=bash
# What the other scripts need to know of the machine: messages, files, ports, processes, users.

# Below the ports that Linux and macOS hand out to clients, so that a port stays free over a restart.
readonly FIRST_PORT=20000 PORT_RANGE=12000

# shellcheck disable=SC2034 # read by postgres.sh and redis.sh
# How many ports to try; more than a few taken ones in a row mean that something else is wrong.
readonly PORT_ATTEMPTS=5

# Lines of a server's log that an error shows.
readonly LOG_TAIL_LINES=15

say() { printf '%s\n' "$*"; }

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

fail_with_log() {
    printf 'error: %s\nThe last lines of %s:\n' "$1" "$2" >&2
    tail -n "$LOG_TAIL_LINES" "$2" >&2 2>/dev/null || printf '(there is no such file)\n' >&2
    exit 1
}

random_hex() { od -An -N16 -tx1 /dev/urandom | tr -d ' \n'; }

# Written beside and renamed, so that a reader never sees half a file; mode 600, because it holds passwords.
write_private() {
    (umask 077 && printf '%s\n' "$2" >"$1.new" && mv -f "$1.new" "$1") || fail "cannot write $1"
}

# The remembered port while nobody listens there, else another free one.
choose_port() {
    local port=$1 attempt
    for ((attempt = 0; attempt < 100; attempt++)); do
        if [[ -n $port ]] && ! port_answers "$port"; then
            printf '%s' "$port"
            return
        fi
        port=$((FIRST_PORT + RANDOM % PORT_RANGE))
    done
    fail "found no free port on 127.0.0.1 between $FIRST_PORT and $((FIRST_PORT + PORT_RANGE))"
}

port_answers() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# Whether a process runs whose command line holds a text. A process id alone proves nothing: it may have been given anew.
process_mentions() {
    local pid=$1 text=$2 line
    [[ $pid =~ ^[0-9]+$ ]] || return 1
    if [[ -d /proc/self ]]; then
        line=$(tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline") || return 1
    else
        line=$(ps -o args= -p "$pid") || return 1
    fi
    [[ $line == *"$text"* ]]
}

# Ends a server that no longer answers, and waits until it is gone.
end_process() {
    local pid=$1 text=$2 signal
    for signal in TERM TERM KILL; do
        process_mentions "$pid" "$text" || return 0
        kill -s "$signal" "$pid" 2>/dev/null || true
        wait_until_gone "$pid" "$text" && return 0
    done
    fail "process $pid ($text) does not end"
}

wait_until_gone() {
    local tenth
    for ((tenth = 0; tenth < 50; tenth++)); do
        process_mentions "$1" "$2" || return 0
        sleep 0.1
    done
    return 1
}
