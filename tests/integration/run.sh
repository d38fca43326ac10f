#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh SCENARIO [ARGUMENT...]
#
# Runs one scenario (a file beside this one, without the .sh, or any with it) the way every scenario wants to be run:
# in a folder of its own, as a process group of its own, and with a deadline. Whatever becomes of it
# (it fails, it hangs, somebody presses control-C), what it started is ended, what it mounted is
# unmounted and the folder is removed. A hanging filesystem hangs the processes that touch it, so
# this script never touches the mount itself and does its part from outside.
#
# Environment: RMEMFS, RMEMD, RMEMCTL: the programs; RMEM_HELPERS: the folder of the helper programs;
# RMEM_TEST_SECONDS: the deadline (100); RMEM_TEST_KEEP: set, the folder is kept.
# Exit status: 0 passed, 77 skipped (the reason is printed), anything else failed.
set -u

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
RMEM_SOURCE=$(cd "$here/../.." && pwd)
RMEM_LIB=$RMEM_SOURCE/tests/support/lib.sh
export RMEM_SOURCE RMEM_LIB
deadline=${RMEM_TEST_SECONDS:-100}
case ${1:?usage: run.sh SCENARIO [ARGUMENT...]} in
*.sh) scenario=$1 ;;
*) scenario=$here/$1.sh ;;
esac
shift

for variable in RMEMFS RMEMD RMEMCTL RMEM_HELPERS; do
    if [ -z "${!variable:-}" ]; then
        echo "run.sh: set $variable, or run the tests through meson" >&2
        exit 2
    fi
done

WORK=$(mktemp -d "${TMPDIR:-/tmp}/rmem-test.XXXXXX") || exit 2
# For what has to lie on tmpfs; a scenario makes it when it needs it.
RMEM_SHM=/dev/shm/${WORK##*/}
export WORK RMEM_SHM

# The mount points under $WORK, the youngest first.
mounts() {
    local device point rest
    while read -r device point rest; do
        case $point in "$WORK"/*) printf '%b\n' "$point" ;; esac
    done </proc/self/mounts | tac
}

# The processes that have a path in this run's folder among their arguments or in their environment,
# and so belong to it: its name is unique.
strays() {
    local entry words
    for entry in /proc/[0-9]*; do
        mapfile -d '' -t words 2>/dev/null <"$entry/cmdline" || continue
        mapfile -d '' -t -O "${#words[@]}" words 2>/dev/null <"$entry/environ"
        [[ ${words[*]} != *"$WORK"* ]] || echo "${entry#/proc/}"
    done
}

cleanup() {
    local pid point
    kill -KILL -- "-$child" 2>/dev/null
    for pid in $(strays); do
        kill -KILL "$pid" 2>/dev/null
    done
    mounts | while read -r point; do
        umount "$point" 2>/dev/null || umount -l "$point" 2>/dev/null ||
            fusermount3 -uz "$point" 2>/dev/null
    done
    if [ -n "$(mounts)" ]; then
        echo "run.sh: still mounted, left alone: $(mounts)" >&2
    elif [ -n "${RMEM_TEST_KEEP:-}" ]; then
        echo "run.sh: kept $WORK" >&2
    else
        rm -rf --one-file-system "$WORK" "$RMEM_SHM"
    fi
}

# What a sanitizer or an assertion said in a log is a failure, also when the scenario was content.
complaints() {
    grep -HE 'Sanitizer: |runtime error: |Assertion .* failed|WARNING: ThreadSanitizer' \
        "$WORK"/*.log 2>/dev/null
}

ended=
trap 'ended=130; kill -KILL -- "-$child" 2>/dev/null' INT
trap 'ended=143; kill -KILL -- "-$child" 2>/dev/null' TERM HUP

set -m
timeout -k 3 "$deadline" bash "$scenario" "$@" </dev/null &
child=$!
set +m
wait "$child"
status=$?
[ -z "$ended" ] || status=$ended
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "FAILED: ran past $deadline seconds or was killed" >&2
fi
if [ "$status" -ne 77 ] && complaints >&2; then
    [ "$status" -ne 0 ] || status=1
fi
if [ "$status" -ne 0 ] && [ "$status" -ne 77 ]; then
    for log in "$WORK"/*.log; do
        [ -s "$log" ] || continue
        echo "--- the end of ${log##*/}"
        tail -n 120 "$log"
    done >&2
fi
cleanup
exit "$status"
