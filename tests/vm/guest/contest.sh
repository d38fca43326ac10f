# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# Ours next to the tools that come with the verbs libraries: what the scripts bench_*.sh share. Every
# client is on host a and every server on host b, with the path MTU of the devices.
#
# A result is a line "ROW|SIZE|WHO|VALUE" in $results. RMEM_BENCH_ROUNDS of each are taken, and within
# a round and size the contenders take turns, another one first each round. Tables have medians; no
# figure makes a script fail.
. "$RMEM_VM/lib.sh"

rounds=${RMEM_BENCH_ROUNDS:-3}
work=$(mktemp -d)
results=$work/results
gid_a=$(gid_index rxe_a $A)
gid_b=$(gid_index rxe_b $B)
mtu=4096
url=verbs://$B:7471

contest_begin() { # starts the memory server
    rmemd --listen "$url" --allow-unauthenticated --size 192MiB >"$work/rmemd.log" 2>&1 &
    rmemd_pid=$!
    wait_until 60 grep -q "listens at" "$work/rmemd.log" || {
        cat "$work/rmemd.log" >&2
        exit 1
    }
}

contest_end() {
    kill $rmemd_pid
    wait $rmemd_pid || true
    rm -r "$work"
}

contest() { # SIZES CONTENDER...: functions, called with a size, that note results
    contest_sizes=$1
    shift
    contest_round=0
    while [ $contest_round -lt "$rounds" ]; do
        for size in $contest_sizes; do
            for contender; do
                $contender "$size"
            done
        done
        contest_first=$1
        shift
        set -- "$@" "$contest_first"
        contest_round=$((contest_round + 1))
    done
}

note() { # ROW SIZE WHO: takes the value from standard input; there must be one
    read -r note_value || {
        echo "no result: $*" >&2
        return 1
    }
    echo "$1|$2|$3|$note_value" >>"$results"
}

# --- The contenders' programs

ours() { # COMMAND OPTION...: rmem-bench, next to a server that is busy, so patient
    ours_command=$1
    shift
    rmem-bench "$ours_command" --server "$url" --overwrite --repeat 1 --set engine.detect=30s "$@"
}

pair() { # TOOL GID_OPTION OPTION...: runs both halves; prints what the client does
    pair_tool=$1 pair_gid=$2
    shift 2
    "$pair_tool" -d rxe_b "$pair_gid" "$gid_b" "$@" >"$work/peer.log" 2>&1 &
    pair_pid=$!
    wait_until 60 tcp_listens 18515
    "$pair_tool" -d rxe_a "$pair_gid" "$gid_a" "$@" $B 2>>"$work/peer.log" || {
        cat "$work/peer.log" >&2
        return 1
    }
    wait $pair_pid
}

pingpong() { # SIZE ITERATIONS OPTION...: us there and back, mean
    pingpong_size=$1 pingpong_count=$2
    shift 2
    pair ibv_rc_pingpong -g -m $mtu -s "$pingpong_size" -n "$pingpong_count" "$@" |
        awk '/usec\/iter/ { print $(NF - 1) }'
}

perftest() { # TOOL SIZE ITERATIONS OPTION...: the fields of its row: see --help of the tool
    perftest_tool=$1 perftest_size=$2 perftest_count=$3
    shift 3
    pair "$perftest_tool" -x -F -s "$perftest_size" -n "$perftest_count" "$@" |
        awk -v size="$perftest_size" '$1 == size && NF >= 5 { $1 = $1; print }'
}

field() { # NUMBER
    awk -v number="$1" '{ print $number }'
}

# --- The table

table() { # PROGRAM, in awk: prints from median(ROW, SIZE, WHO), which sets low and high, too
    awk -v FS='|' '
        function sort(list, n,   i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
                    t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
                }
        }
        function median(row, size, who,   key, n, i, list) {
            key = row "|" size "|" who
            n = key in count ? count[key] : 0
            for (i = 1; i <= n; i++) list[i] = value[key, i] + 0
            if (n == 0) return 0
            sort(list, n)
            low = list[1] + 0; high = list[n] + 0
            return n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
        }
        function ratio(over, under) {
            return under > 0 ? sprintf("%.2f", over / under) : "-"
        }
        # "12.3 (11.9..14.0)"
        function cell(row, size, who, format,   middle) {
            if (!((row "|" size "|" who) in count)) return "-"
            middle = median(row, size, who)
            return sprintf(format " (" format ".." format ")", middle, low, high)
        }
        {
            value[$1 "|" $2 "|" $3, ++count[$1 "|" $2 "|" $3]] = $4
            rows[$1] = 1
            if (!($2 in seen) && $2 ~ /^[0-9]+$/) { seen[$2] = 1; sizes[++size_count] = $2 }
        }
        '"$1" "$results"
}
