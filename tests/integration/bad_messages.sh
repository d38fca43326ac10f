#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Foreign and broken messages at a server's socket do not disturb it, nor the mount that it serves.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
random_file "$SRC/data" 4M
cp "$SRC/data" "$MNT/data"
wire-poke "$WORK/rmemd.sock" &
poke=$!
while alive "$poke"; do
    dd if="$SRC/data" of="$MNT/more" oflag=direct bs=256k status=none
    dd if="$MNT/more" iflag=direct bs=256k status=none | cmp - "$SRC/data"
done
wait "$poke" || fail "the server gave in"
remount
cmp "$MNT/data" "$SRC/data"
finish
