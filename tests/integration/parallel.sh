#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several processes change one tree at once; each finds its own files as it left them.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
mkdir "$MNT/shared"

# worker NUMBER: creates, moves, rewrites and removes its files in a directory that all use.
worker() {
    local me=$1 i name
    trap - ERR
    cd "$MNT/shared"
    for i in {1..150}; do
        name=w$me-$i
        head -c $((i * 997 % 60000)) "$SRC/data" >"$name.tmp"
        mv "$name.tmp" "$name"
        ln "$name" "$name.link"
        mkdir -p "dir$((i % 7))"
        mv "$name.link" "dir$((i % 7))/"
        cmp -s "dir$((i % 7))/$name.link" <(head -c $((i * 997 % 60000)) "$SRC/data") || exit 1
        ((i % 3 != 0)) || rm "$name"
        ((i % 4 != 0)) || truncate -s $((i * 10)) "dir$((i % 7))/$name.link"
        ls -f >/dev/null
    done
}

random_file "$SRC/data" 60000
workers=()
for n in 1 2 3 4; do
    worker "$n" &
    workers+=($!)
done
for pid in "${workers[@]}"; do
    wait "$pid" || fail "a worker found a file not as it left it"
done
cd "$MNT/shared"
same 400 "$(find . -maxdepth 1 -type f | wc -l)" "files"
same 600 "$(find . -mindepth 2 -type f | wc -l)" "links"
same "200 1 400 2" "$(find . -mindepth 2 -type f -printf '%n\n' | sort | uniq -c | awk '{print $1, $2}' |
    paste -sd' ')" "link counts"
cd /
remount
for i in 1 50 149; do # none of them is truncated or removed
    cmp "$MNT/shared/w3-$i" <(head -c $((i * 997 % 60000)) "$SRC/data")
done
rm -r "$MNT/shared"
finish
