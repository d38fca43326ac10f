#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What the settings of the verbs fabric do, seen on the wire and in the log, and what the programs say
# when something is not there: each message says what to do.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need python3 setpriv
over_verbs || skip "needs RMEM_TEST_VERBS"
RMEM_BENCH=${RMEM_BENCH:-$(dirname "$RMEMD")/rmem-bench}
POOL_SIZE=16MiB
server_start
server_url rmemd
server=$URL host=${URL%:*}

# bench OPTION...: a few transfers of 64 KiB between us and the server.
bench() {
    timeout 60 "$RMEM_BENCH" lat --server "$server" --overwrite --size 64KiB --iterations 20 --repeat 1 \
        --idle 1ms --set staging.size=1MiB "$@" 2>&1 || echo "status $?"
}
# heard PATTERN OPTION...: bench says something like that.
heard() {
    local pattern=$1 output
    shift
    output=$(bench "$@")
    grep -qE -- "$pattern" <<<"$output" || fail "should have said /$pattern/: bench $* (it said: $output)"
}
sent() { # packets
    cat /sys/class/net/va/statistics/tx_packets
}

# What the device can't do is told, and is no obstacle.
heard 'engine.depth is [0-9]+ instead of 32768 here: .*completions' --set engine.depth=32768 --set engine.lanes=8
heard 'engine.chunk is [0-9]+ bytes instead of 67108864 here' --set engine.chunk=64MiB --set staging.size=64MiB
heard 'verbs.inline is [0-9]+ here instead of 1024' --set verbs.inline=1KiB --set log.fabric=info
heard '^ *65536 .*write' --set engine.depth=32768 --set engine.lanes=8

# The path MTU: four times as many packets for a quarter of it.
before=$(sent)
heard '^ *65536 .*write'
large=$(($(sent) - before))
before=$(sent)
heard '^ *65536 .*write' --set verbs.mtu=1024
small=$(($(sent) - before))
[ "$small" -gt $((large * 2)) ] || fail "verbs.mtu=1024: $small packets, and $large without"

# The traffic class of what goes out.
python3 - >"$WORK/tos" <<'END' &
import socket
wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
wire.bind(("va", 0))
wire.settimeout(40)
print("ready", flush=True)
seen = set()
while True:
    packet, where = wire.recvfrom(2048)
    if where[2] == 4 and packet[23] == 17 and packet[36:38] == b"\x12\xb7" and packet[15] not in seen:
        seen.add(packet[15])
        print(f"{packet[15]:02x}", flush=True)
        if packet[15] == 0x68:
            break
END
listener=$!
wait_for 20 "the listener" grep -q ready "$WORK/tos"
heard '^ *65536 .*write' --set verbs.traffic_class=104
wait_for 20 "packets of traffic class 104 (seen: $(cat "$WORK/tos"))" grep -q 68 "$WORK/tos"
kill "$listener" 2>/dev/null || true

# Where connections leave from: an address, a device, and what is neither.
for source in rxe_a "$RMEM_TEST_CLIENT"; do
    heard '^ *65536 .*write' --set verbs.source="$source"
done
heard 'verbs.source is rxe_z, which is neither .*rdma link' --set verbs.source=rxe_z

# A port of one's own, for addresses that name none.
"$RMEMD" --listen "$host" --size 1MiB --allow-unauthenticated --set verbs.port=7999 >"$WORK/port.log" 2>&1 &
other=$!
wait_for 20 "the server on another port" grep -q 'listens at' "$WORK/port.log"
server=$host heard '^ *65536 .*write' --set verbs.port=7999
server=$host:7999 heard '^ *65536 .*write'

# Who listens there, and who does not.
refused 1 'another server listens there' "$RMEMD" --listen "$host:7999" --size 1MiB --allow-unauthenticated
kill "$other"
ended "$other" 10 "the other server"
refused 1 'allow-unauthenticated' "$RMEMD" --listen "$host:7999" --size 1MiB
server=$host:7999 heard 'nobody listens there: is rmemd running'
server=verbs://192.0.2.7 heard 'no route leads there'
server=verbs://127.0.0.1 heard 'no RDMA device .*rdma link add'
server=verbs://no.such.host.invalid heard 'no such host'
refused 1 'no RDMA device .*rdma link add' "$RMEMD" --listen verbs://192.0.2.7 --size 1MiB --allow-unauthenticated
rping -s -a "$RMEM_TEST_VERBS" -p 7998 >"$WORK/rping.log" 2>&1 &
other=$!
sleep 1
server=$host:7998 heard 'the program that listens there is no rmemd|rejected'
kill -KILL "$other" 2>/dev/null || true

# What a user may not.
as_nobody() {
    setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all "$@"
}
chmod 666 /dev/infiniband/*
chmod 711 "$WORK"
refused 1 'ulimit -l.*LimitMEMLOCK' as_nobody bash -c "ulimit -l 256; exec '$RMEMD' --listen '$host:7997' --size 8MiB --allow-unauthenticated"
refused '*' 'ulimit -l.*LimitMEMLOCK' as_nobody bash -c "ulimit -l 256; exec '$RMEM_BENCH' lat --server '$server' --overwrite --size 4KiB --repeat 1 --iterations 1"
chmod 600 /dev/infiniband/rdma_cm
refused 1 'rdma_cm: .*this user may not use RDMA' as_nobody "$RMEMD" --listen "$host:7997" --size 1MiB --allow-unauthenticated
chmod 666 /dev/infiniband/rdma_cm
server_stop
