#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# A small pool: df tells the truth, a full one says ENOSPC and damages nothing, and space comes back.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
POOL_SIZE=48MiB
setup
cd "$MNT"

free() { # bytes
    stat -f -c '%a %S' "$MNT" | awk '{printf "%d", $1 * $2}'
}

free_again() { # BYTES
    [ "$(free)" -ge "$1" ]
}

total=$(stat -f -c '%b %S' . | awk '{printf "%d", $1 * $2}')
if [ "$total" -lt 40000000 ] || [ "$total" -gt 50331648 ]; then
    fail "df shows $total bytes for a pool of 48 MiB"
fi
empty=$(free)
[ "$empty" -gt 40000000 ] || fail "df shows only $empty bytes free at first"
same 255 "$(stat -f -c %l .)" "the longest name by df"

source_tree "$SRC/tree"
cp -a "$SRC/tree" kept
random_file "$SRC/kept" 5M
cp "$SRC/kept" file
sync -f .
used=$((empty - $(free)))
if [ "$used" -lt 8000000 ] || [ "$used" -gt 30000000 ]; then
    fail "df shows $used bytes used by a tree and 5 MiB"
fi
left=$(free)

for round in 1 2 3; do
    refused '*' 'no space left' dd if=/dev/zero of=full bs=1M count=60 oflag=direct
    refused '*' 'no space left' dd if=/dev/zero of=full2 bs=64k count=1000 conv=fsync
    refused '*' 'no space left' fallocate -l 50M full3
    refused '*' 'no space left' cp "$SRC/kept" full4
    [ "$(free)" -lt 1000000 ] || fail "df shows $(free) bytes free on a full pool"
    # What needs no page works, and so does reading.
    mkdir "dir$round"
    mv "dir$round" "moved$round"
    cmp file "$SRC/kept"
    # What is there can be overwritten in place.
    dd if="$SRC/kept" of=file bs=1M conv=notrunc,fsync status=none
    same_tree "$SRC/tree" kept
    rm full full2 full4
    rm -f full3
    wait_for 10 "the space of deleted files" free_again $((left - 500000))
    head -c "$((left - 2000000))" /dev/zero >full
    rm full
    # The kernel tells of the last close in its own time, and only then a removed file is gone.
    wait_for 10 "the space of the last deleted file" free_again $((left - 500000))
done

# Many small files until it is full, of what a large one leaves.
head -c "$((left - 5000000))" /dev/zero >full
mkdir small
refused '*' 'no space left' fsop fill small 9000
mapfile -t names < <(find small -size +0 -printf '%f\n' | sort -n)
[ "${#names[@]}" -gt 500 ] || fail "only ${#names[@]} small files went in"
for name in "${names[@]}"; do
    same "$name" "$(<small/"$name")" "a small file on the full pool"
done
rm full
rm -r small
cd /
mount_term
store_clean
mount_start
same_tree "$SRC/tree" "$MNT/kept"
cmp "$MNT/file" "$SRC/kept"
rm -r "$MNT/kept" "$MNT/file" "$MNT"/moved*
wait_for 10 "all the space" free_again "$empty"
finish
