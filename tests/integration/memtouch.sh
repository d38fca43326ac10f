#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memtouch on memory: runs, verifies, writes its lines, ends on signals, refuses what makes no sense.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
small=(--thread_mem 4 --num_threads 2)
touches=("$MEMTOUCH" "${small[@]}")
line='^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\.[0-9]{3}[+-][0-9]{4} read_mibps:[0-9]+\.[0-9]{2} write_mibps:[0-9]+\.[0-9]{2}$'

for stores in "" --nt_stores "--nt_stores --no_avx512"; do
    for ratio in 0 50 100; do
        # shellcheck disable=SC2086
        "${touches[@]}" --rw_ratio $ratio --verify --duration 200ms $stores >"$WORK/out.log"
        grep -q 'ended by: duration' "$WORK/out.log" || fail "no summary: $(cat "$WORK/out.log")"
    done
done
"${touches[@]}" --random --duration 300ms --stat_ival 50 --page_log_ival 16 --stat_file "$WORK/rates" >"$WORK/out.log"
[ "$(grep -cE "$line" "$WORK/rates")" -ge 3 ] || fail "lines of rates: $(cat "$WORK/rates")"
! grep -qvE "$line" "$WORK/rates" || fail "other lines: $(cat "$WORK/rates")"
says 'ended by: once' "${touches[@]}" --once
says 'no_avx512 changes nothing without --nt_stores' "${touches[@]}" --once --no_avx512
[ -z "$("${touches[@]}" --once --no_avx512 --nt_stores 2>&1 >/dev/null)" ] || fail "a message without need"
need python3
"${touches[@]}" --json --duration 300ms --stat_ival 100 --verify --nt_stores >"$WORK/json"
python3 - "$WORK/json" <<'END'
import json, sys
result = json.load(open(sys.argv[1]))
assert result["ended_by"] == "duration" and result["error"] is None, result
assert result["warm_up"]["mib"] == 8, result
run = result["run"]
assert 2 <= run["intervals"] <= 3 and run["read"]["mib"] > 0 and run["write"]["mib"] > 0, result
assert run["write"]["min_mibps"] <= run["write"]["p50_mibps"] <= run["write"]["p99_mibps"], result
END

# SIGNAL STATUS OPTION...: it must end at once, with a summary.
ends_on() {
    local signal=$1 wanted=$2 pid status=0 start
    shift 2
    "$MEMTOUCH" "$@" >"$WORK/out.log" 2>&1 &
    pid=$!
    sleep 0.3
    alive "$pid" || fail "memtouch $* ended early: $(cat "$WORK/out.log")"
    start=$(date +%s%N)
    kill "-$signal" "$pid"
    ended "$pid" 5 memtouch || status=$?
    same "$wanted" "$status" "the status of memtouch $* after SIG$signal"
    [ $((($(date +%s%N) - start) / 1000000)) -lt 2000 ] || fail "SIG$signal took too long"
    grep -q "ended by: SIG$signal" "$WORK/out.log" || fail "no summary: $(cat "$WORK/out.log")"
}
set -m # or SIGINT would be ignored in what runs in the background
ends_on INT 0 "${small[@]}"
ends_on TERM 0 "${small[@]}" --random --verify --nt_stores
ends_on TERM 143 "${small[@]}" --duration 1h
ends_on INT 130 --thread_mem 1024 --num_threads 4 --once # in the warm-up
set +m

# On a terminal the warm-up shows where it is.
if command -v script >/dev/null; then
    script -qec "$MEMTOUCH --thread_mem 600 --num_threads 1 --once" "$WORK/typescript" >/dev/null </dev/null
    grep -qE 'warm-up: [0-9]+ %, [0-9]+ of 600 MiB, [0-9]+ MiB/s' "$WORK/typescript" ||
        fail "no progress: $(cat -v "$WORK/typescript")"
fi

refused 2 'rw_ratio: 101 is out of range: from 0 to 100' "${touches[@]}" --rw_ratio 101
refused 2 'num_threads: 0 is out of range' "${touches[@]}" --num_threads 0
refused 2 '"4x" is not a number' "${touches[@]}" --thread_mem 4x
refused 2 '99999999999999999999 is out of range' "${touches[@]}" --thread_mem 99999999999999999999
refused 2 '"--fast" is no option' "${touches[@]}" --fast
refused 2 'wants a value' "${touches[@]}" --file
refused 1 '4194304 MiB is more than the' "$MEMTOUCH" --thread_mem 4194304
refused 1 "can't write to $WORK/none/log" "${touches[@]}" --stat_file "$WORK/none/log"
refused 1 '/dev/null.*not a regular file' "${touches[@]}" --file /dev/null
refused 1 'is a directory' "${touches[@]}" --file "$WORK"
refused 1 "can't open .*none/file" "${touches[@]}" --file "$WORK/none/file"
if [ -w /dev/full ]; then
    refused 1 "can't write to /dev/full" "${touches[@]}" --stat_file /dev/full --stat_ival 10
fi
mkfifo "$WORK/fifo"
refused 1 'not a regular file' "${touches[@]}" --file "$WORK/fifo"
says 'usage: memtouch' "$MEMTOUCH" --help
says '^memtouch [0-9]' "$MEMTOUCH" --version

# What lies in the memory is really compared: a byte changed from outside is found.
"${touches[@]}" --rw_ratio 0 --verify --file "$WORK/file" >"$WORK/out.log" 2>&1 &
pid=$!
wait_for 10 "the warm-up" grep -q read_mibps "$WORK/out.log"
printf x | dd of="$WORK/file" bs=1 seek=$((5 * 1048576 + 4097)) conv=notrunc status=none
status=0
ended "$pid" 10 memtouch || status=$?
same 1 "$status" "the status after a mismatch"
grep -q 'mismatch in .*file at byte 5246976: thread 1, page 257, pass 1: 1 of 512 words' "$WORK/out.log" ||
    fail "it said: $(cat "$WORK/out.log")"
