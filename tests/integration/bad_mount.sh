#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What rmemfs says when it cannot mount: exit status, an explanation, and nothing mounted or lost.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need truncate
server_start
config_write
mkdir "$WORK/full"
echo kept >"$WORK/full/kept"
echo file >"$WORK/file"

# nothing PATTERN ARGUMENT...: rmemfs must refuse these arguments.
nothing() {
    local pattern=$1
    shift
    refused '*' "$pattern" "$RMEMFS" "$@"
    ! grep -qF "$WORK" /proc/self/mounts || fail "rmemfs $* left something mounted"
}

# config LINE...: a configuration to refuse, in $WORK/bad.cfg
config() {
    printf '%s\n' "$@" >"$WORK/bad.cfg"
}

servers="servers = [ \"shm:$WORK/rmemd.sock\" ];"
store="store = { url = \"lmdb:$STORE\"; };"

# The mount point.
nothing 'usage|try'
nothing 'usage|mount ?point|try' "$CONF"
nothing "nowhere.*(exist|no such)|(exist|no such).*nowhere" "$CONF" "$WORK/nowhere"
nothing "file.*director|director.*file" "$CONF" "$WORK/file"
nothing 'option|frobnicate' "$CONF" "$MNT" -o frobnicate
nothing 'option|frobnicate' "$CONF" "$MNT" --frobnicate

# The configuration.
nothing "no.cfg.*(exist|no such)|(exist|no such).*no.cfg" "$WORK/no.cfg" "$MNT"
nothing 'director|file' "$WORK/full" "$MNT"
config 'servers = [ "shm:/x"'
nothing 'bad.cfg:[12]' "$WORK/bad.cfg" "$MNT"
config "$servers"
nothing 'store.url' "$WORK/bad.cfg" "$MNT"
config "$store"
nothing 'servers' "$WORK/bad.cfg" "$MNT"
config "$servers" "$store" 'fs = { strip = "1MiB"; };'
nothing 'bad.cfg:3.*strip.*stripe' "$WORK/bad.cfg" "$MNT"
config "$servers" "$store" '' 'fs = { stripe = "1000"; };'
nothing 'bad.cfg:4.*stripe.*1000' "$WORK/bad.cfg" "$MNT"
config "$servers" "$store" 'fs = { stripe = true; };'
nothing 'bad.cfg:3.*stripe' "$WORK/bad.cfg" "$MNT"
config "$servers" "$store" 'fs = { cache = "sometimes"; };' 'engine = { depth = -5; };'
nothing 'bad.cfg:3.*sometimes.*always' "$WORK/bad.cfg" "$MNT"
nothing 'bad.cfg:4.*depth' "$WORK/bad.cfg" "$MNT" # all errors of a file, not the first
refused '*' 'bad.cfg:4.*depth' "$RMEMFS" --check-config -c "$WORK/bad.cfg"
nothing 'engine.depth.*many' "$CONF" "$MNT" --set engine.depth=many
if ! grep -qw avx512f /proc/cpuinfo; then
    config "$servers" "$store" 'staging = { streaming = "avx512"; };'
    nothing 'bad.cfg:3.*staging.streaming.*avx512 is not available.*auto' "$WORK/bad.cfg" "$MNT"
fi
head -c 3000 /dev/urandom >"$WORK/bad.cfg"
nothing 'bad.cfg' "$WORK/bad.cfg" "$MNT"
"$RMEMFS" --check-config -c "$CONF" || fail "a good configuration is refused"
says 'store\.url' "$RMEMFS" --help-config

# Servers.
config 'servers = [ "tcp:host:1" ];' "$store"
nothing 'tcp:host:1' "$WORK/bad.cfg" "$MNT"
config "servers = [ \"shm:$WORK/absent.sock\" ];" "$store"
nothing 'absent.sock' "$WORK/bad.cfg" "$MNT"
rm -r "$STORE"
REFUSE_SECONDS=4 nothing 'option' "$WORK/bad.cfg" "$MNT" -o frobnicate # at once, and nothing is made
[ ! -e "$STORE" ] || fail "a mount with a wrong option made a store"
config "servers = [ \"shm:$WORK/file\" ];" "$store"
nothing "$WORK/file" "$WORK/bad.cfg" "$MNT"

# Stores.
config "$servers" 'store = { url = "sql:/x"; };'
nothing 'sql:/x' "$WORK/bad.cfg" "$MNT"
config "$servers" "store = { url = \"lmdb:$WORK/file\"; };"
nothing "$WORK/file" "$WORK/bad.cfg" "$MNT"
mkdir "$WORK/strange"
head -c 20000 /dev/urandom >"$WORK/strange/data.mdb"
sum=$(sha256sum <"$WORK/strange/data.mdb")
config "$servers" "store = { url = \"lmdb:$WORK/strange\"; };"
nothing 'strange' "$WORK/bad.cfg" "$MNT"
same "$sum" "$(sha256sum <"$WORK/strange/data.mdb")" "a strange file in the store's place"
same file "$(cat "$WORK/file")" "the file that was in the way"
if [ "$(id -u)" = 0 ]; then
    mkdir "$WORK/small"
    mount -t tmpfs -o size=8m none "$WORK/small"
    config "$servers" "store = { url = \"lmdb:$WORK/small\"; };"
    refused '*' 'small has no room.* 9 MiB' "$RMEMFS" "$WORK/bad.cfg" "$MNT"
    umount "$WORK/small"
fi

# The tools, on the same.
refused '*' "no.cfg" "$RMEMCTL" -c "$WORK/no.cfg" status
refused '*' 'usage|command|frobnicate' "$RMEMCTL" -c "$CONF" frobnicate
refused '*' 'usage|command|try' "$RMEMCTL" -c "$CONF"
config "$servers" "store = { url = \"lmdb:$WORK/nothing\"; };"
refused '*' 'nothing' "$RMEMCTL" -c "$WORK/bad.cfg" check
[ ! -e "$WORK/nothing" ] || fail "rmemctl check made a store"

# A mount over a folder that is not empty works and loses nothing.
mount_start "$WORK/full"
echo x >"$WORK/full/on-the-mount"
mount_stop "$WORK/full"
same kept "$(cat "$WORK/full/kept")" "the file under the mount"
finish
