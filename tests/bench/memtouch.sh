#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memtouch on memory larger than the caches, with ordinary and with streaming stores, for a share of
# writes of 0, 50 and 100 percent. They take turns, each first every other time. Prints a table; no
# figure makes it fail.
#
# RMEM_BENCH_ROUNDS   rounds (9)          RMEM_BENCH_MS       length of one run (1000)
# RMEM_BENCH_MIB      memory (512)        RMEM_BENCH_OPTIONS  more options of memtouch
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
rounds=${RMEM_BENCH_ROUNDS:-9}
run_ms=${RMEM_BENCH_MS:-1000}
mib=${RMEM_BENCH_MIB:-512}
results=$WORK/results

rate() { # RATIO [--nt_stores]: reads and writes, MiB/s
    # shellcheck disable=SC2086 # options
    "$MEMTOUCH" --thread_mem "$mib" --rw_ratio "$1" --duration "${run_ms}ms" --stat_file /dev/null \
        "${@:2}" ${RMEM_BENCH_OPTIONS:-} | awk '$1 == "read" { r = $3 } $1 == "write" { w = $3 }
            END { print r, w }'
}

for ((round = 0; round < rounds; round++)); do
    for ratio in 0 50 100; do
        order='ordinary streaming'
        [ $((round % 2)) = 0 ] || order='streaming ordinary'
        for stores in $order; do
            options=()
            [ "$stores" = ordinary ] || options=(--nt_stores)
            echo "$ratio $stores $(rate "$ratio" "${options[@]}")" >>"$results"
        done
    done
done

echo "$("$MEMTOUCH" --once --thread_mem 1 --nt_stores | sed -n 's/.*writes, \(.*\) stores/\1/p') stores;" \
    "$mib MiB, $rounds rounds of $run_ms ms; reads and writes together, MiB/s: median (min..max)"
awk '
    function middle(ratio, stores,   list, n, i, j, t) {
        n = count[ratio, stores]
        for (i = 1; i <= n; i++) {
            t = value[ratio, stores, i]
            for (j = i; j > 1 && list[j - 1] > t; j--)
                list[j] = list[j - 1]
            list[j] = t
        }
        least = list[1]; most = list[n]
        return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
    }
    { value[$1, $2, ++count[$1, $2]] = $3 + $4 }
    END {
        printf "%-9s %-26s %-26s %s\n", "rw_ratio", "ordinary", "--nt_stores", "ratio"
        for (ratio = 0; ratio <= 100; ratio += 50) {
            ours = middle(ratio, "ordinary")
            text = sprintf("%8.0f (%.0f..%.0f)", ours, least, most)
            theirs = middle(ratio, "streaming")
            printf "%-9d %-26s %-26s %.2f\n", ratio, text,
                sprintf("%8.0f (%.0f..%.0f)", theirs, least, most), theirs / ours
        }
    }' "$results"
