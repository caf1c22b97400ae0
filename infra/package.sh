#!/usr/bin/env bash
# Builds functions as they are deployed, with cargo-lambda, as `sam build` does: FOLDER/<function>/bootstrap.
# Then checks that Lambda's system, Amazon Linux 2023, can run them, and says how large they are.
#
#   package.sh arm64|x86_64 FOLDER [BINARY…]     these binaries besides the functions
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
# readelf speaks the reader's language otherwise.
export LC_ALL=C

# The C library of Amazon Linux 2023, on which provided.al2023 stands.
readonly NEWEST_GLIBC=2.34
# Its parts. No other shared library is counted on.
readonly KNOWN_LIBRARIES='^(libc|libm|libdl|libpthread|librt|ld-linux-.*)\.so\.[0-9]+$'

fail() {
    echo "package.sh: $1" >&2
    exit 1
}

main() {
    local architecture=${1:-} folder=${2:-target/lambda} target machine binary binaries=()
    case $architecture in
    arm64) target=aarch64-unknown-linux-gnu machine=AArch64 ;;
    x86_64) target=x86_64-unknown-linux-gnu machine=X86-64 ;;
    *) fail "ARCHITECTURE is arm64 or x86_64, not '$architecture'" ;;
    esac
    [[ $folder == target/* ]] || fail "the folder is emptied first, so it has to be in target/: '$folder' is not"
    need "$target"
    for binary in functions/*/; do
        binaries+=("$(basename "$binary")")
    done
    binaries+=("${@:3}")
    # Of another processor, or of a function that is no more.
    rm -rf "$folder"
    # shellcheck disable=SC2046 # a word a binary
    cargo lambda build --release --locked --target "$target" --lambda-dir "$folder" $(printf -- '--bin %s ' "${binaries[@]}")
    printf '%-18s %9s %9s  %s\n' function bytes zipped glibc
    for binary in "${binaries[@]}"; do
        check "$folder" "$binary" "$machine"
    done
}

need() {
    command -v readelf >/dev/null || fail "readelf is missing; please install binutils"
    # A toolchain without rustup has the targets that it has.
    if command -v rustup >/dev/null && ! rustup target list --installed | grep -x -F "$1" >/dev/null; then
        fail "your toolchain can't build for $1 yet; please run: rustup target add $1"
    fi
}

check() {
    local file=$1/$2/bootstrap glibc library zipped
    [[ -x $file ]] || fail "cargo-lambda made no $file"
    readelf --file-header "$file" | grep "Machine:.*$3" >/dev/null || fail "$file is for another processor than $3"
    # Names such as GLIBC_ABI_DT_RELR, of newer C libraries than Lambda's, sort behind all numbers.
    glibc=$(readelf --version-info --wide "$file" | grep -o 'GLIBC_[A-Z0-9_.]*' | sort -u -V | tail -n 1)
    glibc=${glibc#GLIBC_}
    [[ $glibc =~ ^[0-9.]+$ ]] || fail "$file does not say by a number which C library it needs, but by '$glibc'"
    [[ $(printf '%s\n' "$glibc" "$NEWEST_GLIBC" | sort -V | tail -n 1) == "$NEWEST_GLIBC" ]] ||
        fail "$file needs a C library of version $glibc; that of Lambda is $NEWEST_GLIBC"
    while read -r library; do
        [[ $library =~ $KNOWN_LIBRARIES ]] || fail "$file needs $library, which Lambda does not have"
    done < <(readelf --dynamic --wide "$file" | sed -nE 's/.*\(NEEDED\).*\[(.*)\].*/\1/p')
    zipped=$(gzip --stdout "$file" | wc -c)
    printf '%-18s %9d %9d  %s\n' "$2" "$(wc -c <"$file")" "$zipped" "$glibc"
}

main "$@"
