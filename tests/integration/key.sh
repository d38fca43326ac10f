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
rm "$MNT/data"
mount_stop

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
