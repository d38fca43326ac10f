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

# What somebody mounts there meanwhile is not ours to unmount. Two signals: don't wait for the file.
if [ "$(id -u)" = 0 ]; then
    mount_start
    exec 5<"$MNT/open"
    umount -l "$MNT"
    mount -t tmpfs none "$MNT"
    kill -TERM "$MOUNT_PID"
    sleep 0.2
    alive "$MOUNT_PID" || fail "rmemfs did not wait for the users of a mount that was detached"
    kill -TERM "$MOUNT_PID"
    mount_ended
    exec 5<&- || true
    same tmpfs "$(findmnt -no FSTYPE "$MNT")" "what is mounted after rmemfs has ended"
    umount "$MNT"

    # The same with what lies below, which libfuse would take away.
    mount -t tmpfs none "$MNT"
    mount_start
    exec 5<"$MNT/open"
    mount_term
    exec 5<&- || true
    same tmpfs "$(findmnt -no FSTYPE "$MNT")" "what is mounted after rmemfs on top of it has ended"
    umount "$MNT"
fi

# A mount that hangs: said, instead of hanging too.
mount_start
kill -STOP "$MOUNT_PID"
refused '*' 'does not answer' "$RMEMFS" "$CONF" "$MNT"
kill -CONT "$MOUNT_PID"
cmp "$MNT/open" "$SRC/data"
mount_stop

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
