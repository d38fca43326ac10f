#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Processes that are killed in the middle of what they do to the mount leave it whole, and no request
# of theirs behind.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
random_file "$SRC/data" 8M
cp "$SRC/data" "$MNT/data"
mkdir "$MNT/many"

victim() { # NUMBER
    trap - ERR
    set +e
    cd "$MNT/many" || exit
    while :; do
        dd if="$MNT/data" of="v$1" bs=1M oflag=direct status=none
        dd if="v$1" of=/dev/null bs=1M iflag=direct status=none
        cp -r . "../copy$1"
        rm -r "../copy$1"
        fsop copy "$MNT/data" 0 "c$1" 0 8388608 >/dev/null
        fallocate -p -o 0 -l 4M "c$1"
        mv "c$1" "d$1"
        sync "d$1"
    done
}

# What it had started ends on its own, and uses the mount until then.
group_gone() {
    ! kill -0 -- "-$1" 2>/dev/null
}

for round in {1..15}; do
    victims=()
    set -m
    for n in 1 2 3; do
        victim "$n" 2>/dev/null &
        victims+=($!)
    done
    set +m
    sleep "0.$((RANDOM % 5 + 1))"
    for pid in "${victims[@]}"; do
        kill -KILL -- "-$pid"
    done
    for pid in "${victims[@]}"; do
        ended "$pid" 10 "a killed process" 2>/dev/null || true
        wait_for 10 "the end of its children" group_gone "$pid"
    done
    timeout 10 cmp "$MNT/data" "$SRC/data" || fail "round $round: the mount does not answer, or wrongly"
done
sync -f "$MNT"
store_clean
rm -r "$MNT/many" "$MNT"/copy* 2>/dev/null || rm -rf "$MNT/many"
remount
cmp "$MNT/data" "$SRC/data"
finish
