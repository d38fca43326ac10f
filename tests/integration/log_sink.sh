#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Where the log of a mount goes. A system log of its own listens at /dev/log, in a /dev of its own.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need python3 unshare
[ "$(id -u)" = 0 ] || skip "it takes root to have a /dev of one's own"
if [ -z "${OWN_DEV:-}" ]; then
    OWN_DEV=1 exec unshare --mount bash "$0"
fi

mkdir "$WORK/dev"
mount -t tmpfs none "$WORK/dev"
ln -s /proc/self/fd "$WORK/dev/fd"
for node in null zero urandom fuse; do
    : >"$WORK/dev/$node"
    mount --bind "/dev/$node" "$WORK/dev/$node"
done
mount --rbind "$WORK/dev" /dev
python3 -c '
import socket, sys
log = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
log.bind("/dev/log")
while True:
    with open(sys.argv[1], "ab") as out:
        out.write(log.recv(8192) + b"\n")' "$WORK/syslog" &
wait_for 10 "the system log" test -S /dev/log
server_start
config_write

logged() {
    grep -q 'unmounted$' "$WORK/syslog" "$WORK/stderr"
}

# both SINK OPTION...: mounts and unmounts; what was logged is in $WORK/syslog and $WORK/stderr then.
both() {
    local sink=$1
    shift
    : >"$WORK/syslog"
    timeout 20 "$RMEMFS" "$CONF" "$MNT" --set "log.sink=$sink" "$@" 2>"$WORK/stderr" &
    wait_for 20 "the mount" mounted "$MNT"
    wait_for 20 "the mount" timeout 5 stat -f "$MNT" >/dev/null
    [ $# -gt 0 ] || wait $!
    umount "$MNT"
    [ $# = 0 ] || wait $!
}

store_free() {
    "$RMEMCTL" -c "$CONF" status | grep -q '^held by  nobody'
}

# has FILE PATTERN, lacks FILE PATTERN
has() {
    grep -q "$2" "$WORK/$1" || fail "$1 should have /$2/: $(cat "$WORK/$1")"
}
lacks() {
    ! grep -q "$2" "$WORK/$1" || fail "$1 should not have /$2/: $(cat "$WORK/$1")"
}

both auto
wait_for 10 "the last line" logged
has stderr 'mounted on'
has syslog 'unmounted$'
lacks stderr 'unmounted$'
lacks stderr 'log.sink'

both syslog
wait_for 10 "the last line" logged
has syslog 'mounted on'
same "" "$(cat "$WORK/stderr")" "what a mount that logs to syslog says on stderr"

# Which ends with the foreground: it says so while it can.
both stderr
has stderr 'log.sink is stderr.*nothing is logged'
has stderr 'mounted on'
wait_for 20 "the end of the daemon" store_free
same "" "$(cat "$WORK/syslog")" "what went to syslog with log.sink at stderr"

both auto -f
has stderr 'unmounted$'
same "" "$(cat "$WORK/syslog")" "what a mount in the foreground says in syslog"

both syslog -f
has syslog 'unmounted$'
same "" "$(cat "$WORK/stderr")" "what a mount in the foreground says on stderr with log.sink at syslog"

both stderr -f
has stderr 'unmounted$'
lacks stderr 'log.sink'
finish
