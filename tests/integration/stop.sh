#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The ways a mount ends: umount, fusermount3 -u, SIGTERM, SIGINT, lazily while in use. Nothing
# written is lost, and a busy mount stays.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
random_file "$SRC/data" 3M

# SIGTERM and SIGINT flush what was never synced.
for signal in TERM INT HUP; do
    cp "$SRC/data" "$MNT/$signal"
    kill "-$signal" "$MOUNT_PID"
    mount_ended
    mount_start
    cmp "$MNT/$signal" "$SRC/data"
done

# Also of a file that is still open.
exec 5>"$MNT/open"
cat "$SRC/data" >&5
mount_term
exec 5>&- || true
mount_start
cmp "$MNT/open" "$SRC/data"

# Busy.
exec 5<"$MNT/open"
refused '*' 'busy' umount "$MNT"
mounted "$MNT" || fail "a refused umount unmounted"
cmp "$MNT/open" "$SRC/data"
exec 5<&-
mount_stop

# Lazily: the daemon serves the open file to its end.
mount_start
exec 5<"$MNT/open"
umount -l "$MNT"
cmp /dev/fd/5 "$SRC/data"
alive "$MOUNT_PID" || fail "rmemfs ended under an open file"
exec 5<&-
mount_ended

mount_start
fusermount3 -u "$MNT"
mount_ended

# Killed with nothing under way, and the stale mount point unmounted by hand.
mount_start
cp "$SRC/data" "$MNT/synced"
sync "$MNT/synced"
mount_kill
umount "$MNT"
! mounted "$MNT" || fail "a stale mount point cannot be unmounted"
mount_start
cmp "$MNT/synced" "$SRC/data"
finish
