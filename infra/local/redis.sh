# shellcheck shell=bash
# shellcheck disable=SC2154 # ports and passwords are set by read_state in servers.sh
# Redis: one server in DIR/redis.

readonly REDIS_LEAST_VERSION=7
readonly REDIS_ANSWER_SECONDS=5

redis_start() {
    local folder=$1 mode=$2 attempt
    if redis_is_ours "$folder"; then
        say "Redis: already running on 127.0.0.1:$redis_port"
        return
    fi
    redis_find
    mkdir -p "$folder/redis"
    chmod 700 "$folder/redis"
    redis_clear_leftovers "$folder"
    for ((attempt = 1; attempt <= PORT_ATTEMPTS; attempt++)); do
        redis_port=$(choose_port "$redis_port")
        redis_configure "$folder" "$mode"
        redis_launch "$folder" && break
        grep -q 'Address already in use' "$folder/redis/server.log" ||
            fail_with_log "Redis does not start in $folder/redis" "$folder/redis/server.log"
        redis_port=''
    done
    redis_is_ours "$folder" || fail_with_log "Redis does not answer on 127.0.0.1:$redis_port" "$folder/redis/server.log"
    write_state "$folder"
    say "Redis $redis_version: started on 127.0.0.1:$redis_port"
}

redis_stop() {
    local folder=$1 pid
    pid=$(redis_pid "$folder")
    if ! process_mentions "$pid" "$folder/redis/redis.conf"; then
        say "Redis: not running"
        return
    fi
    end_process "$pid" "$folder/redis/redis.conf"
    say "Redis: stopped"
}

redis_url() { printf 'redis://:%s@127.0.0.1:%s/0' "$redis_password" "$redis_port"; }

# As for PostgreSQL: a random password, and the folder compared.
redis_is_ours() {
    [[ -n $redis_port ]] || return 1
    port_answers "$redis_port" || return 1
    redis_folder | grep -q -x -F "$1/redis"
}

redis_find() {
    local server
    server=$(command -v redis-server) || fail "found no redis-server; run 'infra/local/servers.sh install'"
    redis_version=$("$server" --version | sed -E 's/.*v=([0-9]+).*/\1/')
    ((redis_version >= REDIS_LEAST_VERSION)) || fail "$server is version $redis_version; hubferry needs Redis $REDIS_LEAST_VERSION or later"
}

redis_clear_leftovers() {
    local pid
    pid=$(redis_pid "$1")
    if process_mentions "$pid" "$1/redis/redis.conf"; then
        say "Redis: process $pid does not answer; ending it"
        end_process "$pid" "$1/redis/redis.conf"
    fi
    rm -f "$1/redis/redis.pid"
}

redis_pid() { cat "$1/redis/redis.pid" 2>/dev/null || true; }

# The append-only file keeps the budget's windows over a restart: with a real portal behind it, a forgotten token is a
# call too many. The process keeps its command line, by which it is recognised.
redis_configure() {
    local home=$1/redis durable=yes
    [[ $2 == test ]] && durable=no
    write_private "$home/redis.conf" "bind 127.0.0.1
port $redis_port
requirepass $redis_password
dir \"$home\"
pidfile \"$home/redis.pid\"
logfile \"$home/server.log\"
daemonize yes
set-proc-title no
save \"\"
appendonly $durable"
}

redis_launch() {
    local tenth
    rm -f "$1/redis/server.log"
    redis-server "$1/redis/redis.conf" >/dev/null 2>&1 9>&- || return 1
    for ((tenth = 0; tenth < 100; tenth++)); do
        redis_is_ours "$1" && return
        [[ -f $1/redis/server.log ]] && grep -q 'Address already in use' "$1/redis/server.log" && return 1
        sleep 0.1
    done
    return 1
}

# Asks the server where its data lies. Spoken by hand, because redis-cli waits for ever on a server that hangs.
redis_folder() {
    local line
    exec 3<>"/dev/tcp/127.0.0.1/$redis_port" || return 1
    printf 'AUTH %s\r\nCONFIG GET dir\r\nQUIT\r\n' "$redis_password" >&3
    while read -r -t "$REDIS_ANSWER_SECONDS" -u 3 line; do
        printf '%s\n' "${line%$'\r'}"
    done
}
