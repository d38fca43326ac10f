# SPDX-License-Identifier: Apache-2.0
# How many instructions the engine takes for a message, besides those of the copy itself: callgrind
# counts them over a fixed number of operations, next to a loop that only copies the same messages.
# Instructions are the same on a busy machine and an idle one, which times are not.
#
# usage: run.sh ../bench/instructions [rows | profile]
#   rows     a table over sizes, lanes, servers and layouts (the default)
#   profile  the functions of hi-iops, with their share
source "$RMEM_LIB"
need valgrind callgrind_annotate

# Not of the difference: what happens once costs less than one instruction an operation.
ITERATIONS=${RMEM_BENCH_ITERATIONS:-200}

# count OUT OPTION...: runs bw under callgrind, looking only at what is timed.
count() {
    local out=$1
    shift
    valgrind --quiet --tool=callgrind --callgrind-out-file="$out" \
        --toggle-collect=bench_worker_drive --toggle-collect=bench_worker_copy \
        "$RMEM_BENCH" bw --warmup 0 --repeat 1 --limit 0 --iterations "$ITERATIONS" \
        --memory 1GiB "$@" >"$WORK/bench.out" 2>"$WORK/valgrind.log" ||
        fail "rmem-bench bw $*: $(tail -3 "$WORK/valgrind.log")"
}

# inclusive OUT FUNCTION: the instructions of a function and all it calls, of all threads.
inclusive() {
    callgrind_annotate --inclusive=yes --threshold=100 "$1" 2>/dev/null |
        awk -v name=":$2" 'index($0, name) { gsub(",", "", $1); if (!n++) print $1 }'
}

# row SIZE BATCH OPTION...
row() {
    local size=$1 batch=$2 engine copy # sets `more`
    shift 2
    count "$WORK/row" --copy --size "$size" --batch "$batch" "$@"
    engine=$(inclusive "$WORK/row" bench_worker_drive)
    copy=$(inclusive "$WORK/row" bench_worker_copy)
    [ -n "$engine" ] && [ -n "$copy" ] || fail "callgrind counted nothing: $*"
    more=$(awk -v engine="$engine" -v copy="$copy" -v ops="$((ITERATIONS * batch))" \
        'BEGIN { print (engine - copy) / ops }')
    awk -v engine="$engine" -v copy="$copy" -v ops="$((ITERATIONS * batch))" \
        -v what="$size B, batch $batch $*" 'BEGIN {
            printf "%8.1f %8.1f %8.1f  %s\n", engine / ops, copy / ops, (engine - copy) / ops, what
        }'
}

if [ "${1:-rows}" = profile ]; then
    count "$WORK/profile" --preset hi-iops
    # By function: callgrind lists what is inlined from each file by itself.
    callgrind_annotate --threshold=100 "$WORK/profile" 2>/dev/null | awk '
        /PROGRAM TOTALS/ { gsub(",", "", $1); total = $1 }
        /^ *[0-9,]+ \( *[0-9.]+%\)  [^ ]+:[^ ]/ {
            gsub(",", "", $1)
            count = $1
            sub(/ \[.*/, "")
            sub(/.*:/, "")
            sum[$0] += count
        }
        END { for (name in sum) printf "%6.2f %%  %s\n", sum[name] / total * 100, name }' |
        sort -rn | sed 10q
    exit 0
fi

echo "  engine     copy     more  instructions per message"
row 512 256
row 512 256 --op read
row 512 256 --lanes 8
row 512 256 --chunk off
row 64 256
row 4096 256
# Eight merge into one. Longer copies are a rep movsb, which counts as an instruction a byte.
row 512 256 --layout contiguous --chunk 4KiB
row 512 16
row 512 1
least=''
most=0
for servers in 1 8 64; do
    row 512 256 --servers "$servers"
    least=${least:-$more}
    read -r least most < <(awk -v a="$least" -v b="$most" -v now="$more" \
        'BEGIN { print (now < a ? now : a), (now > b ? now : b) }')
done
awk -v a="$least" -v b="$most" \
    'BEGIN { printf "1, 8 and 64 servers differ by %.1f %%\n", (b - a) / a * 100 }'
row 512 256 --servers 8 --spread message
