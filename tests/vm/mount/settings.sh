#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Settings of the verbs fabric: what a device forces down is told and is no obstacle; the path MTU shows
# in the packets.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
over_verbs || skip "needs RMEM_TEST_VERBS"
RMEM_BENCH=${RMEM_BENCH:-$(dirname "$RMEMD")/rmem-bench}
POOL_SIZE=16MiB
server_start
server_url rmemd
server=$URL

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
server_stop
