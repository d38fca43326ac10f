#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the verbs fabric refuses and is refused, by rmemd and by each kind of client: the message must name
# what to do, the exit status be that of a failure, and neither may hang.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
over_verbs || skip "needs RMEM_TEST_VERBS"
need setpriv rping
RMEM_BENCH=${RMEM_BENCH:-$(dirname "$RMEMD")/rmem-bench}
POOL_SIZE=16MiB
REFUSE_SECONDS=60
config_write

# Each kind of client in turn, with the server at $TO.
bench_refused() { # PATTERN OPTION...
    local pattern=$1
    shift
    refused '[12]' "$pattern" "${AS[@]}" "$RMEM_BENCH" lat --server "$TO" --overwrite --size 4KiB \
        --iterations 1 --repeat 1 --set staging.size=1MiB --set engine.connect_timeout=1s "$@"
}
mount_refused() { # PATTERN OPTION...
    local pattern=$1
    shift
    refused 1 "$pattern" "${AS[@]}" "$RMEMFS" "$CONF" "$MNT" --set "servers=$TO" \
        --set engine.connect_timeout=1s "$@"
    ! mounted "$MNT" || fail "it is mounted"
}
shown() { # PATTERN OPTION...: rmemctl's answer: a server that is down is no failure of rmemctl's
    local pattern=$1
    shift
    says "$pattern" timeout 30 "$RMEMCTL" -c "$CONF" status --set "servers=$TO" "$@"
}
clients_refused() {
    bench_refused "$@"
    mount_refused "$@"
    shown "$@"
}
rmemd_refused() { # PATTERN OPTION...
    local pattern=$1
    shift
    refused 1 "$pattern" "${AS[@]}" "$RMEMD" --listen "$LISTEN" --size 4MiB --allow-unauthenticated "$@"
}
AS=()
A=$RMEM_TEST_CLIENT B=$RMEM_TEST_VERBS
LISTEN=verbs://$B:7600
TO=verbs://$B:7600

# A volume for rmemctl to look at.
server_start
mount_start
mount_stop

note "an address that is in use, or of no device"
LISTEN=verbs://$B:7471 rmemd_refused 'another server listens there: stop it, or choose another port'
LISTEN=verbs://10.99.0.1:7600 rmemd_refused 'no RDMA device here has that address'

note "nobody listens; no route; nobody has the address"
clients_refused 'nobody listens there: is rmemd running, and listening at that address and port'
TO=verbs://10.99.0.1:7471 shown 'no route leads there|Network is unreachable'
TO=verbs://nowhere.invalid:7471 shown 'no such host'
TO=verbs://10.77.0.9:7471 mount_refused 'is the host up, with an RDMA device'

note "somebody else listens there"
rping -s -a "$B" -p 7601 >"$WORK/rping.log" 2>&1 &
rping=$!
rping_listens() {
    rdma resource show cm_id 2>/dev/null | grep -q ':7601 .*LISTEN\|LISTEN.*:7601'
}
wait_for 10 "rping" rping_listens
# It takes one caller and ends; rmemctl calls once.
TO=verbs://$B:7601 shown 'the program that listens there is no rmemd'
kill "$rping" 2>/dev/null || true
wait "$rping" || true
# Nor does a stranger disturb rmemd.
! timeout 30 rping -c -a "$B" -p 7471 -C 1 >"$WORK/rping.log" 2>&1 || fail "rping got in"
grep -q REJECTED "$WORK/rping.log" || fail "rping was not refused: $(cat "$WORK/rping.log")"
TO=verbs://$B:7471 shown ' up '

note "no right to the device"
server_stop
server_start # with memory that no volume has
# As another user, with nothing of root's, and no more than 64 KiB to lock.
chmod 755 "$WORK" && cp -p "$CONF" "$WORK/other.cfg" && chmod 644 "$WORK/other.cfg"
nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all --bounding-set=-all
    bash -c 'ulimit -l 64 && exec "$@"' -)
nodes=(/dev/infiniband/uverbs* /dev/infiniband/rdma_cm)
modes=$(stat -c '%a' /dev/infiniband/rdma_cm)
TO=verbs://$B:7471 LISTEN=verbs://$B:7600
AS=("${nobody[@]}")
chmod 0666 "${nodes[@]}"
note "too little memory to lock"
bench_refused 'ulimit -l|LimitMEMLOCK'
rmemd_refused 'ulimit -l|LimitMEMLOCK'
chmod 0600 /dev/infiniband/uverbs*
bench_refused '/dev/infiniband/uverbs[0-9]: Permission denied: this user may not use the RDMA device rxe_'
rmemd_refused '/dev/infiniband/uverbs[0-9]: Permission denied: this user may not use the RDMA device rxe_'
chmod 0600 /dev/infiniband/rdma_cm
bench_refused 'rdma_cm: Permission denied: this user may not use RDMA'
rmemd_refused 'rdma_cm: Permission denied: this user may not use RDMA'
chmod "$modes" /dev/infiniband/rdma_cm
AS=()

note "no device at all"
server_stop
rdma link del rxe_a
rdma link del rxe_b
clients_refused 'no RDMA device.*rdma link add rxe0 type rxe netdev eth0'
rmemd_refused 'no RDMA device.*rdma link add rxe0 type rxe netdev eth0'
rdma link add rxe_a type rxe netdev va
rdma link add rxe_b type rxe netdev vb
finish
