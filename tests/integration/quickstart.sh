#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# tools/quickstart: starts, shows, says that it runs, stops what it started and nothing else.
# shellcheck source=tests/support/lib.sh
source "$RMEM_LIB"
need fusermount3
export RMEM_QUICKSTART=$WORK/quick
RMEM_BUILD=$(cd "$(dirname "$RMEMFS")/.." && pwd)
export RMEM_BUILD
quickstart=$RMEM_SOURCE/tools/quickstart

# quick PATTERN ARGUMENT...: must succeed and say so.
quick() {
    local pattern=$1 output
    shift
    output=$(cd / && timeout 60 "$quickstart" "$@" 2>&1) || fail "quickstart $*: status $?: $output"
    grep -q -- "$pattern" <<<"$output" || fail "quickstart $* should have said /$pattern/: $output"
}

# What it keeps running are processes with its folder among their arguments.
running() {
    processes_with "$RMEM_QUICKSTART/"
}

quick 'usage: tools/quickstart' --help
quick 'usage: tools/quickstart' -h
quick 'does not run' --stop
refused '*' usage "$quickstart" --frobnicate

# An unrelated server is left alone throughout.
server_start
quick 'sha256sum'
mounted "$RMEM_QUICKSTART/mnt" || fail "nothing is mounted"
cmp "$RMEMFS" "$RMEM_QUICKSTART/mnt/rmemfs"
same 2 "$(running | wc -l)" "processes"
says 'rmemd\.sock' timeout 10 "$RMEMCTL" -c "$RMEM_QUICKSTART/quickstart.cfg" status
before=$(running)
quick 'runs already'
quick 'runs already' "$RMEM_QUICKSTART/mnt/"
mkdir "$WORK/elsewhere"
refused 1 'runs already, on .*/quick/mnt, so not on .*elsewhere' "$quickstart" "$WORK/elsewhere"
same "$before" "$(running)" "processes after a second start"

# In use: it says so and everything stays.
exec 5<"$RMEM_QUICKSTART/mnt/rmemfs"
refused '*' 'somebody uses' "$quickstart" --stop
cmp "$RMEMFS" /dev/fd/5
exec 5<&-
quick 'stopped' --stop
same "" "$(running)" "processes after --stop"
[ ! -e "$RMEM_QUICKSTART" ] || fail "--stop left $(ls -A "$RMEM_QUICKSTART")"
alive "${SERVER_PID[rmemd]}" || fail "--stop ended a server that it did not start"

# On a mount point of the user's, with a blank in it, which stays.
mkdir "$WORK/my mount"
quick 'df -h' "$WORK/my mount"
cmp "$RMEMFS" "$WORK/my mount/rmemfs"
# Cut off by a crash: the next start clears it away.
kill -KILL $(running)
wait_for 10 "the end of the killed" eval '[ -z "$(running)" ]'
quick 'cut off' "$WORK/my mount"
cmp "$RMEMFS" "$WORK/my mount/rmemfs"
quick 'stopped' --stop
[ -d "$WORK/my mount" ] || fail "--stop removed the user's folder"
same "" "$(ls -A "$WORK/my mount")" "what is in the user's folder"

# What can't be a mount point.
echo precious >"$WORK/file"
refused 1 'file is not a folder' "$quickstart" "$WORK/file"
same precious "$(cat "$WORK/file")" "the file"
[ ! -e "$RMEM_QUICKSTART" ] || fail "a refused start left $(ls -A "$RMEM_QUICKSTART")"

# A folder that is used for something else is not touched.
mkdir "$WORK/quick"
echo precious >"$WORK/quick/file"
refused '*' 'something else' "$quickstart"
quick 'usage: tools/quickstart' --help
quick 'usage: tools/quickstart' -h
quick 'does not run' --stop
same precious "$(cat "$WORK/quick/file")" "an unrelated file"
server_stop
