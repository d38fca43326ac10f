#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# fs.write at "back" next to "through": two mounts, each with a server of its own, that take turns,
# row by row and round by round, each first every other time. Direct writes over a file that is there,
# in aligned blocks, with an fsync each 32 MiB within the time that counts. Prints a table; no figure
# makes it fail.
#
# RMEM_BENCH_ROUNDS  rounds (5)             RMEM_BENCH_MS  length of one run (1500)
# RMEM_BENCH_ROWS    a regular expression: only these rows
# RMEM_MOUNT_OPTIONS for both mounts; with "--set engine.poll=event" no reactor spins, so that the CPU
#                    column is what an operation takes, on a busy machine as well. Over shm "back" goes
#                    through, so both columns should be alike; "--set fs.stage_local=true" has it staged
# RMEM_TEST_VERBS    as for scenarios: over RDMA, in the guest
# RMEM_BENCH_FILE    size of the file in MiB (128)
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio

rounds=${RMEM_BENCH_ROUNDS:-5}
run_ms=${RMEM_BENCH_MS:-1500}
wanted=${RMEM_BENCH_ROWS:-.}
file_mib=${RMEM_BENCH_FILE:-128}
results=$WORK/results
: >"$results"
POOL_SIZE=$((file_mib + 64))MiB

# mount_mode MODE
mount_mode() {
    local mode=$1
    mkdir -p "$WORK/$mode"
    server_start "$mode"
    STORE=$WORK/store-$mode CONFIG_MORE="$more fs = { write = \"$mode\"; };"
    config_write "$mode"
    mount_start "$WORK/$mode"
    pids[$mode]=$MOUNT_PID
    MOUNT_PID=
    fio --name=lay --directory="$WORK/$mode" --filename=data --size="${file_mib}M" --bs=1M --rw=write \
        --ioengine=psync --end_fsync=1 --output=/dev/null || fail "the file cannot be written"
}

cpu_ticks() { # MODE: what its daemon has used until now
    sed 's/.*) //' "/proc/${pids[$1]}/stat" | awk '{print $12 + $13}'
}

# kops MODE OPTION...: thousands of operations a second, and all of them.
kops() {
    local mode=$1 line
    shift
    line=$(fio --name=bench --directory="$WORK/$mode" --filename=data --size="${file_mib}M" --minimal \
        --iomem_align=4k --randrepeat=0 --norandommap --time_based --runtime="${run_ms}ms" \
        --direct=1 "$@" 2>>"$WORK/fio.log" | grep -m1 '^3;') ||
        fail "fio $*: $(tail -n 3 "$WORK/fio.log")"
    awk -F';' '{ if ($5 != 0) exit 1; print $49 / 1000 "|" $49 * $50 / 1000 }' <<<"$line" || fail "fio $*: error"
}

measure() { # ROW OPTION...
    local row=$1 round mode order before outcome
    shift
    grep -qE -- "$wanted" <<<"$row" || return 0
    for ((round = 0; round < rounds; round++)); do
        order='through back'
        [ $((round % 2)) = 0 ] || order='back through'
        for mode in $order; do
            before=$(cpu_ticks "$mode")
            outcome=$(kops "$mode" "$@")
            echo "$row|$mode|$outcome|$(($(cpu_ticks "$mode") - before))" >>"$results"
        done
    done
}

declare -A pids
more=
! over_verbs || more='staging = { size = "16MiB"; };'
mount_mode back
mount_mode through
for rw in write randwrite; do
    measure "4 KiB $rw, depth 1" --bs=4k --rw="$rw" --ioengine=psync --fsync=8192
    measure "4 KiB $rw, depth 32" --bs=4k --rw="$rw" --ioengine=libaio --iodepth=32 --fsync=8192
done
for rw in write randwrite; do
    measure "1 MiB $rw, depth 1" --bs=1M --rw="$rw" --ioengine=psync --fsync=32
    measure "1 MiB $rw, depth 32" --bs=1M --rw="$rw" --ioengine=libaio --iodepth=32 --fsync=32
done

awk -F'|' -v tick="$(getconf CLK_TCK)" '
    function sorted(list, n,   i, j, t) {
        for (i = 2; i <= n; i++)
            for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
                t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
            }
    }
    function spread(row, mode,   list, n, i) {
        n = count[row, mode]
        for (i = 1; i <= n; i++)
            list[i] = value[row, mode, i]
        sorted(list, n)
        middle = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        return sprintf("%8.2f (%.2f..%.2f)", middle, list[1], list[n])
    }
    {
        if (!($1 in seen)) {
            seen[$1] = 1
            order[++rows] = $1
        }
        value[$1, $2, ++count[$1, $2]] = $3
        work[$1, $2] += $4
        ticks[$1, $2] += $5
    }
    END {
        printf "%-24s %26s %26s %6s   %s\n", "kop/s: median (range)", "through", "back",
            "ratio", "daemon CPU, us/op"
        for (i = 1; i <= rows; i++) {
            through = spread(order[i], "through"); base = middle
            back = spread(order[i], "back")
            printf "%-24s %26s %26s %6.2f   %.1f / %.1f\n", order[i], through, back, middle / base,
                ticks[order[i], "through"] / tick * 1e6 / work[order[i], "through"],
                ticks[order[i], "back"] / tick * 1e6 / work[order[i], "back"]
        }
    }' "$results"
for mode in back through; do
    MOUNT_PID=${pids[$mode]}
    mount_stop "$WORK/$mode"
done
for name in "${!SERVER_PID[@]}"; do
    server_stop "$name"
done
