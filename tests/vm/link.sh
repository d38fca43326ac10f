#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The test bed itself: both devices are up, bytes cross the pair (and not lo), rdma_cm connects, and
# netem loses packets that the devices then send again.
. "$RMEM_VM/lib.sh"
set -eu

for device in rxe_a rxe_b; do
    ibv_devinfo -d $device | grep -q PORT_ACTIVE
done

pingpong() { # ITERATIONS
    ibv_rc_pingpong -d rxe_b -g "$(gid_index rxe_b $B)" -n "$1" >/dev/null &
    wait_until 20 tcp_listens 18515
    ibv_rc_pingpong -d rxe_a -g "$(gid_index rxe_a $A)" -n "$1" $B
    wait $!
}

sent_bytes() {
    cat /sys/class/net/va/statistics/tx_bytes
}

before=$(sent_bytes)
pingpong 100
crossed=$(($(sent_bytes) - before))
[ $crossed -gt $((100 * 4096)) ] || {
    echo "only $crossed bytes crossed the pair" >&2
    exit 1
}

rping -s -a $B -C 10 2>/dev/null &
server=$!
wait_until 20 sh -c "rdma resource show cm_id | grep -q LISTEN"
rping -c -a $B -C 10
wait $server

tc qdisc add dev va root netem loss 5%
pingpong 200
tc -s qdisc show dev va | grep -q 'dropped [1-9]' || {
    echo "netem lost nothing" >&2
    exit 1
}
echo "link: devices, pair, rdma_cm and packet loss work"
