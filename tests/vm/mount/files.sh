#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A mount over two servers and RDMA: file tools, fio's verification, statfs, and everything again after
# a remount.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio truncate
over_verbs || skip "needs RMEM_TEST_VERBS"
POOL_SIZE=64MiB
CONFIG_MORE='staging = { size = "16MiB"; }; fs = { stripe = "64KiB"; };'
config_write one two
server_start one
server_start two
mount_start

total=$(stat -f -c '%b %S' "$MNT" | awk '{printf "%d", $1 * $2}')
[ "$total" -gt $((120 << 20)) ] || fail "df shows $total bytes for two pools of 64 MiB"
free=$(stat -f -c %a "$MNT")

# The tools.
mkdir "$SRC/tree"
cp -a "$RMEM_SOURCE/engine" "$RMEM_SOURCE/LICENSE" "$SRC/tree/"
random_file "$SRC/tree/blob" 3000001
ln -s ../LICENSE "$SRC/tree/engine/licence"
cp -a "$SRC/tree" "$MNT/tree"
same_tree "$SRC/tree" "$MNT/tree"
random_file "$SRC/big" 8M
dd if="$SRC/big" of="$MNT/big" bs=1M oflag=direct status=none
dd if="$MNT/big" bs=300k iflag=direct status=none | cmp - "$SRC/big"
dd if="$SRC/big" of="$MNT/odd" bs=12345 count=100 conv=fsync status=none
cmp -n 1234500 "$MNT/odd" "$SRC/big"
truncate -s 700001 "$MNT/odd"
truncate -s 1M "$MNT/odd"
cmp -n 700001 "$MNT/odd" "$SRC/big"
same 348575 "$(tail -c 348575 "$MNT/odd" | tr -dc '\0' | wc -c)" "zeros behind a cut"
mv "$MNT/odd" "$MNT/tree/LICENSE"
fallocate -p -o 1M -l 1M "$MNT/big"
same 1048576 "$(bytes "$MNT/big" 1048576 1048576 | tr -dc '\0' | wc -c)" "zeros of a punched hole"
[ "$(stat -f -c %a "$MNT")" -lt $((free - 2500)) ] || fail "df does not show what is used"

# fio, buffered and direct, deep and not.
verify() { # NAME OPTION...
    local name=$1
    shift
    fio --name="$name" --directory="$MNT" --size=4M --bsrange=4k-256k --iomem_align=4k --rw=randwrite \
        --verify=crc32c --verify_fatal=1 --verify_state_save=0 --randrepeat=0 \
        --output="$WORK/fio.out" "$@" || fail "fio $name: $(cat "$WORK/fio.out")"
}
verify buffered --ioengine=psync
verify direct --ioengine=psync --direct=1
verify deep --ioengine=libaio --iodepth=16 --direct=1 --numjobs=2

# What was fsynced is there again, after umount and after a crash.
picture() {
    (cd "$MNT" && find . -type f -print0 | sort -z | xargs -0 sha256sum | sha256sum)
    describe "$MNT"
}
before=$(picture)
remount
same "$before" "$(picture)" "everything after a remount"
cp "$SRC/big" "$MNT/synced"
sync "$MNT/synced"
mount_kill
mount_start
cmp "$MNT/synced" "$SRC/big"
rm "$MNT/synced"
same "$before" "$(picture)" "everything after a crash"

"$RMEMCTL" -c "$CONF" status >"$WORK/status.out"
for name in one two; do
    server_url $name
    grep -q "$URL *up" "$WORK/status.out" || fail "status of $name: $(cat "$WORK/status.out")"
done
rm -r "${MNT:?}"/*
finish
