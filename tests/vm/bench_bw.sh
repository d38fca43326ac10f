#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# usage: bench_bw.sh [SIZE...]
# Messages a second and bandwidth of one queue pair, next to perftest: with its defaults (a doorbell
# for each message) and with --post_list as long as our chains. Everybody has as many messages under way
# and polls. Neighbours that continue each other merge: that is the last column.
# RMEM_BENCH_TIMES  so many times the messages in a run (1), for a clock that shows the time
. "$RMEM_VM/contest.sh"
set -eu

sizes=${*:-64 512 1024 2048 4096 16384 65536 1048576}
chain=32

times=${RMEM_BENCH_TIMES:-1}

count_of() { # SIZE: messages in a run
    if [ "$1" -le 4096 ]; then
        echo $((2048 * times))
    elif [ "$1" -le 16384 ]; then
        echo $((512 * times))
    else
        echo $((64 * times))
    fi
}
batch_of() { # SIZE: of two batches under way
    if [ "$1" -le 16384 ]; then echo 64; else echo 8; fi
}

run_ours() { # OP SIZE WHO OPTION...
    ours_op=$1 ours_size=$2 ours_who=$3 ours_batch=$(batch_of "$2")
    shift 3
    ours bw --op "$ours_op" --size "$ours_size" --poll busy --batch "$ours_batch" --in-flight 2 \
        --iterations $(($(count_of "$ours_size") / ours_batch)) --warmup 2 --post-batch $chain \
        --json "$@" | awk '/"ops_per_s"/ { getline; print $2 + 0 }' |
        note "$ours_op" "$ours_size" "$ours_who"
}
run_theirs() { # OP SIZE WHO OPTION...: bandwidth has more digits where messages are few
    theirs_op=$1 theirs_size=$2 theirs_who=$3
    shift 3
    perftest "ib_${theirs_op}_bw" "$theirs_size" "$(count_of "$theirs_size")" \
        -t $((2 * $(batch_of "$theirs_size"))) "$@" |
        awk '{ print $1 <= 4096 ? $5 * 1e6 : $4 * 1048576 / $1 }' |
        note "$theirs_op" "$theirs_size" "$theirs_who"
}

ours_write() { run_ours write "$1" ours; }
ours_read() { run_ours read "$1" ours; }
ours_merged() { [ "$1" -gt 4096 ] || run_ours write "$1" merged --layout contiguous; }
write_bw() { run_theirs write "$1" default; }
read_bw() { run_theirs read "$1" default; }
write_list() { run_theirs write "$1" list -l $((chain < $(batch_of "$1") ? chain : $(batch_of "$1"))); }
read_list() { run_theirs read "$1" list -l $((chain < $(batch_of "$1") ? chain : $(batch_of "$1"))); }

contest_begin
contest "$sizes" ours_write write_bw write_list ours_merged ours_read read_bw read_list
table '
    END {
        for (op = 1; op <= 2; op++) {
            row = op == 1 ? "write" : "read"
            printf "\n%ss: messages/s, median of the rounds (least..most)\n", row
            printf "%8s %-24s %-24s %-24s %7s %7s %7s  %s\n", "bytes", "rmem-bench bw",
                "ib_" row "_bw", "with --post_list", "ratio", "to list", "MB/s", "merged"
            for (i = 1; i <= size_count; i++) {
                size = sizes[i]
                mine = median(row, size, "ours")
                printf "%8d %-24s %-24s %-24s %7s %7s %7.1f  %s\n", size,
                    cell(row, size, "ours", "%.0f"), cell(row, size, "default", "%.0f"),
                    cell(row, size, "list", "%.0f"),
                    ratio(mine, median(row, size, "default")),
                    ratio(mine, median(row, size, "list")), mine * size / 1e6,
                    cell(row, size, "merged", "%.0f")
            }
        }
    }'
contest_end
