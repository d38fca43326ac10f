#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: bench_lat.sh [SIZE...]
# Latency in each poll mode, next to ibv_rc_pingpong and perftest, and what waiting costs. One
# operation at a time. A write and a read take until their completion; what goes there and back takes
# until as much has come back. ib_write_lat halves that, and looks for the last byte in memory.
. "$RMEM_VM/contest.sh"
set -eu

echo_url=verbs://$B:7472
sizes=${*:-1 64 512 1024 4096 16384 65536 1048576}

count_of() { # SIZE: operations in a run
    if [ "$1" -le 4096 ]; then
        echo 500
    elif [ "$1" -le 65536 ]; then
        echo 100
    else
        echo 10
    fi
}

ours_lat() { # SIZE
    ours lat --size "$1" --iterations "$(count_of "$1")" --warmup 10 --idle 0 >"$work/ours"
    for mode in busy:4 event:8 adaptive:12; do
        for op in write read; do
            awk -v op=$op -v column=${mode#*:} '$2 == op { print $column }' "$work/ours" |
                note $op "$1" ${mode%:*}
        done
    done
}
ours_send() { # pingpong prints means, perftest medians
    rmem-bench lat --op send --server "$echo_url" --overwrite --answer "verbs://$A:7473" \
        --set engine.detect=30s --size "$1" --iterations "$(count_of "$1")" --warmup 10 --repeat 1 \
        --idle 0 >"$work/ours"
    for mode in busy:3 event:7 adaptive:11; do
        awk -v column=${mode#*:} '$2 == "send" { print $column }' "$work/ours" |
            note send "$1" ${mode%:*}
        awk -v column=${mode#*:} '$2 == "send" { print $(column + 1) / 2 }' "$work/ours" |
            note half "$1" ${mode%:*}
    done
}
write_one() { # as ib_write_lat is no such thing: messages a second, with one under way
    perftest ib_write_bw "$1" "$(count_of "$1")" -t 1 |
        awk '{ print $1 <= 4096 ? 1 / $5 : $1 / 1.048576 / $4 }' | note write "$1" poll
}
read_lat() { perftest ib_read_lat "$1" "$(count_of "$1")" | field 5 | note read "$1" poll; }
read_lat_e() { perftest ib_read_lat "$1" "$(count_of "$1")" -e | field 5 | note read "$1" sleep; }
write_lat() { perftest ib_write_lat "$1" "$(count_of "$1")" | field 5 | note half "$1" poll; }
pingpong_poll() { pingpong "$1" "$(count_of "$1")" | note send "$1" poll; }
pingpong_event() { pingpong "$1" "$(count_of "$1")" -e | note send "$1" sleep; }

server_cpu_ns() {
    cat /proc/$rmemd_pid/task/*/schedstat | awk '{ ns += $1 } END { printf "%.0f\n", ns }'
}

idle() {
    idle_before=$(server_cpu_ns)
    ours lat --size 64 --iterations 1 --warmup 0 --idle 5s | sed '1,/^# Idle/d'
    idle_after=$(server_cpu_ns)
    awk -v ns=$((idle_after - idle_before)) \
        'BEGIN { printf "rmemd meanwhile, with clients coming and going: %.4f s in 15 s\n", ns / 1e9 }'
}

two_ends='ours_send write_lat pingpong_poll pingpong_event'
# Two that poll each other need a processor each; ours yields, the others spend a time slice each time.
[ "$(nproc)" -gt 1 ] || two_ends='ours_send pingpong_event'
contest_begin
rmem-bench echo --listen "$echo_url" >"$work/echo" 2>&1 &
echo_pid=$!
# shellcheck disable=SC2086 # words
contest "$sizes" ours_lat write_one read_lat read_lat_e $two_ends
table '
    function row_table(row, title, theirs, sleeping) {
        if (!(row in rows)) return
        printf "\n%s: usec, median of the rounds (least..most)\n", title
        printf "%8s %-22s %-22s %-22s %-22s %-22s %6s %6s %6s\n", "bytes", "busy", "event",
            "adaptive", theirs, sleeping, "/them", "/event", "ad./b."
        for (i = 1; i <= size_count; i++) {
            size = sizes[i]
            busy = median(row, size, "busy")
            printf "%8d %-22s %-22s %-22s %-22s %-22s %6s %6s %6s\n", size,
                cell(row, size, "busy", "%.1f"), cell(row, size, "event", "%.1f"),
                cell(row, size, "adaptive", "%.1f"), cell(row, size, "poll", "%.1f"),
                cell(row, size, "sleep", "%.1f"), ratio(busy, median(row, size, "poll")),
                ratio(busy, median(row, size, "event")),
                ratio(median(row, size, "adaptive"), busy)
        }
    }
    END {
        row_table("write", "write, until it is complete", "ib_write_bw -t 1", "-")
        row_table("read", "read, until it is complete", "ib_read_lat", "ib_read_lat -e")
        row_table("send", "there and back", "ibv_rc_pingpong", "ibv_rc_pingpong -e")
        row_table("half", "half of there and back", "ib_write_lat", "-")
    }'
echo
echo "idle: CPU seconds a second"
idle
kill $echo_pid
wait $echo_pid || true
contest_end
