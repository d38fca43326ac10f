#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A server whose pool is a file comes back with its bytes: under the mount, and for a new mount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
mkdir "$RMEM_SHM"
pool=$RMEM_SHM/pool
CONFIG_MORE='engine = { detect = "5s"; reconnect_max = "300ms"; };'
config_write
server_start rmemd --backing "$pool"
mount_start

source_tree "$SRC/tree"
cp -a "$SRC/tree" "$MNT/tree"
random_file "$SRC/data" 20M
cp "$SRC/data" "$MNT/data"
sync -f "$MNT"
server_kill
refused '*' 'input/output error' dd if="$MNT/data" iflag=direct of=/dev/null bs=64k
server_start rmemd --backing "$pool"
back() {
    timeout 5 dd if="$MNT/data" iflag=direct of=/dev/null bs=64k count=1 status=none 2>/dev/null
}
wait_for 15 "the server's return" back
dd if="$MNT/data" iflag=direct bs=1M status=none | cmp - "$SRC/data"
echo 3 2>/dev/null >/proc/sys/vm/drop_caches || true
same_tree "$SRC/tree" "$MNT/tree"

# While it is away for a moment only, what reads and writes waits, and nothing fails.
(
    trap - ERR
    while [ ! -e "$WORK/enough" ]; do
        dd if="$SRC/data" of="$MNT/busy" bs=256k count=20 oflag=direct conv=notrunc status=none &&
            dd if="$MNT/busy" bs=256k count=20 iflag=direct status=none | cmp -n 5242880 - "$SRC/data" || exit
    done
) 2>"$WORK/busy.log" &
busy=$!
for _ in 1 2; do
    sleep 0.3
    server_kill
    server_start rmemd --backing "$pool"
    wait_for 15 "the server's return" back
done
touch "$WORK/enough"
ended "$busy" 20 "the transfers" || fail "a server that was away for a moment failed what was under way: $(cat "$WORK/busy.log")"
rm "$MNT/busy"
mount_stop
server_stop
# Without a size: it is in the file.
server_spawn rmemd --backing "$pool"
wait_for 15 "rmemd on a pool file" server_up rmemd
says ' 256M, ' "$RMEMCTL" -c "$CONF" status
mount_start
cmp "$MNT/data" "$SRC/data"
same_tree "$SRC/tree" "$MNT/tree"

# What is on a disk works too, and is warned of, once.
warned() {
    grep -c 'no tmpfs, hugetlbfs or DAX' "$WORK/$1.log" || true
}
same 0 "$(warned rmemd)" "warnings of a pool in memory"
case $(stat -f -c %T "$WORK") in
ext2/ext3 | xfs)
    POOL_SIZE=1MiB server_start disk --backing "$WORK/pool"
    same 1 "$(warned disk)" "warnings of a pool on a disk"
    ;;
*) note "$WORK is on no disk that can have a pool" ;;
esac
finish
