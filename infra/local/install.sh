# shellcheck shell=bash
# Installs what is missing, and nothing else. When all is there it only looks.

install_missing() {
    local mode=$1 missing=()
    have_postgres || missing+=(postgresql)
    have_redis || missing+=(redis)
    have_compiler || missing+=(compiler)
    if [[ $mode == test ]] && ! have_python; then missing+=(python); fi
    if [[ $mode == test ]] && have_postgres && ! have_pgbench; then missing+=(pgbench); fi
    ((${#missing[@]} > 0)) || return 0

    say "installing: ${missing[*]}"
    if command -v apt-get >/dev/null; then
        apt_install "${missing[@]}"
    elif command -v brew >/dev/null; then
        brew_install "${missing[@]}"
    else
        fail "please install: $(describe "${missing[@]}")"
    fi
    check_installed "${missing[@]}"
}

have_postgres() { (postgres_find /nowhere) 2>/dev/null; }
have_pgbench() { [[ -n $(pgbench_find) ]]; }
have_redis() { (redis_find) 2>/dev/null; }
have_compiler() { command -v cc >/dev/null && command -v pkg-config >/dev/null; }
have_python() { python3 -c 'import ensurepip, venv' 2>/dev/null; }

apt_install() {
    local packages=() thing
    for thing in "$@"; do
        case $thing in
        postgresql) packages+=(postgresql) ;;
        pgbench) packages+=(postgresql-contrib) ;;
        redis) packages+=(redis-server) ;;
        compiler) packages+=(build-essential pkg-config) ;;
        python) packages+=(python3 python3-venv) ;;
        esac
    done
    as_root apt-get update -qq || say "apt-get update failed; trying with the lists that are there"
    hold_services
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${packages[@]}" >/dev/null ||
        fail "apt-get could not install ${packages[*]}"
    release_services
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    elif command -v sudo >/dev/null && [[ -t 0 ]]; then
        sudo "$@"
    elif command -v sudo >/dev/null; then
        sudo -n "$@"
    else
        fail "installing needs root, and sudo is missing; please install as root what is named above"
    fi
}

# Debian's packages start a server of their own at once, on the usual port. This file of Debian's forbids it while we
# install; where one exists, it is the administrator's and stays as it is.
readonly SERVICE_POLICY=/usr/sbin/policy-rc.d
holds_services=no

hold_services() {
    [[ -e $SERVICE_POLICY ]] && return
    trap release_services EXIT
    holds_services=yes
    printf '#!/bin/sh\nexit 101\n' | as_root tee "$SERVICE_POLICY" >/dev/null
    as_root chmod 755 "$SERVICE_POLICY"
}

release_services() {
    [[ $holds_services == yes ]] || return 0
    as_root rm -f "$SERVICE_POLICY"
    holds_services=no
}

# Homebrew starts no service by itself.
brew_install() {
    local thing
    for thing in "$@"; do
        case $thing in
        postgresql | pgbench) brew install --quiet postgresql@17 ;;
        redis) brew install --quiet redis ;;
        compiler) brew install --quiet pkgconf ;;
        python) brew install --quiet python ;;
        esac || fail "brew could not install $thing"
    done
}

# A distribution may be too old for the versions we need; then the package is there and still not enough.
check_installed() {
    local thing still=()
    for thing in "$@"; do
        case $thing in
        postgresql) have_postgres || still+=("$thing") ;;
        pgbench) have_pgbench || still+=("$thing") ;;
        redis) have_redis || still+=("$thing") ;;
        compiler) have_compiler || still+=("$thing") ;;
        python) have_python || still+=("$thing") ;;
        esac
    done
    ((${#still[@]} == 0)) || fail "this system's packages are not enough; please install: $(describe "${still[@]}")"
}

describe() {
    local thing separator=''
    for thing in "$@"; do
        printf '%s' "$separator"
        separator='; '
        case $thing in
        postgresql) printf 'a PostgreSQL server, version %s or later' "$POSTGRES_LEAST_VERSION" ;;
        pgbench) printf 'pgbench, which comes with PostgreSQL or its contrib package' ;;
        redis) printf 'redis-server, version %s or later' "$REDIS_LEAST_VERSION" ;;
        compiler) printf 'a C compiler (cc) and pkg-config' ;;
        python) printf 'Python 3 with its venv module' ;;
        esac
    done
}
