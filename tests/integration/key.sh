#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# With a key on both sides a mount works as ever; with none, another or a careless one it says why not.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"

make_key() { # FILE
    (umask 077 && head -c 32 /dev/urandom | base64 >"$1")
}

make_key "$WORK/key"
make_key "$WORK/other"
CONFIG_MORE="auth = { key_file = \"$WORK/key\"; };"
config_write
server_start rmemd --set auth.key_file="$WORK/key"
mount_start
random_file "$SRC/data" 3M
cp "$SRC/data" "$MNT/data"
remount
cmp "$MNT/data" "$SRC/data"
says "up +1 region" "$RMEMCTL" -c "$CONF" status

# A server with a key tells nothing to who doesn't prove to have it, too.
make_key "$WORK/third"
for key in none "$WORK/third"; do
    for how in "" --json; do
        # shellcheck disable=SC2086 # one option or none
        refused 2 'refuses|refused' "$RMEMCTL" -c "$CONF" status $how --set auth.key_file="$key"
        # shellcheck disable=SC2086
        output=$("$RMEMCTL" -c "$CONF" status $how --set auth.key_file="$key" 2>&1) || true
        grep -qE 'auth.key_file' <<<"$output" || fail "does not say that it is the key: $output"
        ! grep -qE "pid(\": | )${SERVER_PID[rmemd]}\b|client|pool" <<<"${output%mounts*}" ||
            fail "tells of the server: $output"
    done
    output=$("$RMEMCTL" -c "$CONF" status --set auth.key_file="$key" 2>&1) || true
    same 1 "$(grep -c auth.key_file <<<"$output")" "lines that say why a server refuses"
    refused 2 'auth.key_file' "$RMEMCTL" -c "$CONF" df --set auth.key_file="$key"
done
refused 2 'No such file' "$RMEMCTL" -c "$CONF" status --set auth.key_file="$WORK/none"

rm "$MNT/data"
mount_stop

# A key file that is refused at start is one that --check-config refuses.
BENCH=$(dirname "$RMEMD")/rmem-bench
checks() { # STATUS PATTERN KEY
    local status=$1 pattern=$2 key=$3
    shift 3
    set -- --check-config --set auth.key_file="$key"
    if [ "$status" = 0 ]; then
        says "$pattern" "$RMEMD" "$@"
        says "$pattern" "$RMEMFS" "$CONF" "$@"
        says "$pattern" "$RMEMCTL" -c "$CONF" "$@"
        says "$pattern" "$BENCH" bw "$@"
        return
    fi
    refused "$status" "$pattern" "$RMEMD" "$@"
    refused "$status" "$pattern" "$RMEMFS" "$CONF" "$@"
    refused 2 "$pattern" "$RMEMCTL" -c "$CONF" "$@"
    refused '[12]' "$pattern" "$BENCH" bw "$@"
}
checks 0 'is good' "$WORK/key"
checks 0 'is good' none
checks 1 'none: No such file' "$WORK/none"
cp "$WORK/key" "$WORK/open" && chmod 640 "$WORK/open"
checks 1 'chmod 600' "$WORK/open"
head -c 8 /dev/urandom >"$WORK/short" && chmod 600 "$WORK/short"
checks 1 'must have from 16' "$WORK/short"
if [ "$(id -u)" = 0 ]; then
    chmod 600 "$WORK/open" && chmod 755 "$WORK"
    refused 1 'Permission denied' setpriv --reuid 65534 --clear-groups \
        "$RMEMD" --check-config --set auth.key_file="$WORK/open"
fi

mount_fails() { # PATTERN OPTION...
    local pattern=$1
    shift
    refused 1 "$pattern" "$RMEMFS" "$CONF" "$MNT" --set engine.connect_timeout=300ms "$@"
    ! mounted "$MNT" || fail "it is mounted"
}
mount_fails 'refused: .*set auth.key_file' --set auth.key_file=none
mount_fails 'another key: auth.key_file must be the same' --set auth.key_file="$WORK/other"
chmod 644 "$WORK/other"
mount_fails 'chmod 600' --set auth.key_file="$WORK/other"
mount_fails 'no such file' --set auth.key_file="$WORK/none"
refused 1 'chmod 600' "$RMEMD" --listen "shm:$WORK/x.sock" --set auth.key_file="$WORK/other"
server_stop
server_start
mount_fails 'asks for no key' --set auth.key_file="$WORK/key"
mount_start "$MNT" --set auth.key_file=none
finish
