# shellcheck shell=bash
# shellcheck disable=SC2154 # ports and passwords are set by read_state in servers.sh
# PostgreSQL: one cluster in DIR/postgres. The role `hubferry` is no superuser, as the owner of a managed database is none.

readonly POSTGRES_LEAST_VERSION=15

# Recovery after a kill, on a slow disk.
readonly POSTGRES_START_SECONDS=60

postgres_start() {
    local folder=$1 mode=$2 attempt
    postgres_find "$folder"
    if postgres_is_ours "$folder"; then
        postgres_create_database
        say "PostgreSQL $postgres_version: already running on 127.0.0.1:$postgres_port"
        return
    fi
    postgres_choose_user "$folder"
    postgres_init "$folder"
    postgres_clear_leftovers "$folder"
    for ((attempt = 1; attempt <= PORT_ATTEMPTS; attempt++)); do
        postgres_port=$(choose_port "$postgres_port")
        postgres_configure "$folder" "$mode"
        postgres_launch "$folder" && break
        grep -q 'could not bind\|could not create any TCP' "$folder/postgres/server.log" ||
            fail_with_log "PostgreSQL does not start in $folder/postgres" "$folder/postgres/server.log"
        postgres_port=''
    done
    postgres_is_ours "$folder" || fail_with_log "PostgreSQL does not answer on 127.0.0.1:$postgres_port; if $folder/servers.env is not its own, remove $folder to start anew" "$folder/postgres/server.log"
    postgres_create_database
    write_state "$folder"
    say "PostgreSQL $postgres_version: started on 127.0.0.1:$postgres_port"
}

postgres_stop() {
    local folder=$1 pid_file=$1/postgres/data/postmaster.pid
    [[ -f $pid_file ]] || { say "PostgreSQL: not running"; return; }
    postgres_find "$folder"
    postgres_choose_user "$folder"
    as_server_user "$postgres_bin/pg_ctl" stop -D "$folder/postgres/data" -m fast -w -t 30 >/dev/null 2>&1 ||
        end_process "$(head -n 1 "$pid_file" 2>/dev/null)" "$folder/postgres/data"
    say "PostgreSQL: stopped"
}

postgres_url() { printf 'postgres://hubferry:%s@127.0.0.1:%s/hubferry' "$hubferry_password" "$postgres_port"; }

# The password is random and the folder is compared, so a server that passes is this folder's, even beside a copy of it.
postgres_is_ours() {
    [[ -n $postgres_port ]] || return 1
    [[ -n ${postgres_bin:-} ]] || postgres_find "$1"
    port_answers "$postgres_port" || return 1
    [[ $(postgres_ask postgres postgres "$postgres_password" <<<'show data_directory' 2>/dev/null) == "$1/postgres/data" ]]
}

# Sets postgres_bin and postgres_version: of the cluster if there is one, else the newest that is installed.
postgres_find() {
    local wanted='' candidate version
    postgres_bin='' postgres_version=0
    [[ -f $1/postgres/data/PG_VERSION ]] && wanted=$(<"$1/postgres/data/PG_VERSION")
    while read -r candidate; do
        version=$("$candidate/postgres" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/')
        if [[ -n $wanted && $version != "$wanted" ]] || ((version < POSTGRES_LEAST_VERSION || version <= postgres_version)); then continue; fi
        postgres_bin=$candidate postgres_version=$version
    done < <(postgres_candidates)
    [[ -n $postgres_bin ]] && return
    [[ -z $wanted ]] || fail "$1/postgres was made by PostgreSQL $wanted, which is not installed; install it, or remove $1 to start anew"
    fail "found no PostgreSQL server of version $POSTGRES_LEAST_VERSION or later; run 'infra/local/servers.sh install'"
}

# Says where the pgbench of the newest server is, if there is one. Some distributions leave it to a package of its own.
pgbench_find() { (postgres_find /nowhere && [[ -x $postgres_bin/pgbench ]] && say "$postgres_bin/pgbench") 2>/dev/null || command -v pgbench || true; }

# Debian keeps versions side by side outside of PATH, Homebrew in folders of their own.
postgres_candidates() {
    local folder
    for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
        "$(dirname "$(command -v postgres || printf /nowhere/postgres)")"; do
        if [[ -x $folder/postgres && -x $folder/initdb && -x $folder/psql ]]; then say "$folder"; fi
    done
}

# PostgreSQL refuses to run as root. Root runs it as the owner of the cluster, which is `postgres` for a new one.
postgres_choose_user() {
    server_uid='' server_gid=''
    ((EUID == 0)) || return 0
    command -v setpriv >/dev/null || fail "PostgreSQL does not run as root, and setpriv is missing; run this as an ordinary user"
    if [[ -d $1/postgres/data ]]; then
        server_uid=$(stat -c %u "$1/postgres/data") server_gid=$(stat -c %g "$1/postgres/data")
    else
        server_uid=$(id -u postgres 2>/dev/null) || fail "PostgreSQL does not run as root, and there is no user 'postgres'; run this as an ordinary user"
        server_gid=$(id -g postgres)
    fi
}

# The capability lets that user reach a folder below one that only root may enter, such as a clone in root's home.
as_server_user() {
    if [[ -z $server_uid ]]; then
        (cd / && exec "$@" 9>&-)
    else
        (cd / && exec setpriv --reuid "$server_uid" --regid "$server_gid" --clear-groups \
            --inh-caps +dac_override --ambient-caps +dac_override -- "$@" 9>&-)
    fi
}

# Made beside and renamed, so that an interrupted run leaves no half cluster behind.
postgres_init() {
    local home=$1/postgres
    [[ -d $home/data ]] && return
    rm -rf "$home/data.new"
    mkdir -p "$home"
    chmod 700 "$home"
    write_private "$home/password" "$postgres_password"
    [[ -z $server_uid ]] || chown -R "$server_uid:$server_gid" "$home"
    as_server_user "$postgres_bin/initdb" -D "$home/data.new" --username=postgres --pwfile="$home/password" \
        --auth=scram-sha-256 --encoding=UTF8 --locale="$(unicode_locale)" --no-sync >"$home/initdb.log" 2>&1 ||
        fail_with_log "cannot make a PostgreSQL cluster in $home" "$home/initdb.log"
    printf "include 'hubferry.conf'\n" >>"$home/data.new/postgresql.conf"
    rm -f "$home/password"
    mv "$home/data.new" "$home/data"
    say "PostgreSQL $postgres_version: made a cluster in $home"
}

# A locale that knows letters beyond ASCII, because addresses are compared in lower case.
unicode_locale() {
    locale -a 2>/dev/null | grep -i -m 1 -E '^C\.utf-?8$' || printf 'en_US.UTF-8\n'
}

# What a kill leaves: a process id that is nobody's or somebody else's, or a server that hangs.
postgres_clear_leftovers() {
    local data=$1/postgres/data pid
    [[ -f $data/postmaster.pid ]] || return 0
    pid=$(head -n 1 "$data/postmaster.pid")
    if process_mentions "$pid" "$data"; then
        say "PostgreSQL: process $pid does not answer; ending it"
        end_process "$pid" "$data"
    fi
    rm -f "$data/postmaster.pid"
}

# No socket file: its path would be too long below a deep folder.
postgres_configure() {
    local file=$1/postgres/data/hubferry.conf
    {
        printf "port = %s\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\n" "$postgres_port"
        printf "jit = off\nlog_line_prefix = '%%m [%%p] %%d '\nlc_messages = 'C'\n"
        if [[ $2 == test ]]; then
            printf 'max_connections = 300\nfsync = off\nfull_page_writes = off\nsynchronous_commit = off\n'
            printf 'wal_level = minimal\nmax_wal_senders = 0\nlog_min_messages = error\n'
        fi
    } >"$file" || fail "cannot write $file"
    [[ -z $server_uid ]] || chown "$server_uid:$server_gid" "$file"
}

# A killed server's children may hold its memory for a moment; PostgreSQL says so and is asked again.
postgres_launch() {
    local home=$1/postgres attempt
    for ((attempt = 1; attempt <= 10; attempt++)); do
        rm -f "$home/server.log"
        as_server_user "$postgres_bin/pg_ctl" start -D "$home/data" -l "$home/server.log" -w -t "$POSTGRES_START_SECONDS" >/dev/null 2>&1 && return
        grep -q 'shared memory block' "$home/server.log" || return 1
        sleep 1
    done
    return 1
}

postgres_create_database() {
    local output
    output=$(postgres_ask postgres postgres "$postgres_password" 2>&1 <<SQL
select 'create role hubferry login createdb createrole' where not exists (select from pg_roles where rolname = 'hubferry') \gexec
alter role hubferry password '$hubferry_password';
select 'create database hubferry owner hubferry' where not exists (select from pg_database where datname = 'hubferry') \gexec
SQL
    ) || fail "cannot create the database hubferry on 127.0.0.1:$postgres_port: ${output//$hubferry_password/(password)}"
}

# Runs the SQL of standard input as a role in a database. The password goes by the environment, which `ps` does not show.
postgres_ask() {
    PGPASSWORD=$3 PGCONNECT_TIMEOUT=5 "$postgres_bin/psql" --no-psqlrc --quiet --tuples-only --no-align -v ON_ERROR_STOP=1 \
        -h 127.0.0.1 -p "$postgres_port" -U "$1" -d "$2" 9>&-
}
