#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Servers and clients that die, and links that do, in mid-transfer: EIO soon, the mount survives, and
# whoever comes back is served.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
over_verbs || skip "needs RMEM_TEST_VERBS"
POOL_SIZE=64MiB
CONFIG_MORE='staging = { size = "16MiB"; }; engine = { reconnect_max = "500ms"; };'
config_write
server_start rmemd --backing "$WORK/pool"
mount_start
random_file "$SRC/data" 2M
cp "$SRC/data" "$MNT/data"
sync "$MNT/data"

# busy_start, busy_failed MS: transfers go on and on; they end with EIO within so long.
busy_start() {
    (
        trap - ERR
        while dd if="$MNT/data" iflag=direct of=/dev/null bs=256k status=none &&
            dd if="$SRC/data" of="$MNT/busy" oflag=direct bs=256k status=none; do :; done
    ) 2>"$WORK/busy.err" &
    busy=$!
    sleep 0.5
    alive "$busy" || fail "the transfers ended too early: $(cat "$WORK/busy.err")"
}
busy_failed() {
    local start took
    start=$(date +%s%N)
    wait_for 20 "the end of the transfers" gone "$busy"
    took=$((($(date +%s%N) - start) / 1000000))
    grep -q 'Input/output error' "$WORK/busy.err" || fail "it ended otherwise: $(cat "$WORK/busy.err")"
    [ "$took" -le "$1" ] || fail "EIO took $took ms"
    note "EIO after $took ms"
}
back() {
    timeout 5 dd if="$MNT/data" iflag=direct of=/dev/null bs=64k count=1 status=none 2>/dev/null
}

# The server is killed, and comes back with its memory.
busy_start
server_kill
busy_failed 4000
timeout 5 ls -l "$MNT" >/dev/null
timeout 5 mkdir "$MNT/dir"
server_start rmemd --backing "$WORK/pool"
wait_for 15 "the server's return" back
cmp "$MNT/data" "$SRC/data"

# Its host is cut off: nobody says goodbye. Both sides find out, and meet again.
busy_start
tc qdisc add dev va root netem loss 100%
busy_failed 4500
wait_for 20 "the server to let go of a client that is silent" grep -q 'does not answer' "$WORK/rmemd.log"
tc qdisc del dev va root
wait_for 20 "the server's return on the link" back
cmp "$MNT/data" "$SRC/data"

# The port goes down and up. Down only for a moment: what soft-RoCE of Linux 6.1 sends for the connection
# manager while there is no route ends that queue pair, and with it all connecting, for good. So short a
# break the kernel may not even tell of; then the connection lives, else it is made again. Either way
# transfers go on: what is under way is tried again for a while.
connections() {
    grep -c 'engine: server 0 .* is up' "$WORK/rmemfs.log"
}
goes_on() { # 2 MiB written and read since the break
    [ "$(stat -c %Y "$MNT/busy")" -gt "$1" ] && back
}
busy_start
before=$(connections)
ip -batch - <<END
link set vb down
link set vb up
route replace $RMEM_TEST_CLIENT dev vb src $RMEM_TEST_VERBS table 72
END
wait_for 20 "the server's return on the port" back
alive "$busy" || grep -q 'Input/output error' "$WORK/busy.err" || fail "it ended: $(cat "$WORK/busy.err")"
if alive "$busy"; then
    wait_for 20 "the transfers to go on" goes_on "$(($(date +%s) + 1))"
fi
[ "$(connections)" -gt "$before" ] && note "over a new connection" || note "over the same connection"
kill "$busy" 2>/dev/null || true
ended "$busy" 10 "the transfers" || true
cmp "$MNT/data" "$SRC/data"

# The client is killed: the server lets go of it, and serves the next.
busy_start
mount_kill
ended "$busy" 10 "the transfers" || true
wait_for 12 "the server to let go of a dead client" sh -c "tail -n 1 '$WORK/rmemd.log' | grep -q 'left (clients: 0)'"
mount_start
cmp "$MNT/data" "$SRC/data"
finish
