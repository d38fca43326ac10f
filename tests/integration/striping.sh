#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# One mount over three servers: files are spread over all of them and come back whole.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio
POOL_SIZE=64MiB
CONFIG_MORE='fs = { stripe = "64KiB"; };'
config_write one two three
for name in one two three; do server_start "$name"; done
mount_start

total=$(stat -f -c '%b %S' "$MNT" | awk '{printf "%d", $1 * $2}')
[ "$total" -gt $((180 << 20)) ] || fail "df shows $total bytes for three pools of 64 MiB"
source_tree "$SRC/tree"
cp -a "$SRC/tree" "$MNT/tree"
random_file "$SRC/big" 70M
cp "$SRC/big" "$MNT/big"
cmp "$MNT/big" "$SRC/big"
dd if="$MNT/big" iflag=direct bs=1M status=none | cmp - "$SRC/big"
for direct in 0 1; do
    fio --name="verify$direct" --directory="$MNT" --ioengine=libaio --iodepth=16 --size=16M \
        --bsrange=4k-1M --rw=randwrite --verify=crc32c --verify_fatal=1 --verify_state_save=0 \
        --direct="$direct" --iomem_align=4k --output="$WORK/fio.out" || fail "$(cat "$WORK/fio.out")"
done
remount
same_tree "$SRC/tree" "$MNT/tree"
cmp "$MNT/big" "$SRC/big"
timeout 10 "$RMEMCTL" -c "$CONF" status >"$WORK/status.out"
for name in one two three; do
    server_url "$name"
    grep -qF "$URL" "$WORK/status.out" ||
        fail "status does not show server $name: $(cat "$WORK/status.out")"
done
# A file that is larger than any one server was put on all; with one server lost it cannot be read
# as a whole, and what lies elsewhere can.
server_kill two
refused '*' 'input/output error' dd if="$MNT/big" iflag=direct of=/dev/null bs=64k
readable=0
for ((i = 0; i < 24; i++)); do
    if timeout 5 dd if="$MNT/big" iflag=direct of=/dev/null bs=64k skip="$i" count=1 status=none \
        2>/dev/null; then
        readable=$((readable + 1))
    fi
done
same 16 "$readable" "of 24 stripes, those that are readable without one of three servers"
rm "$MNT/big" "$MNT"/verify*
cp "$SRC/tree/LICENSE" "$MNT/after"
sync "$MNT/after"
cmp "$SRC/tree/LICENSE" "$MNT/after"
finish
