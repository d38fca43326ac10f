#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rmemfs as it is used by hand, by mount(8) and from fstab: it returns when the mount is usable, or
# says why not; options; and a mount that nobody has to look after.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
server_start
config_write

program=$(readlink -f "$RMEMFS")

# daemons: the processes that serve a mount of this scenario
daemons() {
    local entry words
    for entry in /proc/[0-9]*; do
        [ "$(readlink "$entry/exe" 2>/dev/null)" = "$program" ] || continue
        mapfile -d '' -t words < <(cat "$entry/cmdline" "$entry/environ" 2>/dev/null)
        [[ ${words[*]} != *"$WORK"* ]] || echo "${entry#/proc/}"
    done
}

no_daemon() {
    [ -z "$(daemons)" ]
}

# waiting_daemon: the command and its child, which waits for a server
waiting_daemon() {
    [ "$(daemons | wc -l)" = 2 ]
}

# over: umount, and its daemon is gone soon
over() {
    umount "$MNT"
    wait_for 30 "the end of the daemon" no_daemon
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
grep -qE " $MNT .* ro,.*nosuid" /proc/self/mounts || fail "the options are not in force"
over

# Through mount(8), as root. It finds rmemfs in the system's own folders only, so here the helper that
# it runs for fuse.rmemfs is called as it calls it, and mount(8) itself is told where the program is.
if [ "$(id -u)" = 0 ]; then
    mkdir "$WORK/bin"
    ln -s "$(readlink -f "$RMEMFS")" "$WORK/bin/rmemfs"
    PATH=$WORK/bin:$PATH timeout 20 mount.fuse3 "$CONF" "$MNT" -t fuse.rmemfs -o rw,noexec
    same one "$(cat "$MNT/file")" "the file, mounted by mount.fuse3"
    grep -q " $MNT .*noexec" /proc/self/mounts || fail "noexec is not in force"
    same fuse.rmemfs "$(findmnt -no FSTYPE "$MNT")" "the filesystem's type"
    over
    timeout 20 mount -t fuse "$WORK/bin/rmemfs#$CONF" "$MNT" -o rw,nodev
    same one "$(cat "$MNT/file")" "the file, mounted by mount(8)"
    over
    echo "$WORK/bin/rmemfs#$CONF $MNT fuse defaults,noauto,user,_netdev,nofail 0 0" >"$WORK/fstab"
    timeout 20 mount -T "$WORK/fstab" "$MNT"
    same one "$(cat "$MNT/file")" "the file, mounted from fstab"
    over
fi

# Why not: without a server it ends with an explanation instead of a mount.
server_kill
refused '*' 'rmemd.sock' "$RMEMFS" "$CONF" "$MNT"
! mounted "$MNT" || fail "a mount without a server"
no_daemon || fail "a daemon without a mount"

# Ended while it waits for the server: no daemon goes on to mount later.
"$RMEMFS" "$CONF" "$MNT" --set engine.connect_timeout=60s 2>/dev/null &
wait_for 10 "the daemon" waiting_daemon
kill -KILL $!
wait_for 10 "the end of the daemon that waits" no_daemon
