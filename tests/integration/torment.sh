#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: torment.sh SERVERS
# Random operations of every kind on several files at once, each compared with a model; remounted in
# between. With several servers the stripes are small, so that most operations cross from one to another.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
names=()
for ((i = 0; i < $1; i++)); do names+=("server$i"); done
POOL_SIZE=64MiB
[ "$1" = 1 ] || CONFIG_MORE='fs = { stripe = "16KiB"; };'
config_write "${names[@]}"
for name in "${names[@]}"; do server_start "$name"; done
mount_start

seed=${RMEM_SEED:-$RANDOM}
for round in 1 2 3; do
    workers=()
    for file in one two three; do
        note "torment $file $((seed + round)) 1500"
        torment "$MNT/$file" "$((seed + round))" 1500 &
        workers+=($!)
        seed=$((seed + 1000))
    done
    for pid in "${workers[@]}"; do
        wait "$pid" || fail "a file is not what it should be"
    done
    sums=$(cd "$MNT" && sha256sum one two three)
    if [ "$round" = 2 ]; then
        sync -f "$MNT"
        mount_kill
        mount_start
    else
        remount
    fi
    same "$sums" "$(cd "$MNT" && sha256sum one two three)" "the files after a remount"
done
finish
