#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A volume of which one server is dead is mounted without it: what is there works, what isn't is EIO
# soon, and comes back with the server. Without any server there is no mount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
mkdir "$RMEM_SHM"
POOL_SIZE=32MiB
CONFIG_MORE='fs = { stripe = "64KiB"; }; engine = { connect_timeout = "2s"; };'
config_write a b
server_start a
server_start b --backing "$RMEM_SHM/b"
mount_start

random_file "$SRC/big" 4M
cp "$SRC/big" "$MNT/big"
mkdir "$MNT/dir"
echo text >"$MNT/dir/text"
mount_stop
server_kill b

: >"$WORK/rmemfs.log"
mount_start
grep -q 'b.sock is not reachable: .*socket' "$WORK/rmemfs.log" || fail "no warning of what server is missing"
grep -q 'mounting without 1 of 2 servers' "$WORK/rmemfs.log" || fail "no warning of a degraded mount"
grep -q 'b.sock (32 MiB) belongs to the volume and is not connected' "$WORK/rmemfs.log" ||
    fail "no warning of what is missing"
# As when it had gone down later.
same 4194304 "$(stat -c %s "$MNT/big")" "the size of a file that is partly missing"
start=$(date +%s%N)
refused '*' 'input/output error' dd if="$MNT/big" iflag=direct of=/dev/null bs=64k
[ $((($(date +%s%N) - start) / 1000000)) -lt 5000 ] || fail "EIO took too long"
refused '*' 'input/output error' dd if=/dev/zero of="$MNT/big" oflag=direct bs=64k conv=notrunc
readable=0
for ((i = 0; i < 8; i++)); do
    ! timeout 5 dd if="$MNT/big" iflag=direct of=/dev/null bs=64k skip="$i" count=1 status=none 2>/dev/null ||
        readable=$((readable + 1))
done
same 4 "$readable" "of 8 stripes, those that are readable"
cp "$SRC/big" "$MNT/new"
cmp "$MNT/new" "$SRC/big"
echo more >"$MNT/dir/more"
mv "$MNT/dir" "$MNT/other"
[ "$(df --output=avail -B1M "$MNT" | tail -n 1)" -lt 32 ] || fail "df counts the missing server's space"
remount
cmp "$MNT/new" "$SRC/big"
same more "$(cat "$MNT/other/more")" "a file that was made without the server"

# The server comes, and so does what it has.
server_start b --backing "$RMEM_SHM/b"
# The first part was overwritten with zeroes until the first stripe that was missing.
came() {
    timeout 5 dd if="$MNT/big" iflag=direct of=/dev/null bs=64k status=none 2>/dev/null
}
wait_for 15 "the server's return" came
cmp -i 131072 "$MNT/big" "$SRC/big"
mount_stop

server_stop a
server_stop b
start=$(date +%s%N)
refused '*' 'none of the 2 servers is reachable.*socket' "$RMEMFS" "$CONF" "$MNT"
[ $((($(date +%s%N) - start) / 1000000)) -lt 5000 ] || fail "servers were waited for one after the other"
! mounted "$MNT" || fail "mounted without any server"
finish
