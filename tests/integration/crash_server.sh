#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# kill -9 of rmemd: what needs its memory fails with EIO soon, nothing hangs, the rest works, umount
# works. A new server with new memory is taken up, and never shows old or made-up bytes.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
cd "$MNT"

random_file "$SRC/data" 8M
cp "$SRC/data" data
mkdir dir
echo x >dir/file
sync -f .
(
    trap - ERR
    while dd if=data iflag=direct of=/dev/null bs=256k status=none &&
        dd if="$SRC/data" of=busy oflag=direct bs=256k status=none; do :; done
) 2>"$WORK/busy.log" &
busy=$!
sleep 0.3
alive "$busy" || fail "the I/O ended before the crash"
server_kill
start=$(date +%s%N)
refused '*' 'input/output error' dd if=data iflag=direct of=/dev/null bs=64k
took=$((($(date +%s%N) - start) / 1000000))
[ "$took" -le 4000 ] || fail "EIO took $took ms"
wait_for 5 "the end of the I/O under way" gone "$busy"
grep -q 'Input/output error' "$WORK/busy.log" || fail "it ended otherwise: $(cat "$WORK/busy.log")"
refused '*' 'input/output error' dd if=/dev/zero of=data oflag=direct bs=64k count=1 conv=notrunc

same "x" "$(timeout 5 stat -c x dir/file)" "stat without a server"
timeout 5 ls -la . dir >/dev/null
timeout 5 mkdir dir/sub
timeout 5 mv dir/file dir/sub/file
timeout 5 chmod 600 data
timeout 5 ln data dir/data
timeout 5 touch dir/empty
timeout 5 stat -f . >/dev/null
timeout 5 truncate -s 0 busy
timeout 5 rm busy
[ -e dir/sub/file ] || fail "a rename without a server is lost"

# A new server at the same place: new memory, so old files stay lost and new ones work.
server_start
new_file() {
    timeout 5 dd if="$SRC/data" of=new oflag=direct bs=256k status=none 2>/dev/null
}
wait_for 15 "writes to the new server" new_file
dd if=new iflag=direct bs=256k status=none | cmp - "$SRC/data"
refused '*' 'input/output error' dd if=data iflag=direct of=/dev/null bs=64k
# The checker names what was lost: here a file with two names, under one of them.
sync -f .
says '^note: (/dir)?/data has lost 8388608 of its 8388608 bytes' timeout 20 "$RMEMCTL" -c "$CONF" check
says '"bytes_lost": 8388608, "path": "(/dir)?/data"' timeout 20 "$RMEMCTL" -c "$CONF" check --json
rm data dir/data
cd /

# Without a server umount works, too.
server_kill
timeout 20 umount "$MNT"
wait_for 20 "the end of rmemfs" gone "$MOUNT_PID"
wait "$MOUNT_PID" || note "rmemfs ended with status $?"
MOUNT_PID=
! mounted "$MNT" || fail "it is still mounted"
# A mount waits for a server that comes up a moment later.
mount_spawn
sleep 1
server_start
wait_for 4 "a mount whose server came late" mount_usable "$MNT"
[ -f "$MNT/dir/sub/file" ] || fail "a name is lost after all of it"
refused '*' 'input/output error' cat "$MNT/new"
rm -r "$MNT"/*
cp "$SRC/data" "$MNT/data"
cmp "$MNT/data" "$SRC/data"
finish
