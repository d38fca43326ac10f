#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Appends from several processes: every record is there, whole, once.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup
workers=()
for letter in a b c d; do
    fsop append "$MNT/log" "$letter" 800 "$((30 + $(printf '%d' "'$letter") % 7 * 41))" &
    workers+=($!)
done
for pid in "${workers[@]}"; do wait "$pid"; done
same 3200 "$(wc -l <"$MNT/log")" records
same 4 "$(sort -u "$MNT/log" | wc -l)" "different records"
for letter in a b c d; do
    same 800 "$(grep -c "^$letter*\$" "$MNT/log")" "records of $letter"
done
# The same with a file that is opened for each line.
workers=()
for worker in 1 2 3; do
    (for i in {1..200}; do echo "$worker $i" >>"$MNT/shell"; done) &
    workers+=($!)
done
for pid in "${workers[@]}"; do wait "$pid"; done
same 600 "$(sort -u "$MNT/shell" | wc -l)" "lines appended by shells"
remount
same 3200 "$(wc -l <"$MNT/log")" "records after a remount"
finish
