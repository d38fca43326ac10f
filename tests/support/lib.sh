# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# What the integration tests share: servers, mounts, and saying what went wrong.
#
# A scenario is a bash script that tests/integration/run.sh runs. It sources this file, calls
# server_start and mount_start, does to $MNT what a user would do, and ends with finish. Any command
# that fails ends it. Nothing needs to be undone on the way out: run.sh does that.
#
# $WORK   the scenario's own folder, on local disk; logs are $WORK/*.log
# $MNT    the usual mount point        $CONF  its configuration
# $SRC    an empty folder beside it, for originals to compare with
#
# Servers and mounts meet over shared memory, or over RDMA where RMEM_TEST_VERBS has the address for
# servers to listen at (tests/vm/scenarios.sh sets it in the guest).
set -Eeuo pipefail
shopt -s inherit_errexit

MNT=$WORK/mnt
CONF=$WORK/rmemfs.cfg
STORE=$WORK/store
SRC=$WORK/src
POOL_SIZE=${POOL_SIZE:-256MiB}
REFUSE_SECONDS=${REFUSE_SECONDS:-15}
MOUNT_PID=
read -ra MOUNT_OPTIONS <<<"${RMEM_MOUNT_OPTIONS:-}" # of every mount, see meson.build
declare -A SERVER_PID=() SERVER_LOG=() # the process, and where in the log it begins
declare -A SERVER_PORT=()              # over RDMA
mkdir -p "$MNT" "$SRC"
PATH=$RMEM_HELPERS:$PATH:/usr/sbin:/sbin
export LC_ALL=C

trap 'status=$?; echo "FAILED: line $LINENO: $BASH_COMMAND (status $status)" >&2' ERR

note() {
    echo "# $*"
}

fail() {
    trap - ERR
    echo "FAILED: $*" >&2
    exit 1
}

# Ends the scenario as skipped. In CI nothing may be missing, so there it fails.
skip() {
    trap - ERR
    if [ "${CI:-}" = true ]; then
        fail "$* (and CI must not skip)"
    fi
    echo "skipped: $*"
    exit 77
}

# need TOOL...: the scenario makes no sense without them.
need() {
    local tool
    for tool; do
        command -v "$tool" >/dev/null || skip "$tool is not installed"
    done
}

# wait_for SECONDS WHAT COMMAND...: until COMMAND succeeds.
wait_for() {
    local end=$((SECONDS + $1)) what=$2
    shift 2
    until "$@"; do
        [ "$SECONDS" -le "$end" ] || fail "waited in vain for $what"
        sleep 0.02
    done
}

alive() {
    local state
    state=$(sed 's/.*) //; s/ .*//' "/proc/$1/stat" 2>/dev/null) || return 1
    [ "$state" != Z ] && [ -n "$state" ]
}

gone() {
    ! alive "$1"
}

# processes_with TEXT: the numbers of those that have TEXT among their arguments. Not for the path of a
# program that runs beside others of it.
processes_with() {
    local entry words
    for entry in /proc/[0-9]*; do
        mapfile -d '' -t words 2>/dev/null <"$entry/cmdline" || continue
        [[ ${words[*]} != *"$1"* ]] || echo "${entry#/proc/}"
    done
}

# same WANTED FOUND WHAT
same() {
    [ "$1" = "$2" ] || fail "$3: expected '$1', found '$2'"
}

# refused STATUS PATTERN COMMAND...: COMMAND must fail within $REFUSE_SECONDS, with an exit status that STATUS
# (a pattern of case) matches, and say something that PATTERN (grep -Ei) matches.
refused() {
    local wanted=$1 pattern=$2 status=0 output
    shift 2
    output=$(timeout -k 2 "$REFUSE_SECONDS" "$@" 2>&1) || status=$?
    # shellcheck disable=SC2254
    case $status in
    0) fail "should have failed: $* (it said: $output)" ;;
    124 | 137) fail "hangs: $* (it said: $output)" ;;
    $wanted) ;;
    *) fail "exit status $status: $* (it said: $output)" ;;
    esac
    if [ "$status" -gt 128 ]; then
        fail "died of a signal, status $status: $* (it said: $output)"
    fi
    grep -qEi -- "$pattern" <<<"$output" ||
        fail "should have said /$pattern/: $* (it said: $output)"
}

# says PATTERN COMMAND...: COMMAND must succeed and say something that PATTERN (grep -E) matches. A
# pipe into grep -q would not do: grep leaves at the first match, and the rest finds nobody to read it.
says() {
    local pattern=$1 output
    shift
    output=$("$@" 2>&1) || fail "status $?: $* (it said: $output)"
    grep -qE -- "$pattern" <<<"$output" || fail "should have said /$pattern/: $* (it said: $output)"
}

# --- servers

over_verbs() {
    [ -n "${RMEM_TEST_VERBS:-}" ]
}

# server_url NAME: sets URL to where the server of that name listens.
server_url() {
    URL=shm:$WORK/$1.sock
    over_verbs || return 0
    : "${SERVER_PORT[$1]:=$((7471 + ${#SERVER_PORT[@]}))}"
    URL=verbs://$RMEM_TEST_VERBS:${SERVER_PORT[$1]}
}

# server_spawn NAME [OPTION...]: rmemd in the background.
server_spawn() {
    local name=$1
    shift
    ! over_verbs || set -- --allow-unauthenticated "$@"
    touch "$WORK/$name.log"
    SERVER_LOG[$name]=$(stat -c %s "$WORK/$name.log")
    server_url "$name"
    "$RMEMD" --listen "$URL" "$@" >>"$WORK/$name.log" 2>&1 &
    SERVER_PID[$name]=$!
}

server_up() {
    alive "${SERVER_PID[$1]}" || fail "rmemd ($1) ended while it started"
    # A dead server's socket may be there. This one says when it listens.
    grep -q 'listens at' <<<"$(tail -c "+$((SERVER_LOG[$1] + 1))" "$WORK/$1.log")"
}

# server_start [NAME [OPTION...]]: the same, and waits until it serves.
server_start() {
    local name=${1:-rmemd}
    shift || true
    server_spawn "$name" --size "$POOL_SIZE" "$@"
    wait_for 15 "rmemd ($name)" server_up "$name"
}

# ended PID SECONDS WHAT: waits for a child of ours and gives its exit status.
ended() {
    local status=0
    wait_for "$2" "the end of $3" gone "$1"
    wait "$1" || status=$?
    return "$status"
}

# server_stop [NAME]: SIGTERM; it must end well and take its socket away.
server_stop() {
    local name=${1:-rmemd} pid
    pid=${SERVER_PID[$name]}
    kill -TERM "$pid"
    ended "$pid" 10 "rmemd ($name)" || fail "rmemd ($name) ended with status $?"
    [ ! -e "$WORK/$name.sock" ] || fail "rmemd ($name) left its socket behind"
    unset "SERVER_PID[$name]"
}

# server_kill [NAME]: SIGKILL.
server_kill() {
    local name=${1:-rmemd} pid
    pid=${SERVER_PID[$name]}
    kill -KILL "$pid"
    ended "$pid" 10 "rmemd ($name)" 2>/dev/null || true
    unset "SERVER_PID[$name]"
}

# --- mounts

# config_write [NAME...]: $CONF for the servers of those names (rmemd). $CONFIG_MORE is added.
config_write() {
    local name list=
    for name in "${@:-rmemd}"; do
        server_url "$name"
        list+="${list:+, }\"$URL\""
    done
    {
        echo "servers = [ $list ];"
        echo "store = { url = \"lmdb:$STORE\"; };"
        echo "${CONFIG_MORE:-}"
    } >"$CONF"
}

# Looks the mount point up without touching it, so that a dead mount cannot hang us.
mounted() {
    grep -qF " $1 fuse." /proc/self/mounts
}

mount_usable() {
    alive "$MOUNT_PID" || fail "rmemfs ended while it mounted"
    # A stale mount still answers to its name; only a live one answers, and as FUSE.
    [ "$(timeout 5 stat -f -c %t "$1" 2>/dev/null)" = 65735546 ]
}

# mount_spawn [MOUNTPOINT [OPTION...]]: rmemfs in the foreground of a background job, so that its
# exit status can be had.
mount_spawn() {
    local point=${1:-$MNT}
    shift || true
    "$RMEMFS" "$CONF" "$point" -f "${MOUNT_OPTIONS[@]}" "$@" >>"$WORK/rmemfs.log" 2>&1 &
    MOUNT_PID=$!
}

# mount_start [MOUNTPOINT [OPTION...]]: the same, and waits until it is usable.
mount_start() {
    mount_spawn "$@"
    wait_for 20 "the mount on ${1:-$MNT}" mount_usable "${1:-$MNT}"
}

# mount_ended [MOUNTPOINT]: waits for the daemon of the mount that is coming to its end.
mount_ended() {
    ended "$MOUNT_PID" 20 rmemfs || fail "rmemfs ended with status $?"
    ! mounted "${1:-$MNT}" || fail "rmemfs ended and left ${1:-$MNT} mounted"
    MOUNT_PID=
}

# What a mount's status says of writing back, as in: written_back dirty_bytes
written_back() {
    local answer
    answer=$(timeout 10 "$RMEMCTL" -c "$CONF" status --json) || return 0
    sed -n "s/.*\"$1\": \([0-9]*\).*/\1/p" <<<"$answer"
}

# A test that is run to see writes staged must stage some, or it tests nothing. Where mounts end it is
# noted whether this one did; finish() wants one that did.
note_staged() {
    [[ ${MOUNT_OPTIONS[*]} == *fs.write=back* && ! -e $WORK/staged ]] || return 0
    [[ $(written_back dirty_bytes)$(written_back flushed_bytes) =~ ^0*$ ]] || touch "$WORK/staged"
}

# mount_stop [MOUNTPOINT]: umount; the daemon must end well.
mount_stop() {
    note_staged
    timeout 20 umount "${1:-$MNT}" || fail "umount ${1:-$MNT} fails"
    mount_ended "$@"
}

# mount_term [MOUNTPOINT]: SIGTERM; the daemon must flush, unmount and end well.
mount_term() {
    note_staged
    kill -TERM "$MOUNT_PID"
    mount_ended "$@"
}

# mount_kill: SIGKILL; the mount point stays behind, stale.
mount_kill() {
    note_staged
    kill -KILL "$MOUNT_PID"
    ended "$MOUNT_PID" 10 rmemfs 2>/dev/null || true
    MOUNT_PID=
}

# remount: everything has to come back from the store and the servers.
remount() {
    mount_stop
    mount_start
}

# setup: what most scenarios begin with.
setup() {
    config_write
    server_start
    mount_start
}

store_clean() {
    local output
    output=$(timeout 60 "$RMEMCTL" -c "$CONF" check 2>&1) ||
        fail "rmemctl check: status $?: $output"
}

# finish: unmounts, checks the store, stops the servers. Every scenario ends with it.
finish() {
    local name
    [ -z "$MOUNT_PID" ] || mount_stop
    [[ ${MOUNT_OPTIONS[*]} != *fs.write=back* || -e $WORK/staged ]] || fail "no write was staged"
    store_clean
    for name in "${!SERVER_PID[@]}"; do
        server_stop "$name"
    done
    note "done in $SECONDS s"
}

# --- data

# bytes FILE OFFSET LENGTH: to standard output.
bytes() {
    dd if="$1" bs=64k iflag=skip_bytes,count_bytes,fullblock skip="$2" count="$3" status=none
}

# random_file PATH SIZE: SIZE as head -c takes it.
random_file() {
    head -c "$2" /dev/urandom >"$1"
}

# source_tree FOLDER: fills it with a tree as users have them: sources, links, odd modes and times.
source_tree() {
    local headers
    mkdir -p "$1"
    (cd "$RMEM_SOURCE" && find . -path ./.git -prune -o -path './build*' -prune -o -type f -print0 |
        tar -c --null -T - -f -) | tar -x -C "$1"
    mkdir "$1/include"
    mapfile -d '' -t headers < <(cd /usr/include && find . -maxdepth 2 -name '*.h' -print0)
    printf '%s\0' "${headers[@]:0:400}" |
        tar -C /usr/include -ch --null -T - -f - | tar -x -C "$1/include"
    ln -s ../LICENSE "$1/include/licence"
    ln -s nowhere "$1/dangling"
    mkdir -m 2775 "$1/shared" && mkdir -m 0500 "$1/closed" && mkdir "$1/empty"
    random_file "$1/shared/blob" 3000001
    : >"$1/shared/nothing"
    ln "$1/shared/blob" "$1/shared/blob2"
    chmod 4711 "$1/shared/blob"
    mkfifo "$1/pipe"
    touch -d '1999-12-31 23:59:59.123456789' "$1/LICENSE" "$1/shared"
}

# describe FOLDER: a line for each thing in it: type, mode, owner, links, size, times, target.
describe() {
    (cd "$1" && find . -mindepth 1 \( -type d -printf '%p %y %m %U:%G %T@\n' \) -o \
        -printf '%p %y %m %U:%G %n %s %T@ %l\n' | sort)
}

# same_tree ONE OTHER: contents and attributes.
same_tree() {
    diff -r --no-dereference --exclude=pipe "$1" "$2" >"$WORK/diff.out" 2>&1 ||
        fail "contents of $1 and $2 differ: $(head -5 "$WORK/diff.out")"
    diff <(describe "$1") <(describe "$2") >"$WORK/diff.out" ||
        fail "attributes in $1 and $2 differ: $(head -5 "$WORK/diff.out")"
}
