# SPDX-License-Identifier: Apache-2.0
# rmem-bench lat, in small: table and JSON have every size, operation and mode.
source "$RMEM_LIB"
need python3

mkdir "$WORK/tmp"
export TMPDIR=$WORK/tmp

timeout 60 "$RMEM_BENCH" lat --iterations 20 --repeat 1 --idle 100ms --verify >"$WORK/out" ||
    fail "rmem-bench lat: status $?"
same "" "$(ls -A "$TMPDIR")" "what it left in its folder"
same "21 21" "$(grep -c ' write ' "$WORK/out") $(grep -c ' read ' "$WORK/out")" \
    "rows from 1 B to 1 MiB"
awk '!/^#/ && $2 ~ /write|read/ && NF != 14 { print; exit 1 }' "$WORK/out" ||
    fail "a row has not all columns"
same "busy event adaptive" "$(awk '!/^#/ && NF == 3 { print $1 }' "$WORK/out" | xargs)" \
    "modes that idled"

timeout 60 "$RMEM_BENCH" lat --iterations 100 --size 8:16 --idle 200ms --json >"$WORK/out" ||
    fail "rmem-bench lat --json: status $?"
python3 - "$WORK/out" <<'END' || fail "the JSON is not right: $(cat "$WORK/out")"
import json, sys
result = json.load(open(sys.argv[1]))
rows = [(row["bytes"], row["op"]) for row in result["results"]]
assert rows == [(8, "write"), (16, "write"), (8, "read"), (16, "read")], rows
for row in result["results"]:
    for mode in ("busy", "event", "adaptive"):
        figures = row[mode]
        assert figures["repetitions"] == 3 and figures["iterations"]["median"] == 100
        assert figures["latency_us"]["median"] > 0 and figures["cpu_percent"]["median"] > 0
        assert figures["latency_p50_us"]["median"] <= figures["latency_p99_us"]["median"]
for mode in ("busy", "event", "adaptive"):
    idle = result["idle"][mode]
    assert idle["seconds"] >= 0.2
    assert mode == "busy" or idle["reactor_cpu_seconds"] < 0.1, idle
END

timeout 60 "$RMEM_BENCH" lat --op read --iterations 10 --size 64 --repeat 1 --idle 0 >"$WORK/out" ||
    fail "rmem-bench lat --op read: status $?"
same 1 "$(grep -cv '^#' "$WORK/out")" "rows for one size and operation"

timeout 60 "$RMEM_BENCH" lat --op send --size 1:64KiB --iterations 20 --repeat 1 --idle 0 >"$WORK/out" ||
    fail "rmem-bench lat --op send: status $?"
same "17 17" "$(grep -c ' send .*[0-9]' "$WORK/out") $(grep -cv '^#' "$WORK/out")" "rows of send"
same "" "$(ls -A "$TMPDIR")" "what it left in its folder"

"$RMEM_BENCH" echo --listen "shm:$WORK/echo" >"$WORK/echo.log" 2>&1 &
echo_pid=$!
wait_for 10 "the echo" grep -q "echoes at" "$WORK/echo.log"
for client in 1 2; do # one after the other
    timeout 60 "$RMEM_BENCH" lat --op all --size 4KiB --iterations 20 --repeat 1 --idle 0 \
        --server "shm:$WORK/echo" --overwrite --answer "shm:$WORK/answer" >"$WORK/out" ||
        fail "rmem-bench lat to an echo: status $?"
    same "write read send" "$(awk '!/^#/ { print $2 }' "$WORK/out" | xargs)" "operations"
done
refused 1 'needs --answer' "$RMEM_BENCH" lat --op send --server "shm:$WORK/echo" --overwrite
kill $echo_pid
wait $echo_pid || fail "rmem-bench echo: status $?"
