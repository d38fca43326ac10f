#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rmemfs as it is used by hand, by mount(8) and from fstab: it returns when the mount is usable, or
# says why not; options; and a mount that nobody has to look after.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
server_start
config_write

# pids: the daemons that serve a mount of this scenario
daemons() {
    local entry
    for entry in /proc/[0-9]*; do
        if [ "$(readlink "$entry/exe" 2>/dev/null)" = "$(readlink -f "$RMEMFS")" ] &&
            tr '\0' '\n' <"$entry/cmdline" 2>/dev/null | grep -qF "$WORK/"; then
            echo "${entry#/proc/}"
        fi
    done
}

no_daemon() {
    [ -z "$(daemons)" ]
}

# over: umount, and its daemon is gone soon
over() {
    umount "$MNT"
    wait_for 10 "the end of the daemon" no_daemon
    store_clean
}

# In the background: usable at once, and detached from this terminal and folder.
output=$(timeout 20 "$RMEMFS" "$CONF" "$MNT" 2>&1) || fail "rmemfs: status $?: $output"
echo one >"$MNT/file" # at once
same 1 "$(daemons | wc -l)" daemons
pid=$(daemons)
same / "$(readlink "/proc/$pid/cwd")" "the daemon's folder"
same "$pid" "$(sed "s/.*) //" "/proc/$pid/stat" | cut -d" " -f4)" "the daemon's session"
over

# Relative paths.
(cd "$WORK" && timeout 20 "$RMEMFS" rmemfs.cfg mnt)
same one "$(cat "$MNT/file")" "the file, mounted by relative paths"
over

# Options.
timeout 20 "$RMEMFS" "$CONF" "$MNT" -o ro,nosuid,noatime
same one "$(cat "$MNT/file")" "the file, mounted read-only"
refused '*' 'read-only' touch "$MNT/new"
grep -F " $MNT " /proc/self/mounts | grep -q ' ro,.*nosuid' || fail "the options are not in force"
over

# Through mount(8), as root: it looks for a program of this name.
if [ "$(id -u)" = 0 ]; then
    mkdir "$WORK/bin"
    ln -s "$(readlink -f "$RMEMFS")" "$WORK/bin/rmemfs"
    PATH=$WORK/bin:$PATH timeout 20 mount -t fuse.rmemfs "$CONF" "$MNT" -o rw,noexec
    same one "$(cat "$MNT/file")" "the file, mounted by mount(8)"
    grep -F " $MNT " /proc/self/mounts | grep -q noexec || fail "noexec is not in force"
    same fuse.rmemfs "$(findmnt -no FSTYPE "$MNT")" "the filesystem's type"
    over
    # As from fstab.
    echo "$CONF $MNT fuse.rmemfs defaults,noauto,user,_netdev 0 0" >"$WORK/fstab"
    PATH=$WORK/bin:$PATH timeout 20 mount -T "$WORK/fstab" "$MNT"
    same one "$(cat "$MNT/file")" "the file, mounted from fstab"
    over
fi

# Why not: without a server it ends with an explanation instead of a mount.
server_kill
refused '*' 'rmemd.sock' "$RMEMFS" "$CONF" "$MNT"
! mounted "$MNT" || fail "a mount without a server"
no_daemon || fail "a daemon without a mount"
