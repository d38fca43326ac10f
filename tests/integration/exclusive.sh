#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Two mounts on one store: the second is refused and told who holds it; the first is not disturbed.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
echo first >"$MNT/file"
mkdir "$WORK/second"
refused '*' "$MNT|$MOUNT_PID" "$RMEMFS" "$CONF" "$WORK/second"
refused '*' "$MNT|$MOUNT_PID" "$RMEMFS" "$CONF" "$WORK/second" -f
! mounted "$WORK/second" || fail "the refused mount is there"
# A second mount at the same place, too, and it must not take a live mount for a stale one.
refused '*' . "$RMEMFS" "$CONF" "$MNT"
same first "$(cat "$MNT/file")" "the first mount's file"
echo more >>"$MNT/file"
# A volume of its own on the same memory would write over the first one's files.
sed "s|$STORE|$WORK/other-store|" "$CONF" >"$WORK/other.cfg"
refused '*' 'another volume' "$RMEMFS" "$WORK/other.cfg" "$WORK/second"
! mounted "$WORK/second" || fail "the volume on foreign memory is mounted"
same first "$(head -n 1 "$MNT/file")" "the file beside the refused volume"
# The tools that only look may look meanwhile.
says "$MNT" timeout 10 "$RMEMCTL" -c "$CONF" status
says . timeout 10 "$RMEMCTL" -c "$CONF" df
mount_stop
mount_start
same "first more" "$(paste -sd' ' "$MNT/file")" "the file after a remount"
# A crash frees the store.
mount_kill
mount_start
same "first more" "$(paste -sd' ' "$MNT/file")" "the file after a crash"
finish
