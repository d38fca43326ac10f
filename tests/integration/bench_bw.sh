# SPDX-License-Identifier: Apache-2.0
# rmem-bench bw, in small: every preset, both operations, tables and JSON, a server of somebody
# else's, and what is left behind when it is stopped.
source "$RMEM_LIB"
need python3

mkdir "$WORK/tmp"
export TMPDIR=$WORK/tmp

nothing_left() {
    same "" "$(ls -A "$TMPDIR")" "what $1 left in its folder"
}

# bw OPTION...: prints its output, and a table is checked for having every column of every row.
bw() {
    timeout 60 "$RMEM_BENCH" bw "$@" >"$WORK/out" || fail "rmem-bench bw $*: status $?"
    nothing_left "bw $*"
}

# table ROWS: what bw printed has so many rows, with as many numbers as there are titles.
table() {
    awk -v wanted="$1" '
        /^# *bytes/ { titles = gsub(/ [^ ]*(GB\/s|us|%)( |$)/, "&"); seen = 1 }
        !/^#/ {
            rows++
            if (NF != 15) { print "a row of " NF " columns: " $0; exit 1 }
            for (i = 1; i <= NF; i++)
                if ($i !~ /^[0-9]+(\.[0-9]+)?$/) { print "no number: " $i; exit 1 }
            if ($3 <= 0 || $4 < $3 || $5 <= 0 || $8 <= 0) { print "not measured: " $0; exit 1 }
        }
        END { if (!seen || rows != wanted) { print rows " rows"; exit 1 } }' "$WORK/out" ||
        fail "the table is not right: $(cat "$WORK/out")"
    for title in bytes batches GB/s 'max GB/s' 'p50 us' 'p99 us' ops/s 'CPU %' 'CPU ns/op' \
        bells/op WRs/op merges/op ticks/op 'spread %'; do
        grep -q "^# .*$title" "$WORK/out" || fail "no column $title"
    done
}

note "presets"
bw --preset hi-iops --iterations 4 --repeat 2
table 1
grep -q 'preset hi-iops, reactors 8, batch 256' "$WORK/out" || fail "hi-iops is something else"
bw --preset mw-chunkoff --iterations 2 --repeat 1 --memory 64MiB --size 1KiB:1MiB --verify
table 11
grep -q '^# Memory is short' "$WORK/out" || fail "does not say that memory is short"
bw --preset mw-chunkon --iterations 2 --repeat 1 --memory 64MiB --size 64KiB:256KiB --verify
table 3
same "1.0000 2.0000 4.0000" "$(awk '!/^#/ { print $12 }' "$WORK/out" | xargs)" \
    "work requests for 64, 128 and 256 KiB in chunks of 64 KiB"

note "layouts"
bw --layout contiguous --size 4KiB --iterations 8 --repeat 1 --op read --verify
table 1
same 0.9375 "$(awk '!/^#/ { print $13 }' "$WORK/out")" "merges of pages into 64 KiB"
bw --layout scattered --size 4KiB --iterations 8 --repeat 1 --op read --verify
same 0.0000 "$(awk '!/^#/ { print $13 }' "$WORK/out")" "merges of scattered pages"

note "next to copies"
bw --copy --size 4KiB --iterations 100 --repeat 2 --reactors 2
awk '!/^#/ { if (NF != 17 || $16 <= 0 || $17 <= 0) exit 1 }' "$WORK/out" ||
    fail "no figures of copies: $(cat "$WORK/out")"

note "JSON"
bw --size 256:1KiB --iterations 20 --repeat 3 --servers 3 --in-flight 2 --reactors 2 --json --copy
python3 - "$WORK/out" <<'END' || fail "the JSON is not right: $(cat "$WORK/out")"
import json, sys
result = json.load(open(sys.argv[1]))
assert result["command"] == "bw" and result["interrupted"] is False
assert result["parameters"]["servers"] == 3 and result["parameters"]["batch"] == 64
assert [row["bytes"] for row in result["results"]] == [256, 512, 1024]
for row in result["results"]:
    assert row["repetitions"] == 3 and row["iterations"]["median"] == 40
    for name in ("bandwidth_gb_per_s", "bandwidth_peak_gb_per_s", "latency_us", "latency_p50_us",
                 "latency_p99_us", "ops_per_s", "cpu_percent", "cpu_ns_per_op", "doorbells_per_op",
                 "wrs_per_op"):
        figure = row[name]
        assert 0 < figure["min"] <= figure["median"] <= figure["max"], (name, figure)
    assert row["merges_per_op"]["median"] == 0
    assert row["copy"]["bandwidth_gb_per_s"]["median"] > 0
END

note "somebody else's server"
server_start
refused 1 'overwrite.*--overwrite' "$RMEM_BENCH" bw --server "shm:$WORK/rmemd.sock"
bw --server "shm:$WORK/rmemd.sock" --op read --size 4KiB --iterations 4
table 1
bw --server "shm:$WORK/rmemd.sock" --overwrite --verify --size 4KiB --iterations 4
table 1
"$RMEM_BENCH" bw --server "shm:$WORK/rmemd.sock" --op read --size 64 --iterations 1000000 \
    --limit 0 --repeat 1000 >"$WORK/out" 2>"$WORK/err" &
pid=$!
sleep 0.5
server_kill
status=0
ended $pid 20 rmem-bench || status=$?
same 1 "$status" "the status when the server died"
grep -q 'rmemd.sock.*server is gone' "$WORK/err" || fail "it said: $(cat "$WORK/err")"

note "stopped"
"$RMEM_BENCH" bw --size 64:128 --iterations 1000 --repeat 1000 >"$WORK/out" 2>&1 &
pid=$!
sleep 1
kill -INT $pid
status=0
ended $pid 10 rmem-bench || status=$?
same 130 "$status" "the status after an interrupt"
table 2
grep -q '^# Stopped early' "$WORK/out" || fail "does not say that it was stopped"
nothing_left "an interrupt"

note "a picture"
if command -v gnuplot >/dev/null; then
    for kind in svg png; do
        bw --size 64:1KiB --iterations 10 --plot "$WORK/it's a plot.$kind"
        [ -s "$WORK/it's a plot.$kind" ] || fail "no $kind"
    done
    ln -s linked.svg "$WORK/link.svg"
    says . "$RMEM_BENCH" bw --size 64 --iterations 10 --plot "$WORK/link.svg"
    [ -s "$WORK/linked.svg" ] || fail "nothing is drawn where a link leads"
    mkfifo "$WORK/fifo.svg"
    cat "$WORK/fifo.svg" >"$WORK/read.svg" &
    reader=$!
    says . "$RMEM_BENCH" bw --size 64 --iterations 10 --plot "$WORK/fifo.svg"
    wait "$reader"
    [ -s "$WORK/read.svg" ] || fail "nothing is drawn into a FIFO"
    refused 1 "can't write" "$RMEM_BENCH" bw --plot "$WORK/no/plot.svg"
    nothing_left "--plot into no folder"
else
    refused 1 'needs gnuplot' "$RMEM_BENCH" bw --plot "$WORK/plot.svg"
    nothing_left "--plot without gnuplot"
fi
