#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A metadata store that may not grow any more: creating fails with ENOSPC, nothing is damaged, deleting
# works and makes room.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
CONFIG_MORE='store = { url = "lmdb:'$STORE'"; map_size = "16MiB"; };'
config_write
sed -i '2d' "$CONF" # the shorter `store`
server_start
mount_start
cd "$MNT"

mkdir kept
random_file "$SRC/kept" 500000
cp "$SRC/kept" kept/file
echo text >kept/text
mkdir many
# Some ten thousand files on a machine that may be busy.
REFUSE_SECONDS=60 refused '*' 'no space left' bulk create many 200000
made=$(find many -type f | wc -l)
note "$made files went in"
# store_fill PERCENT...: whether rmemctl says that so much of the store, or more, or less, is used
store_fill() {
    "$RMEMCTL" -c "$CONF" status --json |
        sed -n 's/.*"store_bytes_used": \([0-9]*\), "store_bytes_max": \([0-9]*\).*/\1 \2/p' |
        awk -v least="$1" -v most="$2" '
            { percent = $1 * 100 / $2 } END { exit !($2 == 16777216 && percent >= least && percent <= most) }'
}
store_fill 90 110 || fail "rmemctl does not see a full store: $("$RMEMCTL" -c "$CONF" status --json)"
says '^store +1[4-8]M used of 16M' "$RMEMCTL" -c "$CONF" status
[ "$made" -gt 1000 ] || fail "only $made files went in"
refused '*' 'no space left' bulk create kept 1000
cmp kept/file "$SRC/kept"
same text "$(cat kept/text)" "a file on the full store"
# What is there can be overwritten, and is durable.
dd if="$SRC/kept" of=kept/file conv=notrunc,fsync bs=4k status=none
# It can be mounted again as it is.
cd /
remount
cmp "$MNT/kept/file" "$SRC/kept"
REFUSE_SECONDS=60 refused '*' 'no space left' bulk create "$MNT/kept" 1000
# A larger limit and a new mount: there is room again.
mount_stop
mount_start "$MNT" --set store.map_size=32MiB
cd "$MNT"
mkdir more
bulk create more 1000 >/dev/null
cd /
remount
cd "$MNT"
same 1000 "$(find more -type f | wc -l)" "files made with a larger limit"
rm -r many
store_fill 0 50 || fail "rmemctl does not see the room that deleting made: $("$RMEMCTL" -c "$CONF" status --json)"
mkdir after
bulk create after 1000 >/dev/null
same 1000 "$(find after -type f | wc -l)" "files made after deleting"
cd /
remount
cmp "$MNT/kept/file" "$SRC/kept"
same 1000 "$(find "$MNT/after" -type f | wc -l)" "files after a remount"
finish
