#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Settings of the verbs fabric that show in packets, in queue pairs and in who can be reached: the
# traffic class, the source, the port, and how often and how long a device tries.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
over_verbs || skip "needs RMEM_TEST_VERBS"
RMEM_BENCH=${RMEM_BENCH:-$(dirname "$RMEMD")/rmem-bench}
POOL_SIZE=16MiB
REFUSE_SECONDS=60
A=$RMEM_TEST_CLIENT B=$RMEM_TEST_VERBS
SPY=$RMEM_HELPERS/qp-spy.so
LD_PRELOAD=$SPY server_start rmemd --set verbs.retry=3 --set verbs.timeout=70ms \
    --set verbs.rnr_retry=2 --set verbs.rnr_timer=1280us
TO=$URL

bench_words=(lat --overwrite --op write --size 4KiB --iterations 50 --repeat 1 --idle 1ms --set staging.size=1MiB)
bench() { # OPTION...
    timeout 60 "$RMEM_BENCH" "${bench_words[@]}" --server "$TO" "$@"
}
bench_refused() { # PATTERN OPTION...
    local pattern=$1
    shift
    refused '[12]' "$pattern" "$RMEM_BENCH" "${bench_words[@]}" --server "$TO" --set engine.connect_timeout=1s "$@"
}

note "what queue pairs get"
# 4.096 us * 2^14 is 67 ms, 2^13 34 ms; code 14 of the RNR timer is 1.28 ms, 16 is 2.56 ms.
qp_has() { # LOG PATTERN
    grep -qE -- "$2" "$1" || fail "no queue pair with /$2/: $(grep '^qp:' "$1" | sort | uniq -c)"
}
LD_PRELOAD=$SPY bench --set verbs.retry=5 --set verbs.timeout=40ms --set verbs.rnr_retry=4 \
    --set verbs.rnr_timer=2560us --set verbs.traffic_class=104 >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
qp_has "$WORK/bench.log" '^qp: timeout 13 retry 5 rnr_retry 4 rnr_timer 16 mtu [0-9]+ class 104$'
qp_has "$WORK/rmemd.log" '^qp: timeout 14 retry 3 rnr_retry 2 rnr_timer 14 '
! grep '^qp:' "$WORK/bench.log" | grep -qvE 'timeout 13 retry 5 rnr_retry 4 rnr_timer 16 .* class 104$' ||
    fail "a queue pair has something else: $(grep '^qp:' "$WORK/bench.log")"

note "the traffic class in packets"
classes() { # OPTION...: those of what goes out during a measurement
    coproc WATCH { exec python3 "$RMEM_VM/roce_tos.py" va 60; }
    local pid=$WATCH_PID out=${WATCH[0]} line
    read -r line <&"$out"
    bench "$@" >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
    eval "exec ${WATCH[1]}>&-"
    cat <&"$out"
    wait "$pid" || fail "roce_tos.py: status $?"
}
seen=$(classes)
grep -qE '^0 [0-9]{2,}$' <<<"$seen" || fail "without a class: $seen"
seen=$(classes --set verbs.traffic_class=104)
grep -qE '^104 [0-9]{2,}$' <<<"$seen" || fail "verbs.traffic_class=104: $seen"

note "the source"
bench --set verbs.source="$A" >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
bench --set verbs.source=rxe_a >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
bench_refused 'verbs.source is 10.99.0.1, an address that no RDMA device here has' --set verbs.source=10.99.0.1
bench_refused "verbs.source is rxe_x, which is neither a local address nor an RDMA device .*'rdma link'" \
    --set verbs.source=rxe_x

note "a port of its own"
server_stop
"$RMEMD" --listen "verbs://$B" --set verbs.port=7602 --size 16MiB --allow-unauthenticated >"$WORK/own.log" 2>&1 &
own=$!
wait_for 15 "rmemd at port 7602" grep -q 'listens at' "$WORK/own.log"
TO=verbs://$B
bench --set verbs.port=7602 >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
bench_refused 'nobody listens there'
TO=verbs://$B:7602
bench >"$WORK/bench.log" 2>&1 || fail "$(cat "$WORK/bench.log")"
kill "$own"
wait "$own" || fail "rmemd ended with status $?"
