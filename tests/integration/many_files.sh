#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# 10,000 files in one directory: create, list, stat, rename, delete.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup

mkdir "$MNT/many"
cd "$MNT/many"
for ((i = 0; i < 10000; i++)); do
    echo "$i" >"file-$i"
done
same 10000 "$(ls -f | grep -c '^file-')" "names that ls sees"
same 10000 "$(find . -type f -size 1 -printf '%f\n' | sort -u | wc -l)" "files that find sees"
same 10002 "$(ls -la | tail -n +2 | wc -l)" "lines of ls -la"
cd /
remount
cd "$MNT/many"
same 10000 "$(ls | wc -l)" "names after a remount"
same 49995000 "$(cat file-* | awk '{s += $1} END {print s}')" \
    "the sum of all contents"
# Files that are open cost the daemon no descriptor each.
(
    ulimit -n 4000
    for ((i = 0; i < 3000; i++)); do
        exec {fd}<"file-$i"
    done
    open=$(find "/proc/$MOUNT_PID/fd" | wc -l)
    [ "$open" -lt 200 ] || fail "rmemfs has $open descriptors with 3000 files open"
)
for ((i = 0; i < 10000; i += 2)); do
    echo "file-$i"
done | xargs rm
same 5000 "$(ls | wc -l)" "names after deleting every other one"
for ((i = 1; i < 1000; i += 2)); do
    mv "file-$i" "moved-$i"
done
same 500 "$(ls | grep -c '^moved-')" "moved names"
same 5000 "$(ls | wc -l)" "names after moving"
# Removed while it is read: rm -r lists and deletes in turn.
cd /
rm -r "$MNT/many"
mkdir "$MNT/many"
rmdir "$MNT/many"
finish
