#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# rmemfs (a server on this host, shm fabric, default settings) next to libfuse's own example
# passthrough_ll over tmpfs (cache=never and otherwise default options): what a request through FUSE
# costs when the filesystem does next to nothing.
#
# Both are mounted at once and take turns, row by row and round by round, each first every other time.
# Buffers are aligned. Files are laid out beforehand, so that writes overwrite, but for the two rows
# that say "new file". The direct rows (O_DIRECT) and the uncached ones (a plain open, fs.cache = "none")
# compare like with like: neither side uses the kernel's page cache. The cached rows tell what that
# cache adds or costs, ours through it (the default) and passthrough_ll, as ever, past it. Plain writes
# are synced each 8 MiB (4 KiB blocks) or 64 MiB (1 MiB blocks), within the time that counts. Prints a
# table; no figure makes it fail.
#
# RMEM_BENCH_ROUNDS  rounds (5)       RMEM_BENCH_MS     length of one run (1500)
# RMEM_BENCH_FILES   files for the metadata rows (4000)
# RMEM_BENCH_ROWS    a regular expression: only these rows
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fio cc pkg-config

rounds=${RMEM_BENCH_ROUNDS:-5}
run_ms=${RMEM_BENCH_MS:-1500}
files=${RMEM_BENCH_FILES:-4000}
wanted=${RMEM_BENCH_ROWS:-.}
ticks_per_s=$(getconf CLK_TCK)
file_mib=256
results=$WORK/results
: >"$results"

# --- the other contender

# passthrough_source: prints where the example's source is; unpacks it if need be.
passthrough_source() {
    local path
    path=$(dpkg -L libfuse3-dev 2>/dev/null | grep -m1 '/passthrough_ll\.c\(\.gz\)\?$') ||
        path=$(find /usr/share/doc -name 'passthrough_ll.c*' 2>/dev/null | head -n 1)
    case $path in
    '') return 1 ;;
    *.gz)
        mkdir -p "$WORK/example"
        cp "${path%/*}"/passthrough* "$WORK/example/"
        gunzip -qf "$WORK/example/"*.gz 2>/dev/null || true
        echo "$WORK/example/passthrough_ll.c"
        ;;
    *) echo "$path" ;;
    esac
}

passthrough_start() {
    local source flags
    source=$(passthrough_source) || skip "passthrough_ll.c of libfuse3-dev is not here"
    flags=$(pkg-config --cflags --libs fuse3)
    # shellcheck disable=SC2086
    cc -O2 -w -o "$WORK/passthrough_ll" "$source" $flags >"$WORK/passthrough.log" 2>&1 ||
        fail "passthrough_ll.c cannot be compiled"
    mkdir "$WORK/theirs" "$RMEM_SHM"
    same tmpfs "$(stat -f -c %T "$RMEM_SHM")" "the filesystem of /dev/shm"
    "$WORK/passthrough_ll" -f -o "source=$RMEM_SHM,cache=never" "$WORK/theirs" \
        >>"$WORK/passthrough.log" 2>&1 &
    theirs_pid=$!
    wait_for 10 passthrough_ll mounted "$WORK/theirs"
}

# --- measuring

our_point=$MNT
our_pid=

point_of() { # ours|theirs
    if [ "$1" = ours ]; then echo "$our_point"; else echo "$WORK/theirs"; fi
}

# cpu_ticks ours|theirs: what its daemon has used until now.
cpu_ticks() {
    local pid=$theirs_pid
    [ "$1" = theirs ] || pid=$our_pid
    sed 's/.*) //' "/proc/$pid/stat" | awk '{print $12 + $13}'
}

# fio_ops POINT OPTIONS: prints operations and seconds.
fio_ops() {
    local point=$1 line
    shift
    line=$(fio --name=bench --directory="$point" --minimal --iomem_align=4k --randrepeat=0 \
        --norandommap --group_reporting "$@" 2>>"$WORK/fio.log" | grep -m1 '^3;') ||
        fail "fio $*: $(tail -n 3 "$WORK/fio.log")"
    awk -F';' -v bs="$block_kib" '{
        if ($5 != 0) exit 1
        kib = $6 + $47; ms = $6 > 0 ? $9 : $50
        if (ms < 1) ms = 1
        print kib / bs, ms / 1000
    }' <<<"$line" || fail "fio $*: error $(cut -d';' -f5 <<<"$line")"
}

# note_result ROW WHO KIND: the run that ended used ticks since $before; kind is kiops, gibs or kops
measure() { # ROW KIND COMMAND...; the command is called with the mount point as its first argument
    local row=$1 kind=$2 round who order before after outcome command=$3
    shift 3
    grep -qE -- "$wanted" <<<"$row" || return 0
    for ((round = 0; round < rounds; round++)); do
        order='ours theirs'
        [ $((round % 2)) = 0 ] || order='theirs ours'
        for who in $order; do
            ! declare -F "prepare_$kind" >/dev/null || "prepare_$kind" "$(point_of "$who")"
            before=$(cpu_ticks "$who")
            outcome=$("$command" "$(point_of "$who")" "$@")
            after=$(cpu_ticks "$who")
            echo "$row|$kind|$who|$outcome|$((after - before))" >>"$results"
        done
    done
}

prepare_new() {
    rm -f "$1"/new*
}

# blocks LABEL DIRECT: the rows of one way to open the file.
blocks() {
    local label=$1 direct=$2 rw sync=()
    local common=(--filename=data --size="${file_mib}M" --time_based --runtime="${run_ms}ms"
        --direct="$direct")
    block_kib=4
    for rw in randread randwrite; do
        sync=()
        [ "$direct$rw" != 0randwrite ] || sync=(--fsync=2048)
        measure "$label 4 KiB $rw, depth 1" small fio_ops "${common[@]}" --bs=4k --rw="$rw" \
            --ioengine=psync "${sync[@]}"
        # Through the page cache there is no queue: libaio waits in the submission.
        [ "$direct" = 0 ] || measure "$label 4 KiB $rw, depth 32" small fio_ops "${common[@]}" \
            --bs=4k --rw="$rw" --ioengine=libaio --iodepth=32 "${sync[@]}"
    done
    block_kib=1024
    for rw in read write; do
        sync=()
        [ "$direct$rw" != 0write ] || sync=(--fsync=64)
        measure "$label 1 MiB $rw" large fio_ops "${common[@]}" --bs=1M --rw="$rw" \
            --ioengine=psync "${sync[@]}"
    done
}

new_file_rows() {
    block_kib=1024
    measure "direct 1 MiB write, new file" new fio_ops --filename=new1m --size="${file_mib}M" \
        --bs=1M --rw=write --direct=1 --ioengine=psync --fallocate=none --create_on_open=1
    block_kib=4
    measure "direct 4 KiB write, new file" new fio_ops --filename=new4k --size=16M \
        --bs=4k --rw=write --direct=1 --ioengine=psync --fallocate=none --create_on_open=1
}

# bulk_ops POINT PHASE
bulk_ops() {
    mkdir -p "$1/bulk"
    echo "$files $(bulk "$2" "$1/bulk" "$files")"
}

# The phases belong together, so a round is all three.
file_rows() {
    local all=$rounds phase
    for ((round = 0; round < all; round++)); do
        rounds=1
        for phase in create stat delete; do
            measure "$phase of $files files" files bulk_ops "$phase"
        done
    done
    rounds=$all
}

# --- the table

table() {
    awk -F'|' -v tick="$ticks_per_s" '
        function sorted(list, n,   i, j, t) {
            for (i = 2; i <= n; i++)
                for (j = i; j > 1 && list[j - 1] > list[j]; j--) {
                    t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
                }
        }
        function spread(row, who,   list, n, i) {
            n = count[row, who]
            for (i = 1; i <= n; i++)
                list[i] = value[row, who, i]
            sorted(list, n)
            middle = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
            return sprintf("%8.2f (%.2f..%.2f)", middle, list[1], list[n])
        }
        function cpu(row, who) {
            return ticks[row, who] / tick / work[row, who]
        }
        {
            split($4, outcome, " ")
            large = $1 ~ /1 MiB/
            row = $1
            if (!(row in unit)) {
                order[++rows] = row
                unit[row] = large ? "GiB/s" : "kop/s"
                cpu_unit[row] = large ? "s/GiB" : "us/op"
            }
            n = ++count[row, $3]
            value[row, $3, n] = outcome[1] / outcome[2] / (large ? 1024 : 1000)
            ticks[row, $3] += $5
            work[row, $3] += outcome[1] / (large ? 1024 : 1e6)
        }
        END {
            line = "%-32s %5s  %-26s %-26s %6s  %8s %8s %s\n"
            printf line, "row", "unit", "rmemfs: median (min..max)", "passthrough_ll", "ratio",
                "CPU ours", "theirs", ""
            for (i = 1; i <= rows; i++) {
                row = order[i]
                ours = spread(row, "ours"); o = middle
                theirs = spread(row, "theirs"); t = middle
                printf line, row, unit[row], ours, theirs, sprintf("%.2f", o / t),
                    sprintf("%.2f", cpu(row, "ours")), sprintf("%.2f", cpu(row, "theirs")),
                    cpu_unit[row]
            }
        }' "$results"
}

# uncached_start: a second mount of ours, of a server of its own, without the kernel's cache.
uncached_start() {
    local cached=$CONF
    server_start uncached
    mkdir "$WORK/uncached"
    CONF=$WORK/uncached.cfg
    STORE=$WORK/uncached_store CONFIG_MORE='fs: { cache = "none"; };' config_write uncached
    mount_start "$WORK/uncached"
    uncached_pid=$MOUNT_PID
    CONF=$cached MOUNT_PID=$cached_pid
}

POOL_SIZE=768MiB
setup
cached_pid=$MOUNT_PID our_pid=$MOUNT_PID
uncached_start
passthrough_start
for point in "$MNT" "$WORK/uncached" "$WORK/theirs"; do
    dd if=/dev/urandom of="$point/data" bs=1M count="$file_mib" status=none
    sync "$point/data"
done
server_ticks=$(sed 's/.*) //' "/proc/${SERVER_PID[rmemd]}/stat" | awk '{print $12 + $13}')
blocks direct 1
our_point=$WORK/uncached our_pid=$uncached_pid
blocks uncached 0
our_point=$MNT our_pid=$cached_pid
blocks cached 0
new_file_rows
file_rows
server_ticks=$(($(sed 's/.*) //' "/proc/${SERVER_PID[rmemd]}/stat" | awk '{print $12 + $13}') - server_ticks))

echo
echo "$rounds rounds of $run_ms ms, $(nproc) CPUs, $(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -n 1)"
echo "ratio: ours to theirs, more is better; CPU: of the filesystem's daemon (rmemd itself used" \
    "$(awk -v t="$server_ticks" -v hz="$ticks_per_s" 'BEGIN {print t / hz}') s in all)"
table
kill "$theirs_pid"
umount "$WORK/theirs" 2>/dev/null || true
MOUNT_PID=$uncached_pid mount_stop "$WORK/uncached"
MOUNT_PID=$cached_pid
finish
