#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Mappings, shared and private; buffered, direct and mapped access to one file agree.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
cd "$MNT"

fsop map-shared "$MNT/mapped" 3000001
sum=$(sha256sum <mapped)
same "a mappe" "$(bytes mapped 1500000 7)" "what the mapping wrote last"
fsop map-private "$MNT/mapped"
same "$sum" "$(sha256sum <mapped)" "the file after a private mapping"

# A program that runs from the mount is mapped privately.
cp "$(command -v sleep)" program
./program 0
./program 30 &
runs=$!
wait_for 5 "the program" grep -q program "/proc/$runs/maps"
refused '*' 'busy' fsop write "$MNT/program" 0 x
kill "$runs"
wait "$runs" || true

# What one way writes, the other reads.
random_file "$SRC/one" 2M
random_file "$SRC/two" 2M
dd if="$SRC/one" of=file bs=64k status=none
dd if=file iflag=direct bs=1M status=none | cmp - "$SRC/one"
dd if="$SRC/two" of=file oflag=direct bs=64k conv=notrunc status=none
cmp file "$SRC/two"
dd if="$SRC/one" of=file bs=4k count=100 seek=7 skip=7 conv=notrunc status=none
dd if="$SRC/one" of="$SRC/two" bs=4k count=100 seek=7 skip=7 conv=notrunc status=none
dd if=file iflag=direct bs=1M status=none | cmp - "$SRC/two"
fsop grow-and-read "$MNT/grown"
# Odd lengths and offsets, direct.
dd if="$SRC/one" of=file oflag=direct bs=512 seek=3 count=1 conv=notrunc status=none
dd if="$SRC/one" of="$SRC/two" bs=512 seek=3 count=1 conv=notrunc status=none
cmp file "$SRC/two"
cd /
remount
same "$sum" "$(sha256sum <"$MNT/mapped")" "the mapped file after a remount"
cmp "$MNT/file" "$SRC/two"
finish
