#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# memtouch on a mapped file of a mount: 4 threads write and verify; a planted byte is found; a file
# cut off and a server killed under the mapping end it with a message.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
setup

seconds=${MEMTOUCH_SECONDS:-3}
mib=${MEMTOUCH_MIB:-8} # of each thread
touch_mount=("$MEMTOUCH" --num_threads 4 --file "$MNT/touched" --verify --thread_mem)
for more in "" "--random --nt_stores"; do
    # shellcheck disable=SC2086 # options
    "${touch_mount[@]}" $mib --rw_ratio 50 --duration "${seconds}s" $more | tee "$WORK/out.log"
    grep -q 'ended by: duration' "$WORK/out.log" || fail "no regular end"
    grep -qE '^ +read +[1-9]' "$WORK/out.log" || fail "nothing was read"
    same $((4 * mib << 20)) "$(stat -c %s "$MNT/touched")" "the size of the file"
done
# The pattern came to the servers: it is there after a remount.
sum=$(sha256sum <"$MNT/touched")
remount
same "$sum" "$(sha256sum <"$MNT/touched")" "the file after a remount"
refused 1 'no .* MiB for .*: No space left' "${touch_mount[@]}" 4096
same $((4 * mib << 20)) "$(stat -c %s "$MNT/touched")" "the size after a refusal"

# under OPTION...: in the background, until it has begun to count.
under() {
    : >"$WORK/out.log"
    "${touch_mount[@]}" $mib "$@" >"$WORK/out.log" 2>&1 &
    pid=$!
    wait_for 30 "the warm-up" grep -q read_mibps "$WORK/out.log"
}
# fails PATTERN WHAT: it must end by itself with status 1, a message and a summary.
fails() {
    local status=0
    ended "$pid" 20 memtouch || status=$?
    same 1 "$status" "the status after $2 (it said: $(cat "$WORK/out.log"))"
    grep -qE "$1" "$WORK/out.log" || fail "after $2 it said: $(cat "$WORK/out.log")"
    grep -q 'ended by: error' "$WORK/out.log" || fail "no summary: $(cat "$WORK/out.log")"
}
under --rw_ratio 0
printf x | dd of="$MNT/touched" bs=1 seek=$(((mib << 20) + 4096 + 5)) conv=notrunc status=none
fails "mismatch in .*touched at byte $(((mib << 20) + 4096)): thread 1, page 1, pass 1: 1 of 512 words" "a planted byte"
under
truncate -s 1M "$MNT/touched"
fails 'touched can.t be accessed at byte [0-9]+: it was truncated to 1048576 bytes' "a truncation"
set -m
under
kill -INT "$pid"
ended "$pid" 15 memtouch || fail "SIGINT: status $?"
set +m
grep -q 'ended by: SIGINT' "$WORK/out.log" || fail "no summary: $(cat "$WORK/out.log")"
# A mount that does not answer: the word comes, and the end with the mount.
under
kill -STOP "$MOUNT_PID"
kill -TERM "$pid"
wait_for 30 "the word of an access that hangs" grep -q 'a thread hangs in an access to .*touched' "$WORK/out.log"
kill -CONT "$MOUNT_PID"
fails 'a thread hangs' "a mount that hangs"
under
server_kill
fails 'touched can.t be accessed at byte [0-9]+: an I/O error|writing .*touched back failed' "the loss of the server"
timeout 20 umount "$MNT"
wait_for 20 "the end of rmemfs" gone "$MOUNT_PID"
wait "$MOUNT_PID" || note "rmemfs ended with status $?"
MOUNT_PID=
finish
