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
[ "$made" -gt 1000 ] || fail "only $made files went in"
refused '*' 'no space left' bulk create kept 1000
cmp kept/file "$SRC/kept"
same text "$(cat kept/text)" "a file on the full store"
# What is there can be overwritten, and is durable.
dd if="$SRC/kept" of=kept/file conv=notrunc,fsync bs=4k status=none
rm -r many
mkdir after
bulk create after 1000 >/dev/null
same 1000 "$(find after -type f | wc -l)" "files made after deleting"
cd /
remount
cmp "$MNT/kept/file" "$SRC/kept"
same 1000 "$(find "$MNT/after" -type f | wc -l)" "files after a remount"
finish
